"""Workers that are processes: how they start, what they get and give, and how they die."""

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, TensorDataset
from hybrid.data.workers import processes
from hybrid.errors import ArgumentTypeError, WorkerError
from tests.data.samples import (
    Faulty,
    Rows,
    collate_to_function,
    descriptors,
    environment,
    labels,
    ours,
)

pytestmark = pytest.mark.usefixtures("nothing_stays")


def test_memory_is_used_again():
    loader = DataLoader(Rows(4000, 64), 20, workers=1, worker_kind="process")
    addresses, open_before = set(), None
    for x, _ in loader:
        addresses.add(x.numpy().ctypes.data)
        open_before = open_before or descriptors()
    assert len(addresses) < 20  # of 200 batches
    assert descriptors() <= open_before


def test_batches_that_cannot_travel():
    loader = DataLoader(Rows(), 4, workers=1, worker_kind="process", collate_fn=collate_to_function)
    with pytest.raises(AttributeError, match=r"Can't (pickle|get) local object") as caught:
        list(loader)
    assert "In worker 0 (process " in str(caught.value.__cause__)


@pytest.mark.parametrize(("what", "how"), [("exit", "7"), ("kill", "-9 (SIGKILL)")])
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_a_worker_that_dies_is_named(what, how, context):
    start = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        loader = DataLoader(Faulty(11, what), 4, workers=2, multiprocessing_context=context)
        list(loader)
    text = str(caught.value)
    assert text.startswith("worker 0 (process ") and f") died with exit code {how}\n" in text
    assert text.endswith(
        "It was ended from outside, or code that the dataset calls ended it.\n"
        "Fix: see what the dataset does with workers=0."
    )
    assert time.monotonic() - start < 30 and ours() == []


def test_workers_killed_from_outside():
    loader = DataLoader(Rows(400), 4, workers=2, worker_kind="process", persistent_workers=True)
    batches = iter(loader)
    next(batches)
    victim = multiprocessing.active_children()[0]
    os.kill(victim.pid, 9)
    victim_name = f"{victim.name.replace('hybrid-loader-', 'worker ')} (process {victim.pid})"
    with pytest.raises(WorkerError, match=victim_name.replace("(", r"\(").replace(")", r"\)")):
        for _ in batches:
            pass
    assert ours() == []
    assert len(list(loader)) == 100, "the next pass has other workers"
    assert len(ours()) == 2
    del loader, batches
    gc.collect()


def test_a_program_without_a_main_guard_is_told(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from hybrid.data import DataLoader\n"
        "list(DataLoader([1, 2], 2, workers=1, worker_kind='process'))\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert (
        "died with exit code 1\n"
        "It had not made a batch yet.  A program whose main file starts a loader must do so under "
        '`if __name__ == "__main__":`, as workers import that file, too.\n' in done.stderr
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn", "object"])
def test_every_way_to_start_a_process(context):
    context = multiprocessing.get_context("fork") if context == "object" else context
    loader = DataLoader(Rows(), 4, workers=2, multiprocessing_context=context)
    assert labels(loader) == labels(DataLoader(Rows(), 4))


@pytest.mark.parametrize("context", ["spawn", "fork"])
def test_workers_end_with_a_parent_that_is_killed(tmp_path, context):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, os, warnings
            from hybrid.data import DataLoader
            from tests.data.samples import Faulty
            if __name__ == "__main__":
                warnings.simplefilter("ignore")
                loader = DataLoader(Faulty(9, "hang"), 4, workers=2,
                                    multiprocessing_context={context!r})
                next(iter(loader))
                batches = iter(loader)
                next(batches)
                print([p.pid for p in multiprocessing.active_children()], flush=True)
                os.kill(os.getpid(), 9)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        timeout=60,
        env=environment(),
    )
    pids = eval(done.stdout)
    assert done.returncode == -9 and len(pids) == 2
    until = time.monotonic() + 10

    def alive(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
        except FileNotFoundError:
            return False

    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def test_datasets_that_cannot_be_sent():
    class Local(Rows):
        pass

    with pytest.raises(ArgumentTypeError) as caught:
        list(DataLoader(Local(), 4, workers=1, worker_kind="process"))
    assert str(caught.value).startswith(
        "the Local, or a function of the loader, cannot be sent to a worker process: "
    )
    assert str(caught.value).endswith(
        '\nFix: define its class and functions at the top of a module, or use worker_kind="thread".'
    )
    assert len(list(DataLoader(Local(), 4, workers=1))) == 5


def test_big_data_reach_processes_once():
    x = np.random.RandomState(0).rand(3000, 100).astype(np.float32)
    loader = DataLoader(
        TensorDataset(x, hy.asarray(np.arange(3000) % 251).astype(hy.bfloat16)),
        500,
        workers=2,
        worker_kind="process",
    )
    for number, (rows, numbers) in enumerate(loader):
        assert rows.numpy().tobytes() == x[500 * number : 500 * (number + 1)].tobytes()
        assert numbers.dtype is hy.bfloat16
        assert numbers.astype(hy.float32).numpy()[0] == 500 * number % 251


def test_threads_in_the_process_do_not_disturb_workers():
    """The C library's own threads run; workers start beside them and compute."""
    before = hy.num_threads()
    hy.set_num_threads(2)
    try:
        (hy.ones((512, 512)) @ hy.ones((512, 512))).sum().item()
        loader = DataLoader(Rows(), 4, workers=2, worker_kind="process")
        for x, _ in loader:
            assert (x @ hy.ones((3, 2))).shape == (4, 2)
    finally:
        hy.set_num_threads(before)


def test_another_package_of_the_name_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert processes._found_by_others()
    (tmp_path / "hybrid").mkdir()
    (tmp_path / "hybrid" / "__init__.py").write_text("raise SystemExit")
    assert not processes._found_by_others()
