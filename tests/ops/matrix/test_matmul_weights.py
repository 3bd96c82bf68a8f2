"""Products with a prepared matrix: the bits of those that read it as it lies."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, float64, int64, tensor_type
from hybrid.errors import NativeError, ShapeError
from hybrid.ir import Builder
from hybrid.ops.matrix.matmul_weights import is_prepared, matmul_prepare, matmul_prepared, pays
from hybrid.plan import make_plan
from tests.ops.altered_kernels import alter_kernels

SIZES = [  # of the left matrix, and columns of the right one
    ((2, 1), 2),
    ((2, 7), 3),
    ((4, 64), 129),
    ((5, 384), 33),
    ((8, 512), 512),
    ((13, 385), 64),
    ((40, 800), 65),
    ((2, 3, 50), 31),
    ((3, 1, 1100), 9),
    ((128, 256), 768),
    ((150, 16), 2),
    ((31, 5), 1500),
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "columns"), SIZES, ids=str)
def test_a_prepared_matrix_gives_the_bits_of_one_as_it_lies(shape, columns, dtype, threads) -> None:
    random = np.random.default_rng(columns)
    a = hy.asarray(random.standard_normal(shape).astype(dtype))
    b = random.standard_normal((shape[-1], columns)).astype(dtype)
    rows = a.size // shape[-1]
    want = a @ hy.asarray(b)
    turned = hy.hybridize(lambda x: matmul_prepare(x.T, rows=rows))
    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        p = matmul_prepare(b, rows=rows)
        other = hy.zeros(b.shape, dtype=dtype)  # the values come from what is prepared alone
        got = matmul_prepared(a, other, p)
        along = turned(hy.asarray(np.ascontiguousarray(b.T)))
    finally:
        hy.set_num_threads(before)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    assert along.numpy().tobytes() == p.numpy().tobytes()


def test_what_is_prepared_and_where_it_pays() -> None:
    def types(a, b, dtype=float32):
        return tensor_type(dtype, a), tensor_type(dtype, b)

    assert pays(*types((2, 32), (32, 32))) and pays(*types((192, 32), (32, 32), float64))
    assert pays(*types((2, 96, 32), (32, 32)))
    for a, b in [
        ((193, 32), (32, 32)),
        ((2, 31), (31, 33)),
        ((1, 32), (32, 32)),
        ((2, 99), (99, 31)),
    ]:
        assert not pays(*types(a, b))
    assert is_prepared(*types((193, 32), (32, 32)))
    for a, b in [((1, 4), (4, 4)), ((4,), (4, 4)), ((4, 4), (4, 1)), ((4, 4), (1, 4, 4))]:
        assert not is_prepared(*types(a, b))
    assert not is_prepared(*types((4, 4), (4, 4), int64))
    assert not is_prepared(*types((4, 0), (0, 4)))


def test_what_does_not_fit_is_refused() -> None:
    a, b = hy.ones((1, 4)), hy.ones((4, 4))
    with pytest.raises(ShapeError) as caught:
        matmul_prepare(b, rows=1)
    assert str(caught.value).startswith(
        "there is nothing to prepare in the product of f32[1,4] and f32[4,4]"
    )
    with pytest.raises(ShapeError) as caught:
        matmul_prepared(hy.ones((2, 4)), b, a)
    assert str(caught.value).startswith("f32[1,4] is not what is prepared of f32[4,4]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, o, _: (i, o, [1]), "nothing is prepared for 1 rows"),
        (lambda i, o, a: ([i[0].reshape((32,))], o, a), "operand 0 is no matrix"),
        (lambda i, o, a: ([i[0].reshape((2, 16))], o, a), "axis 0 of operand 1 has size 256"),
    ],
)
def test_the_kernel_that_prepares_refuses_what_does_not_fit(monkeypatch, change, message) -> None:
    alter_kernels(monkeypatch, matmul_prepare, change)
    builder = Builder("prepare")
    made = builder.apply(matmul_prepare, [builder.param(tensor_type(float32, (4, 8)))], {"rows": 4})
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(made))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, o, a: ([i[0].reshape((2, 8)), i[1]], o, a), "axis 0 of operand 2 has size 4"),
        (lambda i, o, a: ([i[0].reshape((16,)), i[1]], o, a), "rank 1"),
        (lambda i, o, a: ([i[0].reshape((1, 16)), i[1]], [o[0].reshape((1, 32))], a),
         "nothing is prepared for 1 rows, 32 columns"),
        (lambda i, o, a: ([i[0], i[1].reshape((2, 128))], o, a), "rank 2"),
        (lambda i, o, a: ([i[0].reshape((8, 2)), i[1]], [o[0].reshape((8, 4))], a),
         "axis 0 of operand 1 has size 256 where the others say 128"),
    ],
)  # fmt: skip
def test_the_kernel_that_multiplies_refuses_what_does_not_fit(monkeypatch, change, message) -> None:
    alter_kernels(monkeypatch, matmul_prepared, change)
    builder = Builder("multiply")
    params = [builder.param(tensor_type(float32, shape)) for shape in ((4, 4), (4, 8), (256,))]
    made = builder.apply(matmul_prepared, params)
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(made))
