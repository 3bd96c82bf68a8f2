"""Texts that plans write are those of Python and NumPy, and what they raise is what they name."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import GraphError, OutOfRangeError, ProgramError
from hybrid.ir import REGISTRY, Builder, parse
from hybrid.ops.flow.messages import is_format, written
from hybrid.plan import make_plan
from hybrid.plan.interpret import interpret

SAY, STOP = REGISTRY["say"], REGISTRY["stop"]
FLOATS = (
    *("", ".3f", ".0f", "8.2f", "+.1f", " .2f", "010.3f", "<9.1f", "^9.1f", ">12.4f"),
    *("e", ".0e", "12.3E", "+.10e", "g", ".3g", ".10G", "#g", "#.0f", "#.3e", "%", ".1%"),
    *(",.2f", "_.1f", ",", ".4", ".17", ".1", "12", "*^20.3f", "=+9.1f", "é>9.1f", "_e", ".40f"),
)
INTS = (
    *("", "d", "5d", "05d", "+d", " d", "<6d", "^7d", "=+8d", ",d", "_d", ",", "x", "X", "#x"),
    *("#X", "o", "#o", "b", "#b", "_x", "_b", "#010x", "*>12d", ".2f", "e", ".3g", "%", ",.1f"),
)


def said(capsys: Any, operand: Any, text: str) -> str:
    capsys.readouterr()
    SAY(operand, text=text)
    return capsys.readouterr().out


def floats(dtype: Any) -> list[float]:
    """Numbers of every size, near halves and powers of two, and those that are no numbers."""
    draw = np.random.default_rng(5)
    bits = draw.integers(0, 2**64, 150, np.uint64, endpoint=False)
    found = bits.view(np.float64) if dtype is np.float64 else bits.view(np.float32)[::2]
    plain = draw.normal(size=60) * 10.0 ** draw.integers(-6, 9, 60)
    short = draw.integers(-(10**6), 10**6, 60) / 10.0 ** draw.integers(0, 7, 60)
    powers = np.ldexp(1.0, draw.integers(-120, 120, 40))
    edges = [0.0, -0.0, 1.0, 0.5, 1.5, 2.5, 9.995, 999999.5, 1e16, 1e17, 9999999999999998.0]
    edges += [1e-4, 9.9999e-5, 1e-5, 1e8, 99999999.0, 5e-324, np.inf, -np.inf, np.nan, 0.1, 1 / 3]
    with np.errstate(all="ignore"):
        return list(np.concatenate([found, plain, short, powers, edges]).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_written_as_python_writes_them(capsys: Any, dtype: Any) -> None:
    text = "\n".join([f"{{0:{spec}}}" for spec in FLOATS])
    for x in floats(dtype):
        assert said(capsys, hy.asarray(x), text) == text.format(float(x)), repr(x)


SHAPES = (
    *((), (1,), (3,), (20,), (2, 3), (3, 1, 4), (0,), (2, 0), (5, 20), (999,), (1001,), (40, 50)),
    *((8, 8, 20), (2, 600), (2, 2, 2, 2), (7, 1001), (1100, 1), (3, 3, 3, 3, 13), (13,) * 3),
)


def drawn_array(draw: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Of few or many digits, alike or of very different sizes, with and without infinities."""
    if dtype is np.bool_:
        return np.asarray(draw.random(shape) < 0.5)
    if issubclass(dtype, np.integer):
        limits = np.iinfo(dtype)
        if draw.random() < 0.5:
            return np.asarray(draw.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        return np.asarray(draw.integers(max(limits.min, -20), 100, shape), dtype)
    x = draw.normal(size=shape)
    widest = 300 if dtype is np.float64 else 38
    kinds = {
        0: lambda: x,
        1: lambda: x * 10.0 ** draw.integers(-10, 10, shape),
        2: lambda: np.round(x, 2),
        3: lambda: np.round(x * 1000),
        4: lambda: np.where(x < -1, np.nan, np.where(x > 1, np.inf * np.sign(x + 1), x)),
        5: lambda: x * 10.0 ** draw.integers(-widest, widest),
        6: lambda: np.where(x < 0, -0.0, np.where(x > 1, 0.0, x * 10.0 ** draw.integers(-5, 9))),
        7: lambda: np.where(x < 0, -np.inf, np.nan),
    }
    with np.errstate(all="ignore"):
        return np.asarray(kinds[int(draw.integers(0, 8))](), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.int8, np.int64, np.uint64])
