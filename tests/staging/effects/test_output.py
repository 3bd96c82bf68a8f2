"""print, logging and warnings: the same text, as often and in the same order.

PYTEST_DONT_REWRITE: the messages of assertions are compared.
"""

# ruff: noqa: UP031, UP032, B028

import logging
import sys
import warnings

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
log = logging.getLogger("control")


@table.runs(X, X, -X)
def print_text(x):
    print("hello", 3, sep=", ", end="!\n")
    return x


@table.runs(X, -X)
def print_a_tensor(x):
    print(x)
    return x * 2


@table.runs(X, -X)
def print_computed(x):
    y = x * 2
    print("y is", y, hy.sum(y), "of", y.shape, y.dtype)
    return y


@table.runs(X, -X)
def print_formatted(x):
    print(f"{x[0].item():.3f} and {hy.sum(x).item()}")
    print(f"{x}")
    print("%.2f" % x[0].item())
    return x


@table.runs(X, -X)
def print_with_percent(x):
    n = x[0].item()
    print("%d of %s" % (n, x[1].item()), "%(a)s %(b).3f%%" % {"a": x, "b": x[1].item()})
    print("%*.*f|%-8d|%+d|%x" % (8, 2, n, int(n), int(n), abs(int(n))))
    print("%s %r" % ([x, n], (n,)), "%.1f %d" % (x[2], x[2]))
    print(str(n) + " %.2f" % n, "%s", "%d%%" % 3, 7 % int(n), x % 2)
    return x


@table.runs(X, -X)
def print_of_texts_of_numbers(x):
    n = x[0].item()
    print("{:.2f} {}".format(n, x), str(n), format(n, ".3f"), f"{n!r:>10}", f"{n:{8}.2f}")
    print("{a:.1f}".format(a=n), "{a:.1f}".format_map({"a": n}), f"{n=} {n=:.2f}")
    print(", ".join([str(n), f"{n:.1f}", "a"]), "a" + str(n) + "b", "-" * 3 + str(n), str(n) * 2)
    text = "a"
    text += f"<{n}>"
    print(text, [text], {"text": text}, f"{text:>20}", repr(text))
    return x


@table.runs(X, -X)
def percent_raises(x):
    return "%d %d" % x[0].item()


@table.runs(X, f32([float("nan"), 1.0, 2.0]))
def percent_raises_at_run_time(x):
    text = "%d" % x[0].item()
    return x, text


@table.runs(X, -X)
def format_raises(x):
    return f"{x[0].item():d}"


@table.runs(*STARTS)
def percent_in_a_loop(x):
    n = 0
    while x < 100:
        print("step %d: %.3f" % (n, x.item()))
        x = x * 3
        n += 1
    return x


@table.runs(*STARTS)
def percent_in_exceptions(x):
    assert x < 100, "%.2f is large" % x.item()
    if x > 10:
        raise ValueError(f"bad {x.item():.2f}", "%.3f" % x.item(), "{:.1f}".format(x.item()))
    log.info("x %s", "%.1f" % x.item())
    log.info("%.1f" % x.item())
    warnings.warn("%.1f" % x.item())
    return "v %.2f" % x.item()


@table.runs(X, -X)
def print_in_branches(x):
    print("before")
    if x[0] > 0:
        print("positive", x[0])
    else:
        print("negative")
    print("after")
    return x


@table.runs(*STARTS)
def print_in_while(x):
    n = 0
    while x < 100:
        print("trip", n, x)
        x = x * 2
        n += 1
    print("done", n)
    return x


@table.runs(X)
def print_in_range(x):
    for i in range(3):
        print(i, x[i])
    return x


@table.runs(*[(X, i64(n)) for n in (0, 1, 3)])
def print_in_traced_range(x, n):
    for i in range(n):
        print("i =", i)
    print("end")
    return x


@table.runs(draw(3, 2))
def print_rows(x):
    for i, row in enumerate(x):
        print(i, row)
    return x


@table.runs(*STARTS, f32(0.01))
def print_before_break(x):
    for i in range(5):
        print("try", i)
        if x > 20:
            print("enough")
            break
        x = x * 3
    else:
        print("never")
    return x


@table.runs(*STARTS)
def print_before_raise(x):
    print("checking")
    if x > 100:
        print("bad", x)
        raise ValueError("too large")
    print("good")
    return x


@table.runs(*STARTS)
def print_and_assert(x):
    print("one")
    assert x < 100, "large"
    print("two")
    return x


@table.runs(X)
def print_in_a_helper(x):
    def show(v, name):
        print(name, "=", v)
        return v

    return show(x * 2, "twice") + show(x, "once")


@table.runs(*STARTS)
def print_on_the_right_of_or(x):
    def told(v):
        print("asked")
        return v

    if x > 10 or told(x) > 1:
        return x
    return -x


@table.runs(*STARTS)
def print_in_a_ternary(x):
    return print("large") if x > 10 else print("small")


@table.runs(X)
def print_to_a_file(x):
    print("to the error stream", file=sys.stderr)
    print("to the output", file=sys.stdout, flush=True)
    return x


@table.runs(*STARTS)
def write_to_stdout(x):
    sys.stdout.write("written\n")
    return x


@table.runs(*STARTS)
def logging_levels(x):
    log.info("start")
    if x > 10:
        log.warning("x is %s", "large")
    else:
        log.debug("x is small")
    return x * 2


@table.runs(*STARTS)
def logging_values(x):
    while x < 100:
        log.info("x = %s", x)
        log.info("x = %.2f", x.item())
        x = x * 4
    return x


@table.runs(*STARTS)
def warn_in_a_branch(x):
    if x > 10:
        warnings.warn("x is large", RuntimeWarning)
    return x


@table.runs(*STARTS)
def warn_always(x):
    warnings.warn("always")
    return x


@table.runs(*STARTS)
def everything_in_order(x):
    print("one")
    log.info("two")
    warnings.warn("three")
    for i in range(2):
        print("four", i)
        if x > 10:
            log.info("five")
            x = x - 1
        else:
            warnings.warn("six")
    print("seven", x)
    return x


@table.runs(*STARTS)
def print_of_a_number(x):
    k = 1 if x > 10 else 2
    print("k =", k, type(k).__name__)
    print(float(x), int(x), bool(x > 1))
    return k


@table.runs(*STARTS)
def print_of_a_list(x):
    xs = [x, x + 1]
    print(xs, {"a": x})
    return xs


@table.runs(X)
def print_what_python_knows(x):
    for i in range(2):
        print("shape", x.shape, "at", i)
    return x


@table.runs(X)
def print_in_a_comprehension(x):
    return [print(k) or x * k for k in (1, 2)]


@table.runs(X)
def print_of_another_name(x):
    show = print
    show("aliased", x[0])
    return x


@table.runs(X)
def print_given_as_a_function(x):
    def each(values, f):
        for v in values:
            f(v)

    each([x[0], x[1], 7], print)
    return x


@table.runs(X)
def debug_format(x):
    n = 3
    print(f"{n=} {x.shape=}")
    return x


WEIGHT = hy.nn.Parameter(f32([1.0, 2.0]))


@table.runs((f32([1.0, 2.0]),))
def parameters_in_texts(x):
    print(f"{WEIGHT} {WEIGHT!r}", str(WEIGHT), WEIGHT, "%s" % WEIGHT)
    return x * WEIGHT


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
