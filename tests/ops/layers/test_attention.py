"""Attention and embeddings against NumPy, their masks and their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
)
from hybrid.nn import functional as F
from hybrid.ops.support.sampling import Draw
from tests.helpers import same


def expected(q, k, v, mask=None, scale=None):
    """In float64; ``mask`` is added."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores if mask is None else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1.0, total) @ v


def drawn(dtype, *shapes, seed=1):
    draw = Draw(seed)
    return [draw(dtype, *shape) for shape in shapes]


SHAPES = [
    ((5, 4), (7, 4), (7, 3)),
    ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
    ((2, 3, 5, 4), (1, 3, 7, 4), (3, 7, 2)),
    ((1, 8), (6, 8), (6, 1)),
]


@pytest.mark.parametrize("dtype", Draw.floats)
@pytest.mark.parametrize("shapes", SHAPES)
def test_attention_as_numpy(dtype, shapes) -> None:
    q, k, v = drawn(dtype, *shapes)
    length, size = q.shape[-2], k.shape[-2]
    bools = Draw(2)("bool", length, size)
    bools[0] = False  # takes part in nothing
    causal = np.where(np.tril(np.ones((length, size), bool)), 0.0, -np.inf)
    added = np.where(bools, Draw(3)(dtype, length, size), -np.inf).astype(dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for found, want in [
        (F.scaled_dot_product_attention(q, k, v), expected(q, k, v)),
        (F.scaled_dot_product_attention(q, k, v, scale=0.3), expected(q, k, v, scale=0.3)),
        (F.scaled_dot_product_attention(q, k, v, is_causal=True), expected(q, k, v, causal)),
        (
            F.scaled_dot_product_attention(q, k, v, bools),
            expected(q, k, v, np.where(bools, 0.0, -np.inf)),
        ),
        (F.scaled_dot_product_attention(q, k, v, added), expected(q, k, v, added)),
        (
            F.scaled_dot_product_attention(q, k, v, bools[:1] | True),
            expected(q, k, v),
        ),
        (F.scaled_dot_product_attention(q, k, v, np.array(False)), expected(q, k, v) * 0),
    ]:
        assert found.dtype.name == dtype
        np.testing.assert_allclose(found.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(300, 450, 24, 40), (450, 300, 5, 64), (1, 600, 64, 64)])
