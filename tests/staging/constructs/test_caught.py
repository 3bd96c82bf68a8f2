"""Exceptions that depend on a tensor, caught in the same capture: jumps to the clause.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B030, E722, F841, SIM105, TRY, RUF100  the programs are about these

import contextlib
import logging
import sys

import pytest

from tests.staging.harness import Program, Table, f32, same

table = Table()
X, Y, Z = f32([1.0, -2.0, 3.0]), f32([4.0, 1.0, 9.0]), f32([4.0, 1.0, -9.0])
SIGNS = (f32(2.0), f32(-2.0))
NUMBERS = (*SIGNS, f32(7.0))


def root(v):
    if v < 0:
        raise ValueError("negative")
    return v**0.5


def root_of(v):
    if v < 0:
        raise ValueError("negative", v)
    return v**0.5


def named_root_of(v):
    if v < 0:
        raise ValueError(f"negative {v}")
    return v**0.5


def positive(v):
    assert v > 0, "not positive"
    return v


def found(v):
    for i in range(3):
        if v[i] > 2:
            return i
    raise LookupError("none")


@table.runs(*SIGNS)
def raise_in_a_function(x):
    try:
        return root(x)
    except ValueError:
        return x * 0


@table.runs(*SIGNS)
def assert_in_a_function(x):
    try:
        return positive(x)
    except (KeyError, AssertionError):
        return x * 0


@table.runs(X, -X)
def search_that_finds_nothing(x):
    try:
        return found(x)
    except LookupError:
        return -1


@table.runs(X, -X)
def rows_left_out(x):
    total = x[0] * 0
    for row in x:
        try:
            total = total + root(row)
        except ValueError:
            continue
    return total


@table.runs(*SIGNS)
def suppressed(x):
    with contextlib.suppress(KeyError, ValueError):
        if x < 0:
            raise ValueError
        x = x + 1
    return x


class Swallow:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        print("swallowed")
        return True


@table.runs(*SIGNS)
def swallowed(x):
    with Swallow():
        x = root(x)
    return x


@table.runs(*SIGNS)
def unbound(x):
    try:
        if x > 0:
            y = x
        return y * 2
    except UnboundLocalError:
        return x * 0


@table.runs(*SIGNS)
def key_on_one_path(x):
    d = {}
    if x > 0:
        d["a"] = x
    try:
        return d["a"]
    except KeyError:
        return x * 0


@table.runs(*SIGNS)
def anything(x):
    try:
        x = root(x)
    except:
        print("caught")
        x = x * 0
    finally:
        print("finally")
        logging.getLogger("control").warning("finally")
    return x


@table.runs(*SIGNS)
def kind_that_a_variable_names(x):
    kinds = (KeyError, ValueError)
    try:
        return root(x)
    except kinds:
        return x * 0


@table.runs(*SIGNS, covered=False)
def outer_of_two(x):
    try:  # outer
        try:
            return root(x)
        except KeyError:
            return x
    except ValueError:
        return x * 0


@table.runs(*SIGNS, covered=False)
def kinds_that_are_none(x):
    try:
        try:  # inner
            return root(x)
        except (KeyError, (ValueError, TypeError)):
            return x * 2
    except TypeError as error:
        return x * len(error.args)


class Model:
    def root(self, v):
        return root(v)

    def forward(self, x):
        for _ in range(2):
            try:
                x = self.root(x) - 1
            except (ValueError, TypeError):
                x = x * x
        return x


@table.runs(*SIGNS)
def methods(x):
    return Model().forward(x)


@table.runs(*SIGNS, covered=False)
def printed_in_the_end(x):
    try:
        y = root(x)
    except KeyError:
        y = x
    finally:
        print("done")
    return y


@table.runs(f32([1.0, 2.0]), f32([1.0, -2.0]))
def index_out_of_range_in_a_loop(x):
    try:
        for i in range(5):
            if x[i] < 0:
                return i
    except IndexError:
        return -1


@table.runs(X, Y, Z)
def sum_roots(x):
    s = x[0] * 0
    try:
        for row in x:
            s = s + root_of(row)
        s = s * 10
    except ValueError as e:
        s = s + e.args[1] * 100
    return s


@table.runs(X, Y, Z)
def loop_break(x):
    s = x[0] * 0
    for row in x:
        try:
            s = s + root_of(row)
        except ValueError:
            break
    return s


@table.runs(X, Y, Z)
def loop_return(x):
    s = x[0] * 0
    for row in x:
        try:
            s = s + root_of(row)
        except ValueError as e:
            return e.args[1]
    return s


@table.runs(X, Y, Z, covered=False)
def try_in_a_try_in_a_loop(x):
    s = x[0] * 0
    for row in x:
        try:
            try:
                s = s + root_of(row)
            except KeyError:
                s = s * 5
            finally:
                s = s + 1
        except ValueError:
            s = s * 2
        else:
            s = s * 3
    return s


@table.runs(X, Y, Z)
def raised_from_another_and_caught(x):
    try:
        try:
            y = root_of(x[1]) + root_of(x[2])
        except ValueError as e:
            raise KeyError(e.args[1]) from e
    except KeyError as e:
        y = e.args[0] * 7 + e.__cause__.args[1]
    return y


@table.runs(X, Y, Z)
def raised_again(x):
    try:
        try:
            y = root_of(x[1]) + root_of(x[2])
        except ValueError as e:
            raise
        finally:
            print("inner")
    except ValueError as e:
        y = e.args[1] * 7
    return y


@table.runs(X, Y, Z)
def raised_again_for_nobody(x):
    try:
        y = root_of(x[1]) + root_of(x[2])
    except ValueError as e:
        raise
    finally:
        print("done")
    return y


@table.runs(X, Y, Z)
def raised_from_another(x):
    try:
        y = root_of(x[1]) + root_of(x[2])
    except ValueError as e:
        raise RuntimeError("bad") from e
    return y


@table.runs(X, Y, Z)
def while_that_an_error_ends(x):
    i = 0
    s = x[0]
    try:
        while s < 100:
            s = s * 3 + root_of(x[i])
            i = (i + 1) % 3
    except ValueError as e:
        return s, i, e.args[1]
    return s, i, s


@table.runs(f32(50.0), f32(3.0))
def endless_but_for_an_error(x):
    n = 0
    try:
        while True:
            x = x / 2
            n = n + 1
            if x < 1:
                raise StopIteration
    except StopIteration:
        pass
    return x, n


@table.runs(*NUMBERS)
def raised_on_both_paths(x):
    try:
        if x > 0:
            raise KeyError(x)
        else:
            raise ValueError(x * 2)
    except KeyError as e:
        y = e.args[0]
    except ValueError as e:
        y = e.args[0] * 5
    return y


@table.runs(*NUMBERS)
def none_where_it_is_raised(x):
    y = None
    try:
        y = root_of(x)
    except ValueError:
        pass
    return y


@table.runs(*NUMBERS)
def returns_none_where_it_is_raised(x):
    try:
        return root_of(x)
    except ValueError:
        return None


@table.runs(*NUMBERS)
def unrolled_with_a_try_inside(x):
    log = []
    for k in [1.0, 2.0, 3.0, 4.0]:
        try:
            x = root_of(x - k) * 3
            log.append(x)
        except ValueError as e:
            log.append(e.args[1])
            x = x + 1
    return x, log


@table.runs(*NUMBERS)
def unrolled_inside_a_try(x):
    log = []
    try:
        for k in [1.0, 2.0, 3.0, 4.0]:
            x = root_of(x - k) * 3
            log.append(x)
    except ValueError as e:
        log.append(e.args[1])
    return x, log


class M:
    def __init__(self):
        self.n = 0
        self.last = None


def state(x, m):
    try:
        m.last = x * 2
        y = root_of(x)
        m.last = y
        m.other = y
    except ValueError as e:
        m.err = str(len(e.args))
        y = m.last
    return y


@table.runs(*NUMBERS)
def attributes_written_before(x):
    m = M()
    y = state(x, m)
    return y, m.__dict__


@table.runs(*NUMBERS)
def list_written_before(x):
    out = []
    try:
        out.append(x)
        if x < 0:
            out.append(x * 2)
            raise KeyError
        out.append(root_of(x))
    except KeyError:
        out.append(x - 1)
    return out


@table.runs(*NUMBERS)
def asserted_with_a_message(x):
    try:
        assert x > 0, "no"
        y = x * 2
    except AssertionError as e:
        y = x * 3
        print(e)
    return y


@table.runs(*NUMBERS)
def value_in_the_message(x):
    try:
        y = named_root_of(x)
    except ValueError as e:
        print("caught", e)
        y = x
    return y


@table.runs(*NUMBERS)
def plain_raise_behind_a_traced_one(x):
    try:
        y = root_of(x)
        raise KeyError("k")
    except KeyError:
        y = y * 2
    except ValueError:
        y = x
    return y


@table.runs(*NUMBERS)
def written_in_place_before(x):
    y = x * 1
    try:
        y += 1
        if x < 0:
            y += 10
            raise KeyError
        y += 100
    except KeyError:
        y *= 2
    return y


@table.runs(*NUMBERS)
def try_in_a_clause(x):
    try:
        y = root_of(x)
    except ValueError:
        try:
            y = root_of(x + 1)
        except ValueError as e:
            y = e.args[1]
    return y


@table.runs(*NUMBERS)
def clause_that_raises(x):
    try:
        try:
            y = root_of(x)
        except ValueError:
            y = root_of(x + 1)
    except ValueError as e:
        y = e.args[1] * 11
    return y


@table.runs(*NUMBERS)
def try_in_a_while(x):
    n = 0
    while x < 20:
        try:
            x = root_of(x) * 9
        except ValueError:
            x = x + 4
        n = n + 1
    return x, n


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


GROUPS = """
def grouped(x):
    try:
        return root(x)
    except* (KeyError, ValueError):
        x = x * 0
    return x


def ungrouped(x):
    try:
        x = root(x)
    except* KeyError:
        x = x * 0
    return x
"""


@pytest.mark.parametrize("name", ["grouped", "ungrouped"] if sys.version_info >= (3, 11) else [])
def test_exception_groups(name, tmp_path) -> None:
    path = tmp_path / "groups.py"
    path.write_text(GROUPS)
    names = {"root": root}
    exec(compile(GROUPS, str(path), "exec"), names)
    same(names[name], calls=SIGNS)
