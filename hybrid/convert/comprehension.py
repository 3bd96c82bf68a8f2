"""Comprehensions: they stay, with what they go over and their conditions looked at."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.converter import Converter, call
from hybrid.convert.site import Site
from hybrid.convert.traced import tracing


class ComprehensionConverter(Converter):
    """Tensors are gone over row by row; a condition must be known, for it decides on a length.

    ::

        [f(x) for x in xs if x]  ==>  [f(x) for x in hyb__.each(SITE, xs)
                                       if hyb__.native_test(SITE, x)]
    """

    nodes = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

    def convert(self, node: Any) -> ast.expr:
        rewriter = self.rewriter
        if any(part.is_async for part in node.generators):
            return node
        first, *others = node.generators
        first.iter = self._each(first)
        with rewriter.comprehension():
            for part in others:
                part.iter = self._each(part)
            for part in node.generators:
                part.target = rewriter.visit(part.target)
                part.ifs = [rewriter.native_test(condition) for condition in part.ifs]
            for field in ("key", "value", "elt"):
                if hasattr(node, field):
                    setattr(node, field, rewriter.visit(getattr(node, field)))
        return node

    def _each(self, part: ast.comprehension) -> ast.expr:
        site = self.rewriter.site("comprehension", part.iter)
        return call(part.iter, "each", site, self.rewriter.visit(part.iter))


def each(site: Site, iterable: Any) -> Any:
    """What a comprehension goes over in place of ``iterable``."""
    if tracing():
        from hybrid.convert.staged_each import each as staged_each

        return staged_each(site, iterable)
    return iterable


ComprehensionConverter.runtime = (each,)
