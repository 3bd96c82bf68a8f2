"""Plan specs by hand: how the tests of the C runtime describe plans, without the planner."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hybrid._native import ffi, lib

DTYPES = {
    np.dtype(name): code
    for name, code in {
        "bool": lib.HYB_BOOL,
        "int8": lib.HYB_I8,
        "int16": lib.HYB_I16,
        "int32": lib.HYB_I32,
        "int64": lib.HYB_I64,
        "uint8": lib.HYB_U8,
        "uint16": lib.HYB_U16,
        "uint32": lib.HYB_U32,
        "uint64": lib.HYB_U64,
        "float32": lib.HYB_F32,
        "float64": lib.HYB_F64,
    }.items()
}
TILES = [-1 - i for i in range(lib.HYB_MAX_TILES + 1)]  # as arguments of map ops; one too many


MapOp = tuple[Any, ...]  # kernel, arguments read, arguments written, attributes ...


class NativeFailure(Exception):
    """A status that is not HYB_OK, with its text."""


def last_error() -> str:
    return ffi.string(lib.hyb_last_error()).decode()


def live_bytes() -> int:
    """Bytes handed out by the allocator, without those of plans that wait in reference cycles."""
    gc.collect()
    return lib.hyb_memory().live_bytes


def find(name: str, dtype: str) -> int:
    """The index of a kernel, which must exist."""
    kernel = lib.hyb_find_kernel(name.encode(), DTYPES[np.dtype(dtype)])
    assert kernel >= 0, last_error()
    return kernel


class Spec:
    """A ``hyb_plan_spec`` as lists of dicts, open to any change before ``create``."""

    def __init__(self, poison: bool = False) -> None:
        self.steps: list[dict[str, int]] = []
        self.operands: list[dict[str, Any]] = []
        self.slots: list[dict[str, int]] = []
        self.ops: list[dict[str, Any]] = []
        self.attrs: list[int | float] = []
        self.blocks: list[dict[str, int]] = []
        self.controls: list[dict[str, int]] = []
        self.moves: list[dict[str, int]] = []
        self.constants = bytearray()
        self.counts: dict[str, int] = {"arena_nbytes": 0, "n_externals": 0, "poison": int(poison)}

    # Slots: each returns its index.

    def _slot(
        self,
        kind: int,
        nbytes: int,
        offset: int = 0,
        external: int = 0,
        last: int = -1,
        **moving: int,
    ) -> int:
        self.slots.append(
            {
                "kind": kind,
                "external": external,
                "offset": offset,
                "nbytes": nbytes,
                "last_step": last,
                **moving,
            }
        )
        return len(self.slots) - 1

    def row(
        self,
        loop: int,
        base: int,
        nbytes: int,
        count: int,
        stride: int | None = None,
        offset: int = 0,
        spare: int = -1,
    ) -> int:
        moving = {"loop": loop, "base": base, "spare": spare, "count": count}
        stride = nbytes if stride is None else stride
        return self._slot(lib.HYB_SLOT_ROW, nbytes, offset, stride=stride, **moving)

    def carried(self, loop: int, base: int, nbytes: int) -> int:
        return self._slot(lib.HYB_SLOT_CARRIED, nbytes, loop=loop, base=base)

    def external(self, nbytes: int) -> int:
        self.counts["n_externals"] += 1
        return self._slot(lib.HYB_SLOT_EXTERNAL, nbytes, external=self.counts["n_externals"] - 1)

    def arena(self, nbytes: int, last: int = -1) -> int:
        offset = self.counts["arena_nbytes"]
        self.counts["arena_nbytes"] += -(-nbytes // 64) * 64
        return self._slot(lib.HYB_SLOT_ARENA, nbytes, offset, last=last)

    def constant(self, array: np.ndarray) -> int:
        offset = len(self.constants)
        self.constants += array.tobytes() + bytes(-array.nbytes % 64)
        return self._slot(lib.HYB_SLOT_CONSTANT, array.nbytes, offset)

    # Operands and steps.

    def _operand(self, slot: int, array: np.ndarray, offset: int) -> None:
        self.operands.append(
            {
                "slot": slot,
                "offset": offset,
                "dtype": DTYPES[array.dtype],
                "shape": list(array.shape),
                "strides": list(array.strides),
            }
        )

    def step(
        self,
        inputs: Sequence[tuple[int, np.ndarray] | tuple[int, np.ndarray, int]],
        outputs: Sequence[tuple[int, np.ndarray]],
        kernel: int = -1,
        ops: Sequence[MapOp] = (),
        extras: Sequence[tuple[int, np.ndarray]] = (),
        attrs: Sequence[int | float] = (),
    ) -> None:
        """Operands are (slot, array of their layout[, offset])."""
        self.steps.append(
            {
                "kind": lib.HYB_STEP_MAP if kernel < 0 else lib.HYB_STEP_KERNEL,
                "kernel": kernel,
                "first_operand": len(self.operands),
                "n_in": len(inputs),
                "n_out": len(outputs),
                "n_extra": len(extras),
                "first_attr": len(self.attrs),
                "n_attrs": len(attrs),
                "first_op": len(self.ops),
                "n_ops": len(ops),
            }
        )
        self.attrs += attrs
        for slot, array, *offset in (*inputs, *outputs, *extras):
            self._operand(slot, array, *(offset or [0]))
        for op, op_in, op_out, *op_attrs in ops:
            self.ops.append(
                {
                    "kernel": op,
                    "n_in": len(op_in),
                    "n_out": len(op_out),
                    "first_attr": len(self.attrs),
                    "n_attrs": len(op_attrs),
                    "arg": [*op_in, *op_out],
                }
            )
            self.attrs += op_attrs

    def block(self, count: int) -> None:
        """The next ``count`` steps are a block."""
        first = sum(b["count"] for b in self.blocks)
        self.blocks.append({"first": first, "count": count})

    def control(
        self,
        kind: int,
        inputs: Sequence[tuple[int, np.ndarray]],
        outputs: Sequence[tuple[int, np.ndarray]] = (),
        block: int = 1,
        otherwise: int = -1,
        moves: Sequence[tuple[int, int]] = (),
        limit: int = -1,
        reverse: bool = False,
    ) -> None:
        """A cond, while or for; ``moves`` are pairs of slots, (to, from)."""
        self.controls.append(
            {
                "block": block,
                "otherwise": otherwise,
                "first_move": len(self.moves),
                "n_moves": len(moves),
                "limit": limit,
                "reverse": int(reverse),
            }
        )
        self.moves += [{"to": to, "from": source} for to, source in moves]
        self.step(inputs, outputs)
        self.steps[-1].update(kind=kind, kernel=len(self.controls) - 1)

    def parallel(self, members: int, block: int = 1) -> None:
        """Blocks ``block`` and so on side by side, ``members`` of them."""
        self.control(lib.HYB_STEP_PARALLEL, [], block=block)
        self.controls[-1]["members"] = members

    def host(
        self,
        number: int,
        inputs: Sequence[tuple[int, np.ndarray]],
        outputs: Sequence[tuple[int, np.ndarray]] = (),
    ) -> None:
        self.step(inputs, outputs)
        self.steps[-1].update(kind=lib.HYB_STEP_HOST, kernel=number)

    def next(
        self,
        number: int,
        queue: tuple[int, np.ndarray],
        outputs: Sequence[tuple[int, np.ndarray]],
        kept: Sequence[tuple[int, np.ndarray]] = (),
    ) -> None:
        """``kept`` are inputs, which the last outputs are."""
        self.host(number, [queue, *kept], outputs)
        attr = {"first_attr": len(self.attrs), "n_attrs": 1}
        self.steps[-1].update(kind=lib.HYB_STEP_NEXT, **attr)
        self.attrs.append(len(kept))

    def native(self) -> tuple[Any, list[Any]]:
        """The ``hyb_plan_spec`` and what it points to."""
        keep = [
            ffi.new("hyb_step[]", self.steps),
            ffi.new("hyb_operand[]", len(self.operands)),
            ffi.new("hyb_slot[]", self.slots),
            ffi.new("hyb_map_op[]", self.ops),
            ffi.new("hyb_attr[]", len(self.attrs)),
            ffi.new("char[]", bytes(self.constants)),
            ffi.new("hyb_block[]", self.blocks),
            ffi.new("hyb_control[]", self.controls),
            ffi.new("hyb_move[]", self.moves),
        ]
        for row, operand in zip(keep[1], self.operands, strict=True):
            row.slot, row.offset = operand["slot"], operand["offset"]
            row.layout.dtype = operand["dtype"]
            row.layout.rank = operand.get("rank", len(operand["shape"]))
            row.layout.shape[0 : len(operand["shape"])] = operand["shape"]
            row.layout.strides[0 : len(operand["strides"])] = operand["strides"]
        for row, attr in zip(keep[4], self.attrs, strict=True):
            if isinstance(attr, float):
                row.f = attr
            else:
                row.i = attr
        fields = {
            "steps": keep[0],
            "n_steps": len(self.steps),
            "operands": keep[1],
            "n_operands": len(self.operands),
            "slots": keep[2],
            "n_slots": len(self.slots),
            "ops": keep[3],
            "n_ops": len(self.ops),
            "attrs": keep[4],
            "n_attrs": len(self.attrs),
            "constants": keep[5],
            "constants_nbytes": len(self.constants),
            "blocks": keep[6],
            "n_blocks": len(self.blocks),
            "controls": keep[7],
            "n_controls": len(self.controls),
            "moves": keep[8],
            "n_moves": len(self.moves),
        }
        return ffi.new("hyb_plan_spec *", {**fields, **self.counts}), keep

    def create(self) -> Any:
        """The plan, freed with the object that stands for it."""
        spec, _keep = self.native()
        plan = lib.hyb_plan_create(spec)
        if not plan:
            raise NativeFailure(last_error())
        return ffi.gc(plan, lib.hyb_plan_free)


def pointer(array: np.ndarray) -> Any:
    return ffi.cast("void *", array.ctypes.data)


def run(plan: Any, *arrays: np.ndarray) -> None:
    """Run ``plan`` on the externals ``arrays``."""
    externals = ffi.new("void *[]", [pointer(a) for a in arrays])
    if status := lib.hyb_plan_run(plan, externals):
        name = ffi.string(lib.hyb_status_name(status)).decode()
        raise NativeFailure(f"{name} at step {lib.hyb_last_step()}: {last_error()}")


def require_refused(make: Callable[[], Spec], change: Callable[[Spec], None], text: str) -> None:
    """A spec that is whole is refused with ``text`` once it is changed, and leaves nothing."""
    make().create()
    spec = make()
    change(spec)
    before = live_bytes()
    with pytest.raises(NativeFailure) as failure:
        spec.create()
    assert str(failure.value) == text
    assert live_bytes() == before


def map_spec(
    ops: Sequence[MapOp],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
) -> Spec:
    """A plan of one map; externals are the inputs' bases, then the outputs."""
    spec = Spec()

    def place(array: np.ndarray) -> tuple[int, np.ndarray, int]:
        base = array if array.base is None else array.base
        start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return spec.external(base.nbytes), array, start

    spec.step([place(a) for a in inputs], [place(a) for a in outputs], ops=ops)
    return spec


