"""``with``: what a context manager may suppress is refused where only the run knows about it."""

from __future__ import annotations

import ast
import sys
from typing import Any

from hybrid.convert.converter import Converter, call
from hybrid.convert.site import Site
from hybrid.convert.traced import tracing


class WithConverter(Converter):
    """The statement stays; while its body is traced, it is known what its managers suppress.

    ::

        with MANAGER as x:    ==>    with hyb__.managed(SITE, MANAGER) as x:
    """

    nodes = (ast.With,)

    def convert(self, node: ast.With) -> ast.stmt:
        self.rewriter.children(node)
        for item in node.items:
            site = self.rewriter.site("with", item.context_expr)
            item.context_expr = call(item.context_expr, "managed", site, item.context_expr)
        return node


# The run-time half ------------------------------------------------------------------------------


def managed(site: Site, manager: Any) -> Any:
    """What to enter in place of ``manager``: itself, unless it may suppress exceptions."""
    if not tracing():
        return manager
    from hybrid.convert.staged_with import guarded

    return guarded(site, manager, sys._getframe(1))


WithConverter.runtime = (managed,)
