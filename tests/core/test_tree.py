"""Trees: flatten tells structures apart, unflatten puts the same tree together."""

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid.core.tree import describe, flatten, tree_map, unflatten
from hybrid.errors import ArgumentTypeError

Point = namedtuple("Point", "x y")
Other = namedtuple("Other", "x y")

DESCRIBED: list[tuple[Any, str, int]] = [  # tree, its description, leaves
    (1, "*", 1),
    (None, "None", 0),
    ((), "()", 0),
    ([], "[]", 0),
    ({}, "{}", 0),
    ((1,), "(*,)", 1),
    ([1], "[*]", 1),
    ({"a": 1}, "{'a': *}", 1),
    ({1: [2, None]}, "{1: [*, None]}", 1),
    ((1, [2, {"a": (3,)}]), "(*, [*, {'a': (*,)}])", 3),
    (Point(1, None), "Point(*, None)", 1),
    (OrderedDict(a=1, b=2), "OrderedDict({'a': *, 'b': *})", 2),
    ("text", "*", 1),
    ({1, 2}, "*", 1),
    (range(3), "*", 1),
]


@pytest.mark.parametrize(("tree", "text", "count"), DESCRIBED)
def test_flatten_and_back(tree, text, count) -> None:
    leaves, structure = flatten(tree)
    assert len(leaves) == count
    assert describe(structure) == text
    hash(structure)
    back = unflatten(structure, leaves)
    assert type(back) is type(tree) and back == tree


DIFFERENT = [
    1,
    None,
    (1,),
    [1],
    {"a": 1},
    {"b": 1},
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    OrderedDict(a=1),
    (1, 2),
    Point(1, 2),
    Other(1, 2),
    ((1,),),
    ([1],),
    (None,),
    (),
    [],
    {},
]


def test_structures_differ() -> None:
    structures = [flatten(tree)[1] for tree in DIFFERENT]
    assert len(set(structures)) == len(DIFFERENT)


def test_leaves_come_from_left_to_right_and_as_they_are() -> None:
    marks = [object() for _ in range(4)]
    tree = {"z": marks[0], "a": (marks[1], [marks[2]]), "m": Point(marks[3], None)}
    leaves, structure = flatten(tree)
    assert all(a is b for a, b in zip(leaves, marks, strict=True))
    assert list(unflatten(structure, leaves)) == ["z", "a", "m"]


def test_unflatten_makes_new_containers() -> None:
    tree = {"a": [1]}
    leaves, structure = flatten(tree)
    back = unflatten(structure, leaves)
    back["a"].append(2)
    assert tree == {"a": [1]} and unflatten(structure, leaves) == {"a": [1]}


trees = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
    ),
    max_leaves=10,
)


@given(trees, trees)
def test_any_tree(tree, other) -> None:
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    assert (flatten(other) == (leaves, structure)) == (repr(other) == repr(tree))
    assert flatten(tree_map(lambda leaf: (leaf, leaf), tree))[0] == [
        x for x in leaves for _ in "ab"
    ]


def test_tree_map_over_several() -> None:
    tree = {"a": 1, "b": [2, None]}
    assert tree_map(lambda x, y: x - y, tree, {"a": 10, "b": [20, None]}) == {
        "a": -9,
        "b": [-18, None],
    }
    with pytest.raises(ArgumentTypeError, match="different structures"):
        tree_map(max, tree, {"a": 1, "b": (2, None)})
