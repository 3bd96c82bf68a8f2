"""What silenced channels send through each kind of op."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress.channels.channel_groups import EvaluatedGraph, groups_of
from hybrid.compress.channels.removal import channel_seeds
from hybrid.compress.channels.sent_values import SentValues
from hybrid.nn import functional as F


class Silent(nn.Module):
    """A linear layer whose channels 0 and 2 are silenced, and something that is made of it."""

    def __init__(self, then) -> None:
        self.linear, self.then = nn.Linear(3, 4), then
        with hy.no_grad():
            for parameter in self.parameters():
                parameter.assign(parameter * hy.asarray([0.0, 1, 0, 1]).reshape(
                    (4,) + (1,) * (parameter.ndim - 1)
                ))  # fmt: skip

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.then(self.linear(x))


X = hy.asarray(np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32))
N = np.nan


@pytest.mark.parametrize(
    ("then", "wanted"),
    [
        (lambda x: x, [0, N, 0, N]),
        (F.relu, [0, N, 0, N]),
        (hy.sigmoid, [0.5, N, 0.5, N]),
        (lambda x: x + 1, [1, N, 1, N]),
        (lambda x: x * 3 - 2, [-2, N, -2, N]),
        (lambda x: x * x.sum(axis=1, keepdims=True), [0, N, 0, N]),
        (lambda x: x + x.sum(axis=1, keepdims=True), [0, N, 0, N]),
        (lambda x: hy.sigmoid(x).mean(axis=1), [0.5, N, 0.5, N]),
        (lambda x: hy.sigmoid(x).sum(axis=1), [N, N, N, N]),
        (lambda x: x.sum(axis=1), [0, N, 0, N]),
        (lambda x: hy.softmax(x, axis=1), [N, N, N, N]),
        (lambda x: hy.where(x > -1, x, 7.0), [0, N, 0, N]),
        (lambda x: x * X.sum(), [0, N, 0, N]),
        (lambda x: x + X.mean(axis=2, keepdims=True), [N, N, N, N]),
        (lambda x: hy.flip(x, axis=-1), [N, 0, N, 0]),
        (lambda x: hy.concat([x, hy.sigmoid(x)], axis=-1), [0, N, 0, N, 0.5, N, 0.5, N]),
        (lambda x: hy.pad(x, ((0, 0), (1, 1), (0, 0))), [0, N, 0, N]),
        (lambda x: hy.pad(hy.sigmoid(x), ((0, 0), (1, 1), (0, 0))), [N, N, N, N]),
        (lambda x: hy.reshape(x, (10, 4)), [0, N, 0, N]),
        (lambda x: F.max_pool1d(hy.sigmoid(x).mT, 3, padding=1).mT, [0.5, N, 0.5, N]),
        (lambda x: F.avg_pool1d(hy.sigmoid(x).mT, 3, padding=1).mT, [N, N, N, N]),
    ],
)
def test_numbers_along_the_axis_of_results(then, wanted) -> None:
    model = Silent(then)
    graph = EvaluatedGraph(model, (X,))
    (group,) = groups_of(graph, channel_seeds(model, graph))
    sent = SentValues(group, lambda value: graph.cells[value].detach().numpy())
    (result,) = graph.graph.results
    found = sent.along[result, result.type.rank - 1]
    np.testing.assert_array_equal(found, np.asarray(wanted, float))
    values = model(X).detach().numpy()
    for at, number in enumerate(wanted):
        assert np.isnan(number) or (values[..., at] == np.float32(number)).all()
