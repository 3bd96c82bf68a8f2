"""``finally`` after clauses: it has to do with what these and ``else`` raise, too.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B904, F841, TRY, RET, RUF100  the programs are about these

from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = (f32(2.5), f32(1.5), f32(0.5), f32(-1.0), f32(-2.5), f32(-4.0))


def root(v):
    if v < 0:
        raise ValueError("negative", v)
    return v * 0.5


@table.runs(*NUMBERS, covered=False)
def raised_in_the_else(x):
    try:
        y = x
    except KeyError:
        y = x * 3
    else:
        x = root(x - 1)
    finally:
        print("finally")
    return x


@table.runs(*NUMBERS)
def raised_in_a_clause(x):
    try:
        if x < 1:
            raise KeyError
    except KeyError:
        x = root(x)
    finally:
        print("finally")
    return x


@table.runs(*NUMBERS)
def an_else_that_always_raises(x):
    """Where a clause has caught something, the code goes on."""
    try:
        if x < 0:
            raise KeyError("below", x)
        if x > 1:
            raise ValueError
    except ValueError:
        x = x * 3
    else:
        raise KeyError("between", x)
    finally:
        print("finally")
    return x


@table.runs(*NUMBERS)
def caught_around_it(x):
    try:
        try:
            if x < 1:
                raise KeyError("k")
        except KeyError:
            x = root(x)
        else:
            x = root(x - 2)
        finally:
            x = x + 1
    except ValueError as e:
        x = x * 2 + e.args[1]
    return x


@table.runs(*NUMBERS, covered=False)
def some_pass_the_clauses(x):
    try:
        try:
            if x < 1:
                raise KeyError
        except ValueError:
            x = x * 7
        else:
            x = root(x - 2)
        finally:
            x = x + 1
    except ValueError:
        x = x * 2
    except KeyError:
        x = x * 3
    return x


@table.runs(*NUMBERS, covered=False)
def raised_again_and_again_in_the_end(x):
    y = x
    try:
        try:
            if x < 1:
                raise KeyError
        except KeyError:
            if x < -3:
                raise ValueError
            y = y + 1
            if x < -2:
                raise
            y = y + 1
        else:
            y = root(x - 2)
        finally:
            x = x + 1
            if y < 0:
                raise IndexError
    except ValueError:
        x = x * 2
    except KeyError:
        x = x * 3
    except IndexError as e:
        x = x * 5 + (e.__context__ is None)
    return x, y


@table.runs(*NUMBERS, covered=False)
def in_a_loop_with_jumps(x):
    done = []
    for k in (1.0, 2.0, 3.0):
        try:
            x = root(x - k)
        except ValueError:
            x = root(x + 3)
            if x < 1:
                break
        else:
            if x < 0.1:
                continue
        finally:
            done.append(x)
    return x, done


@table.runs(*NUMBERS, covered=False)
def in_the_body_of_a_class(x):
    class Inner:
        try:
            y = 1
        except KeyError:
            y = 2
        else:
            z = root(3.0)
        finally:
            y = y + 2

    return x * Inner.y * Inner.z


@table.runs(*NUMBERS, covered=False)
def ends_within_ends(x):
    try:
        try:
            x = root(x)
        except ValueError:
            x = root(x + 2)
        finally:
            x = x + 1
    except ValueError:
        x = root(x + 4)
    finally:
        print("second")
    return x


@table.runs(*NUMBERS, covered=False)
def three_in_each_other(x):
    try:
        try:
            try:
                x = root(x + 1)
            except ValueError:
                x = root(x + 2)
            finally:
                x = x + 1
        except ValueError:
            x = root(x + 3)
        finally:
            print("second")
    except ValueError as e:
        x = e.args[1] * 5
    finally:
        print("third")
    return x


@table.runs(*NUMBERS, covered=False)
def in_the_clause_of_another(x):
    try:
        x = root(x)
    except ValueError:
        try:
            x = root(x + 2)
        except ValueError:
            try:
                x = root(x + 3)
            finally:
                x = x - 1
        else:
            x = root(x - 0.1)
        finally:
            x = x * 2
    finally:
        print("end")
    return x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
