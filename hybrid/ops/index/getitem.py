"""``x[key]`` and its assignment: NumPy's keys, put together from the indexing ops."""

from __future__ import annotations

import functools
import math
from functools import partial
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.open_numbers import as_size, sizes_of_ints
from hybrid.core.sizes import Size, span
from hybrid.core.types import Shape, TensorType, int64, tensor_type
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    MaskError,
    OutOfRangeError,
    ShapeError,
    author_location,
)
from hybrid.ir import interpreter
from hybrid.ir.op import has_size
from hybrid.ops.elementwise.bit_logic import logical_and
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.index.indexing import as_indices, put_slices, slice_assign, take, take_slices
from hybrid.ops.index.pick import pick, place
from hybrid.ops.index.value_sizes import places_of
from hybrid.ops.shapes.concatenation import stack
from hybrid.ops.shapes.shape import flatten, permute, region, reshape_to
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import reshaped, widened
from hybrid.ops.support.dtypes import converted, identity, stop_gradient
from hybrid.ops.support.operand_checks import (
    as_tensor,
    broadcast_shapes,
    is_traced_number,
    plural,
    type_of,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """A key made plain: a region of the operand, then slices of that along one axis, then a shape.

    The axis is made of the region's ``axes`` (none: no slices are taken), moved side by side and
    merged; ``indices`` are its 1-d indices (or the one scalar index, of traced ints alone), and
    ``first`` its place among the other axes.
    """

    start: Shape
    size: Shape
    step: Shape
    whole: bool  # the region is the operand
    axes: tuple[int, ...]
    indices: Any
    first: int
    shape: Shape  # of the result

    @property
    def place(self) -> dict[str, Shape]:
        return {"start": self.start, "size": self.size, "step": self.step}

    @property
    def order(self) -> tuple[int, ...]:
        """The region's axes with ``axes`` side by side."""
        others = [axis for axis in range(len(self.size)) if axis not in self.axes]
        return (*others[: self.first], *self.axes, *others[self.first :])

    @property
    def merged(self) -> Shape:
        """The region's shape with ``axes`` side by side and merged."""
        sizes = [self.size[axis] for axis in self.order]
        last = self.first + len(self.axes)
        return (*sizes[: self.first], math.prod(sizes[self.first : last]), *sizes[last:])


def getitem(x: Any, key: Any) -> Any:
    """``x[key]``: a value, never a view."""
    x = as_tensor(x)
    if interpreter.ACTIVE:
        key = sizes_of_ints(key)
    if getattr(key, "dtype", None) is int64 and x.shape:  # the common case, in fewer steps
        return take(x, key, axis=0)
    static = _static(key)
    if static is not None:
        return _part(x, static)
    windowed = _window(x, key)
    if windowed is not None:
        axis, indices, key = windowed
        return getitem(x if indices is None else take_slices(x, indices, axis=axis), key)
    mask = _lone_mask(key)
    if mask is not None:
        key = _at_hand(mask)
        if not key.shape:  # all of x, or nothing
            return getitem(reshaped(x, (1, *x.shape)), key.reshape((1,)))
        if key.shape == x.shape:
            return take(flatten(x), flat_places(key), axis=0)
    selection = _select(type_of(x), key)
    y = _gathered(x, selection)
    if selection.axes:
        read = take_slices if selection.indices.shape else pick
        y = read(y, selection.indices, axis=selection.first)
    y = reshaped(y, selection.shape)
    return identity(y) if y is x else y


@remembered
def _part(x: Any, static: tuple[Any, ...]) -> Any:
    """What a key that ``_static`` made plain selects."""
    selection = _selected(type_of(x), static)
    y = x if selection.whole else region(x, **selection.place)
    y = reshaped(y, selection.shape)
    return identity(y) if y is x else y


def setitem(x: Any, key: Any, value: Any) -> Any:
    """What ``x`` is after ``x[key] = value``: a new value of the same type."""
    x = as_tensor(x)
    if interpreter.ACTIVE:
        key = sizes_of_ints(key)
    if isinstance(value, (bool, int, float)):
        value = interpreter.current().lift(value, x.dtype)
    value = converted(as_tensor(value), x.dtype)
    mask = _lone_mask(key)
    if mask is not None and not mask.shape and len(value.shape) > len(x.shape):
        # It selects all of x once or not at all, along an axis of its own.
        if value.shape[0] != 1:
            return _refitted(x, mask, value)
        value = reshaped(value, value.shape[1:])
    if mask is not None and len(value.shape) <= len(x.shape) - len(mask.shape):
        _require_mask_shape(type_of(x), mask.shape, 0)
        wide = reshaped(mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))
        return where(wide, _fitted(value, x.shape), x)
    windowed = _window(x, key)
    if windowed is not None:
        axis, indices, key = windowed
        if indices is None:
            return setitem(x, key, value)
        part = setitem(take_slices(x, indices, axis=axis), key, value)
        return put_slices(x, indices, part, axis=axis)
    selection = _selection(type_of(x), key)
    value = _fitted(value, selection.shape)
    if selection.axes:
        before = _gathered(x, selection)
        shape = list(before.shape)
        if not selection.indices.shape and shape[selection.first] == 1:
            before = stop_gradient(before)  # all of it is replaced, wherever the index is
        shape[selection.first : selection.first + 1] = selection.indices.shape
        write = put_slices if selection.indices.shape else place
        after = write(
            before, selection.indices, reshaped(value, tuple(shape)), axis=selection.first
        )
        order = selection.order
        apart = reshape_to(after, shape=tuple(selection.size[axis] for axis in order))
        value = permute(apart, axes=tuple(order.index(axis) for axis in range(len(order))))
    value = reshaped(value, selection.size)
    return value if selection.whole else slice_assign(x, value, **selection.place)


