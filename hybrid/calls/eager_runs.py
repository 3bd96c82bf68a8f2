"""Eager runs of a hybridized function, where plans do not pay, or to know how long they take.

They are the run of their call: nothing is computed twice.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any

import numpy as np

from hybrid.calls.executable import Planned
from hybrid.calls.families import Family
from hybrid.calls.ledger import BINDING, BUCKET, CAPTURE, OPENING, LedgerInfo, Need
from hybrid.calls.open_captures import OpenCapture
from hybrid.calls.open_families import AtSizes, OpenFamily
from hybrid.calls.plan_table import PlanTable
from hybrid.calls.recapture_reasons import (
    Call,
    known_by,
    record_of,
    why_unpaid,
)
from hybrid.core.dataclass import cached_attribute
from hybrid.core.exceptions import carried
from hybrid.core.tree import flatten, stored_items
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import STATE
from hybrid.errors import CaptureError, EagerOnlyError, FirstPassError, warn_author
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.ir.record import is_recording
from hybrid.trace.capture.side_effects import refuse_lost
from hybrid.trace.places.signature import plain

_thread = threading.local()  # .timed: whether this thread is in a run that is to be timed


LOOK = object()  # in place of a result: there may be a plan for the call

_GLANCES = 64  # calls that rest may ask in vain whether they have a plan
_GLANCE = 4e-6  # seconds that it takes to ask
_MORE = 64  # calls that rest, for one more
_DOZES = 63  # calls that rest, from one that is timed to the next one

PLAIN = frozenset((Tensor, str, int, float, bool, type(None)))  # most of what there is


def in_timed_run() -> bool:
    """Whether this is called by what runs eagerly to be timed: captures would be in its time."""
    return getattr(_thread, "timed", False)


def holds_array(values: Iterable[Any]) -> bool:
    """Whether there is a NumPy array among ``values``, or in lists, tuples and dicts there."""
    for value in values:
        if type(value) in PLAIN:
            continue
        if isinstance(value, np.ndarray):
            return True
        if not isinstance(value, (list, tuple, dict)):
            continue
        items = stored_items(value)
        if not PLAIN.issuperset(map(type, items)) and holds_array(items):
            return True
    return False


def plain_kinds(args: Sequence[Any], kwargs: dict[str, Any]) -> Hashable:
    """What stands for arguments that are all plain tensors, of any sizes; None if they are not."""
    if kwargs or ACTIVE or not plain(args):
        return None
    return (is_recording(), *[(t.type.dtype, t.type.rank) for t in args])


def takes_as_is(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether eager code means the same by these arguments as a plan, just as they are."""
    return not (ACTIVE or holds_array(args) or (kwargs and holds_array(kwargs.values())))


