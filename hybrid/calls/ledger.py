"""Ledger: what the captures of a function have cost and saved, and whether the next one pays.

Over any calls, a hybridized function takes at most ``1 + SHARE`` of the time of eager code and
``CREDIT`` seconds more, or what its first captures take: captures and bindings, and looks for plans
that are not there, are paid from that, and from what plans have saved by then.  A call whose plan
cannot be paid runs eagerly, with the same bits.  What eager code takes is known from such calls,
and from a few that run eagerly in place of their plan.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import repeat
from math import ceil, inf, prod
from operator import length_hint
from typing import Any, NamedTuple

from hybrid.core.dataclass import dataclass, field
from hybrid.ir import Graph
from hybrid.ops.support.operand_checks import plural

CREDIT = 0.05  # seconds that may be lost before anything is saved
AT_ONCE = 0.4 * CREDIT  # by captures
LOOKING = 0.1 * CREDIT  # for plans that are not there
SPARE = CREDIT - AT_ONCE - LOOKING  # for what is not measured
ADVANCE = SPARE  # for sizes of a capture whose plans are known to be faster
SHARE = 0.05  # of the time of eager code, that may be lost
LOOKS = 0.005  # of it, for plans that are not there
SAMPLED = 0.01  # of the time of all calls, that eager calls may take which are there to be timed

_MOST_SAMPLES = 12  # eager calls in place of one plan
_AT_A_TIME = 3  # of them
_SHORT = 1e-3  # seconds, of calls whose times differ by what is in the caches
_MOST_SCRATCH = 1 << 30  # bytes of values: a plan of more is not tried out eagerly
_OP_SECONDS = 40e-6  # that an eager op takes besides its kernel, at most
_LOOP_RATIO = 200  # of the time of eager code to that of a plan, at most, where there are loops

_AGAIN = 1.5  # captures that a second one takes: numbers are tried as inputs
_TIMED = 1e-4  # seconds of an eager call, from which on it is timed while calls rest
_WAY = 1e-6  # seconds that such a call takes besides
_MOST_REST = 1024  # calls from one look for a plan to the next
_KEYS = 256  # keys of which it is known that they have run eagerly
_RECORDS = 6  # of them that are told of in the reason
TELLING = 8  # keys that have to wait, before there is a warning
_OFTEN = 8  # calls by a plan, from which on a quarter more are counted until one is timed

CAPTURE, OPENING, BUCKET, BINDING = "capture", "opening", "bucket", "binding"
_PARTS = {BUCKET: 0.4, BINDING: 0.02}  # of a capture: what they take, as long as little is known
_LATE = 5  # times that tell what is usual
_GROWTH = 3  # the time of a call grows with a size by that power, at most
_RATIOS = 9  # plans of late; the median of theirs stands for plans of which no eager time is known
_TIMES = 16  # sizes of a capture at which the time of eager calls is known


class Need(NamedTuple):
    """What a call without a plan needs."""

    kind: str
    key: Hashable  # what tells it from calls that other plans serve
    shared: Hashable = None  # what calls of other keys have in common that need the same
    group: Hashable = None  # of the plans of the capture there is
    sizes: Sequence[int] = ()


class PlanGroup:
    """Plans of one capture: they pay for it together."""

    __slots__ = ("bindings", "buckets", "cost", "eager", "plans", "ratios", "saved")

    def __init__(self) -> None:
        self.cost = self.saved = 0.0  # seconds
        self.bindings = 0.0  # seconds of the cost
        self.plans = 0  # that are kept
        self.buckets = 0.0  # seconds that these may take as a part of the capture
        self.eager: dict[tuple[int, ...], float] = {}  # seconds of first calls, by their sizes
        self.ratios: dict[Any, float] = {}  # of eager time to that by a plan, of some plans

    def ran_eagerly(self, sizes: Sequence[int], seconds: float) -> None:
        """The first eager call of these sizes has taken so long."""
        if len(self.eager) < _TIMES:
            self.eager.setdefault(tuple(sizes), seconds)

    def eager_at(self, sizes: Sequence[int]) -> float:
        """The seconds of an eager call of sizes that there were none of: at least so long.

        A call takes no longer if no size is larger, and not much less than they are smaller.
        """
        return max(
            [
                seconds
                * prod([min(1.0, n / m) for n, m in zip(sizes, known, strict=True)]) ** _GROWTH
                for known, seconds in self.eager.items()
            ],
            default=0.0,
        )


class Account:
    """How long calls by one plan take."""

    __slots__ = (
        "alone", "booked", "calls", "group", "runs", "samples", "seconds", "sizes", "taken",
        "trains",
    )  # fmt: skip

    def __init__(
        self, group: Hashable, sizes: Sequence[int], trains: bool, alone: EagerTime
    ) -> None:
        self.group, self.sizes = group, sizes
        self.trains = trains  # gradients go back through it: what that saves, no call tells
        self.alone = alone
        self.seconds = inf  # the least of a call by the plan
        self.samples = 0  # eager calls that were there to be timed
        self.runs = 0  # calls by the plan that were timed
        self.calls, self.taken = 0, 0.0  # that were counted, and their seconds, about
        self.booked = 0.0, 0.0  # seconds in the totals: of eager calls, and of those by the plan

    @property
    def eager(self) -> float | None:
        """The seconds of an eager call, if that is known."""
        return self.alone.least


class EagerTime:
    """How long eager calls of one key take."""

    __slots__ = ("first", "least")

    def __init__(self) -> None:
        self.first: float | None = None  # which also makes what is kept for later ones
        self.least: float | None = None  # of those, in seconds

    def add(self, seconds: float) -> None:
        """A call has taken so long."""
        if self.first is None:
            self.first = seconds
        elif self.least is None or seconds < self.least:
            self.least = seconds


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """The ledger of a hybridized function, for users: ``print`` it; times are in seconds."""

    name: str
    state: str  # "captures", "waits", "rests", or "off"
    calls: int = 0
    eager_calls: int = 0  # among them
    captures: int = 0
    bindings: int = 0  # of open captures to sizes
    capture_seconds: float = 0.0
    binding_seconds: float = 0.0
    look_seconds: float = 0.0  # for plans that were not there
    saved_seconds: float = 0.0  # by calls that ran as plans
    plan_call_seconds: float | None = None  # of a typical call by a plan of late
    eager_call_seconds: float | None = None
    reason: str = field(default="")  # why calls run eagerly

    def __str__(self) -> str:
        first = f"{self.name}: {_STATES[self.state]}"
        if self.state == "off":
            return first
        lines = [
            first,
            f"{plural(self.calls, 'call')}, {self.eager_calls} of them eager",
            f"spent: {plural(self.captures, 'capture')} in {seconds_text(self.capture_seconds)}, "
            f"{plural(self.bindings, 'binding')} in {seconds_text(self.binding_seconds)}, looks "
            f"for plans {seconds_text(self.look_seconds)}",
            f"saved: {seconds_text(self.saved_seconds)}",
        ]
        times = (self.plan_call_seconds, "by a plan"), (self.eager_call_seconds, "eagerly")
        told = [f"{seconds_text(seconds)} {how}" for seconds, how in times if seconds is not None]
        lines += [f"a call takes about {', '.join(told)}"] if told else []
        return "\n".join(lines + ([self.reason] if self.reason else []))

    __repr__ = __str__


_STATES = {
    "off": "each new key is captured, whatever that costs",
    "captures": "new keys are captured",
    "waits": "new keys run eagerly, until captures have paid back",
    "rests": "nearly all calls run eagerly, without looking for a plan",
}


def seconds_text(seconds: float) -> str:
    """``1.5 ms``."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if abs(seconds) * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


