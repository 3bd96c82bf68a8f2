"""Templates of stores: a place that is about to change is announced to the capture first.

What a region of the graph writes must be undone before the other branch is traced, and merged
after it.  The announcement is part of the target, so that it comes when Python evaluates that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.convert.constructs.variables import loaded, unchecked
from hybrid.convert.converter import Converter, call, constant, located, thunk
from hybrid.convert.scope import FUNCTIONS, names_in, walk_scope
from hybrid.convert.trees import AUGMENTED, JOINED, is_marked, mark
from hybrid.core.own_names import PREFIX


class AttributeConverter(Converter):
    """Template of an attribute that is loaded, set or deleted.

    ::

        a.b = v    ==>    hyb__.attribute(a, "b").b = v
        del a.b    ==>    del hyb__.lost(a, "b").b
        a.b        ==>    hyb__.taken(a.b)
        a.__dict__ ==>    hyb__.namespace(a, "__dict__")
    """

    nodes = (ast.Attribute,)

    def convert(self, node: ast.Attribute) -> ast.expr:
        node.value = self.rewriter.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            name = constant(node, self.rewriter.mangle(node.attr))
            function = "attribute" if isinstance(node.ctx, ast.Store) else "lost"
            node.value = call(node.value, function, node.value, name)
            return node
        if node.attr in ("__dict__", "__globals__"):
            return call(node, "namespace", node.value, constant(node, node.attr))
        return call(node, "taken", node)


class SubscriptConverter(Converter):
    """Template of a subscript that is loaded, set or deleted.

    ::

        a[0]        ==>    hyb__.taken(hyb__.keyed(a)[0])
        a[i]        ==>    hyb__.taken(hyb__.indexed(a)[i])
        a[0] = v    ==>    hyb__.item(a)[0] = v
        a[i] = v    ==>    hyb__.indexed_item(a)[i] = v
    """

    nodes = (ast.Subscript,)

    def convert(self, node: ast.Subscript) -> ast.expr:
        node.value = self.rewriter.visit(node.value)
        node.slice = self.rewriter.visit(node.slice)
        loads, known = isinstance(node.ctx, ast.Load), _is_known(node.slice)
        function = ("keyed" if known else "indexed") if loads else (
            "item" if known else "indexed_item"
        )  # fmt: skip
        node.value = call(node.value, function, node.value)
        if is_augmented(node) and isinstance(node.ctx, ast.Store):
            node.value = call(node.value, "items", node.value)
        return call(node, "taken", node) if isinstance(node.ctx, ast.Load) else node


def _is_known(index: ast.expr) -> bool:
    """Whether a subscript is none that only the run knows."""
    if isinstance(index, ast.UnaryOp):
        index = index.operand
    return isinstance(index, (ast.Constant, ast.Slice, ast.Tuple))


class DisplayConverter(Converter):
    """Template of a list, tuple, set or dict display.

    What is joined there may be of unknown length, and what is put in be there on some paths only.
    Which object a key is may depend on the run.

    ::

        {**a, "b": c}    ==>    hyb__.united({**a}, {"b": c})
        {a: b}           ==>    {hyb__.key(a): b}
    """

    nodes = (ast.List, ast.Tuple, ast.Set, ast.Dict)

    def convert(self, node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> ast.expr:
        if isinstance(node, ast.Dict) and None in node.keys and len(node.keys) > 1:
            parts = [self.rewriter.visit(part) for part in _parts_of(node)]
            return call(node, "united", *parts)
        items = node.values if isinstance(node, ast.Dict) else node.elts
        for item in items:
            if isinstance(item, ast.Starred):
                mark(item, JOINED)
        self.rewriter.children(node)
        if isinstance(node, ast.Set):
            items[:] = map(as_key, items)
            return node
        items[:] = map(unchecked, items)
        if isinstance(node, ast.Dict):
            node.keys[:] = [key and as_key(key) for key in node.keys]
        return node


def as_key(node: ast.expr) -> ast.expr:
    """A key of a dict, or an item of a set, given to ``hyb__.key`` unless it is constant."""
    known = isinstance(node, (ast.Constant, ast.Starred))
    return node if known else call(node, "key", node)


def _parts_of(node: ast.Dict) -> list[ast.Dict]:
    """A dict for each ``**``, and one for what stands between two."""
    parts: list[ast.Dict] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None or not parts or None in parts[-1].keys:
            parts.append(located(ast.Dict([], []), value))
        parts[-1].keys.append(key)
        parts[-1].values.append(value)
    return parts


class StarredConverter(Converter):
    """Template of ``*`` in a call or a display.

    ::

        f(*a)      ==>    f(*hyb__.spread(a))
        [*a, b]    ==>    [*hyb__.joined(a), b]
    """

    nodes = (ast.Starred,)

    def convert(self, node: ast.Starred) -> ast.expr:
        node.value = self.rewriter.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            function = "joined" if is_marked(node, JOINED) else "spread"
            node.value = call(node.value, function, node.value)
        return node


class UnpackConverter(Converter):
    """Template of an assignment: what is unpacked may be of unknown length.

    ::

        a, b = c    ==>    a, b = hyb__.spread(c)
    """

    nodes = (ast.Assign,)

    def convert(self, node: ast.Assign) -> ast.stmt:
        unpacks = any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets)
        is_read = isinstance(node.value, (ast.Call, ast.Name, ast.Attribute, ast.Subscript))
        simple = all(isinstance(target, ast.Name) for target in node.targets)
        node.value = self.rewriter.visit(node.value)
        if simple and (is_read or node.targets[0].id.startswith(PREFIX)):
            node.value = unchecked(node.value)
        if unpacks and not isinstance(node.value, (ast.Tuple, ast.List)):
            node.value = call(node.value, "spread", node.value)
        node.targets = [self.rewriter.visit(target) for target in node.targets]
        return node


class DeleteConverter(Converter):
    """Template of ``del``: a variable that a branch has left unbound cannot be deleted.

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


