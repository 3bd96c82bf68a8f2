"""while: loops that tensors end are one node, loops that Python ends stay Python."""

# ruff: noqa: SIM108  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, f64, i64

table = Table()
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 7)]


@table.runs(*STARTS)
def doubling(x):
    while x < 100:
        x = x * 2
    return x


@table.runs(*STARTS)
def counting_trips(x):
    n = hy.asarray(0)
    while x < 100:
        x = x * 2
        n = n + 1
    return x, n


@table.runs(*STARTS)
def counting_in_python(x):
    n = 0
    while x < 100:
        x = x * 2
        n += 1
    return x, n


@table.runs((f64(1.1), f64(8.0)), (f64(9.0), f64(8.0)), (f64(0.0), f64(600.0)))
def squares(x, y):
    while x < y:
        x = x * x + 1
    return x


@table.runs((draw(3), f32(0.001)), (draw(3) * 10, f32(0.1)), (draw(3) * 0, f32(0.1)))
def invariants(x, tolerance):
    w = hy.tanh(x)
    while hy.sum(x * x) > tolerance:
        x = x * 0.5 + w * 0.001
    return x, w


@table.runs(*[(n, f32([1.0, 2.0])) for n in COUNTS])
def counting_down(n, x):
    while n:
        x = x * 1.5
        n = n - 1
    return x, n


@table.runs(*[(n, f32([1.0, 2.0])) for n in COUNTS])
def counting_up_in_python(n, x):
    i = 0
    while i < n:
        x = x * i + 1
        i += 1
    return x, i


@table.runs((1, f32(2.0)), (4, f32(2.0)), (0, f32(2.0)))
def python_ends_it(n, x):
    while n > 0:
        x = x * n
        n -= 1
    return x


@table.runs(*STARTS)
def condition_of_two(x):
    n = 0
    while x < 100 and n < 3:
        x = x * 2
        n += 1
    return x, n


@table.runs(*STARTS)
def condition_with_or(x):
    y = x
    while x < 10 or y > 20:
        x = x * 2
        y = y * 0.5
    return x, y


@table.runs(*STARTS)
def condition_with_not(x):
    while not x >= 100:
        x = x * 2
    return x


@table.runs(*STARTS)
def condition_chained(x):
    n = 0
    while 1 <= x < 100:
        x = x * 3
        n += 1
    return x, n


@table.runs(*STARTS)
def condition_calls(x):
    def more(v, limit=100):
        return hy.sum(v) < limit

    while more(x):
        x = x + 10
    return x


@table.runs(*STARTS)
def if_in_the_body(x):
    n = 0
    while x < 100:
        if x > 10:
            x = x * 3
            n += 1
        else:
            x = x + 4
    return x, n


@table.runs(*[(a, b) for a in COUNTS for b in COUNTS[:3]])
def nested(n, m):
    total = hy.asarray(0.0)
    i = 0
    while i < n:
        j = 0
        while j < m:
            total = total + i * 10 + j
            j += 1
        i += 1
    return total


@table.runs(*COUNTS)
def inner_count_depends_on_the_outer(n):
    total = 0
    i = 0
    while i < n:
        j = 0
        while j < i:
            total += j
            j += 1
        i += 1
    return total


@table.runs(*STARTS)
def two_loops(x):
    while x < 10:
        x = x * 2
    y = x
    while y < 100:
        y = y + x
    return x, y


@table.runs(*COUNTS)
def fibonacci(n):
    a, b = 0, 1
    while n > 0:
        a, b = b, a + b
        n = n - 1
    return a


@table.runs(*[(n, f32([1.0, 2.0]), f32([3.0, 4.0])) for n in COUNTS])
def swapping(n, a, b):
    while n > 0:
        a, b = b, a
        n = n - 1
    return a, b


@table.runs(*[(n, f32([1.0, 2.0]), f32([3.0, 4.0]), f32([5.0, 6.0])) for n in COUNTS])
def rotating(n, a, b, c):
    while n > 0:
        a, b, c = b, c, a + 1
        n = n - 1
    return a, b, c


@table.runs(*COUNTS)
def set_but_not_carried(n):
    """A name that each iteration sets before it reads it."""
    total = hy.asarray(0)
    while n > 0:
        square = n * n
        total = total + square
        n = n - 1
    return total


