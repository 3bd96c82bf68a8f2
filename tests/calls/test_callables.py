"""What is hybridized: methods, lambdas, partials, closures, modules; and further calls."""

# ruff: noqa: SIM108  the programs are about these forms

import functools
import math
import operator

import numpy as np

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, draw, f32, i64
from tests.staging.samples import Scale, clipped, twice

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


@table.makes(*NUMBERS, plans=1)
def a_method():
    return Scale(2.0).method


@table.makes(*NUMBERS, plans=1)
def a_callable_object():
    return Scale(2.0)


@table.makes(*NUMBERS, plans=1)
def a_partial():
    return functools.partial(clipped, high=0.75)


@table.makes(*NUMBERS, plans=1)
def a_lambda():
    return lambda x: x * 2 if x > 0 else x - 2


@table.makes(*NUMBERS, plans=1)
def one_of_two_lambdas_on_a_line():
    both = (lambda x: x * 2 if x > 0 else x - 2), (lambda x: x * 3 if x > 0 else x - 3)
    return both[1]


@table.makes(*NUMBERS, plans=1)
def a_closure():
    k = f32(3.0)

    def run(x):
        return x * k if x > 0 else k

    return run


@table.makes(*NUMBERS, plans=1)
def a_decorated_function():
    @twice
    def run(x):
        return x * 2 if x > 0 else x - 2

    return run


@table.makes(draw(2, 3), -draw(2, 3), plans=1)
def a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 2)

        def forward(self, x):
            h = self.a(x)
            if hy.sum(h) > 0:
                h = hy.tanh(h)
            else:
                h = hy.relu(h)
            return self.b(h)

    net = Net()
    return net, net


@table.makes(draw(2, 3), -draw(2, 3), plans=1, covered=False)
def a_module_with_helpers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.Linear(3, 3)

        def step(self, h):
            return hy.tanh(self.cell(h))

        def forward(self, x):
            n = 0
            while hy.sum(x * x) > 0.5:
                x = self.step(x) * 0.8
                n += 1
                if n > 20:
                    break
            return x, n

    net = Net()
    return net, net


def default_list(x, seen=None):
    seen = [] if seen is None else seen
    if x > 0:
        x = x * 2
    seen.append(x)
    return seen


@table.runs(*NUMBERS)
def default_arguments(x):
    return default_list(x), default_list(x, [x])


def keyword_only(x, *, scale=2.0, shift=None):
    if shift is not None:
        x = x + shift
    return x * scale if x > 0 else x


@table.runs(*NUMBERS)
def keyword_only_arguments(x):
    return keyword_only(x), keyword_only(x, shift=x), keyword_only(x, scale=x, shift=1)


def positional_only(x, /, y=2, *rest):
    return x * y + len(rest) if x > 0 else x


@table.runs(*NUMBERS)
def positional_only_arguments(x):
    return positional_only(x), positional_only(x, 3, 4, 5)


@table.runs(*NUMBERS)
def libraries_are_left_alone(x):
    k = math.sqrt(2.0) + float(np.arange(4).sum())
    ks = sorted([3, 1, 2], key=lambda v: -v)
    total = functools.reduce(operator.add, ks)
    return x * k + total if x > 0 else x


@table.runs(*NUMBERS)
def builtins_on_tensors(x):
    return abs(x), max(x, x * 2), min(x, x * 0 + 0.25), sum([x, x, 1]), pow(x, 2), divmod(7, 2)


@table.runs(*NUMBERS)
def builtins_on_python(x):
    words = list(map(len, ["a", "bb"]))
    return (
        x * sum(words),
        len(words),
        sorted("ba"),
        list(zip("ab", [1, 2], strict=True)),
        max(words),
    )


@table.runs(X, -X)
def map_and_filter(x):
    halves = list(map(lambda v: v * 0.5 if v > 0 else v, [x[0], x[1]]))
    kept = list(filter(lambda n: n > 1, [1, 2, 3]))
    return halves, kept


@table.runs(X, -X)
def sorted_with_a_traced_key(x):
    return sorted([3, 1, 2], key=lambda k: -k)[0] * x


@table.runs(X, -X)
def getattr_and_setattr(x):
    s = Scale(1.0)
    s.k = x[0] if x[0] > 0 else x[1]
    return getattr(s, "k") * 2, getattr(s, "missing", x), hasattr(s, "k")  # noqa: B009


@table.runs(X, -X, covered=False)
def inner_hybridized(x):
    @hy.hybridize
    def inner(v):
        if v[0] > 0:
            return v * 2
        return v

    return inner(x) + 1


@table.runs((X, i64(2)), (-X, i64(3)))
def generator_helper_with_traced_count(x, n):
    def total(values):
        result = hy.zeros(())
        for v in values:
            if v > 0:
                result = result + v
        return result

    return total(x) + n


@table.runs(*NUMBERS)
def immediately_called(x):
    return (lambda v: (lambda w: w if w > 0 else v)(v - 1))(x)


@table.runs(*NUMBERS)
def functions_in_a_dict(x):
    table_of = {"double": lambda v: v * 2 if v > 0 else v, "half": lambda v: v * 0.5}
    return table_of["double"](table_of["half"](x))


@table.runs(*NUMBERS)
def same_helper_twice_with_other_kinds(x):
    def twice_or_more(v, k):
        return v * k if v > 0 else v

    return twice_or_more(x, 2), twice_or_more(x, x), twice_or_more(hy.astype(x, hy.float64), 2.5)


@table.runs(*NUMBERS)
def local_class(x):
    class Box:
        def __init__(self, v):
            self.v = v if v > 0 else -v

        def get(self):
            return self.v * 2 if self.v > 1 else self.v

    return Box(x).get()


@table.runs(*NUMBERS)
def functions_made_in_a_loop(x):
    fs = []
    for k in (1.0, 2.0):
        fs.append(lambda v, k=k: v * k if v > 0 else v)
    return [f(x) for f in fs]


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
