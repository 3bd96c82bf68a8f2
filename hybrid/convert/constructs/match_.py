"""Template of ``match``: Python matches the patterns, on values that it knows."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.converter import Converter, call
from hybrid.convert.trees import PLAIN, is_marked


class MatchConverter(Converter):
    """Template of ``match``: subject, guards and bodies are converted, patterns stay.

    In a function the guards have become statements already.
    """

    nodes = (ast.Match,)

    def convert(self, node: ast.Match) -> Any:
        rewriter = self.rewriter
        subject = rewriter.visit(node.subject)
        function = "plain_match_subject" if is_marked(node, PLAIN) else "match_subject"
        node.subject = call(subject, function, subject)
        for case in node.cases:
            if case.guard is not None:
                case.guard = rewriter.native_test(case.guard)
            case.body = rewriter.block(case.body)
        return node
