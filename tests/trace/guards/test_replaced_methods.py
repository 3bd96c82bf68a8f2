"""Methods, properties and the code of functions: when they are replaced, the plan is another."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.helpers import same

X = hy.asarray(2.0)


def classes() -> tuple[type, type]:
    class Base:
        factor = 1.0
        shifted = functools.partial(lambda by, x: x + by, 5)

        def __init__(self, value: float = 1.0) -> None:
            self.value = value

        def method(self, x: Any) -> Any:
            return x + 1

        @staticmethod
        def static(x: Any) -> Any:
            return x * 2

        @classmethod
        def of_class(cls, x: Any) -> Any:
            return x * 3

        @property
        def number(self) -> float:
            return 4.0

        def __call__(self, x: Any) -> Any:
            return x * 5

        def __add__(self, other: Any) -> Any:
            return other + 6

        @hy.hybridize
        def hybridized(self, x: Any) -> Any:
            return x * 7

    class Derived(Base):
        def upwards(self, x: Any) -> Any:
            return super().method(x) * 10

    return Base, Derived


def other(_self: Any, x: Any) -> Any:
    return x + 50


USES: dict[str, tuple[Callable[..., Any], str, str, Any]] = {
    # What is called, then what is replaced: in which class, its name, what comes there.
    "a method": (lambda s, _, x: s.method(x), "base", "method", other),
    "a method, by a subclass": (lambda s, _, x: s.method(x), "derived", "method", other),
    "a method called by super": (lambda s, _, x: s.upwards(x), "base", "method", other),
    "a static method": (
        lambda s, _, x: s.static(x), "base", "static", staticmethod(lambda x: x + 50),
    ),
    "a class method": (lambda s, _, x: s.of_class(x), "base", "of_class", classmethod(other)),
    "a property": (lambda s, _, x: x * s.number, "base", "number", property(lambda _: 50.0)),
    "a property, by a number": (lambda s, _, x: x * s.number, "base", "number", 50.0),
    "a call": (lambda s, _, x: s(x), "base", "__call__", other),
    "an operator": (lambda s, _, x: s + x, "base", "__add__", other),
    "a constant": (lambda s, _, x: x * s.factor, "base", "factor", 50.0),
    "a constant, by a subclass": (lambda s, _, x: x * s.factor, "derived", "factor", 50.0),
    "what makes objects": (
        lambda _, kind, x: kind(2.0).value * x, "derived", "__init__",
        lambda self, value: setattr(self, "value", value + 50),
    ),
    "a partial": (
        lambda s, _, x: s.shifted(x), "base", "shifted", functools.partial(other, None),
    ),
    "a hybridized method": (lambda s, _, x: s.hybridized(x), "base", "hybridized", other),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:functools.partial will be:FutureWarning")
@pytest.mark.parametrize(("use", "where", "name", "new"), USES.values(), ids=USES)
def test_what_a_class_holds_is_replaced(
    use: Callable[..., Any], where: str, name: str, new: Any
) -> None:
    base, derived = classes()
    held = derived()

    def function(x: Any) -> Any:
        return use(held, derived, x)

    hybridized = hy.hybridize(function)
    same(hybridized(X), function(X))
    same(hybridized(X), function(X))
    assert len(hybridized.plans) == 1
    setattr({"base": base, "derived": derived}[where], name, new)
    same(hybridized(X), function(X))
    assert len(hybridized.plans) == 2


def test_a_method_is_gone() -> None:
    base, derived = classes()
    derived.method = other
    held = derived()
    hybridized = hy.hybridize(lambda x: held.method(x))
    assert hybridized(X).item() == 52.0
    del derived.method
    assert hybridized(X).item() == 3.0
    del base.method
    with pytest.raises(AttributeError, match="method"):
        hybridized(X)


def test_the_code_of_a_function_is_replaced() -> None:
    def helper(x: Any) -> Any:
        return x + 1

    def function(x: Any) -> Any:
        return helper(x)

    hybridized = hy.hybridize(function)
    assert hybridized(X).item() == 3.0
    helper.__code__ = (lambda x: x + 50).__code__
    assert hybridized(X).item() == 52.0


def test_attributes_behind_a_hook_are_read_past_it() -> None:
    class Hooked:
        def __init__(self) -> None:
            self.w, self.n = hy.asarray(2.0), 3

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            return found * 3 if name == "w" else found + 1 if name == "n" else found

    seen = []
    for prepared in (lambda f: f, lambda f: hy.hybridize(f, ledger=False)):
        held = Hooked()

        def step(x: Any, held: Any = held) -> Any:
            y = x * held.w * held.n
            held.w = held.w + x
            return y + held.w

        call = prepared(step)
        found = [call(X).item(), call(X).item()]
        held.w = hy.asarray(5.0)
        found.append(call(X).item())
        held.n = 7
        found += [call(X).item(), vars(held)["w"].item()]
        seen.append(found)
    assert seen[0] == seen[1]


class Multiplies:
    """A descriptor that makes a function of what it holds."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return lambda x: x * self.k


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (functools.partialmethod(lambda s, k, x: x * k, 2), functools.partialmethod(other)),
        (functools.singledispatchmethod(lambda s, x: x * 2), functools.singledispatchmethod(other)),
        (Multiplies(2.0), Multiplies(5.0)),
    ],
    ids=["partialmethod", "singledispatchmethod", "descriptor"],
)
def test_members_that_bind_in_ways_of_their_own(first: Any, second: Any) -> None:
    class Kind:
        member = first

    held = Kind()
    hybridized = hy.hybridize(lambda x: held.member(x))
    same(hybridized(X), held.member(X))
    Kind.member = second
    same(hybridized(X), held.member(X))
