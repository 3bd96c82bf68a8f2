"""Run as each rank: rank 1 of a parameter server ends, or hangs, and the others wait for it."""

import os
import signal
import sys
import time

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn

HOW = sys.argv[1]
dist.init(timeout=2 if HOW in ("hang", "loads") else 30)
net = nn.Linear(3, 2)
optimizer = hy.optim.SGD(net.parameters(), lr=0.1)
dist.parameter_server(net, optimizer, staleness=2)
x = hy.ones((4, 3))


@hy.hybridize
def step():
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()


step()
if dist.rank() == 1:
    time.sleep(0.3)
    if HOW == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if HOW == "hang":
        time.sleep(60)
    sys.exit(0)
steps, begin = 1, time.monotonic()
try:
    if HOW == "waits":
        optimizer.synchronize()
    while steps < 10:
        step()
        steps += 1
except (dist.RankFailedError, dist.RankTimeoutError) as error:
    seconds = time.monotonic() - begin
    first = str(error).partition("\n")[0]
    said = f"{type(error).__name__} {first}; {steps} steps, {seconds < 8}"
    print(f"{dist.rank()}: {said}", flush=True)  # it may be stopped at any time
    sys.exit(5)
