"""Draws by rejection and by choice: their distributions, with fixed seeds, and their errors.

The bounds hold for a right generator whatever its seed, but for one in ten thousand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    ShapeError,
)
from tests.helpers import same

N = 40_000
INF = math.inf


def apart(drawn: np.ndarray, cumulative) -> float:
    """Kolmogorov and Smirnov's statistic, times the root of the number of draws."""
    values = np.sort(np.asarray(drawn, np.float64).reshape(-1))
    exact = cumulative(values)
    steps = np.arange(values.size + 1) / values.size
    largest = max((steps[1:] - exact).max(), (exact - steps[:-1]).max())
    return largest * math.sqrt(values.size)


LIMIT = 2.23  # exceeded by one in ten thousand


def normal_cdf(x):
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])


def gamma_cdf(a):
    """By the series of the lower incomplete gamma function."""

    def cumulative(x):
        term = np.exp(a * np.log(np.maximum(x, 1e-300)) - x - math.lgamma(a + 1))
        total = term.copy()
        for i in range(1, 600):
            term = term * x / (a + i)
            total += term
        return total

    return cumulative


def beta_cdf(a, b):
    """By the trapezoid rule, of whole powers."""
    grid = np.linspace(0, 1, 20_001)
    density = grid ** (a - 1) * (1 - grid) ** (b - 1)
    total = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda x: np.interp(x, grid, total / total[-1])


def truncated_cdf(low, high):
    """Below 0 where the bounds are above it: tails keep their digits there."""
    if low > 0:
        other = truncated_cdf(-high, -low)
        return lambda x: 1 - other(-x)
    ends = normal_cdf([low, high])
    return lambda x: (normal_cdf(x) - ends[0]) / (ends[1] - ends[0])


CONTINUOUS = {
    "exponential": (lambda g: g.exponential(2.0, N), lambda x: -np.expm1(-x / 2)),
    "gamma 0.3": (lambda g: g.gamma(0.3, size=N), gamma_cdf(0.3)),
    "gamma 1": (lambda g: g.gamma(1.0, 3.0, N), lambda x: -np.expm1(-x / 3)),
    "gamma 2.5": (lambda g: g.gamma(2.5, size=N, dtype=hy.float64), gamma_cdf(2.5)),
    "gamma 100": (lambda g: g.gamma(hy.full(N, 100.0)), gamma_cdf(100)),
    "beta 2 3": (lambda g: g.beta(2.0, 3.0, N), beta_cdf(2, 3)),
    "beta 1 1": (lambda g: g.beta(1, 1, N, dtype=hy.float64), lambda x: x),
    "arcsine": (lambda g: g.beta(0.5, 0.5, N), lambda x: 2 / np.pi * np.arcsin(np.sqrt(x))),
    "beta 0.01 1": (lambda g: g.beta(0.25, 1.0, N), lambda x: x**0.25),
    "beta 1 5": (lambda g: g.beta(1, 5, N), lambda x: 1 - (1 - x) ** 5),
    **{
        f"normal {low} {high}": (
            lambda g, low=low, high=high: g.truncated_normal(low, high, N),
            truncated_cdf(low, high),
        )
        for low, high in [(-2, 2), (-INF, INF), (0, INF), (-0.3, 0.9), (0.2, 1.9), (0.7, 0.9),
                          (-INF, -1), (3, INF), (-6, -4), (5, 5.1)]
    },
    "scaled normal": (
        lambda g: g.truncated_normal(1.0, 4.0, N, mean=2.0, std=2.0),
        lambda x: truncated_cdf(-0.5, 1.0)((x - 2) / 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("draw", "cumulative"), CONTINUOUS.values(), ids=CONTINUOUS)
def test_draws_have_their_distribution(draw, cumulative) -> None:
    drawn = draw(hy.random.Generator(17)).numpy()
    assert drawn.shape == (N,) and np.isfinite(drawn).all()
    assert apart(drawn, cumulative) < LIMIT
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4 / math.sqrt(N)


def test_truncated_draws_stay_between_the_bounds() -> None:
    generator = hy.random.Generator(3)
    for low, high in [(-2, 2), (1, 1), (0.1, 0.3), (-40, -39), (8, INF)]:
        for dtype in (hy.float32, hy.float64):
            drawn = generator.truncated_normal(low, high, 5000, dtype=dtype).numpy()
            assert drawn.min() >= np.asarray(low, drawn.dtype)
            assert drawn.max() <= np.asarray(high, drawn.dtype)
    drawn = generator.truncated_normal(1.0, 1.5, 5000, mean=-3.0, std=0.7).numpy()
    assert drawn.min() >= 1 and drawn.max() <= 1.5


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 9.99, 10.0, 37.5, 2e4, 1e12])
def test_poisson(rate) -> None:
    drawn = hy.random.Generator(5).poisson(rate, N)
    assert drawn.dtype is hy.int64
    counts = drawn.numpy()
    assert counts.min() >= 0
    error = 5 * math.sqrt(max(rate, 1e-9) / N)
    assert abs(counts.mean() - rate) <= error
    spread = rate * math.sqrt((2 + 1 / max(rate, 1e-9)) / N) * 5
    assert abs(counts.var() - rate) <= spread
    if 0 < rate < 50:
        ks = np.arange(120)
        logs = ks * math.log(rate) - rate - np.array([math.lgamma(k + 1) for k in ks])
        expected = np.exp(logs) * N
        seen = np.bincount(counts, minlength=120)[:120]
        often = expected > 10
        chi = ((seen - expected)[often] ** 2 / expected[often]).sum()
        assert chi < often.sum() + 5 * math.sqrt(2 * often.sum())


