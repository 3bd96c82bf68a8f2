"""Runs before every test module: decides which ``hybrid`` is tested."""

import faulthandler
import fcntl
import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).resolve().parents[1]

# `python -m pytest` puts the checkout first on the path, but only an installed hybrid has its
# compiled part.  So the checkout goes last: there for `tests.helpers`, behind what is installed.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT] + [str(ROOT)]

# What was measured on this machine must not decide how tests run.
os.environ["HYBRID_TUNING"] = ""
os.environ["HYBRID_LEDGER"] = "0"  # but where a test asks for one
os.environ["HYBRID_PLAN_CACHE_KEY"] = "of the tests"  # none is made in the home of who runs them

# Python that does not buffer writes a line and its end apart: those of ranks would be mixed.
os.environ.pop("PYTHONUNBUFFERED", None)

# Programs that tests start import the same hybrid, wherever they are started.
found = find_spec("hybrid")
assert found is not None and found.origin is not None
folder = str(Path(found.origin).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


PROCESSOR_MINUTES = 24  # that all tests take together, about; two cores share them


def pytest_configure(config: pytest.Config) -> None:
    from tests.tools.durations import Durations

    config.pluginmanager.register(Durations(config), "durations")


def pytest_report_header(config: pytest.Config) -> str | None:
    """What to expect, for those who wait."""
    if config.args != config.getini("testpaths") or config.option.collectonly:
        return None
    processes = config.getoption("numprocesses", None) or 1
    minutes = -(-PROCESSOR_MINUTES // processes)
    return (
        f"all tests, in {processes} process{'es' * (processes > 1)}: about {minutes} minutes; "
        "the first dots come when all are collected, in a quarter of one"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the machine for themselves come last, when few others are left."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


FILES_BETWEEN = 50  # that are run before the garbage of all of them is collected
_files: list[Path] = []  # the last of them


def pytest_collection_finish() -> None:
    """What collecting has made stays: tests that collect garbage need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nor need they look at what the tests of other files have left: that takes them most time."""
    if _files and _files[-1] == item.path:
        return
    if len(_files) >= FILES_BETWEEN:
        _files.clear()
        gc.unfreeze()
        gc.collect()
    _files.append(item.path)
    gc.freeze()


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IO[str]]:
    """A file that all processes of this run of the tests lock."""
    here = tmp_path_factory.getbasetemp()
    with open((here.parent if "PYTEST_XDIST_WORKER" in os.environ else here) / "machine", "w") as f:
        yield f


@pytest.fixture(autouse=True)
def share(machine: IO[str], request: pytest.FixtureRequest) -> Iterator[None]:
    """Processes share the machine; a test marked ``alone`` runs while no other does."""
    alone = request.node.get_closest_marker("alone") is not None
    if request.node.get_closest_marker("nightly") is not None:
        faulthandler.cancel_dump_traceback_later()  # they may take as long as they want
    fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    yield
    fcntl.flock(machine, fcntl.LOCK_UN)


@pytest.fixture(autouse=True)
def path_restored() -> Iterator[None]:
    """Commands that load a user's function put its folder on the path; tests do not keep it."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def heeded_interrupt() -> Iterator[None]:
    """SIGINT as Python heeds it by itself, here and in the processes that the test starts.

    Jobs in the background are started with it ignored, and so would be theirs.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def learned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager calls get launches of their own when first made, not when they have come often.

    The caches of these are bounded; a test that measures what is kept wants them filled early.
    """
    from hybrid.eager import open_launch
    from hybrid.ops.support import call_cache

    for module, counts in (
        (open_launch, ("COUNTED", "MEETINGS")),
        (
            call_cache,
            ("CALLS_BEFORE_LEARNING", "CALLS_OF_MANY", "CALLS_BEFORE_PLANNING", "COUNTED"),
        ),
    ):
        for name in counts:
            monkeypatch.setattr(module, name, 1)


@pytest.fixture
def streams_end() -> Iterator[None]:
    """Nothing stays queued behind the test."""
    import hybrid as hy
    from hybrid.memory import work_queue as pending

    yield
    hy.wait_all()
    gc.collect()
    assert not pending._busy


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what fails at once: a run that is stopped has not said it otherwise."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        said = str(getattr(report.longrepr, "reprcrash", report.longrepr)).strip().splitlines()
        print(f"\n{report.nodeid}: {said[0][:300] if said else report.when}", flush=True)
