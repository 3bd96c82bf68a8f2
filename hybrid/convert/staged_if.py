"""``if`` on a traced value: both branches are traced, and joined by a ``cond`` node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybrid.convert.site import Site
from hybrid.convert.staged import Staged
from hybrid.trace.branches import Path, join
from hybrid.trace.region import truth

THEN, ELSE = "where the condition holds", "where it does not"


class StagedIf(Staged):
    """Two passes: one with ``test`` true, one with it false."""

    def __init__(self, site: Site, pred: Any) -> None:
        super().__init__(site)
        self.pred = truth(pred)
        self.test = True
        self.taken: list[Path] = []
        self.before: dict[str, Any] = {}

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass; ``found`` are the author's local variables."""
        if self.path is None:
            self.before = self.snapshot(found)
            self.path = self.new_path(self.tracer, "then", THEN, found)
            return True
        self.path.end(self.snapshot(found))
        self.taken.append(self.path)
        if len(self.taken) == 1:
            self.test = False
            self.path = self.new_path(self.tracer, "else", ELSE, self.before)
            self.load(self.before)
            return True
        self.path = None
        first, second = self.taken
        self.load(join(self.tracer, self.pred, first, second, self.before, self.site.location))
        self.tracer.note(self.site.location, "became a cond node")
        return False
