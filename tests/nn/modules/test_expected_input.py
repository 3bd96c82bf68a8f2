"""A layer that is given another shape says what it takes and what to write, which then runs."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import HybridError, ShapeError
from hybrid.nn.modules.expected_input import refusal


class Row(NamedTuple):
    """A layer, a shape that it refuses, what it takes, and the argument that would take it."""

    layer: str
    arguments: dict[str, Any]
    came: tuple[int, ...]
    takes: str
    mended: dict[str, Any] | None = None
    inputs: int = 1


def conv(rank: int, **more: Any) -> dict[str, Any]:
    return {"in_channels": 3, "out_channels": 4, "kernel_size": 3, **more}


SPACE = {1: "L", 2: "H, W", 3: "D, H, W"}
ROWS = [
    Row("Linear", {"in_features": 31, "out_features": 5}, (4, 30), "[..., 31]",
        {"in_features": 30}),
    Row("Linear", {"in_features": 3, "out_features": 5}, (2, 4, 7), "[..., 3]",
        {"in_features": 7}),
    Row("Linear", {"in_features": 3, "out_features": 5}, (), "[..., 3]"),
    Row("Bilinear", {"in1_features": 3, "in2_features": 4, "out_features": 2}, (2, 4),
        "[..., 3]", {"in1_features": 4}, inputs=2),
    *[
        Row(f"{kind}{rank}d", conv(rank), (2, 4, *[9] * rank),
            f"[N, 3, {SPACE[rank]}] or [3, {SPACE[rank]}]", {"in_channels": 4})
        for kind in ("Conv", "ConvTranspose") for rank in SPACE
    ],
    Row("Conv2d", conv(2), (4, 9, 9), "[N, 3, H, W] or [3, H, W]", {"in_channels": 4}),
    Row("Conv2d", conv(2), (9, 9), "[N, 3, H, W] or [3, H, W]"),
    Row("Conv2d", {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "groups": 4},
        (2, 3, 9, 9), "[N, 4, H, W] or [4, H, W]"),
    Row("BatchNorm1d", {"num_features": 3}, (2, 4), "[N, 3] or [N, 3, L]", {"num_features": 4}),
    Row("BatchNorm1d", {"num_features": 3}, (2, 4, 5), "[N, 3] or [N, 3, L]",
        {"num_features": 4}),
    Row("BatchNorm2d", {"num_features": 3}, (2, 3), "[N, 3, H, W]"),
    *[
        Row(f"{kind}{rank}d", {"num_features": 3, "affine": True}, (2, 4, *[5] * rank),
            f"[N, 3, {SPACE[rank]}]" + f" or [3, {SPACE[rank]}]" * (kind == "InstanceNorm"),
            {"num_features": 4})
        for kind, ranks in (("BatchNorm", (2, 3)), ("InstanceNorm", (1, 2, 3))) for rank in ranks
    ],
    Row("GroupNorm", {"num_groups": 2, "num_channels": 4}, (2, 6, 5), "[N, 4, ...]",
        {"num_channels": 6}),
    Row("GroupNorm", {"num_groups": 2, "num_channels": 4}, (2, 5, 5), "[N, 4, ...]"),
    Row("GroupNorm", {"num_groups": 2, "num_channels": 4}, (4,), "[N, 4, ...]"),
    Row("LayerNorm", {"normalized_shape": 4}, (2, 5), "[..., 4]", {"normalized_shape": (5,)}),
    Row("LayerNorm", {"normalized_shape": (3, 4)}, (2, 3, 5), "[..., 3, 4]",
        {"normalized_shape": (3, 5)}),
    Row("LayerNorm", {"normalized_shape": (3, 4)}, (4,), "[..., 3, 4]"),
    Row("RMSNorm", {"normalized_shape": 4}, (2, 5), "[..., 4]", {"normalized_shape": (5,)}),
    *[
        Row(kind, {"input_size": 3, "hidden_size": 4}, (5, 2, 4), "[T, N, 3] or [T, 3]",
            {"input_size": 4})
        for kind in ("RNN", "LSTM", "GRU")
    ],
    Row("LSTM", {"input_size": 3, "hidden_size": 4, "batch_first": True}, (5, 2, 4),
        "[N, T, 3] or [T, 3]", {"input_size": 4}),
    Row("GRU", {"input_size": 3, "hidden_size": 4}, (3,), "[T, N, 3] or [T, 3]"),
    *[
        Row(kind, {"input_size": 3, "hidden_size": 4}, (2, 4), "[N, 3] or [3]", {"input_size": 4})
        for kind in ("RNNCell", "LSTMCell", "GRUCell")
    ],
    Row("GRUCell", {"input_size": 3, "hidden_size": 4}, (2, 2, 3), "[N, 3] or [3]"),
    Row("MultiheadAttention", {"embed_dim": 4, "num_heads": 2}, (5, 2, 6), "[T, N, 4] or [T, 4]",
        {"embed_dim": 6}, inputs=3),
    Row("MultiheadAttention", {"embed_dim": 4, "num_heads": 2, "batch_first": True}, (5, 2, 7),
        "[N, T, 4] or [T, 4]", inputs=3),
    Row("TransformerEncoderLayer", {"d_model": 4, "nhead": 2, "dim_feedforward": 8}, (5, 2, 6),
        "[T, N, 4] or [T, 4]", {"d_model": 6}),
    Row("TransformerDecoderLayer",
        {"d_model": 4, "nhead": 2, "dim_feedforward": 8, "batch_first": True}, (5, 2, 6),
        "[N, T, 4] or [T, 4]", {"d_model": 6}, inputs=2),
]  # fmt: skip


class Block(nn.Module):
    """A layer of a deeper model."""

    def __init__(self, layer: nn.Module, inputs: int) -> None:
        super().__init__()
        self.layer, self.inputs = layer, inputs

    def forward(self, x: Any) -> Any:
        return self.layer(*[x] * self.inputs)


def called(layer: nn.Module, row: Row, *, hybridized: bool) -> Any:
    net = nn.Sequential(nn.Identity(), Block(layer, row.inputs))
    return (hy.hybridize(lambda x: net(x)) if hybridized else net)(hy.ones(row.came))


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.layer} {list(row.came)}")
def test_what_it_takes_and_what_to_write(row: Row, hybridized: bool) -> None:
    layer = getattr(nn, row.layer)(**row.arguments)
    with pytest.raises(HybridError) as caught:
        called(layer, row, hybridized=hybridized)
    came = ", ".join([str(hy.ones(row.came).type)] * row.inputs)
    lines = str(caught.value).split("\n")
    place = re.fullmatch(r"In 1\.layer: (.*) got (.*); it takes (.*)", lines[1])
    assert place is not None and place[1].startswith(row.layer)
    assert (place[2], place[3]) == (came, row.takes)
    change = "change the shape of what it is given."
    if row.mended is None:
        others = row.layer.endswith("d") and len(row.came) < 3
        change = change[:-1] + ", or use the layer for as many axes." if others else change
        assert lines[2:] == [f"Fix: {change}"]
        return
    ((name, size),) = row.mended.items()
    assert lines[2:] == [f"Fix: make it {row.layer}({name}={size}, ...), or {change}"]
    mended = getattr(nn, row.layer)(**row.arguments | row.mended)
    if row.inputs == 1 or row.layer != "Bilinear":
        called(mended, row, hybridized=hybridized)  # runs


def test_the_whole_message() -> None:
    with pytest.raises(ShapeError) as caught:
        nn.Linear(31, 5)(hy.ones((4, 30)))
    assert str(caught.value) == (
        "matmul cannot take f32[4,30] and f32[31,5]\n"
        "In Linear(in_features=31, out_features=5, bias=True) got f32[4,30]; it takes [..., 31]\n"
        "Fix: make it Linear(in_features=30, ...), or change the shape of what it is given."
    ).replace("In Linear", "Linear")


def test_shapes_that_are_taken_are_not_the_reason() -> None:
    layer = nn.Conv2d(3, 4, 3)
    with pytest.raises(ShapeError) as caught:
        layer(hy.ones((1, 3, 2, 2)))  # smaller than its window
    assert "it takes" not in str(caught.value) and "window" in str(caught.value)
    assert refusal(layer, (1, 3, 2, 2)) is None
    assert refusal(nn.ReLU(), (1,)) is None


def test_a_class_with_a_forward_of_its_own_takes_what_it_likes() -> None:
    class Turned(nn.Linear):
        def forward(self, input: Any) -> Any:
            return super().forward(input.mT)

    with pytest.raises(ShapeError) as caught:
        Turned(3, 2)(hy.ones((4, 3)))
    assert "it takes" not in str(caught.value)


def test_the_layer_that_the_author_has_written_is_the_place() -> None:
    """Not the parts that a layer of the package is made of."""
    net = nn.Transformer(4, 2, 1, 1, 8)
    with pytest.raises(ShapeError) as caught:
        net(hy.ones((5, 2, 6)), hy.ones((5, 2, 6)))
    assert "\nIn encoder.layers.0: TransformerEncoderLayer got f32[5,2,6]" in str(caught.value)
    assert "Fix: make it TransformerEncoderLayer(d_model=6, ...)" in str(caught.value)
