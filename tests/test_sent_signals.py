"""Tests that send SIGINT or start threads: neither depends on, nor keeps, who runs them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def senders() -> Iterator[tuple[Path, str, str]]:
    """(file, test, its source with that of the helpers and constants that it names)."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path == Path(__file__) or "SIGINT" not in text:
            continue
        tree = ast.parse(text)
        parts = {}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.Assign)):
                name = (
                    node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.targets[0])
                )
                decorators = getattr(node, "decorator_list", [])
                parts[name] = "\n".join(map(ast.unparse, [*decorators, node]))
        for name, source in parts.items():
            if name.startswith("test_"):
                words = {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)}
                used = [source, *[parts[word] for word in words if word in parts]]
                if any("SIGINT" in part for part in used):
                    yield path, name, "\n".join(used)


def test_each_says_how_it_is_heeded() -> None:
    found = list(senders())
    assert len(found) > 8
    for path, name, source in found:
        own = "heeded_interrupt" in source or "signal.signal(signal.SIGINT" in source
        assert own, f"{path.relative_to(TESTS)}: {name} sends SIGINT; use heeded_interrupt"


@pytest.mark.parametrize("name", ["calls/test_interrupts.py", "plan/test_host.py"])
def test_they_pass_where_it_is_ignored(name: str) -> None:
    command = f"trap '' INT; exec {sys.executable} -m pytest -q -p no:cacheprovider {TESTS / name}"
    command += " -k 'ctrl_c or handler'"
    done = subprocess.run(
        ["sh", "-c", command], cwd=TESTS.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


def test_no_thread_keeps_the_process_that_runs_the_tests() -> None:
    """A thread that hangs fails its test; the process can still end."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "threading.Thread" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "threading.Thread":
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                where = f"{path.relative_to(TESTS)}:{node.lineno}"
                assert given.get("daemon") == "True", f"{where}: pass daemon=True"
