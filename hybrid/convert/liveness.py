"""Liveness analysis: which variables may be read after a statement, and in an iteration."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from hybrid.convert.scope import Scope, names_in
from hybrid.convert.trees import TRIES, is_dead, stops_of
from hybrid.core.dataclass import dataclass, replace

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Exits:
    """The live variables at each way out of a block other than its end."""

    breaks: Names = NONE
    continues: Names = NONE
    returns: Names = NONE
    raises: Names = NONE

    @property
    def all(self) -> Names:
        return self.breaks | self.continues | self.returns | self.raises


class Liveness:
    """The live variables of one function, by statement."""

    def __init__(self, scope: Scope, body: Sequence[ast.stmt]) -> None:
        # What nested functions or eval() may read, they may read at any time.
        self.always: Names = frozenset(scope.locals if scope.dynamic else scope.captured)
        self.after: dict[int, Names] = {}
        self.heads: dict[int, Names] = {}
        self._loops: dict[tuple[int, Names, Exits], Names] = {}
        self.block(body, NONE, Exits())

    def live_after(self, statement: ast.stmt) -> Names:
        """Names that may be read once ``statement`` is done."""
        return self.after.get(id(statement), NONE) | self.always

    def live_at_head(self, node: ast.stmt) -> Names:
        """Names that an iteration of a loop may read, or hand on, before it binds them.

        Or a clause of a try, and what comes behind that.
        """
        return self.heads.get(id(node), NONE) | self.always

    def block(self, body: Sequence[ast.stmt], live: Names, exits: Exits) -> Names:
        """The live variables before ``body``, when ``live`` are those after it."""
        for statement in reversed(body):
            after = live | exits.raises  # which what it calls may jump to
            self.after[id(statement)] = self.after.get(id(statement), NONE) | after
            live = self.statement(statement, live, exits) | exits.raises
        return live

    def statement(self, node: ast.stmt, live: Names, exits: Exits) -> Names:
        if isinstance(node, ast.If):
            if is_dead(node):
                return live
            return (
                _reads(node.test)
                | self.block(node.body, live, exits)
                | self.block(node.orelse, live, exits)
            )
        if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
            key = id(node), live, exits
            if key not in self._loops:  # nested loops would be gone over again and again
                self._loops[key] = self._loop(node, live, exits)
            return self._loops[key]
        if isinstance(node, (ast.With, ast.AsyncWith)):
            inner = replace(exits, raises=exits.raises | live)  # it may swallow an exception
            live = self.block(node.body, live, inner)
            for item in reversed(node.items):
                live = (live - _bound(item.optional_vars)) | _reads(
                    item.optional_vars, item.context_expr
                )
            return live
        if isinstance(node, TRIES):
            return self._try(node, live, exits)
        if isinstance(node, ast.Match):
            inside = live
            for case in node.cases:
                body = self.block(case.body, live, exits) | _reads(case.guard)
                inside |= (body - _bound(case.pattern)) | _reads(case.pattern)
            return inside | _reads(node.subject)
        if isinstance(node, ast.Return):
            return exits.returns | _reads(node)
        if isinstance(node, ast.Raise):
            return exits.raises | _reads(node)
        if isinstance(node, ast.Break):
            return exits.breaks
        if isinstance(node, ast.Continue):
            return exits.continues
        return (live - _killed(node)) | _reads(node)

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor, live: Names, exits: Exits) -> Names:
        done = self.block(node.orelse, live, exits) | frozenset(stops_of(node))
        if isinstance(node, ast.While):
            before, target, reads = _reads(node.test), NONE, NONE
        else:
            before, target, reads = NONE, _bound(node.target), _reads(node.target)

        def iteration(at_end: Names, after: Names, outside: Exits) -> Names:
            inner = replace(outside, breaks=after, continues=at_end)
            return before | reads | (self.block(node.body, at_end, inner) - target)

        head = before | done
        while True:
            grown = head | iteration(head, live, exits)
            if grown == head:
                break
            head = grown
        # Those that an iteration reads first, or may hand on as they are.
        own = iteration(head, live, Exits())
        self.heads[id(node)] = self.heads.get(id(node), NONE) | own
        iteration(head, live, exits)
        return head | (NONE if isinstance(node, ast.While) else _reads(node.iter))

    def _try(self, node: ast.Try, live: Names, exits: Exits) -> Names:
        if node.finalbody:
            live = self.block(node.finalbody, live | exits.all, exits)
            exits = Exits(live, live, live, live)
        handlers: Names = NONE
        for handler in node.handlers:
            inside = self.block(handler.body, live, exits)
            handlers |= (inside - {handler.name or ""}) | _reads(handler.type)
        after = self.block(node.orelse, live, exits)
        inner = replace(exits, raises=exits.raises | handlers)
        self.heads[id(node)] = self.heads.get(id(node), NONE) | inner.raises
        return self.block(node.body, after, inner)


def _reads(*nodes: ast.AST | None) -> Names:
    return frozenset(names_in(*nodes).uses)


def _bound(target: ast.AST | None) -> Names:
    """Names that an assignment to ``target`` surely binds."""
    return frozenset(names_in(target).bound)


def _killed(node: ast.stmt) -> Names:
    """Names whose old values a simple statement surely makes unreadable."""
    if isinstance(node, ast.Assign):
        return frozenset().union(*map(_bound, node.targets))
    if isinstance(node, ast.AnnAssign):
        return _bound(node.target) if node.value is not None else NONE
    if isinstance(node, ast.Delete):
        return frozenset().union(*map(_bound, node.targets))
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return _bound(node)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return frozenset({node.name})
    return NONE
