"""Records of many fields are built by keyword: nobody has to count which value is which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "hybrid"
MOST_FIELDS = 5  # of a record that may be built by position


def name_of(path: Path, package: Path) -> str:
    """The module that a file is."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass or a NamedTuple of more than MOST_FIELDS fields."""
    marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list]
    said = [ast.unparse(mark) for mark in (*marks, *node.bases)]
    fields = [
        field
        for field in node.body
        if isinstance(field, ast.AnnAssign) and "ClassVar" not in ast.unparse(field.annotation)
    ]
    return len(fields) > MOST_FIELDS and any(
        mark.rpartition(".")[2] in ("dataclass", "NamedTuple") for mark in said
    )


def known_names(tree: ast.Module, module: str) -> dict[str, str]:
    """What names of a file stand for: full names of classes and modules."""
    found = {
        node.name: f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.ClassDef)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def dotted(node: ast.expr) -> str:
    """``a.b.c`` of a name and its attributes; of anything else nothing."""
    if isinstance(node, ast.Attribute):
        first = dotted(node.value)
        return f"{first}.{node.attr}" if first else ""
    return node.id if isinstance(node, ast.Name) else ""


def faults(package: Path) -> Iterator[str]:
    """Calls of such records with arguments by position."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))
    }
    records = {
        f"{name_of(path, package)}.{node.name}"
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and is_record(node)
    }
    for path, tree in trees.items():
        at = path.relative_to(package)
        names = known_names(tree, name_of(path, package))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args:
                first, dot, rest = dotted(node.func).partition(".")
                if f"{names.get(first, first)}{dot}{rest}" in records:
                    yield f"{at}:{node.lineno}: {first}{dot}{rest} by position"


def test_records_of_many_fields_are_built_by_keyword() -> None:
    found = list(faults(PACKAGE))
    assert not found, "\n".join(found)


SIX = "    a: int\n    b: int\n    c: int\n    d: int\n    e: int\n    f: int = 0\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@dataclass(slots=True)\nclass R:\n" + SIX + "R(1)", ["ir/x.py:9: R by position"]),
        ("class R(NamedTuple):\n" + SIX + "R(*x)", ["ir/x.py:8: R by position"]),
        ("class R(NamedTuple):\n" + SIX + "R(a=1, **x)", []),
        ("class R(NamedTuple):\n" + SIX.replace("    f: int = 0\n", "") + "R(1)", []),
        ("class R(NamedTuple):\n" + SIX.replace("f: int", "f: ClassVar[int]") + "R(1)", []),
        ("class R:\n" + SIX + "R(1)", []),
        ("from hybrid.ir.y import R as S\nS(1)", ["ir/x.py:2: S by position"]),
        ("from hybrid.ir import y\ny.R(1)", ["ir/x.py:2: y.R by position"]),
        ("from hybrid.ir.z import R\nR(1)", []),
    ],
)
def test_faults(tmp_path: Path, text: str, found: list[str]) -> None:
    package = tmp_path / "hybrid"
    (package / "ir").mkdir(parents=True)
    (package / "ir/x.py").write_text(text, encoding="utf-8")
    (package / "ir/y.py").write_text("class R(NamedTuple):\n" + SIX, encoding="utf-8")
    assert list(faults(package)) == found
