"""vmap: which axes of what hold the rows, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import BatchedValueError, CaptureError, LeakedValueError

# Axes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_axes(wrap) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(10.0, 13.0)
    f = lambda x, y: x * y  # noqa: E731
    cases = [
        ((1, 0), 0, (a * b).T),
        ((-1, None), 0, a.T[:, :, None] * b),
        ((0, None), 1, (a * b).T),
        ((0, None), -1, (a * b).T),
    ]
    for in_axes, out_axes, expected in cases:
        y = b[:, None] * np.ones(2) if in_axes == (1, 0) else b
        x = a
        mapped = wrap(hy.vmap(f if in_axes != (-1, None) else (lambda x, y: x[:, None] * y),
                              in_axes, out_axes))  # fmt: skip
        np.testing.assert_array_equal(mapped(hy.asarray(x), hy.asarray(y)).numpy(), expected)


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_trees_of_axes(wrap) -> None:
    def f(pair, scale, *, shift):
        return {"sum": pair["a"] + pair["b"][0] * scale + shift, "rest": (scale, None)}

    pair = {"a": hy.asarray([[1.0, 2.0], [3.0, 4.0]]), "b": [hy.asarray([10.0, 20.0])]}
    out = {"sum": 1, "rest": (None, None)}
    mapped = wrap(hy.vmap(f, in_axes=({"a": 1, "b": 0}, None), out_axes=out))
    found = mapped(pair, hy.asarray(2.0), shift=hy.asarray([100.0, 200.0]))
    assert found["sum"].tolist() == [[121.0, 242.0], [123.0, 244.0]]
    assert found["rest"][0].tolist() == 2.0 and found["rest"][1] is None


def test_python_values_are_handed_on() -> None:
    f = hy.vmap(lambda x, n, flag: x**n if flag else x, in_axes=(0, None, None))
    assert f(hy.asarray([1.0, 2.0]), 3, True).tolist() == [1.0, 8.0]
    assert hy.hybridize(f)(hy.asarray([1.0, 2.0]), 3, False).tolist() == [1.0, 2.0]
    assert hy.vmap(lambda x: x * 2)(np.ones(3)).tolist() == [2.0] * 3


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_nested(wrap) -> None:
    a, b = hy.asarray([1.0, 2.0]), hy.asarray([3.0, 4.0, 5.0])
    table = hy.vmap(hy.vmap(lambda x, y: x * y + x, (None, 0)), (0, None))
    assert wrap(table)(a, b).tolist() == [[4.0, 5.0, 6.0], [8.0, 10.0, 12.0]]
    other = hy.vmap(hy.vmap(lambda x, y: x * y + x, (0, None)), (None, 0))
    assert wrap(other)(a, b).tolist() == [[4.0, 8.0], [5.0, 10.0], [6.0, 12.0]]
    closed = hy.vmap(lambda x: hy.vmap(lambda y: hy.grad(lambda z: z * x * y)(y))(b))
    assert wrap(closed)(a).tolist() == [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_no_rows(wrap) -> None:
    def halved(x):
        while hy.sum(x) > 1:
            x = x / 2
        return x if hy.sum(x) > 0 else -x

    weight = hy.ones((3, 2))
    assert wrap(hy.vmap(lambda x: hy.tanh(x @ weight)))(hy.zeros((0, 3))).shape == (0, 2)
    assert wrap(hy.vmap(hy.hybridize(halved)))(hy.zeros((0, 3))).shape == (0, 3)


# Errors -----------------------------------------------------------------------------------------

PAIR = hy.ones((2, 3))
leaks: list[hy.Tensor] = []


def failing(kind: str) -> Callable[[], Any]:
    ones = lambda *shape: hy.ones(shape)  # noqa: E731
    return {
        "axis out of range": lambda: hy.vmap(lambda x: x, in_axes=2)(PAIR),
        "no dimensions": lambda: hy.vmap(lambda x: x)(ones()),
        "sizes": lambda: hy.vmap(lambda a, b: a, in_axes=(0, 1))(PAIR, PAIR),
        "nothing mapped": lambda: hy.vmap(lambda x: x, in_axes=None)(PAIR),
        "a number": lambda: hy.vmap(lambda x, n: x)(PAIR, 3),
        "too few axes": lambda: hy.vmap(lambda a, b: a, in_axes=(0,))(PAIR, PAIR),
        "a tree of axes": lambda: hy.vmap(lambda a: a, in_axes=((0, 0),))([PAIR]),
        "out axis": lambda: hy.vmap(lambda x: x, out_axes=2)(PAIR),
        "out axis None": lambda: hy.vmap(lambda x: x, out_axes=None)(PAIR),
        "a tree of out axes": lambda: hy.vmap(lambda x: x, out_axes=(0, 0))(PAIR),
        "no tensors": lambda: hy.vmap(lambda x: 3.0)(PAIR),
        "no function": lambda: hy.vmap(3),
        "branch": lambda: hy.vmap(lambda x: x if x > 0 else -x)(ones(2)),
        "item": lambda: hy.vmap(lambda x: x.item())(ones(2)),
        "numpy": lambda: hy.vmap(lambda x: x.numpy())(PAIR),
        "random": lambda: hy.vmap(lambda x: x * hy.random.uniform())(PAIR),
        "leak": lambda: (hy.vmap(lambda x: (leaks.append(x * 2), x)[1])(PAIR), leaks[-1] + 1),
        "shapes of rows": lambda: hy.vmap(lambda x: x + ones(2))(PAIR),
    }[kind]


MESSAGES = {
    "axis out of range": "vmap got axis 2 for argument 'x', f32[2,3]\n"
    "A tensor of 2 dimensions has axes -2 to 1.\n"
    "Fix: give an axis in that range.",
    "no dimensions": "vmap got axis 0 for argument 'x', f32[]\n"
    "A tensor without dimensions has no rows.\n"
    "Fix: say in_axes=None for it.",
    "sizes": "vmap got axes of different sizes: argument 'a' (f32[2,3] along axis 0) has 2 rows; "
    "argument 'b' (f32[2,3] along axis 1) has 3 rows\n"
    "It goes over all of them together, row by row.\n"
    "Fix: give them one size, or say in_axes=None for what is the same in every row.",
    "nothing mapped": "vmap has nothing to map over\n"
    "No argument is a tensor with an axis in in_axes.\n"
    "Fix: give in_axes an int for one argument at least.",
    "a number": "vmap maps over argument 'n', a int\n"
    "Only tensors have rows.\n"
    "Fix: pass a tensor, or say in_axes=None for what is the same in every row.",
    "too few axes": "in_axes=(0,) has 1 entries for 2 arguments\n"
    "Fix: give one entry for each positional argument, or one int for all.",
    "a tree of axes": "in_axes=(0, 0) does not fit the arguments, [*]\n"
    "An axis is an int or None, for a whole tree or for each part of it.\n"
    "Fix: give in_axes as one int, or as a tree like that with an int or None per part.",
    "out axis": "vmap got out axis 2 for the result, of 1 dimension in each row\n"
    "With the axis of the rows it has axes -2 to 1.\n"
    "Fix: give an axis in that range.",
    "out axis None": "vmap got out axis None for the result, which differs from row to row\n"
    "Fix: give an int, the axis for its rows.",
    "a tree of out axes": "out_axes=(0, 0) does not fit the result, *\n"
    "An axis is an int or None, for a whole tree or for each part of it.\n"
    "Fix: give out_axes as one int, or as a tree like that with an int or None per part.",
    "no tensors": "the function that vmap got returned float, not tensors\n"
    "Fix: return tensors, or trees of them.",
    "no function": "vmap got a int in place of a function\nFix: pass a function.",
}
FIRST_LINES = {
    "branch": (BatchedValueError, "the truth of a value that differs from row to row was asked"),
    "item": (BatchedValueError, "item() of a value that differs from row to row was asked for"),
    "numpy": (BatchedValueError, "numpy() of a value that differs from row to row was asked for"),
    "random": (hy.HybridError, "random numbers were drawn inside vmap"),
    "leak": (LeakedValueError, "a value of one row (f32[3]) was used after its vmap had ended"),
    "shapes of rows": (ValueError, "add cannot take f32[3] and f32[2]"),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_the_text_of_a_message(kind) -> None:
    with pytest.raises(hy.HybridError) as caught:
        failing(kind)()
    assert str(caught.value) == MESSAGES[kind]


@pytest.mark.parametrize("kind", FIRST_LINES)
def test_what_cannot_be_done_inside(kind) -> None:
    error, text = FIRST_LINES[kind]
    with pytest.raises(error) as caught:
        failing(kind)()
    assert str(caught.value).startswith(text)


def test_a_branch_says_what_to_write() -> None:
    with pytest.raises(BatchedValueError) as caught:
        failing("branch")()
    assert str(caught.value).splitlines()[2:] == [
        "The function runs once for all 2 rows, each of which has a bool[] of its own here.",
        "Fix: choose between tensors with hybrid.where, or hybridize the function that vmap gets: "
        "its if, while and for then go each row's own way.",
    ]


def test_errors_of_captured_rows() -> None:
    held = []

    def keep(x):
        held.append(x * 2)
        return x

    with pytest.raises(CaptureError, match="was written inside vmap"):
        hy.hybridize(hy.vmap(keep))(PAIR)
    with pytest.raises(hy.HybridError, match="random numbers were drawn inside vmap"):
        hy.hybridize(hy.vmap(lambda x: x * hy.random.uniform()))(PAIR)
    with pytest.raises(hy.HybridError, match="returned float"):
        hy.hybridize(hy.vmap(lambda x: 3.0))(PAIR)


def test_the_text_of_a_row() -> None:
    texts = []
    hy.vmap(lambda x: (texts.append(repr(x)), x)[1])(PAIR)
    assert texts == ["<f32[3] in each of 2 rows>"]


def test_backward_inside_is_refused() -> None:
    w = hy.ones((3,))
    w.requires_grad = True

    def f(x):
        (x * w).sum().backward()
        return x

    with pytest.raises(hy.HybridError, match=r"in place of backward\(\) call hybrid\.grad"):
        hy.vmap(f)(PAIR)
    assert w.grad is None
