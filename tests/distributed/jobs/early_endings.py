"""Run as each rank: what goes wrong in a backward that has sent some of its gradients already."""

import inspect
import os
import signal
import sys
import threading
import time

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.memory.channels import reach, transfers_begun

HOW = sys.argv[1]
dist.init(timeout=2 if HOW == "hang" else 30)
RANK, SIZE = dist.rank(), dist.size()
X = hy.ones((4, 3))


def say(text):
    """Print a line at once, also where other ranks print."""
    sys.stdout.write(f"{RANK}: {text}\n")
    sys.stdout.flush()


def begun():
    return transfers_begun(reach("world gradients", SIZE).number)


def trouble():
    """What happens while gradients of the last layers are on their way."""
    end = time.monotonic() + 20
    while begun() == BEFORE:
        assert time.monotonic() < end
        time.sleep(0.001)
    if HOW == "alike" or (HOW == "raise" and RANK == 1):
        raise ValueError("bad luck")
    if RANK == 1 and HOW == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 1 and HOW in ("hang", "interrupt"):
        time.sleep(60 if HOW == "hang" else 3)
    if RANK == 0 and HOW == "interrupt_walk":
        signal.raise_signal(signal.SIGINT)


@hy.custom_vjp
def pause(x):
    return x * 1.0


def back(_, ct):
    if ARMED:
        trouble()
    return (ct,)


pause.defvjp(lambda x: (x * 1.0, None), back)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(pause(self.first(x)))


ARMED, BEFORE = False, 0
net = Net()
dist.data_parallel(net, hy.optim.SGD(net.parameters(), lr=0.1), bucket_bytes=1)


def step():
    loss = dist.mean(net(X).sum(axis=1))
    loss.backward()


step()
line = f"({__file__}:{inspect.getsourcelines(step)[1] + 2})"
ARMED, BEFORE = HOW != "unlike", begun()
if HOW == "unlike" and RANK == 1:
    net.first.weight.requires_grad = False
if HOW == "interrupt" and RANK == 0:  # which waits for the other rank, behind its own way back
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
begin = time.monotonic()
try:
    step()
    said = "nothing is raised"
except (Exception, KeyboardInterrupt) as error:
    first, *rest = str(error).splitlines() or [""]
    others = [text.strip() for text in rest if text.startswith("  rank ")]
    place = "here" if line in first else ""
    first = first.replace(f" {line}", "")
    said = "; ".join([f"{type(error).__name__} {first}".strip(), *([place] if place else [])])
    said += "".join([f"\n{RANK}:   {other}" for other in others]).replace(line, "(FILE:LINE)")
say(f"{said}; {time.monotonic() - begin < 10}")
if HOW in ("alike", "unlike"):  # and all go on
    ARMED = False
    net.first.weight.requires_grad = True
    step()
    assert dist.all_reduce(hy.ones(2)).tolist() == [SIZE] * 2
    say("all is well")
    sys.exit(0)
try:
    dist.barrier()
except dist.RankFailedError as error:
    first = str(error).splitlines()[0].partition(":")[0].partition(" (")[0]
    say(f"then {type(error).__name__} {first}")
sys.exit(5)
