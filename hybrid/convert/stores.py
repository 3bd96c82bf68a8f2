"""Stores: places that are about to change announce themselves while a function is captured.

What a region of the graph writes must be undone before the other branch is traced, and merged
after it.  The announcement is part of the target, so that it comes when Python evaluates that.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hybrid.convert.changes import will_delete, will_set
from hybrid.convert.converter import PREFIX, Converter, call, constant, located, thunk
from hybrid.convert.names import handed_on
from hybrid.convert.scope import FUNCTIONS, walk_scope
from hybrid.convert.traced import CONTAINERS, LOOKED_INTO, look, tracing
from hybrid.convert.unbound import read
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.maybe import Maybe


class AttributeConverter(Converter):
    """
    ::

        a.b = v    ==>    hyb__.attribute(a, "b").b = v
        del a.b    ==>    del hyb__.lost(a, "b").b
        a.b        ==>    hyb__.taken(a.b)
    """

    nodes = (ast.Attribute,)

    def convert(self, node: ast.Attribute) -> ast.expr:
        node.value = self.rewriter.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            name = constant(node, self.rewriter.mangle(node.attr))
            function = "attribute" if isinstance(node.ctx, ast.Store) else "lost"
            node.value = call(node.value, function, node.value, name)
            return node
        return call(node, "taken", node)


class SubscriptConverter(Converter):
    """
    ::

        a[i] = v    ==>    hyb__.item(a)[i] = v
        a[i]        ==>    hyb__.taken(hyb__.look(a)[i])
    """

    nodes = (ast.Subscript,)

    def convert(self, node: ast.Subscript) -> ast.expr:
        node.value = self.rewriter.visit(node.value)
        node.slice = self.rewriter.visit(node.slice)
        function = "look" if isinstance(node.ctx, ast.Load) else "item"
        node.value = call(node.value, function, node.value)
        if is_augmented(node) and isinstance(node.ctx, ast.Store):
            node.value = call(node.value, "items", node.value)
        return call(node, "taken", node) if isinstance(node.ctx, ast.Load) else node


class DisplayConverter(Converter):
    """Lists, tuples and dicts as they are written.

    What is joined there may be of unknown length, and what is put in be there on some paths only.
    """

    nodes = (ast.List, ast.Tuple, ast.Dict)

    def convert(self, node: ast.List | ast.Tuple | ast.Dict) -> ast.expr:
        items = node.values if isinstance(node, ast.Dict) else node.elts
        for item in items:
            if isinstance(item, ast.Starred):
                item.hyb_joined = True  # type: ignore[attr-defined]
        self.rewriter.children(node)
        items[:] = map(handed_on, items)
        return node


class StarredConverter(Converter):
    """
    ::

        f(*a)      ==>    f(*hyb__.spread(a))
        [*a, b]    ==>    [*hyb__.joined(a), b]
    """

    nodes = (ast.Starred,)

    def convert(self, node: ast.Starred) -> ast.expr:
        node.value = self.rewriter.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            function = "joined" if getattr(node, "hyb_joined", False) else "spread"
            node.value = call(node.value, function, node.value)
        return node


class UnpackConverter(Converter):
    """
    ::

        a, b = c    ==>    a, b = hyb__.spread(c)
    """

    nodes = (ast.Assign,)

    def convert(self, node: ast.Assign) -> ast.stmt:
        unpacks = any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets)
        is_call = isinstance(node.value, ast.Call)
        simple = all(isinstance(target, ast.Name) for target in node.targets)
        node.value = self.rewriter.visit(node.value)
        if simple and (is_call or node.targets[0].id.startswith(PREFIX)):
            node.value = handed_on(node.value)
        if unpacks and not isinstance(node.value, (ast.Tuple, ast.List)):
            node.value = call(node.value, "spread", node.value)
        node.targets = [self.rewriter.visit(target) for target in node.targets]
        return node


class DeleteConverter(Converter):
    """A variable that a staged branch has left unbound cannot be deleted.

    ::

        del x    ==>    hyb__.load("x", x)
                        del x
    """

    nodes = (ast.Delete,)

    def convert(self, node: ast.Delete) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for target in _targets(node.targets):
            if isinstance(target, ast.Name) and not self.rewriter.is_sure(target):
                load = located(ast.Name(target.id, ast.Load()), target)
                found.append(_statement(call(target, "load", constant(target, target.id), load)))
            statement = ast.Delete([self.rewriter.visit(target)])
            found.append(located(statement, node))
        return found or [node]


def _targets(targets: Sequence[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from _targets(target.elts)
        else:
            yield target


class AugmentedConverter(Converter):
    """``x += v`` changes what ``x`` holds, if that is a list or its like.

    ::

        x += v      ==>    x = hyb__.content(hyb__.load("x", x))
                           x += v
        a.b += v    ==>    hyb_owner = a
                           hyb_held = hyb__.content(hyb__.taken(hyb_owner.b))
                           hyb_held += v
                           hyb__.attribute(hyb_owner, "b").b = hyb_held
    """

    nodes = (ast.AugAssign,)

    def convert(self, node: ast.AugAssign) -> Any:
        rewriter = self.rewriter
        if isinstance(node.target, ast.Attribute) and not rewriter.in_class:
            return self._attribute(node, node.target)
        node.target.hyb_augmented = True  # type: ignore[attr-defined]
        before: list[ast.stmt] = []
        if isinstance(node.target, ast.Name) and not rewriter.in_class:
            load = located(ast.Name(node.target.id, ast.Load()), node.target)
            value = load
            if not rewriter.is_sure(node.target):
                value = call(load, "load", constant(load, load.id), load)
            value = call(node.target, "content", value)
            if rewriter.is_sure(node.target):
                before.append(_statement(value))
            else:  # what is augmented is the value, not what says that there may be none
                store = located(ast.Name(node.target.id, ast.Store()), node.target)
                before.append(located(ast.Assign([store], value), node))
        node.target = rewriter.visit(node.target)
        node.value = rewriter.visit(node.value)
        return [*before, node]

    def _attribute(self, node: ast.AugAssign, target: ast.Attribute) -> list[ast.stmt]:
        visit, owner, held = self.rewriter.visit, *map(self.rewriter.fresh, ("owner", "held"))

        def attribute(context: ast.expr_context) -> ast.expr:
            of = located(ast.Name(owner, ast.Load()), target.value)
            return visit(located(ast.Attribute(of, target.attr, context), target))

        def bound(name: str, value: ast.expr) -> ast.stmt:
            return located(ast.Assign([located(ast.Name(name, ast.Store()), value)], value), node)

        into = located(ast.Name(held, ast.Store()), target)
        made = located(ast.Name(held, ast.Load()), target)
        return [
            bound(owner, visit(target.value)),
            bound(held, call(target, "content", attribute(ast.Load()))),
            located(ast.AugAssign(into, node.op, visit(node.value)), node),
            located(ast.Assign([attribute(ast.Store())], made), node),
        ]


class BindingConverter(Converter):
    """Variables of enclosing functions, and globals, announce that they are about to be bound.

    ::

        nonlocal x
        x = v    ==>    hyb__.cell(lambda: x)
                        x = v
    """

    def before(self, node: ast.stmt) -> list[ast.stmt]:
        rewriter = self.rewriter
        scope = rewriter.scope
        if rewriter.in_class or not (scope.globals or scope.nonlocals):
            return []
        found: list[ast.stmt] = []
        for name in sorted(set(bound_by(node))):
            if name in scope.globals:
                label = constant(node, rewriter.mangle(name))
                found.append(_statement(call(node, "global_", call(node, "globals"), label)))
            elif name in scope.nonlocals:
                load = located(ast.Name(name, ast.Load()), node)
                found.append(_statement(call(node, "cell", thunk(node, load))))
        return found


def is_augmented(node: ast.AST) -> bool:
    return getattr(node, "hyb_augmented", False)


def bound_by(node: ast.stmt) -> Iterator[str]:
    """Names that ``node`` itself binds, not the statements in it."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name  # type: ignore[union-attr]
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0]
        elif not isinstance(child, (ast.stmt, ast.match_case, ast.ExceptHandler)):
            for inner in walk_scope(child):
                if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    yield inner.id


