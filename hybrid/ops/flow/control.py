"""Control flow as ops: nodes that own closed regions, and ordered calls into Python.

::

    %y = cond %p, %x {                             # one of two regions runs
      then(%x: f32[]) { ... return %a }
      else(%x: f32[]) { ... return %b }
    }
    %n, %x1, %rows = while %go, %x, %w {carried=1, length=8} {
      body(%x: f32[], %w: f32[]) { ... return %go1, %x1, %row }
    }
    %x1, %rows = for %n, %x, %xs, %w {carried=1, length=8, sliced=1} {
      body(%i: i64[], %x: f32[], %row: f32[], %w: f32[]) { ... return %x1, %out }
    }

The regions are closed: what a region uses of its surroundings is an operand.  Operands of a loop
are, in this order: what decides (``go``, a bool scalar, or ``count``, an int64 scalar), the carried
values, sliced inputs (``for`` alone), and invariants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, bool_, int64, tensor_type
from hybrid.errors import GraphError
from hybrid.ir import Graph, Op, op
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.ops.support import axis_ties
from hybrid.ops.support.batching import with_rows

FLAG = tensor_type(bool_, ())
COUNT = tensor_type(int64, ())


@op
def cond(
    pred: TensorType, *operands: TensorType, regions: tuple[Graph, ...]
) -> tuple[TensorType, ...]:
    """The results of the first region on ``operands`` where ``pred`` holds, else of the second."""
    _require_type("cond", "predicate", pred, FLAG)
    _require_regions("cond", regions, 2)
    for region in regions:
        _require_params("cond", region, operands)
    first, second = (tuple([v.type for v in region.results]) for region in regions)
    if first != second:
        raise GraphError(
            f"the regions of cond return {_listed(first)} and {_listed(second)}",
            fix="let both return the same types",
        )
    return first


@op
def while_(
    go: TensorType,
    *operands: TensorType,
    carried: int,
    length: int = 0,
    regions: tuple[Graph, ...],
) -> tuple[TensorType, ...]:
    """``while go: go, carried, rows = body(carried, invariants)``.

    Results: the number of iterations (i64), the carried values, and per further result of the body
    a stack ``[length, ...]`` whose row i is what iteration i returned.  Iterations past ``length``
    leave no row; rows never reached are unspecified.
    """
    _require_type("while", "test", go, FLAG)
    body = _require_regions("while", regions, 1)[0]
    _require_params("while", body, operands)
    if not body.results or body.results[0].type is not FLAG:
        raise GraphError("the region of while returns no bool scalar first")
    rows = _require_carried("while", operands, body.results[1:], carried)
    return (COUNT, *operands[:carried], *[_stack(length, row) for row in rows])


@op
def for_(
    count: TensorType,
    *operands: TensorType,
    carried: int,
    length: int = 0,
    reverse: bool = False,
    sliced: int = 0,
    overruns: bool = False,
    apart: int = 0,
    follows: tuple[tuple[int, int], ...] = (),
    begins: tuple[tuple[int, int], ...] = (),
    regions: tuple[Graph, ...],
) -> tuple[TensorType, ...]:
    """``for i in range(count): carried, rows = body(i, carried, slices, invariants)``.

    Slices are rows i of the sliced operands, which are ``[length, ...]``.  Results: the carried
    values, and per further result of the body a stack ``[length, ...]`` whose row i is what
    iteration i returned; rows never reached are unspecified.  A count below 0 is 0; above
    ``length``, of a loop that slices or stacks, it is ``length``.  One that ``overruns`` slices
    nothing and goes on: iterations past ``length`` leave no row.  ``reverse`` runs from the last
    index to the first.

    Facts for derivatives alone: the rows of the first ``apart`` slices are values of their own, not
    parts of a tensor; for a pair in ``follows`` row i of the first slice is the very value that row
    i + 1 of the second one is; for one in ``begins`` row 0 of a slice is that of another slice, or
    an invariant (these are counted on).
    """
    _require_type("for", "count", count, COUNT)
    body = _require_regions("for", regions, 1)[0]
    slices = operands[carried : carried + sliced]
    if slices and overruns:
        raise GraphError("a for that slices overruns", fix="let it stop at the last row")
    for t in slices:
        if not t.rank or t.shape[0] != length:
            raise GraphError(f"for of length {length} slices a {t}")
    rows = tuple([tensor_type(t.dtype, t.shape[1:]) for t in slices])
    inside = (COUNT, *operands[:carried], *rows, *operands[carried + sliced :])
    _require_params("for", body, inside)
    stacked = _require_carried("for", operands, body.results, carried)
    return (*operands[:carried], *[_stack(length, row) for row in stacked])


LOOPS = (while_, for_)
CONTROL = (cond, *LOOPS)


@op(pure=False, raises=True, differentiable=False)
def py_call(
    *operands: TensorType, function: Any, types: tuple[TensorType, ...] = ()
) -> tuple[TensorType, ...]:
    """Call the Python ``function`` with the values of the operands, in program order.

    It gets NumPy arrays and returns as many as there are ``types``.  What it raises ends the run.
    """
    return types


@op
def after(x: TensorType, *others: TensorType) -> TensorType:
    """``x``, once the ``others`` are computed: what is made of it is not what was made before."""
    return x


# References -------------------------------------------------------------------------------------


@cond.reference
def cond_reference(pred: Any, *arrays: Any, regions: tuple[Graph, ...]) -> tuple[Any, ...]:
    return run_region(regions[0 if pred else 1], arrays)


@while_.reference
def while_reference(
    go: Any, *arrays: Any, carried: int, length: int, regions: tuple[Graph, ...]
) -> tuple[Any, ...]:
    values, rest, trips = arrays[:carried], arrays[carried:], 0
    stacks = _empty_stacks(regions[0].results[1 + carried :], length)
    while go:
        go, *found = run_region(regions[0], (*values, *rest))
        values = tuple(found[:carried])
        _store_rows(stacks, trips, found[carried:])
        trips += 1
    return (np.asarray(trips, np.int64), *values, *stacks)


@for_.reference
def for_reference(
    count: Any,
    *arrays: Any,
    carried: int,
    length: int,
    reverse: bool,
    sliced: int,
    overruns: bool,
    regions: tuple[Graph, ...],
    **_facts: Any,
) -> tuple[Any, ...]:
    values, rest = arrays[:carried], arrays[carried + sliced :]
    stacks = _empty_stacks(regions[0].results[carried:], length)
    count = max(int(count), 0)
    if (sliced or stacks) and not overruns:
        count = min(count, length)
    for i in reversed(range(count)) if reverse else range(count):
        rows = [a[i] for a in arrays[carried : carried + sliced]]
        found = run_region(regions[0], (np.asarray(i, np.int64), *values, *rows, *rest))
        values = tuple(found[:carried])
        _store_rows(stacks, i, found[carried:])
    return (*values, *stacks)


@py_call.reference
def py_call_reference(*arrays: Any, function: Any, types: tuple[TensorType, ...]) -> Any:
    return function(*arrays)


@after.reference
def after_reference(x: Any, *_others: Any) -> Any:
    return x


@after.view
def after_view(x: Any) -> Any:
    return x


@after.vjp
def after_vjp(ct: Any, _y: Any, _x: Any, *_others: Any) -> tuple[Any, ...]:
    return (ct, *[None] * len(_others))


@after.jvp
def after_jvp(tangents: tuple[Any, ...], _y: Any, _x: Any, *_others: Any) -> Any:
    return tangents[0]


after.couples(axis_ties.unmoved)


@after.batch
def after_batch(rows, batched, x, *others):
    return after(with_rows(x, rows, batched[0]), *others)


@after.samples
def after_samples(draw: Any) -> Any:
    for dtype in draw.all:
        yield (draw(dtype, 3, 2), draw("float32", 4), draw("bool")), {}


def run_region(region: Graph, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The results of ``region`` by the references of its ops."""
    values = dict(zip(region.params, arrays, strict=True))
    for node in region.nodes:
        attrs = node.attributes
        if node.regions:
            attrs["regions"] = node.regions
        results = node.op.reference_rule(*[values[v] for v in node.operands], **attrs)
        results = results if isinstance(results, tuple) else (results,)
        values.update(zip(node.results, results, strict=True))
    return tuple([values[v] for v in region.results])


