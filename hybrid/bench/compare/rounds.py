"""Compares: first what contenders compute, then how long they take, in interleaved rounds.

Every contender of a case has a process of its own and they all stay until the case is over, so
that rounds can go A B A B; whoever is not asked waits for a line of input, its threads at rest.  A
contender that does not answer, answers with an error or disagrees is left out of what follows, and
the reason is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from hybrid.bench.compare.cases import Amount, Contest, difference
from hybrid.bench.compare.contenders import OURS, Contender, Survey
from hybrid.bench.compare.process import TIMEOUT, PeerError, PeerTimeout, Process
from hybrid.bench.measure import SampleTiming, calibrate, run_for, summary

ROUNDS = 15
SECONDS = 0.05  # that a sample lasts at least


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    threads: int = 1
    rounds: int = ROUNDS
    seconds: float = SECONDS
    timeout: float = TIMEOUT
    clock: str = "wall"  # or "cpu": the seconds of processor that all threads of a process use


@dataclass(frozen=True)
class ContenderLine:
    """One contender in one case.

    ``state`` is ``timed``, or what came before that: ``not installed``,
    ``does not start``, ``not supported``, ``failed``, ``timed out`` or ``disagrees``, with the
    reason.
    """

    name: str
    state: str = "timed"
    reason: str = ""
    timing: SampleTiming | None = None  # of one part of a run
    first_call: float | None = None  # seconds, with whatever is compiled then
    peak: int | None = None  # bytes of memory, at most
    loaded: int | None = None  # bytes of memory with the framework loaded and nothing done


@dataclass(frozen=True)
class Comparison:
    """One case of a workload: a line for each contender, ours first."""

    workload: str
    case: str
    lines: tuple[ContenderLine, ...]
    flops: float  # of one part
    nbytes: float
    versions: Mapping[str, str] = field(default_factory=dict)

    def line(self, name: str) -> ContenderLine | None:
        return next((line for line in self.lines if line.name == name), None)

    def speed(self, name: str) -> float | None:
        """How many times as fast as ``name`` we are; None when one of us has no time."""
        ours, theirs = self.line(OURS), self.line(name)
        if ours is None or theirs is None or ours.timing is None or theirs.timing is None:
            return None
        return theirs.timing.median / ours.timing.median

    @property
    def best(self) -> str | None:
        """The fastest of the others; a variant of ours is not another."""
        others = [
            line for line in self.lines
            if line.timing is not None and line.name.partition(".")[0] != OURS
        ]  # fmt: skip
        if not others:
            return None
        return min(others, key=lambda line: line.timing.median).name


class Entrant:
    """A contender's process, while a case lasts."""

    def __init__(self, who: Contender, process: Process, clock: str = "wall") -> None:
        self.who, self.process, self.clock = who, process, clock
        self.count = 1
        self.samples: list[float] = []
        self.first_call: float | None = None
        self.memory: dict[str, int] = {}

    def sample(self, count: int) -> float:
        return self.process.ask("sample", count=count, clock=self.clock)["seconds"]

    def prepare(self, workload: Contest, case: Amount) -> dict[str, Any]:
        """Build the program and call it: its results."""
        self.process.ask("load")
        self.process.ask("build", workload=workload.name, case=case.label, variant=self.who.variant)
        told = self.process.ask("check")
        self.first_call = told["first_call"]
        return told["results"]

    def line(self, parts: int) -> ContenderLine:
        timing = summary(self.samples, self.count).of_one(parts)
        peak, loaded = self.memory.get("peak"), self.memory.get("loaded")
        return ContenderLine(
            name=self.who.name, timing=timing, first_call=self.first_call, peak=peak, loaded=loaded
        )


def compare_case(
    workload: Contest,
    case: Amount,
    contenders: Sequence[Contender],
    surveys: Mapping[str, Survey],
    settings: Settings,
    advance: Callable[[], None] = lambda: None,
) -> Comparison:
    """Compare ``contenders``, ours first; ``advance`` is called after each is built and round."""
    lines: dict[str, ContenderLine] = {}
    entrants: list[Entrant] = []
    wanted: dict[str, Any] | None = None  # results of the first that has any

    def attempt(who: Contender, do: Callable[[], None]) -> bool:
        try:
            do()
        except PeerError as error:
            state = "timed out" if isinstance(error, PeerTimeout) else "failed"
            lines[who.name] = ContenderLine(name=who.name, state=state, reason=str(error))
            return False
        return True

    with ExitStack() as processes:

        def enter(who: Contender) -> None:
            nonlocal wanted
            process = processes.enter_context(who.start(settings.threads, settings.timeout))
            entrant = Entrant(who, process, settings.clock)
            results = entrant.prepare(workload, case)
            wanted = wanted or results
            try:
                apart = difference(wanted, results, workload.tolerance)
            except (KeyError, TypeError, ValueError) as error:
                raise PeerError(f"its results cannot be read: {error!r}") from None
            if apart:
                lines[who.name] = ContenderLine(
                    name=who.name, state="disagrees", reason=apart, first_call=entrant.first_call
                )
                process.close()
            else:
                entrants.append(entrant)

        for who in contenders:
            told = surveys[who.name]
            if told.state != "ready":
                lines[who.name] = ContenderLine(name=who.name, state=told.state, reason=told.reason)
            elif workload.name not in told.workloads:
                lines[who.name] = ContenderLine(
                    name=who.name, state="not supported", reason=f"no {workload.name}"
                )
            else:
                attempt(who, lambda who=who: enter(who))
            advance()
        take_turns(entrants, settings, attempt, advance)
        for entrant in entrants:
            if attempt(entrant.who, lambda e=entrant: e.memory.update(e.process.ask("memory"))):
                lines[entrant.who.name] = entrant.line(case.parts)
    return Comparison(
        workload=workload.name,
        case=case.label,
        lines=tuple(lines[who.name] for who in contenders),
        flops=case.flops / case.parts,
        nbytes=case.nbytes / case.parts,
        versions={name: told.version for name, told in surveys.items() if told.version},
    )


def take_turns(
    entrants: list[Entrant],
    settings: Settings,
    attempt: Callable[[Contender, Callable[[], None]], bool],
    advance: Callable[[], None],
) -> None:
    """Take a sample of each in every round, in alternating order; who fails leaves the list."""

    def turn(entrant: Entrant, do: Callable[[], None]) -> None:
        if not attempt(entrant.who, do):
            entrants.remove(entrant)

    def settle(entrant: Entrant) -> None:
        entrant.count = calibrate(entrant, settings.seconds)

    def sample(entrant: Entrant) -> None:
        entrant.samples.append(run_for(entrant, entrant.count) / entrant.count)

    for entrant in list(entrants):
        turn(entrant, lambda e=entrant: settle(e))
    for number in range(settings.rounds):
        for entrant in list(entrants)[:: -1 if number % 2 else 1]:
            turn(entrant, lambda e=entrant: sample(e))
        advance()
