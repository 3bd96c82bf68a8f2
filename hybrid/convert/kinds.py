"""Kinds: what is done with a number of which only the run knows the kind.

::

    k + 1, abs(k), math.sqrt(k)  ==>  a choice between that of the int and that of the float
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hybrid.convert.lists import choose_between
from hybrid.convert.site import Site
from hybrid.number.mixed import Mixed
from hybrid.number.operators import BINARY, COMPARE, UNARY
from hybrid.tensor import Tensor
from hybrid.tree import flatten, unflatten

NAME = "what this is made of"


def each(number: Mixed, function: Callable[[Any], Any]) -> Any:
    """``function`` of the number, staged for each kind that it may be."""

    def beginning(at: int) -> Any:
        part = number.parts[at]
        if at == len(number.flags):
            return function(part)
        return choose_between(
            number.flags[at], lambda: function(part), lambda: beginning(at + 1), NAME
        )

    return beginning(0)


def of_one_kind(override: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """``override``, whose arguments are numbers of one kind; ``call(site, ...)`` calls it anew."""

    def chosen(site: Site, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        for at, number in enumerate(leaves):
            if type(number) is Mixed:

                def with_part(part: Any, place: int = at) -> Any:
                    leaves[place] = part
                    args, kwargs = unflatten(structure, leaves)
                    return call(site, *args, **kwargs)

                return each(number, with_part)
        return override(site, *args, **kwargs)

    return chosen


def _binary(function: Callable[[Any, Any], Any], reflected: bool = False) -> Callable[..., Any]:
    def method(self: Mixed, other: Any, *modulus: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        if reflected:
            return each(self, lambda n: function(other, n))
        return each(self, lambda n: function(n, other, *modulus))

    return method


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: each(self, lambda n: function(n, *args))


def _unary_method(name: str) -> Callable[..., Any]:
    return lambda self, *args: each(self, lambda n: getattr(n, name)(*args))


METHODS = ("is_integer", "bit_length", "bit_count", "as_integer_ratio", "hex", "to_bytes")
Mixed.each = each  # type: ignore[method-assign]
for _name, (_, _, _function) in BINARY.items():
    _function = pow if _name == "pow" else _function
    setattr(Mixed, f"__{_name}__", _binary(_function))
    setattr(Mixed, f"__r{_name}__", _binary(_function, reflected=True))
for _name, (_, _function) in COMPARE.items():
    setattr(Mixed, f"__{_name}__", _binary(_function))
for _name in UNARY:
    _function = round if _name == "round" else getattr(operator, _name)
    setattr(Mixed, f"__{_name}__", _unary(_function))
for _name in ("__trunc__", "__floor__", "__ceil__", *METHODS):
    setattr(Mixed, _name, _unary_method(_name))
Mixed.imag = property(_unary(operator.attrgetter("imag")))  # type: ignore[attr-defined]
