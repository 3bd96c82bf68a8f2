"""Calls of Python's ``math`` and powers of floats, as nodes that C runs.

::

    py_call %n {function=<cos>}  ->  %x = cast %n
                                     %c = c_function %x, %x {function="cos"}
                                     cond ... { stop {text="ValueError: math domain error"} }

The functions are those of the C library that Python calls, so the bits are Python's; what Python
raises is raised.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.dataclass import replace
from hybrid.core.tree import unflatten
from hybrid.core.types import float64
from hybrid.ir import Builder, Node, Value, get_op
from hybrid.number.staging import HERE, NumberCall, region
from hybrid.ops.elementwise.c_functions import NAMES, ONE

_DOMAIN, _RANGE = "ValueError: math domain error", "OverflowError: math range error"
_POWERS = "OverflowError: (34, 'Numerical result out of range')"
_ZERO = "ZeroDivisionError: 0.0 cannot be raised to a negative power"
_DIVISION = "ZeroDivisionError: float division by zero"
_COMPLEX = "ArgumentTypeError: a traced number became a complex number"
# Functions whose results may be too large; where others give an infinity it is no number at all.
_LARGE = ("exp", "expm1", "sinh", "cosh")
_MATH: dict[Any, str] = {getattr(math, name): name for name in NAMES}

Stop = Callable[[str], Node]  # the node that raises what a text says


def nodes_of_math(
    node: Node, call: NumberCall, operands: Sequence[Value], stop: Stop
) -> list[Node] | None:
    """What stands for a call of ``math`` or a power of floats; None of others."""
    found = _function_of(call)
    if found is None or call.kinds != ("float",):
        return None
    function, arguments = found
    writer = _CallWriter(stop)
    writer.builder.location = call.location or node.location
    given = iter(operands)
    numbers = [writer.number(next(given) if a is HERE else a) for a in arguments]
    if function is operator.pow:
        writer.power(*numbers)
    elif function is math.log and len(numbers) == 2:
        writer.quotient(*[writer.math("log", x) for x in numbers])
    else:
        writer.math(_MATH[function], *numbers)
    nodes = writer.builder.nodes
    last = writer.result
    return [
        replace(each, results=node.results)
        if each.results == (last,)
        else _renamed(each, last, node)
        for each in nodes
    ]


def _renamed(each: Node, last: Value, node: Node) -> Node:
    operands = tuple([node.results[0] if v is last else v for v in each.operands])
    return replace(each, operands=operands)


def _function_of(call: NumberCall) -> tuple[Any, Sequence[Any]] | None:
    """The function that a call is of, and its arguments, HERE for each operand."""
    function, arguments = call.function, call.arguments
    if function is operator.pow:
        return function, arguments
    if isinstance(function, functools.partial) and len(function.args) == 2:
        inner, structure = function.args
        if inner in _MATH:
            args, kwargs = unflatten(structure, list(arguments))
            count = 1 if _MATH[inner] in ONE else 2
            fits = len(args) == count or (inner is math.log and len(args) == 2)
            if fits and not kwargs and all(_is_number(a) for a in args):
                return inner, args
    return None


def _is_number(argument: Any) -> bool:
    return argument is HERE or type(argument) in (bool, int, float)


class _CallWriter:
    """Writes nodes on float64 numbers."""

    def __init__(self, stop: Stop) -> None:
        self.builder, self.stop = Builder(), stop
        self.result: Value  # the last one

    def apply(self, op: str, *operands: Value, **attrs: Any) -> Value:
        [self.result] = self.builder.apply(get_op(op), operands, attrs)
        return self.result

    def number(self, number: Any) -> Value:
        if not isinstance(number, Value):
            return self.apply("full", shape=(), value=float(number), dtype=float64)
        if number.type.dtype is float64:
            return number
        return self.apply("cast", number, dtype=float64)

    def require(self, flag: Value, text: str) -> None:
        """Raise what ``text`` says where ``flag`` is true."""
        result, node = self.result, self.stop(text)
        stops = region("then", (), lambda b, _values: b.nodes.append(node) or ())
        goes_on = region("else", (), lambda _b, _values: ())
        self.builder.apply(get_op("cond"), (flag,), {}, regions=(stops, goes_on))
        self.result = result

    def all_of(self, *flags: Value) -> Value:
        return functools.reduce(lambda a, b: self.apply("logical_and", a, b), flags)

    def no(self, flag: Value) -> Value:
        return self.apply("logical_not", flag)

    def math(self, name: str, *numbers: Value) -> Value:
        """A function of ``math``, with what it raises."""
        x, y = numbers[0], numbers[-1]
        zero = None
        if name == "pow":
            zero = self._is_negative_power_of_0(x, y)
        found = self.apply("c_function", x, y, function=name)
        given = [self.no(self.apply("isnan", n)) for n in numbers]
        domain = self.all_of(self.apply("isnan", found), *given)
        range_ = self.all_of(
            self.apply("isinf", found), *[self.apply("isfinite", n) for n in numbers]
        )
        if zero is not None:
            self.require(zero, _DOMAIN)
        self.require(domain, _DOMAIN)
        self.require(range_, _RANGE if name == "pow" or name in _LARGE else _DOMAIN)
        self.result = found
        return found

    def quotient(self, x: Value, y: Value) -> None:
        """``x / y`` of floats, with what it raises."""
        zero = self.apply("full", shape=(), value=0.0, dtype=float64)
        self.require(self.apply("equal", y, zero), _DIVISION)
        self.apply("divide", x, y)

    def power(self, x: Value, y: Value) -> None:
        """``x ** y`` of floats, with what it raises."""
        self.require(self._is_negative_power_of_0(x, y), _ZERO)
        found = self.apply("c_function", x, y, function="pow")
        given = [self.no(self.apply("isnan", n)) for n in (x, y)]
        self.require(self.all_of(self.apply("isnan", found), *given), _COMPLEX)
        finite = [self.apply("isfinite", n) for n in (x, y)]
        self.require(self.all_of(self.apply("isinf", found), *finite), _POWERS)
        self.result = found

    def _is_negative_power_of_0(self, x: Value, y: Value) -> Value:
        zero = self.apply("full", shape=(), value=0.0, dtype=float64)
        below = self.apply("less", y, zero)
        return self.all_of(self.apply("equal", x, zero), below, self.apply("isfinite", y))
