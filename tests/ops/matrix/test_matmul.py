"""Products of matrices: one order of summation, whatever the layout and the threads."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import hybrid as hy
from tests.csrc.specs import Spec, find, run
from tests.helpers import same

RANDOM = np.random.default_rng(11)

# (m, k, n) on all sides of the edges of tiles, panels, blocks and tasks: in place and copied,
# by rows and by columns, turned over and not.
SHAPES = [
    (2, 3, 4), (5, 16, 17), (12, 40, 31), (13, 40, 33), (25, 400, 48), (7, 900, 300),
    (24, 129, 1030), (32, 768, 520), (33, 33, 33), (40, 1100, 260), (64, 400, 120),
    (129, 65, 127), (100, 200, 300), (300, 390, 100), (600, 70, 40), (1030, 20, 9), (9, 20, 1030),
]  # fmt: skip


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = hy.num_threads()
    yield
    hy.set_num_threads(before)


def layouts(array: np.ndarray) -> list[hy.Tensor]:
    """The matrix with dense rows, and as the transpose of one with dense rows."""
    return [hy.asarray(array), hy.asarray(np.ascontiguousarray(array.T))]


@hy.hybridize
def multiply(a: hy.Tensor, b: hy.Tensor, a_turned: bool, b_turned: bool) -> hy.Tensor:
    return (a.T if a_turned else a) @ (b.T if b_turned else b)


@hy.hybridize
def multiply_and_more(
    a: hy.Tensor, b: hy.Tensor, bias: hy.Tensor, a_turned: bool, b_turned: bool
) -> hy.Tensor:
    return hy.maximum((a.T if a_turned else a) @ (b.T if b_turned else b) + bias, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_depend_on_neither_layout_nor_threads_nor_what_follows(
    shape: tuple[int, int, int], dtype: str
) -> None:
    m, k, n = shape
    a, b = (RANDOM.standard_normal(size).astype(dtype) for size in ((m, k), (k, n)))
    bias = hy.asarray(RANDOM.standard_normal(n).astype(dtype))
    hy.set_num_threads(1)
    first = hy.asarray(a) @ hy.asarray(b)
    after = hy.maximum(first + bias, 0.0)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    allowed = np.abs(a) @ np.abs(b) * np.finfo(dtype).eps * (8 + np.sqrt(k))
    assert np.all(np.abs(first.numpy() - exact) <= allowed)
    for count, (i, x), (j, y) in product((1, 2), enumerate(layouts(a)), enumerate(layouts(b))):
        hy.set_num_threads(count)
        assert same(multiply(x, y, bool(i), bool(j)), first), (count, i, j)
        assert same(multiply_and_more(x, y, bias, bool(i), bool(j)), after), (count, i, j)


def test_an_element_of_a_block_stays_what_it_is_in_another_block() -> None:
    """Rows and columns may be cut off: k alone says how an element is summed."""
    a, b = (RANDOM.standard_normal(size).astype(np.float32) for size in ((70, 800), (800, 300)))
    whole = (hy.asarray(a) @ hy.asarray(b)).numpy()
    for m, n in product((2, 11, 12, 13, 48, 49), (2, 15, 16, 17, 33, 250)):
        part = hy.asarray(a[:m].copy()) @ hy.asarray(b[:, :n].copy())
        assert part.numpy().tobytes() == whole[:m, :n].tobytes(), (m, n)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (128, 64, 128), (128, 128, 64), (1, 64, 40), (30, 9, 5), (40, 64, 1), (1, 64, 1),
        (1, 17, 300), (1, 400, 300), (300, 130, 1),
    ],
)  # fmt: skip
def test_a_stack_is_its_products(m: int, k: int, n: int) -> None:
    a, b = (RANDOM.standard_normal((6, *size)).astype(np.float32) for size in ((m, k), (k, n)))
    stack = hy.asarray(a) @ hy.asarray(b)
    turned = hy.hybridize(lambda x, y: x @ y.mT)(
        hy.asarray(a), hy.asarray(np.ascontiguousarray(np.swapaxes(b, 1, 2)))
    )
    assert same(turned, stack)
    for i in range(6):
        assert same(hy.asarray(a[i]) @ hy.asarray(b[i]), stack[i])


@hy.hybridize
def columns(
    v: hy.Tensor, dense: hy.Tensor, gaps: hy.Tensor, turned: hy.Tensor, rows: hy.Tensor,
    backwards: hy.Tensor,
) -> list[hy.Tensor]:  # fmt: skip
    stacks = [
        dense,
        gaps[:, 1:-1, 2:-1],
        turned.mT,
        hy.permute_dims(rows, (1, 0, 2)),
        backwards[::-1],
    ]
    return [x @ v for x in stacks]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_stack_of_columns_is_one_matrix_times_a_vector(threads: int, dtype: str) -> None:
    """However its rows lie."""
    hy.set_num_threads(threads)
    for count, m, k in product((1, 3), (1, 2, 40), (3, 8, 17, 400)):
        x = RANDOM.standard_normal((count, m, k)).astype(dtype)
        v = hy.asarray(RANDOM.standard_normal(k).astype(dtype))
        whole = hy.asarray(x.reshape(count * m, k)) @ v
        gaps = np.pad(x, ((0, 0), (1, 1), (2, 1)))
        stacks = x, gaps, np.swapaxes(x, 1, 2), np.swapaxes(x, 0, 1), x[::-1]
        for i, y in enumerate(columns(v, *[hy.asarray(stack.copy()) for stack in stacks])):
            assert y.numpy().tobytes() == whole.numpy().tobytes(), (i, count, m, k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("stack", "m", "n"), [(1, 7, 9), (3, 4, 5), (6, 1, 70)])
def test_sums_of_nothing_are_zeros(stack: int, m: int, n: int, dtype: str) -> None:
    """Whatever the memory of the result held before."""
    a, b, c = (np.full((stack, *shape), np.nan, dtype) for shape in ((m, 0), (0, n), (m, n)))
    spec = Spec()
    slots = [spec.external(array.nbytes) for array in (a, b, c)]
    spec.step(list(zip(slots[:2], (a, b), strict=True)), [(slots[2], c)], find("matmul", dtype))
    run(spec.create(), a, b, c)
    assert (c == 0).all()


def test_infinities_stay_where_they_are() -> None:
    """What is copied beside the last row or column never meets the others."""
    for m, k, n in ((13, 70, 33), (40, 500, 200), (33, 20, 17)):
        a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
        a[-1, 0] = b[0, -1] = np.inf
        for x, y in product(layouts(a), layouts(b)):
            result = multiply(x, y, x.shape != (m, k), y.shape != (k, n)).numpy()
            assert np.all(np.isinf(result[-1])) and np.all(np.isinf(result[:, -1]))
            assert np.all(result[:-1, :-1] == k)
