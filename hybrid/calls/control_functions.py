"""Control flow by function calls: ``cond``, ``while_loop``, ``scan`` and ``py_call``.

Eagerly they are the Python statements that they stand for; while a function is captured those very
statements are converted and staged, whatever the mode of the capture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.core.tree import describe, flatten
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.ops.flow.control import py_call as call_op


def cond(
    pred: Any, then_fn: Callable[..., Any], else_fn: Callable[..., Any], *operands: Any
) -> Any:
    """``then_fn(*operands)`` where ``pred``, a bool or a tensor of one element, holds.

    Otherwise ``else_fn(*operands)``.  While a function is captured both are traced, and must give
    trees of the same structure and types.
    """
    _require_callable("cond", then_fn, else_fn)
    return _run(_cond, pred, then_fn, else_fn, operands)


def _cond(pred: Any, then_fn: Any, else_fn: Any, operands: Any) -> Any:
    return then_fn(*operands) if pred else else_fn(*operands)


def while_loop(test_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], carried: Any) -> Any:
    """``while test_fn(carried): carried = body_fn(carried)``, then ``carried``, any tree."""
    _require_callable("while_loop", test_fn, body_fn)
    return _run(_while_loop, test_fn, body_fn, carried)


def _while_loop(test_fn: Any, body_fn: Any, carried: Any) -> Any:
    while test_fn(carried):
        carried = body_fn(carried)
    return carried


def scan(body_fn: Callable[[Any, Any], Any], init: Any, xs: Any) -> tuple[Any, Any]:
    """``carry, y = body_fn(carry, x)`` for each row x of ``xs``: the last carry, and all y stacked.

    ``init`` and ``xs`` are any trees of tensors; those of ``xs`` have first axes of one length,
    at least 1.
    """
    from hybrid.staging.values.feed import TreeRows, stacked

    _require_callable("scan", body_fn)
    leaves, structure = flatten(xs)
    if not leaves or not all(isinstance(leaf, Tensor) and leaf.ndim for leaf in leaves):
        raise ArgumentTypeError(
            f"scan goes over {describe(structure)}",
            why="It needs tensors of rank 1 at least, to take the rows of.",
            fix="pass a tensor, or a tuple, list or dict of tensors",
        )
    length = leaves[0].shape[0]
    if any(leaf.shape[0] != length for leaf in leaves):
        lengths = sorted({int(leaf.shape[0]) for leaf in leaves})
        raise ShapeError(
            f"scan goes over tensors of {' and '.join(map(str, lengths))} rows",
            fix="give all of them the same first axis",
        )
    if length == 0:
        raise ArgumentError(
            "scan goes over no rows",
            why="The types of what an iteration returns are then not known.",
            fix="pass one row at least",
        )
    return _run(_scan, body_fn, init, TreeRows(structure, tuple(leaves)), stacked)


def _scan(body_fn: Any, carry: Any, rows: Any, stacked: Any) -> Any:
    ys = []
    for x in rows:
        carry, y = body_fn(carry, x)
        ys.append(y)
    return carry, stacked(ys)


def py_call(function: Callable[..., Any], *args: Any, result: Any = ()) -> Any:
    """Call ``function`` with the NumPy values of ``args``, also from within a plan, in order.

    ``result`` says what it returns: a TensorType, or a tuple of them (an empty one: nothing).  No
    gradient flows through.  What it raises ends the run.
    """
    _require_callable("py_call", function)
    types = result if isinstance(result, tuple) else (result,)
    for wanted in types:
        if not isinstance(wanted, TensorType):
            raise ArgumentTypeError(
                f"py_call returns a {type(wanted).__name__}",
                fix="give the result as TensorTypes: hy.TensorType of dtype and shape",
            )
    interpreter = current()
    if interpreter.traces:
        interpreter.will_host(function)
        function, args = interpreter.leaving(function, args)
    made = interpreter.apply(call_op, args, {"function": function, "types": types})
    made = made if isinstance(made, tuple) else (made,)
    if isinstance(result, tuple):
        return made
    return made[0]


def _run(function: Callable[..., Any], *args: Any) -> Any:
    if ACTIVE and current().traces:
        from hybrid.convert.conversion import convert

        return convert(function)(*args)
    return function(*args)


def _require_callable(name: str, *functions: Any) -> None:
    for function in functions:
        if not callable(function):
            raise ArgumentTypeError(
                f"{name} got a {type(function).__name__} in place of a function",
                fix="pass a function; its arguments come after the functions",
            )
