"""Staging of an expression that evaluates one of two operands: a ``cond`` node."""

from __future__ import annotations

import sys
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.staging.constructs.logic import Thunk, evaluate
from hybrid.staging.nodes.node_session import ELSE, THEN, Staged
from hybrid.trace.places.code_owner import program_frame
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.branch import Path, join
from hybrid.trace.regions.continuation import go_on
from hybrid.trace.regions.pending_errors import EndOfPath
from hybrid.trace.regions.region import Region, truth
from hybrid.trace.values.optional import UNBOUND


class Choice(Staged):
    """The session of an expression that evaluates one of two operands."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site)
        self.name = name  # what messages call the value of the expression
        frame = program_frame(sys._getframe(1))
        self.roots = roots_of({} if frame is None else frame.f_locals)

    def branch(self, region: str, label: str, thunk: Thunk) -> Path:
        self.path = Path(Region(self.tracer, region, self.roots), label)
        found: dict[str, Any] = {}
        with self:
            found[self.name] = evaluate(self.site, thunk)
        self.path.end(found)
        return self.path

    def between(self, test: Any, body: Thunk, orelse: Thunk) -> Any:
        """``body()`` where ``test`` holds, else ``orelse()``."""
        pred = truth(test)
        then, other = self.branch("then", THEN, body), self.branch("else", ELSE, orelse)
        before = {self.name: UNBOUND}
        names = join(self.tracer, pred, then, other, before, self.site.location)
        self.tracer.note(self.site.location, "became a cond node")
        if then.ended and other.ended and self.tracer.errors:
            raise EndOfPath
        go_on()
        return names[self.name]
