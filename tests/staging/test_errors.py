"""What capture refuses: which line, names and types are told, and that nothing stays behind."""

# ruff: noqa: SIM108  the programs are about these forms

import sched
import traceback
from types import SimpleNamespace

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, HybridError, LeakedValueError
from tests.staging.harness import describe, f32, i64, same

X = f32([1.0, -2.0, 3.0])


def line_of(function, text: str) -> int:
    """The line of this file on which ``function`` says ``text``."""
    start = function.__code__.co_firstlineno
    with open(__file__) as file:
        lines = file.read().splitlines()
    return next(n for n in range(start, len(lines) + 1) if text in lines[n - 1])


def shapes_of_branches(x):
    if hy.sum(x) > 0:
        chosen = x[:2]
    else:
        chosen = x
    return chosen


def shapes_of_iterations(x):
    grown = x
    while hy.sum(grown) < 100:
        grown = hy.concat([grown, x])
    return grown


def structures_of_branches(x):
    if hy.sum(x) > 0:
        pair = (x, x)
    else:
        pair = [x, x]
    return pair


def keys_of_branches(x):
    if hy.sum(x) > 0:
        table = {"a": x}
    else:
        table = {"b": x}
    return table


def text_of_branches(x):
    if hy.sum(x) > 0:
        name = "one"
    else:
        name = "two"
    return name


def shapes_of_returns(x):
    if hy.sum(x) > 0:
        return x, x[:2]
    return x, x


def shapes_returned_from_a_loop(x):
    for row in x:
        if row > 2:
            return x * row
    return x[:2]


def items_of_ternaries(x):
    picked = (x > 0).all() and (pair := (x, x)) + pair
    return picked


MISMATCHES = [
    (items_of_ternaries, "the value of this expression is", ["bool[]", "tuple of 4"], ["picked ="]),
    (structures_of_branches, "pair", ["tuple", "list"], ["pair = (x, x)", "pair = [x, x]"]),
    (keys_of_branches, "table", ["a", "b"], ['table = {"a": x}', 'table = {"b": x}']),
    (text_of_branches, "name", ["one", "two"], ['name = "one"', 'name = "two"']),
]


@pytest.mark.parametrize(
    ("function", "name", "kinds", "texts"), MISMATCHES, ids=[m[0].__name__ for m in MISMATCHES]
)
def test_a_mismatch_names_the_variable_both_types_and_both_lines(
    function, name, kinds, texts
) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(X)
    message = str(caught.value)
    assert name in message
    for kind in kinds:
        assert kind in message, message
    for text in texts:
        assert str(line_of(function, text)) in message, message
    assert caught.value.at.path == __file__
    assert caught.value.fix


@pytest.mark.parametrize("function", [m[0] for m in MISMATCHES])
def test_the_fall_back_runs_eagerly_and_warns_once(function) -> None:
    x = -X
    hybridized = hy.hybridize(function, fallback="eager")
    with pytest.warns(UserWarning, match="runs eagerly") as caught:
        for _ in range(3):
            assert describe(hybridized(x)) == describe(function(x))
    assert len(caught) == 1


SHAPES = (
    shapes_of_branches, shapes_of_iterations, shapes_of_returns, shapes_returned_from_a_loop,
)  # fmt: skip


@pytest.mark.parametrize("function", SHAPES)
def test_shapes_may_differ_between_paths(function) -> None:
    hybridized = hy.hybridize(function)
    given = (X, X * 30, X * 2, X * 0.1 + 40)
    for x in given if function is shapes_of_iterations else (*given, -X, -X * 2):
        assert describe(hybridized(x)) == describe(function(x))
    assert len(hybridized.plans) > 1


def test_a_mismatch_of_structures_in_full() -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(structures_of_branches)(X)
    at = line_of(structures_of_branches, "if hy.sum")
    assert str(caught.value) == (
        f"pair is a tuple of 2 ({__file__}:{at + 1}) where the condition holds, and "
        f"a list of 2 ({__file__}:{at + 3}) where it does not ({__file__}:{at})\n"
        f"    {at} | if hy.sum(x) > 0:\n"
        "Which of the two it is depends on the value of a tensor, and a graph needs one type and "
        "structure.\n"
        "Fix: give pair the same type, shape and structure on both paths."
    )


SETTINGS = {"rate": 0.5}
TOTAL = f32(1.0)


def test_lists_of_several_lengths_are_returned() -> None:
    def f(x):
        items = [x, x] if hy.sum(x) > 0 else [x]
        return items, len(items)

    hybridized = hy.hybridize(f)
    for x in (X, -X, X):
        assert describe(hybridized(x)) == describe(f(x))


