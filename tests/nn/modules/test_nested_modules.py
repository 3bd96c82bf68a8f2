"""Modules inside each other, hundreds deep: what they compute, copies and pickles."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn

X = hy.ones((1, 2))


class Plain:
    """An object that holds another."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def nested(depth: int) -> nn.Module:
    model: nn.Module = nn.Linear(2, 2)
    for _ in range(depth):
        model = nn.Sequential(model)
    return model


def innermost(model: nn.Module) -> nn.Linear:
    return [*model.modules()][-1]


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("depth", [1, 20, 21, 200, 400])
def test_copies(way: str, depth: int) -> None:
    """As deep as plain objects that hold each other, which are copied to 200, and deeper."""
    if depth == 200:
        plain = None
        for _ in range(depth):
            plain = Plain(plain)
        COPIES[way](plain)
    model = nested(depth)
    made = COPIES[way](model)
    assert len([*made.modules()]) == depth + 1
    one, other = innermost(model), innermost(made)
    assert other is not one and other.weight.tolist() == one.weight.tolist()
    assert [path for path, _ in made.named_parameters()] == [
        path for path, _ in model.named_parameters()
    ]
    other.weight.assign(other.weight * 2)
    assert other.weight.tolist() != one.weight.tolist()


def test_two_hundred_compute() -> None:
    model = nested(200)
    expected = model(X).tolist()
    assert hy.hybridize(model)(X).tolist() == expected
    assert repr(model).count("Sequential") == 200 and len(model.state_dict()) == 2
    assert nested(100).hybridize()(X).shape == (1, 2)
    assert str(nn.summary(nested(100), X)).count("Sequential") == 100


class Tied(nn.Module):
    """Two parts that share a third; one of them knows, in a list, what it belongs to."""

    def __init__(self) -> None:
        self.shared = nn.Linear(2, 2)
        self.one, self.other = nn.Sequential(self.shared), nn.Sequential(nn.Sequential(self.shared))
        self.one.owners = [self]
        self.note = {"tensor": self.shared.weight, "text": "a"}


@pytest.mark.parametrize("way", COPIES)
def test_what_is_shared_stays_shared(way: str) -> None:
    model = Tied()
    made = COPIES[way](model)
    assert type(made) is Tied and made.shared is not model.shared
    assert made.one[0] is made.shared is made.other[0][0]
    assert made.one.owners[0] is made and made.note["tensor"] is made.shared.weight


@pytest.mark.parametrize("way", COPIES)
def test_parts_of_each_other(way: str) -> None:
    one, other, leaf = nn.Module(), nn.Module(), nn.Linear(1, 1)
    one.part, other.part, other.leaf, one.leaf = other, one, leaf, leaf
    made = COPIES[way](one)
    assert made.part.part is made and made.leaf is made.part.leaf is not leaf


class Counted(nn.Linear):
    """Says itself how it is copied and pickled."""

    copies = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = super().__deepcopy__(memo)
        made.copies = self.copies + 1
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "pickled": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, restored=True)


class Again(nn.Module):
    """Is pickled by its arguments."""

    def __init__(self, size: int) -> None:
        self.size, self.inner = size, nn.Linear(size, size)

    def __reduce__(self) -> Any:
        return Again, (self.size,)


@pytest.mark.parametrize("depth", [1, 100])
def test_classes_with_ways_of_their_own(depth: int) -> None:
    model = nn.Sequential(Counted(2, 2), Again(3))
    for _ in range(depth):
        model = nn.Sequential(model)
    made = copy.deepcopy(model)
    counted, again = [m for m in made.modules() if isinstance(m, (Counted, Again))]
    assert counted.copies == 1 and again.size == 3 and counted.restored
    loaded = pickle.loads(pickle.dumps(model))
    counted, again = [m for m in loaded.modules() if isinstance(m, (Counted, Again))]
    assert counted.pickled and counted.restored and again.inner.weight.shape == (3, 3)
