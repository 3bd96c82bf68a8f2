"""Turn the trees that a capture returns or writes into recipes that build them from run results."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from hybrid.core.open_numbers import is_open
from hybrid.core.own_names import is_constant_tuple
from hybrid.core.tree import Several, flatten_until, named_parts, stored_items
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, Location, PathObjectError
from hybrid.ir import Value
from hybrid.number import Number, as_number
from hybrid.number.mixed_number import Mixed
from hybrid.number.tensor_or_number import TensorOrNumber
from hybrid.trace.capture.captured_graph import (
    ObjectRecipe,
    OptionalLeaf,
    PlaceWrite,
    Source,
    TreeRecipe,
)
from hybrid.trace.capture.leak_sweep import path_to_traced
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.places.address import GIVEN, Address, ArgumentLeaf, HeldObject, argument_leaves
from hybrid.trace.places.code_owner import CONTAINERS as CONTAINERS_OF_ANY
from hybrid.trace.places.code_owner import MISSING, has_attributes
from hybrid.trace.places.differences import ContainerDifference, item_writes
from hybrid.trace.places.objects import CONTAINERS, attributes, is_authors, is_plain
from hybrid.trace.places.place import CONTENT, reachable, refuse_diverged
from hybrid.trace.places.stand_ins import StandIn
from hybrid.trace.regions.tracer import Cell, Tracer
from hybrid.trace.values.deferred import Deferred, DeferredText
from hybrid.trace.values.optional import OptionalValue, is_optional
from hybrid.trace.values.traced_text import marks
from hybrid.trace.values.varlist import VarList, optional_result
from hybrid.trace.values.varlist_items import items_of

_LEAVES = (Tensor, Number, Mixed, OptionalValue, VarList, str, int, float, bool, NoneType)


class KnownValues:
    """The objects that a run need not compute: arguments, and containers from outside."""

    def __init__(
        self,
        leaves: Sequence[Any],
        given: Sequence[tuple[Any, tuple[Any, ...]]],
        outside: Iterable[Any],
        places: Mapping[int, Tensor],
        at: Location | None,
        returning: Location | None,
        replaced: Mapping[int, HeldObject],
    ) -> None:
        self.at = at  # where the author has written the function
        self.returning = returning  # and where it returns
        # Containers that are handed on, not built anew: by their ids, as leaves.
        self.containers: dict[int, tuple[str, Any]] = {
            id(container): ("given", keys) for container, keys in given
        }
        for container in outside:
            self.containers[id(container)] = "constant", container
        self.arguments = {
            id(t): i for i, t in reversed(list(enumerate(leaves))) if isinstance(t, Tensor)
        }
        self.leaves = leaves
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self.numbers = {id(cell): index for index, cell in places.items()}
        self.kept: dict[int, Address] = {}  # numbers in containers, by the ids of their cells
        self.given = False  # whether runs need the arguments themselves
        self.replaced = replaced  # by the ids of objects in whose place the function puts others

    @property
    def owners(self) -> dict[int, ArgumentLeaf | HeldObject]:
        """The owners of addresses that are others at each call: by the ids of those of this one."""
        return {**argument_leaves(self.leaves), **self.replaced}

    def hand_on(self, tree: Any, guards: Guards) -> None:
        """Let runs store and return tuples in ``tree`` themselves that are older, or constants."""
        seen: set[int] = set()
        rest = [tree]
        while rest:
            value = rest.pop()
            key = id(value)
            if key in self.containers or key in seen:
                continue
            seen.add(key)
            if is_constant_tuple(value) or (key in guards.known and not guards.inputs):
                if type(value) is tuple:
                    self.containers[key] = "constant", value
            elif type(value) in CONTAINERS or isinstance(value, tuple):
                rest += stored_items(value)

    def source(self, cell: Cell) -> Source:
        """Return the Source of a tensor from outside."""
        index = self.arguments.get(id(cell.tensor))
        if index is not None:
            return Source("argument", index)
        if id(cell.tensor) in self.numbers:
            return Source("number", self.numbers[id(cell.tensor)], cell.tensor)
        if id(cell.tensor) in self.kept:
            return Source("number", -1, cell.tensor, self.kept[id(cell.tensor)])
        if cell.address is not None:
            return Source("attribute", address=cell.address.seen_from(self.owners))
        return Source("cell", tensor=cell.tensor)


class FreshValue:
    """A container that the function makes anew in each call, such as a set: runs return copies."""

    def __init__(self, value: Any, is_known: Callable[[Any], bool]) -> None:
        """Keep a copy of ``value``, of which parts that are known stay what they are."""
        self.made: dict[int, Any] = {}
        self._find(value, is_known)
        self.value = self._copy(value)
        self.made = {}
        self._find(self.value, is_known)

    def copy(self) -> Any:
        """Return a new value of the kind."""
        return self._copy(self.value)

    def _find(self, value: Any, is_known: Callable[[Any], bool]) -> None:
        """Collect the containers in ``value`` that were made with it."""
        kinds = (*CONTAINERS_OF_ANY, bytearray, np.ndarray)
        own = isinstance(value, kinds) or has_attributes(value)
        if not own or is_known(value) or id(value) in self.made:
            return
        self.made[id(value)] = value
        if isinstance(value, CONTAINERS_OF_ANY):
            for item in stored_items(value):
                self._find(item, is_known)

    def _copy(self, value: Any) -> Any:
        if id(value) not in self.made:
            return value
        made = copy.copy(value)
        if isinstance(value, dict):
            dict.update(made, {key: self._copy(item) for key, item in value.items()})
        elif isinstance(value, (list, deque)):
            for at, item in enumerate(value):
                made[at] = self._copy(item)
        elif type(value) is tuple:
            made = tuple([self._copy(item) for item in value])
        return made


def _is_made_of_parts(value: Any) -> bool:
    """Return whether ``value`` is a tuple that trees are made of; the empty one is always one."""
    if type(value) is tuple:
        return len(value) > 0
    return isinstance(value, tuple) and hasattr(value, "_fields")


class ResultBuilder:
    """Turns trees of values of the tracer ``root`` into recipes for each run.

    ``output`` says which result of the run is a traced tensor.
    """

    def __init__(self, root: Tracer, known: KnownValues, output: Callable[[Tensor], int]) -> None:
        self.root, self.known, self.output = root, known, output
        self.objects: list[ObjectRecipe] = []  # of the objects that each run makes anew
        self.object_of: dict[int, int] = {}  # by the ids of those that the capture has made
        self.shared: set[int] = set()  # ids of its lists and dicts that are in several places
        self.chosen: dict[int, StandIn] = {}  # by ids, what may be an object from outside
        # Containers from outside that runs hand on, by their ids.
        self.outer_containers: dict[int, Any] = {}
        self.keep: list[Any] = []

    def share(self, trees: Iterable[Any]) -> None:
        """Note the lists, dicts and tuples of the capture that occur several times in ``trees``.

        A run makes one of each, so that they are one list afterwards, too.
        """
        seen: set[int] = set()
        rest = list(trees)
        while rest:
            value = rest.pop()
            key, kind = id(value), type(value)
            if key in self.known.containers:
                continue
            if kind in CONTAINERS or _is_made_of_parts(value):
                if key in seen:
                    self.shared.add(key)
                    continue
                seen.add(key)
                rest += stored_items(value)
            elif isinstance(value, tuple):
                rest += value
            elif kind is OptionalValue:
                rest.append(value.value)
            elif key not in seen and type(value) not in _LEAVES and self.is_made(value):
                seen.add(key)
                rest += attributes(value).values()
        self.chosen = self.root.stand_ins.chosen(self.root.is_known, seen)
        for standing in self.chosen.values():
            self.shared.update(
                id(place)
                for place in standing.places
                if place is not standing.made and type(place) in CONTAINERS
            )

    def container_writes(self, change: ContainerDifference) -> list[PlaceWrite]:
        """Return the PlaceWrites that repeat the change of a container."""
        kind, where = self.known.containers[id(change.container)]
        if kind == "given":
            self.known.given = True
            address = Address(GIVEN, CONTENT, where)
        else:
            address = Address(where, CONTENT)
        return [
            PlaceWrite(address, self.recipe_of(value), exists, key)
            for key, value, exists in item_writes(change)
        ]

    def recipe_of(self, tree: Any) -> TreeRecipe:
        """Return the recipe of ``tree``."""
        if is_optional(tree):
            self.refuse_either("an item" if isinstance(tree.error, KeyError) else "an attribute")
        stops = self.known.containers
        if self.shared or self.chosen:
            stops = stops.keys() | self.shared | self.chosen.keys()
        leaves, structure = flatten_until(tree, stops)
        return TreeRecipe(structure, tuple(self.leaf(leaf) for leaf in leaves))

    def leaf(self, leaf: Any) -> tuple[str, Any]:
        """Return (kind, what) for a leaf of a tree: see TreeRecipe."""
        if id(leaf) in self.known.containers:
            kind, _ = found = self.known.containers[id(leaf)]
            self.known.given = self.known.given or kind == "given"
            if kind == "constant":
                self.outer_containers[id(leaf)] = leaf
            return found
        if id(leaf) in self.chosen:
            return "either", self.one_of(self.chosen[id(leaf)])
        if id(leaf) in self.shared:
            return "object", self.object(leaf)
        if self.root.indefinite_values and isinstance(leaf, (Tensor, Number)):
            found = optional_result(self.root.indefinite_values, getattr(leaf, "tensor", leaf))
            if found is not None:
                flag = self.leaf(found.flag)[1]
                return "either", OptionalLeaf(
                    self.definite_leaf(leaf), flag, ("constant", found.other)
                )
        return self.definite_leaf(leaf)

    def definite_leaf(self, leaf: Any) -> tuple[str, Any]:
        """Return (kind, what) for a leaf that does not depend on a flag of the run."""
        if type(leaf) in (Mixed, TensorOrNumber):
            return self.of_any_kind(leaf.flags, leaf.parts)
        if is_open(leaf):
            leaf = as_number(leaf)
        if isinstance(leaf, Number):
            return "number", self.definite_leaf(leaf.tensor)[1]
        if isinstance(leaf, str) and marks(leaf):
            late = Deferred(leaf)
            operands = [make_tensor(t.type, t.content) for t in late.operands]
            return "text", DeferredText(late.build, tuple([self.leaf(t)[1] for t in operands]))
        if isinstance(leaf, OptionalValue):
            return "either", self.either(leaf)
        if type(leaf) is VarList:
            leaf.require_whole()
            return "items", items_of(leaf, self.leaf)
        if not isinstance(leaf, Tensor):
            refuse_diverged([leaf])
            if self.is_made(leaf):
                return "object", self.object(leaf)
            self.refuse_hidden(leaf)
            return self.kept_leaf(leaf)
        if type(leaf.content) is not Value:
            if id(leaf) in self.known.arguments:
                return "argument", self.known.arguments[id(leaf)]
            if id(leaf) not in self.root.attribute_sources:
                return "constant", leaf
            self.root.cell(leaf)  # what the place holds before the run, not what it gets
            return "source", list(self.root.cells).index(id(leaf))
        return "output", self.output(leaf)

    def kept_leaf(self, leaf: Any) -> tuple[str, Any]:
        """Return (kind, what) for a leaf without traced values: itself, or a copy for each run."""
        held = self.known.replaced.get(id(leaf))
        if held is not None:
            return "held", held.address
        if self.known.replaced:
            self.count_on_replaced(leaf)
        kinds = (*CONTAINERS_OF_ANY, bytearray, np.ndarray)
        if not (isinstance(leaf, kinds) or has_attributes(leaf)) or self.root.is_known(leaf):
            return "constant", leaf
        return "fresh", FreshValue(leaf, self.root.is_known)

    def count_on_replaced(self, leaf: Any) -> None:
        """Let the plan serve the very objects that ``leaf`` leads to, for it keeps them."""
        found = reachable([leaf])
        for key in self.known.replaced.keys() & found.keys():
            self.root.journal.identities.ask(found[key])

    def either(self, optional: OptionalValue) -> OptionalLeaf:
        """Return the OptionalLeaf of a value that only some paths have set."""
        value, other = optional.value, Several() if optional.other is MISSING else optional.other
        whole = isinstance(value, (list, tuple, dict))
        leaf = ("tree", self.recipe_of(value)) if whole else self.leaf(value)
        return OptionalLeaf(leaf, self.leaf(optional.flag)[1], ("constant", other))

    def one_of(self, standing: StandIn, around: StandIn | None = None) -> OptionalLeaf:
        """Return the OptionalLeaf of what stands for two objects, of which one is elsewhere, too.

        ``around`` stands for it on one path of the construct that its own is in.
        """
        made, flag = standing.made, standing.flag
        if flag is None or not self.root.owns(flag):
            self.require_path(standing if around is None else around)
        leaves = [
            ("either", self.one_of(self.chosen[id(place)], standing))
            if id(place) in self.chosen and place is not made
            else self.leaf(place)
            if self.root.is_known(place)
            else ("object", self.object_for(place, made))
            for place in standing.places
        ]
        return OptionalLeaf(leaves[0], self.leaf(flag)[1], leaves[1])

    def object_for(self, place: Any, made: Any) -> int:
        """Return the index of the recipe for ``place``, which ``made`` stands for on some paths.

        What is in it may be known in a branch alone; then it is what ``made`` holds.
        """
        index = self.object_of.get(id(place))
        if index is None:
            index = self.object(place if self.is_of_root(place) else made)
            self.object_of[id(place)] = index
            self.keep.append(place)
        return index

    def is_of_root(self, value: Any) -> bool:
        """Return whether all that ``value`` holds is known outside branches and loops."""
        seen: set[int] = set()
        rest = [value]
        while rest:
            value = rest.pop()
            if isinstance(value, Number):
                value = value.tensor
            if isinstance(value, Tensor):
                if type(value.content) is Value and not self.root.owns(value):
                    return False
            elif isinstance(value, (Mixed, TensorOrNumber, OptionalValue, VarList)):
                return False
            elif id(value) not in seen and not self.root.is_known(value):
                seen.add(id(value))
                if isinstance(value, CONTAINERS_OF_ANY):
                    rest += stored_items(value)
                elif is_plain(value):
                    rest += attributes(value).values()
        return True

    def require_path(self, standing: StandIn) -> NoReturn:
        """Have each path through the construct that has made ``standing`` captured by itself."""
        kind = type(standing.made).__name__
        raise PathObjectError(
            f"{self.root.builder.name} returns or stores a {kind} that is one from outside or "
            "another, as iterations of a loop or a condition inside a branch or loop say",
            at=standing.at or self.known.at,
            why="Which object it is would be known there alone.",
            fix=f"make a new {kind} of the one from outside, or bind it under a condition that "
            "stands in no branch and no loop",
            made_at=standing.at,
        )

    def of_any_kind(self, flags: Sequence[Any], parts: Sequence[Any]) -> tuple[str, Any]:
        """Return (kind, what) for a number whose Python type only the run knows."""
        if not flags or flags[0] is True:
            return self.definite_leaf(parts[0])
        rest = self.of_any_kind(flags[1:], parts[1:])
        if flags[0] is False:
            return rest
        return "either", OptionalLeaf(
            self.definite_leaf(parts[0]), self.definite_leaf(flags[0])[1], rest
        )

    def refuse_either(self, what: str, fix: str = "") -> NoReturn:
        """Raise that ``what`` is set on one path only."""
        raise CaptureError(
            f"{self.root.builder.name} sets {what} on one path only",
            at=self.known.at,
            why="Whether it is there would depend on the value of a tensor.",
            fix=fix or "set it on every path, to None where there is nothing",
        )

    def is_made(self, leaf: Any) -> bool:
        """Return whether ``leaf`` is an object that the function makes anew in each call."""
        if not is_plain(leaf) or self.root.is_known(leaf):
            return False
        return (
            is_authors(type(leaf)) or path_to_traced(leaf, set(), self.known.arguments) is not None
        )

    def object(self, leaf: Any) -> int:
        """Return the index of the recipe for the object ``leaf``, adding it if it is new."""
        index = self.object_of.get(id(leaf))
        if index is None:
            index = self.object_of[id(leaf)] = len(self.objects)
            self.keep.append(leaf)
            self.objects.append(ObjectRecipe(type(leaf), TreeRecipe(None, ())))
            self.objects[index] = ObjectRecipe(type(leaf), self.content_of(leaf))
        return index

    def content_of(self, made: Any) -> TreeRecipe:
        """Return the recipe of what an object holds, which may lead back to it."""
        if isinstance(made, tuple):
            kind, parts = named_parts(made) if hasattr(made, "_fields") else (tuple, made)
            recipe = self.recipe_of(list(parts))
            return TreeRecipe((kind, recipe.structure[1]), recipe.leaves)
        if type(made) in CONTAINERS:
            return self.recipe_of(made.copy())
        self.root.journal.refuse_half_written(made)
        return self.recipe_of({n: v for n, v in attributes(made).items() if v is not MISSING})

    def refuse_hidden(self, leaf: Any) -> None:
        """Raise if ``leaf`` hides a traced tensor, or computes its values after the call."""
        what = f"{self.root.builder.name} returned a {type(leaf).__name__}"
        if isinstance(leaf, (Iterator, Coroutine, AsyncIterator)):
            if isinstance(leaf, Coroutine):
                leaf.close()
            raise CaptureError(
                what,
                at=self.known.returning,
                why="It computes its values after the capture has ended, and only once.",
                fix="return a tuple or a list of tensors",
            )
        arguments = () if self.root.is_known(leaf) else self.known.arguments
        path = path_to_traced(leaf, set(), arguments)
        if path is not None:
            raise CaptureError(
                f"{what} that holds a traced tensor ({path})",
                at=self.known.returning,
                why="Only tuples, lists, dicts and plain objects of tensors can be returned.",
                fix="return the tensors in one of those",
            )
