"""What all tests of the C library are within."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hybrid.trace.settle import uncollected


@pytest.fixture(autouse=True)
def nothing_else_is_freed() -> Iterator[None]:
    """Tensors in cycles that earlier tests have left stay while bytes are counted."""
    with uncollected():
        yield
