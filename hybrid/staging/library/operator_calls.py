"""``operator.getitem``, ``setitem`` and their like: what the statements of their names do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hybrid.convert.site import Site
from hybrid.staging.constructs import loads, stores
from hybrid.staging.constructs.comparison import compare
from hybrid.staging.sessions.views import CONTAINERS, look


def _getitem(container: Any, index: Any) -> Any:
    return loads.taken(loads.indexed(container)[index])


def _setitem(container: Any, index: Any, value: Any) -> None:
    stores.indexed_item(container)[index] = value


def _delitem(container: Any, index: Any) -> None:
    del stores.item(container)[index]


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(value: Any, other: Any) -> Any:
        if isinstance(value, CONTAINERS):
            look(other)
            stores.content(value)
        return function(value, other)

    return call


def _compared(symbol: str) -> Callable[[Site, Any, Any], Any]:
    def call(site: Site, a: Any, b: Any) -> Any:
        return compare(site, a, symbol, b)

    return call


SITELESS: dict[Any, Callable[..., Any]] = {
    operator.delitem: _delitem,
    operator.getitem: _getitem,
    operator.iadd: _in_place(operator.iadd),
    operator.iconcat: _in_place(operator.iconcat),
    operator.imul: _in_place(operator.imul),
    operator.ior: stores.joined_in_place,
    operator.or_: lambda a, b: look(a) | look(b),
    operator.setitem: _setitem,
}
OVERRIDES: dict[Any, Callable[..., Any]] = {
    operator.contains: lambda site, container, item: compare(site, item, "in", container),
    operator.eq: _compared("=="),
    operator.is_: _compared("is"),
    operator.is_not: _compared("is not"),
    operator.ne: _compared("!="),
}
