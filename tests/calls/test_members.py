"""hybridize on what a class holds: methods of all kinds, and instances of all kinds."""

import abc
import copy
import dataclasses
import functools
import pickle
import sys
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from tests.staging.harness import f32

P, N = f32(2.0), f32(-3.0)


class Kinds:
    factor = 3.0

    def __init__(self, k: float = 1.0) -> None:
        self.k = k

    @classmethod
    @hy.hybridize
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor if x > 0 else x

    @hy.hybridize
    @classmethod
    def of_class_outside(cls, x: Any) -> Any:
        return x * cls.factor if x > 0 else x

    @staticmethod
    @hy.hybridize
    def static(x: Any) -> Any:
        return x * 2 if x > 0 else x

    @hy.hybridize
    @staticmethod
    def static_outside(x: Any) -> Any:
        return x * 2 if x > 0 else x

    @hy.hybridize
    def method(self, x: Any) -> Any:
        return x * self.k if x > 0 else x

    @property
    @hy.hybridize
    def held(self) -> Any:
        return P * self.k if P > 0 else N

    @hy.hybridize
    def __call__(self, x: Any) -> Any:
        return x * self.k * 10 if x > 0 else x

    doubled = functools.partialmethod(method, P)


class Further(Kinds):
    factor = 5.0

    @hy.hybridize
    def method(self, x: Any) -> Any:
        return super().method(x) + 1 if x > 0 else x


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: float) -> None:
        self.k = k

    @hy.hybridize
    def method(self, x: Any) -> Any:
        return x * self.k if x > 0 else x


class Unhashable(Slotted):
    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _: object) -> bool:
        return True


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float = 2.0

    @hy.hybridize
    def method(self, x: Any) -> Any:
        return x * self.k if x > 0 else x


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    k: float = 2.0

    @hy.hybridize
    def method(self, x: Any) -> Any:
        return x * self.k if x > 0 else x


def test_class_methods_are_hybridized_per_class() -> None:
    for name in ("of_class", "of_class_outside"):
        mine, theirs = getattr(Kinds, name), getattr(Further, name)
        assert [mine(P).item(), mine(N).item(), theirs(P).item(), mine(P).item()] == [6, -3, 10, 6]
        assert getattr(Kinds(), name)(P).item() == 6
    # Since Python 3.13 a classmethod does not ask what it wraps for a method of the class.
    assert len(Kinds.of_class.plans) == (1 if sys.version_info < (3, 13) else 2)


def test_static_methods() -> None:
    assert [Kinds.static(P).item(), Kinds().static(N).item()] == [4, -3]
    assert [Kinds.static_outside(P).item(), Kinds().static_outside(N).item()] == [4, -3]


@pytest.mark.parametrize("kind", [Kinds, Slotted, Unhashable, Frozen, FrozenSlots])
def test_instances_do_not_mix(kind: type) -> None:
    a, b = kind(2.0), kind(7.0)
    found = [a.method(P), b.method(P), a.method(P), b.method(N)]
    assert [t.item() for t in found] == [4, 14, 4, -3]


def test_slots_are_guarded_and_plans_are_kept() -> None:
    held = Slotted(2.0)
    before = len(Slotted.method.plans)
    assert [held.method(P).item(), held.method(P).item()] == [4, 4]
    assert len(Slotted.method.plans) == before + 1
    held.k = 3.0
    assert held.method(P).item() == 6


def test_further_forms() -> None:
    a, b = Kinds(2.0), Kinds(7.0)
    assert [a.held.item(), b.held.item()] == [4, 14]
    assert [a(P).item(), b(P).item()] == [40, 140]
    assert [a.doubled().item(), b.doubled().item()] == [4, 14]
    assert functools.partial(a.method, P)().item() == 4
    assert Further(2.0).method(P).item() == 5
    assert Kinds.method(a, P).item() == 4
    assert [hy.hybridize(a)(P).item(), hy.hybridize(a.method)(P).item()] == [40, 4]


def test_abstract_methods_stay_abstract() -> None:
    class Abstract(abc.ABC):
        @hy.hybridize
        @abc.abstractmethod
        def part(self, x: Any) -> Any: ...

        @hy.hybridize
        def whole(self, x: Any) -> Any:
            return self.part(x) * 2 if x > 0 else x

    class Concrete(Abstract):
        def part(self, x: Any) -> Any:
            return x + 1

    with pytest.raises(TypeError, match="abstract"):
        Abstract()
    assert [Concrete().whole(P).item(), Concrete().whole(N).item()] == [6, -3]


class Net(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(2, 2)

    @hy.hybridize
    def forward(self, x: Any) -> Any:
        return self.linear(x) if hy.sum(x) > 0 else x


class Wider(Net):
    @hy.hybridize
    def forward(self, x: Any) -> Any:
        return super().forward(x) + 1


def test_a_hybridized_forward_calls_that_of_its_base() -> None:
    net, x = Wider(), f32([1.0, 2.0])
    assert net(x).tolist() == (net.linear(x) + 1).tolist()
    assert sorted(net.state_dict()) == ["linear.bias", "linear.weight"]
    assert pickle.loads(pickle.dumps(net))(x).tolist() == net(x).tolist()


def test_copies_and_pickles() -> None:
    for held in (Kinds(3.0), Slotted(3.0), Frozen(3.0), FrozenSlots(3.0)):
        assert held.method(P).item() == 6
        for made in (copy.copy(held), copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
            assert made is not held
            assert made.method(P).item() == 6
        assert pickle.loads(pickle.dumps(held.method))(P).item() == 6
    assert pickle.loads(pickle.dumps(Kinds.of_class))(P).item() == 6
    held = Frozen(3.0)
    held.method(P)
    assert held == Frozen(3.0)
    assert dataclasses.replace(held, k=4.0).method(P).item() == 8
