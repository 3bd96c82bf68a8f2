"""Workers, threads and processes alike: order, errors, deaths, and nothing that stays behind."""

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import hybrid as hy
from hybrid.data import DataLoader, batch_generator, get_worker_info
from hybrid.errors import DatasetError, WorkerError
from tests.data.samples import (
    Faulty,
    Noisy,
    NoisyStream,
    Odd,
    Rows,
    SaysTooFew,
    Shapes,
    Slow,
    Steady,
    Stream,
    Uneven,
    Whoami,
    descriptors,
    environment,
    fail_to_start,
    labels,
    ours,
)

KINDS = ["thread", "process"]
kinds = pytest.mark.parametrize("kind", KINDS)
pytestmark = pytest.mark.usefixtures("nothing_stays")


@kinds
@pytest.mark.parametrize("workers", [1, 3])
class TestOrder:
    def test_batches_come_in_order(self, kind, workers):
        options = {"batch_size": 2, "shuffle": True, "generator": 4}
        alone = DataLoader(Slow(), **options)
        helped = DataLoader(Slow(), workers=workers, worker_kind=kind, **options)
        for _ in range(2):
            for (x, y), (a, b) in zip(alone, helped, strict=True):
                assert y.tolist() == b.tolist() and x.numpy().tobytes() == a.numpy().tobytes()

    def test_streams_take_turns(self, kind, workers):
        loader = DataLoader(Stream(10), 2, workers=workers, worker_kind=kind)
        expected = {
            1: [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]],
            3: [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]],
        }
        assert [batch.tolist() for batch in loader] == expected[workers]

    def test_streams_end_one_by_one(self, kind, workers):
        loader = DataLoader(Uneven(), 2, drop_last=True, workers=workers, worker_kind=kind)
        own = [[n, n + 1] for n in range(0, 12, 2)]
        expected = own if workers == 1 else [own[0], [100, 101], *own[1:]]
        assert [batch.tolist() for batch in loader] == expected


@kinds
def test_what_batches_hold_arrives(kind):
    loader = DataLoader(Shapes(), 3, workers=1, worker_kind=kind)
    for number, batch in enumerate(loader):
        first = 3 * number
        assert batch["a"].shape == (3, 10**number)
        assert batch["a"].numpy()[:, 0].tolist() == [first, first + 1, first + 2]
        assert batch["s"] == ["x" * (first + i) for i in range(3)]
        assert batch["e"].shape == (3, 0)


@kinds
def test_all_batches_may_be_kept(kind):
    """More of them than there are segments of memory to lend."""
    batches = list(DataLoader(Rows(2000, 64), 20, workers=1, worker_kind=kind))
    for number, (x, _) in enumerate(batches):
        assert x.numpy()[0, 0] == number * 20 * 64 and x.shape == (20, 64)


@kinds
def test_samples_know_their_worker(kind):
    loader = DataLoader(Whoami(), 1, workers=2, worker_kind=kind, generator=5)
    found = [[part.item() for part in batch] for batch in loader]
    ids, counts, seeds, pids = map(set, zip(*found, strict=True))
    assert ids == {0, 1} and counts == {2}
    assert {seed - number for number, _, seed, _ in found} == {min(seeds)}
    assert (os.getpid() in pids) == (kind == "thread")
    assert get_worker_info() is None
    again = {batch[2].item() for batch in loader}
    assert not again & seeds, "another pass has other seeds"
    same = DataLoader(Whoami(), 1, workers=2, worker_kind=kind, generator=5)
    assert {batch[2].item() for batch in same} == seeds


def noise(loader):
    return [x.tolist() for _, x in loader]


def test_random_numbers_do_not_depend_on_workers():
    options = {"batch_size": 3, "shuffle": True, "generator": 9}
    alone = DataLoader(Noisy(), **options)
    first, second = noise(alone), noise(alone)
    assert len({x for batch in first + second for x in batch}) == 40
    for more in ({"workers": 1}, {"workers": 3}, {"workers": 2, "worker_kind": "process"}):
        loader = DataLoader(Noisy(), **options, **more)
        assert noise(loader) == first
        going = iter(loader)
        next(going), next(going)
        loader.load_state_dict(loader.state_dict())
        assert noise(loader) == second[2:]
        del going
    assert batch_generator() is hy.random.default_generator()


