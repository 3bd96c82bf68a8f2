"""Every declared op on many rows at once: what it computes row by row, in each way to run it."""

import zlib
from itertools import islice

import numpy as np
import pytest

import hybrid as hy
from hybrid.ir import REGISTRY, Op
from hybrid.ops.support.sampling import samples, types_of

ROWS = 3
OPS = sorted(
    (
        op
        for op in REGISTRY.values()
        if op.__module__.startswith("hybrid.ops")
        and op.sample_rule is not None
        and op.operand_names
        and not op.name.startswith("random_")
        and op.name not in ("drop", "attention_dropped")  # which draw, too
    ),
    key=lambda op: op.name,
)
# Their order depends on shapes.
PRODUCTS = ("matmul", "matmul_nt", "matmul_tn", "conv", "linear", "matmul_grouped")


def small(op: Op) -> list:
    """A sample of each kind, of the smaller ones: dtypes, ranks, attributes."""
    found = {}
    drawn = list(samples(op, seed=zlib.crc32(op.name.encode())))
    sizes = [max(x.size for x in operands) for operands, _ in drawn]
    for (operands, attrs), size in zip(drawn, sizes, strict=True):
        if size <= max(200, min(sizes)):
            kinds = tuple((x.dtype.kind, x.ndim, x.size > 0) for x in operands)
            found.setdefault((kinds, tuple(attrs)), (operands, attrs))
    return list(islice(found.values(), 6))


def varied(x: np.ndarray) -> np.ndarray:
    """Rows of what ``x`` holds, each in another order."""
    return np.stack([np.roll(x, shift) for shift in range(ROWS)])


def masks(count: int) -> list[list[bool]]:
    """All operands are batched, or one of them."""
    lone = [[i == at for i in range(count)] for at in range(count)]
    return [[True] * count, *(lone if count > 1 else [])]


def results(outcome: object) -> tuple:
    return outcome if isinstance(outcome, tuple) else (outcome,)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_on_rows_is_the_op_on_each_row(op) -> None:
    checked = 0
    for operands, attrs in small(op):
        for mask in masks(len(operands)):
            many = [varied(x) if m else x for x, m in zip(operands, mask, strict=True)]
            rows = [
                [x[i] if m else x for x, m in zip(many, mask, strict=True)] for i in range(ROWS)
            ]
            try:
                want = [results(op(*[hy.asarray(x) for x in row], **attrs)) for row in rows]
            except hy.HybridError:
                continue  # an index out of range of another row
            function = hy.vmap(
                lambda *xs, attrs=attrs: op(*xs, **attrs),
                in_axes=tuple(0 if m else None for m in mask),
            )
            ways = (function, hy.hybridize(function)) if checked < 4 else (function,)
            for mapped in ways:
                found = results(mapped(*map(hy.asarray, many)))
                what = f"{op.name} of {types_of(operands)} {attrs} {mask}"
                for y, column in zip(found, zip(*want, strict=True), strict=True):
                    expected = np.stack([row.numpy() for row in column])
                    assert (y.numpy().dtype, y.shape) == (expected.dtype, expected.shape), what
                    if op.name in PRODUCTS:
                        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, err_msg=what)
                    else:
                        assert y.numpy().tobytes() == expected.tobytes(), what
            checked += 1
    assert checked


INDEXING = [op for op in OPS if {"index", "indices", "targets"} & {*op.operand_names}]


@pytest.mark.parametrize("op", INDEXING, ids=lambda op: op.name)
def test_an_index_out_of_range_raises_in_any_row(op) -> None:
    operands, attrs = next(iter(small(op)))
    many = [varied(x) for x in operands]
    for x in many:
        if x.dtype == np.int64 and x.size:
            x[1] = 1000
    function = hy.vmap(lambda *xs: op(*xs, **attrs))
    for mapped in (function, hy.hybridize(function)):
        with pytest.raises(hy.HybridError):
            mapped(*map(hy.asarray, many))
