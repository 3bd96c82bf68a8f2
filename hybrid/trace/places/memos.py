"""Results of functions with caches and of context variables, and traced values in caches."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location
from hybrid.ir import Value
from hybrid.number import Number
from hybrid.trace.places.code_owner import MISSING

CACHE = type(functools.lru_cache(lambda: None))


@dataclass(frozen=True, slots=True, eq=False)
class Memo:
    """A call by captured code of what answers from a store, and what it returned."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    at: Location | None

    @property
    def label(self) -> str:
        """The call as messages show it."""
        given = [*map(_shown, self.args), *[f"{n}={_shown(v)}" for n, v in self.kwargs.items()]]
        owner = getattr(self.function, "__self__", None)
        name = getattr(owner, "name", None) or self.function.__name__  # of a context variable
        return f"{name}({', '.join(given)})"

    def now(self) -> Any:
        """Return what the call returns now; MISSING if it raises."""
        try:
            return self.function(*self.args, **self.kwargs)
        except Exception:  # the next capture raises it where the author's code calls
            return MISSING

    def holds(self, now: Any) -> bool:
        """Return whether ``now`` is what the call returned."""
        return now is self.result


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__


def holds_traced(value: Any) -> bool:
    """Return whether a tree holds a value of a graph."""
    return any(
        isinstance(leaf, Number) or (isinstance(leaf, Tensor) and type(leaf.content) is Value)
        for leaf in flatten(value)[0]
    )


def traced_caches(caches: Iterable[Any]) -> Iterator[Any]:
    """Yield the cached functions among ``caches`` that keep a value of a graph."""
    for cache in caches:
        kept: list[Any] = []
        for held in gc.get_referents(cache):
            kept += held.values() if type(held) is dict else [held]
        if any(map(holds_traced, kept)):
            yield cache
