"""for over ranges and tensors."""

# ruff: noqa: B007, SIM108  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
COUNTS = [i64(n) for n in (0, 1, 2, 7, -3)]
ROWS = [draw(5, 3, seed=1), draw(5, 3, seed=2)]


@table.runs(X, -X)
def fixed(x):
    for _ in range(5):
        x = hy.tanh(x) + 0.1
    return x


@table.runs(X)
def index_as_a_number(x):
    for i in range(6):
        x = x * 0.5 + i
    return x


@table.runs(X)
def index_is_an_int(x):
    found = []
    for i in range(3):
        found.append(isinstance(i, int))
        x = x + i
    return x, found


@table.runs(draw(6, 3))
def index_into_a_tensor(x):
    total = hy.zeros(3)
    for i in range(x.shape[0]):
        total = total * 0.5 + x[i]
    return total


@table.runs(draw(6, 6))
def index_on_both_axes(x):
    total = 0.0
    for i in range(6):
        total = total + x[i, i] - x[5 - i, i]
    return total


@table.runs(draw(8, 3))
def index_and_the_next(x):
    total = hy.zeros(3)
    for i in range(len(x) - 1):
        total = total + x[i] * x[i + 1]
    return total


@table.runs(draw(8, 3), covered=False)
def index_into_slices(x):
    total = hy.zeros(3)
    for i in range(4):
        total = total + hy.sum(x[2 * i : 2 * i + 2], axis=0)
    return total


@table.runs(X, covered=False)
def start_stop_step(x):
    for i in range(10, 2, -3):
        x = x + i
    for i in range(2, 9):
        x = x * 0.9 + i
    for i in range(0):
        x = x * 100
    return x


@table.runs((X, 0), (X, 1), (X, 4), (X, 9))
def python_count_changes(x, n):
    for i in range(n):
        x = x * 1.1 + i
    return x


@table.runs(*[(X, n) for n in COUNTS])
def traced_count(x, n):
    for _ in range(n):
        x = x * 1.5
    return x


@table.runs(*[(X, n) for n in COUNTS])
def traced_count_with_index(x, n):
    for i in range(n):
        x = x + i
    return x


@table.runs(*[(X, a, b) for a in COUNTS[:3] for b in COUNTS])
def traced_start_and_stop(x, a, b):
    for i in range(a, b):
        x = x * 0.5 + i
    return x


@table.runs(*[(X, n) for n in COUNTS])
def traced_step(x, n):
    for i in range(n, 0, -2):
        x = x * 0.5 + i
    return x


@table.runs(*[(X, n) for n in COUNTS])
def last_index_after_the_loop(x, n):
    i = -1
    for i in range(n):
        x = x + 1
    return x, i


@table.runs(X)
def last_index_of_a_fixed_loop(x):
    for i in range(4):
        x = x + i
    return x, i


@table.runs(X)
def index_reassigned(x):
    for i in range(4):
        i = i * 2 + 1
        x = x + i
    return x, i


@table.runs(X)
def index_is_the_name_of_the_tensor(x):
    y = x
    for x in range(4):
        y = y + x
    return x, y


@table.runs(*ROWS)
def over_rows(x):
    total = hy.zeros(3)
    for row in x:
        total = hy.tanh(total + row)
    return total


@table.runs(*ROWS)
def over_rows_with_enumerate(x):
    total = hy.zeros(3)
    for i, row in enumerate(x):
        total = total * 0.5 + row * i
    return total


@table.runs(*ROWS)
def over_rows_with_enumerate_from_one(x):
    total = hy.zeros(3)
    for i, row in enumerate(x, 1):
        total = total + row * i
    return total, i


@table.runs(*ROWS)
def over_rows_reversed(x):
    total = hy.zeros(3)
    for row in reversed(x):
        total = total * 0.5 + row
    return total


@table.runs((ROWS[0], draw(5)), (ROWS[1], draw(5, seed=3)))
def over_two_tensors(x, w):
    total = hy.zeros(3)
    for row, k in zip(x, w):  # noqa: B905
        total = total * 0.9 + row * k
    return total


@table.runs((ROWS[0], draw(4)), (ROWS[1], draw(4, seed=3)))
def over_tensors_of_different_lengths(x, w):
    total = hy.zeros(3)
    for row, k in zip(x, w):  # noqa: B905
        total = total + row * k
    return total


@table.runs((ROWS[0], draw(4)), covered=False)
def over_tensors_strictly(x, w):
    total = hy.zeros(3)
    for row, k in zip(x, w, strict=True):
        total = total + row * k
    return total


@table.runs((draw(3, 2), draw(3, 2)), covered=False)
def over_nothing(x, y):
    for row in x[:0]:
        y = y + row
    return y


@table.runs(draw(4, 3, 2), draw(4, 3, 2, seed=1))
def over_rows_of_rows(x):
    total = hy.zeros(2)
    for a in x:
        for b in a:
            total = total * 0.5 + b
        total = hy.tanh(total)
    return total


