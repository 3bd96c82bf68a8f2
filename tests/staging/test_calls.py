"""Calls: functions, methods, lambdas, partials, closures, decorators, recursion."""

# ruff: noqa: E731, SIM108  the programs are about these forms

import functools

import hybrid as hy
from tests.staging.harness import Program, Table, f32
from tests.staging.samples import Scale, clipped, twice

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


def until_large(x, *, limit=100.0):
    while hy.sum(x * x) < limit:
        x = x * 2
    return x


@table.runs(*NUMBERS)
def calls_a_function(x):
    return clipped(x) + clipped(x * 3, high=2.0) + clipped(x, -0.5)


@table.runs(X, X * 0.001)
def calls_with_keywords(x):
    return until_large(x, limit=10.0) + until_large(x=x)


@table.runs(*NUMBERS)
def calls_with_stars(x):
    args, kwargs = (x, -0.5), {"high": 0.25}
    return clipped(*args, **kwargs)


def collects(*xs, **named):
    total = hy.zeros(())
    for x in xs:
        if x > 0:
            total = total + x
    for name, x in named.items():
        total = total + x * len(name)
    return total


@table.runs(*NUMBERS)
def variadic(x):
    return collects(x, -x, x + 1, first=x, second=x * 2) + collects()


@table.runs(*NUMBERS)
def nested_functions(x):
    scale = x * 2

    def inner(v):
        def innermost(u):
            return u * scale if u > 0 else u

        return innermost(v) + innermost(-v)

    return inner(x)


@table.runs(*NUMBERS)
def closure_changes_later(x):
    k = x

    def get():
        return k * 2

    first = get()
    if x > 0:
        k = x + 100
    return first, get()


@table.runs(*NUMBERS)
def nonlocal_tensor(x):
    total = hy.zeros(())

    def add(v):
        nonlocal total
        if v > 0:
            total = total + v
        return total

    for k in (x, -x, x * 3):
        add(k)
    return total


@table.runs(*NUMBERS)
def nonlocal_in_a_loop(x):
    count = 0

    def step(v):
        nonlocal count
        count += 1
        return v * 2

    y = hy.abs(x) + 0.1
    while y < 50:
        y = step(y)
    return y, count


@table.runs(*NUMBERS)
def lambdas(x):
    f = lambda v: v if v > 0 else -v
    g = lambda v, w=x: v + w
    return f(x), g(x), (lambda: x * 3)()


@table.runs(*NUMBERS)
def partials(x):
    f = functools.partial(clipped, high=0.75)
    g = functools.partial(f, x)
    return f(x), g(), g(low=0.0)


@table.runs(*NUMBERS)
def returns_a_function(x):
    def adder(k):
        def add(v):
            return v + k if v > 0 else v - k

        return add

    return adder(1.0)(x), adder(x)(x)


@table.runs(*NUMBERS)
def composed(x):
    def compose(*fs):
        return functools.reduce(lambda f, g: lambda v: g(f(v)), fs)

    return compose(clipped, hy.exp, lambda v: v if v < 1 else v * 2)(x)


@table.runs(*NUMBERS)
def passes_functions(x):
    def apply(f, v, n):
        for _ in range(n):
            v = f(v)
        return v

    return apply(clipped, x, 2), apply(hy.sin, x, 3), apply(lambda v: v if v > 0 else v + 1, x, 4)


def scaled(by):
    def decorate(f):
        def wrapped(v):
            return f(v) * by

        return wrapped

    return decorate


@twice
def step(x):
    return x * 3 if x > 0 else x + 1


@scaled(0.5)
@twice
def other_step(x):
    if x > 1:
        return x - 1
    return x * 2


@table.runs(*NUMBERS)
def decorated(x):
    @twice
    def local(v):
        return v + 1 if v > 0 else v - 1

    return step(x), other_step(x), local(x)


def power(x, n):
    if n == 0:
        return x * 0 + 1
    half = power(x, n // 2)
    return half * half * x if n % 2 else half * half


@table.runs((X, 0), (X, 1), (X, 9))
def recursion_of_python_depth(x, n):
    return power(x, n)


def tree_sum(tree):
    if isinstance(tree, hy.Tensor):
        if hy.sum(tree) > 0:
            return hy.sum(tree)
        return hy.sum(tree) * 2
    return sum([tree_sum(t) for t in tree], hy.zeros(()))


@table.runs(([X, [X, -X], [[X * 2]]],), ([-X, [-X, X], [[X * 2]]],), plans=2)
def recursion_over_a_tree(tree):
    return tree_sum(tree)


@table.runs(X, -X)
def recursion_of_a_nested_function(x):
    def walk(v, depth):
        if depth == 0:
            return v
        if v[0] > 0:
            v = v * 0.5
        else:
            v = v + 1
        return walk(v, depth - 1)

    return walk(x, 4)


def is_even(x, n):
    return x if n == 0 else is_odd(x + 1, n - 1)


def is_odd(x, n):
    return -x if n == 0 else is_even(x * 2, n - 1)


@table.runs((X, 4), (X, 5))
def mutual_recursion(x, n):
    return is_even(x, n)


class Wide(Scale):
    def other(self, x):
        if x > 1:
            return super().other(x) + 1
        return super().other(x)

    @property
    def double(self):
        return super().double + 1


@table.runs(*NUMBERS)
def methods(x):
    s = Scale(2.0)
    return s.method(x), s(x), s.of_the_class(x), Scale.static(x), Scale.method(s, x)


@table.runs(*NUMBERS)
def methods_with_super(x):
    return Wide(2.0).method(x), Wide(x).double


@table.runs(*NUMBERS)
def operators_of_ones_own(x):
    s = Scale(x)
    return s + x, s[1], s.double, 5 in Scale(5)


@table.runs(*NUMBERS)
def bound_methods_as_values(x):
    f = Scale(2.0).method
    g = x.sum
    return f(x), g(), functools.partial(f)(x)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
