"""What the author would catch of what no capture can follow: refused, with the lines, and no trace.

PYTEST_DONT_REWRITE: functions are found by their source.
"""

# ruff: noqa: B012, B030, E722, F841, SIM105, RUF100  the programs are about these

import contextlib
import itertools

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import describe, f32, same

X = f32([1.0, -2.0, 3.0])
SIGNS = (f32(2.0), f32(-2.0))


def root(v):
    if v < 0:
        raise ValueError("negative")
    return v**0.5


@contextlib.contextmanager
def catching(*kinds):
    try:
        yield
    except kinds:
        pass


refused: list[tuple] = []


def refuses(name, check, around, *calls, kind="try", does="catches"):
    """The function is refused: for ``name`` at the text ``check``, caught at ``around``."""

    def add(function):
        refused.append((function, calls, name, check, around, kind, does))
        return function

    return add


@refuses("ValueError", (root, "raise ValueError"), (catching.__wrapped__, "try:"), *SIGNS)
def caught_by_a_stack_of_managers(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(catching(ValueError))
        x = root(x)
    return x


@refuses("an exception", "return hy.py_call", "try:", *SIGNS)
def call_into_python(x):
    def half(v):
        return v / 2

    try:
        return hy.py_call(half, x, result=x.type)
    except ZeroDivisionError:
        return x


@refuses("ValueError", (root, "raise ValueError"), "try:", *SIGNS)
def out_of_a_jacobian(x):
    try:
        return hy.jacobian(root)(x)
    except ValueError:
        return x


@refuses("ValueError", (root, "raise ValueError"), "try:", *SIGNS)
def break_in_a_finally_of_a_class(x):
    class Inner:
        y = x
        for _ in range(1):
            try:
                y = root(x)
            finally:
                break

    return Inner.y


class Bounded:
    """Its attribute, its items and its iteration end where a tensor says so."""

    def __init__(self, x):
        self.x, self.count = x, 0

    @property
    def root(self):
        if self.x < 0:
            raise AttributeError("root")
        return self.x

    def __getitem__(self, index):
        if index > 2 or self.x < 0:
            raise IndexError
        return self.x * index


class Counted(Bounded):
    def __iter__(self):
        return self

    def __next__(self):
        self.count += 1
        if self.count > 3 or self.x < 0:
            raise StopIteration
        return self.count


ROOT = (Bounded.root.fget, "raise AttributeError")


@refuses("AttributeError", ROOT, "return getattr", *SIGNS, kind="call")
def attribute_or_default(x):
    return getattr(Bounded(x), "root", x * 0)


@refuses("AttributeError", ROOT, "return x if", *SIGNS, kind="call")
def attribute_or_none(x):
    return x if hasattr(Bounded(x), "root") else x * 0


@refuses(
    "StopIteration", (Counted.__next__, "raise Stop"), "for n", *SIGNS, kind="for", does="ends at"
)
def iteration_that_ends(x):
    total = x
    for n in Counted(x):
        total = total + n
    return total


@refuses("StopIteration", (Counted.__next__, "raise Stop"), "return next", *SIGNS, kind="call")
def next_or_default(x):
    return next(Counted(x), 0)


@refuses(
    "IndexError", (Bounded.__getitem__, "raise Ind"), "for v", *SIGNS, kind="for", does="ends at"
)
def items_that_end(x):
    total = x
    for v in Bounded(x):
        total = total + v
    return total


def line_of(function, text):
    """(line, what it says): the first line of ``function`` that begins with ``text``."""
    with open(__file__) as file:
        lines = file.read().splitlines()
    numbered = enumerate(lines, 1)
    after = itertools.dropwhile(lambda n: n[0] < function.__code__.co_firstlineno, numbered)
    return next((n, line.strip()) for n, line in after if line.strip().startswith(text))


@pytest.mark.parametrize("case", refused, ids=[case[0].__name__ for case in refused])
def test_refused(case) -> None:
    function, calls, name, check, around, kind, does = case
    line, text = line_of(*(check if isinstance(check, tuple) else (function, check)))
    around_call = f"; or put the {kind} around the call of the hybridized function"
    fix = around_call if kind in ("try", "with") else ""
    outer, _ = line_of(*(around if isinstance(around, tuple) else (function, around)))
    for call in calls:
        arguments = call if isinstance(call, tuple) else (call,)
        with pytest.raises(CaptureError) as caught:
            hy.hybridize(function)(*arguments)
        assert str(caught.value) == (
            f"{name} may be raised when the plan runs, inside a {kind} that {does} it "
            f"({__file__}:{line})\n"
            f"    {line} | {text}\n"
            f"A plan does not catch exceptions. The {kind}: line {outer} of {__file__}.\n"
            "Fix: test the condition and choose the value with if and else, or with hybrid.where"
            f"{fix}."
        )
    same(function, calls=calls, may_refuse=True)


def printed_by_a_generator(x):
    def roots():
        try:
            yield root(x)
        finally:
            print("left")

    total = x
    for y in roots():
        total = total + y
    return total


@pytest.mark.parametrize(
    ("function", "where", "text"),
    [
        (printed_by_a_generator, printed_by_a_generator, 'print("left")'),
    ],
)
def test_a_finally_that_an_exception_would_leave_out(function, where, text) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(SIGNS[0])
    line, _ = line_of(where, text)
    assert str(caught.value) == (
        f"a finally does this when ValueError is raised, too ({__file__}:{line})\n"
        f"    {line} | {text}\n"
        "That is known only when the plan runs, and an exception ends the plan.\n"
        "Fix: do it after the try, or put the try around the call of the hybridized function."
    )
    same(function, calls=SIGNS, may_refuse=True)


def test_eager_programs_catch() -> None:
    """Every refused program means something: eagerly it does catch, in its last call."""
    for function, calls, *_ in refused:
        call = calls[-1]
        describe(function(*(call if isinstance(call, tuple) else (call,))))