def _refitted(x: Any, mask: Any, value: Any) -> Any:
    """``x`` itself, after checking that as many rows are written as the mask selects."""
    count = _at_hand(mask)
    if not isinstance(count, np.ndarray):
        raise CaptureError(
            f"a traced mask ({type_of(mask)}) selects all of a tensor, or nothing",
            at=author_location(),
            why="Whether what is assigned fits depends on it.",
            fix="write x = hybrid.where(mask, value, x)",
        )
    _fitted(value, (int(count), *x.shape))
    return identity(x)


def _gathered(x: Any, selection: Selection) -> Any:
    """The region of ``x`` with the indexed axes merged."""
    y = x if selection.whole else region(x, **selection.place)
    if not selection.axes:
        return y
    if selection.order != tuple(range(len(selection.size))):
        y = permute(y, axes=selection.order)
    return reshaped(y, selection.merged)


def _fitted(value: Any, shape: Shape) -> Any:
    """``value`` broadcast to ``shape``; as in NumPy, surplus leading axes of size 1 go."""
    surplus = len(value.shape) - len(shape)
    if surplus > 0 and all(n == 1 for n in value.shape[:surplus]):
        value = reshaped(value, value.shape[surplus:])
    lead = len(shape) - len(value.shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(value.shape, shape[lead:], strict=True)):
        raise ShapeError(
            f"{type_of(value)} cannot be assigned to a selection of shape {list(shape)}",
            why="The value must broadcast to it.",
            fix="change the value's shape with reshape or expand_dims",
        )
    return widened(value, shape)


# Reading keys ------------------------------------------------------------------------------------


def _window(x: Any, key: Any) -> tuple[int, Any, Any] | None:
    """(axis, indices, the key without it) of a slice that begins where only the run knows.

    Where its length is known then, too, there are no indices, and the key has sizes.
    """
    given = list(key) if isinstance(key, tuple) else [key]
    if not any(isinstance(item, slice) and _is_late(item) for item in given):
        return None
    taken = [_axes_taken(item) for item in map(_plain, given)]
    left, axis = len(x.shape) - sum(taken), 0
    for position, (item, count) in enumerate(zip(given, taken, strict=True)):
        if isinstance(item, slice) and _is_late(item) and axis < len(x.shape):
            bound = next(b for b in (item.start, item.stop, item.step) if _is_late_bound(b))
            if not is_traced_number(bound):
                bound = interpreter.current().number_of(bound)
            indices = bound.window(item, x.shape[axis])
            given[position] = slice(None)
            if indices is None:  # of a length that only the run knows
                bounds = item.start, item.stop, item.step
                given[position] = slice(*[b if b is None else as_size(b) for b in bounds])
            return axis, indices, tuple(given)
        axis += left if item is Ellipsis else count
    return None


