"""Peers that misbehave: programs that stand where an interpreter would, and speak as they like."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# What a peer does when it is asked; a test says what is otherwise.
GOOD = """
    "load": lambda: {"version": "0.1", "workloads": ["dispatch", "gemm"]},
    "build": lambda: {"seconds": 0.0},
    "check": lambda: {"first_call": 0.001, "results": RESULTS},
    "sample": lambda: {"seconds": 0.001 * asked["count"]},
    "memory": lambda: {"peak": 1 << 20, "loaded": 1 << 20},
"""
# It exits by itself when a test has failed to end it.
SCRIPT = """#!{python} -B
import json, os, signal, sys, time
import threading
threading.Timer(60, os._exit, [9]).start()
RESULTS = {{}}
DO = {{{good}}}
DO |= {{{otherwise}}}
for line in sys.stdin:
    asked = json.loads(line)
    answer = DO[asked["ask"]]()
    print(answer if isinstance(answer, str) else json.dumps(answer), flush=True)
os._exit(0)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., str]:
    """``fake(check="...")``: the path of a peer that answers that with the expression given."""
    made = []

    def make(**otherwise: str) -> str:
        path = tmp_path / f"peer{len(made)}"
        body = "".join(f"{ask!r}: lambda: {text}, " for ask, text in otherwise.items())
        path.write_text(SCRIPT.format(python=sys.executable, good=GOOD, otherwise=body))
        path.chmod(0o755)
        made.append(path)
        return str(path)

    return make
