"""custom_vjp: a function whose gradient its author defines.

Eagerly a call leaves one record, whose rule is the author's backward function.  While a function is
captured, or under ``vmap``, it becomes a node that owns both graphs: so the rule holds wherever the
node is differentiated, in branches and loops too.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.autodiff.flow import flows_of
from hybrid.core.dataclass import dataclass
from hybrid.core.layouts import whole_of
from hybrid.core.tree import LEAF, Structure, describe, flatten, unflatten
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    ShapeError,
    author_location,
)
from hybrid.ir import Builder, Graph, Value
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.op import results_of
from hybrid.ir.record import AnyRecord, Output, Record, is_recording, latest, node_of, recording
from hybrid.ops.flow.call_nodes import custom_call
from hybrid.ops.support.operand_checks import plural
from hybrid.trace.gradients.checkpoint import outside_of
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.tracer import Tracer
from hybrid.transforms import custom_call as custom_call_rules
from hybrid.transforms.vmap import refuse_writes

__all__ = ["custom_call_rules", "custom_vjp"]

DEEPEST = 3  # calls of a function in its own forward function that get its gradient in a graph


class _ForwardCalls(threading.local):
    """The functions whose forward functions this thread is running."""

    calls: tuple[custom_vjp, ...] = ()


_running = _ForwardCalls()


class custom_vjp:
    """A function with a gradient of its own::

        @hy.custom_vjp
        def root(x):
            return hy.sqrt(x)


        def forward(x):
            y = hy.sqrt(x)
            return y, y  # the result, and what backward wants to know


        def backward(y, ct):
            return (ct / (2 * y + 1e-6),)


        root.defvjp(forward, backward)

    ``forward`` takes the arguments and returns ``(result, residuals)``; it runs in place of the
    function wherever gradients are recorded, so it must return the same.  ``backward`` takes the
    residuals and the cotangent of the result, a tree like that, and returns one cotangent for each
    argument, a tree like that, None for zero.  Written in ops, it is differentiated for second
    derivatives.  No gradient flows to what the functions close over.

    ``forward`` may call the function whose gradient it defines: that computes the result, and runs
    ``forward`` only where the derivative of that very call is asked for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"custom_vjp got a {type(function).__name__} in place of a function",
                fix="pass a function",
            )
        self.function = function
        self.forward: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Define the gradient; see the class."""
        for function in (forward, backward):
            if not callable(function):
                raise ArgumentTypeError(
                    f"defvjp got a {type(function).__name__} in place of a function",
                    fix="pass the forward and the backward function",
                )
        self.forward, self.backward = forward, backward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.forward is None or self.backward is None:
            raise GradientError(
                f"{self._name()} has no gradient yet",
                at=author_location(),
                why="custom_vjp leaves that to its author.",
                fix=f"call {self._name()}.defvjp(forward, backward) first",
            )
        args = self._positional(args, kwargs)
        interpreter = current()
        if not is_recording():
            return interpreter.converted(self.function)(*args)
        staged = interpreter.traces or interpreter.batches
        depth = _running.calls.count(self)
        if staged and depth > DEEPEST:
            return interpreter.converted(self.function)(*args)
        called = self._recomputing() if depth else self
        return _Staged(called, args).call() if staged else called._eager(args)

    def run_forward(self, *args: Any) -> Any:
        """What the forward function returns; calls of this function in there are its own."""
        before = _running.calls
        _running.calls = (*before, self)
        try:
            return current().converted(self.forward)(*args)
        finally:
            _running.calls = before

    def _recomputing(self) -> custom_vjp:
        """The same function with the same gradient, whose forward function runs when that does."""

        def forward(*args: Any) -> tuple[Any, Any]:
            with recording(False):
                return current().converted(self.function)(*args), args

        def backward(args: Any, ct: Any) -> Any:
            _, _, residuals = self.results(self.run_forward(*args))
            return current().converted(self.backward)(residuals, ct)

        made = custom_vjp(self.function)
        made.run_forward, made.run_backward = forward, backward
        return made

    def run_backward(self, residuals: Any, ct: Any) -> Any:
        """What the backward function returns."""
        return current().converted(self.backward)(residuals, ct)

    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if not kwargs:
            return args
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentTypeError(
                f"{self._name()} takes keyword-only arguments",
                why="Its forward and backward functions go by position.",
                fix="let custom_vjp wrap a function without them",
            )
        return bound.args

    # What the author's functions return -------------------------------------------------------

    def results(self, returned: Any) -> tuple[list[Tensor], Structure, Any]:
        """The leaves of the result, its structure, and the residuals."""
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise ArgumentTypeError(
                f"the forward function of {self._name()} returned "
                f"{describe(flatten(returned)[1])}, not a pair",
                fix="return (result, residuals)",
            )
        outputs, structure = flatten(returned[0])
        for output in outputs:
            if not isinstance(output, Tensor):
                raise ArgumentTypeError(
                    f"the forward function of {self._name()} returned the result "
                    f"{type(output).__name__}, not tensors",
                    fix="return tensors, or trees of them",
                )
        return outputs, structure, returned[1]

    def cotangents(self, returned: Any, args: Sequence[Any]) -> list[Tensor | None]:
        """The cotangent of each leaf of the arguments."""
        if not isinstance(returned, (tuple, list)) or len(returned) != len(args):
            got = plural(len(returned), "cotangent") if isinstance(returned, (tuple, list)) else (
                type(returned).__name__
            )  # fmt: skip
            raise ArgumentError(
                f"the backward function of {self._name()} returned {got} for "
                f"{plural(len(args), 'argument')}",
                fix="return a tuple with one cotangent for each argument, None for zero",
            )
        found = []
        for at, (ct, arg) in enumerate(zip(returned, args, strict=True)):
            leaves, structure = flatten(arg)
            cts = _matched(ct, structure)
            if cts is None:
                raise ArgumentTypeError(
                    f"the backward function of {self._name()} returned "
                    f"{describe(flatten(ct)[1])} for argument {at}, {describe(structure)}",
                    fix="return a tree like the argument, or None for zero",
                )
            for leaf, one in zip(leaves, cts, strict=True):
                self._require_cotangent(one, leaf, at)
            found += cts
        return found

    def _require_cotangent(self, ct: Any, leaf: Any, at: int) -> None:
        if ct is None:
            return
        what = f"the backward function of {self._name()} returned"
        if not isinstance(leaf, Tensor) or not leaf.type.floating:
            kind = leaf.type if isinstance(leaf, Tensor) else type(leaf).__name__
            raise GradientError(
                f"{what} a cotangent for argument {at}, which holds {kind}",
                why="Only float tensors have gradients.",
                fix="return None for it",
            )
        if not isinstance(ct, Tensor):
            raise ArgumentTypeError(
                f"{what} {type(ct).__name__} for argument {at}", fix="return a tensor, or None"
            )
        if whole_of(ct.type) is not whole_of(leaf.type):
            raise ShapeError(
                f"{what} {ct.type} for argument {at}, which holds {leaf.type}",
                why="A cotangent has the type of what it belongs to.",
                fix="reshape or sum it, or convert it with astype",
            )

    def refuse_closed_over(self) -> None:
        raise GradientError(
            f"{self._name()} closes over a tensor that gradients are asked for",
            at=author_location(),
            why="Its backward function gives cotangents of the arguments alone.",
            fix="pass the tensor as an argument, or through stop_gradient",
        )

    # Eagerly ----------------------------------------------------------------------------------

    def _eager(self, args: tuple[Any, ...]) -> Any:
        since = latest()
        outputs, structure, residuals = self.results(self.run_forward(*args))
        tensors = [leaf for leaf in flatten(args)[0] if isinstance(leaf, Tensor)]
        parents = tuple([t.record for t in tensors])
        own = {node_of(parent) for parent in parents if parent is not None}
        records = [t.record for t in outputs if t.record is not None]
        if any(node_of(record) not in own for record in outside_of(records, since)):
            self.refuse_closed_over()
        made = [t.detach() for t in outputs]
        if own and any(t.type.floating for t in made):
            types = tuple([t.type for t in made])
            saved = tuple([t.type for t in tensors])
            op: Any = _Call(self, args, residuals, structure)
            record: AnyRecord = Record(op, {}, parents, saved, types)
            for at, t in enumerate(made):
                if t.type.floating:
                    t.record = record if len(made) == 1 else Output(record, at)
        return unflatten(structure, made)


def _matched(ct: Any, structure: Structure) -> list[Any] | None:
    """The leaves of ``ct`` by those of the argument; None if the trees differ."""
    if structure is None:
        return [] if ct is None else None
    if structure == LEAF:
        return [ct]
    kind, items = structure
    if issubclass(kind, dict):
        if ct is not None and (type(ct) is not kind or set(ct) != {key for key, _ in items}):
            return None
        pairs = [(None if ct is None else ct[key], part) for key, part in items]
    else:
        if ct is not None and (type(ct) is not kind or len(ct) != len(items)):
            return None
        pairs = list(zip([None] * len(items) if ct is None else ct, items, strict=True))
    found = []
    for one, part in pairs:
        leaves = _matched(one, part)
        if leaves is None:
            return None
        found += leaves
    return found


@dataclass(frozen=True, slots=True)
class _Call:
    """Stands as the op of an eager call: its rule is the author's."""

    custom: custom_vjp
    args: tuple[Any, ...]
    residuals: Any
    structure: Structure
    differentiable = True
    jvp_rule = None
    alias_rule = None

    @property
    def name(self) -> str:
        return self.custom._name()

    def vjp_rule(self, ct: Any, _result: Any, *_operands: Any) -> list[Tensor | None]:
        cts = ct if isinstance(ct, tuple) else (ct,)
        tree = unflatten(self.structure, cts)
        returned = self.custom.run_backward(self.residuals, tree)
        return _of_tensors(self.custom.cotangents(returned, self.args), flatten(self.args)[0])


