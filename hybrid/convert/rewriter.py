"""The rewriter: it walks a function's syntax tree and applies the template of each construct."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid.convert.assignment import Definite
from hybrid.convert.constructs.variables import unchecked
from hybrid.convert.converter import Converter, call, constant, located, name
from hybrid.convert.liveness import Liveness
from hybrid.convert.runtime import Branch, Site
from hybrid.convert.scope import (
    FRAME_READERS,
    Scope,
    arguments_of,
    mangled,
    names_in,
    scope_of,
    walk_scope,
)
from hybrid.convert.trees import (
    LOOPS,
    TESTED,
    TRIES,
    assigned_lines,
    blocks_in,
    copied,
    height,
    is_dead,
    is_marked,
    mark,
    only_augmented,
    returned_of,
    stops_of,
    suspends,
)
from hybrid.core.dataclass import dataclass, field
from hybrid.core.own_names import PREFIX, RESULT, RUNTIME
from hybrid.errors import Location

MOST_BLOCKS = 20  # that the compiler lets a function nest


@dataclass(slots=True)
class Unit:
    """The state that all functions of one conversion share: file, constructs, sites."""

    path: str
    order: tuple[type[Converter], ...]
    sites: list[Site] = field(default_factory=list)


@dataclass(slots=True)
class Around:
    """The scope around the function that a rewriter walks: class, enclosing variables."""

    qualname: str
    class_name: str | None = None  # of the class whose private names it mangles
    unbound: frozenset[str] = frozenset()  # variables of enclosing functions, perhaps unbound


class Rewriter:
    """Converts one function in place; nested functions get a rewriter of their own."""

    def __init__(self, unit: Unit, around: Around) -> None:
        self.unit, self.around = unit, around
        self.scope = Scope()
        self.liveness: Liveness | None = None
        self.definite: Definite | None = None
        self.merged: frozenset[str] = (
            frozenset()
        )  # names that branches, loops, calls and choices bind
        self.first_parameter: str | None = None
        self.depth = 0  # blocks nested so far
        self.in_class = False  # directly in a class body, whose names no nested function sees
        self.in_comprehension = False
        self.in_nested = False  # in a comprehension that Python runs as a function of its own
        self.targets: frozenset[str] = frozenset()  # names that comprehensions around here bind
        self.numbers: dict[str, int] = {}
        self.converters: dict[type[ast.AST], Converter] = {}
        self.preceding: list[Converter] = []
        for kind in unit.order:
            converter = kind(self)
            if kind.before is not Converter.before:
                self.preceding.append(converter)
            for node_type in kind.nodes:
                self.converters[node_type] = converter

    # Functions --------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        """Convert the body of ``node``."""
        if isinstance(node, ast.FunctionDef):
            for kind in self.unit.order:
                kind(self).function(node)
        self.scope = scope_of(node)
        named = [*node.args.posonlyargs, *node.args.args]
        self.first_parameter = named[0].arg if named else None
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [located(ast.Return(node.body), node.body)]
        else:
            body = node.body
        self.liveness = Liveness(self.scope, body)
        self.definite = Definite(self.scope, body)
        self.merged = frozenset(
            bound
            for statement in body
            for inner in walk_scope(statement)
            if isinstance(inner, (ast.If, *LOOPS)) or _holds_result(inner)
            for bound in names_in(inner).bound
        ) | self._parameters(node)
        if isinstance(node, ast.Lambda):
            node.body = unchecked(self.visit(node.body))
        else:
            start = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body = node.body[:start] + self.block(node.body[start:])

    def _parameters(self, node: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
        """The parameters of ``node``, which a container may give what some paths alone have."""
        instance = {self.first_parameter} if self.around.class_name is not None else set()
        return frozenset(argument.arg for argument in arguments_of(node)) - instance

    def nested(self, node: ast.AST, label: str) -> Rewriter:
        """A rewriter for a function defined in this one."""
        unbound = self.around.unbound - self.scope.locals
        if self.definite is not None:
            unbound |= self.definite.unbound_at.get(id(node), frozenset()) | self.merged
        link = "." if self.in_class else ".<locals>."
        qualname = f"{self.around.qualname}{link}{label}"
        return Rewriter(self.unit, Around(qualname, self.around.class_name, unbound))

    def in_class_body(self, node: ast.ClassDef) -> Rewriter:
        """A rewriter for the statements of a class defined in this function."""
        inner = self.nested(node, node.name)
        inner.around.class_name = node.name
        inner.in_class = True
        return inner

    # Walking ----------------------------------------------------------------------------------

    def visit(self, node: Any) -> Any:
        """The converted syntax tree that takes the place of ``node``."""
        converter = self.converters.get(type(node))
        return self.children(node) if converter is None else converter.convert(node)

    def children(self, node: Any) -> Any:
        """``node`` with everything below it converted."""
        for field_name, value in ast.iter_fields(node):
            if isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    with self._inside(node):
                        setattr(node, field_name, self.block(value))
                elif value and isinstance(value[0], ast.ExceptHandler):
                    with self._inside(node):
                        value[:] = map(self.visit, value)
                else:
                    value[:] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
            elif isinstance(value, ast.AST) and field_name not in ("annotation", "returns"):
                setattr(node, field_name, self.visit(value))
        return node

    def test(self, node: ast.expr) -> ast.expr:
        """``node``, of which only the truth matters, converted."""
        mark(node, TESTED)
        return unchecked(self.visit(node))

    def is_tested(self, node: ast.expr) -> bool:
        return is_marked(node, TESTED)

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements converted, in order."""
        found: list[ast.stmt] = []
        for node in body:
            if is_dead(node):
                found.append(node)
                continue
            for converter in self.preceding:
                found += converter.before(node)
            result = self.visit(node)
            found += result if isinstance(result, list) else [result]
        return found

    @contextmanager
    def comprehension(self, node: Any) -> Iterator[None]:
        """Inside a comprehension, a scope of its own even in a class body."""
        saved = self.in_class, self.in_comprehension, self.in_nested, self.targets
        is_function = isinstance(node, ast.GeneratorExp) or sys.version_info < (3, 12)
        self.in_class, self.in_comprehension = False, True
        self.in_nested = self.in_nested or is_function
        self.targets |= {
            inner.id
            for part in node.generators
            for inner in ast.walk(part.target)
            if isinstance(inner, ast.Name)
        }
        yield
        self.in_class, self.in_comprehension, self.in_nested, self.targets = saved

    def follows(self, inner: ast.stmt, outer: ast.stmt) -> None:
        """Let what is known of the statement ``outer`` hold for ``inner``, which ends it."""
        assert self.liveness is not None
        self.liveness.after[id(inner)] = self.liveness.after.get(id(outer), frozenset())

    # Depth ------------------------------------------------------------------------------------

    @contextmanager
    def blocks(self, count: int) -> Iterator[None]:
        """Inside ``count`` more blocks."""
        self.depth += count
        try:
            yield
        finally:
            self.depth -= count

    @contextmanager
    def _inside(self, node: ast.AST) -> Iterator[None]:
        """Inside a statement that stays as it is."""
        with self.blocks(blocks_in(node)):
            yield

    def stays(self, node: ast.stmt, cost: int) -> bool:
        """Whether a construct that takes ``cost`` blocks is to be left as it is."""
        inside = max([height(child) for child in ast.iter_child_nodes(node)], default=0)
        return self.in_class or self.depth + cost + inside > MOST_BLOCKS

    # Pieces for converters --------------------------------------------------------------------

    def fresh(self, hint: str = "") -> str:
        """A name that the function does not have."""
        self.numbers[hint] = self.numbers.get(hint, 0) + 1
        return f"{PREFIX}{hint}{self.numbers[hint]}"

    def location(self, node: ast.AST) -> Location:
        line = node.lineno  # type: ignore[attr-defined]
        return Location(self.unit.path, line, linecache.getline(self.unit.path, line).strip())

    def site(self, kind: str, node: ast.AST, **facts: Any) -> ast.Name:
        """A name that stands for a new site."""
        site = Site(kind=kind, location=self.location(node), function=self.around.qualname, **facts)
        self.unit.sites.append(site)
        return name(node, f"{RUNTIME}{len(self.unit.sites) - 1}")

    def statement_site(self, kind: str, node: Any) -> tuple[ast.Name, tuple[str, ...]]:
        """A site of a construct, and the author's names for the variables that it may load."""
        assert self.liveness is not None
        found = names_in(node)
        bound = (found.bound | found.set_inside) & self.scope.locals
        head: frozenset[str] = frozenset()
        if isinstance(node, (*LOOPS, *TRIES)):
            head = self.liveness.live_at_head(node) & self.scope.locals
        after = self.liveness.live_after(node) | set(stops_of(node))
        read = found.uses if isinstance(node, ast.If) else head  # by the other branch, perhaps
        names = tuple(sorted(bound & (after | read)))
        rebound = bound - only_augmented(node)
        bodies = (node.body, node.orelse) if isinstance(node, ast.If) else (node.body,)
        branches = [self._branch(body) for body in bodies]
        returned = returned_of(node)
        if returned is not None:
            branches[-1] = Branch(0, 0, {RESULT: returned})
        site = self.site(
            kind,
            node,
            names=tuple([self.mangle(n) for n in names]),
            after=frozenset([self.mangle(n) for n in names if n in after]),
            head=frozenset(map(self.mangle, head)),
            rebound=frozenset([self.mangle(n) for n in names if n in rebound]),
            stops=stops_of(node),
            yields=any(suspends(child) for child in ast.iter_child_nodes(node)),
            branches=tuple(branches),
        )
        return site, names

    def _branch(self, body: Sequence[ast.stmt]) -> Branch:
        if not body:
            return Branch(0, 0)
        lines = {self.mangle(n): line for n, line in assigned_lines(body).items()}
        last = max([getattr(n, "end_lineno", 0) or 0 for s in body for n in ast.walk(s)])
        return Branch(body[0].lineno, last, lines)

    def mangle(self, identifier: str) -> str:
        return mangled(identifier, self.around.class_name)

    def native_test(self, node: ast.expr) -> ast.expr:
        """The test of a construct that stays as it is: it must not be traced."""
        return call(node, "native_test", self.site("test", node), self.test(node))

    def view(self, at: ast.AST, session: str, stops: Sequence[str] = ()) -> ast.expr:
        """The local variables if ``session`` wants them, else only the flags that stop it."""
        wants = located(ast.Attribute(name(at, session), "wants", ast.Load()), at)
        if not stops:
            both = [wants, call(at, "locals")]
            return located(ast.BoolOp(ast.And(), both), at)
        keys = [constant(at, stop) for stop in stops]
        flags = located(ast.Dict(keys, [name(at, s) for s in stops]), at)
        return located(ast.IfExp(wants, call(at, "locals"), flags), at)

    def may_defer(self, *nodes: ast.expr) -> bool:
        """Whether ``nodes`` mean the same inside ``lambda:``."""
        return not self.in_class and not any(
            isinstance(inner, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await))
            or (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and (
                    inner.func.id in FRAME_READERS
                    or (inner.func.id == "super" and not inner.args and not self._has_self)
                )
            )
            for node in nodes
            for inner in walk_scope(node)
        )

    @property
    def _has_self(self) -> bool:
        return (
            self.first_parameter is not None
            and self.around.class_name is not None
            and not self.in_comprehension
        )

    def may_be_unbound(self, *nodes: ast.expr) -> tuple[str, ...]:
        """Local variables that ``nodes`` read and may find unbound."""
        return tuple(
            sorted(
                {
                    inner.id
                    for node in nodes
                    for inner in walk_scope(node)
                    if isinstance(inner, ast.Name)
                    and isinstance(inner.ctx, ast.Load)
                    and inner.id in self.scope.locals
                    and not self.is_sure(inner)
                }
            )
        )

    def is_free(self, node: ast.Name) -> bool:
        """Whether ``node``, a variable of a function, is one of a function around this code."""
        return self.in_nested or node.id not in self.scope.locals

    def is_sure(self, node: ast.Name) -> bool:
        """Whether ``node`` surely finds its variable bound (or it is no variable of a function)."""
        if self.definite is None or self.in_class:
            return True
        if node.id in self.targets:  # an item of what is gone over
            return False
        if node.id in self.merged:  # where paths meet it may be bound on some of them only
            return node.id.startswith(PREFIX)
        if node.id in self.scope.locals:
            return self.definite.is_sure(node)
        return node.id not in self.around.unbound


def _holds_result(node: ast.AST) -> bool:
    """Whether ``node`` binds variables to what some paths alone have given a value."""
    if not isinstance(node, ast.Assign):
        return False
    unpacks = not all(isinstance(target, ast.Name) for target in node.targets)
    read = (ast.Call, ast.IfExp, ast.BoolOp, ast.Name, ast.Attribute, ast.Subscript)
    return unpacks or isinstance(node.value, read)


def convert_copy(
    node: ast.FunctionDef | ast.Lambda, unit: Unit, around: Around
) -> ast.FunctionDef | ast.Lambda:
    """A converted copy of ``node``."""
    made = copied(node)
    Rewriter(unit, around).function(made)
    return made
