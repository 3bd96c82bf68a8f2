"""Run-time half of ternaries, ``and``, ``or``, ``not`` and jump flags: plain, or ``cond`` nodes.

Operands come as they are or as thunks, results are what Python's own operators give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.convert.runtime import Site, hyb__
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.sessions.views import (
    decided,
    deciding,
    is_traced,
    look,
    own_truth,
    tracing,
)
from hybrid.trace.regions.region import truth
from hybrid.trace.values.optional import OptionalValue, unbound_error

Thunk = Callable[[], Any]


def ifexp(site: Site, test: Any, body: Thunk, orelse: Thunk) -> Any:
    """``body()`` if ``test`` else ``orelse()``."""
    test = decided(site, test)
    if is_traced(test):
        with deciding(site):
            return hyb__.Choice(site, "the value of this expression").between(test, body, orelse)
    return evaluate(site, body if look(test) else orelse)


def _lazy(name: str, decisive: bool, tested: bool) -> Callable[..., Any]:
    """What evaluates operands until the truth of one is ``decisive``.

    That operand is the result, else the last; where only the truth counts, ``tested``, it is the
    truth that was decisive instead.
    """

    def evaluated(site: Site, first: Any, *rest: Thunk) -> Any:
        value = first
        for index, thunk in enumerate(rest):
            known = decided(site, value)
            if is_traced(known):
                remaining = _remaining(evaluated, site, rest[index:])
                return lazy(site, value, remaining, decisive, tested, known)
            if bool(look(known)) is decisive:
                return decisive if tested else value
            value = evaluate(site, thunk)
        return value

    evaluated.__name__ = name
    return evaluated


def lazy(
    site: Site, value: Any, rest: Thunk, decisive: bool, tested: bool, test: Any = None
) -> Any:
    """``value`` where its truth is ``decisive``, else ``rest()``.

    Where only the truth counts, ``tested``, it is ``decisive`` in place of ``value``.  With
    ``test`` the truth is that of this one.
    """
    name = "this test" if tested else "the value of this expression"
    there = decisive and isinstance(value, OptionalValue)  # None would not hold
    sides = rest, lambda: decisive if tested else value.value if there else value
    with deciding(site):
        test = value if test is None else test
        return hyb__.Choice(site, name).between(test, *(reversed(sides) if decisive else sides))


and_ = _lazy("and_", decisive=False, tested=False)
or_ = _lazy("or_", decisive=True, tested=False)
and_test = _lazy("and_test", decisive=False, tested=True)
or_test = _lazy("or_test", decisive=True, tested=True)


def _remaining(function: Callable[..., Any], site: Site, thunks: tuple[Thunk, ...]) -> Thunk:
    """One operand in place of several."""
    return lambda: function(site, evaluate(site, thunks[0]), *thunks[1:])


def known_truth(value: Any) -> Any:
    """The truth of ``value`` in its place, while a function is captured.

    A traced tensor without axes stays, and what raises where its truth is asked for.
    """
    value = own_truth(value)
    if not is_traced(value):
        return bool(look(value)) if tracing() else value
    one = isinstance(value, Tensor) and value.type.rank and value.type.size == 1
    return Number("bool", truth(value)) if one or isinstance(value, OptionalValue) else value


def as_truth(value: Any) -> Any:
    """The truth of ``value`` as a bool, traced or not."""
    value = own_truth(value)
    return Number("bool", truth(value)) if is_traced(value) else bool(look(value))


def not_(_site: Site | None, value: Any) -> Any:
    """The opposite of the truth of ``value``."""
    value = own_truth(value)
    if is_traced(value):
        return Number("bool", ops.logical_not(truth(value)))
    return not look(value)


def clear(*flags: Any) -> Any:
    """Whether none of ``flags``, with which jumps stop a loop, is set."""
    for flag in flags:
        if is_traced(flag):
            return _clear(flags)
    return not any(flags)


def _clear(flags: Sequence[Any]) -> Any:
    """The same of flags of which some are traced."""
    found: Tensor | None = None
    for flag in flags:
        if isinstance(flag, OptionalValue):
            flag = flag.value
        if is_traced(flag):
            here = truth(flag)
            known = current().known_truths.get(here.content)
            if known is not None:
                if known:
                    return False
                continue
            found = here if found is None else ops.logical_or(found, here)
        elif flag:
            return False
    return True if found is None else Number("bool", ops.logical_not(found))


def evaluate(site: Site, thunk: Callable[[], Any]) -> Any:
    """The value of a deferred operand, evaluated now.

    A local variable that is not bound is none to the lambda but one of the function around it:
    Python says so, in other words than the author's expression would have got.
    """
    if not site.unbound:
        return thunk()
    try:
        return thunk()
    except NameError as error:
        found = error
    trace = found.__traceback__
    inside = trace.tb_next if trace is not None else None
    if inside is not None and inside.tb_next is None and type(found) is NameError:
        for variable in site.unbound:
            if f"'{variable}'" in str(found) and "free variable" in str(found):
                raise unbound_error(variable).with_traceback(inside)
    raise found


def super_(function: Any, owner: type, instance: Any) -> Any:
    """The result of ``super()`` in a method of ``owner``."""
    return super(owner, instance) if function is super else function()