def _is_late(item: slice) -> bool:
    return any(map(_is_late_bound, (item.start, item.stop, item.step)))


def _is_late_bound(bound: Any) -> bool:
    """Whether a bound of a slice is a traced int, or the tensor of one."""
    if bound is None or type(bound) in (int, Size):
        return False
    if is_traced_number(bound):
        return True
    return hasattr(bound, "dtype") and getattr(interpreter.current(), "traces", False)


def _items(type: TensorType, key: Any) -> list[Any]:
    """The key's items with one Ellipsis; a mask becomes one index array per axis of it."""
    given = [_plain(item) for item in (key if isinstance(key, tuple) else (key,))]
    taken = [_axes_taken(item) for item in given]
    used = sum(taken)
    if used > type.rank:
        raise OutOfRangeError(
            f"too many indices for {type}",
            why=f"There are {used}, and it has {plural(type.rank, 'dimension')}.",
            fix="give at most one index per axis",
        )
    dots = [position for position, item in enumerate(given) if item is Ellipsis]
    if len(dots) > 1:
        raise ArgumentTypeError("an index holds two Ellipses", fix="leave one out")
    if not dots:
        given.append(Ellipsis)
        taken.append(0)
    items: list[Any] = []
    axis = 0
    for item, count in zip(given, taken, strict=True):
        if _is_mask(item):
            if not _at_hand(item).shape:
                raise ArgumentTypeError(
                    "a mask without dimensions stands beside other indices",
                    fix="index with the others first",
                )
            _require_mask_shape(type, item.shape, axis)
            items += true_places(item)
        else:
            items.append(item)
        axis += type.rank - used if item is Ellipsis else count
    return items


def _axes_taken(item: Any) -> int:
    """How many axes of the operand the item stands for; the Ellipsis takes what is left."""
    if item is None or item is Ellipsis:
        return 0
    return len(item.shape) if _is_mask(item) else 1


