"""``hybrid launch``: runs a script as the ranks of a job, and sees to it that all of them end.

``mpiexec`` starts the processes; each is a watcher (``watcher.py``) that starts the rank itself.
When a rank has failed, the others are told and have some seconds to raise an error of their own;
then everything is stopped.  Files in shared memory that killed ranks have left are removed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from hybrid.errors import ArgumentError, MissingPackageError
from hybrid.jobs.job_link import SIZE, VARIABLE
from hybrid.jobs.job_state import JobState, read, shared_files_of, tell

WATCHER = Path(__file__).with_name("watcher.py")
GRACE = 6.0  # seconds from the first failure to the end of all
STOPPING = 3.0  # seconds that mpiexec may take to end
LOOKS = 0.1

# Variables that name a file with a host in each line: of MPICH, Open MPI, PBS, Grid Engine, LSF.
_FILES = (
    "HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
    "PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE",
)  # fmt: skip
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "LSB_HOSTS")  # with the hosts themselves
_LOCAL = ("localhost", "127.0.0.1", "::1", "ip6-localhost")


def launch(
    ranks: int, command: Sequence[str], *, max_restarts: int = 0, min_ranks: int | None = None
) -> int:
    """The exit code of a job of ``ranks`` processes that run ``command``: 0 if all ended well.

    A job that fails is started again, ``max_restarts`` times at most; scripts find how often it
    has been in HYBRID_RESTARTS.  A rank that has failed is there again.  One whose process could
    not be started, or whose place is gone with what watched it, is not, if ``min_ranks``, by
    default all, are left.  ArgumentError where ``mpiexec`` would start ranks on other hosts.
    """
    require_one_host(os.environ)
    mpiexec = _mpiexec()
    least = ranks if min_ranks is None else min_ranks
    for attempt in range(max_restarts + 1):
        code, lost = _run(mpiexec, ranks, command, attempt)
        if code == 0 or code >= 128 or attempt == max_restarts:
            return code
        fewer = max(ranks - lost, least)
        with_them = f" with {fewer} ranks" if fewer < ranks else ""
        ranks = fewer
        _print(f"starting again{with_them}, {attempt + 1} of {max_restarts} times")
    return code


def require_one_host(environment: Mapping[str, str]) -> None:
    """Raise ArgumentError where ranks would be started on other hosts than this one."""
    for variable, hosts in _named(environment):
        others = [host for host in hosts if not _is_here(host)]
        if others:
            raise ArgumentError(
                f"hybrid launch would start ranks on other hosts: {variable} names "
                f"{', '.join(dict.fromkeys(others))}",
                why="It watches the ranks of a job by a socket that this machine alone has, so it "
                "would wait for those of others without end.",
                fix="start the ranks with mpiexec, srun or what the batch system has (mpiexec -n 8 "
                f"python train.py), or run it without {variable} for ranks on this machine",
            )


def _named(environment: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """The variables that name hosts, each with these."""
    found = []
    for variable in _FILES:
        try:
            lines = Path(environment.get(variable) or "/nowhere").read_text().splitlines()
        except (OSError, UnicodeDecodeError):  # mpiexec says what is wrong with it
            continue
        words = [line.split("#")[0].split() for line in lines]
        found.append((variable, [first[0].split(":")[0] for first in words if first]))
    for variable in _LISTS:
        found.append((variable, _split(environment.get(variable, ""))))
    return found


def _split(text: str) -> list[str]:
    """Hosts with commas or blanks between them; those of Slurm, ``n[1-3,7]``, as they stand."""
    return re.findall(r"(?:[^\s,\[]|\[[^\]]*\])+", text)


def _is_here(host: str) -> bool:
    own = socket.gethostname()
    return host in _LOCAL or host.partition(".")[0] == own.partition(".")[0]


def _mpiexec() -> list[str]:
    """The command that starts processes, with what makes it start any number of them."""
    if importlib.util.find_spec("mpi4py") is None:
        raise MissingPackageError(
            "hybrid launch needs the package mpi4py, which is not installed",
            fix='pip install "hybrid[mpi]"',
        )
    beside = os.path.dirname(sys.executable)
    found = shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
    if found is None:
        raise MissingPackageError(
            "hybrid launch needs mpiexec, which is not there",
            fix='pip install "hybrid[mpi]", which brings that of MPICH',
        )
    said = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if "open" in (said.stdout + said.stderr).lower():
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [found, *root, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    return [found]


def _run(
    mpiexec: Sequence[str], ranks: int, command: Sequence[str], attempt: int
) -> tuple[int, int]:
    """The exit code of one try, and how many ranks have lost their places in it."""
    name = f"hybrid-job-{uuid.uuid4().hex}"
    cores = len(os.sched_getaffinity(0))
    environment = {
        "HYBRID_NUM_THREADS": str(max(cores // ranks, 1)),
        **os.environ,
        VARIABLE: f"@{name}",
        SIZE: str(ranks),
        "HYBRID_RESTARTS": str(attempt),
    }
    started = [sys.executable, "-I", "-S", str(WATCHER), *command]
    run = JobState(ranks=ranks)
    with (
        socket.socket(socket.AF_UNIX) as listening,
        selectors.DefaultSelector() as selector,
        tempfile.TemporaryFile() as printed,  # by mpiexec itself
    ):
        listening.bind(f"\0{name}")
        listening.listen(2 * ranks + 8)
        selector.register(listening, selectors.EVENT_READ)
        with _stopped_by_signals() as stopped:
            job = subprocess.Popen(
                [*mpiexec, "-n", str(ranks), *started],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env=environment,
                start_new_session=True,
            )  # fmt: skip
            try:
                _watch(run, job, listening, selector, stopped)
            finally:
                _end(run, job, name)
        printed.seek(0)
        own_words = printed.read().decode("utf-8", "replace").strip()
    if stopped:
        return 128 + stopped[0], 0
    lost = len(run.lost)
    causes = [how for how in run.failures.values() if not how.startswith("RankFailedError")]
    for number, how in run.failures.items():
        if how in causes or not causes:
            _print(f"rank {number} has failed: {how}")
    if run.failures:
        for number in sorted(set(run.pids) - set(run.codes) - run.lost):
            _print(f"rank {number} was stopped: it had not ended {GRACE:g} s after that")
        return 1, lost
    if len(run.codes) == run.ranks:
        return 0, 0  # whatever mpiexec says of those who ended without the others
    _print(f"mpiexec has ended with code {job.returncode}\n{own_words}")
    return 1, run.ranks - len(run.pids) if run.pids else 0


def _watch(
    run: JobState,
    job: subprocess.Popen[bytes],
    listening: socket.socket,
    selector: selectors.BaseSelector,
    stopped: list[int],
) -> None:
    """Pass on what is said until all ranks have ended, or have had their time to do so."""
    while not stopped and job.poll() is None:
        for key, _ in selector.select(LOOKS):
            if key.fileobj is listening:
                link, _ = listening.accept()
                run.links[link] = b""
                selector.register(link, selectors.EVENT_READ)
            else:
                read(run, key.fileobj, selector)
        over = len(run.codes) == run.ranks
        late = run.failed_at is not None and time.monotonic() - run.failed_at > GRACE
        if late or over:
            return


def _end(run: JobState, job: subprocess.Popen[bytes], job_name: str) -> None:
    """Leave no process and no file."""
    if job.poll() is None or run.failures:
        run.files.update(*[shared_files_of(pid) for pid in run.pids.values()])
    for watcher in run.watchers.values():
        tell(watcher, stop=True)
    try:
        job.wait(STOPPING)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    for pid in [run.pids[number] for number in run.lost if number in run.pids]:
        with contextlib.suppress(OSError):  # nobody else is left to do so
            if job_name.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)
    for link in run.links:
        link.close()
    for path in run.files:
        with contextlib.suppress(OSError):
            os.unlink(path.removesuffix(" (deleted)"))


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """The signals that have asked for the end."""
    found: list[int] = []
    asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda n, _: found.append(n)) for number in asked}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(text: str, to: TextIO | None = None) -> None:
    print(f"hybrid: {text}", file=to or sys.stderr, flush=True)
