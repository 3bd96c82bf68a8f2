"""Classes of objects that change between calls and inside them."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.trace.observed import Hybridize, hybridized, require_same, t


class Adding:
    k = 1.0

    def go(self, x: Any) -> Any:
        return x + self.k


class Scaling(Adding):
    def go(self, x: Any) -> Any:
        return x * 10 + self.k


class Apart:
    k = 7.0

    def go(self, x: Any) -> Any:
        return x * 100 + self.k


class AddingSlots:
    __slots__ = ("k",)

    def go(self, x: Any) -> Any:
        return x + self.k


class ScalingSlots:
    __slots__ = ("k",)

    def go(self, x: Any) -> Any:
        return x * self.k


class AddingList(list):
    def go(self, x: Any) -> Any:
        return x + self[0]


class ScalingList(list):
    def go(self, x: Any) -> Any:
        return x * self[0] * 10


class AddingDict(dict):
    def go(self, x: Any) -> Any:
        return x + self["k"]


class ScalingDict(dict):
    def go(self, x: Any) -> Any:
        return x * self["k"] * 10


def slotted() -> Any:
    made = AddingSlots()
    made.k = 3.0
    return made


OBJECTS = {
    "plain": (Adding, (Adding, Scaling, Adding, Apart, Scaling)),
    "slots": (slotted, (AddingSlots, ScalingSlots, AddingSlots)),
    "list": (lambda: AddingList([3.0]), (AddingList, ScalingList, AddingList)),
    "dict": (lambda: AddingDict(k=3.0), (AddingDict, ScalingDict, AddingDict)),
}
WAYS = {
    "a variable": lambda held: lambda x: held.go(x),
    "an item": lambda held: lambda x, items=[held]: sum(item.go(x) for item in items),
    "isinstance": lambda held: (
        lambda x: (
            held.go(x) if isinstance(held, (Scaling, ScalingSlots, ScalingList)) else -held.go(x)
        )
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("make", "kinds"), OBJECTS.values(), ids=OBJECTS)
def test_between_calls(make: Any, kinds: Any, way: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        held, found = make(), []
        f = hybridize(way(held))
        for kind in kinds:
            held.__class__ = kind
            found.append(f(t(2.0)))
        return found

    require_same(program)


def test_of_an_argument() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        held, found = Adding(), []
        f = hybridize(lambda held, x: held.go(x))
        for kind in (Adding, Scaling, Adding):
            held.__class__ = kind
            found.append(f(held, t(2.0)))
        return found

    require_same(program)


class TenTimes(hy.nn.Linear):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * 10


class NoMomentum(hy.optim.SGD):
    def step(self) -> None:
        super().step()
        super().step()


def test_of_modules_and_optimizers() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        hy.random.seed(0)
        model = hy.nn.Sequential(hy.nn.Linear(2, 2))
        optimizer = hy.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        f, x, found = hybridize(step), hy.ones((1, 2)), []
        for layer, optimizing in (
            (hy.nn.Linear, hy.optim.SGD), (TenTimes, hy.optim.SGD), (TenTimes, NoMomentum),
            (hy.nn.Linear, hy.optim.SGD),
        ):  # fmt: skip
            model[0].__class__, optimizer.__class__ = layer, optimizing
            found += [f(x), model[0].weight]
        return found

    require_same(program)


def turned(held: Any, x: Any) -> Any:
    y = held.go(x)
    held.__class__ = Scaling
    return y + held.go(x)


def turned_by_name(held: Any, x: Any) -> Any:
    setattr(held, "__class__", Scaling)  # noqa: B010
    return held.go(x)


def turned_back(held: Any, x: Any) -> Any:
    y = held.go(x)
    held.__class__ = Scaling if type(held) is Adding else Adding
    return y


def turned_new(_: Any, x: Any) -> Any:
    held = Adding()
    held.__class__ = Scaling
    return held.go(x)


@pytest.mark.parametrize("function", [turned, turned_by_name, turned_back, turned_new])
def test_inside_a_call(function: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        held, found = Adding(), []
        f = hybridize(lambda x: function(held, x))
        for _ in range(4):
            found += [f(t(2.0)), type(held)]
        held.__class__ = Adding
        return [*found, f(t(2.0)), type(held)]

    require_same(program)


def test_in_a_branch_it_is_refused() -> None:
    def turning(function: Any) -> Any:
        def program(hybridize: Hybridize) -> list[Any]:
            held = Adding()
            f = hybridize(lambda x: function(held, x))
            return [f(t(value)) for value in (0.0, 2.0, 0.0)]

        return program

    def turns(held: Any, x: Any) -> Any:
        if x > 1:
            held.__class__ = Scaling
        return held.go(x)

    def chooses(held: Any, x: Any) -> Any:
        return Scaling().go(x) if x > 1 else held.go(x)

    with pytest.raises(CaptureError) as caught:
        hybridized(turning(turns))
    assert str(caught.value).startswith(
        "Adding.__class__ is the class Scaling where the condition holds, and the class Adding "
        "where it does not"
    )
    require_same(turning(chooses))


def test_another_dict_of_attributes() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        held, other = Adding(), Adding()
        held.k, other.k = 1.0, 2.0
        f = hybridize(lambda x: held.go(x))
        found = [f(t(1.0))]
        held.__dict__ = other.__dict__
        found.append(f(t(1.0)))
        other.k = 9.0
        found.append(f(t(1.0)))
        held.__dict__ = {"k": 4.0}
        return [*found, f(t(1.0))]

    require_same(program)


def test_a_changed_class_is_a_reason() -> None:
    held = Adding()
    f = hy.hybridize(lambda x: held.go(x), ledger=False)
    f(t(1.0))
    held.__class__ = Scaling
    f(t(1.0))
    assert f.plans[-1].why == (
        "the class of the Adding object was class Adding and is class Scaling"
    )
