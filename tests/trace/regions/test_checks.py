"""Checks that a plan makes: the exceptions are those of eager code."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import ArgumentError
from hybrid.trace.regions.checks import check, fail
from tests.helpers import tensor
from tests.numbers import capture, run


class Custom(Exception):
    def __init__(self, code: Any, *, detail: str) -> None:
        super().__init__(code)
        self.detail = detail


def test_a_check_that_passes_does_nothing() -> None:
    assert run(lambda n: (check(n > 1, ValueError("no")), n)[1], 2) == 2


def test_the_exception_has_its_class_its_arguments_and_the_line() -> None:
    def function(x: Any, n: Any) -> Any:
        check(n < 3, ValueError("bad", n, f"{n:.1f} {x}", [x]))
        return x

    graph = capture(function, tensor(2), 3).graph
    for _ in range(2):  # a fresh exception at each run
        with pytest.raises(ValueError) as caught:
            run(function, tensor(2), 3)
        bad, number, text, [x] = caught.value.args
        assert (bad, number, text) == ("bad", 3, f"3.0 {tensor(2)}")
        assert x.tolist() == tensor(2).tolist()
        line = function.__code__.co_firstlineno + 1
        source = 'check(n < 3, ValueError("bad", n, f"{n:.1f} {x}", [x]))'
        assert caught.value.__notes__ == [f"{__file__}:{line}\n    {line} | {source}"]
    assert str(graph).count("py_call") == 1


def test_an_exception_that_cannot_be_copied_keeps_what_it_has() -> None:
    error = Custom(7, detail="here")
    error.__cause__ = KeyError("cause")
    with pytest.raises(Custom) as caught:
        run(lambda n: check(n < 3, error), 3)
    assert (caught.value.args, caught.value.detail) == ((7,), "here")
    assert repr(caught.value.__cause__) == "KeyError('cause')"


def test_a_function_makes_the_exception_from_values() -> None:
    def make(n: int, x: Any) -> Exception:
        return LookupError(n + 1, x.tolist())

    with pytest.raises(LookupError) as caught:
        run(lambda x, n: check((x.sum() < -1000.0), make, n, x), tensor(2), 3)
    assert caught.value.args == (4, tensor(2).tolist())
    with pytest.raises(AssertionError) as bare:
        run(lambda n: check(n == 0, AssertionError), 3)
    assert bare.value.args == ()


def test_an_error_of_this_package_gets_its_place() -> None:
    with pytest.raises(ArgumentError) as caught:
        run(lambda n: check(n == 0, ArgumentError("odd", fix="even")), 3)
    assert caught.value.at.path == __file__


def test_failing_whenever_the_plan_gets_there() -> None:
    with pytest.raises(RuntimeError, match="always 5"):
        run(lambda n: fail(RuntimeError(f"always {n}")), 5)


def test_the_traceback_ends_at_the_line_that_raised() -> None:
    def divide(x: Any) -> Any:
        return 1 / x.item()  # the author's line

    def refuse(x: Any) -> Any:
        if x > 0:
            raise ValueError("positive")  # the author's line
        return x

    for function, value in ((divide, 0.0), (refuse, 1.0)):
        with pytest.raises((ArithmeticError, ValueError)) as caught:
            hy.hybridize(function)(hy.asarray(value))
        last = caught.traceback[-1]
        assert "# the author's line" in str(last.statement)
        assert last.name == function.__name__
