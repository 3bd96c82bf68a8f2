"""Every array function given what it cannot take: a result, or an error of ours that says why."""

import inspect

import numpy as np
import pytest

import hybrid as hy
from hybrid.bench.sweep import SweepArrays, functions, ours
from hybrid.eager.frameworks.interop import asarray
from hybrid.errors import HybridError

ROWS = dict(functions())
VALUES = {
    "text": "x",
    "nothing": None,
    "an object": object(),
    "complex numbers": np.ones(3, complex),
    "texts": np.array(["a", "b"]),
    "a ragged list": [[1.0], [1.0, 2.0]],
    "a scalar": np.float32(0.5),
    "no elements": np.ones(0, np.float32),
    "no rows": np.ones((0, 3), np.float32),
    "three axes": np.full((2, 3, 4), 0.5, np.float32),
    "integers": np.ones((3, 3), np.int64),
    "bools": np.ones((3, 3), bool),
    "not numbers": np.full((3, 3), np.nan, np.float32),
    "a number": 2,
    "far below": -(2**40),
    "beyond sizes": 2**62,
    "a float": 1.5,
    "axes twice": (0, 0),
    "negative sizes": (-1, -2),
}
OPTIONS = {
    "axis": [99, -99, "x", 1.5, (0, 0), (0, 99), True, None],
    "axes": [99, "x", (0, 0), ((0,), (99,))],
    "dtype": ["f99", complex, object()],
    "k": [10**9, "x", 1.5],
    "ord": ["x", (1,)],
    "shape": [(-5,), "x", 2**62, (2**62, 2**62)],
    "n": [-1, "x"],
    "keepdims": [2],
}


def outcome(call) -> str | None:
    """None for a result or an error of ours, else what came instead."""
    try:
        with np.errstate(all="ignore"):
            call()
    except HybridError as error:
        return None if str(error) else "an error without a text"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def calls(name: str):
    """What to call with what, one argument after the other replaced."""
    function = ours(name)
    args, kwargs = ROWS[name](SweepArrays(9, "float32"))
    given = [asarray(x) if isinstance(x, np.ndarray) else x for x in args]
    for at in range(len(given)):
        for what, value in VALUES.items():
            changed = [*given[:at], value, *given[at + 1 :]]
            yield f"{what} at {at}", lambda c=changed: function(*c, **kwargs)
    parameters = inspect.signature(function).parameters if callable(function) else {}
    for option, values in OPTIONS.items():
        parameter = parameters.get(option)
        own = parameter is not None and parameter.kind is parameter.KEYWORD_ONLY
        if own or option in kwargs:
            for value in values:
                wrong = kwargs | {option: value}
                yield f"{option}={value!r}", lambda w=wrong: function(*given, **w)


@pytest.mark.parametrize("name", ROWS)
def test_bad_arguments_meet_an_error_of_ours(name):
    found = {what: outcome(call) for what, call in calls(name)}
    wrong = {what: result for what, result in found.items() if result is not None}
    assert wrong == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda: hy.zeros((2**40,)),
        lambda: hy.ones((2**20, 2**20)),
        lambda: hy.broadcast_to(hy.ones(1), (2**45,)) + 1.0,
        lambda: hy.hybridize(lambda x: hy.broadcast_to(x, (2**45,)) + 1.0)(hy.ones(1)),
    ],
)
def test_memory_that_cannot_be_had(make):
    with pytest.raises(MemoryError):
        make()


def test_an_index_out_of_range_says_which():
    x, i = hy.ones((3, 4)), hy.asarray([0, 7])

    def taken(x, i):
        return hy.take(x, i, axis=1)  # here

    for function in (taken, hy.hybridize(taken)):
        with pytest.raises(IndexError, match=r"index 7 .*4") as caught:
            function(x, i)
        assert isinstance(caught.value, HybridError)
    assert caught.value.at.text.strip().endswith("# here")
