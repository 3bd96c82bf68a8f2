"""Generators as context managers: what is raised in the block is thrown into them at the yield.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B012, SIM105, TRY, RET, RUF100  the programs are about these

import contextlib

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32, same

table = Table()
X, Y, Z = f32([1.0, -2.0, 3.0]), f32([4.0, 1.0, 9.0]), f32([4.0, 1.0, -9.0])
NUMBERS = (f32(2.0), f32(-2.0), f32(7.0))


def root(v):
    if v < 0:
        raise ValueError("negative", v)
    return v**0.5


@contextlib.contextmanager
def catching(*kinds):
    try:
        yield
    except kinds:
        pass


@contextlib.contextmanager
def replacing(value):
    try:
        yield value
    except ValueError as e:
        raise KeyError(*e.args) from e


@contextlib.contextmanager
def noting(log):
    log.append(1)
    try:
        yield log
    except ValueError as e:
        log.append(e.args[1])
        raise
    else:
        log.append(3)
    finally:
        log.append(4)


@contextlib.contextmanager
def printing():
    print("in")
    try:
        yield
    finally:
        print("out")


@table.runs(*NUMBERS)
def suppressed(x):
    y = x
    with catching(ValueError):
        y = x + 1
        y = root(x)
        y = y + 1
    return y


@table.runs(*NUMBERS, covered=False)
def of_another_kind(x):
    with catching(KeyError):
        x = root(x)
    return x


@table.runs(*NUMBERS)
def replaced(x):
    y = x
    try:
        with replacing(3) as k:
            y = x + k
            y = root(x) + 1
    except KeyError as e:
        y = y * e.args[1] + e.__cause__.args[1]
    return y


@table.runs(*NUMBERS)
def raised_again(x):
    log = []
    y = x
    try:
        with noting(log) as same:
            y = x + 1
            y = root(x) + 1
            same.append(2)
    except ValueError:
        y = y * 10
    return y, len(log)


@table.runs(*NUMBERS)
def printed_and_caught(x):
    y = x
    try:
        with printing():
            y = x + 1
            y = root(x) + 1
            print("body")
    except ValueError:
        y = y * 10
    return y


@table.runs(*NUMBERS)
def printed_and_not_caught(x):
    with printing():
        x = root(x) + 1
    return x


@table.runs(X, Y, Z)
def in_a_loop(x):
    s = x[0] * 0
    for v in x:
        with catching(ValueError):
            s = s + root(v)
            if s > 3:
                break
            s = s + 10
    return s


@table.runs(X, Y, Z)
def around_a_loop(x):
    s = x[0] * 0
    with catching(ValueError):
        for v in x:
            s = s + root(v)
        s = s * 100
    return s


@table.runs(X, Y, Z)
def in_an_unrolled_loop(x):
    s = x[0] * 0
    for k in (0, 1, 2):
        with catching(ValueError):
            s = s + root(x[k])
            continue
        s = s * 2
    return s


@table.runs(*NUMBERS)
def returned_from_inside(x):
    with catching(ValueError):
        return root(x)
    return x * 3


@table.runs(*NUMBERS)
def several_managers(x):
    y = x
    with catching(KeyError), catching(ValueError), replacing(2) as k:
        y = x + k
        y = root(x)
    return y


@table.runs(*NUMBERS)
def manager_in_a_manager(x):
    @contextlib.contextmanager
    def outer():
        with catching(ValueError):
            yield 2
        print("end")

    y = x
    with outer() as k:
        y = x * k
        y = root(x)
    return y


@table.runs(*NUMBERS)
def manager_in_a_manager_that_catches(x):
    @contextlib.contextmanager
    def outer(log):
        try:
            with replacing(2) as k:
                log.append(0)
                yield k
                log.append(1)
        except KeyError as e:
            log.append(e.args[1])

    y, log = x, []
    with outer(log) as k:
        y = x * k
        y = root(x)
    return y, len(log)


@table.runs(*NUMBERS)
def delegated(x):
    def inner():
        try:
            yield 2
        except ValueError as e:
            print("inner", e.args[0])

    @contextlib.contextmanager
    def outer():
        yield from inner()

    y = x
    with outer() as k:
        y = x * k
        y = root(x)
    return y


class Model:
    def __init__(self):
        self.count, self.last = 0, None

    @contextlib.contextmanager
    def guard(self, factor):
        self.count += 1
        try:
            yield self
        except ValueError as e:
            self.last = e.args[1] * factor
        finally:
            self.count += 10


@table.runs(*NUMBERS)
def methods(x):
    model = Model()
    with model.guard(3) as same:
        x = root(x)
        same.last = x
    return x, model.count, model.last


@table.runs(*NUMBERS)
def raised_behind_the_yield(x):
    @contextlib.contextmanager
    def checked():
        try:
            yield
            if x > 5:
                raise KeyError
            print("fine")
        except (ValueError, KeyError):
            print("caught")
        print("end")

    y = x
    with checked():
        y = x + 1
        y = root(x)
    return y


@table.runs(*NUMBERS)
def raised_before_the_yield(x):
    @contextlib.contextmanager
    def checked():
        y = root(x)
        yield y
        print("end")

    try:
        with checked() as y:
            y = y + 1
    except ValueError as e:
        y = e.args[1]
    return y


@table.runs(*NUMBERS)
def raised_for_certain(x):
    y = x
    with catching(ValueError):
        y = y + 1
        if x > 0:
            y = y + 2
        raise ValueError
    return y


@table.runs(*NUMBERS)
def raised_on_all_paths(x):
    y = x
    with catching(ValueError, KeyError):
        y = y + 1
        if x > 0:
            y = y + 2
            raise ValueError
        y = y + 3
        raise KeyError
    return y


@table.runs(*NUMBERS)
def variable_that_functions_share(x):
    n = x * 0

    def add(k):
        nonlocal n
        n = n + k

    with catching(ValueError):
        add(1)
        root(x)
        add(10)
    add(100)
    return n


@table.runs(*NUMBERS)
def variable_of_the_generator(x):
    @contextlib.contextmanager
    def counted(log):
        n = x * 0
        try:
            n = n + 1
            yield
            n = n + 10
        except ValueError:
            n = n + 100
        log.append(n)

    log = []
    with counted(log):
        root(x)
    return log


@table.runs(*NUMBERS)
def jump_in_the_finally_of_a_generator(x):
    @contextlib.contextmanager
    def swallowing():
        try:
            yield
        finally:
            print("out")
            return

    with swallowing():
        x = root(x)
    return x


@table.runs(*NUMBERS)
def state_of_the_block(x):
    out = []
    with catching(ValueError):
        out.append(x)
        out.append(root(x))
    out.append(x * 2)
    return len(out), out[0]


@table.runs(*NUMBERS)
def none_where_it_is_raised(x):
    y = None
    with catching(ValueError):
        y = root(x)
    return y


@table.runs(*NUMBERS)
def unbound_where_it_is_raised(x):
    with catching(ValueError):
        y = root(x)
    return y


@table.runs(*NUMBERS)
def called_functions(x):
    def safe(v):
        with catching(ValueError):
            return root(v)
        return v * 2

    def outer(v):
        with replacing(1):
            return root(v) + safe(v - 4)

    try:
        return outer(x) + safe(x)
    except KeyError as e:
        return e.args[1]


@table.runs(*NUMBERS)
def in_a_branch(x):
    if x < 5:
        with catching(ValueError):
            x = root(x) + 1
        x = x * 2
    return x


@catching(ValueError)
def decorated_root(v):
    print("root of", v)
    return root(v)


class Quiet(contextlib.ContextDecorator):
    def __enter__(self):
        print("in")

    def __exit__(self, kind, error, trace):
        print("out")
        return kind is ValueError


@Quiet()
def quiet_root(v):
    return root(v) * 2


class Decorated:
    @catching(ValueError, KeyError)
    def root(self, v):
        return root(v) + 1


@table.runs(*NUMBERS)
def decorators(x):
    @catching(ValueError)
    def inner(v):
        return root(v)

    found = [decorated_root(x), quiet_root(x - 1), inner(x - 3), Decorated().root(x)]
    return [x * 0 if v is None else v for v in found]


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def twice_at_most(x):
    @contextlib.contextmanager
    def twice():
        try:
            yield 1
        except ValueError:
            yield 2

    with twice():
        x = root(x)
    return x


def test_a_generator_that_yields_again() -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(twice_at_most)(NUMBERS[0])
    line = twice_at_most.__code__.co_firstlineno + 8
    assert str(caught.value) == (
        "the generator of a context manager yields again where an error is caught "
        f"({__file__}:{line})\n"
        f"    {line} | with twice():\n"
        "The error depends on the value of a tensor, and so does whether this is one.\n"
        "Fix: let the generator end after its first yield."
    )
    same(twice_at_most, calls=NUMBERS, may_refuse=True)