def test_tensors_are_written_as_numpy_writes_them(capsys: Any, dtype: Any) -> None:
    old = np.array2string(np.asarray(2**20, np.float32)) == "1048576."  # before NumPy 2.3
    draw = np.random.default_rng(7)
    for _ in range(12 if issubclass(dtype, np.floating) else 2):
        for shape in SHAPES:
            x = drawn_array(draw, dtype, shape)
            finite = np.abs(x[np.isfinite(x)]) if dtype is np.float32 else np.zeros(0)
            if not (old and finite.size and 1e6 <= finite.max() < 1e8):
                expected = np.array2string(x, separator=", ", prefix="tensor(")
                assert said(capsys, hy.asarray(x), "{0!t}") == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_without_axes(capsys: Any, dtype: Any) -> None:
    old = np.array2string(np.asarray(2**20, np.float32)) == "1048576."
    for x in floats(dtype):
        if not (old and dtype is np.float32 and 1e6 <= abs(x) < 1e8):
            assert said(capsys, hy.asarray(x), "{0!t}") == np.array2string(np.asarray(x)), repr(x)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_ints_are_written_as_python_writes_them(capsys: Any, dtype: str) -> None:
    draw = np.random.default_rng(6)
    text = "\n".join([f"{{0:{spec}}}" for spec in INTS])
    if dtype == "bool":
        values = np.asarray([True, False])
    else:
        limits = np.iinfo(dtype)
        edges = [limits.min, limits.max, 0, 1, limits.max // 2]
        drawn = draw.integers(limits.min, limits.max, 40, dtype, endpoint=True)
        values = np.asarray([*edges, *drawn.tolist()], dtype)
    for x in values:
        assert said(capsys, hy.asarray(x), text) == text.format(x.item())
        assert said(capsys, hy.asarray(x), "{0!t}") == np.array2string(np.asarray(x))


def test_every_power_of_two(capsys: Any) -> None:
    """Where the neighbours of a number are not equally far."""
    for exponent in range(-1074, 1024, 7):
        x = float(np.ldexp(1.0, exponent))
        assert said(capsys, hy.asarray(x, dtype=hy.float64), "{0}") == str(x)


def test_all_parts_of_formats_together(capsys: Any) -> None:
    parts = ["", "<", ">", "^", "=", "*<", "0="], ["", "+", " "], ["", "#"], ["", "7"], ["", ".2"]
    specs = ["".join(each) for each in itertools.product(*parts, ["f", "e", "g", ""])]
    assert all(map(is_format, specs))
    text = "|".join([f"{{0:{spec}}}" for spec in specs])
    for x in (0.0, -1.5, 1234567.891, 1e300):
        assert said(capsys, hy.asarray(x, dtype=hy.float64), text) == text.format(x)


def test_braces_and_several_numbers(capsys: Any) -> None:
    SAY(hy.asarray(3), hy.asarray([2.5]), text="{{{1}}} é {0:>3d}{{}}\n", stream="stderr")
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "{2.5} é   3{}\n")


def test_the_reference_and_the_interpreter_say_the_same(capsys: Any) -> None:
    graph = parse(
        'graph @f(%x: f32[], %n: i64[]) {\n  say %x, %n {stream="stdout", text="{0!t} {1:4d}\\n"}\n'
        '  stop %n {at="", text="KeyError: {0}"}\n  return\n}'
    )
    assert parse(str(graph)) == graph
    arrays = [np.asarray(0.1, np.float32), np.asarray(7)]
    assert written("{0!t} {1:4d}\n", arrays) == "0.1    7\n"
    with pytest.raises(KeyError, match="7"):
        interpret(make_plan(graph), arrays)
    assert capsys.readouterr().out == "0.1    7\n"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("ValueError: {0} is: too much", ValueError, "5 is: too much"),
        ("AssertionError", AssertionError, ""),
        ("OutOfRangeError: index {0}", OutOfRangeError, "index 5 (train.py:12)"),
        ("Missing: {0}", ProgramError, "Missing: 5 (train.py:12)"),
        ("UnicodeDecodeError: {0}", ProgramError, "UnicodeDecodeError: 5 (train.py:12)"),
        ("SystemExit: {0}", ProgramError, "SystemExit: 5 (train.py:12)"),
        ("NumberRangeError: {0}", ProgramError, "NumberRangeError: 5 (train.py:12)"),
    ],
)
def test_what_is_raised(text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        STOP(hy.asarray(5), text=text, at="train.py:12")
    assert type(caught.value) is kind
    assert str(caught.value).split("\n")[0] == said
    if kind in (ValueError, AssertionError):
        assert caught.value.__notes__ == ["train.py:12\n    12 | "]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{1}", "there is no operand {1} of say"),
        ("{}", "there is no operand {} of say"),
        ("{x}", "there is no operand {x} of say"),
        ("{0", "the text of say: expected '}' before end of string"),
        ("}", "the text of say: Single '}' encountered in format string"),
        ("{0!r}", "say cannot write a number as 'r'"),
        ("{0:n}", "say cannot write a number as 'n'"),
        ("{0:1000}", "say cannot write a number as '1000'"),
        ("{0:.101f}", "say cannot write a number as '.101f'"),
        ("{0:010,}", "say cannot write a number as '010,'"),
        ("{0:{0}}", "say cannot write a number as '{0}'"),
    ],
)
def test_texts_that_cannot_be_written(text: str, message: str) -> None:
    builder = Builder("f")
    x = builder.param(hy.ones(()).type)
    with pytest.raises(GraphError) as caught:
        builder.apply(SAY, (x,), {"text": text})
    assert caught.value.what == message


def test_operands_and_streams_that_do_not_fit() -> None:
    with pytest.raises(GraphError, match=r"say cannot write operand 0, f32\[2\]"):
        SAY(hy.ones(2), text="{0}")
    with pytest.raises(GraphError, match=r"stop cannot write operand 0, bf16\[\]"):
        STOP(hy.ones((), dtype=hy.bfloat16), text="{0!t}")
    with pytest.raises(GraphError, match=r"say cannot write operand 0, i8\["):
        SAY(hy.zeros((2,) * 15, dtype=hy.int8), text="{0!t}")
    with pytest.raises(GraphError, match="say to 'file'"):
        SAY(text="a", stream="file")


class Broken:
    """A stream that is gone."""

    def write(self, text: str) -> None:
        raise BrokenPipeError("gone")


def test_a_stream_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Broken())
    with pytest.raises(BrokenPipeError, match="gone"):
        SAY(text="a")
