"""Number: a Python bool, int or float that is only known when the plan runs.

A loop's index, ``x.item()``, a number that two branches set differently, an argument that changes
from call to call: while a function is captured, each is a Number.  It holds a traced tensor of rank
0 (bool, int64 or float64), computes as Python does, and is a weak number to Tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from hybrid import ops
from hybrid.core.open_numbers import is_open, size_of
from hybrid.core.size_functions import range_of
from hybrid.core.sizes import is_at_most
from hybrid.core.types import DEFAULT_FLOAT, DType, bool_, float64, int64
from hybrid.eager.tensor import Tensor, leaked, refuse_leaked
from hybrid.errors import (
    ArgumentError,
    DTypeError,
    NeedsValue,
    OutOfRangeError,
    RangeError,
    author_location,
)
from hybrid.ir import Builder, Value, get_op
from hybrid.ir.interpreter import current
from hybrid.number.staging import CLASSES, DTYPES, MAX, MIN, TYPES, check, guarded
from hybrid.ops.support.dtypes import converted

_new = object.__new__
_EXACT = 2**53  # ints up to here are float64s


class Number:
    """A Python number of a run to come.

    ``low`` and ``high`` are what a bool or int is known to lie between; an int that may leave 64
    bits is checked when the plan runs.  ``bounds`` are the same as sizes of open axes, if they are.
    """

    __slots__ = ("__weakref__", "bounds", "high", "kind", "low", "tensor")

    kind: str  # "bool", "int" or "float"
    tensor: Tensor
    low: int
    high: int
    bounds: tuple[Any, Any] | None

    def __init__(
        self,
        kind: str,
        tensor: Tensor,
        low: int | None = None,
        high: int | None = None,
        bounds: tuple[Any, Any] | None = None,
    ) -> None:
        assert tensor.type is TYPES[kind], (kind, tensor.type)
        least, most = (0, 1) if kind == "bool" else (MIN, MAX)
        self.kind, self.tensor = kind, tensor
        self.low = least if low is None else max(low, least)
        self.high = most if high is None else min(high, most)
        self.bounds = bounds

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance() goes by."""
        return CLASSES[self.kind]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.kind!r} object has no attribute {name!r}", name=name)

    # What needs the value now ----------------------------------------------------------------

    def need_value(self, asked: str) -> NoReturn:
        """Raise: Python asked for the number itself."""
        refuse_leaked(self.tensor)
        raise NeedsValue(asked, self.kind, self, at=author_location())

    def __bool__(self) -> bool:
        self.need_value("the truth")

    def __index__(self) -> int:
        self.need_value("an index or size")

    def _as_size(self) -> Any:
        """An int whose value each run reads, where there can be such a size."""
        found = current().size_value(self.tensor) if self.kind == "int" else None
        return self.__index__() if found is None else found

    def __int__(self) -> int:
        self.need_value("int()")

    def __float__(self) -> float:
        self.need_value("float()")

    def __complex__(self) -> complex:
        self.need_value("complex()")

    def __hash__(self) -> int:
        self.need_value("a dict key or set item")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.need_value("a NumPy array")

    def __reduce__(self) -> Any:
        self.need_value("a pickle")

    # Its text ---------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if current().traces and not leaked(self.tensor):
            return current().text_of(self, "r")
        return f"<traced {self.kind}>"

    def __format__(self, spec: str) -> str:
        format(CLASSES[self.kind](1), spec)  # raises what Python raises
        return current().text_of(self, "f", spec) if current().traces else repr(self)

    # Copies ----------------------------------------------------------------------------------

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: dict) -> Number:
        return self

    # As a tensor -----------------------------------------------------------------------------

    def lifted(self, dtype: DType | None = None) -> Tensor:
        """The tensor that a Python number of this value would become under ``dtype``."""
        tensor, kind = self.tensor, self.kind
        if dtype is None:
            dtype = DEFAULT_FLOAT if kind == "float" else DTYPES[kind]
        if tensor.dtype is dtype:
            return tensor
        if kind == "bool" or dtype is bool_:
            return tensor != 0 if dtype is bool_ else converted(tensor, dtype)
        if dtype.is_floating:
            if kind == "int" and dtype is not float64 and not self.within(-_EXACT, _EXACT):
                tensor = ops.cast(tensor, dtype=float64)  # as NumPy does, which rounds twice
            return converted(tensor, dtype)
        limits = np.iinfo(dtype.numpy)
        low, high = int(limits.min), int(limits.max)
        convert = partial(_lift_plain, dtype=dtype)
        if kind == "int":
            outside = self.outside(low, high)
            if outside is not None:
                check(ops.logical_not(outside), convert, (tensor,), UNFIT)
            return converted(tensor, dtype)
        if dtype is int64:
            fits = ops.logical_and(tensor >= float(low), tensor < float(high))
        else:
            fits = ops.logical_and(tensor > low - 1.0, tensor < high + 1.0)
        whole = guarded(fits, (tensor,), _cut, convert, "int", UNFIT)
        return whole if dtype is int64 else converted(whole, dtype)

    def may_be_below(self, low: Any) -> bool:
        """Whether this int is not known to be at least ``low``."""
        low = size_of(low)
        least = self.low if self.bounds is None else self.bounds[0]
        return is_at_most(low, least) is not True and is_at_most(low, self.low) is not True

    def may_exceed(self, high: Any) -> bool:
        """Whether this int is not known to be at most ``high``."""
        high = size_of(high)
        most = self.high if self.bounds is None else self.bounds[1]
        return is_at_most(most, high) is not True and is_at_most(self.high, high) is not True

    def within(self, low: Any, high: Any) -> bool:
        """Whether this int is known to lie in [low, high]."""
        return not self.may_be_below(low) and not self.may_exceed(high)

    def outside(self, low: Any, high: Any) -> Tensor | None:
        """Whether this int lies outside [low, high]; None when it is known not to."""
        whole = self.whole()
        below = whole < low if self.may_be_below(low) else None
        above = whole > high if self.may_exceed(high) else None
        if below is None or above is None:
            return above if below is None else below
        return ops.logical_or(below, above)

    def whole(self) -> Tensor:
        """A bool or int as an int64 tensor."""
        return ops.cast(self.tensor, dtype=int64) if self.kind == "bool" else self.tensor

    def floating(self) -> Tensor:
        """The float64 tensor of ``float(self)``."""
        return self.tensor if self.kind == "float" else ops.cast(self.tensor, dtype=float64)

    def position(
        self, size: Any, refuse: Callable[..., Any], numbers: Sequence[Any] = ()
    ) -> Tensor:
        """The int64 tensor of an index into an axis of ``size``.

        Where it is out of range ``refuse``, which raises, gets the index and what the ``numbers``
        (sizes that are open here) are when the plan runs.
        """
        if self.kind != "int":
            self.need_value("an index or size")
        outside = self.outside(-size, size - 1)
        if outside is not None:
            given = self.tensor, *[current().lift(n, int64) for n in numbers]
            check(ops.logical_not(outside), refuse, given, (OutOfRangeError,))
        return self.tensor

    def from_front(self, size: Any) -> Tensor:
        """The int64 tensor of a checked index, counted from the front of an axis of ``size``."""
        if not self.may_be_below(0):
            return self.tensor
        return ops.where(self.tensor < 0, self.tensor + size, self.tensor)


