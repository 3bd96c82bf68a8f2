"""Run-time half of comparisons: chains, and ``is`` and ``in``, which have no method to stage."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.convert.runtime import Site
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.staging.constructs.logic import as_truth, evaluate, lazy, not_
from hybrid.staging.effects.library_effects import gone_over
from hybrid.staging.sessions.namespaces import namespace_of
from hybrid.staging.sessions.views import (
    compared,
    is_partial,
    is_traced,
    library_argument,
    look,
    own_method,
    tracing,
)
from hybrid.staging.values.dicts import present
from hybrid.staging.values.iterables import TracedRange
from hybrid.staging.values.optional_operands import each, is_unsure
from hybrid.staging.values.subscripts import contains, numbers_in
from hybrid.trace.places.stand_ins import equals_itself_alone
from hybrid.trace.regions.region import truth
from hybrid.trace.regions.ties import is_one
from hybrid.trace.values.optional import OptionalValue
from hybrid.trace.values.traced_text import Text

STAGED = ("is", "is not", "in", "not in")
EQUAL = ("==", "!=")
_VALUES = type({}.values())


def _chained(name: str, tested: bool) -> Callable[..., Any]:
    """What gives ``left symbol right``, and so on while that is true.

    The chain is of symbols and thunks.  Where only the truth counts, ``tested``, a comparison that
    is not true is not handed back but False.
    """

    def chained(site: Site, left: Any, symbol: str, right: Any, *chain: Any) -> Any:
        result = _apply(site, symbol, left, right)
        if not chain:
            return result
        rest = _rest(chained, site, right, chain)
        if is_traced(result):
            return lazy(site, result, rest, False, tested)
        if result:
            return rest()
        return False if tested else result

    chained.__name__ = name
    return chained


compare = _chained("compare", tested=False)
compare_test = _chained("compare_test", tested=True)


def _rest(
    function: Callable[..., Any], site: Site, left: Any, chain: tuple[Any, ...]
) -> Callable[[], Any]:
    symbol, thunk, *further = chain
    return lambda: function(site, left, symbol, evaluate(site, thunk), *further)


def _apply(site: Site, symbol: str, left: Any, right: Any) -> Any:
    if symbol in STAGED and tracing():
        if symbol not in ("is", "is not"):
            gone_over(right, symbol, site.location)
        return _compared_objects(left, symbol, right)
    if symbol in EQUAL:
        return equal(left, right) if symbol == "==" else unequal(left, right)
    return PLAIN[symbol](look(left), look(right))


def equal(left: Any, right: Any) -> Any:
    """``left == right``."""
    _tell_apart(left, "==", right)
    return compared(left) == compared(right)


def unequal(left: Any, right: Any) -> Any:
    """``left != right``, of an author's class that has ``__eq__`` alone the opposite of that."""
    _tell_apart(left, "!=", right)
    if tracing() and type(left).__ne__ is object.__ne__:
        equals = own_method(left, "__eq__")
        found = NotImplemented if equals is None else equals(right)
        if found is not NotImplemented:
            return not_(None, found)
    return compared(left) != compared(right)


def _tell_apart(left: Any, symbol: str, right: Any) -> None:
    """Let the plan count on whether two objects are one, if that is all that the symbol asks."""
    if equals_itself_alone(left) and tracing():
        current().journal.identities.compare(left, right)
        current().stand_ins.refuse_identity(left, right, symbol)


def _compared_objects(left: Any, symbol: str, right: Any) -> Any:
    """``is``, ``is not``, ``in`` or ``not in`` between values that may be traced."""
    same = _is(left, right) if symbol in ("is", "is not") else _is_in(left, right)
    if same is None:
        return PLAIN[symbol](left, right)
    if symbol in ("is", "in"):
        return same
    return not same if type(same) is bool else not_(None, same)


def _is(left: Any, right: Any) -> Any:
    """Whether two values are one object; None when Python knows."""
    current().journal.identities.compare(left, right)
    if isinstance(left, OptionalValue) or isinstance(right, OptionalValue):
        optional, other = (left, right) if isinstance(left, OptionalValue) else (right, left)
        if isinstance(other, OptionalValue):
            return None
        if optional.other is other:
            return Number("bool", ops.logical_not(optional.flag))
        return Number("bool", optional.flag) if optional.value is other else None
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return is_one(current(), left, right)
    for number, other in ((left, right), (right, left)):
        if type(number) is Mixed:
            return number.each(lambda part, other=other: _compared_objects(part, "is", other))
        if isinstance(number, Number) and number.kind == "bool" and type(other) is bool:
            return number if other else not_(None, number)
    current().stand_ins.refuse_identity(left, right)
    return None


def _is_in(item: Any, container: Any) -> Any:
    """Whether ``container`` has ``item``; None when Python knows."""
    if isinstance(container, TracedRange):
        return container.contains(item)
    if isinstance(container, range) and isinstance(item, Number):
        return TracedRange(container.start, container.stop, container.step).contains(item)
    if isinstance(container, Tensor):
        return as_truth(ops.any(container == item))
    if type(item) is Text and isinstance(container, str):
        item.refuse()
    asked = (item, *(container if type(container) in (list, tuple) else ()))
    current().journal.identities.ask_replaced(asked)
    current().stand_ins.refuse_keys(asked, "looked for by `in`")
    space = namespace_of(container)
    if space is not None:
        space.will_read(item)
        return present(container, item) if is_partial(container) else None
    look(container)
    if isinstance(getattr(type(container), "__contains__", None), types.FunctionType):
        return as_truth(type(container).__contains__(container, item))
    if isinstance(container, _VALUES):
        container = list(container)
    if is_partial(container):
        return present(container, item)
    if type(item) is Number and isinstance(container, (set, frozenset, dict)):
        return contains(numbers_in(container, item), item)
    if not isinstance(container, (list, tuple)):
        return None
    library_argument(container)
    if type(item) is float and item != item:  # a list has it only if it is the same object
        for value in container:
            current().journal.identities.compare(item, value)
    if not any(map(_may_be_unsure, (item, *container))):
        return None
    found: Any = False
    for value in container:
        if value is item:
            return True if found is False else Number("bool", ops.logical_or(truth(found), True))
        here = _equal(value, item)
        if here is True:
            return True
        if here is not False:
            found = here if found is False else Number(
                "bool", ops.logical_or(truth(found), truth(here))
            )  # fmt: skip
    return found


def _may_be_unsure(value: Any) -> bool:
    """Whether only a run may know if ``value`` equals another."""
    return is_traced(value) or is_partial(value) or own_method(value, "__eq__") is not None


def _equal(value: Any, item: Any) -> Any:
    """The truth of ``value is item or value == item``."""
    if is_unsure(value):
        return each(value, lambda part: _equal(part, item))
    if is_unsure(item):
        return each(item, lambda part: _equal(value, part))
    return True if value is item else as_truth(compared(value) == compared(item))


PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda item, container: item in container,
    "not in": lambda item, container: item not in container,
}
