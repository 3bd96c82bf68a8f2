"""Registry of overrides: what captured code calls in place of Python and library functions.

One registry for all of them::

    @overrides(len)
    def _len(*args): ...                    called with the arguments of len()

    @overrides(sorted, site=True)
    def _sorted(site, iterable, ...): ...   with the site of the call first

An override answers NotImplemented for arguments that the function itself serves: plain values, and
what the methods of Tensor and Number make of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hybrid.convert.runtime import Site

Override = Callable[..., Any]
F = TypeVar("F", bound=Override)

OVERRIDES: dict[Any, Override] = {}  # each is called with a site first


def overrides(*functions: Any, site: bool = False) -> Callable[[F], F]:
    """A decorator that registers an override of ``functions``."""

    def register(override: F) -> F:
        OVERRIDES.update(dict.fromkeys(functions, override if site else _siteless(override)))
        return override

    return register


def _siteless(override: Override) -> Override:
    """An override that need not know where it is called."""

    def call(_site: Site, *args: Any, **kwargs: Any) -> Any:
        return override(*args, **kwargs)

    return call
