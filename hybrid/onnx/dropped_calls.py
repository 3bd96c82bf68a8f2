"""What a graph prints and checks, left out: a model of ONNX computes, and does nothing else.

Before::                                    After::

    %y: i64[] = add %k, %one                    %y: i64[] = add %k, %one
    py_call %y {function=<print>}
    cond %fits, %y {
      then(%0: i64[]) { return }
      else(%0: i64[]) { py_call %0 {function=<refuse>}  return }
    }

Where numbers are computed in one way if they fit, and by Python's own else, the first way stays.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import Leaving
from hybrid.errors import Location, named_kind
from hybrid.ir import Builder, Graph, Node, Value, rewrite
from hybrid.number.staging import NumberCall
from hybrid.trace.values.deferred import DeferredCall

EXACT = ("add_exact", "subtract_exact", "multiply_exact")
_CHECK = "the check of a number"


@dataclass(frozen=True)
class DroppedCall:
    """What was left out, and the author's line."""

    what: str
    at: Location | None

    def __str__(self) -> str:
        return self.what if self.at is None else f"{self.what} ({self.at})"


def without_calls(graph: Graph) -> tuple[Graph, list[DroppedCall]]:
    """``graph`` without what it prints and checks, and what that was."""
    found: dict[tuple[str, str], DroppedCall] = {}

    def drop(what: str, node: Node) -> None:
        found.setdefault((what, str(node.location)), DroppedCall(what, node.location))

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        what = _dropped(node)
        if what:
            drop(what, node)
            return ()
        if node.op.name in EXACT:  # written as sums and products that wrap
            drop(_CHECK, node)
        if node.op.name != "cond":
            return None
        if not node.results and not any(region.nodes for region in node.regions):
            return ()
        if _has_second_way(node):
            drop(_CHECK, node)
            return _first_way(node, builder)
        return None

    def inside(region: Graph) -> Graph:
        return rewrite(region, rule, regions=inside)

    return inside(graph), list(found.values())


def own_function(node: Node) -> Any:
    """The function that a py_call calls."""
    function = node.attributes["function"]
    return function.function if type(function) is Leaving else function


def _dropped(node: Node) -> str:
    """What ``node`` is, if it gives nothing and is left out."""
    if node.op.name == "say":
        return "print"
    if node.op.name == "stop":
        return _ending(named_kind(node.attributes["text"]))
    if node.op.name != "py_call" or node.results:
        return ""
    function = own_function(node)
    if isinstance(function, NumberCall):
        return _CHECK
    if not isinstance(function, DeferredCall):
        return ""
    return "print" if function.raises == () else _ending(*(function.raises or ()))


def _ending(*kinds: type[BaseException]) -> str:
    """What ends a run with an exception of ``kinds``."""
    return "assert" if AssertionError in kinds else "raise"


def _has_second_way(node: Node) -> bool:
    """Whether a branch calls Python in its second region, for numbers that do not fit."""
    calls = [inner for inner in node.regions[1].nodes if inner.op.name == "py_call"]
    return bool(calls) and all(isinstance(own_function(call), NumberCall) for call in calls)


def _first_way(node: Node, builder: Builder) -> tuple[Value, ...]:
    """The first region alone, in the place of ``node``."""
    fast = node.regions[0]
    known = dict(zip(fast.params, node.operands[1:], strict=True))
    for inner in fast.nodes:
        made = builder.apply(
            inner.op, [known[v] for v in inner.operands], inner.attrs, regions=inner.regions,
            location=inner.location,
        )  # fmt: skip
        known.update(zip(inner.results, made, strict=True))
    return tuple([known[v] for v in fast.results])
