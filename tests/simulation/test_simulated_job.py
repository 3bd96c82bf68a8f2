"""Simulated ranks do what real ones do: the same transfers, in every run; and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hybrid.errors import ArgumentError, HybridError
from hybrid.jobs import simulated_rank
from hybrid.jobs.rank_record import FOLDER
from hybrid.simulation.network import ASSUMED, Network, launched
from hybrid.simulation.recorded_step import RankStep, counts, read_step
from hybrid.simulation.simulated_job import CHECKED, ModelCheck, SimulatedJob, check, simulate

SCRIPT = str(Path(__file__).with_name("trained.py"))
KINDS = ("data", "eager", "zero", "tensor", "pipeline")


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes begin in a folder where no source of hybrid is in the way."""
    monkeypatch.chdir(tempfile.gettempdir())


def network(ranks: int, **options: int) -> Network:
    cores = len(os.sched_getaffinity(0))
    return Network(**{"ranks": ranks, "ranks_per_host": ranks, "cores_per_host": cores} | options)


def job(kind: str, ranks: int, play: Sequence[int] = (0,), *, width: int = 64) -> SimulatedJob:
    return simulate([SCRIPT, kind, str(width)], network(ranks), play)


def real(kind: str, ranks: int) -> list[RankStep]:
    """The steps of all ranks of a job that is there."""
    with tempfile.TemporaryDirectory() as folder:
        assert launched([SCRIPT, kind], ranks, {FOLDER: folder, "HYBRID_NUM_THREADS": "1"}) == ""
        return [read_step(Path(folder, f"rank{rank}.json")) for rank in range(ranks)]


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("data", 2),
        *[pytest.param(kind, 2, marks=pytest.mark.nightly) for kind in KINDS[1:]],
        *[pytest.param(kind, 4, marks=pytest.mark.nightly) for kind in ("data", "zero", "tensor")],
    ],
)
def test_the_transfers_and_the_memory_are_those_of_a_real_job(kind: str, ranks: int) -> None:
    there = real(kind, ranks)
    found = job(kind, ranks, range(ranks))
    for simulated, measured in zip(found.steps, there, strict=True):
        assert simulated.transfers == measured.transfers and simulated.transfers
        assert simulated.peak_bytes == measured.peak_bytes > 0
        assert simulated.steps >= 3 and simulated.computing > 0


def test_one_rank_of_many_counts_the_same_in_every_run() -> None:
    """With 1,024 ranks each sum is of as many parts."""
    first, again = job("data", 1024), job("data", 1024)
    assert first.steps[0].transfers == again.steps[0].transfers
    assert first.steps[0].peak_bytes == again.steps[0].peak_bytes
    found = counts(first.steps[0])
    assert found == counts(again.steps[0])
    weights = 2 * 64 * 65 * 4  # bytes of gradients; they are padded to parts of equal size
    moved = sum(nbytes for (name, kind, _), (_, nbytes) in found.items() if kind == "all_to_all")
    assert weights * 1023 // 1024 <= moved <= (weights + 4 * 1024) * 1023 // 1024
    step, on = first.steps[0], first.network
    transfers = sum(on.seconds(t.kind, t.given, t.members) for t in step.transfers)
    assert first.seconds == pytest.approx(step.computing * on.slowdown + transfers)


def test_stages_wait_for_each_other() -> None:
    """The last stage of a pipeline gets its first microbatch when the first one has made it."""
    found = job("pipeline", 2, (0, 1))
    kinds = [{t.kind for t in step.transfers} for step in found.steps]
    assert all({"send", "recv"} <= each for each in kinds)
    assert found.played[1].waiting > 0
    steps = [played.seconds for played in found.played]
    assert max(steps) == pytest.approx(min(steps), rel=0.2)  # neither gets ahead


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "alone",
            "trained.py communicates in none of its steps\n"
            "A job of ranks that do not communicate takes as long as one of them.\n"
            "Fix: let its steps be those of a job, by hybrid.distributed.data_parallel, say.",
        ),
        (
            "fails",
            "rank 0 of 2 has failed: it ended with code 1, and said last: ValueError: bad luck\n"
            "Fix: see what it has printed; the values that a simulated rank gets are made up.",
        ),
        (
            "server",
            "rank 0 of 2 has failed: it ended with code 1, and said last: "
            "Fix: run the job, or simulate one by data_parallel.\n"
            "Fix: see what it has printed; the values that a simulated rank gets are made up.",
        ),
    ],
)
def test_scripts_that_cannot_be_simulated(
    kind: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(HybridError) as error:
        job(kind, 2)
    assert str(error.value) == message
    said = {
        "alone": "",
        "fails": 'raise ValueError("bad luck")',
        "server": "ArgumentError: parameter_server in a job that is simulated",
    }
    printed = capfd.readouterr().err
    assert said[kind] in printed and (kind != "alone" or printed == "")


def test_no_mpi_is_needed(tmp_path: Path) -> None:
    program = (
        "import runpy, sys; sys.modules['mpi4py'] = None; sys.argv[:] = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    environment = {simulated_rank.SIMULATED: "3/4", FOLDER: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, SCRIPT], env=os.environ | environment, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = read_step(tmp_path / "rank3.json")
    assert (found.rank, found.size) == (3, 4) and found.transfers


def test_scripts_that_join_no_job(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    with pytest.raises(HybridError) as error:
        simulate([str(script)], network(2), [0])
    assert str(error.value) == (
        "script.py joins no job: it never calls hybrid.distributed.init()\n"
        "Fix: let it communicate, or run it as it is: python script.py."
    )


def test_too_few_steps() -> None:
    with pytest.raises(HybridError) as error:
        simulate([SCRIPT, "data", "16", "2"], network(2), [0])
    assert str(error.value) == (
        "rank 0 does nothing that it repeats 3 times or more\n"
        "A step is what comes again and again: plans that run, with what they communicate.\n"
        "Fix: let the script do five steps of training or more, of one kind."
    )


def test_a_rank_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("4/4", "x/2", "3", "-1/2", ""):
        monkeypatch.setenv(simulated_rank.SIMULATED, text)
        with pytest.raises(ArgumentError) as error:
            simulated_rank.simulated_rank()
        assert str(error.value) == (
            f"HYBRID_SIMULATE is {text!r}\n"
            "It says which rank a process plays, of how many: 0/1024.\n"
            "Fix: unset it, and run hybrid launch --simulate 1024 script.py."
        )


def test_when_the_model_holds() -> None:
    def made(modelled: float, same: bool = True) -> ModelCheck:
        return ModelCheck(
            ranks=2,
            tries=1,
            modelled=modelled,
            measured=2.0,
            same_transfers=same,
            modelled_bytes=1,
            measured_bytes=1,
        )

    assert made(2.3).holds and made(1.7).holds and made(2.3).ratio == 1.15
    assert not made(2.5).holds and not made(1.5).holds and not made(2.0, same=False).holds


@pytest.mark.nightly
def test_the_model_beside_real_jobs() -> None:
    """A machine that is shared lets times differ more than the command allows; transfers never."""
    for ranks in CHECKED:
        found = check([SCRIPT, "data", "512", "30"], network(1, levels=ASSUMED), ranks)
        print(f"{ranks} ranks: {found.ratio:.2f} of what is measured, after {found.tries} tries")
        assert found.same_transfers and found.modelled_bytes == found.measured_bytes
        assert 0.4 < found.ratio < 2.5
