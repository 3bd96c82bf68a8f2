"""Continuations: the region in which code goes on where no error is pending.

::

    if x < 0:                     %2: bool[] = less %0, %1
        raise ValueError          %3: bool[] = logical_not %2
    y = root(x)           ==>     cond %3, %0 { then { y = root(x) }  else { } }

What raises is left, and the rest of the code around it is traced into a region: to the end of the
branch or iteration that it stands in, or of the ``try`` or ``with`` that takes the error.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import EagerOnlyError, Location, author_location
from hybrid.ir.interpreter import current, set_stack, stack
from hybrid.number import Number
from hybrid.trace.places.frames import Roots, authors
from hybrid.trace.regions.branch import Path, join
from hybrid.trace.regions.checks import check, fail, flag_of, place_of
from hybrid.trace.regions.handlers import stop_for
from hybrid.trace.regions.merge import constant
from hybrid.trace.regions.pending_errors import PendingError
from hybrid.trace.regions.region import Region, truth
from hybrid.trace.regions.tracer import Tracer

CLEAR, RAISED = "where nothing is raised", "where something is"
DEEPEST = 128  # regions in one another; Python lets functions nest not much deeper


class Continuation:
    """What ``tracer`` goes on with where none of the errors that are pending there is raised."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer, self.at = tracer, author_location()
        if len(stack()) > DEEPEST:
            raise EagerOnlyError(
                f"more than {DEEPEST} errors may be raised one after the other in this block",
                at=self.at,
                why="What follows each is a branch in that which follows the one before.",
            )
        self.errors, tracer.errors = tracer.errors, []
        self.clear = ops.logical_not(raised(self.errors))
        region = Region(tracer, "then", _roots(tracer))
        _ = region.outside  # as the frames are now
        self.path = Path(region, CLEAR)
        tracer.rest = self
        set_stack((*stack(), region))

    def close(self, names: Mapping[str, Any], cells: Mapping[int, str]) -> None:
        """Its code has run: ``cells`` are the variables among ``names`` that functions share."""
        region = self.path.region
        self.tracer.rest = None
        if region in stack():
            set_stack(stack()[: stack().index(region)])
        region.roots.cells = dict(cells)
        self.path.end(names)

    def leave(self, names: Mapping[str, Any], cells: Mapping[int, str]) -> dict[str, Any]:
        """Close it, with its errors still pending: what ``names`` are where nothing is raised."""
        self.close(names, cells)
        other = Path(Region(self.tracer, "else"), RAISED)
        other.raised = True
        found = self.meet(other, self.path.names)
        self.tracer.errors += self.errors
        return found

    def meet(self, other: Path, names: Mapping[str, Any]) -> dict[str, Any]:
        """Let its end meet that of the ``other`` path, where something is raised."""
        return join(self.tracer, self.clear, self.path, other, names, self.at)


def go_on() -> None:
    """Go on where nothing is raised of what is pending here, if there is something."""
    tracer = current()
    if isinstance(tracer, Tracer) and tracer.errors:
        Continuation(tracer)


def raised(errors: list[PendingError]) -> Any:
    """Whether one of ``errors`` was raised, as a scalar of the current tracer."""
    flags = [constant(current(), True) if e.flag is True else truth(e.flag) for e in errors]
    return functools.reduce(ops.logical_or, flags)


def leave_by(error: BaseException, path: Path) -> None:
    """An exception ends ``path``, which is open: it is pending, or ends the run."""
    tracer: Any = current()
    stop = stop_for(tracer.handlers, type(error), place_of(error).location)
    if stop is None:
        try:
            fail(error)
        finally:
            end_by_error(path, pending=False)
        return
    tracer.errors.append(PendingError(error, stop, True, stop.names_now()))
    end_by_error(path, pending=True)


def leave_all_by(error: BaseException) -> bool:
    """An exception ends all paths of the current tracer: whether it is pending there."""
    tracer: Any = current()
    stop = stop_for(tracer.handlers, type(error), place_of(error).location)
    if stop is not None:
        tracer.errors.append(PendingError(error, stop, True, stop.names_now()))
    return stop is not None


def end_by_error(path: Path, *, pending: bool) -> None:
    """The code of ``path`` ends here, in whatever continuations it has got."""
    inner = path
    while inner.region.rest is not None:
        inner.raised = True  # there is another path, on which something else is pending
        inner = inner.region.rest.path
    inner.raised, inner.diverged = pending, not pending


def require(condition: Tensor | Number, error: BaseException, at: Location | None = None) -> None:
    """Go on where ``condition`` holds; elsewhere ``error`` is pending, or ends the run."""
    tracer: Any = current()
    stop = None
    if tracer.handlers:
        stop = stop_for(tracer.handlers, type(error), place_of(error, at).location)
    if stop is None:
        check(condition, error, at=at)
        return
    flag = Number("bool", ops.logical_not(flag_of(condition)))
    tracer.errors.append(PendingError(error, stop, flag, stop.names_now()))
    Continuation(tracer)


def _roots(tracer: Tracer) -> Roots:
    """All that the author's frames lead to, as they are now."""
    frames = [*authors(sys._getframe(1))]
    for handler in tracer.handlers:
        frames += handler.resumes()  # of generators, which wait
    return Roots([value for frame in frames for value in frame.f_locals.values()], {})
