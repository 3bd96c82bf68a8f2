"""Fixtures of the tests of loaders."""

import gc
from collections.abc import Iterator

import pytest

from tests.data.samples import ours


@pytest.fixture
def nothing_stays() -> Iterator[None]:
    """The test leaves no worker behind."""
    assert ours() == []
    yield
    gc.collect()
    assert ours() == []
