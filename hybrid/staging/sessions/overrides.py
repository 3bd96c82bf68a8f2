"""Overrides: what captured code calls in place of functions of Python's and of libraries.

An override gets the site of the call first, and then its arguments.  It answers NotImplemented for
arguments that the function itself serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.convert.site import Site

Override = Callable[..., Any]


def siteless(override: Override) -> Override:
    """An override that need not know where it is called."""

    def call(_site: Site, *args: Any, **kwargs: Any) -> Any:
        return override(*args, **kwargs)

    return call
