"""Run-time half of ``assert``: a plain test is tested, a traced one becomes a check of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.staging.sessions.views import is_traced, own_truth


def checked(site: Site, test: Any, message: Callable[[], Any] | None) -> Any:
    """``test``, or True where it is traced and the plan has been given a check of it."""
    test = own_truth(test)
    if not is_traced(test):
        return test

    def failing() -> None:
        raise AssertionError() if message is None else AssertionError(message())

    choice = hyb__.Choice(site, "this assert")
    choice.between(test, lambda: None, failing)
    return True
