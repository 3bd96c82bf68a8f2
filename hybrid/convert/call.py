"""Calls: what is called may be replaced by its conversion while a function is captured."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.callee import resolve
from hybrid.convert.converter import PREFIX, Converter, call, is_runtime_call
from hybrid.convert.names import handed_on
from hybrid.convert.site import Site
from hybrid.convert.traced import tracing
from hybrid.convert.unbound import read
from hybrid.trace.maybe import Maybe

LISTING = frozenset({"locals", "vars", "dir"})  # without arguments they show the author's variables


class CallConverter(Converter):
    """The call stays a call, so that its arguments are bound and refused as Python does it.

    ::

        f(x, *xs)    ==>    hyb__.result(hyb__.callee(SITE, f)(x, *xs))
        locals()     ==>    hyb__.shown(hyb__.callee(SITE, locals)())

    What a variable is bound to, what is returned and what is let go of is handed on as it is.
    """

    nodes = (ast.Call,)

    def convert(self, node: ast.Call) -> ast.expr:
        visit = self.rewriter.visit
        lists = isinstance(node.func, ast.Name) and node.func.id in LISTING
        lists = lists and not (node.args or node.keywords)
        own = is_runtime_call(node)
        if not own:
            site = self.rewriter.site("call", node)
            node.func = call(node.func, "callee", site, visit(node.func))
        node.args = [visit(argument) for argument in node.args]
        node.keywords = [visit(keyword) for keyword in node.keywords]
        if own:
            return node
        return call(node, "shown" if lists else "result", node)


class HandedConverter(Converter):
    """A call whose result is returned, or let go of."""

    nodes = (ast.Return, ast.Expr)

    def convert(self, node: ast.Return | ast.Expr) -> ast.stmt:
        if node.value is not None:
            node.value = handed_on(self.rewriter.visit(node.value))
        return node


def callee(site: Site, function: Any) -> Any:
    """What is to be called for ``function``: itself unless a function is being captured."""
    return resolve(site, function) if tracing() else function


def result(value: Any) -> Any:
    """What a call has returned; where only some paths return it, the plan checks for them."""
    return read(value, "what is returned here") if isinstance(value, Maybe) else value


def shown(names: Any) -> Any:
    """``locals()`` or ``dir()`` without the variables that conversion has added."""
    if isinstance(names, dict):
        for name in [n for n in names if isinstance(n, str) and n.startswith(PREFIX)]:
            del names[name]
    elif isinstance(names, list):
        names[:] = [n for n in names if not (isinstance(n, str) and n.startswith(PREFIX))]
    return names


CallConverter.runtime = (callee, result, shown)
