"""Tensor: a cell that holds an immutable value.

Eagerly the value (``content``) is a buffer of bytes of a TensorType; while a function is traced it
is a Value of the graph.  Operators make new Tensors; ``+=``, ``x[i] = v`` and ``assign`` put
another value of the same type into the same cell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.config import advance_epoch
from hybrid.core.imports import above
from hybrid.core.layouts import layout_text, local_of, whole_of
from hybrid.core.open_numbers import open_number
from hybrid.core.types import DEVICE, DType, Shape, TensorType, bfloat16, float32, require_device
from hybrid.eager.batched_value import Lane, leaked, refuse_leaked, shared
from hybrid.eager.thread_state import WRITES
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    ShapeError,
    TracedBoolError,
    TracedValueError,
    author_location,
)
from hybrid.ir import Op, Value
from hybrid.ir.interpreter import ACTIVE, current, outward
from hybrid.ir.record import AnyRecord, Leaf, gradient_leaf, is_recording, record_binary
from hybrid.memory import native
from hybrid.memory.bfloat16 import array_dtype, memory_dtype
from hybrid.memory.buffers import export, part_at
from hybrid.ops.communication.layout_op import in_layout
from hybrid.ops.shapes.shape import reshape_method

SCALARS: dict[Any, Tensor] = {}  # by ``scalar_key``: the constants of numbers met before
_NUMBERS = (bool, int, float)
_ARRAYS = (np.ndarray, np.generic, list, tuple)


class Tensor:
    """An n-dimensional array of numbers; make one with ``hybrid.asarray`` and its relatives."""

    __slots__ = ("__weakref__", "content", "frozen_leaf", "leaf", "record", "type")

    type: TensorType
    content: Any  # a native buffer, or a graph Value while tracing
    record: AnyRecord | None  # of the current value
    leaf: Leaf  # set once gradients were asked for
    frozen_leaf: Leaf  # the same, while ``requires_grad`` is off again

    def __init__(self, obj: Any = None) -> None:
        raise ArgumentTypeError(
            "a Tensor is not made by calling its class", fix="use hybrid.asarray"
        )

    # What it is ------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        return self.type.ints

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> int:
        return open_number(self.type.size)

    @property
    def nbytes(self) -> int:
        return open_number(self.type.nbytes)

    @property
    def device(self) -> str:
        return DEVICE

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """This tensor; ``"cpu"`` is the only device."""
        require_device(device)
        if stream is not None:
            raise ArgumentError(f"no stream {stream!r} on a CPU", fix="pass stream=None")
        return self

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        if self.type.rank != 2:
            raise ShapeError(
                f"T of {self.type}", why="T is for matrices.", fix="use mT or permute_dims"
            )
        return ops.permute_dims(self, (1, 0))

    @property
    def mT(self) -> Tensor:
        """With the last two axes exchanged."""
        return ops.matrix_transpose(self)

    def __len__(self) -> int:
        if not self.type.rank:
            raise ArgumentTypeError("a tensor of rank 0 has no length")
        return self.type.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.type.rank:
            raise ArgumentTypeError("a tensor of rank 0 cannot be iterated over")
        return (self[i] for i in range(self.type.shape[0]))

    def __contains__(self, item: Any) -> bool:
        """Whether any element equals ``item`` (one of each that broadcast against each other)."""
        return bool(ops.any(self == item))

    def __repr__(self) -> str:
        if ACTIVE and current().traces and not leaked(self):
            return current().text_of(self, "r")
        if isinstance(self.content, Value):
            return repr(self.content) if isinstance(self.content, Lane) else f"<traced {self.type}>"
        mark = ", requires_grad=True" if self.record is not None else ""
        if self.type.layout is not None:
            part = np.array2string(self._part()._wide().numpy(), separator=", ", prefix="tensor(")
            held = layout_text(self.type.layout)
            return f"tensor({part}, dtype={self.type.dtype.name}{mark}, {held} of {self.type})"
        text = np.array2string(self._wide().numpy(), separator=", ", prefix="tensor(")
        return f"tensor({text}, dtype={self.type.dtype.name}{mark})"

    __hash__ = object.__hash__

    # Its values ------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The values as a read-only NumPy array that shares this value's memory."""
        return self._array("numpy()", read_only=True)

    def _array(self, asked: str, *, read_only: bool = False) -> np.ndarray:
        if ACTIVE or isinstance(self.content, Value):
            self._require_value(asked)
            if isinstance(self.content, Lane):
                return shared(self.content, asked)._array(asked, read_only=read_only)
        kind, as_bits = self.type, asked == "DLPack"
        if kind.layout is not None:
            raise refused_part(asked, kind)
        dtype = memory_dtype(kind.dtype) if as_bits else array_dtype(kind.dtype, asked)
        if not kind.size:
            return np.empty(kind.shape, dtype)
        if as_bits:  # not all of its consumers heed that memory is read-only
            export(native.filled(self.content))
        memory = memoryview(native.view(self.content, kind.nbytes))
        return np.frombuffer(memory.toreadonly() if read_only else memory, dtype).reshape(
            kind.shape
        )

    def _repr_html_(self) -> str:
        """The type and a table of values, for notebooks."""
        return above.tensor_html(self)

    def _part(self) -> Tensor:
        """What this rank holds of it, as a tensor of its own."""
        return make_tensor(local_of(self.type), self.content)

    def _wide(self) -> Tensor:
        """The same numbers in a dtype that NumPy has."""
        own = self.type.dtype is not bfloat16 or isinstance(self.content, Value)
        return self if own else ops.cast(self.detach(), dtype=float32)

    def _require_value(self, asked: str) -> None:
        """Raise unless this thread is eager, so that the value is there and may be looked at."""
        refuse_leaked(self)
        if current().traces:
            error = TracedBoolError if asked == "bool()" else TracedValueError
            raise error(asked, str(self.type), at=author_location())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError(f"{self.type} as {np.dtype(dtype).name} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return above.array_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return above.array_function(function, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule over the memory of the value, for ``from_dlpack`` of any library."""
        if stream is not None:
            raise ArgumentError(f"no stream {stream!r} on a CPU", fix="pass stream=None")
        options: dict[str, Any] = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        options = {name: value for name, value in options.items() if value is not None}
        array = self._array("DLPack", read_only=True)
        try:
            return above.exported(array, **options)
        except BufferError:  # the consumer knows nothing of read-only memory: it gets its own
            return above.exported(array.copy(), **options)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return sys.modules["hybrid"]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def item(self) -> bool | int | float:
        """The value of a tensor of one element as a Python number (while traced, a Number)."""
        if self.type.size != 1:
            raise ArgumentError(f"item() of {self.type}", why="It needs exactly one element.")
        if ACTIVE and current().traces:
            return current().number_of(self)
        return self._wide()._array("item()").item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers (while traced, of Numbers)."""
        if ACTIVE and current().traces:
            return [row.tolist() for row in self] if self.type.rank else self.item()
        return self._wide()._array("tolist()").tolist()

    def __bool__(self) -> bool:
        if self.type.size != 1:
            raise ArgumentError(
                f"the truth of {self.type} is ambiguous", fix="use hybrid.any or hybrid.all"
            )
        return bool(self._number("bool()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        if not (self.type.dtype.is_integer and self.type.rank == 0):
            raise ArgumentTypeError(
                f"{self.type} is not an index", why="Only an integer tensor of rank 0 is one."
            )
        return self._number("an index")

    def _as_size(self) -> Any:
        found = None
        if ACTIVE and self.type.dtype.is_integer and self.type.rank == 0:
            found = current().size_value(self)
        return self.__index__() if found is None else found

    def _number(self, asked: str) -> Any:
        if ACTIVE or isinstance(self.content, Value):
            self._require_value(asked)
            if isinstance(self.content, Lane):
                return shared(self.content, asked)._number(asked)
        return self.item()

    def __format__(self, spec: str) -> str:
        plain = bool(spec) or type(self).__repr__ is Tensor.__repr__  # else its class adds to it
        if plain and ACTIVE and current().traces and not leaked(self):
            return current().text_of(self, "f", spec)
        return (
            format(self.item(), spec) if spec and self.type.size == 1 else format(str(self), spec)
        )

    # Writing to the cell ---------------------------------------------------------------------

    def assign(self, value: Any) -> Tensor:
        """Put ``value``, which must have this tensor's type, into this cell.

        Its history comes along, so that gradients flow through this tensor to what ``value`` was
        computed from; but under ``no_grad``, and if this tensor requires a gradient itself: then it
        goes on to require its own.
        """
        if not isinstance(value, Tensor):
            value = current().lift(value, self.type.dtype)
        if value.type is not self.type and whole_of(value.type) is whole_of(self.type):
            value = in_layout(value, self.type)
        elif value.type is not self.type:
            raise (ShapeError if value.type.shape != self.type.shape else DTypeError)(
                f"{value.type} cannot be assigned to a tensor of {self.type}",
                why="A tensor keeps its type.",
                fix="reshape the value, or bind a new tensor to the name"
                if value.type.shape != self.type.shape
                else f"convert the value with astype(hybrid.{self.type.dtype.name}), or bind a new "
                "tensor to the name",
            )
        refuse_leaked(value)
        # Without a record there is no history to leave behind.
        if (value.record is not None or ACTIVE) and value is not self and not self._takes_history():
            value = value.detach()
        current().assign(self, value)
        return self

    def _takes_history(self) -> bool:
        """Whether the history of a value that is written here comes along."""
        return is_recording() and getattr(self, "leaf", None) is None

    def write_in_place(self, value: Tensor) -> Tensor:
        """Put ``value``, which was computed from this tensor, into it: ``x += y``, ``x[i] = v``.

        A tensor that requires a gradient itself cannot be part of a history: GradientError.
        """
        if (self.record is not None or ACTIVE) and is_recording():
            if getattr(self, "leaf", None) is not None:
                raise changed_leaf()
            if ACTIVE and current().traces:
                current().will_change(self)
        return self.assign(value)

    def write_over(self, before: Any, value: Tensor) -> bool:
        """``write_in_place`` of what was computed from the content ``before``, if it still is it.

        False, and nothing is written, where another thread has written meanwhile: compute it again.
        """
        if value.type is not self.type or (
            ACTIVE and (current().traces or current().batches)  # what no other thread knows
        ):
            self.write_in_place(value)
            return True
        with WRITES:
            if self.content is not before:
                return False
            self.write_in_place(value)
        return True

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self.content
        while not self.write_over(before, ops.setitem(self, key, value)):
            before = self.content

    def __getitem__(self, key: Any) -> Tensor:
        plain = self.record is None and self.type.layout is None
        if plain and not ACTIVE and not isinstance(self.content, Value):
            found = part_at(self.type, key)
            if found is not None:
                return make_tensor(found[1], native.part(self.content, found[0], found[1].nbytes))
        return ops.getitem(self, key)

    # Gradients -------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor's value."""
        told = current().will_tell(self) if ACTIVE and current().traces else None
        return self.record is not None if told is None else told

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if ACTIVE and bool(wanted) != (self.record is not None) and current().traces:
            current().will_turn(self, bool(wanted))
        if not wanted:
            self.record = None
            if hasattr(self, "leaf"):
                self.leaf.frozen, self.frozen_leaf = True, self.leaf
                del self.leaf
        elif self.record is None:
            if not self.type.dtype.is_floating:
                raise DTypeError(
                    f"{self.type} cannot require a gradient", why="Only float tensors can."
                )
            leaf = getattr(self, "frozen_leaf", None)
            if leaf is not None:
                del self.frozen_leaf
            if leaf is None or leaf.type is not self.type:
                leaf = Leaf(self.type)
            leaf.frozen, self.leaf, self.record = False, leaf, leaf
        advance_epoch()

    @property
    def grad(self) -> Tensor | None:
        """What ``backward()`` has added up for this tensor; it stays while the tensor is frozen."""
        leaf = gradient_leaf(self)
        if leaf is not None:
            return current().read_tensor_attribute(leaf, "grad")
        if ACTIVE and current().traces:
            current().will_tell(self, gradient=True)
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        leaf = gradient_leaf(self)
        if value is not None and not (
            isinstance(value, Tensor) and whole_of(value.type) is whole_of(self.type)
        ):
            raise ArgumentTypeError(f"the gradient of {self.type} must be a tensor of that type")
        if value is not None and value.type is not self.type:  # ranks share one of them
            value = in_layout(value, self.type)
        if leaf is not None:
            current().write_tensor_attribute(leaf, "grad", value)
        elif value is not None:
            raise GradientError("the tensor requires no gradient", fix="set requires_grad = True")
        elif ACTIVE and current().traces:
            current().will_clear(self)

    @property
    def data(self) -> Tensor:
        """The value without its history; writing to it in place writes to this tensor.

        Assigning to ``data`` gives this tensor another value, and leaves ``requires_grad`` as it
        is.  A tensor that was computed from one that requires a gradient has no such writes.
        """
        return above.view_of(self)

    @data.setter
    def data(self, value: Any) -> None:
        above.write_data(self, value)

    def detach(self) -> Tensor:
        """The same value, without its history."""
        return make_tensor(self.type, current_content(self))

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add to ``grad`` of every leaf the gradient of this tensor (times ``gradient``).

        ``gradient`` may be left out for a tensor of one element, and is then 1.  The history is
        freed unless ``retain_graph``.
        """
        above.backward(self, gradient, retain_graph)

    # Copies ----------------------------------------------------------------------------------

    def __copy__(self) -> Tensor:
        return clone_cell(self, current_content(self))

    def __deepcopy__(self, memo: dict) -> Tensor:
        copied = memo[id(self)] = clone_cell(self, current_content(self))
        return copied

    def __reduce__(self) -> Any:
        grad = getattr(self, "leaf", None) is not None
        array = self._wide()._array("pickling").copy()
        return _unpickle, (type(self), array, grad, self.type.dtype)


def clone_cell(cell: Tensor, data: Any) -> Tensor:
    """A new cell of the same class holding ``data``; it requires a gradient if ``cell`` does."""
    made = object.__new__(type(cell))
    made.type, made.content, made.record = cell.type, data, None
    if getattr(cell, "leaf", None) is not None:
        made.leaf = made.record = Leaf(cell.type)
    return made


def _unpickle(kind: type[Tensor], array: np.ndarray, grad: bool, dtype: DType) -> Tensor:
    tensor = current().lift(array, dtype)
    made = object.__new__(kind)
    made.type, made.content, made.record = tensor.type, tensor.content, None
    if grad:
        made.leaf = made.record = Leaf(made.type)
    return made


def changed_leaf() -> GradientError:
    """What is raised when a tensor that requires a gradient itself is changed in place."""
    return GradientError(
        "a tensor that requires a gradient was changed in place",
        at=author_location(),
        why="Its new value would have a history that leads to the old one, and whose gradient is "
        "meant by its grad would not be clear.",
        fix="update it with x.assign(...), which takes the value alone, or under "
        "hybrid.no_grad(); or bind the new value to a name (x = x + y)",
    )


_new = object.__new__


def make_tensor(type: TensorType, data: Any) -> Tensor:
    """A new cell, without history."""
    made = _new(Tensor)
    made.type, made.content, made.record = type, data, None
    return made


def refused_part(asked: str, type: TensorType) -> ArgumentError:
    """What is raised where the values of a tensor are asked for that ranks share."""
    return ArgumentError(
        f"{asked} of {type}, of which this rank has its part alone",
        at=author_location(),
        why=f"It is shared by ranks: {layout_text(type.layout)}.",
        fix="ask hybrid.distributed.whole(x) for it on all ranks, who all call that",
    )


def current_content(tensor: Tensor) -> Any:
    """What ``tensor`` holds for the current interpreter, without history: traced, a graph value."""
    interpreter = current()
    if not (interpreter.traces or interpreter.batches):
        return tensor.content
    if tensor.record is not None or (interpreter.repeats and tensor.type.floating):
        tensor = ops.stop_gradient(tensor)  # a node, for those who differentiate the graph
    return interpreter.traced(tensor).content


# Operators ------------------------------------------------------------------------------------


def _operand(other: Any) -> bool:
    return isinstance(other, (Tensor, *_NUMBERS, *_ARRAYS))


def scalar_key(value: bool | int | float, dtype: Any) -> Any:
    """The place of a number in ``SCALARS``: 0.0 and -0.0 are equal, and yet two constants."""
    kind = value.__class__
    return (kind, value, dtype) if value or kind is not float else (str(value), dtype)


def _binary(op: Op, reflected: bool = False) -> Callable[[Tensor, Any], Any]:
    """The operator method of ``op``: the eager fast path, then the general way."""
    launches, run2, new, tensor, scalars = op.launches, native.run2, _new, Tensor, SCALARS

    if reflected:

        def method(self: Tensor, other: Any) -> Any:
            return current().apply(op, (other, self), {}) if _operand(other) else NotImplemented

        return method

    def method(self: Tensor, other: Any) -> Any:
        if not ACTIVE:
            kind = other.__class__
            if kind is float or kind is int:
                dtype = self.type.dtype  # what follows is ``scalar_key``
                key = (kind, other, dtype) if other or kind is int else (str(other), dtype)
                other = scalars.get(key, other)
            try:
                types = self.type, other.type
                launch = launches.get(types)
                if launch is None:
                    result = above.run_open(op, types, (), (self, other))[0]
                else:
                    data = launch.make(launch.storage)
                    status = run2(launch.handle, data, self.content, other.content)
            except (AttributeError, TypeError):
                pass  # another kind of operand, a first call, a leaked value: the general way
            except Exception as error:
                outward(error)
                raise
            else:
                if launch is not None:
                    if status:
                        launch.plan.fail(status)
                    result = new(tensor)
                    result.type, result.content, result.record = launch.type, data, None
                if (self.record is not None or other.record is not None) and result.type.floating:
                    record_binary(op, self, other, result)
                return result
        return current().apply(op, (self, other), {}) if _operand(other) else NotImplemented

    return method


def _unary(op: Op) -> Callable[[Tensor], Any]:
    def method(self: Tensor) -> Any:
        return current().apply(op, (self,), {})

    return method


def _in_place(forward: Callable[[Tensor, Any], Any]) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        before = self.content
        value = forward(self, other)
        if value is NotImplemented:
            return value
        made, own = value.type.dtype, self.type.dtype
        if made is not own and made.kind == own.kind:  # an operand of another size
            value = ops.cast(value, dtype=own)
        elif made is not own:
            raise DTypeError(
                f"the result, {value.type}, cannot be written in place to {self.type}",
                why="A tensor keeps its type.",
                fix=f"begin with x = x.astype(hybrid.{made.name}), or write "
                f"x.assign(y.astype(hybrid.{own.name})) for what y = x + ... is",
            )
        return self if self.write_over(before, value) else method(self, other)

    return method


_BINARY = {
    "add": ops.add,
    "sub": ops.subtract,
    "mul": ops.multiply,
    "truediv": ops.divide,
    "floordiv": ops.floor_divide,
    "mod": ops.remainder,
    "pow": ops.pow,
    "matmul": ops.matmul,
    "and": ops.bitwise_and,
    "or": ops.bitwise_or,
    "xor": ops.bitwise_xor,
    "lshift": ops.bitwise_left_shift,
    "rshift": ops.bitwise_right_shift,
}
_COMPARE = {
    "eq": ops.equal,
    "ne": ops.not_equal,
    "lt": ops.less,
    "le": ops.less_equal,
    "gt": ops.greater,
    "ge": ops.greater_equal,
}
_UNARY = {"neg": ops.negative, "pos": ops.positive, "abs": ops.abs, "invert": ops.bitwise_invert}
# Methods of the same names as functions: x.sum() is hybrid.sum(x).
_METHODS = """
abs all any argmax argmin argsort argwhere astype broadcast_to ceil clip cos cumprod cumsum erf exp
expand_dims flatten flip floor gelu isfinite isinf isnan log log1p log2 log10 log_softmax logsumexp
matmul max mean min moveaxis nonzero permute_dims pow prod relu repeat_interleave reshape roll round
rsqrt sigmoid sign silu sin softmax sort split sqrt square squeeze std sum swapaxes take tanh tile
topk transpose tril triu trunc unflatten var
"""

for _name, _op in _BINARY.items():
    if isinstance(_op, Op):
        _forward, _reverse = _binary(_op), _binary(_op, reflected=True)
    else:  # a function over several ops

        def _forward(self: Tensor, other: Any, _call: Any = _op) -> Any:
            return _call(self, other) if _operand(other) else NotImplemented

        def _reverse(self: Tensor, other: Any, _call: Any = _op) -> Any:
            return _call(other, self) if _operand(other) else NotImplemented

    setattr(Tensor, f"__{_name}__", _forward)
    setattr(Tensor, f"__r{_name}__", _reverse)
    setattr(Tensor, f"__i{_name}__", _in_place(_forward))
for _name, _op in _COMPARE.items():
    setattr(Tensor, f"__{_name}__", _binary(_op))
for _name, _op in _UNARY.items():
    setattr(Tensor, f"__{_name}__", _unary(_op))
for _name in _METHODS.split():
    setattr(Tensor, _name, getattr(ops, _name))
Tensor.reshape = reshape_method  # type: ignore[attr-defined]
