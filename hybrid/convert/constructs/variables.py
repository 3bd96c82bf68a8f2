"""Templates of loads of variables that may be unbound."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.converter import Converter, call, constant, is_runtime_call


class NameConverter(Converter):
    """Template of a variable's load that may find it unbound: a check goes round it.

    ::

        x    ==>    hyb__.load("x", x)          hyb__.load("x", x, True)  of an enclosing function
    """

    nodes = (ast.Name,)

    def convert(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or self.rewriter.is_sure(node):
            return node
        return loaded(self.rewriter, node)


def loaded(rewriter: Any, node: ast.Name) -> ast.Call:
    """The call that loads a variable with the check that it is bound."""
    free = [constant(node, True)] if rewriter.is_free(node) else []
    return call(node, "load", constant(node, node.id), node, *free)


def is_checked(converted: ast.expr) -> bool:
    """Whether a converted name or call has the check that its value is there on all paths."""
    return is_runtime_call(converted) and converted.func.attr in ("load", "taken", "result")


def unchecked(converted: ast.expr) -> ast.expr:
    """A converted name or call without the check that its value is there on all paths."""
    if is_runtime_call(converted) and converted.func.attr == "load":
        converted.func.attr = "peek"
    elif is_runtime_call(converted) and converted.func.attr == "taken":
        converted.func.attr = "offered"
    elif is_runtime_call(converted) and converted.func.attr == "result":
        return converted.args[0]
    return converted