def test_special_parameters() -> None:
    generator = hy.random.Generator(2)
    given = hy.asarray([0.0, -1.0, math.nan, INF])
    found = generator.gamma(given).tolist()
    assert found[0] == 0 and math.isnan(found[1]) and math.isnan(found[2]) and found[3] == INF
    assert np.isnan(generator.beta(given, 1.0).numpy()).all()
    assert generator.poisson(given).tolist() == [0, -1, -1, -1]
    assert generator.poisson(2.0, 3, dtype=hy.float32).dtype is hy.float32
    tiny = generator.beta(hy.full(1000, 1e-3), 1e-3).numpy()  # nearly a coin
    assert np.isfinite(tiny).all() and 0.4 < tiny.mean() < 0.6


def test_an_element_depends_on_its_place_and_parameter_alone() -> None:
    shapes = hy.asarray([0.5, 2.0, 7.0, 0.1])
    long = hy.random.Generator(4).gamma(hy.concat([shapes, hy.ones(5000)]))
    assert same(long[:4], hy.random.Generator(4).gamma(shapes))
    saved, drawn = hy.num_threads(), set()
    try:
        for threads in (1, 2, 3):
            hy.set_num_threads(threads)
            drawn.add(hy.random.Generator(5).gamma(0.7, size=9001).numpy().tobytes())
    finally:
        hy.set_num_threads(saved)
    assert len(drawn) == 1


def test_no_gradient_flows_through_a_rejection() -> None:
    def loss(a):
        return hy.sum(hy.random.gamma(a))

    assert hy.grad(loss)(hy.ones(3)).tolist() == [0.0] * 3
    scale = hy.grad(lambda s: hy.sum(hy.random.Generator(1).gamma(2.0, size=3) * s))(hy.ones(3))
    assert same(scale, hy.random.Generator(1).gamma(2.0, size=3))


# Choices -----------------------------------------------------------------------------------------


def shares(drawn: hy.Tensor, n: int) -> np.ndarray:
    return np.bincount(drawn.numpy().reshape(-1), minlength=n) / drawn.size


def test_categorical() -> None:
    generator = hy.random.Generator(6)
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = hy.asarray(np.log(p))
    drawn = generator.categorical(logits, size=N)
    assert drawn.shape == (N, 2) and drawn.dtype is hy.int64
    for row in range(2):
        error = np.abs(shares(drawn[:, row], 3) - p[row])
        assert (error < 4.5 * np.sqrt(p[row] * (1 - p[row]) / N) + 1e-12).all()
    assert generator.categorical(hy.zeros((2, 3, 4)), axis=1).shape == (2, 4)
    assert generator.categorical(hy.zeros((2, 3, 4)), axis=1, size=(5, 0)).shape == (5, 0, 2, 4)
    assert generator.categorical(hy.zeros(1)).item() == 0


