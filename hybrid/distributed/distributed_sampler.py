"""DistributedSampler: which samples of a batch are those of this rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.data.sampler import RandomOrderSampler, SharedBatches
from hybrid.distributed.data_parallelism import agree
from hybrid.distributed.meshes import Mesh
from hybrid.distributed.row_shares import sharing_of
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.random import Generator


class DistributedSampler(RandomOrderSampler):
    """The ``sampler=`` of a loader whose ``batch_size`` is that of all ranks together.

    Each rank gets its ``rows`` of each batch.  The order is drawn from the ``seed`` and the number
    of the pass, alike on all ranks.  All make as many steps, without padding: of a last batch of
    few samples a rank gets fewer, or none.  A pass is resumed by any number of ranks.

    All ranks make it alike: CollectiveMismatchError where they have unlike numbers of samples,
    seeds or shards.
    """

    def __init__(
        self,
        data: Any,
        shuffle: bool = True,
        seed: int = 0,
        shards: Any = "ranks",
        *,
        mesh: Mesh | None = None,
        axis: str | None = None,
    ) -> None:
        if not hasattr(data, "__len__"):
            raise ArgumentTypeError(
                f"a {type(data).__name__} has no length",
                why="Ranks share out samples that have numbers.",
                fix="give a dataset with __len__ and __getitem__",
            )
        if not isinstance(shuffle, bool):
            raise ArgumentTypeError(f"shuffle is {shuffle!r}", fix="give True or False")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ArgumentTypeError(f"the seed is {seed!r}", fix="give an int")
        if not len(data):
            raise ArgumentError("a dataset without samples", fix="give one with some")
        super().__init__(Generator(seed))
        self.dataset, self.shuffle, self.seed = data, shuffle, seed
        self.sharing = sharing_of(shards, axis, mesh)
        how = f"of {len(data)} samples, shuffle={shuffle} seed={seed} shards={shards}"
        agree(self.sharing, "DistributedSampler", how)

    def __len__(self) -> int:
        """The samples of all ranks."""
        return len(self.dataset)

    def drawn(self, generator: Generator) -> np.ndarray:
        order = generator.permutation(len(self.dataset)).numpy()
        return order if self.shuffle else np.arange(len(self.dataset))

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be number ``epoch``, from 0 on; by itself each is the one after it."""
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise ArgumentError(f"epoch is {epoch!r}", fix="give an int from 0 on")
        generator = self.source()
        generator.seed(self.seed)
        generator.state.assign(generator.state.numpy() + np.array([0, epoch]))

    def shared_batches(self, batch_size: int, drop_last: bool) -> SharedBatches:
        """The batches of a loader."""
        return SharedBatches(self, batch_size, drop_last, self.sharing.rows_of)
