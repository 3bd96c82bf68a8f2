"""Indexing tensors by ints known at run time: what eager gives for the Python int."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import HybridError, NeedsValue
from tests.helpers import graph_of, normal_text, tensor
from tests.numbers import Fixed, Within, capture, run

X = tensor(4, 3, 5)
V = tensor(5, seed=1)

READS = {
    "x[i]": (lambda x, i, j: x[i], 4),
    "x[i, :]": (lambda x, i, j: x[i, :], 4),
    "x[:, i]": (lambda x, i, j: x[:, i], 3),
    "x[..., i]": (lambda x, i, j: x[..., i], 5),
    "x[None, i]": (lambda x, i, j: x[None, i], 4),
    "x[i, 2]": (lambda x, i, j: x[i, 2], 4),
    "x[1:3, i, ::2]": (lambda x, i, j: x[1:3, i, ::2], 3),
    "x[i, j]": (lambda x, i, j: x[i, j], 3),
    "x[i, :, j]": (lambda x, i, j: x[i, :, j], 4),
    "x[i, [2, 0]]": (lambda x, i, j: x[i, [2, 0]], 4),
    "x[i + 1 - 1][j]": (lambda x, i, j: x[i + 1 - 1][j], 3),
}


@pytest.mark.parametrize("name", READS)
def test_reading(name: str) -> None:
    function, size = READS[name]
    for i in range(-size, size):
        for j in (0, -1, 2):
            wanted = function(X, i, j).numpy()
            found = run(function, X, i, j)
            assert found.shape == wanted.shape and found.tobytes() == wanted.tobytes(), (i, j)


def _written(key: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(x: Any, v: Any, i: Any, j: Any) -> Any:
        y = x + 0.0
        y[key(i, j)] = v
        return y

    return function


WRITES = {
    "x[i]": (lambda i, j: i, 4),
    "x[:, i]": (lambda i, j: (slice(None), i), 3),
    "x[i, j]": (lambda i, j: (i, j), 3),
    "x[i, ::2]": (lambda i, j: (i, slice(None, None, 2)), 4),
    "x[i, :, j]": (lambda i, j: (i, slice(None), j), 4),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing(name: str) -> None:
    key, size = WRITES[name]
    function = _written(key)
    for i in range(-size, size):
        for j, value in ((0, V[:3] if name == "x[i, :, j]" else V), (-2, 2.5)):
            wanted = function(X, value, i, j).numpy()
            assert run(function, X, Fixed(value), i, j).tobytes() == wanted.tobytes(), (i, j)


@pytest.mark.parametrize("name", READS)
def test_gradients_of_reading(name: str) -> None:
    function, size = READS[name]

    def gradient(x: Any, i: Any, j: Any) -> Any:
        return hy.grad(lambda x: hy.sum(function(x, i, j) * -1.5 + function(x, i, j) ** 2))(x)

    for i in range(-size, size):
        found = run(gradient, X, Within(i, -size, size - 1), Within(-1, -3, 2))
        assert found.tobytes() == gradient(X, i, -1).numpy().tobytes()


@pytest.mark.parametrize("name", WRITES)
def test_gradients_of_writing(name: str) -> None:
    key, size = WRITES[name]
    function = _written(key)
    weights = tensor(4, 3, 5, seed=2)
    value = V[:3] if name == "x[i, :, j]" else V

    def gradients(x: Any, v: Any, i: Any, j: Any) -> Any:
        return hy.grad(lambda x, v: hy.sum(function(x, v, i, j) * -weights), (0, 1))(x, v)

    for i in range(-size, size):
        found = run(gradients, X, value, Within(i, -size, size - 1), Within(1, 0, 1))
        for a, b in zip(found, gradients(X, value, i, 1), strict=True):
            assert a.tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("index", [4, -5, 2**40])
@pytest.mark.parametrize("function", [lambda x, i: x[i], lambda x, i: _written(lambda i, j: i)(
    x, 1.0, i, 0)], ids=["read", "write"])  # fmt: skip
def test_out_of_range(function: Callable[..., Any], index: int) -> None:
    with pytest.raises(HybridError) as eager:
        function(X, index)
    with pytest.raises(HybridError) as caught:
        run(function, X, index)
    assert type(caught.value) is type(eager.value)
    assert (caught.value.what, caught.value.why) == (eager.value.what, eager.value.why)
    assert caught.value.fix == eager.value.fix
    assert caught.value.at.path == __file__  # the author's line


def test_each_index_is_checked_on_its_own_axis() -> None:
    with pytest.raises(IndexError, match="index 3 is out of range for axis 1"):
        run(lambda x, i, j: x[i, j], X, 0, 3)


def test_a_known_range_needs_no_check() -> None:
    graph = capture(lambda x, i: x[i], X, Within(2, 0, 3)).graph
    assert normal_text(graph) == normal_text(
        graph_of(
            """
            graph @numbers(%x: f32[4,3,5], %i: i64[]) {
              %r: f32[3,5] = pick %x, %i {axis=0}
              return %r
            }
            """
        )
    )


def test_what_is_no_index() -> None:
    with pytest.raises(TypeError, match="float is not an index"):
        run(lambda x, i: x[i], X, 1.5)
    with pytest.raises(TypeError, match="a bool is not an index"):
        run(lambda x, i: x[i], X, True)
    with pytest.raises(NeedsValue):
        run(lambda x, i: [1, 2, 3][i], X, 1)
