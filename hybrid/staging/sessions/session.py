"""Sessions: the base class of what runs the passes of one converted statement.

The author's statements stay where they are; the session says how often they run.  On plain Python
values that is exactly what Python would do.  Once a value is traced, a staged session takes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.errors import PathError
from hybrid.staging.sessions.views import tell_site, tracing
from hybrid.trace.regions.continuation import go_on

ONE_BY_ONE = "Python goes over its items one by one"


def unrolled(count: int, why: str) -> str:
    """The note for ``explain`` on a loop whose iterations are traced one by one."""
    times = "once" if count == 1 else f"{count} times"
    return f"unrolled {times}: {why.splitlines()[0]}"


def going_on() -> bool:
    """A staged loop is over: go on where nothing has been raised in it; False."""
    go_on()
    return False


class Session:
    """The session of a construct on plain values; ``staged`` is the one that took over, if any."""

    __slots__ = ("site", "staged")

    def __init__(self, site: Site) -> None:
        self.site = site
        self.staged: Any = None

    @property
    def wants(self) -> bool:
        """Whether ``again`` needs all local variables, not only the flags that stop a loop."""
        return self.staged is not None or tracing()

    @property
    def loads(self) -> bool:
        """Whether ``values`` are to be put into the variables that the site names."""
        return self.staged is not None and self.staged.loads

    @property
    def values(self) -> tuple[Any, ...]:
        """The contents for the variables that the site names."""
        return self.staged.values

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass; ``found`` are the local variables."""
        raise NotImplementedError

    def staged_again(self, found: Mapping[str, Any]) -> bool:
        """Whether the staged session has another pass."""
        try:
            return self.staged.again(found)
        except PathError as error:
            tell_site(error, self.site, getattr(self.staged, "tracer", None))
            raise

    def __enter__(self) -> None:
        if self.staged is not None:
            self.staged.__enter__()

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self.staged is not None:
            caught = self.staged.__exit__(kind, error, trace)
            tell_site(error, self.site)
            return caught
        if error is not None:
            self.abandon()
            tell_site(error, self.site)
        return False

    def abandon(self) -> None:
        """Let go of what an exception has made useless."""
