"""Open numbers: what the author's code sees of the size of an open axis, and makes of it.

::

    b, t, d = x.shape  # OpenInt, OpenInt, 64
    x.reshape(b * t, d)  # arithmetic stays open
    x / t**0.5  # so does that which gives floats: an OpenFloat
    if t > 512:
        ...  # a condition of the capture: see hybrid.core.sizes
    {512: "long"}.get(t)  # a plain int, which is a condition, too: t is what it is here

An OpenInt is an int to whoever asks: ``isinstance(t, int)``, its text, its hash.  A ``Size``, which
the library computes with, has a text and a hash that are those of all its values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.size_functions import SizeValue
from hybrid.core.size_values import SizeFloat
from hybrid.core.sizes import Size, SizeHolder, is_at_most

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
        return open_number(round(self.size, digits))

    def bit_length(self) -> Any:
        return open_number(self.size.scope.call("bit_length", self.size))


class OpenFloat(SizeHolder):
    """A float of the author's code that is made of sizes, and differs from call to call."""

    __slots__ = ("__weakref__",)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance() goes by."""
        return float

    def __float__(self) -> float:
        return float(self.size)

    def __int__(self) -> int:
        return int(self.size)

    def __complex__(self) -> complex:
        return complex(float(self))

    def __bool__(self) -> bool:
        return bool(self.size)

    def __hash__(self) -> int:
        return hash(float(self))

    def __str__(self) -> str:
        return str(float(self))

    def __repr__(self) -> str:
        return repr(float(self))

    def __format__(self, spec: str) -> str:
        return format(float(self), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(float(self), dtype)

    def __reduce__(self) -> Any:
        return float, (float(self),)

    def __copy__(self) -> OpenFloat:
        return self

    def __deepcopy__(self, memo: dict) -> OpenFloat:
        return self

    def __getattr__(self, name: str) -> Any:
        if not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute {name!r}", name=name)
        return getattr(float(self), name)  # is_integer() and the like, of the float here

    def __pos__(self) -> OpenFloat:
        return self

    def __trunc__(self) -> Any:
        return open_number(self.size.__trunc__())

    def __floor__(self) -> Any:
        return open_number(self.size.__floor__())

    def __ceil__(self) -> Any:
        return open_number(self.size.__ceil__())

    def __round__(self, digits: int | None = None) -> Any:
        return open_number(round(self.size, digits))

    def __eq__(self, other: object) -> bool:
        return self._compared("==", other)

    def __ne__(self, other: object) -> bool:
        found = self._compared("==", other)
        return found if found is NotImplemented else not found

    def _compared(self, relation: str, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        return self.size.scope.compare_floats(self.size, relation, size_of(other))


def open_number(size: Any) -> Any:
    """``size`` as the author's code gets it: an OpenInt for a Size, others as they are."""
    kind = _OPEN.get(type(size))
    if kind is None:
        return size
    made = _new(kind)
    made.size = size
    return made


_OPEN: dict[type, Any] = {Size: OpenInt, SizeFloat: OpenFloat}


def is_open(number: Any) -> bool:
    """Whether it is an open number."""
    return type(number) is OpenInt or type(number) is OpenFloat


def any_open(*numbers: Any) -> bool:
    """Whether sizes of open axes are among them, as the author's code gets them or not."""
    return any(isinstance(size_of(number), SizeValue) for number in numbers)


def size_of(number: Any) -> Any:
    """``number`` as the library computes with it: a Size for an OpenInt, others as they are."""
    return number.size if is_open(number) else number


def as_size(value: Any) -> Any:
    """An int as the library computes with it: a Size for an OpenInt, and for what a run tells.

    TypeError or AttributeError where ``value`` is none.
    """
    number = size_of(value)
    if type(number) is Size:
        return number
    ask = getattr(value, "_as_size", None)  # of a tensor or a traced number
    return value.__index__() if ask is None else ask()


def called(name: str, *numbers: Any) -> Any:
    """A function of ``hybrid.core.size_functions`` of numbers, some of them open."""
    sizes = [size_of(number) for number in numbers]
    scope = next(size.scope for size in sizes if isinstance(size, SizeValue))
    return open_number(scope.call(name, *sizes))


def open_array(name: str, shape: tuple[Any, ...], *numbers: Any) -> Any:
    """The array that a function of the table gives for numbers, some of them open."""
    made = called(name, *numbers)
    made.shape = sizes_of_ints(shape)
    return made


def is_same(a: Any, b: Any) -> bool:
    """Whether two ints, or tuples of such, are equal for all sizes; that is no condition."""
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(is_same, a, b))
    a, b = size_of(a), size_of(b)
    if type(a) is Size and type(b) is Size:
        return a.terms == b.terms and a.scope is b.scope
    return type(a) is type(b) and a == b


def sizes_of_ints(value: Any) -> Any:
    """``value``, lists, tuples and slices gone through, with a Size for each OpenInt."""
    if type(value) is tuple or type(value) is list:
        return type(value)([sizes_of_ints(item) for item in value])
    if type(value) is slice:
        return slice(*map(size_of, (value.start, value.stop, value.step)))
    return size_of(value)


def _is_number(other: Any) -> bool:
    """Whether it is a number of Python's own; no tensor, traced number or one of the author's."""
    return type(other) in _OPEN or (
        isinstance(other, (int, float)) and type(other).__module__ in ("builtins", __name__)
    )


def _binary(function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def method(self: OpenInt | OpenFloat, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        a, b = (size_of(other), self.size) if reflected else (self.size, size_of(other))
        found = function(a, b)
        return tuple(map(open_number, found)) if type(found) is tuple else open_number(found)

    return method


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    plain = _binary(function, False)

    def method(self: OpenInt, other: Any) -> Any:
        staged = self.size.scope.staged
        if staged is None or not _is_number(other) or isinstance(other, float):
            return plain(self, other)
        a, b = self.size, size_of(other)
        if is_at_most(a, b - 1):
            return function(0, 1)
        if is_at_most(b, a - 1):
            return function(1, 0)
        if function in _WITH_EQUAL and is_at_most(*((a, b) if function(0, 1) else (b, a))):
            return True
        if function in _WITHOUT_EQUAL and is_at_most(*((b, a) if function(0, 1) else (a, b))):
            return False
        return staged(function, self, other)

    return method


_WITH_EQUAL, _WITHOUT_EQUAL = (operator.le, operator.ge), (operator.lt, operator.gt)


def _bits(name: str, reflected: bool) -> Callable[..., Any]:
    def method(self: OpenInt, other: Any) -> Any:
        if not _is_number(other) or isinstance(other, float):
            return NotImplemented
        return called(name, *((other, self) if reflected else (self, other)))

    return method


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda self: open_number(function(self.size))


for _kind in (OpenInt, OpenFloat):
    for _reflected in (False, True):
        for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod"):
            _function = divmod if _name == "divmod" else getattr(operator, _name)
            setattr(_kind, f"__{'r' * _reflected}{_name}__", _binary(_function, _reflected))
    for _name in ("neg", "abs"):
        setattr(_kind, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge"):
    setattr(OpenFloat, f"__{_name}__", _binary(getattr(operator, _name), False))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(OpenInt, f"__{_name}__", _comparison(getattr(operator, _name)))
for _name, _sign in (("and", "&"), ("or", "|"), ("xor", "^"), ("lshift", "<<"), ("rshift", ">>")):
    for _reflected in (False, True):
        setattr(OpenInt, f"__{'r' * _reflected}{_name}__", _bits(_sign, _reflected))
