"""Attention of several heads: its masks, its options, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from tests.helpers import same, tensor
from tests.nn import references as ref

RANDOM = np.random.default_rng(11)
Q, K, V = (
    RANDOM.standard_normal(shape).astype(np.float32) for shape in [(2, 3, 8)] + [(2, 5, 8)] * 2
)
PADDING = np.array([[False] * 5, [False, False, True, True, True]])
PAIRS = np.array([[j > i + 1 for j in range(5)] for i in range(3)])
EACH = RANDOM.random((4, 3, 5)) < 0.4
EACH[..., 0] = False
LAYER = nn.MultiheadAttention(8, 2, batch_first=True)


def expected(layer, q, k, v, left_out=None, more=()):
    s = {name: t.numpy().astype(np.float64) for name, t in layer.state_dict().items()}
    if "in_proj_weight" in s:
        weights = np.split(s["in_proj_weight"], 3)
    else:
        weights = [s[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(s["in_proj_bias"], 3) if "in_proj_bias" in s else [0.0] * 3
    out = s["out_proj.weight"], s.get("out_proj.bias", 0.0)
    return ref.attention(q, k, v, 2, weights, biases, out, left_out, more)


def agree(found, wanted) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-4, atol=1e-5)


MASKS = [
    ({}, None),
    ({"key_padding_mask": PADDING}, PADDING[:, None, None]),
    ({"attn_mask": PAIRS}, PAIRS),
    ({"attn_mask": EACH}, EACH.reshape(2, 2, 3, 5)),
    ({"attn_mask": PAIRS, "key_padding_mask": PADDING}, PAIRS | PADDING[:, None, None]),
    ({"attn_mask": np.where(PAIRS, -np.inf, 0).astype(np.float32)}, PAIRS),
    (
        {
            "attn_mask": np.where(PAIRS, -np.inf, 0).astype(np.float32),
            "key_padding_mask": PADDING,
        },
        PAIRS | PADDING[:, None, None],
    ),
    ({"is_causal": True}, np.array([[j > i for j in range(5)] for i in range(3)])),
    ({"is_causal": True, "attn_mask": PAIRS}, PAIRS),  # a hint: the mask is taken
]


@pytest.mark.parametrize(("masks", "left_out"), MASKS)
def test_masks(masks, left_out) -> None:
    y, shares = expected(LAYER, Q, K, V, left_out)
    given = {k: hy.asarray(m) if isinstance(m, np.ndarray) else m for k, m in masks.items()}
    inputs = [hy.asarray(x) for x in (Q, K, V)]
    agree(LAYER(*inputs, **given), (y, shares.mean(1)))
    agree(LAYER(*inputs, average_attn_weights=False, **given), (y, shares))
    alone, nothing = LAYER(*inputs, need_weights=False, **given)
    assert nothing is None
    np.testing.assert_allclose(alone.numpy(), y, rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_nothing_finds_nothing() -> None:
    mask = hy.asarray(np.array([[True] * 5] * 2 + [[False] * 5]))
    y, shares = LAYER(*[hy.asarray(x) for x in (Q, K, V)], attn_mask=mask)
    assert not shares.numpy()[:, :2].any() and shares.numpy()[:, 2].all()
    bias = LAYER.out_proj.bias.numpy()
    np.testing.assert_allclose(y.numpy()[:, :2], np.broadcast_to(bias, (2, 2, 8)), atol=1e-6)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"bias": False},
        {"kdim": 6, "vdim": 4},
        {"kdim": 6},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "kdim": 6},
    ],
)
def test_options(options, batch_first) -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first, **options)
    k, v = K[..., : options.get("kdim", 8)], V[..., : options.get("vdim", 8)]
    padding, more = PADDING, []
    if "add_bias_kv" in options:
        more.append((layer.bias_k.numpy()[0, 0], layer.bias_v.numpy()[0, 0]))
    if "add_zero_attn" in options:
        more.append((np.zeros(8), np.zeros(8)))
    left_out = np.pad(padding, [(0, 0), (0, len(more))])[:, None, None]
    wanted, shares = expected(layer, Q, k, v, left_out, more)
    inputs = [hy.asarray(x if batch_first else x.swapaxes(0, 1)) for x in (Q, k, v)]
    y, weights = layer(*inputs, key_padding_mask=hy.asarray(padding))
    agree((y, weights), (wanted if batch_first else wanted.swapaxes(0, 1), shares.mean(1)))


def test_parameters_of_the_options() -> None:
    def names(**options):
        layer = nn.MultiheadAttention(8, 2, **options)
        return {name: t.shape for name, t in layer.named_parameters()}

    out = {"out_proj.weight": (8, 8), "out_proj.bias": (8,)}
    whole = {"in_proj_weight": (24, 8), "in_proj_bias": (24,)}
    assert names(add_bias_kv=True) == whole | out | {"bias_k": (1, 1, 8), "bias_v": (1, 1, 8)}
    assert names(bias=False) == {"in_proj_weight": (24, 8), "out_proj.weight": (8, 8)}
    assert names(kdim=6, vdim=4) == {
        "q_proj_weight": (8, 8),
        "k_proj_weight": (8, 6),
        "v_proj_weight": (8, 4),
        "in_proj_bias": (24,),
        **out,
    }


def test_without_a_batch() -> None:
    inputs = [hy.asarray(x) for x in (Q, K, V)]
    y, shares = LAYER(*inputs, key_padding_mask=hy.asarray(PADDING))
    one, weights = LAYER(*[x[1] for x in inputs], key_padding_mask=hy.asarray(PADDING[1]))
    np.testing.assert_allclose(one.numpy(), y[1].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights.numpy(), shares[1].numpy(), rtol=1e-5, atol=1e-6)
    x, other = inputs[0], inputs[0] + 1
    one = x[0]
    alone, _ = LAYER(one, one, other[0])
    np.testing.assert_allclose(alone.numpy(), LAYER(x, x, other)[0][0].numpy(), atol=1e-6)
    own, _ = LAYER(one, one, one)
    np.testing.assert_allclose(own.numpy(), LAYER(*[inputs[0]] * 3)[0][0].numpy(), atol=1e-6)


def test_dropout_of_the_weights() -> None:
    layer = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
    inputs = [hy.asarray(x) for x in (Q, K, V)]
    _, shares = layer(*inputs, average_attn_weights=False)
    full = layer.eval()(*inputs, average_attn_weights=False)[1]
    kept = shares.numpy() != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(shares.numpy()[kept], 2 * full.numpy()[kept], rtol=1e-5)


def test_training_never_holds_all_weights_nor_what_is_dropped_of_them() -> None:
    """A query drops the same keys whether its weights are asked for or not."""
    layer = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
    x = tensor(3, 70, 8)

    def loss(x, causal, weights):
        hy.random.seed(4)
        y, _ = layer(x, x, x, need_weights=weights, is_causal=causal)
        return hy.sum(y * y), y

    for causal in (False, True):
        slope = hy.grad(lambda x, causal=causal: loss(x, causal, False)[0])
        step = hy.hybridize(slope)
        text = str(step.graph(x))
        assert "attention_dropped_pull" in text and "70,70]" not in text
        assert same(step(x), slope(x))
        for a, b in zip(loss(x, causal, False), loss(x, causal, True), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_masks_have_the_same_bits_hybridized() -> None:
    twin = nn.MultiheadAttention(8, 2, batch_first=True).hybridize()
    twin.load_state_dict(LAYER.state_dict())
    inputs = [hy.asarray(x) for x in (Q, K, V)]
    masks = {"attn_mask": hy.asarray(PAIRS), "key_padding_mask": hy.asarray(PADDING)}
    assert all(map(same, LAYER(*inputs, **masks), twin(*inputs, **masks)))


def test_derivatives() -> None:
    layer = nn.MultiheadAttention(4, 2, dtype=hy.float64)
    x = RANDOM.standard_normal((3, 2, 4))
    hy.check_grads(lambda x: layer(x, x, x, is_causal=True)[0], x, order=2)


NAME = "multi_head_attention_forward"
ERRORS = [
    (
        lambda: nn.MultiheadAttention(8, 3),
        "MultiheadAttention cannot split embed_dim 8 among 3 heads\n"
        "Fix: give a number of heads that divides it.",
    ),
    (
        lambda: LAYER(tensor(2, 3, 4), tensor(2, 5, 8), tensor(2, 5, 8)),
        "multi_head_attention_forward cannot take f32[2,3,4], f32[2,5,8] and f32[2,5,8]\n"
        "MultiheadAttention got f32[2,3,4], f32[2,5,8], f32[2,5,8]; it takes [N, T, 8] or "
        "[T, 8]\n"
        "Fix: make it MultiheadAttention(embed_dim=4, ...), or change the shape of what it "
        "is given.",
    ),
    (
        lambda: nn.MultiheadAttention(8, 2)(tensor(2, 3, 8), tensor(2, 1, 8), tensor(2, 1, 8)),
        f"{NAME} cannot take f32[2,3,8], f32[2,1,8] and f32[2,1,8]\nQueries are [L, N, 8] or "
        "[L, 8], keys and values [S, N, ...] or [S, ...].\nFix: change a shape.",
    ),
    (
        lambda: LAYER(*[tensor(2, 3, 8)] * 3, attn_mask=hy.ones((2, 3), dtype=hy.bool)),
        f"{NAME} cannot use attn_mask bool[2,3]\nIt must be [3, 3] or [4, 3, 3].\n"
        "Fix: change its shape.",
    ),
    (
        lambda: LAYER(*[tensor(2, 3, 8)] * 3, key_padding_mask=hy.ones((3, 2), dtype=hy.bool)),
        f"{NAME} cannot use key_padding_mask bool[3,2]\nIt must be [2, 3].\nFix: change its shape.",
    ),
    (
        lambda: LAYER(*[tensor(2, 3, 8)] * 3, attn_mask=hy.ones((3, 3), dtype=hy.int64)),
        f"{NAME} got attn_mask i64[3,3]\nA mask is bool (True: left out) or floating (added to the "
        "scores).\nFix: compare it with something, or convert it with astype.",
    ),
    (
        lambda: nn.functional.multi_head_attention_forward(
            *[tensor(2, 3, 8)] * 3, 8, 3, *[None] * 4, False, 0.0, None, None
        ),
        f"{NAME} cannot split 8 features among 3 heads\n"
        "Fix: give a number of heads that divides it.",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message) -> None:
    with pytest.raises(hy.HybridError) as caught:
        call()
    assert str(caught.value) == message
