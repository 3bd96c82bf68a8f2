"""Python numbers that are known only at run time, and the dtypes they do or do not change."""

# ruff: noqa: SIM220, SIM108  the programs are about these forms

import math

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, f64, flag, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]
BOTH = [(f32(v), f64([1.0, 2.0])) for v in (-1.0, 1.0)] + [(f32(0.1), f64([0.1, 0.3]))]


@table.runs(*NUMBERS)
def item_is_a_float(x):
    return x.item(), float(x), (x * 2).item()


@table.runs(*COUNTS)
def item_is_an_int(n):
    return n.item(), int(n), (n + 1).item(), float(n)


@table.runs(flag(True), flag(False))
def item_is_a_bool(p):
    return p.item(), bool(p), int(p)


@table.runs(f32(2.7), f32(-2.7), f64(0.1))
def conversions(x):
    return int(x), float(x), bool(x), int(float(x) * 10), round(float(x), 1)


@table.runs(*NUMBERS)
def arithmetic_on_items(x):
    a, b = x.item(), (x + 3).item()
    return a + b, a - b, a * b, a / b, a // b, a % b, -a, abs(a), a**2, 2 - a, 3 / b


@table.runs((i64(7), i64(2)), (i64(-7), i64(2)), (i64(7), i64(-3)))
def arithmetic_on_ints(n, m):
    a, b = int(n), int(m)
    return a + b, a - b, a * b, a / b, a // b, a % b, a & b, a | b, a ^ b, -a, ~a, divmod(a, b)


@table.runs(i64(3), i64(0))
def division_by_zero(n):
    return 1 / int(n)


@table.runs(i64(3), i64(0))
def modulo_by_zero(n):
    return 7 % int(n)


@table.runs((i64(2), i64(10)), (i64(3), i64(0)))
def powers_of_ints(a, b):
    return int(a) ** int(b), int(a) ** 2


@table.runs((i64(1), i64(3)), (i64(5), i64(2)))
def shifts(a, b):
    return int(a) << int(b), int(a) >> 1


@table.runs(*NUMBERS)
def comparisons_of_items(x):
    a = x.item()
    return a > 0, a == 2.0, 0 < a < 1, a != a, not a


@table.runs(*NUMBERS)
def branches_on_items(x):
    a = x.item()
    if a > 1:
        return a
    elif a > 0:
        return a * 2
    return 0.0


@table.runs(*NUMBERS)
def items_in_loops(x):
    total = 0.0
    while x < 10:
        x = x + 3
        total += x.item()
    return total


@table.runs(*NUMBERS)
def math_on_items(x):
    return math.sqrt(abs(x.item())), math.floor(x.item()), math.exp(float(x))


@table.runs(*NUMBERS)
def number_chosen(x):
    k = 2 if x > 0 else 3
    return k, k * 2, k + 0.5, x * k


@table.runs(*NUMBERS)
def float_chosen(x):
    if x > 0:
        k = 0.1
    else:
        k = 0.7
    return k, x * k, k / 3, math.pi * k


@table.runs(*NUMBERS)
def bool_chosen(x):
    p = True
    if x > 0:
        p = False
    return p, not p, p + 1, p and not p


@table.runs(*BOTH)
def weak_against_f32_and_f64(x, y):
    """A Python float takes the dtype of the tensor, with all of its 53 bits for f64."""
    k = 0.1 if x > 0 else 1 / 3
    return x * k, y * k, k * x, y + k, y / k, k - y


@table.runs(*[(n, f32(1.5), f64(0.25)) for n in COUNTS])
def weak_int_against_floats(n, x, y):
    k = 0
    while k < n:
        k += 1
    return x * k, y + k, k - x, k / y, k * 2, n + k


@table.runs(
    (f32(1.0), hy.asarray([1, 2], dtype=hy.int32)), (f32(-1.0), hy.asarray([3, 4], dtype=hy.int32))
)
def weak_int_against_int32(x, v):
    k = 3 if x > 0 else -4
    return v * k, v + k, v // k, v == k, v / k


@table.runs(
    (f32(1.0), hy.asarray([1, 2], dtype=hy.uint8)), (f32(-1.0), hy.asarray([3, 4], dtype=hy.uint8))
)
def weak_int_against_uint8(x, v):
    k = 3 if x > 0 else 200
    return v + k, v * k


@table.runs(*NUMBERS)
def number_into_asarray(x):
    k = 2 if x > 0 else 3
    f = 0.5 if x > 0 else 0.25
    return hy.asarray(k), hy.asarray(f), hy.asarray(k, dtype=hy.float32), hy.stack([x, x * k])


@table.runs(*NUMBERS)
def number_into_full(x):
    k = 0.1 if x > 0 else 0.3
    return hy.full((2,), k), hy.full_like(x, k), hy.where(x > 0, k, 1.0)


@table.runs(*NUMBERS)
def number_as_an_operand_of_functions(x):
    k = 0.1 if x > 0 else 0.3
    return hy.maximum(x, k), hy.minimum(k, x), hy.add(x, k), hy.clip(x, -k, k), hy.pow(x * x, k)


@table.runs(*COUNTS[:3])
def number_as_an_index(n):
    x = X * 1
    k = int(n)
    return x[k], hy.take(x, n), x[k % 2]


