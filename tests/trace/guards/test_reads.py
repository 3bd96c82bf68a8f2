"""Reads: whatever Python value a captured function looks at, a change of it is honoured."""

import argparse
import collections
import contextlib
import dataclasses
import enum
import functools
import types
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from tests.helpers import same

# Each case gives a function and what changes the value that it reads.


class Plain:
    """Attributes, no methods."""


class Slotted:
    __slots__ = ("scale",)


@dataclasses.dataclass
class Data:
    scale: float = 2.0


class Mode(enum.Enum):
    DOUBLE = 1
    TRIPLE = 2


def holding(kind: type, **attributes: Any) -> Any:
    made = kind()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


Case = tuple[Callable[..., Any], Callable[[], Any]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__.replace("_", " ")] = make
    return make


def attribute_of(owner: Any) -> Case:
    return lambda x: x * owner.scale, lambda: setattr(owner, "scale", 3.0)


for made in (types.SimpleNamespace, argparse.Namespace, Plain, Slotted, Data):
    CASES[f"attribute of {made.__name__}"] = lambda made=made: attribute_of(
        holding(made, scale=2.0)
    )


@case
def a_class_attribute() -> Case:
    class Config:
        scale = 2.0

    return attribute_of(Config)


@case
def a_class_attribute_read_through_an_instance() -> Case:
    class Config:
        scale = 2.0

    config = Config()
    return lambda x: x * config.scale, lambda: setattr(Config, "scale", 3.0)


@case
def a_class_attribute_read_by_a_classmethod() -> Case:
    class Config:
        scale = 2.0

        @classmethod
        def apply(cls, x):
            return x * cls.scale

    return Config.apply, lambda: setattr(Config, "scale", 3.0)


@case
def a_singleton_on_its_class() -> Case:
    class Config:
        current = None

        @classmethod
        def get(cls):
            return cls.current

    Config.current = holding(types.SimpleNamespace, scale=2.0)
    return lambda x: x * Config.get().scale, lambda: setattr(Config.current, "scale", 3.0)


@case
def an_attribute_spelled_out() -> Case:
    config = holding(Plain, scale=2.0)
    return lambda x: x * getattr(config, "scale"), lambda: setattr(config, "scale", 3.0)  # noqa: B009


@case
def an_attribute_with_a_default() -> Case:
    config = Plain()
    return lambda x: x * getattr(config, "scale", 2.0), lambda: setattr(config, "scale", 3.0)


@case
def an_attribute_that_may_be_missing() -> Case:
    config = Plain()

    def function(x):
        return x * config.scale if hasattr(config, "scale") else x

    return function, lambda: setattr(config, "scale", 3.0)


@case
def an_attribute_that_is_deleted() -> Case:
    config = holding(Plain, scale=2.0)
    return lambda x: x * getattr(config, "scale", 3.0), lambda: delattr(config, "scale")


@case
def an_enum() -> Case:
    config = holding(Plain, mode=Mode.DOUBLE)
    return (
        lambda x: x * (2 if config.mode is Mode.DOUBLE else 3),
        lambda: setattr(config, "mode", Mode.TRIPLE),
    )


@case
def a_property() -> Case:
    class Config:
        def __init__(self) -> None:
            self._scale = 2.0

        @property
        def scale(self):
            return self._scale

    config = Config()
    return lambda x: x * config.scale, lambda: setattr(config, "_scale", 3.0)


@case
def a_cached_property() -> Case:
    class Config:
        @functools.cached_property
        def scale(self):
            return 2.0

    config = Config()
    return lambda x: x * config.scale, lambda: setattr(config, "scale", 3.0)


@case
def a_method_replaced_on_the_instance() -> Case:
    class Config:
        def apply(self, x):
            return x * 2

    config = Config()
    return lambda x: config.apply(x), lambda: setattr(config, "apply", lambda x: x * 3)


@case
def what_getattr_makes() -> Case:
    class Config:
        def __init__(self) -> None:
            self.__dict__["values"] = {"scale": 2.0}

        def __getattr__(self, name):
            return self.__dict__["values"][name]

    config = Config()
    return lambda x: x * config.scale, lambda: config.values.update(scale=3.0)


@case
def a_base_class_method() -> Case:
    class Base:
        scale = 2.0

        def apply(self, x):
            return x * self.scale

    class Derived(Base):
        def apply(self, x):
            return super().apply(x)

    derived = Derived()
    return derived.apply, lambda: setattr(derived, "scale", 3.0)


@case
def an_attribute_of_a_function() -> Case:
    def function(x):
        return x * function.scale

    function.scale = 2.0
    return function, lambda: setattr(function, "scale", 3.0)


@case
def a_module() -> Case:
    return attribute_of(holding(lambda: types.ModuleType("settings"), scale=2.0))


@case
def an_import_inside() -> Case:
    from tests import helpers

    def function(x):
        from tests.helpers import interpret

        return x * (2 if interpret is ORIGINAL else 3)

    return function, lambda: setattr(helpers, "interpret", None)


@case
def a_global_that_appears_later() -> Case:
    def function(x):
        try:
            return x * LATER
        except NameError:
            return x

    return function, lambda: globals().__setitem__("LATER", 3.0)


@case
def items_deep_inside() -> Case:
    table = {"a": {"b": [1, types.SimpleNamespace(scale=2.0)]}}
    return lambda x: x * table["a"]["b"][1].scale, lambda: setattr(table["a"]["b"][1], "scale", 3.0)


