"""What a quantized model still computes in floats: layers, and products with the author's lines."""

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import prepare_qat, quantize, report
from hybrid.compress.reports.float_parts import layers_left, products_left

X = np.random.RandomState(0).randn(20, 16).astype(np.float32)


class Own(nn.Linear):
    """A subclass, whose forward may be another."""


class Mixed(nn.Module):
    def __init__(self) -> None:
        self.first, self.own = nn.Linear(8, 8), Own(8, 8)
        self.table, self.limited = nn.Embedding(5, 8), nn.Embedding(5, 8, max_norm=1.0)
        self.w = nn.Parameter(hy.random.normal(size=(8, 8)))
        self.pool = nn.AvgPool1d(2)
        self.register_buffer("seen", hy.zeros((8, 8)))

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        y = self.own(self.first(x)) @ self.w
        if y.sum() > 1e9:
            y = nn.functional.linear(y, self.w.T @ self.w)
        for _ in range(3):
            y = hy.tanh(y @ self.w[:, ::-1])
        self.seen.assign(self.seen + 1)
        y = y @ self.seen + (y @ y.T) @ y
        return y @ self.table.weight.T


def line_of(text: str) -> int:
    lines, first = inspect.getsourcelines(Mixed)
    return first + next(at for at, line in enumerate(lines) if text in line)


def test_what_was_left_in_floats() -> None:
    net = Mixed()
    for skip in ([], ["first"]):
        found = report(net, quantize(net, skip=skip), [X[:, :8]])
        layers = [(p.name, p.kind, p.reason) for p in found.left if p.at is None]
        skipped = [("first", "Linear", "it was skipped")] if skip else []
        assert layers == [
            *skipped,
            ("own", "Own", "a subclass of Linear, whose forward may be another"),
            ("limited", "Embedding", "its rows are scaled to max_norm as they are read"),
        ]
        places = [(p.name, p.kind, p.at.line) for p in found.left if p.at is not None]
        assert places == [
            ("w", "matmul", line_of("@ self.w\n")),
            ("w", "matmul_nt", line_of("functional.linear")),
            ("w", "matmul", line_of("::-1")),
            ("table.weight", "matmul", line_of("self.table.weight")),
        ]
        assert all(p.at.path == __file__ for p in found.left if p.at is not None)
    text = str(found)
    assert re.search(r"\n\nleft in floats +what +why +where\nfirst +Linear +it was skipped\n", text)
    place = f"{__file__}:{line_of('@ self.w' + chr(10))}"
    assert re.search(r"\nw +matmul +a function call, and no layer +" + re.escape(place), text)


def test_layers_without_a_quantized_kind() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Bilinear(8, 8, 3))

    class Pairs(nn.Module):
        def __init__(self) -> None:
            self.net = net

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            y = self.net[0](x)
            return self.net[1](y, y)

    model = Pairs()
    left = report(model, quantize(model), [X[:, :8]]).left
    assert {(p.name, p.reason) for p in left} == {
        ("net.1.weight", "there is no quantized Bilinear")
    }


def test_a_model_that_cannot_be_captured() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(16, 4)

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            y = self.layer(x)
            return y * float(str(y.numpy().max())[:1] != "q")

    net = Asking()
    with pytest.warns(UserWarning, match="runs eagerly|eagerly"):
        found = report(net, quantize(net), [X])
    assert found.left == ()
    assert found.note.startswith("The model cannot be captured: ")
    assert str(found).endswith(found.note)


def test_a_path_that_decides_sizes() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(16, 4)
            self.w = nn.Parameter(hy.ones((4, 4)))
            self.v = nn.Parameter(hy.ones((4, 2)))

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            y = self.layer(x)
            y = y[y[:, 0] > -9] @ self.w
            return y if y.sum() > 0 else y @ self.v

    net = Cut()
    net.layer.bias.data.fill_(9)
    line = inspect.getsourcelines(Cut)[1] + 8
    found = report(net, quantize(net), [X])
    assert [(p.name, p.at.line) for p in found.left] == [("w", line)]
    assert found.note == (
        f"The path decides sizes at {__file__}:{line + 1}: products behind that are not listed."
    )


