"""Optional cotangents: those of values that a branch not taken would have used.

Eagerly a value that nothing used gets no cotangent, and nothing flows back from it; a graph has to
decide that while it runs.  An ``OptionalCt`` is a cotangent with a flag that says whether it is
there.  Where it is not, it must not count: not as a NaN (0 times the infinite slope of a square
root), and not as a zero (-0.0 + 0.0 is 0.0).  The one number that adds nothing to any float is
-0.0.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType, bool_
from hybrid.eager.batched_value import is_known
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Value
from hybrid.ir.interpreter import current
from hybrid.ops.flow.control import cond


@dataclass(frozen=True, slots=True, eq=False)
class OptionalCt:
    """A cotangent that counts where ``present`` (a bool scalar) holds."""

    ct: Tensor
    present: Tensor
    neutral: bool  # whether ``ct`` is -0.0 throughout where it is not present

    @property
    def type(self) -> TensorType:
        return self.ct.type


Ct = Tensor | OptionalCt


def optional_ct(ct: Tensor, present: Tensor | bool, neutral: bool) -> Ct | None:
    """``ct`` as an optional cotangent; just ``ct``, or None, where ``present`` is known."""
    if not isinstance(present, bool) and is_known(present):
        present = bool(present.item())
    if isinstance(present, bool):
        return ct if present else None
    return OptionalCt(ct, present, neutral)


def nothing(type: TensorType) -> Tensor:
    """The neutral element of addition: a tensor of -0.0 throughout."""
    return ops.full(type.shape, -0.0, dtype=type.dtype)


def plain(ct: Ct | None) -> Tensor | None:
    """The cotangent as a tensor: zeros where it is not present."""
    if not isinstance(ct, OptionalCt):
        return ct
    return chosen(ct.present, ct.ct, ops.zeros(ct.type.shape, dtype=ct.type.dtype))


def neutral(ct: Ct) -> Tensor:
    """The cotangent as a tensor: -0.0 where it is not present."""
    if not isinstance(ct, OptionalCt):
        return ct
    return ct.ct if ct.neutral else chosen(ct.present, ct.ct, nothing(ct.type))


def chosen(present: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``a`` if the scalar ``present`` holds, else ``b``.

    A cond, not a where: whoever differentiates it gets no cotangent at all for the other one.
    """
    return current().apply(cond, (present, a, b), {}, _choice(a.type))


def _choice(type: TensorType) -> tuple[Graph, Graph]:
    """Regions that give one of two values; those of an open type are of one capture."""
    return _regions(type) if type.is_open else _remembered_regions(type)


def _regions(type: TensorType) -> tuple[Graph, Graph]:
    a, b = Value(type, "a"), Value(type, "b")
    return Graph("then", (a, b), (), (a,)), Graph("else", (a, b), (), (b,))


_remembered_regions = functools.lru_cache(1024)(_regions)  # launches know regions by identity


def added(first: Ct, second: Ct) -> Ct:
    """The sum of two optional cotangents, ``first`` having arrived first."""
    total = neutral(first) + neutral(second)
    if not (isinstance(first, OptionalCt) and isinstance(second, OptionalCt)):
        return total
    return OptionalCt(total, disjoined(first.present, second.present), True)


def chosen_ct(holds: Tensor | bool, a: Ct | None, b: Ct | None) -> Ct | None:
    """``a`` if the scalar ``holds``, else ``b``."""
    if not isinstance(holds, bool) and is_known(holds):
        holds = bool(holds.item())
    if isinstance(holds, bool):
        return a if holds else b
    if a is None and b is None:
        return None
    type = (b if a is None else a).type
    ct = chosen(holds, *[nothing(type) if c is None else neutral(c) for c in (a, b)])
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return ct
    flags = [c.present if isinstance(c, OptionalCt) else flag(c is not None) for c in (a, b)]
    return OptionalCt(ct, chosen(holds, *flags), True)


def disjoined(a: Tensor, b: Tensor) -> Tensor:
    """The flag that one of two bool scalars holds."""
    return a if a is b or a.content is b.content else ops.logical_or(a, b)


def presence_of(cts: Sequence[Ct | None]) -> Tensor | None:
    """The flag that one of ``cts`` is present; None when one is for sure."""
    found: Tensor | None = None
    for ct in cts:
        if isinstance(ct, OptionalCt):
            found = ct.present if found is None else disjoined(found, ct.present)
        elif ct is not None:
            return None
    return found


def flag(value: bool) -> Tensor:
    """A bool scalar of this value."""
    return ops.full((), value, dtype=bool_)


def marked(ct: Any, present: Tensor | None) -> Any:
    """``ct`` as an optional cotangent that counts where ``present`` holds (None: always)."""
    if ct is None or present is None:
        return ct
    if isinstance(ct, OptionalCt):
        present = ops.logical_and(ct.present, present)
        ct = ct.ct
    return OptionalCt(ct, present, neutral=False)
