"""Calls from a running plan into Python: operands as arrays, results checked and stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import Leaving
from hybrid.core.types import TensorType
from hybrid.errors import ArgumentError
from hybrid.memory import native
from hybrid.memory.bfloat16 import array_dtype, memory_dtype
from hybrid.plan.steps import HostCall
from hybrid.plan.transfers import Transfer, Wait, waiting


@dataclass(slots=True)
class Callbacks:
    """The number of calls from a plan into Python, the bytes copied for them, and what one raised.

    ``raised`` is of transfers alone: they may be made by a thread that nobody asks for errors.
    """

    calls: int = 0
    nbytes: int = 0
    raised: BaseException | None = None


def host_function(call: HostCall, callbacks: Callbacks) -> Callable[[Any], None]:
    """``call`` as a function of operand addresses, counted by ``callbacks``."""
    if isinstance(call.function, Wait):
        return lambda _data: None
    n_in = len(call.inputs)
    leaves = type(call.function) is Leaving
    n_own = call.function.own if leaves else n_in
    if not getattr(call.function, "takes_bits", False):
        for taken in (*call.inputs[:n_own], *call.outputs):
            array_dtype(taken.dtype, "an array for Python")
    own, others = list(enumerate(call.inputs))[:n_own], list(enumerate(call.inputs))[n_own:]
    copied = sum([type.nbytes for type in (*call.inputs[:n_own], *call.outputs)])

    def run(data: Any) -> None:
        callbacks.calls += 1
        callbacks.nbytes += copied
        # Copies: the function may keep them, and the next step may write over the operands.
        arrays = [_array(data[i], type).copy() for i, type in own]
        rest = (lambda: [_array(data[i], type) for i, type in others]) if leaves else None
        results = call_function(call, arrays, rest)
        for at, (type, result) in enumerate(zip(call.outputs, results, strict=True)):
            _array(data[n_in + at], type)[...] = result

    def leave(error: BaseException, data: Any) -> None:
        call.function.leave(error, [_array(data[i], type) for i, type in others])

    if isinstance(call.function, Transfer):
        return _noting(waiting(call.function, run), callbacks)

    if leaves and call.function.settles:
        run.leave = leave  # type: ignore[attr-defined]
    return run


def _noting(run: Callable[[Any], None], callbacks: Callbacks) -> Callable[[Any], None]:
    """``run``, whose errors ``callbacks`` get."""

    def either(data: Any) -> None:
        try:
            run(data)
        except BaseException as error:
            callbacks.raised = error
            raise

    return either


def _array(address: Any, type: TensorType) -> np.ndarray:
    if not type.size:
        return np.empty(type.shape, memory_dtype(type.dtype))
    memory = native.memory_at(address, type.nbytes)
    return np.frombuffer(memory, memory_dtype(type.dtype)).reshape(type.shape)


def call_function(
    call: HostCall, arrays: list[np.ndarray], rest: Callable[[], list[np.ndarray]] | None = None
) -> list[np.ndarray]:
    """The results of a call into Python, as arrays of the declared types.

    ``rest`` gives the last operands of one that is Leaving: what it needs only if it fails.
    """
    returned = call.function(*arrays) if rest is None else call.function.call(arrays, rest)
    if isinstance(call.function, Transfer) and call.outputs:  # which has the bytes, in order
        returned = returned.reshape(call.outputs[0].shape)
    if isinstance(returned, (tuple, list)):
        results = list(returned)
    else:
        results = [] if returned is None else [returned]
    if len(results) != len(call.outputs):
        raise _wrong(call, f"returned {len(results)} values", f"{len(call.outputs)} of them")
    return [_converted(call, r, t) for r, t in zip(results, call.outputs, strict=True)]


def _converted(call: HostCall, result: Any, wanted: TensorType) -> np.ndarray:
    """``result`` of type ``wanted``; Python numbers take its dtype."""
    weak = type(result) in (bool, int, float)
    array = np.asarray(result, wanted.dtype.numpy if weak else None)
    if array.shape != wanted.shape or array.dtype != memory_dtype(wanted.dtype):
        shape = ",".join(map(str, array.shape))
        raise _wrong(call, f"returned {array.dtype}[{shape}]", str(wanted))
    return array


def _wrong(call: HostCall, what: str, wanted: str) -> ArgumentError:
    name = getattr(call.function, "__qualname__", repr(call.function))
    return ArgumentError(
        f"{name}, which a graph calls, {what}",
        at=call.location,
        why=f"The graph was built for {wanted}.",
        fix="return one array for each declared type",
    )