class Using(nn.Module):
    """A weight, and a function of it and the input."""

    def __init__(self, function: Callable[..., hy.Tensor]) -> None:
        self.w, self.function = nn.Parameter(hy.random.normal(size=(8, 8))), function
        self.register_buffer("kept", hy.zeros((8, 8)))

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.function(self, x)


def looped(net: Using, x: hy.Tensor) -> hy.Tensor:
    while hy.max(hy.abs(x)) > 1e-3:
        x = 0.1 * hy.tanh(x @ net.w)
    return x


def rows(net: Using, x: hy.Tensor) -> hy.Tensor:
    total = x[0]
    for row in x:
        total = total @ net.w + row
    return total


def either(net: Using, x: hy.Tensor) -> hy.Tensor:
    w = net.w.T.reshape(8, 8) * 2
    return x @ w if x.sum() > 0 else x


def nested(net: Using, x: hy.Tensor) -> hy.Tensor:
    for _ in range(5):
        if x.sum() > 0:
            x = hy.tanh(x @ net.w)
    return x


def squared(net: Using, x: hy.Tensor) -> hy.Tensor:
    return x * (net.w @ net.w).sum() + (x.T @ x).sum()


def cached(net: Using, x: hy.Tensor) -> hy.Tensor:
    net.kept.assign(net.kept + x[:8])
    return x @ net.kept


USES = {
    "a while": (looped, ["matmul"]),
    "a for": (rows, ["matmul"]),
    "a branch": (either, ["matmul"]),
    "a branch in a loop": (nested, ["matmul"]),
    "einsum": (lambda net, x: hy.einsum("bi,oi->bo", x, net.w), ["matmul"]),
    "a vector": (lambda net, x: x @ net.w[0], ["matmul"]),
    "a convolution": (
        lambda net, x: nn.functional.conv1d(x[:, None], net.w[:, None, :3]), ["conv"],
    ),
    "a checkpoint": (
        lambda net, x: hy.checkpoint(lambda x, w: x @ w)(x, net.w), ["matmul"],
    ),
    "no product": (lambda net, x: x * net.w[0], []),
    "of weights alone, and of inputs alone": (squared, []),
    "what is written": (cached, []),
}  # fmt: skip


@pytest.mark.parametrize("what", USES)
def test_products_wherever_they_are(what: str) -> None:
    function, kinds = USES[what]
    found, note = products_left(Using(function), [hy.asarray(X[:, :8])], {})
    assert [(part.name, part.kind) for part in found] == [("w", kind) for kind in kinds]
    code = function.__code__
    lines = {line for _, _, line in code.co_lines()}
    assert note == "" and all(part.at.line in lines for part in found)


class Tied(nn.Module):
    """An output layer that reads the table."""

    def __init__(self) -> None:
        self.table, self.out = nn.Embedding(9, 8), nn.Linear(8, 8)

    def forward(self, tokens: hy.Tensor) -> hy.Tensor:
        return nn.functional.linear(self.out(self.table(tokens)), self.table.weight)


def test_a_table_in_bytes_that_is_multiplied_by() -> None:
    tokens = hy.asarray([[1, 2]])
    for skip in ([], ["table"]):
        made = quantize(Tied(), skip=skip)
        (part,), note = products_left(made, [], {"tokens": tokens})
        assert (part.name, part.kind) == ("table.weight", "matmul_nt") and note == ""
        assert part.reason == "a function call, and no layer"


def test_layers_that_are_prepared() -> None:
    made = prepare_qat(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    assert [(part.name, part.kind, part.reason) for part in layers_left(made)] == [
        ("0", "PreparedLinear", "it is prepared: convert makes integers of it")
    ]
    assert layers_left(nn.Linear(2, 2))[0].name == "(model)"
    assert layers_left(quantize(nn.LSTM(2, 2))) == []
