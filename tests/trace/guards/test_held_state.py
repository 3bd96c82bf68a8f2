"""What objects of Python's library hold is guarded where captured code reads it, or refused."""

from __future__ import annotations

import argparse
import array
import collections
import concurrent.futures
import contextlib
import ctypes
import decimal
import functools
import io
import logging
import os
import queue
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError

Case = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]


class Packed(ctypes.Structure):
    _fields_ = (("k", ctypes.c_int),)


class Named(list):
    def first(self) -> Any:
        return self[0]


def logger() -> logging.Logger:
    found = logging.getLogger("of a test of what is held")
    found.setLevel(10)
    return found


def attribute(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda owner: setattr(owner, name, value)


def item(key: Any, value: Any) -> Callable[[Any], Any]:
    return lambda owner: owner.__setitem__(key, value)


def scaled_by(held: dict[str, Any]) -> Any:
    return functools.partial(lambda held, x, more=0: x * (held["k"] + more), held)


# What makes an object, what is read of it, and what changes that.
READ: dict[str, Case] = {
    "array": (lambda: array.array("i", [2]), lambda o: o[0], item(0, 8)),
    "bytearray": (lambda: bytearray(b"ab"), lambda o: o[0], item(0, 8)),
    "memoryview": (lambda: memoryview(bytearray(b"ab")), lambda o: o[0], item(0, 8)),
    "c int": (lambda: ctypes.c_int(3), lambda o: o.value, attribute("value", 8)),
    "c array": (lambda: (ctypes.c_int * 2)(3, 4), lambda o: o[0], item(0, 8)),
    "c structure": (lambda: Packed(3), lambda o: o.k, attribute("k", 8)),
    "event": (threading.Event, lambda o: 2 if o.is_set() else 3, lambda o: o.set()),
    "future": (
        concurrent.futures.Future,
        lambda o: o.result() if o.done() else 2,
        lambda o: o.set_result(5),
    ),
    "error": (lambda: ValueError(2), lambda o: o.args[0], attribute("args", (9,))),
    "context": (decimal.Context, lambda o: o.prec, attribute("prec", 9)),
    "logger": (
        logger,
        lambda o: 2 if o.isEnabledFor(10) else 3,
        lambda o: o.setLevel(30),
    ),
    "factory": (
        lambda: collections.defaultdict(lambda: 2),
        lambda o: o.default_factory(),
        attribute("default_factory", lambda: 9),
    ),
    "namespace": (lambda: argparse.Namespace(k=2), lambda o: vars(o)["k"], attribute("k", 9)),
    "array of objects": (lambda: np.array([2], object), lambda o: o[0], item(0, 8)),
    "environment": (
        lambda: os.environ.__setitem__("HYBRID_TEST", "2"),
        lambda o: float(os.environ["HYBRID_TEST"]),
        lambda o: os.environ.__setitem__("HYBRID_TEST", "9"),
    ),
    "variable": (
        lambda: os.environ.pop("HYBRID_TEST", None),
        lambda o: float(os.getenv("HYBRID_TEST", "3")),
        lambda o: os.environ.__setitem__("HYBRID_TEST", "9"),
    ),
    "arguments": (lambda: None, lambda o: len(sys.argv), lambda o: sys.argv.append("more")),
}
# What is called: it holds what it was made of.
CALLED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "partial": scaled_by,
    "partial of a partial": lambda held: functools.partial(scaled_by(held), more=0),
    "keywords": lambda held: functools.partial(lambda x, held: x * held["k"], held=held),
    "method of a dict": lambda held: lambda x, get=held.get: x * get("k"),
    "wrapper": lambda held: lambda x, get=held.__getitem__: x * get("k"),
    "proxy": lambda held: lambda x, of=types.MappingProxyType(held): x * of["k"],
}


@pytest.fixture(autouse=True)
def _process_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program"])
    monkeypatch.setenv("HYBRID_TEST", "1")


@pytest.mark.parametrize("name", READ)
def test_a_change_of_what_is_held_counts(name: str) -> None:
    make, read, change = READ[name]
    x, seen = hy.ones((2,)), []
    for prepared in (lambda f: f, lambda f: hy.hybridize(f, ledger=False)):
        held = make()
        scaled = prepared(lambda x, held=held: x * read(held))
        before = scaled(x), scaled(x)
        change(held)
        seen.append([y.tolist() for y in (*before, scaled(x), scaled(x))])
        sys.argv[1:] = []
    assert seen[0] == seen[1]
    assert seen[0][0] == seen[0][1] != seen[0][2]


