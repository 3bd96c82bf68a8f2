"""Changes lines of the library, one at a time, and looks for a test that notices.

    python -m tests.tools.mutations                  # 40 lines of convert, trace, plan and kernels
    python -m tests.tools.mutations --seed 2 --list  # only says what it would change
    python -m tests.tools.mutations --only 7 --marks ''  # this one, with the nightly tests
    python -m tests.tools.mutations --tests tests/trace tests/plan  # these tests alone

The seed draws lines, as many from each folder, and one small change of each: a comparison or
condition turned round, ``and`` for ``or``, a number one larger, an operation gone.  All happens in
a copy of the checkout.  There, one run of all tests says which of them come by each line of Python:
the others cannot notice.  Then each change meets those tests, near ones first, until one fails.
After a change of C the kernels are compiled for the instruction set that tests use here, and meet
the tests of their names, those of operations and layers, and then all.

Prints a table: the change, and which test noticed, or ``survived``: then the change makes no
difference that can be observed, or a test is missing.  Takes hours, at the lowest priority.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hybrid.memory import native

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("hybrid/convert", "hybrid/trace", "hybrid/plan", "csrc/kernels")
MARKS = "not exhaustive and not nightly and not peers"  # what is not run, as in pyproject.toml
AT_ONCE = (20, 300, 100_000)  # tests that are run together: a few will do, mostly
LEFT = (".git", ".venv", "build")  # out of the copy
WIDTHS = {"avx512_dot": 64, "avx512": 64, "avx_vnni": 32, "avx2": 32}  # bytes of a vector
LONGEST = 3600.0  # seconds that tests may take: a change may make a loop endless

Change = tuple[int, int, int, str]  # line, columns, and what is to stand there


class Mutation(NamedTuple):
    """``text`` in place of what stands in ``path`` between two columns of a line."""

    path: str
    line: int  # from 1
    start: int
    stop: int
    text: str
    before: str  # the whole line

    @property
    def after(self) -> str:
        return self.before[: self.start] + self.text + self.before[self.stop :]

    def applied(self, source: str) -> str:
        lines = source.split("\n")
        assert lines[self.line - 1] == self.before, f"{self.path}:{self.line} is another line"
        lines[self.line - 1] = self.after
        return "\n".join(lines)

    def applied_in_widest(self, source: str) -> str:
        """In C: only where vectors are widest; what is compiled for the others stays as it is."""
        lines, changed = source.split("\n"), self.applied(source).split("\n")
        start = stop = self.line - 1
        while lines[start - 1].endswith("\\"):  # all of a macro
            start -= 1
        while lines[stop].endswith("\\"):
            stop += 1
        widest, both = (
            f"#if HYB_VECTOR_BYTES >= {WIDTHS.get(native.isa(), 0)}",
            slice(start, stop + 1),
        )
        lines[both] = [widest, *changed[both], "#else", *lines[both], "#endif"]
        return "\n".join(lines)


def mutations(path: str, source: str) -> list[Mutation]:
    """All changes of a file, in the order of its lines."""
    lines = source.split("\n")
    found = python_changes(source) if path.endswith(".py") else c_changes(lines)
    made = [Mutation(path, row, *rest, lines[row - 1]) for row, *rest in sorted(set(found))]
    return [item for item in made if item.before.isascii()]  # columns of ast are bytes


# ---- Python: from its syntax tree ----------------------------------------------------------------

SAME_COST = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
PYTHON_OPERATORS = {
    **SAME_COST,
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in"},
    **{"and": "or", "or": "and", "+": "-", "-": "+", "*": "+", "//": "*", "%": "+"},
}
UNTOUCHED = ast.JoinedStr | ast.Raise | ast.Assert  # messages are pinned elsewhere


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is in it, but for annotations, messages and parts for type checkers."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            only_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            if isinstance(child, ast.AST) and not isinstance(child, UNTOUCHED) and not only_types:
                yield from executed(child)


def python_changes(source: str) -> Iterator[Change]:
    lines = source.split("\n")
    for node in executed(ast.parse(source)):
        match node:
            case ast.Compare():
                yield from operators([node.left, *node.comparators], lines)
            case ast.BoolOp():
                yield from operators(node.values, lines)
            case ast.BinOp():
                yield from operators([node.left, node.right], lines)
            case ast.Constant(value=bool()):
                yield *span(node), str(not node.value)
            case ast.Constant(value=int()):
                yield *span(node), str(node.value + 1)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield from turned(test, lines)
            case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp() as value):
                yield from turned(value, lines)
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
                yield from gone(node)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield from gone(node)


def span(node: ast.expr | ast.stmt) -> tuple[int, int, int]:
    return node.lineno, node.col_offset, node.end_col_offset or 0


def gone(node: ast.stmt) -> Iterator[Change]:
    if node.lineno == node.end_lineno:
        yield *span(node), "pass"


def turned(node: ast.expr, lines: list[str]) -> Iterator[Change]:
    if node.lineno == node.end_lineno:
        row, start, stop = span(node)
        text = lines[row - 1][start:stop]
        turned_already = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        yield row, start, stop, text[4:] if turned_already else f"(not ({text}))"


def operators(operands: Sequence[ast.expr], lines: list[str]) -> Iterator[Change]:
    for left, right in pairwise(operands):
        if left.end_lineno == right.lineno:
            between = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
            word = between.strip(" ()")
            if word in PYTHON_OPERATORS:
                start = (left.end_col_offset or 0) + between.index(word)
                yield right.lineno, start, start + len(word), PYTHON_OPERATORS[word]


# ---- C: from its words ---------------------------------------------------------------------------

C_OPERATORS = {**SAME_COST, "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "+", "+=": "-="}
C_WORD = re.compile(r'"(?:\\.|[^"\\])*"|//.*|/\*.*?(?:\*/|$)|\b\d+\b|\b[A-Za-z_]\w*|[^\s\w]+|\S')
C_STATEMENT = re.compile(r"\s+([a-z_]\w*\([^;]*\);|[a-z_][\w.>\[\]-]* [-+|&]?= [^;]*;)\s*\\?$")


def c_changes(lines: list[str]) -> Iterator[Change]:
    """Inside functions: comments, directives, texts and what stands at the margin are left."""
    comment = False
    for row, line in enumerate(lines, 1):
        within, comment = (
            comment,
            (comment or "/*" in line) and "*/" not in line.rpartition("/*")[2],
        )
        if within or line[:1].strip() or line.lstrip().startswith(("#", "/*", "//")):
            continue
        for match in C_WORD.finditer(line):
            word, (start, stop) = match[0], match.span()
            if word.isdigit():
                yield row, start, stop, str(int(word) + 1)
            elif word in C_OPERATORS and line[start - 1] == " " == line[stop : stop + 1]:
                yield row, start, stop, C_OPERATORS[word]
        if statement := C_STATEMENT.match(line):
            yield row, *statement.span(1), ";"


# ---- which are tried -----------------------------------------------------------------------------


def drawn(root: Path, folders: Sequence[str], count: int, seed: int) -> list[Mutation]:
    """``count`` changes: of as many lines in each folder, and one of each line."""
    generator, picked = random.Random(seed), []
    for number, folder in enumerate(folders):
        found: dict[tuple[str, int], list[Mutation]] = {}
        for file in sorted([*(root / folder).rglob("*.py"), *(root / folder).rglob("*.c")]):
            path = file.relative_to(root).as_posix()
            for item in mutations(path, file.read_text(encoding="utf-8")):
                found.setdefault((path, item.line), []).append(item)
        share = count // len(folders) + (number < count % len(folders))
        for line in sorted(generator.sample(sorted(found), min(share, len(found)))):
            picked.append(generator.choice(found[line]))
    return picked


# ---- a copy to try them in -----------------------------------------------------------------------

PROBE = """
import os
met = set()
def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test and (number, test) not in met:
        met.add((number, test))
        with open(os.environ["MUTATIONS_HITS"], "a", encoding="utf-8") as file:
            file.write(f"{number} {test}\\n")
