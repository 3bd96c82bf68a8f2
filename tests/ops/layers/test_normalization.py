"""Normalisation over rows, groups and batches against NumPy, its statistics and its derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from hybrid.nn import functional as F
from hybrid.ops.support.sampling import Draw


def normal(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    """``x`` with mean 0 and variance 1 over ``axes``."""
    wide = x.astype(np.float64)
    variance = wide.var(axes, keepdims=True)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(variance + eps)


def close(found: hy.Tensor, want: np.ndarray, dtype: str) -> None:
    assert found.dtype.name == dtype
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", Draw.floats)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 16), (2, 3, 5), (0, 4), (4, 700)])
def test_rows_as_numpy(dtype, shape) -> None:
    draw = Draw(3)
    x = draw(dtype, *shape)
    for count in range(1, len(shape) + 1):
        last = shape[-count:]
        axes = tuple(range(-count, 0))
        weight, bias = draw(dtype, *last), draw(dtype, *last)
        if x.size:
            want = normal(x, axes)
            mean_square = np.square(x.astype(np.float64)).mean(axes, keepdims=True)
        else:
            want, mean_square = x, 0.0
        close(F.layer_norm(x, last), want, dtype)
        close(F.layer_norm(x, last, weight), want * weight, dtype)
        close(F.layer_norm(x, last, None, bias), want + bias, dtype)
        close(F.layer_norm(hy.asarray(x), last, weight, bias), want * weight + bias, dtype)
        scaled = x / np.sqrt(mean_square + 0.25)
        close(F.rms_norm(x, last, weight, eps=0.25), scaled * weight, dtype)
    close(F.layer_norm(x, shape[-1]), F.layer_norm(x, shape[-1:]).numpy(), dtype)
    tiny = float(np.finfo(dtype).eps)
    close(F.rms_norm(x, shape[-1]), F.rms_norm(x, shape[-1], eps=tiny).numpy(), dtype)


@pytest.mark.parametrize("dtype", Draw.floats)
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 6), (2, 4, 3, 5), (1, 4, 2, 3, 2)])
def test_groups_instances_and_batches_as_numpy(dtype, shape) -> None:
    draw = Draw(4)
    x, weight, bias = draw(dtype, *shape), draw(dtype, 4), draw(dtype, 4)
    column = (4, *(1,) * (len(shape) - 2))
    w, b = weight.reshape(column), bias.reshape(column)
    for groups in (1, 2, 4):
        if math.prod(shape[2:]) * 4 // groups == 1:
            continue
        grouped = normal(x.reshape(shape[0], groups, -1), (2,)).reshape(shape)
        close(F.group_norm(x, groups), grouped, dtype)
        close(F.group_norm(x, groups, weight, bias), grouped * w + b, dtype)
    others = (0, *range(2, len(shape)))
    mean, variance = draw(dtype, 4), draw(dtype, 4, low=0.5, high=2.0)
    m, v = mean.reshape(column), variance.reshape(column)
    close(F.batch_norm(x, None, None, weight, bias, True), normal(x, others) * w + b, dtype)
    want = (x - m) / np.sqrt(v + 0.1) * w + b
    close(F.batch_norm(x, mean, variance, weight, bias, eps=0.1), want, dtype)
    close(F.batch_norm(x, mean, variance), (x - m) / np.sqrt(v + 1e-5), dtype)
    if len(shape) > 2:
        inner = tuple(range(2, len(shape)))
        close(F.instance_norm(x, weight=weight, bias=bias), normal(x, inner) * w + b, dtype)
        given = F.instance_norm(x, mean, variance, weight, bias, use_input_stats=False, eps=0.1)
        close(given, want, dtype)


@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_running_statistics(norm) -> None:
    def step(x, mean, variance):
        if norm is F.batch_norm:
            return norm(x, mean, variance, training=True, momentum=0.25)
        return norm(x, mean, variance, momentum=0.25)

    x = Draw(5)("float32", 6, 3, 4)
    axes = (0, 2) if norm is F.batch_norm else 2
    own_mean, own_variance = x.mean(axes), x.var(axes, ddof=1)
    if norm is F.instance_norm:
        own_mean, own_variance = own_mean.mean(0), own_variance.mean(0)
    mean, variance = hy.zeros(3), hy.ones(3)
    mean.requires_grad = False
    eager = [step(hy.asarray(x), mean, variance) for _ in range(2)][1]
    want = own_mean * (1 - 0.75**2)
    np.testing.assert_allclose(mean.numpy(), want, rtol=1e-5, atol=1e-6)
    want = 0.75**2 + own_variance * (1 - 0.75**2)
    np.testing.assert_allclose(variance.numpy(), want, rtol=1e-5)
    planned_mean, planned_variance = hy.zeros(3), hy.ones(3)
    captured = hy.hybridize(lambda x: step(x, planned_mean, planned_variance))
    planned = [captured(hy.asarray(x)) for _ in range(2)][1]
    for a, b in ((eager, planned), (mean, planned_mean), (variance, planned_variance)):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    assert len(captured.plans) == 1


def test_statistics_have_no_history() -> None:
    mean, x = hy.zeros(3), hy.asarray(Draw(6)("float32", 5, 3))

    def loss(x):
        return hy.sum(F.batch_norm(x, mean, None, training=True) ** 3)

    slope = hy.grad(loss)(x)
    assert slope.shape == x.shape and mean.record is None
    hy.hybridize(hy.grad(loss))(x)
    assert mean.record is None


def test_a_far_mean_costs_no_digits() -> None:
    x = (Draw(7)("float64", 3, 999) + 4096.0).astype(np.float32)
    found = F.layer_norm(x, 999).numpy()
    np.testing.assert_allclose(found, normal(x, (1,)), atol=1e-3)
    assert abs(found.mean(dtype=np.float64)) < 1e-3 and abs(found.std() - 1) < 1e-4
    found = F.batch_norm(x.T.copy(), None, None, training=True).numpy().T
    np.testing.assert_allclose(found, normal(x, (1,)), atol=1e-3)


NORMS = {
    "layer": lambda x, w, b: F.layer_norm(x, 6, w, b),
    "rms": lambda x, w, _b: F.rms_norm(x, 6, w),
    "group": lambda x, w, b: F.group_norm(hy.permute_dims(x, (0, 2, 1)), 3, w, b),
    "instance": lambda x, w, b: F.instance_norm(
        hy.permute_dims(x, (0, 2, 1)), weight=w, bias=b, eps=0.1
    ),
    "batch": lambda x, w, b: F.batch_norm(
        hy.permute_dims(x, (0, 2, 1)), None, None, w, b, training=True
    ),
}


def test_channels_of_many_elements() -> None:
    draw = Draw(12)
    x, weight, bias = (hy.asarray(draw("float64", *s)) for s in ((3, 2, 5, 4), (2,), (2,)))
    mean, variance = hy.zeros(2, dtype=hy.float64), hy.ones(2, dtype=hy.float64)

    def norm(x, w, b):
        return F.batch_norm(x, mean, variance, w, b, training=True, momentum=1.0)

    want = normal(x.numpy(), (0, 2, 3)) * weight.numpy()[:, None, None]
    np.testing.assert_allclose(
        norm(x, weight, bias).numpy(), want + bias.numpy()[:, None, None], rtol=1e-10
    )
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean((0, 2, 3)))
    np.testing.assert_allclose(variance.numpy(), x.numpy().var((0, 2, 3)) * 60 / 59)
    hy.check_grads(norm, x, weight, bias, order=2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(32, 3, 40), (2, 3, 5000), (300, 3, 17), (40_000, 3)])
def test_one_pass_over_channels_costs_no_digits(shape) -> None:
    """Means far from 0, and a first element far from the mean: what simple sums fail at."""
    draw = Draw(21)
    x = draw("float32", *shape)
    x[:, 1] += 1e4
    x[0, 2] += 1e3
    axes = tuple(i for i in range(len(shape)) if i != 1)
    mean, variance = hy.zeros(3), hy.ones(3)
    found = F.batch_norm(x, mean, variance, training=True, momentum=1.0).numpy()
    wide, count = x.astype(np.float64), x.size // 3
    spread = wide.var(axes)
    np.testing.assert_allclose(mean.numpy(), wide.mean(axes), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), spread * count / (count - 1), rtol=1e-4)
    near = (
        3e-7
        * (1 + np.abs(wide).max(axes) / np.sqrt(spread))
        * (1 + np.abs(normal(x, axes)).max(axes))
    )
    assert (np.abs(found - normal(x, axes)).max(axes) <= near).all()


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_derivatives(norm) -> None:
    draw = Draw(8)
    operands = [hy.asarray(draw("float64", *shape)) for shape in ((2, 4, 6), (6,), (6,))]
    hy.check_grads(norm, *operands, order=2, rtol=1e-4, atol=1e-5)
    tangents = tuple(hy.asarray(draw("float64", *x.shape)) for x in operands)
    for alone in range(3):
        given = tuple(t if i == alone else hy.zeros_like(t) for i, t in enumerate(tangents))
        _, tangent = hy.jvp(norm, tuple(operands), given)
        assert tangent.shape == norm(*operands).shape


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_hybridized_training_gives_the_bits_of_eager(norm) -> None:
    draw = Draw(9)
    operands = [hy.asarray(draw("float32", *shape)) for shape in ((3, 5, 6), (6,), (6,))]
    step = hy.value_and_grad(lambda *xs: hy.sum(norm(*xs) ** 2 * 0.5), argnums=(0, 1))
    (eager, slopes), (planned, others) = step(*operands), hy.hybridize(step)(*operands)
    assert eager.numpy().tobytes() == planned.numpy().tobytes()
    for a, b in zip(slopes, others, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_threads_do_not_change_bits() -> None:
    x, saved, found = Draw(10)("float32", 501, 130), hy.num_threads(), set()
    try:
        for threads in (1, 2, 3):
            hy.set_num_threads(threads)
            found.add(F.layer_norm(x, 130).numpy().tobytes())
    finally:
        hy.set_num_threads(saved)
    assert len(found) == 1


def test_special_rows() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[1.0, 1.0, 1.0], [inf, 0.0, 1.0], [nan, 0.0, 1.0], [0.0, 0.0, 0.0]], np.float32)
    found = F.layer_norm(x, 3).numpy()
    np.testing.assert_array_equal(np.isnan(found).all(1), [False, True, True, False])
    assert (found[0] == 0).all() and (found[3] == 0).all()
    assert np.isnan(F.layer_norm(x[:1], 3, eps=0.0).numpy()).all()
    assert F.rms_norm(x, 3).numpy()[3].tolist() == [0.0, 0.0, 0.0]


X = np.ones((2, 4, 3), np.float32)
ERRORS = {
    "shape": (lambda: F.layer_norm(X, (4, 4)), ShapeError, r"layer_norm cannot normalise f32\[2,"),
    "none": (lambda: F.layer_norm(X, ()), ShapeError, r"layer_norm cannot normalise"),
    "long": (lambda: F.rms_norm(X, (1, 2, 4, 3)), ShapeError, "rms_norm cannot normalise"),
    "scalar": (lambda: F.rms_norm(1.0, (1,)), ShapeError, "rms_norm cannot normalise"),
    "text": (lambda: F.layer_norm(X, "a"), ArgumentTypeError, "'a' is not a shape"),
    "ints": (lambda: F.layer_norm(X.astype(np.int64), 3), DTypeError, "layer_norm cannot take i64"),
    "weight": (lambda: F.layer_norm(X, 3, X), ShapeError, r"as weight\n.*must be \[3\]"),
    "bias": (lambda: F.layer_norm(X, 3, None, X[0]), ShapeError, "as bias"),
    "eps": (lambda: F.layer_norm(X, 3, eps=-1.0), ArgumentError, "layer_norm got eps -1.0"),
    "nan": (lambda: F.rms_norm(X, 3, eps=math.nan), ArgumentError, "rms_norm got eps nan"),
    "text eps": (lambda: F.rms_norm(X, 3, eps="a"), ArgumentTypeError, "rms_norm got eps 'a'"),
    "groups": (lambda: F.group_norm(X, 3), ArgumentError, "cannot make 3 groups of 4 channels"),
    "no groups": (lambda: F.group_norm(X, 0), ArgumentError, "cannot make 0 groups"),
    "float groups": (lambda: F.group_norm(X, 2.0), ArgumentTypeError, "got num_groups 2.0"),
    "rank": (lambda: F.group_norm(X[0, 0], 1), ShapeError, "group_norm cannot take f32"),
    "channels": (lambda: F.group_norm(X, 2, X[0, 0]), ShapeError, "as weight"),
    "one value": (
        lambda: F.batch_norm(X[:1, :, 0], None, None, training=True),
        ShapeError,
        "batch_norm got 1 value per channel",
    ),
    "no statistics": (lambda: F.batch_norm(X, None, None), ArgumentError, "got no running_mean"),
    "array": (
        lambda: F.batch_norm(X, np.zeros(4, np.float32), None, training=True),
        ArgumentTypeError,
        "cannot update running_mean, a ndarray",
    ),
    "momentum": (
        lambda: F.batch_norm(X, None, None, training=True, momentum=2),
        ArgumentError,
        "batch_norm got momentum 2",
    ),
    "statistics": (
        lambda: F.batch_norm(X, hy.zeros(3), hy.ones(4)),
        ShapeError,
        "as running_mean",
    ),
    "batch eps": (lambda: F.batch_norm(X, None, None, training=True, eps=-1), ArgumentError, "eps"),
    "instance rank": (lambda: F.instance_norm(X[0]), ShapeError, "instance_norm cannot take f32"),
    "instance size": (lambda: F.instance_norm(X[:, :, :1]), ShapeError, "instance_norm got 1 val"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()
