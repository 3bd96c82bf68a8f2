"""The last state tells the class."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.models.sequence_classifier import SequenceClassifier
from hybrid.nn import GRU, LSTM, GRUCell, LSTMCell


@pytest.mark.parametrize(("kind", "cell_kind"), [(LSTM, LSTMCell), (GRU, GRUCell)])
def test_rows_are_read_one_by_one(kind, cell_kind) -> None:
    model = SequenceClassifier(kind, features=3, hidden=5, classes=4)
    cell = cell_kind(3, 5)
    weights = model.rnn.state_dict()
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in weights.items()})
    rows = hy.random.normal(size=(2, 6, 3))
    state = None
    for i in range(6):
        state = cell(rows[:, i], state) if state is not None else cell(rows[:, i])
    last = state[0] if kind is LSTM else state
    np.testing.assert_allclose(model(rows).numpy(), model.head(last).numpy(), atol=1e-6)


def test_time_is_one_loop_when_captured() -> None:
    model = SequenceClassifier(LSTM)
    graph = hy.hybridize(model).graph(hy.zeros((2, 8, 8)))
    assert [node.op.name for node in graph.nodes].count("for") == 1
