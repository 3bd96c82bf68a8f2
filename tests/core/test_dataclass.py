"""hybrid.core.dataclass: objects behave as those of the standard library's dataclasses."""

import ast
import copy
import dataclasses
import inspect
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hybrid.core import dataclass as classes

OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"eq": False, "slots": True},
    {"frozen": True, "slots": True, "repr": False},
)


def made(module: Any, options: dict[str, bool]) -> type:
    @module.dataclass(**options)
    class Point:
        x: int
        y: tuple = (1, 2)
        z: list = module.field(default_factory=list, compare=False)
        hidden: int = module.field(default=0, repr=False, hash=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x + 1)

    return Point


def told(run: Any) -> Any:
    """What ``run`` gives, or what it raises."""
    try:
        return run()
    except Exception as error:
        return type(error), str(error).replace("made.<locals>.", "")


def refuses(point: Any) -> bool:
    """Whether it takes no new attribute: how the standard one says so depends on the version."""
    try:
        point.other = 5
    except (AttributeError, TypeError):
        return True
    return False


def behaviour(kind: type, default_repr: bool) -> list[Any]:
    a, b, c = kind(1), kind(1, (1, 2), [3], 0), kind(1, hidden=4)
    found = [
        a == b, a == c, a != b, a == 1, a.z is not kind(1).z, a.x,
        told(lambda: hash(a) == hash(b)), told(lambda: hash(a) == hash(c)),
        told(lambda: setattr(a, "x", 5)), told(lambda: delattr(b, "x")), told(lambda: b.x),
        refuses(a), told(lambda: kind()), told(lambda: kind(1, nope=2)),
        str(inspect.signature(kind)).replace("<factory>", "").partition("z")[0],
        kind.__doc__ is None or kind.__doc__.startswith("Point("), kind.__match_args__,
        hasattr(a, "__dict__"), dataclasses.is_dataclass(kind),
        [f.name for f in dataclasses.fields(kind)],
        dataclasses.asdict(a), dataclasses.replace(c, y=3).y,
        copy.copy(c).hidden, copy.deepcopy(b).z,
    ]  # fmt: skip
    return found + ([] if default_repr else [repr(a), repr(c)])


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "plain")
def test_objects_are_as_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = made(classes, options), made(dataclasses, options)
    bare = options.get("repr") is False
    for _ in range(2):  # objects that are made without a compiled __init__, and with one
        assert behaviour(ours, bare) == behaviour(theirs, bare)
        for number in range(classes.UNCOMPILED):
            assert ours(number).x == number + 1


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "plain")
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"x": 2}), ((1,), {"nope": 2}), ((1,), {"z": [2]})],
)
def test_arguments_of_the_first_object(options, args, kwargs) -> None:
    ours, theirs = made(classes, options), made(dataclasses, options)
    found, expected = (told(lambda kind=kind: kind(*args, **kwargs)) for kind in (ours, theirs))
    if isinstance(expected, theirs):
        found, expected = dataclasses.astuple(found), dataclasses.astuple(expected)
    assert found == expected


def test_few_objects_are_made_without_compiling() -> None:
    kind = made(classes, {})
    for _ in range(classes.UNCOMPILED):
        kind(1)
    assert not inspect.isfunction(vars(kind)["__init__"])
    kind(1)
    assert inspect.isfunction(vars(kind)["__init__"])


@classes.dataclass(frozen=True, slots=True)
class Base:
    """A base."""

    a: int


@classes.dataclass(frozen=True, slots=True)
class Derived(Base):
    b: Any = None

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Derived)


def test_inheritance_pickles_and_own_methods() -> None:
    d = Derived(1, [2])
    again = pickle.loads(pickle.dumps(d))
    assert (again.a, again.b, again) == (1, [2], d)
    assert hash(Base(1)) == hash((1,)) and Base(1) != Base(2) and Base(1) != d
    slots = ("b",) if sys.version_info >= (3, 11) else ("a", "b")  # those of bases, too
    assert Base.__doc__ == "A base." and Derived.__slots__ == slots
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        d.a = 3
    with pytest.raises(TypeError, match=r"Derived.__init__\(\) missing 1 required positional"):
        Derived()


def test_a_repr_that_holds_itself_ends() -> None:
    found = Derived(1, [])
    found.b.append(found)
    assert repr(found) == "Derived(a=1, b=[...])"


# Cached attributes ------------------------------------------------------------------------------


class Slow:
    """An object that computes ``value`` when ``may`` is set."""

    def __init__(self) -> None:
        self.begun, self.may, self.computed = threading.Event(), threading.Event(), 0

    @classes.cached_attribute
    def value(self) -> object:
        """What it is."""
        self.begun.set()
        assert self.may.wait(10)
        self.computed += 1
        return object()


def test_a_cached_attribute_is_computed_once_for_each_object() -> None:
    one, other = Slow(), Slow()
    one.may.set(), other.may.set()
    assert one.value is one.value is not other.value
    assert (one.computed, Slow.value.__doc__) == (1, "What it is.")


def test_an_object_does_not_wait_for_another_that_computes() -> None:
    slow, quick = Slow(), Slow()
    quick.may.set()
    thread = threading.Thread(target=lambda: slow.value, daemon=True)
    thread.start()
    assert slow.begun.wait(10)
    quick.value  # noqa: B018
    assert thread.is_alive()
    slow.may.set()
    thread.join()


def test_threads_that_compute_at_once_get_one_value() -> None:
    slow, found = Slow(), []
    threads = [
        threading.Thread(target=lambda: found.append(slow.value), daemon=True) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    slow.may.set()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len(set(found)) == 1


def test_the_package_has_no_cached_property_that_locks() -> None:
    package = Path(classes.__file__).parents[1]
    marked = [
        f"{path}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any("cached_property" in ast.unparse(mark) for mark in node.decorator_list)
    ]
    assert not marked
