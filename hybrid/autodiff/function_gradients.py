"""Gradients of functions: grad, value_and_grad, vjp, jvp, and the modes of recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.presence import chosen_ct
from hybrid.autodiff.tape import cotangents, node_of, path_leads_beyond, seed_for, tangents
from hybrid.core.dataclass import dataclass
from hybrid.core.tree import describe, flatten, tree_map, unflatten
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError
from hybrid.ir.interpreter import current, outward
from hybrid.ir.record import AnyRecord, differentiating, keeping_operands, recording
from hybrid.ops.communication.layout_op import in_layout


def no_grad() -> recording:
    """A context in which nothing is recorded for gradients."""
    return recording(False)


def enable_grad() -> recording:
    """A context in which op calls are recorded, also inside ``no_grad``."""
    return recording(True)


def stop_gradient(x: Any) -> Tensor:
    """``x`` as a constant: no gradient flows through it."""
    return (x if isinstance(x, Tensor) else current().lift(x)).detach()


def variables_of(leaves: Sequence[Any], what: str) -> tuple[list[Tensor], list[AnyRecord]]:
    """Fresh tensors of the values in ``leaves``, and the records that lead back to them.

    The records are those of the values as given: the function may write to the tensors.
    """
    made = []
    for leaf in leaves:
        tensor = leaf if isinstance(leaf, Tensor) else current().lift(leaf)
        if not tensor.type.dtype.is_floating:
            raise GradientError(
                f"a gradient by {what} of {tensor.type} was asked for",
                why="Only float tensors have gradients.",
                fix="convert it with astype",
            )
        with recording(True):
            fresh = tensor if tensor.record is None else ops.identity(tensor)
        variable = current().variable(fresh) if fresh.record is None else fresh
        if variable.type is not tensor.type:  # traced, and ranks share it
            record, variable = variable.record, make_tensor(tensor.type, variable.content)
            variable.record = record
        made.append(variable)
    return made, [t.record for t in made]


def _zeros(type_: TensorType) -> Tensor:
    return ops.zeros(type_.shape, dtype=type_.dtype)


def pulled(
    outputs: Sequence[tuple[AnyRecord | None, Tensor]],
    variables: Sequence[Tensor],
    roots: Sequence[AnyRecord],
) -> list[Tensor]:
    """The cotangents of ``variables``, given those of the outputs by their records."""
    seeds = [(record, ct) for record, ct in outputs if record is not None]
    targets = [node_of(record)[0] for record in roots]
    grads = cotangents(seeds, targets) if seeds else [None] * len(targets)
    found = [_zeros(v.type) if g is None else g for v, g in zip(variables, grads, strict=True)]
    return [in_layout(g, v.type) for v, g in zip(variables, found, strict=True)]


@dataclass(frozen=True, slots=True)
class Varied:
    """The positional arguments that ``argnums`` names."""

    numbers: tuple[int, ...]
    single: bool  # whether argnums is an int: results are then no tuple

    @classmethod
    def by(cls, argnums: int | Sequence[int]) -> Varied:
        single = not isinstance(argnums, (tuple, list))
        numbers = (argnums,) if single else tuple(argnums)
        if not all(type(n) is int for n in numbers):
            raise ArgumentTypeError(
                f"argnums={argnums!r}",
                why="They are the positions of the arguments to differentiate by.",
                fix="give an int or a tuple of ints",
            )
        return cls(numbers, single)

    def arguments(self, args: Sequence[Any]) -> tuple[list[Any], list[Tensor], list[AnyRecord]]:
        """``args`` with fresh variables in these places, the variables, and their records."""
        given, variables, roots = list(args), [], []
        for n in self.numbers:
            if not -len(given) <= n < len(given):
                raise ArgumentError(f"argnums has {n}, but {len(given)} arguments were given")
            leaves, structure = flatten(given[n])
            fresh, records = variables_of(leaves, f"argument {n}")
            variables += fresh
            roots += records
            given[n] = unflatten(structure, fresh)
        return given, variables, roots

    def trees(self, args: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """One of ``leaves`` for each leaf of these arguments, as they are trees."""
        rest = iter(leaves)
        parts = [flatten(args[n]) for n in self.numbers]
        made = tuple([unflatten(s, [next(rest) for _ in found]) for found, s in parts])
        return made[0] if self.single else made


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives ``(value, gradient)`` of a function with one scalar result.

    ``argnums`` says by which positional arguments, each any tree of float tensors; the gradient has
    the tree of the argument (a tuple of them when ``argnums`` is a sequence).  With ``has_aux`` the
    function returns ``(scalar, aux)`` and the value is that pair.
    """
    varied = Varied.by(argnums)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        try:
            given, variables, roots = varied.arguments(args)
            with differentiating():
                value = current().converted(function)(*given, **kwargs)
                if has_aux and not (isinstance(value, tuple) and len(value) == 2):
                    raise ArgumentTypeError(
                        f"the function returned {describe(flatten(value)[1])}, not a pair",
                        why="With has_aux=True the result is (scalar, aux).",
                        fix="return such a pair, or leave has_aux out",
                    )
                out = value[0] if has_aux else value
                if not isinstance(out, Tensor):
                    raise ArgumentTypeError(
                        f"the function returned {type(out).__name__}, not a tensor",
                        fix="return a scalar tensor, or use has_aux=True for (scalar, aux)",
                    )
                if out.type.rank:
                    raise ShapeError(
                        f"the function returned {out.type}, not a scalar",
                        why="A gradient belongs to one number.",
                        fix="sum the result, or use hybrid.vjp",
                    )
                grads = pulled([(out.record, seed_for(out, None))], variables, roots)
            return detached(value, roots), varied.trees(given, grads)
        except Exception as error:
            outward(error)
            raise

    return differentiated


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The gradient function of a function with one scalar result; see ``value_and_grad``."""
    both = value_and_grad(function, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        try:
            value, grads = both(*args, **kwargs)
            return (grads, value[1]) if has_aux else grads
        except Exception as error:
            outward(error)
            raise

    return gradient


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple]]:
    """``(function(*primals), pullback)``; the pullback maps a cotangent to one per primal."""
    leaves, structure = flatten(primals)
    variables, roots = variables_of(leaves, "a primal")
    with differentiating():
        out = current().converted(function)(*unflatten(structure, variables))
    outputs, out_structure = flatten(out)
    _require_tensors(outputs)
    records = [t.record for t in outputs]

    def pullback(ct: Any) -> tuple:
        try:
            cts, its_structure = flatten(ct)
            if its_structure != out_structure:
                raise ArgumentTypeError(
                    f"the cotangent has structure {describe(its_structure)}, "
                    f"the function's result {describe(out_structure)}"
                )
            seeds = [seed_for(t, c) for t, c in zip(outputs, cts, strict=True)]
            with differentiating():
                pairs = list(zip(records, seeds, strict=True))
                return unflatten(structure, pulled(pairs, variables, roots))
        except Exception as error:
            outward(error)
            raise

    return detached(out, roots), pullback


def jvp(function: Callable[..., Any], primals: Sequence[Any], given: Sequence[Any]) -> tuple:
    """``(function(*primals), tangent)``, the tangent along ``given`` (forward mode)."""
    leaves, structure = flatten(tuple(primals))
    directions, its_structure = flatten(tuple(given))
    if its_structure != structure:
        raise ArgumentTypeError(
            f"tangents have structure {describe(its_structure)}, primals {describe(structure)}"
        )
    variables, roots = variables_of(leaves, "a primal")
    directions = [seed_for(v, d, "tangent") for v, d in zip(variables, directions, strict=True)]
    with differentiating(), keeping_operands():
        out = current().converted(function)(*unflatten(structure, variables))
        outputs, out_structure = flatten(out)
        _require_tensors(outputs)
        found = tangents(outputs, roots, directions)
    filled = [_zeros(t.type) if d is None else d for t, d in zip(outputs, found, strict=True)]
    return detached(out, roots), detached(unflatten(out_structure, filled), roots)


def detached(tree: Any, roots: Sequence[AnyRecord]) -> Any:
    """``tree``, its tensors without a history that ends at the transform's own variables."""
    own = {node_of(record)[0] for record in roots}

    def cut(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.record is None:
            return leaf
        with recording(True):
            return chosen_ct(path_leads_beyond([leaf.record], own), leaf, leaf.detach())

    return tree_map(cut, tree)


def _require_tensors(outputs: Sequence[Any]) -> None:
    for out in outputs:
        if not isinstance(out, Tensor):
            raise ArgumentTypeError(f"the function returned {type(out).__name__}, not tensors")
