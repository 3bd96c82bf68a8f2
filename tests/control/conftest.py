"""No test runs for ever; those that do not pass yet are strict failures, and leave PENDING then."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.control.harness import close_captures
from tests.control.pending import PENDING

SECONDS = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if f"{item.path.stem}::{item.name}" in PENDING:
            item.add_marker(pytest.mark.xfail(strict=True, reason="in PENDING"))


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
