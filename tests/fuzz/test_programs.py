"""Random programs of a wide grammar run the same eagerly and hybridized, in all that shows."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests.fuzz import rules
from tests.fuzz.comparison import Outcome, check
from tests.fuzz.grammar import program
from tests.fuzz.reduction import reduced

SEEDS = 75
GROUP = 15
SIZED, SIZED_SEEDS, SIZED_GROUP = frozenset({"sizes"}), 15, 5
TRIED = 1000  # programs in which every rule occurs

# Seeds that go wrong today, and why.  Each does: a seed that goes right again leaves the table.
KNOWN: dict[int, str] = {}

FAULTY = """\
import hybrid as hy


def make():
    state = [hy.ones(3)]

    def program(x, s):
        v = x * 2
        w = hy.sin(v)
        {before}
        if s > 0:
            v = {value}
        else:
            w = w + v
        return v

    return program, lambda: (state,)


def calls(state):
    x = hy.asarray([1.0, 2.0])
    return [(x, hy.asarray(0.5)), (x * 2, hy.asarray(1.0)), (x, hy.asarray(-1.0))]
"""
# What a program can ask that tells it where it runs stands for a fault of the hybridized side.
PLANTED = FAULTY.format(before="pass", value="v + told()")
TOLD = """\
def told():
    from hybrid.ir.interpreter import ACTIVE
    return 1.0 if ACTIVE else 0.0
"""
ENDLESS = FAULTY.format(before="while s < 2: pass", value="v")


def with_gradients(seed: int) -> bool:
    return seed % 2 == 1


def dynamic_of(seed: int) -> bool | None:
    """Of four programs, two of which have gradients, one is captured for each size."""
    return False if seed % 4 == 3 else None


def clock_of(seed: int) -> int | None:
    """Every second program meets a machine of another speed: some calls run eagerly there."""
    return None if seed % 8 < 4 else seed


def outcome(seed: int, wanted: frozenset[str] = frozenset()) -> Outcome:
    text, dynamic = program(seed, wanted).text, dynamic_of(seed)
    return check(text, with_gradients(seed), dynamic=dynamic, clock=clock_of(seed))


def report(
    seed: int, found: Outcome, seconds: float = 60.0, wanted: frozenset[str] = frozenset()
) -> str:
    """What went wrong, in a program that was made small."""
    grad, how, clock = with_gradients(seed), dynamic_of(seed), clock_of(seed)

    def wrong(text: str) -> bool:
        return check(text, grad, 5.0, how, clock).sort == found.sort

    text = reduced(program(seed, wanted).text, wrong, seconds)
    told = check(text, grad, dynamic=how, clock=clock).detail
    return (
        f"seed {seed}, gradients {grad}, dynamic {how}, clock {clock}: {found.kind} {found.what}"
        f"\n\n{text}\n\n{told}"
    )


@pytest.mark.parametrize("start", range(0, SEEDS, GROUP))
def test_random_programs(start: int) -> None:
    for seed in range(start, start + GROUP):
        found = outcome(seed)
        if seed not in KNOWN and found.kind not in ("same", "refused"):
            pytest.fail(report(seed, found))


@pytest.mark.parametrize("start", range(0, SIZED_SEEDS, SIZED_GROUP))
def test_random_programs_at_three_sizes(start: int) -> None:
    for seed in range(start, start + SIZED_GROUP):
        found = outcome(seed, SIZED)
        if found.kind not in ("same", "refused"):
            pytest.fail(report(seed, found, wanted=SIZED))


@pytest.mark.parametrize("seed", KNOWN)
def test_known_faults_are_still_there(seed: int) -> None:
    assert outcome(seed).kind in ("different", "endless"), "it goes right: take it off the table"


@pytest.mark.nightly
def test_many_random_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """HYBRID_FUZZ_SECONDS long, from HYBRID_FUZZ_SEED on; differences are reduced and shown.

    Programs have the features of HYBRID_FUZZ_WITH, words apart by spaces, beside others.
    """
    wanted = frozenset(os.environ.get("HYBRID_FUZZ_WITH", "").split())
    seconds = float(os.environ.get("HYBRID_FUZZ_SECONDS", "600"))
    first = int(os.environ.get("HYBRID_FUZZ_SEED", "1000"))
    end = time.monotonic() + seconds
    kinds: Counter[str] = Counter()
    sorts: dict[tuple[str, str], int] = {}
    calls, seed = 0, first
    while time.monotonic() < end:
        found = outcome(seed, wanted)
        kinds[found.kind] += 1
        calls += found.calls
        if found.kind not in ("same", "refused"):
            sorts.setdefault(found.sort, seed)
        seed += 1
    with capsys.disabled():
        counted = ", ".join([f"{n} {kind}" for kind, n in kinds.most_common()])
        print(f"\n{seed - first} programs from {first}, {calls} calls: {counted}")
    shown = [
        report(seed, outcome(seed, wanted), 30.0, wanted) for seed in list(sorts.values())[:10]
    ]
    assert not sorts, "\n\n".join(shown)


# The generator, the comparison and the reduction themselves --------------------------------------


def test_a_seed_is_a_program() -> None:
    assert program(7) == program(7)
    assert len({program(seed).text for seed in range(20)}) == 20


def test_every_rule_occurs() -> None:
    missing = set(rules.RULES)
    for seed in range(TRIED):
        missing -= program(seed).rules
        if not missing:
            return
    pytest.fail(f"in no program: {sorted(missing, key=str)}")


def test_a_fault_is_found_and_reduced() -> None:
    text = TOLD + PLANTED
    found = check(text, False)
    assert found.sort == ("different", "returned")
    small = reduced(text, lambda t: check(t, False).sort == found.sort)
    assert check(small, False).sort == found.sort
    function = small[small.index("def program") :]
    assert "sin" not in function and "else" not in function, small
    assert small.count("hy.asarray") < text.count("hy.asarray"), small


def test_a_program_without_end_is_ended() -> None:
    assert check(ENDLESS, False, 0.5).sort == ("endless", "eagerly")
    assert check(PLANTED.replace("told()", "0.0"), True).kind == "same"
