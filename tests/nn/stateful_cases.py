"""Further cases of layers: normalisation, tables, recurrence, attention and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid import nn
from tests.nn import references as ref
from tests.nn.layer_cases import SPATIAL, Case, draw, plain, whole

# Normalisation -----------------------------------------------------------------------------------

SQUARE = draw(4, 3)
STATISTICS = {"running_mean": (3,), "running_var": (3,), "num_batches_tracked": ()}
AFFINE = {"weight": (3,), "bias": (3,)}


def scaled(s: dict, y: Any) -> Any:
    return y * ref.channels(s["weight"], y.ndim) + ref.channels(s["bias"], y.ndim)


def by_running(s, x):
    """In evaluation: by the statistics, which the test has set to other numbers than 0 and 1."""
    mean, variance = (ref.channels(s[f"running_{k}"], x.ndim) for k in ("mean", "var"))
    return scaled(s, (x - mean) / np.sqrt(variance + 1e-5))


def batch_norm(rank: int, x: Any) -> list[Case]:
    layer = getattr(nn, f"BatchNorm{rank}d")
    axes = (0, *range(2, x.ndim))
    text = "3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True"
    parameters = AFFINE | STATISTICS
    return [
        Case(lambda: layer(3), (x,), by_running, parameters, f"BatchNorm{rank}d({text})"),
        Case(
            lambda: layer(3, momentum=None),
            (x,),
            lambda s, x: scaled(s, ref.normal(x, axes)),
            parameters,
            training=True,
        ),
        plain(
            lambda: layer(3, affine=False, track_running_stats=False),
            x,
            lambda x: ref.normal(x, axes),
        ),
    ]


def instance_norm(rank: int) -> list[Case]:
    layer, x = getattr(nn, f"InstanceNorm{rank}d"), SPATIAL[rank]
    text = "3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False"
    axes = tuple(range(2, x.ndim))
    return [
        plain(lambda: layer(3), x, lambda x: ref.normal(x, axes), f"InstanceNorm{rank}d({text})"),
        plain(lambda: layer(3), x[0], lambda x: ref.normal(x, tuple(range(1, x.ndim)))),
        Case(
            lambda: layer(3, affine=True, track_running_stats=True),
            (x,),
            by_running,
            AFFINE | STATISTICS,
        ),
    ]


def without_bias(s, x):
    return ref.normal(x, (2,)) * s["weight"].reshape(3, 1)


def rms(s, x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.finfo(np.float32).eps) * s["weight"]


def local_response(x):
    squares = np.pad(x * x, [(0, 0), (1, 1), (0, 0), (0, 0)])
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(3))
    return x / (1 + 1e-4 / 3 * sums) ** 0.75


def grouped(s, x):
    return scaled(s, ref.normal(x.reshape(2, 3, -1), (2,)).reshape(x.shape))


NORMS = [
    *batch_norm(1, SQUARE),
    *[case for rank in (1, 2, 3) for case in batch_norm(rank, SPATIAL[rank])],
    *[case for rank in (1, 2, 3) for case in instance_norm(rank)],
    Case(
        lambda: nn.LayerNorm((5, 4)),
        (SPATIAL[2],),
        lambda s, x: ref.normal(x, (2, 3)) * s["weight"] + s["bias"],
        {"weight": (5, 4), "bias": (5, 4)},
        "LayerNorm((5, 4), eps=1e-05, elementwise_affine=True)",
    ),
    *[
        Case(
            make,
            (SPATIAL[1],),
            lambda s, x: ref.normal(x, (2,)) * s["weight"].reshape(3, 1),
            {"weight": (3,)},
        )
        for make in (
            lambda: nn.GroupNorm(3, 3, bias=False),
            lambda: nn.InstanceNorm1d(3, affine=True, bias=False),
        )
    ],
    Case(
        lambda: nn.LayerNorm(3, bias=False),
        (SQUARE,),
        lambda s, x: ref.normal(x, (1,)) * s["weight"],
        {"weight": (3,)},
    ),
    Case(
        lambda: nn.RMSNorm(3),
        (SQUARE,),
        rms,
        {"weight": (3,)},
        "RMSNorm((3,), eps=None, elementwise_affine=True)",
    ),
    Case(
        lambda: nn.GroupNorm(3, 6),
        (np.repeat(SPATIAL[2], 2, 1) + draw(2, 6, 1, 1),),
        grouped,
        {"weight": (6,), "bias": (6,)},
        "GroupNorm(3, 6, eps=1e-05, affine=True)",
    ),
    plain(
        lambda: nn.LocalResponseNorm(3),
        SPATIAL[2] * 50,
        local_response,
        "LocalResponseNorm(3, alpha=0.0001, beta=0.75, k=1.0)",
    ),
]

# Tables ------------------------------------------------------------------------------------------

INDICES = whole(6, 2, 3)
ITEMS, OFFSETS = np.array([1, 4, 4, 0, 2, 5]), np.array([0, 2, 2, 5])  # the second bag is empty
TABLE = {"weight": (6, 4)}


def bags(reduce, s, items, offsets):
    ends = [*offsets[1:], len(items)]
    rows = [s["weight"][items[a:b]] for a, b in zip(offsets, ends, strict=True)]
    return np.stack([reduce(r, 0) if len(r) else np.zeros(4) for r in rows])


TABLES = [
    Case(
        lambda: nn.Embedding(6, 4, padding_idx=-2),
        (INDICES,),
        lambda s, i: s["weight"][i],
        TABLE,
        "Embedding(6, 4, padding_idx=4)",
    ),
    *[
        Case(
            lambda mode=mode: nn.EmbeddingBag(6, 4, mode=mode),
            (ITEMS, OFFSETS),
            lambda s, i, o, reduce=reduce: bags(reduce, s, i, o),
            TABLE,
            f"EmbeddingBag(6, 4, mode='{mode}')",
        )
        for mode, reduce in (("sum", np.sum), ("mean", np.mean), ("max", np.max))
    ],
    *[
        Case(
            lambda mode=mode: nn.EmbeddingBag(6, 4, mode=mode),
            (INDICES,),
            lambda s, i, reduce=reduce: reduce(s["weight"][i], 1),
            TABLE,
        )
        for mode, reduce in (("sum", np.sum), ("mean", np.mean), ("max", np.max))
    ],
]

# Recurrence --------------------------------------------------------------------------------------

SEQUENCE, STATE = draw(5, 2, 3), draw(4, 2, 4)
KINDS = {"RNN": ("tanh", 1), "LSTM": ("lstm", 4), "GRU": ("gru", 3)}


def recurrent_parameters(gates: int, layers: int, directions: int, output: int, projected: bool):
    found = {}
    for layer in range(layers):
        entering = 3 if layer == 0 else output * directions
        for suffix in ("", "_reverse")[:directions]:
            found |= {
                f"weight_ih_l{layer}{suffix}": (gates * 4, entering),
                f"weight_hh_l{layer}{suffix}": (gates * 4, output),
                f"bias_ih_l{layer}{suffix}": (gates * 4,),
                f"bias_hh_l{layer}{suffix}": (gates * 4,),
            }
            if projected:
                found[f"weight_hr_l{layer}{suffix}"] = (output, 4)
    return found


def recurrent(
    kind: str, layers: int, directions: int, begin: Any = None, text: str = "", **given
) -> Case:
    mode, gates = KINDS[kind]
    mode = given.get("nonlinearity", mode)
    projected = given.get("proj_size", 0)
    output = projected or 4
    lstm = kind == "LSTM"

    def means(s, x, *state):
        state = state[0] if lstm and state else state
        if not state:
            sizes = [output, 4] if lstm else [output]
            state = [np.zeros((layers * directions, x.shape[1], n)) for n in sizes]
        y, ends = ref.recurrent(mode, s, x, layers, directions, state)
        return y, ends if lstm else ends[0]

    return Case(
        lambda: getattr(nn, kind)(3, 4, layers, bidirectional=directions == 2, **given),
        (SEQUENCE,) if begin is None else (SEQUENCE, begin),
        means,
        recurrent_parameters(gates, layers, directions, output, bool(projected)),
        text or None,
    )


def cell(kind: str, mode: str, gates: int, **given) -> Case:
    lstm = kind == "LSTM"
    state = (STATE[0], STATE[1]) if lstm else STATE[0]
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")

    def means(s, x, state):
        found = ref.cell(mode, x, state if lstm else (state,), *[s[n] for n in names])
        return found if lstm else found[0]

    return Case(
        lambda: getattr(nn, f"{kind}Cell")(3, 4, **given),
        (SEQUENCE[0], state),
        means,
        {n: (gates * 4, k)[: 2 if k else 1] for n, k in zip(names, (3, 4, 0, 0), strict=True)},
        f"{kind}Cell(3, 4{', nonlinearity=relu' if mode == 'relu' else ''})",
    )


RECURRENT = [
    recurrent("RNN", 1, 1, text="RNN(3, 4)"),
    recurrent("RNN", 2, 2, STATE, nonlinearity="relu"),
    recurrent("LSTM", 1, 1, (STATE[:1], STATE[1:2]), "LSTM(3, 4)"),
    recurrent("LSTM", 2, 2, text="LSTM(3, 4, num_layers=2, bidirectional=True)"),
    recurrent("LSTM", 2, 2, (STATE[..., :2], STATE), proj_size=2),
    recurrent("GRU", 1, 1, text="GRU(3, 4)"),
    recurrent("GRU", 2, 2, STATE),
    cell("RNN", "tanh", 1),
    cell("RNN", "relu", 1, nonlinearity="relu"),
    cell("LSTM", "lstm", 4),
    cell("GRU", "gru", 3),
]

# Attention ---------------------------------------------------------------------------------------

Q, K = draw(2, 3, 8), draw(2, 5, 8)


def multihead(s: dict, q: Any, k: Any, v: Any, prefix: str = "", left_out: Any = None) -> Any:
    """Batch first; the result and the weights of each head."""
    whole = np.split(s[f"{prefix}in_proj_weight"], 3)
    biases = np.split(s[f"{prefix}in_proj_bias"], 3)
    out = s[f"{prefix}out_proj.weight"], s[f"{prefix}out_proj.bias"]
    return ref.attention(q, k, v, 2, whole, biases, out, left_out)


def norm(s, name, x):
    return ref.normal(x, (-1,)) * s[f"{name}.weight"] + s[f"{name}.bias"]


def fed(s, prefix, x, activation=lambda x: np.maximum(x, 0)):
    hidden = activation(x @ s[f"{prefix}linear1.weight"].T + s[f"{prefix}linear1.bias"])
    return hidden @ s[f"{prefix}linear2.weight"].T + s[f"{prefix}linear2.bias"]


def encoder(s, x, prefix=""):
    x = norm(s, f"{prefix}norm1", x + multihead(s, x, x, x, f"{prefix}self_attn.")[0])
    return norm(s, f"{prefix}norm2", x + fed(s, prefix, x))


def decoder(s, x, memory, prefix="", later=None):
    found, _ = multihead(s, x, x, x, f"{prefix}self_attn.", later)
    x = norm(s, f"{prefix}norm1", x + found)
    found, _ = multihead(s, x, memory, memory, f"{prefix}multihead_attn.")
    x = norm(s, f"{prefix}norm2", x + found)
    return norm(s, f"{prefix}norm3", x + fed(s, prefix, x))


def transformer(s, source, target):
    memory = norm(s, "encoder.norm", encoder(s, source, "encoder.layers.0."))
    return norm(s, "decoder.norm", decoder(s, target, memory, "decoder.layers.0."))


def attention_parameters(prefix: str = "") -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}in_proj_weight": (24, 8),
        f"{prefix}in_proj_bias": (24,),
        f"{prefix}out_proj.weight": (8, 8),
        f"{prefix}out_proj.bias": (8,),
    }


def layer_parameters(prefix: str = "", decodes: bool = False) -> dict[str, tuple[int, ...]]:
    found = attention_parameters(f"{prefix}self_attn.")
    if decodes:
        found |= attention_parameters(f"{prefix}multihead_attn.")
    found |= {f"{prefix}linear1.weight": (16, 8), f"{prefix}linear1.bias": (16,)}
    found |= {f"{prefix}linear2.weight": (8, 16), f"{prefix}linear2.bias": (8,)}
    for number in range(1, 4 if decodes else 3):
        found |= norm_parameters(f"{prefix}norm{number}")
    return found


def norm_parameters(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (8,), f"{name}.bias": (8,)}


SMALL = {"dim_feedforward": 16, "dropout": 0.1, "batch_first": True}


def stack(count: int, norm: Any = None) -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, **SMALL), count, norm)


ATTENTION = [
    Case(
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        (Q, K, K + 1),
        lambda s, *x: (lambda y, w: (y, w.mean(1)))(*multihead(s, *x)),
        attention_parameters(),
    ),
    Case(lambda: nn.TransformerEncoderLayer(8, 2, **SMALL), (Q,), encoder, layer_parameters()),
    Case(
        lambda: nn.TransformerDecoderLayer(8, 2, **SMALL),
        (Q, K),
        decoder,
        layer_parameters(decodes=True),
    ),
    Case(
        lambda: stack(2, nn.LayerNorm(8)),
        (Q,),
        lambda s, x: norm(s, "norm", encoder(s, encoder(s, x, "layers.0."), "layers.1.")),
        layer_parameters("layers.0.") | layer_parameters("layers.1.") | norm_parameters("norm"),
    ),
    Case(
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, **SMALL), 1),
        (Q, K),
        lambda s, *x: decoder(s, *x, "layers.0."),
        layer_parameters("layers.0.", decodes=True),
    ),
    Case(
        lambda: nn.Transformer(8, 2, 1, 1, **SMALL),
        (K, Q),
        transformer,
        layer_parameters("encoder.layers.0.")
        | norm_parameters("encoder.norm")
        | layer_parameters("decoder.layers.0.", decodes=True)
        | norm_parameters("decoder.norm"),
    ),
]

# Dropout -----------------------------------------------------------------------------------------

DROPOUT = [
    plain(lambda: nn.Dropout(0.4), SPATIAL[2], lambda x: x, "Dropout(p=0.4, inplace=False)"),
    plain(nn.Dropout1d, SPATIAL[1], lambda x: x, "Dropout1d(p=0.5, inplace=False)"),
    plain(nn.Dropout2d, SPATIAL[2], lambda x: x),
    plain(nn.Dropout3d, SPATIAL[3], lambda x: x),
    plain(nn.AlphaDropout, SPATIAL[2], lambda x: x),
    plain(nn.FeatureAlphaDropout, SPATIAL[2], lambda x: x),
]
