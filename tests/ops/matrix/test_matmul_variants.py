"""Sums of products in turn: the bits of products and sums, one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, float64, int64, tensor_type
from hybrid.errors import NativeError, ShapeError
from hybrid.ir import Builder
from hybrid.ops.matrix.matmul_variants import is_summed, matmul_sum, pays
from hybrid.plan import make_plan
from tests.helpers import same
from tests.ops.altered_kernels import alter_kernels

SIZES = [  # products, and their rows, depth and columns
    (1, 2, 1, 2),
    (3, 2, 1, 15),
    (5, 5, 384, 16),
    (7, 12, 100, 33),
    (9, 193, 32, 128),
    (50, 64, 8, 31),
    (2, 400, 7, 65),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_bits_of_products_and_sums_in_turn(sizes, reverse, dtype) -> None:
    count, rows, depth, columns = sizes
    depth = min(depth, 1536 // np.dtype(dtype).itemsize)
    draw = np.random.default_rng(rows).standard_normal
    start = hy.asarray(draw((rows, columns)).astype(dtype))
    a = hy.asarray(draw((count, rows, depth)).astype(dtype))
    b = hy.asarray(draw((count, depth, columns)).astype(dtype))
    want = start
    for t in range(count)[:: -1 if reverse else 1]:
        want = want + a[t] @ b[t]

    def turned(start, a, b):
        a, b = (hy.permute_dims(x, (0, 2, 1)) for x in (a, b))
        return matmul_sum(start, a, b, reverse=reverse)

    across = [hy.asarray(np.ascontiguousarray(x.numpy().swapaxes(1, 2))) for x in (a, b)]
    before = hy.num_threads()
    try:
        for threads in (1, 3):
            hy.set_num_threads(threads)
            assert same(matmul_sum(start, a, b, reverse=reverse), want)
            assert same(hy.hybridize(turned)(start, *across), want)
    finally:
        hy.set_num_threads(before)


def test_one_left_matrix_for_all() -> None:
    draw = np.random.default_rng(1).standard_normal
    start, a, b = (
        hy.asarray(draw(shape).astype(np.float32)) for shape in [(20, 40), (20, 8), (5, 8, 40)]
    )
    want = start
    for t in range(5):
        want = want + a @ b[t]

    def spread(start, a, b):
        return matmul_sum(start, hy.broadcast_to(a, (5, 20, 8)), b, reverse=False)

    assert same(hy.hybridize(spread)(start, a, b), want)


def test_zeros_keep_their_signs() -> None:
    start = hy.full((2, 16), -0.0)
    found = matmul_sum(start, -hy.ones((3, 2, 1)), hy.zeros((3, 1, 16)), reverse=False)
    want = start
    for _ in range(3):
        want = want + -hy.ones((2, 1)) @ hy.zeros((1, 16))
    assert same(found, want)


def test_what_is_summed_and_where_it_pays() -> None:
    def types(*shapes, dtype=float32):
        return [tensor_type(dtype, shape) for shape in shapes]

    assert pays(*types((2, 16), (9, 2, 384), (9, 384, 16)))
    assert not pays(*types((2, 15), (9, 2, 4), (9, 4, 15)))
    assert is_summed(*types((2, 15), (9, 2, 4), (9, 4, 15)))
    for shapes in [
        [(2, 16), (9, 2, 385), (9, 385, 16)],
        [(1, 16), (9, 1, 4), (9, 4, 16)],
        [(16, 1), (9, 16, 4), (9, 4, 1)],
        [(2, 16), (9, 2, 4), (8, 4, 16)],
        [(2, 16), (9, 2, 4), (9, 5, 16)],
        [(2, 16), (9, 2, 0), (9, 0, 16)],
        [(2, 16), (2, 4), (9, 4, 16)],
    ]:
        assert not is_summed(*types(*shapes))
    assert not is_summed(*types((2, 16), (9, 2, 193), (9, 193, 16), dtype=float64))
    assert not is_summed(*types((2, 16), (9, 2, 4), (9, 4, 16), dtype=int64))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        matmul_sum(hy.ones((2, 3)), hy.ones((4, 2, 5)), hy.ones((3, 5, 3)), reverse=False)
    assert str(caught.value) == (
        "matmul_sum cannot take f32[2,3], f32[4,2,5] and f32[3,5,3]\n"
        "It takes float [M, N], [T, M, K] and [T, K, N] with M and N from 2 on, and K of at most "
        "1536 bytes.\nFix: use matmul and add."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, o: ([i[0], i[1].reshape((4, 10)), i[2]], o), "operand 1 has dtype"),
        (lambda i, o: ([i[0], i[1].reshape((2, 4, 5)), i[2]], o), "axis 0 of operand 2 has size 4"),
        (lambda i, o: ([i[0], i[1].reshape((4, 5, 2)), i[2]], o), "axis 1 of operand 2 has size 5"),
        (lambda i, o: ([i[0].reshape((3, 2)), *i[1:]], o), "axis 0 of operand 0 has size 3"),
        (lambda i, o: (i, [o[0].reshape((6,))]), "operand 3 .* rank 1"),
        (
            lambda i, o: ([*i[:2], i[2].reshape((4, 3, 5)).permute((0, 2, 1))], o),
            r"no sum of products of \[2, 5\] and \[5, 3\]",
        ),
    ],
)
def test_the_kernel_refuses_what_does_not_fit(monkeypatch, change, message) -> None:
    alter_kernels(monkeypatch, matmul_sum, lambda i, o, a: (*change(i, o), a))
    builder = Builder("sum")
    shapes = (2, 3), (4, 2, 5), (4, 5, 3)
    params = [builder.param(tensor_type(float32, shape)) for shape in shapes]
    made = builder.apply(matmul_sum, params, {"reverse": False})
    with pytest.raises(NativeError, match=message):
        make_plan(builder.finish(made))
