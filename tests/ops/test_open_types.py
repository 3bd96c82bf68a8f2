"""Type rules on open types: what they give for symbols is, bound, what they give for numbers."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator

import pytest

import hybrid.ops
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import TensorType, tensor_type
from hybrid.errors import ShapeError
from hybrid.ir import Op
from hybrid.ir.op import REGISTRY
from hybrid.ops.support.sampling import samples, types_of

for _module in pkgutil.walk_packages(hybrid.ops.__path__, "hybrid.ops."):
    importlib.import_module(_module.name)

TRIED = 12  # bindings of each sample

# Rules of which some sample is so only for some sizes, and why.
CONDITIONS = {
    **dict.fromkeys(
        ("attention_dropped", "attention_dropped_pull", "drop", "drop_again", "random_beta",
         "random_bits", "random_gamma", "random_normal", "random_poisson",
         "random_truncated_normal", "random_uniform"),
        "a state of random numbers has two elements",
    ),
    **dict.fromkeys(("broadcast_to", "fold", "reshape"), "an attribute is the size of the result"),
    **dict.fromkeys(("item", "slice", "slice_assign", "topk"), "what is taken has to be there"),
    **dict.fromkeys(
        ("avg_pool", "avg_pool_spread", "max_pool", "max_pool_places", "unfold", "conv",
         "conv_transpose", "conv_weight"),
        "windows lie within, and groups divide the channels",
    ),
    **dict.fromkeys(("conv_prepare", "conv_blocked_prepare"), "the layout depends on sizes"),
    **dict.fromkeys(("qr", "svd", "svd_full", "svdvals"), "the shorter side counts"),
    "matmul_sum": "short sums are made another way",
}  # fmt: skip
# Rules that refuse symbols of which they cannot know that they agree.
REFUSED = {
    **dict.fromkeys(
        ("conv_blocked", "conv_prepared", "matmul_prepared"),
        "weights in another layout are as long as others say",
    )
}
# Those for which a size is a plain number.
FIXED: set[str] = set()

OPS = [
    op
    for op in REGISTRY.values()
    if not op.has_regions
    and op.pure
    and (op.sample_rule is not None or (op.elementwise and not op.attr_defaults))
]


def rows(op: Op) -> Iterator[tuple[tuple[TensorType, ...], tuple]]:
    """The types and attributes of the samples of ``op``, each once."""
    seen = set()
    for arrays, attrs in samples(op):
        row = types_of(arrays), op.attributes(attrs)
        if row not in seen and any(n > 1 for t in row[0] for n in t.shape):
            seen.add(row)
            yield row


def opened(types: tuple[TensorType, ...]) -> tuple[OpenSizes, tuple[TensorType, ...]]:
    """``types`` with a symbol for each size that is not 0 or 1."""
    sizes = OpenSizes()
    values = dict.fromkeys([n for t in types for n in t.shape if n > 1])
    symbol = {n: sizes.symbol(f"n{at}", n) for at, n in enumerate(values)}
    return sizes, tuple(t.with_shape(tuple([symbol.get(n, n) for n in t.shape])) for t in types)


def shapes(sizes: OpenSizes, types: tuple[TensorType, ...], values: tuple[int, ...]) -> list:
    return [tensor_type(t.dtype, sizes.bound(t.shape, values)) for t in types]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_rules_are_for_all_sizes(op: Op) -> None:
    draw = random.Random(op.name)
    met, fixed, refused = False, False, False
    for types, attrs in rows(op):
        sizes, given = opened(types)
        here = tuple([symbol.value for symbol in sizes.symbols])
        try:
            found = op.infer(given, attrs)
        except ShapeError:
            refused = True
            continue
        assert shapes(sizes, given, here) == list(types)
        assert shapes(sizes, found, here) == list(op.infer(types, attrs))
        assert sizes.holds(here)
        met, fixed = met or bool(sizes.conditions), fixed or bool(sizes.fixed)
        for _ in range(TRIED):
            values = tuple([draw.choice((n, draw.randint(2, 40))) for n in here])
            if sizes.holds(values):
                inferred = op.infer(tuple(shapes(sizes, given, values)), attrs)
                assert shapes(sizes, found, values) == list(inferred), (given, attrs, values)
    assert (met, fixed, refused) == (op.name in CONDITIONS, op.name in FIXED, op.name in REFUSED)


def test_tables_name_ops() -> None:
    assert {*CONDITIONS, *REFUSED, *FIXED} <= {op.name for op in OPS}
