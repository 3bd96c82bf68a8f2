"""Calls from a plan into Python: order, values, and what the functions raise."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import TensorType, bool_, float32, int64, tensor_type
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import ArgumentError, Location, ShapeError
from hybrid.ir import Builder, Graph, Value, get_op
from hybrid.memory import native
from hybrid.plan import Plan, interpret, make_plan
from tests.helpers import graph_of

FLAG, COUNT, ROW = tensor_type(bool_, ()), tensor_type(int64, ()), tensor_type(float32, (3,))
X = np.arange(3, dtype=np.float32)


def call(
    builder: Builder,
    function: Callable[..., Any],
    operands: Sequence[Value],
    types: tuple[TensorType, ...] = (),
) -> tuple[Value, ...]:
    attrs = {"function": function, "types": types}
    return builder.apply(
        get_op("py_call"), operands, attrs, location=Location("model.py", 7, "f(x)")
    )


def calling(function: Callable[..., Any], types: tuple[TensorType, ...] = (), n: int = 1) -> Plan:
    """A plan that calls ``function`` with ``n`` operands and returns what it returns."""
    builder = Builder("calls")
    params = [builder.param(ROW) for _ in range(n)]
    return make_plan(builder.finish(call(builder, function, params, types)))


def looping(function: Callable[..., Any]) -> Graph:
    """``for i in range(n): x = function(i, x)``."""
    inner = Builder("body")
    index, x = inner.param(COUNT), inner.param(ROW)
    body = inner.finish(call(inner, function, [index, x], (ROW,)))
    builder = Builder("loop")
    n, start = builder.param(COUNT), builder.param(ROW)
    attrs = {"carried": 1, "length": 0, "sliced": 0, "reverse": False}
    return builder.finish(builder.apply(get_op("for"), [n, start], attrs, regions=(body,)))


def run(plan: Plan, *arrays: Any) -> list[np.ndarray]:
    return [t.numpy() for t in call_plan(plan, [as_tensor(np.asarray(a)) for a in arrays])]


def test_operands_and_results() -> None:
    plan = calling(lambda a, b: (a + b, a * b), (ROW, ROW), 2)
    for _ in range(2):
        total, product = run(plan, X, X + 1)
        assert np.array_equal(total, X + X + 1) and np.array_equal(product, X * (X + 1))
    assert np.array_equal(interpret(plan, [X, X + 1])[1], X * (X + 1))


def test_python_numbers_take_the_declared_dtype() -> None:
    plan = calling(lambda _: (2.5, True, 7), (tensor_type(float32, ()), FLAG, COUNT))
    assert [a.item() for a in run(plan, X)] == [2.5, True, 7]


def test_a_function_may_keep_what_it_was_given() -> None:
    kept: list[np.ndarray] = []

    def step(_index: np.ndarray, x: np.ndarray) -> np.ndarray:
        kept.append(x)
        return x + 1

    run(make_plan(looping(step)), 3, X)
    assert [a.tolist() for a in kept] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_values_of_nothing() -> None:
    empty = tensor_type(float32, (0, 2))
    builder = Builder("calls")
    x = builder.param(empty)
    plan = make_plan(builder.finish(call(builder, lambda x: x + 1, [x], (empty,))))
    assert run(plan, np.empty((0, 2), np.float32))[0].shape == (0, 2)


def test_strided_operands_are_laid_out() -> None:
    seen: list[np.ndarray] = []
    builder = Builder("calls")
    x = builder.param(tensor_type(float32, (2, 3)))
    (turned,) = builder.apply(get_op("permute_dims"), [x], {"axes": (1, 0)})
    call(builder, seen.append, [turned])
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    run(make_plan(builder.finish([])), array)
    assert np.array_equal(seen[0], array.T)


def test_calls_come_in_program_order_also_inside_loops_and_branches() -> None:
    log: list[Any] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *arrays: log.append((name, *(a.item() for a in arrays)))

    branches = []
    for name in ("then", "else"):
        inner = Builder(name)
        call(inner, note(name), [inner.param(COUNT)])
        branches.append(inner.finish([]))
    body = Builder("body")
    index = body.param(COUNT)
    call(body, note("before"), [index])
    one = body.apply(get_op("full"), [], {"dtype": int64, "shape": (), "value": 1})[0]
    (first,) = body.apply(get_op("less"), [index, one], {})
    body.apply(get_op("cond"), [first, index], {}, regions=tuple(branches))
    call(body, note("after"), [])
    builder = Builder("main")
    n = builder.param(COUNT)
    call(builder, note("start"), [n])
    attrs = {"carried": 0, "length": 0, "sliced": 0, "reverse": False}
    builder.apply(get_op("for"), [n], attrs, regions=(body.finish([]),))
    call(builder, note("end"), [])
    plan = make_plan(builder.finish([]))
    expected = [
        ("start", 2),
        ("before", 0), ("then", 0), ("after",),
        ("before", 1), ("else", 1), ("after",),
        ("end",),
    ]  # fmt: skip
    run(plan, 2)
    assert log == expected
    log.clear()
    interpret(plan, [np.asarray(2)])
    assert log == expected


# What functions raise ---------------------------------------------------------------------------


def test_what_a_function_raises_ends_the_run_unchanged() -> None:
    calls: list[int] = []
    error = ShapeError("mine", fix="nothing")

    def step(index: np.ndarray, x: np.ndarray) -> np.ndarray:
        calls.append(index.item())
        if index == 2:
            raise error
        return x

    plan = make_plan(looping(step))
    for _ in range(2):  # and leaves the plan whole
        calls.clear()
        with pytest.raises(ShapeError) as caught:
            run(plan, 5, X)
        assert caught.value is error and error.at is None and calls == [0, 1, 2]
    assert run(plan, 2, X)[0].tolist() == [0, 1, 2]
    frames = [entry.name for entry in caught.traceback]
    assert frames[-1] == "step"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_any_exception_passes(kind: type[BaseException]) -> None:
    def fail(_x: Any) -> None:
        raise kind("stop")

    with pytest.raises(kind) as caught:
        run(calling(fail), X)
    assert caught.value.args == ("stop",)


def test_plans_inside_plans() -> None:
    """A function runs another plan, whose function fails."""

    def inner(_x: np.ndarray) -> None:
        raise LookupError("deep")

    below = calling(inner)

    def outer(x: np.ndarray) -> np.ndarray:
        with pytest.raises(LookupError):
            run(below, x)
        return x + 1

    assert np.array_equal(run(calling(outer, (ROW,)), X)[0], X + 1)
    with pytest.raises(LookupError, match="deep"):
        run(calling(lambda x: run(below, x)), X)


@pytest.mark.parametrize(
    ("returned", "types", "what", "wanted"),
    [
        ((), (ROW,), "returned 0 values", "1 of them"),
        (None, (ROW, ROW), "returned 0 values", "2 of them"),
        ([X, X, X], (ROW, ROW), "returned 3 values", "2 of them"),
        (X, (), "returned 1 values", "0 of them"),
        (X[:2], (ROW,), "returned float32[2]", "f32[3]"),
        (X.astype(np.float64), (ROW,), "returned float64[3]", "f32[3]"),
        (1.5, (ROW,), "returned float32[]", "f32[3]"),
    ],
)
def test_wrong_results_are_refused(returned: Any, types: Any, what: str, wanted: str) -> None:
    def answer(_x: Any) -> Any:
        return returned

    plan = calling(answer, types)
    with pytest.raises(ArgumentError) as caught:
        run(plan, X)
    assert str(caught.value) == (
        f"test_wrong_results_are_refused.<locals>.answer, which a graph calls, {what} "
        "(model.py:7)\n"
        "    7 | f(x)\n"
        f"The graph was built for {wanted}.\n"
        "Fix: return one array for each declared type."
    )


def test_threads_get_their_own_results_and_errors() -> None:
    barrier = threading.Barrier(4)
    wrong: list[Any] = []

    def step(_index: np.ndarray, x: np.ndarray) -> np.ndarray:
        if x[0] < 0:
            raise ValueError(x[0].item())
        return x * 2

    plan = make_plan(looping(step))

    def work(start: float) -> None:
        barrier.wait()
        for i in range(30):
            x = np.full(3, start, np.float32)
            if i % 3:
                if run(plan, 5, x)[0].tolist() != (x * 32).tolist():
                    wrong.append(start)
            else:
                try:
                    run(plan, 5, -x)
                    wrong.append("no error")
                except ValueError as error:
                    if error.args != (-start,):
                        wrong.append(error)

    threads = [threading.Thread(target=work, args=(float(i + 1),), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_eager_calls_run_at_once() -> None:
    py_call = get_op("py_call")
    x = hy.asarray(X)
    double = py_call(x, function=lambda a: a * 2, types=(ROW,))
    assert double.numpy().tolist() == [0, 2, 4]
    seen: list[Any] = []
    assert py_call(x, function=lambda a: seen.append(a.sum()), types=()) == ()
    assert seen == [3]


def test_functions_live_as_long_as_their_plan() -> None:
    def function(_data: Any) -> None:
        pass

    alive = weakref.ref(function)
    writer = native.PlanWriter()
    writer.host(function)
    handle = writer.build(b"", 0, 0)
    del function, writer
    gc.collect()
    assert alive() is not None
    del handle
    gc.collect()
    assert alive() is None


# Ctrl-C -----------------------------------------------------------------------------------------

ENDLESS = """
graph @endless(%go: bool[], %x: f32[4]) {
  %n: i64[], %y: f32[4] = while %go, %x, %go {carried=1, length=0} {
    body(%x: f32[4], %go: bool[]) {
      %y: f32[4] = add %x, %x
      return %go, %y
    }
  }
  return %y
}
"""


def interrupted_after(seconds: float, plan: Plan) -> float:
    """How long it took, from the signal on, until the run had ended."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        run(plan, True, np.ones(4, np.float32))
    finally:
        timer.join()
    return time.monotonic() - sent[0]


@pytest.mark.alone
@pytest.mark.usefixtures("heeded_interrupt")
def test_ctrl_c_ends_a_loop() -> None:
    plan = make_plan(graph_of(ENDLESS))
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted_after(0.1, plan)
    assert time.monotonic() - started < 5
    assert run(plan, False, X.repeat(4)[:4])[0].tolist() == [0, 0, 0, 0]


def test_a_handler_of_ones_own_decides() -> None:
    class Enough(Exception):
        pass

    def handler(_number: int, _frame: Any) -> None:
        raise Enough

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(Enough):
            interrupted_after(0.1, make_plan(graph_of(ENDLESS)))
    finally:
        signal.signal(signal.SIGINT, before)
