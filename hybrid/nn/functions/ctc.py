"""The loss of sequences without alignment: connectionist temporal classification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.calls.control_functions import scan
from hybrid.core.types import int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ir.interpreter import current
from hybrid.ops.index.indexing import as_indices
from hybrid.ops.support.operand_checks import require_choice, require_floating

_NEVER = -1e30  # the logarithm of probability 0, of which differences are numbers


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of label sequences over all ways to align them (Graves et al.
    2006).

    ``log_probs`` [T, N, classes] are logarithms of probabilities at each time, ``targets`` [N, S]
    labels other than ``blank``, of which the first ``target_lengths`` [N] count, as do the first
    ``input_lengths`` [N] times.  ``targets`` [sum(target_lengths)] are the labels of one sequence
    after the other.  Without a batch: [T, classes], [S] and two numbers.  The mean is
    that of the losses over their target lengths.  A sequence that no alignment fits has the loss
    ``inf``, or 0 with ``zero_infinity``.
    """
    require_choice("reduction", reduction, ("none", "mean", "sum"))
    log_probs, targets = ops.as_tensor(log_probs), as_indices("ctc_loss", targets)
    require_floating("ctc_loss", log_probs=log_probs.type)
    alone = log_probs.ndim == 2
    if alone:
        log_probs = ops.expand_dims(log_probs, 1)
        targets = ops.expand_dims(targets, 0)
    elif log_probs.ndim == 3 and targets.ndim == 1:
        targets = _padded(targets, target_lengths, log_probs.shape[1])
    if log_probs.ndim != 3 or targets.ndim != 2 or targets.shape[0] != log_probs.shape[1]:
        raise ShapeError(
            f"ctc_loss cannot take {log_probs.type} and {targets.type}",
            why="It takes log_probs [T, N, classes] and targets [N, S] or [sum(target_lengths)].",
            fix="change the shapes",
        )
    times, count, classes = log_probs.shape
    if isinstance(blank, bool) or not isinstance(blank, int) or not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss got blank {blank!r}", fix="give the number of a class")
    if times == 0:
        raise ShapeError("ctc_loss got no times", fix="give log_probs of one time at least")
    input_lengths = _lengths("input_lengths", input_lengths, count, times)
    target_lengths = _lengths("target_lengths", target_lengths, count, targets.shape[1])
    losses = _losses(log_probs, targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses = ops.where(losses == math.inf, 0.0, losses)
    if reduction == "mean":
        lengths = ops.astype(ops.maximum(target_lengths, 1), losses.dtype)
        return ops.mean(losses / lengths)
    if reduction == "sum":
        return ops.sum(losses)
    return losses[0] if alone else losses


def _padded(targets: Tensor, given: Any, count: int) -> Tensor:
    """``targets`` of one sequence after the other as [N, S], S being the greatest length."""
    total = targets.shape[0]
    lengths = _lengths("target_lengths", given, count, total)
    known = _values(given)
    if known is not None and sum(known) != total:
        raise ShapeError(
            f"ctc_loss cannot take {targets.type} as targets of {sum(known)} labels in all",
            why="In one dimension they are the labels of all sequences, one after the other.",
            fix="give sum(target_lengths) labels, or [N, S]",
        )
    size = total if known is None else max(known, default=0)  # total: at most as many as there are
    if not total:
        return ops.zeros((count, 0), dtype=targets.dtype)
    first = ops.cumulative_sum(lengths, axis=0) - lengths
    places = ops.expand_dims(first, 1) + ops.arange(size)
    return ops.take(targets, ops.clip(places, 0, total - 1), axis=0)


def _values(given: Any) -> list[int] | None:
    """The numbers in ``given``; None if only a run knows them."""
    if isinstance(given, Tensor):
        return None if current().traces else given.numpy().reshape(-1).tolist()
    return np.asarray(given).reshape(-1).tolist()


def _lengths(label: str, given: Any, count: int, most: int) -> Tensor:
    lengths = as_indices("ctc_loss", given)
    lengths = ops.reshape(lengths, (1,)) if lengths.ndim == 0 else lengths
    if lengths.shape != (count,):
        raise ShapeError(
            f"ctc_loss cannot take {lengths.type} as {label}",
            why=f"There is one for each of {count} sequences.",
            fix="change the shape",
        )
    for value in _values(given) or ():
        if not 0 <= value <= most:
            raise ArgumentError(
                f"ctc_loss got {value} among {label}", fix=f"give lengths from 0 to {most}"
            )
    return lengths


def _losses(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    """The forward recursion over labels with blanks between, before and behind them [N, 2 S + 1].

    ``alpha[s]`` is the logarithm of the probability of having passed label s of those last.
    """
    times, count, _ = log_probs.shape
    size, dtype = targets.shape[1], log_probs.dtype
    counted = ops.arange(size) < ops.reshape(target_lengths, (count, 1))
    labels = ops.where(counted, targets, blank)
    blanks = ops.full((count, size), blank, dtype=int64)
    pairs = ops.reshape(ops.stack([blanks, labels], axis=2), (count, 2 * size))
    states = ops.concat([pairs, ops.full((count, 1), blank, dtype=int64)], axis=1)
    width = 2 * size + 1
    # A blank between two labels may be left out if they differ.
    other = (states[:, 2:] != states[:, :-2]) & (states[:, 2:] != blank) if size else None
    never = [ops.full((count, n), _NEVER, dtype=dtype) for n in range(3)]
    wide = ops.broadcast_to(states, (times, count, width))
    emitted = ops.take_along_axis(log_probs, wide, axis=2)
    emitted = ops.maximum(emitted, _NEVER)
    first = ops.concat(
        [ops.zeros((count, 1), dtype=dtype), ops.full((count, width - 1), _NEVER, dtype=dtype)],
        axis=1,
    )

    def step(alpha: Tensor, row: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        chance, time = row
        ways = [alpha]
        if size:
            ways.append(ops.concat([never[1], alpha[:, :-1]], axis=1))
            skipped = ops.where(other, alpha[:, :-2], _NEVER)
            ways.append(ops.concat([never[2], skipped], axis=1))
        together = ops.logsumexp(ops.stack(ways), axis=0)
        going = ops.reshape(time < input_lengths, (count, 1))
        return ops.where(going, ops.maximum(together + chance, _NEVER), alpha), time

    alpha, _ = scan(step, first, (emitted, ops.arange(times)))
    last = ops.reshape(2 * target_lengths, (count, 1))
    ends = [ops.take_along_axis(alpha, last, axis=1)]
    label = ops.take_along_axis(alpha, ops.maximum(last - 1, 0), axis=1)
    ends.append(ops.where(last > 0, label, _NEVER))
    losses = -ops.reshape(ops.logsumexp(ops.concat(ends, axis=1), axis=1), (count,))
    return ops.where(losses > -0.5 * _NEVER, math.inf, losses)
