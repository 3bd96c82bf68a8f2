"""Windows: slices of a fixed length that begin where only the run knows, ``x[i : i + 3]``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, CutShortError, PathError, author_location
from hybrid.ir import Node, Value
from hybrid.ir.interpreter import current
from hybrid.number.staging import check
from hybrid.number.traced_number import Number
from hybrid.ops.elementwise.exact_integers import add_exact, subtract_exact

Maker = Callable[[Value], Node | None]

_SUMS, _DIFFERENCES = (ops.add, add_exact), (ops.subtract, subtract_exact)


def window(_self: Number, taken: slice, size: int) -> Tensor | None:
    """The indices that ``taken``, a slice with a traced bound, selects from an axis of ``size``.

    None where their number differs from run to run, and may do so.
    """
    step = 1 if taken.step is None else taken.step
    start = _number(taken.start)
    if type(step) is not int or step < 1 or type(start) is not Number:
        return _refuse_length()
    length = _difference(start, _number(taken.stop))
    if length is None or length < 0 or start.kind == "float":
        return _refuse_length()
    first = start.whole()
    if length:
        fits = None
        if start.may_be_below(0):
            behind = ops.logical_and(first >= -size, first < -length)
            fits = ops.logical_or(first >= 0, behind)
        if start.may_exceed(size - length):
            inside = first <= size - length
            fits = inside if fits is None else ops.logical_and(fits, inside)
        if fits is not None:
            if _was_cut():
                return _refuse_length()
            check(fits, partial(_refuse_cut, length, size), (first,), (CutShortError,))
        if start.may_be_below(0):
            first = ops.where(first < 0, first + size, first)
    return first + ops.arange(0, length, step)


def _number(bound: Any) -> Any:
    """A bound; a tensor as the number in it."""
    return current().number_of(bound) if isinstance(bound, Tensor) else bound


def _difference(start: Number, stop: Any) -> int | None:
    """``stop - start``, if that is the same in every run."""
    if type(stop) is not Number:
        return None
    tracer: Any = current()
    values = [tracer.traced(n.tensor).content for n in (start, stop)]
    (base, offset), (other, further) = (_split(value, tracer.maker) for value in values)
    return further - offset if _same(base, other, tracer.maker) else None


def _split(value: Value, maker: Maker) -> tuple[Value, int]:
    """``value`` as another and what is added to that."""
    node, offset = maker(value), 0
    while node is not None and node.op in (*_SUMS, *_DIFFERENCES):
        left, right = node.operands
        added = _constant(right, maker)
        if added is None and node.op in _SUMS:
            left, added = right, _constant(left, maker)
        if added is None:
            break
        offset += added if node.op in _SUMS else -added
        value, node = left, maker(left)
    return value, offset


def _constant(value: Value, maker: Maker) -> int | None:
    node = maker(value)
    return node.attributes["value"] if node is not None and node.op.name == "full" else None


def _same(a: Value, b: Value, maker: Maker) -> bool:
    """Whether two values are surely equal."""
    if a is b:
        return True
    first, second = maker(a), maker(b)
    if first is None or second is None or first.op is not second.op or not first.pure:
        return False
    return (
        not first.regions
        and len(first.results) == 1
        and first.attributes == second.attributes
        and all(_same(x, y, maker) for x, y in zip(first.operands, second.operands, strict=True))
    )


def _was_cut() -> bool:
    """Whether a run has cut the slice short that this line of the author's makes."""
    tracer: Any = current()
    while tracer.parent is not None:
        tracer = tracer.parent
    return tracer.paths is not None and str(author_location()) in tracer.paths.cut


def _refuse_length() -> None:
    """Raise where sizes do not depend on values."""
    tracer: Any = current()
    if tracer.parent is None and not tracer.general:
        return
    error = CaptureError if tracer.general else PathError
    raise error(
        "a slice of a tensor has a length that only the run knows",
        at=author_location(),
        why="A slice may begin anywhere if it ends a fixed number of elements later.",
        fix="write x[i:i + 3], or keep the whole tensor and choose: "
        "hybrid.where(hybrid.arange(len(x)) < n, x, 0)",
    )


def _refuse_cut(length: int, size: int, start: int) -> NoReturn:
    raise CutShortError(
        f"a slice of {length} elements from {start} on does not fit an axis of size {size}",
        why="Shapes in a graph are fixed. Eagerly the slice would be cut short here.",
        fix="let the slice begin where all of it fits, or pad the tensor",
    )


Number.window = window  # type: ignore[attr-defined]