@table.runs(f32(1.0), covered=False)
def over_a_scalar(x):
    for v in x:
        return v
    return x


@table.runs(*ROWS)
def rows_unpacked(x):
    a = b = c = hy.zeros(())
    for a, b, c in x:
        a = a + b * c
    return a, b, c


@table.runs(*ROWS)
def if_on_each_row(x):
    total = hy.zeros(3)
    n = 0
    for row in x:
        if hy.sum(row) > 0:
            total = total + row
            n += 1
        else:
            total = total - 1
    return total, n


@table.runs(*ROWS)
def running_maximum(x):
    best = x[0]
    for row in x[1:]:
        if hy.max(row) > hy.max(best):
            best = row
    return best


@table.runs(*ROWS)
def index_of_the_maximum(x):
    best, where = hy.sum(x[0]), 0
    for i in range(1, x.shape[0]):
        s = hy.sum(x[i])
        if s > best:
            best, where = s, i
    return best, where


@table.runs((X, i64(2), i64(3)), (X, i64(0), i64(3)), (X, i64(3), i64(0)), (X, i64(4), i64(1)))
def nested_traced(x, n, m):
    for i in range(n):
        for j in range(m):
            x = x * 0.9 + i - j
    return x


@table.runs(X)
def nested_fixed(x):
    for i in range(3):
        for j in range(i):
            x = x * 0.9 + i * j
    return x


@table.runs(*[(X, n) for n in COUNTS[:4]])
def triangle(x, n):
    for i in range(n):
        for j in range(i):
            x = x + j
    return x


@table.runs(*[(X, n) for n in COUNTS])
def while_in_for(x, n):
    for i in range(n):
        k = i
        while k > 0:
            x = x + k
            k = k - 2
    return x


@table.runs(X)
def body_depends_on_parity(x):
    for i in range(5):
        if i % 2 == 0:
            x = x + i
        else:
            x = x * i
    return x


@table.runs(X)
def first_iteration_is_special(x):
    y = None
    for i in range(4):
        if i == 0:
            y = x * 2
        else:
            y = hy.tanh(y) + x
    return y


@table.runs(X)
def index_makes_shapes(x):
    """A loop that cannot be one node is unrolled."""
    found = []
    for i in range(1, 4):
        found.append(hy.zeros(i) + x[0])
    return found


@table.runs(X)
def shape_grows(x):
    for _ in range(3):
        x = hy.concat([x, x[:1] * 2])
    return x


@table.runs(X)
def index_picks_from_a_python_list(x):
    weights = [0.5, 2.0, -1.0]
    for i in range(3):
        x = x * weights[i]
    return x


@table.runs(X)
def index_picks_a_function(x):
    functions = [hy.tanh, hy.exp, hy.abs]
    for i in range(3):
        x = functions[i](x)
    return x


@table.runs(X)
def index_in_a_string(x):
    found = {}
    for i in range(3):
        found[f"step{i}"] = x * i
    return found


@table.runs(X)
def index_arithmetic(x):
    for i in range(1, 7):
        x = x + i**2 + i // 2 + i % 3 - i / 4 + (-i) + abs(i - 3) + max(i, 3)
    return x


@table.runs(X)
def index_compared(x):
    for i in range(6):
        x = x + (1 if i > 2 else 0) + (i == 4) * 10
    return x


@table.runs(X)
def index_kept_in_a_list(x):
    kept = []
    for i in range(4):
        kept.append(i)
        x = x + i
    return x, kept


@table.runs(X)
def range_is_kept(x):
    steps = range(2, 8, 2)
    for i in steps:
        x = x + i
    return x, len(steps), steps[1]


@table.runs(X)
def reversed_range(x):
    for i in reversed(range(5)):
        x = x * 0.5 + i
    return x


@table.runs(X)
def enumerated_range(x):
    for i, j in enumerate(range(5, 8)):
        x = x * i + j
    return x


@table.runs(X)
def zipped_ranges(x):
    for i, j in zip(range(3), range(5, 9)):  # noqa: B905
        x = x + i * j
    return x


@table.runs(f32(3.0), covered=False)
def range_of_a_float_tensor(x):
    for _ in range(x):
        x = x + 1
    return x


@table.runs(X)
def hundred_steps(x):
    for _ in range(100):
        x = hy.sin(x) * 0.99 + 0.01
    return x


@table.runs((draw(4, 3), i64([2, 0, 3, 3, 1])), (draw(4, 3), i64([0, 0, 0, 1, 1])))
def over_an_integer_tensor(x, order):
    total = hy.zeros(3)
    for i in order:
        total = total * 0.5 + x[i]
    return total


@table.runs(hy.asarray([True, False, True]), hy.asarray([False, False, True]))
def over_a_bool_tensor(flags):
    n = 0
    for p in flags:
        if p:
            n += 1
    return n


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
