"""Eager execution: the bottom interpreter, where an op call computes at once.

An op call is a one-node graph, planned once per (op, operand types, attributes) and remembered;
after that it is one lookup and one call into C.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.imports import above
from hybrid.core.size_functions import value_here
from hybrid.core.types import (
    DEFAULT_FLOAT,
    STORED,
    DType,
    TensorType,
    bfloat16,
    bool_,
    dtype_of,
    float16,
    float32,
    promote,
    promote_scalar,
    tensor_type,
)
from hybrid.eager.launch import Launch, fill, launch_of, remember
from hybrid.eager.open_launch import note_kind, run_open
from hybrid.eager.tensor import (
    SCALARS,
    Tensor,
    make_tensor,
    refuse_leaked,
    refused_part,
    scalar_key,
)
from hybrid.eager.thread_state import WRITES
from hybrid.errors import ArgumentTypeError, RangeError, ShapeError, SharingError
from hybrid.ir import Graph, Op, Value
from hybrid.ir.interpreter import outward, set_bottom
from hybrid.ir.op import results_of
from hybrid.ir.record import Leaf, Record, record_call, set_record, with_regions
from hybrid.memory import native
from hybrid.memory.bfloat16 import holds_bfloat16, memory_dtype, to_bfloat16
from hybrid.ops.support.operand_checks import is_traced_number
from hybrid.plan.host import call_function
from hybrid.plan.steps import HostCall


def _call_python(
    tensors: Sequence[Tensor], inputs: tuple[TensorType, ...], function: Any, types: Any
) -> tuple[Tensor, ...]:
    """Call ``function`` with copies of the arrays, as a plan does."""
    own = getattr(function, "own", len(tensors))  # the others are no arguments, but what it leaves
    as_bits = getattr(function, "takes_bits", False)
    arrays = [
        array_of(t).copy() if as_bits or at >= own else t.numpy().copy()
        for at, t in enumerate(tensors)
    ]
    results = call_function(HostCall(function, inputs, types, None), arrays)
    return tuple([from_numpy(array, copy=True) for array in results])


def array_of(tensor: Tensor) -> np.ndarray:
    """A view of the values of an eager tensor; of bfloat16 numbers it is one of their bits."""
    if tensor.type.layout is not None:
        raise refused_part("the values", tensor.type)
    memory = native.view(tensor.content, tensor.nbytes)
    return np.frombuffer(memory, memory_dtype(tensor.dtype)).reshape(tensor.shape)


def measured(op: Op, operand: Tensor) -> tuple[Tensor, int]:
    """The result of an op whose size depends on the values of ``operand``, and that size."""
    fill((operand,))
    found = op.reference_rule(array_of(operand), None)
    return (from_numpy(found), len(found)) if found.ndim else (operand, int(found))


def variable(value: Tensor) -> Tensor:
    """A tensor of ``value``, which has no history, that gradients are taken by."""
    made = value.detach()
    made.record = Leaf(made.type)
    return made


class Eager:
    """The interpreter at the bottom of every thread's stack."""

    traces = False
    batches = False
    watches = False
    queues = False
    repeats = False
    exports = False
    many = 1

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        try:
            given = op.attributes(attrs)
            results = None
            try:
                if regions:
                    raise KeyError(op.name)
                types = tuple([t.type for t in operands])
                launch = op.launches.get((types, given) if given else types)
                if launch is not None:
                    results = launch.run(operands)
                else:
                    results = run_open(op, types, given, operands)
            except (AttributeError, KeyError, TypeError):
                pass  # not all Tensors, a leaked value: the general way
            if results is None and op.promotes is True:
                known = beside_numbers(operands)
                if known is not None:
                    types = tuple([t.type for t in known])
                    launch = op.launches.get((types, given) if given else types)
                    if launch is not None:
                        try:  # noqa: SIM105  suppress() costs more than the rest
                            operands, results = known, launch.run(known)
                        except TypeError:  # a value that is pending
                            pass
                    else:
                        with suppress(TypeError):
                            results = run_open(op, types, given, known)
                            operands = operands if results is None else known
            if results is None:
                narrow = stored_result(op, operands)
                if narrow is not None:
                    return in_float32(self, op, operands, attrs, narrow)
                operands = prepare(self, op, operands)
                results = self.run(op, operands, given, regions)
            for t in operands:
                if t.record is not None:
                    record_call(op, operands, with_regions(given, regions), results)
                    break
            return results[0] if len(results) == 1 else results
        except Exception as error:
            outward(error)
            raise

    def run(
        self, op: Op, tensors: Sequence[Tensor], attrs: tuple, regions: tuple = ()
    ) -> tuple[Tensor, ...]:
        """The results of ``op``, unrecorded."""
        types = tuple([t.type for t in tensors])
        for t in tensors:
            if isinstance(t.content, Value):
                refuse_leaked(t)
        if op.name == "py_call":  # nothing to remember: its function may hold on to anything
            return _call_python(tensors, types, **dict(attrs))
        if op.inline:
            return self._inline(regions[0], tensors)
        key = (types, attrs) if attrs else types
        if regions:
            key = (*key, *map(id, regions))
        launch = op.launches.get(key)
        if launch is None and not regions:
            if not self.queues:
                fill(tensors)
                results = run_open(op, types, attrs, tensors)
                if results is not None:
                    return results
            note_kind(op, types, attrs)
        if launch is None:
            launch = remember(op, key, launch_of(op, types, attrs, regions))
        return self.launched(launch, op, tensors, attrs)

    def launched(
        self, launch: Launch, op: Op, tensors: Sequence[Tensor], attrs: tuple
    ) -> tuple[Tensor, ...]:
        """The results of a launch, which is that of ``op``."""
        fill(tensors)
        return launch.run(tensors)

    def _inline(self, region: Graph, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results of ``region``, op by op."""
        known = dict(zip(region.params, tensors, strict=True))
        for node in region.nodes:
            results = self.run(node.op, [known[v] for v in node.operands], node.attrs, node.regions)
            known.update(zip(node.results, results, strict=True))
        return tuple([make_tensor(t.type, t.content) for t in [known[v] for v in region.results]])

    def lift(self, obj: Any, dtype: DType | None = None) -> Tensor:
        return as_tensor(obj, dtype)

    def sized(self, op: Op, operand: Tensor) -> Tensor:
        return measured(op, operand)[0]

    def size_value(self, number: Any) -> None:
        return None

    def converted(self, function: Any, optional: bool = False) -> Any:
        return function

    def stack_of(self, rows: Sequence[Any]) -> Tensor | None:
        return None

    def read_tensor_attribute(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def first_gradient(self, leaf: Any, value: Tensor) -> Tensor:
        return value

    def gradient_on_paths(self, old: Any, grad: Any) -> Any:
        return grad.ct.detach() if grad.present.item() else old

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        object.__setattr__(owner, name, value)  # past the hooks that ask to write here

    def use_up(self, records: Sequence[Record]) -> None:
        for record in records:
            record.free()

    def require_history(self, record: Any, cts: Sequence[Any], error: Any) -> None:
        """There is one, or backward() has raised."""

    def going_back(self, ends: Sequence[Any], nodes: Sequence[Any]) -> AbstractContextManager:
        return nullcontext()

    variable = staticmethod(variable)

    def assign(self, cell: Tensor, value: Tensor) -> None:
        with WRITES:
            cell.content = value.content
            set_record(cell, value.record)


def beside_numbers(operands: Sequence[Any]) -> list[Tensor] | None:
    """Python numbers, if all were met before, as tensors of the one dtype of those beside them."""
    dtype = None
    for t in operands:
        if isinstance(t, Tensor):
            own = t.type.dtype
            if own is not dtype is not None:
                return None
            dtype = own
    found = []
    for t in operands:
        if not isinstance(t, Tensor):
            kind = t.__class__
            if dtype is None or (kind is not float and kind is not int and kind is not bool):
                return None
            t = SCALARS.get(scalar_key(t, dtype))
        if t is None or isinstance(t.content, Value):
            return None
        found.append(t)
    return found


def prepare(interpreter: Any, op: Op, operands: Sequence[Any]) -> Sequence[Tensor]:
    """``operands`` as Tensors, of one dtype when the op promotes."""
    if not op.promotes:
        return [t if isinstance(t, Tensor) else interpreter.lift(t) for t in operands]
    dtype = _common_dtype(interpreter, op, operands)
    if op.promotes == "floating" and not dtype.is_floating:
        dtype = DEFAULT_FLOAT
    prepared = []
    for t in operands:
        if not isinstance(t, Tensor):
            t = interpreter.lift(t, dtype if isinstance(t, (bool, int, float)) else None)
        if t.type.dtype is not dtype:
            t = interpreter.apply(ops.cast, (t,), {"dtype": dtype})
        prepared.append(t)
    return prepared


def stored_result(op: Op, operands: Sequence[Any]) -> DType | None:
    """The dtype of float results if ``op`` is to compute in float32 for storage; else None."""
    tensors = [t for t in operands if isinstance(t, Tensor)]
    dtypes = {t.type.dtype for t in tensors}
    taken = dtypes == {op.narrow} and len(tensors) == len(operands)
    if op.moves or taken or dtypes.isdisjoint(STORED):
        return None
    return functools.reduce(promote, [dtype for dtype in dtypes if dtype.is_floating])


def in_float32(
    interpreter: Any, op: Op, operands: Sequence[Any], attrs: dict[str, Any], narrow: DType
) -> Any:
    """The result of ``op`` on operands of which some are storage: computed in float32."""
    cast, apply = ops.cast, interpreter.apply
    wide = [
        apply(cast, (t,), {"dtype": float32})
        if isinstance(t, Tensor) and t.type.dtype.is_stored
        else t
        for t in operands
    ]
    result = apply(op, wide, attrs)
    results = [
        apply(cast, (t,), {"dtype": narrow}) if t.type.dtype is float32 is not narrow else t
        for t in results_of(result)
    ]
    return tuple(results) if isinstance(result, tuple) else results[0]


def _common_dtype(interpreter: Any, op: Op, operands: Sequence[Any]) -> DType:
    found: DType | None = None
    for t in operands:
        if isinstance(t, Tensor):
            found = t.type.dtype if found is None else promote(found, t.type.dtype)
        elif isinstance(t, (np.ndarray, np.generic, list, tuple)):
            dtype = interpreter.lift(t).type.dtype
            found = dtype if found is None else promote(found, dtype)
        elif type(t) not in (bool, int, float) and issubclass(type(t), (int, float)):
            return _common_dtype(interpreter, op, [plain_number(each) for each in operands])
    for t in operands:
        if t.__class__ in (bool, int, float):  # which a traced number says it is
            found = dtype_of(t.__class__) if found is None else promote_scalar(found, t)
    if found is None:
        names = ", ".join(type(t).__name__ for t in operands)
        raise ArgumentTypeError(f"{op.name} does not take operands of type {names}")
    return found


# Values from Python ---------------------------------------------------------------------------

MAX_SCALARS = 1024
_DLPACK_HAS_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def as_tensor(obj: Any, dtype: DType | None = None) -> Tensor:
    """``obj`` as a Tensor: itself, a borrowed NumPy array, or a copy of Python numbers."""
    if isinstance(obj, Tensor):
        return obj
    if type(obj) in (bool, int, float):
        return scalar(obj, dtype or dtype_of(type(obj)))
    if isinstance(obj, (np.ndarray, np.generic)):
        return from_numpy(np.asarray(obj), dtype)
    if issubclass(type(obj), (int, float)):  # an IntEnum, say
        return as_tensor(plain_number(obj), dtype)
    if isinstance(obj, (list, tuple)):
        return (
            stacked(obj, dtype)
            if holds_tensor(obj)
            else from_numpy(_array_of_list(obj, dtype), dtype)
        )
    return from_numpy(array_from(obj), dtype)


def plain_number(obj: Any) -> Any:
    """The int or float that an object of a class derived from these is; anything else itself."""
    kind = type(obj)
    if kind in (bool, int, float) or issubclass(kind, np.generic):
        return obj
    if issubclass(kind, int):
        return int.__index__(obj)
    return float.__float__(obj) if issubclass(kind, float) else obj


def array_from(obj: Any) -> np.ndarray:
    """The array that an object of another library or a buffer is, over its memory if it lends it.

    With NumPy's scalars it is one of rank 0.  What is none raises ArgumentTypeError.
    """
    if isinstance(obj, (np.ndarray, np.generic)):
        return np.asarray(obj)
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    if hasattr(obj, "__array__"):
        return np.asarray(obj)
    with suppress(TypeError):  # bytearray, array.array and whatever else has a buffer
        return np.asarray(memoryview(obj))
    raise ArgumentTypeError(
        f"{type(obj).__name__} is not a tensor",
        why="Tensors are made of numbers, nested lists of numbers, and arrays.",
        fix="pass one of those",
    )


def from_dlpack(obj: Any, **options: Any) -> np.ndarray:
    """The array that an object with ``__dlpack__`` is; of bfloat16 numbers, their bits."""
    return above.imported(obj, **options)


def memory_of(obj: Any) -> np.ndarray:
    """An array over the memory of ``obj``; what does not lend its memory raises SharingError."""
    if isinstance(obj, np.ndarray):
        return obj
    if not isinstance(obj, (bool, int, float, list, tuple, np.generic)):
        with suppress(BufferError, TypeError, ValueError):
            if hasattr(obj, "__dlpack__"):
                options = {"copy": False} if _DLPACK_HAS_COPY else {}
                return from_dlpack(obj, **options)
            if hasattr(obj, "__array__"):
                return np.asarray(obj.__array__(copy=False))
            return np.asarray(memoryview(obj))
    raise SharingError(
        f"a {obj.__class__.__name__} cannot be shared without a copy", fix="pass copy=None"
    )


def require_fit(number: Any, dtype: DType) -> None:
    """Raise what is raised for a plain number that ``dtype`` has no place for.

    Of a size, that it has one becomes a condition of its other values.
    """
    as_tensor(value_here(number), dtype)
    if not dtype.is_floating and dtype is not bool_:
        limits = np.iinfo(dtype.numpy)
        assert int(limits.min) <= number <= int(limits.max)


def scalar(value: bool | int | float, dtype: DType) -> Tensor:
    """A constant: not for anyone to write to, since it is shared."""
    # nan is no key.  Operators take what is found for the operand beside a tensor of that dtype,
    # so it has to be what the number is there: beside storage dtypes it is one of float32.
    cacheable = value == value and promote_scalar(dtype, value) is dtype and not dtype.is_stored
    key = scalar_key(value, dtype)
    found = SCALARS.get(key) if cacheable else None
    if found is None:
        if dtype.kind == "bool":
            value = bool(value)
        try:
            with np.errstate(over="ignore"):
                if dtype is bfloat16:
                    array = to_bfloat16(value)
                else:  # float16 by way of float32, as casts do it
                    wide = np.float32(value) if dtype is float16 else value
                    array = np.array(wide, dtype=dtype.numpy)
        except OverflowError:
            raise RangeError(
                f"{value} does not fit {dtype.name}", fix="use a wider dtype"
            ) from None
        found = make_tensor(tensor_type(dtype, ()), _copied(array))
        if cacheable:
            if len(SCALARS) >= MAX_SCALARS:
                SCALARS.clear()
            SCALARS[key] = found
    return found


def holds_tensor(obj: Any) -> bool:
    """Whether nested lists and tuples hold a Tensor or a traced number somewhere."""
    if isinstance(obj, (list, tuple)):
        return any(holds_tensor(item) for item in obj)
    return isinstance(obj, Tensor) or is_traced_number(obj)


def stacked(obj: list | tuple, dtype: DType | None) -> Tensor:
    """Nested sequences that hold Tensors as one, through which gradients flow."""
    items = [stacked(item, None) if isinstance(item, (list, tuple)) else item for item in obj]
    made = ops.stack(items)
    return made if dtype is None else ops.astype(made, dtype)


def _array_of_list(obj: list | tuple, dtype: DType | None) -> np.ndarray:
    """Nested sequences as an array: default dtypes for Python numbers if ``dtype`` is None."""
    dtypes: set[Any] = set()
    plain = _plain(obj, dtypes)
    try:
        array = np.array(plain)
    except ValueError:
        raise ShapeError(
            "the list is ragged",
            why="Its items have different lengths, so it has no shape.",
            fix="pad the items to one length",
        ) from None
    except OverflowError:
        raise RangeError("a number in the list does not fit int64") from None
    if array.dtype == object:
        if any(isinstance(item, int) for item in array.flat):
            raise RangeError("a number in the list does not fit int64", fix="use floats")
        raise ArgumentTypeError("the list holds something that is not a number")
    if array.dtype.kind not in "biuf":
        raise ArgumentTypeError(f"the list holds {array.dtype.name} values, not numbers")
    if dtypes or dtype is not None:
        return array
    if array.dtype == np.uint64:
        raise RangeError("a number in the list does not fit int64", fix="pass dtype=hybrid.uint64")
    if array.dtype == np.float64:
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    return array


def _plain(obj: Any, dtypes: set[Any]) -> Any:
    if isinstance(obj, (list, tuple)):
        return [_plain(item, dtypes) for item in obj]
    if isinstance(obj, (np.ndarray, np.generic)):
        dtypes.add(obj.dtype)
    return obj


def from_numpy(array: np.ndarray, dtype: DType | None = None, copy: bool | None = None) -> Tensor:
    """A Tensor over ``array``: borrowed if its layout and dtype allow, unless ``copy`` is True."""
    if array.dtype.metadata is not None and holds_bfloat16(array):
        made = from_numpy(array.view(np.uint16), copy=copy)
        return make_tensor(tensor_type(bfloat16, array.shape), made.content)
    wanted = dtype_of(array.dtype) if dtype is None else dtype
    if wanted is bfloat16 and copy is not False:
        return make_tensor(tensor_type(wanted, array.shape), from_numpy(to_bfloat16(array)).content)
    if array.dtype.kind == "f" and wanted.is_integer and copy is not False:
        # What does not fit is left to the compiler by NumPy; the op has a rule for it.
        whole = from_numpy(array.astype(np.float64 if array.itemsize > 4 else np.float32))
        return EAGER.run(ops.cast, (whole,), ops.cast.attributes({"dtype": wanted}))[0]
    made = tensor_type(wanted, array.shape)
    if not copy and array.size and is_sharable(array, wanted):
        return make_tensor(made, native.borrow(array))
    if copy is False:
        require_sharable(array, wanted)
    if made.nbytes <= native.SMALL:
        with np.errstate(over="ignore"):
            return make_tensor(made, _copied(np.ascontiguousarray(array, dtype=wanted.numpy)))
    tensor = make_tensor(made, native.allocate(made.nbytes))
    target = np.frombuffer(native.view(tensor.content, made.nbytes), dtype=wanted.numpy)
    with np.errstate(over="ignore"):
        np.copyto(target.reshape(made.shape), array, casting="unsafe")
    return tensor


def is_sharable(array: np.ndarray, dtype: DType) -> bool:
    """Whether a tensor of ``dtype`` can have the memory of ``array``; no elements need none."""
    flags = array.flags
    laid_out = flags.c_contiguous and flags.aligned and array.dtype.isnative
    same = dtype.numpy is not None and array.dtype == dtype.numpy  # float64 equals None
    return same and (laid_out or not array.size)


def require_sharable(array: np.ndarray, dtype: DType) -> None:
    """Raise unless a tensor of ``dtype`` can have the memory of ``array``."""
    if not is_sharable(array, dtype):
        raise SharingError(
            "the array cannot be shared without a copy",
            why="It is not contiguous, not aligned, or of another dtype.",
            fix="pass copy=None or copy=True",
        )


def _copied(array: np.ndarray) -> Any:
    buffer = native.allocate(array.nbytes)
    native.view(buffer, array.nbytes)[:] = array.tobytes()
    return buffer


EAGER = Eager()
set_bottom(EAGER)
