"""Stores that run the author's code, or go past the statement: hooks, descriptors, namespaces."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any, ClassVar

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]


class Adding:
    """Setting ``zz`` adds to ``v``."""

    def __init__(self, v):
        self.v = v

    def __setattr__(self, name, value):
        if name == "zz":
            object.__setattr__(self, "v", self.v + value)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name == "zz":
            self.v = self.v - 1
        else:
            super().__delattr__(name)


@table.runs(*NUMBERS)
def setattr_of_the_class_in_branches(x):
    a = Adding(x)
    if x > 0:
        a.zz = 5.0
    else:
        a.v = a.v * 2
    return a.v


@table.runs(*STARTS)
def setattr_of_the_class_in_a_loop(x):
    a = Adding(x)
    while a.v < 60:
        a.zz = a.v
        if a.v > 10:
            a.zz = 1.0
    return a.v


@table.runs(*NUMBERS)
def delattr_of_the_class(x):
    a = Adding(x)
    if x > 0:
        del a.zz
    else:
        setattr(a, "zz", 3.0)  # noqa: B010
    if x > 1:
        delattr(a, "zz")
    return a.v


class Clipped:
    """Decides by the value that it is given."""

    def __init__(self, v):
        self.v = v
        self.sets = 0

    def __setattr__(self, name, value):
        if name == "v":
            if value > 1:
                value = value * 0 + 1
            super().__setattr__("sets", self.__dict__.get("sets", 0) + 1)
        super().__setattr__(name, value)


@table.runs(*NUMBERS)
def setattr_that_branches(x):
    a = Clipped(x)
    if x > 0.75:
        a.v = x * 0.5
    a.v = a.v + 0.25
    return a.v, a.sets


@table.runs(*NUMBERS)
def setattr_past_the_class(x):
    a = Adding(x)
    if x > 0:
        object.__setattr__(a, "v", x * 3)
    else:
        a.__setattr__("zz", 1.0)
    return a.v


@table.runs(*NUMBERS)
def setattr_of_a_class_made_here(x):
    class Twice:
        def __init__(self, v):
            self.v = v

        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2)

    t = Twice(x)
    if x > 0:
        t.v = x
    return t.v


@table.runs(*NUMBERS)
def setattr_with_a_name(x):
    a = SimpleNamespace(v=x, w=x)
    for name in ("v", "w"):
        if x > 0:
            setattr(a, name, getattr(a, name) * 2)
    return a.v, a.w


@table.runs(*NUMBERS)
def delattr_then_set(x):
    a = SimpleNamespace(v=x)
    if x > 0:
        delattr(a, "v")
        a.v = x * 5
    return a.v


@table.runs(*NUMBERS)
def vars_in_branches(x):
    a = SimpleNamespace(v=x, w=x)
    if x > 0:
        vars(a)["v"] = x * 5
    else:
        a.v = x + 7
        a.__dict__["w"] = x * 9
    return a.v, a.w


@table.runs(*NUMBERS)
def dict_of_an_object_updated(x):
    a = SimpleNamespace(v=x)
    if x > 0:
        a.__dict__.update(v=x * 5, w=x)
    else:
        vars(a).update({"v": a.v - 1, "w": x * 2})
    return a.v, a.w


@table.runs(*STARTS)
def dict_of_an_object_in_a_loop(x):
    a = SimpleNamespace(v=x)
    names = vars(a)
    while a.v < 60:
        names["v"] = names["v"] * 2 + 1
        if a.v > 20:
            a.v = a.v + 0.5
    return a.v


@table.runs(*NUMBERS)
def keywords_to_attributes(x):
    class Bag:
        def __init__(self, **values):
            self.__dict__.update(values)

        def update(self, **values):
            for name, value in values.items():
                self.__dict__[name] = value

    bag = Bag(v=x, w=x)
    if x > 0:
        bag.update(v=x * 2)
    else:
        bag.update(w=x * 3)
    return bag.v, bag.w


class Doubling:
    """A descriptor that keeps what it is given under another name."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        if value > 1:
            value = value * 2
        setattr(instance, self.name, value)

    def __delete__(self, instance):
        setattr(instance, self.name, getattr(instance, self.name) * 0)


