"""Random programs run the same eagerly, hybridized, and hybridized with gradients."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

import hybrid as hy
from hybrid.errors import CaptureError
from tests.random_programs import TRAINING, Program, programs
from tests.staging.harness import compare, draw, f32, i64, is_of_eager_run, same, side

NUMBERS = itertools.count()
CALLS = [
    (f32([0.5, -1.0, 2.0]), f32(0.25), draw(2, 3, seed=1), i64(2), 1),
    (f32([-0.5, 0.25, -2.0]), f32(-1.5), draw(2, 3, seed=2), i64(0), 1),
    (f32([3.0, -2.0, 0.0]), f32(0.75), draw(2, 3, seed=3), i64(3), 4),
]


ROWS = [2, 5, 3, 2, 7]  # of m, call by call: the third finds the axis open
CALLS_OF_SIZES = [
    (*CALLS[number % 3][:2], draw(rows, 3, seed=number), *CALLS[number % 3][3:])
    for number, rows in enumerate(ROWS)
]


def function_of(program: Program, folder: Path) -> Callable[..., Any]:
    """``make`` of the program, which is imported from a file, for conversion needs its source."""
    path = folder / f"program_{next(NUMBERS)}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make


def check(program: Program, folder: Path) -> None:
    note(program.text)
    make = function_of(program, folder)
    same(make, calls=CALLS, make=True, may_refuse=program.features.grow)


def check_sizes(program: Program, folder: Path) -> None:
    """The program goes over so many rows at one call, and over others at the next."""
    note(program.text)
    make = function_of(program, folder)
    same(make, calls=CALLS_OF_SIZES, make=True, may_refuse=True, runs_eagerly=None)


def check_training(program: Program, folder: Path) -> None:
    """The program trains a network on its way, in loops and branches."""
    note(program.text)
    make = function_of(program, folder)
    same(make, calls=CALLS, make=True, grad=False, may_refuse=True, runs_eagerly=None)


def check_derivative(program: Program, folder: Path) -> None:
    """The program takes its gradient itself, as a training step does."""
    note(program.text)
    make = function_of(program, folder)

    def make_derivative() -> Any:
        made = make()
        function, *state = made if isinstance(made, tuple) else (made,)

        def loss(x, *rest):
            results = function(x, *rest)
            total = hy.sum(x) * 0
            for number, result in enumerate(results if isinstance(results, tuple) else (results,)):
                if isinstance(result, hy.Tensor) and result.dtype == x.dtype:
                    total = total + hy.sum(result * result) * (number + 1)
            return total

        derivative = hy.grad(loss)
        return (derivative, *state) if state else derivative

    options = dict(make=True, grad=False, may_refuse=program.features.grow)
    same(make_derivative, calls=CALLS, runs_eagerly=None, **options)


def check_in_a_stream(program: Program, folder: Path) -> None:
    """What is queued has the bits, the state and the errors of what is run at once."""
    note(program.text)
    make = function_of(program, folder)
    for grad_now in (False, True):
        eager = side(make, True, False)
        expected = [eager.call(arguments, grad_now, True) for arguments in CALLS]
        for hybridized in (False, True):
            queued, stream = side(make, True, hybridized), hy.stream()
            queued.function = within(stream, queued.function)
            for number, arguments in enumerate(CALLS):
                found = queued.call(arguments, grad_now, True)
                error = found.pop("error", None)
                if hybridized and isinstance(error, CaptureError):
                    break
                known = {what: value for what, value in expected[number].items() if what != "error"}
                found["printed"] = [e for e in found["printed"] if not is_of_eager_run(e)]
                compare(known, found, error, f"call {number} in a stream")


def within(stream: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            with stream:
                return function(*args)
        finally:
            stream.wait()

    return call


relaxed = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.filter_too_much],
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@settings(relaxed, max_examples=20, derandomize=True)
@given(program=programs())
def test_random_programs(program: Program, folder: Path) -> None:
    check(program, folder)


@settings(relaxed, max_examples=5, derandomize=True)
@given(program=programs())
def test_random_programs_of_sizes(program: Program, folder: Path) -> None:
    check_sizes(program, folder)


@pytest.mark.nightly
@settings(relaxed, max_examples=1000)
@given(program=programs())
def test_many_random_programs_of_sizes(program: Program, folder: Path) -> None:
    check_sizes(program, folder)


@settings(relaxed, max_examples=30, derandomize=True)
@given(program=programs(TRAINING))
def test_random_trainings(program: Program, folder: Path) -> None:
    check_training(program, folder)


@pytest.mark.nightly
@settings(relaxed, max_examples=2000)
@given(program=programs(TRAINING))
def test_many_random_trainings(program: Program, folder: Path) -> None:
    check_training(program, folder)


@settings(relaxed, max_examples=20, derandomize=True)
@given(program=programs())
def test_random_derivatives(program: Program, folder: Path) -> None:
    check_derivative(program, folder)


@settings(relaxed, max_examples=10, derandomize=True)
@given(program=programs())
def test_random_programs_in_a_stream(program: Program, folder: Path) -> None:
    check_in_a_stream(program, folder)


@pytest.mark.nightly
@settings(relaxed, max_examples=1000)
@given(program=programs())
def test_many_random_programs_in_a_stream(program: Program, folder: Path) -> None:
    check_in_a_stream(program, folder)


@pytest.mark.nightly
@settings(relaxed, max_examples=2000)
@given(program=programs())
def test_many_random_programs(program: Program, folder: Path) -> None:
    check(program, folder)


@pytest.mark.nightly
@settings(relaxed, max_examples=1000)
@given(program=programs())
def test_many_random_derivatives(program: Program, folder: Path) -> None:
    check_derivative(program, folder)
