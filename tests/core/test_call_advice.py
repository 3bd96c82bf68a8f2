"""Arguments that people know from other frameworks: the message says the line to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.core.call_advice import SPREAD, WORDS, meant
from hybrid.errors import ArgumentTypeError
from hybrid.nn import functional as F

X = hy.ones((4, 4))
MADE: Any = nn  # layers by words that type checkers would refuse
CALLED: Any = hy

CALLS: dict[str, tuple[Callable[[], Any], str, Callable[[], Any]]] = {
    "zeros": (
        lambda: CALLED.zeros(2, 3),
        "zeros() takes 1 positional argument but 2 were given\nFix: write hybrid.zeros((2, 3)).",
        lambda: hy.zeros((2, 3)),
    ),
    "full": (
        lambda: CALLED.full(2, 3, 0.5),
        "full() takes 2 positional arguments but 3 were given\n"
        "Fix: write hybrid.full((2, 3), 0.5).",
        lambda: hy.full((2, 3), 0.5),
    ),
    "reshape": (
        lambda: CALLED.reshape(X, 2, 8),
        "reshape() takes 2 positional arguments but 3 were given\n"
        "Fix: write hybrid.reshape(x, (2, 8)).",
        lambda: hy.reshape(X, (2, 8)),
    ),
    "axes": (
        lambda: CALLED.sum(X, axes=0),
        "sum() got an unexpected keyword argument 'axes'\nFix: write axis for axes.",
        lambda: hy.sum(X, axis=0),
    ),
    "of a method": (
        lambda: X.sum(keep_dims=True),
        "sum() got an unexpected keyword argument 'keep_dims'\nFix: write keepdims for keep_dims.",
        lambda: X.sum(keepdims=True),
    ),
    "misspelled": (
        lambda: CALLED.ones((2, 3), dtyp="f32"),
        "ones() got an unexpected keyword argument 'dtyp'\nFix: write dtype for dtyp.",
        lambda: hy.ones((2, 3), dtype="f32"),
    ),
    "by its place": (
        lambda: CALLED.take(X, indices=[0]),
        "take() got some positional-only arguments passed as keyword arguments: 'indices'\n"
        "Fix: give indices by its place, without the name.",
        lambda: hy.take(X, [0]),
    ),
    "layer": (
        lambda: MADE.Linear(3, 2, bias_attr=False),
        "Linear has no argument 'bias_attr'\nFix: write bias for bias_attr.",
        lambda: nn.Linear(3, 2, bias=False),
    ),
    "convolution": (
        lambda: MADE.Conv2d(3, 4, 3, strides=2),
        "Conv2d has no argument 'strides'\nFix: write stride for strides.",
        lambda: nn.Conv2d(3, 4, 3, stride=2),
    ),
    "dropout": (
        lambda: MADE.Dropout(rate=0.5),
        "Dropout has no argument 'rate'\nFix: write p for rate.",
        lambda: nn.Dropout(p=0.5),
    ),
    "unlike any": (
        lambda: MADE.Linear(3, 2, foo=1),
        "Linear has no argument 'foo'\n"
        "Fix: give some of in_features, out_features, bias, device, dtype.",
        lambda: nn.Linear(in_features=3, out_features=2, bias=True),
    ),
    "none at all": (
        lambda: MADE.Sequential(foo=nn.ReLU()),
        "Sequential has no argument 'foo'\nFix: leave foo out.",
        lambda: nn.Sequential(nn.ReLU()),
    ),
    "optimizer": (
        lambda: hy.optim.Adam(nn.Linear(2, 2).parameters(), learning_rate=0.1),
        "Adam has no argument 'learning_rate'\nFix: write lr for learning_rate.",
        lambda: hy.optim.Adam(nn.Linear(2, 2).parameters(), lr=0.1),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_message_and_its_advice(name: str) -> None:
    call, text, mended = CALLS[name]
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == text
    mended()


def test_it_is_the_same_in_a_graph() -> None:
    def function(x: Any) -> Any:
        return x + CALLED.ones(4, 4)

    texts = []
    for call in (function, hy.hybridize(function)):
        with pytest.raises(TypeError) as caught:
            call(X)
        texts.append(str(caught.value))
    assert texts[0] == texts[1] and texts[0].endswith("Fix: write hybrid.ones((4, 4)).")


def test_other_mistakes_are_told_as_python_tells_them() -> None:
    with pytest.raises(TypeError) as caught:
        CALLED.sum(X, foo=1)
    assert str(caught.value) == "sum() got an unexpected keyword argument 'foo'"
    with pytest.raises(TypeError) as caught:
        CALLED.ones("a", "b")
    assert str(caught.value) == "ones() takes 1 positional argument but 2 were given"


def test_what_topk_takes_by_its_name() -> None:
    assert hy.topk(X, k=2)[0].shape == X.topk(k=2)[0].shape == (4, 2)


class Sizes(nn.Module):
    """A forward that calls what is an attribute here."""

    def forward(self, x: Any) -> Any:
        return x.reshape(x.size(0), -1)


class Shapes(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.reshape(x.shape()[0], -1)


ADVICE = {
    Sizes: "'int' object is not callable\n"
    "Fix: write x.shape, x.shape[0] for one axis, x.size for the number of elements.",
    Shapes: "'tuple' object is not callable\nFix: write x.shape.",
}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("kind", ADVICE)
def test_an_attribute_that_is_called(kind: Any, hybridized: bool) -> None:
    net = nn.Sequential(nn.Identity(), kind())
    call = hy.hybridize(lambda x: net(x)) if hybridized else net
    with pytest.raises(TypeError) as caught:
        call(X)
    assert str(caught.value) == ADVICE[kind]


def test_the_words_are_arguments_of_something() -> None:
    known = {"axis", "dims", "dim", "keepdims", "lr", "weight_decay", "betas", "nesterov"}
    for kind in vars(nn).values():
        if isinstance(kind, type) and issubclass(kind, nn.Module):
            known |= set(inspect.signature(kind).parameters)
    assert not {own for words in WORDS.values() for own in words} - known
    assert all([hasattr(hy, name) for name in SPREAD])
    assert (meant("axes", ["axis"]), meant("zzz", ["axis"])) == ("axis", "")


def test_an_own_class_takes_its_own_arguments() -> None:
    class Own(nn.Linear):
        def __init__(self, width: int) -> None:
            super().__init__(width, width)

    assert Own(width=3).in_features == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'units'") as caught:
        Own(units=3)  # type: ignore[call-arg]
    assert not isinstance(caught.value, ArgumentTypeError)


def test_functionals() -> None:
    called: Any = F
    with pytest.raises(TypeError, match="Fix: write stride for strides"):
        called.conv2d(hy.ones((1, 3, 4, 4)), hy.ones((2, 3, 3, 3)), strides=2)