def _plain(item: Any) -> Any:
    """An item as an int (or traced int), slice, None, Ellipsis, integer or bool array or tensor."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        raise ArgumentTypeError(
            "a bool is not an index", fix="index with an int, or with a mask of the tensor's shape"
        )
    if isinstance(item, (list, tuple, range, np.ndarray)):
        return _array(item)
    if hasattr(item, "dtype") and not isinstance(item, np.generic):
        return item if _is_mask(item) else as_indices("indexing", item)
    if not hasattr(item, "__index__") or isinstance(item, float):
        raise ArgumentTypeError(
            f"{item.__class__.__name__} is not an index",
            fix="use ints, slices, None, Ellipsis, integer tensors or masks",
        )
    if is_traced_number(item):
        return item
    return item if type(item) is Size else item.__index__()


def _is_mask(item: Any) -> bool:
    """An array (whose dtype has NumPy's kinds) or a tensor of bools."""
    return getattr(getattr(item, "dtype", None), "kind", "") in ("b", "bool")


def _array(item: Any) -> Any:
    """A list or array as an array of integers or bools; as a tensor when it holds tensors."""
    if isinstance(item, (list, tuple)) and any(map(_is_entry_of_tensor, item)):
        return stack(item)
    try:
        array = np.asarray(item)
    except ValueError:
        raise ArgumentError(
            "an index is a list of lists of unequal lengths", fix="give lists of one length"
        ) from None
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise ArgumentTypeError(
            f"an index holds values of dtype {array.dtype}",
            fix="use integers (astype int64) or bools",
        )
    return array


def _is_entry_of_tensor(entry: Any) -> bool:
    return hasattr(entry, "dtype") or is_traced_number(entry)


def _require_mask_shape(type: TensorType, mask: Shape, axis: int) -> None:
    own = type.shape[axis : axis + len(mask)]
    if len(own) != len(mask) or any(n not in (m, 0) for m, n in zip(own, mask, strict=True)):
        raise MaskError(
            f"a mask of shape {list(mask)} does not fit {type}",
            why=f"It must have the shape of the axes that it selects from, from axis {axis} on.",
            fix="give a mask of that shape",
        )


def _lone_mask(key: Any) -> Any | None:
    """The mask when the key is one, as a tensor."""
    if isinstance(key, tuple) and len(key) == 1:
        key = key[0]
    if isinstance(key, (list, np.ndarray)):
        key = _array(key)
    return as_tensor(key) if _is_mask(key) and not isinstance(key, np.generic) else None


def true_places(mask: Any) -> list[Any]:
    """Per axis, where ``mask`` holds: arrays, or tensors whose size only the run knows."""
    mask = _at_hand(mask)
    if isinstance(mask, np.ndarray):
        return list(np.nonzero(mask))
    flat, places = flat_places(mask), []
    for axis, n in enumerate(mask.shape):
        step = max(math.prod(mask.shape[axis + 1 :]), 1)
        places.append(flat if len(mask.shape) == 1 else flat // step % max(n, 1))
    return places


def flat_places(mask: Any) -> Any:
    """Where ``mask`` holds, counted through all its axes: int64 [k]."""
    mask = _at_hand(mask)
    if isinstance(mask, np.ndarray):
        return as_tensor(np.flatnonzero(mask))
    return places_of(flatten(mask))


def _at_hand(mask: Any) -> Any:
    """The values of ``mask``; itself where they differ from call to call of what is traced."""
    if isinstance(mask, np.ndarray):
        return mask
    around = interpreter.current()
    if around.batches:  # which sees whether rows differ
        return mask
    if not around.traces:
        return mask.numpy()
    found = around.constant(mask)
    return mask if found is None else found


def _selection(type: TensorType, key: Any) -> Selection:
    """``key`` made plain."""
    static = _static(key)
    return _select(type, key) if static is None else _selected(type, static)


def _static(key: Any) -> tuple[Any, ...] | None:
    """A key of ints, slices, None and Ellipsis as something hashable; None for any other."""
    items = []
    for item in key if type(key) is tuple else (key,):
        kind = type(item)
        if kind is slice:
            bounds = (item.start, item.stop, item.step)
            if not all(bound is None or type(bound) in (int, Size) for bound in bounds):
                return None
            items.append(bounds)
        elif kind is int or kind is Size or item is None or item is Ellipsis:
            items.append(item)
        else:
            return None
    return tuple(items)


def _selected(type: TensorType, static: tuple[Any, ...]) -> Selection:
    """What ``static`` selects; remembered, but for sizes that are of one capture."""
    if type.is_open or has_size(static):
        return _select_static(type, static)
    return _remembered_selection(type, static)


def _select_static(type: TensorType, static: tuple[Any, ...]) -> Selection:
    return _select(type, tuple([slice(*i) if isinstance(i, tuple) else i for i in static]))


_remembered_selection = functools.lru_cache(4096)(_select_static)


def _select(type: TensorType, key: Any) -> Selection:
    """``key`` for an operand of ``type``, made plain."""
    items = _items(type, key)
    start, size, step = [], [], []
    shape: list[int] = []  # of the result, without the picked axes
    arrays: list[tuple[int, Any]] = []
    special: list[int] = []  # items that NumPy counts as advanced when there are arrays
    ahead = 0  # axes of the result before the first of them
    for position, item in enumerate(items):
        if item is None:
            shape.append(1)
            continue
        if item is Ellipsis:
            left = sum(other is not None and other is not Ellipsis for other in items)
            rest = type.shape[len(size) : len(size) + type.rank - left]
            start += [0] * len(rest)
            step += [1] * len(rest)
            size += rest
            shape += rest
            continue
        axis, n = len(size), type.shape[len(size)]
        if isinstance(item, slice):
            first, count, by = span(item, n)
            start.append(first if count else 0)
            # Of one element any step is the same; of an open axis nothing is asked.
            step.append(by if isinstance(count, Size) or count > 1 else 1)
            size.append(count)
            shape.append(count)
            continue
        if not special:
            ahead = len(shape)
        special.append(position)
        if is_traced_number(item):
            opened = tuple([at for at, size in enumerate(type.shape) if isinstance(size, Size)])
            refuse = partial(_require_inside_one, type, axis, opened)
            item.position(n, refuse, [type.shape[at] for at in opened])
            arrays.append((axis, item))
            start.append(0)
            size.append(n)
        elif isinstance(item, int):
            _require_inside(type, axis, item, item)
            start.append(item + n if item < 0 else item)
            size.append(1)
        else:
            if isinstance(item, np.ndarray) and item.size:
                _require_inside(type, axis, int(item.min()), int(item.max()))
            arrays.append((axis, item))
            start.append(0)
            size.append(n)
        step.append(1)
    adjacent = not special or special[-1] - special[0] == len(special) - 1
    axes = tuple(axis for axis, _ in arrays)
    whole = tuple(size) == type.shape and all(n == 1 for n in step)
    indices, first = None, 0
    if arrays:
        sizes = [type.shape[axis] for axis in axes]
        if all(is_traced_number(a) for _, a in arrays):
            picked, indices = (), _merged(sizes, [a for _, a in arrays])
        else:
            given = [as_tensor(a) if is_traced_number(a) else a for _, a in arrays]
            picked = broadcast_shapes("indexing", *(tensor_type(int64, a.shape) for a in given))
            indices = _combined(sizes, given, picked)
        first = sum(axis not in axes for axis in range(axes[0])) if adjacent else 0
        ahead = ahead if adjacent else 0
        shape[ahead:ahead] = picked
    return Selection(
        start=tuple(start),
        size=tuple(size),
        step=tuple(step),
        whole=whole,
        axes=axes,
        indices=indices,
        first=first,
        shape=tuple(shape),
    )


def _require_inside(type: TensorType, axis: int, low: int, high: int) -> None:
    n = type.shape[axis]
    for index in (low, high):
        if not -n <= index < n:
            raise OutOfRangeError(
                f"index {index} is out of range for axis {axis} of {type}",
                why=f"The axis has size {n}.",
                fix=f"use an index from {-n} to {n - 1}" if n else "index an axis with elements",
            )


def _require_inside_one(
    type: TensorType, axis: int, opened: tuple[int, ...], index: int, *sizes: int
) -> None:
    """``_require_inside`` for a type whose ``opened`` axes have these sizes."""
    here = dict(zip(opened, sizes, strict=True))
    shape = tuple([here.get(at, size) for at, size in enumerate(type.shape)])
    _require_inside(tensor_type(type.dtype, shape), axis, index, index)


def _merged(sizes: list[int], numbers: list[Any]) -> Any:
    """Traced ints, known to lie inside, as the one index into the axis that merges theirs."""
    if len(numbers) == 1:
        return as_tensor(numbers[0])
    merged = numbers[0].from_front(sizes[0])
    for number, n in zip(numbers[1:], sizes[1:], strict=True):
        merged = merged * n + number.from_front(n)
    return merged


def _combined(sizes: list[int], arrays: list[Any], picked: Shape) -> Any:
    """Indices into several axes as flat indices into one that merges them."""
    if len(arrays) == 1:
        return flatten(as_indices("indexing", arrays[0]))
    if all(isinstance(a, np.ndarray) for a in arrays):
        places = [np.broadcast_to(a % n, picked) for a, n in zip(arrays, sizes, strict=True)]
        flat = np.ravel_multi_index(places, sizes) if math.prod(picked) else np.zeros(picked)
        return as_tensor(flat.astype(np.int64).reshape(-1))
    merged, inside = None, None
    for array, n in zip(arrays, sizes, strict=True):
        index = as_indices("indexing", array)
        index = where(index < 0, index + n, index)
        fits = logical_and(index >= 0, index < n)
        merged = index if merged is None else merged * n + index
        inside = fits if inside is None else logical_and(inside, fits)
    # An index outside its own axis must not reach a wrong element: send it outside the merged one.
    merged = where(inside, merged, math.prod(sizes))
    return flatten(widened(merged, picked))
