"""Streams: the bits of the same code without one; whatever reads a value waits for it."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.tree import flatten
from tests.helpers import is_pending, slow
from tests.helpers import value_bits as bits

HERE = __file__


pytestmark = pytest.mark.usefixtures("streams_end")


# The same bits ----------------------------------------------------------------------------------


def arithmetic() -> Any:
    x = hy.asarray([[1.5, -2.0, 0.25], [3.0, 1e-3, -7.0]])
    y = hy.tanh(x * 2 + 1) / (x - 0.5)
    return y, y.sum(axis=0), 3 - y, y**2, x.T @ y, y > 0, -y, hy.where(y > 0, y, 0.0)


def views() -> Any:
    x = hy.asarray(np.arange(24.0, dtype=np.float32), copy=True) + 1
    y = x.reshape((2, 3, 4))
    return (
        y,
        y[1],
        y[:, 1],
        y[0, 1, 2],
        y.mT,
        hy.flatten(y[1]),
        list(y),
        y[..., ::2],
        y.T if 0 else 1,
    )


def several_results() -> Any:
    x = hy.asarray([3.0, 1.0, 2.0, 5.0])
    return hy.topk(x, 2), hy.split(x, 2), hy.stack([x, x * 2]), hy.concat([x, x])


def written() -> Any:
    x = hy.asarray([1.0, 2.0, 3.0])
    old, part = x.detach(), x[1:]
    x += 1
    x[0] = 10
    x *= x
    x.assign(x + old)
    return x, old, part, copy.copy(x), copy.deepcopy(x)


def borrowed() -> Any:
    array = np.arange(4.0, dtype=np.float32)
    x = hy.asarray(array)
    y = x + 1
    array[:] = 100
    return y, x + 1


def read_inside() -> Any:
    x = hy.asarray([1.0, 2.0, 3.0]) * 2
    steps = 0
    while bool(x.sum() > 1):
        x = x / 2
        steps += 1
    return steps, x, float(x[0]), int(x.argmax()), x.tolist(), f"{x.sum():.3f}", repr(x)


def shapes_by_values() -> Any:
    x = hy.asarray([1.0, -2.0, 0.0, 5.0]) * 3
    return hy.nonzero(x), x[x > 0], hy.unique_values(x)


def gradients() -> Any:
    w = hy.asarray([[0.5, -1.0], [2.0, 0.25]])
    w.requires_grad = True
    x = hy.asarray([[1.0, 2.0]])
    for _ in range(3):
        loss = (hy.tanh(x @ w) ** 2).mean()
        loss.backward()
        with hy.no_grad():
            w -= w.grad * 0.1
    grad = hy.grad(lambda w: (hy.exp(x @ w) * w).sum())(w.detach())
    twice = hy.grad(lambda a: hy.grad(lambda b: (b**3).sum())(a).sum())(hy.asarray([1.0, 2.0]))
    return w, w.grad, loss, grad, twice


def transforms() -> Any:
    x = hy.asarray([[1.0, 2.0], [3.0, 4.0]])
    return (
        hy.vmap(lambda r: hy.tanh(r) * r.sum())(x),
        hy.jvp(hy.sin, (x,), (x,)),
        hy.jacobian(lambda r: r**2)(x[0]),
        hy.checkpoint(lambda a: hy.exp(a) * a)(x),
    )


def draws() -> Any:
    hy.random.seed(7)
    drop = hy.nn.functional.dropout(hy.ones(50), 0.5)
    return hy.random.normal(size=(5,)), hy.random.integers(0, 9, (4,)), drop, hy.random.uniform()


def storage() -> Any:
    x = hy.asarray([1.0, 2.5, -3.0]).astype(hy.bfloat16)
    y = x * 2 + x
    return y.astype(hy.float32), hy.asarray([1, 2]).astype(hy.float16) * 3


def control_flow() -> Any:
    x = hy.asarray([4.0, 2.0])
    return (
        hy.cond(x.sum() > 3, lambda: x * 2, lambda: x),
        hy.while_loop(lambda c: c[0].max() > 0.1, lambda c: (c[0] / 2,), (x,)),
        hy.scan(lambda c, r: (c + r, c * r), hy.asarray(0.0), x),
    )


@hy.hybridize
def settle(x: Any) -> Any:
    steps = 0
    while hy.max(hy.abs(x)) > 1e-3:
        x = x - 0.5 * hy.sin(x)
        steps += 1
        if steps == 50:
            break
    return x, steps


def hybridized() -> Any:
    x = hy.asarray([0.5, -1.5, 2.5]) * 1
    return settle(x), settle(x + 1)


@hy.hybridize
def telling(x: Any) -> Any:
    y = x * 2
    print("sum", y.sum())
    return y + 1


def calls_of_python() -> Any:
    x = hy.asarray([1.0, 2.0]) + 1
    return telling(x), telling(telling(x))


def network() -> Any:
    hy.random.seed(3)
    return hy.nn.Sequential(
        hy.nn.Linear(6, 8), hy.nn.BatchNorm1d(8), hy.nn.ReLU(), hy.nn.Dropout(0.3),
        hy.nn.Linear(8, 2),
    )  # fmt: skip


def trained(kind: str, whole: bool, make: Any) -> Any:
    model = network()
    if kind == "layers":
        model.hybridize()
    optimizer = make(model.parameters())
    schedule = hy.optim.lr_scheduler.StepLR(optimizer, 2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = hy.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if whole:
        step = hy.hybridize(step)
    losses = []
    for i in range(5):
        x = hy.random.normal(size=(4, 6))
        losses.append(step(x, hy.asarray(np.full((4, 2), i, np.float32))))
        schedule.step()
    model.eval()
    return losses, model(hy.ones((2, 6))), model.state_dict(), optimizer.state_dict()["state"]


OPTIMIZERS = {
    "sgd": lambda p: hy.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: hy.optim.Adam(p, lr=0.01),
}
PROGRAMS: dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (
        arithmetic, views, several_results, written, borrowed, read_inside, shapes_by_values,
        gradients, transforms, draws, storage, control_flow, hybridized, calls_of_python,
    )
}  # fmt: skip
for _name, _make in OPTIMIZERS.items():
    for _kind in ("ops", "layers", "whole"):
        PROGRAMS[f"{_name} {_kind}"] = lambda k=_kind, m=_make: trained(k, k == "whole", m)


def leaves_of(result: Any) -> list[Any]:
    found, structure = flatten(result)
    return [structure, *[bits(x) if isinstance(x, hy.Tensor) else x for x in found]]


def in_a_stream(program: Callable[[], Any]) -> Any:
    with hy.stream():
        return program()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_without_a_stream(name: str, threads: int, capsys: Any) -> None:
    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        expected, told = leaves_of(PROGRAMS[name]()), capsys.readouterr().out
        for _ in range(2):
            assert leaves_of(in_a_stream(PROGRAMS[name])) == expected
            assert capsys.readouterr().out == told
        s = hy.stream()
        for _ in range(2):
            with s, hy.stream(), s:  # nested
                result = PROGRAMS[name]()
            assert leaves_of(result) == expected
    finally:
        hy.set_num_threads(before)


def test_work_goes_on_between_streams_and_without() -> None:
    work, a, b = slow(), hy.stream(), hy.stream()
    expected = work()
    with a:
        x = work()
        with b:
            y = x + 1  # waits there for the other stream
            assert is_pending(x) and is_pending(y)
        z = y * x
    assert is_pending(z) and not a.done()
    outside = z - expected  # waits here
    assert not is_pending(outside) and a.done()
    assert bits(outside) == bits((expected + 1) * expected - expected)
    assert bits(x) == bits(expected)


@pytest.mark.alone
def test_queueing_takes_microseconds_and_reading_waits() -> None:
    work = slow()
    with hy.stream() as s:
        started = time.perf_counter()
        y = work()
        queued = time.perf_counter() - started
    assert is_pending(y) and y.shape == (800, 800) and y.dtype is hy.float32
    assert not s.done() and "at work" in repr(s)
    started = time.perf_counter()
    value = y.numpy()
    assert queued < max(0.02, time.perf_counter() - started)
    assert value.tobytes() == work().numpy().tobytes() and s.done() and "done" in repr(s)


READS: dict[str, Callable[[hy.Tensor], Any]] = {
    "numpy": lambda t: t.numpy(),
    "array": lambda t: np.asarray(t),
    "item": lambda t: t.item(),
    "float": float,
    "bool": bool,
    "repr": repr,
    "format": lambda t: f"{t:.1f}",
    "tolist": lambda t: t.tolist(),
    "dlpack": lambda t: np.from_dlpack(t),
    "pickle": pickle.dumps,
    "index": lambda t: t.reshape((1,))[0],
    "op": lambda t: t + 1,
    "assigned": lambda t: hy.zeros(()).assign(t) + 0,
    "grad": lambda t: hy.grad(lambda x: x * t)(hy.asarray(2.0)),
    "hybridized": lambda t: DOUBLED(t),
    "cell": lambda t: CLOSED(t),
    "html": lambda t: t._repr_html_(),
}
DOUBLED = hy.hybridize(lambda x: x * 2)
CELL = hy.zeros(())


@hy.hybridize
def add_to_cell(x: Any) -> Any:
    CELL.assign(CELL + x)
    return CELL * 1


def CLOSED(t: hy.Tensor) -> Any:
    CELL.assign(t)
    return add_to_cell(hy.ones(()))


@pytest.mark.parametrize("name", READS)
def test_what_reads_a_value_waits_for_it(name: str) -> None:
    work = slow()
    expected = READS[name](work()[0, 0])
    for _ in range(2):
        with hy.stream():
            y = work()[0, 0]
        assert is_pending(y)
        found = READS[name](y)
        assert not is_pending(y)
        same = bits(found) == bits(expected) if isinstance(found, hy.Tensor) else found == expected
        assert same


def test_files_get_values(tmp_path: Any) -> None:
    work = slow()
    with hy.stream():
        y = work()
    hy.save(tmp_path / "y.safetensors", {"y": y})
    assert bits(hy.load(tmp_path / "y.safetensors")["y"]) == bits(work())


def test_submit_gives_the_result_of_the_call() -> None:
    x = hy.asarray([0.5, -1.5])
    y, steps = settle.submit(x)
    assert type(steps) is int and bits(y) == bits(settle(x)[0])
    model = network().eval()
    expected = model(hy.ones((2, 6)))
    assert bits(model.submit(hy.ones((2, 6)))) == bits(expected)
    model.hybridize()
    first = model.submit(hy.ones((2, 6)))
    assert bits(first) == bits(expected)
    assert bits(DOUBLED.submit(DOUBLED.submit(x))) == bits(x * 4)  # pending goes into the next
    with hy.stream() as s:
        y = slow_square.submit(hy.ones((500, 500)))
        assert not s.done()
    assert y.numpy()[0, 0] == 500**3


@hy.hybridize
def slow_square(x: Any) -> Any:
    return x @ x @ x @ x


def test_state_is_written_when_reading_has_waited() -> None:
    total = hy.zeros((300, 300))

    @hy.hybridize
    def add(x: Any) -> None:
        total.assign(total + x @ x)

    x = hy.ones((300, 300))
    for _ in range(5):
        add.submit(x)
    assert is_pending(total)
    add(x)  # a run at once waits for those before it
    assert total.numpy()[0, 0] == 6 * 300
    add.submit(x)
    held = total.numpy()
    add(x)
    add.submit(x)
    assert held[0, 0] == 7 * 300 and total.numpy()[0, 0] == 9 * 300


def test_queued_work_keeps_what_it_reads() -> None:
    """Runs at once write in place only what nobody else holds: queued work holds its operands."""
    cell, s = hy.zeros((400, 400)), hy.stream()
    work = slow()

    @hy.hybridize
    def bump() -> None:
        cell.assign(cell + 1)

    found = []
    for i in range(5):
        bump()
        with s:
            work()
            found.append((i + 1, cell * 2))
    for i, value in found:
        assert (value.numpy() == 2 * i).all()


def test_optimizers_outside_write_in_place_only_what_nothing_queued_reads() -> None:
    p, s, work = hy.nn.Parameter(hy.ones((300,))), hy.stream(), slow()
    optimizer, found = hy.optim.SGD([p], lr=1.0), []
    for i in range(4):
        p.grad = hy.ones((300,))
        optimizer.step()
        with s:
            work()
            found.append((-i, p.detach() * 1))
    for expected, value in found:
        assert (value.numpy() == expected).all()
