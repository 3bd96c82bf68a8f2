"""Scope analysis: names, liveness and definite assignment of a function, by line."""

from __future__ import annotations

import ast
import textwrap

import pytest

from hybrid.convert.assignment import Definite
from hybrid.convert.liveness import Liveness
from hybrid.convert.scope import Scope, mangled, scope_of


def parsed(text: str) -> tuple[ast.FunctionDef, Scope]:
    node = ast.parse(textwrap.dedent(text)).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node, scope_of(node)


SCOPES = {
    "bindings of every kind": (
        """
        def f(a, /, b, *c, d=1, **e):
            import g, h.i as j
            from k import l as m
            with n() as (o, p): pass
            for q, *r in s: pass
            try: pass
            except t as u: pass
            def v(w): return w
            class x(y): z = 1
            aa: int
            bb += 1
            (cc := 1)
            [dd for dd in (ee := [1])] if ff else None
            match gg:
                case {"k": hh, **ii}: pass
                case [jj, *kk] as ll: pass
            del mm
        """,
        {
            "a", "b", "c", "d", "e", "g", "j", "m", "o", "p", "q", "r", "u", "v", "x", "aa", "bb",
            "cc", "ee", "hh", "ii", "jj", "kk", "ll", "mm",
        },
        set(),
    ),
    "globals and nonlocals are no locals": (
        "def f():\n    global a\n    nonlocal b\n    a = b = c = 1",
        {"c"},
        set(),
    ),
    "captured by what may run later": (
        """
        def f(a, b, c, d, e, g):
            def inner(b=b): return a
            h = lambda: lambda: c
            i = (d for d in [e] if g)
            j = [e for b in h]
            class k:
                m = d
                def n(self): return e
        """,
        {"a", "b", "c", "d", "e", "g", "inner", "h", "i", "j", "k"},
        {"a", "c", "g", "e"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "locals_", "captured"), SCOPES.values(), ids=SCOPES)
def test_scope(text: str, locals_: set[str], captured: set[str]) -> None:
    _, scope = parsed(text)
    assert scope.locals == locals_
    assert scope.captured == captured


# Each comment says what is live after the statement that ends on its line.
LIVE = {
    "straight": """
        def f(a):
            b = a  # b
            c = b  # c
            return c
        """,
    "branches": """
        def f(a, b):
            if a:
                c = b  # c
            else:
                c = 1  # c
            b = c  # b
            return b
        """,
    "a loop": """
        def f(xs):
            a = b = 0  # a b xs
            for x in xs:
                a = b  # a x
                b = a + x  # a b
            return a
        """,
    "break and else": """
        def f(xs):
            a = 0  # a xs
            while xs:
                a = 1  # a
                break
            else:
                b = a  # b
                return b
            return a
        """,
    "what a handler reads is live throughout its try": """
        def f():
            a = 0  # a
            try:
                b = g()  # a
                b = 2  # a
            except E:
                return a
            return 1
        """,
    "what finally reads": """
        def f(a):
            try:
                b = 1  # a b
                return b
            finally:
                print(a)
        """,
    "a name that eval may read": """
        def f(a):
            b = 1  # a b
            return eval("b")
        """,
    "with may swallow": """
        def f(a):
            with m:
                a = 1  # a b
                b = 2  # a b
            return a, b
        """,
}


@pytest.mark.parametrize("text", LIVE.values(), ids=LIVE)
def test_liveness(text: str) -> None:
    node, scope = parsed(text)
    liveness = Liveness(scope, node.body)
    lines = textwrap.dedent(text).splitlines()
    expected = {
        number: set(line.partition("#")[2].split())
        for number, line in enumerate(lines, 1)
        if "#" in line
    }
    found = {
        inner.lineno: set(liveness.live_after(inner) & scope.locals)
        for inner in ast.walk(node)
        if isinstance(inner, ast.stmt) and inner.lineno in expected
    }
    assert expected
    assert found == expected


def test_heads() -> None:
    """Names that an iteration may read, or hand on, before it binds them."""
    node, scope = parsed(
        """
        def f(xs, n):
            a = b = c = d = 0
            for x in xs:
                a = x
                b = b + a
                if n:
                    c = 1
                while d < c:
                    d += 1
            return a
        """
    )
    liveness = Liveness(scope, node.body)
    outer = node.body[1]
    inner = outer.body[3]  # type: ignore[attr-defined]
    assert liveness.live_at_head(outer) == {"b", "c", "d", "n"}
    assert liveness.live_at_head(inner) == {"a", "b", "c", "d", "n"}


# Loads marked with a question mark may find their variable unbound.
DEFINITE = {
    "one branch": "if a:\n    b = 1\nreturn b?",
    "both branches": "if a:\n    b = 1\nelse:\n    b = 2\nreturn b",
    "a branch that leaves": "if a:\n    b = 1\nelse:\n    return b?\nreturn b",
    "a loop that may not run": "for b in a:\n    c = b\nreturn b?, c?",
    "a loop that ends by break": "while True:\n    b = 1\n    if a: break\nreturn b",
    "deleted": "b = 1\nif a:\n    del b\nreturn b?",
    "deleted in an iteration": "b = 1\nwhile b?:\n    del b?",
    "try": "try:\n    b = a()\nexcept E as e:\n    print(b?, e)\nreturn b?, e?",
    "try and else": "try:\n    b = 1\nexcept E:\n    return b?\nelse:\n    c = b\nreturn b, c",
    "finally": "try:\n    b = 1\nfinally:\n    print(b?)\nreturn b",
    "with": "with a:\n    b = 1\nreturn b?",
    "augmented": "if a:\n    b = 1\nb? += 1\nreturn b",
    "operands": "a and (b := 1)\nreturn b?",
    "comprehension": "return [b + c? for b in a], (lambda: 1)\nc = 1",
    "match": "match a:\n    case 1:\n        b = 1\n    case c:\n        b = c\nreturn b?, c?",
}


@pytest.mark.parametrize("text", DEFINITE.values(), ids=DEFINITE)
def test_definite(text: str) -> None:
    marked = "def f(a):\n" + textwrap.indent(text, "    ")
    node, scope = parsed(marked.replace("?", ""))
    definite = Definite(scope, node.body)
    found = {
        (inner.lineno, inner.end_col_offset)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and not definite.is_sure(inner)
    }
    expected = set()
    for number, line in enumerate(marked.splitlines(), 1):
        pieces = line.split("?")
        for index in range(1, len(pieces)):
            expected.add((number, len("".join(pieces[:index]))))
    assert found == expected


@pytest.mark.parametrize(
    ("name", "class_name", "expected"),
    [
        ("__x", "A", "_A__x"),
        ("__x", "__A", "_A__x"),
        ("__x__", "A", "__x__"),
        ("_x", "A", "_x"),
        ("__x", None, "__x"),
        ("__x", "__", "__x"),
    ],
)
def test_mangling(name: str, class_name: str | None, expected: str) -> None:
    assert mangled(name, class_name) == expected
