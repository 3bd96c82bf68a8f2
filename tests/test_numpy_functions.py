"""NumPy's functions of tensors: those that call methods of arrays give tensors, in graphs, too."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError, DTypeError, TracedValueError
from tests.helpers import same

X = hy.asarray(np.array([[3.25, -1.5, 2.0], [6.0, 5.75, -4.0]], np.float32))
# name: what is called, with a tensor and with an array
CALLS = {
    "sum": lambda x: np.sum(x),
    "sum along an axis": lambda x: np.sum(x, axis=1, keepdims=True),
    "sum in a dtype": lambda x: np.sum(x, dtype=np.float64),
    "prod": lambda x: np.prod(x, axis=0),
    "max": lambda x: np.max(x, axis=0),
    "min": lambda x: np.min(x),
    "amax": lambda x: np.amax(x, axis=1),
    "amin": lambda x: np.amin(x),
    "all": lambda x: np.all(x > 0, axis=1),
    "any": lambda x: np.any(x > 5, axis=1),
    "all, every where": lambda x: np.all(x > 0, where=True),
    "mean": lambda x: np.mean(x, axis=1),
    "std": lambda x: np.std(x, axis=1),
    "std of a sample": lambda x: np.std(x, axis=1, ddof=1),
    "var": lambda x: np.var(x, axis=0, keepdims=True),
    "var of a sample": lambda x: np.var(x, ddof=1),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": lambda x: np.argmin(x),
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "cumsum of all": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x, axis=0),
    "cumprod of all": lambda x: np.cumprod(x),
    "clip": lambda x: np.clip(x, -1.0, 3.0),
    "clip from below": lambda x: np.clip(x, 0.0, None),
    "round": lambda x: np.round(x),
    "round to a place": lambda x: np.round(x, 1),
    "round to tens": lambda x: np.round(x * 10.0, -1),
    "around": lambda x: np.around(x),
    "take": lambda x: np.take(x, [1, 3]),
    "take along an axis": lambda x: np.take(x, [2, 0], axis=1),
    "argsort": lambda x: np.argsort(x, axis=0),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "transpose": lambda x: np.transpose(x),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_functions_that_call_methods(call) -> None:
    found, wanted = call(X), call(X.numpy())
    assert isinstance(found, hy.Tensor) and found.dtype.name == wanted.dtype.name
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    assert same(call(X), found)  # as it is remembered
    assert same(hy.hybridize(call)(X), found)
    assert same(hy.hybridize(call, mode="trace")(X), found)


# What these functions make of other arrays they make here; an array comes of it.
ARRAYS = {
    "sort": lambda x: np.sort(x, axis=1),
    "partition": lambda x: np.partition(x, 1),
    "median": lambda x: np.median(x),
    "nansum": lambda x: np.nansum(x, axis=0),
    "concatenate": lambda x: np.concatenate([x, x]),
    "diff": lambda x: np.diff(x),
    "searchsorted": lambda x: np.searchsorted(np.arange(3.0), x),
    "cumsum into an array": lambda x: np.cumsum(x, out=np.zeros(6, np.float32)),
    "the order of all": lambda x: np.argsort(x, axis=None),
}


@pytest.mark.parametrize("call", ARRAYS.values(), ids=ARRAYS)
def test_functions_that_ask_for_an_array(call) -> None:
    np.testing.assert_array_equal(call(X), call(X.numpy()))


def test_gradients_flow_through_them() -> None:
    def f(x):
        return np.sum(np.clip(x, -1.0, 3.0) * np.mean(x, axis=1, keepdims=True))

    def g(x):
        return hy.sum(hy.clip(x, -1.0, 3.0) * hy.mean(x, axis=1, keepdims=True))

    assert same(hy.grad(f)(X), hy.grad(g)(X))
    assert same(hy.hybridize(hy.grad(f), mode="trace")(X), hy.grad(g)(X))


REFUSED = {
    "out": (
        lambda x: np.sum(x, out=np.zeros(())),
        "sum got out\nThat is an argument of NumPy's sum; hybrid.sum has none of this name.\n"
        "Fix: write y = hybrid.sum(x), and y.numpy() for an array.",
    ),
    "where": (
        lambda x: np.sum(x, where=np.array([True, False, True])),
        "sum got where\nThat is an argument of NumPy's sum; hybrid.sum has none of this name.\n"
        "Fix: write hybrid.sum(hybrid.where(condition, x, y)) with a y that changes nothing.",
    ),
    "initial": (
        lambda x: np.max(x, initial=3.0),
        "max got initial\nThat is an argument of NumPy's max; hybrid.max has none of this name.\n"
        "Fix: combine hybrid.max(x) with that value.",
    ),
    "dtype": (
        lambda x: np.mean(x, dtype=np.float64),
        "mean got dtype\nThat is an argument of NumPy's mean; hybrid.mean has none of this name.\n"
        "Fix: convert the tensor first: hybrid.mean(x.astype(...)).",
    ),
    "mean": (
        lambda x: x.std(mean=0.0),
        "std got mean\nThat is an argument of NumPy's std; hybrid.std has none of this name.\n"
        "Fix: call hybrid.std without it.",
    ),
    "order": (
        lambda x: x.reshape((3, 2), order="F"),
        "reshape got order\nThat is an argument of NumPy's reshape; hybrid.reshape has none of "
        "this name.\nFix: permute the axes first: hybrid.reshape(hybrid.permute_dims(x, ...)).",
    ),
}


@pytest.mark.parametrize(("call", "text"), REFUSED.values(), ids=REFUSED)
def test_what_they_ask_besides_is_refused_by_name(call, text) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        call(X)
    assert str(caught.value) == text
    named = text.partition(" ")[0]
    with pytest.raises((ArgumentTypeError, TracedValueError), match=rf"hybrid\.{named}"):
        hy.hybridize(call)(X)


def test_places_of_integers() -> None:
    whole = hy.asarray([15, 25])
    assert whole.round(decimals=1).tolist() == [15, 25]
    with pytest.raises(DTypeError, match=r"round cannot take i64\[2\] and decimals=-1"):
        whole.round(decimals=-1)
