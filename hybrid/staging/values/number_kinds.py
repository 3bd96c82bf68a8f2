"""Operations on numbers whose kind only a run knows: a choice of the results for each kind.

::

    k + 1, abs(k), math.sqrt(k)  ==>  a choice between that of the int and that of the float
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hybrid.convert.runtime import Site
from hybrid.core.tree import flatten, unflatten
from hybrid.core.types import dtype_of
from hybrid.eager.tensor import Tensor
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.number.operators import BINARY, COMPARE, UNARY
from hybrid.number.staging import CLASSES
from hybrid.number.tensor_or_number import TensorOrNumber
from hybrid.staging.values.lists import choose_between
from hybrid.staging.values.optional_operands import is_unsure, of_present
from hybrid.trace.values.optional import OptionalValue

NAME = "what this is made of"


def each(number: Mixed | TensorOrNumber, function: Callable[[Any], Any]) -> Any:
    """The result of ``function``, staged for each kind that the number may have."""
    flags, parts = number.flags, number.parts

    def beginning(at: int) -> Any:
        part = parts[at]
        if at == len(flags):
            return function(part)
        return choose_between(flags[at], lambda: function(part), lambda: beginning(at + 1), NAME)

    return beginning(0)


def of_one_kind(override: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """An override that chooses a kind for each argument and calls ``override`` with that.

    ``call(site, ...)`` calls it anew.
    """

    def chosen(site: Site, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        for at, number in enumerate(leaves):
            if type(number) in (Mixed, TensorOrNumber):

                def with_part(part: Any, place: int = at) -> Any:
                    leaves[place] = part
                    args, kwargs = unflatten(structure, leaves)
                    return call(site, *args, **kwargs)

                return each(number, with_part)
        return override(site, *args, **kwargs)

    return chosen


def for_both(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, staged twice where a number would not do what a tensor does."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            items = argument if type(argument) in (list, tuple) else (argument,)
            kinds = [type(item) for item in items]
            if TensorOrNumber in kinds:
                return _staged_for_both(function, args, kwargs)
            if OptionalValue in kinds and any(map(is_unsure, items)):
                return of_present(for_both(function), args, kwargs)
        return function(*args, **kwargs)

    return call


def _staged_for_both(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    leaves, structure = flatten((args, kwargs))
    dtypes = {leaf.type.dtype for leaf in leaves if isinstance(leaf, Tensor)}
    for at, leaf in enumerate(leaves):
        if type(leaf) is TensorOrNumber and dtypes != {dtype_of(CLASSES[k]) for k in leaf.kinds}:

            def with_part(part: Any, place: int = at) -> Any:
                given = [*leaves]
                given[place] = part
                args, kwargs = unflatten(structure, given)
                return for_both(function)(*args, **kwargs)

            return each(leaf, with_part)
    return function(*args, **kwargs)


def _binary(function: Callable[[Any, Any], Any], reflected: bool = False) -> Callable[..., Any]:
    def method(self: Mixed, other: Any, *modulus: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        if reflected:
            return each(self, lambda n: function(other, n))
        return each(self, lambda n: function(n, other, *modulus))

    return method


def _member_binary(name: str, function: Callable[[Any, Any], Any], back: bool) -> Any:
    """An operator of what may be a tensor or a number: a tensor meets the tensor."""
    of_tensors = getattr(Tensor, f"__r{name}__" if back else f"__{name}__", _not_for_tensors)

    def method(self: TensorOrNumber, other: Any, *modulus: Any) -> Any:
        dtype = self.type.dtype
        if isinstance(other, Tensor) and other.type.dtype is dtype and not dtype.is_stored:
            if type(other) is not TensorOrNumber:
                return of_tensors(self, other)
        elif not isinstance(other, (Tensor, Number, bool, int, float)):
            return of_tensors(self, other)
        if back:
            return each(self, lambda part: function(other, part))
        return each(self, lambda part: function(part, other, *modulus))

    return method


def _not_for_tensors(*_operands: Any) -> Any:
    return NotImplemented


def _member_in_place(name: str) -> Callable[..., Any]:
    """An augmented assignment, which writes to the tensor and binds a new number."""
    function = getattr(operator, f"__i{name}__")
    return lambda self, other: each(self, lambda part: function(part, other))


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: each(self, lambda n: function(n, *args))


def _unary_method(name: str) -> Callable[..., Any]:
    return lambda self, *args: each(self, lambda n: getattr(n, name)(*args))


def _member_method(name: str) -> property:
    """A method of tensors, which the number does not have."""
    return property(lambda self: each(self, operator.attrgetter(name)))


METHODS = ("is_integer", "bit_length", "bit_count", "as_integer_ratio", "hex", "to_bytes")
Mixed.each = each  # type: ignore[method-assign]
for _name, (_, _, _function) in BINARY.items():
    _function = pow if _name == "pow" else _function
    setattr(Mixed, f"__{_name}__", _binary(_function))
    setattr(Mixed, f"__r{_name}__", _binary(_function, reflected=True))
    setattr(TensorOrNumber, f"__{_name}__", _member_binary(_name, _function, back=False))
    setattr(TensorOrNumber, f"__r{_name}__", _member_binary(_name, _function, back=True))
    if hasattr(operator, f"__i{_name}__"):
        setattr(TensorOrNumber, f"__i{_name}__", _member_in_place(_name))
for _name, (_, _function) in COMPARE.items():
    setattr(Mixed, f"__{_name}__", _binary(_function))
    setattr(TensorOrNumber, f"__{_name}__", _member_binary(_name, _function, back=False))
for _name in UNARY:
    _function = round if _name == "round" else getattr(operator, _name)
    setattr(Mixed, f"__{_name}__", _unary(_function))
    setattr(TensorOrNumber, f"__{_name}__", _unary(_function))
for _name in ("__trunc__", "__floor__", "__ceil__", *METHODS):
    setattr(Mixed, _name, _unary_method(_name))
for _name, _found in vars(Tensor).items():
    if callable(_found) and not _name.startswith("_"):
        setattr(TensorOrNumber, _name, _member_method(_name))
Mixed.imag = property(_unary(operator.attrgetter("imag")))  # type: ignore[attr-defined]
