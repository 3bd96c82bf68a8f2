"""Runs before every test module: decides which ``hybrid`` is tested."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# `python -m pytest` puts the checkout first on the path, but only an installed hybrid has its
# compiled part.  So the checkout goes last: there for `tests.helpers`, behind what is installed.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT] + [str(ROOT)]

# What was measured on this machine must not decide how tests run.
os.environ["HYBRID_TUNING"] = ""
os.environ["HYBRID_PLAN_CACHE_KEY"] = "of the tests"  # none is made in the home of who runs them

# Programs that tests start import the same hybrid, wherever they are started.
found = find_spec("hybrid")
assert found is not None and found.origin is not None
folder = str(Path(found.origin).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


@pytest.fixture
def heeded_interrupt() -> Iterator[None]:
    """SIGINT as Python heeds it by itself, here and in the processes that the test starts.

    Jobs in the background are started with it ignored, and so would be theirs.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def streams_end() -> Iterator[None]:
    """Nothing stays queued behind the test."""
    import hybrid as hy
    from hybrid import pending

    yield
    hy.wait_all()
    gc.collect()
    assert not pending._busy