@table.runs(*COUNTS)
def last_value_is_read(n):
    last = hy.asarray(-1)
    while n > 0:
        last = n * 2
        n = n - 1
    return last


@table.runs(*STARTS)
def none_before(x):
    """None is replaced in the first iteration."""
    cache = None
    while x < 100:
        cache = x if cache is None else cache + x
        x = x * 2
    return x if cache is None else cache


@table.runs(*COUNTS[1:])
def none_before_and_always_some(n):
    cache = None
    while n > 0:
        if cache is None:
            cache = hy.ones(2)
        else:
            cache = cache * 3
        n = n - 1
    return cache


@table.runs(*STARTS)
def python_float_becomes_tensor(x):
    total = 0.0
    while x < 100:
        total = total + x
        x = x * 2
    return total + x


@table.runs(*STARTS[:3])
def constant_becomes_varying(x):
    y = 1
    while x < 100:
        y = y * 3
        x = x * 2
    return y


@table.runs(*STARTS)
def bool_flag_in_python(x):
    going = True
    n = 0
    while going:
        x = x * 2
        n += 1
        going = x < 100
    return x, n


@table.runs(*STARTS)
def flag_is_a_tensor_from_the_start(x):
    going = x < 100
    while going:
        x = x * 2
        going = x < 100
    return x


@table.runs(*STARTS)
def flag_set_inside(x):
    done = False
    n = 0
    while not done:
        x = x + 30
        n += 1
        if x > 100:
            done = True
    return x, n


@table.runs(draw(4, 4), draw(4, 4) * 0.1)
def matrix_power(a):
    x = a
    n = 0
    while hy.sum(hy.abs(x)) > 0.5 and n < 5:
        x = hy.tanh(x @ a) * 0.5
        n += 1
    return x, n


@table.runs(*STARTS)
def walrus_in_the_condition(x):
    while (y := x * 2) < 100:
        x = y + 1
    return x, y


@table.runs(*[(f32(a), f32(b)) for a, b in ((48, 18), (7, 0), (0, 5), (17, 5))])
def greatest_common_divisor(a, b):
    while b > 0:
        a, b = b, a % b
    return a


@table.runs(f64(2.0), f64(10.0), f64(0.25), f64(1.0))
def newton_square_root(a):
    x = a
    while hy.abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


@table.runs(draw(64, seed=1), draw(64, seed=2))
def newton_sine(x):
    n = 0
    while hy.sum(x * x) > 1.0:
        x = x - 0.1 * hy.sin(x)
        n += 1
    return x, n


@table.runs(i64(6), i64(27), i64(1))
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@table.runs(*STARTS)
def while_true(x):
    n = 0
    while True:
        x = x + 20
        n += 1
        if x > 100:
            break
    return x, n


@table.runs(*STARTS)
def while_true_returns(x):
    while True:
        if x > 100:
            return x
        x = x * 3


@table.runs(f32(1.0), covered=False)
def while_false(x):
    while False:
        x = x * 2
    return x


@table.runs(*STARTS)
def shapes_beside(x):
    y = hy.zeros((2, 3))
    while x < 100:
        y = y + x
        x = x * 2
    return y


@table.runs(*STARTS)
def same_value_carried_twice(x):
    y = x
    while x < 100:
        x = x * 2
        y = y + 1
    return x, y


@table.runs(*STARTS)
def carried_never_changes(x):
    y = x + 1
    n = 0
    while n < 3:
        y = y
        x = x + y
        n += 1
    return x, y


@table.runs(*STARTS)
def condition_has_effects(x):
    reads = []

    def more():
        reads.append(1)
        return len(reads) < 4

    while more():
        x = x * 2
    return x, len(reads)


@table.runs(*[(n, f32(1.5)) for n in COUNTS])
def draws_in_the_body(n, x):
    total = x * 0
    while n > 0:
        total = total + hy.random.uniform()
        n = n - 1
    return total, hy.random.uniform()


@table.runs(f64(0.0), f64(1.0))
def thousand_trips(x):
    n = hy.asarray(0)
    while n < 1000:
        x = hy.sin(x) + 0.001
        n = n + 1
    return x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
