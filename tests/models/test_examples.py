"""The table of examples: names that are found, and words that fit."""

import pytest

from hybrid.errors import ArgumentError
from hybrid.models.examples import EXAMPLES, find
from hybrid.nn import Module


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_row_can_be_made(name) -> None:
    example = find(name)
    assert example.name == name and isinstance(example.make(), Module)
    assert example.epochs > 0 and len(example.task.load().test) > 100


def test_all_that_was_promised_is_there() -> None:
    promised = {"lenet", "resnet20", "lstm", "gru", "gpt", "unet", "vae", "mobilenet", "mixer"}
    assert set(EXAMPLES) == promised


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet", "there is no model named 'resnet'; did you mean 'resnet20'?"),
        ("qqqq", "there is no model named 'qqqq'\nFix: see `hybrid models`."),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name, message) -> None:
    with pytest.raises(ArgumentError) as caught:
        find(name)
    assert str(caught.value) == message