def run_map(
    ops: Sequence[MapOp],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
) -> None:
    plan = map_spec(ops, inputs, outputs).create()
    run(plan, *(a if a.base is None else a.base for a in (*inputs, *outputs)))


# Samples.

X = np.arange(8, dtype=np.float32)


def chain(poison: bool = False, last: int = 1) -> Spec:
    """``(x + x) + constant``: the sum in the arena, dead after step ``last``."""
    add, spec = find("add", "float32"), Spec(poison)
    out, x = spec.external(X.nbytes), spec.external(X.nbytes)
    total, constant = spec.arena(X.nbytes, last), spec.constant(X)
    spec.step([(x, X), (x, X)], [(total, X)], add)
    spec.step([(total, X), (constant, X)], [(out, X)], add)
    return spec


def one_map() -> Spec:
    """``x + x + x`` through a tile, and whether that is less than x."""
    add, less, spec = find("add", "float32"), find("less", "float32"), Spec()
    out, flags, x = spec.external(X.nbytes), spec.external(X.size), spec.external(X.nbytes)
    ops = [(add, [0, 0], TILES[:1]), (add, [TILES[0], 0], [1]), (less, [1, 0], [2])]
    spec.step([(x, X)], [(out, X), (flags, X.astype(bool))], ops=ops)
    return spec


