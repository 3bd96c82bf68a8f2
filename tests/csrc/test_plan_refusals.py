"""Every broken spec is refused with its reason, and what is accepted stays within its slots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.specs import (
    TILES,
    NativeFailure,
    Spec,
    chain,
    find,
    last_error,
    one_map,
    require_refused,
    run,
    with_post_ops,
    with_pre_ops,
)

SUM = find("sum", "float32")
BIG = 1 << 62


def change(table: str, row: int, **fields: object) -> Callable[[Spec], None]:
    def apply(spec: Spec) -> None:
        getattr(spec, table)[row].update(fields)

    return apply


def counts(**fields: int) -> Callable[[Spec], None]:
    return lambda spec: spec.counts.update(fields)


def argument(op: int, place: int, value: int) -> Callable[[Spec], None]:
    def apply(spec: Spec) -> None:
        spec.ops[op]["arg"][place] = value

    return apply


def several(*changes: Callable[[Spec], None]) -> Callable[[Spec], None]:
    def apply(spec: Spec) -> None:
        for each in changes:
            each(spec)

    return apply


def momentum() -> Spec:
    """One step of gradient descent with momentum: an op of two outputs, one of them a tile."""
    spec, x = Spec(), np.ones(8, np.float32)
    slots = [spec.external(x.nbytes) for _ in range(4)]
    rate = np.broadcast_to(x[0], x.shape)
    attrs = (0.0, 0.0, 0.0)
    step = (find("sgd_momentum", "float32"), [0, 1, 2, 3, 3], [TILES[0], TILES[1]], *attrs)
    inputs = [(slots[0], x), (slots[1], x), (slots[1], x), (slots[2], rate)]
    spec.step(inputs, [(slots[3], x)], ops=[step, (find("add", "float32"), TILES[:2], [4])])
    return spec


def another(operand: int, dtype: int, wanted: int) -> str:
    return f"operand {operand} has dtype {dtype} where the kernel takes {wanted}"


def dropout() -> Spec:
    """A kernel of three operands, each of a dtype and a size that it has to have."""
    spec, x, state = Spec(), np.ones(8, np.float32), np.zeros(2, np.int64)
    slots = [spec.external(array.nbytes) for array in (x, state, x)]
    inputs = [(slots[0], x), (slots[1], state)]
    spec.step(inputs, [(slots[2], x)], find("dropout", "float32"), attrs=[0.5])
    return spec


# What is broken -> (the spec, the change, the text).
BROKEN: dict[str, tuple[Callable[[], Spec], Callable[[Spec], None], str]] = {
    # the tables
    "negative count": (chain, counts(n_steps=-1), "steps: -1 of them at an address"),
    "negative arena": (chain, counts(arena_nbytes=-1), "arena: -1 bytes"),
    "negative externals": (chain, counts(n_externals=-2), "externals: -2 of them"),
    "negative constants": (chain, counts(constants_nbytes=-8), "constants: -8 bytes at an address"),
    # slots
    "slot kind": (chain, change("slots", 0, kind=7), "slot 0: unknown kind 7"),
    "slot size": (chain, change("slots", 1, nbytes=-1), "slot 1: -1 bytes"),
    "external": (chain, change("slots", 1, external=2), "slot 1: external 2 of 2"),
    "negative external": (chain, change("slots", 1, external=-1), "slot 1: external -1 of 2"),
    "beyond the arena": (
        chain,
        change("slots", 2, offset=40),
        "slot 2: bytes 40 + 32 are not within the 64 of the arena",
    ),
    "before the arena": (
        chain,
        change("slots", 2, offset=-8),
        "slot 2: bytes -8 + 32 are not within the 64 of the arena",
    ),
    "far beyond the arena": (
        chain,
        change("slots", 2, offset=(1 << 63) - 8, nbytes=(1 << 63) - 8),
        f"slot 2: bytes {(1 << 63) - 8} + {(1 << 63) - 8} are not within the 64 of the arena",
    ),
    "beyond the constants": (
        chain,
        change("slots", 3, nbytes=65),
        "slot 3: bytes 0 + 65 are not within the 64 of the constants",
    ),
    "last step": (chain, change("slots", 2, last_step=2), "slot 2: last step 2 of 2"),
    # operands
    "slot": (chain, change("operands", 1, slot=4), "operand 1: slot 4 of 4"),
    "negative slot": (chain, change("operands", 1, slot=-2), "operand 1: slot -2 of 4"),
    "no slot": (chain, change("operands", 1, slot=-1), "step 0: operand 1 lies nowhere"),
    "no slot of an output": (
        chain,
        change("operands", 2, slot=-1),
        "step 0: operand 2 lies nowhere",
    ),
    "dtype": (
        chain,
        change("operands", 0, dtype=13),
        "operand 0: malformed layout (dtype 13, rank 1)",
    ),
    "negative dtype": (
        chain,
        change("operands", 0, dtype=-1),
        "operand 0: malformed layout (dtype -1, rank 1)",
    ),
    "rank": (
        chain,
        change("operands", 0, rank=lib.HYB_MAX_RANK + 1),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank 33)",
    ),
    "negative rank": (
        chain,
        change("operands", 0, rank=-1),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank -1)",
    ),
    "negative size": (
        chain,
        change("operands", 0, shape=[-8]),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank 1)",
    ),
    "overflowing elements": (
        chain,
        change("operands", 0, shape=[BIG, BIG], strides=[0, 0]),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank 2)",
    ),
    "overflowing elements behind an empty axis": (
        chain,
        change("operands", 0, shape=[0, BIG, BIG], strides=[0, 0, 0]),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank 3)",
    ),
    "overflowing stride": (
        chain,
        change("operands", 0, strides=[BIG]),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank 1)",
    ),
    "overflowing sum of strides": (
        chain,
        change("operands", 0, shape=[2, 2, 2], strides=[BIG - 4, BIG - 4, BIG - 4]),
        f"operand 0: malformed layout (dtype {lib.HYB_F32}, rank 3)",
    ),
    "one element too many": (
        chain,
        change("operands", 2, shape=[9]),
        "operand 2: reaches beyond the 32 bytes of slot 2",
    ),
    "beyond by offset": (
        chain,
        change("operands", 2, offset=4),
        "operand 2: reaches beyond the 32 bytes of slot 2",
    ),
    "before by offset": (
        chain,
        change("operands", 2, offset=-4),
        "operand 2: reaches beyond the 32 bytes of slot 2",
    ),
    "before by stride": (
        chain,
        change("operands", 0, strides=[-4]),
        "operand 0: reaches beyond the 32 bytes of slot 1",
    ),
    "offset alone": (
        chain,
        change("operands", 0, shape=[0], offset=BIG),
        "operand 0: reaches beyond the 32 bytes of slot 1",
    ),
    "alignment": (
        chain,
        change("operands", 0, shape=[4], offset=2),
        "operand 0: not aligned to its items of 4 bytes",
    ),
    "alignment of strides": (
        chain,
        change("operands", 0, shape=[4], strides=[6]),
        "operand 0: not aligned to its items of 4 bytes",
    ),
    "alignment of the slot": (
        chain,
        several(change("slots", 2, offset=2, nbytes=32)),
        "operand 2: not aligned to its items of 4 bytes",
    ),
    # steps
    "step kind": (chain, change("steps", 1, kind=11), "step 1: unknown kind 11"),
    "kernel index": (
        chain,
        change("steps", 0, kernel=lib.hyb_kernel_count()),
        f"step 0: kernel {lib.hyb_kernel_count()} of {lib.hyb_kernel_count()}",
    ),
    "negative kernel": (
        chain,
        change("steps", 0, kernel=-1),
        f"step 0: kernel -1 of {lib.hyb_kernel_count()}",
    ),
    "no output": (
        chain,
        change("steps", 0, n_in=3, n_out=0),
        "step 0: 3 inputs, 0 outputs, 0 extra operands",
    ),
    "operands beyond": (chain, change("steps", 0, first_operand=4), "step 0: operands 4 + 3 of 6"),
    "operands before": (
        chain,
        change("steps", 0, first_operand=-1),
        "step 0: operands -1 + 3 of 6",
    ),
    "too many operands": (
        chain,
        change("steps", 0, n_in=(1 << 31) - 1, n_out=(1 << 31) - 1),
        f"step 0: operands 0 + {(1 << 32) - 2} of 6",
    ),
    "attributes": (chain, change("steps", 0, n_attrs=1), "step 0: attributes 0 + 1 of 0"),
    "ops": (chain, change("steps", 0, n_ops=1), "step 0: ops 0 + 1 of 0"),
    "number of inputs": (
        chain,
        change("steps", 0, n_in=1),
        "step 0: add has 2 inputs, 1 outputs and 0 attributes, not 1, 1 and 0",
    ),
    "extra operands": (
        chain,
        change("steps", 0, n_extra=1),
        "step 0: extra operands without post-ops",
    ),
    "written constant": (chain, change("operands", 5, slot=3), "step 1: output 0 is a constant"),
    "dtype of an operand": (
        chain,
        change("operands", 1, dtype=lib.HYB_I32),
        "step 0: add f32: operand 1 is i32, expected f32",
    ),
    "shape of an operand": (
        chain,
        change("operands", 1, shape=[7]),
        "step 0: add f32: operand 1 of an elementwise kernel must have rank 1 and 8 elements",
    ),
    "layout of an output": (
        chain,
        change("operands", 2, strides=[0]),
        "step 0: add f32: operand 2 of an elementwise kernel must be dense",
    ),
    "partly overlapping output": (
        chain,
        several(
            change("slots", 2, nbytes=64),
            change("operands", 3, slot=2, offset=4),
            change("operands", 5, slot=2),
        ),
        "step 1: output 0 of add overlaps its operand 0",
    ),
    # maps
    "map with a kernel": (
        one_map,
        change("steps", 0, kernel=0),
        "step 0: a map has ops, and no kernel, attributes or extra operands of its own",
    ),
    "map without ops": (
        one_map,
        change("steps", 0, n_ops=0),
        "step 0: a map has ops, and no kernel, attributes or extra operands of its own",
    ),
    "kernel of an op": (
        one_map,
        change("ops", 1, kernel=-5),
        f"step 0: kernel -5 of {lib.hyb_kernel_count()}",
    ),
    "op that is not elementwise": (
        one_map,
        change("ops", 0, kernel=SUM),
        "step 0: op 0: sum is not elementwise",
    ),
    "inputs of an op": (
        one_map,
        change("ops", 0, n_in=1),
        "step 0: op 0: add has 2 inputs, 1 outputs and 0 attributes, not 1, 1 and 0",
    ),
    "attributes of an op": (
        one_map,
        change("ops", 0, first_attr=-1),
        "step 0: op 0: attributes -1 + 0 of 0",
    ),
    "tile that does not exist": (
        one_map,
        argument(0, 2, TILES[-1]),
        f"step 0: op 0: tile {lib.HYB_MAX_TILES} of {lib.HYB_MAX_TILES}",
    ),
    "smallest tile": (
        one_map,
        argument(1, 0, -(1 << 31)),
        f"step 0: op 1: tile {(1 << 31) - 1} of {lib.HYB_MAX_TILES}",
    ),
    "tile read first": (
        one_map,
        argument(1, 0, TILES[1]),
        "step 0: op 1: reads tile 1 before it is written",
    ),
    "output read first": (
        one_map,
        argument(0, 0, 1),
        "step 0: op 0: reads operand 1 before it is written",
    ),
    "operand that does not exist": (one_map, argument(0, 0, 3), "step 0: op 0: operand 3 of 3"),
    "output that does not exist": (one_map, argument(0, 2, 3), "step 0: op 0: operand 3 of 3"),
    "written input": (
        one_map,
        argument(0, 2, 0),
        "step 0: op 0: writes operand 0, which is not its output",
    ),
    "output never written": (
        one_map,
        several(argument(1, 2, TILES[1]), argument(2, 0, TILES[1])),
        "step 0: output 0 is never written",
    ),
    "shape in a map": (
        one_map,
        change("operands", 0, shape=[7]),
        "step 0: operand 0 does not have the shape of the first output",
    ),
    "strided output": (
        one_map,
        several(change("slots", 1, nbytes=64), change("operands", 2, strides=[2])),
        "step 0: output 1 is not contiguous",
    ),
    "dtype in a map": (
        one_map,
        change("operands", 0, dtype=lib.HYB_I32),
        "step 0: add f32: operand 0 is i32, expected f32",
    ),
    "overlapping outputs": (
        one_map,
        change("operands", 2, slot=0),
        "step 0: output 0 overlaps operand 2",
    ),
    "overlapping input": (
        one_map,
        several(change("slots", 0, nbytes=36), change("operands", 0, slot=0, offset=4)),
        "step 0: output 0 overlaps operand 0",
    ),
    "broadcast input overwritten": (
        one_map,
        change("operands", 0, slot=0, strides=[0]),
        "step 0: output 0 overlaps operand 0",
    ),
    "one place written twice": (
        momentum,
        argument(0, 6, TILES[0]),
        "step 0: op 0: writes one place twice",
    ),
    "tile overwritten by smaller items": (
        one_map,
        several(argument(2, 0, TILES[0]), argument(2, 2, TILES[0]), change("steps", 0, n_out=1)),
        "step 0: op 2: reads and writes tile 0 with items of different size",
    ),
    # post-ops
    "kernel without post-ops": (
        with_post_ops,
        change("steps", 0, kernel=find("softmax", "float32")),
        "step 0: softmax takes no post-ops",
    ),
    "post-op on the kernel's input": (
        with_post_ops,
        argument(0, 1, 0),
        "step 0: op 0: reads operand 0 before it is written",
    ),
    "shape of an extra operand": (
        with_post_ops,
        change("operands", 3, shape=[4, 1, 4]),
        "step 0: operand 3 does not have the shape of the first output",
    ),
    "output over the kernel's input": (
        with_post_ops,
        change("operands", 2, slot=1),
        "step 0: output 0 of matmul overlaps its operand 0",
    ),
    # pre-ops
    "an input that nothing makes": (
        chain,
        change("operands", 0, slot=-1),
        "step 0: the first input of add lies nowhere",
    ),
    "an input that pre-ops make": (
        with_pre_ops,
        change("operands", 0, slot=2),
        "step 0: sum has an input and pre-ops to make it",
    ),
    "pre-ops of nothing": (
        with_pre_ops,
        argument(0, 1, 2),
        "step 0: the pre-ops never write what sum reads",
    ),
    "pre-op on the kernel's output": (
        with_pre_ops,
        argument(0, 1, 1),
        "step 0: op 0: writes operand 1, which is not its output",
    ),
    "number of elements of what pre-ops make": (
        with_pre_ops,
        change("operands", 0, shape=[2, 2, 1]),
        "step 0: operand 2 does not have the shape of the pre-ops",
    ),
    "shape of an operand of pre-ops": (
        with_pre_ops,
        change("operands", 3, shape=[3, 2], strides=[8, 4]),
        "step 0: operand 3 does not have the shape of the pre-ops",
    ),
    "strided output of pre-ops": (
        with_pre_ops,
        change("operands", 2, strides=[4, 8]),
        "step 0: output 1 is not contiguous",
    ),
    "what pre-ops make with gaps": (
        with_pre_ops,
        change("operands", 0, strides=[16, 4, 4]),
        "step 0: what the pre-ops make is not contiguous",
    ),
    "reduction over what pre-ops read": (
        with_pre_ops,
        change("operands", 3, slot=0, strides=[0, 0]),
        "step 0: output 0 overlaps operand 3",
    ),
    "output over an extra operand": (
        with_post_ops,
        change("operands", 3, slot=0, strides=[64, 16, 4]),
        "step 0: output 0 overlaps operand 3",
    ),
    # what a kernel has to have
    "dropout of integers": (
        dropout,
        change("operands", 0, dtype=lib.HYB_I32),
        f"step 0: dropout f32: {another(0, lib.HYB_I32, lib.HYB_F32)}",
    ),
    "dropout with another state": (
        dropout,
        change("operands", 1, dtype=lib.HYB_F64),
        f"step 0: dropout f32: {another(1, lib.HYB_F64, lib.HYB_I64)}",
    ),
    "dropout with a short state": (
        dropout,
        change("operands", 1, shape=[1]),
        "step 0: dropout f32: axis 0 of operand 1 has size 1 where the others say 2",
    ),
    "dropout into integers": (
        dropout,
        change("operands", 2, dtype=lib.HYB_I32),
        f"step 0: dropout f32: {another(2, lib.HYB_I32, lib.HYB_F32)}",
    ),
    "dropout into less": (
        dropout,
        change("operands", 2, shape=[7]),
        "step 0: dropout f32: axis 0 of operand 2 has size 7 where the others say 8",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_specs_are_refused(name: str) -> None:
    require_refused(*BROKEN[name])


def test_missing_tables_are_refused() -> None:
    assert lib.hyb_plan_create(ffi.NULL) == ffi.NULL
    assert last_error() == "a plan needs a spec"
    for table in ("steps", "operands", "slots", "ops", "attrs"):
        spec = ffi.new("hyb_plan_spec *", {f"n_{table}": 1})
        assert lib.hyb_plan_create(spec) == ffi.NULL
        assert last_error() == f"{table}: 1 of them at no address"
    assert lib.hyb_plan_create(ffi.new("hyb_plan_spec *", {"constants_nbytes": 8})) == ffi.NULL
    assert last_error() == "constants: 8 bytes at no address"


def test_damaged_specs_are_refused_or_safe_to_run() -> None:
    """What is accepted stays within its slots: guard bytes around every external are untouched."""
    random = np.random.default_rng(7)
    edges = [0, 1, -1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 64, -4, -8, 1 << 20, (1 << 31) - 1, -(1 << 31)]
    wide = [*edges, 1 << 33, BIG, -BIG, (1 << 63) - 1, -(1 << 63)]
    accepted = 0
    for _ in range(4000):
        spec = (chain, one_map, with_post_ops)[random.integers(3)]()
        spec.counts["poison"] = int(random.integers(2))
        for _ in range(random.integers(1, 4)):
            table = ("steps", "operands", "slots", "ops")[random.integers(4)]
            rows = getattr(spec, table)
            if not rows:
                continue
            row = rows[random.integers(len(rows))]
            field = list(row)[random.integers(len(row))]
            values = wide if field in ("offset", "nbytes") else edges
            if isinstance(row[field], list):
                if row[field]:
                    values = wide if field in ("shape", "strides") else edges
                    row[field][random.integers(len(row[field]))] = values[
                        random.integers(len(values))
                    ]
            else:
                row[field] = values[random.integers(len(values))]
        try:
            plan = spec.create()
        except NativeFailure:
            continue
        sizes = [0] * spec.counts["n_externals"]
        for slot in spec.slots:
            if slot["kind"] == lib.HYB_SLOT_EXTERNAL:
                sizes[slot["external"]] = max(sizes[slot["external"]], slot["nbytes"])
        if max(sizes, default=0) > 1 << 21 or lib.hyb_plan_arena_nbytes(plan) > 1 << 21:
            continue
        guarded = [np.full(n + 128, 0x55, np.uint8) for n in sizes]
        run(plan, *(memory[64:-64] for memory in guarded))
        for memory in guarded:
            assert (memory[:64] == 0x55).all() and (memory[-64:] == 0x55).all()
        accepted += 1
    assert accepted > 400
