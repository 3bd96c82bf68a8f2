"""``assert`` on a traced test: the plan raises what Python would have raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.convert.site import Site
from hybrid.convert.staged_logic import Choice
from hybrid.trace.checks import fail


def check(site: Site, test: Any, message: Callable[[], Any] | None) -> bool:
    """Stage ``assert test, message()``; True, for the plan sees to it."""

    def failing() -> None:
        error = AssertionError() if message is None else AssertionError(message())
        fail(error)

    choice = Choice(site, "this assert")
    choice.between(test, lambda: None, failing)
    return True
