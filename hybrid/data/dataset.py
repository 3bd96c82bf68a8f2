"""Datasets: anything with a length and samples by number."""

from __future__ import annotations

from typing import Any

from hybrid.conversion import asarray
from hybrid.errors import ArgumentError, ShapeError
from hybrid.tensor import Tensor


class Dataset:
    """Subclasses give a sample for each number from 0 on, and say how many there are."""

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__()")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__()")


class TensorDataset(Dataset):
    """Samples are the slices of some tensors along their first axes, as tuples."""

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ArgumentError("a TensorDataset of nothing", fix="give at least one tensor")
        self.tensors: tuple[Tensor, ...] = tuple(asarray(t).detach() for t in tensors)
        described = ", ".join(str(t.type) for t in self.tensors)
        if any(t.ndim == 0 for t in self.tensors):
            raise ShapeError(
                f"a TensorDataset of {described}", why="Each tensor needs an axis of samples."
            )
        if len({t.shape[0] for t in self.tensors}) > 1:
            raise ShapeError(
                f"a TensorDataset of {described}",
                why="The first axes, which count the samples, must be of one length.",
                fix="cut the tensors to one length",
            )

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)
