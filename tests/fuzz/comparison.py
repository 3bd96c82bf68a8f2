"""Whether anybody could tell a program from the same program hybridized.

Both are run in the same way, each on arguments and state of its own: all calls in a row, and after
each of them everything is looked at that could be noticed.
"""

from __future__ import annotations

import gc
import linecache
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import hybrid as hy
from hybrid.calls import ledger
from hybrid.errors import CaptureError, LeakedValueError
from hybrid.ir import Value
from tests.staging.harness import close_captures, describe, describe_error, is_of_eager_run, watched

SECONDS = 20.0  # that a program may take
NAME = "<program>"  # the file that it is said to be in


class Endless(BaseException):
    """The time of a program is over; no handler of its own catches that."""


class Broken(Exception):
    """The module does not give a program to compare."""


@dataclass(frozen=True)
class Outcome:
    """What came of a program: ``kind`` is same, refused, different, endless or broken.

    ``what`` says of a difference what differs, in few words that stay the same for a smaller
    program with the same fault; ``detail`` shows both sides.
    """

    kind: str
    calls: int = 0
    what: str = ""
    detail: str = ""

    @property
    def sort(self) -> tuple[str, str]:
        return self.kind, self.what


def check(
    text: str,
    gradients: bool,
    seconds: float = SECONDS,
    dynamic: bool | None = None,
    clock: int | None = None,
) -> Outcome:
    """Compare the program of a module (see ``grammar``) with the same program hybridized.

    ``dynamic`` is that of ``hybridize``: False captures for each size.  With a ``clock``, the seed
    of one that is made up, the ledger has other calls run eagerly than on a quiet machine.
    """
    side, calls = "eagerly", 0
    try:
        with limited(seconds), patch.object(ledger, "time", made_up(clock)):
            expected = list(observations(text, gradients, lambda program: program))
            side = "hybridized"
            found = observations(text, gradients, partial(hy.hybridize, dynamic=dynamic))
            before: Any = None
            for calls, (wanted, now) in enumerate(zip(expected, found, strict=True), 1):
                error = now.pop("error", None)
                wanted.pop("error", None)
                if isinstance(error, CaptureError) and not isinstance(error, LeakedValueError):
                    traces = _traces(before, now)
                    return (
                        Outcome("different", calls, *traces) if traces else _refused(calls, error)
                    )
                difference = _difference(wanted, now, error)
                if difference:
                    return Outcome("different", calls, *difference)
                before = now
    except Endless:
        return Outcome("endless", calls, side, f"{side} after {seconds} seconds")
    except Broken as broken:
        return Outcome("broken", detail=repr(broken.__cause__))
    finally:
        put_away()
    return Outcome("same", calls)


def made_up(seed: int | None) -> Any:
    """In place of the module ``time``: that of a machine on which calls take any time at all."""
    if seed is None:
        return time
    draw, now = random.Random(seed), [0.0]
    scale = 10 ** draw.uniform(-6.0, -1.5)

    def thread_time() -> float:
        now[0] += draw.expovariate(1.0) * scale if draw.random() < 0.5 else 1e-6
        return now[0]

    return types.SimpleNamespace(thread_time=thread_time)


def _refused(calls: int, error: CaptureError) -> Outcome:
    return Outcome("refused", calls, error.what, str(error))


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Endless where the block takes longer; again and again, lest it is lost.

    On a busy machine it may wait for its turn for a while: it has to have computed for half of the
    time, unless it has waited for ten times as long.
    """
    begin, computed = time.monotonic(), time.process_time()

    def stop(*_: Any) -> None:
        waits = time.process_time() - computed < seconds / 2
        if not waits or time.monotonic() - begin > 10 * seconds:
            raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# One side ---------------------------------------------------------------------------------------


def module_of(text: str) -> Any:
    """The module that a program is, whose source can be found."""
    linecache.cache[NAME] = (len(text), None, text.splitlines(True), NAME)
    module = types.ModuleType("program_of_" + __name__)
    sys.modules[module.__name__] = module  # dataclasses ask for the module of a class
    exec(compile(text, NAME, "exec"), module.__dict__)
    return module


def put_away() -> None:
    """End what programs leave behind them: signals that go on, captures, the source."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    close_captures()
    linecache.cache.pop(NAME, None)


def observations(
    text: str, gradients: bool, prepared: Callable[[Any], Any]
) -> Iterator[dict[str, Any]]:
    """What can be noticed after each call, and with gradients once more of all calls together."""
    try:
        module = module_of(text)
        function, kept = module.make()
        arguments = [(*call,) for call in module.calls(kept()[0])]
        given = tensors_in([arguments, kept()])
        for t in tensors_in(arguments) if gradients else ():
            if t.dtype.is_floating:
                t.requires_grad = True
        program = prepared(function)
    except Exception as error:
        raise Broken from error
    results: list[Any] = []
    for call in arguments:
        seen: dict[str, Any] = {}
        events: list[Any] = []
        with watched(events):
            try:
                results.append(program(*call))
            except Endless:
                raise
            except Exception as error:
                seen["raised"], seen["error"] = describe_error(error), error
                results.append(None)
            else:
                seen["returned"] = describe(results[-1])
        seen["printed"] = [event for event in events if not is_of_eager_run(event)]
        seen["captures left open"] = close_captures()
        if gradients and "raised" not in seen:
            _follow(seen, "later backward", [results[-1]], given)
        _look(seen, arguments, results, kept())
        yield seen
    if gradients:
        seen = {}
        _follow(seen, "last backward", [results, kept()], given)
        _look(seen, arguments, results, kept())
        yield seen
    gc.collect(0)


