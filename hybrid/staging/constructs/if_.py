"""Run-time half of ``if``: the session of a plain test; a node takes over on a traced one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.staging.sessions.session import Session
from hybrid.staging.sessions.views import decided, is_traced, look


class If(Session):
    """The session of an ``if`` on a plain value: first the pass of the body, then of the else."""

    __slots__ = ("passes", "test")

    def __init__(self, site: Site, test: Any) -> None:
        super().__init__(site)
        self.passes = 0
        test = decided(site, test)
        if is_traced(test):
            self.staged = hyb__.StagedIf(site, test)
        else:
            self.test = bool(look(test))

    def again(self, found: Mapping[str, Any]) -> bool:
        if self.staged is not None:
            return self.staged_again(found)
        self.passes += 1
        return self.passes == (1 if self.test else 2)


def if_(site: Site, test: Any) -> If:
    """The session of an ``if`` whose test is ``test``."""
    return If(site, test)
