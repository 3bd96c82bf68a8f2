"""Loads of variables that may be unbound."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.converter import Converter, call, constant, is_runtime_call
from hybrid.convert.unbound import read
from hybrid.trace.maybe import UNBOUND, Maybe, Unbound


class NameConverter(Converter):
    """A load that comes after no sure binding asks whether a staged branch has left it unbound.

    ::

        x    ==>    hyb__.load("x", x)          hyb__.load("x", x, True)  of an enclosing function
    """

    nodes = (ast.Name,)

    def convert(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or self.rewriter.is_sure(node):
            return node
        return loaded(self.rewriter, node)


def loaded(rewriter: Any, node: ast.Name) -> ast.Call:
    """The load of a variable that may be unbound."""
    free = [constant(node, True)] if rewriter.is_free(node) else []
    return call(node, "load", constant(node, node.id), node, *free)


def load(name: str, value: Any, free: bool = False) -> Any:
    """The value of the variable ``name``, one of an enclosing function if it is ``free``."""
    if type(value) in (Unbound, Maybe):
        return read(value, name, free)
    return value


def peek(name: str, value: Any, free: bool = False) -> Any:
    """The same for a look at the identity of the value alone."""
    known = type(value) is Maybe and value.other is not UNBOUND
    return value if known else load(name, value, free)


def handed_on(converted: ast.expr) -> ast.expr:
    """A converted name or call whose value goes where it need not be there on all paths."""
    if is_runtime_call(converted) and converted.func.attr == "load":
        converted.func.attr = "peek"
    elif is_runtime_call(converted) and converted.func.attr == "taken":
        converted.func.attr = "offered"
    elif is_runtime_call(converted) and converted.func.attr == "result":
        return converted.args[0]
    return converted


NameConverter.runtime = (load, peek)