def _look(seen: dict[str, Any], arguments: Any, results: list[Any], kept: tuple[Any, ...]) -> None:
    """Values, and of all tensors which are one, which require gradients, and these."""
    every = tensors_in([arguments, kept, results])
    traced = [i for i, t in enumerate(every) if isinstance(t.content, Value)]
    if traced:
        seen["traced values left"] = traced
        return
    seen["arguments"] = describe(arguments)
    seen["state"] = [describe(k) for k in kept]
    seen["earlier results"] = describe(results[:-1])
    seen["identity"] = firsts(every)
    seen["lists that are one"] = firsts(changeable_in([arguments, kept, results]))
    seen["requires_grad"] = [t.requires_grad for t in every]
    seen["grad"] = [describe(t.grad) for t in every if t.requires_grad and is_leaf(t)]


def firsts(values: Sequence[Any]) -> list[int]:
    """Of each of ``values`` the place of the first one that is the same object."""
    first: dict[int, int] = {}
    return [first.setdefault(id(value), i) for i, value in enumerate(values)]


def is_leaf(t: hy.Tensor) -> bool:
    return getattr(t, "leaf", None) is not None


def _follow(seen: dict[str, Any], what: str, roots: Any, leaves: list[hy.Tensor]) -> None:
    """What a backward() reaches in which each element of ``roots`` counts differently."""
    loss: Any = None
    for i, t in enumerate(tensors_in(roots)):
        if t.requires_grad:
            weights = np.random.default_rng(i).standard_normal(t.shape)
            term = hy.sum(t * hy.asarray(weights, dtype=t.dtype))
            loss = term if loss is None else loss + hy.astype(term, loss.dtype)
    try:
        if loss is not None:
            loss.backward(retain_graph=True)
    except Exception as error:
        seen[what + " raised"], seen["error"] = describe_error(error), error
    seen[what] = [describe(t.grad) if is_leaf(t) else None for t in leaves]


def tensors_in(value: Any) -> list[hy.Tensor]:
    """The tensors in ``value``, each time they occur; an object is gone through once."""
    return [part for part in parts_in(value, set()) if isinstance(part, hy.Tensor)]


def changeable_in(value: Any) -> list[Any]:
    """The lists, dicts and objects in ``value``, likewise."""
    parts = parts_in(value, set())
    return [part for part in parts if not isinstance(part, (hy.Tensor, tuple))]


def parts_in(value: Any, seen: set[int], inside: tuple[int, ...] = ()) -> Iterator[Any]:
    """``value``, if it is a tensor or something that may hold tensors, and what it holds."""
    if isinstance(value, (hy.Tensor, list, tuple, dict)):
        held: Any = () if isinstance(value, hy.Tensor) or id(value) in inside else value
        inside = (*inside, id(value))
    elif isinstance(value, hy.nn.Module) or (
        hasattr(value, "__dict__")
        and not callable(value)
        and not isinstance(value, types.ModuleType)
    ):
        held = () if id(value) in seen else vars(value)
        seen.add(id(value))
    else:
        return
    yield value
    for part in list(held.values() if isinstance(held, dict) else held):
        yield from parts_in(part, seen, inside)


# Two sides --------------------------------------------------------------------------------------


def _difference(wanted: dict, found: dict, error: Any) -> tuple[str, str] | None:
    """In few words, and in full."""
    for what in dict.fromkeys((*found, *wanted)):
        left, right = wanted.get(what), found.get(what)
        if left == right:
            continue
        told = f"{what}\n  eager:      {left}\n  hybridized: {right}"
        if error is not None:
            told += f"\n\n{type(error).__name__}: {error}"
        if what.endswith("raised"):
            names = [side[0] if side else "nothing" for side in (left, right)]
            return f"{what}: {names[0]}, not {names[1]}", told
        return what, told
    return None


def _traces(before: dict | None, now: dict) -> tuple[str, str] | None:
    """Whether a call that was refused has left anything."""
    if now.get("printed") or now.get("captures left open") or "traced values left" in now:
        return "traces of a refusal", f"{now}"
    for what in ("arguments", "state", "requires_grad"):
        if before is not None and before[what] != now[what]:
            told = f"{what}\n  before: {before[what]}\n  after:  {now[what]}"
            return f"{what} after a refusal", told
    return None
