"""What runs beside a capture: handlers of signals, finalizers, callbacks; files, which are shut.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: SIM115  files that are refused are never open

import gc
import io
import json
import linecache
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
import zipfile

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import tensor_type
from hybrid.errors import CaptureError
from hybrid.ir import get_op
from hybrid.ir.interpreter import stack
from hybrid.ir.record import mode
from hybrid.trace.capture.surroundings import surrounded
from hybrid.trace.regions.tracer import Tracer, region_of

# Files --------------------------------------------------------------------------------------------

READS = {  # by what messages call them
    "open": lambda p: open(p).read(),
    "io.open_code": lambda p: io.open_code(str(p)).read(),
    "Path.open": lambda p: p.open().read(),
    "Path.read_text": lambda p: p.read_text(),
    "Path.read_bytes": lambda p: p.read_bytes(),
    "Path.exists": lambda p: p.exists(),
    "Path.is_file": lambda p: p.is_file(),
    "Path.is_symlink": lambda p: p.is_symlink(),
    "Path.stat": lambda p: p.stat().st_size,
    "Path.iterdir": lambda p: len(list(p.parent.iterdir())),
    "Path.glob": lambda p: len(list(p.parent.glob("*"))),
    "os.stat": lambda p: os.stat(p).st_size,
    "os.access": lambda p: os.access(p, os.R_OK),
    "os.listdir": lambda p: len(os.listdir(p.parent)),
    "os.scandir": lambda p: len(list(os.scandir(p.parent))),
    "os.walk": lambda p: len(list(os.walk(p.parent))),
    "os.path.exists": lambda p: os.path.exists(p),
    "os.path.isfile": lambda p: os.path.isfile(p),
    "os.path.getsize": lambda p: os.path.getsize(p),
    "os.path.getmtime": lambda p: os.path.getmtime(p),
    "os.getcwd": lambda p: len(os.getcwd()),
    "FileIO": lambda p: io.FileIO(p).read(),
    "numpy.load": lambda p: np.load(p),
    "numpy.fromfile": lambda p: np.fromfile(p, np.uint8)[0],
    "numpy.loadtxt": lambda p: np.loadtxt(p),
    "numpy.memmap": lambda p: np.memmap(p, np.uint8, "r")[0],
    "json.load": lambda p: json.load(open(p)),
    "pickle.load": lambda p: pickle.load(open(p, "rb")),
    "zipfile": lambda p: zipfile.is_zipfile(p),
}


@pytest.mark.parametrize("name", READS)
def test_files_are_refused(tmp_path, name):
    path = tmp_path / "2"
    path.write_text("2")
    read = READS[name]

    def reads(x):
        return x * float(read(path) or 0)

    with pytest.raises(CaptureError, match="gives or does something of its own at every call"):
        hy.hybridize(reads)(hy.ones(()))


def test_files_that_are_open(tmp_path):
    path = tmp_path / "2"
    path.write_text("2")
    with open(path, "rb") as file:

        def reads(x):
            return x * float(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[0])

        with pytest.raises(CaptureError, match=r"mmap.mmap\(\) gives or does something of its own"):
            hy.hybridize(reads)(hy.ones(()))


def test_the_text_of_a_refusal(tmp_path):
    path = tmp_path / "2"
    path.write_text("2")

    def size(x):
        return x * os.path.getsize(path)

    line = size.__code__.co_firstlineno + 1
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(size)(hy.ones(()))
    assert str(caught.value) == (
        f"os.stat() gives or does something of its own at every call ({__file__}:{line})\n"
        f"    {line} | return x * os.path.getsize(path)\n"
        "It would be called once, while the function is captured, and not by the plan.\n"
        "Fix: do it outside the hybridized function, or call it by hybrid.py_call."
    )


def test_what_looks_for_code_and_its_text(tmp_path, monkeypatch):
    (tmp_path / "reads_when_imported.py").write_text(
        "import os\nSIZE = os.stat(__file__).st_size\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def imports(x):
        import reads_when_imported

        linecache.checkcache()
        return x * (reads_when_imported.SIZE > 0)

    assert hy.hybridize(imports)(hy.ones(())).item() == 1.0
    sys.modules.pop("reads_when_imported")


def test_other_threads_read_files(tmp_path):
    path = tmp_path / "2"
    path.write_text("2")
    found = []

    def in_a_thread():
        thread = threading.Thread(target=lambda: found.append(path.read_text()), daemon=True)
        thread.start()
        thread.join()
        return os.stat in os.supports_fd

    before = open, io.open, os.stat
    assert surrounded(in_a_thread) is True
    assert found == ["2"]
    assert (open, io.open, os.stat) == before
    assert all(a is b for a, b in zip((open, io.open, os.stat), before, strict=True))


# Signals ------------------------------------------------------------------------------------------


class Counter:
    def __init__(self):
        self.count = hy.asarray(0.0)
        self.seen = []

    def __call__(self, *_):
        assert stack() == ()
        self.count.assign(self.count + 1)
        self.seen.append((hy.ones(3) * 2).sum().item())


def steps(x):
    for j in range(3):
        x = hy.sin(x) * 2 if hy.sum(x) > j else hy.cos(x) + j
    return x


@pytest.fixture
def counter():
    made = Counter()
    before = signal.signal(signal.SIGUSR1, made)
    yield made
    signal.signal(signal.SIGUSR1, before)


def test_handlers_of_signals_compute_beside_a_capture(counter, monkeypatch):
    apply = Tracer.applied

    def interrupted(self, *args, **kwargs):
        signal.raise_signal(signal.SIGUSR1)
        return apply(self, *args, **kwargs)

    x = hy.asarray([1.0, 2.0, 3.0])
    expected = steps(x).tolist()
    hybridized = hy.hybridize(steps)
    with monkeypatch.context() as patch:
        patch.setattr(Tracer, "applied", interrupted)
        assert hybridized(x).tolist() == expected
    signals = len(counter.seen)
    assert signals > 10
    assert counter.seen == [6.0] * signals
    assert all(type(value) is float for value in counter.seen)
    assert [hybridized(x).tolist() for _ in range(3)] == [expected] * 3
    assert counter.count.item() == signals, "no run repeats the handler"
    assert signal.getsignal(signal.SIGUSR1) is counter


def test_handlers_of_signals_compute_beside_a_way_back(counter, monkeypatch):
    """That of one of two results is derived when it is first asked for, after the capture."""
    apply = Tracer.applied

    def interrupted(self, *args, **kwargs):
        signal.raise_signal(signal.SIGUSR1)
        return apply(self, *args, **kwargs)

    def both(x):
        return steps(x), hy.sum(x * x)

    x = hy.asarray([1.0, 2.0, 3.0])
    x.requires_grad = True
    hybridized = hy.hybridize(both)
    _, second = hybridized(x)
    with monkeypatch.context() as patch:
        patch.setattr(Tracer, "applied", interrupted)
        second.backward()
    assert counter.seen and counter.seen == [6.0] * len(counter.seen)
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


HEARD = """
import signal
import hybrid as hy

