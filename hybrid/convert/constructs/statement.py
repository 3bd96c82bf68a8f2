"""The base class of the templates of ``if``, ``while`` and ``for``: statements run in passes."""

from __future__ import annotations

import ast
from typing import Any, ClassVar

from hybrid.convert.converter import Converter, Filling, fill
from hybrid.convert.trees import stops_of

LOAD = """
    if SESSION.loads:
        NAMES = SESSION.values
"""


class StatementConverter(Converter):
    """A template whose parts stay in the author's frame and run as a session says."""

    kind: ClassVar[str]  # what the site is called
    head: ClassVar[str]  # the field of what decides on the passes, where the session is located
    blocks: ClassVar[int]  # that the template puts around a body

    def convert(self, node: Any) -> Any:
        rewriter = self.rewriter
        if rewriter.stays(node, self.blocks):
            return self.native(node)
        site, names = rewriter.statement_site(self.kind, node)
        session = rewriter.fresh()
        at = getattr(node, self.head)
        parts = self.parts(node, session)
        load = fill(LOAD, at, SESSION=session, NAMES=names) if names else []
        view = rewriter.view(at, session, stops_of(node))
        return self.fill(at, SESSION=session, SITE=site, VIEW=view, LOAD=load, **parts)

    def native(self, node: Any) -> Any:
        """``node`` as it is, its parts converted."""
        raise NotImplementedError

    def parts(self, node: Any, session: str) -> dict[str, Filling]:
        """The converted parts of ``node``, under their names in the template."""
        raise NotImplementedError

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A converted block, as deep as the template puts it."""
        with self.rewriter.blocks(self.blocks):
            return self.rewriter.block(statements)
