"""PyTorch's words and orders of arguments: taken where they mean the same, else refused."""

from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError, DTypeError

M = hy.asarray(np.arange(12, dtype=np.float32).reshape(3, 4) % 5)
I = hy.asarray([[0, 1, 2, 0]])  # noqa: E741

SAME = {
    "sum": (lambda: hy.sum(M, dim=1, keepdim=True), lambda: hy.sum(M, axis=1, keepdims=True)),
    "sum, a method": (lambda: M.sum(dim=0), lambda: M.sum(axis=0)),
    "mean": (lambda: hy.mean(M, dim=(0, 1)), lambda: hy.mean(M, axis=(0, 1))),
    "var": (lambda: M.var(dim=1, correction=1), lambda: M.var(axis=1, correction=1)),
    "argmax": (lambda: hy.argmax(M, dim=0), lambda: hy.argmax(M, axis=0)),
    "softmax": (lambda: hy.softmax(M, dim=0), lambda: hy.softmax(M, axis=0)),
    "cumsum": (lambda: M.cumsum(dim=1), lambda: M.cumsum(axis=1)),
    "norm": (lambda: hy.norm(M, dim=1, keepdim=True), lambda: hy.norm(M, 2, 1, True)),
    "concat": (lambda: hy.concat([M, M], dim=1), lambda: hy.concat([M, M], axis=1)),
    "concat, by place": (lambda: hy.concat([M, M], 1), lambda: hy.concat([M, M], axis=1)),
    "stack": (lambda: hy.stack([M, M], 1), lambda: hy.stack([M, M], axis=1)),
    "gather": (lambda: hy.gather(M, I, dim=0), lambda: hy.gather(M, I, axis=0)),
    "flatten": (lambda: hy.flatten(M, start_dim=0), lambda: hy.flatten(M, start_axis=0)),
    "split": (lambda: hy.split(M, 3, dim=1)[1], lambda: M[:, 3:]),
    "split, a method": (lambda: M.split([1, 3], 1)[1], lambda: M[:, 1:]),
    "chunk": (lambda: hy.chunk(M, 2, 1)[1], lambda: M[:, 2:]),
    "topk": (lambda: M.topk(2, 0)[0], lambda: hy.topk(M, 2, axis=0)[0]),
    "flip": (lambda: hy.flip(M, dims=(0,)), lambda: hy.flip(M, axis=0)),
}


@pytest.mark.parametrize(("there", "here"), SAME.values(), ids=SAME.keys())
def test_words_mean_the_same(there: Callable, here: Callable) -> None:
    wanted = here().numpy()
    for _ in range(3):  # remembered calls, too
        np.testing.assert_array_equal(there().numpy(), wanted)
    np.testing.assert_array_equal(hy.hybridize(there)().numpy(), wanted)


REFUSED = {
    "both": (
        lambda: hy.sum(M, dim=1, axis=1),
        ArgumentTypeError,
        "sum got dim and axis\nFix: give dim alone.",
    ),
    "max": (
        lambda: M.max(dim=1),
        ArgumentTypeError,
        "max got dim\nPyTorch's gives the indices as well. This one gives the values alone.\n"
        "Fix: give axis for the values; argmax gives the indices.",
    ),
    "sort": (
        lambda: hy.sort(M, dim=1),
        ArgumentTypeError,
        "sort got dim\nPyTorch's gives the indices as well. This one gives the values alone.\n"
        "Fix: give axis for the values; argsort gives the indices.",
    ),
    "std": (
        lambda: M.std(dim=1),
        ArgumentTypeError,
        "std got dim without correction\n"
        "PyTorch's divides by n - 1 if not told otherwise, the array standard's by n.\n"
        "Fix: give correction=1, or 0.",
    ),
    "an axis that is a tensor": (
        lambda: hy.sum(M, I),
        ArgumentTypeError,
        "sum got axis i64[1,4]\nFix: give the axis as an int.",
    ),
    "classes that are floats": (
        lambda: hy.nn.functional.cross_entropy(M, hy.asarray([0.0, 1.0, 2.0])),
        DTypeError,
        "cross_entropy cannot take f32[3] as the classes of f32[3,4]\n"
        "Targets of a floating dtype are probabilities, one for each class.\n"
        "Fix: convert class indices with target.astype(hybrid.int64).",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_another_meaning(call: Callable, error: type, text: str) -> None:
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == text


UPDATES = ", updates"
ORDERS = {
    "gather": (lambda: hy.gather(M, 1, I), "i64[1,4]", "", 1),
    "index_select": (lambda: hy.index_select(M, 0, hy.asarray([0, 1])), "i64[2]", "", 0),
    "take": (lambda: hy.take(M, 0, hy.asarray([0, 1])), "i64[2]", "", 0),
    "take_along_axis": (lambda: hy.take_along_axis(M, 0, [[0, 1]]), "a list", "", 0),
    "scatter": (lambda: hy.scatter(M, 0, I, M), "i64[1,4]", UPDATES, 0),
    "scatter_add": (lambda: hy.scatter_add(M, 0, I, M), "i64[1,4]", UPDATES, 0),
    "index_add": (lambda: hy.index_add(M, 0, hy.asarray([0]), M[:1]), "i64[1]", UPDATES, 0),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_arguments(name: str) -> None:
    call, shown, behind, axis = ORDERS[name]
    for function in (call, hy.hybridize(call)):
        with pytest.raises(ArgumentTypeError) as found:
            function()
        assert str(found.value).startswith(
            f"{name} got {axis} for the indices, and {shown} for what comes behind\n"
            f"PyTorch's order is (x, dim, indices{behind}), the order here is "
            f"(x, indices{behind}, axis).\nFix: write {name}(x, indices{behind}, axis={axis})."
        )
