"""Maps: every way in which operands can be laid out, against NumPy; in place; several outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hybrid._native import lib

from tests.csrc.specs import TILES, NativeFailure, Spec, find, map_spec, pointer, run, run_map

TILE = lib.HYB_TILE
SHAPES = [
    (), (1,), (5,), (TILE - 1,), (TILE,), (TILE + 1,), (100_003,), (0,), (3, 0), (1, 1, 1),
    (1000, 10), (7, 300), (3, TILE // 2), (5, TILE + 1), (2, 9 * TILE - 3), (3, 4, 5),
    (50, 17, 33), (2, 1, 3, 700), (2, 3, 2, 1, 2, 1, 3, 2), (2, 4, 9, 31, 16),
    (3, 2, 700, 16), (2, 3, 40, 7, 24),
]  # fmt: skip


def floats(*shape: int) -> np.ndarray:
    random = np.random.default_rng(sum(shape) + len(shape))
    return np.asarray(random.standard_normal(shape, np.float32))


def strided(shape: tuple[int, ...]) -> np.ndarray:
    """Every second element of a larger array."""
    return floats(*(2 * n for n in shape))[(..., *(slice(None, None, 2) for _ in shape))]


def transposed(shape: tuple[int, ...]) -> np.ndarray:
    return floats(*shape[::-1]).transpose()


def column(shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(floats(*shape[:-1], 1), shape)


def channel(shape: tuple[int, ...]) -> np.ndarray:
    """One value per index of the second axis, as in [N, C, H, W] + [C, 1, 1]."""
    return np.broadcast_to(floats(*(n if d == 1 else 1 for d, n in enumerate(shape))), shape)


def block(shape: tuple[int, ...]) -> np.ndarray:
    """One value per channel of images in blocks, as in [N, C, H, W, 16] + [C, 1, 1, 16]."""
    kept = (1, len(shape) - 1)
    return np.broadcast_to(floats(*(n if d in kept else 1 for d, n in enumerate(shape))), shape)


LAYOUTS: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "dense": lambda shape: floats(*shape),
    "scalar": lambda shape: np.broadcast_to(floats(), shape),
    "row": lambda shape: np.broadcast_to(floats(*shape[-1:]), shape),
    "column": lambda shape: column(shape) if shape else floats(),
    "channel": channel,
    "block": block,
    "transposed": transposed,
    "reversed": lambda shape: floats(*shape)[(..., *(slice(None, None, -1) for _ in shape))],
    "strided": strided,
}


def as_laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """Some of ``values``, repeated or placed as ``layout`` says."""
    dtype, shape = values.dtype, values.shape
    like = LAYOUTS[layout](shape)
    base = like if like.base is None else like.base
    memory = np.resize(values.ravel(), base.shape).astype(dtype)
    start = like.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = [stride // 4 * dtype.itemsize for stride in like.strides]
    return np.ndarray(shape, dtype, memory, start // 4 * dtype.itemsize, strides)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(shape: tuple[int, ...], layout: str) -> None:
    """``where(a < b, (a + b) * c, -a)`` with the layout at each of its places."""
    add, multiply, negative, less = (
        find(name, "float32") for name in ("add", "multiply", "negative", "less")
    )
    where = find("where_f32", "bool")
    ops = [
        (add, [0, 1], [TILES[0]]),
        (multiply, [TILES[0], 2], [TILES[1]]),
        (less, [0, 1], [TILES[2]]),
        (negative, [0], [TILES[0]]),
        (where, [TILES[2], TILES[1], TILES[0]], [3]),
    ]
    special = LAYOUTS[layout](shape)
    for place in range(3):
        a, b, c = (special if i == place else np.asarray(floats(*shape) + i) for i in range(3))
        out = np.full(shape, np.nan, np.float32)
        run_map(ops, [a, b, c], [out])
        assert np.array_equal(out, np.where(a < b, (a + b) * c, -a))


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("shape", [(1000, 10), (37, 700), (3, 4, 5, 6)], ids=str)
def test_one_op_with_two_layouts(first: str, second: str, shape: tuple[int, ...]) -> None:
    a, b, out = LAYOUTS[first](shape), LAYOUTS[second](shape), np.empty(shape, np.float32)
    run_map([(find("subtract", "float32"), [0, 1], [2])], [a, b], [out])
    assert np.array_equal(out, a - b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1000, 10), (37, 700), (3, 4, 5, 6)], ids=str)
def test_items_of_other_sizes(shape: tuple[int, ...], layout: str) -> None:
    """Bytes and eight-byte items are gathered by loops of their own."""
    mask, x, y = as_laid_out(floats(*shape) > 0, layout), floats(*shape), floats(*shape) + 1
    out = np.empty(shape, np.float32)
    run_map([(find("where_f32", "bool"), [0, 1, 2], [3])], [mask, x, y], [out])
    assert np.array_equal(out, np.where(mask, x, y))

    a, b = as_laid_out(floats(*shape).astype(np.float64), layout), floats(*shape) + np.float64(1)
    wide = np.empty(shape, np.float64)
    run_map([(find("subtract", "float64"), [0, 1], [2])], [a, b], [wide])
    assert np.array_equal(wide, a - b)


@pytest.mark.parametrize("n", [1, 7, 3000])
def test_attributes_reach_their_kernels(n: int) -> None:
    """Two sgd ops of different weight decay in one map, and one as a kernel step."""
    sgd, add = find("sgd", "float32"), find("add", "float32")
    p, g = floats(n), floats(n) + 1
    rate = np.broadcast_to(np.float32(0.5), (n,))
    out = np.empty_like(p)
    ops = [
        (sgd, [0, 1, 2], [TILES[0]], 0.25, 0.0),
        (sgd, [0, 1, 2], [TILES[1]], 0.0, 1.0),
        (add, TILES[:2], [3]),
    ]
    run_map(ops, [p, g, rate], [out])
    expected = (p - 0.5 * (g + 0.25 * p)) + (p + 0.5 * g)
    assert np.allclose(out, expected, rtol=1e-6, atol=1e-6)

    spec = Spec()
    slots = [
        spec.external(p.nbytes),
        spec.external(g.nbytes),
        spec.external(4),
        spec.external(4 * n),
    ]
    inputs = list(zip(slots, (p, g, rate), strict=False))
    spec.step(inputs, [(slots[3], out)], sgd, attrs=[0.25, 0.0])
    run(spec.create(), p, g, np.array([0.5], np.float32), out)
    assert np.allclose(out, p - 0.5 * (g + 0.25 * p), rtol=1e-6, atol=1e-6)


def test_operands_in_another_order_and_unused_ones() -> None:
    a, b, c = floats(1000), floats(1000) + 1, floats(1000) + 2
    out = np.empty_like(a)
    run_map([(find("subtract", "float32"), [2, 0], [3])], [a, b, c], [out])
    assert np.array_equal(out, c - a)


@pytest.mark.parametrize("shape", [(8,), (3000,), (1000, 10)], ids=str)
def test_outputs_can_be_read_by_later_ops(shape: tuple[int, ...]) -> None:
    add, less = find("add", "float32"), find("less", "float32")
    a, b = floats(*shape), LAYOUTS["row"](shape)
    total, smaller, twice = (
        np.empty(shape, np.float32),
        np.empty(shape, bool),
        np.empty(shape, np.float32),
    )
    ops = [(add, [0, 1], [2]), (less, [2, 0], [3]), (add, [2, 2], [4])]
    run_map(ops, [a, b], [total, smaller, twice])
    assert np.array_equal(total, a + b)
    assert np.array_equal(smaller, a + b < a)
    assert np.array_equal(twice, (a + b) + (a + b))


@pytest.mark.parametrize("shape", [(1,), (8,), (3000,), (1000, 10), (7, 300)], ids=str)
@pytest.mark.parametrize("other", ["dense", "row", "scalar"])
def test_in_place(shape: tuple[int, ...], other: str) -> None:
    """The output's slot is the first input's; the second op must still see its old bytes."""
    add, multiply = find("add", "float32"), find("multiply", "float32")
    x, y = floats(*shape), LAYOUTS[other](shape)
    base = y if y.base is None else y.base
    spec = Spec()
    slots = spec.external(x.nbytes), spec.external(base.nbytes), spec.external(x.nbytes)
    ops = [(add, [0, 1], [2]), (multiply, [0, 1], [3])]
    spec.step([(slots[0], x), (slots[1], y)], [(slots[0], x), (slots[2], x)], ops=ops)
    changed, product = x.copy(), np.empty_like(x)
    run(spec.create(), changed, base, product)
    assert np.array_equal(changed, x + y)
    assert np.array_equal(product, x * y)


def test_run_takes_as_many_externals_as_the_plan_has() -> None:
    a, b, out = floats(9), floats(9), np.empty(9, np.float32)
    spec = Spec()
    slots = [spec.external(36) for _ in range(3)]
    spec.step(
        [(slots[1], a), (slots[2], b)],
        [(slots[0], out)],
        ops=[(find("add", "float32"), [0, 1], [2])],
    )
    plan = spec.create()
    assert lib.hyb_run2(plan, pointer(out), pointer(a), pointer(b)) == lib.HYB_OK
    assert np.array_equal(out, a + b)
    assert lib.hyb_run1(plan, pointer(out), pointer(a)) == lib.HYB_BAD_ARGUMENT
    assert lib.hyb_run3(plan, *map(pointer, (out, a, b, b))) == lib.HYB_BAD_ARGUMENT


@pytest.mark.parametrize("n", [1, 7, 40, 70, 600])
@pytest.mark.parametrize("extra", ["dense", "row", "column", "scalar", "transposed"])
def test_post_ops(n: int, extra: str) -> None:
    """``-(x @ w + b)`` over itself, and ``x @ w + b < b`` to an output of its own."""
    add, negative, less = (find(name, "float32") for name in ("add", "negative", "less"))
    matmul = find("matmul", "float32")
    x, w, bias = floats(1, 33, 20), floats(1, 20, n), LAYOUTS[extra]((1, 33, n))
    out, flags = np.empty((1, 33, n), np.float32), np.empty((1, 33, n), bool)
    product = np.empty_like(out)

    plain = Spec()
    slots = [plain.external(array.nbytes) for array in (product, x, w)]
    plain.step([(slots[1], x), (slots[2], w)], [(slots[0], out)], matmul)
    run(plain.create(), product, x, w)

    base = bias if bias.base is None else bias.base
    spec = Spec()
    slots = [spec.external(array.nbytes) for array in (x, w, out, flags, base)]
    ops = [(add, [2, 4], [TILES[0]]), (less, [TILES[0], 4], [3]), (negative, [TILES[0]], [2])]
    spec.step(
        [(slots[0], x), (slots[1], w)],
        [(slots[2], out), (slots[3], flags)],
        matmul,
        ops,
        [(slots[4], bias)],
    )
    run(spec.create(), x, w, out, flags, base)
    assert np.array_equal(out, -(product + bias))
    assert np.array_equal(flags, product + bias < bias)


def over_the_product(ops: Any, second: int) -> tuple[Spec, Any, Any, Any]:
    """``int(x @ w)``, where the product lies, or ``second`` bytes behind; and ``-(x @ w)``."""
    x, w = floats(1, 33, 20), floats(1, 20, 40)
    product = np.empty((1, 33, 40), np.float32)
    spec = Spec()
    slots = [spec.external(n) for n in (x.nbytes, w.nbytes, product.nbytes + 64, product.nbytes)]
    spec.step(
        [(slots[0], x), (slots[1], w)],
        [(slots[2], product), (slots[2], product.view(np.int32)), (slots[3], product)],
        find("matmul", "float32"),
        ops,
    )
    spec.operands[3]["offset"] = second
    return spec, x, w, np.empty(33 * 40 + 16, np.float32)


CAST = find("cast_i32", "float32"), [2], [3]
MINUS = find("negative", "float32"), [2], [4]


def test_post_ops_write_where_the_product_was() -> None:
    spec, x, w, out = over_the_product([MINUS, CAST], 0)
    negative = np.empty((1, 33, 40), np.float32)
    run(spec.create(), x, w, out, negative)
    found = out[: 33 * 40].view(np.int32).reshape(1, 33, 40)
    assert np.array_equal(found, (-negative).astype(np.int32))
    np.testing.assert_allclose(-negative, x @ w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("ops", "second"), [([CAST, MINUS], 0), ([MINUS, CAST], 64)])
def test_post_ops_do_not_write_over_a_product_that_is_read(ops: Any, second: int) -> None:
    spec, *_ = over_the_product(ops, second)
    with pytest.raises(NativeFailure, match="overlaps operand"):
        spec.create()


def test_tiles_of_every_number() -> None:
    """A chain through all tile buffers."""
    add = find("add", "float32")
    x, out = floats(2000), np.empty(2000, np.float32)
    tiles = TILES[: lib.HYB_MAX_TILES]
    ops = [(add, [previous, 0], [tile]) for previous, tile in zip([0, *tiles], tiles, strict=False)]
    run_map([*ops, (add, [tiles[-1], 0], [1])], [x], [out])
    expected = x
    for _ in range(lib.HYB_MAX_TILES + 1):
        expected = expected + x
    assert np.array_equal(out, expected)


def test_a_map_is_the_same_by_any_number_of_threads() -> None:
    add, multiply = find("add", "float32"), find("multiply", "float32")
    a, b = floats(3000, 300), LAYOUTS["row"]((3000, 300))
    plan = map_spec(
        [(add, [0, 1], TILES[:1]), (multiply, [TILES[0], 0], [2])], [a, b], [np.empty_like(a)]
    ).create()
    threads = lib.hyb_num_threads()
    try:
        for n in (1, 2, 3, 8):
            assert lib.hyb_set_num_threads(n) == lib.HYB_OK
            out = np.full_like(a, np.nan)
            run(plan, a, b.base, out)
            assert np.array_equal(out, (a + b) * a)
    finally:
        lib.hyb_set_num_threads(threads)
