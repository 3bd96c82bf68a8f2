"""Sizes of open axes as nodes: what a run reads of the shapes of its inputs, and computes of it.

``2*n + 1`` of ``n``, axis 0 of the input x: Shape and Gather of x, Mul, Add.  They stand in the
outermost graph where they can, once each; a size that a node in a branch brings stands behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hybrid.core.size_functions import SizeCall, SizeSymbol, SizeValue
from hybrid.core.size_values import SizeArray, SizeBytes, SizeFloat
from hybrid.core.sizes import Size
from hybrid.core.types import DType, bool_, float32, float64, int64
from hybrid.ops.spatial.weighted_taps import CUBIC_SLOPE

if TYPE_CHECKING:
    from hybrid.onnx.graph_writer import GraphWriter, Wire


def size_term(g: GraphWriter, number: Any) -> Wire:
    """``number`` as an int64 [1]."""
    if not isinstance(number, SizeValue):
        return g.ints(number)
    assert type(number) is Size, number
    g = _home(g, number)
    return _once(g, number.terms, lambda: _polynomial(g, number))


def float_term(g: GraphWriter, number: Any) -> Wire:
    """A float that is made of sizes, as a float64 [1]."""
    if type(number) is SizeFloat:
        g = _home(g, number)
        return _once(g, number.call, lambda: _call(g, number.call))
    if isinstance(number, SizeValue):
        return g.cast(size_term(g, number), float64)
    return g.constant([number], float64)


def _home(g: GraphWriter, number: SizeValue) -> GraphWriter:
    """The writer to compute ``number`` in: the outermost, if all that it is made of is there."""
    sources = [g.model.sources[symbol][0] for symbol in number.scope.symbols_of([number])]
    return g.root if all(writer is g.root for writer in sources) else g


def _once(g: GraphWriter, key: Any, make: Callable[[], Wire]) -> Wire:
    """What ``make`` writes, unless it is there."""
    level: GraphWriter | None = g
    while level is not None:  # what a graph around has, those inside see
        found = level.size_terms.get(key)
        if found is not None:
            return found
        level = level.around
    with g.called("size"):
        made = g.size_terms[key] = make()
    return made


def _polynomial(g: GraphWriter, size: Size) -> Wire:
    """A sum of products of variables."""
    total: Wire | None = None
    for monomial, count in size.terms:
        product: Wire | None = None
        for variable in monomial:
            factor = _once(g, variable, lambda variable=variable: _variable(g, variable))
            product = factor if product is None else g("Mul", product, factor)
        if product is None:
            product = g.ints(count)
        elif count != 1:
            product = g("Mul", product, g.ints(count))
        total = product if total is None else g("Add", total, product)
    assert total is not None
    return total


def _variable(g: GraphWriter, variable: SizeSymbol | SizeCall) -> Wire:
    if isinstance(variable, SizeCall):
        return _call(g, variable)
    _, term, axis = g.model.sources[variable]
    if axis < 0:  # the very number
        return g("Reshape", term, g.ints(1))
    return g("Gather", g("Shape", term, dtype=int64), g.ints(axis), axis=0)


_OF_FLOATS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow"}
_OF_ONE = {"math.sqrt": "Sqrt", "math.floor": "Floor", "math.ceil": "Ceil", "math.log": "Log",
           "math.exp": "Exp", "abs": "Abs", "int": "Identity", "float": "Identity"}  # fmt: skip


def _call(g: GraphWriter, call: SizeCall) -> Wire:
    """What is no polynomial: quotients, roots, as a [1] of int64 or float64."""
    name, operands = call.function.name, call.operands
    whole = type(call.value) is int
    if name in ("//", "%") and whole:  # divisors are above 0
        left, right = (size_term(g, n) for n in operands)
        rest = g("Mod", left, right)
        return rest if name == "%" else g("Div", g("Sub", left, rest), right)
    op = (_OF_FLOATS if len(operands) == 2 else _OF_ONE).get(name)
    if op is not None:
        made = g(op, *[float_term(g, n) for n in operands])
        return g.cast(made, int64) if whole else made
    raise g.refusal(
        f"the size {call}",
        why=f"nobody has said how {name} is computed of sizes there",
        fix="leave the axis out of dynamic_axes",
    )


# Elements that depend on sizes --------------------------------------------------------------------


def array_term(g: GraphWriter, data: SizeBytes, dtype: DType, shape: Any) -> Wire:
    """The literal of ``shape`` whose elements ``data`` are made for each size."""
    array, _ = data.call.operands if data.call.function.name == "elements" else (None, None)
    if isinstance(array, SizeArray) and array.call.function.name in _ARRAYS:
        made = _ARRAYS[array.call.function.name](g, *array.call.operands)
        return g.cast(made, dtype)
    if isinstance(array, SizeFloat):
        return g.cast(g.float(array), dtype)
    if isinstance(array, SizeValue):
        return g.cast(g.scalar(array), dtype)
    raise g.refusal(
        f"a tensor made by {data}",
        why="its elements depend on open sizes",
        fix="leave the axis out of dynamic_axes, or make it by arange, linspace or eye",
    )


def _arange(g: GraphWriter, start: Any, stop: Any, step: Any) -> Wire:
    numbers = (start, stop, step)
    whole = all(isinstance(n, int) for n in numbers)
    if whole:
        return g("Range", *[g.scalar(n) for n in numbers])
    return g("Range", *[g.float(n) for n in numbers])


def _linspace(g: GraphWriter, start: Any, stop: Any, num: Any, endpoint: bool) -> Wire:
    first, last = (float_term(g, n) for n in (start, stop))
    places = g.cast(_arange(g, 0, num, 1), float64)
    count = g.cast(g.size(num), float64)
    one = g.constant([1], float64)
    parts = g("Max", g("Sub", count, one), one) if endpoint else count
    made = g("Add", first, g("Mul", places, g("Div", g("Sub", last, first), parts)))
    return g("Where", g("Equal", places, g("Sub", count, one), dtype=bool_), last, made,
             dtype=float64) if endpoint else made  # fmt: skip


def _places(g: GraphWriter, rows: Any, columns: Any) -> tuple[Wire, Wire]:
    """The numbers of rows, [rows, 1], and of columns, [columns]."""
    return g("Unsqueeze", _arange(g, 0, rows, 1), g.ints(1)), _arange(g, 0, columns, 1)


def lower_triangle(g: GraphWriter, rows: Any, columns: Any, k: Any) -> Wire:
    """True on the ``k``-th diagonal of [rows, columns] and below."""
    down, across = _places(g, rows, columns)
    return g("LessOrEqual", g("Sub", across, g.size(k)), down, dtype=bool_)


def _upper(g: GraphWriter, rows: Any, columns: Any, k: Any) -> Wire:
    return g("Not", lower_triangle(g, rows, columns, k))


def _eye(g: GraphWriter, rows: Any, columns: Any, k: Any) -> Wire:
    columns = rows if columns is None else columns
    down, across = _places(g, rows, columns)
    return g.cast(g("Equal", g("Sub", across, g.size(k)), down, dtype=bool_), float64)


def _nearest(g: GraphWriter, n: Any, count: Any, scale: Any, exact: bool) -> Wire:
    places = g.cast(_arange(g, 0, count, 1), float32)
    if exact:
        places = g("Add", places, g.constant(0.5, float32))
    scaled = g("Mul", places, g.cast(float_term(g, scale), float32))
    found = g.cast(g("Floor", scaled), int64)
    return g("Min", found, g("Sub", g.size(n), g.ints(1)))


def resampled_places(g: GraphWriter, count: Any, scale: Any, align: bool) -> Wire:
    """Where ``count`` elements of an interpolation lie between the old ones, a float64 [count]."""
    numbers, half = g.cast(_arange(g, 0, count, 1), float64), g.constant(0.5, float64)
    if align:
        return g("Mul", numbers, float_term(g, scale))
    return g("Sub", g("Mul", g("Add", numbers, half), float_term(g, scale)), half)


def _cubic_taps(g: GraphWriter, count: Any, scale: Any, align: bool, tap: int) -> tuple[Wire, Wire]:
    """The elements that a tap is for, before the ends are looked at, and how far they are."""
    places = resampled_places(g, count, scale, align)
    elements = g("Add", g("Floor", places), g.constant(tap - 1, float64))
    return elements, g("Abs", g("Sub", places, elements))


def _cubic_element(g: GraphWriter, n: Any, count: Any, scale: Any, align: bool, tap: int) -> Wire:
    found = g.cast(_cubic_taps(g, count, scale, align, tap)[0], int64)
    return g("Min", g("Max", found, g.zero(int64)), g.size(n - 1))


def _cubic_weight(g: GraphWriter, _n: Any, count: Any, scale: Any, align: bool, tap: int) -> Wire:
    """``cubic_weight`` of the distance: the two taps in the middle are near, the others far."""
    distance = _cubic_taps(g, count, scale, align, tap)[1]
    a = CUBIC_SLOPE
    first, *rest = (a + 2, -(a + 3), 0.0, 1.0) if tap in (1, 2) else (a, -5 * a, 8 * a, -4 * a)
    found = g.constant(first, float64)
    for factor in rest:
        found = g("Add", g("Mul", found, distance), g.constant(factor, float64))
    return found


_ARRAYS: dict[str, Callable[..., Wire]] = {
    "arange": _arange, "linspace": _linspace, "lower": lower_triangle, "upper": _upper, "eye": _eye,
    "nearest": _nearest, "cubic_element": _cubic_element, "cubic_weight": _cubic_weight,
}  # fmt: skip
