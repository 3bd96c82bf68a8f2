"""Jacobians and Hessians: all derivatives of a function's results, and products with them.

A Jacobian is the pullback applied to all rows of an identity matrix at once, by ``vmap``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.function_gradients import Varied, detached, grad, jvp, pulled
from hybrid.core.tree import describe, flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, GradientError
from hybrid.ir.interpreter import current, outward
from hybrid.ir.record import recording
from hybrid.transforms.vmap import vmap


def jacobian(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the derivatives of all results of ``function`` by all inputs.

    ``argnums`` says by which positional arguments, each any tree of float tensors.  In place of
    each tensor in the tree of results stands the tree of the argument (a tuple of them when
    ``argnums`` is a sequence), with tensors of shape result + argument:
    ``J[i..., j...] = d result[i...] / d argument[j...]``.
    """
    varied = Varied.by(argnums)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        try:
            given, variables, roots = varied.arguments(args)
            with recording(True):
                out = current().converted(function)(*given, **kwargs)
            outputs, structure = flatten(out)
            _require_floating(outputs)
            trees = []
            for output in outputs:
                found = _rows(output, variables, roots)
                trees.append(varied.trees(given, found))
            return detached(unflatten(structure, trees), roots)
        except Exception as error:
            outward(error)
            raise

    return differentiated


def _rows(output: Tensor, variables: Sequence[Tensor], roots: Sequence[Any]) -> list[Tensor]:
    """The derivatives of one result by each variable."""
    size, shape, dtype = output.size, output.shape, output.dtype
    shapes = [(*shape, *v.shape) for v in variables]
    if output.record is None or not size:
        return [ops.zeros(s, dtype=v.dtype) for s, v in zip(shapes, variables, strict=True)]

    def pullback(ct: Tensor) -> list[Tensor]:
        with recording(True):
            return pulled([(output.record, ct)], variables, roots)

    if size == 1:
        found = pullback(ops.ones(shape, dtype=dtype))
    else:
        found = vmap(pullback)(ops.reshape(ops.eye(size, dtype=dtype), (size, *shape)))
    return [ops.reshape(t, s) for t, s in zip(found, shapes, strict=True)]


def _require_floating(outputs: Sequence[Any]) -> None:
    for output in outputs:
        if not isinstance(output, Tensor):
            raise ArgumentTypeError(
                f"the function returned {type(output).__name__}, not tensors",
                fix="return tensors, or trees of them",
            )
        if not output.type.floating:
            raise GradientError(
                f"the derivatives of a result of type {output.type} were asked for",
                why="Only float tensors have derivatives.",
                fix="return it from another function, or convert it with astype",
            )


def hessian(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of all results of ``function``.

    It is the Jacobian of the Jacobian: in place of each result stands, for each tensor in the tree
    of the argument, that tree once more, with tensors of shape result + argument + argument.
    """
    return jacobian(jacobian(function, argnums), argnums)


def hvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    """The Hessian of a function with one scalar result at ``primals``, times ``tangents``.

    Both are sequences with one tree of float tensors per argument; so is the product.  It is the
    derivative of the gradient along the tangents (forward over reverse; B. Pearlmutter, "Fast exact
    multiplication by the Hessian", 1994), and takes about as long as a few gradients.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    structures = flatten(primals)[1], flatten(tangents)[1]
    if structures[0] != structures[1]:
        raise ArgumentTypeError(
            f"tangents have structure {describe(structures[1])}, primals {describe(structures[0])}"
        )
    slopes = grad(function, tuple(range(len(primals))))
    return jvp(slopes, primals, tangents)[1]
