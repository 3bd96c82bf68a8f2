"""Jumps out of ``finally``: they take the place of what is raised, or of a jump that led there.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B012, F841, TRY, RET, RUF100  the programs are about these

import contextlib

from tests.staging.harness import Program, Table, f32

table = Table()
X, Y, Z = f32([1.0, -2.0, 3.0]), f32([4.0, 1.0, 9.0]), f32([4.0, 1.0, -9.0])
NUMBERS = (f32(2.0), f32(-2.0), f32(7.0))


def root(v):
    if v < 0:
        raise ValueError("negative", v)
    return v**0.5


@table.runs(*NUMBERS)
def return_that_swallows(x):
    y = x
    try:
        y = root(x)
    finally:
        print("finally")
        return y * 2


@table.runs(*NUMBERS)
def return_that_depends_on_the_tensor(x):
    y = x
    try:
        y = root(x)
    except ValueError:
        y = x * 7
    finally:
        y = y + 1
        if x < 5:
            return y * 2
        print("on")
    return y * 3


@table.runs(*NUMBERS)
def raised_where_it_does_not_return(x):
    try:
        y = root(x + 1)
    finally:
        if x > 5:
            return x
    return y


@table.runs(*NUMBERS)
def return_in_the_place_of_a_return(x):
    try:
        if x > 0:
            return root(x)
        x = x - 1
    finally:
        if x > 3:
            return x * 100
    return x


@table.runs(*NUMBERS)
def clause_that_raises_is_swallowed(x):
    y = x
    try:
        y = root(y)
    except ValueError as e:
        y = e.args[1] * 2
        raise KeyError("k") from e
    else:
        y = y * 3
    finally:
        return y


@table.runs(X, Y, Z, X * 0)
def break_that_swallows(x):
    s = x[0] * 0
    for v in x:
        try:
            s = s + root(v)
        finally:
            s = s + 1
            if s > 3.5:
                break
    else:
        s = s + 100
    return s


@table.runs(X, Y, Z)
def continue_that_swallows(x):
    s = x[0] * 0
    n = 0
    for v in x:
        try:
            s = s + root(v)
        finally:
            n = n + 1
            continue
        s = s + 1000
    else:
        s = s + 100
    return s, n


@table.runs(X, Y, Z)
def continue_in_the_place_of_a_return(x):
    n = 0
    for v in x:
        try:
            if v > 2:
                return v, n
            root(v)
        finally:
            n = n + 1
            if v > 3.5:
                continue
            n = n + 10
    return x[0], n


@table.runs(X, Y, Z)
def continue_in_the_place_of_a_break(x):
    n = 0
    for v in x:
        try:
            n = n + 1
            if v > 2:
                break
            n = n + 10
        finally:
            if n < 12:
                continue
        n = n + 100
    else:
        n = n + 1000
    return n


@table.runs(X, Y, Z)
def break_in_the_place_of_a_return(x):
    n = 0
    while n < 3:
        try:
            if x[n] > 2:
                return n, x[n]
            n = n + 1
        finally:
            if x[0] > 2:
                break
    return n, x[0]


@table.runs(X, Y, Z)
def break_of_an_unrolled_loop(x):
    log = []
    for k in (0, 1, 2):
        try:
            log.append(root(x[k]))
        finally:
            log.append(k)
            if x[k] < 2:
                break
    return log


@table.runs(X, Y, Z)
def loop_in_a_finally(x):
    s = x[0] * 0
    try:
        s = s + root(x[1])
    finally:
        for v in x:
            if v < 0:
                break
            s = s + v
        else:
            return s * 2
    return s


@table.runs(*NUMBERS)
def finally_in_a_finally(x):
    log = []
    try:
        try:
            log.append(root(x))
        finally:
            log.append(1)
            try:
                log.append(root(x - 4))
            finally:
                log.append(2)
                if x > 0:
                    return log
    except ValueError as e:
        log.append(e.args[1])
        log.append(e.__context__ is None)
    return log


@table.runs(*NUMBERS)
def raises_in_the_finally(x):
    try:
        try:
            y = root(x)
        finally:
            if x > 5:
                return x
            raise KeyError("k")
    except KeyError as e:
        return x * (1 if e.__context__ is None else 2)


@table.runs(X, Y, Z, X * 0)
def two_errors_of_a_loop_of_which_one_came_of_the_other(x):
    total = x[0] * 0
    try:
        for v in x:
            try:
                y = root(v)
            finally:
                if x[0] > 3:
                    raise KeyError("k", v)
            total = total + y
    except ValueError as e:
        return total, e.args[1]
    except KeyError as e:
        return total, e.args[1] * (2 if e.__context__ is None else 3)
    return total, y


@table.runs(*NUMBERS)
def raise_alone_in_a_finally(x):
    try:
        try:
            y = root(x)
        finally:
            if x > 0:
                return x
            raise
    except ValueError as e:
        return e.args[1] * 3


@table.runs(*NUMBERS)
def suppressed_on_the_way_of_a_return(x):
    with contextlib.suppress(ValueError):
        try:
            return x * 3
        finally:
            if x < 0:
                raise ValueError
    return x


@table.runs(X, Y, Z)
def suppressed_on_the_way_of_a_break(x):
    class End:
        def __init__(self, v):
            self.v = v

        def __enter__(self):
            return self

        def __exit__(self, *error):
            root(self.v)

    n = 0
    for v in x:
        with contextlib.suppress(ValueError), End(v - 3):
            n = n + 1
            if v > 2:
                break
        n = n + 10
    return n


@table.runs(*NUMBERS)
def return_that_a_finally_ends(x):
    try:
        try:
            return x
        finally:
            if x < 0:
                raise ValueError
    except ValueError:
        print("caught")
    return x * 2


@table.runs(X, Y, Z, X - 2)
def break_that_a_finally_ends(x):
    n = 0
    for v in x:
        try:
            try:
                n = n + 1
                if v > 2:
                    break
            finally:
                root(v - 3)
        except ValueError:
            n = n + 10
        n = n + 100
    else:
        n = n + 1000
    return n


@table.runs(*NUMBERS)
def called_function(x):
    def safe(v):
        try:
            v = root(v)
        finally:
            return v

    return safe(x) + safe(x - 3)


class Model:
    def __init__(self):
        self.count = 0

    def forward(self, x):
        while True:
            try:
                self.count += 1
                x = root(x) - 2
            finally:
                if self.count > 3:
                    return x
                if x < 0:
                    x = x * x
                    continue


@table.runs(*NUMBERS)
def method_with_a_loop(x):
    model = Model()
    return model.forward(x), model.count


@table.runs(*NUMBERS)
def written_before(x):
    out = []
    try:
        out.append(x)
        out.append(root(x))
    finally:
        out.append(x * 2)
        return out


@table.runs(*NUMBERS)
def unbound_where_it_is_raised(x):
    try:
        y = root(x)
    finally:
        return y


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
