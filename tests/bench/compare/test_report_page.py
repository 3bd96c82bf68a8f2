"""The page: every case and every reason is on it, pictures hold what the table does."""

import subprocess
import sys
from html.parser import HTMLParser

import pytest

from hybrid.bench.compare import pictures
from hybrid.bench.compare.contenders import NAMES
from hybrid.bench.compare.report_page import page
from hybrid.bench.compare.rounds import Comparison, ContenderLine, Settings
from hybrid.bench.limits import Limit, Limits
from hybrid.bench.measure import SampleTiming

pytest.importorskip("matplotlib", reason="the extra plot is not installed")


def line(name: str, seconds: float) -> ContenderLine:
    timing = SampleTiming(seconds, seconds * 0.9, seconds * 1.1, 3, 1)
    return ContenderLine(name, timing=timing, first_call=10 * seconds, peak=3 << 20, loaded=1 << 20)


FOUND = [
    Comparison(
        "gemm", "2x2x2", (line("hybrid", 2.0), line("jax", 1.0)), 16.0, 48.0, {"jax": "0.1"}
    ),
    Comparison(
        "fused", "<1e3>",
        (
            line("hybrid", 1.0), ContenderLine("jax", "disagrees", "0 < 1"),
            ContenderLine("torch", "not supported"),
        ),
        7.0, 8.0,
    ),
]  # fmt: skip
LIMITS = Limits(1, (Limit("f32", "multiply & add", 1, 1e9, "FLOP/s"),
                    Limit("memory", "", 1, 1e9, "B/s")), ())  # fmt: skip


class Reader(HTMLParser):
    """Counts tags, and fails on those that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page() -> None:
    made = page(FOUND, Settings(rounds=3), LIMITS)
    reader = Reader()
    reader.feed(made)
    assert reader.open == [] and reader.rows == 1 + 4 + 2
    assert made.count("<svg") == 3 and "<script" not in made and "href" not in made.split("<svg")[0]
    for part in ("jax 0.1", "&lt;1e3&gt;", "0.50x", "disagrees: 0 &lt; 1", "multiply &amp; add",
                 "torch: no program for fused"):  # fmt: skip
        assert part in made
    assert "What the machine can do" not in page(FOUND, Settings(), None)
    assert page([], Settings(), None).count("<svg") == 3


def test_the_pictures_hold_the_figures() -> None:
    (axes,) = pictures.dots(FOUND, pictures.beside_ours, "times", one=True).axes
    drawn = {drawn.get_label(): drawn.get_xydata().tolist() for drawn in axes.get_lines()}
    assert drawn["jax"] == [[0.5, 0]] and drawn["hybrid"] == [[1, 0], [1, 1]]
    assert "torch" not in drawn
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["gemm: 2x2x2", "fused: <1e3>"]
    (axes,) = pictures.dots(FOUND, pictures.first_call, "seconds").axes
    drawn = {drawn.get_label(): drawn.get_xydata().tolist() for drawn in axes.get_lines()}
    assert drawn == {"hybrid": [[20, 0], [10, 1]], "jax": [[10, 0]]}
    assert pictures.memory(FOUND[0], FOUND[0].lines[0]) == 3


def test_everyone_has_a_colour() -> None:
    assert len(set(pictures.COLOURS.values())) == len(NAMES)


def test_without_matplotlib_nothing_is_measured() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None; sys.argv[1:] = "
        "['bench', 'compare', 'dispatch', '--html', '/dev/null']; import hybrid.__main__; "
        "hybrid.__main__.main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 2
    assert "hybrid bench compare --html needs the package matplotlib" in found.stderr
