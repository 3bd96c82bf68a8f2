"""What all tests of the C library are within."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from hybrid.memory import work_queue


@pytest.fixture(autouse=True)
def nothing_else_is_freed() -> Iterator[None]:
    """What earlier tests have left stays while bytes are counted.

    Tensors in cycles are not collected meanwhile, and queues that a fork would wait for, and let go
    of what they hold, are waited for now.
    """
    work_queue.drain_all()
    gc.freeze()
    yield
