"""sensitivity: each layer alone, the worst first, and the model as it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import quantize, sensitivity
from hybrid.errors import ArgumentError, ArgumentTypeError

X = np.random.RandomState(0).randn(30, 16).astype(np.float32)
LABELS = np.arange(30) % 5


def network() -> nn.Sequential:
    hy.random.seed(0)
    net = nn.Sequential(
        nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 5)
    )
    net[2].weight.data[0, 0] = 40.0  # whose rows lose most
    return net


def signal_to_noise(want: np.ndarray, have: np.ndarray) -> float:
    want, have = want.astype(np.float64), have.astype(np.float64)
    return 10 * np.log10((want**2).sum() / ((want - have) ** 2).sum())


def test_each_layer_alone_and_the_worst_first() -> None:
    net, data = network(), [(X[:17], LABELS[:17]), (X[17:], LABELS[17:])]
    before = {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}
    found = sensitivity(net, data, bits=4)
    assert found.metric_name == "accuracy"
    want = net(hy.asarray(X)).numpy()
    assert found.metric == pytest.approx((want.argmax(1) == LABELS).mean())
    for name, kind, decibels, metric in found:
        others = [other for other in ("0", "2", "4") if other != name]
        have = quantize(net, bits=4, skip=others)(hy.asarray(X)).numpy()
        assert kind == "Linear" and decibels == pytest.approx(signal_to_noise(want, have), abs=1e-3)
        assert metric == pytest.approx((have.argmax(1) == LABELS).mean())
    assert sorted(row.layer for row in found) == ["0", "2", "4"]
    assert [row.decibels for row in found] == sorted(row.decibels for row in found)
    assert len(found) == 3 and found[0] is found.rows[0]
    assert [type(part).__name__ for part in net] == ["Linear", "ReLU"] * 2 + ["Linear"]
    assert all((net.state_dict()[name].numpy() == before[name]).all() for name in before)
    more = sensitivity(net, data)
    assert all(
        {row.layer: row.decibels for row in more}[row.layer] > row.decibels + 3 for row in found
    )


def test_the_table() -> None:
    found = sensitivity(network(), [(X, LABELS)])
    heading, *rows, last = str(found).splitlines()
    assert heading.split() == ["layer", "kind", "SQNR", "accuracy"]
    assert [row.split()[0] for row in rows] == [row.layer for row in found]
    assert rows[0].split()[1:] == [
        "Linear", f"{found[0].decibels:.1f}", "dB", f"{found[0].metric:.1%}",
    ]  # fmt: skip
    assert last.split() == ["(none)", f"{found.metric:.1%}"]
    assert len({len(line) for line in [heading, *rows, last]}) == 1
    assert str(sensitivity(network(), [X])).splitlines()[0].split() == ["layer", "kind", "SQNR"]


def count(model: nn.Module, data: Any) -> float:
    return sum(float(model(hy.asarray(x)).sum()) for x in data)


def test_a_metric_of_ones_own() -> None:
    net = network()
    found = sensitivity(net, [X], count)
    assert found.metric_name == "count" and found.metric == pytest.approx(count(net, [X]))
    assert len({row.metric for row in found} | {found.metric}) == 4


class Text(nn.Module):
    """A layer under two names, attention with a layer inside it, one that is not reached."""

    def __init__(self) -> None:
        self.table = nn.Embedding(20, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.one = self.other = nn.Linear(8, 8)
        self.idle = nn.Linear(8, 8)

    def forward(self, tokens: hy.Tensor) -> dict[str, Any]:
        x = self.table(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return {"result": self.other(self.one(x)), "largest": tokens.max(), "text": "none"}


def test_layers_of_every_kind_and_results_in_a_tree() -> None:
    net = Text().train()
    net.hybridize()
    found = sensitivity(net, [np.array([[1, 2, 3]])])
    kinds = {row.layer: row.kind for row in found}
    assert kinds == {
        "table": "Embedding", "attention": "MultiheadAttention", "attention.out_proj": "Linear",
        "one": "Linear", "idle": "Linear",
    }  # fmt: skip
    errors = {row.layer: row.decibels for row in found}
    assert errors.pop("idle") == np.inf and all(20 < value < 80 for value in errors.values())
    assert "no error" in str(found).splitlines()[-1]
    assert net.training and net._hybridized is not None and net.one is net.other


def test_a_layer_alone_and_draws() -> None:
    (row,) = sensitivity(nn.Linear(16, 3), [X])
    assert row.layer == "(model)" and row.decibels > 35

    class Drawing(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(16, 4)

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.layer(x) + hy.random.normal(size=(4,))

    hy.random.seed(5)
    (row,) = sensitivity(Drawing(), [X])
    assert row.decibels > 35


def test_nan_comes_first() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            self.good, self.bad = nn.Linear(16, 4), nn.Linear(16, 4)
            self.bad.weight.data[0, :2] = hy.asarray([0.305, 1.0])

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.good(x) + hy.sqrt(0.305 - self.bad.weight[0, 0])  # 39 / 127 is larger

    found = sensitivity(Root(), [X])
    assert [row.layer for row in found] == ["bad", "good"]
    assert np.isnan(found[0].decibels) and found[1].decibels > 30
    assert str(found).splitlines()[1].split() == ["bad", "Linear", "nan", "dB"]


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "bits": (
        lambda: sensitivity(network(), [X], bits=9), ArgumentError,
        "bits is 9\nFix: give a whole number from 2 to 8.",
    ),
    "a quantized model": (
        lambda: sensitivity(quantize(network()), [X]), ArgumentError, "'0' is quantized already",
    ),
    "no module": (
        lambda: sensitivity(abs, [X]), ArgumentTypeError,
        "builtin_function_or_method is no module",
    ),
    "no layers": (
        lambda: sensitivity(nn.ReLU(), [X]), ArgumentError,
        "no layer of this ReLU can be quantized\nFix: see quantization.QUANTIZED for the kinds "
        "that can.",
    ),
    "empty data": (lambda: sensitivity(network(), iter([])), ArgumentError, "the data are empty"),
    "no data": (lambda: sensitivity(network(), None), ArgumentTypeError, "there are no data"),
    "a metric": (lambda: sensitivity(network(), [X], 3), ArgumentTypeError, "the metric is a int"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, error, text = BAD[what]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_a_model_that_fails_is_as_it_was() -> None:
    net = network()
    with pytest.raises(OSError, match="gone"):
        sensitivity(net, [X], lambda model, data: (_ for _ in ()).throw(OSError("gone")))
    assert [type(part).__name__ for part in net] == ["Linear", "ReLU"] * 2 + ["Linear"]
