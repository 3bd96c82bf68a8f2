"""Transformers: where the norms are, masks, copies of layers, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from tests.helpers import same, tensor
from tests.nn import stateful_cases as cases

OPTIONS = {"dim_feedforward": 16, "dropout": 0.0, "batch_first": True}
SOURCE, TARGET = tensor(2, 5, 8), tensor(2, 3, 8, seed=1)
LATER = np.triu(np.ones((3, 3), bool), 1)


def state(module):
    return {name: t.numpy().astype(np.float64) for name, t in module.state_dict().items()}


def test_norms_first() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, norm_first=True, **OPTIONS)
    s, x = state(layer), SOURCE.numpy().astype(np.float64)
    normal = cases.norm(s, "norm1", x)
    x = x + cases.multihead(s, normal, normal, normal, "self_attn.")[0]
    x = x + cases.fed(s, "", cases.norm(s, "norm2", x))
    np.testing.assert_allclose(layer(SOURCE).numpy(), x, rtol=1e-4, atol=1e-5)


def test_norms_first_in_the_decoder() -> None:
    layer = nn.TransformerDecoderLayer(8, 2, norm_first=True, **OPTIONS)
    s, x = state(layer), TARGET.numpy().astype(np.float64)
    memory = SOURCE.numpy().astype(np.float64)
    normal = cases.norm(s, "norm1", x)
    x = x + cases.multihead(s, normal, normal, normal, "self_attn.")[0]
    normal = cases.norm(s, "norm2", x)
    x = x + cases.multihead(s, normal, memory, memory, "multihead_attn.")[0]
    x = x + cases.fed(s, "", cases.norm(s, "norm3", x))
    np.testing.assert_allclose(layer(TARGET, SOURCE).numpy(), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", hy.tanh])
def test_activations(activation) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, activation=activation, **OPTIONS)
    x = tensor(2, 3, 8)
    hidden = layer.linear1(x)
    active = nn.functional.gelu(hidden) if activation == "gelu" else hy.tanh(hidden)
    assert same(layer._fed_forward(x), layer.linear2(active))


def test_causal_masks() -> None:
    model = nn.Transformer(8, 2, 1, 2, **OPTIONS)
    mask = model.generate_square_subsequent_mask(3)
    assert mask.dtype is hy.float32
    np.testing.assert_array_equal(mask.numpy(), np.where(LATER, -np.inf, 0))
    y = model(SOURCE, TARGET, tgt_mask=mask)
    assert same(y, model(SOURCE, TARGET, tgt_mask=hy.asarray(LATER)))
    assert same(y, model(SOURCE, TARGET, tgt_is_causal=True))
    changed = hy.concat([TARGET[:, :2], TARGET[:, 2:] + 1], axis=1)
    assert same(model(SOURCE, changed, tgt_mask=mask)[:, :2], y[:, :2])
    assert not same(model(SOURCE, changed)[:, :2], model(SOURCE, TARGET)[:, :2])


def test_padding_is_not_seen() -> None:
    model = nn.Transformer(8, 2, 1, 1, **OPTIONS)
    padding = hy.asarray(np.array([[False] * 3 + [True] * 2] * 2))
    masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    other = hy.concat([SOURCE[:, :3], SOURCE[:, 3:] * 7], axis=1)
    y = model(SOURCE, TARGET, **masks)
    assert same(y, model(other, TARGET, **masks))
    cut = model(SOURCE[:, :3], TARGET)
    np.testing.assert_allclose(y.numpy(), cut.numpy(), rtol=1e-4, atol=1e-5)


def test_layers_are_copies_of_their_own() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, **OPTIONS)
    encoder = nn.TransformerEncoder(layer, 2)
    first, second = encoder.layers
    assert first.linear1.weight is not second.linear1.weight
    assert same(first.linear1.weight, second.linear1.weight)
    assert len(list(encoder.parameters())) == 2 * len(list(layer.parameters()))


def test_training_drops_weights_inside_of_attention() -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)

    def loss(source, target):
        hy.random.seed(2)
        return hy.sum(model(source, target, tgt_is_causal=True) ** 2)

    step = hy.hybridize(hy.value_and_grad(loss, argnums=(0, 1)))
    text = str(step.graph(SOURCE, TARGET))
    assert text.count(" = attention_dropped ") == text.count(" = attention_dropped_pull ") == 3
    assert " softmax " not in text
    (found, slopes), (eager, others) = (
        step(SOURCE, TARGET),
        hy.value_and_grad(loss, argnums=(0, 1))(SOURCE, TARGET),
    )
    assert same(found, eager) and all(map(same, slopes, others))


def test_matrices_start_by_xavier() -> None:
    hy.random.seed(0)
    model = nn.Transformer(32, 2, 1, 1, 64)
    for name, parameter in model.named_parameters():
        values = parameter.numpy()
        if values.ndim > 1:
            bound = np.sqrt(6 / sum(values.shape))
            assert 0.95 * bound < np.abs(values).max() <= bound, name


def test_without_bias() -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, bias=False)
    assert not [name for name, _ in model.named_parameters() if "bias" in name]


def test_a_model_of_ones_own_in_place_of_the_encoder() -> None:
    class Double(nn.Module):
        def forward(self, src, **masks):
            return src * 2

    model = nn.Transformer(8, 2, 1, 1, custom_encoder=Double(), **OPTIONS)
    assert same(model(SOURCE, TARGET), model.decoder(TARGET, SOURCE * 2))


ERRORS = [
    (
        lambda: nn.TransformerEncoderLayer(8, 2, activation="swish"),
        'activation=\'swish\' is unknown\nFix: use "relu" or "gelu".',
    ),
    (
        lambda: nn.TransformerEncoder(3, 2),
        "a int is not a layer\nFix: pass a hybrid.nn.Module.",
    ),
    (
        lambda: nn.TransformerDecoder(nn.Identity(), -1),
        "num_layers is -1\nFix: give an int >= 0.",
    ),
    (
        lambda: nn.Transformer(8, 2, 1, 1, **OPTIONS)(tensor(2, 5, 8), tensor(3, 5, 8)),
        "Transformer cannot take f32[2,5,8] and f32[3,5,8]\nBoth have the same batch.\n"
        "Fix: change a shape.",
    ),
    (
        lambda: nn.Transformer.generate_square_subsequent_mask(-1),
        "a mask of size -1\nFix: give an int >= 0.",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message) -> None:
    with pytest.raises(hy.HybridError) as caught:
        call()
    assert str(caught.value) == message
