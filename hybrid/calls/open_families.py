"""Families of calls that differ in sizes alone, and share a capture with open axes.

The first call of a family is captured for its sizes.  At the next one, the axes that have changed
get symbols, those of arguments and those of tensors that are read from attributes and the like:
that capture serves all calls that meet the conditions under which it was made, each size with a
plan of its own, which is bound and not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from hybrid.calls.dynamic_axes import Axis, Declared
from hybrid.calls.families import NONE, NumberInputs, changed_numbers
from hybrid.calls.open_captures import OpenCapture
from hybrid.core.exceptions import is_interrupt
from hybrid.core.size_conditions import Condition
from hybrid.core.sizes import HIGHEST, LOWEST
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.ir.record import Leaf
from hybrid.trace.capture.captured_graph import Capture, Item, OpenAxes, at_call, shape_of
from hybrid.trace.capture.first_gradients import adding
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.places.address import Address, ArgumentLeaf
from hybrid.trace.places.signature import is_number, key_of, key_of_kind

Place = tuple[Item, int]  # an axis of an argument, or of a tensor outside
Opened = Mapping[Place, Hashable]  # axes of one number, or of one Dim, have one symbol
Trace = Callable[[NumberInputs, Opened], Capture]
AtSizes = tuple[OpenCapture, Sequence[int]]
_NONE: Mapping[Axis, Declared] = {}
_SHARED = "ranks share some of its tensors"
_REMEMBERED = 16  # calls whose shapes tell which axes change
MOST = 8  # open captures of a family: a function that needs more tells sizes apart


class OpenFamily:
    """The open captures of calls whose arguments differ in sizes alone."""

    def __init__(
        self, leaves: Sequence[Any], declared: Mapping[Axis, Declared] = _NONE,
        wider: OpenFamily | None = None,
    ) -> None:  # fmt: skip
        """``wider`` is the family of calls that may differ in numbers, too; these decide here."""
        self.declared = declared  # axes that are open from the first call on
        self.keep = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]  # ids in the key
        # Of each call: the shapes of its tensors, and its ints, as shapes of one size.
        self.seen: list[dict[Item, tuple[int, ...]]] = [] if wider is None else [*wider.seen]
        # Of tensors that were read, by their keys.
        self.outside: dict[Hashable, Address] = {} if wider is None else {**wider.outside}
        self.specific = "" if wider is None else wider.specific  # why numbers are no inputs
        self._varying: dict[Hashable, Item] = {}  # numbers that have not always been the same
        self._numbers: dict[int, Hashable] = {}  # those among the leaves of the last call
        self._guards: Guards | None = None  # of the last capture
        self.captures: list[OpenCapture] = []
        self.fixed: set[Place] = set()  # that the function takes for plain numbers
        self._pinned: dict[Place, int] = {}  # that it did so at one size, which may be by chance
        self.fixing: dict[Place, Condition] = {}  # what fixes these
        self.refusal = ""  # why there is no open capture
        self._failure = ""
        self._looked: set[str] = set()  # digests of files that were looked for

    def capture(
        self,
        leaves: Sequence[Any],
        trace: Trace,
        fast: bool,
        files: Any = None,
    ) -> AtSizes | None:
        """The capture of a call, and its sizes; None where it is one for these sizes alone.

        ``files`` (a Lookup) are looked at before anything is traced, and get what is.
        """
        self._failure = ""  # of a call before, which raised in the end
        found = self.serving(leaves) or self._adding(leaves, fast, files)
        if found is None and self._may_open:
            opened = self.opened(leaves)
            if opened:
                found = None if files is None else self.loaded(leaves, fast, files)
                found = found or self._opening(leaves, opened, trace, fast, files)
        self._note(leaves)
        return found

    @property
    def _may_open(self) -> bool:
        return not self.refusal and len(self.captures) < MOST

    def opens(self, leaves: Sequence[Any]) -> bool:
        """Whether a call that no capture serves gets one that serves other sizes, too."""
        return self._may_open and bool(self.opened(leaves))

    def loaded(self, leaves: Sequence[Any], fast: bool, files: Any) -> AtSizes | None:
        """The capture of a call from ``files``, and its sizes."""
        for made in files.open_captures(self._looked):
            self.captures.append(OpenCapture(made, leaves, fast=fast))
        return self.serving(leaves) or self._adding(leaves, fast, files)

    def loaded_at(self, leaves: Sequence[Any], fast: bool, files: Any) -> Capture | None:
        """The capture of a call from ``files``, as one for its sizes alone."""
        found = self.loaded(leaves, fast, files)
        return None if found is None else found[0].capture_at(found[1])

    def captured(self, leaves: Sequence[Any], capture: Capture) -> None:
        """Take note that the call was captured for its sizes alone, and raised nothing."""
        shared = _SHARED if capture.is_shared else ""
        self.refusal, self._failure = self.refusal or shared or self._failure, ""
        if self._numbers and (self.refusal or len(self.captures) == MOST):  # of some, perhaps
            self.specific = self.specific or self.refusal or "they make too many captures"
        self._look_outside(leaves, capture)

    def _look_outside(self, leaves: Sequence[Any], capture: Capture) -> None:
        """Take note of the tensors outside that ``capture`` may read."""
        known = len(self.outside)
        guards = self._guards = capture.guards
        further = [address for _, address in guards.repeated]
        for address in (*guards.attribute_sources.values(), *further):
            if not isinstance(address.owner, (Leaf, ArgumentLeaf)):  # gradients
                self.outside.setdefault(address.key, address)
        if len(self.outside) > known:
            self._note(leaves)

    def _note(self, leaves: Sequence[Any]) -> None:
        """Remember the sizes and numbers of a call."""
        shapes = {item: shape_of(tensor) for item, tensor in self._sized(leaves)}
        self._numbers = {i: key_of(leaf) for i, leaf in enumerate(leaves) if is_number(leaf)}
        self.seen = [other for other in self.seen if not other.items() <= shapes.items()]
        if len(self.seen) < _REMEMBERED:
            self.seen.append(shapes)

    def _sized(self, leaves: Sequence[Any]) -> Iterator[tuple[Item, Any]]:
        """The tensors of a call whose sizes may vary, and the ints that may be sizes."""
        for item in (*range(len(leaves)), *self.outside.values()):
            tensor = at_call(item, leaves)
            if isinstance(item, int):
                varies = isinstance(tensor, Tensor)
            else:  # a variable outside is a parameter
                varies = type(tensor) is Tensor and getattr(tensor, "leaf", None) is None
            if varies:
                yield item, tensor
        yield from [(i, leaf) for i, leaf in enumerate(leaves) if type(leaf) is int]

    def _inputs(self, leaves: Sequence[Any], opened: Opened) -> NumberInputs:
        """The numbers that vary, and that no size stands for."""
        changed: list[Item] = [i for i, was in self._numbers.items() if key_of(leaves[i]) != was]
        changed += [] if self._guards is None else changed_numbers(self._guards)
        for item in changed:
            self._varying.setdefault(item if isinstance(item, int) else item.key, item)
        if self.specific:
            return NONE
        places = [item for item in self._varying.values() if (item, 0) not in opened]
        return NumberInputs.of([item for item in places if is_number(at_call(item, leaves))])

    def opened(self, leaves: Sequence[Any]) -> Opened:
        """The axes that differ from call to call; those that always agree have one number."""
        found: dict[Place, Hashable] = {
            place: entry.dim or (entry.label,)
            for place, entry in self.declared.items()
            if LOWEST <= leaves[place[0]].type.shape[place[1]] <= HIGHEST
        }
        numbers: dict[tuple[int | None, ...], int] = {}
        for item, sized in self._sized(leaves):
            shape = shape_of(sized)
            known = [shapes.get(item, ()) for shapes in self.seen]
            for axis, size in enumerate(shape):
                before = [other[axis] if len(other) == len(shape) else None for other in known]
                history = (size, *before)
                varies = len({*history} - {None}) > 1 and LOWEST <= size <= HIGHEST
                if isinstance(sized, int):  # a size, if it is that of an axis
                    varies = varies and history in numbers
                if varies and (item, axis) not in self.fixed and (item, axis) not in found:
                    found[item, axis] = numbers.setdefault(history, len(numbers))
        return found

    def opening(self, leaves: Sequence[Any], trace: Trace, fast: bool) -> AtSizes | None:
        """One more open capture, and the sizes of a call, for which those there do not hold."""
        before = len(self.captures)
        if before < MOST:
            self._opening(leaves, self.opened(leaves), trace, fast, None)
        if len(self.captures) == before:
            return None
        made = self.captures[-1]
        values = made.values(leaves)
        return None if values is None else (made, values)

    def _opening(
        self,
        leaves: Sequence[Any],
        opened: Opened,
        trace: Trace,
        fast: bool,
        files: Any,
    ) -> AtSizes | None:
        """A new open capture; None where there can be none, or the call raises."""
        try:
            made, inputs = self._traced(leaves, opened, trace)
        except Exception as error:
            if is_interrupt(error):
                raise
            own = {place: number for place, number in opened.items() if isinstance(place[0], int)}
            if own and len(own) < len(opened):  # those of arguments may be open all the same
                found = self._opening(leaves, own, trace, fast, files)
                self.fixed.update(() if found is None else opened.keys() - own.keys())
                return found
            if self.declared and isinstance(error, CaptureError):
                raise
            self._failure = (str(error) or type(error).__name__).splitlines()[0]
            return None
        if made.is_shared:
            self.refusal = _SHARED
            return None
        axes = made.open_axes
        assert axes is not None
        fixed = axes.sizes.pinned()
        pinned = [s in fixed for s in axes.sizes.symbols[: len(axes.places)]]
        self.require_open(axes, opened)
        if any(pinned):
            numbers = [
                opened[place] for place, is_one in zip(axes.places, pinned, strict=True) if is_one
            ]
            for place in [place for place, number in opened.items() if number in numbers]:
                size = shape_of(at_call(place[0], leaves))[place[1]]
                if self._pinned.setdefault(place, size) != size:
                    self.fixed.add(place)
            for condition in axes.sizes.fixing():
                at = axes.sizes.symbols.index(condition.size.terms[0][0][0])
                if at >= len(axes.places):
                    continue
                number = opened[axes.places[at]]
                places = [place for place, other in opened.items() if other == number]
                for place in places:
                    self.fixing.setdefault(place, condition)
            rest = {place: number for place, number in opened.items() if number not in numbers}
            return self._opening(leaves, rest, trace, fast, files) if rest else None
        return self._entered(leaves, made, fast, files, inputs)

    def _traced(
        self, leaves: Sequence[Any], opened: Opened, trace: Trace
    ) -> tuple[Capture, NumberInputs]:
        """A capture in which the numbers that vary are inputs, if they can be."""
        inputs = self._inputs(leaves, opened)
        if not inputs:
            return trace(NONE, opened), NONE
        try:
            return trace(inputs, opened), inputs
        except Exception as error:
            if is_interrupt(error):
                raise
            failure = error
        made = trace(NONE, opened)  # raises what the call raises whatever its numbers are
        self.specific = (str(failure) or type(failure).__name__).splitlines()[0]
        return made, NONE

    def require_open(self, axes: OpenAxes, opened: Opened) -> None:
        """Raise where a declared axis is one that the function takes for a plain number."""
        for place, symbol in zip(axes.places, axes.sizes.symbols, strict=False):
            number = opened[place]
            labels = [e.label for e in self.declared.values() if number in (e.dim, (e.label,))]
            fixing = [c for c in axes.sizes.fixing() if c.size.terms[0][0][0] is symbol]
            if not (labels and fixing):
                continue
            raise CaptureError(
                f"{labels[0]} is declared to vary, and the function fixes it: {fixing[0]}",
                at=fixing[0].at,
                why="What takes a size for a plain number (str(n), [0] * n, a NumPy function) is "
                "captured for that size alone.",
                fix="compute with the size, or with tensors, instead; or do not declare the axis",
            )

    def _entered(
        self, leaves: Sequence[Any], made: Capture, fast: bool, files: Any,
        inputs: NumberInputs = NONE,
    ) -> AtSizes | None:  # fmt: skip
        """A new open capture, for this call and later ones."""
        if files is not None and not inputs.numbers:
            files.keep_open(made)
        elif files is not None:
            made.filed = "not kept in a file: axes are open, and numbers are inputs"
        self.captures.append(OpenCapture(made, leaves, inputs, fast=fast))
        self._look_outside(leaves, made)
        return self.serving(leaves)

    def serving(self, leaves: Sequence[Any]) -> AtSizes | None:
        """The capture there is for a call, and its sizes."""
        for made in self.captures:
            values = made.values(leaves)
            if values is not None:
                return made, values
        return None

    def _adding(self, leaves: Sequence[Any], fast: bool, files: Any) -> AtSizes | None:
        """One of the captures for gradients that this call finds where there were none."""
        if len(self.captures) == MOST:
            return None
        for made in self.captures:
            held = made.capture.firsts is not None and made.axes.values(leaves) is not None
            found = adding(made.capture, leaves) if held else None
            if found is not None:
                return self._entered(leaves, found, fast, files, made.inputs)
        return None


def families_of(
    families: Mapping[Hashable, OpenFamily], key: Any, leaves: Sequence[Any]
) -> list[OpenFamily]:
    """The families of a call that are there: of its numbers, if these decide, and of any."""
    found = [families.get(own) for own in family_keys(families, key, leaves)]
    return [family for family in found if family is not None]


def family_keys(
    families: Mapping[Hashable, OpenFamily], key: Any, leaves: Sequence[Any]
) -> list[Hashable]:
    """The keys of these families; a new one is of the first."""
    wide = _family_key(key, leaves, numbers=False)
    found = families.get(wide)
    if found is None or not found.specific or not any(map(is_number, leaves)):
        return [wide]
    return [_family_key(key, leaves, numbers=True), wide]


def _family_key(key: Any, leaves: Sequence[Any], *, numbers: bool) -> Hashable:
    """The key of a family: ``key`` with the rank of each tensor in place of its shape.

    Unless ``numbers`` count, there is a kind in place of each.
    """
    structure, keys, *rest = key
    kinds = [
        (leaf.type.dtype, leaf.type.rank, leaf.record is not None)
        if isinstance(leaf, Tensor)
        else own
        if numbers
        else key_of_kind(leaf)
        for leaf, own in zip(leaves, keys, strict=True)
    ]
    return (structure, tuple(kinds), *rest)
