"""Counting: which modules a call goes through, and what the ops in each of them cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.types import TensorType
from hybrid.eager.fused_calls import Noting
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op
from hybrid.nn.modules.module import Module

Types = Sequence[TensorType]


def _scores(q: TensorType, k: TensorType) -> int:
    """How many pairs of a query [..., L, E] and a key [..., S, E] of attention there are."""
    return math.prod(q.shape[:-1]) * k.shape[-2]


# For each pair a factor and a share of softmax; then a sum with the mask; then a factor of dropout.
_ATTENTION = {"attention": 6, "attention_masked": 7, "attention_dropped": 8}
# Floating-point operations of a call, by op: (operands, results, attributes) -> count.  A product
# of [m, k] and [k, n] has 2 m k n, half of them additions; a pool one per element of its windows.
RULES: dict[str, Callable[[Types, Types, dict[str, Any]], int]] = {
    "matmul": lambda given, made, _: 2 * made[0].size * given[0].shape[-1],
    "matmul_nt": lambda given, made, _: 2 * made[0].size * given[0].shape[-1],
    "matmul_tn": lambda given, made, _: 2 * made[0].size * given[0].shape[-2],
    "matmul_integer": lambda given, made, _: 2 * made[0].size * given[0].shape[-1],
    **dict.fromkeys(
        ("matmul_grouped", "matmul_grouped_integer"),
        lambda given, made, _: 2 * made[0].size * given[0].shape[-1],
    ),
    "matmul_integer_nt": lambda given, made, _: 2 * made[0].size * given[0].shape[-1],
    # The size of each element, and a maximum; a division, rounded and clipped.
    "quantize_rows": lambda given, made, _: 5 * given[0].size,
    "quantize": lambda _, made, __: 4 * made[0].size,  # with a sum
    "scale_sums": lambda _, made, __: 3 * made[0].size,
    "conv": lambda given, made, _: 2 * made[0].size * math.prod(given[1].shape[1:]),
    "conv_integer": lambda given, made, _: 2 * made[0].size * math.prod(given[1].shape[1:]),
    "conv_transpose": lambda given, made, _: 2 * given[0].size * math.prod(given[1].shape[1:]),
    # Two products forward and five backward.
    **{
        name: lambda given, made, _, more=more: (
            _scores(*given[:2]) * (2 * (given[0].shape[-1] + made[0].shape[-1]) + more)
        )
        for name, more in _ATTENTION.items()
    },
    **{
        f"{name}_pull": lambda given, _, __, more=more: (
            _scores(*given[3:5]) * (6 * given[3].shape[-1] + 4 * given[5].shape[-1] + more)
        )
        for name, more in _ATTENTION.items()
    },
    "max_pool": lambda _, made, attrs: made[0].size * math.prod(attrs["kernel"]),
    "avg_pool": lambda _, made, attrs: made[0].size * math.prod(attrs["kernel"]),
}
# Those of which each element of the operand takes several: a softmax is a maximum, a difference, an
# exponential, a sum and a quotient.
PER_ELEMENT = {"softmax": 5, "log_softmax": 5, "cross_entropy": 5, "layer_norm": 8, "rms_norm": 5}
# They move elements, or draw them, and compute nothing with them.
MOVES = frozenset(
    {
        "take", "scatter", "take_along", "scatter_along", "slice_assign", "concat", "pad",
        "class_at", "unfold", "pick", "place", "item_at", "random_uniform", "random_normal",
        "random_bits",
    }
)  # fmt: skip


def flops(op: Op, given: Types, made: Types, attrs: dict[str, Any]) -> int:
    """Floating-point operations of a call; of what has no rule, one for each element."""
    if op.name in RULES:
        return RULES[op.name](given, made, attrs)
    if op.moves or op.view_rule is not None or op.name in MOVES:
        return 0
    largest = max([t.size for t in (*given, *made)], default=0)
    return PER_ELEMENT.get(op.name, 1) * largest


class Cost:
    """What was met inside of one module, its parts included."""

    def __init__(self) -> None:
        self.calls = self.flops = self.nbytes = 0
        self.result: Any = None  # that of the first call


class Counter(Noting):
    """Eager, which notes what every op costs with the modules whose ``forward`` it is run by."""

    watches = True

    def __init__(self) -> None:
        self.costs: dict[int, Cost] = {}  # by ids of modules
        self.inside: list[Cost] = []

    def converted(self, function: Any, optional: bool = False) -> Any:
        module = getattr(function, "__self__", None)
        if not isinstance(module, Module) or getattr(function, "__name__", "") != "forward":
            return function

        def forward(*args: Any, **kwargs: Any) -> Any:
            cost = self.costs.setdefault(id(module), Cost())
            self.inside.append(cost)
            try:
                result = function(*args, **kwargs)
            finally:
                self.inside.pop()
            if not cost.calls:
                cost.result = result
            cost.calls += 1
            return result

        return forward

    def run(
        self, op: Op, tensors: Sequence[Tensor], attrs: tuple, regions: tuple = ()
    ) -> tuple[Tensor, ...]:
        results = super().run(op, tensors, attrs, regions)
        if not op.inline:  # else its parts have been counted
            count = flops(op, [t.type for t in tensors], [t.type for t in results], dict(attrs))
            known = {id(t.content) for t in tensors}
            nbytes = sum(t.type.nbytes for t in results if id(t.content) not in known)
            for cost in {id(cost): cost for cost in self.inside}.values():
                cost.flops += count
                cost.nbytes += nbytes
        return results
