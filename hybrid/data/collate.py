"""Collating: samples of one structure become one batch of that structure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.core.tree import describe, flatten
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ops import stack

_NUMBERS = (bool, int, float)


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples in ``batch`` stacked: tensors in the places of tensors, arrays and numbers.

    Samples are tensors, arrays and numbers, and tuples, named tuples, lists, mappings and
    dataclasses of these, nested at will; all have one structure, and items at one place one
    shape.  Stacked items get a new first axis; Python's floats become float32 and its ints int64.
    Strings and bytes come as lists.  None is no sample: it is refused.
    """
    if not len(batch):
        raise ArgumentError("a batch of no samples", fix="give one sample at least")
    return _collated(list(batch), "")


def _collated(items: list[Any], place: str) -> Any:
    if any(item is None for item in items):
        raise ArgumentTypeError(
            f"None{_at(place)} cannot be batched",
            why="There is nothing to stack.",
            fix="leave such samples out of the dataset, or pass a collate_fn that does",
        )
    first = items[0]
    kind = type(first)
    if isinstance(first, (Tensor, np.ndarray, np.generic, *_NUMBERS)):
        if isinstance(first, (str, bytes)):  # NumPy's are Python's, too
            return items
        return _stacked(items, place)
    if isinstance(first, (str, bytes)):
        return _all_of(items, kind, place)
    node = _node(first)
    if node is None:
        raise ArgumentTypeError(
            f"a {kind.__name__}{_at(place)} cannot be batched",
            fix="let the dataset give tensors, arrays, numbers, and tuples and dicts of these, or "
            "pass a collate_fn",
        )
    keys, values_of, made = node
    rows = []
    for item in items:
        row = values_of(item) if type(item) is kind else None
        if row is None or len(row) != len(keys):
            raise _different(first, item, place)
        rows.append(row)
    columns = zip(*rows, strict=True)
    return made([_collated(list(c), f"{place}[{k!r}]") for k, c in zip(keys, columns, strict=True)])


def _node(
    sample: Any,
) -> tuple[Sequence[Any], Callable[[Any], Sequence[Any] | None], Callable[[Any], Any]] | None:
    """Of a node: its keys, what gives the values of one like it (None or too few of one unlike it),
    and what makes one of values; None for a leaf.
    """
    kind = type(sample)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return range(len(sample)), lambda item: item, lambda values: kind(*values)
    if isinstance(sample, (tuple, list)):
        return range(len(sample)), lambda item: item, kind
    if isinstance(sample, Mapping):
        keys = list(sample)
        return keys, lambda item: _values(item, keys), lambda v: _mapping(sample, keys, v)
    if dataclasses.is_dataclass(sample):
        names = [field.name for field in dataclasses.fields(sample) if field.init]
        return (
            names,
            lambda item: [getattr(item, name) for name in names],
            lambda v: kind(**dict(zip(names, v, strict=True))),
        )
    return None


def _values(item: Mapping[Any, Any], keys: list[Any]) -> list[Any] | None:
    """The values of ``keys``, if those are all that ``item`` has."""
    if len(item) != len(keys) or not all(key in item for key in keys):
        return None
    return [item[key] for key in keys]


def _mapping(sample: Mapping[Any, Any], keys: list[Any], values: list[Any]) -> Any:
    """A mapping of the kind of ``sample``, where that can be made from a dict."""
    made = dict(zip(keys, values, strict=True))
    if type(sample) is dict:
        return made
    if hasattr(sample, "default_factory"):
        return type(sample)(sample.default_factory, made)
    try:
        return type(sample)(made)  # type: ignore[call-arg]
    except TypeError:
        return made


def _at(place: str) -> str:
    return f" at {place} of a sample" if place else ""


def _different(first: Any, other: Any, place: str) -> ArgumentTypeError:
    one, two = (describe(flatten(item)[1]) for item in (first, other))
    if one == two:
        one, two = f"a {type(first).__name__}", f"a {type(other).__name__}"
    return ArgumentTypeError(
        f"samples {one} and {two}{_at(place)} cannot be one batch",
        why="Samples must have one structure.",
        fix="let the dataset give the same tuple or dict for every sample",
    )


def _all_of(items: list[Any], kind: type, place: str) -> list[Any]:
    """``items``, all of which are of ``kind``."""
    for other in items[1:]:
        if not isinstance(other, kind):
            raise _different(items[0], other, place)
    return items


def _stacked(items: Sequence[Any], place: str) -> Tensor:
    """Items of one shape along a new first axis; Python numbers get their default dtypes."""
    if all(type(item) in _NUMBERS for item in items):
        return asarray(list(items))
    if any(type(item) is Tensor and item.dtype.numpy is None for item in items):
        return stack(list(items))
    arrays = [_array(item, items[0], place) for item in items]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        first, second = list(dict.fromkeys(array.shape for array in arrays))[:2]
        raise ShapeError(
            f"samples of shapes {list(first)} and {list(second)}{_at(place)} cannot be one batch",
            why="Items are stacked, so they must have one shape.",
            fix="pad or cut them in the dataset, or use batch_size=1",
        )
    return asarray(np.stack(arrays))


def _array(item: Any, first: Any, place: str) -> np.ndarray:
    if isinstance(item, Tensor):
        return item.numpy()
    if isinstance(item, (np.ndarray, np.generic)) or type(item) in _NUMBERS:
        return np.asarray(item)
    raise _different(first, item, place)


def default_convert(data: Any) -> Any:
    """One sample with tensors in the places of arrays; all else stays as it is."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biuf":
        return asarray(data)
    node = _node(data)
    return data if node is None else node[2]([default_convert(value) for value in node[1](data)])
