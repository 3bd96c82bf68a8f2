"""Functions of tensors that run as plans when they are called often, eagerly as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.calls.hybridization import hybridize
from hybrid.ir.interpreter import ACTIVE
from hybrid.ops.support.call_cache import CallCounts

EARLY_CALLS = 2  # with the same types, before there is a plan: that takes longer than they do


class Often:
    """A function of tensors (and tuples, and None) that becomes a plan when called often.

    A plan has the bits of the steps, so nobody can tell but by the time.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.planned = hybridize(function, mode="trace", ledger=False)
        self.counts = CallCounts()

    def __call__(self, *args: Any) -> Any:
        if ACTIVE:  # captured, or under a transform: as it is written
            return self.function(*args)
        often = self.counts.add(_types(args)) >= EARLY_CALLS
        return self.planned(*args) if often else self.function(*args)


def _types(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([None if a is None else _types(a) if type(a) is tuple else a.type for a in args])
