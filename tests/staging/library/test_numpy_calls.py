"""NumPy's functions in captured code, given tensors and traced numbers."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import NeedsValue, TracedValueError
from tests.helpers import tensor

X = tensor(3)
CALLS = {
    "asarray": (
        lambda x: np.asarray(x),
        "numpy.asarray()",
        "leave numpy.asarray out, or join values with hybrid.stack",
    ),
    "array": (
        lambda x: np.array([x, x]),
        "numpy.array()",
        "leave numpy.array out, or join values with hybrid.stack",
    ),
    "float32": (
        lambda x: np.float32(x),
        "numpy.float32()",
        'write hybrid.astype(x, "float32") for one of the dtypes of hybrid',
    ),
    "partition": (
        lambda x: np.partition(x, 1),
        "numpy.partition()",
        "write it with the functions of hybrid, or call numpy.partition through hybrid.py_call or "
        "outside the hybridized function",
    ),
    "fmax": (lambda x: np.fmax(x, x), "numpy.fmax()", "call hybrid.maximum"),
    "outer": (
        lambda x: np.add.outer(x, x),
        "numpy.add.outer()",
        "write it with the functions of hybrid, or call numpy.add.outer through hybrid.py_call "
        "or outside the hybridized function",
    ),
    "a method": (
        lambda x: np.ones(3, np.float32).dot(x),
        "numpy.ndarray.dot()",
        "call hybrid.matmul",
    ),
}


@pytest.mark.parametrize(("function", "name", "fix"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("given", [X, X.numpy()], ids=["tensor", "array"])
def test_numpy_on_tensors_names_what_to_call(function, name, fix, given) -> None:
    with pytest.raises(TracedValueError) as caught:
        hy.hybridize(function)(given)
    assert caught.value.what == f"{name} of a traced value was asked for"
    assert caught.value.fix == fix
    assert caught.value.at.path == __file__


def test_the_whole_message() -> None:
    function = hy.hybridize(lambda x: np.fmin(x, 1))
    line = function.__wrapped__.__code__.co_firstlineno
    with pytest.raises(TracedValueError) as caught:
        function(np.ones(3, np.float32))
    assert str(caught.value) == (
        f"numpy.fmin() of a traced value was asked for ({__file__}:{line})\n"
        f"    {line} | function = hy.hybridize(lambda x: np.fmin(x, 1))\n"
        "While a function is traced its tensors are placeholders (f32[3] here) without values.  "
        "NumPy arrays among its arguments are tensors inside.\n"
        "Fix: call hybrid.minimum."
    )


def test_numpy_on_a_traced_number() -> None:
    with pytest.raises(NeedsValue) as caught:
        hy.hybridize(lambda x: np.sqrt(x[0].item()))(X)
    assert caught.value.what == "numpy.sqrt() needs the value of a traced float"
    assert caught.value.fix == "call hybrid.sqrt"


def test_a_loop_whose_index_numpy_takes_is_unrolled() -> None:
    def function(x):
        for i in range(3):
            x = x * float(np.sqrt(i + 1))
        return x

    assert hy.hybridize(function)(X).tolist() == function(X).tolist()


def test_what_asks_for_no_value_is_served() -> None:
    def function(x):
        scale = np.sqrt(np.float32(4.0)) * np.ones(np.shape(x), np.float32)
        rows = np.zeros(x.shape).shape
        return x * scale + np.ndim(x) * np.size(x), rows

    (found, rows), (expected, _) = hy.hybridize(function)(X), function(X)
    assert found.tolist() == expected.tolist()
    assert rows == (3,)


def test_the_eager_fallback_runs_numpy() -> None:
    function = hy.hybridize(lambda x: float(np.median(x)), fallback="eager")
    with pytest.warns(UserWarning, match="numpy.median"):
        assert function(np.ones(3, np.float32)) == 1.0