def _statement(value: ast.expr) -> ast.stmt:
    return located(ast.Expr(value), value)


# What has items that nobody uses up, and what ``+=`` does not change unseen.
SPREAD = (Tensor, *LOOKED_INTO)
UNCHANGED = (Tensor, Number, int, float, str, tuple, type(None))

# The run-time half ------------------------------------------------------------------------------


def taken(value: Any) -> Any:
    """What an attribute or item holds; if only some paths have set it, the plan checks that."""
    return read(value, "what is read here") if isinstance(value, Maybe) else value


def attribute(owner: Any, name: str) -> Any:
    """``owner``, whose attribute ``name`` is about to be set."""
    if tracing():
        will_set(owner, name)
    return owner


def lost(owner: Any, name: str) -> Any:
    """``owner``, whose attribute ``name`` is about to be deleted."""
    if tracing():
        will_delete(owner, name)
    return owner


def spread(value: Any) -> Any:
    """``value``, whose items are about to be taken one by one."""
    if not isinstance(value, SPREAD) and tracing():
        from hybrid.convert.effects import gone_over

        gone_over(value, "unpacking")
    return look(value)


def joined(value: Any) -> Any:
    """``value``, whose items are about to become those of another list or tuple."""
    spread(value)
    if tracing():
        from hybrid.convert.builtins import is_late, listed

        return listed(value) if is_late(value) else value
    return value


def item(container: Any) -> Any:
    """``container``, an item of which is about to be set or deleted."""
    if isinstance(container, CONTAINERS) and tracing():
        seen = look(container)
        current().will_write_container(container)
        return seen
    if not isinstance(container, Tensor) and tracing():
        from hybrid.convert.effects import stored_in

        stored_in(container)
    return container


def items(container: Any) -> Any:
    """``container``, an item of which is about to be changed in place."""
    if tracing() and isinstance(container, CONTAINERS):
        for value in container.values() if isinstance(container, dict) else container:
            content(value)
    return container


def content(value: Any) -> Any:
    """``value``, which is about to be changed in place."""
    if isinstance(value, CONTAINERS) and tracing():
        current().will_write_container(value)
    elif not isinstance(value, UNCHANGED) and tracing():
        from hybrid.convert.effects import stored_in

        stored_in(value)
    return value


def cell(variable: Callable[[], Any]) -> None:
    """The variable that ``variable`` gives, one of an enclosing function, is about to be set."""
    if tracing():
        assert isinstance(variable, types.FunctionType) and variable.__closure__ is not None
        current().will_write_cell(variable.__closure__[0])


def global_(namespace: dict[str, Any], name: str) -> None:
    """The global ``name`` is about to be set."""
    if tracing():
        current().will_write_global(namespace, name)


AttributeConverter.runtime = (attribute, lost, taken)
SubscriptConverter.runtime = (item, items, look)
StarredConverter.runtime = (joined, spread)
AugmentedConverter.runtime = (content,)
BindingConverter.runtime = (cell, global_)