def test_random_numbers_of_streams():
    loaders = [
        DataLoader(NoisyStream(12), 2, generator=1, workers=2, worker_kind=kind) for kind in KINDS
    ]
    found, again = (noise(loader) for loader in loaders)
    assert found == again and len({x for batch in found for x in batch}) == 12


@kinds
@pytest.mark.parametrize(
    ("what", "error", "text"),
    [("value", ValueError, "sample is broken"), ("key", KeyError, "'colour'")],
)
def test_errors_come_with_their_traceback(kind, what, error, text):
    with pytest.raises(error) as caught:
        list(DataLoader(Faulty(11, what), 4, workers=2, worker_kind=kind))
    assert str(caught.value) == text
    cause = str(caught.value.__cause__)
    name = "worker . .a thread." if kind == "thread" else r"worker . .process \d+."
    assert re.match(rf"\n\nIn {name}:\n\nTraceback \(most recent call last\):\n", cause)
    assert "samples.py" in cause and "in __getitem__" in cause and "FAULTS[self.what]()" in cause
    assert ours() == []


@kinds
def test_batches_before_an_error_arrive(kind):
    loader, found = DataLoader(Faulty(11, "value"), 4, workers=3, worker_kind=kind), []
    with pytest.raises(ValueError, match="sample is broken"):
        for _, y in loader:
            found.append(y.tolist())
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_what_cannot_travel_is_told():
    with pytest.raises(Odd):
        list(DataLoader(Faulty(3, "odd"), 4, workers=1))
    for what, name in (("odd", "Odd: 1 and 2"), ("system exit", "SystemExit: 3")):
        with pytest.raises(WorkerError) as caught:
            list(DataLoader(Faulty(3, what), 4, workers=1, worker_kind="process"))
        assert str(caught.value) == (
            f"a worker raised {name}\nThat cannot be sent between processes as it is."
        )
        assert "in __getitem__" in str(caught.value.__cause__)


@pytest.mark.parametrize("options", [{}, *({"workers": 1, "worker_kind": k} for k in KINDS)])
def test_stop_iteration_does_not_end_a_pass_unseen(options):
    with pytest.raises(DatasetError) as caught:
        list(DataLoader(Faulty(11, "stop"), 4, **options))
    assert str(caught.value) == (
        "a Faulty raised StopIteration for a sample\n"
        "Fix: raise another exception, or let an IterableDataset end by returning."
    )


@pytest.mark.alone
@kinds
def test_a_batch_that_does_not_come(kind, monkeypatch):
    monkeypatch.setattr("hybrid.data.workers.threads.PATIENCE", 0.1)
    monkeypatch.setattr("hybrid.data.workers.processes.PATIENCE", 0.1)
    monkeypatch.setattr("tests.data.samples.FAULTS", {"hang": lambda: time.sleep(1)})
    start = time.monotonic()
    loader = DataLoader(Faulty(0, "hang"), 4, workers=1, worker_kind=kind, timeout=0.3)
    with pytest.raises(WorkerError) as caught:
        list(loader)
    name = "worker 0 (a thread)" if kind == "thread" else "worker 0 (process "
    text = str(caught.value)
    assert text.startswith(f"no batch came within 0.3 seconds\nStill at work: {name}")
    assert text.endswith("Fix: give a longer timeout, or find out what reading a sample waits for.")
    assert time.monotonic() - start < 5
    for thread in threading.enumerate():
        if thread.name.startswith("hybrid-loader"):
            thread.join(30)  # nobody can end a thread that sleeps


@kinds
def test_a_worker_that_cannot_start(kind):
    loader = DataLoader(Rows(), 4, workers=2, worker_kind=kind, worker_init_fn=fail_to_start)
    with pytest.raises(ValueError, match="no licence for worker 0") as caught:
        list(loader)
    assert "in fail_to_start" in str(caught.value.__cause__)


def test_each_worker_is_started_once():
    started = []
    loader = DataLoader(
        Rows(), 4, workers=3, worker_init_fn=started.append, persistent_workers=True
    )
    assert labels(loader) == labels(loader) and sorted(started) == [0, 1, 2]
    threads = ours()
    assert len(threads) == 3
    list(loader)
    assert ours() == threads
    del loader
    gc.collect()


