"""The base class of the sessions of ``try`` and ``with``: they take errors that are pending.

The author's statement runs once for all that comes to its end, in a continuation where something
may have been raised.  Then it runs once for each error that is pending for it: the error is raised
inside, with the variables as they were, and Python finds out who catches it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from inspect import CO_GENERATOR
from types import FrameType, GeneratorType
from typing import Any, NoReturn

from hybrid.convert.conversion import is_converted_code
from hybrid.convert.runtime import Site, hyb__
from hybrid.core.dataclass import replace
from hybrid.core.package import FOLDER
from hybrid.errors import CaptureError, EagerOnlyError
from hybrid.ir.interpreter import stack
from hybrid.staging.constructs.try_ import BEGIN_OF_MANAGER, END_OF_MANAGER, too_deep
from hybrid.staging.nodes.node_session import Staged
from hybrid.trace.places.code_owner import of_package
from hybrid.trace.places.frames import Roots, roots_of
from hybrid.trace.regions.branch import Path, join
from hybrid.trace.regions.continuation import RAISED, end_by_error, go_on, leave_by
from hybrid.trace.regions.handlers import Raised
from hybrid.trace.regions.pending_errors import EndOfPath, PendingError
from hybrid.trace.regions.region import Region, truth
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import UNBOUND

Names = Mapping[str, Any] | None  # what variables hold; None where nothing goes on
Passes = Generator[None, Names, Names]  # each pass is asked for, and answered by its names

MOST_TAKEN = 256  # errors in a capture; their number may double with each call around a call

# Folders whose functions do nothing of their own around a call of the author's.
_CLEAN = tuple(
    [
        os.path.join(FOLDER, *part.split("/"), "")
        for part in ("staging", "trace/regions", "autodiff", "nn/modules")
    ]
)

# What variables of frames hold while the ends of their ``with`` statements run.
_LEFT: dict[FrameType, dict[str, Any]] = {}


@contextlib.contextmanager
def left_with(frame: FrameType, names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """While the end of a ``with`` in ``frame`` runs: its variables hold ``names``."""
    before, _LEFT[frame] = _LEFT.get(frame, {}), {**_LEFT.get(frame, {}), **names}
    try:
        yield _LEFT[frame]
    finally:
        if before:
            _LEFT[frame] = before
        else:
            del _LEFT[frame]


class ErrorSession(Staged):
    """The session of a statement that takes errors which are pending."""

    suspends = True

    def __init__(self, site: Site, frame: FrameType) -> None:
        super().__init__(site)
        self.frame: FrameType | None = frame
        self.users: list[ErrorSession] = []  # those of ``with`` statements that wait in its body
        self.ended = False  # whether nothing goes on at the end of the pass
        self.roots = roots_of(frame.f_locals)

    def concerns(self, kind: Raised) -> bool:
        """Whether the statement does something when an exception of class ``kind`` is raised."""
        raise NotImplementedError

    def takes(self, kind: Raised, frames: Iterable[FrameType]) -> bool:
        """Whether it takes one that is raised in the innermost of ``frames``."""
        if self.site.yields and not self.users:  # the generator may not get to the yield
            return False
        return self.concerns(kind) and self._reaches() and self._is_left(kind, frames)

    def serves(self, user: ErrorSession) -> None:
        """The generator that it stands in waits in its body, for the end of a ``with``."""
        self.users.append(user)
        self.roots.values += user.roots.values
        keys = {name: key for key, name in self._names_of(user)}
        shared = [(cell, name) for cell, name in user.roots.cells.items() if name in keys]
        self.roots.cells.update({cell: keys[name] for cell, name in shared})

    def _names_of(self, user: ErrorSession) -> Iterator[tuple[str, str]]:
        """The variables of a user, each with what it is called here."""
        at = self.users.index(user)
        for name in user.site.names:
            yield f"{name} of {user.site.function}" + (f" ({at})" if at else ""), name

    def _of_users(self) -> dict[str, Any]:
        """What the variables of its users hold."""
        found = {}
        for user in self.users:
            if user.frame is not None:
                names = user.names_now()
                found.update({key: names[name] for key, name in self._names_of(user)})
        return found

    def _tell_users(self, names: Mapping[str, Any]) -> None:
        """Let the variables of its users hold what ``names`` says."""
        for user in self.users:
            left = None if user.frame is None else _LEFT.get(user.frame)
            if left is not None:
                found = {n: names[key] for key, n in self._names_of(user) if key in names}
                left.update(found)

    def _reaches(self) -> bool:
        """Whether all that is traced above its tracer ends in its body."""
        above = stack()
        if self.tracer not in above:
            return False
        inner = above[above.index(self.tracer) + 1 :]
        return all(getattr(tracer, "path", None) is not None for tracer in inner)

    def _is_left(self, kind: Raised, frames: Iterable[FrameType]) -> bool:
        """Whether an exception leaves nothing but converted code on its way."""
        begun = False
        ends = [self.frame, *[user.frame for user in self.users]]
        for frame in frames:
            code = frame.f_code
            if any(frame is end for end in ends):
                return True
            if of_package(code):
                clean = code.co_filename.startswith(_CLEAN) or code.co_name == "construct"
                if begun and not clean:
                    return False
            elif code is BEGIN_OF_MANAGER or code is END_OF_MANAGER:
                continue
            elif is_converted_code(code) and not (
                code.co_flags & CO_GENERATOR
                and (issubclass(kind, StopIteration) or _is_held(frame))
            ):
                begun = True
            else:
                return False
        return False

    def names_after(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """What those variables hold that may be read behind the statement."""
        own = {name: found.get(name, UNBOUND) for name in sorted(self.site.after)}
        return {**own, **self._of_users()}

    def names_now(self) -> dict[str, Any]:
        """What its variables hold."""
        assert self.frame is not None
        found = {**self.frame.f_locals, **_LEFT.get(self.frame, {})}
        return {**self.snapshot(found), **self._of_users()}

    # Passes -----------------------------------------------------------------------------------

    def closed(self, tracer: Any, names: Names) -> Passes:
        """What ``names`` are in ``tracer`` once its continuations are closed and errors taken."""
        if tracer.rest is None:
            if names is None and any(error.stop is self for error in tracer.errors):
                errors, tracer.errors = tracer.errors, []
                return (yield from self._taken(tracer, errors))
            return names
        rest = tracer.rest
        names = yield from self.closed(rest.path.region, names)
        rest.close(names or {}, self.roots.cells)
        other = Path(Region(tracer, "else", self._roots_at(rest.errors)), RAISED)
        other.end((yield from self._taken(other.region, rest.errors)) or {})
        return self._met(tracer, rest.clear, rest.path, other)

    def _roots_at(self, errors: Sequence[PendingError]) -> Roots:
        """What there is where one of ``errors`` is taken: what was made before that, too."""
        made = [value for error in errors for value in error.names.values()]
        raised = [[*error.error.args, vars(error.error)] for error in errors]
        return Roots([*made, *raised, *self.roots.values], self.roots.cells)

    def _taken(self, tracer: Any, errors: Sequence[PendingError]) -> Passes:
        """The names after one of ``errors``, which was raised, in ``tracer``."""
        first, *others = errors
        if not others:
            return (yield from self._one_taken(tracer, first))
        with self.inside(tracer):
            pred = truth(first.flag)
        one = Path(Region(tracer, "then", self._roots_at([first])), RAISED)
        one.end((yield from self._one_taken(one.region, first)) or {})
        other = Path(Region(tracer, "else", self._roots_at(others)), RAISED)
        other.end((yield from self._taken(other.region, others)) or {})
        return self._met(tracer, pred, one, other)

    def _met(self, tracer: Any, pred: Any, first: Path, second: Path) -> Names:
        after = dict.fromkeys([*sorted(self.site.after), *self._of_users()], UNBOUND)
        names = join(tracer, pred, first, second, after, self.at)
        ended = first.ended and second.ended
        if tracer is not self.tracer:  # where the body has ended by an error, a clause may go on
            tracer.path.raised = ended and (first.raised or second.raised)
            tracer.path.diverged = ended and not tracer.path.raised
        return None if ended else names

    def _one_taken(self, tracer: Any, pending: PendingError) -> Passes:
        if pending.stop is self:
            if next(tracer.taken_errors) >= MOST_TAKEN:
                raise EagerOnlyError(
                    f"more than {MOST_TAKEN} errors are to be followed to what takes them",
                    at=self.at,
                    why="What a clause, a finally or an __exit__ raises where it takes an error "
                    "is one more, and a graph holds a way for each.",
                )
            return (yield from self.handled(tracer, pending))
        tracer.errors.append(replace(pending, flag=True))
        tracer.path.raised = True
        return None

    def handled(self, tracer: Tracer, pending: PendingError) -> Passes:
        """The names after the statement has met the error ``pending``, in ``tracer``."""
        raise NotImplementedError

    def endless(self) -> CaptureError:
        return too_deep(self.site.kind, self.at)

    def left_by(self, error: BaseException) -> bool:
        """An exception ends the pass: whether there are others, which go on."""
        rest = self.tracer.rest
        if type(error) is EndOfPath:
            if rest is not None:
                end_by_error(rest.path, pending=True)
        elif rest is None:
            return False
        else:
            leave_by(error, rest.path)
        self.ended = True
        return True

    def conclude(self, names: Names) -> None:
        """The statement is over: the author's variables hold ``names``."""
        self.frame = None
        if names is None:
            if self.tracer.errors:
                raise EndOfPath
            names = {}
        self._tell_users(names)
        self.load({**dict.fromkeys(self.site.names, UNBOUND), **names})
        go_on()

    @property
    def at(self) -> Any:
        return self.site.location


def _is_held(frame: FrameType) -> bool:
    """Whether a variable holds the generator of ``frame``, which may be asked for more."""
    user = frame.f_back
    while user is not None:
        if is_converted_code(user.f_code):
            for value in user.f_locals.values():
                value = value._native if type(value) is hyb__.Generated else value
                if type(value) is GeneratorType and value.gi_frame is frame:
                    return True
        user = user.f_back
    return False


def exhausted(passes: Iterator[None]) -> Names:
    """The names that ``passes`` end with, which need no pass of the author's code."""
    try:
        next(passes)
    except StopIteration as end:
        return end.value
    raise AssertionError("no pass was expected")


def raise_again(error: BaseException) -> NoReturn:
    """Raise ``error``, which keeps the exception in the handling of which it was raised."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context
