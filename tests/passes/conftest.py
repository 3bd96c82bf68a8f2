"""Ops that exist for the tests of passes only."""

from collections.abc import Iterator

import pytest

from hybrid.core.types import TensorType
from hybrid.ir import REGISTRY, Op, op


@pytest.fixture
def impure_op() -> Iterator[Op]:
    """An op that does something to the world; every node of it must run, in order."""

    def test_only_effect(x: TensorType) -> TensorType:
        return x

    made = op(test_only_effect, pure=False)
    yield made
    del REGISTRY[made.name]