class Stored:
    """The same by the namespace of the object."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__[self.name] * 3

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value + 1


class Described:
    a = Doubling()
    b = Stored()

    def __init__(self, x):
        self.a = x
        self.b = x


@table.runs(*NUMBERS)
def descriptors(x):
    d = Described(x * 1)
    if x > 0:
        d.a = x + 1
        d.b = x
    else:
        d.a = d.b
        del d.a
    return d.a, d.b


@table.runs(*STARTS)
def descriptors_in_a_loop(x):
    d = Described(x * 1)
    while d.b < 60:
        d.b = d.b * 1.5
        d.a += 1
    return d.a, d.b


class Celsius:
    def __init__(self, degrees):
        self._degrees = degrees
        self.reads = 0

    @property
    def degrees(self):
        self.reads += 1
        return self._degrees

    @degrees.setter
    def degrees(self, value):
        if value < 0:
            value = value * 0
        self._degrees = value

    @degrees.deleter
    def degrees(self):
        self._degrees = self._degrees * 0 - 1


@table.runs(*NUMBERS)
def properties(x):
    c = Celsius(x * 1)
    if x > 0:
        c.degrees += 1
    else:
        c.degrees = x
    if x > 1:
        del c.degrees
    return c.degrees, c.reads


class Slotted:
    __slots__ = ("v", "w")

    def __init__(self, v):
        self.v = v


class Checked(Slotted):
    __slots__ = ()

    def __setattr__(self, name, value):
        super().__setattr__(name, value + 1)


@table.runs(*NUMBERS)
def slots(x):
    s, c = Slotted(x), Checked(x)
    if x > 0:
        s.v, s.w = s.v * 2, x
        c.v = x
    else:
        s.w = x * 3
        setattr(c, "v", x * 5)  # noqa: B010
    return s.v, s.w, c.v


class Level:
    level: ClassVar[Any] = 1

    def __getattr__(self, name):
        return 100.0


@table.runs(*NUMBERS)
def attribute_over_that_of_the_class(x):
    a = Level()
    if x > 0:
        a.level += 2
        a.missing = x * 2
    else:
        a.missing = a.missing + x
    return a.level, a.missing


class Named(nn.Module):
    """Its hook hands on to the one of Module."""

    def __init__(self):
        super().__init__()
        self.seen = hy.zeros(())

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "scaled":
            super().__setattr__("seen", self.seen + value)

    def forward(self, x):
        if x > 0:
            self.scaled = x * 2
        else:
            self.seen = x
        return self.seen * 2


@table.makes(*NUMBERS, plans=2)
def hook_of_a_module():
    net = Named()
    net.scaled = hy.zeros(())
    return net, net


@table.makes(*NUMBERS, plans=1)
def hook_of_an_outer_object():
    a = Adding(f32(1.0))

    def run(x):
        if x > 0:
            a.zz = x
        else:
            a.v = a.v * 2
        return a.v * 1

    return run, a


@table.makes(*NUMBERS, plans=1)
def hook_that_makes_another_value():
    class Twice:
        v = Stored()

        def __init__(self):
            self.v, self.w = hy.zeros(()), hy.zeros(())

        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2)

    a = Twice()

    def run(x):
        if x > 0:
            a.v = x
        a.w = a.w + a.v
        return a.v * 1

    return run, a


@table.makes(*NUMBERS, plans=1)
def object_kept_by_an_outer_one():
    """Made in the call, and found again only through what was there before."""
    owner = SimpleNamespace(inner=None)

    def write(x):
        if x > 0:
            owner.inner.v = x * 2
        else:
            owner.inner.w = x * 3

    def run(x):
        owner.inner = SimpleNamespace(v=x, w=x)
        write(x)
        found = owner.inner.v, owner.inner.w
        owner.inner = None
        return found

    return run, owner


@table.runs(*NUMBERS)
def functions_that_store(x):
    a = SimpleNamespace(v=x)
    if x > 0:
        operator.setitem(vars(a), "v", x * 5)
    else:
        type(a).__setattr__(a, "v", x * 2)
    return a.v


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
