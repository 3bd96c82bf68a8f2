"""Progress bars: seen on a terminal alone, gone with their loops, and no part of a capture."""

import contextlib
import functools
import io
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError
from tests.staging.harness import Table, draw, f32

module = sys.modules["hybrid.eager.progress"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(module, "REDRAW", 0.0)
    for name, value in {"TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return Terminal()


def seen(test):
    """``test`` with a terminal on stderr that is drawn on after each iteration."""

    @functools.wraps(test)
    def call(terminal, *args, **kwargs):
        with contextlib.redirect_stderr(terminal):
            test(terminal, *args, **kwargs)
            assert sys.stderr is terminal  # and not what rich put into its place
        assert module._SCREEN.live is None

    return call


def drawn(stream):
    """What was written since the last call."""
    text = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return text


@seen
def test_a_loop(terminal):
    got = []
    for i in (bar := hy.progress(range(3), description="[epoch] 1")):
        bar.set_postfix(loss=hy.asarray(0.123456), at=i, what="x")
        got.append(i)
    assert got == [0, 1, 2]
    text = drawn(terminal)
    last = text.rstrip("\n\x1b[?25h").splitlines()[-1]
    for part in ("[epoch] 1", "3/3", "loss 0.1235  at 2  what x"):
        assert part in last, last
    assert "1/3" in text and "loss 0.1235  at 0" in text
    assert text.index("\x1b[?25l") < text.index("\x1b[?25h")  # the cursor is back


@seen
def test_losses_are_looked_at_when_the_bar_is_drawn(terminal, monkeypatch):
    monkeypatch.setattr(module, "REDRAW", 3600.0)
    asked = []

    class Loss(float):
        def __format__(self, spec):
            asked.append(float(self))
            return "shown"

    for i in (bar := hy.progress(range(1000))):
        bar.set_postfix(loss=Loss(i))
    assert asked == [999.0] and drawn(terminal).count("shown") >= 1


@seen
def test_a_loss_does_not_keep_its_history(terminal):
    x = hy.asarray([1.0])
    x.requires_grad = True
    for _step in (bar := hy.progress(range(2))):
        loss = (x * x).sum()
        bar.set_postfix(loss=loss)
        assert bar._bar._postfix["loss"].record is None
        x.assign(x * 1.0)
        loss += 5.0  # it is the value at the call that is shown
    assert "loss 1" in drawn(terminal)


@seen
def test_a_value_that_nobody_may_look_at_ends_no_loop(terminal):
    def row(x):
        for i in (bar := hy.progress(range(2))):
            bar.set_postfix(loss=x)
            x = x * i
        return x

    assert hy.vmap(row)(hy.asarray([1.0, 2.0])).tolist() == [0.0, 0.0]
    assert "loss <BatchedValueError>" in drawn(terminal)


@pytest.mark.parametrize(
    ("iterable", "total", "text"),
    [
        (range(4), None, "2/4"),
        (iter([1, 2, 3]), None, "2/3"),
        ((i for i in range(9)), None, "2/?"),
        ((i for i in range(9)), 9, "2/9"),
        (hy.zeros((5, 2)), None, "2/5"),
    ],
)
@seen
def test_how_many_there_are(terminal, iterable, total, text):
    for at, _item in enumerate(hy.progress(iterable, total=total)):
        if at == 2:
            break
    assert text in drawn(terminal)


def test_len_is_that_of_the_iterable():
    assert len(hy.progress([1, 2])) == 2
    with pytest.raises(TypeError):
        len(hy.progress(iter([1, 2])))


@seen
def test_nothing_is_left_after_a_break_or_an_error(terminal):
    for i in hy.progress(range(10)):
        if i == 4:
            break
    assert module._SCREEN.live is None
    assert "4/10" in drawn(terminal).splitlines()[-2]

    def failing():
        for i in hy.progress(range(10)):
            if i == 6:
                raise ValueError("six")

    with pytest.raises(ValueError, match="six"):
        failing()
    assert module._SCREEN.live is None
    assert "6/10" in drawn(terminal)

    def bad():
        yield 1
        raise OSError("of the iterable")

    with pytest.raises(OSError, match="of the iterable"):
        list(hy.progress(bad()))
    assert module._SCREEN.live is None
    with pytest.raises(TypeError):
        list(hy.progress(_Broken()))


class _Broken:
    def __iter__(self):
        return 3


@seen
def test_bars_within_bars(terminal):
    for _epoch in hy.progress(range(2), description="outer"):
        for _step in hy.progress(range(3), description="inner"):
            pass
        assert "inner" in drawn(terminal)
        assert [task.description for task in module._SCREEN.live.tasks] == ["outer"]
    *_, last, restored = drawn(terminal).splitlines()
    assert "outer" in last and "2/2" in last and restored == "\x1b[?25h"


@seen
def test_a_bar_may_be_gone_over_again(terminal):
    bar = hy.progress([1, 2])
    assert [list(bar), list(bar)] == [[1, 2], [1, 2]]


def test_quiet_without_a_terminal(capfd):
    bar = hy.progress(range(3), description="quiet")
    assert type(iter(bar)) is type(iter(range(3)))  # nothing in between
    for _i in bar:
        bar.set_postfix(loss=1.0)
    assert capfd.readouterr() == ("", "")


class Odd:
    """A stderr that cannot say what it is."""

    def write(self, text):
        raise AssertionError(text)


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, io.StringIO(), Odd(), closed()])
def test_quiet_without_stderr(stream):
    with contextlib.redirect_stderr(stream):
        assert list(hy.progress("ab")) == ["a", "b"]
    assert not isinstance(stream, io.StringIO) or stream.closed or stream.getvalue() == ""


