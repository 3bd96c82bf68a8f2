"""hybrid.core.dataclass: objects behave as those of the standard library's dataclasses."""

import copy
import dataclasses
import inspect
import pickle
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
    assert Base.__doc__ == "A base." and Derived.__slots__ == ("b",)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        d.a = 3
    with pytest.raises(TypeError, match=r"Derived.__init__\(\) missing 1 required positional"):
        Derived()


def test_a_repr_that_holds_itself_ends() -> None:
    found = Derived(1, [])
    found.b.append(found)
    assert repr(found) == "Derived(a=1, b=[...])"
