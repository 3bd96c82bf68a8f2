"""einsum, diagonal and trace against NumPy."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.errors import ArgumentError, ShapeError

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 3, "j": 3}
RANDOM = np.random.default_rng(11)


def operand(shape):
    return RANDOM.uniform(-1, 1, shape)


@pytest.mark.parametrize(
    "equation",
    [
        "ab->ba",
        "ab->",
        "ab",
        "ab->b",
        "ii->",
        "ii->i",
        "iij->ji",
        "ab,bc->ac",
        "ab,bc",
        "ab,ab->ab",
        "ab,ab->",
        "a,b->ab",
        "a,a->",
        "abc,acd->abd",
        "abc,cd,db->a",
        "abd,bc->ac",
        "ab,cb->ca",
        "a,,b->ba",
        "ii,ia->a",
        "abc,b->ca",
    ],
)
def test_einsum_agrees_with_numpy(equation):
    terms = equation.split("->")[0].split(",")
    operands = [operand([SIZES[name] for name in term]) for term in terms]
    got = ops.einsum(equation, *operands).numpy()
    np.testing.assert_allclose(got, np.einsum(equation, *operands), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ab,...bc->...ac", [(7, 2, 3), (3, 4)]),
        ("...ab,...bc->...ac", [(6, 1, 2, 3), (7, 3, 4)]),
        ("...ab,bc", [(7, 2, 3), (3, 4)]),
        ("a...->...", [(2, 3, 4)]),
        ("...a,...a->...", [(1, 3), (1, 3)]),
        ("...a,a->...", [(0, 3), (3,)]),
    ],
)
def test_einsum_with_an_ellipsis_agrees_with_numpy(equation, shapes):
    operands = [operand(shape) for shape in shapes]
    got, want = ops.einsum(equation, *operands).numpy(), np.einsum(equation, *operands)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_einsum_differentiates():
    hy.check_grads(
        lambda a, b, c: ops.einsum("abi,ibj,jj->a", a, b, c),
        operand((2, 3, 3)),
        operand((3, 3, 3)),
        operand((3, 3)),
        order=2,
    )


@pytest.mark.parametrize("offset", [-4, -3, -1, 0, 1, 4, 5])
def test_diagonal_and_trace_agree_with_numpy(offset):
    x = operand((2, 3, 4))
    want = np.diagonal(x, offset, 1, 2) if -3 <= offset <= 4 else np.empty((2, 0))
    np.testing.assert_array_equal(ops.diagonal(x, offset=offset).numpy(), want)
    np.testing.assert_allclose(ops.trace(x, offset=offset).numpy(), want.sum(1), rtol=1e-14)


@pytest.mark.parametrize(
    ("equation", "shapes", "error", "text"),
    [
        (
            "ab,bc->ac",
            [(2, 3)],
            ArgumentError,
            "einsum 'ab,bc->ac' names 2 operands and got 1\n"
            "Fix: separate the names of each operand by a comma.",
        ),
        (
            "ab,bc->ac",
            [(2, 3), (4, 5)],
            ShapeError,
            "einsum 'ab,bc->ac' cannot take f64[2,3] and f64[4,5]\n"
            "Axis 'b' has sizes 3 and 4.\nFix: give axes of one name one size.",
        ),
        (
            "abc->a",
            [(2, 3)],
            ShapeError,
            "einsum 'abc->a' names 3 axes of f64[2,3]\n"
            "Fix: give a letter per axis, or ... for the others.",
        ),
        (
            "ab->ad",
            [(2, 3)],
            ArgumentError,
            "einsum 'ab->ad' has a wrong result\n"
            "Each of its letters must occur once there, and in an operand.\n"
            "Fix: correct what follows the arrow.",
        ),
        (
            "a1->a",
            [(2, 3)],
            ArgumentError,
            "einsum cannot read 'a1'\nFix: name axes by letters.",
        ),
    ],
)
def test_errors_of_einsum(equation, shapes, error, text):
    with pytest.raises(error) as caught:
        ops.einsum(equation, *map(operand, shapes))
    assert str(caught.value) == text
