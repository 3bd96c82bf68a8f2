"""The tool that changes lines and looks for a test that notices; see ``tools/mutations.py``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tools import mutations

PYTHON = '''
from typing import TYPE_CHECKING

if TYPE_CHECKING and 1:
    import os

def scaled(values: list[1], most: int = 3) -> bool | None:
    """1 < 2 and True."""
    assert most > 0, most
    total = sum(value * 2 for value in values)
    if not total < most and values:
        values.clear()
    elif total in values or (
        total is None):
        raise ValueError(1)
    for value in values:
        values[0] = f"{value + 1}"
    return total <= most
'''

PYTHON_CHANGES = """
def scaled(values: list[1], most: int = 4) -> bool | None:
    total = sum(value + 2 for value in values)
    total = sum(value * 3 for value in values)
    if (not (not total < most and values)):
    if not total <= most and values:
    if not total < most or values:
        pass
    elif total not in values or (
        total is not None):
        pass
        values[1] = f"{value + 1}"
    return (not (total <= most))
    return total < most
"""

C = """
/* 1 < 2 */
#define HALF(x) \\
    ((x) / 2)
static double half(int n)
{
    const char *text = "1 + 2"; // 3
    /* 1 < 2
       2 < 3 */
    for (int i = 0; i < n && n != 4; i++)
        sum += a[i - 1] -
            b->c;
    report(text);
}
"""

C_CHANGES = """
    ((x) / 3)
    for (int i = 1; i < n && n != 4; i++)
    for (int i = 0; i <= n && n != 4; i++)
    for (int i = 0; i < n || n != 4; i++)
    for (int i = 0; i < n && n == 4; i++)
    for (int i = 0; i < n && n != 5; i++)
        sum -= a[i - 1] -
        sum += a[i + 1] -
        sum += a[i - 2] -
    ;
"""


@pytest.mark.parametrize(
    ("path", "source", "changes"), [("a.py", PYTHON, PYTHON_CHANGES), ("a.c", C, C_CHANGES)]
)
def test_changes_of_a_file(path: str, source: str, changes: str) -> None:
    made = mutations.mutations(path, source)
    assert "\n".join(item.after for item in made) == changes.strip("\n")
    for item in made:
        was, now = source.split("\n"), item.applied(source).split("\n")
        assert [at for at, line in enumerate(was, 1) if now[at - 1] != line] == [item.line]


def test_c_is_changed_where_vectors_are_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations.native, "isa", lambda: "avx2")
    by_line = {item.line: item for item in mutations.mutations("a.c", C)}
    assert "#if HYB_VECTOR_BYTES >= 32\n    ;\n#else\n    report(text);\n#endif\n}" in (
        by_line[13].applied_in_widest(C)
    )
    lines = by_line[4].applied_in_widest(C).split("\n")
    assert lines[2:8] == [
        *("#if HYB_VECTOR_BYTES >= 32", "#define HALF(x) \\", "    ((x) / 3)"),
        *("#else", "#define HALF(x) \\", "    ((x) / 2)"),
    ]


def test_a_seed_draws_the_same_lines_as_many_from_each_folder() -> None:
    items = mutations.drawn(mutations.ROOT, mutations.FOLDERS, 42, seed=1)
    counts = [sum(item.path.startswith(folder) for item in items) for folder in mutations.FOLDERS]
    assert counts == [11, 11, 10, 10]
    assert len({item[:2] for item in items}) == 42
    for item in items:
        source = (mutations.ROOT / item.path).read_text(encoding="utf-8")
        assert item.after != item.before and item.applied(source) != source
        if item.path.endswith(".py"):
            compile(item.applied(source), item.path, "exec")


def test_notes_are_taken_where_statements_begin() -> None:
    source = PYTHON.replace("[0] = f", "[0] = yes(\n    1) or f")
    items = [item for item in enumerate(mutations.mutations("a.py", source))]
    noted = mutations.probed(source, items)
    ast.parse(noted)
    assert noted.count("\n") == source.count("\n")
    text = noted.replace("__import__('mutation_probe').hit", "note")
    for head in (
        "def scaled(values: list[1], most: int = 3)",
        "note(1); note(2); total = ",
        "    if note(5) or note(4) or note(3) or not total < most",
        "        note(6); values.clear()",
        "    elif note(8) or note(7) or total in values or (",
        "        note(9); note(10); note(11); values[0] = yes(",
        "    note(12); note(13); return total",
    ):
        assert head in text, text


SMALL = """
def larger(a, b):
    if a < b:
        return b
    return a

def unused(a):
    return a > 1

"""

SMALL_TESTS = """
import pytest
from hybrid.small import larger

@pytest.mark.parametrize("pair", [(1, 2), (2, 1)])
def test_larger(pair):
    assert larger(*pair) == 2

def test_other():
    pass
"""


def test_what_is_noticed_and_what_survives(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for path, text in {"hybrid/small.py": SMALL, "tests/test_small.py": SMALL_TESTS}.items():
        (project / path).parent.mkdir(parents=True)
        (project / path).write_text(text, encoding="utf-8")
    (project / "hybrid" / "__init__.py").touch()
    items = dict(enumerate(mutations.drawn(project, ["hybrid"], 40, seed=0)))
    assert [item.line for item in items.values()] == [3, 8]
    items[0] = mutations.Mutation("hybrid/small.py", 3, 7, 12, "(not (a < b))", "    if a < b:")

    copy = mutations.Copy(project, tmp_path)
    tests = mutations.reached(copy, items, ["tests"], jobs="0")
    assert tests[0] == [f"tests/test_small.py::test_larger[pair{number}]" for number in (0, 1)]
    assert tests[1] == []
    assert mutations.tried(copy, items[0], tests[0], "0", "").startswith("tests/test_small.py::")
    equal = items[0]._replace(text="a <= b")
    assert mutations.tried(copy, equal, tests[0], "0", "") == ""
    assert copy.read("hybrid/small.py") == SMALL
    always = "tests/test_always.py::test_always"
    copy.write("tests/test_always.py", "def test_always():\n    assert 0\n")
    assert mutations.tried(copy, equal, [always, *tests[0]], "0", "") == ""
    assert copy.fail_anyway == {always}
    broken = items[0]._replace(text="pass")
    assert mutations.tried(copy, broken, ["tests/test_small.py"], "0", "") == "tests/test_small.py"
