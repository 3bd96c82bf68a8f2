"""Overrides of ``operator.getitem``, ``setitem`` and their like: as the statements do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.staging.constructs import loads, stores
from hybrid.staging.constructs.compare import compare
from hybrid.staging.sessions.overrides import overrides
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


overrides(operator.delitem)(_delitem)
overrides(operator.getitem)(_getitem)
overrides(operator.setitem)(_setitem)
for _function in (operator.iadd, operator.iconcat, operator.imul):
    overrides(_function)(_in_place(_function))
overrides(operator.ior)(stores.joined_in_place)
overrides(operator.or_)(lambda a, b: look(a) | look(b))
overrides(operator.contains, site=True)(
    lambda site, container, item: compare(site, item, "in", container)
)
for _function, _symbol in {
    operator.eq: "==",
    operator.ne: "!=",
    operator.is_: "is",
    operator.is_not: "is not",
}.items():
    overrides(_function, site=True)(_compared(_symbol))
