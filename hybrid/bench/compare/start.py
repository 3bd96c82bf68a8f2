"""Starts the process of a framework: ``python start.py FRAMEWORK THREADS``.

The interpreter may be any that has the framework.  Where it is not hybrid that is measured, a
package that is called so and holds nothing stands for it: what is imported from it are the files
of this folder.
"""

import ctypes
import os
import signal
import sys
import types
from collections.abc import Iterable
from pathlib import Path

PR_SET_PDEATHSIG = 1  # of linux/prctl.h

CORES = Path("/sys/devices/system/cpu")


def by_core(numbers: Iterable[int], folder: Path = CORES) -> list[int]:
    """Hardware threads by their numbers, one of each core before the second of any."""
    met: set[str] = set()
    first, rest = [], []
    for number in sorted(numbers):
        try:
            core = (folder / f"cpu{number}/topology/thread_siblings_list").read_text()
        except OSError:  # not told
            core = str(number)
        (rest if core in met else first).append(number)
        met.add(core)
    return first + rest


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[3]
    framework, threads = sys.argv[1], int(sys.argv[2])
    if sys.platform == "linux":  # whoever asks may be killed while this one computes
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "sched_setaffinity"):  # some size their pools by the cores that they see
        os.sched_setaffinity(0, by_core(os.sched_getaffinity(0))[:threads])
    sys.path[0] = str(root)
    if framework != "hybrid":
        sys.path.pop(0)
        stand_in = types.ModuleType("hybrid")
        stand_in.__path__ = [str(root / "hybrid")]
        sys.modules["hybrid"] = stand_in

    from hybrid.bench.compare.serve import serve

    serve(framework, threads)
