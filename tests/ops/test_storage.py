"""float16 and bfloat16: held in 16 bits, computed with in float32, eagerly and in graphs."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import DTypeError
from hybrid.memory.bfloat16 import from_bfloat16, to_bfloat16
from tests.helpers import same

STORED = [hy.float16, hy.bfloat16]
EDGES = np.float32(
    [0.0, -0.0, 1.0, -2.5, 65504, 65519.996, 65520, 1e-8, 5.9604645e-08, 2.9802322e-08,
     2.9802326e-08, 6.1e-05, 6.0975552e-05, 1 + 2**-11, 1 + 3 * 2**-11, 3.4e38, 3.3961775e38, 1e-40,
     np.nan, np.inf, -np.inf]
)  # fmt: skip


def values() -> np.ndarray:
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32)
    return np.concatenate([EDGES, bits.view(np.float32)])


def bits_of(x: hy.Tensor) -> np.ndarray:
    from hybrid.memory import native

    return np.frombuffer(native.view(x.content, x.nbytes), np.uint16)


@np.errstate(over="ignore", invalid="ignore")
def test_casts_round_to_the_nearest():
    x = values()
    half = x.astype(np.float16)
    numbers = ~np.isnan(x)
    found = hy.asarray(x).astype(hy.float16)
    np.testing.assert_array_equal(found.numpy().view(np.uint16)[numbers],
                                  half.view(np.uint16)[numbers])  # fmt: skip
    assert np.isnan(found.numpy()[~numbers]).all()
    np.testing.assert_array_equal(bits_of(hy.asarray(x).astype(hy.bfloat16)), to_bfloat16(x))


def test_every_number_comes_back():
    bits = np.arange(2**16, dtype=np.uint16)
    half = hy.asarray(bits.view(np.float16))
    np.testing.assert_array_equal(half.astype(hy.float32).numpy(), bits.view(np.float16))
    numbers = from_bfloat16(bits)
    brain = hy.asarray(numbers, dtype=hy.bfloat16)
    np.testing.assert_array_equal(brain.astype(hy.float32).numpy(), numbers)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_ops_compute_in_float32(dtype):
    wide = hy.asarray(np.random.default_rng(1).standard_normal((4, 5)).astype("float32"))
    x = wide.astype(dtype)

    def computed(x):
        y = hy.exp(x) * 0.1 + x
        return y, hy.sum(y, axis=0), hy.softmax(y @ y.T), x[1:, ::2], hy.sort(x), hy.argmax(x)

    eager, captured = computed(x), hy.hybridize(computed)(x)
    for y, other in zip(eager, captured, strict=True):
        assert y.dtype is other.dtype and y.tolist() == other.tolist()
    assert [y.dtype for y in eager] == [dtype] * 5 + [hy.int64]
    back = x.astype(hy.float32)
    product = (hy.exp(back).astype(dtype).astype(hy.float32) * 0.1).astype(dtype)
    assert (product.astype(hy.float32) + back).astype(dtype).tolist() == eager[0].tolist()


def test_promotion():
    half, brain = (hy.ones(2, dtype=dtype) for dtype in STORED)
    assert (half + brain).dtype is hy.float32
    assert (half + hy.ones(2)).dtype is hy.float32
    assert (half + hy.ones(2, dtype=hy.float64)).dtype is hy.float64
    assert (half + hy.ones(2, dtype=hy.int64)).dtype is hy.float16
    assert (half * 2).dtype is (half * 0.5).dtype is (1 / half).dtype is hy.float16
    assert hy.result_type(half, brain) is hy.float32
    assert (half > 0).dtype is hy.bool


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_gradients(dtype):
    x = hy.asarray([1.0, 2.0, 3.0], dtype=dtype)
    gradient = hy.grad(lambda x: hy.sum(x * x))(x)
    assert gradient.dtype is dtype and gradient.tolist() == [2, 4, 6]
    captured = hy.hybridize(hy.grad(lambda x: hy.sum(x * x)))(x)
    assert captured.dtype is dtype and captured.tolist() == [2, 4, 6]


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_control_flow_carries_them(dtype):
    def doubled(x):
        n = 0
        while hy.sum(x) < 100:
            x = x * 2
            n += 1
        if x[0] > 50:
            x = x - 1
        return x, n

    x = hy.asarray([1.0, 2.5], dtype=dtype)
    eager, captured = doubled(x), hy.hybridize(doubled)(x)
    assert eager[0].tolist() == captured[0].tolist() and eager[1] == captured[1]
    assert captured[0].dtype is dtype


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_what_makes_tensors_makes_them(dtype):
    assert hy.zeros((2, 3), dtype=dtype).tolist() == [[0] * 3] * 2
    assert hy.full((2,), 1.5, dtype=dtype).tolist() == [1.5] * 2
    assert hy.arange(4, dtype=dtype).tolist() == [0, 1, 2, 3]
    assert hy.linspace(0, 1, 3, dtype=dtype).tolist() == [0, 0.5, 1]
    assert hy.eye(2, dtype=dtype).tolist() == [[1, 0], [0, 1]]
    assert hy.asarray([1, 2.5], dtype=dtype).tolist() == [1, 2.5]
    assert hy.asarray(0.5, dtype=dtype).item() == 0.5
    assert hy.ones(3, dtype=dtype).astype(hy.int64).tolist() == [1, 1, 1]
    assert hy.asarray([1, 2]).astype(dtype).tolist() == [1, 2]
    assert hy.asarray(np.float64([1e-9, 3])).astype(dtype).astype(hy.float64).tolist()[1] == 3
    x = hy.asarray([1.0, 2.0], dtype=dtype)
    x += 1
    x[0] = 7
    assert x.dtype is dtype and x.tolist() == [7, 3]
    assert repr(x) == f"tensor([7., 3.], dtype={dtype.name})"
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.dtype is dtype and other.tolist() == [7, 3]
    assert hy.finfo(dtype).bits == 16 and hy.finfo(dtype).max == hy.asarray(
        hy.finfo(dtype).max, dtype=dtype
    ).item()  # fmt: skip


def test_numpy_shares_float16_and_has_no_bfloat16():
    array = np.float16([1, 2])
    assert hy.asarray(array).dtype is hy.float16
    assert np.shares_memory(hy.asarray(array).numpy(), array)
    assert same(hy.from_dlpack(array), hy.asarray(array))
    x = hy.ones(2, dtype=hy.bfloat16)
    for ask in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(DTypeError, match=r"x\.astype\(hybrid\.float32\)"):
            ask()
    with pytest.raises(DTypeError, match="cast it to float32 first"):
        hy.ops.cast(x, dtype=hy.int64)


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (1, 70, 40), (40, 70, 1), (3, 5, 7), (13, 33, 65), (130, 257, 300)]
)
def test_products_of_bfloat16_are_summed_in_float32(sizes, transposed):
    m, k, n = sizes
    draw = np.random.default_rng(m + k + n)

    def drawn(rows, columns, turned):
        shape = (2, columns, rows) if turned else (2, rows, columns)
        x = hy.asarray(draw.standard_normal(shape).astype("float32"), dtype=hy.bfloat16)
        return x.mT if turned else x

    a, b = drawn(m, k, "a" in transposed), drawn(k, n, "b" in transposed)
    left, right = (np.asarray(x.astype(hy.float32), np.float64) for x in (a, b))
    exact, size = left @ right, np.abs(left) @ np.abs(right)
    found = hy.matmul(a, b)
    assert found.dtype is hy.bfloat16
    error = np.abs(np.asarray(found.astype(hy.float32)) - exact)
    assert np.all(error <= 2.0**-8 * np.abs(exact) + k * 2.0**-24 * size)
    captured = hy.hybridize(lambda a, b: (a @ b, hy.tanh(a @ b) * 2 + 1))
    plain, mapped = captured(a, b)
    assert plain.tolist() == found.tolist()
    assert mapped.tolist() == (hy.tanh(found) * 2 + 1).tolist()


def test_gradients_of_products_of_bfloat16():
    draw = np.random.default_rng(3)
    a, b = (hy.asarray(draw.standard_normal(s).astype("float32")) for s in [(9, 20), (20, 6)])
    wide = hy.grad(lambda a, b: hy.sum(a @ b), argnums=(0, 1))
    narrow = wide(a.astype(hy.bfloat16), b.astype(hy.bfloat16))
    for found, exact in zip(narrow, wide(a, b), strict=True):
        assert found.dtype is hy.bfloat16
        np.testing.assert_allclose(found.astype(hy.float32).numpy(), exact.numpy(), atol=0.1)
    captured = hy.hybridize(wide)(a.astype(hy.bfloat16), b.astype(hy.bfloat16))
    assert [x.tolist() for x in captured] == [x.tolist() for x in narrow]


def test_products_of_two_dtypes_are_of_both():
    a, b = hy.ones((2, 3), dtype=hy.bfloat16), hy.ones((3, 2))
    assert (a @ b).dtype is hy.float32 and (b @ a).dtype is hy.float32
    assert (a @ b.astype(hy.float16)).dtype is hy.float32
    assert (a.astype(hy.float16) @ b.astype(hy.float16)).dtype is hy.float16
