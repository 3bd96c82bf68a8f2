"""Read the variables of the author's stack frames, up to the call that began the capture."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType, FunctionType
from typing import Any

from hybrid.core.own_names import PREFIX
from hybrid.trace.places.code_owner import MISSING, of_package, program_frame
from hybrid.trace.places.place import read_place

# Code of functions that call the author's: the frames beyond are none of the program's.
BOUNDARIES: set[int] = set()  # by their ids


def frames() -> Iterator[Any]:
    """Yield the values of the variables of the author's frames, from the caller outwards."""
    frame = program_frame(sys._getframe(1))
    return author_values(frame)


def author_values(frame: FrameType | None) -> Iterator[Any]:
    """Yield the values of the author's variables from ``frame`` outwards, up to the capture."""
    for each in authors(frame):
        yield from [v for n, v in list(each.f_locals.items()) if not n.startswith(PREFIX)]


class Roots:
    """Iterates over the values of variables that code about to be traced can reach."""

    def __init__(self, values: list[Any], cells: dict[int, str]) -> None:
        self.values = values
        self.cells = cells  # by ids of the cells, the variables that nested functions share
        # The innermost frame of the program has the values.  Those of its callers are listed now,
        # for a frame that has returned does not know its caller.
        self.callers = [*authors(sys._getframe(1))][1:]

    def __iter__(self) -> Iterator[Any]:
        yield from self.values
        for frame in self.callers:
            yield from list(frame.f_locals.values())


def authors(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of the program from ``frame`` outwards, up to the capture."""
    while frame is not None and id(frame.f_code) not in BOUNDARIES:
        if not of_package(frame.f_code):
            yield frame
        frame = frame.f_back


def roots_of(found: Mapping[str, Any], before: Roots | tuple[()] = ()) -> Roots:
    """Return the Roots for variables ``found`` in a frame, added to those ``before``."""
    cells = {**(before.cells if before else {}), **_cells_of(found)}
    return Roots([*found.values(), *(before.values if before else ())], cells)


def _cells_of(found: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of variables in ``found`` that nested functions share, by cell ids."""
    cells: dict[int, str] = {}
    for value in found.values():
        if type(value) is FunctionType and value.__closure__:
            for name, cell in zip(value.__code__.co_freevars, value.__closure__, strict=True):
                if read_place(cell, "cell_contents") is found.get(name, MISSING):
                    cells[id(cell)] = name
    return cells
