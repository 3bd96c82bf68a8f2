"""Expressions on traced values: ternaries, ``and``, ``or``, ``not``, ``is``, ``in``, jump flags."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.convert.compare import PLAIN
from hybrid.convert.defer import evaluate
from hybrid.convert.iterables import TracedRange
from hybrid.convert.site import Site
from hybrid.convert.staged import Staged, roots_of
from hybrid.convert.traced import handed, is_traced, look
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.branches import Path, join
from hybrid.trace.maybe import UNBOUND, Maybe
from hybrid.trace.reads import of_package
from hybrid.trace.region import Region, truth
from hybrid.trace.texts import Text

Thunk = Callable[[], Any]
THEN, ELSE = "where the condition holds", "where it does not"


class Choice(Staged):
    """An expression of which one of two operands is evaluated."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site)
        self.name = name  # what messages call the value of the expression
        frame = sys._getframe(1)
        while of_package(frame.f_code):
            frame = frame.f_back  # type: ignore[assignment]
        self.roots = roots_of(frame.f_locals)

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


def and_(site: Site, value: Any, rest: Thunk) -> Any:
    """``value and rest()``."""
    return Choice(site, "the value of this expression").between(value, rest, lambda: value)


def or_(site: Site, value: Any, rest: Thunk) -> Any:
    """``value or rest()``."""
    return Choice(site, "the value of this expression").between(value, lambda: value, rest)


def and_test(site: Site, value: Any, rest: Thunk) -> Any:
    """Something as true as ``value and rest()``."""
    return Choice(site, "this test").between(value, rest, lambda: False)


def or_test(site: Site, value: Any, rest: Thunk) -> Any:
    """Something as true as ``value or rest()``."""
    return Choice(site, "this test").between(value, lambda: True, rest)


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
    return not_(site, same) if symbol in ("is not", "not in") else same


def _is(left: Any, right: Any) -> Any:
    """Whether two values are one object; None when Python knows."""
    if isinstance(left, Maybe) or isinstance(right, Maybe):
        maybe, other = (left, right) if isinstance(left, Maybe) else (right, left)
        if isinstance(other, Maybe):
            return None
        if maybe.other is other:
            return Number("bool", ops.logical_not(maybe.flag))
        return Number("bool", maybe.flag) if maybe.value is other else None
    for number, other in ((left, right), (right, left)):
        if isinstance(number, Number) and number.kind == "bool" and type(other) is bool:
            return number if other else not_(None, number)  # type: ignore[arg-type]
    return None


def _is_in(item: Any, container: Any) -> Any:
    """Whether ``container`` has ``item``; None when Python knows."""
    if isinstance(container, TracedRange):
        return container.contains(item)
    if isinstance(container, range) and isinstance(item, Number):
        return TracedRange(container.start, container.stop, container.step).contains(item)
    if isinstance(container, Tensor):
        container = [container[i] for i in range(len(container))]
    if type(item) is Text and isinstance(container, str):
        item.refuse()
    if not isinstance(container, (list, tuple)):
        return None
    handed(container)
    if not any(is_traced(value) for value in (item, *container)):
        return None
    found: Any = False
    for value in container:
        if value is item:
            return True if found is False else Number("bool", ops.logical_or(truth(found), True))
        equal = value == item
        here = as_truth(equal)
        if here is True:
            return True
        if here is not False:
            found = here if found is False else Number(
                "bool", ops.logical_or(truth(found), truth(here))
            )  # fmt: skip
    return found
