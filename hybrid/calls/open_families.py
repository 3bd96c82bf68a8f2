"""Families of calls that differ in sizes alone, and share a capture with open axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from hybrid.core.dataclass import replace
from hybrid.core.exceptions import is_interrupt
from hybrid.core.sizes import LOWEST
from hybrid.eager.tensor import Tensor
from hybrid.ir.bound_graphs import Binding
from hybrid.trace.capture.captured_graph import Capture

Opened = Mapping[tuple[int, int], int]
_MOST = 16  # sizes of a family that are remembered


class OpenFamily:
    """The open captures of calls whose arguments have the same ranks."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[int, ...], ...]] = []  # shapes of the tensors of each call
        self.captures: list[tuple[Capture, Callable[..., bool]]] = []
        self.refusal = ""

    def capture(self, leaves: Sequence[Any], trace: Callable[[Opened], Capture]) -> Capture | None:
        """The capture of a call, bound to its sizes; None where it is one for these sizes alone."""
        found = self._bound(leaves)
        if found is None and not self.refusal:
            opened = self.opened(leaves)
            if opened:
                try:
                    made = trace(opened)
                except Exception as error:
                    if is_interrupt(error):
                        raise
                    self.refusal = (str(error) or type(error).__name__).splitlines()[0]
                else:
                    self.captures.append((made, made.guards.compiled(made)))
                    found = self._bound(leaves)
        shapes = tuple([leaf.type.shape for leaf in leaves if isinstance(leaf, Tensor)])
        if shapes not in self.seen and len(self.seen) < _MOST:
            self.seen.append(shapes)
        return found

    def opened(self, leaves: Sequence[Any]) -> Opened:
        """The axes that differ from call to call; those that always agree have one number."""
        found: dict[tuple[int, int], int] = {}
        numbers: dict[tuple[int, ...], int] = {}
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for at, i in enumerate(tensors):
            if hasattr(leaves[i], "leaf"):  # a parameter
                continue
            for axis, size in enumerate(leaves[i].type.shape):
                history = (size, *[shapes[at][axis] for shapes in self.seen])
                if len(set(history)) > 1 and size >= LOWEST:
                    found[i, axis] = numbers.setdefault(history, len(numbers))
        return found

    def _bound(self, leaves: Sequence[Any]) -> Capture | None:
        for made, holds in self.captures:
            axes = made.open_axes
            values = None if axes is None else axes.values(leaves)
            if values is not None and _holds(holds, leaves):
                return bound(made, values)
        return None


def _holds(holds: Callable[..., bool], leaves: Sequence[Any]) -> bool:
    try:
        return holds(leaves)
    except AttributeError:
        return False


def bound(capture: Capture, values: Sequence[int]) -> Capture:
    """``capture`` at these sizes."""
    assert capture.open_axes is not None
    binding = Binding(capture.open_axes.sizes, values)
    graph, gradient = binding.graph(capture.graph), capture.gradient
    if gradient is not None:
        back = gradient.backward
        gradient = replace(
            gradient, backward=replace(back, graph=binding.graph(back.graph)), further={}
        )
    recorded = capture.recorded
    if recorded is not None:
        recorded = frozenset([binding.made[v] for v in recorded if v in binding.made])
    return replace(capture, stored_graph=graph, gradient=gradient, recorded=recorded, plans=None)


def open_family_key(key: Any, leaves: Sequence[Any]) -> Hashable:
    """``key`` with the rank of each tensor for its shape."""
    structure, keys, *rest = key
    kinds = [
        (leaf.type.dtype, leaf.type.rank, leaf.record is not None)
        if isinstance(leaf, Tensor)
        else key
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return (structure, tuple(kinds), *rest)
