"""Errors raised inside of comprehensions, callbacks, generators and gradients, caught outside.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

import functools

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32, same

table = Table()
X, Y, Z = f32([1.0, -2.0, 3.0]), f32([4.0, 1.0, 9.0]), f32([4.0, 1.0, -9.0])
ROWS = (X, Y, Z)
NUMBERS = (f32(2.0), f32(-2.0), f32(7.0))
NUMBER = 3


def root(v):
    if v < 0:
        raise ValueError("negative", v)
    return v**0.5


@table.runs(*NUMBERS)
def list_comprehension(x):
    try:
        return [root(x + k) for k in (1.0, 0.0, -3.0)]
    except ValueError as e:
        return [e.args[1], x, x]


@table.runs(*NUMBERS, covered=False)  # which ends in an error on all its paths
def what_a_finally_raises_at_the_end_of_a_call(x):
    """Pending on both ways out of the call, with what the caller's variables held."""
    ys = [x + 1.0]

    def inner():
        try:
            if x < 0:
                raise NameError
            return 1
        finally:
            NUMBER.attribute = 3

    try:
        inner()
        ys = []
    except AttributeError:
        ys.append(x)
    return ys


@table.runs(*ROWS)
def rows_in_a_comprehension(x):
    try:
        return [root(v) for v in x]
    except ValueError as e:
        return [x[0], x[1], e.args[1]]


@table.runs(*ROWS)
def dict_and_set_comprehensions(x):
    total = x[0] * 0
    try:
        found = {k: root(x[k]) for k in range(3)}
        total = total + found[1]
        total = total + len({k for k in range(2) if root(x[2]) is not None})
    except ValueError as e:
        total = total + 100 * e.args[1]
    return total


@table.runs(*ROWS)
def nested_comprehensions(x):
    try:
        first, _ = [[root(v * k) for v in x] for k in (1.0, -0.0)]
        return first
    except ValueError as e:
        return [e.args[1]] * 3


@table.runs(*ROWS)
def generator_expressions(x):
    try:
        return sum(root(v) for v in x) + max(root(v + 5) for v in x)
    except ValueError as e:
        return e.args[1]


@table.runs(*ROWS, Y + 4)
def any_and_all(x):
    try:
        if any(root(v) > 1.5 for v in x) and all(root(v) > 1.5 for v in x):
            return x[0]
        return x[1]
    except ValueError as e:
        return e.args[1] * 3


@table.runs(*ROWS)
def mapped(x):
    try:
        first, second, third = map(root, x)
        return first + second * third
    except ValueError as e:
        return e.args[1]


@table.runs(*NUMBERS)
def key_of_a_sort(x):
    def key(k):
        root(x - k)
        return -k

    try:
        return sorted([0, 1, 2], key=key)[0], x
    except ValueError as e:
        return -1, e.args[1]


@table.runs(*ROWS)
def reduced(x):
    try:
        return functools.reduce(lambda a, b: root(b) + a, list(x), x[0] * 0)
    except ValueError as e:
        return e.args[1]


@table.runs(*NUMBERS)
def callback(x):
    def twice(function, v):
        return function(function(v) - 1)

    try:
        return twice(root, x)
    except ValueError as e:
        return e.args[1] * 2


@table.runs(*NUMBERS)
def partial_function(x):
    def scaled(k, v):
        return k * root(v)

    try:
        return functools.partial(scaled, 3)(x)
    except ValueError as e:
        return e.args[1]


@table.runs(*NUMBERS)
def generator_function(x):
    def numbers():
        yield x
        yield root(x) * 10
        yield root(x - 3)

    total = x
    try:
        for v in numbers():
            total = total + v
    except ValueError:
        total = total * 100
    return total


@table.runs(*NUMBERS)
def out_of_a_gradient(x):
    try:
        return hy.grad(root)(x)
    except ValueError as e:
        return e.args[1].detach() * 3


@table.runs(*NUMBERS)
def out_of_a_value_and_gradient(x):
    y = x
    try:
        y, slope = hy.value_and_grad(lambda v: root(v) * v)(x)
        y = y + slope
    except ValueError:
        y = y * 3
    return y


@table.runs(*NUMBERS)
def out_of_a_gradient_of_a_choice(x):
    def f(v):
        scale = v * v if v < 4 else v
        return root(v) * scale

    try:
        return hy.grad(f)(x).detach()
    except ValueError:
        return x * 3


@table.runs(*NUMBERS)
def out_of_a_branch_of_a_gradient(x):
    def f(v):
        if v < 4:
            return root(v) * v
        return v * v

    try:
        return hy.grad(f)(x).detach()
    except ValueError:
        return x


@table.runs(*NUMBERS)
def out_of_a_gradient_of_a_gradient(x):
    try:
        return hy.grad(hy.grad(lambda v: root(v) * v * v))(x)
    except ValueError:
        return x * 3


@table.runs(*NUMBERS)
def around_and_inside_a_gradient(x):
    def f(v):
        try:
            y = root(v - 4)
        except ValueError:
            y = v * 2
        return root(v) * y * v

    try:
        return hy.grad(f)(x).detach()
    except ValueError:
        return x * 3


@table.runs(*NUMBERS)
def out_of_pullbacks_and_tangents(x):
    try:
        y, pull = hy.vjp(root, x)
        z, tangent = hy.jvp(root, (x - 3,), (x,))
        return y + pull(y)[0] + z + tangent
    except ValueError:
        return x * 3


@table.runs(*ROWS)
def gradients_in_a_loop(x):
    total = x[0] * 0
    for v in x:
        try:
            total = total + hy.grad(root)(v)
        except ValueError:
            total = total - 1
    return total


class Layer(hy.nn.Module):
    def construct(self, v):
        return root(v) * 2


@table.runs(*NUMBERS, covered=False)
def layers(x):
    layer = hy.nn.Sequential(Layer(), Layer())
    try:
        return layer(x)
    except ValueError as e:
        return e.args[1]


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def generator_that_is_asked_for_more(x):
    numbers = (root(x - k) for k in (0.0, 4.0))
    try:
        y = next(numbers)
        y = y + next(numbers)
    except ValueError:
        y = next(numbers, x * 0)
    return y


def rows_of_a_vmap(x):
    try:
        return hy.vmap(root)(x)
    except ValueError:
        return x


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (generator_that_is_asked_for_more, NUMBERS),
        (rows_of_a_vmap, ROWS),
    ],
)
def test_refused(function, calls) -> None:
    with pytest.raises(CaptureError, match=r"inside a (try|call) that catches it"):
        hy.hybridize(function)(calls[0])
    same(function, calls=calls, may_refuse=True)
