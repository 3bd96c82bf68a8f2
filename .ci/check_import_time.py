"""Check what `import hybrid` adds to `import numpy`: the median of several fresh processes."""

import statistics
import subprocess
import sys

GOAL, LIMIT = 0.060, 0.180  # seconds; a busy machine gets three times the goal
PROGRAM = """
import time
import numpy
start = time.perf_counter()
import hybrid
print(time.perf_counter() - start)
"""
seconds = statistics.median(
    float(subprocess.check_output([sys.executable, "-c", PROGRAM])) for _ in range(9)
)
print(f"import hybrid: {seconds * 1e3:.0f} ms after numpy (goal {GOAL * 1e3:.0f} ms)")
sys.exit(seconds > LIMIT)
