"""Templates of nested functions, lambdas and classes: converted where they are defined."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.converter import Converter, call
from hybrid.convert.scope import arguments_of


class FunctionConverter(Converter):
    """Template of a nested function: its body becomes converted code, the rest stays.

    Decorators, defaults and annotations are evaluated where Python evaluates them.  In a class::

        @cached_property    ==>    @hyb__.decorator(cached_property)
    """

    nodes = (ast.FunctionDef, ast.Lambda)

    def convert(self, node: ast.FunctionDef | ast.Lambda) -> Any:
        visit = self.rewriter.visit
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [visit(decorator) for decorator in node.decorator_list]
            if self.rewriter.in_class:
                node.decorator_list = [call(d, "decorator", d) for d in node.decorator_list]
            for argument in arguments_of(node):
                if argument.annotation is not None:
                    argument.annotation = visit(argument.annotation)
            if node.returns is not None:
                node.returns = visit(node.returns)
        node.args.defaults = [visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [d if d is None else visit(d) for d in node.args.kw_defaults]
        label = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        self.rewriter.nested(node, label).function(node)
        return node


class AsyncFunctionConverter(Converter):
    """Template of an async function: it stays as it is, since none is captured."""

    nodes = (ast.AsyncFunctionDef,)

    def convert(self, node: ast.AsyncFunctionDef) -> Any:
        return node


class ClassConverter(Converter):
    """Template of a class: its methods are converted, statements of its body stay."""

    nodes = (ast.ClassDef,)

    def convert(self, node: ast.ClassDef) -> Any:
        visit = self.rewriter.visit
        node.decorator_list = [visit(decorator) for decorator in node.decorator_list]
        node.bases = [visit(base) for base in node.bases]
        node.keywords = [visit(keyword) for keyword in node.keywords]
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        inner = self.rewriter.in_class_body(node)
        node.body = node.body[:start] + inner.block(node.body[start:])
        return node
