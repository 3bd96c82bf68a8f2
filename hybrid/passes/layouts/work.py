"""Work: what one rank does, written into a graph; how parts of tensors become other parts.

Before, of ranks that have rows of ``x`` and need columns::    After::

    %y = f %x                                                     %c = all_to_all ...
                                                                  %y = f %c
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.layouts import PARTIAL, Held, MeshAxis, Placement, Split, nothing_of, part_of
from hybrid.core.types import STORED, TensorType, float32, int64
from hybrid.ir import Builder, Node, Op, Value, get_op
from hybrid.ir.interpreter import apart


class Work:
    """The interpreter under which an op call is a node of the graph of one rank.

    Rules of ops (``op.shares``) get it for what the ranks along ``axis`` ask each other.
    """

    traces = False

    def __init__(self, builder: Builder, axis: MeshAxis) -> None:
        self.builder, self.axis = builder, axis
        self.moved: list[tuple[str, TensorType, Any]] = []  # collectives: op, operand, where

    def apply(
        self, op: Op, operands: Sequence[Value], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        made = self.builder.apply(op, operands, attrs, regions=regions)
        if op.communicates:
            self.moved.append((op.name, operands[0].type, self.builder.location))
        return made[0] if len(made) == 1 else made

    def call(self, name: str, *operands: Value, **attrs: Any) -> Any:
        """The result of the op called ``name``."""
        return self.apply(get_op(name), operands, attrs)

    def _collective(self, name: str, x: Value) -> Value:
        return self.call(name, x, comm=self.axis.comm, ranks=self.axis.ranks)

    # What rules ask for -----------------------------------------------------------------------

    def number(self, value: float, like: Value) -> Value:
        """A constant of the dtype of ``like``."""
        return self.call("full", shape=(), value=value, dtype=like.type.dtype)

    def _summed(self, name: str, x: Value) -> Value:
        dtype = x.type.dtype
        if dtype not in STORED:
            return self._collective(name, x)
        found = self._collective(name, self.call("cast", x, dtype=float32))
        return self.call("cast", found, dtype=dtype)

    def sum(self, x: Value) -> Value:
        """The sum of what the ranks have, on each of them."""
        return self._summed("all_reduce", x)

    def mean(self, x: Value) -> Value:
        """The mean of what the ranks have."""
        return self.call("divide", self.sum(x), self.number(self.axis.ranks, x))

    def joined(self, reduce: Op, x: Value) -> Value:
        """What the ranks have, reduced element by element: the largest, say."""
        rows = self.call("reshape", x, shape=(1, *x.type.shape))
        every = self._collective("all_gather", rows)
        return self.apply(reduce, (every,), {"axis": (0,), "keepdims": False})

    def own_indices(self, indices: Value, size: int) -> tuple[Value, Value]:
        """Which ``indices`` are of this rank's ``size`` of them, and which of these; 0 for others.

        Negative ones count from the end of all.
        """
        zero = self.number(0, indices)
        whole, first = size * self.axis.ranks, size * self.axis.rank
        wrapped = self.call("add", indices, self.number(whole, indices))
        indices = self.call("where", self.call("less", indices, zero), wrapped, indices)
        own = self.call("subtract", indices, self.number(first, indices))
        behind = self.call("greater_equal", own, zero)
        before = self.call("less", own, self.number(size, indices))
        inside = self.call("logical_and", behind, before)
        return inside, self.call("where", inside, own, zero)

    def check_indices(self, indices: Value, size: int) -> None:
        """Let a run fail where one of ``indices`` is in no rank's ``size`` of them."""
        one = self.call("full", shape=(), value=0, dtype=int64)
        table = self.call("broadcast_to", one, shape=(size * self.axis.ranks,))
        flat = indices
        if indices.type.rank != 1:
            flat = self.call("reshape", indices, shape=(indices.type.size,))
        self.call("take", table, flat, axis=0)

    # From one placement to another ------------------------------------------------------------

    def constant(self, node: Node, then: Placement) -> Value:
        """What ``node``, which fills a tensor with one number, is to this rank."""
        given = dict(node.attrs)
        if then == PARTIAL and self.axis.rank:
            given["value"] = 0
        given["shape"] = part_of(node.results[0].type, then, self.axis).shape
        return self.apply(node.op, (), given)

    def moved_to(self, x: Value, now: Placement, then: Placement, type: TensorType) -> Value:
        """``x``, of which this rank has what ``now`` says, as ``then`` says.

        ``type`` is that of the whole.
        """
        if now == then:
            return x
        with apart(self):
            if isinstance(now, Held):
                every = self.sent_to_all(x, now.rank, type)
                return self.moved_to(every, None, then, type)
            if isinstance(then, Held):
                every = self.moved_to(x, now, None, type)
                return every if self.axis.rank == then.rank else self.nothing(type)
            if then is None:
                return self.sum(x) if now == PARTIAL else self._gathered(x, now)
            if now is None:
                return self._term(x) if then == PARTIAL else self._part(x, then)
            if then == PARTIAL:
                return self._term(self._gathered(x, now))
            return self._scattered(x, then) if now == PARTIAL else self._exchanged(x, now, then)

    def nothing(self, type: TensorType) -> Value:
        """What this rank has of a tensor that another one holds."""
        return self.call("full", shape=nothing_of(type).shape, value=0, dtype=type.dtype)

    def sent_to_all(self, x: Value | None, rank: int, type: TensorType) -> Value:
        """What ``rank`` alone has, ``x`` there, on each rank."""
        if x is None or self.axis.rank != rank:
            x = self.call("full", shape=type.shape, value=0, dtype=type.dtype)
        axis = self.axis
        return self.call("broadcast", x, root=rank, comm=axis.comm, ranks=axis.ranks)

    def _term(self, x: Value) -> Value:
        """One rank has all of it, the others zeros."""
        if self.axis.rank == 0:
            return x
        return self.call("full", shape=x.type.shape, value=0, dtype=x.type.dtype)

    def _apart(self, x: Value, split: Split, own: bool) -> tuple[Value, int]:
        """``x`` with an axis of the ranks' blocks, and which one: of size 1 if it is one's ``own``.

        [..., outer * ranks * inner, ...] -> [..., outer, ranks, inner, ...]
        """
        shape, axis = x.type.shape, split.axis
        ranks = 1 if own else self.axis.ranks
        inner = shape[axis] // (split.outer * ranks)
        wide = (*shape[:axis], split.outer, ranks, inner, *shape[axis + 1 :])
        return self.call("reshape", x, shape=wide), axis + 1

    def _to(self, x: Value, source: int, target: int) -> Value:
        axes = [axis for axis in range(x.type.rank) if axis != source]
        axes.insert(target, source)
        return self.call("permute_dims", x, axes=tuple(axes))

    def _flat(self, x: Value, axis: int) -> Value:
        """``x`` with the three axes round ``axis`` as one again."""
        shape = x.type.shape
        size = shape[axis - 1] * shape[axis] * shape[axis + 1]
        return self.call("reshape", x, shape=(*shape[: axis - 1], size, *shape[axis + 2 :]))

    def _part(self, x: Value, split: Split) -> Value:
        wide, axis = self._apart(x, split, False)
        rank = wide.type.rank
        start = tuple([self.axis.rank if i == axis else 0 for i in range(rank)])
        size = tuple([1 if i == axis else n for i, n in enumerate(wide.type.shape)])
        mine = self.call("slice", wide, start=start, size=size, step=(1,) * rank)
        return self._flat(mine, axis)

    def _gathered(self, x: Value, split: Split) -> Value:
        wide, axis = self._apart(x, split, True)
        every = self._collective("all_gather", self._to(wide, axis, 0))
        return self._flat(self._to(every, 0, axis), axis)

    def joined_parts(self, parts: Sequence[Value], split: Split) -> Value:
        """The whole of parts that are all at hand."""
        if split.outer == 1:
            return self.call("concat", *parts, axis=split.axis)
        wide = [self._apart(part, split, True)[0] for part in parts]
        return self._flat(self.call("concat", *wide, axis=split.axis + 1), split.axis + 1)

    def _scattered(self, x: Value, split: Split) -> Value:
        wide, axis = self._apart(x, split, False)
        mine = self._summed("reduce_scatter", self._to(wide, axis, 0))
        return self._flat(self._to(mine, 0, axis), axis)

    def _exchanged(self, x: Value, now: Split, then: Split) -> Value:
        if now.axis == then.axis:  # other blocks of it
            return self._part(self._gathered(x, now), then)
        wide, axis = self._apart(x, then, False)
        parts = self._to(wide, axis, 0)  # [ranks, ..., outer, inner, ...]
        shape, at = parts.type.shape, then.axis + 1
        parts = self.call(
            "reshape", parts, shape=(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        )
        found = self._collective("all_to_all", parts)  # [sender, ...]
        shape, at = found.type.shape, now.axis + 1
        blocks = (now.outer, shape[at] // now.outer)
        found = self.call("reshape", found, shape=(*shape[:at], *blocks, *shape[at + 1 :]))
        return self._flat(self._to(found, 0, at), at)