def test_choice() -> None:
    generator = hy.random.Generator(7)
    assert np.abs(shares(generator.choice(4, (N, 2)), 4) - 0.25).max() < 0.01
    p = np.array([0.1, 0.0, 0.6, 0.3])
    for weights in (p, p * 8, p.tolist(), hy.asarray(p)):
        found = shares(generator.choice(4, N, p=weights), 4)
        assert np.abs(found - p).max() < 0.012 and found[1] == 0
    rows = hy.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert {tuple(r) for r in generator.choice(rows, 20).tolist()} == {(1.0, 2.0), (3.0, 4.0)}
    assert generator.choice([5, 7], (2, 3)).shape == (2, 3)
    assert generator.choice(3).shape == ()


def test_choice_without_replacement() -> None:
    generator = hy.random.Generator(8)
    assert sorted(generator.choice(9, (3, 3), replace=False).numpy().reshape(-1)) == list(range(9))
    p, first, pairs = np.array([0.5, 0.3, 0.2, 0.0]), np.zeros(4), np.zeros((4, 4))
    draws = [generator.choice(4, 2, replace=False, p=p).tolist() for _ in range(4000)]
    for a, b in draws:
        first[a] += 1 / len(draws)
        pairs[a, b] += 1 / len(draws)
    np.testing.assert_allclose(first, p, atol=0.035)
    want = p[:, None] * p / (1 - p[:, None])
    np.fill_diagonal(want, 0)
    np.testing.assert_allclose(pairs, want, atol=0.035)


def test_permutations_are_even() -> None:
    generator = hy.random.Generator(9)
    seen = np.zeros((4, 4))
    for _ in range(2000):
        seen[np.arange(4), generator.permutation(4).numpy()] += 1
    assert np.abs(seen / 2000 - 0.25).max() < 0.05
    x = hy.asarray(np.arange(12).reshape(3, 4))
    rows = generator.permutation(x)
    assert sorted(rows.tolist()) == x.tolist()
    columns = generator.permutation(x, axis=-1)
    assert sorted(columns.numpy().T.tolist()) == x.numpy().T.tolist()
    x = hy.asarray(np.arange(40).reshape(2, 20))
    before = x.tolist()
    generator.shuffle(x, axis=1)
    assert x.tolist() != before and sorted(x.numpy().T.tolist()) == np.array(before).T.tolist()


def test_a_captured_shuffle_writes_the_cell() -> None:
    cell, twin = hy.arange(20), hy.arange(20)
    eager, planned = hy.random.Generator(10), hy.random.Generator(10)
    shuffle = hy.hybridize(lambda: planned.shuffle(cell))
    for _ in range(3):
        eager.shuffle(twin)
        shuffle()
        assert same(cell, twin)


