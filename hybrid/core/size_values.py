"""Floats and bytes that are made of sizes: what attributes of nodes hold until symbols are bound.

::

    n / 2  # a SizeFloat that prints as (n / 2), and is 18.5 where n is 37
    1 / math.sqrt(n)  # (1 / math.sqrt(n))

A binding computes them with Python's own functions on plain numbers: the bits are those of code
that runs at these sizes.  Two are equal if they are made alike; that is no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from hybrid.core.size_functions import Range, SizeCall, SizeValue, Variable


class SizeOfCall(SizeValue):
    """The result of ``call``, in the ``scope`` of its symbols (an OpenSizes)."""

    __slots__ = ("call", "scope")

    def __init__(self, scope: Any, call: SizeCall) -> None:
        self.scope, self.call = scope, call

    @property
    def value(self) -> Any:  # type: ignore[override]
        return self.call.value

    @property
    def range(self) -> Range:  # type: ignore[override]
        return self.call.range

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeOfCall) and other.call is self.call

    def __hash__(self) -> int:
        return hash(self.call)

    def __str__(self) -> str:
        return f"({self.call})" if self.call.function.infix else str(self.call)

    def code(self, local: Mapping[Variable, str]) -> str:
        return self.call.code(local)

    def __repr__(self) -> str:
        return f"<{self} = {self.value!r}>"

    def __copy__(self) -> SizeOfCall:
        return self

    def __deepcopy__(self, memo: dict) -> SizeOfCall:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self} belongs to a capture, and cannot be pickled")


class SizeBytes(SizeOfCall):
    """The elements of a tensor that depend on sizes."""

    __slots__ = ()


class SizeArray(SizeOfCall):
    """An array of NumPy's, of ``shape``, that depends on sizes."""

    __slots__ = ("shape",)

    shape: tuple[Any, ...]


class SizeFloat(SizeOfCall):
    """A float that depends on sizes.  Where Python or C asks for a plain one, these are fixed."""

    __slots__ = ()
    is_single = True  # for it has brackets

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance() goes by: type rules ask whether attributes are floats."""
        return float

    def __neg__(self) -> Any:
        return self.scope.call("*", self, -1.0)

    def __pos__(self) -> SizeFloat:
        return self

    def __abs__(self) -> Any:
        return self.scope.call("abs", self)

    def __float__(self) -> float:
        return self.scope.fix(self)

    def __int__(self) -> int:
        return int(self.scope.fix(self))

    def __bool__(self) -> bool:
        return not self.scope.compare_floats(self, "==", 0.0)

    def __round__(self, digits: int | None = None) -> Any:
        return self.scope.call("round", self, *([] if digits is None else [digits]))

    def __trunc__(self) -> Any:
        return self.scope.call("int", self)

    def __floor__(self) -> Any:
        return self.scope.call("math.floor", self)

    def __ceil__(self) -> Any:
        return self.scope.call("math.ceil", self)

    def __lt__(self, other: Any) -> bool:
        return self.scope.compare_floats(self, "<", other)

    def __le__(self, other: Any) -> bool:
        return self.scope.compare_floats(self, "<=", other)

    def __gt__(self, other: Any) -> bool:
        return self.scope.compare_floats(other, "<", self)

    def __ge__(self, other: Any) -> bool:
        return self.scope.compare_floats(other, "<=", self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _binary(name: str, reflected: bool) -> Callable[[SizeFloat, Any], Any]:
    def method(self: SizeFloat, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.scope.call(name, *((other, self) if reflected else (self, other)))

    return method


for _name, _method in {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
}.items():  # fmt: skip
    setattr(SizeFloat, f"__{_method}__", _binary(_name, False))
    setattr(SizeFloat, f"__r{_method}__", _binary(_name, True))
