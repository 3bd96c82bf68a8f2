"""The page: one file that needs nothing else, every part of it escaped and linked."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hybrid as hy
from hybrid.explain.explanation import Explanation
from tests.explain import samples
from tests.explain.test_explanation import NET, ROOT

VOID = {"meta", "br", "link", "img"}


class Reader(HTMLParser):
    """The text, the ids and the links of a page whose tags must match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attrs)
        assert "src" not in found and not any(name.startswith("on") for name in found)
        if found.get("id"):
            self.ids.append(found["id"] or "")
        if "href" in found:
            self.links.append(found["href"] or "")
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("tr", "div", "h1", "h2", "p"):
            self.rows.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.rows and "style" not in self.open:
            self.rows[-1] += data


@pytest.fixture
def explanation(monkeypatch: pytest.MonkeyPatch) -> Explanation:
    monkeypatch.chdir(ROOT)
    with hy.no_grad():
        return samples.Net(2, 3).hybridize().explain(hy.ones((2, 2)))


@pytest.fixture
def page(explanation: Explanation, tmp_path: Path) -> str:
    path = explanation.html(tmp_path / "net.html")
    assert path == tmp_path / "net.html"
    return path.read_text(encoding="utf-8")


def test_it_stands_alone(page: str) -> None:
    reader = Reader(page)
    assert reader.open == []
    assert page.startswith("<!DOCTYPE html>\n") and "<title>Net, explained</title>" in page
    assert not reader.tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?:|url\(|@import", page)


def test_light_and_dark(page: str) -> None:
    assert '<meta name="color-scheme" content="light dark">' in page
    assert page.count("@media (prefers-color-scheme: dark)") == 2
    light, dark = (set(re.findall(r"--\w+(?=:)", part)) for part in _palettes(page))
    assert light == dark and len(light) == 13


def _palettes(page: str) -> tuple[str, str]:
    light, dark = re.findall(r"\.hybrid-explain \{([^}]*)\}", page)
    return light, dark


def test_it_says_what_the_text_says(page: str) -> None:
    rows = [re.sub(r"\s+", " ", row).strip() for row in Reader(page).rows]
    assert [row for row in rows if row][:3] == [
        "Net(f32[2,2])",
        "45 nodes, 18 of them in regions",
        "a call builds a new plan: first call",
    ]
    said = "".join(rows).replace(" ", "")
    for line in NET.splitlines()[2:-1]:
        assert line.strip().replace("^", "↑").replace(" ", "") in said, line


def test_links_lead_somewhere(page: str) -> None:
    reader = Reader(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert '<a href="#function1">calls squash</a>' in page


def test_nodes_link_to_their_lines(page: str, explanation: Explanation) -> None:
    line = next(x for x in explanation.functions[0].lines if x.label == "for %24")
    row = re.search(r'<div class="row" id="(\w+)">([^\n]*= for )', page)
    assert row is not None and row[1] in line.targets
    assert f'href="#function0-{line.number}"' in row[2]


def test_what_is_written_is_escaped() -> None:
    def f(x, tag):
        if tag == "<b>&":
            return x
        return -x

    html = hy.hybridize(f).explain(hy.ones(1), "<b>&")._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;&amp;" in html
    assert html.startswith("<style>") and "<html" not in html


def test_all_guards_are_there(page: str, explanation: Explanation) -> None:
    assert "<details><summary>functions, modules, objects and registries</summary>" in page
    for row in explanation.guards:
        assert f">{row.name} " in page


def test_nothing_of_the_author() -> None:
    net = hy.nn.Sequential(hy.nn.ReLU()).hybridize()
    html = net.explain(hy.ones((1, 2)))._repr_html_()
    assert "<p>No line of yours was traced: there is no source to show.</p>" in html