def _empty_stacks(rows: Sequence[Any], length: int) -> list[Any]:
    return [np.zeros((length, *v.type.shape), v.type.dtype.numpy) for v in rows]


def _store_rows(stacks: Sequence[Any], at: int, rows: Sequence[Any]) -> None:
    for stack, row in zip(stacks, rows, strict=True):
        if at < len(stack):
            stack[at] = row


# What the type rules ask ------------------------------------------------------------------------


def _require_type(name: str, what: str, found: TensorType, wanted: TensorType) -> None:
    if found is not wanted:
        raise GraphError(f"the {what} of {name} is {found}, not {wanted}")


def _require_regions(name: str, regions: tuple[Graph, ...], count: int) -> tuple[Graph, ...]:
    if len(regions) != count:
        raise GraphError(f"{name} needs {count} regions, not {len(regions)}")
    return regions


def _require_params(name: str, region: Graph, operands: tuple[TensorType, ...]) -> None:
    types = tuple([v.type for v in region.params])
    if types != operands:
        raise GraphError(
            f"a region of {name} takes {_listed(types)}; it is given {_listed(operands)}",
            fix="give the region a parameter of the type of each operand",
        )


def _require_carried(
    name: str, operands: tuple[TensorType, ...], results: Any, carried: int
) -> tuple[TensorType, ...]:
    """The types of what the body returns beyond its carried values."""
    types = tuple([v.type for v in results])
    if not 0 <= carried <= len(operands):
        raise GraphError(f"{name} carries {carried} of its {len(operands)} operands")
    if types[:carried] != operands[:carried]:
        raise GraphError(
            f"the region of {name} returns {_listed(types[:carried])}; it carries "
            f"{_listed(operands[:carried])}",
            fix="let each iteration return the types that it was given",
        )
    return types[carried:]


def _stack(length: int, row: TensorType) -> TensorType:
    return tensor_type(row.dtype, (length, *row.shape))


def _listed(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def applied(op: Op, operands: Sequence[Any], regions: tuple[Graph, ...], **attrs: Any) -> list[Any]:
    """The results of a control-flow op, as tensors of the interpreter that is current."""
    return list(results_of(current().apply(op, operands, attrs, regions)))
