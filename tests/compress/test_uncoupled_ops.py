"""Every op says how its axes correspond, or why nothing can be taken out of them."""

import pytest

import hybrid.passes  # noqa: F401  declares the ops that passes build
from hybrid.compress.channels.uncoupled_ops import REASONS, reason_of
from hybrid.ir import REGISTRY, Op, get_op

OPS = sorted(
    (op for op in REGISTRY.values() if op.__module__.startswith("hybrid.")), key=lambda op: op.name
)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_couples_or_says_why_not(op: Op) -> None:
    couples = op.elementwise or op.couple_rule is not None
    assert couples != (op.name in REASONS)


def test_the_reasons_are_of_ops_that_there_are() -> None:
    assert set(REASONS) <= set(REGISTRY)


def test_the_reason_of_an_op() -> None:
    assert reason_of(get_op("for")) == "what its body does with the axis is not followed"
    assert reason_of(get_op("softmax")) == "what it computes depends on how many there are"
