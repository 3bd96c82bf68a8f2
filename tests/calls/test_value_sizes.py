"""Sizes that depend on values: plans in stages have the bits of eager code, and the true sizes."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls import stages
from hybrid.data import DataLoader, TensorDataset
from hybrid.errors import (
    ArgumentError,
    BatchedValueError,
    CaptureError,
    OutOfRangeError,
    RowSizeError,
    ShapeError,
)
from hybrid.ir import parse
from tests.calls.value_sizes import PROGRAMS, floats
from tests.staging.harness import describe

CALLS = 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_have_their_true_sizes(name: str) -> None:
    function, arguments = PROGRAMS[name]
    hybridized, draw = hy.hybridize(function), np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a function that runs eagerly
        for call in range(CALLS):
            given = arguments(draw)
            assert describe(hybridized(*given)) == describe(function(*given)), call
    staged = [planned for planned in hybridized._table.all() if planned.is_staged]
    assert staged
    for planned in staged:
        graph = planned.capture.graph
        text = str(graph)
        if "{function=<" not in text:  # what Python is called for has no text
            assert str(parse(text)) == text


def selected_square(x):
    return (x[x > 0] ** 2).sum()


def selected_twice(x):
    y = x[x > 0]
    return (y * y.mean()).sum() + (x * x).sum()


def repeated_cubes(x):
    return (hy.repeat(x, hy.arange(len(x))) ** 3).sum()


def outer(x):
    y = x[x > 0]
    return (y.reshape(-1, 1) * y.reshape(1, -1)).sum()


def recurrence(x):
    total = hy.zeros(())
    for value in x[x > 0]:
        total = total * 0.5 + value * value
    return total


def branch(x):
    y = x[x > 0]
    if y.sum() > 2:
        return (y * 2).sum()
    return (y * y).sum()


def ranked(x):
    y = hy.sort(x[x > 0])
    return (y * hy.arange(len(y))).sum()


def in_a_branch(x):
    if x.sum() > 0:
        return (x[x > 0] ** 2).sum()
    return (x**3).sum()


def first_ones(x):
    return (x[: (x > 0).sum()] ** 2).sum()


OF_GRADIENTS = (
    selected_square, selected_twice, repeated_cubes, outer, recurrence, branch, ranked,
    in_a_branch, first_ones,
)  # fmt: skip


@pytest.mark.parametrize("function", OF_GRADIENTS, ids=lambda f: f.__name__)
def test_gradients(function) -> None:
    hybridized = hy.hybridize(function)
    inside = hy.hybridize(lambda x: hy.value_and_grad(function)(x))
    draw = np.random.default_rng(2)
    for size in (9, 7, 9, 9, 7, 5):
        x = draw.standard_normal(size).astype(np.float32)
        found = []
        for called in (function, hybridized):
            variable = hy.asarray(x)
            variable.requires_grad = True
            value = called(variable)
            value.backward()
            found.append((value.item(), variable.grad.numpy().tobytes()))
        value, gradient = inside(hy.asarray(x))
        found.append((value.item(), gradient.numpy().tobytes()))
        assert found[0] == found[1] == found[2]


def test_second_gradients() -> None:
    def slope(x):
        return hy.grad(lambda x: (x[x > 0] ** 3).sum())(x).sum()

    x = hy.asarray([1.0, -2.0, 3.0])
    for called in (slope, hy.hybridize(slope)):
        assert hy.grad(called)(x).tolist() == [6, 0, 18]
    cubes = hy.hybridize(lambda x: (x[x > 0] ** 3).sum())
    assert hy.grad(lambda x: hy.grad(cubes)(x).sum())(x).tolist() == [6, 0, 18]
    assert hy.jvp(cubes, (x,), (hy.ones(3),))[1].item() == 30


class State:
    def __init__(self) -> None:
        self.kept, self.total = hy.zeros(3), hy.zeros(())


def test_state_is_written_once_the_sizes_are_known() -> None:
    def step(state, x):
        state.kept = x[x > 0]
        if len(state.kept) > 3:
            state.total = state.total + state.kept.sum()
        return state.kept * 2

    found = []
    for called in (step, hy.hybridize(step)):
        state, draw = State(), np.random.default_rng(3)
        rows = [called(state, floats(draw, 8)).tolist() for _ in range(8)]
        found.append((rows, state.kept.tolist(), state.total.item()))
    assert found[0] == found[1]


def test_a_training_step_with_a_masked_loss() -> None:
    def trained(wrap):
        hy.random.seed(0)
        model = hy.nn.Linear(4, 1)
        optimizer = hy.optim.Adam(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            mask = y > 0
            loss = ((model(x)[:, 0][mask] - y[mask]) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        called, draw = wrap(step), np.random.default_rng(4)
        losses = [called(floats(draw, 6, 4), floats(draw, 6)).item() for _ in range(6)]
        return losses, [p.tolist() for p in model.parameters()]

    assert trained(hy.hybridize) == trained(lambda step: step)


def test_sizes_met_before_have_plans() -> None:
    function = hy.hybridize(lambda x: hy.exp(x[x > 0] * 2).sum())
    x = hy.asarray([1.0, -1.0, 2.0, 3.0, -1.0])
    function(x)
    [planned] = function._table.all()
    last = planned.stages.plan.stages[-1]
    assert not last.plans  # sizes that are met once may never come again
    function(x)
    assert list(last.plans) == [(3,)]
    function(-x)
    function(-x)
    assert list(last.plans) == [(3,), (2,)]


def test_as_many_plans_as_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(stages, "_MOST", 3)
    function = hy.hybridize(lambda x: x[x > 0] * 2)
    for size in (2, 3, 4, 5, 6) * 2:
        x = hy.arange(7) < size
        for _ in range(2):
            assert function(hy.asarray(x, dtype=hy.float32)).tolist() == [2.0] * size
    [planned] = function._table.all()
    assert list(planned.stages.plan.stages[-1].plans) == [(4,), (5,), (6,)]


def test_a_condition_that_does_not_hold_is_another_capture() -> None:
    def biggest(x):
        y = x[x > 0]
        if len(y) == 0:
            return hy.zeros(())
        return y.max()

    function = hy.hybridize(biggest)
    for values, found in (([1.0, 2.0], 2), ([-1.0, -2.0], 0), ([3.0, -1.0], 3), ([-1.0, -1.0], 0)):
        assert function(hy.asarray(values)).item() == found
    plans = function.plans
    assert len(plans) > 1
    whys = {"first call", "sizes that depend on values meet other conditions"}
    assert {plan.why for plan in plans} == whys


def test_too_many_ways_run_eagerly() -> None:
    def walk(x):
        for i in range(8):
            if x[i] > 0:
                x = hy.concat([x, x[:1]])
        return x

    function, draw = hy.hybridize(walk), np.random.default_rng(5)
    with pytest.warns(UserWarning, match="walk runs eagerly: sizes depend on"):
        for _ in range(24):
            x = floats(draw, 8)
            assert describe(function(x)) == describe(walk(x))
    assert len(function.plans) == 8


def test_code_that_is_called_ahead_of_a_size_runs_once() -> None:
    seen = []

    def note(x):
        seen.append(x.tolist())
        return x

    def function(x):
        y = hy.py_call(note, x, result=x.type)
        z = y[y > 0]
        return z.sum() if len(z) else z

    hybridized = hy.hybridize(function)
    with pytest.warns(UserWarning, match="a size depends on values behind a call of Python code"):
        for values in ([1.0, 2.0], [-1.0, -2.0], [3.0, -1.0]):
            x = hy.asarray(values)
            assert describe(hybridized(x)) == describe(function(x))
    assert seen == [[1, 2]] * 2 + [[-1, -2]] * 2 + [[3, -1]] * 2


def test_what_is_printed_ahead_of_a_size_is_printed_once(capsys) -> None:
    def function(x):
        print("sum", x.sum().item())
        y = x[x > 0]
        return y.sum() if len(y) else y

    hybridized = hy.hybridize(function)
    with pytest.warns(UserWarning, match="a size depends on values behind a call of Python code"):
        for values in ([1.0, 2.0], [-1.0, -2.0]):
            hybridized(hy.asarray(values))
    assert capsys.readouterr().out == "sum 3.0\nsum -3.0\n"


def test_a_loop_over_a_loader_takes_each_batch_once() -> None:
    x = floats(np.random.default_rng(7), 20, 4)

    def epochs(wrap):
        loader = DataLoader(TensorDataset(x, x[:, 0]), 5, shuffle=True, generator=0)

        def epoch():
            total = hy.zeros(())
            for rows, marks in loader:
                chosen = rows[marks > 0]
                if len(chosen) > 1:
                    total = total * 0.5 + chosen.sum()
            return total

        called = wrap(epoch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it runs eagerly, and says so
            return [called().item() for _ in range(3)]

    assert epochs(hy.hybridize) == epochs(lambda f: f)


def test_raised_by_what_was_selected() -> None:
    def positive(x):
        y = x[x > 0]
        if y.sum() < 1:
            raise ValueError(f"only {len(y)}")
        return y

    function = hy.hybridize(positive)
    assert function(hy.asarray([1.0, 2.0])).tolist() == [1, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="only 1"):
            function(hy.asarray([0.5, -2.0]))
    assert function(hy.asarray([4.0, -2.0])).tolist() == [4]


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [-1, -(2**40), 2**45])
def test_sizes_that_no_tensor_has(n: int) -> None:
    def made(n):
        return hy.zeros((n.item(), 2))

    function = hy.hybridize(made)
    assert function(hy.asarray(2)).shape == (2, 2)
    errors = []
    for called in (made, function):
        with pytest.raises(hy.HybridError) as caught:
            called(hy.asarray(n))
        errors.append((type(caught.value), str(caught.value).splitlines()[0].partition(" (")[0]))
    assert errors[0] == errors[1]
    assert function(hy.asarray(3)).shape == (3, 2)


def test_counts_that_cannot_be() -> None:
    function = hy.hybridize(lambda x, counts: hy.repeat(x, counts))
    x = hy.asarray([1.0, 2.0])
    assert function(x, hy.asarray([1, 2])).tolist() == [1, 2, 2]
    with pytest.raises(ArgumentError, match="repeat got the count -1"):
        function(x, hy.asarray([3, -1]))
    with pytest.raises(OutOfRangeError, match="a tensor of 4611686018427387905 elements"):
        function(x, hy.asarray([2**62, 1]))
    assert function(x, hy.asarray([0, 1])).tolist() == [2]


def test_sizes_that_do_not_fit_at_run_time() -> None:
    def added(x, y):
        return x[x > 0] + y[y > 0]

    function = hy.hybridize(added)
    x, y = hy.asarray([1.0, 2.0, -1.0]), hy.asarray([3.0, -1.0, 4.0])
    assert function(x, y).tolist() == [4, 6]
    for called in (added, function):
        with pytest.raises(ShapeError, match=r"f32\[2\].*f32\[3\]"):
            called(x, hy.asarray([1.0, 2.0, 3.0]))
    assert function(x, hy.asarray([1.0, -2.0, -3.0])).tolist() == [2, 3]  # of one element
    assert function(y, x).tolist() == [4, 6]


def test_rows_for_a_mask_without_axes() -> None:
    def write(x, mask):
        x = x + 0
        x[mask] = hy.zeros((2, 3))
        return x

    with pytest.raises(CaptureError, match=r"a traced mask \(bool\[\]\) selects all of a tensor"):
        hy.hybridize(write)(hy.ones(3), hy.asarray(True))
    chosen = hy.hybridize(lambda x, mask: hy.where(mask, hy.zeros(3), x))
    assert chosen(hy.ones(3), hy.asarray(True)).tolist() == [0, 0, 0]


def test_rows_of_vmap_have_sizes_of_their_own() -> None:
    function = hy.hybridize(lambda x: x[x > 0].sum())
    with pytest.raises(BatchedValueError, match="differ"):
        hy.vmap(function)(hy.ones((2, 3)))


SELECTIONS = {
    "mask": lambda x, m: x[m] * 2,
    "nonzero": lambda x, m: hy.nonzero(m)[0] * x.sum(),
    "argwhere": lambda x, m: hy.argwhere(m).sum() + x,
    "unique_values": lambda x, m: x.sum() * hy.unique_values(m).shape[0],
    "repeat": lambda x, m: hy.repeat(x, hy.astype(m, hy.int64) + 1),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections_inside_vmap(name: str) -> None:
    select, rows = SELECTIONS[name], hy.reshape(hy.arange(12, dtype=hy.float32), (3, 4)) - 5

    def by_one(x, mask):
        return hy.vmap(lambda row: select(row, mask))(x)

    def by_each(x):
        return hy.vmap(lambda row: select(row, row > 0))(x)

    mask = hy.asarray([True, False, True, True])
    expected = hy.stack([select(row, mask) for row in rows])
    assert describe(by_one(rows, mask)) == describe(expected)
    with pytest.warns(UserWarning, match=r"by_one runs eagerly: a size .* inside vmap"):
        assert describe(hy.hybridize(by_one)(rows, mask)) == describe(expected)
    for function in (by_each, hy.hybridize(by_each)):
        with warnings.catch_warnings(), pytest.raises(RowSizeError) as caught:
            warnings.simplefilter("ignore")
            function(rows)
        line = select.__code__.co_firstlineno
        assert str(caught.value).startswith("elements were selected by values (")
        assert f"differ from row to row inside vmap ({__file__}:{line})\n" in str(caught.value)
        assert "Fix: keep the shape: hybrid.where(mask, x, 0)" in str(caught.value)


# Elsewhere ---------------------------------------------------------------------------------------


def test_in_a_stream() -> None:
    function = hy.hybridize(lambda x: x[x > 0] * 2)
    x = hy.asarray([1.0, -1.0, 3.0])
    with hy.stream():
        found = [function(x * 1) for _ in range(3)]
    assert [t.tolist() for t in found] == [[2, 6]] * 3


def test_the_graph_says_what_is_a_size() -> None:
    function = hy.hybridize(lambda x, n: (x[x > 0], x[:n]))
    text = str(function.graph(hy.ones(4), hy.asarray(3)))
    assert "i64[k] = true_indices" in text and "{size=k}" in text
    assert "i64[] = size_value" in text and "f32[k1] = " in text


def test_files_do_not_keep_it(tmp_path) -> None:
    hy.cache_plans(tmp_path)
    try:
        function = hy.hybridize(lambda x: x[x > 0])
        assert function(hy.asarray([1.0, -1.0])).tolist() == [1]
    finally:
        hy.cache_plans(None)
    assert function.plans[0].filed == "not kept in a file: sizes in it depend on values"


def test_numbers_among_the_arguments_are_sizes() -> None:
    draw = np.random.default_rng(6)

    def made(x, n, scale):
        return hy.zeros(n) + scale, x[:n] * scale

    function = hy.hybridize(made)
    for _ in range(12):
        n, scale, x = int(draw.integers(0, 9)), float(draw.normal()), floats(draw, 9)
        assert describe(function(x, n, scale)) == describe(made(x, n, scale))


def test_paths_that_sizes_need_beside_numbers_in_state() -> None:
    """A number that calls have left is an input; the path is a condition all the same."""

    def made():
        state = SimpleNamespace(level=0.5)

        def program(x, n):
            if n + 2:
                if sum(hy.isnan(x)):
                    state.level = state.level * 0.5
                if hy.sum(x[x > 0]):
                    state.level = state.level + 1.0
            return x * state.level

        return program

    expected, found = made(), hy.hybridize(made())
    for values in ([1.0, -1.0], [float("nan"), 2.0], [-1.0, -2.0], [3.0, 4.0]) * 2:
        for n in (3, -2):
            args = hy.asarray(values), hy.asarray(n)
            assert describe(found(*args)) == describe(expected(*args))


@pytest.mark.parametrize(
    "program",
    [
        lambda n: hy.arange(n)[:2],
        lambda n: hy.arange(n)[-2:] + 1,
        lambda n: hy.arange(n.item())[:1],
        lambda n: (hy.arange(n)[:-1], hy.arange(n)[::2], hy.arange(n)[1:n]),
    ],
)
def test_slices_of_ranges(program) -> None:
    """Elements that sizes tell are no constant, though a slice of them has a size of its own."""
    hybridized = hy.hybridize(program)
    for n in (3, 4, 1, 2, 0, 5, 5, 0, 2, 1, 4, 3):
        n = hy.asarray(n)
        assert describe(hybridized(n)) == describe(program(n))
