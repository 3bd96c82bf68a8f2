"""Run a plan in pure Python and NumPy: the oracle of what C executes.

It walks the very steps, views and arena offsets of the plan, so a wrong lifetime, offset or stride
shows as a wrong result; each kernel is the NumPy reference of its op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.ir import REGISTRY, Op, View
from hybrid.plan.lower import Buffer, MapOp, Step
from hybrid.plan.plan import Plan
from hybrid.types import BY_SHORT, DType

Array = np.ndarray
Kernel = Callable[..., Any]


def interpret(plan: Plan, inputs: Sequence[Array], *, poison: bool = True) -> list[Array]:
    """The outputs of ``plan`` on ``inputs``.

    With ``poison`` the scratch memory starts as 0xff bytes and dead values are overwritten with
    them, so that a value read before it is written, or after its end, shows.
    """
    arena = bytearray(b"\xff" * plan.placement.arena_nbytes)
    memory: dict[Buffer, Any] = {}
    for buffer, array in zip(plan.lowered.inputs, inputs, strict=True):
        memory[buffer] = np.ascontiguousarray(array).tobytes()
    for buffer in plan.lowered.outputs:
        memory[buffer] = bytearray(b"\xff" * buffer.nbytes)
    for at, step in enumerate(plan.lowered.steps):
        arrays = [_array(view, memory, arena) for view in step.operands]
        _run_step(step, arrays)
        if poison:
            for buffer in {view.buffer for view in step.operands}:
                if buffer.kind == "arena" and plan.placement.last_step[buffer] == at:
                    arena[buffer.offset : buffer.offset + buffer.nbytes] = b"\xff" * buffer.nbytes
    return [
        np.frombuffer(memory[buffer], type.dtype.numpy).reshape(type.shape)
        for buffer, type in zip(plan.lowered.outputs, plan.output_types, strict=True)
    ]


def _array(view: View, memory: dict[Buffer, Any], arena: bytearray) -> Array:
    """The elements that ``view`` names, writable where its buffer is."""
    buffer, size = view.buffer, view.dtype.itemsize
    if buffer.kind == "arena":
        base = np.frombuffer(arena, np.uint8)[buffer.offset : buffer.offset + buffer.nbytes]
    else:
        data = buffer.data if buffer.kind == "constant" else memory[buffer]
        base = np.frombuffer(data, np.uint8)
    if not view.size:
        return np.empty(view.shape, view.dtype.numpy)
    strides = tuple(s * size for s in view.strides)
    return np.ndarray(view.shape, view.dtype.numpy, base, view.offset * size, strides)


def _run_step(step: Step, arrays: list[Array]) -> None:
    n_in, n_out = len(step.inputs), len(step.outputs)
    outputs = arrays[n_in : n_in + n_out]
    if step.kernel is not None:
        dtype = (step.inputs or step.outputs)[0].dtype
        kernel = _kernel(step.kernel, dtype, step.attrs, outputs[0])
        _store(outputs[:1] if step.ops else outputs, kernel(*arrays[:n_in]))
    for op in step.ops:
        _run_map_op(op, arrays, outputs[0].shape)


def _run_map_op(op: MapOp, arrays: list[Array], shape: tuple[int, ...]) -> None:
    n_in = len(op.args) - op.n_out
    operands = [arrays[a] if a >= 0 else _tiles(arrays)[a] for a in op.args[:n_in]]
    results = _kernel(op.kernel, op.dtype, op.attrs, None)(*operands)
    for at, result in zip(
        op.args[n_in:], results if isinstance(results, tuple) else (results,), strict=True
    ):
        if at >= 0:
            arrays[at][...] = result
        else:
            _tiles(arrays)[at] = np.broadcast_to(np.array(result), shape)


def _tiles(arrays: list[Array]) -> dict[int, Array]:
    """The tile buffers of a map, kept behind its operands."""
    if not arrays or not isinstance(arrays[-1], dict):
        arrays.append({})  # type: ignore[arg-type]
    return arrays[-1]  # type: ignore[return-value]


def _store(outputs: Sequence[Array], results: Any) -> None:
    for target, result in zip(
        outputs, results if isinstance(results, tuple) else (results,), strict=True
    ):
        target[...] = result


# The reference of each kernel whose operands are not those of an op of the same name.
_MIDDLE_AXIS = ("sum", "prod", "max", "min", "mean", "any", "all")


def _kernel(name: str, dtype: DType, attrs: Sequence[float], output: Array | None) -> Kernel:
    """``name`` as a function of arrays."""
    kind, _, short = name.rpartition("_")
    if kind == "cast" and short in BY_SHORT:
        return lambda x: _reference("cast")(x, dtype=BY_SHORT[short])
    if kind == "where" and short in BY_SHORT:
        return np.where
    if kind in ("random_uniform", "random_normal") or name == "random_bits":
        assert output is not None
        return lambda state: _random(name, state, output)
    if name in _MIDDLE_AXIS:
        return lambda x: _reference(name)(x, axis=(1,), keepdims=False)
    if name in ("argmax", "argmin"):
        return lambda x: getattr(np, name)(x, axis=1)
    if name in _ROWS:
        return _ROWS[name]
    op = _op_of(name)
    given = dict(zip(_numeric_attrs(op), attrs, strict=False))
    return lambda *xs: op.reference_rule(*xs, **given)


def _random(name: str, state: Array, output: Array) -> Array:
    attrs: dict[str, Any] = {"shape": output.shape}
    if name != "random_bits":
        kind, _, short = name.rpartition("_")
        name, attrs["dtype"] = kind, BY_SHORT[short]
    return _reference(name)(state, **attrs)


def _scatter_add(base: Array, index: Array, updates: Array) -> Array:
    out = base.copy()
    for i, at in enumerate(index):
        out[:, at] += updates[:, i]
    return out


def _scatter_along_add(base: Array, index: Array, updates: Array) -> Array:
    out = base.copy()
    for row, column in np.ndindex(*index.shape):
        out[row, index[row, column]] += updates[row, column]
    return out


def _softmax(name: str) -> Kernel:
    return lambda x: _reference(name)(x, axis=-1)


_ROWS: dict[str, Kernel] = {
    "copy": lambda x: x,
    "matmul": np.matmul,
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "take": lambda x, index: x[:, index],
    "scatter_add": _scatter_add,
    "take_along": lambda x, index: np.take_along_axis(
        x, np.where(index < 0, index + x.shape[1], index), axis=1
    ),
    "scatter_along_add": _scatter_along_add,
}


def _reference(name: str) -> Kernel:
    rule = REGISTRY[name].reference_rule
    assert rule is not None, name
    return rule


def _op_of(kernel: str) -> Op:
    return next(op for op in REGISTRY.values() if op.kernel == kernel)


def _numeric_attrs(op: Op) -> list[str]:
    return list(op.attr_defaults)
