"""``hybrid graph`` prints the graph that hybridize would run, and one line when there is none."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybrid.cli.app import build

SOURCE = """
import hybrid as hy

def double(x):
    return hy.tanh(x) * 2.0 * 1.0

def leave(x):
    return x.numpy()

network = hy.nn.Sequential(hy.nn.Linear(4, 3), hy.nn.ReLU())
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model_for_graph.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def lines_of(*args: str) -> list[str]:
    """What the command prints when all goes well."""
    done = CliRunner().invoke(build(), ["graph", *args])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def failure(*args: str) -> str:
    """The one line that the command prints when it cannot do what was asked."""
    done = CliRunner().invoke(build(), ["graph", *args])
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    return line


def test_as_captured(model: Path) -> None:
    lines = lines_of(f"{model}:double", "-i", "f32[8,4]", "--no-optimize")
    assert lines[0].startswith("graph @double(%") and "f32[8,4]" in lines[0] and lines[-1] == "}"
    assert [line.split(" = ")[1].split()[0] for line in lines if " = " in line] == [
        "tanh",
        "full",
        "multiply",
        "full",
        "multiply",
    ]


def test_symbols_for_sizes(model: Path) -> None:
    lines = lines_of(f"{model}:double", "-i", "f32[n, 4]", "--no-optimize")
    assert lines[0].startswith("graph @double<n = 37>(%") and "f32[n,4]" in lines[0]
    assert "graph @double<n = 37>" in "\n".join(lines_of(f"{model}:double", "-i", "f32[n,4]"))
    assert failure(f"{model}:double", "-i", "f32[n+1,4]") == (
        "hybrid: 'f32[n+1,4]' is not a tensor type. Fix: write a dtype and a shape, as in f32[8,4]."
    )


def test_each_node_names_its_line(model: Path) -> None:
    lines = lines_of(f"{model}:double", "-i", "f32[8,4]", "--no-optimize")
    assert [line.partition("  # ")[2] for line in lines[1:-2]] == [f"{model}:5"] * 5


def test_after_the_passes(model: Path) -> None:
    text = "\n".join(lines_of(f"{model}:double", "-i", "f32[8,4]"))
    assert "tanh" in text and text.count("multiply") == 1  # x * 1 is x


def test_a_module(model: Path) -> None:
    text = "\n".join(lines_of(f"{model}:network", "-i", "f32[8,4]", "--no-optimize"))
    assert "matmul" in text and "relu" in text


def test_into_a_file(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    assert lines_of(f"{model}:double", "-i", "f32[2]", "-o", str(path)) == []
    expected = lines_of(f"{model}:double", "-i", "f32[2]")
    assert path.read_text(encoding="utf-8").splitlines() == expected


def test_a_drawing(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "double.html"
    assert lines_of(f"{model}:double", "-i", "f32[2]", "--html", str(path)) == [
        f"{path} shows @double."
    ]
    assert f'title="{model}:5\n' in path.read_text(encoding="utf-8")


def test_a_drawing_of_an_unknown_kind(model: Path) -> None:
    line = failure(f"{model}:double", "-i", "f32[2]", "--html", "double.png")
    assert line == (
        "hybrid: --html: a graph cannot be drawn into double.png. The end of the name says what is "
        "drawn: .svg or .html. Fix: let the name end in .svg or .html."
    )


def test_what_cannot_be_captured(model: Path) -> None:
    line = failure(f"{model}:leave", "-i", "f32[8]")
    assert line.startswith(f"hybrid: {model}:leave: ")
    assert "return x.numpy()" in line and "Fix: " in line


def test_another_number_of_inputs(model: Path) -> None:
    line = failure(f"{model}:double")
    assert "double() missing 1 required positional argument: 'x'" in line


def test_an_output_that_cannot_be_written(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "absent" / "graph.txt"
    line = failure(f"{model}:double", "-i", "f32[2]", "-o", str(path))
    assert line == f"hybrid: --output {path} cannot be written: No such file or directory."


def test_a_model_that_is_built_by_a_script_has_no_lines_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("from hybrid import nn\nnet = nn.Sequential(nn.Linear(3, 4), nn.ReLU())\n")
    for start in ([sys.executable, "-m", "hybrid"], [str(Path(sys.executable).parent / "hybrid")]):
        done = subprocess.run(
            [*start, "graph", f"{path}:net", "-i", "f32[2,3]"], capture_output=True, text=True,
            check=True, cwd=tmp_path,
        )  # fmt: skip
        assert "graph @Sequential" in done.stdout and "#" not in done.stdout
