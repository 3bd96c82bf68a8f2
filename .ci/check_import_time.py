"""Check what `import hybrid` adds to `import numpy`: the fastest of several fresh processes."""

import subprocess
import sys

GOAL, LIMIT = 0.060, 0.120  # seconds; a busy machine gets twice the goal
PROGRAM = """
import time
import numpy
start = time.perf_counter()
import hybrid
print(time.perf_counter() - start)
"""
seconds = min(float(subprocess.check_output([sys.executable, "-c", PROGRAM])) for _ in range(9))
print(f"import hybrid: {seconds * 1e3:.0f} ms after numpy (goal {GOAL * 1e3:.0f} ms)")
sys.exit(seconds > LIMIT)
