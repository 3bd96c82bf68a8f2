"""Calls write in place exactly when nobody else holds the old value."""

import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls.bind import function_text as binding_loops
from hybrid.calls.bind import generate as binding


@pytest.fixture(autouse=True, params=["in loops", "one by one"])
def updated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How calls update cells and slots: in loops from ``MANY`` on."""
    monkeypatch.setattr(binding_loops, "MANY", 1 if request.param == "in loops" else 1000)
    return request.param


def counter():
    cell = hy.zeros(1000)

    def bump(x):
        cell.assign(cell + x)

    return cell, hy.hybridize(bump)


def test_an_unshared_cell_is_written_in_place() -> None:
    cell, bump = counter()
    bump(hy.ones(1000))  # the first value was made elsewhere
    buffer = cell.content
    del buffer
    before = id(cell.content)
    for _ in range(3):
        bump(hy.ones(1000))
    assert id(cell.content) == before
    assert cell.tolist() == [4.0] * 1000


def test_a_shared_value_is_left_alone() -> None:
    cell, bump = counter()
    bump(hy.ones(1000))
    for hold in (
        hy.Tensor.numpy,
        hy.Tensor.detach,
        lambda t: t.content,
        lambda t: t.reshape((10, 100)),
    ):
        held, expected = hold(cell), cell.tolist()
        bump(hy.ones(1000))
        bump(hy.ones(1000))
        if isinstance(held, (np.ndarray, hy.Tensor)):
            assert np.asarray(held).reshape(-1).tolist() == expected
        assert cell.content is not held
        assert cell.tolist() == [v + 2 for v in expected]


def test_a_borrowed_array_is_never_written() -> None:
    array = np.zeros(1000, np.float32)
    cell = hy.asarray(array)

    @hy.hybridize
    def hybridized(x):
        cell.assign(cell + x)

    for _ in range(3):
        hybridized(hy.ones(1000))
    assert cell.tolist() == [3.0] * 1000
    assert not array.any()


def test_gradients_are_reused_when_only_the_parameter_holds_them() -> None:
    w = hy.ones(1000)
    w.requires_grad = True

    def step(x):
        w.grad = None
        hy.sum(w * x).backward()

    hybridized = hy.hybridize(step)
    hybridized(hy.ones(1000))
    first = id(w.grad)
    hybridized(hy.ones(1000) * 2)
    assert id(w.grad) == first and w.grad.tolist() == [2.0] * 1000
    held = w.grad
    hybridized(hy.ones(1000) * 3)
    assert held.tolist() == [2.0] * 1000 and w.grad.tolist() == [3.0] * 1000


def trained(**options):
    """A captured step of two layers, and what belongs to it."""
    net = hy.nn.Sequential(hy.nn.Linear(16, 32), hy.nn.ReLU(), hy.nn.Linear(32, 4))
    optimizer = hy.optim.SGD(net.parameters(), lr=0.01, **options)

    @hy.hybridize
    def step(x, y):
        optimizer.zero_grad()
        loss = hy.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return net, step


def test_a_training_step_updates_all_parameters_in_place() -> None:
    """Those behind a matrix product too, and the step is no part of a gradient itself."""
    net, step = trained(momentum=0.9)
    x, y = hy.ones((8, 16)), hy.zeros((8, 4))
    step(x, y)
    (plan,) = step._table.all()
    assert plan.capture.gradient is None
    sources = {source for source, _ in plan.capture.writes}
    assert sources == set(plan.plan.donations.values()) and len(sources) == 8
    step(x, y)
    before = [id(p.content) for p in net.parameters()]
    losses = [step(x, y).item() for _ in range(3)]
    assert [id(p.content) for p in net.parameters()] == before
    assert losses[0] > losses[1] > losses[2] and all(p.requires_grad for p in net.parameters())


def test_readers_never_see_half_a_write() -> None:
    """One thread trains in place while others read the same cell through their own plan."""
    cell = hy.zeros((256, 256))

    @hy.hybridize
    def write(x):
        cell.assign(cell + x)

    read = hy.hybridize(lambda x: (hy.min(cell + x), hy.max(cell + x)))
    one, zero = hy.ones((256, 256)), hy.zeros((256, 256))
    stop, torn = threading.Event(), []

    def reader() -> None:
        while not stop.is_set():
            low, high = read(zero)
            if low.item() != high.item():
                torn.append((low.item(), high.item()))

    threads = [threading.Thread(target=reader, daemon=True) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(300):
            write(one)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not torn
    assert cell[0, 0].item() == 300.0


def test_the_source_is_kept(updated: str) -> None:
    _, bump = counter()
    bump(hy.ones(1000))
    (planned,) = next(iter(bump._table.plans.values()))
    assert "run_plan(handle, externals)" in planned.run.source
    assert ("for cell, " in planned.run.source) == (updated == "in loops")


def test_a_call_waits_for_a_run_that_writes_in_place_and_reads_after_it() -> None:
    cell = hy.zeros(3)
    function = hy.hybridize(lambda x, y: (x * y + cell, x - 1))
    x, y = hy.ones(3), hy.full((3,), 2.0)
    assert function(x, y)[0].tolist() == [2.0] * 3
    held, done = threading.Event(), threading.Event()

    def write() -> None:
        with binding.WRITER:
            held.set()
            done.wait(0.2)
            cell.content = hy.ones(3).content  # as a run that began before does at its end

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    held.wait()
    try:
        product, difference = function(x, y)
    finally:
        done.set()
        thread.join()
    assert (product.tolist(), difference.tolist()) == ([3.0] * 3, [0.0] * 3)
