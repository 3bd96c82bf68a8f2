"""Items of a list that a loop has stacked.

An item is the very value that was appended: to gradients its uses are uses of that value, where
those of a slice (``stack[i]``) are uses of the slice.
"""

from __future__ import annotations

from hybrid.core.types import TensorType
from hybrid.errors import ArgumentError
from hybrid.ir import get_op, op
from hybrid.ops.index.pick import pick, pick_lowering, pick_reference, place
from hybrid.ops.shapes.creation import zeros
from hybrid.ops.shapes.shape import region_view
from hybrid.ops.support.derivatives import linear, reshaped


@op
def item(stack: TensorType, *, at: int) -> TensorType:
    """Item ``at`` of the list whose items are the rows of ``stack``."""
    if not stack.rank or not 0 <= at < stack.shape[0]:
        raise ArgumentError(f"item {at} of {stack}", fix="give the index of a row")
    return stack.with_shape(stack.shape[1:])


@item.reference
def item_reference(stack, *, at):
    return stack[at]


@item.view
def item_view(stack, *, at):
    start, size = (at, *[0] * (stack.rank - 1)), (1, *stack.shape[1:])
    return region_view(stack, start=start, size=size, step=(1,) * stack.rank).reshape(size[1:])


@linear(item)
def item_vjp(ct, _y, _stack, *, at):
    start, size = (at, *[0] * (len(_stack.shape) - 1)), (1, *_stack.shape[1:])
    step = (1,) * len(size)
    row = reshaped(ct, size)
    whole = zeros(_stack.shape, dtype=ct.dtype)
    return (get_op("slice_assign")(whole, row, start=start, size=size, step=step),)


@op(raises=True)
def item_at(stack: TensorType, index: TensorType) -> TensorType:
    """Item ``index`` (a scalar that is known at run time, from 0) of such a list."""
    return pick.infer((stack, index), pick.attributes({"axis": 0}), ())[0]


@item_at.reference
def item_at_reference(stack, index):
    return pick_reference(stack, index, axis=0)


@item_at.lowering
def item_at_lowering(emit, stack, index, result):
    pick_lowering(emit, stack, index, result, axis=0)


@linear(item_at)
def item_at_vjp(ct, _y, _stack, index):
    return place(zeros(_stack.shape, dtype=ct.dtype), index, ct, axis=0), None


OF_LISTS = (item, item_at)


@item.batch
def item_batch(rows, _batched, stack, *, at):
    start, size = (0, at, *(0,) * (len(stack.shape) - 2)), (rows, 1, *stack.shape[2:])
    part = get_op("slice")(stack, start=start, size=size, step=(1,) * len(size))
    return reshaped(part, (rows, *stack.shape[2:]))


@item.samples
def item_samples(draw):
    for dtype in draw.all:
        for shape, at in [((5,), 2), ((4, 3), 0), ((1, 2, 3), 0), ((2, 0), 1)]:
            yield (draw(dtype, *shape),), {"at": at}


@item_at.batch
def item_at_batch(rows, batched, stack, index):
    return pick.batch_rule(rows, batched, stack, index, axis=0)


@item_at.samples
def item_at_samples(draw):
    for dtype in draw.all:
        for shape in [(5,), (4, 3), (1, 2, 3)]:
            yield (draw(dtype, *shape), draw("int64", low=0, high=shape[0] - 1)), {}
