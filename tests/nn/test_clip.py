"""Clipping of gradients against NumPy, eagerly and captured."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.errors import ArgumentError, ArgumentTypeError, GradientError
from hybrid.nn import Parameter
from hybrid.nn.clip import _norm_and_scaled

DRAW = np.random.RandomState(0)
GRADS = [DRAW.randn(3, 4).astype("f4"), DRAW.randn(5).astype("f4"), DRAW.randn(2)]


def parameters():
    params = [Parameter(np.zeros_like(g)) for g in GRADS] + [Parameter([1.0])]
    for p, g in zip(params, GRADS, strict=False):
        p.grad = hy.asarray(g)
    return params  # the last has no gradient


@pytest.mark.parametrize("max_norm", [0.5, 1e6, 0])
@pytest.mark.parametrize("order", [2.0, 1, 3.0, math.inf])
def test_norms(order, max_norm):
    params = parameters()
    total = optim.clip_grad_norm_(params, max_norm, norm_type=order)
    wanted = np.linalg.norm([np.linalg.norm(g.ravel(), order) for g in GRADS], order)
    assert total.shape == () and total.item() == pytest.approx(wanted, rel=1e-6)
    for p, g in zip(params, GRADS, strict=False):
        factor = min(1.0, max_norm / (wanted + 1e-6))
        np.testing.assert_allclose(p.grad.numpy(), g * factor, rtol=1e-6)
        assert p.grad.dtype == p.dtype
    assert params[-1].grad is None


@pytest.mark.parametrize("bound", [0.5, 2])
def test_values(bound):
    params = parameters()
    assert optim.clip_grad_value_(iter(params), bound) is None
    for p, g in zip(params, GRADS, strict=False):
        np.testing.assert_array_equal(p.grad.numpy(), g.clip(-bound, bound))


def test_both_names_are_one():
    assert optim.clip_grad_norm is optim.clip_grad_norm_
    assert optim.clip_grad_value is optim.clip_grad_value_


def test_one_tensor_and_no_gradients():
    p = Parameter([3.0, 4.0])
    assert optim.clip_grad_norm_(p, 1.0).item() == 0.0
    p.grad = hy.asarray([3.0, 4.0])
    assert optim.clip_grad_norm_(p, 1.0).item() == 5.0
    np.testing.assert_allclose(p.grad.tolist(), [0.6, 0.8], rtol=1e-6)


def test_a_norm_can_be_shared():
    first, second = parameters(), parameters()
    grads = [p.grad for p in first if p.grad is not None]
    total = optim.get_total_norm(grads)
    optim.clip_grads_with_norm_(first, 0.5, total)
    assert optim.clip_grad_norm_(second, 0.5).item() == total.item()
    for p, q in zip(first[:3], second[:3], strict=True):
        assert p.grad.numpy().tobytes() == q.grad.numpy().tobytes()


def test_gradients_of_16_bits():
    """Their squares would overflow in their own dtype."""
    p = Parameter(hy.zeros(2, dtype=hy.float16))
    p.grad = hy.asarray([3e4, 4e4]).astype(hy.float16)
    assert optim.clip_grad_norm_(p, 5.0).item() == pytest.approx(5e4, rel=1e-3)
    assert p.grad.dtype == hy.float16
    np.testing.assert_allclose(p.grad.astype(hy.float32).tolist(), [3.0, 4.0], rtol=2e-3)


@pytest.mark.parametrize(
    "clip",
    [
        lambda params: optim.clip_grad_norm_(params, 0.5),
        lambda params: optim.clip_grad_norm_(params, 0.5, math.inf),
        lambda params: optim.clip_grad_norm_(params, 0.5, 3.0, error_if_nonfinite=True),
        lambda params: optim.clip_grad_value_(params, 0.25),
    ],
)
def test_captured_in_a_training_loop(clip):
    xs = hy.asarray(DRAW.randn(6, 8, 4).astype("float32"))
    ys = hy.asarray(DRAW.randint(0, 3, (6, 8)))
    found = []
    for hybridizes in (False, True):
        hy.random.seed(0)
        net = hy.nn.Sequential(hy.nn.Linear(4, 6), hy.nn.ReLU(), hy.nn.Linear(6, 3))
        optimizer, loss_of = optim.SGD(net.parameters(), lr=0.5), hy.nn.CrossEntropyLoss()

        def epoch(xs, ys, net=net, optimizer=optimizer, loss_of=loss_of):
            norms = []
            for x, y in zip(xs, ys, strict=True):
                optimizer.zero_grad()
                loss_of(net(x), y).backward()
                total = clip(net.parameters())
                norms.append(hy.zeros(()) if total is None else total)
                optimizer.step()
            return hy.stack(norms)

        run = hy.hybridize(epoch) if hybridizes else epoch
        norms = [run(xs, ys).numpy().tobytes() for _ in range(2)]
        found.append((norms, [p.numpy().tobytes() for p in net.parameters()]))
        if hybridizes:
            assert len(run.plans) == 1
    assert found[0] == found[1]


@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize(("value", "said"), [(math.nan, "nan"), (math.inf, "inf")])
def test_norms_that_are_not_finite(value, said, hybridizes):
    p = Parameter([1.0, 2.0])

    def clip(g):
        p.grad = g
        return optim.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)

    run = hy.hybridize(clip) if hybridizes else clip
    assert run(hy.asarray([3.0, 4.0])).item() == 5.0
    with pytest.raises(GradientError) as caught:
        run(hy.asarray([value, 1.0]))
    assert caught.value.what == f"the norm of order 2 of the gradients is {said}"
    assert caught.value.fix == "skip this step, or pass error_if_nonfinite=False"
    p.grad = hy.asarray([value, 1.0])
    assert not math.isfinite(optim.clip_grad_norm_(p, 1.0).item())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p: optim.clip_grad_norm_(p, -1),
            "max_norm is -1\nFix: give a number that is at least 0.",
        ),
        (
            lambda p: optim.clip_grad_norm_(p, 1.0, "fro"),
            "norm_type is 'fro', not a number",
        ),
        (lambda p: optim.clip_grad_value_(p, None), "clip_value is None, not a number"),
        (
            lambda p: optim.clip_grad_norm_([p, 3], 1.0),
            "parameter 1 is a int, not a tensor\n"
            "Fix: pass model.parameters(), a list of tensors, or one.",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make(Parameter([1.0]))
    assert str(caught.value) == message


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, 0.0, math.inf])
def test_gradients_that_are_there_on_some_paths(order):
    """The norms of as many as there are, with the bits of eager code."""
    grads = [hy.asarray(DRAW.randn(3, n + 1)) for n in range(49)]

    def clipped(x, whole):
        params = [Parameter(hy.ones_like(g)) for g in grads]
        for number, (p, g) in enumerate(zip(params, grads, strict=True)):
            if number % 3:
                (p * g).sum().backward()
            elif x > 0:
                (p * g * x).sum().backward()
        if whole:
            return optim.clip_grad_norm_(params, 0.5, order), params[1].grad
        return optim.clip_grad_norm_(params[::3], 0.5, order), params[1].grad

    for x in (1.5, -1.0):
        for whole in (True, False):
            made = hy.hybridize(clipped)(hy.asarray(x), whole)
            for a, b in zip(made, clipped(hy.asarray(x), whole), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("order", [2.0, math.inf])
def test_called_often_it_is_a_plan_with_the_same_bits(order):
    """Of all dtypes, and of a bound that differs from call to call."""
    grads = [*GRADS, DRAW.randn(4).astype("f2")]

    def clipped(max_norm, clip):
        params = [Parameter(np.zeros_like(g)) for g in grads]
        for p, g in zip(params, grads, strict=True):
            p.grad = hy.asarray(g)
        total = clip(params, max_norm)
        return [total.numpy().tobytes(), *[p.grad.numpy().tobytes() for p in params]]

    def whole(params, max_norm):
        return optim.clip_grad_norm_(params, max_norm, order)

    def in_two(params, max_norm):
        total = nn.utils.get_total_norm([p.grad for p in params], order)
        nn.utils.clip_grads_with_norm_(params, max_norm, total)
        return total

    def checked(params, max_norm):
        return optim.clip_grad_norm_(params, max_norm, order, error_if_nonfinite=True)

    planned = _norm_and_scaled(order).planned
    planned.clear()  # what other tests have called it with
    for max_norm in (0.3, 1, 7.5, 0.1, 0.3, 1e9):
        each = [clipped(max_norm, clip) for clip in (whole, in_two, checked)]
        captured = hy.hybridize(lambda params, m=max_norm: whole(params, m), mode="trace")
        each.append(clipped(max_norm, lambda params, _, captured=captured: captured(params)))
        assert all(found == each[0] for found in each), max_norm
    assert 1 <= len(planned.plans) < 6  # the bound is no part of them
