"""Open launches: op calls that are remembered for all sizes of their operands.

::

    f32[20,16], f32[12,16]        the first call of matmul_nt: a launch of these types
    f32[21,16], f32[12,16]        the next: one launch for f32[m,k], f32[n,k], all from 2 on
    f32[22,16], f32[12,16]        which serves all that follow

Calls that do not meet what it asks of sizes (see open_code.py) get a launch of their own.  Types
that come again and again get one, too, which is found sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.types import TensorType
from hybrid.eager.launch import launch_of, remember
from hybrid.eager.open_code import OpenCode, Run, is_open_size
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op
from hybrid.ir.op import SIZE_ATTRIBUTES
from hybrid.memory import native

MAX_KINDS = 1024  # of one op
MAX_VARIANTS = 8  # of a kind: sets of sizes at which it is lowered alike
COUNTED = 3  # one of so many calls
MEETINGS = 5  # of types that are counted, before these get a launch of their own
MAX_COUNTED = 2048  # types whose meetings are counted


class Kind:
    """Calls of one op that differ in sizes of 2 and more alone."""

    __slots__ = ("attempts", "calls", "counts", "variants")

    def __init__(self) -> None:
        self.variants: list[Run] = []
        self.attempts = self.calls = 0
        self.counts: dict[Any, int] = {}  # meetings of types, of which some are counted

    def comes_often(self, types: Any) -> bool:
        """Count a call of ``types``; whether these are to have a launch of their own."""
        counts = self.counts
        met = counts.get(types, 0) + 1
        if len(counts) >= MAX_COUNTED:
            counts.clear()
        counts[types] = met
        return met >= MEETINGS


def run_open(
    op: Op, types: tuple[TensorType, ...], attrs: tuple, operands: Sequence[Tensor]
) -> tuple[Tensor, ...] | None:
    """The results of ``op`` by an open launch; None where the call is to have a launch of its own.

    None is also the answer where the call raises: the general way says why.
    """
    sizes: list[int] = []
    if attrs:
        kind = op.open_launches.get(key_of_call(op, types, attrs, sizes))
    else:
        kind = op.open_launches.get(tuple([t.kind for t in types]))
    if kind is None or native.profiling:  # a profile tells steps apart by their plans
        return None
    kind.calls += 1
    if kind.calls % COUNTED == 0:
        own = (types, attrs) if attrs else types
        if kind.comes_often(own):
            return remember(op, own, launch_of(op, types, attrs)).run(operands)
    for variant in kind.variants:
        results = variant(operands, sizes)
        if results is not None:
            return results
    if kind.attempts >= MAX_VARIANTS:
        return None
    kind.attempts += 1
    made = make_variant(op, types, attrs)
    if made is None:
        return None
    results = made(operands, sizes)
    if results is not None:
        kind.variants.append(made)
    return results


def note_kind(op: Op, types: tuple[TensorType, ...], attrs: tuple) -> None:
    """Let later calls of ``op`` that differ from this one in sizes alone have open launches."""
    if op.opens is None:
        op.opens = opens(op)
    if not op.opens or any([t.kind < 0 for t in types]):
        return
    key = key_of_call(op, types, attrs, [])
    if key not in op.open_launches:
        if len(op.open_launches) >= MAX_KINDS:
            op.open_launches.clear()
        op.open_launches[key] = Kind()


def key_of_call(op: Op, types: Sequence[TensorType], attrs: tuple, sizes: list[int]) -> Any:
    """What calls have in common that differ in sizes alone; those of attributes join ``sizes``."""
    kinds = tuple([t.kind for t in types])
    if not attrs:
        return kinds
    if op.sized:
        attrs = tuple([(name, _pattern(name, value, sizes)) for name, value in attrs])
    return kinds, attrs


def opens(op: Op) -> bool:
    """Whether ``op`` can have open launches: kernels compute it, of what it is given alone.

    The result of ``laid_out`` has another type than it says where ranks share it.
    """
    computed = op.view_rule or op.lowering_rule or op.kernel
    special = op.has_regions or op.hosted or op.inline or op.communicates
    special = special or op.name in ("literal", "laid_out")
    return bool(computed and op.pure and not special)


def _pattern(name: str, value: Any, sizes: list[int]) -> Any:
    """``value`` with 2 for all sizes that get symbols, which are added to ``sizes``."""
    if name not in SIZE_ATTRIBUTES:
        return value
    if type(value) is tuple:
        return tuple([_pattern(name, item, sizes) for item in value])
    if is_open_size(value):
        sizes.append(value)
        return 2
    return value


def make_variant(op: Op, types: Sequence[TensorType], attrs: tuple) -> Run | None:
    """The open launch of ``op`` that serves a call of these types; None if there can be none."""
    code = OpenCode(types)
    try:
        attrs = tuple([(name, code.attribute(name, value)) for name, value in attrs])
        names = code.call(op, [f"a{i}" for i in range(len(types))], code.types, attrs)
        return code.finish(f"({''.join([f'{name}, ' for name in names])})")
    except UNOPENED:
        return None


# What rules raise that take no symbols; the mistakes of a call are raised by the general way.
UNOPENED = (Exception,)