def test_streams_that_are_split_off() -> None:
    parent = hy.random.Generator(11)
    children = parent.split(4)
    again = hy.random.Generator(11).split(4)
    drawn = [child.uniform(size=N).numpy() for child in children]
    for values, twin in zip(drawn, again, strict=True):
        assert twin.uniform(size=N).numpy().tobytes() == values.tobytes()
    every = np.corrcoef([*drawn, parent.uniform(size=N).numpy()])
    assert np.abs(every - np.eye(5)).max() < 0.03
    assert parent.split(0) == []
    assert not same(parent.split(1)[0].state, children[0].state)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement: bool) -> None:
    generator = hy.random.Generator(12)
    weights = np.array([1.0, 0.0, 2.0, 5.0], np.float32)
    rows = hy.asarray(np.tile(weights, (N, 1)))
    drawn = generator.multinomial(rows, 2, replacement).numpy()
    assert drawn.shape == (N, 2) and drawn.dtype == np.int64
    shares = np.bincount(drawn[:, 0], minlength=4) / N
    np.testing.assert_allclose(shares, weights / 8, atol=0.02)
    if replacement:
        np.testing.assert_allclose(
            np.bincount(drawn[:, 1], minlength=4) / N, weights / 8, atol=0.02
        )
    else:
        assert (drawn[:, 0] != drawn[:, 1]).all() and not (drawn == 1).any()
        after_last = drawn[drawn[:, 0] == 3, 1]  # of 1 : 2 what remains
        np.testing.assert_allclose((after_last == 2).mean(), 2 / 3, atol=0.03)
    many = generator.multinomial(hy.asarray(weights), N, True).numpy()
    np.testing.assert_allclose(np.bincount(many, minlength=4) / N, weights / 8, atol=0.02)
    assert sorted(generator.multinomial(hy.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]


G = hy.random.Generator(1)
ERRORS = {
    "scale": (lambda: G.exponential(-1), ArgumentError, "exponential of scale -1"),
    "text": (lambda: G.exponential("a"), ArgumentTypeError, "exponential does not take str"),
    "gamma": (lambda: G.gamma(0), ArgumentError, "gamma of shape 0\nFix: give a number above 0"),
    "gamma nan": (lambda: G.gamma(math.nan), ArgumentError, "gamma of shape nan"),
    "gamma scale": (lambda: G.gamma(1, -1), ArgumentError, "gamma of scale -1"),
    "gamma size": (lambda: G.gamma(hy.ones(3), size=2), ShapeError, "broadcast"),
    "gamma dtype": (lambda: G.gamma(1, dtype=hy.int64), ArgumentTypeError, "random int64"),
    "beta": (lambda: G.beta(1, -2.0), ArgumentError, "beta of b -2.0"),
    "beta shapes": (lambda: G.beta(hy.ones(2), hy.ones(3)), ShapeError, "2 and 3"),
    "rate": (lambda: G.poisson(-0.5), ArgumentError, "poisson of rate -0.5"),
    "large": (lambda: G.poisson(1e19), ArgumentError, r"poisson of rate 1e\+19"),
    "bounds": (lambda: G.truncated_normal(2, 1), ArgumentError, "truncated_normal between 2 and 1"),
    "nan": (lambda: G.truncated_normal(math.nan, 1), ArgumentError, "between nan and 1"),
    "nowhere": (lambda: G.truncated_normal(INF, INF), ArgumentError, "between inf and inf"),
    "std": (lambda: G.truncated_normal(std=0), ArgumentError, "standard deviation 0"),
    "ints": (lambda: G.categorical(hy.asarray([1, 2])), DTypeError, "categorical cannot take"),
    "axis": (lambda: G.categorical(hy.zeros(3), 1), AxisError, "categorical got axis 1"),
    "classes": (lambda: G.categorical(hy.zeros((2, 0))), ShapeError, "no classes along axis 1"),
    "none": (lambda: G.choice(0), ArgumentError, "choice of 1 from 0"),
    "few": (lambda: G.choice(3, 4, False), ArgumentError, "of 4 from 3 without replacement"),
    "scalar": (lambda: G.choice(1.5), ArgumentError, "choice from 1.5"),
    "weights": (lambda: G.choice(3, p=[1, 2]), ShapeError, "choice from 3 with weights"),
    "negative": (lambda: G.choice(2, p=[1, -1]), ArgumentError, "weights below 0"),
    "zeros": (lambda: G.choice(2, p=[0, 0]), ArgumentError, "choice of 1 with 0 weights above 0"),
    "few weights": (lambda: G.choice(3, 2, False, [0, 0, 1]), ArgumentError, "of 2 with 1 weights"),
    "permutation": (lambda: G.permutation(1.5), ArgumentError, "a permutation of 1.5"),
    "permutation axis": (lambda: G.permutation(hy.ones(2), 1), AxisError, "permutation got axis 1"),
    "shuffle": (lambda: G.shuffle([1, 2]), ArgumentTypeError, "shuffle cannot change a list"),
    "multinomial": (lambda: G.multinomial(hy.ones(3), 4), ArgumentError, "of 4 with 3 weights"),
    "many traced": (
        lambda: hy.hybridize(lambda p: G.multinomial(p, 4))(hy.ones(3)),
        ArgumentError,
        "multinomial of 4 from 3 classes without replacement",
    ),
    "cube": (lambda: G.multinomial(hy.ones((2, 2, 2)), 1), ShapeError, "multinomial of f32"),
    "no samples": (lambda: G.multinomial(hy.ones(3), 0), ArgumentError, "got num_samples 0"),
    "whole": (lambda: G.multinomial(hy.asarray([1, 2]), 1), DTypeError, "multinomial cannot take"),
    "below": (lambda: G.multinomial([1.0, -1.0], 1), ArgumentError, "multinomial with weights"),
    "an empty row": (
        lambda: G.multinomial([[1.0, 1.0], [0.0, 0.0]], 1, True),
        ArgumentError,
        "multinomial of 1 with 0 weights above 0",
    ),
    "split": (lambda: G.split(-1), ArgumentError, "a generator split into -1"),
}


@pytest.mark.parametrize(("call", "error", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, match) -> None:
    before = G.state.tolist()
    with pytest.raises(error, match=match):
        call()
    assert G.state.tolist() == before
