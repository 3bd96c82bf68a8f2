"""Source of a function as its author wrote it: lines, statements, names, and the kinds of words."""

from __future__ import annotations

import ast
import io
import keyword
import linecache
import token
import tokenize
import types
from collections.abc import Iterator, Sequence

from hybrid.convert.conversion import is_converted_code
from hybrid.convert.source import NoSource, definition_of
from hybrid.core.dataclass import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, or the head of one that holds others."""

    line: int
    last: int  # of the statement itself or of its head
    end: int  # of all that it holds
    is_for: bool
    is_assert: bool
    is_jump: bool  # break, continue or return
    globals: frozenset[str]  # names that it reads, and that nothing in the function binds
    locals: frozenset[str]  # names that it reads, and that the function binds
    attributes: frozenset[str]  # that it reads of any object


@dataclass(frozen=True, slots=True)
class AuthorSource:
    """The source of a function, or why there is none."""

    path: str
    name: str
    first: int
    last: int
    reason: str = ""
    statements: tuple[Statement, ...] = ()
    runs: frozenset[int] = frozenset()  # lines that there is code for
    assigned: frozenset[str] = frozenset()  # names that the function sets, besides its parameters

    @property
    def lines(self) -> list[str]:
        """The text, without the indentation that all of it has."""
        if self.reason:
            return []
        found = linecache.getlines(self.path)[self.first - 1 : self.last]
        found = [line.rstrip() for line in found]
        margin = min((len(t) - len(t.lstrip()) for t in found if t), default=0)
        return [line[margin:] for line in found]


def written(code: types.CodeType) -> AuthorSource:
    """What the author wrote for ``code``, which conversion may have made."""
    path, first = code.co_filename, code.co_firstlineno
    try:
        if not is_converted_code(code):
            definition_of(code)  # raises what is wrong with the source
        name, node = _find(path, first, code.co_name)
    except NoSource as error:
        return AuthorSource(
            path=path, name=code.co_name, first=first, last=first, reason=str(error)
        )
    assigned = _assigned(node)
    bound = assigned | {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    body = node.body if isinstance(node.body, list) else []
    statements = tuple(_statements(body, bound))
    runs = frozenset(_lines_of(code))
    return AuthorSource(
        path=path,
        name=name,
        first=first,
        last=node.end_lineno or first,
        reason="",
        statements=statements,
        runs=runs,
        assigned=assigned,
    )


def _find(path: str, first: int, name: str) -> tuple[str, Function]:
    """The qualified name and the tree of the function that begins at line ``first``."""
    tree = ast.parse("".join(linecache.getlines(path)), path)
    for qualified, node in _functions(tree, ""):
        decorators = getattr(node, "decorator_list", ())
        begins = decorators[0].lineno if decorators else node.lineno
        if begins == first and qualified.rpartition(".")[2] == name:
            return qualified, node
    raise NoSource(f"{path} has changed since it was imported")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            name = prefix + getattr(child, "name", "<lambda>")
            inner = f"{name}."
            if not isinstance(child, ast.ClassDef):
                yield name, child
        yield from _functions(child, inner)


def _lines_of(code: types.CodeType) -> Iterator[int]:
    for _, _, line in code.co_lines():
        if line is not None:
            yield line
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _lines_of(constant)


def _assigned(node: ast.AST) -> frozenset[str]:
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner is not node:
            found.add(inner.name)
    return frozenset(found)


def _statements(body: list[ast.stmt], bound: frozenset[str]) -> Iterator[Statement]:
    for node in body:
        decorators = getattr(node, "decorator_list", ())
        line = min([node.lineno, *[d.lineno for d in decorators]])
        blocks = list(_blocks(node))
        end = node.end_lineno or line
        last = end
        heads: list[ast.AST] = [node]
        if blocks:
            last = max(line, min(block[0].lineno for block in blocks) - 1)
            heads = [child for child in ast.iter_child_nodes(node) if not _is_part(child)]
        parts = [part for head in heads for part in ast.walk(head)]
        read = {n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        yield Statement(
            line=line,
            last=last,
            end=end,
            is_for=isinstance(node, ast.For),
            is_assert=isinstance(node, ast.Assert),
            is_jump=isinstance(node, (ast.Break, ast.Continue, ast.Return)),
            globals=frozenset(read - bound),
            locals=frozenset(read & bound),
            attributes=frozenset(n.attr for n in parts if isinstance(n, ast.Attribute)),
        )
        for block in blocks:
            yield from _statements(block, bound)


def _is_part(node: ast.AST) -> bool:
    """Whether ``node`` is no part of the head of the statement that holds it."""
    return isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case))


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements that ``node`` holds, in order."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for part in [getattr(node, name, None)]:
            if not part:
                continue
            if isinstance(part[0], ast.stmt):
                yield part
            else:
                for inner in part:  # of try and match
                    yield inner.body


Span = tuple[int, int, str]  # from column, to column, kind


def spans(lines: Sequence[str]) -> list[list[Span]]:
    """For each line its coloured parts; none at all where the lines do not parse by themselves."""
    found: list[list[Span]] = [[] for _ in lines]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join([*lines, ""])).readline))
    except (tokenize.TokenError, SyntaxError):
        return found
    for item in tokens:
        kind = _kind(item)
        if kind:
            (first, start), (last, end) = item.start, item.end
            for row in range(first - 1, last):
                begin = start if row == first - 1 else 0
                found[row].append((begin, end if row == last - 1 else len(lines[row]), kind))
    return found


def _kind(item: tokenize.TokenInfo) -> str:
    if item.type == token.NAME and keyword.iskeyword(item.string):
        return "keyword"
    if item.type == token.COMMENT:
        return "comment"
    if item.type == token.NUMBER:
        return "number"
    return "text" if item.type == token.STRING or _is_f_string(item.type) else ""


def _is_f_string(kind: int) -> bool:
    return token.tok_name[kind].startswith("FSTRING")  # since Python 3.12