def test_many_blocks_of_queries_and_keys(sizes, causal) -> None:
    length, size, features, width = sizes
    shapes = [(2, length, features), (2, size, features), (2, size, width)]
    q, k, v = drawn("float32", *shapes)
    mask = np.where(np.tri(length, size, dtype=bool) | (not causal), 0.0, -np.inf)
    found = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    np.testing.assert_allclose(found.numpy(), expected(q, k, v, mask), rtol=1e-4, atol=1e-5)

    def loss(function):
        return lambda *xs: hy.sum(function(*xs) ** 2)

    def fused(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def composed(q, k, v):
        return hy.matmul(weights_of(q, k, hy.asarray(mask.astype("float32"))), v)

    operands = [hy.asarray(x) for x in (q, k, v)]
    got = hy.grad(loss(fused), argnums=(0, 1, 2))(*operands)
    want = hy.grad(loss(composed), argnums=(0, 1, 2))(*operands)
    for slope, other in zip(got, want, strict=True):
        np.testing.assert_allclose(slope.numpy(), other.numpy(), rtol=1e-3, atol=1e-4)


def weights_of(q, k, mask):
    scores = hy.matmul(q * (1 / math.sqrt(q.shape[-1])), hy.matrix_transpose(k)) + mask
    return F.softmax(scores, -1)


MASKS = [(2, 3, 200, 150), (200, 150), (2, 1, 1, 150), (3, 200, 1), (1, 3, 200, 150), (150,)]


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_masks_of_many_blocks_and_their_gradients(shape, kind) -> None:
    q, k, v = (hy.asarray(x) for x in drawn("float32", *[(2, 3, n, 24) for n in (200, 150, 150)]))
    hidden = Draw(7)("bool", *shape) & (np.arange(shape[-1]) > 0)
    added = np.where(hidden, -np.inf, 0 if kind == "bool" else Draw(8)("float32", *shape))
    added = added.astype("float32")
    mask = hy.asarray(~hidden if kind == "bool" else added)

    def fused(q, k, v, mask):
        return hy.sum(F.scaled_dot_product_attention(q, k, v, mask) ** 2)

    def composed(q, k, v, mask):
        return hy.sum(hy.matmul(weights_of(q, k, mask), v) ** 2)

    of = (0, 1, 2) if kind == "bool" else (0, 1, 2, 3)
    got = hy.value_and_grad(fused, argnums=of)(q, k, v, mask)
    want = hy.value_and_grad(composed, argnums=of)(q, k, v, hy.asarray(added))
    planned = hy.hybridize(hy.value_and_grad(fused, argnums=of))(q, k, v, mask)
    for slope, other, again in zip(
        [got[0], *got[1]], [want[0], *want[1]], [planned[0], *planned[1]], strict=True
    ):
        np.testing.assert_allclose(slope.numpy(), other.numpy(), rtol=1e-3, atol=1e-4)
        assert same(slope, again)


def test_masks_of_five_axes() -> None:
    q, k, v = drawn("float64", *[(2, 2, 3, n, 4) for n in (5, 7, 7)])
    for shape in [(2, 1, 3, 5, 7), (3, 5, 7), (1, 1, 1, 5, 7), (2, 2, 1, 1, 1)]:
        mask = Draw(4)("float64", *shape)
        found = F.scaled_dot_product_attention(q, k, v, mask)
        np.testing.assert_allclose(found.numpy(), expected(q, k, v, mask), rtol=1e-12, atol=1e-12)


def test_masked_attention_never_holds_all_scores() -> None:
    """The ops of a captured call: one that takes the mask as it is."""
    q = hy.zeros((2, 4, 64, 8))
    call = hy.hybridize(lambda q, mask: F.scaled_dot_product_attention(q, q, q, mask))
    text = str(call.graph(q, hy.ones((2, 1, 1, 64), dtype=hy.bool)))
    assert "attention_masked" in text and "[2,4,64,64]" not in text


@pytest.mark.parametrize("hide", [False, -math.inf])
def test_hidden_keys_are_not_seen(hide) -> None:
    """Neither a missing number in them nor an infinite one gets into the mean."""
    q, k, v = drawn("float32", (4, 8), (4, 8), (4, 3))
    k[2, 0], k[3, 0] = np.nan, np.inf
    mask = np.full((4, 4), True if hide is False else 0.0, bool if hide is False else np.float32)
    mask[:2, 2:] = hide
    found = F.scaled_dot_product_attention(q, k, v, mask).numpy()
    assert np.isfinite(found[:2]).all() and np.isnan(found[2:]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_bits_of_attention_depend_on_neither_threads_nor_capture(causal) -> None:
    """Nor on whether the operands are views of one product, or copies."""
    x = hy.asarray(drawn("float32", (2, 200, 3, 4, 16))[0])

    def step(x):
        def loss(x):
            q, k, v = hy.permute_dims(x, (2, 0, 3, 1, 4))
            return hy.sum(F.scaled_dot_product_attention(q, k, v, is_causal=causal) ** 2)

        return loss(x), hy.grad(loss)(x)

    eager, threads = step(x), hy.num_threads()
    try:
        for count in (1, 2, 4):
            hy.set_num_threads(count)
            for got, want in zip(hy.hybridize(step)(x), eager, strict=True):
                assert same(got, want)
    finally:
        hy.set_num_threads(threads)


def test_masked_scores_that_overflow_are_not_seen() -> None:
    """An infinite or missing number in a key counts for those queries only that may see it."""
    q, k, v = drawn("float32", (4, 8), (4, 8), (4, 3))
    k[2, 0] = np.nan
    found = F.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
    assert np.isfinite(found[:2]).all() and np.isnan(found[2:]).all()


def test_heads_that_are_shared() -> None:
    q, k, v = drawn("float64", (2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 3))
    want = expected(q, k.repeat(3, 1), v.repeat(3, 1))
    found = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    with pytest.raises(ShapeError):
        F.scaled_dot_product_attention(q, k, v)


def test_no_keys_and_no_queries() -> None:
    found = F.scaled_dot_product_attention(hy.ones((2, 4)), hy.ones((0, 4)), hy.ones((0, 3)))
    assert found.tolist() == [[0.0] * 3] * 2
    found = F.scaled_dot_product_attention(hy.ones((0, 4)), hy.ones((2, 4)), hy.ones((2, 3)))
    assert found.shape == (0, 3)


@pytest.mark.parametrize("masked", [False, True])
def test_derivatives_of_attention(masked) -> None:
    operands = [hy.asarray(x) for x in drawn("float64", (2, 3, 4), (2, 3, 4), (2, 3, 2))]
    mask = np.array([[True, False, True], [False, False, False], [True, True, False]])

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask if masked else None)

    hy.check_grads(function, *operands, order=2, rtol=1e-4, atol=1e-5)


def test_masked_rows_give_no_nan() -> None:
    q, k, v = (hy.asarray(x) for x in drawn("float32", (2, 4), (3, 4), (3, 2)))
    mask = hy.asarray(np.array([[-math.inf] * 3, [0.0, -math.inf, 0.5]], np.float32))

    def loss(q, k, v, mask):
        return hy.sum(F.scaled_dot_product_attention(q, k, v, mask) ** 2)

    for slope in hy.grad(loss, argnums=(0, 1, 2, 3))(q, k, v, mask):
        assert np.isfinite(slope.numpy()).all()


def test_hybridized_attention_gives_the_bits_of_eager() -> None:
    operands = [hy.asarray(x) for x in drawn("float32", (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2))]
    mask = hy.asarray(Draw(5)("bool", 2, 1, 5, 6))

    def step(q, k, v, mask):
        def loss(q, k, v):
            hy.random.seed(3)
            y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.25)
            return hy.sum((y + F.scaled_dot_product_attention(q, k, v, is_causal=True)) ** 2)

        return hy.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)

    (eager, slopes), (planned, others) = step(*operands, mask), hy.hybridize(step)(*operands, mask)
    assert same(eager, planned)
    assert all(same(a, b) for a, b in zip(slopes, others, strict=True))


