"""Journals: what is logged after a mark is put back, in whatever order it was written."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.errors import Location
from hybrid.ir.record import Record
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.journal import Journal, LoggedPlace, Mark
from hybrid.trace.places.place import ANY, CONTENT, key_of


class Slotted:
    __slots__ = ("x",)


class Inheriting:
    x = 1


class Described:
    @property
    def x(self) -> Any:
        raise AssertionError("no property is asked")

    @x.setter
    def x(self, _value: Any) -> None:
        raise AssertionError("nor set")


def cell_of(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


# (owner, name, what to write): undo gives what was there, redo what was written.
PLACES: dict[str, Callable[[], tuple[Any, str, Any]]] = {
    "an attribute": lambda: (types.SimpleNamespace(x=1), "x", 2),
    "a new attribute": lambda: (types.SimpleNamespace(), "x", 2),
    "one that goes": lambda: (types.SimpleNamespace(x=1), "x", MISSING),
    "one of the class": lambda: (Inheriting(), "x", 2),
    "a slot": lambda: (Slotted(), "x", 2),
    "past a property": lambda: (Described(), "x", 2),
    "a variable": lambda: (cell_of(1), "cell_contents", 2),
    "a global": lambda: ({"x": 1}, "x", 2),
    "a new global": lambda: ({}, "x", 2),
    "a list": lambda: ([1, 2], CONTENT, [3]),
    "a dict": lambda: ({"a": 1, "b": 2}, CONTENT, {"b": 2, "a": 1}),
    "an ordered dict": lambda: (OrderedDict(a=1), CONTENT, {"b": 2}),
    "a default dict": lambda: (defaultdict(list, a=1), CONTENT, {}),
    "a set": lambda: ({1}, CONTENT, {2, 3}),
    "a deque": lambda: (deque([1, 2], maxlen=2), CONTENT, [5]),
}


def found(owner: Any, name: str) -> Any:
    """What is at a place, by Python's own means."""
    if name == CONTENT:
        return list(owner.items()) if isinstance(owner, dict) else list(owner)
    if type(owner) is dict:
        return owner.get(name, MISSING)
    if isinstance(owner, Described):
        return vars(owner).get(name, MISSING)
    own = getattr(owner, "__dict__", None)
    return getattr(owner, name, MISSING), None if own is None else name in own


@pytest.mark.parametrize("what", PLACES)
def test_undo_and_redo(what: str) -> None:
    owner, name, value = PLACES[what]()
    before = found(owner, name)
    mark = Mark()
    mark.add(LoggedPlace.as_is(owner, name)).use(read=False, written=True)
    mark.places[id(owner), name].put(value)
    after = found(owner, name)
    assert after != before
    left = mark.undo()
    assert found(owner, name) == before
    assert mark.undo()  # once more changes nothing
    assert found(owner, name) == before
    mark.redo(left)
    assert found(owner, name) == after


def test_what_is_only_read_stays() -> None:
    owner, mark = types.SimpleNamespace(x=1), Mark()
    mark.add(LoggedPlace.as_is(owner, "x")).use(read=True, written=False)
    owner.x = 2
    assert mark.undo() == {(id(owner), "x"): 2}
    assert owner.x == 2


@pytest.mark.parametrize(
    ("name", "uses", "read"),
    [
        ("x", ["read"], True),
        ("x", ["write"], False),
        ("x", ["read", "write"], True),
        ("x", ["write", "read"], False),  # what it reads is what was written
        (CONTENT, ["write", "read"], True),  # of which a part may be as it was
    ],
)
def test_whether_the_original_was_read(name: str, uses: list[str], read: bool) -> None:
    place = LoggedPlace([], name, None)
    for use in uses:
        place.use(read=use == "read", written=use == "write")
    assert place.read == read
    assert place.written == ("write" in uses)


def test_all_attributes_of_an_object_that_is_opened() -> None:
    owner, mark = types.SimpleNamespace(x=1, y=[2]), Mark()
    before = dict(vars(owner))
    mark.open(owner)
    vars(owner).update(x=3, z=4)
    del owner.y
    left = mark.undo()
    assert vars(owner) == before
    assert left == {(id(owner), "x"): 3, (id(owner), "y"): MISSING, (id(owner), "z"): 4}


def test_records_that_are_freed() -> None:
    x = hy.ones(3)
    x.requires_grad = True
    y = hy.exp(x)
    record, mark = y.record, Mark()
    assert isinstance(record, Record)
    before = record.saved, record.results, record.parents
    mark.keep(record)
    record.free()
    assert record.saved is None
    mark.undo()
    assert (record.saved, record.results, record.parents) == before


def test_announcements_are_those_of_the_first_writer() -> None:
    journal, owner = Journal(), types.SimpleNamespace(x=1)
    key = key_of(owner, "x")
    assert not journal.covers(key)
    journal.announce(key)
    first = journal.written_at(key)
    assert isinstance(first, Location)
    assert first.path == __file__
    journal.announce(key)
    assert journal.written_at(key) == first
    assert journal.covers(key)
    assert not journal.covers(key_of(owner, "y"))
    journal.announce((id(owner), ANY))
    assert journal.covers(key_of(owner, "y"))


def test_what_owners_and_variables_held_first() -> None:
    journal, owner, cell = Journal(), types.SimpleNamespace(x=1), cell_of(1)
    journal.announce_owner(owner)
    journal.announce_variable(cell, "cell_contents")
    owner.x, cell.cell_contents = 2, 2
    journal.announce_owner(owner)
    journal.announce_variable(cell, "cell_contents")
    assert journal.owners[id(owner)] == (owner, {"x": 1})
    assert journal.variables[id(cell), "cell_contents"] == (cell, 1)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.just("mark"),
            st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none()),
        ),
        max_size=30,
    )
)
def test_any_marks_and_writes(steps: list[Any]) -> None:
    """Undoing a journal, the newest mark first, gives what was there before all of them."""
    owner = types.SimpleNamespace(a=0, b=1)
    journal = Journal()
    marks = [(journal.mark(), dict(vars(owner)))]
    for step in steps:
        if step == "mark":
            marks.append((journal.mark(), dict(vars(owner))))
            continue
        name, value = step
        for mark, _ in marks:  # regions log with those around them
            if (id(owner), name) not in mark.places:
                mark.add(LoggedPlace.as_is(owner, name)).use(read=False, written=True)
        if value is None:
            vars(owner).pop(name, None)
        else:
            setattr(owner, name, value)
    after = dict(vars(owner))
    for mark, before in reversed(marks):
        left = mark.undo()
        assert vars(owner) == before
        mark.redo(left)
        assert vars(owner) == after
    journal.undo()
    assert vars(owner) == marks[0][1]
