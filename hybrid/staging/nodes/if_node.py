"""Staging of ``if`` on a traced test: two traced passes become a ``cond`` node."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.errors import Location
from hybrid.staging.nodes.node_session import ELSE, THEN, Staged
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.branch import Path, join
from hybrid.trace.regions.continuation import go_on
from hybrid.trace.regions.pending_errors import EndOfPath
from hybrid.trace.regions.region import Region, truth


class StagedIf(Staged):
    """The session of two passes: one with the test true, one with it false."""

    def __init__(self, site: Site, pred: Any) -> None:
        super().__init__(site)
        self.pred = truth(pred)
        self.test = True
        self.taken: list[Path] = []
        self.before: dict[str, Any] = {}

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass; ``found`` are the author's local variables."""
        if self.path is None:
            self.before = self.held = self.snapshot(found)
            self.roots = roots_of(found)
            self.path = Path(Region(self.tracer, "then", self.roots), THEN, lines_of(self.site, 0))
            return True
        self.path.end(self.snapshot(found))
        self.taken.append(self.path)
        if len(self.taken) == 1:
            self.test = False
            self.path = Path(Region(self.tracer, "else", self.roots), ELSE, lines_of(self.site, 1))
            self.load(self.before)
            return True
        self.path = None
        first, second = self.taken
        live = {name: self.before[name] for name in sorted(self.site.after)}
        at = self.site.location
        self.load({**self.before, **join(self.tracer, self.pred, first, second, live, at)})
        self.tracer.note(self.site.location, "became a cond node")
        if first.ended and second.ended and self.tracer.errors:
            raise EndOfPath
        go_on()
        return False


def lines_of(site: Site, branch: int) -> dict[str, Location]:
    """The lines where a branch binds its names."""
    if branch >= len(site.branches):
        return {}
    path = site.location.path
    return {
        name: Location(path, line, linecache.getline(path, line).strip())
        for name, line in site.branches[branch].assigned.items()
    }
