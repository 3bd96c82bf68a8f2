"""What commands share: types in, functions in, and one line out when something is wrong."""

from pathlib import Path

import pytest
import typer

from hybrid.cli.user_input import fail, load_function, parse_types


def message(capsys: pytest.CaptureFixture[str], stopped: pytest.ExceptionInfo[typer.Exit]) -> str:
    """The one line that was printed on stderr."""
    assert stopped.value.exit_code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_fail_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stopped:
        fail(ValueError("no kernel\n    for it,  twice\nFix: write another.\n"))
    expected = "hybrid: no kernel. for it, twice. Fix: write another."
    assert message(capsys, stopped) == expected


def test_parse_types() -> None:
    types = parse_types(["f32[8,4]", "int64[3]", "bool[]", " f64[ 2 , 1 ] ", "u8[0]"])
    assert list(map(str, types)) == ["f32[8,4]", "i64[3]", "bool[]", "f64[2,1]", "u8[0]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "no brackets": (
            "f32",
            "'f32' is not a tensor type. Fix: write a dtype and a shape, as in f32[8,4].",
        ),
        "a negative size": (
            "f32[-1]",
            "'f32[-1]' is not a tensor type. Fix: write a dtype and a shape, as in f32[8,4].",
        ),
        "a lost comma": (
            "f32[3,]",
            "'f32[3,]' is not a tensor type. Fix: write a dtype and a shape, as in f32[8,4].",
        ),
        "an unknown dtype": (
            "f31[8]",
            "'f31[8]' has an unknown dtype 'f31'. Fix: use one of bool, i8, i16, i32, i64, u8, "
            "u16, u32, u64, f16, bf16, f32, f64.",
        ),
    }.values(),
)
def test_parse_types_says_what_is_wrong(
    text: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as stopped:
        parse_types([text])
    assert message(capsys, stopped) == f"hybrid: {expected}"


def test_too_many_dimensions_fail(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stopped:
        parse_types(["f32[" + ",".join("1" * 33) + "]"])
    assert "33 dimensions" in message(capsys, stopped)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of the user's with a neighbour that it imports."""
    (tmp_path / "neighbour_of_model.py").write_text("FACTOR = 3\n", encoding="utf-8")
    path = tmp_path / "model_for_load.py"
    path.write_text(
        "from neighbour_of_model import FACTOR\n"
        "WIDTH = 8\n"
        "def triple(x):\n    return FACTOR * x\n"
        "class Net:\n    @staticmethod\n    def forward(x):\n        return x\n",
        encoding="utf-8",
    )
    return path


def test_load_function_from_a_file(model: Path) -> None:
    assert load_function(f"{model}:triple")(2) == 6
    assert load_function(f"{model}:Net.forward")(2) == 2


def test_load_function_from_a_module() -> None:
    assert load_function("math:sqrt")(9) == 3


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("triple", "'triple' does not name a function."),
        ("{model}:", "does not name a function."),
        ("{model}:tripel", "has no 'tripel'. Fix: did you mean 'triple'?"),
        ("{model}:WIDTH", "is not callable: its type is int."),
        ("absent.py:f", "there is no file absent.py."),
        ("absent_module:f", "does not import: ModuleNotFoundError: No module named"),
        ("math:sqrtt", "math has no 'sqrtt'. Fix: did you mean 'sqrt'?"),
    ],
)
def test_load_function_says_what_is_wrong(
    target: str, expected: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as stopped:
        load_function(target.format(model=model))
    assert expected in message(capsys, stopped)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_a_file_that_does_not_import(
    source: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(typer.Exit) as stopped:
        load_function(f"{path}:f")
    line = message(capsys, stopped)
    assert "does not import: " in line and expected in line
