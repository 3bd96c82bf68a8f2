"""Overrides of the functions of ``math`` for traced numbers and tensors of one element.

Eagerly ``math.exp(x)`` takes the number in ``x`` and computes with the C library's own functions.
So does a plan, which calls ``math`` for it: the same bits and the same exceptions.  What a kernel
computes to the bit, such as ``sqrt``, is staged.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.core.open_numbers import called, is_open
from hybrid.core.tree import flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.number import Number, check, host, to_float
from hybrid.number.staging import HERE
from hybrid.staging.iteration.generators import is_uncounted, list_of
from hybrid.staging.sessions.overrides import Override, overrides

_BOOLS = ("isnan", "isinf", "isfinite", "isclose")
_INTS = ("gcd", "lcm", "comb", "perm", "factorial", "isqrt")
_KINDS: dict[str, tuple[str, ...]] = {
    "modf": ("float", "float"),
    "frexp": ("float", "int"),
    **dict.fromkeys(_BOOLS, ("bool",)),
    **dict.fromkeys(_INTS, ("int",)),
}


def _holds_traced(values: Any) -> bool:
    return any(type(leaf) is Number or isinstance(leaf, Tensor) for leaf in flatten(values)[0])


def _number(x: Any) -> Any:
    """``x``; a tensor as the number in it, which ``math`` takes."""
    return current().number_of(x) if isinstance(x, Tensor) else x


def _hosted(name: str, function: Callable[..., Any]) -> Override:
    """``function``, called when the plan runs; of open sizes, when the plan is made."""

    def override(*args: Any, **kwargs: Any) -> Any:
        if (
            not kwargs
            and any(map(is_open, args))
            and all(isinstance(x, (int, float)) for x in args)
        ):
            traced = any(type(x) is Number for x in args)
            return NotImplemented if traced else called(f"math.{name}", *args)
        if not _holds_traced((args, kwargs)):
            return NotImplemented
        leaves, structure = flatten((args, kwargs))
        leaves = [_number(leaf) for leaf in leaves]
        kinds = _KINDS.get(name, ("float",))
        if name in ("prod", "sumprod") and not any(_is_float(leaf) for leaf in leaves):
            kinds = ("int",)
        call = functools.partial(_call, function, structure)
        operands = [leaf.tensor for leaf in leaves if type(leaf) is Number]
        template = [HERE if type(leaf) is Number else leaf for leaf in leaves]
        results = host(call, operands, kinds, template)
        numbers = [Number(kind, t) for kind, t in zip(kinds, results, strict=True)]
        return numbers[0] if len(numbers) == 1 else tuple(numbers)

    return override


def _call(function: Callable[..., Any], structure: Any, *leaves: Any) -> Any:
    args, kwargs = unflatten(structure, leaves)
    return function(*args, **kwargs)


def _is_float(leaf: Any) -> bool:
    return leaf.kind == "float" if type(leaf) is Number else isinstance(leaf, float)


def _one(name: str, compute: Callable[[Number], Any]) -> Override:
    """A function of one number, staged by ``compute``."""

    def override(*args: Any) -> Any:
        if len(args) == 1 and is_open(args[0]):
            return called(f"math.{name}", *args)
        if len(args) != 1 or not _holds_traced(args[0]):
            return NotImplemented
        return compute(_number(args[0]))

    return override


def _sqrt(number: Number) -> Number:
    x = to_float(number).tensor
    if number.kind == "float" or number.low < 0:
        check(ops.logical_not(x < 0.0), math.sqrt, (x,), (ValueError,))
    return Number("float", ops.sqrt(x))


def _classified(op: Any) -> Callable[[Number], Number]:
    return lambda number: Number("bool", op(to_float(number).tensor))


def _rounded(function: Callable[[Any], Any]) -> Callable[[Number], Any]:
    """``floor`` and ``ceil``, which a Number has methods for."""
    return lambda number: function(number)


def _trunc(*args: Any) -> Any:
    return math.trunc(*args) if len(args) == 1 and type(args[0]) is Number else NotImplemented


def _prod(iterable: Any, /, *, start: Any = 1) -> Any:
    """``math.prod``: of tensors the product that ``*`` gives, a tensor; of numbers a number."""
    if not isinstance(iterable, (list, tuple, set, dict, range, str, bytes)):
        iterable = list_of(iterable) if is_uncounted(iterable) else list(iterable)
    if isinstance(start, Tensor) or any(isinstance(item, Tensor) for item in iterable):
        return functools.reduce(operator.mul, iterable, start)
    found = _product(iterable, start=start)
    return math.prod(iterable, start=start) if found is NotImplemented else found


FUNCTIONS = [f for name, f in vars(math).items() if callable(f) and not name.startswith("_")]

_product = _hosted("prod", math.prod)
for _function in FUNCTIONS:
    overrides(_function)(_hosted(_function.__name__, _function))
for _function, _compute in {
    math.sqrt: _sqrt,
    math.fabs: lambda number: abs(to_float(number)),
    math.isnan: _classified(ops.isnan),
    math.isinf: _classified(ops.isinf),
    math.isfinite: _classified(ops.isfinite),
    math.floor: _rounded(math.floor),
    math.ceil: _rounded(math.ceil),
}.items():
    overrides(_function)(_one(_function.__name__, _compute))
overrides(math.trunc)(_trunc)
overrides(math.prod)(_prod)
