"""Integers of few bits, side by side in bytes: pack and unpack."""

from __future__ import annotations

from typing import Any

from hybrid.core.types import int8, uint8
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.ops.elementwise.bit_logic import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from hybrid.ops.shapes.concatenation import pad_constant, stack
from hybrid.ops.shapes.shape import region, reshape_to
from hybrid.ops.support.dtypes import cast
from hybrid.ops.support.operand_checks import as_int, as_tensor, type_of

WIDTHS = (2, 4)  # bits that divide a byte, and are fewer


def pack(q: Any, bits: int = 4) -> Any:
    """The lower ``bits`` (2 or 4) of integers ``q`` [..., n]: uint8 [..., n / per], rounded up.

    The first of the ``per = 8 / bits`` integers of a byte lies in its lowest bits; what is missing
    in the last byte is 0.  Signed integers are in two's complement.
    """
    per = _per_byte("pack", bits)
    q = as_tensor(q)
    if not q.dtype.is_integer or not q.shape:
        raise DTypeError(
            f"pack cannot take {type_of(q)}", why="It takes [..., n].", fix="give integers"
        )
    mask = (1 << bits) - 1
    small = cast(bitwise_and(q, mask), dtype=uint8)
    count = -(-q.shape[-1] // per)
    missing = count * per - q.shape[-1]
    if missing:
        lead = ((0, 0),) * (len(q.shape) - 1)
        small = pad_constant(small, widths=(*lead, (0, missing)), value=0)
    packed = _every(small, count, 0, per)
    for place in range(1, per):
        moved = bitwise_left_shift(_every(small, count, place, per), bits * place)
        packed = bitwise_or(packed, moved)
    return packed


def unpack(p: Any, size: int, bits: int = 4, signed: bool = True) -> Any:
    """The ``size`` integers along the last axis that ``pack`` has put in ``p``: int8, or uint8.

    ``signed`` ones are in two's complement: -8 to 7 of 4 bits; others are 0 to 15.
    """
    per = _per_byte("unpack", bits)
    p = as_tensor(p)
    size = as_int("unpack", "size", size, least=0)
    if p.dtype is not uint8 or not p.shape:
        raise DTypeError(
            f"unpack cannot take {type_of(p)}", why="It takes [..., n].", fix="give uint8"
        )
    count = p.shape[-1]
    if -(-size // per) != count:
        raise ShapeError(
            f"unpack cannot take {size} integers of {bits} bits out of {type_of(p)}",
            why=f"A byte has {per} of them.",
            fix="give the size that was packed",
        )
    mask = (1 << bits) - 1
    parts = [bitwise_and(p, mask)]
    for place in range(1, per):
        parts.append(bitwise_and(bitwise_right_shift(p, bits * place), mask))
    whole = reshape_to(stack(parts, axis=-1), shape=(*p.shape[:-1], count * per))
    if count * per != size:
        start, step = (0,) * len(p.shape), (1,) * len(p.shape)
        whole = region(whole, start=start, size=(*p.shape[:-1], size), step=step)
    if not signed:
        return whole
    half = 1 << (bits - 1)
    return cast(bitwise_xor(whole, half), dtype=int8) - half


def _every(x: Any, count: int, first: int, step: int) -> Any:
    """``count`` elements of the last axis, ``step`` apart."""
    lead = (0,) * (len(x.shape) - 1)
    ones = (1,) * len(lead)
    return region(
        x, start=(*lead, first if count else 0), size=(*x.shape[:-1], count), step=(*ones, step)
    )


def _per_byte(name: str, bits: Any) -> int:
    if type(bits) is not int or bits not in WIDTHS:
        raise ArgumentError(f"{name} got bits {bits!r}", fix="give 2 or 4")
    return 8 // bits