"""


class Copy:
    """A copy of a checkout with its compiled library, in which tests are run."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.originals: dict[str, str] = {}  # what stood in files that are changed
        self.fail_anyway: set[str] = set()
        shutil.copytree(root, self.tree, ignore=lambda at, _: LEFT if Path(at) == root else ())
        (folder / "installed").mkdir()
        (folder / "installed" / "hybrid").symlink_to(self.tree / "hybrid")
        (folder / "installed" / "mutation_probe.py").write_text(PROBE, encoding="utf-8")
        self.environment = {
            "HYBRID_BUILD_CACHE": str(folder / "objects"),
            **os.environ,
            "PYTHONPATH": str(folder / "installed"),
            "MUTATIONS_HITS": str(folder / "hits"),
            "PYTHONDONTWRITEBYTECODE": "1",  # sources change faster than times of files tell
        }

    def read(self, path: str) -> str:
        return (self.tree / path).read_text(encoding="utf-8")

    def write(self, path: str, source: str) -> None:
        (self.tree / path).write_text(source, encoding="utf-8")

    def built(self) -> bool:
        command = [sys.executable, "csrc/build_ffi.py"]
        done = subprocess.run(command, cwd=self.tree, env=self.environment, capture_output=True)
        return done.returncode == 0

    def fails_unchanged(self, item: Mutation, tests: Sequence[str]) -> bool:
        """Whether ``tests`` fail without a change of Python, too."""
        if not item.path.endswith(".py"):
            return False
        changed = self.read(item.path)
        self.write(item.path, self.originals[item.path])
        failed = self.fails(tests)
        self.write(item.path, changed)
        return bool(failed)

    def fails(self, tests: Sequence[str], *options: str) -> list[str]:
        """The tests that fail, or else the last words of a run that did not end well."""
        (self.folder / "arguments").write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "-rfE",
            "-p",
            "no:cacheprovider",
        ]
        with open(self.folder / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*command, *options, f"@{self.folder / 'arguments'}"],
                cwd=self.tree,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                return ["(takes too long)"]
            finally:  # also what tests have started
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace").strip()
        failed = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", text, re.MULTILINE)
        return [] if code in {0, 5} else failed or [f"({text.splitlines()[-1][:90]})"]


