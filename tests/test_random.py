"""Random numbers: the generator of the paper, the same draws in every way of running."""

import copy
import math
import pickle
import types
from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.errors import ArgumentError, ArgumentTypeError, HybridError
from tests.helpers import same

DRAWS: dict[str, Callable[[hy.random.Generator], hy.Tensor]] = {
    "uniform": lambda g: g.uniform(size=7),
    "uniform in a range": lambda g: g.uniform(-2.0, 3.0, (2, 3)),
    "uniform float64": lambda g: g.uniform(size=5, dtype=hy.float64),
    "normal": lambda g: g.normal(size=(3, 5)),
    "normal scaled": lambda g: g.normal(1.0, 2.0, 9),
    "normal float64": lambda g: g.normal(size=5, dtype="f64"),
    "integers": lambda g: g.integers(10, size=(4, 2)),
    "integers in a range": lambda g: g.integers(-5, 5, 6, dtype=hy.int32),
    "bernoulli": lambda g: g.bernoulli(0.3, (8,)),
    "bernoulli of a tensor": lambda g: g.bernoulli(hy.asarray([0.0, 0.5, 1.0])),
    "permutation": lambda g: g.permutation(9),
    "permutation of rows": lambda g: g.permutation(hy.eye(6), axis=1),
    "exponential": lambda g: g.exponential(2.0, (5, 3)),
    "truncated_normal": lambda g: g.truncated_normal(-1, 3, 40, mean=0.5, std=2.0),
    "gamma": lambda g: g.gamma(0.7, 2.0, (4, 5), dtype=hy.float64),
    "gamma of a tensor": lambda g: g.gamma(hy.asarray([0.5, 1.0, 30.0])),
    "beta": lambda g: g.beta(hy.asarray([0.5, 2.0]), 3.0, (3, 2)),
    "poisson": lambda g: g.poisson(hy.asarray([[0.5, 3.0, 0.0], [12.0, 1e4, 1e9]])),
    "categorical": lambda g: g.categorical(hy.eye(3), 0, (4, 2)),
    "choice": lambda g: g.choice(5, (3, 4)),
    "choice of rows": lambda g: g.choice(hy.eye(6), 5, replace=False),
    "weighted choice": lambda g: g.choice(4, 7, p=hy.asarray([0.1, 0.0, 3.0, 1.0])),
    "weighted choice of different": lambda g: g.choice(4, (1, 3), False, [0.1, 0.4, 3.0, 1.0]),
    "multinomial": lambda g: g.multinomial(hy.asarray([0.1, 0.0, 3.0, 1.0]), 2),
    "multinomial of rows": lambda g: g.multinomial(hy.ones((3, 4)) + hy.eye(3, 4), 5, True),
    "streams": lambda g: hy.concat([child.normal(size=3) for child in g.split(3)]),
    "nothing": lambda g: g.uniform(size=(0, 3)),
    "no gammas": lambda g: g.gamma(hy.zeros((0, 3))),
    "a scalar": lambda g: g.normal(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_eager_and_hybridized_draw_the_same(draw) -> None:
    eager, planned = hy.random.Generator(5), hy.random.Generator(5)
    hybridized = hy.hybridize(lambda: draw(planned))
    seen = set()
    for _ in range(4):
        expected, found = draw(eager), hybridized()
        assert same(expected, found)
        seen.add(expected.numpy().tobytes())
    assert same(eager.state, planned.state)
    assert len(hybridized.plans) == 1
    if expected.size > 4:
        assert len(seen) > 1


def test_the_seed_decides() -> None:
    for seed in (0, -1, 2**63 - 1, -(2**63), 2**64 + 3, np.int32(4)):
        a, b = hy.random.Generator(seed), hy.random.Generator(seed)
        assert same(a.normal(size=3), b.normal(size=3))
        first = b.normal(size=3)
        b.seed(seed)
        assert not same(b.normal(size=3), first) and same(b.normal(size=3), first)
    a, b = hy.random.Generator(), hy.random.Generator()
    assert not same(a.uniform(size=8), b.uniform(size=8))  # a fresh seed each


def philox(seed: int, draw: int, block: int) -> list[int]:
    """The four words of a block, as in the paper."""
    counter = [block & 0xFFFFFFFF, block >> 32, draw & 0xFFFFFFFF, draw >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        low, high = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (high >> 32) ^ counter[1] ^ key[0],
            high & 0xFFFFFFFF,
            (low >> 32) ^ counter[3] ^ key[1],
            low & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def test_draws_are_those_of_philox() -> None:
    assert philox(0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # known answer
    seed, n = 0x123456789ABCDEF, 150  # the counter and the key both reach their upper words
    generator = hy.random.Generator(seed)
    generator.uniform()
    # Groups of 16 blocks; in each first all words 0, then all words 1, and so on.
    words = [
        philox(seed, 1, 16 * group + j)[k]
        for group in range(3)
        for k in range(4)
        for j in range(16)
    ]
    drawn = generator.uniform(size=n)
    assert drawn.tolist() == [(w >> 8) / 2**24 for w in words[:n]]


def test_the_module_is_a_generator() -> None:
    hy.random.seed(11)
    twin = hy.random.Generator(11)
    assert same(hy.random.uniform(size=3), twin.uniform(size=3))
    assert same(hy.random.normal(2.0, 0.5, 3), twin.normal(2.0, 0.5, 3))
    assert same(hy.random.integers(9, size=3), twin.integers(9, size=3))
    assert same(hy.random.bernoulli(0.5, 3), twin.bernoulli(0.5, 3))
    assert same(hy.random.permutation(6), twin.permutation(6))
    assert same(hy.random.exponential(2.0, 3), twin.exponential(2.0, 3))
    assert same(hy.random.truncated_normal(0, 2, 3), twin.truncated_normal(0, 2, 3))
    assert same(hy.random.gamma(2.0, 0.5, 3), twin.gamma(2.0, 0.5, 3))
    assert same(hy.random.beta(2.0, 0.5, 3), twin.beta(2.0, 0.5, 3))
    assert same(hy.random.poisson(2.0, 3), twin.poisson(2.0, 3))
    assert same(hy.random.categorical(hy.zeros(4), size=3), twin.categorical(hy.zeros(4), size=3))
    assert same(hy.random.choice(9, 3), twin.choice(9, 3))
    x, y = hy.arange(9), hy.arange(9)
    hy.random.shuffle(x)
    twin.shuffle(y)
    assert same(x, y) and sorted(x.tolist()) == list(range(9))
    for a, b in zip(hy.random.split(2), twin.split(2), strict=True):
        assert same(a.uniform(size=3), b.uniform(size=3))
    assert same(hy.random.default_generator().state, twin.state)


def test_threads_do_not_change_draws() -> None:
    saved, drawn = hy.num_threads(), set()
    try:
        for threads in (1, 2, 3):
            hy.set_num_threads(threads)
            drawn.add(hy.random.Generator(5).normal(size=100_003).numpy().tobytes())
    finally:
        hy.set_num_threads(saved)
    assert len(drawn) == 1


# Distributions: the bounds are wide enough for a right generator, whatever its seed ---------------

N = 200_000


@pytest.mark.parametrize("dtype", [hy.float32, hy.float64])
def test_uniform_is_uniform(dtype) -> None:
    drawn = hy.random.Generator(1).uniform(size=N, dtype=dtype).numpy()
    assert drawn.min() >= 0.0 and drawn.max() < 1.0
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert np.abs(counts - N / 20).max() < 5 * math.sqrt(N / 20)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", [hy.float32, hy.float64])
def test_normal_is_normal(dtype) -> None:
    drawn = hy.random.Generator(2).normal(3.0, 2.0, N, dtype=dtype).numpy().astype(np.float64)
    scaled = (drawn - 3.0) / 2.0
    assert np.isfinite(drawn).all()
    assert abs(scaled.mean()) < 0.02 and abs(scaled.std() - 1) < 0.02
    assert abs((scaled**3).mean()) < 0.05 and abs((scaled**4).mean() - 3) < 0.1
    within = [np.mean(np.abs(scaled) < k) for k in (1, 2, 3)]
    np.testing.assert_allclose(within, [0.6827, 0.9545, 0.9973], atol=0.005)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 2), (-3, 7), (5, 6), (0, 2**31), (-(2**40), 7 - 2**40)]
)
def test_integers_fill_their_range(low, high) -> None:
    drawn = hy.random.Generator(3).integers(low, high, N).numpy()
    assert drawn.min() >= low and drawn.max() < high
    if high - low <= 10:
        values, counts = np.unique(drawn, return_counts=True)
        assert values.tolist() == list(range(low, high))
        share = N / (high - low)
        assert np.abs(counts - share).max() < 5 * math.sqrt(share) + 1


def test_bernoulli_and_permutation() -> None:
    generator = hy.random.Generator(4)
    assert generator.bernoulli(0.0, 100).numpy().sum() == 0
    assert generator.bernoulli(1.0, 100).numpy().sum() == 100
    assert abs(generator.bernoulli(0.3, N).numpy().mean() - 0.3) < 0.01
    assert generator.bernoulli(hy.zeros((2, 3))).shape == (2, 3)
    order = generator.permutation(100)
    assert order.dtype is hy.int64 and sorted(order.tolist()) == list(range(100))
    assert order.tolist() != list(range(100)) and generator.permutation(0).tolist() == []


# Generators as objects ----------------------------------------------------------------------------


def test_copies_go_on_alike_and_apart() -> None:
    generator = hy.random.Generator(1)
    generator.uniform()
    for twin in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))):
        before = generator.state.tolist()
        twin.uniform(size=3)
        assert generator.state.tolist() == before
    twin = copy.deepcopy(generator)
    assert same(twin.uniform(size=3), generator.uniform(size=3))