@pytest.mark.parametrize("name", CALLED)
def test_what_is_called_holds_what_it_was_made_of(name: str) -> None:
    held = {"k": 2.0}
    call = CALLED[name](held)
    scaled = hy.hybridize(lambda x: call(x), ledger=False)
    assert scaled(hy.ones((2,))).tolist() == [2, 2]
    held["k"] = 7.0
    assert scaled(hy.ones((2,))).tolist() == [7, 7]


def test_keywords_of_a_partial_change() -> None:
    call = functools.partial(lambda x, k: x * k, k=2.0)
    scaled = hy.hybridize(lambda x: call(x))
    assert scaled(hy.ones((2,))).tolist() == [2, 2]
    call.keywords["k"] = 5.0
    assert scaled(hy.ones((2,))).tolist() == [5, 5]


def test_a_method_of_a_list_of_the_authors() -> None:
    first = Named([2.0]).first
    scaled = hy.hybridize(lambda x: x * first())
    assert scaled(hy.ones((2,))).tolist() == [2, 2]
    first.__self__[0] = 5.0
    assert scaled(hy.ones((2,))).tolist() == [5, 5]


@pytest.mark.parametrize("held", [{"k": hy.ones((2,))}, {"k": [hy.ones((2,))]}])
def test_what_a_partial_holds_is_written_at_each_run(held: dict[str, Any]) -> None:
    is_list = isinstance(held["k"], list)
    own = {"k": [hy.ones((2,))] if is_list else hy.ones((2,))}

    def added(held: dict[str, Any], x: Any) -> Any:
        if isinstance(held["k"], list):
            held["k"].append(held["k"][-1] + x)
            return held["k"][-1]
        held["k"] = held["k"] + x
        return held["k"]

    eager = functools.partial(added, own)
    captured = hy.hybridize(functools.partial(added, held), ledger=False)
    for k in (1.0, 2.0, 3.0):
        assert captured(hy.ones((2,)) * k).tolist() == eager(hy.ones((2,)) * k).tolist()
    assert str(held) == str(own)


def test_a_method_alone_appends_at_each_run() -> None:
    kept: list[Any] = []
    append = kept.append

    @hy.hybridize
    def step(x: Any) -> Any:
        append(x * 2)
        return x

    for k in (1.0, 2.0, 3.0):
        step(hy.ones((2,)) * k)
    assert [x.tolist() for x in kept] == [[2, 2], [4, 4], [6, 6]]


CHANGED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "event": (threading.Event(), lambda o: o.set()),
    "c int": (ctypes.c_int(3), attribute("value", 4)),
    "c array": ((ctypes.c_int * 2)(3, 4), item(0, 8)),
    "memoryview": (memoryview(bytearray(b"ab")), item(0, 8)),
    "error": (ValueError(2), attribute("args", (3,))),
    "context": (decimal.Context(), attribute("prec", 9)),
    "future": (concurrent.futures.Future(), lambda o: o.set_result(1)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_capture_changes_is_refused(name: str) -> None:
    held, change = CHANGED[name]

    def step(x: Any) -> Any:
        change(held)
        return x

    with pytest.raises(CaptureError, match=r"changes an? \w+ that outlives the call[\s\S]*Fix: "):
        hy.hybridize(step, ledger=False)(hy.ones((2,)))


def test_a_lock_that_is_let_go_again() -> None:
    lock = threading.Lock()

    @hy.hybridize
    def step(x: Any) -> Any:
        with lock:
            return x * 2

    assert step(hy.ones((2,))).tolist() == [2, 2] and not lock.locked()


def test_locks_queues_and_files_are_known_as_they_are() -> None:
    lock, things, file = threading.Lock(), queue.Queue(), io.StringIO()

    def step(x: Any) -> Any:
        with lock, contextlib.ExitStack() as stack:
            stack.enter_context(threading.Lock())
            print("a step", file=file)
            return x * (2 if things is not None else 3)

    call = hy.hybridize(step, ledger=False)
    for _ in range(3):
        assert call(hy.ones((2,))).tolist() == [2, 2]
        things.put(1)
    assert file.getvalue() == "a step\n" * 3 and len(call.plans) == 1


def test_what_the_advice_says() -> None:
    """Kept in a tensor, or changed outside."""
    stopping, stopped = threading.Event(), hy.zeros(())

    @hy.hybridize
    def step(x: Any) -> Any:
        stopped.assign(stopped + 1)
        return x if stopping.is_set() else x * 2

    found = [step(hy.ones((2,))).tolist()]
    stopping.set()
    found.append(step(hy.ones((2,))).tolist())
    assert found == [[2, 2], [1, 1]] and stopped.item() == 2
