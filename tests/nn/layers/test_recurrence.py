"""Recurrent layers: one loop when captured, one plan when called often, PyTorch's layouts."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.calls.auto_plan import EARLY_CALLS, Often
from hybrid.ops.support.call_cache import CallCounts
from tests.helpers import same, tensor

KINDS = [nn.RNN, nn.LSTM, nn.GRU]
every_kind = pytest.mark.parametrize("kind", KINDS)


def loops(graph) -> int:
    return [node.op.name for node in graph.nodes].count("for")


@every_kind
def test_time_is_one_loop_of_each_layer_and_direction(kind) -> None:
    x = tensor(50, 2, 3)
    assert loops(kind(3, 4).hybridize().graph(x)) == 1
    assert loops(kind(3, 4, 2, bidirectional=True).hybridize().graph(x)) == 4
    short = len(list(kind(3, 4).hybridize().graph(x[:5]).walk()))
    assert len(list(kind(3, 4).hybridize().graph(x).walk())) == short


@every_kind
def test_a_training_step_is_captured_whole(kind) -> None:
    layer, twin = kind(3, 4), kind(3, 4)
    twin.load_state_dict(layer.state_dict())
    x = tensor(6, 2, 3)

    def trained(layer):
        optimizer = hy.optim.SGD(layer.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = hy.mean(layer(x)[0] ** 2)
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, captured = trained(layer), hy.hybridize(trained(twin))
    for _ in range(5):
        assert same(eager(x), captured(x))
    assert all(map(same, layer.parameters(), twin.parameters()))
    assert len(captured.plans) == 1


@every_kind
def test_calls_keep_their_bits_when_they_are_planned(kind) -> None:
    layer, x = kind(3, 4), tensor(7, 2, 3)
    results = []
    for _ in range(EARLY_CALLS + 3):
        layer.zero_grad()
        y, _ = layer(x)
        hy.sum(y * y).backward()
        results.append([y, *[p.grad for p in layer.parameters()]])
    assert all(all(map(same, results[0], other)) for other in results[1:])


def test_often_counts_calls_by_their_types() -> None:
    double = Often(lambda x, pair, nothing: (x * 2, pair[0]))
    for _ in range(EARLY_CALLS):
        for size in (2, 3):
            double(tensor(size), (tensor(size),), None)
    assert double.planned.plans == []
    double(tensor(2), (tensor(2),), None)
    assert len(double.planned.plans) == 1
    captured = hy.hybridize(lambda x: double(x, (x,), None)[0])
    assert same(captured(tensor(2)), tensor(2) * 2)
    assert len(double.planned.plans) == 1


def test_calls_that_are_too_many_are_forgotten() -> None:
    counts = CallCounts(most=2)
    for key in range(5):
        assert counts.add(key) == 0
        assert counts.add(key) == 1
        assert len(counts.counts) <= 2


@every_kind
def test_batches_first_and_no_batch(kind) -> None:
    layer, x = kind(3, 4, 2, bidirectional=True), tensor(5, 2, 3)
    first = kind(3, 4, 2, bidirectional=True, batch_first=True)
    first.load_state_dict(layer.state_dict())
    y, end = layer(x)
    flipped, other = first(hy.swapaxes(x, 0, 1))
    assert same(y, hy.swapaxes(flipped, 0, 1))
    ends = end if isinstance(end, tuple) else (end,)
    others = other if isinstance(other, tuple) else (other,)
    assert all(map(same, ends, others))
    for i in range(2):
        begin = tuple(hy.zeros((4, 4)) for _ in ends)
        alone, last = layer(x[:, i], begin if len(ends) > 1 else begin[0])
        np.testing.assert_allclose(alone.numpy(), y[:, i].numpy(), rtol=1e-5, atol=1e-6)
        last = last if isinstance(last, tuple) else (last,)
        assert all(part.shape == (4, 4) for part in last)


@every_kind
def test_without_bias(kind) -> None:
    layer = kind(3, 4, bias=False)
    assert list(layer.state_dict()) == ["weight_ih_l0", "weight_hh_l0"]
    assert "bias=False" in repr(layer)
    assert not layer(hy.zeros((2, 1, 3)))[0].numpy().any()


def test_dropout_is_between_layers_and_in_training_only() -> None:
    layer, x = nn.LSTM(3, 4, 2, dropout=0.5), tensor(5, 2, 3)
    one = nn.LSTM(3, 4, 1)
    one.load_state_dict({k: v for k, v in layer.state_dict().items() if k.endswith("l0")})
    first, second = layer(x)[1][0], layer(x)[1][0]
    assert same(first[0], one(x)[1][0][0])  # the first layer sees no dropout
    assert not same(first[1], second[1])
    layer.eval()
    assert same(layer(x)[0], layer(x)[0])


@every_kind
def test_derivatives(kind) -> None:
    layer = kind(2, 3, bidirectional=True, dtype=hy.float64)
    x = np.random.default_rng(3).standard_normal((3, 2, 2))
    hy.check_grads(lambda x: layer(x)[0], x, order=2)


def test_under_transforms() -> None:
    layer, x = nn.GRU(3, 4), tensor(5, 3)
    rows = hy.stack([x, x + 1])
    found = hy.vmap(lambda row: layer(row)[0])(rows)
    np.testing.assert_allclose(found[1].numpy(), layer(x + 1)[0].numpy(), rtol=1e-5, atol=1e-6)

    def loss(x):
        return hy.sum(layer(x)[0] ** 2)

    leaf = hy.asarray(x.numpy().copy())
    leaf.requires_grad = True
    loss(leaf).backward()
    assert same(hy.grad(loss)(x), leaf.grad)


def test_cells_make_the_layers() -> None:
    layer, cell, x = nn.LSTM(3, 4), nn.LSTMCell(3, 4), tensor(5, 2, 3)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    state = None
    outputs = []
    for t in range(5):
        state = cell(x[t], state)
        outputs.append(state[0])
    y, (h, c) = layer(x)
    assert same(hy.stack(outputs), y) and same(state[0], h[0]) and same(state[1], c[0])


def test_a_loop_over_a_cell_is_captured_as_one_loop() -> None:
    cell, x = nn.GRUCell(3, 4), tensor(20, 2, 3)

    @hy.hybridize
    def last(x):
        h = hy.zeros((2, 4))
        for t in range(20):
            h = cell(x[t], h)
        return h

    assert same(last(x), last.function(x))
    assert loops(last.graph(x)) == 1


LSTM, GRU = nn.LSTM(3, 4), nn.GRU(3, 4, 2, batch_first=True)
ERRORS = [
    (
        lambda: nn.RNN(3, 0),
        "hidden_size is 0\nFix: give an int >= 1.",
    ),
    (
        lambda: nn.RNN(3, 4, nonlinearity="gelu"),
        'nonlinearity=\'gelu\' is unknown\nFix: use "tanh" or "relu".',
    ),
    (
        lambda: nn.LSTM(3, 4, proj_size=4),
        "LSTM got proj_size 4 and hidden_size 4\nFix: give a proj_size below the hidden_size.",
    ),
    (
        lambda: nn.GRU(3, 4, dropout=1.5),
        "a probability of 1.5\nFix: give a number from 0 to 1.",
    ),
    (
        lambda: LSTM(tensor(5, 2, 4)),
        "LSTM cannot take f32[5,2,4]\n"
        "LSTM(3, 4) got f32[5,2,4]; it takes [T, N, 3] or [T, 3]\n"
        "Fix: make it LSTM(input_size=4, ...), or change the shape of what it is given.",
    ),
    (
        lambda: GRU(tensor(5, 2, 4)),
        "GRU cannot take f32[5,2,4]\n"
        "GRU(3, 4, num_layers=2, batch_first=True) got f32[5,2,4]; it takes [N, T, 3] or [T, "
        "3]\n"
        "Fix: make it GRU(input_size=4, ...), or change the shape of what it is given.",
    ),
    (
        lambda: GRU(tensor(5, 0, 3)),
        "GRU cannot take f32[5,0,3]\nFix: give one time at least.",
    ),
    (
        lambda: GRU(tensor(5, 2, 3), tensor(2, 4, 4)),
        "GRU cannot begin with f32[2,4,4]\nIts state is [2, 5, 4]: layers and directions first.\n"
        "Fix: change its shape, or leave it out to begin with zeros.",
    ),
    (
        lambda: LSTM(tensor(5, 2, 3), tensor(1, 2, 4)),
        "LSTM got a state of 1 tensors\nFix: give a pair (h, c).",
    ),
    (
        lambda: nn.LSTMCell(3, 4)(tensor(2, 3), (tensor(2, 4),)),
        "LSTMCell got a state of 1 tensors\nFix: give a pair (h, c).",
    ),
    (
        lambda: nn.LSTMCell(3, 4)(tensor(2, 3), (tensor(2, 4), tensor(4))),
        "LSTMCell cannot begin with f32[4] for f32[2,3]\nIts state is [2, 4].\n"
        "Fix: change its shape, or leave it out to begin with zeros.",
    ),
    (
        lambda: nn.RNNCell(3, 4)(tensor(2, 2, 3)),
        "RNNCell cannot take f32[2,2,3]\n"
        "RNNCell(3, 4) got f32[2,2,3]; it takes [N, 3] or [3]\n"
        "Fix: change the shape of what it is given.",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message) -> None:
    with pytest.raises(hy.HybridError) as caught:
        call()
    assert str(caught.value) == message
