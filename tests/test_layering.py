"""Imports run downwards through the folders of docs/architecture.md, and never in a circle."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hybrid"
PAGE = ROOT / "docs/architecture.md"

ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \|$", re.MULTILINE)
ROWS = [re.findall(r"`([^`]+)`", folders) for folders, _ in ROW.findall(PAGE.read_text("utf-8"))]
HEIGHT = {folder: -at for at, row in enumerate(ROWS) for folder in row}

# Imports that wait until a function is called: from and to what, and why.
DEFERRED = {
    ("calls", "explain"): "explanations are for people: few runs ask for one",
    ("calls", "convert"): "what captures nothing imports no conversion",
    ("calls", "staging"): "the same",
    ("calls", "calls/files"): "plans in files are looked for when a function is captured",
    ("calls/files", "calls/files"): "a plan that was loaded is not written",
    ("cli", "programs"): "most commands read no program",
    ("data", "data"): "worker processes and captured loops are for those who have them",
    ("optim", "number"): "numbers are traced within captures alone",
}
MOST_DEFERRED = 8
FORBIDDEN = {  # downwards, and yet not allowed
    ("passes", "eager"): "passes work on graphs alone",
    ("passes", "memory"): "passes work on graphs alone",
    ("ops", "plan"): "ops say what is computed, plans how",
    ("memory", "ir"): "buffers know no graphs",
    ("convert", "ops"): "conversion knows no tensors",
    ("convert", "ir"): "conversion knows no graphs",
}
MAY_SAY_HYBRID = {
    "cli",
    "bench",
    "simulation",
    "models",
    "nn",
    "optim",
    "data",
    "train",
}  # `import hybrid`
COMPILED = "hybrid._native"


class Import(NamedTuple):
    line: int
    module: str
    deferred: bool = False  # inside a function


def name_of(path: Path) -> str:
    """The module that a file of the package is."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def folder_of(module: str) -> str:
    """The folder that a module is in, or its own name where it stands at the top."""
    path = MODULES.get(module, PACKAGE / f"{module.removeprefix('hybrid.')}.py")
    return "/".join(path.relative_to(PACKAGE).parts[:-1]) or path.stem


def unit_of(folder: str) -> str:
    """The folder of the table that ``folder`` belongs to; empty if there is none."""
    while folder and folder not in HEIGHT:
        folder = folder.rpartition("/")[0]
    return folder


@functools.cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """The imports of this package in a file, but for those that only type checkers follow."""
    return tuple(_imports(ast.parse(path.read_text(encoding="utf-8")), path, deferred=False))


def _imports(node: ast.AST, path: Path, deferred: bool) -> Iterator[Import]:
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    modules: list[str] = []
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        modules = [name if name in MODULES else str(node.module) for name in full]
    for module in dict.fromkeys(modules):
        if module.partition(".")[0] == "hybrid":
            yield Import(node.lineno, module, deferred)  # type: ignore[attr-defined]
    inside = deferred or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _imports(child, path, inside)


def is_in(folder: str, other: str) -> bool:
    """Whether ``folder`` is the folder ``other``, or in it."""
    return folder == other or folder.startswith(f"{other}/")


def fault(importer: str, found: Import) -> str:
    """Why a module in the folder ``importer`` must not have this import; empty when it may."""
    own = unit_of(importer)
    if found.module == "hybrid":
        return "" if own in MAY_SAY_HYBRID else "the public surface is for the layers above"
    if found.module == COMPILED:
        return "" if own == "memory" else "only hybrid/memory/native.py imports the C library"
    if found.module not in MODULES:
        return "there is no such module"
    folder = folder_of(found.module)
    unit = unit_of(folder)
    if not own or not unit:
        return f"{folder if own else importer} has no row in docs/architecture.md"
    if own != unit and HEIGHT[unit] > HEIGHT[own]:
        return "that is upwards"
    if (own, unit) in FORBIDDEN:
        return FORBIDDEN[own, unit]
    if found.deferred and not any(is_in(importer, of) and is_in(folder, to) for of, to in DEFERRED):
        return "it waits until a function is called, and DEFERRED does not say why"
    return ""


def circles(edges: dict[str, Iterable[str]]) -> list[list[str]]:
    """The sets of nodes that reach one another (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in edges:
        if node not in index:
            visit(node)
    return found


def test_imports_run_downwards() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{found.line}: imports {found.module}: {why}"
        for module, path in MODULES.items()
        if module != "hybrid"
        for found in imports_of(path)
        if (why := fault(folder_of(module), found))
    ]
    assert not faults, "\n".join(faults)


def test_no_file_imports_itself_however_long_the_way_round() -> None:
    edges = {
        module: {found.module for found in imports_of(path)} - {module}
        for module, path in MODULES.items()
    }
    assert circles(edges) == []


def test_deferred_imports_are_few_and_each_is_there() -> None:
    assert len(DEFERRED) <= MOST_DEFERRED
    there = [
        (folder_of(module), folder_of(found.module))
        for module, path in MODULES.items()
        for found in imports_of(path)
        if found.deferred and found.module in MODULES
    ]
    for of, to in DEFERRED:
        assert any(is_in(a, of) and is_in(b, to) for a, b in there), (of, to)


def test_every_folder_of_the_page_is_there_and_says_what_it_is() -> None:
    for folder in HEIGHT:
        path = PACKAGE / folder
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))), module


@pytest.mark.parametrize(
    ("importer", "found", "why"),
    [
        ("ops", Import(1, "hybrid.eager.tensor"), "upwards"),
        ("eager", Import(1, "hybrid.autodiff.tape"), "upwards"),
        ("staging/values", Import(1, "hybrid.staging.loops.loop"), "upwards"),
        ("calls/bind", Import(1, "hybrid.nn.modules.module"), "upwards"),
        ("passes", Import(1, "hybrid._native"), "only hybrid/memory/native.py"),
        ("passes", Import(1, "hybrid.eager.tensor"), "upwards"),
        ("passes", Import(1, "hybrid.memory.native"), "graphs alone"),
        ("memory", Import(1, "hybrid.ir.graph"), "no graphs"),
        ("autodiff", Import(1, "hybrid"), "public surface"),
        ("attic", Import(1, "hybrid.errors"), "no row"),
        ("ops", Import(1, "hybrid.attic"), "no such module"),
        ("train", Import(1, "hybrid.data.loader", True), "DEFERRED does not say why"),
        ("train", Import(1, "hybrid.data.loader"), ""),
        ("calls", Import(1, "hybrid.explain.explanation_build", True), ""),
    ],
)
def test_faults_are_found(importer: str, found: Import, why: str) -> None:
    assert why in fault(importer, found)
    assert bool(why) == bool(fault(importer, found))


def test_circles_are_found() -> None:
    edges = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": []}
    assert circles(edges) == [["a", "b", "c"]]


def test_imports_are_read_from_everywhere(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import hybrid as hy\n"
        "from hybrid.ir import graph, nothing\n"
        "def f():\n    import hybrid.ir.op\n"
        "if TYPE_CHECKING:\n    from hybrid.nn import Module\n",
        encoding="utf-8",
    )
    assert sorted(imports_of(source)) == [
        (1, "hybrid", False),
        (2, "hybrid.ir", False),
        (2, "hybrid.ir.graph", False),
        (4, "hybrid.ir.op", True),
    ]
