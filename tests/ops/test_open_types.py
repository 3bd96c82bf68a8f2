"""Type rules on open types: what they give for symbols is, bound, what they give for numbers."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import hybrid.ops
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import TensorType, tensor_type
from hybrid.errors import ShapeError
from hybrid.ir import Op
from hybrid.ir.bound_graphs import SizeBinding
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
        ("max_pool", "max_pool_places", "conv", "conv_integer", "conv_transpose", "conv_weight"),
        "windows lie within, and groups divide the channels",
    ),
    **dict.fromkeys(
        ("conv_prepare", "conv_blocked_prepare", "conv_integer_prepare"),
        "the layout depends on sizes",
    ),
    **dict.fromkeys(("qr", "svd", "svd_full", "svdvals"), "the shorter side counts"),
    **dict.fromkeys(
        ("matmul_grouped", "matmul_grouped_integer"), "a byte, or a group, has several inputs"
    ),
    "matmul_sum": "short sums are made another way",
}  # fmt: skip
# Rules that refuse symbols of which they cannot know that they agree.
REFUSED = {
    **dict.fromkeys(
        (
            "conv_blocked",
            "conv_prepared",
            "conv_integer_prepared",
            "matmul_prepared",
            "matmul_integer_prepared",
        ),
        "weights in another layout are as long as others say",
    )
}
# Those for which a size is a plain number.
FIXED: set[str] = set()

# Attributes that may have sizes of operands in them.
OF_SIZES = {
    *("shape", "size", "start", "widths", "k", "counts", "kernel", "padding", "rows", "source"),
}

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
        numbers = [*[n for t in row[0] for n in t.shape], *numbers_in(of_sizes(row[1]))]
        if row not in seen and any(n > 1 for n in numbers):
            seen.add(row)
            yield row


def of_sizes(attrs: tuple) -> tuple:
    return tuple([value for name, value in attrs if name in OF_SIZES])


def opened(types: tuple[TensorType, ...]) -> tuple[OpenSizes, tuple[TensorType, ...]]:
    """``types`` with a symbol for each size that is not 0 or 1."""
    sizes, symbols = symbols_for([n for t in types for n in t.shape])
    return sizes, tuple([with_symbols(t, symbols) for t in types])


def symbols_for(numbers: list[int]) -> tuple[OpenSizes, dict[int, Any]]:
    """A symbol for each of ``numbers`` that is greater than 1."""
    sizes = OpenSizes()
    values = dict.fromkeys([n for n in numbers if n > 1])
    return sizes, {n: sizes.symbol(f"n{at}", n) for at, n in enumerate(values)}


def with_symbols(value: Any, symbols: Mapping[int, Any]) -> Any:
    """A type, or an attribute, that has ``symbols`` for sizes."""
    if isinstance(value, TensorType):
        return value.with_shape(with_symbols(value.shape, symbols))
    if type(value) is tuple:
        return tuple([with_symbols(item, symbols) for item in value])
    return symbols.get(value, value) if type(value) is int else value


def numbers_in(value: Any) -> list[int]:
    if type(value) is tuple:
        return [n for item in value for n in numbers_in(item)]
    return [value] if type(value) is int else []


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


def open_rows(op: Op) -> Iterator[tuple[OpenSizes, tuple[TensorType, ...], tuple]]:
    """The samples of ``op`` that have sizes in attributes, with symbols for these, too.

    Products of two sizes are products of symbols.
    """
    for types, attrs in rows(op):
        inside = {n for n in numbers_in(of_sizes(attrs)) if n > 1}
        if not inside:
            continue
        outside = dict.fromkeys([n for t in types for n in t.shape if n > 1])
        products = {m * n: (m, n) for m in outside for n in outside}
        own = [n for n in inside if n not in products]
        sizes, symbols = symbols_for([*outside, *own])
        for n, (a, b) in products.items():
            symbols.setdefault(n, symbols[a] * symbols[b])
        given = tuple([with_symbols(t, {n: symbols[n] for n in outside}) for t in types])
        yield (
            sizes,
            given,
            tuple([(k, with_symbols(v, symbols) if k in OF_SIZES else v) for k, v in attrs]),
        )


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_rules_are_for_all_sizes_in_attributes(op: Op) -> None:
    draw, tried, bound = random.Random(op.name), 0, 0
    for sizes, given, attrs in open_rows(op):
        tried += 1
        here = tuple([symbol.value for symbol in sizes.symbols])
        try:
            found = op.infer(given, attrs)
        except ShapeError:
            assert op.name in REFUSED
            continue
        assert sizes.holds(here)
        tries = [tuple([draw.choice((n, n, n + 1, n * 2)) for n in here]) for _ in range(TRIED)]
        for values in [here, *tries]:
            if sizes.holds(values):
                bound += 1
                binding = SizeBinding(sizes, values)
                inferred = op.infer(tuple(shapes(sizes, given, values)), binding.attribute(attrs))
                assert shapes(sizes, found, values) == list(inferred), (given, attrs, values)
    assert bool(tried) == bool(op.attr_defaults.keys() & OF_SIZES)
    assert bound > tried or op.name in REFUSED or not tried


def test_tables_name_ops() -> None:
    assert {*CONDITIONS, *REFUSED, *FIXED} <= {op.name for op in OPS}
