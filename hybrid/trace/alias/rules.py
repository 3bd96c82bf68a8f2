"""Alias rules of ``cond``, ``for`` and ``while``: from a record to the aliases of its results."""

from __future__ import annotations

from collections.abc import Callable

from hybrid import ops
from hybrid.autodiff.presence import flag
from hybrid.autodiff.record_values import Aliases, ItemAliases, make_snapshot, restored
from hybrid.core.dataclass import replace
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph
from hybrid.ir.record import Record, recording
from hybrid.ops.flow.control import cond, for_, while_
from hybrid.trace.alias.relation import (
    Regions,
    ResultAlias,
    aliases_of_loop,
    aliases_of_while,
    region_aliases,
)
from hybrid.trace.regions.build import as_of_for, here, known_int, remembered
from hybrid.trace.regions.row_names import row_ties

ALL = "all"


@cond.aliases
def cond_aliases(record: Record) -> Aliases:
    """The aliases of the results of a ``cond``."""
    regions: Regions = record.attrs["regions"]
    found = region_aliases(regions)
    places = tuple([tuple([alias.place for alias in aliases]) for aliases in found.aliases])

    def flags() -> list[list[Tensor]]:
        results = [restored(record, i) for i in range(len(record.results))]
        pred, *operands = [make_snapshot(saved) for saved in record.saved]
        node = here(cond, record, results, (pred, *operands), {}, regions)
        now = region_aliases(node.regions)
        with recording(False):
            outcome = node.extended(len(now.regions[0].results) - len(node.results), now.regions)
            return [
                [_flag(alias, pred, outcome) for alias in now.aliases[i]]
                for i in range(len(places))
            ]

    return Aliases(places=places, made=found.made, flags=flags, asks=ALL)


def _flag(alias: ResultAlias, pred: Tensor, results: list[Tensor]) -> Tensor:
    if alias.result >= 0:
        return results[alias.result]
    if alias.known[0] == alias.known[1]:
        return flag(alias.known[0])
    return pred if alias.known[0] else ops.logical_not(pred)


# Loops ------------------------------------------------------------------------------------------


@for_.aliases
def for_aliases(record: Record) -> Aliases:
    """The aliases of the carried values after a ``for``, and of the items of its lists."""
    count, *operands = [make_snapshot(saved) for saved in record.saved]
    attrs, body = record.attrs, record.attrs["regions"][0]
    found = aliases_of_loop(body, count, operands, attrs)
    if attrs["reverse"]:  # the way back of a loop makes no lists
        return found
    bounded = (attrs["sliced"] or attrs["length"]) and not attrs["overruns"]
    most = attrs["length"] if bounded else None
    return replace(found, items=_items(body, attrs["carried"], 0, lambda: _trips(count, most)))


def _trips(count: Tensor, most: int | None) -> int | Tensor:
    """How many iterations there are."""
    known = known_int(count)
    if known is not None:
        return known if most is None else min(known, most)
    return count if most is None else ops.minimum(count, most)


def _items(
    body: Graph, carried: int, skip: int, count: Callable[[], int | Tensor]
) -> dict[int, ItemAliases]:
    """What is known of the lists that a loop of this body, which is as that of ``for``, makes."""
    ties = remembered((body,), ("row ties", carried), lambda: row_ties(body, carried))
    return {
        at + skip: ItemAliases(
            *[i if i < 0 else i + skip for i in (of.duplicate_of, of.behind)],
            of.first if of.first < 0 else 1 + of.first,
            tuple([(carried + skip, far) for carried, far in of.ends]),
            count,
        )
        for at, of in ties.items()
        if body.results[at].type.floating
    }


@while_.aliases
def while_aliases(record: Record) -> Aliases:
    """The aliases of the carried values after a ``while``; the trip count has none."""
    _, *operands = [make_snapshot(saved) for saved in record.saved]
    region = record.attrs["regions"][0]
    trips = restored(record, 0)
    found = aliases_of_while(region, trips, operands, record.attrs)
    body = remembered((region,), "as of for", lambda: as_of_for(region))
    items = _items(body, record.attrs["carried"], 1, lambda: _trips(trips, None))
    return replace(found, items=items)
