"""Errors that a run finds in what it is given, caught by the author: a check, and a jump.

::

    y = x[i]           %3: bool[] = ...      # whether the index lies in its axis
    ...         ==>    cond %3, %0 { then { %4 = take %0, i ... }  else { } }

Before a node that may raise what a session takes, the run finds out whether it would.  Of indices
and divisors ops tell; else Python tries, and what that raises is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import Leaving, is_interrupt
from hybrid.core.types import int64
from hybrid.eager.execution import array_of, from_numpy
from hybrid.eager.tensor import Tensor
from hybrid.errors import HybridError, Location, OutOfRangeError
from hybrid.ir import Builder, Graph, Op, Value, get_op
from hybrid.ir.interpreter import current, set_stack, stack
from hybrid.ir.record import recording
from hybrid.number.staging import HERE, TYPES, NumberCall, OwnCall, branch, host_call
from hybrid.ops.flow.control import cond, py_call
from hybrid.trace.regions.continuation import Continuation
from hybrid.trace.regions.handlers import Raised, is_inside, stop_for
from hybrid.trace.regions.pending_errors import PendingError
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.traced_text import mark

_BROAD = (BaseException, Exception, HybridError)  # classes of which something else is raised
_ALONG = ("take_along", "scatter_along", "scatter_along_add")  # whose indices are of the last axis
_SLICES = ("pick", "place", "take", "scatter", "scatter_add")  # of that of an attribute


class Rehearsal(OwnCall):
    """A call that may raise, made to see whether it does: which of ``kinds``, from 1 on, or 0."""

    raises = ()  # nothing: it looks at what is raised
    location: Location | None = None

    def __init__(self, call: Callable[..., Any], kinds: tuple[Raised, ...]) -> None:
        self.call, self.kinds = call, kinds

    def error(self, *arrays: Any) -> Exception | None:
        """What the call raises for ``arrays``."""
        try:
            self.call(*arrays)
        except Exception as error:
            if is_interrupt(error):
                raise
            return error
        return None

    def __call__(self, *arrays: Any) -> tuple[np.ndarray]:
        error = self.error(*[np.asarray(a) for a in arrays])
        found = [at for at, kind in enumerate(self.kinds, 1) if isinstance(error, kind)]
        return (np.asarray(found[0] if found else 0, np.int64),)

    def text(self, part: str, operands: Sequence[Tensor]) -> str:
        """A part of what the error says that the call raises for ``operands``."""
        error = self.error(*map(array_of, operands))
        return str(error.args[0] if part == "what" else getattr(error, part))

    def __repr__(self) -> str:
        return "raises"


@dataclass(frozen=True, slots=True)
class Danger:
    """What a node may raise, and how a run finds that out before."""

    kinds: tuple[Raised, ...]
    call: Callable[..., Any]  # of the arrays of ``operands``: it raises what the node raises
    operands: tuple[Tensor, ...]
    passes: Callable[[], Tensor] | None = None  # where it surely raises nothing
    sure: bool = False  # whether it surely raises something where not ``passes``
    advises: bool = True  # whether its errors may say why, and what to write instead


def let_raise(
    tracer: Tracer, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: Sequence[Graph]
) -> bool:
    """Make pending what sessions take of the errors of a node: whether they take any.

    The node then belongs where none of them is raised.
    """
    with recording(False):
        danger = _danger(tracer, op, [tracer.traced(t) for t in operands], attrs, regions)
        if danger is None:
            return False
        at = tracer.located
        found = {kind: stop_for(tracer.handlers, kind, at) for kind in danger.kinds}
        stops = {kind: stop for kind, stop in found.items() if stop is not None}
        if not stops:
            return False
        rehearsal = Rehearsal(danger.call, tuple(stops))
        for (kind, stop), flag in zip(stops.items(), _flags(danger, rehearsal), strict=True):
            error = _error(tracer, kind, rehearsal, danger)
            tracer.errors.append(PendingError(error, stop, flag, stop.names_now()))
    Continuation(tracer)
    return True


def _flags(danger: Danger, rehearsal: Rehearsal) -> list[Tensor]:
    """Whether each kind of the rehearsal is raised."""
    if danger.sure and len(danger.kinds) == 1:
        return [ops.logical_not(danger.passes())]
    if danger.passes is None:
        [code] = host_call(rehearsal, danger.operands, (TYPES["int"],))
    else:
        [code] = branch(danger.passes(), danger.operands, _zero, rehearsal, (TYPES["int"],))
    return [ops.equal(code, at) for at in range(1, len(rehearsal.kinds) + 1)]


def _zero(builder: Builder, _values: Sequence[Value]) -> Sequence[Value]:
    return builder.apply(get_op("full"), (), {"shape": (), "value": 0, "dtype": int64})


def _error(tracer: Tracer, kind: Raised, rehearsal: Rehearsal, danger: Danger) -> BaseException:
    """The exception as the author catches it: its texts are some that the run writes."""
    said = {
        part: mark(tracer.texts, danger.operands, partial(rehearsal.text, part))
        for part in ("what", *_advice(rehearsal, danger))
    }
    error = kind.__new__(kind, said["what"])
    error.args = (said["what"],)
    if isinstance(error, HybridError):
        vars(error).update({"at": None, "why": "", "fix": "", **said})
    return error


def _advice(rehearsal: Rehearsal, danger: Danger) -> tuple[str, ...]:
    """Which parts such an error has beside what happened."""
    if not danger.advises or not any(issubclass(kind, HybridError) for kind in danger.kinds):
        return ()
    for value in (0, 2**62, np.nan):
        types = [t.type for t in danger.operands]
        if value != value and not all(type.floating for type in types):
            continue
        # Sizes do not matter, but that there are some.
        error = rehearsal.error(*[np.full((2,) * t.rank, value, t.dtype.numpy) for t in types])
        if isinstance(error, HybridError):
            return tuple([part for part in ("why", "fix") if getattr(error, part)])
    return ()


# What may be raised -----------------------------------------------------------------------------


def _danger(
    tracer: Tracer, op: Op, tensors: list[Tensor], attrs: dict[str, Any], regions: Sequence[Graph]
) -> Danger | None:
    if op is py_call or op is cond:
        return _of_call(op, tensors, attrs, regions)
    if not (op.raises and op.pure):
        return None
    if is_inside(op, [t.content for t in tensors], attrs, tracer.maker):
        return None
    call = partial(_hosted if op.hosted else _eager, op, attrs)
    if op.hosted or op.error is not OutOfRangeError:
        return Danger(kinds=(op.error,), call=call, operands=tuple(tensors))
    if op.name not in (*_ALONG, *_SLICES):
        return Danger(kinds=(OutOfRangeError,), call=call, operands=tuple(tensors), advises=False)
    size = tensors[0].shape[attrs["axis"] if op.name in _SLICES else -1]

    def passes() -> Tensor:
        return ops.all(ops.logical_and(tensors[1] >= -size, tensors[1] < size))

    return Danger(
        kinds=(OutOfRangeError,),
        call=call,
        operands=tuple(tensors),
        passes=passes,
        sure=True,
        advises=False,
    )


def _of_call(
    op: Op, tensors: list[Tensor], attrs: dict[str, Any], regions: Sequence[Graph]
) -> Danger | None:
    """The same of a call of Python's own functions of numbers, or a branch with one."""
    passes: Callable[[], Tensor] | None = None
    sure = False
    if op is cond:
        nodes = regions[1].nodes
        if len(nodes) != 1 or nodes[0].op is not py_call:
            return None
        pred, *tensors = tensors
        passes = partial(_same, pred)
        attrs, sure = nodes[0].attributes, not regions[1].results
    function = attrs["function"]
    if type(function) is Leaving:
        function = function.function
    if type(function) is not NumberCall or any(kind in _BROAD for kind in function.raises):
        return None
    own = sum(argument is HERE for argument in function.arguments)
    return Danger(
        kinds=function.raises,
        call=function.plain,
        operands=tuple(tensors[:own]),
        passes=passes,
        sure=sure,
    )


def _same(value: Tensor) -> Tensor:
    return value


def _hosted(op: Op, attrs: dict[str, Any], *arrays: Any) -> Any:
    with np.errstate(all="ignore"):
        return op.reference_rule(*arrays, **attrs)


def _eager(op: Op, attrs: dict[str, Any], *arrays: Any) -> Any:
    """Below whatever traces: what errors advise is asked for while a capture goes on."""
    around = stack()
    set_stack(())
    try:
        return current().apply(op, [from_numpy(a, copy=True) for a in arrays], attrs)
    finally:
        set_stack(around)
