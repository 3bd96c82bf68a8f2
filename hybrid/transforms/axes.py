"""Axes: which axis of which tensor holds the rows that ``vmap`` maps over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import size_of
from hybrid.core.tree import LEAF, Structure, describe
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError
from hybrid.ir.interpreter import current
from hybrid.ops.support.operand_checks import plural

Axis = int | None


def spread(axes: Any, structure: Structure, name: str, what: str) -> list[Axis]:
    """The axis of each leaf: ``axes`` is one for a whole subtree, or a tree of them."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * _count(structure)
    parts = _parts(structure)
    given: Sequence[Any] | None = None
    if parts is not None and isinstance(axes, dict):
        keys = [key for key, _ in structure[1]] if issubclass(structure[0], dict) else None
        given = [axes[key] for key in keys] if keys is not None and set(keys) == set(axes) else None
    elif parts is not None and isinstance(axes, (tuple, list)) and not _is_dict(structure):
        given = axes if len(axes) == len(parts) else None
    if given is None:
        raise ArgumentTypeError(
            f"{name}={axes!r} does not fit {what}, {describe(structure)}",
            why="An axis is an int or None, for a whole tree or for each part of it.",
            fix=f"give {name} as one int, or as a tree like that with an int or None per part",
        )
    found = []
    for axis, part in zip(given, parts, strict=True):
        found += spread(axis, part, name, what)
    return found


def _is_dict(structure: Structure) -> bool:
    return issubclass(structure[0], dict)


def _parts(structure: Structure) -> list[Structure] | None:
    if structure is None or structure == LEAF:
        return None
    kind, items = structure
    return [part for _, part in items] if issubclass(kind, dict) else list(items)


def _count(structure: Structure) -> int:
    if structure is None:
        return 0
    parts = _parts(structure)
    return 1 if parts is None else sum(map(_count, parts))


def mapped_tensors(
    leaves: Sequence[Any], axes: Sequence[Axis], names: Sequence[str]
) -> tuple[list[Any], list[Axis], int]:
    """``leaves`` with tensors where an axis is mapped, the axes from the front, and the size."""
    found, normal = [], []
    sizes: list[tuple[int, list[str]]] = []  # no dict: the size of an open axis has no hash
    for leaf, axis, name in zip(leaves, axes, names, strict=True):
        if axis is None:
            found.append(leaf)
            normal.append(None)
            continue
        if isinstance(leaf, (np.ndarray, np.generic)):
            leaf = current().lift(leaf)
        if not isinstance(leaf, Tensor):
            raise ArgumentTypeError(
                f"vmap maps over {name}, a {type(leaf).__name__}",
                why="Only tensors have rows.",
                fix="pass a tensor, or say in_axes=None for what is the same in every row",
            )
        at = _axis(axis, leaf, name)
        found.append(leaf)
        normal.append(at)
        label = f"{name} ({leaf.type} along axis {axis})"
        same = next((labels for n, labels in sizes if n == leaf.shape[at]), None)
        if same is None:
            sizes.append((leaf.shape[at], [label]))
        else:
            same.append(label)
    if not sizes:
        raise ArgumentError(
            "vmap has nothing to map over",
            why="No argument is a tensor with an axis in in_axes.",
            fix="give in_axes an int for one argument at least",
        )
    if len(sizes) > 1:
        parts = [f"{' and '.join(names)} has {n} rows" for n, names in sizes]
        raise ShapeError(
            f"vmap got axes of different sizes: {'; '.join(parts)}",
            why="It goes over all of them together, row by row.",
            fix="give them one size, or say in_axes=None for what is the same in every row",
        )
    return found, normal, size_of(sizes[0][0])


def _axis(axis: int, leaf: Tensor, name: str) -> int:
    rank = leaf.type.rank
    if not -rank <= axis < rank:
        raise AxisError(
            f"vmap got axis {axis} for {name}, {leaf.type}",
            why=f"A tensor of {plural(rank, 'dimension')} has axes {-rank} to {rank - 1}."
            if rank
            else "A tensor without dimensions has no rows.",
            fix="give an axis in that range" if rank else "say in_axes=None for it",
        )
    return axis % rank


def out_axis(axis: int, rank: int, name: str) -> int:
    """Where the rows go in a result whose rows have this rank."""
    if not -rank - 1 <= axis <= rank:
        raise AxisError(
            f"vmap got out axis {axis} for {name}, of {plural(rank, 'dimension')} in each row",
            why=f"With the axis of the rows it has axes {-rank - 1} to {rank}.",
            fix="give an axis in that range",
        )
    return axis % (rank + 1)
