"""Quantized attention and recurrent networks: near those of floats, the same bits hybridized."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import quantize
from hybrid.compress.quantized_layers import QuantizedLinear

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "RNN": lambda: nn.RNN(16, 24),
    "RNN, relu": lambda: nn.RNN(16, 24, nonlinearity="relu", bias=False),
    "LSTM": lambda: nn.LSTM(16, 24, num_layers=2, bidirectional=True),
    "LSTM, projected": lambda: nn.LSTM(16, 24, proj_size=8, batch_first=True),
    "GRU": lambda: nn.GRU(16, 24),
    "RNNCell": lambda: nn.RNNCell(16, 24),
    "LSTMCell": lambda: nn.LSTMCell(16, 24, bias=False),
    "GRUCell": lambda: nn.GRUCell(16, 24),
}


def drawn(*shape: int) -> hy.Tensor:
    return hy.asarray(np.random.RandomState(3).randn(*shape).astype(np.float32))


def flat(found: Any) -> np.ndarray:
    parts = found if isinstance(found, tuple) else (found,)
    parts = [p for part in parts for p in (part if isinstance(part, tuple) else (part,))]
    return np.concatenate([p.numpy().ravel() for p in parts if p is not None])


def cosine(one: Any, other: Any) -> float:
    a, b = flat(one), flat(other)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers(name: str) -> None:
    hy.random.seed(1)
    layer = LAYERS[name]()
    x = drawn(5, 16) if name.endswith("Cell") else drawn(7, 5, 16)
    made = quantize(layer)
    found = made(x)
    assert cosine(layer(x), found) > 0.999
    made.hybridize()
    for _ in range(2):
        assert (flat(made(x)) == flat(found)).all()
    weights = [n for n, _ in layer.named_parameters() if "weight" in n]
    state = made.state_dict()
    for weight in weights:
        assert state[f"{weight}_q"].dtype is hy.int8
        near = getattr(made, weight).numpy() - getattr(layer, weight).numpy()
        assert np.abs(near).max() <= np.abs(getattr(layer, weight).numpy()).max() / 127
    assert set(state) == {n for n, _ in layer.named_parameters() if n not in weights} | {
        f"{w}{end}" for w in weights for end in ("_q", "_scale")
    }
    assert repr(made).endswith("dynamic, bits=8)")
    with pytest.raises(AttributeError, match="has no attribute 'weigth'"):
        made.weigth  # noqa: B018


@pytest.mark.parametrize(
    "options", [{}, {"kdim": 5, "vdim": 6}, {"bias": False, "add_bias_kv": True}]
)
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_attention(options: dict[str, Any], itself: bool, per_channel: bool) -> None:
    hy.random.seed(2)
    layer = nn.MultiheadAttention(16, 4, **options).eval()
    made = quantize(layer, per_channel=per_channel)
    assert isinstance(made.out_proj, QuantizedLinear)
    x = drawn(7, 3, 16)
    if itself and not options.get("kdim"):
        given = (x, x, x)
    else:
        given = (x, drawn(9, 3, options.get("kdim", 16)), drawn(9, 3, options.get("vdim", 16)))
    found = made(*given, need_weights=False)
    assert cosine(layer(*given)[0], found[0]) > 0.999
    made.hybridize()
    for _ in range(2):
        assert (flat(made(*given, need_weights=False)) == flat(found)).all()


def test_a_transformer_that_is_static_has_dynamic_attention() -> None:
    hy.random.seed(2)
    layer, x = nn.TransformerEncoderLayer(16, 4, 32).eval(), drawn(7, 3, 16)
    made = quantize(layer, "static", data=[x])
    methods = {
        name: part.scheme.method for name, part in made.named_modules() if hasattr(part, "scheme")
    }
    assert methods == {
        "self_attn": "dynamic", "self_attn.out_proj": "dynamic", "linear1": "static",
        "linear2": "static",
    }  # fmt: skip
    assert cosine(layer(x), made(x)) > 0.999
    kept = quantize(layer, skip=["self_attn"])
    assert type(kept.self_attn) is nn.MultiheadAttention
    assert type(kept.self_attn.out_proj) is nn.Linear
    assert type(layer.self_attn) is nn.MultiheadAttention
