"""Makes a program that fails small, as long as it goes on failing in the same way."""

from __future__ import annotations

import ast
import copy
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Change = Callable[[], Any]
Changes = Callable[[ast.Module], Iterator[Change]]
Block = list[ast.stmt]
_BLOCKS = ("body", "orelse", "finalbody")


def reduced(text: str, fails: Callable[[str], bool], seconds: float = 60.0) -> str:
    """The smallest module that was found to fail, within about ``seconds``.

    ``fails`` is asked for the text of each candidate; it holds for ``text``.
    """
    end = time.monotonic() + seconds
    text = ast.unparse(ast.parse(text))
    tried = {text}
    smaller = True
    while smaller:
        smaller = False
        for changes in (_calls, _deletions, _simplifications, _expressions):
            place = 0  # the changes before it have been tried
            while time.monotonic() < end:
                tree = ast.parse(text)
                change = next(itertools.islice(changes(tree), place, None), None)
                if change is None:
                    break
                change()
                candidate = _text(tree)
                if candidate is not None and candidate not in tried and fails(candidate):
                    text, smaller = candidate, True
                else:
                    place += 1
                tried.add(candidate or text)
    return text


def _text(tree: ast.Module) -> str | None:
    """None where the change has left what Python does not compile."""
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        compile(text, "<reduced>", "exec")
    except (SyntaxError, ValueError, AttributeError):
        return None
    return text


def _calls(tree: ast.Module) -> Iterator[Change]:
    """One call less."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "calls":
            for found in ast.walk(node):
                if isinstance(found, ast.Return) and isinstance(found.value, ast.List):
                    yield from _dropped(found.value.elts)


def _deletions(tree: ast.Module) -> Iterator[Change]:
    """Some statements less, many at first."""
    blocks = [block for node in ast.walk(tree) for block in _blocks(node)]
    for size in (8, 4, 2, 1):
        for block in blocks:
            for end in range(len(block), size - 1, -size):
                yield partial(_replace, block, end - size, end, [])


def _simplifications(tree: ast.Module) -> Iterator[Change]:
    """A compound statement less, or a part of one."""
    for block in [block for node in ast.walk(tree) for block in _blocks(node)]:
        for i, statement in enumerate(block):
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                for inner in _blocks(statement):
                    yield partial(_replace, block, i, i + 1, inner)
            for each in _simpler(statement):
                yield partial(_replace, block, i, i + 1, [each])


def _expressions(tree: ast.Module) -> Iterator[Change]:
    """A part of an expression in its place, or an item less."""
    nodes = [node for node in _outside_data(tree) if not isinstance(node, ast.arguments)]
    for node in nodes:
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                for part in _parts(value):
                    yield partial(setattr, node, name, part)
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    for part in _parts(item):
                        yield partial(value.__setitem__, i, part)
    for node in nodes:
        if isinstance(node, ast.Dict):
            for i in range(len(node.keys)):
                yield partial(_drop_key, node, i)
        elif isinstance(node, (ast.List, ast.Tuple)):
            yield from _dropped(node.elts)
        elif isinstance(node, ast.Call):
            yield from _dropped(node.keywords)
            yield from _dropped(node.args)


def _outside_data(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is in it, but for the numbers that tensors are made of."""
    yield node
    if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "asarray"):
        for child in ast.iter_child_nodes(node):
            yield from _outside_data(child)


def _dropped(items: list) -> Iterator[Change]:
    for i in range(len(items) - 1, -1, -1):
        yield partial(items.pop, i)


def _drop_key(node: ast.Dict, i: int) -> None:
    del node.keys[i], node.values[i]


def _blocks(node: ast.AST) -> list[Block]:
    """The lists of statements that belong to ``node`` itself."""
    found = [getattr(node, name, None) for name in _BLOCKS]
    found += [handler.body for handler in getattr(node, "handlers", ())]
    found += [case.body for case in getattr(node, "cases", ())]
    return [block for block in found if isinstance(block, list) and block]


def _replace(block: Block, start: int, end: int, new: Block) -> None:
    block[start:end] = new
    if not block:
        block.append(ast.Pass())


def _simpler(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statement without one of its blocks."""
    if isinstance(statement, (ast.If, ast.For, ast.While, ast.Try)) and statement.orelse:
        yield _without(statement, orelse=[])
    if isinstance(statement, ast.Try):
        if statement.finalbody and statement.handlers:
            yield _without(statement, finalbody=[])
        for i in range(len(statement.handlers)):
            rest = statement.handlers[:i] + statement.handlers[i + 1 :]
            if rest or statement.finalbody:
                yield _without(statement, handlers=rest)
    if isinstance(statement, ast.Match) and len(statement.cases) > 1:
        for i in range(len(statement.cases)):
            yield _without(statement, cases=statement.cases[:i] + statement.cases[i + 1 :])


def _without(statement: ast.stmt, **fields: list) -> ast.stmt:
    made = copy.copy(statement)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _parts(node: ast.AST) -> list[ast.expr]:
    """Expressions that may stand where ``node`` does: no modules, no dtypes."""
    if isinstance(node, ast.Call):
        parts = [*node.args, *[k.value for k in node.keywords if k.arg != "dtype"]]
        if isinstance(node.func, ast.Attribute):
            parts.append(node.func.value)
    elif isinstance(node, ast.expr) and not isinstance(node, (ast.Attribute, ast.Lambda)):
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
    else:
        return []
    return [p for p in parts if _is_value(p)]


def _is_value(node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and node.id in ("hy", "functools", "math"):
        return False
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
