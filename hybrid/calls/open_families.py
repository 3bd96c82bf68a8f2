"""Families of calls that differ in sizes alone, and share a capture with open axes.

The first call of a family is captured for its sizes.  At the next one, the axes that have changed
get symbols: that capture serves all calls that meet the conditions under which it was made, each
size with a plan of its own, which is bound and not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hybrid.calls.dynamic_axes import Axis, Declared
from hybrid.core.dataclass import replace
from hybrid.core.exceptions import is_interrupt
from hybrid.core.size_conditions import Condition
from hybrid.core.sizes import HIGHEST, LOWEST
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.ir.bound_graphs import SizeBinding
from hybrid.trace.capture.captured_graph import Capture, OpenAxes

Opened = Mapping[Axis, Hashable]  # axes of one number, or of one Dim, have one symbol
_NONE: Mapping[Axis, Declared] = {}
_REMEMBERED = 16  # calls whose shapes tell which axes change
_MOST = 8  # open captures of a family: a function that needs more tells sizes apart


class OpenFamily:
    """The open captures of calls whose arguments differ in sizes alone."""

    def __init__(self, leaves: Sequence[Any], declared: Mapping[Axis, Declared] = _NONE) -> None:
        self.declared = declared  # axes that are open from the first call on
        self.keep = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]  # ids in the key
        self.seen: list[tuple[tuple[int, ...], ...]] = []  # shapes of the tensors of each call
        self.captures: list[tuple[Capture, Callable[..., bool]]] = []
        self.fixed: set[Axis] = set()  # that the function takes for plain numbers
        self.fixing: dict[Axis, Condition] = {}  # what fixes these
        self.refusal = ""  # why there is no open capture
        self._failure = ""

    def capture(self, leaves: Sequence[Any], trace: Callable[[Opened], Capture]) -> Capture | None:
        """The capture of a call, bound to its sizes; None where it is one for these sizes alone."""
        self._failure = ""  # of a call before, which raised in the end
        found = self._bound(leaves)
        if found is None and not self.refusal and len(self.captures) < _MOST:
            opened = self.opened(leaves)
            if opened:
                found = self._opening(leaves, opened, trace)
        shapes = tuple([leaf.type.shape for leaf in leaves if isinstance(leaf, Tensor)])
        if shapes not in self.seen and len(self.seen) < _REMEMBERED:
            self.seen.append(shapes)
        return found

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
            if hasattr(leaves[i], "leaf"):  # a variable, whose gradients are kept
                continue
            for axis, size in enumerate(leaves[i].type.shape):
                history = (size, *[shapes[at][axis] for shapes in self.seen])
                varies = len(set(history)) > 1 and LOWEST <= size <= HIGHEST
                if varies and (i, axis) not in self.fixed and (i, axis) not in found:
                    found[i, axis] = numbers.setdefault(history, len(numbers))
        return found

    def _opening(
        self, leaves: Sequence[Any], opened: Opened, trace: Callable[[Opened], Capture]
    ) -> Capture | None:
        """A new open capture, bound; None where there can be none, or the call raises."""
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
        if made.firsts is not None or axes is None:
            self._failure = "it stores gradients where there were none"
            return None
        pinned = [symbol in axes.sizes.pinned() for symbol in axes.sizes.symbols]
        self.require_open(axes, opened)
        if any(pinned):
            numbers = [
                opened[place] for place, is_one in zip(axes.places, pinned, strict=True) if is_one
            ]
            self.fixed.update([place for place, number in opened.items() if number in numbers])
            for condition in axes.sizes.fixing():
                at = axes.sizes.symbols.index(condition.size.terms[0][0][0])
                number = opened[axes.places[at]]
                places = [place for place, other in opened.items() if other == number]
                self.fixing.update(dict.fromkeys(places, condition))
            rest = {place: number for place, number in opened.items() if place not in self.fixed}
            return self._opening(leaves, rest, trace) if rest else None
        self.captures.append((made, made.guards.compiled(made)))
        return self._bound(leaves)

    def require_open(self, axes: OpenAxes, opened: Opened) -> None:
        """Raise where a declared axis is one that the function takes for a plain number."""
        for place, symbol in zip(axes.places, axes.sizes.symbols, strict=True):
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

    def _bound(self, leaves: Sequence[Any]) -> Capture | None:
        for made, holds in self.captures:
            axes = made.open_axes
            values = None if axes is None else axes.values(leaves)
            serves = False
            with suppress(AttributeError):  # a method, or a place that was read, is gone
                serves = values is not None and holds(leaves)
            if serves:
                return bound(made, values)
        return None


def bound(capture: Capture, values: Sequence[int]) -> Capture:
    """``capture`` at the sizes ``values`` of its symbols."""
    assert capture.open_axes is not None
    binding = SizeBinding(capture.open_axes.sizes, values)
    graph, gradient, recorded = binding.graph(capture.graph), capture.gradient, capture.recorded
    if gradient is not None:
        back = replace(gradient.backward, graph=binding.graph(gradient.backward.graph))
        gradient = replace(gradient, backward=back, further={})
    if recorded is not None:
        recorded = frozenset([binding.made[v] for v in recorded if v in binding.made])
    return replace(capture, stored_graph=graph, gradient=gradient, recorded=recorded, plans=None)


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
