"""Attention with dropout: against NumPy given the draws, its gradients, its bits and its memory."""

from __future__ import annotations

import math
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.errors import ArgumentError, HybridError
from hybrid.nn import functional as F
from hybrid.ops.layers.attention import attention
from hybrid.ops.layers.attention_dropout import dropped_mean
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

SEED = 5


def drawn(dtype, *shapes, seed=1):
    draw = Draw(seed)
    return [hy.asarray(draw(dtype, *shape)) for shape in shapes]


def seeded(function):
    """``function`` with the generator at the start of one stream."""

    def run(*args):
        hy.random.seed(SEED)
        return function(*args)

    return run


def factors(shape, rate):
    """What the first draw after ``SEED`` does to weights of ``shape``."""
    hy.random.seed(SEED)
    kept = hy.random.uniform(size=shape).numpy() >= np.float32(rate)
    return kept / (1 - rate)


def expected(q, k, v, ct, mask, factor):
    """The mean and the gradients by ``q``, ``k`` and ``v`` of its product with ``ct``."""
    q, k, v, ct = (x.numpy().astype(np.float64) for x in (q, k, v, ct))

    def turned(x):
        return np.swapaxes(x, -1, -2)

    scale = 1 / math.sqrt(q.shape[-1])
    scores = scale * (q @ turned(k)) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    of_weights = factor * (ct @ turned(v))
    slopes = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True)) * scale
    return (factor * weights) @ v, slopes @ k, turned(slopes) @ q, turned(factor * weights) @ ct


SIZES = [
    ((2, 3), 300, 450, 24, 40),  # rows that start amid a group of draws
    ((2,), 200, 256, 64, 64),
    ((), 450, 301, 5, 17),
    ((2, 1, 2), 3, 5, 4, 3),
    ((), 1, 1, 1, 1),
]


@pytest.mark.parametrize("dtype", Draw.floats)
@pytest.mark.parametrize("kind", ["all", "causal", "mask"])
@pytest.mark.parametrize("sizes", SIZES)
def test_dropped_weights_as_numpy_given_the_draws(sizes, kind, dtype) -> None:
    lead, length, size, features, width = sizes
    shapes = [(length, features), (size, features), (size, width), (length, width)]
    q, k, v, ct = drawn(dtype, *[(*lead, *shape) for shape in shapes])
    hidden = np.zeros((length, size), bool)
    if kind == "causal":
        hidden = ~np.tri(length, size, dtype=bool)
    elif kind == "mask":
        hidden = Draw(3)("bool", length, size) & (np.arange(size) > 0)
    mask = hy.asarray(~hidden) if kind == "mask" else None

    for rate in (0.1, 0.5):

        @seeded
        def mean(q, k, v, rate=rate):
            return F.scaled_dot_product_attention(q, k, v, mask, rate, kind == "causal")

        def loss(q, k, v, mean=mean):
            return hy.sum(mean(q, k, v) * ct)

        factor = factors((*lead, length, size), rate)
        wanted = expected(q, k, v, ct, np.where(hidden, -np.inf, 0.0), factor)
        found = mean(q, k, v), *hy.grad(loss, argnums=(0, 1, 2))(q, k, v)
        tolerance = 1e-4 if dtype == "float32" else 1e-11
        for got, want in zip(found, wanted, strict=True):
            assert got.dtype.name == dtype
            np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_dropped_is_what_dropout_drops(causal) -> None:
    """Weights that are asked for, and values of more rows than the scores, are held all at once."""
    q, k, v = drawn("float64", (2, 70, 8), (2, 90, 8), (2, 90, 3))

    def run(v, **more):
        hy.random.seed(SEED)
        state = hy.random.default_generator().next_state
        return attention(q, k, v, dropout_p=0.3, next_state=state, is_causal=causal, **more)

    fused = run(v)
    after = hy.random.uniform()
    found, weights = run(v, need_weights=True)
    assert same(after, hy.random.uniform()), "both draw once"
    np.testing.assert_allclose(fused.numpy(), found.numpy(), rtol=1e-12, atol=1e-13)
    kept = factors((2, 70, 90), 0.3) > 0
    seen = np.tri(70, 90, dtype=bool) if causal else True
    np.testing.assert_array_equal(weights.numpy() != 0, kept & seen)
    wide = run(ops.stack([v, v]))
    assert wide.shape == (2, 2, 70, 3)
    np.testing.assert_allclose(wide.numpy(), np.stack([found.numpy()] * 2), rtol=1e-12, atol=1e-13)


def test_a_query_that_sees_nothing_finds_nothing() -> None:
    q, k, v = drawn("float32", (3, 4), (5, 4), (5, 2))
    mask = hy.asarray(np.array([[True] * 5, [False] * 5, [True] * 5]))

    @seeded
    def loss(q, k, v):
        return hy.sum(F.scaled_dot_product_attention(q, k, v, mask, 0.3))

    assert F.scaled_dot_product_attention(q, k, v, mask, 0.3).tolist()[1] == [0, 0]
    for slope in hy.grad(loss, argnums=(0, 1, 2))(q, k, v):
        assert np.isfinite(slope.numpy()).all()


