"""The array API tests that scikit-learn and SciPy have, run with arrays of one library."""

import os
import re
import subprocess
import sys
from pathlib import Path

import hybrid as hy

ROOT = Path(__file__).parents[2]
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$", re.MULTILINE)


def run_suite(plugin: str, *selection: str, backend: str = "hybrid") -> tuple[str, dict[str, str]]:
    """The last line that pytest prints, and what each test that failed came to.

    A test is named by its file within the client, and stands for the library with "backend".
    """
    environment = os.environ | {
        "ARRAY_API_BACKEND": backend,
        "COLUMNS": "2000",  # the summary has the messages if there is room
        "SCIPY_ARRAY_API": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(hy.__file__).parents[1]), str(ROOT)]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE",
               "-W", "ignore", "-p", f"tests.clients.{plugin}", *selection]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd="/", check=False
    )
    lines = done.stdout.strip().splitlines()
    failed = {
        name.rpartition("site-packages/")[2].replace(backend, "backend"): message or ""
        for name, message in _FAILED.findall(done.stdout)
    }
    return (lines[-1] if lines else done.stderr), failed


def unexplained(failed: dict[str, str], explained: dict[str, str]) -> list[str]:
    """The tests of ``failed`` whose name and message no pattern in ``explained`` fits."""
    return [
        f"{name} - {message}"
        for name, message in failed.items()
        if not any(re.search(pattern, f"{name} - {message}") for pattern in explained)
    ]
