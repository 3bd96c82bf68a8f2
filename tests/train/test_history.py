"""History: the numbers of epochs, as a table and as a state."""

import hybrid as hy
from hybrid.train import History


def test_numbers_by_epoch():
    history = History()
    assert repr(history) == "History of no epochs" and len(history) == 0
    history.add(1, {"loss": 0.5})
    history.add(2, {"loss": 0.25, "val_loss": 1e-7})
    assert history["loss"] == [0.5, 0.25] and history["val_loss"] == [None, 1e-7]
    assert history.epochs == [1, 2] and list(history) == ["loss", "val_loss"]
    assert repr(history) == (
        "epoch  loss  val_loss\n    1   0.5          \n    2  0.25     1e-07"
    )  # fmt: skip


def test_states():
    history, other = History(), hy.train.History()
    history.add(3, {"loss": 0.5})
    other.load_state_dict(history.state_dict())
    history.add(4, {"loss": 0.1})
    assert other.state_dict() == {"epochs": [3], "history": {"loss": [0.5]}}
