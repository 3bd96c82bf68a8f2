"""assert, raise, try, except, finally and with around traced code.

PYTEST_DONT_REWRITE: the messages of assertions are compared.
"""

# ruff: noqa: B007, B012, B017, B904, SIM105, SIM107, SIM108, RUF100  the programs are about these

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


class Refused(Exception):
    """An exception of one's own, with a field."""

    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@table.runs(*NUMBERS)
def assert_traced(x):
    assert x > 0
    return x * 2


@table.runs(*NUMBERS)
def assert_with_a_message(x):
    assert x > 0, "x must be positive"
    return x * 2


@table.runs(*NUMBERS)
def assert_with_a_value_in_the_message(x):
    assert x > 0, f"x is {x.item()}"
    return x * 2


@table.runs(*NUMBERS)
def assert_with_an_object(x):
    assert x > 0, ("not", 3)
    return x * 2


@table.runs(*NUMBERS)
def assert_in_a_branch(x):
    if x < 1:
        assert x > 0, "too small"
        x = x + 1
    return x


@table.runs(*NUMBERS)
def assert_in_a_loop(x):
    for i in range(4):
        assert x < 10, i
        x = x * 2
    return x


@table.runs(*NUMBERS)
def assert_in_a_while(x):
    while x < 100:
        assert x > 0, "never grows"
        x = x * 3
    return x


@table.runs((X, 1), (X, 0))
def assert_python(x, n):
    assert n > 0, "n"
    return x


@table.runs(*NUMBERS)
def assert_shapes(x):
    assert x.shape == ()
    assert isinstance(x, hy.Tensor), "a tensor"
    return x


@table.runs(*NUMBERS)
def raise_traced(x):
    if x < 0:
        raise ValueError("negative")
    return x * 2


@table.runs(*NUMBERS)
def raise_a_class(x):
    if x < 0:
        raise KeyError
    return x * 2


@table.runs(*NUMBERS)
def raise_ones_own(x):
    if x < 0:
        raise Refused(7)
    return x * 2


@table.runs(*NUMBERS)
def raise_with_a_value(x):
    if x < 0:
        raise ValueError(f"{x.item()} is negative")
    return x * 2


@table.runs(*NUMBERS)
def raise_with_a_cause(x):
    if x < 0:
        raise ValueError("negative") from KeyError("cause")
    return x


@table.runs(*NUMBERS)
def raise_in_either_branch(x):
    if x < 0:
        raise ValueError("negative")
    elif x > 1:
        raise TypeError("large")
    return x


@table.runs(*NUMBERS)
def raise_in_both_branches(x):
    if x < 0:
        raise ValueError("negative")
    else:
        raise TypeError("positive")


@table.runs(*NUMBERS)
def raise_in_a_while(x):
    n = 0
    while x < 100:
        if x < 0:
            raise ValueError("negative")
        x = x * 5
        n += 1
    return x, n


@table.runs(*NUMBERS)
def raise_in_a_for(x):
    for i in range(5):
        if x > 10:
            raise OverflowError(i)
        x = x * 2
    return x


@table.runs(*NUMBERS)
def raise_in_a_helper(x):
    def checked(v):
        if v < 0:
            raise ValueError("in a helper")
        return hy.sqrt(v)

    return checked(x) + checked(x + 1)


@table.runs(*NUMBERS)
def raise_in_else_of_a_loop(x):
    for _ in range(3):
        x = x + 1
        if x > 3:
            break
    else:
        raise LookupError("never above three")
    return x


@table.runs(*NUMBERS, f32(9.0))
def first_of_two_raises(x):
    if x < 1:
        raise ValueError("first")
    if x < 3:
        raise ValueError("second")
    return x


@table.runs((X, True), (X, False))
def raise_python(x, bad):
    if bad:
        raise ValueError("bad")
    return x


@table.runs(X)
def raise_always(x):
    x = x * 2
    raise RuntimeError("always")


@table.makes(*NUMBERS, plans=1)
def state_written_before_the_raise():
    state = {"count": hy.zeros(())}

    def run(x):
        state["count"] = state["count"] + 1
        if x < 0:
            raise ValueError("negative")
        state["count"] = state["count"] + 10
        return x

    return run, state


@table.makes(*NUMBERS, plans=1)
def cell_written_before_the_raise():
    count = hy.zeros(())

    def run(x):
        count.assign(count + 1)
        if x < 0:
            raise ValueError("negative")
        count.assign(count + 10)
        return x * count

    return run, count


@table.runs(X, covered=False)
def try_without_an_exception(x):
    try:
        x = x * 2
    except ValueError:
        x = x * 100
    else:
        x = x + 1
    finally:
        x = x * 3
    return x


@table.runs((X, "a"), (X, "b"), plans=2)
def except_python(x, name):
    try:
        k = {"a": 2.0}[name]
    except KeyError as error:
        k = 3.0
        assert error.args == ("b",)
    return x * k


@table.runs((X, 3), (X, 4), plans=2)
def except_a_wrong_shape(x, n):
    try:
        y = x + hy.ones(n)
    except ValueError:
        y = x
    return y


@table.runs(X, -X)
def except_around_branches(x):
    try:
        if x[0] > 0:
            y = x * 2
        else:
            y = x
        y = y + hy.ones(4)
    except ValueError:
        y = x * 7
    return y


@table.runs(X, -X)
def try_around_branches(x):
    try:
        if x[0] > 0:
            y = x * 2
        else:
            y = x
    finally:
        z = x + 1
    return y, z


@table.runs(X, -X)
def try_in_branches(x):
    if x[0] > 0:
        try:
            y = x * 2
            raise KeyError
        except KeyError:
            y = y + 1
        finally:
            y = y * 2
    else:
        y = x
    return y


@table.runs(X, -X)
def try_in_loops(x):
    n = 0
    for i in range(4):
        try:
            if i == 2:
                raise KeyError
            x = x + i
        except KeyError:
            x = x * 10
        else:
            n += 1
        if x[0] > 5:
            x = x - 1
    return x, n


@table.runs(*NUMBERS, may_refuse=True)
def except_traced(x):
    """What is raised depends on a value, and so does which handler runs."""
    try:
        if x < 0:
            raise ValueError("negative")
        y = x * 2
    except ValueError:
        y = x * 0
    return y


@table.runs(*NUMBERS, may_refuse=True)
def finally_of_a_traced_raise(x):
    seen = []
    try:
        if x < 0:
            raise ValueError("negative")
        y = x * 2
    finally:
        seen.append(x)
    return y, seen


@table.runs(*NUMBERS, may_refuse=True, covered=False)
def except_of_another_kind(x):
    try:
        if x < 0:
            raise ValueError("negative")
        x = x + 1
    except KeyError:
        x = x * 100
    return x


@table.runs(*NUMBERS, may_refuse=True)
def assert_caught(x):
    try:
        assert x > 0
    except AssertionError:
        return x * 0
    return x


@table.runs(X)
def reraise(x):
    try:
        x = x + 1
        raise ValueError("inner")
    except ValueError as error:
        raise TypeError("outer") from error


@table.runs(X, covered=False)
def nested_try(x):
    try:
        try:
            raise KeyError("k")
        except ValueError:
            x = x * 100
        finally:
            x = x + 1
    except KeyError:
        x = x * 2
    return x


@table.runs(X)
def exception_name_goes(x):
    error = x
    try:
        raise KeyError
    except KeyError as error:  # noqa: F841
        pass
    return error


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
