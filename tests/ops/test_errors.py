"""What ops say when they are called wrongly: the full text of every kind of message."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
)
from hybrid.ir import get_op


def f32(*shape):
    return hy.zeros(shape)


def i64(*shape):
    return hy.zeros(shape, dtype=hy.int64)


BROADCAST = "Fix: change one shape with reshape or expand_dims."
CASES = [  # (name, call, error, text)
    (
        "shapes that do not broadcast",
        lambda: f32(3, 4) + f32(5),
        ShapeError,
        "add cannot take f32[3,4] and f32[5]\n"
        "Aligned at the last axis, sizes must agree or be 1; 4 and 5 do not.\n" + BROADCAST,
    ),
    (
        "three operands",
        lambda: hy.where(f32(2) > 0, f32(3), f32(3)),
        ShapeError,
        "where cannot take bool[2], f32[3] and f32[3]\n"
        "Aligned at the last axis, sizes must agree or be 1; 2 and 3 do not.\n" + BROADCAST,
    ),
    (
        "a condition that is no bool",
        lambda: hy.where(f32(2), 1, 2),
        DTypeError,
        "where cannot take f32[2] as condition\nIt must have dtype bool.\n"
        "Fix: convert it with astype(hybrid.bool).",
    ),
    (
        "bools in arithmetic",
        lambda: -(f32(2) > 0),
        DTypeError,
        "negative cannot take bool[2]\n"
        "Its operand x must have an integer or floating dtype; it has bool.\n"
        "Fix: convert it with astype, to int64 for example.",
    ),
    (
        "numbers in logic",
        lambda: hy.logical_and(f32(2), f32(2)),
        DTypeError,
        "logical_and cannot take f32[2] and f32[2]\n"
        "Its operand a must have dtype bool; it has float32.\n"
        "Fix: compare it with something, or convert it with astype.",
    ),
    (
        "floats in bits",
        lambda: f32(2) & i64(2),
        DTypeError,
        "bitwise_and cannot take f32[2] and f32[2]\n"
        "Its operand a must have a bool or integer dtype; it has float32.\n"
        "Fix: convert it with astype, to int64 for example.",
    ),
    (
        "an axis out of range",
        lambda: hy.sum(f32(2, 3), axis=2),
        AxisError,
        "sum got axis 2\nA tensor of 2 dimensions has axes -2 to 1.\n"
        "Fix: give an axis in that range.",
    ),
    (
        "an axis of a number",
        lambda: hy.max(f32(), axis=0),
        AxisError,
        "max got axis 0\nA tensor without dimensions has no axes.\n"
        "Fix: give an axis in that range.",
    ),
    (
        "an axis twice",
        lambda: hy.mean(f32(2, 3), axis=(0, -2)),
        AxisError,
        "mean got axis (0, -2)\nAn axis is given twice.",
    ),
    (
        "an axis that is no int",
        lambda: hy.argmax(f32(2), axis=0.5),
        ArgumentTypeError,
        "argmax got axis 0.5\nFix: give the axis as an int.",
    ),
    (
        "the largest of nothing",
        lambda: hy.max(f32(0, 3), axis=0),
        ShapeError,
        "max cannot reduce axis 0 of f32[0,3]\n"
        "The axis is empty, and the result of no elements is not defined.\n"
        "Fix: reduce axes that have elements, or test the size first.",
    ),
    (
        "an attribute that is not canonical",
        lambda: get_op("softmax")(f32(2, 3), axis=-1),
        AxisError,
        "softmax got axis -1\nThe attribute of an op counts from the front.\nFix: use 1.",
    ),
    (
        "matrices that do not fit",
        lambda: f32(2, 3) @ f32(2, 3),
        ShapeError,
        "matmul cannot take f32[2,3] and f32[2,3]\n"
        "The last axis of the first (3) must be as long as the last but one of the second (2).\n"
        "Fix: transpose one with matrix_transpose, or change a shape.",
    ),
    (
        "batches that do not fit",
        lambda: f32(2, 3, 4) @ f32(5, 4, 3),
        ShapeError,
        "matmul cannot take f32[2,3,4] and f32[5,4,3]\n"
        "Their leading axes [2] and [5] must agree or be 1.\n"
        "Fix: change a shape with reshape or expand_dims.",
    ),
    (
        "a number in a matrix product",
        lambda: f32(2, 3) @ 2.0,
        ShapeError,
        "matmul cannot take f32[2,3] and f32[]\nBoth need at least one dimension.\n"
        "Fix: multiply by a number with *.",
    ),
    (
        "a shape of another size",
        lambda: hy.reshape(f32(2, 3), (4,)),
        ShapeError,
        "reshape cannot turn f32[2,3] into shape [4]\nIt has 6 elements; the shape asks for 4.\n"
        "Fix: give a shape with as many elements.",
    ),
    (
        "a shape with a size that does not divide",
        lambda: hy.reshape(f32(2, 3), (4, -1)),
        ShapeError,
        "reshape cannot turn shape [2, 3] into [4, -1]\n"
        "One size may be -1, when the others divide the number of elements.\nFix: give all sizes.",
    ),
    (
        "a shape that cannot be broadcast",
        lambda: hy.broadcast_to(f32(2, 3), (2, 4)),
        ShapeError,
        "broadcast_to cannot turn f32[2,3] into shape [2, 4]\n"
        "Aligned at the last axis, each size must be 1 or the size asked for.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        "an axis left out",
        lambda: hy.permute_dims(f32(2, 3), (0, 0)),
        AxisError,
        "permute_dims cannot order the axes of f32[2,3] as (0, 0)\n"
        "Each of 0 to 1 must be given once.\nFix: give a permutation of the axes.",
    ),
    (
        "a squeeze of a long axis",
        lambda: hy.squeeze(f32(2, 1), 0),
        ShapeError,
        "squeeze cannot remove axis 0 of shape [2, 1]\nIts size is 2, not 1.\n"
        "Fix: name axes of size 1.",
    ),
    (
        "a concatenation that does not fit",
        lambda: hy.concat([f32(2, 3), f32(2, 4)], axis=0),
        ShapeError,
        "concat cannot join f32[2,3] and f32[2,4] along axis 0\nTheir other axes must agree.\n"
        "Fix: change a shape, or join along another axis.",
    ),
    (
        "a concatenation of nothing",
        lambda: hy.concat([]),
        ArgumentError,
        "concat got no tensors\nFix: give at least one.",
    ),
    (
        "a stack of different shapes",
        lambda: hy.stack([f32(2), f32(3)]),
        ShapeError,
        "stack cannot join f32[2] and f32[3]\nTheir shapes must agree.\n"
        "Fix: change a shape, or join along an existing axis with concat.",
    ),
    (
        "an item that a list has not",
        lambda: get_op("item")(f32(5, 2), at=5),
        ArgumentError,
        "item 5 of f32[5,2]\nFix: give the index of a row.",
    ),
    (
        "a split into parts that are not all",
        lambda: hy.split(f32(5), [2, 2]),
        ShapeError,
        "split cannot cut axis 0 of shape [5] into parts of sizes [2, 2]\n"
        "They sum to 4, not to 5.\n"
        "Fix: give one size, or sizes that sum to the axis; chunk(x, n) cuts into n parts.",
    ),
    (
        "negative padding",
        lambda: ops.pad(f32(2), ((-1, 0),)),
        ArgumentError,
        "pad of f32[2] got widths ((-1, 0),)\nIt needs 1 pair of sizes >= 0.\n"
        "Fix: give one pair (before, after) per axis.",
    ),
    (
        "float indices",
        lambda: hy.take(f32(3), f32(2)),
        DTypeError,
        "take got indices of dtype float32\nIndices are integers.\n"
        "Fix: convert them with astype(hybrid.int64).",
    ),
    (
        "updates of the wrong shape",
        lambda: ops.index_add(f32(3, 2), i64(4), f32(4, 3)),
        ShapeError,
        "scatter_add cannot take f32[4,3] as updates\nIts shape must be [4, 2].\n"
        "Fix: change its shape with reshape or broadcast_to.",
    ),
    (
        "rows that do not match",
        lambda: get_op("take_along")(f32(3, 2), i64(2, 2)),
        ShapeError,
        "take_along cannot take f32[3,2] and i64[2,2]\nAll axes but the last must agree.\n"
        "Fix: change a shape with reshape or broadcast_to.",
    ),
    (
        "a region that leaves the tensor",
        lambda: get_op("slice")(f32(3), start=(1,), size=(3,), step=(1,)),
        ArgumentError,
        "slice of f32[3] leaves axis 0\nIt asks for 3 elements from 1 on, 1 apart.\n"
        "Fix: stay within the axis.",
    ),
    (
        "a triangle of a vector",
        lambda: hy.tril(f32(3)),
        ShapeError,
        "tril cannot take shape [3]\nIt needs at least two dimensions.\n"
        "Fix: add axes with expand_dims.",
    ),
    (
        "targets of another length",
        lambda: get_op("cross_entropy")(f32(3, 2), i64(2)),
        ShapeError,
        "cross_entropy cannot take f32[3,2] and i64[2]\n"
        "There must be one target for each row of logits.\n"
        "Fix: change the shape of the targets.",
    ),
    (
        "logits that are no matrix",
        lambda: get_op("cross_entropy")(f32(3), i64(3)),
        ShapeError,
        "cross_entropy cannot take f32[3] as logits\nIt must have 2 dimensions, not 1.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        "a loss of different shapes",
        lambda: ops.mse_loss(f32(3), f32(3, 1)),
        ShapeError,
        "mse_loss cannot compare f32[3] and f32[3,1]\n"
        "Predictions and targets must have one shape.\nFix: change one shape with reshape.",
    ),
    (
        "an unknown reduction",
        lambda: ops.mse_loss(f32(3), f32(3), reduction="avg"),
        ArgumentError,
        'no reduction \'avg\'\nFix: use "mean", "sum" or "none".',
    ),
    (
        "a dropout rate above 1",
        lambda: ops.dropout(f32(3), 1.5, i64(2)),
        ArgumentError,
        "dropout got rate 1.5\nFix: give a probability in [0, 1].",
    ),
    (
        "random integers where floats are drawn",
        lambda: ops.random_uniform(i64(2), shape=(3,), dtype=hy.int64),
        DTypeError,
        "random_uniform cannot draw numbers of dtype int64\n"
        "They must have a floating dtype.\nFix: pass dtype=hybrid.float32.",
    ),
    (
        "a learning rate of another dtype",
        lambda: ops.optimizer_steps.sgd(f32(3), f32(3), hy.zeros((), dtype=hy.float64)),
        DTypeError,
        "sgd cannot take f32[3], f32[3] and f64[]\nThese operands must share one dtype.\n"
        "Fix: convert them with astype.",
    ),
    (
        "another device",
        lambda: hy.zeros(3, device="cuda"),
        ArgumentError,
        "no device 'cuda'\nFix: leave device out, or pass \"cpu\".",
    ),
    (
        "a step of 0",
        lambda: hy.arange(0, 3, 0),
        ArgumentError,
        "arange got step 0\nFix: give another step.",
    ),
]


@pytest.mark.parametrize(("_name", "call", "error", "text"), CASES, ids=[c[0] for c in CASES])
def test_errors_say_what_why_and_what_instead(_name, call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == text


def test_a_target_outside_the_classes_raises():
    with pytest.raises(OutOfRangeError):
        ops.cross_entropy(f32(2, 3), np.array([0, 3]))