def _of_tensors(found: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """The entries of leaves that are tensors."""
    pairs = zip(found, leaves, strict=True)
    return [entry for entry, leaf in pairs if isinstance(leaf, Tensor)]


# As a node --------------------------------------------------------------------------------------


class _Staged:
    """One call that becomes a node, of graphs of its forward and backward functions."""

    def __init__(self, custom: custom_vjp, args: tuple[Any, ...]) -> None:
        self.custom, self.args, self.around = custom, args, current()
        self.leaves, self.structure = flatten(args)
        self.roots = roots_of({"custom": custom, "args": args})

    def call(self) -> Any:
        custom = self.custom
        given = [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]
        inside = self._tracer("forward")
        params = [_param(inside, t.type) for t in given]
        rest = iter(params)
        placed = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        with interpreting(inside), recording(True):
            returned = custom.run_forward(*unflatten(self.structure, placed))
            outputs, out_structure, residuals = custom.results(returned)
            kept, kept_structure = flatten(residuals)
            tensors = [leaf for leaf in kept if isinstance(leaf, Tensor)]
            values = [inside.traced(t).content for t in (*outputs, *tensors)]
        cells = self._closed(inside)
        back = self._tracer("backward")
        read = iter([_param(back, v.type) for v in values[len(outputs) :]])
        kept = [next(read) if isinstance(leaf, Tensor) else leaf for leaf in kept]
        cts = [_param(back, v.type) for v in values[: len(outputs)]]
        with interpreting(back), recording(True):
            trees = unflatten(kept_structure, kept), unflatten(out_structure, cts)
            found = custom.cotangents(custom.run_backward(*trees), self.args)
            by_tensor = _of_tensors(found, self.leaves)
            places = tuple([at for at, ct in enumerate(by_tensor) if ct is not None])
            results = [back.traced(by_tensor[at]).content for at in places]
        shared = self._closed(back)
        own = [t.content for t in params]
        extra = [Value(cell.tensor.type) for cell in shared]
        initial = [cell.initial for cell in cells]
        forward = _graph("forward", inside, [*own, *initial, *extra], values)
        self._require_own(forward, len(own), cells, len(outputs))
        given_back = [t.content for t in (*[k for k in kept if isinstance(k, Tensor)], *cts)]
        backward = _graph(
            "backward", back, [*given_back, *[cell.initial for cell in shared]], results
        )
        operands = [*given, *[cell.tensor for cell in (*cells, *shared)]]
        attrs = {"outs": len(outputs), "cotangents": places, "shared": len(shared)}
        made = results_of(self.around.apply(custom_call, operands, attrs, (forward, backward)))
        return unflatten(out_structure, made[: len(outputs)])

    def _tracer(self, name: str) -> Tracer:
        if isinstance(self.around, Tracer):
            return Region(self.around, name, self.roots)
        return Tracer(builder=Builder(name), many=self.around.many)

    def _closed(self, tracer: Tracer) -> list[Any]:
        """The cells of tensors from outside, none of which may be written."""
        tracer.mark.undo()
        name = self.custom._name()
        refuse_writes(tracer, name, "Its functions compute a result and a gradient, nothing else.")
        for cell in tracer.cells.values():
            if cell.written:
                raise ArgumentError(
                    f"{name} writes to a tensor from outside",
                    at=author_location(),
                    why="Its functions compute a result and a gradient, nothing else.",
                    fix="return the value",
                )
        return list(tracer.cells.values())

    def _require_own(self, graph: Graph, count: int, cells: Sequence[Any], outs: int) -> None:
        """Raise if gradients would flow to cells."""
        flags = [False] * len(graph.params)
        for at, cell in enumerate(cells):
            flags[count + at] = self._record_of(cell.tensor) is not None
        if any(flows_of(graph, flags)[:outs]):
            self.custom.refuse_closed_over()

    def _record_of(self, tensor: Tensor) -> AnyRecord | None:
        if isinstance(self.around, Tracer):
            return self.around.record_of(tensor)
        return self.around.traced(tensor).record


def _param(tracer: Tracer, type: TensorType) -> Tensor:
    return tracer.param(type) if isinstance(tracer, Region) else tracer.input(type)


def _graph(name: str, tracer: Tracer, params: Sequence[Value], results: Sequence[Value]) -> Graph:
    return Graph(name, tuple(params), tuple(tracer.builder.nodes), tuple(results))
