"""Branches: one ``cond`` node made of two traced regions, and the merged state in force."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.autodiff.flow import control_flows
from hybrid.core.dataclass import dataclass, field, replace
from hybrid.core.exceptions import settle
from hybrid.core.open_numbers import sizes_of_ints
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location
from hybrid.ir import Op, Value
from hybrid.ir.record import recording
from hybrid.ops.flow.control import cond
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import CONTENT, DivergedContent, Key, diverged_content, same_items
from hybrid.trace.regions.merge import DIVERGED, Build, Merge, Side
from hybrid.trace.regions.pending_errors import merged as merged_error
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.ties import meet
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import UNBOUND, OptionalValue, is_optional, of_attribute
from hybrid.trace.values.varlist import VarList


class Path:
    """One traced branch: its region, and the content of names and places at its end."""

    def __init__(
        self, region: Region, label: str, lines: Mapping[str, Location] | None = None
    ) -> None:
        self.region, self.label, self.lines = region, label, lines or {}
        region.path = self
        self.places: dict[tuple[int, str], Any] = {}
        self.names: dict[str, Any] = {}
        self.diverged = False  # it ends in an exception, and so does the run
        self.raised = False  # it ends in an exception, which is pending

    @property
    def side(self) -> Side:
        return Side(self.region, self.label, self.lines, self.places)

    @property
    def ended(self) -> bool:
        """Whether nothing goes on at its end."""
        return self.diverged or self.raised

    def close(self, names: Mapping[str, Any]) -> Mapping[str, Any]:
        """What ``names`` are at its end; they are given as they are where nothing is raised."""
        rest = self.region.rest
        return names if rest is None else rest.leave(names, getattr(self.region.roots, "cells", {}))

    def end(self, names: Mapping[str, Any]) -> None:
        """The branch has run: keep what it left, and put the places back."""
        names = self.close(names)
        self.names = dict(names)
        self.places = {**self.region.mark.undo(), **self.region.shared(names)}

    def place(self, key: tuple[int, str], original: Any) -> Any:
        if self.diverged:
            return DIVERGED
        return self.places.get(key, original)

    def name(self, name: str, before: Mapping[str, Any]) -> Any:
        return DIVERGED if self.ended else self.names.get(name, before[name])


def join(
    parent: Tracer,
    pred: Tensor,
    first: Path,
    second: Path,
    before: Mapping[str, Any],
    at: Location | None,
    continued: Continued | None = None,
) -> dict[str, Any]:
    """Stage the ``cond`` of two paths and write its results; returns merged names of ``before``.

    A ``continued`` gets what there is on the first path, for code that only runs after that one.
    """
    merge = Merge(first.side, second.side, pred, at)
    names, seen = {}, {}
    for name in before:
        a, b = first.name(name, before), second.name(name, before)
        if _are_other_dicts(a, b, first, second):
            merge.refuse(a, b, name)
        names[name] = merge.tree(a, b, name)
        if continued is not None and _differ(a, b):
            seen[name] = merge.only(a, DIVERGED)
    places = _places(merge, first, second)
    seen_places = {} if continued is None else _seen_places(merge, first, second)
    moves = [*_moves(merge, first, left=True), *_moves(merge, second, left=False)]
    cells = _cells(merge, first, second)
    _note_half_written(parent, first, second, merge.at)
    pairs = meet(merge, parent.follows)
    results = _node(parent, pred, first.region, second.region, merge)
    for path, other in ((first, second), (second, first)):
        for key, place in path.region.places.items():
            against = other.region.places.get(key)
            if place.read or against is None or not against.written:
                note_read(parent, place)  # what a path does not write, it hands on
    _use_up(parent, first, second)
    for place, build in places:
        parent.put(place.owner, place.name, build(results))
    for tensor, index in cells:
        write_cell(parent, tensor, results[index], first.region, second.region)
    merged = {name: build(results) for name, build in names.items()}
    for move in moves:
        move(results)
    for pair in pairs:
        pair.tie(parent, results)
    if continued is not None:
        continued.names = {name: (merged[name], build(results)) for name, build in seen.items()}
        continued.places = [
            (place, place.content(), build(results)) for place, build in seen_places.values()
        ]
    return merged


def _moves(merge: Merge, path: Path, *, left: bool) -> list[Callable[[Sequence[Tensor]], None]]:
    """What moves the errors that are pending on a path to the surroundings."""

    def met(value: Any, other: Any, name: str) -> Build:
        return merge.tree(value, other, name) if left else merge.tree(other, value, name)

    def only(value: Any, name: str) -> Build:
        return met(value, DIVERGED, name)

    found = []
    for pending in path.region.errors:
        flag = met(pending.flag, False, "an exception")
        found.append(merged_error(pending, path.region, flag, only))
    return found


@dataclass(eq=False, slots=True)
class Continued:
    """The contents that optional containers have on one of the paths that have met."""

    names: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # (merged, on that path)
    places: list[tuple[LoggedPlace, Any, Any]] = field(default_factory=list)  # the same

    def enter(self, region: Region, found: Mapping[str, Any]) -> dict[str, Any]:
        """Put it in force in a region that only runs after that path: its names."""
        for place, merged, seen in self.places:
            if same_items(place.content(), merged):
                region.put(place.owner, place.name, seen)
        return {name: seen for name, (merged, seen) in self.names.items() if found[name] is merged}


def _seen_places(merge: Merge, first: Path, second: Path) -> dict[Key, tuple[LoggedPlace, Build]]:
    """What lists from outside hold on the first path, where they hold something else."""
    found = {}
    for key, place in first.region.places.items():
        if place.written and place.name == CONTENT and isinstance(place.owner, list):
            a, b = first.place(key, place.original), second.place(key, place.original)
            if _differ(a, b):
                found[key] = place, merge.only(list(a), DIVERGED)
    return found


def _differ(a: Any, b: Any) -> bool:
    """Whether what comes of two values is one of a structure that only a run decides."""
    if a is b or a is DIVERGED or b is DIVERGED:
        return False
    if isinstance(b, OptionalValue) or (b is None or b is UNBOUND):
        return not isinstance(a, OptionalValue)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        uncertain = any(type(item) in (VarList, DivergedContent) for item in b)
        return uncertain or len(a) != len(b) or any(map(_differ, a, b))
    return isinstance(a, dict) and type(a) is type(b) and a.keys() != b.keys()


def _use_up(parent: Tracer, *paths: Path) -> None:
    """Free the records that backward() has walked on every path that goes on."""
    used = [path.region.mark.freed for path in paths if not path.diverged]
    if used:
        parent.use_up([record for record in used[0] if all(record in other for other in used)])


def _are_other_dicts(a: Any, b: Any, first: Path, second: Path) -> bool:
    """Whether the paths bind dicts of different keys, and neither is one that has gained some."""
    if not (type(a) is dict and type(b) is dict) or a.keys() == b.keys():
        return False
    return (id(a), CONTENT) not in first.places and (id(b), CONTENT) not in second.places


def note_read(parent: Tracer, place: LoggedPlace) -> None:
    """Log in ``parent`` a read of the place ``place``."""
    if isinstance(parent, Region):
        if parent.has_outside(place.owner, place.name):
            parent.log(place.owner, place.name, read=True, written=False)
    elif place.name == "grad":
        parent.read_tensor_attribute(place.owner, place.name)


def write_cell(parent: Tracer, tensor: Tensor, value: Tensor, *regions: Region) -> None:
    """Write a result of a node to a tensor from outside.

    Where all regions have written it without a history, it has none, though what it held before may
    have one; but a loop that has no iteration leaves that to what is no leaf.
    """
    leaf = getattr(tensor, "leaf", None)
    entries = [region.cells[id(tensor)] for region in regions if id(tensor) in region.cells]
    written = leaf is not None or len(regions) > 1
    if written and all(entry.record is None or entry.record is leaf for entry in entries):
        value.record = None
    parent.give(tensor, value)  # the regions have written it to all that it may be


def _places(merge: Merge, first: Path, second: Path) -> list[tuple[LoggedPlace, Build]]:
    """What was written on either path, each with what builds its merged content."""
    found = []
    places = {**second.region.places, **first.region.places}
    for key, place in places.items():
        written = [_writes(path, key) for path in (first, second)]
        if any(written):
            a, b = first.place(key, place.original), second.place(key, place.original)
            same = _holds_same if place.name == CONTENT else _unchanged
            unchanged = same(a, place.original) and same(b, place.original)
            if not unchanged or (place.is_of_class and all(written)):
                found.append((place, _merged_place(merge, place, a, b)))
    return found


def _note_half_written(parent: Tracer, first: Path, second: Path, at: Location | None) -> None:
    """Note the attributes that one of the paths sets, where both go on, and the other does not."""
    if first.diverged or second.diverged:
        return
    for path, other in ((first, second), (second, first)):
        for key, place in path.region.places.items():
            if place.written and not _writes(other, key):
                parent.journal.note_half_written(place, at)


def _writes(path: Path, key: Key) -> bool:
    """Whether the code of ``path`` writes the place of ``key``."""
    return key in path.region.places and path.region.places[key].written


def _merged_place(merge: Merge, place: Any, a: Any, b: Any) -> Build:
    count, shared, met = len(merge.pairs), dict(merge.shared), dict(merge.met)
    kinds = {type(a), type(b)}
    try:
        if place.name == CONTENT and (kinds == {list} or kinds == {dict}):
            return merge.contents(a, b, place.label or place.name)
        build = merge.tree(a, b, place.label or place.name)
        return lambda results: _missing(place, build(results), merge.at)
    except CaptureError as error:
        if place.name != CONTENT or not isinstance(place.owner, (list, deque, set)):
            raise
        settle(error)
        del merge.pairs[count:]
        merge.shared, merge.met = shared, met
        content = [diverged_content(merge.first.region, error)]  # which matters to those who look
        return lambda results: content


def _holds_same(now: Any, original: Any) -> bool:
    return _unchanged(now, original) or same_items(now, original)


def _missing(place: LoggedPlace, value: Any, at: Location | None) -> Any:
    """``value``; what reads an attribute or global that is missing raises what Python raises."""
    if not is_optional(value) or place.name == CONTENT:
        return value
    if type(place.owner) is dict:
        error = NameError(f"name {place.name!r} is not defined")
        return replace(value, error=error, at=value.at or at)
    return of_attribute(value, type(place.owner), place.name, at)


def _unchanged(now: Any, original: Any) -> bool:
    return now is original or now is DIVERGED


def _cells(merge: Merge, first: Path, second: Path) -> list[tuple[Tensor, int]]:
    """The tensors from outside that were written on either path, each with its result."""
    found = []
    for key, tensor in outside_tensors(first.region, second.region).items():
        entries = [r.cells.get(key) for r in (first.region, second.region)]
        if any(entry is not None and entry.written for entry in entries):
            a, b = (r.value_of(tensor) for r in (first.region, second.region))
            found.append((tensor, merge.pair(a, b)))
    return found


def outside_tensors(*regions: Region) -> dict[int, Tensor]:
    """The tensors from outside that ``regions`` read or wrote, by id."""
    return {key: cell.tensor for region in regions for key, cell in region.cells.items()}


def params_of(region: Region, tensors: Mapping[int, Tensor]) -> list[Value]:
    """The parameters of ``region`` for the outside ``tensors``."""
    return [
        region.cells[key].initial if key in region.cells else Value(tensor.type)
        for key, tensor in tensors.items()
    ]


def _node(
    parent: Tracer, pred: Tensor, first: Region, second: Region, merge: Merge
) -> list[Tensor]:
    tensors = outside_tensors(first, second)
    nodes = [node for r in (first, second) for node in r.builder.nodes]
    if not merge.pairs and not any(node.observable for node in nodes):
        return []
    regions = tuple(
        region.close(params_of(region, tensors), [pair[side].content for pair in merge.pairs])
        for side, region in enumerate((first, second))
    )
    operands = [pred, *tensors.values()]
    return apply_control(parent, cond, operands, {}, regions)


def apply_control(
    parent: Tracer, op: Op, operands: Sequence[Tensor], attrs: dict[str, Any], regions: tuple
) -> list[Tensor]:
    """Stage a control-flow node; returns its results, with a history if gradients flow.

    Under ``no_grad``, too: what is computed there has none, but it hands on what has one.
    """
    flows = [parent.record_of(t) is not None for t in operands]
    if parent.opens:
        attrs = {name: sizes_of_ints(value) for name, value in attrs.items()}
    given = op.attributes(attrs)
    with recording(True):
        made = parent.apply(op, operands, attrs, regions)
    results = list(made) if isinstance(made, tuple) else [made]
    for result, flow in zip(results, control_flows(op, flows, dict(given), regions), strict=True):
        if not flow:
            result.record = None
    return results
