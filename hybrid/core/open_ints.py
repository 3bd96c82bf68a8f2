"""Open ints: what the author's code sees of the size of an open axis.

::

    b, t, d = x.shape  # OpenInt, OpenInt, 64
    x.reshape(b * t, d)  # arithmetic stays open
    if t > 512:
        ...  # a condition of the capture: see hybrid.core.sizes
    {512: "long"}.get(t)
    range(t)  # a plain int, which is a condition, too: t is what it is here

An OpenInt is an int to whoever asks: ``isinstance(t, int)``, its text, its hash.  A ``Size``, which
the library computes with, has a text and a hash that are those of all its values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.sizes import Size, SizeHolder

_new = object.__new__


class OpenInt(SizeHolder):
    """An int of the author's code that is ``size``, and differs from call to call."""

    __slots__ = ("__weakref__",)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance() goes by."""
        return int

    def __index__(self) -> int:
        return operator.index(self.size)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.size)

    def __complex__(self) -> complex:
        return complex(operator.index(self))

    def __bool__(self) -> bool:
        return bool(self.size)

    def __hash__(self) -> int:
        return hash(operator.index(self))

    def __str__(self) -> str:
        return str(operator.index(self))

    def __repr__(self) -> str:
        return repr(operator.index(self))

    def __format__(self, spec: str) -> str:
        return format(operator.index(self), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(operator.index(self), dtype)

    def __reduce__(self) -> Any:
        return int, (operator.index(self),)

    def __copy__(self) -> OpenInt:
        return self

    def __deepcopy__(self, memo: dict) -> OpenInt:
        return self

    def __getattr__(self, name: str) -> Any:
        if not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}", name=name)
        return getattr(operator.index(self), name)  # bit_length() and the like, of the int here

    def __pos__(self) -> OpenInt:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __invert__(self) -> Any:
        return -self - 1

    def __round__(self, digits: int | None = None) -> Any:
        return open_int(round(self.size, digits))


def open_int(size: Any) -> Any:
    """``size`` as the author's code gets it: an OpenInt for a Size, others as they are."""
    if type(size) is not Size:
        return size
    made = _new(OpenInt)
    made.size = size
    return made


def size_of(number: Any) -> Any:
    """``number`` as the library computes with it: a Size for an OpenInt, others as they are."""
    return number.size if type(number) is OpenInt else number


def sizes_of_ints(value: Any) -> Any:
    """``value``, lists, tuples and slices gone through, with a Size for each OpenInt."""
    if type(value) is tuple or type(value) is list:
        return type(value)([sizes_of_ints(item) for item in value])
    if type(value) is slice:
        return slice(*map(size_of, (value.start, value.stop, value.step)))
    return size_of(value)


def _binary(function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def method(self: OpenInt, other: Any) -> Any:
        if type(other) is not Size and (
            not isinstance(other, (int, float)) or type(other).__module__ not in _PLAIN_MODULES
        ):
            return NotImplemented  # a tensor, a traced number, a class of the author's
        a, b = (size_of(other), self.size) if reflected else (self.size, size_of(other))
        found = function(a, b)
        return tuple(map(open_int, found)) if type(found) is tuple else open_int(found)

    return method


def _bits(function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def method(self: OpenInt, other: Any) -> Any:
        if not isinstance(other, int) or type(other).__module__ not in _PLAIN_MODULES:
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        return function(operator.index(a), operator.index(b))

    return method


def _unary(function: Callable[..., Any]) -> Callable[[OpenInt], Any]:
    return lambda self: open_int(function(self.size))


_PLAIN_MODULES = ("builtins", __name__)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _reflected in (False, True):
        setattr(
            OpenInt,
            f"__{'r' * _reflected}{_name}__",
            _binary(getattr(operator, _name), _reflected),
        )
for _reflected in (False, True):
    setattr(OpenInt, f"__{'r' * _reflected}divmod__", _binary(divmod, _reflected))
    for _name in ("and_", "or_", "xor", "lshift", "rshift"):
        _method = f"__{'r' * _reflected}{_name.rstrip('_')}__"
        setattr(OpenInt, _method, _bits(getattr(operator, _name), _reflected))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(OpenInt, f"__{_name}__", _binary(getattr(operator, _name), False))
for _name in ("neg", "abs"):
    setattr(OpenInt, f"__{_name}__", _unary(getattr(operator, _name)))
