"""Functions that ``functools.cache`` and ``lru_cache`` have wrapped, called by captured code.

::

    @functools.cache
    def table(n): ...

What such a function returns stays in its cache, for all code.  So it is called eagerly, as by code
that is not captured.  What it returns is a constant of the plan, and the guard asks the cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.open_numbers import is_open
from hybrid.core.tree import flatten
from hybrid.eager.execution import Eager
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, LeakedValueError, Location, author_location
from hybrid.ir import Op, Value
from hybrid.ir.interpreter import current, interpreting
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.staging.sessions.views import tracing
from hybrid.trace.places.memos import CACHE, Memo, holds_traced
from hybrid.trace.values.optional import OptionalValue
from hybrid.trace.values.traced_text import Text
from hybrid.trace.values.varlist import VarList

_OF_THE_RUN = (Tensor, Number, Mixed, OptionalValue, VarList, Text)


def memoized(function: Any) -> Callable[..., Any] | None:
    """What captured code calls in place of ``function``, if it keeps results in a cache."""
    inner = getattr(function, "__func__", function)
    if type(inner) is not CACHE or inner.cache_parameters()["maxsize"] == 0:
        return None
    bound = () if inner is function else (function.__self__,)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not tracing():
            return function(*args, **kwargs)
        return _called(inner, (*bound, *args), kwargs)

    return functools.wraps(inner)(call)


def uncached(function: Any) -> Any:
    """``function``, or what a cache that keeps nothing has wrapped."""
    inner = getattr(function, "__func__", function)
    if type(inner) is not CACHE:
        return function
    wrapped = inner.__wrapped__
    return wrapped if inner is function else wrapped.__get__(function.__self__)


def _called(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``function``, called eagerly."""
    at, name = author_location(), function.__name__
    args = [leaf.__index__() if is_open(leaf) else leaf for leaf in args]
    kwargs = {key: leaf.__index__() if is_open(leaf) else leaf for key, leaf in kwargs.items()}
    if any(isinstance(leaf, _OF_THE_RUN) for leaf in flatten((args, kwargs))[0]):
        raise CaptureError(
            f"{name}, which keeps its results in a cache, was called with a traced value",
            at=at,
            why="Its cache would keep what stands for a value of the graph only.",
            fix=f"call what it wraps, {name}.__wrapped__(...), or give it plain values",
        )
    tracer, misses = current(), function.cache_info().misses
    try:
        with interpreting(EagerBeside(tracer, name, at)):
            result = function(*args, **kwargs)
    except LeakedValueError:
        raise refusal(name, at, "looks at a traced value") from None
    if function.cache_info().misses != misses and holds_traced(result):
        function.cache_clear()
        raise refusal(name, at, "returns a traced value")
    tracer.journal.memos.append(Memo(function, tuple(args), kwargs, result, at))
    tracer.journal.reached.value(result)
    return result


def refusal(name: str, at: Location | None, does: str) -> CaptureError:
    """The error for a cached function that depends on what is captured."""
    return CaptureError(
        f"{name}, which keeps its results in a cache, {does}",
        at=at,
        why="What it returns is kept for all code, and the graph has only what stands for values.",
        fix=f"call what it wraps, {name}.__wrapped__(...), or let it depend on its arguments alone",
    )


class EagerBeside(Eager):
    """The eager interpreter for code that runs once while ``tracer`` captures other code."""

    def __init__(self, tracer: Any, name: str, at: Location | None) -> None:
        self.tracer, self.name, self.at = tracer, name, at

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        for value in flatten(list(operands))[0]:
            self._require_eager(value)
        return super().apply(op, operands, attrs, regions)

    def assign(self, cell: Tensor, value: Tensor) -> None:
        self._require_eager(value)
        if self._entry(cell) is not None:
            raise refusal(self.name, self.at, "writes to a tensor that the graph reads")
        super().assign(cell, value)

    def _entry(self, tensor: Tensor) -> Any:
        """What the graphs around know of ``tensor``."""
        tracer = self.tracer
        while tracer is not None:
            entry = tracer.cells.get(id(tensor))
            if entry is not None:
                return entry
            tracer = tracer.parent
        return None

    def _require_eager(self, value: Any) -> None:
        if isinstance(value, (Number, Mixed)) or (
            isinstance(value, Tensor) and type(value.content) is Value
        ):
            raise refusal(self.name, self.at, "looks at a traced value")
        entry = self._entry(value) if isinstance(value, Tensor) else None
        if entry is not None and entry.written:
            raise refusal(self.name, self.at, "looks at a tensor that the graph has written")
