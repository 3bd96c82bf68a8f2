"""NumPy's functions of tensors are the functions of their names here: values, gradients, graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.frameworks import numpy_protocols
from hybrid.eager.frameworks.numpy_protocols import answer
from hybrid.errors import ArgumentTypeError, TracedValueError

A = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)
Call = Callable[[Any, Any], Any]

TENSORS: dict[str, Call] = {
    "sin": lambda x, a: np.sin(x),
    "abs": lambda x, a: np.abs(-x),
    "arctan2": lambda x, a: np.arctan2(x, a),
    "rint": lambda x, a: np.rint(x * 3),
    "two": lambda x, a: np.add(x, x),
    "an array first": lambda x, a: a - x,
    "an array last": lambda x, a: x - a,
    "power": lambda x, a: np.power(x, 2),
    "shift": lambda x, a: np.left_shift(x.astype("int32"), 2),
    "mod": lambda x, a: np.mod(a, x),
    "matmul": lambda x, a: a @ x.T,
    "less": lambda x, a: a < x * 1.5,
    "greater": lambda x, a: np.greater(a, x * 1.5),
    "equal": lambda x, a: a == x,
    "a scalar": lambda x, a: np.float32(2) * x,
    "a double": lambda x, a: np.float64(2) - x,
    "logical": lambda x, a: np.logical_and(x > 0.2, x < 0.5),
    "maximum": lambda x, a: np.maximum(x, 0.5),
    "reduce": lambda x, a: np.add.reduce(x),
    "reduce along": lambda x, a: np.maximum.reduce(x, axis=1, keepdims=True),
    "reduce all": lambda x, a: np.multiply.reduce(x, axis=None),
    "accumulate": lambda x, a: np.add.accumulate(x, axis=1),
    "sum": lambda x, a: np.sum(x),
    "sum along": lambda x, a: np.sum(x, 0, keepdims=True),
    "mean": lambda x, a: np.mean(x, axis=1),
    "std": lambda x, a: np.std(x, ddof=1),
    "amax": lambda x, a: np.amax(x, axis=1),
    "any": lambda x, a: np.any(x > 0.5, axis=0),
    "argmax": lambda x, a: np.argmax(x, axis=1),
    "argsort": lambda x, a: np.argsort(-x),
    "sort": lambda x, a: np.sort(-x),
    "clip": lambda x, a: np.clip(x, 0.2, 0.5),
    "clip by names": lambda x, a: np.clip(x, a_min=0.2, a_max=None),
    "cumsum": lambda x, a: np.cumsum(x),
    "cumsum along": lambda x, a: np.cumsum(x, axis=1),
    "concatenate": lambda x, a: np.concatenate([x, a], axis=1),
    "stack": lambda x, a: np.stack([x, x], 1),
    "vstack": lambda x, a: np.vstack([x[0], x]),
    "hstack": lambda x, a: np.hstack([x, x]),
    "hstack of rows": lambda x, a: np.hstack([x[0], x[1]]),
    "where": lambda x, a: np.where(x > 0.5, x, 0),
    "reshape": lambda x, a: np.reshape(x, (3, 2)),
    "ravel": lambda x, a: np.ravel(x),
    "transpose": lambda x, a: np.transpose(x),
    "transpose by axes": lambda x, a: np.transpose(x, (1, 0)),
    "swapaxes": lambda x, a: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x, a: np.moveaxis(x, 0, 1),
    "expand_dims": lambda x, a: np.expand_dims(x, 0),
    "squeeze": lambda x, a: np.squeeze(x[None]),
    "broadcast_to": lambda x, a: np.broadcast_to(x, (4, 2, 3)),
    "repeat": lambda x, a: np.repeat(x, 2, axis=0),
    "tile": lambda x, a: np.tile(x, (2, 1)),
    "roll": lambda x, a: np.roll(x, 1, axis=1),
    "flip": lambda x, a: np.flip(x, 0),
    "tril": lambda x, a: np.tril(x, k=-1),
    "diff": lambda x, a: np.diff(x),
    "take": lambda x, a: np.take(x, [0, 2], axis=1),
    "take_along_axis": lambda x, a: np.take_along_axis(x, np.argsort(-x, axis=1), axis=1),
    "zeros_like": lambda x, a: np.zeros_like(x),
    "ones_like": lambda x, a: np.ones_like(x, dtype=np.float64),
    "full_like": lambda x, a: np.full_like(x, 3.0),
    "copy": lambda x, a: np.copy(x),
    "round": lambda x, a: np.round(x * 3),
    "round to a place": lambda x, a: np.round(x, 1),
    "dot": lambda x, a: np.dot(x, a.T),
    "dot of vectors": lambda x, a: np.dot(x[0], a[0]),
    "dot of a number": lambda x, a: np.dot(x, 2.0),
    "outer": lambda x, a: np.outer(x[0], x[1]),
    "tensordot": lambda x, a: np.tensordot(x, x.T, 1),
    "einsum": lambda x, a: np.einsum("ij,kj->ik", x, a, optimize=True),
    "norm": lambda x, a: np.linalg.norm(x),
    "norm along": lambda x, a: np.linalg.norm(x, ord=1, axis=1),
    "inv": lambda x, a: np.linalg.inv(x[:, :2]),
    "det": lambda x, a: np.linalg.det(x[:, :2]),
    "solve": lambda x, a: np.linalg.solve(x[:, :2], x[:, 2]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_it_gives_a_tensor_of_numpys_values(name: str) -> None:
    call, x = TENSORS[name], hy.asarray(A)
    found, wanted = call(x, A), call(A, A)
    assert type(found) is hy.Tensor and found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5)
    kept = hy.hybridize(lambda x: call(x, A))(x)
    assert type(kept) is hy.Tensor
    assert (kept.dtype, kept.numpy().tobytes()) == (found.dtype, found.numpy().tobytes())


def test_several_results() -> None:
    x = hy.asarray(A)
    for found, wanted in zip(np.where(x > 0.5), np.where(A > 0.5), strict=True):
        assert found.tolist() == wanted.tolist()
    for found, wanted in zip(np.meshgrid(x[0], x[1]), np.meshgrid(A[0], A[1]), strict=True):
        assert found.tolist() == wanted.tolist()


ARRAYS: dict[str, Call] = {
    "percentile": lambda x, a: np.percentile(x, 50),
    "unique": lambda x, a: np.unique(x),
    "into an array": lambda x, a: np.cumsum(x, out=np.zeros(6, np.float32)),
    "sorted as one": lambda x, a: np.sort(x, axis=None),
    "split": lambda x, a: np.split(x, 3, axis=1)[1],
    "norm of matrices": lambda x, a: np.linalg.norm(x, ord="nuc"),
    "ravel by columns": lambda x, a: np.ravel(x, order="F"),
    "dot of stacks": lambda x, a: np.dot(x[None], x.T),
    "allclose": lambda x, a: np.allclose(x, a),
    "array_equal": lambda x, a: np.array_equal(x, a),
    "asarray": lambda x, a: np.asarray(x),
    "array": lambda x, a: np.array([x, x]),
    "shape": lambda x, a: np.shape(x),
    "ndim": lambda x, a: np.ndim(x),
    "size": lambda x, a: (np.size(x), np.size(x, 1)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_other_functions_get_arrays(name: str) -> None:
    found, wanted = ARRAYS[name](hy.asarray(A), A), ARRAYS[name](A, A)
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(found, wanted)


def test_gradients() -> None:
    x = hy.asarray(A)
    x.requires_grad = True
    np.sum(np.concatenate([np.sin(x), 2 * x])).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(A) + 2, rtol=1e-6)


def test_an_array_is_changed_in_place() -> None:
    a = A.copy()
    same, x = a, hy.asarray(A)
    a += x
    a *= 2
    a -= x
    assert a is same and isinstance(a, np.ndarray)
    np.testing.assert_allclose(a, 3 * A, rtol=1e-6)
    assert np.add(x, x, out=a) is a
    np.testing.assert_array_equal(a, A + A)
    counts = np.arange(3)
    with pytest.raises(TypeError, match="same_kind"):
        counts += x[0]
    assert counts.tolist() == [0, 1, 2]


def test_an_array_that_is_changed_in_place_in_a_graph_is_refused() -> None:
    a = A.copy()

    def function(x: Any) -> Any:
        total = a
        total += x
        return total

    with pytest.raises(TracedValueError) as caught:
        hy.hybridize(function)(hy.asarray(A))
    assert caught.value.fix == "write a = a + x in place of a += x, so that a is a tensor"
    np.testing.assert_array_equal(a, A)


REFUSED: dict[str, tuple[Call, str]] = {
    "no such function": (
        lambda x, a: np.cbrt(x),
        "numpy.cbrt of a Tensor\nThere is no function of that name and meaning here.\n"
        "Fix: write hybrid.asarray(numpy.cbrt(x.numpy())).",
    ),
    "another meaning": (
        lambda x, a: np.fmax(x, a),
        "numpy.fmax of a Tensor\nThere is no function of that name and meaning here.\n"
        "Fix: write hybrid.asarray(numpy.fmax(x.numpy())).",
    ),
    "a method": (
        lambda x, a: np.multiply.outer(x, a),
        "numpy.multiply.outer of a Tensor\nThere is no function of that name and meaning here.\n"
        "Fix: write hybrid.asarray(numpy.multiply.outer(x.numpy())).",
    ),
    "of the author": (
        lambda x, a: np.frompyfunc(float, 1, 1)(x),
        "numpy.float (vectorized) of a Tensor\n"
        "There is no function of that name and meaning here.\n"
        "Fix: write hybrid.asarray(numpy.float (vectorized)(x.numpy())).",
    ),
    "dtype": (
        lambda x, a: np.sin(x, dtype=np.float64),
        "numpy.sin of a Tensor got dtype\nFix: leave dtype out, or call numpy.sin of x.numpy().",
    ),
    "where": (
        lambda x, a: np.sin(x, where=a > 0.5),
        "numpy.sin of a Tensor got where\nFix: leave where out, or call numpy.sin of x.numpy().",
    ),
    "out": (
        lambda x, a: np.add(x, a, out=x),
        "numpy.add of tensors got a Tensor as out\nFix: write x.assign(y) for the result y.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises(ArgumentTypeError) as caught:
        call(hy.asarray(A), A)
    assert str(caught.value) == text


def test_the_advice_runs() -> None:
    x = hy.asarray(A)
    assert hy.asarray(np.cbrt(x.numpy())).shape == (2, 3)
    assert np.sin(x.numpy(), dtype=np.float64).dtype == np.float64


def test_every_name_of_the_tables_is_a_function_here() -> None:
    names = [*numpy_protocols._UFUNCS.split(), *numpy_protocols._OPERATORS]
    for name in [*names, *numpy_protocols._COMPARED, *numpy_protocols._FUNCTIONS.split()]:
        if hasattr(np, name):  # those of later versions than the one that is installed
            assert answer(getattr(np, name)) is not None, name
    for name in numpy_protocols._LINEAR.split():
        assert answer(getattr(np.linalg, name)) is not None, name
    for name, own in numpy_protocols.OTHER_NAMES.items():
        assert hasattr(np, name) and hasattr(hy, own)
    assert answer(np.percentile) is None and answer(len) is None
