"""Programs over sizes are captured once for all sizes, with the bits of eager code at each."""

from __future__ import annotations

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, OutOfRangeError
from hybrid.ir import parse
from hybrid.passes import run_pipeline
from tests.calls import open_loops as open_loops  # which adds to the programs
from tests.calls import open_models as open_models
from tests.calls.open_programs import PROGRAMS
from tests.calls.test_open_families import captures, conditions, families
from tests.staging.harness import describe

SIZES = (5, 9, 12, 17, 33, 8)

# What has an open capture for each answer that a comparison gives at these sizes.
MISLED = {"halves_by_shape": 3}  # plans whose runs find that they are not for these sizes
FAMILIES = {"attention_in_blocks": 2, "halves_by_shape": 3, "interpolate_to_size": 2, "parity": 2}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_capture_serves_all_sizes(name: str) -> None:
    function, arguments = PROGRAMS[name]
    hybridized = hy.hybridize(function)
    for n in SIZES:
        given = arguments(n)
        assert describe(hybridized(*given)) == describe(function(*given)), n
    assert captures(hybridized) == FAMILIES.get(name, 1), [
        conditions(hybridized),
        [(family.fixed, family.refusal) for family in families(hybridized)],
    ]
    served = [p for p in hybridized._table.all() if p.capture.open_axes is not None]
    assert len(served) == len(SIZES) - 1 + MISLED.get(name, 0)
    for family in families(hybridized):
        for capture in [made.capture for made in family.captures]:
            fixed = len(capture.open_axes.sizes.fixed)
            run_pipeline(capture.graph, check=True)
            assert len(capture.open_axes.sizes.fixed) == fixed  # no pass takes one for a number
            text = str(capture.graph)
            if "{function=<" not in text:  # what Python is called for has no text
                assert str(parse(text)) == text


def test_the_table_names_programs() -> None:
    assert FAMILIES.keys() <= PROGRAMS.keys()


def test_weights_prepared_once_for_many_sizes() -> None:
    """Those of a few rows are prepared in another order than those of more."""
    weight = hy.ones((64, 32)) * hy.arange(32)

    def product(x):
        return x @ weight

    hybridized = hy.hybridize(product, dynamic={"x": {0: hy.Dim("n", 1, 64)}}, ledger=False)
    rows = hy.reshape(hy.arange(64 * 64, dtype=hy.float32), (64, 64)) / 64
    for n in (2, 3, 4, 5, 8, 3, 2, 17):
        x = rows[:n]
        for _ in range(2):
            assert (hybridized(x).numpy() == product(x).numpy()).all()


@pytest.mark.parametrize("over_a_range", [False, True])
def test_strict_zips_of_open_axes(over_a_range: bool) -> None:
    """What differs in length raises as in Python, whichever size the plan was made for."""

    def program(x, y):
        total = 0.0
        for a, b in zip(x, range(y) if over_a_range else y, strict=True):
            total = total + a * b
        return total

    hybridized = hy.hybridize(program)
    for first, second in ((2, 2), (3, 3), (2, 3), (3, 2), (4, 2), (4, 4)):
        x, y = hy.ones(first), second if over_a_range else hy.ones(second)
        if first == second:
            assert describe(hybridized(x, y)) == describe(program(x, y))
            continue
        with pytest.raises(ValueError, match="zip") as expected:
            program(x, y)
        with pytest.raises(ValueError, match="zip") as found:
            hybridized(x, y)
        assert found.value.args == expected.value.args


@pytest.mark.parametrize(
    "item",
    [
        lambda c, y: y[c],
        lambda c, y: hy.stack([y, y, y])[c, 0],
        lambda c, y: hy.outer(y, y)[None, c, c],
        lambda c, y: y[c - 9],
    ],
)
def test_errors_at_run_time_say_the_sizes_of_the_call(item) -> None:
    def program(x, y):
        at, total = 0, 0.0
        while at < x.shape[0]:
            total = total + hy.sum(item(at, y))
            at += 2
        return total

    def outcome(function, x, y):
        try:
            return describe(function(x, y))
        except OutOfRangeError as error:
            return error.args

    hybridized = hy.hybridize(program)
    for first, second in ((3, 3), (4, 4), (7, 4), (9, 5), (3, 10), (8, 9)):
        x, y = hy.ones(first), hy.ones(second)
        assert outcome(hybridized, x, y) == outcome(program, x, y)


def told_of_an_error(x, y):
    try:
        return x @ y
    except Exception as error:
        return str(error), repr(error)


def an_index_that_may_be_outside(x, y):
    found = []
    for t in (x, y):
        try:
            found.append(t[4])
        except IndexError as error:
            found.append(hy.zeros(()) + len(error.args))
    return found


def an_error_on_the_other_path(x, y):
    p = 0
    try:
        if hy.sum(x) < 0:
            p = x @ y
        p = 1
    except Exception:
        p = 2
    return p


def an_error_beside_another(x, y):
    try:
        if hy.sum(x) > 0:
            raise TypeError("positive")
        x = x @ y
    except ValueError:
        pass
    return x


@pytest.mark.parametrize(
    "program",
    [
        told_of_an_error,
        an_index_that_may_be_outside,
        an_error_on_the_other_path,
        an_error_beside_another,
    ],
)
def test_errors_that_say_sizes_and_are_caught(program) -> None:
    """Where a handler takes one, a call is captured for its own sizes."""

    def outcome(function, *args):
        try:
            return describe(function(*args))
        except TypeError as error:
            return error.args

    for ledger in (None, False):
        hybridized = hy.hybridize(program, ledger=ledger)
        for first, second in ((3, 3), (4, 4), (3, 5), (4, 7), (7, 7), (8, 9)):
            for sign in (1.0, -1.0):
                args = hy.ones(first) * sign, hy.ones(second)
                assert outcome(hybridized, *args) == outcome(program, *args)


def test_the_refusal_of_an_error_of_declared_sizes_that_is_caught() -> None:
    dims = {"x": {0: hy.Dim("n", 1, 9)}, "y": {0: hy.Dim("m", 1, 9)}}
    hybridized = hy.hybridize(told_of_an_error, dynamic=dims)
    with pytest.raises(CaptureError) as caught:
        hybridized(hy.ones(3), hy.ones(4))
    assert caught.value.what == "a ShapeError that sizes of open axes lead to is caught"
    assert caught.value.why == (
        "It says: matmul cannot take f32[n] and f32[m]. A graph for many sizes has no such path."
    )
    fix = "compare the sizes before the computation, or capture for each size (dynamic=False)"
    assert caught.value.fix == fix

    def compared(x, y):
        return x @ y if len(x) == len(y) else x

    for function in (hy.hybridize(compared, dynamic=dims), hy.hybridize(told_of_an_error)):
        expected = compared if function.function is compared else told_of_an_error
        for args in ((hy.ones(3), hy.ones(4)), (hy.ones(5), hy.ones(5))):
            assert describe(function(*args)) == describe(expected(*args))