def test_no_weight_is_kept() -> None:
    q, k, v = drawn("float32", (3, 4), (5, 4), (5, 2))
    hy.random.seed(SEED)
    before = hy.random.default_generator().state.tolist()
    assert not F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).numpy().any()
    assert hy.random.default_generator().state.tolist() == before, "nothing is drawn"
    almost = F.scaled_dot_product_attention(q, k, v, dropout_p=1 - 1e-12)
    assert not almost.numpy().any()


@pytest.mark.parametrize("causal", [False, True])
def test_derivatives(causal) -> None:
    operands = drawn("float64", (2, 3, 4), (2, 5, 4), (2, 5, 2))

    @seeded
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=causal)

    hy.check_grads(function, *operands, order=2, rtol=1e-4, atol=1e-5)


def test_derivatives_by_the_mask() -> None:
    operands = drawn("float64", (2, 3, 4), (2, 5, 4), (2, 5, 2), (3, 5))

    @seeded
    def function(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.4)

    hy.check_grads(function, *operands, order=2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_bits_depend_on_neither_threads_nor_capture(causal) -> None:
    """Nor on whether the operands are views of one product, or copies."""
    x = drawn("float32", (2, 210, 3, 4, 16))[0]

    def step(x):
        @seeded
        def loss(x):
            q, k, v = hy.permute_dims(x, (2, 0, 3, 1, 4))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=causal)
            return hy.sum(y**2)

        return loss(x), hy.grad(loss)(x)

    eager, threads = step(x), hy.num_threads()
    try:
        for count in (1, 2, 4):
            hy.set_num_threads(count)
            for run in (step, hy.hybridize(step)):
                for got, want in zip(run(x), eager, strict=True):
                    assert same(got, want)
    finally:
        hy.set_num_threads(threads)


def test_columns_that_causal_queries_do_not_see_move_no_draw() -> None:
    """The same weights are dropped as with a mask that hides the same keys."""
    q, k, v = drawn("float32", (2, 200, 16), (2, 200, 16), (2, 200, 16))
    mask = hy.asarray(np.tri(200, dtype=bool))
    masked = seeded(lambda: F.scaled_dot_product_attention(q, k, v, mask, 0.2))()
    causal = seeded(lambda: F.scaled_dot_product_attention(q, k, v, None, 0.2, True))()
    np.testing.assert_allclose(masked.numpy(), causal.numpy(), rtol=1e-5, atol=1e-6)


def test_rows_of_a_jacobian_share_the_draws() -> None:
    """Where the draw is outside of ``vmap``; inside, each row would need its own."""
    q, k, v = drawn("float64", (3, 4), (5, 4), (5, 2))

    @seeded
    def mean(q):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)

    slopes = hy.jacobian(mean)(q)
    assert same(hy.hybridize(hy.jacobian(mean))(q), slopes)
    for i in range(3):
        for j in range(2):
            want = hy.grad(lambda q, i=i, j=j: mean(q)[i, j])(q)
            np.testing.assert_allclose(slopes[i, j].numpy(), want.numpy(), atol=1e-12)
    with pytest.raises(ArgumentError, match="random numbers were drawn inside vmap"):
        hy.vmap(lambda q: F.scaled_dot_product_attention(q, k, v, dropout_p=0.4))(ops.stack([q, q]))


def test_a_step_never_holds_all_weights(tmp_path) -> None:
    """A step of 4 heads and 1,024 queries and keys, whose scores alone would be 16 MB."""
    script = """
    import hybrid as hy
    from hybrid.memory import native
    from hybrid.nn import functional as F

    x = hy.random.normal(size=(3, 1, 4, 1024, 16))

    def loss(x):
        y = F.scaled_dot_product_attention(*x, dropout_p=0.1, is_causal=CAUSAL)
        return hy.sum(y * y)

    step = hy.grad(loss)
    for run in (step, hy.hybridize(step)):
        run(x)
    print(native.memory()["peak_bytes"])
    """
    for causal in (False, True):
        text = dedent(script).replace("CAUSAL", str(causal))
        command = [sys.executable, "-c", text]
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert int(run.stdout) < 8 << 20


@pytest.mark.parametrize("rate", [1.0, -0.1, math.nan])
def test_a_rate_that_is_none(rate) -> None:
    q, state = hy.ones((1, 2, 4)), hy.asarray([1, 2])
    with pytest.raises(HybridError, match="attention: the rate is"):
        dropped_mean(q, q, q, hy.zeros((1, 1, 1)), state, scale=1.0, causal=False, rate=rate)
