"""Ties of axes: what lies at other places has no influence, for every op with a rule."""

import zlib
from itertools import islice

import numpy as np
import pytest

import hybrid.passes  # noqa: F401  declares the ops that passes build
from hybrid.core.types import float32, int64, tensor_type
from hybrid.ir import REGISTRY, get_op
from hybrid.ops.support.axis_ties import aligned
from hybrid.ops.support.sampling import samples, types_of

OPS = sorted(
    (
        op
        for op in REGISTRY.values()
        if op.__module__.startswith("hybrid.")
        and op.operand_names
        and (op.couple_rule is not None or (op.elementwise and not op.attr_defaults))
    ),
    key=lambda op: op.name,
)


def ties_of(op, operands, results, attrs):
    given = dict(op.attributes(attrs))
    return (op.couple_rule or aligned)(types_of(operands), types_of(results), **given)


def computed(op, operands, attrs):
    with np.errstate(all="ignore"):
        found = op.reference_rule(*operands, **dict(op.attributes(attrs)))
    return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]


def elsewhere(x: np.ndarray, axis: int, places: np.ndarray) -> np.ndarray:
    """``x`` with other elements at some places along an axis."""
    other = np.array(x)
    there = (slice(None),) * axis + (places,)
    other[there] = np.roll(x.reshape(-1), 1).reshape(x.shape)[there]
    return other


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_places_of_other_numbers_have_no_influence(op) -> None:
    checked = 0
    drawn = [
        (operands, attrs)
        for operands, attrs in samples(op, seed=zlib.crc32(op.name.encode()))
        if all(0 < x.size < 2000 for x in operands)
    ]
    for operands, attrs in islice(drawn, 0, None, max(1, len(drawn) // 24)):
        want = computed(op, operands, attrs)
        for tie in ties_of(op, operands, want, attrs):
            results = [part for part in tie if part.place < 0]
            for part in tie:
                shape = (operands[part.place] if part.place >= 0 else want[~part.place]).shape
                assert len(part.numbers) == shape[part.axis]
            for part in tie:
                if part.place < 0 or not results:
                    continue
                number = part.numbers[len(part.numbers) // 2]
                changed = list(operands)
                changed[part.place] = elsewhere(
                    operands[part.place], part.axis, part.numbers == number
                )
                found = computed(op, changed, attrs)
                for result in results:
                    same = result.numbers != number
                    old = np.compress(same, want[~result.place], result.axis)
                    new = np.compress(same, found[~result.place], result.axis)
                    np.testing.assert_array_equal(new, old, f"{op.name} {attrs} {part}")
                    checked += same.any()
    ranks = [x.ndim for operands, _ in drawn for x in operands]
    assert checked or max(ranks) == 0


def numbers(op: str, operands, results, **attrs) -> list[dict]:
    """The numbers of each tie of an op on shapes, by place and axis."""
    types = [[tensor_type(float32, shape) for shape in shapes] for shapes in (operands, results)]
    if op == "take":
        types[0][1] = tensor_type(int64, operands[1])
    found = get_op(op).couple_rule(*types, **attrs)
    return [{(p.place, p.axis): p.numbers.tolist() for p in tie} for tie in found]


CONV = {"stride": (1,), "padding": (0,), "dilation": (1,), "size": (3,)}


@pytest.mark.parametrize(
    ("op", "operands", "results", "attrs", "wanted"),
    [
        ("concat", [(3,), (2,)], [(5,)], {"axis": 0},
         [{(0, 0): [0, 1, 2], (1, 0): [3, 4], (~0, 0): [0, 1, 2, 3, 4]}]),
        ("pad", [(2,)], [(5,)], {"widths": ((1, 2),), "value": 0.0},
         [{(0, 0): [0, 1], (~0, 0): [-1, 0, 1, -1, -1]}]),
        ("slice", [(5,)], [(2,)], {"start": (1,), "size": (2,), "step": (2,)},
         [{(0, 0): [0, 1, 2, 3, 4], (~0, 0): [1, 3]}]),
        ("flip", [(3,)], [(3,)], {"axis": (0,)}, [{(0, 0): [0, 1, 2], (~0, 0): [2, 1, 0]}]),
        ("reshape", [(2, 3)], [(6,)], {"shape": (6,)},
         [{(0, 0): [0, 1], (~0, 0): [0, 0, 0, 1, 1, 1]},
          {(0, 1): [0, 1, 2], (~0, 0): [0, 1, 2, 0, 1, 2]}]),
        ("reshape", [(1, 4)], [(4, 1)], {"shape": (4, 1)},
         [{(0, 1): [0, 1, 2, 3], (~0, 0): [0, 1, 2, 3]}]),
        ("reshape", [(2, 3)], [(3, 2)], {"shape": (3, 2)}, []),
        ("sum", [(2, 3)], [(3,)], {"axis": (0,), "keepdims": False},
         [{(0, 0): [0, 1]}, {(0, 1): [0, 1, 2], (~0, 0): [0, 1, 2]}]),
        ("mean", [(2, 3)], [(1, 3)], {"axis": (0,), "keepdims": True},
         [{(0, 1): [0, 1, 2], (~0, 1): [0, 1, 2]}]),
        ("softmax", [(2, 3)], [(2, 3)], {"axis": 1}, [{(0, 0): [0, 1], (~0, 0): [0, 1]}]),
        ("conv", [(1, 2, 5), (3, 2, 3)], [(1, 3, 3)], {**CONV, "groups": 1},
         [{(0, 0): [0], (~0, 0): [0]}, {(0, 1): [0, 1], (1, 1): [0, 1]},
          {(1, 0): [0, 1, 2], (~0, 1): [0, 1, 2]}]),
        ("conv", [(1, 2, 5), (4, 1, 3)], [(1, 4, 3)], {**CONV, "groups": 2},
         [{(0, 0): [0], (~0, 0): [0]},
          {(0, 1): [0, 1], (1, 0): [0, 0, 1, 1], (~0, 1): [0, 0, 1, 1]}]),
        ("conv", [(1, 4, 5), (6, 2, 3)], [(1, 6, 3)], {**CONV, "groups": 2},
         [{(0, 0): [0], (~0, 0): [0]}, {(0, 1): [0, 1, 0, 1], (1, 1): [0, 1]},
          {(1, 0): [0, 1, 2, 0, 1, 2], (~0, 1): [0, 1, 2, 0, 1, 2]}]),
        ("conv_transpose", [(1, 4, 5), (4, 1, 3)], [(1, 2, 7)], {**CONV, "groups": 2},
         [{(0, 0): [0], (~0, 0): [0]}, {(0, 1): [0, 1, 0, 1], (1, 0): [0, 1, 0, 1]},
          {(1, 1): [0], (~0, 1): [0, 0]}]),
        ("conv_transpose", [(1, 2, 5), (2, 2, 3)], [(1, 4, 7)], {**CONV, "groups": 2},
         [{(0, 0): [0], (~0, 0): [0]},
          {(0, 1): [0, 1], (1, 0): [0, 1], (~0, 1): [0, 0, 1, 1]}]),
        ("matmul_nt", [(2, 3), (4, 3)], [(2, 4)], {},
         [{(0, 0): [0, 1], (~0, 0): [0, 1]}, {(1, 0): [0, 1, 2, 3], (~0, 1): [0, 1, 2, 3]},
          {(0, 1): [0, 1, 2], (1, 1): [0, 1, 2]}]),
        ("layer_norm", [(2, 3), (3,), (3,)], [(2, 3)], {"eps": 1e-5},
         [{(0, 0): [0, 1], (~0, 0): [0, 1]}]),
        ("take", [(3, 2), (4,)], [(4, 2)], {"axis": 0},
         [{(0, 1): [0, 1], (~0, 1): [0, 1]}, {(1, 0): [0, 1, 2, 3], (~0, 0): [0, 1, 2, 3]}]),
        ("unfold", [(1, 2, 4, 4)], [(1, 4, 9)], {}, [{(0, 0): [0], (~0, 0): [0]},
         {(0, 1): [0, 1], (~0, 1): [0, 0, 1, 1]}]),
    ],
    ids=str,
)  # fmt: skip
def test_the_numbers_of_places(op, operands, results, attrs, wanted) -> None:
    assert numbers(op, operands, results, **attrs) == wanted


def test_features_of_queries_and_keys_stay() -> None:
    shapes = [(1, 2, 5, 8)] * 3
    found = numbers("attention", shapes, [shapes[0], (1, 2, 5)], scale=1.0, causal=False)
    axes = {place for tie in found for place in tie}
    assert (0, 3) not in axes
    assert (1, 3) not in axes
    assert (2, 3) in axes
    heads = next(tie for tie in found if (0, 1) in tie)
    assert set(heads) == {(0, 1), (1, 1), (2, 1), (~0, 1), (~1, 1)}
