"""The tape: backward(), what it adds up, what it frees, and that it knows values, not cells."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid.autodiff.tape import cotangents, descendants, history, leads_beyond, node_of
from hybrid.errors import ArgumentError, CaptureError, GradientError, ShapeError
from hybrid.ir.record import Leaf, Record
from tests.helpers import leaf, same, tensor

# The walk -----------------------------------------------------------------------------------------


def test_history_is_in_the_order_of_making() -> None:
    a, b = leaf(2), leaf(2)
    late = b * 2
    result = a * late + hy.exp(a)
    nodes = history([result.record])
    assert [n.sequence for n in nodes] == sorted(n.sequence for n in nodes)
    assert [n.op.name for n in nodes if isinstance(n, Record)] == [
        "multiply",
        "multiply",
        "exp",
        "add",
    ]
    assert set(nodes) >= {a.record, b.record}
    assert history([None]) == []


def test_descendants_and_what_leads_beyond() -> None:
    a, b = leaf(2), leaf(2)
    middle = a * 2
    result = middle + b
    nodes = history([result.record])
    found = descendants(nodes, {middle.record})
    assert found == {middle.record, result.record}
    assert leads_beyond([result.record], {a.record})
    assert not leads_beyond([result.record], {a.record, b.record})
    assert leads_beyond([result.record], {middle.record, b.record})  # middle came from somewhere


def test_cotangents_of_values_on_the_way() -> None:
    x = leaf(3)
    middle = hy.exp(x)
    result = middle * middle
    ones = hy.ones(3)
    by_middle, by_x, by_other = cotangents(
        [(result.record, ones)], [middle.record, x.record, Leaf(x.type)]
    )
    assert same(by_middle, middle.detach() * 2) and by_other is None
    assert same(by_x, by_middle * middle.detach())


def test_several_results_of_one_record() -> None:
    x = leaf(4)
    first, second = hy.chunk(x, 2, axis=0)
    assert node_of(first.record)[0] is node_of(second.record)[0] or first.record is not None
    hy.sum(first * 3).backward()
    assert x.grad.tolist() == [3.0, 3.0, 0.0, 0.0]


def test_deep_histories() -> None:
    """No recursion: a chain far longer than Python's stack."""
    x = leaf(1)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.tolist() == [1.0]
    reference = weakref.ref(node_of(y.record)[0])
    del y
    gc.collect()
    assert reference() is None


# backward() ---------------------------------------------------------------------------------------


def test_gradients_add_up() -> None:
    x = leaf(2)
    hy.sum(x * 2).backward()
    kept = x.grad
    hy.sum(x * 3).backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert kept.tolist() == [2.0, 2.0]  # a gradient in somebody's hands stays


@pytest.mark.parametrize("way", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_retain_graph(way) -> None:
    w = leaf(2)
    loss = way(lambda: hy.sum(w * w))()
    loss.backward(retain_graph=True)
    once = w.grad.numpy().copy()
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2 * once)
    with pytest.raises(GradientError, match="already used by backward") as caught:
        loss.backward()
    assert "retain_graph=True" in caught.value.fix


def test_a_history_shared_with_one_that_was_used() -> None:
    w = leaf(2)
    shared = w * 2
    first, second = hy.sum(shared), hy.sum(shared * shared)
    first.backward()
    with pytest.raises(GradientError, match="already used"):
        second.backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_retained_inside_and_used_outside() -> None:
    def step(w: hy.Tensor, way: Callable) -> list[float]:
        def function():
            loss = hy.sum(w * w * w)
            loss.backward(retain_graph=True)
            return loss

        way(function)().backward()
        return w.grad.tolist()

    a, b = leaf(3), leaf(3)
    assert step(a, lambda f: f) == step(b, hy.hybridize)


