"""Products of bytes with a prepared matrix: the integers of NumPy, whoever made the panels."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, int8, tensor_type, uint8
from hybrid.errors import NativeError, ShapeError
from hybrid.ir import Builder
from hybrid.ops.matrix.integer_weights import (
    is_prepared,
    matmul_integer_prepare,
    matmul_integer_prepared,
    pays,
)
from hybrid.ops.matrix.matmul_variants import matmul_integer_nt
from hybrid.plan import make_plan
from tests.ops.altered_kernels import alter_kernels

LIMITS = {"int8": (-128, 128), "uint8": (0, 256)}
SIZES = [  # of the left matrix, and columns of the right one
    ((1, 1), 1),
    ((1, 300), 257),
    ((2, 7), 3),
    ((4, 64), 129),
    ((8, 513), 512),
    ((9, 33), 65),
    ((2, 3, 50), 31),
    ((40, 1100), 70),
    ((150, 16), 2),
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("right", LIMITS)
@pytest.mark.parametrize("left", LIMITS)
def test_a_prepared_matrix_gives_the_integers_of_numpy(left: str, right: str, threads: int) -> None:
    draw = np.random.default_rng(threads)
    turned = hy.hybridize(lambda x: matmul_integer_prepare(x.T))
    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        for shape, columns in SIZES:
            a = draw.integers(*LIMITS[left], shape).astype(left)
            b = draw.integers(*LIMITS[right], (shape[-1], columns)).astype(right)
            p = matmul_integer_prepare(b)
            other = hy.zeros(b.shape, dtype=right)  # what counts is prepared
            exact = a.astype(np.int32) @ b.astype(np.int32)
            assert np.array_equal(matmul_integer_prepared(a, other, p).numpy(), exact)
            lying = hy.asarray(np.ascontiguousarray(b.T))
            assert turned(lying).numpy().tobytes() == p.numpy().tobytes()
            assert np.array_equal(matmul_integer_nt(a, lying).numpy(), exact)
    finally:
        hy.set_num_threads(before)


def test_sums_wrap() -> None:
    depth = 2**18 + 3  # 255 * 255 as often is beyond 2^33
    a, b = np.full((2, depth), 255, np.uint8), np.full((depth, 3), 255, np.uint8)
    want = np.full((2, 3), np.int64(255 * 255 * depth).astype(np.int32))
    lying = np.ascontiguousarray(b.T)
    assert np.array_equal(matmul_integer_prepared(a, b, matmul_integer_prepare(b)).numpy(), want)
    assert np.array_equal(matmul_integer_nt(a, lying).numpy(), want)
    assert np.array_equal(matmul_integer_nt(np.repeat(a, 6, 0), lying).numpy()[:2], want)


def test_what_is_prepared_and_where_it_pays() -> None:
    def types(a, b, left=int8, right=uint8):
        return tensor_type(left, a), tensor_type(right, b)

    assert pays(*types((1, 32), (32, 32))) and pays(*types((1024, 32), (32, 32), uint8, int8))
    assert pays(*types((2, 96, 32), (32, 32)))
    for a, b in [((1025, 32), (32, 32)), ((2, 31), (31, 33)), ((2, 99), (99, 31))]:
        assert not pays(*types(a, b))
    assert is_prepared(*types((1025, 32), (32, 32)))
    assert not is_prepared(*types((4,), (4, 4)))
    assert not is_prepared(*types((4, 4), (1, 4, 4)))
    assert not is_prepared(*types((4, 4), (4, 4), float32))


def test_a_known_matrix_is_prepared_once() -> None:
    class Layer(hy.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            values = np.arange(64 * 64).reshape(64, 64) % 251 - 125
            self.register_buffer("q", hy.asarray(values.astype(np.int8), copy=True))

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return matmul_integer_nt(x, self.q).astype(hy.float32) * 0.5

    layer = Layer()
    function = hy.hybridize(lambda x: layer(x))
    x = hy.asarray((np.arange(3 * 64).reshape(3, 64) % 256 - 128).astype(np.int8))
    for _ in range(3):
        assert function(x).numpy().tobytes() == layer(x).numpy().tobytes()
    (planned,) = function._table.all()
    assert planned.precomputed is not None and planned.precomputed.now is not None
    assert "matmul_integer_prepared" in [step.kernel for step in planned.plan.steps]


def test_what_does_not_fit_is_refused() -> None:
    a, b = hy.ones((1, 4), dtype="int8"), hy.ones((4, 4), dtype="int8")
    with pytest.raises(ShapeError) as caught:
        matmul_integer_prepare(hy.ones((2, 4, 4), dtype="int8"))
    assert str(caught.value) == (
        "there is nothing to prepare in the product of i8[2,4,4] and i8[2,4,4]\n"
        "Both are of bytes, and the right one is one matrix.\n"
        "Fix: use matmul_integer."
    )
    with pytest.raises(ShapeError) as caught:
        matmul_integer_prepared(a, b, a)
    assert str(caught.value) == (
        "i8[1,4] is not what is prepared of i8[4,4]\nFix: prepare that matrix."
    )
    with pytest.raises(ShapeError, match=r"^matmul_integer cannot take i8\[1,4\] and i8\[4\]"):
        matmul_integer_nt(a, b[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, o, a: ([i[0].reshape((32,))], o, a), "operand 0 is no matrix of bytes"),
        (lambda i, o, a: ([i[0].reshape((8, 4))], o, a), "axis 0 of operand 1 has size 256"),
    ],
)
def test_the_kernel_that_prepares_refuses_what_does_not_fit(monkeypatch, change, message) -> None:
    alter_kernels(monkeypatch, matmul_integer_prepare, change)
    builder = Builder("prepare")
    made = builder.apply(matmul_integer_prepare, [builder.param(tensor_type(int8, (4, 8)))])
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(made))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, o, a: ([i[0].reshape((2, 8)), i[1]], o, a), "axis 0 of operand 2 has size 4"),
        (lambda i, o, a: ([i[0].reshape((16,)), i[1]], o, a), "rank 1"),
        (lambda i, o, a: ([i[0], i[1].reshape((2, 128))], o, a), "rank 2"),
        (lambda i, o, a: ([i[0].reshape((2, 8)), i[1]], [o[0].reshape((2, 16))], a),
         "axis 0 of operand 1 has size 256 where the others say 512"),
    ],
)  # fmt: skip
def test_the_kernel_that_multiplies_refuses_what_does_not_fit(monkeypatch, change, message) -> None:
    alter_kernels(monkeypatch, matmul_integer_prepared, change)
    builder = Builder("multiply")
    params = [builder.param(tensor_type(uint8, shape)) for shape in ((4, 4), (4, 8), (256,))]
    made = builder.apply(matmul_integer_prepared, params)
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(made))
