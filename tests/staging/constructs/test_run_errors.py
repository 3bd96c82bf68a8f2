"""Errors that a run finds in indices, divisors and matrices, caught in the same capture.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B012, B904, SIM105, SIM107, SIM108, RUF100  the programs are about these

import contextlib
import math

import numpy as np

import hybrid as hy
from tests.staging.harness import Program, Table, f32, f64, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
ROWS = ((X, i64(1)), (X, i64(7)), (X, i64(-3)), (X, i64(-4)))


@table.runs(*ROWS)
def index_tensor(x, i):
    try:
        y = x[i]
    except IndexError:
        y = x[0] * 0
    return y


@table.runs(*ROWS)
def text_of_the_error(x, i):
    try:
        y = x[i]
    except IndexError as e:
        print(e, e.args)
        y = x[0] * 0
    return y


@table.runs(*ROWS)
def index_number(x, i):
    try:
        y = x[i.item()]
    except LookupError as e:
        print(e)
        y = x[0] * 2
    return y


@table.runs((X, i64([0, 1])), (X, i64([2, 5])), (X, i64([-9, 0])))
def several_indices(x, i):
    y = x
    try:
        y = x[i] * 2
        y = hy.sum(y)
    except IndexError as e:
        print(e)
        y = hy.sum(y) * 3
    return y


@table.runs(*ROWS)
def assigned_at_an_index(x, i):
    x = x * 1
    try:
        x[0] = 9.0
        x[i] = 5.0
        x[1] = 7.0
    except IndexError:
        x[2] = 3.0
    return x


@table.runs(*ROWS)
def list_index(x, i):
    items = [x, x * 2, x * 3]
    try:
        y = items[i.item()]
    except IndexError as e:
        print(e)
        y = x
    return y


@table.runs((i64(7), i64(2)), (i64(7), i64(0)), grad=False)
def divide(n, m):
    try:
        return n.item() // m.item()
    except ZeroDivisionError as e:
        print(e)
        return -1


@table.runs((i64(7), i64(2)), (i64(7), i64(0)), grad=False)
def quotient_of_ints(n, m):
    try:
        return n.item() / m.item()
    except ArithmeticError as e:
        print(type(e).__name__, e)
        return -1.0


@table.runs((i64(7), i64(2)), (i64(7), i64(0)), grad=False)
def quotient_and_remainder(n, m):
    try:
        return divmod(n.item(), m.item())
    except ZeroDivisionError:
        return -1, 0


@table.runs((f64(7.0), f64(2.0)), (f64(7.0), f64(0.0)), grad=False)
def remainder_of_floats(n, m):
    try:
        return n.item() % m.item()
    except ZeroDivisionError as e:
        print(e)
        return -1.0


@table.runs(f32(1.5), f32(float("inf")), f32(float("nan")), grad=False)
def to_int(x):
    try:
        return int(x.item())
    except OverflowError as e:
        print(e)
        return 0
    except ValueError as e:
        print("v", e)
        return -1


@table.runs(f32(1.5), f32(float("inf")), f32(float("nan")), grad=False)
def to_int_of_infinity(x):
    try:
        return int(x.item())
    except OverflowError:
        return 0


@table.runs(f64(1.5), f64(-1.0), f64(1000.0), grad=False)
def math_sqrt(x):
    v = x.item()
    try:
        return math.sqrt(v) + math.exp(v)
    except ValueError as e:
        print(e)
        return 0.0
    except OverflowError as e:
        print(e)
        return 1.0


@table.runs(f64(1.5), f64(-1.0), f64(1000.0), grad=False)
def math_log(x):
    try:
        return math.log(x.item())
    except ValueError:
        return 0.0


@table.runs(f32([[1.0, 2.0], [3.0, 4.0]]), f32([[1.0, 2.0], [2.0, 4.0]]))
def inverse(x):
    try:
        y = hy.linalg.inv(x)
    except np.linalg.LinAlgError as e:
        print(e)
        y = x
    return y


@table.runs(f32([[2.0, 1.0], [1.0, 2.0]]), f32([[1.0, 2.0], [2.0, 1.0]]))
def cholesky(x):
    n = 0
    try:
        n = n + 1
        y = hy.linalg.cholesky(x)
        n = n + 1
    except Exception:
        y = x * 2
    return y, n


@table.runs(*ROWS)
def in_a_loop(x, i):
    n = i.item()
    s = x[0] * 0
    for k in range(3):
        try:
            s = s + x[n + k]
        except IndexError:
            s = s - 100
            break
    return s


@table.runs(X, -X)
def loop_that_it_ends(x):
    n = 0
    s = x[0]
    try:
        while True:
            s = s + x[n]
            n = n + 1
    except IndexError:
        pass
    return s, n


@table.runs(*ROWS)
def in_called_functions(x, i):
    def get(v, k):
        return v[k] * 2

    def safe(v, k):
        try:
            return get(v, k)
        except IndexError:
            return v[0]

    return safe(x, i) + safe(x, i - 1)


@table.runs(*ROWS)
def suppressed(x, i):
    y = x[0]
    with contextlib.suppress(IndexError):
        y = y + 1
        y = y + x[i]
        y = y * 3
    return y


@table.runs(*ROWS)
def finally_runs(x, i):
    try:
        y = x[i]
    finally:
        print("done")
    return y


@table.runs(*ROWS)
def swallowed_by_a_return(x, i):
    y = x[0]
    try:
        y = x[i]
    finally:
        return y


@table.runs(*ROWS)
def raised_from_it(x, i):
    try:
        y = x[i]
    except IndexError as e:
        raise KeyError("k") from e
    return y


@table.runs(*ROWS)
def raised_again(x, i):
    try:
        y = x[i]
    except IndexError:
        print("caught")
        raise
    return y


@table.runs(*ROWS)
def embedding(x, i):
    w = hy.reshape(hy.arange(6, dtype=hy.float32), (3, 2))
    try:
        return hy.nn.functional.embedding(i, w) * x[0]
    except IndexError as e:
        print(e)
        return w[0]


@table.runs((X, i64(1)), (X, i64(7)))
def cross_entropy(x, i):
    try:
        return hy.nn.functional.cross_entropy(hy.reshape(x, (1, 3)), hy.reshape(i, (1,)))
    except IndexError as e:
        print(e)
        return x[0]


@table.runs(*ROWS)
def take(x, i):
    try:
        return hy.take(x, hy.reshape(i, (1,)))
    except IndexError:
        return x[:1]


@table.runs((i64(3), i64(2)), (i64(3), i64(-2)), grad=False)
def shifts(n, m):
    try:
        return n.item() >> m.item(), n.item() << m.item()
    except ValueError as e:
        print(e)
        return 0, 0


@table.runs((i64(3), i64(2)), (i64(3), i64(0)), grad=False)
def divisor_in_a_loop(n, m):
    a, b = n.item(), m.item()
    out = 0
    for k in range(4):
        try:
            out += a // (b - k)
        except ZeroDivisionError:
            out += 100
    return out


@table.runs(*ROWS, covered=False)
def outer_of_two(x, i):
    try:
        try:
            y = x[i]
        except KeyError:
            y = x[0]
    except IndexError:
        y = x[1]
    return y


@table.runs(*ROWS, (-X, i64(1)), (-X, i64(2)))
def in_branches(x, i):
    try:
        if x[0] > 0:
            y = x[i]
        else:
            y = x[i + 1]
    except IndexError:
        y = x[1]
    return y


@table.runs((X, f32(2.0)), (X, f32(-2.0)))
def largest_of_none(x, v):
    items = []
    if v > 0:
        items.append(v)
    try:
        return max(items)
    except ValueError:
        return v * 3


@table.runs(*ROWS)
def dict_of_numbers(x, i):
    d = {0: x, 1: x * 2}
    try:
        return d[i.item()]
    except KeyError:
        return x * 3


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
