"""``assert``: a plain test as it is, a traced one as a check that the plan repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.convert.runtime import hyb__
from hybrid.convert.site import Site
from hybrid.staging.sessions.views import is_traced
from hybrid.trace.regions.checks import fail


def checked(site: Site, test: Any, message: Callable[[], Any] | None) -> Any:
    """Something as true as ``test``; of a traced test the plan raises what Python would have."""
    if not is_traced(test):
        return test

    def failing() -> None:
        error = AssertionError() if message is None else AssertionError(message())
        fail(error)

    choice = hyb__.Choice(site, "this assert")
    choice.between(test, lambda: None, failing)
    return True
