"""Facts about the machine and the build that a measurement is worthless without."""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.memory import native


def processor() -> str:
    """The processor's name as the system knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def facts() -> dict[str, Any]:
    """Processor, cores, system and versions, ready for JSON."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "isa": native.isa(),
        "threads": native.num_threads(),
        "compiler": native.compiler(),
    }
