"""Plans of open graphs: what an open capture runs at given sizes.

Passes and lowering see an open graph once for each *bucket*: the sizes at which they decide alike.
A plan for one more size of a bucket is bound in a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from hybrid.calls.bind.precomputed import fits
from hybrid.core.dataclass import cached_attribute, replace
from hybrid.core.sizes import OpenSizes
from hybrid.core.timing import phase
from hybrid.eager.fused_calls import optimized, optimized_parts, split
from hybrid.eager.tensor import make_tensor
from hybrid.ir import Graph
from hybrid.ir.bound_graphs import SizeBinding, TypesAt
from hybrid.plan import Plan, make_plan
from hybrid.plan.open_plan import OpenPlan
from hybrid.trace.capture.captured_graph import Backward, Capture, LazyGraph, Plans

_MOST = 32  # buckets of a graph: the plans of further sizes are made of bound graphs
_SCALE = 2  # bits: schedules are made for sizes within a factor of 4


class Bucket(NamedTuple):
    """The sizes at which passes and lowering decide alike, and the plan for all of them."""

    sizes: OpenSizes
    plan: OpenPlan
    cells: tuple[int, ...]  # that are computed ahead
    early: Plan | None


class OpenPlans:
    """The plans of an open graph."""

    def __init__(
        self, graph: Graph, sizes: OpenSizes, fixed: Collection[int] = (), *, fast: bool = False,
        scale: int = _SCALE, top: int = 64,
    ) -> None:  # fmt: skip
        """``fixed`` are the parameters that stay the same from run to run.

        A schedule is made for sizes within a factor of 2 to the power of ``scale``, and one for all
        from 2 to the power of ``top`` on.
        """
        self.graph, self.sizes, self.fixed, self.fast = graph, sizes, fixed, fast
        self._scale, self._top = scale, top
        self._buckets: list[Bucket] = []
        self._early: dict[tuple[str, tuple[int, ...]], Plan] = {}  # by its graph

    def at(self, values: Sequence[int]) -> Plans:
        """The plan at ``values`` of the symbols, and what is computed ahead for it."""
        bucket = self.bucket(values)
        if bucket is None:
            if len(self._buckets) == _MOST:
                graph = SizeBinding(self.sizes, values).graph(self.graph)
                return optimized_parts(graph, (), fast=self.fast)
            bucket = self.new_bucket(values)
        with phase("bind sizes"):
            return bucket.plan.bound(values), bucket.cells, bucket.early

    def bucket(self, values: Sequence[int]) -> Bucket | None:
        """The bucket of ``values`` there is."""
        return next((bucket for bucket in self._buckets if bucket.sizes.holds(values)), None)

    def new_bucket(self, values: Sequence[int]) -> Bucket:
        """One more bucket, which ``values`` are in."""
        sizes = OpenSizes()
        symbols = [
            sizes.symbol(symbol.name, value, symbol.low, symbol.high)
            for symbol, value in zip(self.sizes.symbols, values, strict=True)
        ]
        graph = SizeBinding(self.sizes, symbols).graph(self.graph)
        rest, parts = split(graph, self.fixed, fast=self.fast)
        early = None
        if parts is not None:
            ahead = SizeBinding(sizes, values).graph(parts.graph)
            key = str(ahead), parts.params
            early = self._early.get(key) or make_plan(ahead)
            if fits(early):
                self._early[key] = early
            else:
                rest, parts, early = optimized(graph, fast=self.fast), None, None
        plan = OpenPlan(rest, sizes)
        if plan.lowered.count > 1:  # which costs have been weighed for
            for symbol, value in zip(symbols, values, strict=True):
                least = max(value.bit_length() - 1, 0) // self._scale * self._scale
                _ = symbol >= 1 << min(least, self._top)
                if least < self._top:
                    _ = symbol < 1 << min(least + self._scale, self._top)
        bucket = Bucket(sizes, plan, () if parts is None else parts.params, early)
        self._buckets.append(bucket)
        return bucket


class BoundCaptures:
    """An open capture as captures for sizes that are given."""

    def __init__(self, capture: Capture, sizes: OpenSizes, *, fast: bool = False) -> None:
        self.capture, self.sizes, self.fast = capture, sizes, fast
        self._backward: OpenPlans | None = None

    @cached_attribute
    def _resized(self) -> frozenset[int]:
        """The results that have other sizes at other calls."""
        results = self.capture.graph.results
        return frozenset([i for i, v in enumerate(results) if v.type.is_open])

    @cached_attribute
    def _types(self) -> TypesAt:
        """The types of the inputs, and of what places have held."""
        inputs = [v.type for v in self.capture.graph.params]
        read = [was.type for _, was in self.capture.place_reads if was is not None]
        return TypesAt(self.sizes, [*inputs, *read])

    @cached_attribute
    def _types_back(self) -> TypesAt:
        """The types of the inputs of the way back."""
        assert self.capture.gradient is not None
        params = self.capture.gradient.backward.graph.params
        return TypesAt(self.sizes, [v.type for v in params])

    def at(self, values: Sequence[int], plans: Plans | None) -> Capture:
        """The capture as one for ``values`` of the symbols alone, with its ``plans``."""
        capture = self.capture
        types, count = self._types.at(values), len(capture.graph.params)

        def bound() -> Any:
            binding = SizeBinding(self.sizes, values)
            graph, recorded = binding.graph(capture.graph), capture.recorded
            if recorded is not None:
                recorded = frozenset([binding.made[v] for v in recorded if v in binding.made])
            return graph, recorded

        lazy = LazyGraph(lambda: types[:count], bound)
        gradient = capture.gradient
        if gradient is not None:
            gradient = replace(gradient, backward=self._back(gradient.backward, values), further={})
        read = iter(types[count:])
        reads = [
            (address, was if was is None else make_tensor(next(read), None))
            for address, was in capture.place_reads
        ]
        return replace(
            capture, stored_graph=lazy, gradient=gradient, place_reads=reads, firsts=None,
            plans=plans, resized=self._resized,
        )  # fmt: skip

    def _back(self, backward: Backward, values: Sequence[int]) -> Backward:
        """``backward`` at ``values``; its graph and its plan are made when they are needed."""

        def plan() -> Plan:
            if self._backward is None:
                self._backward = OpenPlans(backward.graph, self.sizes, fast=self.fast)
            return self._backward.at(values)[0]

        def graph() -> Any:
            return SizeBinding(self.sizes, values).graph(backward.graph), None

        lazy = LazyGraph(lambda: self._types_back.at(values), graph)
        return replace(backward, stored_graph=lazy, plan=plan)