class KeywordConverter(Converter):
    """Template of ``**`` in a call.

    ::

        f(**a)     ==>    f(**hyb__.look(a))
    """

    nodes = (ast.keyword,)

    def convert(self, node: ast.keyword) -> ast.keyword:
        node.value = self.rewriter.visit(node.value)
        if node.arg is None:
            node.value = call(node.value, "look", node.value)
        return node


class AugmentedConverter(Converter):
    """Template of ``x += v``, which changes a list or its like in place.

    ::

        x += v      ==>    x = hyb__.content(hyb__.load("x", x))
                           x += v
        a.b += v    ==>    hyb_owner = a
                           hyb_held = hyb__.content(hyb__.taken(hyb_owner.b))
                           hyb_held += v
                           hyb__.attribute(hyb_owner, "b").b = hyb_held
        x |= v      ==>    x = hyb__.joined_in_place(x, v)
    """

    nodes = (ast.AugAssign,)

    def convert(self, node: ast.AugAssign) -> Any:
        rewriter = self.rewriter
        if isinstance(node.target, ast.Attribute) and not rewriter.in_class:
            return self._attribute(node, node.target)
        mark(node.target, AUGMENTED)
        before: list[ast.stmt] = []
        if isinstance(node.target, ast.Name) and isinstance(node.op, ast.BitOr):
            load = located(ast.Name(node.target.id, ast.Load()), node.target)
            value = call(node, "joined_in_place", rewriter.visit(load), rewriter.visit(node.value))
            return located(ast.Assign([node.target], value), node)
        if isinstance(node.target, ast.Name) and not rewriter.in_class:
            load = located(ast.Name(node.target.id, ast.Load()), node.target)
            value = load
            if not rewriter.is_sure(node.target):
                value = loaded(rewriter, load)
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

        before, made = attribute(ast.Load()), located(ast.Name(held, ast.Load()), target)
        if isinstance(node.op, ast.BitOr):
            joined = call(node, "joined_in_place", before, visit(node.value))
            changed = [bound(held, joined)]
        else:
            into = located(ast.Name(held, ast.Store()), target)
            augmented = located(ast.AugAssign(into, node.op, visit(node.value)), node)
            changed = [bound(held, call(target, "content", before)), augmented]
        set_ = located(ast.Assign([attribute(ast.Store())], made), node)
        return [bound(owner, visit(target.value)), *changed, set_]


class BindingConverter(Converter):
    """Template of a binding of a global, or of a variable of an enclosing function.

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
    """Whether ``node`` is the target of an augmented assignment."""
    return is_marked(node, AUGMENTED)


def bound_by(node: ast.stmt) -> Iterator[str]:
    """The names that ``node`` itself binds, without those of statements inside it."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name  # type: ignore[union-attr]
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0]
        elif isinstance(child, ast.match_case):
            yield from names_in(child.pattern).bound
        elif isinstance(child, ast.ExceptHandler):
            if child.name is not None:
                yield child.name
        elif not isinstance(child, ast.stmt):
            for inner in walk_scope(child):
                if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    yield inner.id


def _statement(value: ast.expr) -> ast.stmt:
    return located(ast.Expr(value), value)