def test_dropped_weights_keep_the_mean() -> None:
    hy.random.seed(1)
    q, k, v = hy.zeros((2000, 1)), hy.zeros((50, 1)), hy.ones((50, 1))
    found = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4).numpy()
    assert abs(found.mean() - 1) < 0.01 and found.std() > 0.05


# Embeddings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)])
def test_embedding(shape) -> None:
    table, indices = Draw(1)("float32", 7, 3), Draw(2)("int32", *shape, low=0, high=6)
    found = F.embedding(indices, table)
    np.testing.assert_array_equal(found.numpy(), table[indices])
    np.testing.assert_array_equal(F.embedding(indices, table, padding_idx=2).numpy(), found.numpy())


@pytest.mark.parametrize("padding", [None, 1, -3, 0])
def test_the_padding_gets_no_gradient(padding) -> None:
    indices = np.array([[1, 2, 1], [0, 3, -3]])
    weight = hy.asarray(Draw(3)("float64", 4, 2))
    factor = hy.asarray(Draw(4)("float64", 2, 3, 2))

    def loss(weight):
        return hy.sum(F.embedding(indices, weight, padding) * factor)

    want = np.zeros((4, 2))
    np.add.at(want, indices, factor.numpy())
    if padding is not None:
        want[padding] = 0
    np.testing.assert_allclose(hy.grad(loss)(weight).numpy(), want)
    assert same(hy.grad(loss)(weight), hy.hybridize(hy.grad(loss))(weight))
    if padding is None:
        hy.check_grads(lambda w: F.embedding(indices, w) ** 2, weight, order=2)


