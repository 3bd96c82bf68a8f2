"""Operations on values that only some paths have: a choice of the results for either.

::

    [v, x] where v may be None:  v + x, hy.stack([v, x])  ==>  a choice between that of the value
                                                               and that of None, which may raise
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.core.tree import flatten, unflatten
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.number.operators import BINARY, COMPARE, UNARY
from hybrid.staging.sessions.variables import read
from hybrid.staging.values.lists import choose_between
from hybrid.trace.values.optional import OptionalValue

NAME = "what this is made of"
MOST = 3  # optional operands of one call that are told apart; of more the plan checks presence


def each(value: OptionalValue, function: Callable[[Any], Any]) -> Any:
    """The result of ``function``, staged for the value and for what it is on the other paths."""
    if value.other is not None:
        return function(read(value, "what is read here"))
    there = Number("bool", value.flag)
    return choose_between(there, lambda: function(value.value), lambda: function(None), NAME)


def is_unsure(value: Any) -> bool:
    """Whether ``value`` is None on some paths."""
    return type(value) is OptionalValue and value.other is None


def of_present(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The result of ``function(*args, **kwargs)``, staged for each operand that may be None."""
    leaves, structure = flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if is_unsure(leaf)]
    if len(places) > MOST:
        leaves = [read(v, "what is read here") if is_unsure(v) else v for v in leaves]
        args, kwargs = unflatten(structure, leaves)
    if not 0 < len(places) <= MOST:
        return function(*args, **kwargs)

    def with_part(part: Any) -> Any:
        given = [*leaves]
        given[places[0]] = part
        args, kwargs = unflatten(structure, given)
        return of_present(function, args, kwargs)

    return each(leaves[places[0]], with_part)


def chosen(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], most: int
) -> Any:
    """The result of ``function(*args, **kwargs)``, staged for each argument that may be None.

    Of those beyond the first ``most`` the plan checks that they are there.
    """
    given = [*args, *kwargs.values()]
    places = [at for at, argument in enumerate(given) if is_unsure(argument)][:most]
    for at, argument in enumerate(given):
        if type(argument) is OptionalValue and at not in places:
            given[at] = read(argument, "what is given here")

    def call(left: Sequence[int]) -> Any:
        if not left:
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            return function(*given[: len(args)], **named)

        def with_part(part: Any) -> Any:
            before, given[left[0]] = given[left[0]], part
            try:
                return call(left[1:])
            finally:
                given[left[0]] = before

        return each(given[left[0]], with_part)

    return call(places)


def _binary(function: Callable[[Any, Any], Any], reflected: bool = False) -> Callable[..., Any]:
    def method(self: OptionalValue, other: Any) -> Any:
        if not current().traces:
            return NotImplemented
        if reflected:
            return each(self, lambda part: function(other, part))
        return each(self, lambda part: function(part, other))

    return method


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: each(self, lambda part: function(part, *args))


for _name, (_, _, _function) in (*BINARY.items(), ("matmul", (None, None, operator.matmul))):
    _function = pow if _name == "pow" else _function
    setattr(OptionalValue, f"__{_name}__", _binary(_function))
    setattr(OptionalValue, f"__r{_name}__", _binary(_function, reflected=True))
for _name, (_, _function) in COMPARE.items():
    if _name not in ("eq", "ne"):
        setattr(OptionalValue, f"__{_name}__", _binary(_function))
for _name in UNARY:
    _function = round if _name == "round" else getattr(operator, _name)
    setattr(OptionalValue, f"__{_name}__", _unary(_function))
OptionalValue.__getitem__ = _binary(operator.getitem)  # type: ignore[attr-defined]
OptionalValue.__iter__ = lambda self: iter(read(self, "what is gone over here"))  # type: ignore