def test_seeds() -> None:
    x = leaf(3)
    (x * 2).backward(hy.asarray([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    (x * 2).backward([1.0, 0.0, 0.0])
    assert x.grad.tolist() == [4.0, 4.0, 6.0]
    y = leaf(1, 1)
    (y * 2).backward()  # one element needs no seed, of whatever rank
    assert y.grad.tolist() == [[2.0]]
    with pytest.raises(ArgumentError, match=r"backward\(\) of f32\[3\] without a gradient"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"not f32\[2\]"):
        (x * 2).backward(hy.ones(2))
    with pytest.raises(GradientError, match="without history"):
        hy.ones(()).backward()


def test_backward_of_a_leaf() -> None:
    x = leaf(2)
    x.backward(hy.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("way", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_the_order_of_adding_up(way) -> None:
    """Three paths in float32 whose sum depends on the order: one order, eagerly and planned."""

    def total(w):
        e = hy.exp(w)
        return hy.sum(e * w + hy.sin(w) * e + w * w * e)

    w, twin = leaf(1000, seed=3), leaf(1000, seed=3)
    total(w).backward()
    way(lambda: total(twin))().backward()
    assert same(w.grad, twin.grad)
    inside = leaf(1000, seed=3)
    way(lambda: total(inside).backward())()
    assert same(inside.grad, w.grad)


def test_the_history_is_freed() -> None:
    x = leaf(1000)
    middle = hy.exp(x)
    record = weakref.ref(middle.record)
    loss = hy.sum(middle * middle)
    del middle
    loss.backward()
    gc.collect()
    assert record() is None


# Values, not cells --------------------------------------------------------------------------------


def test_writes_after_use_change_no_gradient() -> None:
    w, x = leaf(3), tensor(3, seed=1)
    product = w * x
    before = x.numpy().copy()
    x *= 0
    product *= 2
    product[0] = 5.0
    hy.sum(product).backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.where(np.arange(3) == 0, 0, 2 * before))


def test_a_parameter_written_between_forward_and_backward() -> None:
    w = leaf(3)
    before = w.numpy().copy()
    loss = hy.sum(w * w)
    with hy.no_grad():
        w *= 0
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2 * before)
    assert w.tolist() == [0.0] * 3 and w.requires_grad


def test_elements_written_in_place() -> None:
    w = leaf(4)

    def function(w):
        y = hy.zeros(4, dtype=w.dtype)
        for i in range(4):
            y[i] = w[3 - i] * (i + 1)
        y[1:3] += w[:2]
        return hy.sum(y * y)

    for f in (function, hy.hybridize(function)):
        w.grad = None
        f(w).backward()
        expected = hy.grad(function)(w.detach())
        np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-6)
    hy.check_grads(function, np.array([0.3, 0.5, 0.7, 1.1]), order=2)


# At the border of a capture -----------------------------------------------------------------------


def test_backward_inside_cannot_leave_the_function() -> None:
    w = leaf(2)
    given = w * 2

    def function(x):
        hy.sum(x * x).backward()

    with pytest.raises(CaptureError, match="reaches a value computed outside it") as caught:
        hy.hybridize(function)(given)
    assert "hy.sum(x * x).backward()" in str(caught.value)
    assert w.grad is None
    fresh = given.detach()
    fresh.requires_grad = True
    hy.hybridize(function)(fresh)
    assert same(fresh.grad, fresh.detach() * 2)


def test_a_history_goes_on_through_a_hybridized_call() -> None:
    w, twin = leaf(3), leaf(3)
    double = hy.hybridize(lambda x: (x * 2, hy.exp(x)))
    for p, f in ((w, double), (twin, lambda x: (x * 2, hy.exp(x)))):
        a, b = f(hy.sin(p))
        c, d = f(a * b)
        hy.sum(c * d).backward()
    assert same(w.grad, twin.grad)
    assert len(double.plans) == 1


def test_an_unused_result_of_a_hybridized_call() -> None:
    w = leaf(3)
    first, _ = hy.hybridize(lambda x: (x * 2, hy.exp(x)))(w)
    hy.sum(first).backward()
    assert w.grad.tolist() == [2.0] * 3


def test_what_has_no_gradient() -> None:
    w = leaf(3)
    assert not hy.argmax(w).requires_grad and not (w > 0).requires_grad
    assert not hy.astype(w, hy.int64).requires_grad
    hy.sum(hy.floor(w) * w).backward()  # flat where it is smooth
    assert same(w.grad, hy.floor(w.detach()))