def test_a_refused_capture_leaves_everything_as_it_was() -> None:
    owner = SimpleNamespace(h=f32([0.0, 0.0]), items=[f32(1.0)], n=0)
    cell = f32([1.0, 1.0, 1.0])
    kept = {"a": f32(2.0)}
    count = 0

    def f(x):
        global TOTAL
        nonlocal count
        SETTINGS["rate"] = 0.25
        TOTAL = TOTAL + 1
        owner.h = owner.h * 2
        owner.n += 1
        owner.items.append(x)
        kept["b"] = x
        cell.assign(cell + x)
        x += 1
        count += 1
        for _ in range(3):
            cell[0] = 5.0
            if hy.sum(x) > 0:
                owner.h = owner.h + 1
                kept["c"] = x
                bad = x[:2]
            else:
                owner.items.pop()
                bad = x
        return bad

    def state():
        parts = [SETTINGS, TOTAL, owner, cell, kept, count, x, f.__defaults__]
        return describe(parts), f.__code__

    x = X * 1
    before = state()
    hybridized = hy.hybridize(f)
    for _ in range(2):
        with pytest.raises(CaptureError):
            hybridized(x)
        assert state() == before
    assert hybridized.plans == []
    f(x)  # and eagerly it still does all of that
    assert state() != before and owner.n == 1 and count == 1


def test_an_error_of_the_author_names_the_line() -> None:
    def f(x):
        for i in range(3):
            if hy.sum(x) > i:
                x = x @ hy.ones((2, 2))
        return x

    with pytest.raises(ValueError) as caught:
        hy.hybridize(f)(X)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(fr.filename == __file__ and "hy.ones((2, 2))" in (fr.line or "") for fr in frames)


def test_an_error_at_run_time_names_the_line() -> None:
    def f(x, i):
        total = hy.zeros(())
        for _ in range(2):
            total = total + x[i]  # out of range at times
        return total

    hybridized = hy.hybridize(f)
    hybridized(X, i64(1))
    with pytest.raises(IndexError) as caught:
        hybridized(X, i64(7))
    assert isinstance(caught.value, HybridError)
    assert caught.value.at.path == __file__
    assert caught.value.at.line == line_of(f, "out of range at times")
    assert describe(hybridized(X, i64(0))) == describe(f32(2.0))


def test_a_raise_at_run_time_keeps_its_type_and_object() -> None:
    class Stop(Exception):
        pass

    def f(x):
        while True:
            x = x * 2
            if hy.sum(x) > 50:
                raise Stop("enough", 3)

    hybridized = hy.hybridize(f)
    for _ in range(2):
        with pytest.raises(Stop) as caught:
            hybridized(X)
        assert caught.value.args == ("enough", 3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.filename == __file__ for frame in frames)


def test_a_leaked_value_names_where_it_was_made() -> None:
    kept = sched.scheduler()

    def hide(x):
        if hy.sum(x) > 0:
            kept.enterabs(1, 1, print, (x * 2,))  # made here
        return x

    hy.hybridize(hide)(X)
    with pytest.raises(LeakedValueError) as caught:
        kept.queue[0].argument[0] + 1
    assert str(line_of(hide, "made here")) in str(caught.value)


@pytest.mark.parametrize(
    "effect",
    [
        lambda seen: seen.append(1),
        lambda seen: seen.__setitem__(0, 5),
        lambda seen: seen.clear(),
        lambda seen: seen.extend(range(2)),
    ],
)
def test_python_side_effects_in_a_branch_are_kept_or_refused(effect) -> None:
    def make():
        seen = [0]

        def f(x):
            if hy.sum(x) > 0:
                effect(seen)
            return x * 1

        return f, seen

    same(make, calls=[X, -X, X], make=True, grad=False, may_refuse=True)


def test_counting_in_a_loop_is_kept_or_refused() -> None:
    def make():
        owner = SimpleNamespace(n=0)

        def f(x):
            while hy.sum(x) < 100:
                x = x * 2 + 1
                owner.n += 1
            return x

        return f, owner

    same(make, calls=[X, X * 100, -X * 0], make=True, grad=False, may_refuse=True)


def test_traceback_and_frames_show_the_author() -> None:
    def f(x):
        if hy.sum(x) > 0:
            x = x * 2
        else:
            x = x + 1
        raise KeyError("at the end")  # shown

    for call in (hy.hybridize(f), f):
        with pytest.raises(KeyError) as caught:
            call(X)
        last = traceback.extract_tb(caught.value.__traceback__)[-1]
        assert (last.filename, last.lineno, last.name) == (__file__, line_of(f, "# shown"), "f")


def test_no_source_is_traced() -> None:
    names: dict = {}
    exec("def f(x):\n    return x * 2\n\ndef g(x):\n    return x if x > 0 else -x", {}, names)
    assert describe(hy.hybridize(names["f"])(X)) == describe(X * 2)
    with pytest.raises(CaptureError, match=r"truth|source"):
        hy.hybridize(names["g"])(f32(1.0))
