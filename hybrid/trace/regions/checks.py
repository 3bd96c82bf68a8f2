"""Checks staged as nodes: the plan tests a condition, and raises what eager code raises."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, NoReturn

from hybrid import ops
from hybrid.core.types import bool_
from hybrid.eager.tensor import Tensor, changed_leaf
from hybrid.errors import CaptureError, Location, author_frame, author_location
from hybrid.ir import Value
from hybrid.ir.record import recording
from hybrid.number import Number
from hybrid.number.staging import CodePlace, Raises, branch, nothing, raise_at
from hybrid.ops.flow.control import FLAG
from hybrid.trace.regions.ties import ties_of
from hybrid.trace.values.deferred import Deferred, DeferredCall, call_deferred
from hybrid.trace.values.templates import template_of, text_of_error

Raised = BaseException | type[BaseException] | Callable[..., Any]


def check(
    condition: Tensor | Number, error: Raised, *values: Any, at: Location | None = None
) -> None:
    """Stage a check: the plan raises ``error`` unless ``condition`` (of one element) holds.

    ``error`` is an exception, whose arguments may be or mention traced values, a class of them, or
    a function that gets ``values`` when the plan runs and returns or raises one.  The exception
    has the class and arguments that it has eagerly; ``at`` goes with it as a note.
    """
    passes = flag_of(condition)
    place = place_of(error, at)
    deferred = Deferred((place, error, *values))
    template = template_of(deferred.places(), "error", partial(text_of_error, error))
    call = DeferredCall(_raise, deferred, place.location, _kinds(error), template)
    branch(passes, deferred.operands, nothing, call)


def flag_of(condition: Tensor | Number) -> Tensor:
    """A condition of one element as a bool scalar."""
    passes = condition.tensor if type(condition) is Number else condition
    return passes if passes.type is FLAG else ops.astype(ops.reshape(passes, ()), bool_)


def fail(error: Raised, *values: Any) -> None:
    """Stage a raise of ``error`` whenever the plan gets here."""
    place = place_of(error)
    says = "error", partial(text_of_error, error)
    kinds = _kinds(error)
    call_deferred(_raise, place, error, *values, at=place.location, raises=kinds, says=says)


def check_writable(tracer: Any, tensor: Tensor) -> None:
    """Raise, or stage a raise, where the written ``tensor`` requires a gradient."""
    for leaf, where in ties_of(tracer, tensor).values():
        if getattr(leaf, "leaf", None) is not None:
            if where.error is not None:
                raise where.error()
            if where.pred is None:
                raise changed_leaf()
            with recording(False):
                check(ops.logical_not(where.tensor(tracer)), changed_leaf())


def refuse_inner(tensor: Tensor, inner: Iterable[Collection[Value]]) -> None:
    """Raise CaptureError where ``tensor`` holds one of the values that regions have made."""
    value = tensor.content
    if any(value in made for made in inner):
        raise CaptureError(
            f"a value ({tensor.type}) of a branch or loop was used after that had ended",
            at=author_location(),
            why="It was made there"
            + (f" (at {value.location})" if value.location else "")
            + ", and what has kept it is no list, dict or object of which a run makes another.",
            fix="make the function, partial or iterator that keeps it after the branch or loop, or "
            "give it the value as an argument",
        )


def _kinds(error: Raised) -> Raises | None:
    """The class of what is raised; None when only the run knows."""
    kind = error if isinstance(error, type) else type(error)
    return (kind,) if issubclass(kind, BaseException) else None


def place_of(error: Raised, at: Location | None = None) -> CodePlace:
    """Where the author raises ``error``: where it was raised, if it has been, or here."""
    here = CodePlace.here()
    if at is not None:
        return CodePlace(at, here.function)
    trace = error.__traceback__ if isinstance(error, BaseException) else None
    while trace is not None:
        frame = trace.tb_frame
        if author_frame(frame) is frame:
            path, line = frame.f_code.co_filename, trace.tb_lineno
            text = linecache.getline(path, line).strip()
            here = CodePlace(Location(path, line, text), frame.f_code.co_name)
        trace = trace.tb_next
    return here


def _raise(place: CodePlace, error: Any, *values: Any) -> NoReturn:
    if not isinstance(error, BaseException):
        error = error(*values)
    raise_at(error, place)