def test_generators_are_independent() -> None:
    a, b = hy.random.Generator(1), hy.random.Generator(1)
    a.uniform(size=100)
    hy.random.uniform(size=100)
    assert same(b.uniform(size=3), hy.random.Generator(1).uniform(size=3))


def test_a_generator_replaced_in_an_attribute() -> None:
    owner = types.SimpleNamespace(generator=hy.random.Generator(1))
    draw = hy.hybridize(lambda: owner.generator.normal(size=3))
    first = draw()
    owner.generator = hy.random.Generator(1)
    assert same(draw(), first)


def test_seeding_inside_a_hybridized_function() -> None:
    generator = hy.random.Generator(1)

    def function():
        generator.seed(9)
        return generator.uniform(size=3)

    hybridized = hy.hybridize(function)
    expected = hy.random.Generator(9).uniform(size=3)
    assert same(hybridized(), expected) and same(hybridized(), expected)


# Dropout ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [hy.float32, hy.float64, hy.bfloat16], ids=str)
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 5000])
def test_dropout_is_what_its_ops_say(dtype, size) -> None:
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -3.0, 2.5]
    x = hy.astype(hy.asarray(np.resize(special, size)), dtype)
    for rate in (1e-9, 0.3, 0.9):
        kept = hy.random.Generator(4).uniform(size=size) >= rate
        found = ops.dropout(x, rate, hy.random.Generator(4).next_state())
        expected = hy.where(kept, x * (1 / (1 - rate)), 0.0)
        assert found.dtype is dtype
        seen = hy.float32 if dtype is hy.bfloat16 else dtype  # NumPy lacks it
        assert same(hy.astype(found, seen), hy.astype(expected, seen))


