"""Dtypes and tensor types: what is known of a tensor without its values.

Both are interned: there is one object per dtype and one per (dtype, shape), so
equality is identity and they key caches at the price of a pointer.
"""

from __future__ import annotations

import math
import operator
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import as_size, open_number, size_of
from hybrid.core.size_functions import value_here
from hybrid.core.sizes import HIGHEST, OpenSizes, Size
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

MAX_RANK = 32  # HYB_MAX_RANK of the C runtime
DEVICE = "cpu"  # the only one
MAX_BYTES = 2**62

Shape = tuple[int, ...]  # of an open type some are Sizes, which compute and compare as ints do


class DType:
    """One element type: ``name`` as in the array API, ``short`` as printed in graphs."""

    __slots__ = ("code", "itemsize", "kind", "name", "numpy", "short")

    def __init__(self, name: str, short: str, code: int, itemsize: int, kind: str) -> None:
        self.name, self.short, self.code = name, short, code
        self.itemsize, self.kind = itemsize, kind
        self.numpy = None if name == "bfloat16" else np.dtype(name)

    @property
    def is_stored(self) -> bool:
        """Whether tensors hold it, and ops compute in float32 with it."""
        return self in STORED

    def __repr__(self) -> str:
        return f"hybrid.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name if self.name != "bool" else "bool_"

    @property
    def is_floating(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")


_ROWS = [  # name, short, itemsize, kind; the order is that of hyb_dtype
    ("bool", "bool", 1, "bool"),
    ("int8", "i8", 1, "int"),
    ("int16", "i16", 2, "int"),
    ("int32", "i32", 4, "int"),
    ("int64", "i64", 8, "int"),
    ("uint8", "u8", 1, "uint"),
    ("uint16", "u16", 2, "uint"),
    ("uint32", "u32", 4, "uint"),
    ("uint64", "u64", 8, "uint"),
    ("float16", "f16", 2, "float"),
    ("bfloat16", "bf16", 2, "float"),
    ("float32", "f32", 4, "float"),
    ("float64", "f64", 8, "float"),
]
DTYPES: tuple[DType, ...] = tuple(
    DType(name, short, code, size, kind) for code, (name, short, size, kind) in enumerate(_ROWS)
)
BY_NAME: dict[str, DType] = {d.name: d for d in DTYPES}
BY_SHORT: dict[str, DType] = {d.short: d for d in DTYPES}
_BY_NUMPY = {d.numpy: d for d in DTYPES if d.numpy is not None}

bool_ = BY_NAME["bool"]
int8, int16, int32, int64 = (BY_NAME[f"int{n}"] for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (BY_NAME[f"uint{n}"] for n in (8, 16, 32, 64))
float16, float32, float64 = (BY_NAME[f"float{n}"] for n in (16, 32, 64))
bfloat16 = BY_NAME["bfloat16"]

STORED = (float16, bfloat16)  # ops compute in float32 with them
SUPPORTED = tuple(d for d in DTYPES if d not in STORED)  # that kernels exist for
DEFAULT_FLOAT, DEFAULT_INT = float32, int64
_PYTHON = {bool: bool_, int: DEFAULT_INT, float: DEFAULT_FLOAT}
_PYTHON_NAMES = {kind.__name__: dtype for kind, dtype in _PYTHON.items()}


def dtype_of(obj: object) -> DType:
    """The dtype that ``obj`` names: a DType, a name, a NumPy dtype, or bool/int/float."""
    if isinstance(obj, DType):
        found = obj
    elif isinstance(obj, type) and obj in _PYTHON:
        found = _PYTHON[obj]
    elif isinstance(obj, str) and (obj in BY_NAME or obj in BY_SHORT):
        found = BY_NAME.get(obj) or BY_SHORT[obj]
    elif isinstance(obj, str) and obj in _PYTHON_NAMES:  # NumPy's "float" is float64
        found = _PYTHON_NAMES[obj]
    elif obj is None:  # which NumPy takes for float64
        found = None
    else:
        try:
            found = _BY_NUMPY.get(np.dtype(obj).newbyteorder("="))
        except TypeError:
            found = None
    if found is None:
        raise DTypeError(
            f"no dtype {obj!r}",
            why="Tensors hold " + ", ".join(d.name for d in DTYPES) + ".",
            fix="convert the values to one of these first",
        )
    return found


class TensorType:
    """A dtype and a shape, printed ``f32[8,4]``.  Make one with ``tensor_type``.

    An open one has symbols among its sizes, and prints as ``f32[n,4]``: see ``hybrid.core.sizes``.
    """

    __slots__ = (
        "__weakref__", "dtype", "floating", "ints", "is_open", "kind", "nbytes", "rank", "shape",
        "size",
    )  # fmt: skip

    dtype: DType
    floating: bool
    ints: Shape  # the shape as the author's code gets it
    is_open: bool
    kind: int  # the same of types that differ only in sizes from 2 to HIGHEST; -1: of no others
    shape: Shape
    rank: int
    size: int
    nbytes: int
    layout = None  # how the ranks of a mesh share a tensor: see ``hybrid.core.layouts``

    def __repr__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"

    def __reduce__(self):
        return tensor_type, (self.dtype, self.shape)

    @property
    def scope(self) -> OpenSizes:
        """The symbols that the sizes of an open type are made of."""
        return next(n.scope for n in self.shape if type(n) is Size)

    def with_shape(self, shape: Shape) -> TensorType:
        return tensor_type(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return tensor_type(dtype, self.shape)


class _Reference(weakref.ref):
    """To a type that goes when nobody has it; ``key`` is what it is known by."""

    __slots__ = ("key",)

    key: tuple[DType, Shape]


known_types: dict[tuple[DType, Shape], _Reference] = {}  # some may have gone
_gone: deque[_Reference] = deque()  # what the next new type takes off them
_interning = threading.Lock()
_kinds: dict[tuple[DType, tuple[int, ...]], int] = {}
_new = object.__new__
_recent: deque[TensorType] = deque(maxlen=256)  # kept: sizes that depend on values recur


def require_device(device: object) -> None:
    """Raise ArgumentError unless ``device`` is None or the one that there is."""
    if device not in (None, DEVICE):
        raise ArgumentError(f"no device {device!r}", fix=f'leave device out, or pass "{DEVICE}"')


def tensor_type(dtype: DType, shape: Shape) -> TensorType:
    """The one TensorType of ``dtype`` and ``shape``."""
    for n in shape:
        if type(n) is not int:
            return _any_type(dtype, shape)
    found = known_types.get((dtype, shape))
    if found is not None and (known := found()) is not None:
        return known
    return new_type(dtype, shape)


def _any_type(dtype: DType, shape: Sequence[Any]) -> TensorType:
    """The same of a shape of ints, Sizes, and what can be made one."""
    try:
        sizes = map(size_of, shape)
        shape = tuple([n if type(n) is Size else operator.index(n) for n in sizes])
    except TypeError:
        raise ArgumentTypeError(f"shape {shape} is not one of ints") from None
    scope = next((n.scope for n in shape if type(n) is Size), None)
    if scope is None:
        return tensor_type(dtype, shape)
    known = scope.types.get((dtype, shape))
    return new_type(dtype, shape, is_open=True) if known is None else known


def new_type(dtype: DType, shape: Shape, *, is_open: bool = False) -> TensorType:
    """A type that is none of those known; ``shape`` is a tuple of ints and, if open, of Sizes."""
    if len(shape) > MAX_RANK:
        raise ShapeError(
            f"a tensor of {len(shape)} dimensions was asked for",
            why=f"Tensors have at most {MAX_RANK} dimensions.",
            fix="merge some dimensions with reshape",
        )
    if any([n < 0 for n in shape]):
        raise ShapeError(
            f"shape {list(shape)} has a negative size", fix="give every dimension a size >= 0"
        )
    if is_open:
        return type_of_kind(dtype, shape, -1, is_open=True)
    pattern = dtype, tuple([2 if 2 < n <= HIGHEST else n for n in shape])
    kind = _kinds.get(pattern)
    if kind is None:
        with _interning:
            kind = _kinds.setdefault(pattern, len(_kinds))
    return type_of_kind(dtype, shape, kind)


def type_of_kind(dtype: DType, shape: Shape, kind: int, *, is_open: bool = False) -> TensorType:
    """The same where the sizes are known to be right, and their ``kind``."""
    made = _new(TensorType)
    made.dtype, made.rank, made.is_open, made.kind = dtype, len(shape), is_open, kind
    made.shape = made.ints = shape
    size = made.size = math.prod(shape)
    made.nbytes, made.floating = size * dtype.itemsize, dtype.kind == "float"
    if is_open:
        made.ints = tuple(map(open_number, shape))
    if is_open or not 0 < made.nbytes <= MAX_BYTES:
        _require_room(dtype, shape)
    key = dtype, shape
    with _interning:
        if is_open:  # it goes with the symbols, which its shape refers to
            return made.scope.types.setdefault(key, made)
        while _gone:
            gone = _gone.popleft()
            if known_types.get(gone.key) is gone:
                del known_types[gone.key]
        known = known_types.get(key)
        found = None if known is None else known()
        if found is None:  # another thread might have been faster
            reference = known_types[key] = _Reference(made, _gone.append)
            reference.key = key
            found = made
        _recent.append(found)
    return found


def _require_room(dtype: DType, shape: Shape) -> None:
    if math.prod([n for n in map(value_here, shape) if n]) * dtype.itemsize > MAX_BYTES:
        raise ShapeError(
            f"shape {list(shape)} of {dtype.name} is too large",
            why=f"A tensor holds fewer than {MAX_BYTES} bytes.",
        )


def shape_of(obj: object, what: str = "shape") -> Shape:
    """``obj`` (an int or a sequence of ints) as a shape."""
    if isinstance(obj, (int, np.integer)) and not isinstance(obj, bool):
        return (as_size(obj),)
    try:
        items = tuple(obj)  # type: ignore[arg-type]
        if any(isinstance(n, bool) for n in items):
            raise TypeError
        return tuple(map(as_size, items))
    except (TypeError, AttributeError):
        raise ArgumentTypeError(
            f"{what} {obj!r} is not a shape", fix="give an int or a tuple of ints"
        ) from None


# Promotion: the array API's table for numbers of one kind; across kinds bool < integer < float,
# and the wider kind's dtype wins unchanged.
_KIND_ORDER = {"bool": 0, "uint": 1, "int": 1, "float": 2}


def promote(a: DType, b: DType) -> DType:
    """The dtype of an expression of ``a`` and ``b``."""
    if a is b:
        return a
    order_a, order_b = _KIND_ORDER[a.kind], _KIND_ORDER[b.kind]
    if order_a != order_b:
        return a if order_a > order_b else b
    if a.kind == b.kind:
        if a.itemsize == b.itemsize:  # float16 and bfloat16
            return float32
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned.itemsize < 8:
        return BY_NAME[f"int{unsigned.itemsize * 16}"]
    raise DTypeError(
        f"{a.name} and {b.name} have no common dtype",
        why="No integer dtype holds both.",
        fix="convert one of them with astype",
    )


def promote_scalar(dtype: DType, value: bool | int | float) -> DType:
    """The dtype of an expression of a tensor of ``dtype`` and a Python number, which is weak."""
    if isinstance(value, bool) or dtype.kind == "float":
        return dtype
    if isinstance(value, int):
        return DEFAULT_INT if dtype.kind == "bool" else dtype
    return DEFAULT_FLOAT
