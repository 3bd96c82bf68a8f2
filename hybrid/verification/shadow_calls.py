"""Shadow calls: some calls of a hybridized function run eagerly as well, and are compared.

The call itself runs as ever.  Then all that it can reach is put back, it runs eagerly, and what
both gave, changed and left is compared: bits, gradients, which objects are which, exceptions.  At
last all is as the call has left it.  Where the two differ the eager run is what the program sees,
and a folder says how to see the difference again.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Callable
from typing import Any

from hybrid.calls.hybridized import Hybridized
from hybrid.errors import ArgumentError, VerificationError, is_interrupt, warn_author
from hybrid.ir.interpreter import ACTIVE
from hybrid.ops.support.operand_checks import require_choice
from hybrid.random import default_generator
from hybrid.trace.guards.constants import lasting_call
from hybrid.verification.reached_state import TooMuchError, reached
from hybrid.verification.reproduction import write_reproduction
from hybrid.verification.state_difference import Outcome
from hybrid.verification.state_snapshot import StateSnapshot

_GRADIENTS = 16  # gradients of the results are compared in one of so many: they take longer


class ShadowCalls:
    """Of a function's calls the ``share`` that are verified; ``raises`` if one differs."""

    def __init__(self, name: str, share: float, *, raises: bool) -> None:
        self.name, self.share, self.raises = name, share, raises
        self._credit = 1.0  # so the first call is one of them
        self._lock = threading.Lock()
        self._told, self._count = False, 0

    def due(self) -> bool:
        """Whether the next call is to be verified."""
        if ACTIVE:
            return False
        self._credit += self.share
        if not self.share or self._credit < 1.0 + self.share - 1e-9:
            return False
        self._credit -= 1.0
        return True

    def run(
        self, hybridized: Any, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        """The result of ``call``, which runs ``hybridized``, compared with its eager run."""
        if not self._lock.acquire(blocking=False):  # by another thread, or around this
            return call(*args, **kwargs)
        try:
            return self._compared(hybridized, call, args, kwargs)
        finally:
            self._lock.release()

    def _compared(
        self, hybridized: Any, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        roots = {"args": args, "kwargs": kwargs, "function": hybridized.function,
                 "random": default_generator().state}  # fmt: skip
        try:
            before = StateSnapshot(reached(roots.items()))
        except TooMuchError:
            return self._unverified(call, args, kwargs, "it reaches too many objects")
        result, error = _outcome_of(call, args, kwargs)
        if error is not None and not isinstance(error, Exception):
            raise error
        plans = hybridized._table.all()
        if not plans or getattr(error, "_of_capture", False):  # it has run eagerly, or is refused
            return _given(result, error)
        if any(map(_lasts, plans)):
            return self._ended(result, error, "it prints or calls Python, which would happen twice")
        self._count += 1
        gradients = self._count % _GRADIENTS == 1
        found = reached([("result", result), *roots.items()])
        planned = Outcome(found, before, result, error, gradients=gradients)
        after = StateSnapshot(found)
        before.restore()
        try:
            with contextlib.redirect_stdout(_OtherThreads(sys.stdout)):  # it has been printed
                expected, raised = _outcome_of(hybridized.function, args, kwargs)
            found = reached([("result", expected), *roots.items()])
            eager = Outcome(found, before, expected, raised, gradients=gradients)
            lines = eager.difference(planned)
        except BaseException:  # Ctrl-C, say: the call is done
            after.restore()
            raise
        if not lines:
            after.restore()
            return _given(result, error)
        there = StateSnapshot(found)
        before.restore()
        folder = write_reproduction(self.name, hybridized, args, kwargs, lines)
        told = VerificationError(
            f"{self.name} gave something else in a plan than eagerly",
            why="\n".join(lines[:8] + ([f"and {len(lines) - 8} more"] if len(lines) > 8 else [])),
            fix=f"send {folder} with a report, and run `hybrid reproduce {folder}`",
        )
        if self.raises:
            raise told
        warn_author(str(told))
        there.restore()
        return _given(expected, raised)

    def _ended(self, result: Any, error: BaseException | None, reason: str) -> Any:
        self._tell(reason)
        return _given(result, error)

    def _unverified(self, call: Callable[..., Any], args: Any, kwargs: Any, reason: str) -> Any:
        self._tell(reason)
        return call(*args, **kwargs)

    def _tell(self, reason: str) -> None:
        self.share = 0.0
        if not self._told:
            self._told = True
            warn_author(f"calls of {self.name} are not verified: {reason}.")


def _lasts(planned: Any) -> bool:
    return any(map(lasting_call, planned.capture.graph.nodes))


def _outcome_of(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    try:
        return call(*args, **kwargs), None
    except Exception as error:
        if is_interrupt(error):
            raise
        return None, error


class _OtherThreads(io.TextIOBase):
    """Standard output of all threads but one, whose texts are dropped."""

    def __init__(self, out: Any) -> None:
        self.out, self.thread = out, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self.thread else self.out.write(text)

    def flush(self) -> None:
        self.out.flush()


def _given(result: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return result


class Verified(Hybridized):
    """A callable that runs ``function`` as plans, and a share of its calls eagerly as well."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        verify: float,
        on_difference: str = "raise",
        **options: Any,
    ) -> None:
        number = isinstance(verify, (int, float)) and not isinstance(verify, bool)
        if not number or not 0 <= verify <= 1:
            raise ArgumentError(
                f"verify is {verify!r}", fix="give the share of calls to compare: from 0 to 1"
            )
        require_choice("on_difference", on_difference, ("raise", "warn"))
        super().__init__(function, **options)
        self.options |= {"verify": verify, "on_difference": on_difference}
        raises = on_difference == "raise"
        self._shadow = ShadowCalls(self._name(), float(verify), raises=raises)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._shadow.due():
            return self._shadow.run(self, super().__call__, args, kwargs)
        return super().__call__(*args, **kwargs)
