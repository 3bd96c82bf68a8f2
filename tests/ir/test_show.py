"""Drawings of graphs: what Graphviz is told, the page that needs nothing, and what goes wrong."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings

import hybrid.ops  # noqa: F401
from hybrid.core.types import float32, tensor_type
from hybrid.errors import ArgumentError, GraphError, Location
from hybrid.ir import Builder, Graph, get_op, parse
from hybrid.ir.show_dot import dot_source
from hybrid.ir.show_page import page
from tests.ir.test_printer import CONTROL
from tests.markup import read
from tests.random_graphs import control_graphs, unhurried

F4 = tensor_type(float32, (4,))


def small() -> Graph:
    builder = Builder("net.<locals>.step")
    x = builder.param(F4, "x")
    place = Location("model.py", 12, '    y = exp(x)  # "<&>"')
    (y,) = builder.apply(get_op("exp"), [x], hints=["y"], location=place)
    builder.apply(get_op("py_call"), [y], {"function": print}, location=place)
    return builder.finish([y])


@pytest.fixture
def with_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program called dot that draws what it is told as text."""
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "<svg> $1"; cat; echo "</svg>"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return program


@pytest.fixture
def without_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_graphviz_draws_when_it_is_there(with_dot: Path) -> None:
    path = small().show()
    assert path == Path("net_locals_step.svg")
    text = path.read_text(encoding="utf-8")
    assert text == f"<svg> -Tsvg\n{dot_source(small())}</svg>\n"


def test_a_page_is_written_when_it_is_not(without_dot: None) -> None:
    path = small().show()
    assert path == Path("net_locals_step.html")
    assert path.read_text(encoding="utf-8") == page(small())


def test_the_name_decides(with_dot: Path, tmp_path: Path) -> None:
    assert small().show(tmp_path / "a.html") == tmp_path / "a.html"
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page(small())
    assert small().show(str(tmp_path / "a.svg")) == tmp_path / "a.svg"
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg>")


def test_a_graph_without_a_name(without_dot: None) -> None:
    assert Graph("", (), (), ()).show() == Path("graph.html")


def test_what_graphviz_is_told() -> None:
    text = dot_source(small())
    assert text.startswith('digraph "net.<locals>.step" {\n')
    assert 'n1 [label="%x: f32[4]", tooltip="%x: f32[4]", fillcolor="#dbeafe"];' in text
    tip = r"model.py:12\ny = exp(x)  # \"<&>\""
    label = r"exp\n%y: f32[4]"
    assert f'n2 [label="{label}", tooltip="{tip}", fillcolor="#ffffff"];' in text
    label = r"py_call\nfunction=<print>\ntypes=()"
    assert f'n3 [label="{label}", tooltip="{tip}", fillcolor="#fde68a"];' in text
    edges = re.findall(r"(n\d+) -> (n\d+)", text)
    assert edges == [("n1", "n2"), ("n2", "n3"), ("n2", "n4")]
    assert 'n1 -> n2 [tooltip="%x: f32[4]"];' in text


def test_regions_are_clusters_in_clusters() -> None:
    text = dot_source(parse(CONTROL))
    labels = re.findall(r'subgraph cluster_\d+ \{\n +label="(\w*)"', text)
    assert labels == ["", "then", "else", "", "body", "", "body", "", "then", "else"]
    assert text.count("{") == text.count("}")
    assert text.count('xlabel="next"') == 2  # of the two loops


@settings(unhurried, max_examples=20)
@given(control_graphs(observable=True))
def test_every_edge_joins_boxes_that_are_there(graph: Graph) -> None:
    text = dot_source(graph)
    boxes = set(re.findall(r"^ *(n\d+) \[label", text, re.MULTILINE))
    edges = re.findall(r"^  (n\d+) -> (n\d+) \[", text, re.MULTILINE)
    assert boxes.issuperset(end for edge in edges for end in edge)
    assert text.count(" -> ") == len(edges)


def test_the_page_says_what_the_text_says() -> None:
    parsed = read(page(small()))
    assert "%y: f32[4] = exp %x" in parsed.text
    assert "py_call %y {function=<print>, types=()}" in parsed.text
    assert parsed.titles == ['model.py:12\ny = exp(x)  # "<&>"'] * 2


@settings(unhurried, max_examples=20)
@given(control_graphs(observable=True))
def test_every_page_is_balanced(graph: Graph) -> None:
    assert read(page(graph)).text.count("return") >= 1


def test_regions_can_be_closed() -> None:
    text = page(parse(CONTROL))
    assert text.count("<details open") == 4
    assert text.count('<div class="region">') == 6
    assert "then(%x: f32[3])" in read(text).text


def test_long_attributes_are_cut() -> None:
    data = "0x" + "00" * 64
    graph = parse(
        f"graph @f() {{ %c: u8[64] = literal {{shape=(64,), dtype=u8, data={data}}} return }}"
    )
    assert "data=" + data[:37] + "..." in dot_source(graph)
    assert data not in page(graph)


def failure(kind: type, path: str) -> str:
    with pytest.raises(kind) as caught:
        small().show(path)
    return str(caught.value)


def test_a_name_that_says_nothing(with_dot: Path) -> None:
    assert failure(ArgumentError, "graph.png") == (
        "a graph cannot be drawn into graph.png\n"
        "The end of the name says what is drawn: .svg or .html.\n"
        "Fix: let the name end in .svg or .html."
    )


def test_an_svg_without_graphviz(without_dot: None) -> None:
    assert failure(GraphError, "graph.svg") == (
        "graph.svg cannot be drawn: the program dot is not installed\n"
        "SVG files are drawn by Graphviz; pages (.html) need nothing.\n"
        "Fix: install graphviz, or let the name end in .html."
    )


def test_a_folder_that_is_not_there(without_dot: None) -> None:
    assert failure(GraphError, "absent/graph.html") == (
        "absent/graph.html cannot be written: No such file or directory\n"
        "Fix: give a path in a folder that exists and may be written to."
    )


def test_graphviz_that_fails(with_dot: Path) -> None:
    with_dot.write_text("#!/bin/sh\necho out of ideas >&2; exit 3\n", encoding="utf-8")
    assert failure(GraphError, "graph.svg") == (
        f"graph.svg cannot be drawn: {with_dot} failed\n"
        "out of ideas\n"
        "Fix: let the name end in .html to draw without Graphviz."
    )


def test_real_graphviz_accepts_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed; elsewhere the text is checked by its braces and quotes alone."""
    text = dot_source(parse(CONTROL))
    dot = shutil.which("dot")
    if dot is None:
        assert re.sub(r'"(?:[^"\\]|\\.)*"', "", text).count('"') == 0
        return
    done = subprocess.run([dot, "-Tsvg"], input=text, capture_output=True, text=True, check=True)
    assert done.stderr == "" and done.stdout.count("<g id=") > 30


def test_notebooks_show_the_boxes_of_the_page():
    for graph in (small(), parse(CONTROL)):
        html = graph._repr_html_()
        read(html)
        assert html in page(graph) and "<html" not in html
        rules = html.partition("<style>")[2].partition("</style>")[0].split("}")
        plain = [rule.split("{")[-2] for rule in rules if rule.strip() and "{" in rule]
        assert all(
            rule.strip().startswith(".hybrid-graph") for rule in plain
        )  # the page's are kept


def test_notebooks_are_spared_of_very_large_graphs(monkeypatch):
    monkeypatch.setattr("hybrid.ir.show_page.MANY", 1)
    assert read(parse(CONTROL)._repr_html_()).texts == [
        f"{parse(CONTROL)!r}: too many to draw here; show() draws them into a file"
    ]
