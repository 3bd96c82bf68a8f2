"""NumPy's functions of tensors: each is the function of its name here, where that means the same.

``np.sin(x)`` and ``np.concatenate([x, y])`` of tensors give tensors, with gradients and in graphs,
by the protocols of NEP 13 and NEP 18; an array that is changed in place (``a += x``) is written.
Other functions of NumPy's get arrays, and give what they give of arrays; other ufuncs are refused.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.imports import imported
from hybrid.core.tree import tree_map
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, TracedValueError, author_location
from hybrid.ir.interpreter import current

Function = Callable[..., Any]

# By the names of NumPy's functions: those here, where they are called otherwise.
OTHER_NAMES = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "arctan2": "atan2", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh", "around": "round", "concatenate": "concat", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "right_shift": "bitwise_right_shift",
    "rint": "round", "true_divide": "divide",
}  # fmt: skip
# By the ufuncs that are operators: their methods, which take an operand that is no tensor.
_OPERATORS = {
    "add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "divide": "truediv", "floor_divide": "floordiv", "left_shift": "lshift", "matmul": "matmul",
    "multiply": "mul", "power": "pow", "remainder": "mod", "right_shift": "rshift",
    "subtract": "sub",
}  # fmt: skip
_COMPARED = {
    "equal": ("eq", "eq"), "greater": ("gt", "lt"), "greater_equal": ("ge", "le"),
    "less": ("lt", "gt"), "less_equal": ("le", "ge"), "not_equal": ("ne", "ne"),
}  # fmt: skip
_UFUNCS = """
absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh ceil copysign cos cosh exp expm1 floor
hypot invert isfinite isinf isnan log log10 log1p log2 logaddexp logical_and logical_not logical_or
logical_xor maximum minimum negative nextafter positive reciprocal rint sign signbit sin sinh sqrt
square tan tanh trunc vecdot
"""
# Of the ufuncs that sum up along an axis: what they do there.
_REDUCED = {
    "add": "sum", "logical_and": "all", "logical_or": "any", "maximum": "max", "minimum": "min",
    "multiply": "prod",
}  # fmt: skip
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod"}
_FUNCTIONS = """
all amax amin any argmax argmin argsort argwhere astype broadcast_arrays broadcast_to clip
count_nonzero cumprod cumsum cumulative_prod cumulative_sum diff empty_like
expand_dims flip full_like matrix_transpose max mean meshgrid min moveaxis nonzero ones_like outer
permute_dims prod repeat reshape roll searchsorted sort squeeze stack std sum swapaxes take
take_along_axis tensordot tile transpose tril triu unstack var zeros_like
"""
_LINEAR = "cholesky det inv matrix_rank pinv slogdet solve"

_WORDS = {"a_max": "max", "a_min": "min", "newshape": "shape"}
_CUMULATIVE = (np.cumsum, np.cumprod)
_ORDERED = (np.argsort, np.sort)
_REDUCTIONS = (
    np.all, np.amax, np.amin, np.any, np.max, np.mean, np.min, np.prod, np.std, np.sum, np.var,
)  # fmt: skip

_NOT_GIVEN = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}


# Ufuncs ------------------------------------------------------------------------------------------


def array_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """What ``ufunc`` or a method of it gives of tensors; see ``numpy.ndarray.__array_ufunc__``."""
    given = dict(options)
    (out,) = given.pop("out", None) or (None,)
    found = _result(ufunc, method, inputs, given)
    return found if out is None or found is NotImplemented else _written(ufunc, out, found)


def _result(ufunc: np.ufunc, method: str, inputs: Sequence[Any], given: dict[str, Any]) -> Any:
    function = answer(ufunc if method == "__call__" else getattr(ufunc, method))
    if function is None:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise ArgumentTypeError(
            f"numpy.{name} of a Tensor",
            why="There is no function of that name and meaning here.",
            fix=f"write hybrid.asarray(numpy.{name}(x.numpy()))",
        )
    if method == "__call__":
        for word, value in given.items():
            if value is not _NOT_GIVEN.get(word, value) or word not in _NOT_GIVEN:
                raise ArgumentTypeError(
                    f"numpy.{ufunc.__name__} of a Tensor got {word}",
                    fix=f"leave {word} out, or call numpy.{ufunc.__name__} of x.numpy()",
                )
        return function(*inputs)
    axis = given.pop("axis", 0)
    return function(*inputs, axis=axis, **given)


def _written(ufunc: np.ufunc, out: Any, found: Any) -> Any:
    """``out``, an array, to which ``found`` is written, as NumPy writes results."""
    if not isinstance(out, np.ndarray):
        raise ArgumentTypeError(
            f"numpy.{ufunc.__name__} of tensors got a {type(out).__name__} as out",
            fix="write x.assign(y) for the result y",
        )
    if current().traces:
        asked = f"a change in place of an array by numpy.{ufunc.__name__}"
        error = TracedValueError(asked, str(found.type), at=author_location())
        error.fix = "write a = a + x in place of a += x, so that a is a tensor"
        raise error
    np.copyto(out, found.numpy(), casting="same_kind")
    return out


@functools.lru_cache(1024)
def answer(function: Any) -> Function | None:
    """What stands for a function of NumPy's where tensors are among its arguments; None if none."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        named = {"reduce": _REDUCED, "accumulate": _ACCUMULATED}.get(function.__name__, {})
        own = named.get(owner.__name__) if getattr(np, owner.__name__, None) is owner else None
        return None if own is None else getattr(ops, own)
    name = getattr(function, "__name__", "")
    if isinstance(function, np.ufunc):
        return _of_ufunc(name) if getattr(np, name, None) is function else None
    if getattr(np.linalg, name, None) is function and name != "outer":
        own = name in _LINEAR.split()
        return getattr(imported("hybrid.linalg"), name) if own else _ADAPTED.get(f"linalg.{name}")
    if getattr(np, name, None) is not function:
        return None
    if name in _ADAPTED:
        return _ADAPTED[name]
    if name not in _FUNCTIONS.split():
        return None
    return _with_numpys_words(function, getattr(ops, OTHER_NAMES.get(name, name)))


