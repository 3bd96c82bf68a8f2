"""report: its figures, its table, what it says was left in floats, and what it refuses."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import quantize, report
from hybrid.compress.reports.measures import Pair
from hybrid.compress.reports.model_report import parameter_count, state_bytes
from hybrid.errors import ArgumentError, ArgumentTypeError

X = np.random.RandomState(0).randn(20, 16).astype(np.float32)
LABELS = np.arange(20) % 5


def network() -> nn.Sequential:
    hy.random.seed(0)
    return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 5))


def test_the_figures() -> None:
    net = network()
    made, data = quantize(net), [(X[:12], LABELS[:12]), (X[12:], LABELS[12:])]
    found = report(net, made, data)
    numbers = 16 * 24 + 24 + 24 * 5 + 5
    assert found.parameters == (numbers, numbers)
    assert found.bytes == (4 * numbers, 16 * 24 + 24 * 5 + 8 * (24 + 5))
    products = 2 * 12 * (16 * 24 + 24 * 5)  # of the first batch
    assert found.flops.before == products + 12 * (24 + 24 + 5)  # biases and relu
    assert products < found.flops.after < 2 * products
    want, have = (model(hy.asarray(X)).numpy().astype(np.float64) for model in (net, made))
    assert found.decibels == pytest.approx(
        10 * np.log10((want**2).sum() / ((want - have) ** 2).sum())
    )
    right = [float((model.argmax(axis=1) == LABELS).mean()) for model in (want, have)]
    assert found.metric == pytest.approx(right) and found.metric_name == "accuracy"
    assert found.latency.before > 0 and found.latency.after > 0
    assert found.left == () and found.note == ""
    assert found.latency.ratio == found.latency.after / found.latency.before


def test_the_table() -> None:
    net = network()
    text = str(report(net, quantize(net), [(X, LABELS)]))
    lines = text.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["before", "after", "ratio"],
        ["bytes", "2.13", "kB", "736", "B", "0.345"],
        ["parameters", "533", "533", "1"],
        ["operations", "21.2", "k", *lines[3].split()[3:]],
    ]
    assert re.fullmatch(r"latency +[\d.]+ [um]s +[\d.]+ [um]s +[\d.]+", lines[4])
    assert re.fullmatch(r"accuracy +\d+\.\d% +\d+\.\d% +[+-]\d\.\d points", lines[5])
    assert len({len(line) for line in lines[:6]}) == 1  # the last column ends alike
    assert lines[6] == "" and re.fullmatch(r"results: signal to noise \d\d\.\d dB", lines[7])
    assert lines[8:] == ["nothing with weights is left in floats"]


def test_a_model_that_is_not_quantized() -> None:
    net = network()
    found = report(net, net, [X])
    assert found.metric is None and found.decibels == np.inf and found.left == ()
    assert str(found).endswith("\n\nresults: the same") and "accuracy" not in str(found)
    assert found.bytes.ratio == found.flops.ratio == 1.0


# Metrics -----------------------------------------------------------------------------------------


class Words(nn.Module):
    """Logits [batch, time, classes], those of nn.functional.cross_entropy turned round."""

    def __init__(self) -> None:
        self.table = nn.Embedding(6, 7)

    def forward(self, tokens: hy.Tensor) -> tuple[hy.Tensor, int]:
        return self.table(tokens), 1


TOKENS = np.array([[0, 1, 2], [3, 4, 5]])


def squares(model: nn.Module, data: Any) -> Any:
    return sum(float((model(hy.asarray(x)) ** 2).sum()) for x in data)


METRICS: dict[str, tuple[Callable[[], nn.Module], list[Any], Any, str]] = {
    "classes": (network, [(X, LABELS)], None, "accuracy"),
    "classes along the last axis": (Words, [(TOKENS, TOKENS)], None, "accuracy"),
    "numbers": (network, [(X, np.ones((20, 5), np.float32))], None, "squared error"),
    "a function": (network, [X, X], squares, "squares"),
    "a lambda": (network, [X], lambda model, data: 3, "metric"),
}


@pytest.mark.parametrize("what", METRICS)
def test_metrics(what: str) -> None:
    make, data, metric, name = METRICS[what]
    model = make().eval()
    found = report(model, quantize(model), data, metric)
    assert found.metric_name == name and found.metric is not None
    outputs = model(hy.asarray(data[0] if metric else data[0][0]))
    y = (outputs[0] if isinstance(outputs, tuple) else outputs).numpy().astype(np.float64)
    wanted = {
        "classes": (y.argmax(1) == LABELS).mean() if y.shape == (20, 5) else 0,
        "classes along the last axis": (y.argmax(-1) == TOKENS).mean() if y.ndim == 3 else 0,
        "numbers": ((y - 1) ** 2).mean(),
        "a function": 2 * (y**2).sum(),
        "a lambda": 3,
    }[what]
    assert found.metric.before == pytest.approx(wanted, rel=1e-5)
    assert f"\n{name} " in str(found)


@pytest.mark.parametrize("labels", [np.arange(20.0), np.arange(5), np.ones((20, 5), bool)])
def test_labels_that_say_nothing_of_the_results(labels: np.ndarray) -> None:
    net = network()
    assert report(net, quantize(net), [(X, labels)]).metric is None


# Models are left as they were, and bad input -----------------------------------------------------


def test_models_and_generators_are_left_as_they_were() -> None:
    class Drawing(nn.Module):
        def __init__(self) -> None:
            self.layer, self.drop = nn.Linear(16, 4), nn.Dropout(0.5)
            self.register_buffer("calls", hy.zeros(()))

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            self.calls += 1
            return self.drop(self.layer(x)) + hy.random.normal(size=(4,))

    net = Drawing().train()
    net.hybridize()
    made = quantize(net)
    hy.random.seed(3)
    found = report(net, made, [X])
    drawn = hy.random.normal(size=(4,)).numpy()
    hy.random.seed(3)
    assert (hy.random.normal(size=(4,)).numpy() == drawn).all()
    assert found.decibels > 35  # both were given the same draws
    assert net.training and net.drop.training and net.calls.item() == made.calls.item() == 0
    assert len(net.plans) == 0


def test_shared_tensors_and_sizes_of_state() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    net[1].weight = net[0].weight
    assert parameter_count(net) == 64 + 16 and state_bytes(net) == 4 * (64 + 16)
    lstm, attention = nn.LSTM(4, 6, num_layers=2), nn.MultiheadAttention(8, 2)
    for layer in (lstm, attention, nn.Embedding(5, 3)):
        assert parameter_count(quantize(layer)) == parameter_count(layer)
    assert Pair(0, 0).ratio == 1.0 and Pair(0, 2).ratio == np.inf


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no module": (
        lambda: report(3, network(), [X]), ArgumentTypeError,
        "the model before is a int, and no module\nFix: give a model, an nn.Module.",
    ),
    "no module after": (
        lambda: report(network(), None, [X]), ArgumentTypeError,
        "the model after is a NoneType, and no module",
    ),
    "no data": (lambda: report(network(), network(), None), ArgumentTypeError, "there are no data"),
    "a number": (
        lambda: report(network(), network(), 3), ArgumentTypeError, "data is a int\nFix: give data"
    ),
    "one array": (
        lambda: report(network(), network(), X), ArgumentTypeError, "data is one ndarray",
    ),
    "empty data": (lambda: report(network(), network(), []), ArgumentError, "the data are empty"),
    "a metric": (
        lambda: report(network(), network(), [X], "accuracy"), ArgumentTypeError,
        "the metric is a str\nFix: give a function of the model and the data that returns a number",
    ),
    "what a metric returns": (
        lambda: report(network(), network(), [X], lambda model, data: None), ArgumentTypeError,
        "the metric <lambda> returned a NoneType\nFix: return one number.",
    ),
    "results of other shapes": (
        lambda: report(network(), network()[:1], [X]), ArgumentError,
        "the models return other results: f32[20,5] before and f32[20,24] after\nFix: give two "
        "models of the same task.",
    ),
    "results of another number": (
        lambda: report(nn.Embedding(5, 2), nn.Identity(), [hy.asarray(LABELS)]), ArgumentError,
        "the models return other results: f32[20,2] before and none after",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, error, text = BAD[what]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
