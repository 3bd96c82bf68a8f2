"""Exceptions after a size that depends on values: type, text and state are those of eager code.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

import pytest

import hybrid as hy


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
