"""Several processes that compute together: ranks, meshes, and what they do in common."""

from hybrid.distributed.communication import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    recv,
    reduce_scatter,
    send,
)
from hybrid.distributed.meshes import Mesh, mesh
from hybrid.distributed.pipelines import pipeline
from hybrid.distributed.shared_tensors import blocks, partial, shard, whole
from hybrid.distributed.world import init, rank, size
from hybrid.errors import (
    CollectiveMismatchError,
    MissingPackageError,
    RankFailedError,
    RankTimeoutError,
)

__all__ = [
    "CollectiveMismatchError",
    "Mesh",
    "MissingPackageError",
    "RankFailedError",
    "RankTimeoutError",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "blocks",
    "broadcast",
    "init",
    "mesh",
    "partial",
    "pipeline",
    "rank",
    "recv",
    "reduce_scatter",
    "send",
    "shard",
    "size",
    "whole",
]
