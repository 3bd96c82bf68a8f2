"""No test runs for ever."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.staging.harness import close_captures

SECONDS = 60


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    """A loop that never ends is a failure, not a test run that never ends."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"still running after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        close_captures()