def test_dropout_and_its_gradient_in_both_modes() -> None:
    x = hy.asarray(np.random.default_rng(0).standard_normal((30, 7)).astype(np.float32))

    def loss(x):
        return (hy.nn.functional.dropout(hy.tanh(x), 0.4) * x).sum()

    step, seen = hy.value_and_grad(loss), []
    for run in (step, hy.hybridize(step)):
        hy.random.seed(3)
        for _ in range(3):
            value, gradient = run(x)
            seen.append((value.tolist(), gradient.numpy().tobytes()))
        seen.append(hy.random.default_generator().state.tolist())
    assert seen[:4] == seen[4:]


def test_dropout_keeps_no_mask() -> None:
    def step(x):
        return hy.grad(lambda x: (hy.nn.functional.dropout(hy.tanh(x), 0.4) * x).sum())(x)

    hybridized = hy.hybridize(step)
    x = hy.ones((4, 5))
    hybridized(x)
    text = str(hybridized.graph(x))
    assert text.count(" drop ") == text.count(" drop_again ") == 1
    assert "bool" not in text


def test_derivatives_of_dropout_in_all_rows() -> None:
    """Rows of cotangents and tangents go by the numbers of the function; rows of x have none."""
    x, state = hy.asarray([1.0, 2.0, 3.0, 4.0]), hy.random.Generator(2).next_state()

    def function(x):
        return ops.dropout(x * x, 0.5, state)

    slopes = ops.dropout(2 * x, 0.5, state)
    assert same(hy.jacobian(function)(x), hy.asarray(np.diag(slopes.numpy())))
    with pytest.raises(ArgumentError, match="random numbers were drawn inside vmap"):
        hy.vmap(function)(hy.ones((3, 4)))


# Errors -------------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[], object], type[HybridError], str]] = {
    "seed": (lambda: hy.random.seed(1.5), ArgumentTypeError, "the seed 1.5 is not an int"),
    "bool seed": (lambda: hy.random.seed(True), ArgumentTypeError, "the seed True is not an int"),
    "reversed": (lambda: hy.random.uniform(2, 1), ArgumentError, "uniform over [2, 1)"),
    "nan": (lambda: hy.random.uniform(math.nan, 1), ArgumentError, "uniform over [nan, 1)"),
    "text": (lambda: hy.random.uniform("a"), ArgumentTypeError, "uniform does not take str"),
    "std": (lambda: hy.random.normal(0, -1), ArgumentError, "a standard deviation of -1"),
    "empty": (lambda: hy.random.integers(0), ArgumentError, "integers over [0, 0)"),
    "wide": (lambda: hy.random.integers(0, 2**32), ArgumentError, "integers over [0, 4294967296)"),
    "floats": (lambda: hy.random.integers(1.5, 3), ArgumentTypeError, "integers over [1.5, 3)"),
    "p": (lambda: hy.random.bernoulli(1.5), ArgumentError, "a probability of 1.5"),
    "text p": (lambda: hy.random.bernoulli("a"), ArgumentTypeError, "bernoulli does not take str"),
    "n": (lambda: hy.random.permutation(-1), ArgumentError, "a permutation of -1"),
    "dtype": (lambda: hy.random.normal(dtype=hy.int64), ArgumentTypeError, "random int64 numbers"),
    "size": (lambda: hy.random.normal(size="a"), ArgumentTypeError, "'a' is not a shape"),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, text) -> None:
    state = hy.random.default_generator().state.tolist()
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    if "dtype" not in text and "size" not in text and "shape" not in text and "int64" not in text:
        assert hy.random.default_generator().state.tolist() == state
