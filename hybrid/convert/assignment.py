"""Definite assignment analysis: which loads of local variables may find them unbound."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from hybrid.convert.scope import FUNCTIONS, Scope, names_in
from hybrid.convert.trees import TRIES, is_dead
from hybrid.core.dataclass import dataclass

Bound = frozenset[str] | None  # None: never reached


@dataclass(slots=True)
class _LoopBounds:
    breaks: Bound = None
    continues: Bound = None


class Definite:
    """The loads of one function that may find their variable unbound."""

    def __init__(self, scope: Scope, body: Sequence[ast.stmt]) -> None:
        self.locals = scope.locals
        self.maybe: set[int] = set()  # ids of Name nodes
        self.unbound_at: dict[int, frozenset[str]] = {}  # nested function -> names not yet bound
        self.loops: list[_LoopBounds] = []
        self.block(body, frozenset(scope.parameters))

    def is_sure(self, node: ast.Name) -> bool:
        return id(node) not in self.maybe

    def block(self, body: Sequence[ast.stmt], bound: Bound) -> Bound:
        for statement in body:
            bound = self.statement(statement, bound)
        return bound

    def statement(self, node: ast.stmt, bound: Bound) -> Bound:
        if isinstance(node, ast.If):
            if is_dead(node):
                return bound
            bound = self.look(bound, node.test)
            return meet(self.block(node.body, bound), self.block(node.orelse, bound))
        if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
            return self._loop(node, bound)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                bound = self.look(bound, item.context_expr)
                bound = self.look(bound, item.optional_vars)
            inside = self.block(node.body, bound)
            return meet(inside, _without(bound, node.body))  # it may swallow an exception
        if isinstance(node, TRIES):
            return self._try(node, bound)
        if isinstance(node, ast.Match):
            bound = self.look(bound, node.subject)
            found = bound
            for case in node.cases:
                inside = self.look(bound, case.pattern)
                inside = self.look(inside, case.guard)
                found = meet(found, self.block(case.body, inside))
            return found
        return self._simple(node, bound)

    def _simple(self, node: ast.stmt, bound: Bound) -> Bound:
        if isinstance(node, ast.AugAssign):
            target = node.target
            read = bound is not None and isinstance(target, ast.Name)
            if read and target.id in self.locals - bound:
                self.maybe.add(id(target))
        after = self.look(bound, node)
        if isinstance(node, ast.Delete) and after is not None:
            return after - names_in(node).bound
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return bound
        if isinstance(node, (ast.Return, ast.Raise)):
            return None
        if isinstance(node, ast.Break):
            if self.loops:
                self.loops[-1].breaks = meet(self.loops[-1].breaks, bound)
            return None
        if isinstance(node, ast.Continue):
            if self.loops:
                self.loops[-1].continues = meet(self.loops[-1].continues, bound)
            return None
        return after

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor, bound: Bound) -> Bound:
        if not isinstance(node, ast.While):
            bound = self.look(bound, node.iter)
        head = _without(bound, node.body)  # what an iteration may have deleted
        self.loops.append(_LoopBounds())
        if isinstance(node, ast.While):
            head = self.look(head, node.test)
            inside = head
        else:
            inside = self.look(head, node.target)
        self.block(node.body, inside)
        loop = self.loops.pop()
        forever = isinstance(node, ast.While) and _is_true(node.test)
        done = None if forever else self.block(node.orelse, head)
        # A flag ends a lowered loop, its test being true or not.
        return meet(done, loop.breaks) if not hasattr(node, "hyb_stops") else head

    def _try(self, node: ast.Try, bound: Bound) -> Bound:
        inside = self.block(node.body, bound)
        start = _without(bound, node.body)
        found = self.block(node.orelse, inside)
        for handler in node.handlers:
            entry = self.look(start, handler.type)
            if handler.name and entry is not None:
                entry = entry | {handler.name}
            after = self.block(handler.body, entry)
            if handler.name and after is not None:
                after = after - {handler.name}
            found = meet(found, after)
        if node.finalbody:
            blocks = [*node.body, *node.orelse, *(s for h in node.handlers for s in h.body)]
            entry = _without(bound, blocks)
            names = {h.name for h in node.handlers if h.name}
            entry = None if entry is None else entry - names
            after = self.block(node.finalbody, entry)
            if after is None:
                return None
            deleted = _deleted(node.finalbody)
            return None if found is None else (found | after) - deleted
        return found

    def look(self, bound: Bound, node: ast.AST | None) -> Bound:
        """Go over an expression or simple statement: note its loads, add what it binds."""
        if node is None or bound is None:
            return bound
        self._loads(node, bound)
        return bound | names_in(node).bound if not _conditional(node) else bound | _targets(node)

    def _loads(self, node: ast.AST, bound: frozenset[str]) -> None:
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Store) and node.id in self.locals - bound:
                self.maybe.add(id(node))
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            self.unbound_at[id(node)] = frozenset(self.locals - bound - {_name_of(node)})
            for child in _outside_parts(node):
                self._loads(child, bound)
        elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            targets = {name for part in node.generators for name in names_in(part.target).bound}
            for child in ast.iter_child_nodes(node):
                self._loads(child, bound | targets)
        else:
            for child in ast.iter_child_nodes(node):
                self._loads(child, bound)


def meet(first: Bound, second: Bound) -> Bound:
    """The variables that are bound on both paths; None is a path that does not get there."""
    if first is None:
        return second
    return first if second is None else first & second


def _name_of(node: ast.AST) -> str:
    return getattr(node, "name", "")


def _outside_parts(node: ast.AST) -> list[ast.AST]:
    """What of a function or class is evaluated where it is defined."""
    parts = [*getattr(node, "decorator_list", ()), *getattr(node, "bases", ())]
    parts += getattr(node, "keywords", ())
    arguments = getattr(node, "args", None)
    if isinstance(arguments, ast.arguments):
        parts += [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    return parts


def _conditional(node: ast.AST) -> bool:
    """Whether ``node`` may bind names by `:=` in an operand that need not be evaluated."""
    return any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node))


def _targets(node: ast.AST) -> frozenset[str]:
    if isinstance(node, ast.Assign):
        return frozenset().union(*[names_in(target).bound for target in node.targets])
    return frozenset()


def _without(bound: Bound, body: Sequence[ast.stmt]) -> Bound:
    return None if bound is None else bound - _deleted(body)


def _deleted(body: Sequence[ast.stmt]) -> set[str]:
    """Names that ``body`` may make unbound."""
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
                found.add(node.id)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                found.add(node.name)
    return found


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)