@case
def a_key_that_appears_later() -> Case:
    table: dict[str, float] = {}
    return lambda x: x * table.get("scale", 2.0), lambda: table.update(scale=3.0)


@case
def a_deque() -> Case:
    values = collections.deque([2.0])
    return lambda x: x * values[0], lambda: values.append(values.pop() + 1)


@case
def an_ordered_dict() -> Case:
    values = collections.OrderedDict(scale=2.0)
    return lambda x: x * values["scale"], lambda: values.update(scale=3.0)


@case
def a_bytearray() -> Case:
    values = bytearray(b"\2")
    return lambda x: x * values[0], lambda: values.__setitem__(0, 3)


@case
def a_set() -> Case:
    values = {1, 2}
    return lambda x: x * len(values), lambda: values.add(3)


@case
def an_array_in_an_attribute() -> Case:
    config = holding(Plain, table=np.ones(3, np.float32))
    return lambda x: x * config.table, lambda: config.table.__setitem__(0, 3.0)


@case
def a_list_of_functions() -> Case:
    scale = [2.0]
    functions = [lambda x: x * scale[0]]
    return lambda x: functions[0](x), lambda: scale.__setitem__(0, 3.0)


@case
def a_decorated_function() -> Case:
    table = {"scale": 2.0}

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    return decorator(lambda x: x * table["scale"]), lambda: table.update(scale=3.0)


@case
def a_context_manager() -> Case:
    table = {"scale": 2.0}

    @contextlib.contextmanager
    def scale() -> Iterator[float]:
        yield table["scale"]

    def function(x):
        with scale() as k:
            return x * k

    return function, lambda: table.update(scale=3.0)


@case
def a_generator() -> Case:
    table = {"scale": 2.0}

    def scales() -> Iterator[float]:
        yield table["scale"]

    return lambda x: sum(x * k for k in scales()), lambda: table.update(scale=3.0)


@case
def a_partial() -> Case:
    table = {"scale": 2.0}
    function = functools.partial(lambda k, x: x * k * table["scale"], 1.0)
    return function, lambda: table.update(scale=3.0)


@case
def a_keyword_default() -> Case:
    def function(x, *, k=2.0):
        return x * k

    return function, lambda: function.__kwdefaults__.update(k=3.0)


@case
def a_callable_object() -> Case:
    class Scale:
        scale = 2.0

        def __call__(self, x):
            return x * self.scale

    scale = Scale()
    return scale, lambda: setattr(scale, "scale", 3.0)


def scaling(*, through: str) -> Case:
    """Methods that read a closure variable, found in some way other than by ``owner.name``."""
    factor = 2.0

    def change() -> None:
        nonlocal factor
        factor = 3.0

    class Named:
        def scale_by_two(self, x):
            return x * factor

        def __call__(self, x):
            return x * factor

        @property
        def scale(self):
            return factor

    class Formatted(Formatter):  # a library's method calls it by its own name
        def convert_field(self, value, conversion):
            seen.append(value * factor)
            return ""

    owner, parts, seen = Named(), ("scale", "by", "two"), []
    ways = {
        "getattr": lambda x: getattr(owner, "_".join(parts))(x),
        "the dict": lambda x: Named.__dict__["_".join(parts)](owner, x),
        "a later call": lambda x: later(owner, x),
        "a call": lambda x: owner(x),
        "a property": lambda x: x * owner.scale,
        "a library": lambda x: (Formatted().vformat("{0!r}", (x,), {}), seen.pop())[1],
    }
    return ways[through], change


def later(owner: Any, x: hy.Tensor) -> hy.Tensor:
    """Names a method of a class that was met before."""
    return owner.scale_by_two(x)


for way in ("getattr", "the dict", "a later call", "a call", "a property", "a library"):
    CASES[f"a method found through {way}"] = lambda way=way: scaling(through=way)

ORIGINAL = None


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cases change in modules is put back."""
    from tests import helpers

    monkeypatch.setitem(globals(), "ORIGINAL", helpers.interpret)
    monkeypatch.setattr(helpers, "interpret", helpers.interpret)
    monkeypatch.setitem(globals(), "LATER", None)
    del globals()["LATER"]


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_a_changed_value_is_honoured(make: Callable[[], Case], restored: None) -> None:
    function, change = make()
    hybridized = hy.hybridize(function)
    x = hy.asarray([1.0, 2.0, 3.0])
    before = function(x)
    assert same(hybridized(x), before) and same(hybridized(x), before)
    assert len(hybridized.plans) == 1
    change()
    after = function(x)
    assert not same(after, before)
    assert same(hybridized(x), after) and same(hybridized(x), after)
    assert len(hybridized.plans) == 2


def test_methods_that_are_not_called_are_not_followed() -> None:
    class Busy:
        def __init__(self) -> None:
            self.function = lambda x: x * 2

        def unused(self) -> Any:
            return pytest, np, argparse, CASES, functools

    owner, x = Busy(), hy.ones(3)
    captured = hy.hybridize(lambda x: owner.function(x))
    assert captured(x).tolist() == [2.0] * 3
    (plan,) = captured.plans
    assert not any("pytest" in guard or "CASES" in guard for guard in plan.guards)
    assert len(plan.guards) < 10