def takes_eagerly(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an eager run can do what a plan does.

    NumPy arrays are tensors in a plan.  Those that are arguments are made tensors here, too, but
    containers that hold some would have to be copied, and what is written to them would be lost.
    """
    return not any(
        not isinstance(value, np.ndarray) and holds_array((value,))
        for value in (*args, *kwargs.values())
    )


def need_at(made: OpenCapture, values: tuple[int, ...]) -> Need:
    """What a call needs that an open capture serves at sizes of ``values``."""
    group = id(made)
    key = hash((group, values))
    if made.has_bucket(values):
        return Need(BINDING, key, None, group, values)
    return Need(BUCKET, key, group, group, values)


class PlanRequest:
    """A call for which there is no plan, its families, and the open capture that serves it."""

    def __init__(
        self, call: Call, family: Family, sizes: OpenFamily | None, served: AtSizes | None
    ) -> None:
        self.call, self.family, self.sizes, self.served = call, family, sizes, served

    @cached_attribute
    def need(self) -> Need:
        """What the ledger knows it by."""
        if self.served is not None:
            return need_at(*self.served)
        key, sizes = known_by(self.call, self.family), self.sizes
        with STATE:  # no stand-in is in the place of what may have other sizes
            opens = sizes is not None and sizes.opens(self.call.leaves)
        if opens:
            return Need(OPENING, key, id(sizes))
        # Calls of other numbers wait together for a plan that takes them all.
        numbers = self.family.plans and self.family.candidates(self.call.key[1], self.call.leaves)
        return Need(CAPTURE, key, id(self.family) if numbers else None)


def reading_loaders(method: Callable[..., Any]) -> Callable[..., Any]:
    """``method``, which captures without a call: it reads loaders that nobody has seen."""

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except FirstPassError as error:
            error.settle()
        return run(*args, **kwargs)

    return run


class UnpaidPlan(Exception):
    """Raised where a call is to run eagerly, rather than get a plan; ``begin`` as in EagerRuns."""

    def __init__(self, request: PlanRequest, begin: float) -> None:
        super().__init__()
        self.request, self.begin = request, begin


class EagerRuns:
    """The runs of ``function`` that the ledger of its ``table`` asks for, if there is one.

    ``strict`` is whether what cannot be captured raises, ``may_rest`` whether all that is asked of
    arguments is asked by eager code, too.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        table: PlanTable,
        *,
        strict: bool,
        may_rest: bool,
    ) -> None:
        self.may_rest, self.strict = may_rest, strict
        self.function, self.name, self.table, self.ledger = function, name, table, table.ledger
        self.rests = False  # whether calls run eagerly, without a look for their plan
        self.dozing: Iterator[None] = repeat(None, 0)  # see ``Ledger.doze``
        self._left = 0  # calls that rest after those that doze
        self.glances = _GLANCES  # how many of them may still ask in vain whether they have a plan
        # Whether a plan reads or writes what holds stand-ins while others are captured.
        self.shares = False

    def now(self) -> float:
        """The time, for those who measure how long something takes; 0 if nobody does."""
        return 0.0 if self.ledger is None else self.ledger.clock()

    def tried(self, begin: float) -> float:
        """The time: since ``begin`` a plan has run that turned out not to serve its call."""
        now = self.now()
        if self.ledger is not None:
            self._rest(self.ledger.tried(now - begin))
        return now

    def info(self) -> LedgerInfo:
        if self.ledger is None:
            return LedgerInfo(name=self.name, state="off")
        return self.ledger.info(self.name)

    def told(self) -> str:
        """What captures have cost and saved."""
        return "" if self.ledger is None else self.ledger.told()

    # Eager runs -------------------------------------------------------------------------------

    def as_is(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call that ``takes_as_is``."""
        if not self.shares:
            return self.function(*args, **kwargs)
        with STATE:
            return self.function(*args, **kwargs)

    def _as_in_a_plan(self, call: Call) -> Any:
        """The result of a call that ``takes_eagerly``.

        Raises CaptureError if a NumPy array is written to, as a plan of the call would.
        """
        args, kwargs = call.args, call.kwargs
        if not any([isinstance(value, np.ndarray) for value in (*args, *kwargs.values())]):
            return self.as_is(args, kwargs)
        given, _ = flatten((args, kwargs))
        made: dict[int, tuple[Any, Any]] = {}  # by position among the leaves: tensor and content
        at = 0

        def lifted(value: Any) -> Any:
            nonlocal at
            if isinstance(value, np.ndarray):
                value = current().lift(value)
                made[at] = value, value.content
            at += len(flatten(value)[0])
            return value

        args = [lifted(value) for value in args]
        result = self.as_is(args, {key: lifted(value) for key, value in kwargs.items()})
        lost = {at: None for at, (tensor, was) in made.items() if tensor.content is not was}
        refuse_lost(self.name, given, lost, call.names)
        return result

    def again(
        self, planned: Planned, args: Sequence[Any], kwargs: dict[str, Any], error: Exception
    ) -> Any:
        """The eager run of a call that a kernel has ended, with nothing written.

        It raises ``error`` once more, behind what eager code writes before it.
        """
        if carried(error) or not planned.may_run_again:
            raise error
        return self.as_is(args, kwargs)

    def rested(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call while calls rest; LOOK if its plan is to be looked for."""
        plain = not kwargs and PLAIN.issuperset(map(type, args))
        if not plain and not takes_as_is(args, kwargs):
            self._wake()
            self._left, self.rests = 0, False
            return LOOK
        for _ in self.dozing:
            return self.as_is(args, kwargs)
        if self._left <= 0:
            self.rests = False
            return LOOK
        ledger = self.ledger
        assert ledger is not None
        if not ledger.times_rests:
            self._doze(1 if self.shares else self._left)
            return self.rested(args, kwargs)
        glances = self.glances > 0 and bool(self.table.unpaid) and ledger.saved_by_plan > 0
        if glances and self._glance(args, kwargs):
            return LOOK
        self._left -= 1
        self.glances += self._left % _MORE == 0
        begin = ledger.clock()
        result = self.as_is(args, kwargs)
        ledger.slept(ledger.clock() - begin)
        self._doze(0 if glances or self.shares else _DOZES)
        return result

    def _doze(self, calls: int) -> None:
        """Let so many of the calls that rest do no more than call the function."""
        assert self.ledger is not None
        calls = min(calls, self._left)
        self._left -= calls
        self.dozing = self.ledger.doze(calls)

    def _wake(self) -> None:
        """Let no call doze any more; they rest nevertheless."""
        self._left += length_hint(self.dozing)
        self._doze(0)

    def _glance(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether an open capture has a plan for the sizes of a call; what it saves pays to ask."""
        ledger, kinds = self.ledger, plain_kinds(args, kwargs)
        made = None if kinds is None else self.table.unpaid.get(kinds)
        assert ledger is not None
        if made is None:
            return False
        with STATE:
            found = made.bound(args) is not None
        more = int(ledger.saved_by_plan / _GLANCE) if found else -1
        self.glances = min(self.glances + more, _GLANCES)
        return found

    def _rest(self, calls: int) -> None:
        """Let so many calls run without a look for their plans."""
        self._wake()
        self._left = max(self._left, calls) if self.may_rest else 0
        self.rests = self._left > 0

    # Calls of which there is a plan -----------------------------------------------------------

    def timed(
        self,
        planned: Planned,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        given: tuple[Any, ...],
        begin: float,
    ) -> Any:
        """A call that is due: the plan's run of ``given``, or an eager one, and its time is noted.

        ``begin`` is when the look for the plan began; 0 if it has been made for this call.
        """
        ledger = self.ledger
        assert ledger is not None
        look = ledger.clock() - begin if begin else 0.0  # what is to be done is no part of a call
        planned.due = 2 * planned.calls  # should this raise
        if takes_as_is(args, kwargs) and ledger.wants_sample(planned):
            planned.calls -= 1
            result = self._sampled(planned, args, kwargs)
        else:
            begin = ledger.clock()
            result = planned.run(*given)
            ledger.ran(planned, ledger.clock() - begin + look)
        rest = ledger.settle(planned, rests=self.rests)
        if rest:
            self._rest(rest)
            self._warn(ledger.slower(planned))
        return result

    def _sampled(self, planned: Planned, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        assert self.ledger is not None
        _thread.timed = True
        try:
            begin = self.ledger.clock()
            result = self.as_is(args, kwargs)
            self.ledger.sampled(planned, self.ledger.clock() - begin)
        finally:
            _thread.timed = False
        return result

    # Calls of which there is none -------------------------------------------------------------

    def refuses(self, request: PlanRequest) -> bool:
        """Whether a call is to run eagerly, rather than get a plan."""
        if self.ledger is None or (ACTIVE and current().queues):
            return False
        if not (in_timed_run() or self.ledger.refuses(request.need)):
            return False
        return takes_eagerly(request.call.args, request.call.kwargs)

    def paid(
        self, request: PlanRequest, make: Callable[[PlanRequest], Planned], begin: float
    ) -> Planned:
        """What ``make`` makes for a call; raises UnpaidPlan where it is to run eagerly."""
        if self.refuses(request):
            raise UnpaidPlan(request, begin)
        ledger = self.ledger
        if ledger is None:
            return make(request)
        unpaid = UnpaidPlan(request, begin)
        modules, begin = ledger.modules(), ledger.clock()
        try:
            planned = make(request)
        except Exception as error:
            cannot = isinstance(error, CaptureError) and not isinstance(error, EagerOnlyError)
            if self.strict and cannot:
                if not ledger.close(request.need.key):
                    raise
                warn_author(f"{self.name} runs eagerly: {error}")
                raise unpaid from None
            ledger.fail(ledger.clock() - begin)
            raise
        seconds, imports = ledger.clock() - begin, ledger.modules() != modules
        group = id(planned.opened or planned)
        ledger.enter(planned, request.need, seconds, group, imports=imports)
        self.shares |= planned.shares
        self._wake()
        return planned

    def unpaid(self, request: PlanRequest, begin: float) -> Any:
        """The eager run of a call that has got no plan; the look for one began at ``begin``."""
        ledger, call, family = self.ledger, request.call, request.family
        assert ledger is not None
        if in_timed_run():
            return self._as_in_a_plan(call)
        if ledger.wait(lambda: record_of(call, family)):
            self._warn(why_unpaid(call, family, self.table.all(), ledger.records))
        start = ledger.clock()
        result = self._as_in_a_plan(call)
        self._ran(request.need, begin, start)
        kinds = plain_kinds(call.args, call.kwargs)
        if kinds is not None and request.served is not None:
            self.table.unpaid[kinds] = request.served[0]
        return result

    def unpaid_again(self, args: Sequence[Any], kwargs: dict[str, Any], begin: float) -> Any:
        """The eager run of a call like one that has got no plan; LOOK if it may get one now.

        It is one that the same open capture serves, at any sizes.
        """
        ledger, kinds = self.ledger, plain_kinds(args, kwargs)
        made = None if kinds is None else self.table.unpaid.get(kinds)
        if made is None or ledger is None or in_timed_run():
            return LOOK
        with STATE:
            values = None if made.bound(args) else made.values(args)
        need = None if values is None else need_at(made, values)
        if need is None or not ledger.refuses(need):
            return LOOK
        start = ledger.clock()
        result = self.as_is(args, kwargs)
        self._ran(need, begin, start)
        return result

    def unplanned(self, args: Sequence[Any], kwargs: dict[str, Any], begin: float) -> Any:
        """The eager run of a call of which there can be no plan, found out since ``begin``."""
        if self.ledger is None:
            return self.function(*args, **kwargs)
        start = self.ledger.clock()
        result = self.function(*args, **kwargs)
        self._ran(None, begin, start)
        return result

    def _ran(self, need: Need | None, begin: float, start: float) -> None:
        """A call has run eagerly from ``start`` to now; it was looked for its plan before."""
        ledger = self.ledger
        assert ledger is not None
        end = ledger.clock()
        self._rest(ledger.ran_eagerly(need, end - start, start - begin))
        ledger.look_more(ledger.clock() - end)

    def _warn(self, reason: str) -> None:
        """Say once, with the reason, that calls run eagerly."""
        assert self.ledger is not None
        self.ledger.reason = reason
        if not self.ledger.warned:
            self.ledger.warned = True
            warn_author(f"{self.name} runs eagerly: {self.ledger.told()}.\n{reason}")
