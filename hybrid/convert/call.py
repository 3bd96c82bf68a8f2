"""Calls: what is called may be replaced by its conversion while a function is captured."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.callee import resolve
from hybrid.convert.converter import PREFIX, Converter, call, is_runtime_call
from hybrid.convert.site import Site
from hybrid.convert.traced import tracing

LISTING = frozenset({"locals", "vars", "dir"})  # without arguments they show the author's variables


class CallConverter(Converter):
    """The call stays a call, so that its arguments are bound and refused as Python does it.

    ::

        f(x, *xs)    ==>    hyb__.callee(SITE, f)(x, *xs)
        locals()     ==>    hyb__.shown(hyb__.callee(SITE, locals)())
    """

    nodes = (ast.Call,)

    def convert(self, node: ast.Call) -> ast.expr:
        visit = self.rewriter.visit
        lists = isinstance(node.func, ast.Name) and node.func.id in LISTING
        lists = lists and not (node.args or node.keywords)
        if not is_runtime_call(node):
            site = self.rewriter.site("call", node)
            node.func = call(node.func, "callee", site, visit(node.func))
        node.args = [visit(argument) for argument in node.args]
        node.keywords = [visit(keyword) for keyword in node.keywords]
        return call(node, "shown", node) if lists else node


def callee(site: Site, function: Any) -> Any:
    """What is to be called for ``function``: itself unless a function is being captured."""
    return resolve(site, function) if tracing() else function


def shown(names: Any) -> Any:
    """``locals()`` or ``dir()`` without the variables that conversion has added."""
    if isinstance(names, dict):
        for name in [n for n in names if isinstance(n, str) and n.startswith(PREFIX)]:
            del names[name]
    elif isinstance(names, list):
        names[:] = [n for n in names if not (isinstance(n, str) and n.startswith(PREFIX))]
    return names


CallConverter.runtime = (callee, shown)
