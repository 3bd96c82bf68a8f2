"""Templates of calls: what is called may be replaced by its conversion during a capture."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.variables import is_checked, unchecked
from hybrid.convert.converter import Converter, call, is_runtime_call

LISTING = frozenset({"locals", "vars", "dir"})  # without arguments they show the author's variables


class CallConverter(Converter):
    """Template of a call: it stays a call, so that Python binds and refuses its arguments.

    ::

        f(x, *xs)    ==>    hyb__.result(hyb__.callee(SITE, f)(x, *xs))
        f(a.b)       ==>    hyb__.result(hyb__.choosing(SITE, f)(hyb__.offered(a.b)))
        locals()     ==>    hyb__.shown(hyb__.callee(SITE, locals)())

    What a variable is bound to, what is returned and what is let go of is handed on as it is.  An
    argument may be None on some paths: then the call is made for either.
    """

    nodes = (ast.Call,)

    def convert(self, node: ast.Call) -> ast.expr:
        visit = self.rewriter.visit
        lists = isinstance(node.func, ast.Name) and node.func.id in LISTING
        lists = lists and not (node.args or node.keywords)
        if is_runtime_call(node):
            node.args = [visit(argument) for argument in node.args]
            node.keywords = [visit(keyword) for keyword in node.keywords]
            return node
        site = self.rewriter.site("call", node)
        function = visit(node.func)
        node.args = [visit(argument) for argument in node.args]
        node.keywords = [visit(keyword) for keyword in node.keywords]
        unsure = False
        for at, argument in enumerate(node.args):
            unsure = unsure or isinstance(argument, ast.Starred) or is_checked(argument)
            node.args[at] = unchecked(argument)
        for keyword in node.keywords:
            unsure = unsure or keyword.arg is None or is_checked(keyword.value)
            keyword.value = unchecked(keyword.value)
        node.func = call(node.func, "choosing" if unsure else "callee", site, function)
        return call(node, "shown" if lists else "result", node)


class ResultConverter(Converter):
    """Template of ``return`` and expression statements, whose value may be absent."""

    nodes = (ast.Return, ast.Expr)

    def convert(self, node: ast.Return | ast.Expr) -> ast.stmt:
        if node.value is not None:
            node.value = unchecked(self.rewriter.visit(node.value))
        return node
