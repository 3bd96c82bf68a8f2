"""What comprehensions go over while a function is captured: each item is traced by itself."""

from __future__ import annotations

from typing import Any

from hybrid.convert.site import Site
from hybrid.convert.traced import look
from hybrid.tensor import Tensor
from hybrid.trace.grown import refuse_grown


def each(_site: Site, iterable: Any) -> Any:
    """The rows of a tensor; anything else as Python goes over it."""
    if isinstance(iterable, Tensor):
        return iter(iterable)
    look(iterable)
    refuse_grown(iterable, "gone over by a comprehension")
    return iterable
