"""What is found where an exception was caught: its arguments, what was written, ends of managers.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B904, TRY, RUF100  the programs are about these

import contextlib

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = (f32(2.0), f32(-2.0), f32(7.0))


def root_of(v):
    if v < 0:
        raise ValueError("negative", v)
    return v**0.5


class Own(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


@table.runs(*NUMBERS)
def exception_of_ones_own(x):
    try:
        if x < 0:
            raise Own(x * 3)
        y = x
    except Own as e:
        y = e.code + e.args[0]
    return y


@table.runs(*NUMBERS)
def exception_made_before(x):
    err = KeyError("k")
    try:
        if x < 0:
            raise err
        same = False
    except KeyError as e:
        same = e is err
    return same, x


@table.runs(*NUMBERS)
def tensor_in_the_arguments(x):
    y = x * 2
    try:
        if x < 0:
            raise KeyError(y)
    except KeyError as e:
        e.args[0].assign(x * 9)
    return y


@table.runs(*NUMBERS)
def raised_in_a_clause(x):
    try:
        try:
            y = root_of(x)
        except ValueError:
            raise KeyError("k")
    except KeyError as e:
        y = e.__context__.args[1]
    return y


@table.runs(*NUMBERS)
def ends_of_managers(x):
    log = []

    class C:
        def __init__(self, n):
            self.n = n

        def __enter__(self):
            return self

        def __exit__(self, k, e, t):
            log.append((self.n, k is None))

    try:
        with C(1), C(2):
            y = root_of(x)
    except ValueError:
        y = x
    return y, log


@table.runs(*NUMBERS)
def stack_of_managers(x):
    log = []

    class C:
        def __init__(self, n):
            self.n = n

        def __enter__(self):
            return self

        def __exit__(self, k, e, t):
            log.append((self.n, k is None))
            return k is ValueError

    with contextlib.ExitStack() as st:
        st.enter_context(C(1))
        st.enter_context(C(2))
        x = root_of(x)
    return x, log


@table.runs(*NUMBERS)
def requires_grad_by_the_path(x):
    w = hy.zeros(())
    w.requires_grad = True
    try:
        y = x * w
        if x < 0:
            raise KeyError
    except KeyError:
        y = x
    return y


@table.runs(*NUMBERS)
def through_a_finally_of_a_called_function(x):
    def outer(v):
        try:
            return root_of(v)
        finally:
            print("outer")

    try:
        return outer(x) + outer(x - 3)
    except ValueError as e:
        return e.args[1]


@table.runs(*NUMBERS)
def clauses_of_several_raises(x):
    try:
        if x < -1:
            raise KeyError("a")
        if x < 3:
            raise ValueError("b")
        y = x
    except KeyError:
        y = x * 2
    except ValueError:
        y = x * 3
    return y


@table.runs(*NUMBERS)
def raises_in_one_branch(x):
    try:
        if x < 5:
            if x < 0:
                raise KeyError(x)
            raise ValueError(x + 1)
        y = x
    except (KeyError, ValueError) as e:
        y = e.args[0]
    return y


@table.runs(f32([3.0, 1.0, -1.0, 2.0]), f32([3.0, 1.0, 1.0, 2.0]))
def continue_in_a_clause(x):
    n = 0
    t = x[0]
    for v in x:
        try:
            t = t + root_of(v)
        except ValueError:
            continue
        finally:
            n = n + 1
        t = t * 2
    else:
        t = t + 100
    return t, n


@table.runs(f32([3.0, 1.0, -1.0, 2.0]), f32([3.0, 1.0, 1.0, 2.0]), f32([101.0, 1.0]))
def loop_left_by_two_errors(x):
    t = x[0]
    try:
        for i, v in enumerate(x):
            if v < 0:
                raise KeyError(i, v)
            if v > 2.5:
                t = t + v
            if t > 100:
                raise ValueError(t)
        else:
            t = t * 3
    except KeyError as e:
        return t, e.args[0]
    except ValueError as e:
        return e.args[0], -1
    return t, -2


@table.runs(*NUMBERS)
def list_that_a_loop_appends_to(x):
    xs = []
    try:
        for k in range(3):
            xs.append(x * k)
            if x * k < -3:
                raise KeyError
    except KeyError:
        xs.append(x)
    return len(xs), xs[0]


@table.runs(*NUMBERS)
def variable_that_functions_share(x):
    n = x * 0

    def add():
        nonlocal n
        n = n + 1
        if x < 0:
            raise KeyError
        n = n + 10

    try:
        add()
        add()
    except KeyError:
        n = n * 2
    return n


@table.runs(*NUMBERS)
def deleted_before(x):
    y = x
    try:
        if x < 0:
            del y
            raise KeyError
    except KeyError:
        y = x * 4
    return y


@table.runs(*NUMBERS)
def list_made_before_the_raise(x):
    found = [x]
    try:
        found = [x * 2, x + 1]
        if x < 0:
            raise ValueError
    except ValueError:
        return found
    return found


@table.runs(*NUMBERS)
def items_made_before_the_raise(x):
    v, found = x * 1.0, [x, x * 3]
    try:
        v, *found = [v * 2, *found]
        made = {"v": v, "s": [v + 1]}
        if x < 0:
            raise ValueError(made)
        v = v + 1
    except ValueError as e:
        return v, found, e.args[0]
    found.pop(0)
    return v, found, made


@table.runs(*NUMBERS)
def list_made_before_either_raise(x):
    try:
        found = [x * 2]
        if x < 0:
            raise ValueError
        if x > 5:
            raise KeyError
    except ValueError:
        return found
    except KeyError:
        found.append(x)
    return found


@table.runs(*NUMBERS)
def inside_a_gradient(x):
    def f(v):
        try:
            return root_of(v) * v
        except ValueError:
            return v * v

    return hy.grad(f)(x)


@table.runs(*NUMBERS)
def backward_in_a_clause(x):
    w = hy.asarray(2.0)
    w.requires_grad = True
    try:
        (root_of(x) * w).backward()
    except ValueError:
        (x * w * 3).backward()
    return w.grad


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