def test_quiet_in_a_worker_process(terminal, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert list(hy.progress("ab")) == ["a", "b"]
    assert terminal.getvalue() == ""


PROGRAM = """
import sys, hybrid as hy
for i in (bar := hy.progress(range(5), description="steps")):
    bar.set_postfix(loss=i)
    print("printed", i, file=sys.stdout)
"""


def test_a_real_terminal_and_a_pipe(tmp_path):
    """On a pseudo-terminal the bar is drawn; what is printed to a pipe is whole."""
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", PROGRAM]
    away = {"cwd": tmp_path}  # from a checkout that is not built
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=environment, **away)
    os.close(follower)
    seen = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "steps" in seen and "5/5" in seen and seen.count("\x1b[?25h") == 1
    done = subprocess.run(command, capture_output=True, text=True, **away)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(f"printed {i}\n" for i in range(5))


# Captured ----------------------------------------------------------------------------------------

TABLE = Table()
X = draw(4)


@TABLE.runs((X, 3), (X, 0))
def a_number_of_times(x, n):
    for i in hy.progress(range(n), description="steps"):
        x = x * 2 + i
    return x


@TABLE.runs((X, f32(0.3)), (X, f32(1e9)))
def rows_and_a_loss(x, limit):
    total = x[0] * 0
    bar = hy.progress(x)
    for row in bar:
        total = total + row * row
        bar.set_postfix(loss=total)
        if total > limit:
            break
    return total


@TABLE.runs(X)
def as_other_code_goes_over_it(x):
    ys = [row * 2 for row in hy.progress(x)]
    for i, row in enumerate(hy.progress(x)):
        ys.append(row * i)
    for a, b in zip(hy.progress(x), hy.progress(range(4)), strict=True):
        ys.append(a * b)
    (a, b, c, d) = hy.progress(x)
    return hy.stack(ys), sum(hy.progress(x)), list(hy.progress(x)), a * b * c * d


@TABLE.runs((X, f32(0.0)), (X, f32(9.0)))
def over_a_list_that_grows(x, limit):
    kept = []
    for row in x:
        if row > limit:
            kept.append(row)
    total = limit
    bar = hy.progress(kept)
    for row in bar:
        total = total + row
    return total


@TABLE.runs((X, {"a": f32(1.0), "b": f32(2.0)}))
def bars_in_bars(x, named):
    for key in hy.progress(hy.progress(named)):
        for _step in hy.progress(range(3), total=3):
            x = x + named[key]
    return x


@TABLE.each()
def test_captured_as_the_loop_over_the_iterable(program):
    program.check_coverage()
    program.check()


def test_the_graph_is_that_of_the_plain_loop():
    def loop(x, items):
        for i in items:
            x = x * i + 1
        return x

    def shown(x):
        return loop(x, hy.progress(range(100), description="shown"))

    graphs = [hy.hybridize(f).graph(X) for f in (lambda x: loop(x, range(100)), shown)]
    plain, with_bar = [str(graph).partition("\n")[2] for graph in graphs]
    assert plain == with_bar and "for" in plain


@pytest.mark.parametrize("mode", ["auto", "trace"])
@seen
def test_nothing_is_shown_of_a_capture(terminal, mode):
    @hy.hybridize(mode=mode)
    def f(x):
        for i in (bar := hy.progress(range(3))):
            x = x + i
            bar.set_postfix(loss=x)
        return x

    np.testing.assert_array_equal(f(X).numpy(), (((X + 0) + 1) + 2).numpy())
    assert terminal.getvalue() == ""


def test_a_bar_from_outside_is_read_like_what_it_goes_over():
    numbers, rows = [1.0, 2.0], hy.asarray([1.0, 2.0, 3.0])
    bars = hy.progress(numbers), hy.progress(rows)

    @hy.hybridize
    def f(x):
        for number in bars[0]:
            x = x + number
        for row in bars[1]:
            x = x * row
        return x

    assert f(hy.ones(1)).tolist() == [24.0]
    rows += 1.0
    assert f(hy.ones(1)).tolist() == [96.0] and len(f.plans) == 1
    numbers.append(10.0)
    assert f(hy.ones(1)).tolist() == [336.0]


def test_an_iterator_from_outside_is_refused_as_ever():
    items = iter([1.0, 2.0])
    bar = hy.progress(items)

    def f(x):
        for i in bar:
            x = x + i
        return x

    with pytest.raises(
        CaptureError, match="a for loop takes items from a list_iterator that outlives"
    ):
        hy.hybridize(f)(X)


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: hy.progress(3),
            ArgumentTypeError,
            "progress() of 3, which cannot be iterated over\n"
            "Fix: give what the loop goes over, such as range(n) or a DataLoader.",
        ),
        (
            lambda: hy.progress([], total=2.5),
            ArgumentTypeError,
            "total is 2.5\nFix: give the number of items, or None.",
        ),
        (
            lambda: hy.progress([], total=-1),
            ArgumentError,
            "total is -1\nFix: give the number of items, or None.",
        ),
        (
            lambda: hy.progress([], description=b"x"),
            ArgumentTypeError,
            "description is b'x'\nFix: give a text.",
        ),
    ],
)
def test_errors(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == text
