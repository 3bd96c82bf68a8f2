"""Connectionist temporal classification against the sum over all paths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.nn import functional as F
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

LOGITS = Draw(41)("float64", 5, 4, 3)
TARGETS = np.array([[1, 2, 1], [2, 2, 0], [1, 0, 0], [2, 1, 2]])
INPUTS, LENGTHS = np.array([5, 4, 3, 2]), np.array([3, 2, 0, 3])  # the last has no alignment


def likelihood(logs: np.ndarray, labels: list[int], blank: int) -> float:
    """The sum of the probabilities of all paths that collapse to ``labels``."""
    total = 0.0
    for path in itertools.product(range(logs.shape[1]), repeat=logs.shape[0]):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != blank] == labels:
            total += math.exp(sum(logs[t, c] for t, c in enumerate(path)))
    return total


def expected(blank: int, targets: np.ndarray) -> np.ndarray:
    logs = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
    found = []
    for i, (times, size) in enumerate(zip(INPUTS, LENGTHS, strict=True)):
        chance = likelihood(logs[:times, i], targets[i, :size].tolist(), blank)
        found.append(-math.log(chance) if chance else math.inf)
    return np.array(found)


def loss(logits, **given):
    return F.ctc_loss(F.log_softmax(logits), TARGETS, INPUTS, LENGTHS, **given)


@pytest.mark.parametrize("zero", [False, True])
def test_the_sum_over_all_paths(zero) -> None:
    want = expected(0, TARGETS)
    assert math.isinf(want[3])
    want = np.where(np.isinf(want) & zero, 0, want)
    means = (want / np.maximum(LENGTHS, 1)).mean()
    for how, to in (("none", want), ("sum", want.sum()), ("mean", means)):
        found = loss(hy.asarray(LOGITS), reduction=how, zero_infinity=zero)
        np.testing.assert_allclose(found.numpy(), to, rtol=1e-10)


def test_another_blank_and_one_sequence() -> None:
    targets = np.where(TARGETS == 2, 0, TARGETS)
    logs = F.log_softmax(hy.asarray(LOGITS))
    found = F.ctc_loss(logs, targets, INPUTS, LENGTHS, blank=2, reduction="none")
    np.testing.assert_allclose(found.numpy(), expected(2, targets), rtol=1e-10)
    one = F.ctc_loss(logs[:, 0], targets[0], 5, 3, blank=2, reduction="none")
    assert one.shape == () and same(one, found[0])
    empty = F.ctc_loss(logs, np.zeros((4, 0), int), INPUTS, [0] * 4, reduction="none")
    blanks = np.cumsum(logs.numpy()[:, :, 0], 0)[INPUTS - 1, np.arange(4)]
    np.testing.assert_allclose(empty.numpy(), -blanks, rtol=1e-10)


def test_gradients_and_captures() -> None:
    logits = hy.asarray(LOGITS)

    def total(logits):
        return loss(logits, zero_infinity=True)

    hy.check_grads(total, logits, rtol=1e-4, atol=1e-6)
    step = hy.value_and_grad(total)
    (a, slope), captured = step(logits), hy.hybridize(step)
    b, other = captured(logits)
    assert same(a, b) and same(slope, other) and np.isfinite(slope.numpy()).all()
    assert not slope.numpy()[:, 3].any() and not slope.numpy()[4, 1].any()
    assert str(captured.graph(logits)).count("= for ") + str(captured.graph(logits)).count(
        "= while "
    )


L = hy.asarray(LOGITS)
ERRORS = {
    "rank": (lambda: F.ctc_loss(L[0, 0], TARGETS, INPUTS, LENGTHS), ShapeError, "ctc_loss cannot"),
    "batch": (lambda: F.ctc_loss(L, TARGETS[:2], INPUTS, LENGTHS), ShapeError, "targets .N, S."),
    "ints": (lambda: F.ctc_loss(TARGETS, TARGETS, INPUTS, LENGTHS), DTypeError, "ctc_loss cannot"),
    "floats": (lambda: F.ctc_loss(L, LOGITS[0], INPUTS, LENGTHS), DTypeError, "indices of dtype"),
    "blank": (lambda: loss(L, blank=3), ArgumentError, "ctc_loss got blank 3"),
    "times": (lambda: F.ctc_loss(L[:0], TARGETS, INPUTS, LENGTHS), ShapeError, "got no times"),
    "lengths": (lambda: F.ctc_loss(L, TARGETS, INPUTS[:2], LENGTHS), ShapeError, "as input_len"),
    "long": (lambda: F.ctc_loss(L, TARGETS, INPUTS + 1, LENGTHS), ArgumentError, "got 6 among inp"),
    "wide": (lambda: F.ctc_loss(L, TARGETS, INPUTS, LENGTHS + 1), ArgumentError, "4 among target"),
    "how": (lambda: loss(L, reduction="avg"), ArgumentError, "reduction='avg' is unknown"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_targets_one_after_the_other(reduction: str) -> None:
    flat = np.concatenate([row[:n] for row, n in zip(TARGETS, LENGTHS, strict=True)])
    logs = F.log_softmax(hy.asarray(LOGITS))
    want = F.ctc_loss(logs, TARGETS, INPUTS, LENGTHS, reduction=reduction)
    for lengths in (LENGTHS, tuple(LENGTHS.tolist()), hy.asarray(LENGTHS)):
        found = F.ctc_loss(logs, flat, INPUTS, lengths, reduction=reduction)
        np.testing.assert_array_equal(found.numpy(), want.numpy())
    traced = hy.hybridize(lambda *args: F.ctc_loss(*args, reduction=reduction))
    found = traced(logs, hy.asarray(flat), hy.asarray(INPUTS), hy.asarray(LENGTHS))
    np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-12)
    with pytest.raises(ShapeError) as caught:
        F.ctc_loss(logs, flat[1:], INPUTS, LENGTHS)
    assert str(caught.value) == (
        "ctc_loss cannot take i64[7] as targets of 8 labels in all\nIn one dimension they are the "
        "labels of all sequences, one after the other.\nFix: give sum(target_lengths) labels, or "
        "[N, S]."
    )