@pytest.mark.parametrize("index", [4, -5, 2**40])
def test_an_index_outside_the_table(index) -> None:
    for run in (F.embedding, hy.hybridize(lambda i, w: F.embedding(i, w))):
        with pytest.raises(OutOfRangeError, match=rf"index {index} .* an axis of size 4"):
            run(hy.asarray([0, index]), hy.ones((4, 2)))


Q, K, V = drawn("float32", (2, 3, 4), (2, 5, 4), (2, 5, 6))
sdpa = F.scaled_dot_product_attention
ERRORS = {
    "features": (lambda: sdpa(Q, K[..., :3], V), ShapeError, "queries have 4 features, the keys 3"),
    "keys": (lambda: sdpa(Q, K, V[:, :4]), ShapeError, "There are 5 keys and 4 values"),
    "rank": (lambda: sdpa(Q[0, 0], K, V), ShapeError, "two dimensions at least"),
    "batch": (lambda: sdpa(np.repeat(Q, 2, 0)[:3], K, V), ShapeError, "2 and 3|3 and 2"),
    "ints": (lambda: sdpa(*(x.astype(np.int64) for x in (Q, K, V))), DTypeError, "cannot take i64"),
    "both": (lambda: sdpa(Q, K, V, np.ones((3, 5), bool), is_causal=True), ArgumentError, "attn_"),
    "mask": (lambda: sdpa(Q, K, V, np.ones((4, 5), bool)), ShapeError, r"scores, \[2, 3, 5\]"),
    "wide mask": (lambda: sdpa(Q, K, V, np.ones((1, 2, 3, 5), bool)), ShapeError, "cannot use a"),
    "int mask": (lambda: sdpa(Q, K, V, np.ones((3, 5), int)), ArgumentTypeError, "of dtype int64"),
    "scale": (lambda: sdpa(Q, K, V, scale="a"), ArgumentTypeError, "got scale 'a'"),
    "dropout": (lambda: sdpa(Q, K, V, dropout_p=1.5), ArgumentError, "a probability of 1.5"),
    "heads": (
        lambda: sdpa(hy.ones((3, 2, 4)), hy.ones((2, 2, 4)), hy.ones((2, 2, 4)), enable_gqa=True),
        ShapeError,
        "cannot share 2 heads of key among 3",
    ),
    "no heads": (lambda: sdpa(Q[0], K[0], V[0], enable_gqa=True), ShapeError, "with enable_gqa"),
    "index": (lambda: F.embedding(np.array([1.0]), V[0]), DTypeError, "embedding got indices"),
    "table": (lambda: F.embedding(np.array([1]), V), ShapeError, "embedding cannot take f32"),
    "padding": (lambda: F.embedding(np.array([1]), V[0], 5), OutOfRangeError, "padding_idx 5"),
    "float": (lambda: F.embedding(np.array([1]), V[0], 1.0), ArgumentTypeError, "padding_idx 1.0"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_operands_may_lie_backwards_in_a_plan(lead: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    q, k, v, mask = (
        hy.asarray(random.standard_normal(shape).astype(np.float32))
        for shape in ((*lead, 5, 8), (*lead, 7, 8), (*lead, 7, 8), (5, 7))
    )

    def attend(q, k, v, mask):
        given = [hy.flip(x, axis=0) for x in (q, k, v, mask)]
        return F.scaled_dot_product_attention(*given[:3], attn_mask=given[3])

    def loss(*operands):
        return hy.sum(attend(*operands) ** 2)

    gradients = hy.grad(loss, argnums=(0, 1, 2, 3))
    assert same(hy.hybridize(attend)(q, k, v, mask), attend(q, k, v, mask))
    for found, expected in zip(
        hy.hybridize(lambda *x: gradients(*x))(q, k, v, mask), gradients(q, k, v, mask), strict=True
    ):
        assert same(found, expected)