UNFIT = (RangeError, DTypeError, ValueError)  # the first that fits is what is raised


def _lift_plain(value: Any, dtype: DType) -> Any:
    """What eager makes of a number that may not fit; most of them raise."""
    return current().lift(value, dtype).item()


def _cut(builder: Builder, values: Sequence[Value]) -> Sequence[Value]:
    return builder.apply(ops.cast, values, {"dtype": int64})


def as_number(obj: Any) -> Number:
    """A Python number (one made of sizes, too) as a Number of that value; a Number as it is."""
    if type(obj) is Number:
        return obj
    if is_open(obj):
        kind = "int" if isinstance(obj, int) else "float"
        tensor = current().lift(obj, DTYPES[kind])
        if kind == "float":
            return Number(kind, tensor)
        return Number(kind, tensor, *range_of(size_of(obj)), (size_of(obj), size_of(obj)))
    kind = "bool" if isinstance(obj, bool) else "int" if isinstance(obj, int) else "float"
    tensor = current().lift(CLASSES[kind](obj), DTYPES[kind])
    return Number(kind, tensor) if kind == "float" else Number(kind, tensor, int(obj), int(obj))


def number_of(tensor: Tensor) -> Number:
    """What ``tensor.item()`` is, of a traced tensor; a constant to gradients."""
    if tensor.type.size != 1:
        raise ArgumentError(f"item() of {tensor.type}", why="It needs exactly one element.")
    dtype = tensor.type.dtype
    value = tensor.detach()
    if tensor.type.rank:
        value = ops.reshape(value, ())
    if dtype is bool_:
        return Number("bool", value)
    if dtype.is_floating:
        return Number("float", converted(value, float64))
    limits = np.iinfo(dtype.numpy)
    value = value if dtype is int64 else ops.cast(value, dtype=int64)
    return Number("int", value, int(limits.min), int(limits.max))


def whole_part(number: Number, step: str, function: Callable[..., Any]) -> Number:
    """A float made an int by the op ``step`` ("trunc", "floor" ...), as ``function`` does it."""
    x = number.tensor
    fits = ops.abs(x) < 2.0**63

    def fast(builder: Builder, values: Sequence[Value]) -> Sequence[Value]:
        # The conversion truncates by itself.
        return _cut(builder, values if step == "trunc" else builder.apply(get_op(step), values))

    return Number("int", guarded(fits, (x,), fast, function, "int", (ValueError, OverflowError)))
