"""Families of calls that differ in sizes alone, and share a capture with open axes.

The first call of a family is captured for its sizes.  At the next one, the axes that have changed
get symbols: that capture serves all calls that meet the conditions under which it was made, each
size with a plan of its own, which is bound and not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from hybrid.calls.dynamic_axes import Axis, Declared
from hybrid.calls.open_captures import OpenCapture
from hybrid.core.exceptions import is_interrupt
from hybrid.core.size_conditions import Condition
from hybrid.core.sizes import HIGHEST, LOWEST
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.trace.capture.captured_graph import Capture, OpenAxes
from hybrid.trace.capture.first_gradients import adding

Opened = Mapping[Axis, Hashable]  # axes of one number, or of one Dim, have one symbol
AtSizes = tuple[OpenCapture, Sequence[int]]
_NONE: Mapping[Axis, Declared] = {}
_REMEMBERED = 16  # calls whose shapes tell which axes change
MOST = 8  # open captures of a family: a function that needs more tells sizes apart


class OpenFamily:
    """The open captures of calls whose arguments differ in sizes alone."""

    def __init__(self, leaves: Sequence[Any], declared: Mapping[Axis, Declared] = _NONE) -> None:
        self.declared = declared  # axes that are open from the first call on
        self.keep = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]  # ids in the key
        self.seen: list[tuple[tuple[int, ...], ...]] = []  # shapes of the tensors of each call
        self.captures: list[OpenCapture] = []
        self.fixed: set[Axis] = set()  # that the function takes for plain numbers
        self._pinned: dict[Axis, int] = {}  # that it did so at one size, which may be by chance
        self.fixing: dict[Axis, Condition] = {}  # what fixes these
        self.refusal = ""  # why there is no open capture
        self._failure = ""
        self._looked: set[str] = set()  # digests of files that were looked for

    def capture(
        self,
        leaves: Sequence[Any],
        trace: Callable[[Opened], Capture],
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
        shapes = tuple([leaf.type.shape for leaf in leaves if isinstance(leaf, Tensor)])
        if shapes not in self.seen and len(self.seen) < _REMEMBERED:
            self.seen.append(shapes)
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
            self.captures.append(OpenCapture(made, fast=fast))
        return self.serving(leaves) or self._adding(leaves, fast, files)

    def loaded_at(self, leaves: Sequence[Any], fast: bool, files: Any) -> Capture | None:
        """The capture of a call from ``files``, as one for its sizes alone."""
        found = self.loaded(leaves, fast, files)
        return None if found is None else found[0].capture_at(found[1])

    def captured(self) -> None:
        """Take note that the call was captured for its sizes alone, and raised nothing."""
        self.refusal, self._failure = self.refusal or self._failure, ""

    def opened(self, leaves: Sequence[Any]) -> Opened:
        """The axes that differ from call to call; those that always agree have one number."""
        found: dict[Axis, Hashable] = {
            place: entry.dim or (entry.label,)
            for place, entry in self.declared.items()
            if LOWEST <= leaves[place[0]].type.shape[place[1]] <= HIGHEST
        }
        numbers: dict[tuple[int, ...], int] = {}
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for at, i in enumerate(tensors):
            for axis, size in enumerate(leaves[i].type.shape):
                history = (size, *[shapes[at][axis] for shapes in self.seen])
                varies = len(set(history)) > 1 and LOWEST <= size <= HIGHEST
                if varies and (i, axis) not in self.fixed and (i, axis) not in found:
                    found[i, axis] = numbers.setdefault(history, len(numbers))
        return found

    def opening(
        self, leaves: Sequence[Any], trace: Callable[[Opened], Capture], fast: bool
    ) -> AtSizes | None:
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
        trace: Callable[[Opened], Capture],
        fast: bool,
        files: Any,
    ) -> AtSizes | None:
        """A new open capture; None where there can be none, or the call raises."""
        try:
            made = trace(opened)
        except Exception as error:
            if is_interrupt(error):
                raise
            if self.declared and isinstance(error, CaptureError):
                raise
            self._failure = (str(error) or type(error).__name__).splitlines()[0]
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
                size = leaves[place[0]].type.shape[place[1]]
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
        return self._entered(leaves, made, fast, files)

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
        self, leaves: Sequence[Any], made: Capture, fast: bool, files: Any
    ) -> AtSizes | None:
        """A new open capture, for this call and later ones."""
        if files is not None:
            files.keep_open(made)
        self.captures.append(OpenCapture(made, fast=fast))
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
                return self._entered(leaves, found, fast, files)
        return None


def open_family_key(key: Any, leaves: Sequence[Any]) -> Hashable:
    """The key of a family: ``key`` with the rank of each tensor in place of its shape."""
    structure, keys, *rest = key
    kinds = [
        (leaf.type.dtype, leaf.type.rank, leaf.record is not None)
        if isinstance(leaf, Tensor)
        else own
        for leaf, own in zip(leaves, keys, strict=True)
    ]
    return (structure, tuple(kinds), *rest)