class Ledger:
    """The ledger of one hybridized function."""

    def __init__(self) -> None:
        # What others do on the machine meanwhile is nobody's cost.
        self.clock: Callable[[], float] = time.thread_time
        self.modules: Callable[[], int] = sys.modules.__len__  # that have been imported
        self.plans: dict[Any, None] = {}  # those that there are, each with its account
        self.groups: dict[Hashable, PlanGroup] = {}
        self.counts = dict.fromkeys((CAPTURE, OPENING, BUCKET, BINDING), 0)
        self.spent = dict.fromkeys(self.counts, 0.0)
        self._late: dict[str, deque[float]] = {kind: deque(maxlen=_LATE) for kind in self.spent}
        self.failures = 0  # captures that gave no plan
        self.epochs = False  # whether a capture has loops over loaders
        # Whether one reaches other processes: each would have another time, and go another way.
        self.communicates = False
        # What all calls have taken, captures included, and what they would have taken eagerly.
        self.hybridized = self.eager = 0.0
        self.saved = 0.0  # by calls that ran as plans
        self.unpaid = 0.0  # by captures and bindings, each by itself, and not saved
        self.eager_calls = 0
        self._awake = self._dozes = 0  # calls that have rested, and that may doze now
        self._dozing = repeat(None, 0)
        self.eager_seconds = self.look_seconds = self.sampled_seconds = 0.0
        self.waiting: dict[Hashable, EagerTime] = {}
        self.waited: dict[Hashable, float] = {}  # seconds of eager calls for want of a plan
        self.raising: set[Hashable] = set()  # keys whose calls raise that they cannot be captured
        self.closed: set[Hashable] = set()  # keys that cannot be captured, and have run before
        self.records: list[Any] = []  # of keys that had to wait
        self.warned = False
        self.state, self.reason = "captures", ""
        self._past_calls = 0  # by plans that are gone
        self._ratios: dict[Any, float] = {}  # of eager time to that by a plan, of all groups
        self._eager: deque[float] = deque(maxlen=_LATE)  # what calls have taken of late
        self._first: deque[float] = deque(maxlen=_LATE)  # and the first ones of their keys
        self._by_plan: deque[float] = deque(maxlen=_LATE)
        self._counted_at = 0  # calls, when that was last done for all plans
        self._rest = 1  # the length of the last one, where plans are slower than eager code

    # What has happened ------------------------------------------------------------------------

    def enter(
        self, planned: Any, need: Need, seconds: float, group: Hashable, *, imports: bool = False
    ) -> None:
        """A capture or binding has taken ``seconds`` and has given ``planned``.

        If it ``imports`` modules, which a process does once, it counts for nothing.
        """
        self.counts[need.kind] += 1
        self.spent[need.kind] += seconds
        cost = 0.0 if imports else seconds
        if not imports:
            self.hybridized += seconds
            self._late[need.kind].append(seconds)
        alone = self.waiting.pop(need.key, None) or EagerTime()
        self.waited.pop(need.shared or need.key, None)
        capture = planned.capture
        planned.account = Account(group, need.sizes, capture.gradient is not None, alone)
        planned.due = 1
        self.plans[planned] = None
        self.epochs |= bool(capture.facts)
        if need.kind is not BINDING or group not in self.groups:
            source = (planned.opened or planned).capture
            self.communicates |= any([node.op.communicates for node in source.graph.walk()])
            self.communicates |= source.is_shared
        one = self.groups.setdefault(group, PlanGroup())
        one.plans += 1
        if need.kind is BINDING:
            one.bindings += cost
        else:
            one.buckets += -cost if need.kind is BUCKET else cost
        self._pay(group, cost=cost)
        self.state = "captures"

    def fail(self, seconds: float) -> None:
        """A capture has given no plan, though the call is none that has to raise for it."""
        self.failures += 1
        self.spent[CAPTURE] += seconds
        self.hybridized += seconds
        self.unpaid += seconds
        self._late[CAPTURE].append(seconds)

    def drop(self, planned: Any) -> None:
        """``planned`` is no longer kept; what its group has not saved stays unpaid."""
        if planned not in self.plans:  # it is of a ledger before this one
            return
        self._count(planned)
        self._past_calls += planned.calls
        del self.plans[planned]
        group = self.groups[planned.account.group]
        group.plans -= 1
        if not group.plans:
            del self.groups[planned.account.group]

    def ran(self, planned: Any, seconds: float) -> None:
        """A call by ``planned`` has taken ``seconds``."""
        planned.account.runs += 1
        self._by_plan.append(seconds)
        self._count(planned, seconds)

    def ran_eagerly(self, need: Need | None, seconds: float, look: float) -> int:
        """A call has run eagerly for want of a plan; how many are to do so without a look.

        ``look`` are the seconds in which it was found that there is none.  ``need`` is None where
        there can be none.
        """
        self.eager_calls += 1
        self.eager_seconds += seconds
        self.eager += seconds
        self.hybridized += seconds
        self.look_more(look)
        first = need is not None and need.key not in self.waiting
        (self._first if first else self._eager).append(seconds)
        if need is not None:
            key, shared = need.key, need.shared or need.key
            if len(self.waiting) >= _KEYS and key not in self.waiting:
                self.waiting.clear()
                self.waited.clear()
            if need.group in self.groups and key not in self.waiting:
                self.groups[need.group].ran_eagerly(need.sizes, seconds)
            self.waiting.setdefault(key, EagerTime()).add(seconds)
            self.waited[shared] = self.waited.get(shared, 0.0) + seconds
        over = self._looked_over()
        if over > 0 and self.calls >= self._counted_at:  # what plans have saved is known late
            self._counted_at = self.calls + 2 * len(self.plans)
            for planned in list(self.plans):
                self._count(planned)
            over = self._looked_over()
        if over <= 0:
            return 0
        calls = min(ceil(over / (LOOKS * max(seconds, 1e-7))), _MOST_REST)
        # Not always as many: keys that come in turn would be looked for at the same ones.
        return self._rests(calls - self.eager_calls % (calls // 4 + 1))

    def _looked_over(self) -> float:
        """The seconds by which looks for plans have taken more than they may."""
        return self.look_seconds - LOOKING - LOOKS * self.eager - 0.5 * max(0.0, self.saved)

    def look_more(self, seconds: float) -> None:
        """It has taken so long that there is no plan for a call."""
        self.look_seconds += seconds
        self.hybridized += seconds

    def tried(self, seconds: float) -> int:
        """Plans have run in vain for so long; how many calls are to rest for that."""
        self.hybridized += seconds
        self.saved -= seconds
        return self._rests(self._pause(seconds)) if self.balance < 0 and self.saved < 0 else 0

    def _pause(self, loss: float) -> int:
        """How many calls that rest make up for a ``loss``."""
        eager = self.eager_call
        return 0 if eager is None else min(ceil(loss / (SHARE * max(eager, 1e-7))), _MOST_REST)

    def sampled(self, planned: Any, seconds: float) -> None:
        """A call has run eagerly in place of ``planned``, to be timed."""
        account = planned.account
        account.samples += 1
        if account.alone.first is not None:
            self._eager.append(seconds)
        account.alone.add(seconds)
        self.eager_calls += 1
        self.eager_seconds += seconds
        self.sampled_seconds += seconds
        self.eager += seconds
        self.hybridized += seconds
        self._count(planned)

    def doze(self, calls: int) -> Iterator[None]:
        """What has one item for each of so many calls that rest: who takes one is not seen."""
        self._awake, self._dozes = self.rested, calls
        self._dozing = repeat(None, calls)
        return self._dozing

    @property
    def _dozed(self) -> int:
        """The calls of the last doze, by now."""
        return self._dozes - length_hint(self._dozing)

    @property
    def rested(self) -> int:
        """The calls that rested and were not timed."""
        return self._awake + self._dozed

    def slept(self, seconds: float) -> None:
        """A call that rests has taken ``seconds``; those of the last doze were not timed.

        Each of these is taken to be as short as it, or as a typical call where that is shorter.
        """
        typical = self.eager_call
        self.eager_calls += 1
        self.eager_seconds += seconds
        seconds += self._dozed * (seconds if typical is None else min(seconds, typical))
        self.eager += seconds
        self.hybridized += seconds + _WAY

    def _rests(self, calls: int) -> int:
        if self.communicates:
            return 0
        if calls > 0:
            self.state = "rests"
        return calls

    @property
    def times_rests(self) -> bool:
        """Whether some of the calls that rest are timed: where that takes little of their time.

        Others count for nothing.
        """
        return self.eager_seconds > _TIMED * self.eager_calls

    def _count(self, planned: Any, seconds: float | None = None) -> None:
        """Count the calls by ``planned`` since the last time; the last one has taken ``seconds``.

        Others are taken for as long as the shortest one.
        """
        if planned not in self.plans:  # another thread has just dropped it
            return
        account, calls = planned.account, planned.calls
        more = calls - account.calls
        if seconds is not None:
            account.seconds = min(account.seconds, seconds)
            account.taken += seconds
            more -= 1
        if account.seconds == inf:
            return
        account.calls = calls
        account.taken += max(more, 0) * account.seconds
        group = self.groups[account.group]
        if account.eager is not None and account.seconds > 0:
            for ratios in (group.ratios, self._ratios):
                ratios[account] = account.eager / account.seconds
                if len(ratios) > _RATIOS:
                    del ratios[next(iter(ratios))]
        ratio = _median(group.ratios.values() or self._ratios.values())
        one = account.eager or account.seconds * (1.0 if ratio is None else ratio)
        eager = calls * one
        if account.alone.first is None and account.sizes:  # which eager code has not seen, either
            eager += max(0.0, group.eager_at(account.sizes) - one)
        if account.trains:
            eager = max(eager, account.taken)
        gained = eager - account.booked[0], account.taken - account.booked[1]
        account.booked = eager, account.taken
        self.eager += gained[0]
        self.hybridized += gained[1]
        self.saved += gained[0] - gained[1]
        self._pay(account.group, saved=gained[0] - gained[1])

    def _pay(self, group: Hashable, cost: float = 0.0, saved: float = 0.0) -> None:
        one = self.groups[group]
        was = max(0.0, one.cost - one.saved)
        one.cost += cost
        one.saved += saved
        self.unpaid += max(0.0, one.cost - one.saved) - was

    # What is to be done -----------------------------------------------------------------------

    @property
    def balance(self) -> float:
        """What may be spent, in seconds."""
        return CREDIT - SPARE + (1 + SHARE) * self.eager - self.hybridized

    def refuses(self, need: Need) -> bool:
        """Whether a call for which there is no plan is to run eagerly.

        What nothing is known of is made from the first seconds that there are; the first capture,
        and the first one for many sizes, whatever they take, and buckets of the latter may take as
        long again.  Later on, calls have to take as long eagerly before as that would have taken.
        """
        kind, key = need.kind, need.key
        if key in self.closed:
            return True
        made = self.counts[CAPTURE] + self.counts[OPENING]
        if key in self.raising or not (made or self.failures) or self.epochs or self.communicates:
            return False
        if kind is OPENING and not self.counts[OPENING]:
            return False
        first = kind is CAPTURE and made == 1 and not self.failures
        cost = self._expected(kind)
        if first and self.unpaid + _AGAIN * cost <= 2 * CREDIT and self.balance >= -SPARE:
            return False  # it may open what has changed since then
        if cost <= AT_ONCE - self.unpaid:
            return False
        group = self.groups.get(need.group)
        means = self.balance
        if kind is BUCKET and group is not None:
            means = max(means, group.buckets)
        if cost <= min(self.waited.get(need.shared or key, 0.0), means):
            return False
        waited = self.waiting.get(key)
        if kind in _PARTS and self._advances(kind, group, cost):
            return False
        if waited is not None:
            eager = waited.least
        elif group is not None:
            eager = group.eager_at(need.sizes)
        else:
            eager = self.eager_call
        # The call itself may save as much.
        return eager is None or self.plan_call is None or cost + self.plan_call >= eager

    def _advances(self, kind: str, group: PlanGroup | None, cost: float) -> bool:
        """Whether a size is bound before as much has been saved."""
        if group is None or self.plan_call is None or self.eager_call is None:
            return False
        if self.plan_call >= self.eager_call:
            return False
        if kind is BUCKET:
            return cost <= group.buckets + max(0.0, group.saved)
        return group.bindings + cost <= ADVANCE + max(0.0, group.saved)

    def _expected(self, kind: str) -> float:
        """What it will take, in seconds."""
        late = self._late[kind]
        most = max(self._late[CAPTURE], default=0.0)
        if kind in _PARTS:  # once in a while they take much longer, which says nothing of the next
            late = sorted([*late, _PARTS[kind] * most])
            return late[(len(late) - 1) // 2]
        return max(late, default=most)

    def wait(self, record: Callable[[], Any]) -> bool:
        """A call is to run eagerly for want of a plan; whether to warn of that."""
        if self.state == "captures":
            self.state = "waits"
        if len(self.records) < _RECORDS and not self.warned:
            self.records.append(record())
        return not self.warned and len(self.waiting) >= TELLING

    def close(self, key: Hashable) -> bool:
        """A call cannot be captured; whether it, and such calls, run eagerly nevertheless.

        They do if such calls may have run before: what once ran does not begin to raise.
        """
        ran = key in self.waiting or self.rested > 0
        (self.closed if ran else self.raising).add(key)
        return ran

    def told(self) -> str:
        """What captures have cost and saved, in a line."""
        spent = sum(self.spent.values())
        made = self._made(self.counts)
        told = [plural(n, what) for n, what in zip(made, (CAPTURE, BINDING), strict=True) if n]
        return (
            f"{' and '.join(told) or 'captures that failed'} took {seconds_text(spent)}, and have "
            f"saved {seconds_text(max(self.saved, 0.0))} in {plural(self.calls, 'call')}"
        )

    def slower(self, planned: Any) -> str:
        """Why calls rest for which there is a plan."""
        account = planned.account
        return (
            f"A call takes {seconds_text(account.seconds)} by its plan, and "
            f"{seconds_text(account.eager)} eagerly.\n"
            "Fix: hybridize the function that calls it, of which a plan can save more."
        )

    @property
    def calls(self) -> int:
        """All calls by now."""
        by_plan = self._past_calls + sum([planned.calls for planned in list(self.plans)])
        return by_plan + self.eager_calls + self.rested

    def wants_sample(self, planned: Any) -> bool:
        """Whether a call is to run eagerly in place of ``planned``, to be timed.

        Not where that may have other bits, takes much memory, or is an epoch.
        """
        account = planned.account
        if account.samples >= _MOST_SAMPLES or self.communicates:
            return False
        if account.samples >= _AT_A_TIME * account.runs:  # plans are timed as often
            return False
        if planned.fast or planned.capture.facts:
            return False
        if planned.plan.sizes.scratch_nbytes > _MOST_SCRATCH:
            return False
        return self._affords(planned)

    def _affords(self, planned: Any) -> bool:
        """Whether an eager call in place of ``planned`` is within what such calls may take."""
        return _most_eager(planned) <= SAMPLED * self.hybridized - self.sampled_seconds

    def settle(self, planned: Any, *, rests: bool = False) -> int:
        """A call that was due is over: the next one is set, and how many are to rest is given.

        ``rests`` is whether others do, those without a plan.
        """
        account, calls = planned.account, max(planned.calls, 1)
        planned.due = 2 * calls if calls < _OFTEN else calls + calls // 4
        short = (account.eager or 0.0) < _SHORT
        if account.samples % _AT_A_TIME and short and self._affords(planned):
            planned.due = calls + 1  # the first of some short calls is slower than others
        known = account.eager is not None and not account.trains
        loss = account.seconds - account.eager if known else 0.0
        if not _WAY < loss < inf:  # to rest would gain nothing
            if self.state == "rests" and not rests:
                self.state = "captures"
            return 0
        planned.due = min(planned.due, calls + max(1, int(self.balance / loss)))
        sure = account.runs >= 2 and account.samples >= _AT_A_TIME
        if self.balance >= 0 or self.saved >= 0 or not sure:
            return 0
        self._rest = min(2 * self._rest, _MOST_REST)
        return self._rests(max(self._rest, self._pause(loss)))

    # What is told -----------------------------------------------------------------------------

    @property
    def eager_call(self) -> float | None:
        """What a typical eager call has taken of late, not the first of its key if others have."""
        return _median(self._eager or self._first)

    @property
    def plan_call(self) -> float | None:
        """What a typical call by a plan has taken of late."""
        return _median(self._by_plan)

    @property
    def saved_by_plan(self) -> float:
        """What a typical call by a plan has saved of late."""
        eager, plan = self.eager_call, self.plan_call
        return 0.0 if eager is None or plan is None else eager - plan

    @staticmethod
    def _made(by_kind: dict[str, Any]) -> tuple[Any, Any]:
        """What there is of captures and of bindings, for users."""
        return by_kind[CAPTURE] + by_kind[OPENING], by_kind[BUCKET] + by_kind[BINDING]

    def info(self, name: str) -> LedgerInfo:
        """What users see."""
        for planned in list(self.plans):
            self._count(planned)
        captures, bindings = self._made(self.counts)
        capture_seconds, binding_seconds = self._made(self.spent)
        return LedgerInfo(
            name=name,
            state=self.state,
            calls=self.calls,
            eager_calls=self.eager_calls + self.rested,
            captures=captures,
            bindings=bindings,
            capture_seconds=capture_seconds,
            binding_seconds=binding_seconds,
            look_seconds=self.look_seconds,
            saved_seconds=self.saved,
            plan_call_seconds=self.plan_call,
            eager_call_seconds=self.eager_call,
            reason="" if self.state == "captures" else self.reason,
        )


def _most_eager(planned: Any) -> float:
    """The seconds of an eager call in place of ``planned``, at most, as far as one can tell."""
    account, graph = planned.account, (planned.opened or planned).capture.stored_graph
    if account.eager is not None:
        return 1.5 * account.eager
    if isinstance(graph, Graph) and not any([node.regions for node in graph.nodes]):
        found = 2 * account.seconds + _OP_SECONDS * len(graph.nodes)
    else:
        found = _LOOP_RATIO * account.seconds
    return found if account.alone.first is None else min(found, account.alone.first)


def _median(times: Iterable[float]) -> float | None:
    ordered = sorted(times)
    return ordered[len(ordered) // 2] if ordered else None