def heard(*_):
    heard.times += 1
    assert hy.sum(hy.sin(hy.zeros(3)) + 2.0).tolist() == 6.0

heard.times = 0
signal.signal(signal.SIGVTALRM, heard)
signal.setitimer(signal.ITIMER_VIRTUAL, 0.0005, 0.0005)

@hy.hybridize
def step(x):
    for j in range(3):
        x = hy.sin(x) * 2 if hy.sum(x) > j else hy.cos(x) + j
    return x

x = hy.ones(3)
x.requires_grad = True
step(x).sum().backward()
signal.setitimer(signal.ITIMER_VIRTUAL, 0)
print(heard.times > 0)
"""


def test_handlers_of_signals_while_modules_are_imported(tmp_path):
    """The first call of a process imports what captures; a module in parts is of no use to them."""
    path = tmp_path / "heard.py"
    path.write_text(HEARD)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_handler_has_the_modes_that_the_capture_began_in(counter, monkeypatch):
    modes = []
    signal.signal(signal.SIGUSR1, lambda *_: modes.append(mode()))
    before = mode()

    def quiet():
        with hy.no_grad():
            signal.raise_signal(signal.SIGUSR1)
            return mode()

    inside = surrounded(quiet)
    assert modes == [before]
    assert inside != before
    assert mode() == before


def test_handlers_of_signals_compute_beside_vmap():
    seen = []
    before = signal.signal(
        signal.SIGUSR1, lambda *_: seen.append((stack(), hy.ones(3).sum().item()))
    )

    def row(x):
        signal.raise_signal(signal.SIGUSR1)
        return x * 2

    try:
        assert hy.vmap(row)(hy.ones((2, 3))).tolist() == [[2] * 3] * 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [((), 3.0)]


def test_handlers_of_signals_wait_while_a_library_graph_is_made():
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(stack()))

    def parts(x):
        signal.raise_signal(signal.SIGUSR1)
        seen.append(len(stack()))
        return [x * 2]

    try:
        region_of("parts", [tensor_type(hy.float32, (3,))], parts)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [1, ()]


def endless_sums(x):
    total = hy.zeros(())
    while total < 4:
        total = total + hy.sum(hy.tanh(x))
        x = x * total
    return total * x


def steps_of_any_kind():
    """Eager code, a capture with a loop, and gradients of both, at sizes of their own."""
    x = hy.asarray([1.0, -2.0, 3.0, 0.5, 0.25, 2.0, 1.5])
    x.requires_grad = True
    y = hy.tanh(x) * 2 + hy.softmax(x)
    loss = hy.nn.functional.cross_entropy(hy.reshape(y, (1, 7)), hy.asarray([1]))
    loss.backward()
    w = hy.asarray([1.0, 2.0])
    w.requires_grad = True
    product = hy.hybridize(endless_sums)(w)
    hy.sum(product).backward()
    return [t.tolist() for t in (y, loss, x.grad, product, w.grad)]


def test_handlers_of_signals_that_come_at_every_return_of_the_library():
    """They compute beside whatever the library traces, eager code that is met first included."""
    stacks, busy = [], False

    def heard(*_):
        stacks.append(stack())
        assert (hy.sin(hy.zeros(5)) + 2.0).tolist() == [2.0] * 5

    def at_return(_frame, event, _argument):
        nonlocal busy
        if event == "return" and not busy and stack():
            busy = True
            try:
                signal.raise_signal(signal.SIGUSR1)
            finally:
                busy = False

    before = signal.signal(signal.SIGUSR1, heard)
    for name in ("tanh", "multiply", "softmax", "add", "sum"):
        get_op(name).launches.clear()
    sys.setprofile(at_return)
    try:
        found = steps_of_any_kind()
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    assert len(stacks) > 100 and not any(stacks)
    assert found == steps_of_any_kind()


def test_a_handler_that_the_author_sets_meanwhile_stays(counter):
    surrounded(lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN))
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_a_handler_that_raises_ends_the_capture(counter, monkeypatch):
    def late(_number, _frame):
        raise TimeoutError("late")

    signal.signal(signal.SIGUSR1, late)
    monkeypatch.setattr(Tracer, "applied", lambda *_: signal.raise_signal(signal.SIGUSR1))

    def catches(x):
        try:
            return x + 1
        except TimeoutError:
            return x

    with pytest.raises(TimeoutError, match="late"):
        hy.hybridize(catches)(hy.ones(3))
    assert signal.getsignal(signal.SIGUSR1) is late
    assert stack() == ()


# Finalizers and callbacks -------------------------------------------------------------------------


class Finalized:
    def __init__(self, note):
        self.me, self.note = self, note

    def __del__(self):
        self.note()


class Plain:
    def __init__(self):
        self.me = self


def collecting(x):
    gc.collect()
    return steps(x)


REFERENCES = []
GARBAGE = {
    "finalizer": Finalized,
    "callback": lambda note: REFERENCES.append(weakref.ref(Plain(), note)),
    "finalize": lambda note: weakref.finalize(Plain(), note),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_a_collection_calls_is_beside_the_capture(kind):
    gc.collect()
    counter, x = Counter(), hy.ones(3)
    GARBAGE[kind](counter)
    hybridized = hy.hybridize(collecting)
    expected = steps(x).tolist()
    assert [hybridized(x).tolist() for _ in range(3)] == [expected] * 3
    assert counter.seen == [6.0]
    assert counter.count.item() == 1


def test_an_object_with_a_finalizer_that_a_capture_makes():
    def makes(x):
        Finalized(print)
        return x + 1

    line = makes.__code__.co_firstlineno + 1
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(makes)(hy.ones(3))
    assert str(caught.value) == (
        f"an object of Finalized is made, which has a finalizer (__del__) ({__file__}:{line})\n"
        f"    {line} | Finalized(print)\n"
        "It would run once, when what the capture has made dies, and not in each run.\n"
        "Fix: make the Finalized outside the hybridized function, or do what __del__ does in a "
        "method, or in the __exit__ of a with statement."
    )


def test_a_finalizer_that_a_capture_registers():
    def registers(x):
        weakref.finalize(Plain(), print)
        return x + 1

    with pytest.raises(CaptureError, match=r"weakref.finalize\(\) gives or does something"):
        hy.hybridize(registers)(hy.ones(3))
