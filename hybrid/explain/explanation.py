"""Explanation: what ``explain()`` gives: the author's source, and what became of each line."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.imports import above
from hybrid.core.output_file import write_text
from hybrid.errors import GraphError
from hybrid.ir import Graph


@dataclass(frozen=True, slots=True)
class Note:
    """More about a line; ``kind`` is "node", "why", "key", "guard" or "call"."""

    kind: str
    text: str
    target: str = ""  # the anchor of the function or node that it is about


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the author's; ``label`` says what became of it, ``kind`` how to colour that.

    Kinds: "cond", "for", "while", "unrolled", "py_call", "check", "graph" (other nodes), "jump" (a
    break, continue or return in what became a node), "python" (it ran while the function was
    captured, and left no node), "not run", and "" for lines that hold no code.
    """

    number: int
    text: str
    kind: str = ""
    label: str = ""
    nodes: int = 0
    ops: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()  # the anchors of its nodes
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function that was traced; without source it has the lines that made nodes, if any."""

    name: str
    place: str  # file:line
    remark: str  # why it was not converted
    lines: tuple[Line, ...]
    anchor: str


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter of the graph, and where a call finds it."""

    name: str
    type: str
    source: str
    written: bool  # whether a run puts another value back into its place


@dataclass(frozen=True, slots=True)
class GuardRow:
    """What must be as it was for the plan to serve a call."""

    name: str
    value: str
    telling: bool  # whether it is a plain value, not a function, a module or an object
    count: int = 1  # of guards that read the same


@dataclass(frozen=True, slots=True)
class Explanation:
    """One capture of a function, told along its source; ``str()`` is plain text."""

    name: str
    call: tuple[str, ...]  # the arguments
    verdict: str  # which plan serves the call, or why a new one is built
    summary: str  # the size of the graph
    functions: tuple[Function, ...]
    elsewhere: tuple[tuple[str, int], ...]  # nodes made by lines that are not shown
    inputs: tuple[Input, ...]
    writes: tuple[str, ...]  # attributes that a run sets
    guards: tuple[GuardRow, ...]
    plans: tuple[tuple[str, str], ...]  # what is cached, and why it was built
    sizes: tuple[str, ...]  # of arguments: open, under which conditions, or fixed by what
    graph: Graph

    def __str__(self) -> str:
        return above.explanation_text(self)

    def __repr__(self) -> str:
        return f"<explanation of {self.name}({', '.join(self.call)}): {self.summary}>"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from above.explanation_parts(self)

    def show(self) -> None:
        """Print it in colours, as wide as the terminal."""
        above.show_explanation(self)

    def html(self, path: str | PathLike[str]) -> Path:
        """Write it as one page: no script, nothing to fetch; gives the path back."""
        target = Path(path)
        try:
            write_text(target, above.explanation_page(self))
        except OSError as error:
            raise GraphError(
                f"{target} cannot be written: {error.strerror}",
                fix="give a path in a folder that exists and may be written to",
            ) from None
        return target

    def _repr_html_(self) -> str:
        """For notebooks."""
        return above.explanation_fragment(self)