def probed(source: str, items: Sequence[tuple[int, Mutation]]) -> str:
    """``source``, in which who comes by a mutation leaves a note; lines stay where they are."""
    lines = source.split("\n")
    for number, item in items:
        at = probe_place(ast.parse("\n".join(lines)), item.line)
        if at is not None and lines[at[0] - 1].isascii():
            row, column, joint = at
            line, call = lines[row - 1], f"__import__('mutation_probe').hit({number})"
            lines[row - 1] = f"{line[:column]}{call}{joint}{line[column:]}"
            with suppress(SyntaxError):
                ast.parse("\n".join(lines))
                continue
            lines[row - 1] = line
    return "\n".join(lines)


def probe_place(tree: ast.Module, line: int) -> tuple[int, int, str] | None:
    """Before the statement, or in the head of one that has a body: ``if hit(1) or condition:``."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    match max(around, key=lambda node: (node.lineno, node.col_offset), default=None):
        case None | ast.FunctionDef() | ast.ClassDef() | ast.Try():
            return None
        case (
            ast.If(test=head)
            | ast.While(test=head)
            | ast.For(iter=head)
            | ast.Match(subject=head)
            | ast.With(items=[ast.withitem(context_expr=head), *_])
        ):
            return head.lineno, head.col_offset, " or "
        case node:
            return node.lineno, node.col_offset, "; "


def reached(
    copy: Copy, items: dict[int, Mutation], tests: Sequence[str], jobs: str
) -> dict[int, list[str]]:
    """Those of ``tests`` that come by each line of Python."""
    paths = {item.path for item in items.values() if item.path.endswith(".py")}
    originals = {path: copy.read(path) for path in sorted(paths)}
    for path, source in originals.items():
        copy.write(path, probed(source, [pair for pair in items.items() if pair[1].path == path]))
    if paths:
        failed = copy.fails(tests, "-n", jobs)
        print("Of all tests fail, with notes taken:", *failed[:20] or ["none"], sep="\n  ")
    for path, source in originals.items():
        copy.write(path, source)
    hits, found = copy.folder / "hits", {number: [] for number in items}
    for line in hits.read_text(encoding="utf-8").splitlines() if hits.exists() else ():
        number, _, test = line.partition(" ")
        if test not in found[int(number)] and "\\" not in test:
            found[int(number)].append(test)
    return found


def near(path: str, test: str) -> tuple[int, int]:
    """How much of its path a test shares with a file, best first; the name counts double."""
    folders, file = Path(path).parts[1:], Path(test.partition("::")[0])
    shared = len(set(folders[:-1]) & set(file.parts))
    named = Path(path).name.partition(".")[0].strip("_") in file.stem
    return -shared - 2 * named, len(test)


def noticed(copy: Copy, item: Mutation, tests: Sequence[str], jobs: str, marks: str) -> str:
    """The first of ``tests`` that fails, or ``""``."""
    options = ["-x", "-m", marks]
    options += [word for test in sorted(copy.fail_anyway) for word in ("--deselect", test)]
    tests = tests or [f"tests/{Path(item.path).parts[1]}"]  # what runs at import is met by none
    if item.path.endswith(".py"):
        tests = sorted(tests, key=lambda test: near(item.path, test))
        rounds, start = [], 0
        for size in AT_ONCE:
            rounds.append(tests[start : start + size])
            start += size
    else:
        files = [file.relative_to(copy.tree) for file in (copy.tree / "tests").rglob("test_*.py")]
        words = {word.partition(".")[0] for word in Path(item.path).parts[2:]}
        close = [str(file) for file in files if words & set(file.stem.split("_"))]
        rounds = [sorted(close), ["tests/ops", "tests/csrc", "tests/optim", "tests/nn"], tests]
    for together in filter(None, rounds):
        many = [] if len(together) < AT_ONCE[0] + 1 and item.path.endswith(".py") else ["-n", jobs]
        while failed := copy.fails(together, *options, *many)[:1]:
            if failed[0].startswith("(") or not copy.fails_unchanged(item, failed):
                return failed[0]
            copy.fail_anyway.add(failed[0])
            options += ["--deselect", failed[0]]
    return ""


def tried(copy: Copy, item: Mutation, tests: Sequence[str], jobs: str, marks: str) -> str:
    original, in_c = copy.read(item.path), item.path.endswith(".c")
    copy.originals[item.path] = original
    copy.write(item.path, (item.applied_in_widest if in_c else item.applied)(original))
    try:
        if in_c and not copy.built():
            return "(the compiler)"
        return noticed(copy, item, tests, jobs, marks)
    finally:
        copy.write(item.path, original)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folders", nargs="+", default=FOLDERS)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of those to try")
    parser.add_argument("--list", action="store_true", help="try none")
    parser.add_argument("--jobs", default="auto", help="of pytest")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="that are to notice")
    parser.add_argument("--marks", default=MARKS, help="of the tests that are run")
    chosen = parser.parse_args()
    items = dict(enumerate(drawn(ROOT, chosen.folders, chosen.count, chosen.seed)))
    if chosen.only is not None:
        items = {number: items[number] for number in chosen.only}
    if chosen.list:
        for number, item in items.items():
            print(f"{number} {item.path}:{item.line}\n-{item.before}\n+{item.after}")
        return
    os.nice(19 - os.nice(0))
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(ROOT, Path(folder))
        met = reached(copy, items, chosen.tests, chosen.jobs)
        survivors = 0
        print(
            "| | line | before | after | noticed by | of | seconds |\n|---|---|---|---|---|---|---|"
        )
        for number, item in items.items():
            start = time.monotonic()
            tests = chosen.tests if item.path.endswith(".c") else met[number]
            by = tried(copy, item, tests, chosen.jobs, chosen.marks)
            survivors += not by
            row = [number, f"{item.path}:{item.line}", item.before.strip(), item.after.strip()]
            row += [by or "survived", len(met[number]), round(time.monotonic() - start)]
            print("|", " | ".join(str(cell).replace("|", "\\|") for cell in row), "|", flush=True)
    print(f"{len(items) - survivors} of {len(items)} noticed")


if __name__ == "__main__":
    main()
