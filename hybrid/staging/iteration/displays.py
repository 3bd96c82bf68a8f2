"""Run-time half of displays and unpacking: the iterables behind ``*``, ``**`` and targets."""

from __future__ import annotations

from typing import Any

from hybrid.ir.interpreter import current
from hybrid.staging.constructs.loads import spread
from hybrid.staging.iteration.generators import is_uncounted, list_of
from hybrid.staging.sessions.views import refuse_partial, tracing
from hybrid.staging.values import dicts


def joined(value: Any) -> Any:
    """An iterable over ``value``, whose items become those of another list or tuple."""
    spread(value)
    refuse_partial(value, "gone over")
    if tracing():
        return list_of(value) if is_uncounted(value) else value
    return value


def united(*parts: dict[Any, Any]) -> dict[Any, Any]:
    """The dict of the items of all ``parts``."""
    if tracing() and current().indefinite_values:
        return dicts.united(*parts)
    made: dict[Any, Any] = {}
    for part in parts:
        made.update(part)
    return made
