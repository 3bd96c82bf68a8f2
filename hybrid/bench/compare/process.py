"""The end of the conversation that asks: a framework's process, which never outlives its use."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hybrid.core.exceptions import handlers_wait
from hybrid.errors import HybridError

START = Path(__file__).with_name("start.py")
TIMEOUT = 600.0  # seconds to wait for an answer
LAST_WORDS = 5.0  # and for the end of a process that has closed its output
# What answers consist of: see ``serve``.
FIELDS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "load": {"version": str, "workloads": tuple},
    "build": {"seconds": float},
    "check": {"first_call": float, "results": dict},
    "sample": {"seconds": float},
    "memory": {"peak": int, "loaded": int},
}


class PeerError(HybridError, RuntimeError):
    """A framework's process did not answer, or answered that something went wrong."""


class PeerTimeout(PeerError):
    """It took too long, and has been ended."""


class Missing(PeerError):
    """The interpreter has no such package."""


def environment(threads: int) -> dict[str, str]:
    """What frameworks, and the libraries behind them, read when they are loaded, and only then."""
    count = str(threads)
    single = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"} if threads == 1 else {}
    return {
        **os.environ,
        **single,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "NPROC": count,
        "HYBRID_NUM_THREADS": count,
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


class Process:
    """A process that answers lines with lines; used in a ``with``, which ends it."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:  # fmt: skip
        self.timeout = timeout
        self.said = b""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        try:
            with handlers_wait(interrupts=True):  # Popen forgets what it has begun to start
                # A session of its own: Ctrl-C reaches it through `close`, with all it started.
                self.process = subprocess.Popen(
                    list(command), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=self.errors, bufsize=0, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            self.errors.close()
            raise PeerError(f"{command[0]} cannot be run: {error.strerror}") from None
        except KeyboardInterrupt:
            self.close()
            raise

    def __del__(self) -> None:  # interrupted before its `with` has begun
        if hasattr(self, "process"):
            self.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """The answer; PeerError when there is none, or one of an error."""
        line = json.dumps({"ask": what, **more}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the missing answer says
            self.process.stdin.write(line.encode())
        heard = self._line(time.monotonic() + self.timeout)
        try:
            answer = json.loads(heard)
            if "error" not in answer:
                return {name: kind(answer[name]) for name, kind in FIELDS[what].items()}
            error = str(answer["error"])
        except (ValueError, TypeError, KeyError):
            self.close()
            raise PeerError(f"it answered {_short(heard)!r}, which is no answer") from None
        missing = error.startswith("ModuleNotFoundError: ")
        raise (Missing if missing else PeerError)(_short(error))

    def _line(self, deadline: float) -> bytes:
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.said:
                if not ready.select(max(deadline - time.monotonic(), 0)):
                    self.close()
                    raise PeerTimeout(f"no answer after {self.timeout:g} s")
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    raise PeerError(self._death())
                self.said += more
        line, _, self.said = self.said.partition(b"\n")
        return line

    def _death(self) -> str:
        """How it ended, and its last words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LAST_WORDS)
        code = self.process.returncode
        how = "closed its output" if code is None else f"ended with code {code}"
        if code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        self.errors.seek(0)
        words = self.errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(words) if line.strip()), "")
        return f"it {how}: {_short(last)}" if last else f"it {how}"

    def close(self) -> None:
        """End the process and what it has started; nothing when that has been done."""
        if self.errors.closed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def framework_process(
    python: str, framework: str, threads: int, timeout: float, *, more: Mapping[str, str]
) -> Process:
    """The process of a framework of ``adapters``, under the interpreter ``python``.

    ``more`` is added to its environment.
    """
    command = [python, str(START), framework, str(threads)]
    env = {**environment(threads), **more}
    if framework != "hybrid":  # an interpreter of another version writes nothing beside its files
        env["PYTHONDONTWRITEBYTECODE"] = "1"
    return Process(command, env=env, timeout=timeout)


def _short(text: str | bytes, length: int = 200) -> str:
    """The first line, cut where it is long."""
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    line = words.strip().split("\n")[0]
    return line if len(line) <= length else line[: length - 3] + "..."
