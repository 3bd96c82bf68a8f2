"""Ledger: what the captures of a function have cost and saved, and whether the next one pays.

Over any calls, a hybridized function takes at most ``1 + SHARE`` of the time of eager code and
``CREDIT`` seconds more: captures and bindings are paid from that, and from what plans have saved by
then.  A call whose plan cannot be paid runs eagerly, with the same bits.  What eager code takes is
known from such calls, and from a few that run eagerly in place of their plan.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import ceil, inf
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.ir import Graph

CREDIT = 0.05  # seconds that may be lost before anything is saved
AT_ONCE = 0.5 * CREDIT  # by captures; the rest is for what finds out that they do not pay
SPARE = 0.1 * CREDIT  # for what is not measured
SHARE = 0.05  # of the time of eager code, that may be lost
SAMPLED = 0.01  # of the time of all calls, that eager calls may take which are there to be timed
LOOKS = 0.01  # of the time of eager calls, that looking for their plans may take in the end

_WAY_SECONDS = 2e-6  # from a call to its eager run

_MOST_SAMPLES = 12  # eager calls in place of one plan
_AT_A_TIME = 3  # of them
_SHORT = 1e-3  # seconds, of calls whose times differ by what is in the caches
_MOST_SCRATCH = 1 << 30  # bytes of values: a plan of more is not tried out eagerly
_OP_SECONDS = 40e-6  # that an eager op takes besides its kernel, at most
_LOOP_RATIO = 200  # of the time of eager code to that of a plan, at most, where there are loops

_TIMED = 20e-6  # seconds of an eager call, from which on it is timed while calls rest
_MOST_REST = 1024  # calls from one look for a plan to the next
_ROW = 8  # calls without a plan, one after the other, before looks become rare
_KEYS = 256  # keys of which it is known that they have run eagerly
_RECORDS = 6  # of them that are told of in the reason
TELLING = 8  # keys that have to wait, before there is a warning
_STALE = 50  # times as long as totals take, they are used

CAPTURE, BUCKET, BINDING = "capture", "bucket", "binding"


class Account:
    """What one plan has cost, and how long calls by it take."""

    __slots__ = ("alone", "cost", "group", "runs", "samples", "seconds", "trains")

    def __init__(self, cost: float, group: Hashable, trains: bool, alone: EagerTime) -> None:
        self.cost = cost  # seconds
        self.group = group  # plans of one open capture pay for it together
        self.trains = trains  # gradients go back through it: what that saves, no call tells
        self.alone = alone
        self.seconds = inf  # the least of a call by the plan
        self.samples = 0  # eager calls that were there to be timed
        self.runs = 0  # calls by the plan that were timed

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
class Totals:
    """What all calls have taken, captures included, and what they would have taken eagerly."""

    eager: float
    hybridized: float
    saved: float  # by calls that ran as plans
    unpaid: float  # by captures and bindings, each by itself, and not saved

    @property
    def balance(self) -> float:
        """What may be spent."""
        return CREDIT - SPARE + (1 + SHARE) * self.eager - self.hybridized

    @property
    def allowance(self) -> float:
        """What may be spent on captures of which nothing is known."""
        return AT_ONCE + SHARE * self.eager - self.unpaid


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
        from hybrid.explain.words import counted

        first = f"{self.name}: {_STATES[self.state]}"
        if self.state == "off":
            return first
        lines = [
            first,
            f"{counted(self.calls, 'call')}, {self.eager_calls} of them eager",
            f"spent: {counted(self.captures, 'capture')} in {seconds_text(self.capture_seconds)}, "
            f"{counted(self.bindings, 'binding')} in {seconds_text(self.binding_seconds)}, looks "
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

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.plans: list[Any] = []  # those that there are, each with its account
        self.counts = {CAPTURE: 0, BUCKET: 0, BINDING: 0}
        self.spent = {CAPTURE: 0.0, BUCKET: 0.0, BINDING: 0.0}
        self.failures = 0  # captures that gave no plan
        self.eager_calls = self.rested = 0
        self.eager_seconds = self.look_seconds = self.sampled_seconds = 0.0
        self.waiting: dict[Hashable, EagerTime] = {}
        self.raising: set[Hashable] = set()  # keys whose calls raise that they cannot be captured
        self.closed: set[Hashable] = set()  # keys that cannot be captured, and have run before
        self.records: list[Any] = []  # of keys that had to wait
        self.warned = False
        self.state, self.reason = "captures", ""
        # Of plans that are gone.
        self._calls = 0
        self._saved = self._unpaid = self._eager_gone = self._seconds_gone = 0.0
        self._eager: deque[float] = deque(maxlen=5)  # what calls have taken of late
        self._by_plan: deque[float] = deque(maxlen=5)
        self._row = 0  # of eager calls for want of a plan
        self._rest = 1  # the length of the last one, where plans are slower than eager code
        self._known: tuple[Totals, float] | None = None  # totals, and until when they are used

    # What has happened ------------------------------------------------------------------------

    def enter(
        self, planned: Any, kind: str, seconds: float, key: Hashable, group: Hashable
    ) -> None:
        """A capture or binding has taken ``seconds`` and has given ``planned``."""
        self.counts[kind] += 1
        self.spent[kind] += seconds
        alone = self.waiting.pop(key, None) or EagerTime()
        trains = planned.capture.gradient is not None
        planned.account = Account(seconds, group, trains, alone)
        planned.due = 1
        self.plans.append(planned)
        self._row, self._known = 0, None
        self.state = "captures"

    def fail(self, seconds: float) -> None:
        """A capture has given no plan, though the call is none that has to raise for it."""
        self.failures += 1
        self.spent[CAPTURE] += seconds
        self._unpaid += seconds
        self._known = None

    def drop(self, planned: Any) -> None:
        """``planned`` is no longer kept; what it has not saved stays unpaid."""
        account = planned.account
        saved, eager, seconds = _gain(planned, _ratio(self.plans))
        self.plans.remove(planned)
        heirs = [p.account for p in self.plans if p.account.group == account.group]
        if heirs:
            heirs[0].cost += account.cost - saved
        else:
            self._unpaid += max(0.0, account.cost - saved)
        self._calls += planned.calls
        self._saved += saved
        self._eager_gone += eager
        self._seconds_gone += seconds
        self._known = None

    def ran(self, planned: Any, seconds: float) -> None:
        """A call by ``planned`` has taken ``seconds``."""
        account = planned.account
        account.runs += 1
        account.seconds = min(account.seconds, seconds)
        self._by_plan.append(seconds)
        self._row, self._known = 0, None

    def ran_eagerly(self, key: Hashable, seconds: float, look: float) -> int:
        """A call has run eagerly for want of a plan; how many are to do so without a look.

        ``look`` are the seconds in which it was found that there is none.
        """
        self.eager_calls += 1
        self.eager_seconds += seconds
        self.look_seconds += look
        self._eager.append(seconds)
        if len(self.waiting) >= _KEYS and key not in self.waiting:
            self.waiting.clear()
        self.waiting.setdefault(key, EagerTime()).add(seconds)
        self._row += 1
        allowed = LOOKS * max(seconds, 1e-7)
        if self._row < _ROW or look <= allowed or self.totals().balance >= 0:
            return 0
        return self._rests(ceil(look / allowed) - 1)

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
        self._known = None

    def _rests(self, calls: int) -> int:
        calls = min(calls, _MOST_REST)
        if calls > 0:
            self.state = "rests"
        return calls

    @property
    def times_rests(self) -> bool:
        """Whether calls that rest are timed: where that takes little of their time."""
        return self.eager_seconds > _TIMED * self.eager_calls

    # What is to be done -----------------------------------------------------------------------

    def refuses(self, kind: str, key: Hashable) -> bool:
        """Whether a call for which there is no plan is to run eagerly."""
        if key in self.closed:
            return True
        if key in self.raising or not (self.counts[CAPTURE] or self.failures):
            return False
        if any([planned.capture.facts for planned in self.plans]):  # such calls are epochs
            return False
        totals, waited = self.totals(), self.waiting.get(key)
        first = self.counts[CAPTURE] == 1 and not self.failures
        if first and self.spent[CAPTURE] <= CREDIT and totals.balance >= 0:
            return False  # it opens what has changed since then
        cost = self._expected(kind)
        if cost <= totals.allowance - self.look_seconds:
            return False
        if waited is not None and cost <= totals.balance:
            return False
        return not self._pays_at_once(kind, waited)

    def _expected(self, kind: str) -> float:
        kind = kind if self.counts[kind] else CAPTURE
        return self.spent[kind] / (self.counts[kind] + (self.failures if kind is CAPTURE else 0))

    def _pays_at_once(self, kind: str, waited: EagerTime | None) -> bool:
        """Whether the call saves as much as its plan costs.

        What the first binding costs is known when it is done.
        """
        eager = self.eager_call if waited is None else waited.least
        if eager is None or self.plan_call is None:
            return False
        cost = 0.0 if kind is BINDING and not self.counts[BINDING] else self._expected(kind)
        return cost + self.plan_call < eager

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
        from hybrid.explain.words import counted

        totals = self.totals()
        made = [counted(self.counts[kind], kind) for kind in self.counts if self.counts[kind]]
        spent = sum(self.spent.values())
        return (
            f"{' and '.join(made) or 'captures that failed'} took {seconds_text(spent)}, and have "
            f"saved {seconds_text(max(totals.saved, 0.0))} in {counted(self.calls, 'call')}"
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
        by_plan = self._calls + sum([planned.calls for planned in self.plans])
        return by_plan + self.eager_calls + self.rested

    def wants_sample(self, planned: Any) -> bool:
        """Whether a call is to run eagerly in place of ``planned``, to be timed.

        Not where that may have other bits, takes much memory, or is an epoch.
        """
        account = planned.account
        if account.samples >= _MOST_SAMPLES:
            return False
        if account.samples >= _AT_A_TIME * account.runs:  # plans are timed as often
            return False
        if planned.fast or planned.capture.facts:
            return False
        if planned.plan.sizes.scratch_nbytes > _MOST_SCRATCH:
            return False
        allowed = SAMPLED * self.totals().hybridized - self.sampled_seconds
        return _most_eager(planned) <= allowed

    def settle(self, planned: Any) -> int:
        """A call that was due is over: the next one is set, and how many are to rest is given."""
        account, calls = planned.account, max(planned.calls, 1)
        planned.due = 2 * calls
        if account.samples % _AT_A_TIME and (account.eager or 0.0) < _SHORT:
            planned.due = calls + 1  # the first of some short calls is slower than others
        known = account.eager is not None and not account.trains
        loss = account.seconds - account.eager if known else 0.0
        if not 0 < loss < inf:
            if self.state == "rests":
                self.state = "captures"
            return 0
        totals = self.totals()
        planned.due = min(planned.due, calls + max(1, int(totals.balance / loss)))
        if (
            totals.balance >= 0
            or totals.saved >= 0
            or account.runs < 2
            or account.samples < _AT_A_TIME
        ):
            return 0
        self._rest = min(2 * self._rest, _MOST_REST)
        return self._rests(self._rest)

    # Totals -----------------------------------------------------------------------------------

    @property
    def eager_call(self) -> float | None:
        """What a typical eager call has taken of late."""
        return _median(self._eager)

    @property
    def plan_call(self) -> float | None:
        """What a typical call by a plan has taken of late."""
        return _median(self._by_plan)

    def totals(self) -> Totals:
        """What it is by now, or was a moment ago."""
        now = self.clock()
        if self._known is not None and now < self._known[1]:
            return self._known[0]
        plans = list(self.plans)
        ratio = _ratio(plans)
        costs: dict[Hashable, float] = {}
        saved, eager, seconds = self._saved, self._eager_gone, self._seconds_gone
        for planned in plans:
            account = planned.account
            gain, alone, taken = _gain(planned, ratio)
            costs[account.group] = costs.get(account.group, 0.0) + account.cost - gain
            saved, eager, seconds = saved + gain, eager + alone, seconds + taken
        mean = self.eager_seconds / max(self.eager_calls, 1)
        both = self.eager_seconds + self.rested * min(mean, self.eager_call or 0.0)
        around = sum(self.spent.values()) + self.look_seconds
        around += _WAY_SECONDS * (self.eager_calls + self.rested)
        found = Totals(
            eager=eager + both,
            hybridized=seconds + both + around,
            saved=saved,
            unpaid=self._unpaid + sum([max(0.0, cost) for cost in costs.values()]),
        )
        taken = self.clock() - now
        self._known = found, now + _STALE * taken
        return found

    def info(self, name: str) -> LedgerInfo:
        """What users see."""
        return LedgerInfo(
            name=name,
            state=self.state,
            calls=self.calls,
            eager_calls=self.eager_calls + self.rested,
            captures=self.counts[CAPTURE],
            bindings=self.counts[BINDING],
            capture_seconds=self.spent[CAPTURE],
            binding_seconds=self.spent[BINDING],
            look_seconds=self.look_seconds,
            saved_seconds=self.totals().saved,
            plan_call_seconds=self.plan_call,
            eager_call_seconds=self.eager_call,
            reason="" if self.state == "captures" else self.reason,
        )


def _gain(planned: Any, ratio: float) -> tuple[float, float, float]:
    """What the calls by ``planned`` have saved, would have taken eagerly, and have taken."""
    account, calls = planned.account, planned.calls
    if account.seconds == inf:
        return 0.0, 0.0, 0.0
    eager = account.seconds * ratio if account.eager is None else account.eager
    if account.trains:
        eager = max(eager, account.seconds)
    return calls * (eager - account.seconds), calls * eager, calls * account.seconds


def _ratio(plans: Iterable[Any]) -> float:
    """Eager time to that by plans, where it is known of some alone: the least."""
    known = [
        p.account.eager / p.account.seconds
        for p in plans
        if p.account.eager is not None and 0 < p.account.seconds < inf
    ]
    return min(known, default=1.0)


def _most_eager(planned: Any) -> float:
    """The seconds of an eager call in place of ``planned``, at most, as far as one can tell."""
    account, graph = planned.account, planned.capture.stored_graph
    if account.eager is not None:
        return 1.5 * account.eager
    if isinstance(graph, Graph) and not any([node.regions for node in graph.nodes]):
        found = 2 * account.seconds + _OP_SECONDS * len(graph.nodes)
    else:
        found = _LOOP_RATIO * account.seconds
    return found if account.alone.first is None else min(found, account.alone.first)


def _median(times: Sequence[float] | deque[float]) -> float | None:
    ordered = sorted(times)
    return ordered[len(ordered) // 2] if ordered else None
