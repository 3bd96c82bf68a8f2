"""matmul_integer: exact in every layout, by any number of threads, and what it refuses."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import DTypeError, ShapeError
from hybrid.memory import native
from hybrid.ops.matrix.matmul_variants import matmul_integer

LIMITS = {"int8": (-128, 128), "uint8": (0, 256)}


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("right", LIMITS)
@pytest.mark.parametrize("left", LIMITS)
def test_it_is_exact(left: str, right: str, transposed: str) -> None:
    def product(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
        x = x.mT if "a" in transposed else x
        y = y.mT if "b" in transposed else y
        return matmul_integer(x, y)

    draw = np.random.default_rng(0)
    for m, k, n in [(1, 1, 1), (2, 3, 500), (12, 4, 32), (13, 35, 65), (150, 257, 300)]:
        a = draw.integers(*LIMITS[left], (2, m, k)).astype(left)
        b = draw.integers(*LIMITS[right], (2, k, n)).astype(right)
        x = hy.asarray(np.swapaxes(a, 1, 2).copy() if "a" in transposed else a)
        y = hy.asarray(np.swapaxes(b, 1, 2).copy() if "b" in transposed else b)
        exact = a.astype(np.int32) @ b.astype(np.int32)
        planned = hy.hybridize(product)  # which reads matrices as they lie
        before = native.num_threads()
        for threads in (1, 3):
            native.set_num_threads(threads)
            for multiply in (product, planned):
                assert np.array_equal(multiply(x, y).numpy(), exact)
        native.set_num_threads(before)


@pytest.mark.parametrize("left", LIMITS)
@pytest.mark.parametrize("right", LIMITS)
def test_the_extremes_are_exact(left: str, right: str) -> None:
    for low in (True, False):
        for high in (True, False):
            a = np.full((5, 1000), LIMITS[left][0] if low else LIMITS[left][1] - 1, left)
            b = np.full((1000, 40), LIMITS[right][0] if high else LIMITS[right][1] - 1, right)
            found = matmul_integer(hy.asarray(a), hy.asarray(b))
            assert np.array_equal(found.numpy(), a.astype(np.int32) @ b.astype(np.int32))


def test_what_follows_is_the_same_in_a_graph() -> None:
    draw = np.random.default_rng(1)
    a = hy.asarray(draw.integers(-128, 128, (40, 60)).astype(np.int8))
    b = hy.asarray(draw.integers(0, 256, (60, 70)).astype(np.uint8))
    scale = hy.asarray(draw.standard_normal(70).astype(np.float32))

    def layer(a: hy.Tensor, b: hy.Tensor, scale: hy.Tensor) -> hy.Tensor:
        return hy.maximum(matmul_integer(a, b).astype(hy.float32) * scale, 0.0)

    eager, captured = layer(a, b, scale), hy.hybridize(layer)(a, b, scale)
    assert eager.numpy().tobytes() == captured.numpy().tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int16", "int32", "float32"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    a, b = hy.zeros((2, 3), dtype="int8"), hy.zeros((3, 4), dtype=dtype)
    with pytest.raises(DTypeError) as raised:
        matmul_integer(a, b)
    short = b.dtype.short
    assert str(raised.value) == (
        f"matmul_integer cannot take i8[2,3] and {short}[3,4]\n"
        "It multiplies int8 and uint8, in any combination.\n"
        "Fix: cast them with astype, or use matmul."
    )


def test_shapes_that_do_not_meet_are_refused() -> None:
    a, b = hy.zeros((2, 3), dtype="int8"), hy.zeros((4, 4), dtype="int8")
    with pytest.raises(ShapeError, match=r"^matmul_integer cannot take i8\[2,3\] and i8\[4,4\]"):
        matmul_integer(a, b)
