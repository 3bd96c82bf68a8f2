"""Places that code reaches by names made at run time: read, written and guarded as spelled ones."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import operator
import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.trace.observed import Hybridize, Program, hybridized, require_same, seen, t

FACTOR = 2.0
TOTAL = t(0.0)


class Plain:
    pass


def scaled_by_factor(x: Any) -> Any:
    return x * FACTOR


@dataclasses.dataclass
class Settings:
    first: float = 1.0
    second: float = 2.0


# Reads: what is there is changed between calls ----------------------------------------------------


def reading(
    function: Any, *arguments: Any, values: tuple[Any, ...] = (1.0, 5.0, 5.0, 7.0)
) -> Program:
    """A program that calls ``function(x, state, *arguments)``; ``state.key`` is of ``values``."""

    def program(hybridize: Hybridize) -> list[Any]:
        state = SimpleNamespace(key=0.0, inner=SimpleNamespace(deep=2.0))
        called, found = hybridize(lambda x: function(x, state, *arguments)), []
        for value in values:
            state.key = value
            state.inner.deep = value
            found.append(called(t(2.0)))
        return found

    return program


take = getattr
KEY = operator.attrgetter("key")


def listed(x: Any, state: Any) -> Any:
    for name in vars(state):
        if name != "inner":
            x = x * getattr(state, name)
    return x


def evaluated(x: Any, state: Any, name: str) -> Any:
    return eval(f"x * state.k{name}", {"x": x, "state": state})


READS = {
    "getattr": reading(lambda x, state, n: x * getattr(state, f"k{n}"), "ey"),
    "getattr of tensors": reading(
        lambda x, state, n: x * getattr(state, f"k{n}"), "ey", values=(t(1.0), t(5.0), 3.0, t(7.0))
    ),
    "another name of getattr": reading(lambda x, state, n: x * take(state, f"k{n}"), "ey"),
    "object.__getattribute__": reading(
        lambda x, state, n: x * object.__getattribute__(state, n), "key"
    ),
    "attrgetter": reading(lambda x, state: x * KEY(state)),
    "attrgetter of a path": reading(
        lambda x, state, n: x * operator.attrgetter("inner.de" + n)(state), "ep"
    ),
    "map": reading(lambda x, state, n: x * sum(map(lambda k: getattr(state, k), [n])), "key"),
    "vars": reading(lambda x, state, n: x * vars(state)[n], "key"),
    "__dict__": reading(lambda x, state, n: x * state.__dict__["k" + n], "ey"),
    "__dict__.get": reading(lambda x, state, n: x * state.__dict__.get(n, 3.0), "key"),
    "getattr of __dict__": reading(lambda x, state, n: x * state.__dict__[n], "key"),
    "all of vars": reading(listed),
    "copy": reading(lambda x, state: x * copy.copy(state).__dict__["k" + "ey"]),
    "eval": reading(evaluated, "ey"),
}  # fmt: skip


@pytest.mark.parametrize("program", READS.values(), ids=READS)
def test_what_is_read(program: Program) -> None:
    require_same(program)


def looking_for(looks: Any, of_class: bool) -> Program:
    def program(hybridize: Hybridize) -> list[Any]:
        class Owner:
            pass

        owner = Owner()
        f = hybridize(lambda x, name: x * looks(owner, name))
        found = [f(t(2.0), "late")]
        (Owner if of_class else owner).late = 3.0
        found.append(f(t(2.0), "late"))
        delattr(Owner if of_class else owner, "late")
        return [*found, f(t(2.0), "late")]

    return program


LOOKS = {
    "getattr": lambda owner, name: getattr(owner, name, 10.0),
    "hasattr": lambda owner, name: 5.0 if hasattr(owner, name) else 1.0,
    "getattr of the class": lambda owner, name: getattr(type(owner), name, 10.0),
}


@pytest.mark.parametrize("of_class", [False, True])
@pytest.mark.parametrize("looks", LOOKS.values(), ids=LOOKS)
def test_what_is_not_there_yet(looks: Any, of_class: bool) -> None:
    require_same(looking_for(looks, of_class))


def test_names_in_vars() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        owner = Plain()
        f = hybridize(lambda x, name: x * 2 if name in vars(owner) else x)
        found = [f(t(1.0), "key")]
        owner.key = 1.0
        found.append(f(t(1.0), "key"))
        del owner.key
        return [*found, f(t(1.0), "key")]

    require_same(program)


def test_attributes_that_are_added() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        state = SimpleNamespace(w1=t(1.0))
        values = hybridize(lambda x: x + sum(vars(state).values()))
        names = hybridize(lambda x: x + sum(getattr(state, n) for n in dir(state) if n[0] == "w"))
        keywords = hybridize(lambda x: x + (lambda **given: sum(given.values()))(**vars(state)))
        found = []
        for name, value in (("w2", t(5.0)), ("w1", 3.0), ("w3", 1.0)):
            found += [values(t(1.0)), names(t(1.0)), keywords(t(1.0))]
            setattr(state, name, value)
        return [*found, values(t(1.0)), names(t(1.0)), keywords(t(1.0))]

    require_same(program)


def test_fields_of_a_dataclass() -> None:
    def by_fields(x: Any, settings: Any) -> Any:
        for field in dataclasses.fields(settings):
            x = x * getattr(settings, field.name)
        return x

    def program(hybridize: Hybridize) -> list[Any]:
        settings, found = Settings(), []
        one = hybridize(lambda x: by_fields(x, settings))
        other = hybridize(lambda x: x * sum(dataclasses.asdict(settings).values()))
        for value in (1.0, 4.0, 4.0, 5.0):
            settings.first = value
            found += [one(t(1.0)), other(t(1.0))]
        return found

    require_same(program)


def test_methods_by_name() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        class Owner:
            factor = 1.0

            def go_up(self, x: Any) -> Any:
                return x * self.factor

            def go_down(self, x: Any) -> Any:
                return x - self.factor

        owner, found = Owner(), []
        f = hybridize(lambda x, name: take(owner, "go_" + name)(x))
        for value in (2.0, 3.0, 3.0):
            owner.factor = value
            found += [f(t(5.0), "up"), f(t(5.0), "down")]
        Owner.go_up = lambda self, x: x * 100
        return [*found, f(t(5.0), "up")]

    require_same(program)


# Globals and modules ------------------------------------------------------------------------------


def with_factor(function: Any) -> Program:
    def program(hybridize: Hybridize) -> list[Any]:
        global FACTOR
        f, found = hybridize(lambda x, name: function(x, name)), []
        for value in (2.0, 3.0, 3.0, 4.0):
            FACTOR = value
            found.append(f(t(1.0), "FACTOR"))
        return found

    return program


GLOBALS = {
    "an item": lambda x, name: x * globals()[name],
    "get": lambda x, name: x * globals().get(name, 1.0),
    "in": lambda x, name: x * 2 if name + "S" in globals() else x * globals()[name],
    "of a function": lambda x, name: x * scaled_by_factor.__globals__[name],
    "a function": lambda x, name: globals()["scaled_by_" + name.lower()](x),
    "a module": lambda x, name: x * getattr(sys.modules[__name__], name),
    "eval": lambda x, name: x * eval(name),
}


@pytest.mark.parametrize("function", GLOBALS.values(), ids=GLOBALS)
def test_globals(function: Any) -> None:
    require_same(with_factor(function))


def test_functions_of_modules_that_no_code_names() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        module = types.ModuleType("found_by_name")
        exec("factor = 2.0\ndef go(x): return x * factor", module.__dict__)
        sys.modules["found_by_name"] = module
        f, found = hybridize(lambda x, name: importlib.import_module(name).go(x)), []
        for value in (2.0, 3.0, 3.0):
            module.factor = value
            found.append(f(t(1.0), "found_by_name"))
        del sys.modules["found_by_name"]
        return found

    require_same(program)


# Writes -------------------------------------------------------------------------------------------


def put_all(state: Any, names: Any, x: Any) -> None:
    list(map(setattr, [state, state], names, [x, x + 1]))


def put_in_branch(state: Any, name: str, x: Any) -> None:
    if x > 2:
        setattr(state, name, x * 2)
    else:
        vars(state)[name] = x


def put_in_loop(state: Any, name: str, x: Any) -> None:
    for row in hy.stack([x, x + 1]):
        setattr(state, name, getattr(state, name) + row)


def executed(state: Any, name: str, x: Any) -> None:
    exec(f"state.{name} = x", {"state": state, "x": x})


WRITES = {
    "setattr": lambda state, n, x: setattr(state, n, x),
    "a partial of setattr": lambda state, n, x: functools.partial(setattr, state)(n, x),
    "object.__setattr__": lambda state, n, x: object.__setattr__(state, n, x),
    "a bound __setattr__": lambda state, n, x: state.__setattr__(n, x),
    "map": lambda state, n, x: put_all(state, (n, n + "2"), x),
    "an item of __dict__": lambda state, n, x: state.__dict__.__setitem__(n, x),
    "update of __dict__": lambda state, n, x: state.__dict__.update({n: x}, other=x + 1),
    "setdefault": lambda state, n, x: vars(state).setdefault(n, x),
    "a sum in vars": lambda state, n, x: operator.setitem(vars(state), n, vars(state)[n] + x),
    "deleted and set": lambda state, n, x: (delattr(state, n), setattr(state, n, x)),
    "a plain value": lambda state, n, x: setattr(state, n, 5),
    "in a branch": put_in_branch,
    "in a loop": put_in_loop,
    "exec": executed,
}


def writing(write: Any, start: Any = 0.0) -> Program:
    def program(hybridize: Hybridize) -> list[Any]:
        state, found = Plain(), []
        state.key = t(start)
        f = hybridize(lambda x, name: write(state, name, x))
        for value in (1.0, 2.0, 3.0):
            f(t(value), "key")
            found.append(seen(state))
        if write is not put_in_loop and write is not WRITES["a sum in vars"]:
            state.late = t(0.0)
            for value in (4.0, 5.0):
                f(t(value), "late")
                found.append(seen(state))
        return found

    return program


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_is_written(write: Any) -> None:
    require_same(writing(write))


def test_a_new_attribute() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        state = Plain()
        put = hybridize(lambda x, name: setattr(state, "la" + name, x))
        read = hybridize(lambda x: x + state.late)
        return [each for v in (1.0, 2.0, 3.0) for each in (put(t(v), "te"), read(t(0.0)))]

    require_same(program)


def test_slots() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        class Owner:
            __slots__ = ("count", "total")

        owner, found = Owner(), []
        owner.total, owner.count = t(0.0), 2.0
        f = hybridize(lambda x, n, m: setattr(owner, n, getattr(owner, n) + x * getattr(owner, m)))
        for value in (1.0, 2.0, 3.0):
            owner.count = value
            f(t(value), "total", "count")
            found.append(owner.total)
        return found

    require_same(program)


class Buffers(hy.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for i in range(2):
            self.register_buffer(f"s{i}", hy.zeros(()))

    def forward(self, x: Any) -> Any:
        for i in range(2):
            setattr(self, f"s{i}", getattr(self, f"s{i}") + x)
        return x


class NamedBuffers(Buffers):
    def forward(self, x: Any) -> Any:
        for name, buffer in list(self.named_buffers()):
            setattr(self, name, buffer + x)
        return x


@pytest.mark.parametrize("kind", [Buffers, NamedBuffers])
def test_buffers_of_a_module(kind: type) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        model, found = kind(), []
        f = hybridize(model)
        for _ in range(3):
            f(t(1.0))
            found += [model.s0, model.s1]
        model.s1 = t(10.0)
        f(t(1.0))
        return [*found, model.s0, model.s1]

    require_same(program)


def test_objects_behind_names_made_at_run_time() -> None:
    def step(x: Any, state: Any) -> Any:
        for i in range(2):
            part = getattr(state, f"part{i}")
            x = x * getattr(part, "sca" + "le")
            setattr(part, "to" + "tal", part.total + x)
            getattr(part, "li" + "st").append(x)
        return x

    def program(hybridize: Hybridize) -> list[Any]:
        def part(scale: float) -> Any:
            return SimpleNamespace(scale=scale, total=t(0.0), list=[])

        state, found = SimpleNamespace(part0=part(2.0), part1=part(3.0)), []
        f = hybridize(lambda x: step(x, state))
        for value in (3.0, 5.0, 5.0):
            state.part1.scale = value
            found += [f(t(1.0)), seen(state.part0), seen(state.part1)]
        state.part0 = part(7.0)
        return [*found, f(t(1.0)), seen(state.part0), seen(state.part1)]

    require_same(program)


def global_item(x: Any, name: str) -> None:
    globals()[name] = globals()[name] + x


def global_update(x: Any, name: str) -> None:
    globals().update({name: x})


def global_in_a_loop(x: Any, name: str) -> None:
    for row in hy.stack([x, x + 1]):
        globals()[name] = globals()[name] + row


def global_of_exec(x: Any, name: str) -> None:
    exec(f"{name} = 5", globals())


@pytest.mark.parametrize("write", [global_item, global_update, global_in_a_loop, global_of_exec])
def test_globals_that_are_written(write: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        global TOTAL
        TOTAL = t(0.0)
        f, found = hybridize(lambda x, name: write(x, name)), []
        for value in (1.0, 2.0, 4.0):
            f(t(value), "TOTAL")
            found.append(TOTAL)
        TOTAL = t(1.0)
        f(t(1.0), "TOTAL")
        return [*found, TOTAL]

    require_same(program)


def test_a_global_that_is_new() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        globals().pop("MADE", None)
        f, found = hybridize(lambda x, name: global_update(x, name)), []
        for value in (1.0, 2.0, 4.0):
            f(t(value), "MADE")
            found.append(globals().pop("MADE"))
        return found

    require_same(program)


def test_what_is_written_before_an_error() -> None:
    def raising(state: Any, name: str, x: Any) -> None:
        setattr(state, name, x)
        raise ValueError(name)

    def program(hybridize: Hybridize) -> list[Any]:
        state, found = SimpleNamespace(key=t(0.0)), []
        f = hybridize(lambda x, name: raising(state, name, x))
        for value in (1.0, 2.0):
            with pytest.raises(ValueError, match="key"):
                f(t(value), "key")
            found.append(state.key)
        return found

    require_same(program)


# Class attributes, however the class is found -----------------------------------------------------


class Counting:
    total = t(0.0)
    steps = 1

    def type_(self, x: Any) -> Any:
        type(self).total = type(self).total + x
        return x

    def dunder(self, x: Any) -> Any:
        self.__class__.total = self.__class__.total + x
        return x

    def through_the_object(self, x: Any) -> Any:
        type(self).total = self.total + x
        return x

    def by_name(self, x: Any) -> Any:
        setattr(type(self), "tot" + "al", getattr(type(self), "total") + x)  # noqa: B009
        return x

    def cell(self, x: Any) -> Any:
        __class__.total = self.total + x  # type: ignore[name-defined]
        return x

    def mro(self, x: Any) -> Any:
        type(self).__mro__[0].total = self.total + x
        return x

    def module(self, x: Any) -> Any:
        sys.modules[__name__].Counting.total = self.total + x
        return x

    def hook(self, x: Any) -> Any:
        type.__setattr__(type(self), "total", self.total + x)
        return x

    def plain(self, x: Any) -> Any:
        type(self).steps = 5
        return x * self.steps

    def new(self, x: Any) -> Any:
        type(self).made = x
        return x

    def branch(self, x: Any) -> Any:
        if x > 1:
            type(self).total = type(self).total + x
        return x

    @classmethod
    def class_method(cls, x: Any) -> Any:
        cls.total = cls.total + x
        return x


class Below(Counting):
    pass


METHODS = [
    name for name, member in vars(Counting).items()
    if callable(member) or isinstance(member, classmethod)
]  # fmt: skip


@pytest.mark.parametrize("kind", [Counting, Below])
@pytest.mark.parametrize("name", METHODS)
def test_class_attributes(name: str, kind: type) -> None:
    def state() -> Any:
        return [
            seen([c.total, c.steps, getattr(c, "made", None), sorted({"made"} & {*vars(c)})])
            for c in (Counting, Below)
        ]

    def program(hybridize: Hybridize) -> list[Any]:
        for c in (Counting, Below):
            for attribute in ("total", "steps", "made"):
                if attribute in vars(c):
                    delattr(c, attribute)
        Counting.total, Counting.steps = t(0.0), 1
        f, found = hybridize(getattr(kind(), name)), []
        for value in (2.0, 3.0, 4.0):
            found += [f(t(value)), state()]
        Counting.total, Counting.steps = t(100.0), 7
        return [*found, f(t(2.0)), state()]

    require_same(program)


def test_attributes_of_a_metaclass_and_of_a_module_class() -> None:
    class Meta(type):
        total = t(0.0)

    class Made(metaclass=Meta):
        def go(self, x: Any) -> Any:
            type(type(self)).total = type(type(self)).total + x
            return x

    class Layer(hy.nn.Module):
        total = t(0.0)

        def forward(self, x: Any) -> Any:
            type(self).total = type(self).total + x
            return x

    def program(hybridize: Hybridize) -> list[Any]:
        Meta.total = Layer.total = t(0.0)
        f, g, found = hybridize(Made().go), hybridize(Layer()), []
        for value in (1.0, 2.0, 3.0):
            found += [f(t(value)), g(t(value)), Meta.total, Layer.total]
        return found

    require_same(program)


# What is refused ----------------------------------------------------------------------------------


def refused(program: Program) -> str:
    with pytest.raises(CaptureError) as caught:
        hybridized(program)
    lines = str(caught.value).splitlines()
    return "\n".join([lines[0].partition(" (/")[0], *lines[2:]])


def test_all_names_of_globals_are_refused() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        return [hybridize(lambda x: x * len(list(globals())))(t(1.0))]

    assert refused(program) == (
        "all names of globals() are looked at\n"
        "A plan would depend on every variable of the module.\n"
        "Fix: name the variables that are needed, globals()[name], or keep them in a dict of their "
        "own."
    )
    table = {"FACTOR": 2.0}
    require_same(lambda hybridize: [hybridize(lambda x: x * len(list(table)))(t(1.0))])


def test_another_dict_of_attributes_is_refused() -> None:
    def writing(put: Any) -> Program:
        def program(hybridize: Hybridize) -> list[Any]:
            owner, found = Plain(), []
            owner.key = t(0.0)
            f = hybridize(lambda x: put(owner, x))
            for value in (1.0, 2.0):
                f(t(value))
                found.append(seen(owner))
            return found

        return program

    def replaced(owner: Any, x: Any) -> None:
        owner.__dict__ = {"key": x}

    assert refused(writing(replaced)) == (
        "the __dict__ of a Plain object was replaced inside a hybridized function\n"
        "A plan reads and sets attributes in the dict that it knows.\n"
        "Fix: set the attributes, setattr(obj, name, value) or vars(obj).update(...)."
    )
    require_same(writing(lambda owner, x: vars(owner).update({"key": x})))


def test_names_of_pairs_that_only_a_call_knows_are_refused() -> None:
    def updating(pairs: Any) -> Program:
        def program(hybridize: Hybridize) -> list[Any]:
            owner = Plain()
            hybridize(lambda x: vars(owner).update(pairs(x)))(t(1.0))
            return [seen(owner)]

        return program

    assert refused(updating(lambda x: zip(["key"], [x], strict=True))) == (
        "a namespace is updated with a zip\n"
        "Its names are to be known before they are set.\n"
        "Fix: give update() a dict."
    )
    require_same(updating(lambda x: {"key": x}))


def test_context_variables() -> None:
    import contextvars

    variable = contextvars.ContextVar("scale", default=1.0)

    def program(hybridize: Hybridize) -> list[Any]:
        f, found = hybridize(lambda x: x * variable.get()), []
        for value in (1.0, 2.0, 2.0):
            variable.set(value)
            found.append(f(t(1.0)))
        return found

    require_same(program)
    assert refused(lambda hybridize: [hybridize(lambda x: variable.set(x))(t(1.0))]) == (
        "ContextVar.set() changes a ContextVar that outlives the call\n"
        "That happens once, while the function is captured, and no run of the plan repeats it.\n"
        "Fix: set it outside the hybridized function, or keep the value in an attribute."
    )
