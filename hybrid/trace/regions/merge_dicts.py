"""Merge of dicts of different keys: items of one path alone become optional values.

::

    where the condition holds: {"a": x, "b": y}        where it does not: {"a": x}
    after it:                  {"a": x, "b": OptionalValue(y, other=MISSING)}

Keys that the paths have in another order are there for sure, and still no plain items: where they
stand is as unknown as if they could be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hybrid.core.dataclass import replace
from hybrid.core.types import bool_
from hybrid.eager.tensor import Tensor
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.values.optional import OptionalValue, is_optional

if TYPE_CHECKING:
    from hybrid.trace.regions.merge import Merge

Build = Callable[[Sequence[Tensor]], Any]


def merged_dicts(merge: Merge, a: dict[Any, Any], b: dict[Any, Any], name: str) -> Build:
    """The builder of a dict that is ``a`` on the first path and ``b`` on the second."""
    keys, unsure = _merged_keys(list(a), list(b))
    parts: dict[Any, Build] = {}
    for key in keys:
        x, y = a.get(key, MISSING), b.get(key, MISSING)
        parts[key] = merge.tree(x, y, f"{name}[{key!r}]")
        if any(is_optional(item) and not item.placed for item in (x, y)):
            unsure.add(key)

    def item(key: Any, value: Any) -> Any:
        if not (is_optional(value) or key in unsure):
            return value
        if not is_optional(value):
            there = merge.first.region.parent.lift(True, bool_)
            value = OptionalValue(value=value, flag=there, other=MISSING)
        at = merge.at if value.at is None else value.at
        return replace(value, error=KeyError(key), placed=key not in unsure, at=at)

    return lambda results: {key: item(key, part(results)) for key, part in parts.items()}


def _merged_keys(a: list[Any], b: list[Any]) -> tuple[list[Any], set[Any]]:
    """The keys of both in the order of both, and those that are not in one order."""
    in_a, in_b = set(a), set(b)
    shared, other = [k for k in a if k in in_b], [k for k in b if k in in_a]
    if shared != other:
        front = next(i for i, (x, y) in enumerate(zip(shared, other, strict=True)) if x != y)
        known = set(shared[:front])
        return list(dict.fromkeys([*a, *b])), {k for k in (*a, *b) if k not in known}
    found: list[Any] = []
    rest = iter(b)
    for key in a:
        if key in in_b:
            for following in rest:
                if following == key:
                    break
                found.append(following)
        found.append(key)
    return [*found, *rest], set()
