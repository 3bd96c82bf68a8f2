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
from hybrid.distributed.data_parallelism import data_parallel
from hybrid.distributed.distributed_sampler import DistributedSampler
from hybrid.distributed.job_files import load, local_nbytes, save
from hybrid.distributed.merged_profile import merged_profile
from hybrid.distributed.meshes import Mesh, mesh
from hybrid.distributed.parameter_servers import parameter_server
from hybrid.distributed.pipelines import hold_stages, pipeline
from hybrid.distributed.power_sgd import PowerSGD
from hybrid.distributed.row_shares import mean, rows
from hybrid.distributed.shared_tensors import blocks, partial, shard, whole
from hybrid.distributed.strategies.strategy import strategy
from hybrid.distributed.world import init, rank, size
from hybrid.errors import (
    CollectiveMismatchError,
    MissingPackageError,
    RankFailedError,
    RankTimeoutError,
)

__all__ = [
    "CollectiveMismatchError",
    "DistributedSampler",
    "Mesh",
    "MissingPackageError",
    "PowerSGD",
    "RankFailedError",
    "RankTimeoutError",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "blocks",
    "broadcast",
    "data_parallel",
    "hold_stages",
    "init",
    "load",
    "local_nbytes",
    "mean",
    "merged_profile",
    "mesh",
    "parameter_server",
    "partial",
    "pipeline",
    "rank",
    "recv",
    "reduce_scatter",
    "rows",
    "save",
    "send",
    "shard",
    "size",
    "strategy",
    "whole",
]
