"""Lowering of ``:=`` in tests, and of guards of ``match``, to statements.

::

    if (y := f(x)) > 1 and (z := g(y)):        hyb_test_1 = not not (y := f(x)) > 1
        A                               ==>    if hyb_test_1:
                                                   hyb_test_1 = not not (z := g(y))
                                               if hyb_test_1:
                                                   A

    match x.shape:                             hyb_subject_1, hyb_matched_1 = x.shape, False
        case (n,) if test:                     match hyb_subject_1:
            A                           ==>        case (n,):
        case _:                                        hyb_matched_1 = not not test
            B                                          if hyb_matched_1:
                                                           A
                                               if not hyb_matched_1:
                                                   match hyb_subject_1:
                                                       case _:
                                                           B

What ``:=`` binds cannot be bound in a lambda; in a branch of an ``if`` it can.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from hybrid.convert.converter import Converter, constant, located, name
from hybrid.convert.scope import walk_scope
from hybrid.convert.trees import PLAIN, blocks_of, is_marked, mark
from hybrid.core.own_names import PREFIX

Body = list[ast.stmt]


class UnfoldTests(Converter):
    """The lowering of such tests in a function, before its constructs are converted."""

    def function(self, node: ast.FunctionDef) -> None:
        node.body = _Unfolding().block(node.body)


class _Unfolding:
    def __init__(self) -> None:
        self.count = 0

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{PREFIX}{hint}_{self.count}"

    # Statements -------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> Body:
        made: Body = []
        for node in body:
            for inner in blocks_of(node):
                inner[:] = self.block(inner)
            made += self.statement(node)
        return made

    def statement(self, node: ast.stmt) -> Body:
        if isinstance(node, ast.Match):
            if any(_has_bool(case.pattern) for case in node.cases):
                if any(case.guard and len(_alternatives(case.pattern)) > 1 for case in node.cases):
                    mark(node, PLAIN)  # Python tries no further alternative once a guard fails
                    return self.match(node)
                node.cases = [made for case in node.cases for made in self.opened(case)]
            if any(case.guard is not None for case in node.cases):
                return self.match(node)
        if isinstance(node, (ast.If, ast.Assert)) and _unfolds(node.test):
            before, node.test = self.tested(node.test)
            return [*before, node]
        if isinstance(node, ast.While) and _unfolds(node.test) and not node.orelse:
            before, test = self.tested(node.test)
            leave = located(ast.If(_not(test), [located(ast.Break(), node.test)], []), node.test)
            node.body[:0] = [*before, leave]
            node.test = constant(node.test, True)
            return [node]
        if isinstance(node, (ast.Assign, ast.Return, ast.Expr)):
            value = node.value
            if value is not None and _unfolds(value):
                target = self.fresh("value")
                before = self.value(value, target, False)
                node.value = name(value, target)
                return [*before, node]
        return [node]

    def tested(self, node: ast.expr) -> tuple[Body, ast.expr]:
        """Statements that leave the truth of ``node`` in what the expression loads."""
        target = self.fresh("test")
        return self.value(node, target, True), name(node, target)

    def opened(self, case: ast.match_case) -> list[ast.match_case]:
        """``case`` with names and a guard in place of True and False, which Python takes as ``is``.

        ::

            case [a, True] if a:    ==>    case [a, hyb_bool_1] if hyb_bool_1 is True and a:
        """
        made = []
        alternatives = _alternatives(case.pattern)
        for number, pattern in enumerate(alternatives):
            tests: list[ast.expr] = []
            pattern = self._without_bools(pattern, tests)
            body, guard = case.body, case.guard
            if number < len(alternatives) - 1:
                body, guard = copy.deepcopy((body, guard))
            tests += [] if guard is None else [guard]
            if len(tests) > 1:
                guard = located(ast.BoolOp(ast.And(), tests), case.pattern)
            made.append(ast.match_case(pattern, tests[0] if len(tests) == 1 else guard, body))
        return made

    def _without_bools(self, pattern: ast.pattern, tests: list[ast.expr]) -> ast.pattern:
        if isinstance(pattern, ast.MatchSingleton) and pattern.value is not None:
            held = self.fresh("bool")
            known = constant(pattern, pattern.value)
            compared = ast.Compare(name(pattern, held), [ast.Is()], [known])
            tests.append(located(compared, pattern))
            return located(ast.MatchAs(None, held), pattern)
        if isinstance(pattern, ast.MatchOr):
            return pattern
        for part, value in ast.iter_fields(pattern):
            if isinstance(value, ast.pattern):
                setattr(pattern, part, self._without_bools(value, tests))
            elif isinstance(value, list):
                value[:] = [
                    self._without_bools(v, tests) if isinstance(v, ast.pattern) else v
                    for v in value
                ]
        return pattern

    def match(self, node: ast.Match) -> Body:
        """A case whose guard does not hold leads to the cases after it, in a ``match`` of theirs.

        ``matched`` says, after each, whether one of the cases so far has been taken.
        """
        subject, matched = self.fresh("subject"), self.fresh("matched")
        made = [
            _assign(node.subject, subject, node.subject),
            _assign(node.subject, matched, constant(node.subject, False)),
        ]
        group: list[ast.match_case] = []
        for case in node.cases:
            guard, case.guard = case.guard, None
            group.append(case)
            if guard is None:
                case.body.insert(0, _assign(case.pattern, matched, constant(case.pattern, True)))
                continue
            taken = located(ast.If(name(guard, matched), case.body, []), guard)
            case.body = [*self.value(guard, matched, True), taken]
            self._add(made, node, subject, matched, group)
            group = []
        if group:
            self._add(made, node, subject, matched, group)
        return made

    def _add(
        self, made: Body, at: ast.Match, subject: str, matched: str, cases: list[ast.match_case]
    ) -> None:
        node: ast.stmt = located(ast.Match(name(at.subject, subject), cases), at)
        if is_marked(at, PLAIN):
            mark(node, PLAIN)
        if len(made) > 2:
            test = _not(name(at.subject, matched))
            node = located(ast.If(test, [node], []), at)
        made.append(node)

    # Expressions ------------------------------------------------------------------------------

    def value(self, node: ast.expr, target: str, tested: bool) -> Body:
        """Statements that leave ``node``, or its truth if that is all, in ``target``."""
        if not _unfolds(node):
            return [_assign(node, target, _not(_not(node)) if tested else node)]
        if isinstance(node, ast.BoolOp):
            first, *rest = node.values
            made = self.value(first, target, tested)
            for operand in rest:
                test: ast.expr = name(operand, target)
                test = test if isinstance(node.op, ast.And) else _not(test)
                body = self.value(operand, target, tested)
                made.append(located(ast.If(test, body, []), operand))
            return made
        if isinstance(node, ast.IfExp):
            before, test = self.tested(node.test)
            sides = [self.value(side, target, tested) for side in (node.body, node.orelse)]
            return [*before, located(ast.If(test, *sides), node)]
        if isinstance(node, ast.Compare):
            return self._compared(node, target, tested)
        if isinstance(node, ast.NamedExpr):
            assert isinstance(node.target, ast.Name)
            made = self.value(node.value, target, False)
            return [*made, _assign(node, node.target.id, name(node, target))]
        assert isinstance(node, ast.UnaryOp)
        before, test = self.tested(node.operand)
        return [*before, _assign(node, target, _not(test))]

    def _compared(self, node: ast.Compare, target: str, tested: bool) -> Body:
        """Of a chain of comparisons each but the first is made where those before it hold."""
        left = node.left
        made: Body = []
        for at, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            following = right
            if at < len(node.ops) - 1:
                kept = self.fresh("operand")
                store = located(ast.Name(kept, ast.Store()), right)
                following = name(right, kept)
                right = located(ast.NamedExpr(store, right), right)
            compared = located(ast.Compare(left, [op], [right]), node)
            compared = _not(_not(compared)) if tested else compared
            body = [_assign(node, target, compared)]
            made += [located(ast.If(name(node, target), body, []), node)] if at else body
            left = following
        return made


def _has_bool(pattern: ast.AST) -> bool:
    """Whether True or False stand in ``pattern``."""
    return any(
        isinstance(part, ast.MatchSingleton) and part.value is not None
        for part in ast.walk(pattern)
    )


def _alternatives(pattern: ast.pattern) -> list[ast.pattern]:
    """``pattern``, once for each way through alternatives with True or False in them."""
    if not _has_bool(pattern):
        return [pattern]
    if isinstance(pattern, ast.MatchOr):
        return [found for part in pattern.patterns for found in _alternatives(part)]
    made = [pattern]
    for part, value in ast.iter_fields(pattern):
        for at, inner in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(inner, ast.pattern) and len(ways := _alternatives(inner)) > 1:
                made = [
                    _replaced(copy.deepcopy(before), part, at if value is not inner else -1, way)
                    for before in made
                    for way in copy.deepcopy(ways)
                ]
    return made


def _replaced(pattern: ast.pattern, part: str, at: int, inner: ast.pattern) -> ast.pattern:
    if at < 0:
        setattr(pattern, part, inner)
    else:
        getattr(pattern, part)[at] = inner
    return pattern


def _unfolds(node: ast.expr) -> bool:
    """Whether ``node`` binds names in operands that are not always evaluated."""
    if isinstance(node, ast.BoolOp):
        return any(map(_binds, node.values[1:])) or _unfolds(node.values[0])
    if isinstance(node, ast.IfExp):
        return _binds(node.body) or _binds(node.orelse) or _unfolds(node.test)
    if isinstance(node, ast.Compare):
        return any(map(_binds, node.comparators[1:]))
    if isinstance(node, ast.NamedExpr):
        return _unfolds(node.value)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and _unfolds(node.operand)


def _binds(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.NamedExpr) for inner in walk_scope(node))


def _assign(at: ast.AST, target: str, value: ast.expr) -> ast.Assign:
    store = located(ast.Name(target, ast.Store()), at)
    return located(ast.Assign([store], value), at)


def _not(node: ast.expr) -> ast.expr:
    return located(ast.UnaryOp(ast.Not(), node), node)