@table.runs((i64(1), 5), (i64(4), 5))
def number_as_a_bound(n, m):
    total = 0
    for i in range(int(n), m):
        total += i
    return total


@table.runs(*COUNTS)
def counter(n):
    count = 0
    for _ in range(n):
        count += 1
    return count


@table.runs(*COUNTS)
def counter_by_a_float(n):
    t = 0.0
    for _ in range(n):
        t += 0.1
    return t


@table.runs(*COUNTS)
def counters_of_several_kinds(n):
    i, f, p = 0, 1.0, False
    while i < n:
        i += 1
        f = f / 2
        p = not p
    return i, f, p


@table.runs(*NUMBERS)
def counters_that_python_knows(x):
    i = 0
    for _ in range(3):
        i += 2
        x = x + i
    return x, i


@table.runs(*NUMBERS)
def max_min_abs_of_numbers(x):
    k = 2 if x > 0 else -3
    return max(k, 0), min(k, 1, 5), abs(k), sum([k, 1]), round(k / 4, 2), int(k / 2), float(k)


@table.runs(*NUMBERS)
def isinstance_and_type(x):
    k = 2 if x > 0 else 3
    f = 0.5 if x > 0 else 0.25
    return isinstance(k, int), isinstance(f, float), isinstance(k, float), type(k) is int


@table.runs(*NUMBERS)
def numbers_in_structures(x):
    k = 2 if x > 0 else 3
    return [k, (k, {"k": k + 1})], k


@table.runs(*NUMBERS)
def number_in_a_string(x):
    k = 2 if x > 0 else 3
    print(f"k is {k}, {k + 0.5:.2f}", str(k), repr(k))
    return x


@table.runs(*NUMBERS)
def number_in_a_while(x):
    k = 3 if x > 0 else 1
    while k > 0:
        x = x * 2
        k -= 1
    return x, k


@table.runs((X, 2), (X, 3), (X, 4), (X, 5), (X, 6))
def int_argument_changes(x, n):
    return x * n + n, n * 2


@table.runs((X, 2, 0), (X, 3, 1), (X, 4, 2), (X, 5, 0))
def int_argument_in_shapes(x, n, axis):
    return hy.zeros((n, 3)) + x, n


@table.runs((X, 0.5), (X, 1.5), (X, 2.5), (X, -0.0), (X, 2.0))
def float_argument_changes(x, k):
    return x * k, k + 1, k


@table.runs((f64(0.3), 0.1), (f64(0.3), 0.2), (f64(0.3), 1 / 3), (f64(0.3), 1e300))
def float_argument_keeps_its_bits(x, k):
    return x * k, k / 3, k


@table.runs((X, 0.5), (X, -0.5), (X, 1.5), (X, 2.5))
def float_argument_decides(x, k):
    if k > 1:
        x = x * k
    elif k < 0:
        x = x - k
    return x


@table.runs((X, 1), (X, 2.0), (X, True), (X, 3), (X, 2.5), (X, False))
def argument_of_changing_kind(x, k):
    return x * k, k, type(k).__name__


@table.runs((X, [1, 2.5]), (X, [3, 4.5]), (X, [5, 6.5]))
def numbers_in_a_list_argument(x, ks):
    return x * ks[0] + ks[1], ks


@table.runs(f64(0.5), f64(-0.5))
def branches_of_one_dtype(x):
    if x > 0:
        y = hy.astype(x, hy.float32)
    else:
        y = hy.zeros(())
    return y


@table.runs(f32(1.0), f32(-1.0))
def counter_of_each_outcome(x):
    hits = misses = 0
    for k in (-2.0, 0.0, 2.0):
        if x > k:
            hits += 1
        else:
            misses += 1
    return hits, misses, hits / (hits + misses)


@table.runs(draw(6), draw(6, seed=1))
def count_and_mean_of_positive(x):
    n = 0
    total = 0.0
    for v in x:
        if v > 0:
            n += 1
            total = total + v
    return total / n, n


@table.runs(i64(5), i64(0))
def factorial(n):
    result = 1
    for i in range(1, int(n) + 1):
        result *= i
    return result


@table.runs(i64(25), i64(10))
def big_integers_wrap_or_are_refused(n):
    result = 1
    for i in range(1, 21):
        if i <= n:
            result *= i
    return result


@table.runs((f32(7.5), i64(2)), (f32(-7.5), i64(3)))
def tensor_arithmetic_with_numbers(x, n):
    k = int(n)
    return x // k, x % k, x**k, k**x, x - k, k / x, k // x, (x > k), (k <= x)


@table.runs(f32(2.0), f32(-2.0))
def unary_and_bool_of_numbers(x):
    k = 5 if x > 0 else 0
    return -k, +k, ~k, bool(k), not k, k or 7, k and 7


@table.runs(f32(2.0), f32(-2.0))
def number_of_mixed_kinds_in_arithmetic(x):
    k = 5 if x > 0 else 3
    f = 0.5 if x > 0 else 0.25
    p = x.item() > 1
    return k + f, f * k, k + p, p * f, k // f, k % f, k / 2, k == 5.0, f < k


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
