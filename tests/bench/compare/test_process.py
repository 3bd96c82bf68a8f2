"""A peer's process: its answers, the ways in which there is none, and that nothing is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hybrid.bench.compare.process import (
    Missing,
    PeerError,
    PeerTimeout,
    Process,
    environment,
    framework_process,
)
from hybrid.bench.compare.serve import LONGEST, come_to_rest

Fake = Callable[..., str]


def gone(pid: int, patience: int = 200) -> bool:
    """Whether no process has that number, or only one that has ended."""
    for _ in range(patience):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_lines_are_answered_by_lines(fake: Fake) -> None:
    with Process([fake()]) as process:
        assert process.ask("load") == {"version": "0.1", "workloads": ("dispatch", "gemm")}
        assert process.ask("sample", count=500, clock="wall") == {"seconds": 0.5}
    assert gone(process.process.pid)
    process.close()  # and again: nothing happens


FAULTS = {
    "an error": ('{"error": "ValueError: no\\nmore"}', PeerError, "ValueError: no"),
    "no package": (
        '''{"error": "ModuleNotFoundError: No module named 'torch'"}''',
        Missing,
        "ModuleNotFoundError: No module named 'torch'",
    ),
    "no JSON": ("'good morning'", PeerError, "it answered 'good morning', which is no answer"),
    "a field less": (
        '{"first_call": 1}', PeerError, """it answered '{"first_call": 1}', which is no answer""",
    ),
    "no number": (
        '{"first_call": "x", "results": []}', PeerError,
        """it answered '{"first_call": "x", "results": []}', which is no answer""",
    ),
    "no object": ("[1]", PeerError, "it answered '[1]', which is no answer"),
    "a death": ("os._exit(3)", PeerError, "it ended with code 3"),
    "last words": (
        "(sys.stderr.write('first\\nout of luck\\n\\n'), sys.stderr.flush(), os._exit(3))",
        PeerError,
        "it ended with code 3: out of luck",
    ),
    "a signal": (
        "os.kill(os.getpid(), signal.SIGKILL)", PeerError, "it was ended by SIGKILL",
    ),
    "silence": ("time.sleep(50)", PeerTimeout, "no answer after 0.5 s"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_no_answer(fake: Fake, what: str) -> None:
    does, kind, text = FAULTS[what]
    with Process([fake(check=does)], timeout=0.5 if what == "silence" else 30) as process:
        process.ask("load")
        with pytest.raises(PeerError) as raised:
            process.ask("check")
        assert (type(raised.value), str(raised.value)) == (kind, text)
    assert gone(process.process.pid)


def test_one_that_closes_its_output_is_ended(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.bench.compare.process.LAST_WORDS", 0.2)
    process = Process([fake(check="(os.close(1), time.sleep(50))")])
    with process, pytest.raises(PeerError, match=r"^it closed its output$"):
        process.ask("check")
    assert gone(process.process.pid)


def test_a_program_that_cannot_be_run() -> None:
    with pytest.raises(PeerError, match=r"^/no/such/python cannot be run: No such file"):
        Process(["/no/such/python"])


def test_what_a_process_has_started_ends_with_it(fake: Fake) -> None:
    pid = "__import__('subprocess').Popen(['sleep', '50']).pid"
    starts = f"{{'first_call': 0, 'results': {{'pid': {pid}}}}}"
    with Process([fake(check=starts)]) as process:
        child = process.ask("check")["results"]["pid"]
        assert not os.path.exists(f"/proc/{child}/stat") or os.getpgid(child) != os.getpgrp()
    assert gone(child) and gone(process.process.pid)


def test_ctrl_c_at_the_terminal_does_not_reach_it(fake: Fake) -> None:
    with Process([fake()]) as process:
        assert os.getsid(process.process.pid) != os.getsid(0)
        os.kill(process.process.pid, signal.SIGCONT)
        assert process.ask("load")["version"] == "0.1"


BUSY = """
from hybrid.bench.compare.process import framework_process
import sys
process = framework_process(sys.executable, "numpy", 1, 600, more={})
process.ask("load")
process.ask("build", workload="dispatch", case="8", variant="")
process.ask("check")
print(process.process.pid, flush=True)
process.ask("sample", count=10**12, clock="wall")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends those whose parent is killed")
def test_it_ends_when_whoever_asks_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as asking:
        pid = int(asking.stdout.readline())
        time.sleep(0.2)
        assert not gone(pid, patience=1)
        asking.kill()
        assert gone(pid)


def test_everyone_gets_as_many_threads() -> None:
    one, two = environment(1), environment(2)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HYBRID_NUM_THREADS")
    assert {one[name] for name in names} == {"1"} and {two[name] for name in names} == {"2"}
    assert one["XLA_FLAGS"] == "--xla_cpu_multi_thread_eigen=false"


@pytest.mark.alone
@pytest.mark.parametrize(("seconds", "least"), [(0.0, 0.0), (0.15, 0.14), (60.0, LONGEST)])
def test_an_answer_waits_for_threads_that_spin(seconds: float, least: float) -> None:
    stop = time.perf_counter() + seconds

    def spin() -> None:
        while time.perf_counter() < stop:
            pass

    thread = threading.Thread(target=spin, daemon=True)
    start, used = time.perf_counter(), time.process_time()
    thread.start()
    come_to_rest()
    took, used = time.perf_counter() - start, time.process_time() - used
    stop = 0.0
    thread.join()
    starved = used < 0.5 * took  # others had the cores: what spins looks as if it slept
    assert took < 30 and (took >= least or starved)


def test_an_interpreter_without_hybrid_serves_it(tmp_path: object) -> None:
    """The adapters use nothing but NumPy and each other: the package itself is not imported."""
    with framework_process(sys.executable, "numpy", 1, 60, more={}) as process:
        told = process.ask("load")
        assert "gemm" in told["workloads"] and told["version"]
        process.ask("build", workload="gemm", case="1x1024x1024", variant="")
        result = process.ask("check")["results"]["result"]
        assert result["shape"] == [1, 1024] and len(result["values"]) == 512
        assert process.ask("sample", count=3, clock="wall")["seconds"] > 0
        seconds = process.ask("sample", count=300, clock="cpu")["seconds"]
        assert 0 < seconds < 60
        memory = process.ask("memory")
        assert 1 << 20 < memory["loaded"] <= memory["peak"]
        with open(f"/proc/{process.process.pid}/status") as status:
            resident = next(line for line in status if line.startswith("VmHWM:"))
        assert memory["peak"] <= int(resident.split()[1]) * 1024
        with pytest.raises(PeerError, match=r"^KeyError: 'juggle'$"):
            process.ask("build", workload="juggle", case="1", variant="")
        with pytest.raises(PeerError, match=r"^ZeroDivision|^KeyError|^TypeError"):
            process.ask("sample")
        with open(f"/proc/{process.process.pid}/maps") as maps:
            assert "_native" not in maps.read()