def _of_ufunc(name: str) -> Function | None:
    if name in _OPERATORS:
        own = _OPERATORS[name]
        return _operator(f"__{own}__", f"__r{own}__")
    if name in _COMPARED:
        own, reflected = _COMPARED[name]
        return _operator(f"__{own}__", f"__{reflected}__")
    return getattr(ops, OTHER_NAMES.get(name, name)) if name in _UFUNCS.split() else None


def _operator(forward: str, reflected: str) -> Function:
    """The operator of two operands, one of which is a tensor."""

    def call(a: Any, b: Any) -> Any:
        if isinstance(a, Tensor):
            return getattr(a, forward)(b)
        return getattr(b, reflected)(a)

    return call


# Functions ---------------------------------------------------------------------------------------


def array_function(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a function of NumPy's gives of tensors; see ``numpy.ndarray.__array_function__``."""
    own = answer(function)
    if own is not None:
        found = own(*args, **kwargs)
        if found is not NotImplemented:
            return found
    args, kwargs = tree_map(_array, (tuple(args), dict(kwargs)))
    return function(*args, **kwargs)


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def _with_numpys_words(function: Function, own: Function) -> Function:
    """``own``, called as NumPy's ``function``: tensors by position, all else by NumPy's words."""
    numpys = inspect.signature(function)
    parameters = inspect.signature(own).parameters.values()
    if any([p.kind is p.VAR_POSITIONAL for p in parameters]):
        return own
    by_place = len([p for p in parameters if p.kind is p.POSITIONAL_ONLY])

    def call(*args: Any, **kwargs: Any) -> Any:
        given = numpys.bind(*args, **kwargs).arguments
        if function in _CUMULATIVE:  # whose axis has no default here
            given.setdefault("axis", None)
        into = given.get("out") is not None and function not in _REDUCTIONS
        if into or (function in _ORDERED and given.get("axis", 0) is None):
            return NotImplemented
        words = list(given)[by_place:]
        return own(*list(given.values())[:by_place], **{_WORDS.get(w, w): given[w] for w in words})

    return call


# Functions whose arguments mean something else, or whose defaults do: NotImplemented gives arrays.


def _concat(arrays: Any, axis: Any = 0, **options: Any) -> Any:
    return NotImplemented if options else ops.concat(arrays, axis=axis)


def _einsum(*operands: Any, optimize: Any = False, **options: Any) -> Any:
    return NotImplemented if options else ops.einsum(*operands)


def _size(a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


def _copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return a.clone()


def _ravel(a: Any, order: str = "C") -> Any:
    return ops.reshape(a, (-1,)) if order == "C" else NotImplemented


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    return a.round(decimals=decimals) if out is None else NotImplemented


def _where(condition: Any, *choices: Any) -> Any:
    return ops.where(condition, *choices) if choices else ops.nonzero(condition)


def _stacked(tup: Any, axis: int, rank: int, **options: Any) -> Any:
    """Arrays joined along ``axis``, once they have at least ``rank`` axes."""
    if options:
        return NotImplemented
    rows = [ops.reshape(x, (1,) * (rank - np.ndim(x)) + np.shape(x)) for x in tup]
    return ops.concat(rows, axis=min(axis, np.ndim(rows[0]) - 1))


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    ranks = np.ndim(a), np.ndim(b)
    if out is not None or max(ranks) > 2:
        return NotImplemented
    return ops.matmul(a, b) if min(ranks) else ops.multiply(a, b)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    one = isinstance(axis, int) or (axis is None and (ord is None or np.ndim(x) == 1))
    if not one or isinstance(ord, str):
        return NotImplemented
    vector_norm = imported("hybrid.linalg").vector_norm
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)


_ADAPTED: dict[str, Function] = {
    "around": _round,
    "concatenate": _concat,
    "copy": _copy,
    "dot": _dot,
    "einsum": _einsum,
    "hstack": functools.partial(_stacked, axis=1, rank=1),
    "linalg.norm": _norm,
    "ndim": lambda a: a.ndim,
    "ravel": _ravel,
    "round": _round,
    "shape": lambda a: tuple(a.shape),
    "size": _size,
    "vstack": functools.partial(_stacked, axis=0, rank=2),
    "where": _where,
}
