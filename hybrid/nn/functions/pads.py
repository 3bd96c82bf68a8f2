"""Padding of the last axes in PyTorch's order, and the modes that repeat elements."""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ops.support.operand_checks import as_int, as_tensor, require_choice, require_sequence

MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """``input`` with elements added before and after its last axes.

    ``pad`` has a pair (before, after) for each, the last axis first: ``(1, 2)`` adds one element
    before and two after the last axis; negative numbers take elements away.  They are ``value``
    (default 0), or with ``"reflect"`` those beside the edge mirrored at it, with ``"replicate"``
    the one at the edge, with ``"circular"`` those of the other end.
    """
    require_choice("mode", mode, MODES)
    x = as_tensor(input)
    pairs = _pairs(x, pad)
    if mode == "constant":
        return _constant(x, pairs, 0.0 if value is None else value)
    if value:
        raise ArgumentError(
            f'pad got value {value!r} and mode "{mode}"',
            why="Only constant padding has a value.",
            fix="leave it out",
        )
    for offset, (before, after) in enumerate(pairs):
        if before or after:
            x = _repeated(x, x.ndim - 1 - offset, before, after, mode)
    return x


def _pairs(x: Tensor, given: Any) -> list[tuple[int, int]]:
    """Pairs (before, after), the last axis first."""
    require_sequence("pad", "pad", given)
    widths = [as_int("pad", "width", n) for n in given]
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ArgumentError(
            f"pad got {len(widths)} widths {tuple(widths)} for {x.type}",
            why="There are two for each axis, beginning with the last one.",
            fix="give pairs (before, after) for as many axes as it has, or fewer",
        )
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    for (before, after), n in zip(pairs, reversed(x.shape), strict=False):
        if n + before + after < 0 or min(before, after) < -n:
            raise ShapeError(
                f"pad cannot take {-min(before, 0) - min(after, 0)} elements from {n} of {x.type}",
                fix="take fewer",
            )
    return pairs


def _constant(x: Tensor, pairs: list[tuple[int, int]], value: float) -> Tensor:
    if any(n < 0 for pair in pairs for n in pair):
        for offset, (before, after) in enumerate(pairs):
            x = _cut(x, x.ndim - 1 - offset, max(-before, 0), max(-after, 0))
    added = [(max(before, 0), max(after, 0)) for before, after in pairs]
    widths = [(0, 0)] * (x.ndim - len(added)) + added[::-1]
    return ops.pad(x, tuple(widths), constant_value=value)


def _cut(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    if not before and not after:
        return x
    return x[(slice(None),) * axis + (slice(before, x.shape[axis] - after),)]


def _repeated(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """``x`` with elements of its own added along ``axis``."""
    x = _cut(x, axis, max(-before, 0), max(-after, 0))
    before, after = max(before, 0), max(after, 0)
    n = x.shape[axis]
    most = {"reflect": n - 1, "replicate": max(before, after) if n else 0, "circular": n}[mode]
    if max(before, after) > most:
        raise ShapeError(
            f'pad cannot add {max(before, after)} elements to {n} with mode "{mode}"',
            why=f"There are {max(most, 0)} to repeat.",
            fix='add fewer, or use the mode "constant"',
        )

    def part(start: int, stop: int) -> Tensor:
        return x[(slice(None),) * axis + (slice(start, stop),)]

    def wide(edge: Tensor, count: int) -> Tensor:
        return ops.broadcast_to(edge, (*x.shape[:axis], count, *x.shape[axis + 1 :]))

    if mode == "reflect":
        head = ops.flip(part(1, before + 1), axis=axis)
        tail = ops.flip(part(n - 1 - after, n - 1), axis=axis)
    elif mode == "replicate":
        head, tail = wide(part(0, 1), before), wide(part(n - 1, n), after)
    else:
        head, tail = part(n - before, n), part(0, after)
    parts = ([head] if before else []) + [x] + ([tail] if after else [])
    return ops.concat(parts, axis=axis) if len(parts) > 1 else x
