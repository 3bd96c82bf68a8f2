"""Templates of comprehensions: they stay, over iterables and conditions that are looked at."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.constructs.stores import as_key
from hybrid.convert.constructs.variables import unchecked
from hybrid.convert.converter import Converter, call, constant, located, name, thunk
from hybrid.convert.rebuild import ITEMS


class ComprehensionConverter(Converter):
    """Template of a comprehension: lists and generators become functions of iterables.

    ::

        [f(x) for x in xs if x]  ==>  hyb__.list_comprehension(SITE, lambda items: [
                                          item for x in items
                                          for item in hyb__.filtered_item(SITE, x, lambda: f(x))
                                      ])(xs)

    Sets, dicts and what cannot be deferred (``:=``, ``yield``, ``locals()``) stay as they are, over
    ``hyb__.each(SITE, xs)``: tensors are gone over row by row, and a condition must be known.
    """

    nodes = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

    def convert(self, node: Any) -> ast.expr:
        rewriter = self.rewriter
        if any(part.is_async for part in node.generators):
            return node
        grows = isinstance(node, (ast.ListComp, ast.GeneratorExp)) and self._may_defer(node)
        first, *others = node.generators
        iterable = rewriter.visit(first.iter)
        with rewriter.comprehension(node):
            for part in others:
                part.iter = self._each(part.iter, rewriter.visit(part.iter))
            for part in node.generators:
                part.target = rewriter.visit(part.target)
            filtered = grows and bool(node.generators[-1].ifs)
            if filtered:
                self._keep(node)
            for part in node.generators:
                part.ifs = [rewriter.native_test(condition) for condition in part.ifs]
            if not filtered:
                for field in ("key", "value", "elt"):
                    if hasattr(node, field):
                        visited = rewriter.visit(getattr(node, field))
                        keeps = field == "value" or not isinstance(node, ast.SetComp)
                        keeps = keeps and field != "key"
                        setattr(node, field, unchecked(visited) if keeps else as_key(visited))
        if not grows:
            first.iter = self._each(first.iter, iterable)
            return node
        site = rewriter.site("comprehension", node)
        first.iter = name(first.iter, ITEMS)
        step = thunk(node, node)
        step.args.args.append(located(ast.arg(ITEMS), node))
        lists = isinstance(node, ast.ListComp)
        arguments = [site, step] if lists else [site, step, constant(node, filtered)]
        made = call(node, "list_comprehension" if lists else "generated", *arguments)
        return located(ast.Call(made, [iterable], []), node)

    def _may_defer(self, node: Any) -> bool:
        rewriter = self.rewriter
        if rewriter.in_class or not rewriter.may_defer(node):
            return False
        with rewriter.comprehension(node):  # where super() has no arguments to find
            return rewriter.may_defer(node)

    def _keep(self, node: Any) -> None:
        """Let the last conditions say whether there is an item, known or not."""
        rewriter, last = self.rewriter, node.generators[-1]
        at = last.ifs[0]
        joined = at if len(last.ifs) == 1 else located(ast.BoolOp(ast.And(), last.ifs), at)
        site = rewriter.site("condition", at)
        filtered_item = call(
            at, "filtered_item", site, rewriter.test(joined), thunk(at, rewriter.visit(node.elt))
        )
        item = rewriter.fresh("item")
        target = located(ast.Name(item, ast.Store()), at)
        node.generators.append(ast.comprehension(target, filtered_item, [], 0))
        node.elt = name(node.elt, item)
        last.ifs = []

    def _each(self, at: ast.expr, iterable: ast.expr) -> ast.expr:
        return call(at, "each", self.rewriter.site("comprehension", at), iterable)
