"""What the tests of kept plans share: a folder in use for one test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import hybrid as hy
from hybrid import config


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder, not there yet, where plans are kept."""
    before = list(config._plan_cache)
    hy.cache_plans(tmp_path / "plans")
    yield tmp_path / "plans"
    config._plan_cache[:] = before
