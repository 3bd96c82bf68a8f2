"""Scope analysis: which names a function binds, reads, shares and leaves to nested functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec"})  # they see all variables


class Scope(ast.NodeVisitor):
    """The names of one function (or class body, comprehension, or piece of a function)."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.uses: set[str] = set()  # read here, or left free by what is nested
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.captured: set[str] = set()  # left free by what is nested and may run later
        self.set_inside: set[str] = set()  # variables from here that nested functions may set
        self.dynamic = False  # whether the function looks at its own variables by name
        self.parameters: tuple[str, ...] = ()

    @property
    def locals(self) -> set[str]:
        return self.bound - self.globals - self.nonlocals

    @property
    def free(self) -> set[str]:
        """Names that come from outside (globals among them)."""
        return (self.uses - self.locals - self.globals) | self.nonlocals

    # Names ------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
        if not isinstance(node.ctx, ast.Store):
            self.uses.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.uses.add(node.target.id)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)  # annotations of variables are not evaluated in functions
        if node.value is not None:
            self.visit(node.value)

    def visit_Global(self, node: ast.Global) -> None:
        self.globals.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.nonlocals.update(node.names)

    def visit_alias(self, node: ast.alias) -> None:
        if node.name != "*":
            self.bound.add(node.asname or node.name.partition(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.bound.add(node.name)
        self.generic_visit(node)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name is not None:
            self.bound.add(node.name)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = _capture

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self.bound.add(node.rest)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in FRAME_READERS:
            self.dynamic = True
        self.generic_visit(node)

    # Nested scopes ----------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        if not isinstance(node, ast.Lambda):
            self.bound.add(node.name)
            self._all(node.decorator_list)
            if node.returns is not None:
                self.visit(node.returns)
            for argument in arguments_of(node):
                if argument.annotation is not None:
                    self.visit(argument.annotation)
        self._all(node.args.defaults)
        self._all(default for default in node.args.kw_defaults if default is not None)
        inner = scope_of(node)
        self.set_inside |= inner.nonlocals | (inner.set_inside - inner.locals)
        self._leave_free(inner.free | _type_parameters(node)[1], later=True)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        self._all(node.decorator_list)
        self._all(node.bases)
        self._all(node.keywords)
        inner = Scope()
        for statement in node.body:
            inner.visit(statement)
        self._leave_free(inner.uses | inner.nonlocals | _type_parameters(node)[1])
        self._leave_free(inner.captured | inner.nonlocals, later=True)
        self.set_inside |= inner.nonlocals | inner.set_inside

    def visit_TypeAlias(self, node: ast.AST) -> None:  # Python 3.12
        self.visit(node.name)  # type: ignore[attr-defined]
        inner = Scope()
        inner.visit(node.value)  # type: ignore[attr-defined]
        self._leave_free(inner.uses, later=True)

    def _comprehension(self, node: ast.expr) -> None:
        first, *others = node.generators  # type: ignore[attr-defined]
        self.visit(first.iter)
        inner = Scope()
        walrus = _walrus_names(node)
        inner.visit(first.target)
        inner._all(first.ifs)
        inner._all(others)
        inner._all(results_of(node))
        targets = inner.bound - walrus
        self.bound |= walrus
        self._leave_free(inner.uses - targets, later=isinstance(node, ast.GeneratorExp))
        self._leave_free(inner.captured - targets, later=True)
        self.set_inside |= inner.set_inside - targets
        self.dynamic = self.dynamic or inner.dynamic

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _leave_free(self, names: set[str], later: bool = False) -> None:
        self.uses |= names
        if later:
            self.captured |= names


def scope_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Scope:
    """The scope of ``function``, its parameters included."""
    scope = Scope()
    scope.parameters = tuple([argument.arg for argument in arguments_of(function)])
    scope.bound.update(scope.parameters)
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    for node in body:
        scope.visit(node)
    scope.captured &= scope.locals
    scope.uses -= _type_parameters(function)[0]
    return scope


def names_in(*nodes: ast.AST | None) -> Scope:
    """The names of a piece of a function."""
    scope = Scope()
    for node in nodes:
        if node is not None:
            scope.visit(node)
    return scope


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """The parameters of ``function``, in the order of its local variables."""
    args = function.args
    found = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return found + [a for a in (args.vararg, args.kwarg) if a is not None]


def results_of(comprehension: ast.expr) -> list[ast.expr]:
    """The expressions that a comprehension computes for each item."""
    if isinstance(comprehension, ast.DictComp):
        return [comprehension.key, comprehension.value]
    return [comprehension.elt]  # type: ignore[attr-defined]


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of ``node``, without the inside of functions, lambdas and classes."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield child
        else:
            yield from walk_scope(child)


def _walrus_names(comprehension: ast.expr) -> set[str]:
    """Names bound by `:=` in a comprehension, which belong to the function around it."""
    return {
        node.target.id
        for node in walk_scope(comprehension)
        if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name)
    }


def _type_parameters(node: ast.AST) -> tuple[set[str], set[str]]:
    """(names of the type parameters, names that their bounds read); Python 3.12."""
    parameters = getattr(node, "type_params", ())
    inner = names_in(*parameters)
    return {parameter.name for parameter in parameters}, inner.uses


def mangled(name: str, class_name: str | None) -> str:
    """``name`` as the compiler stores it in the class ``class_name``."""
    stripped = (class_name or "").lstrip("_")
    if not stripped or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    return f"_{stripped}{name}"
