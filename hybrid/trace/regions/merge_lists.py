"""Merge of lists of different lengths: items of one path alone become a VarList.

::

    where the condition holds: [a, b]        where it does not: [a]
    after it:                  [a, VarList of one b, or of none]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hybrid import ops
from hybrid.core.dataclass import replace
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.trace.places.code_owner import ATOMS
from hybrid.trace.places.place import DivergedContent
from hybrid.trace.values.traced_text import Text
from hybrid.trace.values.varlist import Column, VarList, unwritten

if TYPE_CHECKING:
    from hybrid.trace.regions.merge import Merge, Side
    from hybrid.trace.regions.tracer import Tracer

Build = Callable[[Sequence[Tensor]], Any]


def merged_lists(merge: Merge, a: list[Any], b: list[Any], name: str) -> Build:
    """The builder of a list that is ``a`` on the first path and ``b`` on the second."""
    for item in (*a, *b):
        if type(item) is DivergedContent:
            return lambda results: [item]
    first, second = merge.first, merge.second
    front = _alike(a, b)
    back = _alike(a[front:][::-1], b[front:][::-1])
    of_a, of_b = a[front : len(a) - back], b[front : len(b) - back]
    parts: list[Build] = []
    if not any(type(item) is VarList for item in (*of_a, *of_b)):
        count = min(len(of_a), len(of_b))
        for i in range(count):
            parts.append(merge.tree(of_a[i], of_b[i], f"{name}[{front + i}]"))
        of_a, of_b = of_a[count:], of_b[count:]
    for items, side, other in ((of_a, first, second), (of_b, second, first)):
        for item in items:
            if not _can_be_optional(item, side):
                merge.refuse(a, b, name)
            parts.append(optional(merge, side, other, item))
    return lambda results: [
        *a[:front], *[part(results) for part in parts], *a[len(a) - back :]
    ]  # fmt: skip


def chosen_list(
    flag: Tensor, a: list[Any], b: list[Any], owner: Tracer, at: Location | None
) -> list[Any]:
    """The list of the items of ``a`` if ``flag`` holds, else of ``b``, as values of ``owner``."""
    with interpreting(owner):
        first = ops.astype(flag, "int64")
        second = ops.subtract(1, first)
        return [
            *[_counted(item, first, owner, at) for item in a],
            *[_counted(item, second, owner, at) for item in b],
        ]


def _counted(item: Any, times: Tensor, owner: Tracer, at: Location | None) -> VarList:
    """``item`` as often as ``times`` says: once or not at all."""
    if type(item) is VarList:
        count = Number("int", ops.multiply(item.count.tensor, times), 0, item.count.high)
        return replace(item, count=count)
    leaves, structure = flatten(item)
    columns = tuple([_column_of_one(leaf, owner) for leaf in leaves])
    return VarList(
        count=Number("int", times, 0, 1),
        columns=columns,
        structure=structure,
        capacity=1,
        at=at,
        owner=owner,
        fits=True,
    )


def _column_of_one(leaf: Any, owner: Tracer) -> Any:
    if isinstance(leaf, Number):
        return Column(ops.expand_dims(leaf.tensor, 0), leaf.kind)
    if isinstance(leaf, Tensor) and owner.owns(leaf):
        return Column(ops.expand_dims(leaf, 0))
    return leaf


def _alike(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many items at the front are the same."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x is not y:
            break
        count += 1
    return count


def _can_be_optional(item: Any, side: Side) -> bool:
    if type(item) is VarList:
        return True
    return all(
        type(leaf) is not Text
        and (isinstance(leaf, (Tensor, Number, *ATOMS)) or side.region.is_outside(leaf))
        for leaf in flatten(item)[0]
    )


def optional(merge: Merge, side: Side, other: Side, item: Any) -> Build:
    """The builder of the VarList for ``item``, which is there on ``side`` only."""
    return _Optional(merge, side, other).part(item)


class _Optional:
    """Items that are there on one ``side`` only."""

    def __init__(self, merge: Merge, side: Side, other: Side) -> None:
        self.merge, self.side, self.other = merge, side, other
        self.owner = side.region.parent

    def part(self, item: Any) -> Build:
        """What builds that which stands for ``item``."""
        if type(item) is VarList:
            columns = [self._shared(leaf) for leaf in item.columns]
            places = [self._filled(t) for t in item.tensors()]

            def built(results: Sequence[Tensor]) -> VarList:
                made = item.with_tensors([results[i] for i in places], self.owner)
                pairs = zip(made.columns, columns, strict=True)
                return replace(
                    made, columns=tuple([c if b is None else b(results) for c, b in pairs])
                )

            return built
        leaves, structure = flatten(item)
        count = self._number(1)
        found = [self._column(leaf) for leaf in leaves]

        def build(results: Sequence[Tensor]) -> VarList:
            columns = [
                leaf if made is None else made(results)
                for leaf, made in zip(leaves, found, strict=True)
            ]
            there = Number("int", results[count], 0, 1)
            return VarList(
                count=there,
                columns=tuple(columns),
                structure=structure,
                capacity=1,
                at=self.merge.at,
                owner=self.owner,
                fits=True,
            )

        return build

    def _shared(self, leaf: Any) -> Build | None:
        """What makes a tensor of this path, which all items share; None for any other."""
        if not isinstance(leaf, Tensor) or not self.side.region.owns(leaf):
            return None
        return self.merge.filled(leaf, self.side, self.other)

    def _column(self, leaf: Any) -> Build | None:
        """What makes the column of a leaf; None for what is the same on all paths.

        A tensor stays itself, and no row of a stack: to gradients it is what it was on this path.
        """
        region = self.side.region
        if isinstance(leaf, Number):
            with interpreting(region):
                stack = region.traced(ops.expand_dims(region.traced(leaf.tensor), 0))
            number = self._filled(stack)
            return lambda results: Column(results[number], leaf.kind)
        return self._shared(leaf)

    def _number(self, value: int) -> int:
        with interpreting(self.side.region):
            count = self.side.region.traced(ops.full((), value, dtype="int64"))
        return self._filled(count)

    def _filled(self, tensor: Tensor) -> int:
        """The result that is ``tensor`` on this path, and nothing on the other."""
        with interpreting(self.side.region):
            mine = self.side.region.traced(tensor)
        with interpreting(self.other.region):
            filler = self.other.region.traced(unwritten(mine))
        pair = (mine, filler) if self.side is self.merge.first else (filler, mine)
        return self.merge.pair(*pair)
