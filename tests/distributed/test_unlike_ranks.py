"""Ranks that run another hybrid, other kernels, or have other data: all raise, with both sides."""

from __future__ import annotations

import pytest

from hybrid.core.package import __version__
from hybrid.memory import native
from tests.distributed.ranks import launched

PROGRAMS = "the ranks of this job run different programs"
HERE = f"hybrid {__version__}, kernels for {native.isa()}"
SAMPLER = "DistributedSampler of {} samples, shuffle=True seed={} shards=ranks"


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        (
            "version",
            (
                PROGRAMS,
                f"  rank 0: {HERE}\n  rank 1: hybrid 0.0.7, kernels for {native.isa()}\n",
                "Fix: install one version of hybrid on all machines.",
            ),
        ),
        (
            "kernels",
            (
                PROGRAMS,
                f"  rank 0: {HERE}\n  rank 1: hybrid {__version__}, kernels for baseline\n",
                f"Fix: set HYBRID_ISA={native.isas()[-1]} for all of them.",
            ),
        ),
        ("length", [f"rank {r}: {SAMPLER.format(40 + r, 0)} (" for r in range(2)]),
        ("seed", [f"rank {r}: {SAMPLER.format(40, r)} (" for r in range(2)]),
    ],
)
def test_all_ranks_say_what_differs(what: str, lines: tuple[str, ...]) -> None:
    if what == "kernels" and native.isa() == "baseline":
        pytest.skip("this machine runs the baseline alone")
    done = launched(2, "unlike.py", what)
    assert done.returncode == 1, done.stderr
    for line in lines:
        assert done.stdout.count(line) == 2, done.stdout


def test_ranks_that_are_alike() -> None:
    done = launched(2, "unlike.py", "nothing")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r}: all is well" for r in range(2)]