@kinds
class TestNothingStays:
    def test_after_break(self, kind):
        before = descriptors() if kind == "thread" else None
        for _ in DataLoader(Rows(), 4, workers=2, worker_kind=kind):
            break
        assert ours() == []
        assert before is None or descriptors() == before

    def test_after_the_last_batch(self, kind):
        batches = iter(DataLoader(Rows(), 4, workers=2, worker_kind=kind))
        assert len(list(batches)) == 5
        assert ours() == [] and next(batches, None) is None

    def test_when_an_iterator_is_forgotten(self, kind):
        batches = iter(DataLoader(Rows(), 4, workers=2, worker_kind=kind))
        next(batches)
        cycle = [batches]
        cycle.append(cycle)
        del batches, cycle
        gc.collect()
        assert ours() == []

    def test_after_an_error_of_the_author(self, kind):
        def use():
            for _ in DataLoader(Rows(), 4, workers=2, worker_kind=kind):
                raise RuntimeError("of the loop's body")

        with pytest.raises(RuntimeError, match="of the loop's body"):
            use()
        gc.collect()  # pytest has let go of the frames that held the iterator
        assert ours() == []

    def test_after_an_interrupt(self, kind):
        def interrupt(number, frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            batches = iter(DataLoader(Steady(400), 4, workers=2, worker_kind=kind))
            next(batches)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                list(batches)
            assert ours() == []
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_at_exit(self, kind, tmp_path):
        """A program ends in the middle of a pass, and its workers with it."""
        program = tmp_path / "program.py"
        program.write_text(
            textwrap.dedent(
                f"""
                import multiprocessing, sys, time
                from hybrid.data import DataLoader
                from tests.data.samples import Rows
                if __name__ == "__main__":
                    batches = iter(DataLoader(Rows(4000), 1, workers=2, worker_kind={kind!r}))
                    next(batches)
                    print([p.pid for p in multiprocessing.active_children()])
                """
            )
        )
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-W", "error", program],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(),
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - start < 30
        pids = eval(done.stdout)
        assert len(pids) == (2 if kind == "process" else 0)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_kept_workers_serve_one_pass_at_a_time():
    loader = DataLoader(Rows(), 4, workers=2, persistent_workers=True)
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert next(second)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(WorkerError) as caught:
        next(first)
    assert str(caught.value) == (
        "another pass over the loader has begun\n"
        "Its workers are kept, and make the batches of one pass at a time.\n"
        "Fix: go over one iterator at a time, or leave out persistent_workers=True."
    )
    assert [y.tolist() for _, y in second][-1] == [16, 17, 18, 19]
    del loader, first, second
    gc.collect()


def test_two_passes_at_once():
    loader = DataLoader(Rows(), 4, workers=2)
    assert [a[1].tolist() == b[1].tolist() for a, b in zip(loader, loader, strict=True)] == [
        True
    ] * 5


def test_no_more_batches_are_made_than_asked_for():
    read = []

    class Noting(Rows):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

    batches = iter(DataLoader(Noting(100), 1, workers=2, prefetch=3))
    next(batches)
    time.sleep(0.3)
    assert len(read) == 1 + 2 * 3
    del batches


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_stream_longer_than_it_says(kind):
    options = {} if kind is None else {"workers": 1, "worker_kind": kind}
    loader = DataLoader(SaysTooFew(), 1, **options)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="a SaysTooFew gives more than the 2 batches"):
        assert len(list(loader)) == 4


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("change", ["grow", "shrink"])
def test_a_dataset_that_changes_its_length(kind, change):
    options = {} if kind is None else {"workers": 1, "worker_kind": kind}
    samples = list(range(20))
    batches = iter(DataLoader(samples, 2, **options))
    next(batches)
    if change == "grow":
        samples.append(1)
    else:
        del samples[3:]
    with pytest.raises(DatasetError) as caught:
        list(batches)
    assert str(caught.value) == (
        f"the dataset had 20 samples when the pass began, and has {len(samples)} now\n"
        "The order of a pass is settled when it begins.\n"
        "Fix: change a dataset between passes."
    )
    assert ours() == []
