"""Branches of a loop for the code that runs only if a traced flag has not stopped it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.staging.nodes.if_node import lines_of
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.branch import Continued, Path, join
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.tracer import Tracer

if TYPE_CHECKING:
    from hybrid.staging.loops.loop import StagedLoop


class Unstopped:
    """The branch of ``parent`` in which ``session`` goes on where ``flag`` is not set."""

    def __init__(
        self,
        session: StagedLoop,
        parent: Tracer,
        flag: Tensor,
        found: Mapping[str, Any],
        label: str,
    ) -> None:
        self.session, self.parent = session, parent
        with session.inside(parent):
            self.clear = ops.logical_not(flag)
        self.before = session.held = session.snapshot(found)
        self.outer = session.path
        self.path = session.path = Path(
            Region(parent, "then", roots_of(found, session.roots)), label, lines_of(session.site, 0)
        )

    def leave(
        self,
        names: Mapping[str, Any],
        before: Mapping[str, Any],
        label: str,
        continued: Continued | None = None,
    ) -> dict[str, Any]:
        """What ``names`` are once the branches meet; they are as ``before`` where there is none."""
        self.session.path = self.outer
        self.path.end(names)
        empty = Path(Region(self.parent, "else"), label)
        with self.session.inside(self.parent):
            at = self.session.site.location
            return join(self.parent, self.clear, self.path, empty, before, at, continued)
