"""Ranges for integers: closed forms, made-up distributions, and the algorithm of TensorRT."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hybrid as hy
from hybrid.compress.calibration import (
    BINS,
    METHODS,
    RangeObserver,
    choose_range,
    scale_and_zero,
)
from hybrid.errors import ArgumentError, ArgumentTypeError


def normal(size: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)


def relu(size: int, seed: int = 0) -> np.ndarray:
    """Half of it zeros, which is what a ReLU sends."""
    return np.maximum(normal(size, seed), 0)


def with_outliers(size: int = 20_000) -> np.ndarray:
    values = normal(size, 3)
    values[:5] = 20
    return values


# Scales and zero points --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lo", "hi", "scale", "zero"),
    [
        (0.0, 255.0, 1.0, 0),
        (-255.0, 0.0, 1.0, 255),
        (-1.0, 1.0, 2 / 255, 128),  # 127.5, whose quotient by the rounded scale is above it
        (-3.0, 5.0, 8 / 255, 96),  # 95.625
        (2.0, 5.1, 5.1 / 255, 0),  # widened to 0
        (-5.1, -2.0, 5.1 / 255, 255),
        (0.0, 0.0, 1.0, 0),
        (0.0, 1e-44, 1.0, 0),  # a scale that is 0 in float32
    ],
)
def test_unsigned_scales(lo: float, hi: float, scale: float, zero: int) -> None:
    got = scale_and_zero(lo, hi)
    if (lo, hi) == (-1.0, 1.0):
        zero = int(np.rint(1 / float(np.float32(2 / 255))))
    assert got == (np.float32(scale), zero)
    assert (got[0].dtype, got[1].dtype) == (np.float32, np.uint8)


@pytest.mark.parametrize(
    ("lo", "hi", "bits", "scale"),
    [
        (-127.0, 3.0, 8, 1.0),
        (-1.0, 2.0, 8, 2 / 127),
        (-7.0, 0.0, 4, 1.0),
        (0.5, 2.0, 2, 2.0),
        (0.0, 0.0, 8, 1.0),
    ],
)
def test_signed_scales_are_symmetric(lo: float, hi: float, bits: int, scale: float) -> None:
    got = scale_and_zero(lo, hi, bits, signed=True)
    assert got == (np.float32(scale), 0)
    assert (got[0].dtype, got[1].dtype) == (np.float32, np.int8)


def test_few_bits() -> None:
    assert scale_and_zero(-1.0, 2.0, bits=2) == (np.float32(1), 1)
    assert scale_and_zero(-3.0, 12.0, bits=4) == (np.float32(1), 3)


def test_arrays_of_ranges() -> None:
    lo, hi = np.array([-3.0, 0.0, 0.0]), np.array([5.0, 255.0, 0.0])
    scale, zero = scale_and_zero(lo, hi)
    for at in range(3):
        assert (scale[at], zero[at]) == scale_and_zero(lo[at], hi[at])
    assert (scale.dtype, zero.dtype, scale.shape) == (np.float32, np.uint8, (3,))


LIMITS = st.floats(-(2.0**127), 2.0**127, width=32)


@settings(deadline=None)
@given(LIMITS, LIMITS, st.integers(2, 8), st.booleans())
def test_any_range_has_a_scale(a: float, b: float, bits: int, signed: bool) -> None:
    lo, hi = min(a, b), max(a, b)
    scale, zero = scale_and_zero(lo, hi, bits, signed)
    top = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    assert np.isfinite(scale) and scale > 0 and 0 <= zero <= top
    if scale > 1e-30:  # each limit is half a step and its rounding from an integer of the range
        for limit in (min(lo, 0.0), max(hi, 0.0)):
            q = np.clip(np.rint(limit / float(scale)) + float(zero), -top if signed else 0, top)
            assert abs((q - float(zero)) * float(scale) - limit) <= 0.5001 * scale


# Ranges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 3.0, -3.0, 1e-40, 1e30])
@pytest.mark.parametrize("size", [1, 50])
def test_one_value_again_and_again(method: str, value: float, size: int) -> None:
    values = np.full(size, value, np.float32)
    assert choose_range(values, method) == (
        min(0.0, float(values[0])),
        max(0.0, float(values[0])),
    )


@pytest.mark.parametrize("method", METHODS)
def test_what_is_given_may_be_a_tensor_an_array_numbers_or_batches(method: str) -> None:
    values = normal(600)
    expected = choose_range(values, method)
    assert choose_range(values.reshape(20, 5, 6), method) == expected
    assert choose_range(hy.asarray(values), method) == expected
    assert choose_range([values[:7], hy.asarray(values[7:])], method) == expected
    assert choose_range(tuple(values.tolist()), method) == expected


def test_minmax_includes_zero() -> None:
    assert choose_range(np.array([2.0, 5.0])) == (0.0, 5.0)
    assert choose_range(np.array([-5.0, -2.0])) == (-5.0, 0.0)
    assert choose_range(np.array([-5, 7], np.int8)) == (-5.0, 7.0)


def test_a_percentile_is_reached_within_a_bin() -> None:
    values = np.arange(-5000, 15_001, dtype=np.float32)  # 20,001 values
    magnitudes = np.sort(np.abs(values))
    for percentile in (1, 50.0, 90, 99.99):
        lo, hi = choose_range(values, "percentile", percentile)
        exact = magnitudes[math.ceil(len(values) * percentile / 100) - 1]
        assert 0 <= hi - exact <= 15_000 / BINS + 1
        assert lo == max(-5000.0, -hi)
    assert choose_range(values, "percentile", 100) == (-5000.0, 15_000.0)


def test_zeros_count_towards_a_percentile() -> None:
    values = np.concatenate([np.zeros(900), np.linspace(1, 2, 100)])
    assert choose_range(values, "percentile", 50)[1] == 2 / BINS
    assert choose_range(values[900:], "percentile", 50)[1] == pytest.approx(1.5, abs=0.01)


def squared_error(values: np.ndarray, limit: float, bits: int = 8) -> float:
    """What rounding and clipping do to the values, one by one."""
    scale, zero = scale_and_zero(max(values.min(), -limit), min(values.max(), limit), bits)
    q = np.clip(np.rint(values / scale) + float(zero), 0, 2**bits - 1)
    return float(np.sum(((q - float(zero)) * float(scale) - values) ** 2))


@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("values", [normal(20_000), relu(20_000), with_outliers()])
def test_mse_takes_the_limit_that_is_best_for_the_values_themselves(
    values: np.ndarray, bits: int
) -> None:
    values = values.astype(np.float64)
    largest = np.abs(values).max()
    lo, hi = choose_range(values, "mse", bits=bits)
    steps = hi / largest * 100
    assert steps == pytest.approx(round(steps)) or hi == values.max()
    assert lo == max(values.min(), -hi) if values.min() < 0 else lo == 0
    errors = [squared_error(values, largest * k / 100, bits) for k in range(20, 101)]
    assert squared_error(values, max(hi, -lo), bits) <= 1.02 * min(errors)


def test_mse_clips_more_the_fewer_bits_there_are() -> None:
    limits = [choose_range(normal(20_000), "mse", bits=bits)[1] for bits in (2, 3, 4, 6, 8)]
    assert limits == sorted(limits) and limits[0] < 0.7 * limits[-1]


# kl ----------------------------------------------------------------------------------------------


def published(values: np.ndarray) -> tuple[list[float], float]:
    """The divergence of each i = 128 ... 2048, bin by bin as published, and the bins' width.

    Values that are 0 do not count, and an i that clips more than 1 % has an infinite divergence.
    """
    magnitudes = np.abs(values[values != 0].astype(np.float64))
    width = magnitudes.max() / 2048
    bins = [0] * 2048
    for x in magnitudes:
        bins[min(int(x / magnitudes.max() * 2048), 2047)] += 1
    divergences = []
    for i in range(128, 2049):
        outliers = sum(bins[i:])
        if Fraction(outliers, len(magnitudes)) > Fraction(1, 100):
            divergences.append(math.inf)
            continue
        p = bins[:i]
        p[i - 1] += outliers
        q = [0.0] * i
        for level in range(128):
            start, end = level * i // 128, (level + 1) * i // 128
            filled = [at for at in range(start, end) if p[at] != 0]
            for at in filled:
                q[at] = sum(bins[start:end]) / len(filled)
        p_sum, q_sum = sum(p), sum(q)
        divergences.append(
            math.fsum(
                a / p_sum * math.log(a / p_sum / (b / q_sum)) if b else math.inf
                for a, b in zip(p, q, strict=True)
                if a
            )
        )
    return divergences, width


def sparse() -> np.ndarray:
    """Few different values, so many bins and levels are empty."""
    return np.repeat(np.float32([0.1, 0.4, 0.41, 0.45, 0.5, 3.0]), [500, 300, 50, 90, 200, 4])


def powers(seed: int) -> np.ndarray:
    """Magnitudes with a long tail."""
    random = np.random.default_rng(seed)
    return (np.abs(random.normal(size=500)) ** random.integers(1, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(powers(1), id="more than 1 % would be clipped"),
        pytest.param(powers(4), id="what is clipped counts"),
        pytest.param(powers(256), id="equal but for rounding"),
        pytest.param(relu(3000), id="relu"),
        pytest.param(with_outliers(3000), id="outliers"),
        pytest.param(sparse(), id="sparse"),
    ],
)
def test_kl_is_the_published_algorithm(values: np.ndarray) -> None:
    divergences, width = published(values)
    least = min(divergences)
    i = 128 + next(at for at, d in enumerate(divergences) if d <= least + 1e-12)
    assert i < 2048, "a limit that clips nothing shows little"
    lo, hi = choose_range(values, "kl")
    assert hi == pytest.approx((i + 0.5) * width, rel=1e-12)
    assert lo == max(min(float(values.min()), 0.0), -hi)


def test_zeros_do_not_count_for_kl() -> None:
    values = relu(20_000)
    assert choose_range(values, "kl") == choose_range(values[values > 0], "kl")
    many = np.concatenate([values, np.zeros(10**6, np.float32)])
    assert choose_range(many, "kl") == choose_range(values, "kl")


def test_outliers_in_bins_of_their_own_are_kept_by_kl() -> None:
    """All else lies in the first 128 bins: an i beyond ends with a level that has nothing."""
    values = with_outliers()
    values[:5] = 100
    assert choose_range(values, "kl")[1] == 100


@pytest.mark.parametrize("values", [relu(20_000), normal(20_000), normal(5000) ** 5])
def test_kl_clips_one_percent_at_most(values: np.ndarray) -> None:
    lo, hi = choose_range(values, "kl")
    beyond = np.count_nonzero((values < lo) | (values > hi))
    assert beyond <= 0.01 * np.count_nonzero(values)


def test_what_becomes_of_outliers() -> None:
    values = with_outliers()
    limits = {method: choose_range(values, method, 99.9)[1] for method in METHODS}
    assert limits["minmax"] == limits["mse"] == 20, "the outliers weigh most in squares"
    assert limits["percentile"] < 3.5 and limits["kl"] < 4.5
    few_bits = {bits: choose_range(values, "mse", bits=bits)[1] for bits in (8, 4)}
    assert few_bits[4] < 0.9 * few_bits[8]


# Observers ---------------------------------------------------------------------------------------


ARRAYS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=30),
    elements=st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-4, 4, width=32) | st.just(0.0),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ARRAYS, min_size=1, max_size=5), st.randoms(), st.sampled_from(list(METHODS)))
def test_the_order_of_batches_makes_no_difference(batches: list, random, method: str) -> None:
    lo, hi = choose_range(batches, method)
    other = list(batches)
    random.shuffle(other)
    assert choose_range(other, method) == (lo, hi)
    assert choose_range(np.concatenate([b.ravel() for b in batches]), method) == (lo, hi)
    assert lo <= 0 <= hi
    assert min(0.0, min(float(b.min()) for b in batches)) <= lo
    assert hi <= max(0.0, max(float(b.max()) for b in batches))
    scale, zero = scale_and_zero(lo, hi)
    assert scale > 0 and 0 <= zero <= 255


def test_an_observer_gives_what_the_function_does() -> None:
    batches = [normal(100, seed) for seed in range(4)]
    observer = RangeObserver("conv1")
    for batch in batches:
        observer.bounds(batch)
    observer.bounds(np.zeros((0, 3)))
    assert observer.choose_range("minmax") == choose_range(batches)
    for batch in reversed(batches):
        observer.count(batch)
    for method in METHODS:
        assert observer.choose_range(method, 99.0) == choose_range(batches, method, 99.0)


def test_magnitudes_at_the_ends_of_bins() -> None:
    observer = RangeObserver()
    values = np.arange(-BINS, BINS + 1) / BINS
    observer.bounds(values)
    observer.count(values)
    assert observer.zeros == 1 and observer.size == 2 * BINS + 1
    for (
        counts
    ) in observer.histogram:  # x belongs to the bin that it begins; the maximum to the last
        assert counts[0] == 0 and (counts[1:-1] == 1).all() and counts[-1] == 2


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
@pytest.mark.parametrize("run", ["bounds", "count"])
def test_what_is_not_finite_names_the_layer(bad: float, word: str, run: str) -> None:
    observer = RangeObserver("encoder.0.linear")
    observer.bounds(np.ones(3))
    with pytest.raises(ArgumentError) as error:
        getattr(observer, run)(np.array([1.0, bad]))
    assert str(error.value) == (
        f"the values of layer 'encoder.0.linear' cannot be calibrated: there is {word} among them\n"
        "No range of integers stands for that.\n"
        "Fix: look for the batch, or the layer before, that it comes from."
    )


@pytest.mark.parametrize("values", [[], np.zeros((0, 4)), [np.zeros(0), np.zeros((2, 0))]])
@pytest.mark.parametrize("method", METHODS)
def test_no_values(values, method: str) -> None:
    with pytest.raises(ArgumentError) as error:
        choose_range(values, method)
    assert str(error.value) == (
        "these values cannot be calibrated: there are none\n"
        "Fix: give at least one batch that is not empty, and that reaches this layer."
    )


@pytest.mark.parametrize("method", ["entropy", None, ["kl"], "MINMAX"])
def test_unknown_methods(method) -> None:
    with pytest.raises(ArgumentError) as error:
        choose_range(np.ones(3), method)
    assert str(error.value) == (
        f"there is no calibration {method!r}\n"
        "Fix: give one of 'minmax', 'percentile', 'mse' and 'kl'."
    )


@pytest.mark.parametrize("percentile", [0, -1, 100.1, np.nan, "99", True])
def test_percentiles_that_are_none(percentile) -> None:
    with pytest.raises(ArgumentError, match="is no percentile\nFix: give a number above 0 and up"):
        choose_range(np.ones(3), "percentile", percentile)


@pytest.mark.parametrize("bits", [1, 9, 0, -8, 4.0, True, "8"])
def test_bits_that_there_are_not(bits) -> None:
    message = f"integers cannot have {bits!r} bits\nFix: give a number from 2 to 8"
    for call in (
        lambda: scale_and_zero(0.0, 1.0, bits),
        lambda: choose_range(np.ones(3), "mse", bits=bits),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()


@pytest.mark.parametrize(
    ("lo", "hi"), [(1.0, 0.0), (np.nan, 1.0), (0.0, np.inf), (0.0, 1e39), (-1e39, 0.0)]
)
@pytest.mark.parametrize("signed", [False, True])
def test_ranges_that_are_none(lo: float, hi: float, signed: bool) -> None:
    with pytest.raises(ArgumentError, match=r"is no range\nIts limits are finite in float32"):
        scale_and_zero(lo, hi, signed=signed)


def test_limits_of_two_shapes() -> None:
    message = r"a range has limits of the shapes \[2\] and \[3\]"
    with pytest.raises(ArgumentError, match=message):
        scale_and_zero(np.zeros(2), np.ones(3))


@pytest.mark.parametrize("batch", [np.array(["a"]), np.ones(2, complex), np.array([None])])
def test_batches_that_are_no_numbers(batch: np.ndarray) -> None:
    with pytest.raises(ArgumentTypeError, match="the values of layer 'fc' cannot be calibrated"):
        RangeObserver("fc").bounds(batch)


def test_a_second_run_over_other_data() -> None:
    observer = RangeObserver("fc")
    observer.bounds(np.array([-1.0, 2.0]))
    with pytest.raises(ArgumentError, match="not like the first: it has values beyond those of"):
        observer.count(np.array([3.0]))
    observer.count(np.array([1.0]))
    with pytest.raises(ArgumentError, match="not like the first: it has 1 value, the first has 2"):
        observer.choose_range("kl")
    assert observer.choose_range("minmax") == (-1.0, 2.0)
