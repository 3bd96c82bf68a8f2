"""In a terminal: colours, and rows that wrap in their column."""

import io
import re

import pytest
from rich.console import Console

import hybrid as hy
from hybrid.explain.explanation import Explanation
from hybrid.explain.terminal import LABELS, NOTES
from tests.explain import samples
from tests.explain.test_explanation import NET, ROOT


@pytest.fixture
def explanation(monkeypatch: pytest.MonkeyPatch) -> Explanation:
    monkeypatch.chdir(ROOT)
    with hy.no_grad():
        return samples.Net(2, 3).hybridize().explain(hy.ones((2, 2)))


def printed(explanation: Explanation, width: int, **options: object) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, **options)  # type: ignore[arg-type]
    console.print(explanation)
    return file.getvalue()


def test_wide_terminals_show_the_plain_text(explanation: Explanation) -> None:
    lines = [line.rstrip() for line in printed(explanation, 120).splitlines()]
    assert lines == NET.splitlines()


def test_nothing_is_wider_than_the_terminal(explanation: Explanation) -> None:
    lines = printed(explanation, 60).splitlines()
    assert max(map(len, lines)) <= 60
    at = next(i for i, line in enumerate(lines) if "hy.relu(-h)" in line)
    assert [line.rstrip() for line in lines[at : at + 4]] == [
        "27  7  cond %4                   h = hy.relu(-h) if h.min()",
        "                         < -1 else -h",
        "                                 ^ in the else of cond %16",
        "28                           # one by one",
    ]


def test_colours(explanation: Explanation) -> None:
    text = printed(explanation, 120, force_terminal=True, color_system="standard")
    text = re.sub(r" +(?=\x1b\[0m)", "", text)  # cells are filled up
    assert "\x1b[1;35mcond %16\x1b[0m" in text
    assert "\x1b[1;34mfor %24\x1b[0m" in text
    assert "\x1b[1;33munrolled 3 times\x1b[0m" in text
    assert "\x1b[35m^ guard: global SCALE is 2.0\x1b[0m" in text
    assert "\x1b[2m        return h\x1b[0m" in text  # not run
    assert '\x1b[32m"norm"\x1b[0m' in text


def test_show(explanation: Explanation, capsys: pytest.CaptureFixture[str]) -> None:
    explanation.show()
    assert capsys.readouterr().out.startswith("Net(f32[2,2]): 45 nodes")


def test_every_kind_has_a_colour(explanation: Explanation) -> None:
    lines = [line for function in explanation.functions for line in function.lines]
    assert {line.kind for line in lines} <= LABELS.keys()
    assert {note.kind for line in lines for note in line.notes} <= NOTES.keys()
