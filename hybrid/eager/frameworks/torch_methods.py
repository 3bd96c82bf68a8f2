"""Methods of Tensor by PyTorch's names, for code that is ported: a table of thin aliases.

Where a name means something else in the array API standard or in NumPy, that meaning is kept:
``x.size`` is the number of elements (write ``x.shape[0]`` for ``x.size(0)``), ``x.type`` the
TensorType, ``x.max(axis=1)``, ``x.min`` and ``x.sort`` give values alone, ``x.std`` and ``x.var``
divide by n unless ``correction=1``, ``x.nonzero()`` is a tuple.
In-place ones put the result into the cell, as ``x += y`` does, and give ``x`` back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid import ops, random
from hybrid.core import other_names, types
from hybrid.core.types import DType, dtype_of, require_device
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, DTypeError, ShapeError
from hybrid.ops.support.keyword_names import FROM_NUMPY, OWN, in_own_words


def _listed(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``view(2, 3)`` and ``view((2, 3))`` are the same."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def _to(dtype: DType) -> Callable[[Tensor], Tensor]:
    return lambda x: ops.astype(x, dtype, copy=False)


def to(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False,
       non_blocking: bool = False) -> Tensor:  # fmt: skip
    """``x`` in a dtype, in that of another tensor, or on "cpu", the only device."""
    for given in args:
        if isinstance(given, Tensor):
            dtype = given.dtype
        elif isinstance(given, str):
            device = given
        elif not isinstance(given, bool):
            dtype = dtype_of(given)
    if device is not None:
        require_device(str(device))
    return ops.astype(x, x.dtype if dtype is None else dtype, copy=copy)


def _expand(x: Tensor, *sizes: Any) -> Tensor:
    given = _listed(sizes)
    lead = len(given) - x.ndim
    shape = [x.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(given)]
    return ops.broadcast_to(x, tuple(shape))


def _add(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    return x + (other if alpha == 1 else other * alpha)


def _sub(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    return x - (other if alpha == 1 else other * alpha)


def _div(x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "floor":
        return x // other
    if rounding_mode == "trunc":
        return ops.astype(ops.trunc(x / other), (x // other).dtype, copy=False)
    if rounding_mode is not None:
        raise ArgumentTypeError(
            f"div got rounding_mode {rounding_mode!r}", fix='give None, "floor" or "trunc"'
        )
    return x / other


def _round(x: Tensor, *, decimals: int = 0) -> Tensor:
    if not decimals or (decimals > 0 and not x.dtype.is_floating):
        return ops.round(x)
    if not x.dtype.is_floating:
        raise DTypeError(
            f"round cannot take {x.type} and decimals={decimals}",
            why="Places before the point are counted of floats alone.",
            fix="convert it with astype, or write hybrid.round(x / 10) * 10",
        )
    scale = 10.0 ** abs(decimals)
    return ops.round(x * scale) / scale if decimals > 0 else ops.round(x / scale) * scale


def _indexed(function: Callable[..., Any]) -> Callable[..., Any]:
    """``x.gather(dim, index)``: the method has PyTorch's order; ``axis`` may be a keyword, too."""

    def call(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        kwargs = in_own_words(function.__name__, kwargs)
        if "axis" not in kwargs:
            first, *args = args  # type: ignore[assignment]
            kwargs["axis"] = first
        tensors = [kwargs.pop(word) for word in ("index", "src", "source") if word in kwargs]
        return function(x, *args, *tensors, **kwargs)

    return call


def _repeat(x: Tensor, *_sizes: Any, **_named: Any) -> Tensor:
    raise ArgumentTypeError(
        "x.repeat means one thing in PyTorch and another in NumPy",
        fix="write x.tile(...), which PyTorch's repeat is, or x.repeat_interleave(...) or "
        "hybrid.repeat(x, ...), which NumPy's is",
    )


def _permute(x: Tensor, *dims: Any) -> Tensor:
    return ops.permute_dims(x, tuple([d % x.ndim for d in _listed(dims)]) if x.ndim else ())


def _narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    return x[(slice(None),) * (axis % x.ndim) + (slice(start, start + length),)]


def _select(x: Tensor, axis: int, index: Any) -> Tensor:
    return x[(slice(None),) * (axis % x.ndim) + (index,)]


def _new(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(x: Tensor, *size: Any, dtype: Any = None) -> Tensor:
        return make(_listed(size), dtype=x.dtype if dtype is None else dtype)

    return call


def _detached(x: Tensor) -> Tensor:
    x.requires_grad = False
    return x


def _requiring(x: Tensor, requires_grad: bool = True) -> Tensor:
    x.requires_grad = requires_grad
    return x


def _square_matrices(name: str, rank: int) -> Callable[[Tensor, Any], Tensor]:
    """A product of operands of ``rank`` axes, and of no others."""

    def call(x: Tensor, other: Tensor) -> Tensor:
        if x.ndim != rank or other.ndim != rank:
            raise ShapeError(
                f"{name} cannot take {x.type} and {other.type}",
                why=f"Both must have {rank} dimensions.",
                fix="use matmul",
            )
        return ops.matmul(x, other)

    return call


# Methods that compute something new.
ALIASES: dict[str, Callable[..., Any]] = {
    # Shapes
    "view": lambda x, *shape: ops.reshape(x, _listed(shape)),
    "view_as": lambda x, other: ops.reshape(x, other.shape),
    "reshape_as": lambda x, other: ops.reshape(x, other.shape),
    "unsqueeze": lambda x, axis: ops.expand_dims(x, axis),
    "permute": _permute,
    "t": lambda x: x if x.ndim < 2 else x.T,
    "swapdims": lambda x, axis0, axis1: ops.swapaxes(x, axis0, axis1),
    "movedim": lambda x, source, destination: ops.moveaxis(x, source, destination),
    "expand": _expand,
    "expand_as": lambda x, other: ops.broadcast_to(x, other.shape),
    "repeat": _repeat,
    "contiguous": lambda x: x,
    "conj": lambda x: x,
    "clone": lambda x: ops.identity(x),
    "chunk": ops.chunk,
    "unbind": lambda x, axis=0: ops.unstack(x, axis=axis),
    "narrow": _narrow,
    "select": _select,
    "ravel": lambda x: ops.flatten(x),
    # What it is
    "dim": lambda x: x.ndim,
    "ndimension": lambda x: x.ndim,
    "numel": lambda x: x.size,
    "nelement": lambda x: x.size,
    "element_size": lambda x: x.dtype.itemsize,
    "is_floating_point": lambda x: x.dtype.is_floating,
    "is_contiguous": lambda x: True,
    # Dtypes
    "to": to,
    "type_as": lambda x, other: ops.astype(x, other.dtype, copy=False),
    "cpu": lambda x: x,
    "float": _to(types.float32),
    "double": _to(types.float64),
    "half": _to(types.float16),
    "bfloat16": _to(types.bfloat16),
    "long": _to(types.int64),
    "int": _to(types.int32),
    "short": _to(types.int16),
    "char": _to(types.int8),
    "byte": _to(types.uint8),
    "bool": _to(types.bool_),
    # Arithmetic
    "add": _add,
    "sub": _sub,
    "subtract": _sub,
    "mul": lambda x, other: x * other,
    "multiply": lambda x, other: x * other,
    "div": _div,
    "divide": _div,
    "true_divide": lambda x, other: x / other,
    "floor_divide": lambda x, other: x // other,
    "remainder": lambda x, other: x % other,
    "neg": lambda x: -x,
    "negative": lambda x: -x,
    "absolute": lambda x: ops.abs(x),
    "clamp": lambda x, min=None, max=None: ops.clip(x, min, max),
    "clamp_min": lambda x, min: ops.clip(x, min, None),
    "clamp_max": lambda x, max: ops.clip(x, None, max),
    "lerp": lambda x, end, weight: x + weight * (end - x),
    "addcmul": lambda x, a, b, *, value=1: x + value * a * b,
    "addcdiv": lambda x, a, b, *, value=1: x + value * (a / b),
    "eq": lambda x, other: x == other,
    "ne": lambda x, other: x != other,
    "lt": lambda x, other: x < other,
    "le": lambda x, other: x <= other,
    "gt": lambda x, other: x > other,
    "ge": lambda x, other: x >= other,
    "maximum": lambda x, other: ops.maximum(x, other),
    "minimum": lambda x, other: ops.minimum(x, other),
    "logical_and": lambda x, other: ops.logical_and(x, other),
    "logical_or": lambda x, other: ops.logical_or(x, other),
    "logical_xor": lambda x, other: ops.logical_xor(x, other),
    "logical_not": lambda x: ops.logical_not(x),
    "round": _round,
    "expm1": lambda x: ops.expm1(x),
    "reciprocal": lambda x: ops.reciprocal(x),
    "mm": _square_matrices("mm", 2),
    "bmm": _square_matrices("bmm", 3),
    "mv": lambda x, vector: ops.matmul(x, vector),
    "dot": _square_matrices("dot", 1),
    "outer": lambda x, other: ops.outer(x, other),
    "norm": ops.norm,
    "amax": lambda x, axis=None, keepdims=False: ops.max(x, axis=axis, keepdims=keepdims),
    "amin": lambda x, axis=None, keepdims=False: ops.min(x, axis=axis, keepdims=keepdims),
    # Indexing
    "gather": _indexed(ops.gather),
    "index_select": _indexed(ops.index_select),
    "scatter": _indexed(ops.scatter),
    "scatter_add": _indexed(ops.scatter_add),
    "index_add": _indexed(ops.index_add),
    "masked_fill": lambda x, mask, value: ops.masked_fill(x, mask, value),
    "masked_select": lambda x, mask: x[mask],
    "where": lambda x, condition, other: ops.where(condition, x, other),
    # Others of the same dtype
    "new_zeros": _new(ops.zeros),
    "new_ones": _new(ops.ones),
    "new_empty": _new(ops.empty),
    "new_full": lambda x, size, value: ops.full(size, value, dtype=x.dtype),
    # Gradients
    "detach_": _detached,
    "requires_grad_": _requiring,
}
# Methods that write what the one without the underscore computes into the cell.
IN_PLACE = """
abs_ add_ addcdiv_ addcmul_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ div_ erf_ exp_ floor_
floor_divide_ index_add_ lerp_ log_ masked_fill_ mul_ neg_ pow_ reciprocal_ relu_ remainder_ round_
rsqrt_ scatter_ scatter_add_ sigmoid_ sign_ sin_ sqrt_ square_ sub_ tanh_ tril_ triu_ trunc_
"""
# Methods that write something else into it.
FILLS: dict[str, Callable[..., Any]] = {
    "copy_": lambda x, source, non_blocking=False: ops.broadcast_to(
        ops.astype(ops.as_tensor(source), x.dtype, copy=False), x.shape
    ),
    "fill_": lambda x, value: ops.broadcast_to(
        ops.astype(ops.as_tensor(value), x.dtype, copy=False), x.shape
    ),
    "zero_": lambda x: ops.zeros(x.shape, dtype=x.dtype),
    "normal_": lambda x, mean=0.0, std=1.0: ops.astype(
        random.normal(mean, std, x.shape), x.dtype, copy=False
    ),
    "uniform_": lambda x, low=0.0, high=1.0: ops.astype(
        random.uniform(low, high, x.shape), x.dtype, copy=False
    ),
}


def _worded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``name``, which takes ``dim`` for ``axis``."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if kwargs and not (OWN.keys() | FROM_NUMPY.get(name, ())).isdisjoint(kwargs):
            kwargs = in_own_words(name, kwargs)
        return function(self, *args, **kwargs)

    return method


def _writing(name: str, compute: Callable[..., Any]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        before = self.content
        value = compute(self, *args, **kwargs)
        made, own = value.dtype, self.dtype
        if made is not own:
            if made.kind != own.kind:
                raise DTypeError(
                    f"the result of {name}, {value.type}, cannot be written to {self.type}",
                    why="A tensor keeps its type.",
                    fix=f"begin with x = x.astype(hybrid.{made.name}), or bind a new tensor to "
                    "the name",
                )
            value = ops.astype(value, own)
        if name in FILLS:  # what they write is not made of what was there
            return self.write_in_place(value)
        return self if self.write_over(before, value) else method(self, *args, **kwargs)

    return method


def _tile(x: Tensor, *repetitions: Any) -> Tensor:
    """``x`` laid side by side: ``x.tile(2, 3)`` and ``x.tile((2, 3))``."""
    return ops.tile(x, _listed(repetitions))


def _install() -> None:
    found = {name: _worded(name, function) for name, function in ALIASES.items()}
    for name, function in found.items():
        setattr(Tensor, name, function)
    Tensor.tile = _tile  # type: ignore[attr-defined]
    for name in IN_PLACE.split():
        found[name] = _writing(name, getattr(Tensor, name[:-1]))
    found |= {name: _writing(name, function) for name, function in FILLS.items()}
    for name, function in found.items():
        function.__name__, function.__qualname__ = name, f"Tensor.{name}"
        function.__doc__ = function.__doc__ or f"PyTorch's ``Tensor.{name}``."
        setattr(Tensor, name, function)
    other_names.add(Tensor, other_names.TENSOR)


_install()
