"""Interpreter of plans in pure Python and NumPy: the oracle of what C executes.

It walks the very steps, views and arena offsets of the plan, so a wrong lifetime, offset or stride
shows as a wrong result; each kernel is the NumPy reference of its op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.core.types import BY_SHORT
from hybrid.ir import REGISTRY, Op, View
from hybrid.plan.host import call_function
from hybrid.plan.plan import Plan
from hybrid.plan.steps import Buffer, MapOp, Step
from hybrid.plan.transfers import Wait

Array = np.ndarray
Kernel = Callable[..., Any]


def interpret(plan: Plan, inputs: Sequence[Array], *, poison: bool = True) -> list[Array]:
    """The outputs of ``plan`` on ``inputs``.

    With ``poison`` the scratch memory starts as 0xff bytes and dead values are overwritten with
    them, so that a value read before it is written, or after its end, shows.
    """
    run = _Run(plan, poison)
    for buffer, array in zip(plan.lowered.inputs, inputs, strict=True):
        run.memory[buffer] = np.ascontiguousarray(array).tobytes()
    for buffer in plan.lowered.outputs:
        run.memory[buffer] = bytearray(b"\xff" * buffer.nbytes)
    run.block(plan.lowered.steps)
    return [
        np.frombuffer(run.memory[buffer], type.dtype.numpy).reshape(type.shape)
        for buffer, type in zip(plan.lowered.outputs, plan.output_types, strict=True)
    ]


Place = tuple[Any, int]  # memory, and bytes into it


class _Run:
    """One run: memory, and where the buffers are that move."""

    def __init__(self, plan: Plan, poison: bool) -> None:
        self.arena = bytearray(b"\xff" * plan.placement.arena_nbytes)
        self.memory: dict[Buffer, Any] = {}
        self.moved: dict[Buffer, Place] = {}
        self.dying: dict[Step, list[Buffer]] = {}
        for buffer, step in plan.placement.last_step.items() if poison else ():
            if step is not None and buffer.kind == "arena":
                self.dying.setdefault(step, []).append(buffer)

    def place(self, buffer: Buffer) -> Place:
        buffer = buffer.root
        if buffer in self.moved:
            return self.moved[buffer]
        if buffer.kind == "arena":
            return self.arena, buffer.offset
        return (buffer.data if buffer.kind == "constant" else self.memory[buffer]), 0

    def array(self, view: View) -> Array:
        """The elements that ``view`` names, writable where its buffer is."""
        size = view.dtype.itemsize
        if not view.size or view.buffer.kind == "made":
            return np.empty(view.shape, view.dtype.numpy)
        memory, start = self.place(view.buffer)
        strides = tuple(s * size for s in view.strides)
        base = np.frombuffer(memory, np.uint8)
        return np.ndarray(view.shape, view.dtype.numpy, base, start + view.offset * size, strides)

    def block(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.control is not None:
                self.control(step)
            elif step.call is not None:
                inputs = [self.array(view).copy() for view in step.inputs]
                outputs = [self.array(view) for view in step.outputs]
                if not isinstance(step.call.function, Wait):  # what it waits for is there
                    _store(outputs, tuple(call_function(step.call, inputs)))
            elif step.says:
                _say(step, *[self.array(view) for view in step.inputs])
            else:
                _run_step(step, [self.array(view) for view in step.operands])
            for buffer in self.dying.get(step, ()):
                end = buffer.offset + buffer.nbytes
                self.arena[buffer.offset : end] = b"\xff" * buffer.nbytes

    def control(self, step: Step) -> None:
        control = step.control
        assert control is not None
        if control.kind == "parallel":  # the last member first: their order means nothing
            for block in reversed(control.blocks):
                self.block(block)
            return
        first = self.array(step.inputs[0])
        if control.kind == "cond":
            self.block(control.blocks[0 if first else 1])
            return
        for buffer in control.carried:
            self.moved[buffer] = self.place(buffer.base)
        if control.kind == "while":
            trips, go = 0, bool(first)
            while go:
                self.iteration(step, trips)
                go = bool(self.array(step.inputs[1]))
                self.move(step)
                trips += 1
            self.array(step.outputs[0])[...] = trips
            return
        count = int(first) if control.limit < 0 else min(int(first), control.limit)
        for at in range(count - 1, -1, -1) if control.reverse else range(count):
            for view in step.outputs:
                self.array(view)[...] = at
            self.iteration(step, at)
            self.move(step)

    def iteration(self, step: Step, at: int) -> None:
        for row in step.control.rows:
            if at < row.count:
                memory, start = self.place(row.base)
                self.moved[row] = memory, start + row.start + at * row.stride
            else:
                self.moved[row] = self.place(row.spare)
        self.block(step.blocks[0])

    def move(self, step: Step) -> None:
        moves = step.control.moves
        came = [self.moved[source.root] for _, source in moves]
        for (to, _), place in zip(moves, came, strict=True):
            self.moved[to] = place


def _say(step: Step, text: Array, *numbers: Array) -> None:
    written = text.tobytes().decode()
    if step.says == "error":
        REGISTRY["stop"].reference_rule(*numbers, text=written, at="")
    REGISTRY["say"].reference_rule(*numbers, text=written, stream=step.says)


def _run_step(step: Step, arrays: list[Array]) -> None:
    n_in, n_out = len(step.inputs), len(step.outputs)
    outputs = arrays[n_in : n_in + n_out]
    if step.has_pre_ops:
        made = arrays[0]
        arrays[0] = made.reshape(step.extra[0].shape)  # other ops may read it, too
        for op in step.ops:
            _run_map_op(op, arrays, step.extra[0].shape)
        arrays[0] = made
    if step.kernel is not None:
        kernel = _kernel(step.kernel, step.attrs, outputs[0])
        _store(outputs[:1] if step.ops else outputs, kernel(*arrays[:n_in]))
    for op in step.ops if not step.has_pre_ops else ():
        _run_map_op(op, arrays, outputs[0].shape)


def _run_map_op(op: MapOp, arrays: list[Array], shape: tuple[int, ...]) -> None:
    n_in = len(op.args) - op.n_out
    operands = [arrays[a] if a >= 0 else _tiles(arrays)[a] for a in op.args[:n_in]]
    results = _kernel(op.kernel, op.attrs, None)(*operands)
    for at, result in zip(
        op.args[n_in:], results if isinstance(results, tuple) else (results,), strict=True
    ):
        if at >= 0:
            arrays[at].reshape(shape)[...] = result  # what pre-ops make has another one
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


def _kernel(name: str, attrs: Sequence[float], output: Array | None) -> Kernel:
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


def _scatter(base: Array, index: Array, updates: Array) -> Array:
    out = base.copy()
    for i, at in enumerate(index):
        out[:, at] = updates[:, i]
    return out


def _scatter_add(base: Array, index: Array, updates: Array) -> Array:
    out = base.copy()
    for i, at in enumerate(index):
        out[:, at] += updates[:, i]
    return out


def _scatter_along(base: Array, index: Array, updates: Array) -> Array:
    out = base.copy()
    for row, column in np.ndindex(*index.shape):
        out[row, index[row, column]] = updates[row, column]
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
    "solve_lower": lambda a, b: _reference("solve_triangular")(a, b, upper=False),
    "solve_upper": lambda a, b: _reference("solve_triangular")(a, b, upper=True),
    "take": lambda x, index: x[:, index],
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "take_along": lambda x, index: np.take_along_axis(
        x, np.where(index < 0, index + x.shape[1], index), axis=1
    ),
    "scatter_along": _scatter_along,
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
