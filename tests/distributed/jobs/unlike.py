"""Run as each rank: rank 1 has another version, other kernels or other data; all are told."""

import os
import sys

import hybrid as hy
import hybrid.distributed as dist
from hybrid.distributed import world

WHAT = sys.argv[1]
ODD = os.environ["PMI_RANK"] == "1"
if ODD and WHAT == "kernels":
    os.environ["HYBRID_ISA"] = "baseline"  # which is looked at with the first kernel
if ODD and WHAT == "version":
    world.__version__ = "0.0.7"
try:
    dist.init(timeout=5)
    sampler = dist.DistributedSampler(range(40 + ODD * (WHAT == "length")), seed=0)
    sampler = dist.DistributedSampler(range(40), seed=ODD * (WHAT == "seed"))
    loader = hy.data.DataLoader(range(40), batch_size=9, sampler=sampler)
    assert len(list(loader)) == 5
    print(f"rank {dist.rank()}: all is well")
except dist.CollectiveMismatchError as error:
    print(f"rank {os.environ['PMI_RANK']}:\n{error}\n", end="", flush=True)
    sys.exit(5)
