"""Expressions on traced values: ternaries, ``and``, ``or``, ``not``, ``is``, ``in``, jump flags."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.convert.compare import PLAIN, compared
from hybrid.convert.defer import evaluate
from hybrid.convert.dicts import present
from hybrid.convert.indexed import contains, numbers_in
from hybrid.convert.iterables import TracedRange
from hybrid.convert.site import Site
from hybrid.convert.staged import ELSE, THEN, Staged, roots_of
from hybrid.convert.traced import handed, is_partial, is_traced, look
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.number.mixed import Mixed
from hybrid.tensor import Tensor
from hybrid.trace.branches import Path, join
from hybrid.trace.identity import is_one
from hybrid.trace.maybe import UNBOUND, Maybe
from hybrid.trace.reads import program_frame
from hybrid.trace.region import Region, truth
from hybrid.trace.texts import Text

Thunk = Callable[[], Any]
_VALUES = type({}.values())


class Choice(Staged):
    """An expression of which one of two operands is evaluated."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site)
        self.name = name  # what messages call the value of the expression
        frame = program_frame(sys._getframe(1))
        self.roots = roots_of({} if frame is None else frame.f_locals)

    def branch(self, region: str, label: str, thunk: Thunk) -> Path:
        self.path = Path(Region(self.tracer, region, self.roots), label)
        found: dict[str, Any] = {}
        with self:
            found[self.name] = evaluate(self.site, thunk)
        self.path.end(found)
        return self.path

    def between(self, test: Any, body: Thunk, orelse: Thunk) -> Any:
        """``body()`` where ``test`` holds, else ``orelse()``."""
        pred = truth(test)
        then, other = self.branch("then", THEN, body), self.branch("else", ELSE, orelse)
        before = {self.name: UNBOUND}
        names = join(self.tracer, pred, then, other, before, self.site.location)
        self.tracer.note(self.site.location, "became a cond node")
        return names[self.name]


def ifexp(site: Site, test: Any, body: Thunk, orelse: Thunk) -> Any:
    """``body() if test else orelse()``."""
    return Choice(site, "the value of this expression").between(test, body, orelse)


def lazy(site: Site, value: Any, rest: Thunk, decisive: bool, tested: bool) -> Any:
    """``value`` where its truth is ``decisive``, else ``rest()``.

    Where only the truth counts, ``tested``, it is ``decisive`` in place of ``value``.
    """
    name = "this test" if tested else "the value of this expression"
    sides = rest, lambda: decisive if tested else value
    return Choice(site, name).between(value, *(reversed(sides) if decisive else sides))


def as_truth(value: Any) -> Any:
    """The truth of ``value`` as a bool, traced or not."""
    return Number("bool", truth(value)) if is_traced(value) else bool(look(value))


def not_(_site: Site, value: Any) -> Number:
    return Number("bool", ops.logical_not(truth(value)))


def clear(flags: Sequence[Any]) -> Any:
    """Whether none of ``flags``, some of which are traced, is set."""
    found: Tensor | None = None
    for flag in flags:
        if isinstance(flag, Maybe):
            flag = flag.value
        if is_traced(flag):
            here = truth(flag)
            found = here if found is None else ops.logical_or(found, here)
        elif flag:
            return False
    return True if found is None else Number("bool", ops.logical_not(found))


def compare(site: Site, left: Any, symbol: str, right: Any) -> Any:
    """``is``, ``is not``, ``in`` or ``not in`` between values that may be traced."""
    same = _is(left, right) if symbol in ("is", "is not") else _is_in(left, right)
    if same is None:
        return PLAIN[symbol](left, right)
    if symbol in ("is", "in"):
        return same
    return not same if type(same) is bool else not_(site, same)


def _is(left: Any, right: Any) -> Any:
    """Whether two values are one object; None when Python knows."""
    if isinstance(left, Maybe) or isinstance(right, Maybe):
        maybe, other = (left, right) if isinstance(left, Maybe) else (right, left)
        if isinstance(other, Maybe):
            return None
        if maybe.other is other:
            return Number("bool", ops.logical_not(maybe.flag))
        return Number("bool", maybe.flag) if maybe.value is other else None
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return is_one(current(), left, right)
    for number, other in ((left, right), (right, left)):
        if type(number) is Mixed:
            return number.each(lambda part, other=other: compare(None, part, "is", other))
        if isinstance(number, Number) and number.kind == "bool" and type(other) is bool:
            return number if other else not_(None, number)  # type: ignore[arg-type]
    current().standing.refuse_identity(left, right)
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
    handed(container)
    if not any(is_traced(value) or is_partial(value) for value in (item, *container)):
        return None
    found: Any = False
    for value in container:
        if value is item:
            return True if found is False else Number("bool", ops.logical_or(truth(found), True))
        equal = compared(value) == compared(item)
        here = as_truth(equal)
        if here is True:
            return True
        if here is not False:
            found = here if found is False else Number(
                "bool", ops.logical_or(truth(found), truth(here))
            )  # fmt: skip
    return found
