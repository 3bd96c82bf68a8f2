"""Draw a graph: as an SVG by Graphviz where that is installed, else as a page of nested boxes."""

from __future__ import annotations

import re
import shutil
import subprocess
from os import PathLike
from pathlib import Path

from hybrid.core.output_file import write_text
from hybrid.errors import ArgumentError, GraphError
from hybrid.ir.graph import Graph
from hybrid.ir.show_dot import dot_source
from hybrid.ir.show_page import page


def show_graph(graph: Graph, path: str | PathLike[str] | None = None) -> Path:
    """Draw ``graph`` into the file ``path`` and return it.

    A path that ends in ``.svg`` asks for Graphviz, one that ends in ``.html`` for a page that needs
    nothing.  Without a path the file is named after the graph, in the current directory, and
    Graphviz is used if it is installed.
    """
    dot = shutil.which("dot")
    target = _default_path(graph, dot) if path is None else Path(path)
    if target.suffix == ".html":
        drawing = page(graph)
    elif target.suffix != ".svg":
        raise ArgumentError(
            f"a graph cannot be drawn into {target}",
            why="The end of the name says what is drawn: .svg or .html.",
            fix="let the name end in .svg or .html",
        )
    elif dot is None:
        raise GraphError(
            f"{target} cannot be drawn: the program dot is not installed",
            why="SVG files are drawn by Graphviz; pages (.html) need nothing.",
            fix="install graphviz, or let the name end in .html",
        )
    else:
        drawing = _run(dot, dot_source(graph), target)
    try:
        write_text(target, drawing)
    except OSError as error:
        raise GraphError(
            f"{target} cannot be written: {error.strerror}",
            fix="give a path in a folder that exists and may be written to",
        ) from None
    return target


def _default_path(graph: Graph, dot: str | None) -> Path:
    stem = re.sub(r"\W+", "_", graph.name).strip("_") or "graph"
    return Path(stem + (".html" if dot is None else ".svg"))


def _run(dot: str, source: str, target: Path) -> str:
    """What Graphviz makes of ``source``."""
    try:
        done = subprocess.run(
            [dot, "-Tsvg"], input=source.encode(), capture_output=True, check=True, timeout=600
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        raise GraphError(
            f"{target} cannot be drawn: {dot} failed",
            why=said.decode(errors="replace").strip() or str(error),
            fix="let the name end in .html to draw without Graphviz",
        ) from None
    return done.stdout.decode()
