"""Exceptions after a size that depends on values: type, text and state are those of eager code.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import describe


class State:
    def __init__(self):
        self.rows, self.kept, self.count = None, [], hy.asarray(0.0)


class Odd(Exception):
    def __init__(self, rows, size):
        super().__init__(rows)
        self.size = size


def plain(x, state):
    state.rows = x[x > 0] * 2
    raise IndexError


def with_text(x, state):
    w = x[x > 0]
    state.count.assign(state.count + 1)
    raise ValueError(f"got {w.shape[0]}")


def with_size(x, state):
    w = x[x > 0]
    state.kept.append(w)
    raise KeyError(len(w))


def with_tensor(x, state):
    w = x[x > 0]
    raise Odd(w, len(w))


def with_cause(x, state):
    state.rows = x[x > 0]
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise RuntimeError("outer") from error


def where_it_is_large(x, state):
    state.rows = x[x > 0]
    if hy.sum(x) > 2:
        raise ValueError("large")
    return state.rows


def where_there_are_many(x, state):
    state.rows = x[x > 0]
    if len(state.rows) > 1:
        raise LookupError(state.rows.shape)
    return state.rows


def asserted(x, state):
    w = x[x > 0]
    assert x.shape[0] == 4, "four"
    return w


def at_open_sizes(x, state):
    w = x[x > hy.sum(x)]
    state.rows = hy.concat([x * 2.0, hy.broadcast_to(hy.sum(x), (x.shape[0],))])
    assert state.rows[1] > len(x), "few"
    return w


def of_python(x, state):
    state.rows = x[x > 0]
    return [1, 2][5]


def of_slice(x, state):
    state.rows = x[: int(hy.sum(x > 0).item())]
    return state.rows.nothing


def of_list(x, state):
    state.rows = hy.stack([q for q in x if q > 0] or [x[0]])
    return 1 / 0


def with_finally(x, state):
    w = x[x > 0]
    try:
        raise OSError(2, "no such thing", "name")
    finally:
        state.rows = w


def that_ends_the_program(x, state):
    state.rows = x[x > 0]
    raise SystemExit(3)


def that_ends_the_program_without_sizes(x, state):
    state.rows = x + 1
    raise SystemExit(3)


FUNCTIONS = (
    plain, with_text, with_size, with_tensor, with_cause, where_it_is_large, where_there_are_many,
    asserted, at_open_sizes, of_python, of_slice, of_list, with_finally, that_ends_the_program,
    that_ends_the_program_without_sizes,
)  # fmt: skip


def told(error):
    if error is None:
        return None
    args = [arg.tolist() if isinstance(arg, hy.Tensor) else arg for arg in error.args]
    kept = {key: value for key, value in vars(error).items() if not key.startswith("_")}
    return type(error), str(error) if type(error) is not Odd else "", args, kept


def outcome(function, values, state, gradients):
    x, slopes = hy.asarray(values), None
    x.requires_grad = gradients
    try:
        found = function(x, state).tolist()
    except BaseException as error:
        found = told(error), told(error.__cause__)
    rows = None if state.rows is None else state.rows.tolist()
    if rows is not None and state.rows.requires_grad:
        hy.sum(state.rows * state.rows).backward()
        slopes = None if x.grad is None else x.grad.tolist()
    return found, rows, [row.tolist() for row in state.kept], state.count.item(), slopes


@pytest.mark.parametrize("gradients", [False, True], ids=["values", "histories"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_raised_after_a_size_from_values(function, gradients):
    hybridized, eagerly, state = hy.hybridize(function), State(), State()
    for values in ([1.0, -2.0, 2.5], [1.0, 2.0, 3.0, 0.5], [-1.0, -2.0, -3.0], [1.0, -2.0, 2.5]):
        found = outcome(hybridized, values, state, gradients)
        assert found == outcome(function, values, eagerly, gradients)


def written_at_a_place(x, at):
    x[0] = at + 3.0
    return hy.ones(3)[hy.astype(at, hy.int64)]


def added_in_place(x, at):
    x += at
    return hy.take(x, hy.astype(at, hy.int64) + hy.arange(2))


def written_before_sizes_of_values(x, at):
    x += 1.0
    if at > 100:
        x = x[x > 0]
    return hy.ones(3)[hy.astype(at, hy.int64) + hy.arange(2)]


@pytest.mark.parametrize(
    "program", [written_at_a_place, added_in_place, written_before_sizes_of_values]
)
@pytest.mark.parametrize("ledger", [None, False])
def test_what_is_written_before_a_kernel_raises_stays(program, ledger):
    def observed(function):
        x, seen = hy.asarray([1.0, 2.0, 3.0]), []
        for at in (7.0, 1.0, 5.0, 0.0, 9.0):
            try:
                seen.append(describe(function(x, hy.asarray(at))))
            except IndexError as error:
                seen.append((type(error), error.args))
            seen.append(describe(x))
        return seen

    assert observed(hy.hybridize(program, ledger=ledger)) == observed(program)


def test_what_is_printed_before_a_kernel_raises_is_printed_once(capsys):
    def program(x, at):
        print("before", at)
        x += 1.0
        return x[hy.astype(at, hy.int64)]

    x = hy.zeros(3)
    with pytest.raises(IndexError):
        hy.hybridize(program)(x, hy.asarray(7.0))
    assert capsys.readouterr().out.count("before") == 1


def looked_up_for_nothing(x, y):
    if x[0] > 0:
        y[hy.arange(len(x))]
    return x


def looked_up_in_a_loop(x, y):
    for k in x:
        hy.take(y, hy.astype(k, hy.int64) + hy.asarray([2]))
    return x


@pytest.mark.parametrize("program", [looked_up_for_nothing, looked_up_in_a_loop])
@pytest.mark.parametrize("ledger", [None, False])
def test_what_raises_is_computed_though_nobody_reads_it(program, ledger):
    hybridized = hy.hybridize(program, ledger=ledger)
    for rows, many in ((3, 3), (5, 3), (6, 6), (5, 6), (4, 3), (2, 3)):
        seen = []
        for function in (program, hybridized):
            try:
                seen.append(describe(function(hy.ones(rows), hy.ones(many))))
            except IndexError as error:
                seen.append(error.args)
        assert seen[0] == seen[1]


def test_indices_that_sizes_say_inside_a_try():
    """The call is refused by its line, as with indices that values say, or gives the eager result.

    What the library has raised for the elements of the index, which sizes say, was no error of the
    program's.
    """

    def program(x, y):
        try:
            if x[0] > 0:
                y[hy.arange(len(x))]
        except IndexError:
            return 1
        return 2

    hybridized = hy.hybridize(program, ledger=False)
    for rows in (3, 5, 6, 7, 2):
        args = hy.ones(rows), hy.ones(3)
        try:
            assert hybridized(*args) == program(*args)
        except CaptureError as error:
            assert error.what.startswith("OutOfRangeError may be raised when the plan runs")
