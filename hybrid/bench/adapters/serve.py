"""Runs a program of another framework when told to on standard input, and keeps the time.

The lines of the conversation: a number, answered by the seconds of so many runs; ``result``,
answered by what the program computes, as a JSON list of numbers.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    """``run`` computes, to the end; ``read`` makes numbers of its result."""

    run: Callable[[], Any]
    read: Callable[[Any], Iterable[float]]


def serve(programs: Mapping[str, Callable[..., Program]]) -> None:
    """Serve the program that the command line names, with the integers that follow the name."""
    name, *numbers = sys.argv[1:]
    program = programs[name](*map(int, numbers))
    for line in sys.stdin:
        if line.strip() == "result":
            answer = json.dumps([float(value) for value in program.read(program.run())])
        else:
            start = time.perf_counter()
            for _ in itertools.repeat(None, int(line)):
                program.run()
            answer = repr(time.perf_counter() - start)
        print(answer, flush=True)
