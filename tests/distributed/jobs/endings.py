"""Run as each rank: rank 1 ends as the first argument says, the others tell how they notice."""

import os
import signal
import sys
import time

import hybrid as hy
import hybrid.distributed as dist

HOW = sys.argv[1]
TRY = int(os.environ.get("HYBRID_RESTARTS", "0"))
if HOW == "early" and "1" in map(os.environ.get, ("PMI_RANK", "OMPI_COMM_WORLD_RANK")):
    raise OSError("before init")
dist.init(timeout=2 if HOW == "hang" else 30)
x = hy.ones(3)
step = hy.hybridize(lambda x: dist.all_reduce(x) + 1)
step(x)
begin = time.monotonic()
try:
    dist.barrier()  # where others may still be when rank 1 is through: they notice here as well
    if dist.rank() == 1 and not (HOW == "restart" and TRY == 2):
        if HOW in ("kill", "restart"):
            os.kill(os.getpid(), signal.SIGKILL)
        if HOW == "raise":
            raise ValueError("bad luck")
        if HOW == "code":
            sys.exit(3)
        if HOW == "leave":
            sys.exit(0)
        if HOW == "hang":
            time.sleep(60)
    step(x)
except (dist.RankFailedError, dist.RankTimeoutError) as error:
    seconds = time.monotonic() - begin
    first, _, rest = str(error).partition("\n")
    place = f"({__file__}:" in first and rest.startswith("    ")
    said = f"{type(error).__name__} {first.split(' (')[0]}; {seconds < 8}, {place}"
    print(f"{dist.rank()}: {said}", flush=True)  # it may be stopped at any time
    sys.exit(5)
print(f"{dist.rank()}: all is well in try {TRY}")
