"""What all tests of the C library are within."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hybrid.memory import work_queue as pending
from hybrid.trace.capture.recapture import uncollected


@pytest.fixture(autouse=True)
def nothing_else_is_freed() -> Iterator[None]:
    """What earlier tests have left stays while bytes are counted.

    Tensors in cycles are not collected meanwhile, and queues that a fork would wait for, and let go
    of what they hold, are waited for now.
    """
    pending.drain_all()
    with uncollected():
        yield
