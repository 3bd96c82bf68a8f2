"""Seen batches: what those of the last pass over a loader looked like, for the next capture.

::

    for x in training:
        ...  # read ahead, since nothing comes before it
    for x in validation:
        ...  # known by its last pass

A loop that is captured behind others cannot read a batch of its loader ahead: that would draw
random numbers before what comes first has drawn its own.  So the call runs eagerly, its pass leaves
here what it gave, and the next call is captured by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybrid.core.loop_io import ItemKind
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor

if TYPE_CHECKING:
    from hybrid.data.loader import DataLoader

MOST = 3  # batches that tell which axes differ


def kind_of(batch: Any) -> ItemKind | None:
    """What a batch looks like; None where it holds what is no tensor."""
    leaves, structure = flatten(batch)
    if not all([isinstance(leaf, Tensor) for leaf in leaves]):
        return None
    return ItemKind(structure, tuple([leaf.type for leaf in leaves]))


def facts_of(loader: DataLoader) -> tuple[Any, ...]:
    """What a pass over ``loader`` would be of."""
    held = (
        loader.dataset, loader.collate_fn, loader.batch_sampler, loader.sampler, loader._resumed,
        loader.generator, loader.worker_init_fn,
    )  # fmt: skip
    return *map(id, held), loader.batch_size, loader.drop_last, loader.num_workers, loader._passes


class SeenBatches:
    """The kinds of the first batches of a pass, and of its last one if it came to its end."""

    __slots__ = ("facts", "first", "last")

    def __init__(self, loader: DataLoader) -> None:
        self.facts = facts_of(loader)[:-1]  # whichever pass it is
        self.first: list[ItemKind | None] = []
        self.last: ItemKind | None = None

    def add(self, batch: Any) -> None:
        """A ``batch`` was given."""
        if len(self.first) < MOST:
            self.first.append(kind_of(batch))

    def kinds(self, loader: DataLoader) -> list[ItemKind]:
        """Those of the first batches, if ``loader`` is as it was; else none."""
        if self.facts != facts_of(loader)[:-1]:
            return []
        return [] if None in self.first else [kind for kind in self.first if kind is not None]
