"""What the author would catch: caught, or refused, and never let go.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B012, B017, E722, RET505, SIM105, SIM107, SIM117, TRY301, RUF100  programs about these

import contextlib
import threading

import hybrid as hy
from tests.staging.harness import Program, Table, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
SIGNS = (f32(2.0), f32(-2.0))
ROWS = ((X, i64(1)), (X, i64(7)))


def root(v):
    if v < 0:
        raise ValueError("negative")
    return v**0.5


# What no clause is about ---------------------------------------------------------------------


@table.runs(*SIGNS, covered=False)
def another_kind(x):
    try:
        return root(x)
    except KeyError:
        return x * 0


@table.runs(*SIGNS, covered=False)
def a_narrower_kind(x):
    try:
        return root(x)
    except UnicodeError:
        return x * 0


@table.runs(*SIGNS, covered=False)
def kinds_that_a_variable_names(x):
    kinds = (KeyError, TypeError)
    try:
        return root(x)
    except kinds:
        return x * 0


@table.runs(*ROWS, covered=False)
def index_with_another_clause(x, i):
    try:
        y = x[i.item()]
    except KeyError:
        y = x[0]
    return y


@table.runs((i64(7), i64(2)), (i64(7), i64(0)), covered=False, grad=False)
def division_with_another_clause(n, m):
    try:
        return n.item() // m.item()
    except IndexError:
        return -1


@table.runs(*SIGNS, covered=False)
def after_the_try(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    return root(y)


@table.runs(*SIGNS, covered=False)
def in_else_and_finally(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        y = y + root(x + 4)
    finally:
        z = root(x * x)
    return y, z


@table.runs(*SIGNS, covered=False)
def in_a_clause(x):
    try:
        raise KeyError
    except KeyError:
        return root(x)
    except ValueError:
        return x


@table.runs(*SIGNS, covered=False)
def suppressed_of_another_kind(x):
    with contextlib.suppress(KeyError, IndexError):
        x = root(x)
    return x


@table.runs(*SIGNS)
def managers_that_suppress_nothing(x):
    with hy.no_grad(), threading.Lock(), contextlib.nullcontext():
        y = root(x)
    return x, y


class Quiet:
    """Suppresses nothing, whatever it looks at."""

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is not None:
            return False


@table.runs(*SIGNS)
def manager_that_returns_false(x):
    with Quiet():
        x = root(x)
    return x


@contextlib.contextmanager
def catching(*kinds):
    try:
        yield
    except kinds:
        pass


@contextlib.contextmanager
def last(seen):
    try:
        yield
    finally:
        seen.append(1)


@table.runs(*SIGNS)
def generator_that_suppresses_nothing(x):
    with last([]):
        x = root(x)
    return x


@table.runs(*SIGNS)
def generator_that_catches_another_kind(x):
    with catching(KeyError):
        x = root(x)
    return x


@table.runs(*SIGNS)
def generator_that_tests_a_tensor(x):
    @contextlib.contextmanager
    def scaled(v):
        if v > 0:
            v = v * 2
        yield v

    with scaled(x) as y:
        return root(y + 3)


@table.runs(*SIGNS)
def stack_of_managers(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(last([]))
        stack.enter_context(contextlib.suppress(KeyError))
        stack.callback(list)
        x = root(x)
    return x


@table.runs(*SIGNS, covered=False)
def try_of_a_generator_that_waits(x):
    def numbers():
        try:
            yield 1.0
            yield 2.0
        except ValueError:
            yield 100.0

    total = 0.0
    for number in numbers():
        total = total + root(x) * number
    return total


class Rows:
    def __init__(self, x):
        self.x = x

    def __getitem__(self, index):
        if index > 2:
            raise IndexError
        return root(self.x[index] + 2)

    @property
    def first(self):
        return root(self.x[0])


@table.runs(X, -X, covered=False)
def what_a_loop_and_getattr_let_through(x):
    total = getattr(Rows(x), "first", 0) if hasattr(Rows(x), "last") else 0
    for row in Rows(x):
        total = total + row
    for row in (root(v) for v in [x[1] + 5]):
        total = total + row
    return total, next(iter([x]), None)


@table.runs((X, i64(0)), (X, i64(7)), covered=False)
def index_error_of_a_generator(x, i):
    total = 0
    for v in (x[k] for k in (0, i.item())):
        total = total + v
    return total


@table.runs(X, -X, covered=False)
def index_that_is_inside(x):
    total = x[0] * 0
    for i in range(3):
        try:
            total = total + x[i]
        except IndexError:
            total = total - 1
    try:
        total = total + hy.sum(x[[0, -3]])
    except Exception:
        total = total * 100
    return total


@table.runs(*SIGNS, covered=False, grad=False)
def numbers_that_do_not_fail(x):
    n = 0
    try:
        while x < 5:
            x = x + 1
            n += 1
        n = (n * 3 - 7) // 2
        k = x.item() + n
        m = k > 3
    except Exception:
        n = -1
    return x, n, m


@table.runs(*SIGNS, covered=False)
def prints_in_a_try(x):
    try:
        print("x is", x.item())
        y = x * 2
    except Exception:
        y = x
    finally:
        print("done")
    return y


@table.runs(X, -X, covered=False)
def caught_while_captured(x):
    """An iteration that cannot be a node's is traced by itself; no clause is in the way."""
    total = x[0]
    for i in range(3):
        try:
            total = total + hy.sum(x[i : i + 1]) * {0: 1.0, 1: 2.0}[i]
        except KeyError:
            total = total * 3
        except Exception:
            total = total * 100
    return total


@table.runs(*SIGNS, covered=False)
def finally_that_only_computes(x):
    flags = []
    try:
        y = root(x)
    finally:
        flags.append(1)
        z = x * 2
    print("after")
    return y, z, flags


@table.runs(*SIGNS)
def finally_after_what_does_not_fail(x):
    try:
        y = x * 2
        if y > 0:
            y = y + 1
    finally:
        print("done", x.item())
    return root(y)


@table.runs(*SIGNS, covered=False)
def try_in_a_class_body(x):
    class Inner:
        try:
            y = x * 2
        except KeyError:
            y = x
        finally:
            z = x

    return Inner.y, Inner.z, sorted(n for n in vars(Inner) if not n.startswith("__"))


@table.runs(X, -X)
def raised_in_the_branch_that_catches_it(x):
    if x[0] > 0:
        try:
            raise ValueError("here")
        except ValueError as error:
            x = x * len(error.args)
    return x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
