"""Products with weights in groups: against NumPy, by any number of threads, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, DTypeError, HybridError, ShapeError
from hybrid.memory import native
from hybrid.ops.matrix.grouped_products import (
    NORMAL_FLOAT,
    groups_of,
    matmul_grouped,
    matmul_grouped_integer,
)

# Rows, outputs, inputs: tails of vectors and bytes; few rows and many; single ones.
SHAPES = [
    (1, 1, 1), (1, 5, 2), (1, 19, 63), (1, 70, 128), (2, 33, 129), (3, 16, 640), (4, 65, 65),
    (7, 9, 200), (8, 17, 96), (9, 64, 64), (14, 130, 391), (1, 16, 2100), (5, 3, 2051),
]  # fmt: skip
GROUPS = [1, 7, 8, 16, 24, 32, 64, 96, 128, 5000]
KINDS = ["halves", "zeros", "table", "bytes", "byte zeros"]


def weights(kind: str, outputs: int, size: int, group: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Operands behind x, and the weights that they stand for, in float64."""
    draw = np.random.default_rng(outputs + size + group)
    if "byte" in kind:
        packed = draw.integers(-128, 128, (outputs, size)).astype(np.int8)
        values = packed.astype(np.float64)
    else:
        packed = draw.integers(0, 256, (outputs, -(-size // 2))).astype(np.uint8)
        halves = np.stack([packed & 15, packed >> 4], -1).reshape(outputs, -1)[:, :size]
        values = NORMAL_FLOAT[halves].astype(np.float64) if kind == "table" else halves - 8.0
    counts = groups_of(size, group)
    scales = [draw.uniform(0.01, 0.2, (outputs, counts)).astype(np.float32)]
    if "zeros" in kind:
        scales.append(draw.uniform(-1, 1, (outputs, counts)).astype(np.float32))
    wide = [np.repeat(s.astype(np.float64), group, axis=1)[:, :size] for s in scales]
    return [packed, *scales], values * wide[0] + (wide[1] if len(wide) > 1 else 0)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_as_near_as_a_product_of_floats(kind: str, group: int) -> None:
    draw = np.random.default_rng(1)
    for rows, outputs, size in SHAPES:
        operands, weight = weights(kind, outputs, size, group)
        x = draw.standard_normal((rows, size)).astype(np.float32)
        want = x.astype(np.float64) @ weight.T
        given = list(map(hy.asarray, (x, *operands)))
        found = matmul_grouped(*given, group_size=group, table=kind == "table").numpy()
        # Halves are 8 more than the weight while they are summed.
        most = np.abs(weight) + (8 * np.abs(weight).max() / 7 if kind != "table" else 0)
        allowed = 4e-7 * np.sqrt(size + 16) * np.sqrt((x.astype(np.float64) ** 2) @ (most**2).T)
        assert (np.abs(found - want) <= allowed).all(), (rows, outputs, size)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", ["halves", "bytes"])
def test_integers_are_exact(kind: str, group: int) -> None:
    """The sums of a group are; then products and sums are rounded one by one, in order."""
    draw = np.random.default_rng(2)
    for rows, outputs, size in [*SHAPES, (70, 11, 50)]:
        (packed, scale), weight = weights(kind, outputs, size, group)
        q = np.rint(weight / np.repeat(scale, group, axis=1)[:, :size]).astype(np.int64)
        x = draw.integers(-128, 128, (rows, size)).astype(np.int8)
        want = np.zeros((rows, outputs), np.float32)
        for g in range(scale.shape[1]):
            at = slice(g * group, (g + 1) * group)
            sums = x[:, at].astype(np.int64) @ q[:, at].T
            want = want + sums.astype(np.float32) * scale[:, g]
        given = list(map(hy.asarray, (x, packed, scale)))
        found = matmul_grouped_integer(*given, group_size=group).numpy()
        assert found.tobytes() == want.tobytes(), (rows, outputs, size)


def test_the_extremes_are_exact() -> None:
    for low in (-128, 127):
        for byte in (0x00, 0xFF, 0x0F):
            x = np.full((2, 512), low, np.int8)
            packed = np.full((20, 256), byte, np.uint8)
            scale = np.ones((20, 1), np.float32)
            found = matmul_grouped_integer(*map(hy.asarray, (x, packed, scale)), group_size=512)
            want = low * 256 * ((byte & 15) + (byte >> 4) - 16)
            assert (found.numpy() == want).all()


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_threads_do_not_change_bits(rows: int) -> None:
    draw = np.random.default_rng(3)
    x = draw.standard_normal((rows, 1024)).astype(np.float32)
    steps = draw.integers(-128, 128, (rows, 1024)).astype(np.int8)
    before = native.num_threads()
    for kind in KINDS:
        operands, _ = weights(kind, 1000, 1024, 32)
        calls: list[Callable[[], hy.Tensor]] = [
            lambda o=operands, k=kind: matmul_grouped(
                hy.asarray(x), *map(hy.asarray, o), group_size=32, table=k == "table"
            )
        ]
        if len(operands) == 2 and kind != "table":
            calls.append(
                lambda o=operands: matmul_grouped_integer(
                    hy.asarray(steps), *map(hy.asarray, o), group_size=32
                )
            )
        for call in calls:
            native.set_num_threads(1)
            want = call().numpy()
            native.set_num_threads(3)
            assert call().numpy().tobytes() == want.tobytes()
            native.set_num_threads(before)


def test_gradients_are_those_of_the_weights_in_floats() -> None:
    operands, weight = weights("zeros", 6, 11, 4)
    x = hy.asarray(np.random.default_rng(4).standard_normal((3, 11)).astype(np.float32))
    given = list(map(hy.asarray, operands))

    def loss(x: hy.Tensor) -> hy.Tensor:
        return matmul_grouped(x, *given, group_size=4).sum()

    want = np.broadcast_to(weight.sum(axis=0), (3, 11))
    for gradient in (hy.grad(loss), hy.hybridize(hy.grad(loss))):
        np.testing.assert_allclose(gradient(x).numpy(), want, rtol=1e-5, atol=1e-5)


F32 = np.float32
BAD: dict[str, tuple[Callable[[], object], type[HybridError], str]] = {
    "group": (
        lambda: matmul_grouped(*zeros("f8", "u4"), group_size=0), ArgumentError,
        "matmul_grouped got group_size 0",
    ),
    "weights": (
        lambda: matmul_grouped(hy.zeros((2, 8)), hy.zeros((3, 8)), hy.zeros((3, 2)), group_size=4),
        DTypeError, r"matmul_grouped cannot take weights f32\[3,8\]",
    ),
    "sizes": (
        lambda: matmul_grouped(*zeros("f9", "u4"), group_size=4), ShapeError,
        r"matmul_grouped cannot take f32\[2,9\] and weights u8\[3,4\]",
    ),
    "scales": (
        lambda: matmul_grouped(*zeros("f8", "u4"), group_size=3), ShapeError,
        r"matmul_grouped got scales f32\[3,2\] for 3 outputs and 8 inputs in groups of 3",
    ),
    "operands": (
        lambda: matmul_grouped(*zeros("f8", "u4")[:2], group_size=4), ArgumentError,
        "matmul_grouped got 2 operands",
    ),
    "dtypes": (
        lambda: matmul_grouped(*zeros("i8", "u4"), group_size=4), DTypeError,
        r"matmul_grouped cannot take i8\[2,8\]",
    ),
    "table": (
        lambda: matmul_grouped(*zeros("f8", "i8"), group_size=4, table=True), ArgumentError,
        r"matmul_grouped got a table for weights i8\[3,8\]",
    ),
    "floats": (
        lambda: matmul_grouped_integer(*zeros("f8", "u4"), group_size=4), DTypeError,
        r"matmul_grouped_integer cannot take f32\[2,8\]",
    ),
    "long groups": (
        lambda: matmul_grouped_integer(
            hy.zeros((1, 70_000), dtype="int8"), hy.zeros((1, 35_000), dtype="uint8"),
            hy.zeros((1, 1)), group_size=70_000,
        ), ArgumentError, "matmul_grouped_integer got groups of 70000",
    ),
}  # fmt: skip


def zeros(x: str, weight: str) -> tuple[hy.Tensor, ...]:
    dtypes = {"f": "float32", "i": "int8", "u": "uint8"}
    made = [
        hy.zeros((rows, int(of[1:])), dtype=dtypes[of[0]]) for rows, of in ((2, x), (3, weight))
    ]
    return (*made, hy.zeros((3, 2)))


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, error, text = BAD[what]
    with pytest.raises(error, match=f"^{text}"):
        call()