def with_pre_ops() -> Spec:
    """The sums of the rows of ``-x`` with x[2, 3], which is stored as well."""
    x, sums = np.ones((2, 3), np.float32), np.ones((2, 1), np.float32)
    negative, reduce, spec = find("negative", "float32"), find("sum", "float32"), Spec()
    slots = [spec.external(array.nbytes) for array in (sums, x, x)]
    ops = [(negative, [3], [0]), (negative, [3], [2])]
    made = (-1, x.reshape(2, 3, 1))
    spec.step([made], [(slots[0], sums), (slots[1], x)], reduce, ops, [(slots[2], x)])
    return spec


def with_post_ops() -> Spec:
    """``x @ x + bias`` with x[1, 4, 4]."""
    x, bias = np.ones((1, 4, 4), np.float32), np.ones(4, np.float32)
    add, matmul, spec = find("add", "float32"), find("matmul", "float32"), Spec()
    slots = spec.external(x.nbytes), spec.external(x.nbytes), spec.external(bias.nbytes)
    row = np.broadcast_to(bias, x.shape)
    spec.step(
        [(slots[1], x), (slots[1], x)],
        [(slots[0], x)],
        matmul,
        [(add, [2, 3], [2])],
        [(slots[2], row)],
    )
    return spec


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Run ``work(0)``, ``work(1)`` and so on at once."""
    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
