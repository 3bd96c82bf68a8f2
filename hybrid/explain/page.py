"""An explanation as one HTML page, light or dark as its reader's system is: no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from hybrid.explain.author_source import Span, spans
from hybrid.explain.explanation import Explanation, Function, Line
from hybrid.explain.plain_text import guard_line, tables
from hybrid.ir.graph import Graph, Node
from hybrid.ir.printer import print_lines

STYLE = """
.hybrid-explain { color-scheme: light dark; --text: #1f2937; --faint: #6b7280; --page: #ffffff;
  --card: #f8fafc; --line: #e2e8f0; --cond: #a21caf; --loop: #1d4ed8; --unrolled: #a16207;
  --call: #0e7490; --graph: #15803d; --keyword: #7c3aed; --literal: #15803d; --key: #be185d;
  color: var(--text); background: var(--page); font: 14px/1.5 system-ui, sans-serif;
  max-width: 1100px; margin: 0 auto; padding: 1.5em; }
@media (prefers-color-scheme: dark) { .hybrid-explain { --text: #e5e7eb; --faint: #9ca3af;
  --page: #0f172a; --card: #1e293b; --line: #334155; --cond: #e879f9; --loop: #93c5fd;
  --unrolled: #facc15; --call: #67e8f9; --graph: #86efac; --keyword: #c4b5fd;
  --literal: #86efac; --key: #f9a8d4; } }
.hybrid-explain h1 { margin: 0; }
.hybrid-explain h1 code { font-size: 1.3rem; }
.hybrid-explain h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
.hybrid-explain p { margin: .3em 0; }
.hybrid-explain a { color: inherit; }
.hybrid-explain .faint { color: var(--faint); font-weight: normal; }
.hybrid-explain .remark { color: var(--unrolled); }
.hybrid-explain .card { background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: .5em .8em; overflow-x: auto; }
.hybrid-explain .card, .hybrid-explain code { font: 13px/1.55 ui-monospace, Menlo, Consolas,
  "DejaVu Sans Mono", monospace; }
.hybrid-explain table { border-collapse: collapse; }
.hybrid-explain td { padding: 0 1.2em 0 0; vertical-align: top; white-space: pre;
  text-align: left; }
.hybrid-explain td.number { color: var(--faint); text-align: right; }
.hybrid-explain td.label { font-weight: 600; }
.hybrid-explain .label a { text-decoration: none; }
.hybrid-explain .label a:hover { text-decoration: underline; }
.hybrid-explain .cond .label { color: var(--cond); }
.hybrid-explain .for .label, .hybrid-explain .while .label { color: var(--loop); }
.hybrid-explain .unrolled .label { color: var(--unrolled); }
.hybrid-explain .py_call .label, .hybrid-explain .check .label { color: var(--call); }
.hybrid-explain .graph .label, .hybrid-explain .jump .label { color: var(--graph);
  font-weight: normal; }
.hybrid-explain .python .label { color: var(--faint); font-weight: normal; }
.hybrid-explain .not-run td { color: var(--faint); font-weight: normal; opacity: .7; }
.hybrid-explain tr:target td, .hybrid-explain .row:target { background: var(--line); }
.hybrid-explain .note { color: var(--faint); font-style: italic; }
.hybrid-explain .note.why { color: var(--unrolled); }
.hybrid-explain .note.key, .hybrid-explain .note.guard { color: var(--key); }
.hybrid-explain .keyword { color: var(--keyword); }
.hybrid-explain .text, .hybrid-explain .digits { color: var(--literal); }
.hybrid-explain .comment { color: var(--faint); font-style: italic; }
.hybrid-explain .row { white-space: pre; }
.hybrid-explain .row a { text-decoration: none; }
.hybrid-explain .row a:hover { text-decoration: underline; }
.hybrid-explain summary { cursor: pointer; }
"""
BODY = """
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #0f172a; } }
"""
_CLASSES = {"keyword": "keyword", "text": "text", "number": "digits", "comment": "comment"}


def explanation_page(explanation: Explanation) -> str:
    """The whole document."""
    title = escape(f"{explanation.name}, explained")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{BODY}</style>\n</head>\n<body>\n{explanation_fragment(explanation)}\n</body>\n</html>\n"
    )


def explanation_fragment(explanation: Explanation) -> str:
    """The page without what surrounds it, for a notebook."""
    body = "\n".join(_parts(explanation))
    return f'<style>{STYLE}</style>\n<div class="hybrid-explain">\n{body}\n</div>'


def _parts(explanation: Explanation) -> Iterator[str]:
    call = escape(f"{explanation.name}({', '.join(explanation.call)})")
    yield f"<h1><code>{call}</code></h1>"
    yield f'<p class="faint">{escape(explanation.summary)}</p>'
    yield f"<p>{escape(explanation.verdict)}</p>"
    if not explanation.functions:
        yield "<p>No line of yours was traced: there is no source to show.</p>"
    for function in explanation.functions:
        yield from _function(function)
    for title, rows in tables(explanation):
        if title.startswith("Guards"):
            yield from _guards(title, explanation)
        else:
            yield f"<h2>{escape(title)}</h2>"
            yield from _card(rows)
    yield "<h2>Graph</h2>"
    yield '<div class="card">'
    yield from _graph(explanation.graph, _lines_of_nodes(explanation))
    yield "</div>"


def _function(function: Function) -> Iterator[str]:
    place = f'<span class="faint">{escape(function.place)}</span>'
    yield f'<h2 id="{function.anchor}">{escape(function.name)} {place}</h2>'
    if function.remark:
        yield f'<p class="remark">{escape(function.remark)}</p>'
    yield '<div class="card"><table>'
    coloured = spans([line.text for line in function.lines])
    for line, parts in zip(function.lines, coloured, strict=True):
        yield _row(function, line, parts)
    yield "</table></div>"


def _row(function: Function, line: Line, parts: Sequence[Span]) -> str:
    label = escape(line.label)
    if line.targets:
        ops = escape(", ".join(line.ops), quote=True)
        label = f'<a href="#{line.targets[0]}" title="{ops}">{label}</a>'
    notes = "".join([_note(line, note.kind, note.text, note.target) for note in line.notes])
    kind = line.kind.replace(" ", "-")
    return (
        f'<tr class="{kind}" id="{_anchor(function, line)}">'
        f'<td class="number">{line.number}</td>'
        f'<td class="number">{line.nodes or ""}</td>'
        f'<td class="label">{label}</td><td>{_code(line, parts)}{notes}</td></tr>'
    )


def _anchor(function: Function, line: Line) -> str:
    return f"{function.anchor}-{line.number}"


def _code(line: Line, parts: Sequence[Span]) -> str:
    found, at = [], 0
    for start, end, kind in () if line.kind == "not run" else parts:
        found.append(escape(line.text[at:start]))
        found.append(f'<span class="{_CLASSES[kind]}">{escape(line.text[start:end])}</span>')
        at = end
    return "".join([*found, escape(line.text[at:])])


def _note(line: Line, kind: str, text: str, target: str) -> str:
    inner = f'<a href="#{target}">{escape(text)}</a>' if target else escape(text)
    indent = " " * (len(line.text) - len(line.text.lstrip()))
    return f'<div class="note {kind}">{indent}↑ {inner}</div>'


def _card(rows: Sequence[str]) -> Iterator[str]:
    yield '<div class="card">'
    yield from [f'<div class="row">{escape(row)}</div>' for row in rows]
    yield "</div>"


def _guards(title: str, explanation: Explanation) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>"
    yield from _card([guard_line(row) for row in explanation.guards if row.telling])
    rest = [guard_line(row) for row in explanation.guards if not row.telling]
    if rest:
        yield "<details><summary>functions, modules, objects and registries</summary>"
        yield from _card(rest)
        yield "</details>"


def _lines_of_nodes(explanation: Explanation) -> dict[str, str]:
    """The anchor of the line that made it, by the anchor of a node."""
    return {
        target: _anchor(function, line)
        for function in explanation.functions
        for line in function.lines
        for target in line.targets
    }


def _graph(graph: Graph, lines: dict[str, str]) -> Iterator[str]:
    """The text of the graph; each node links to its line."""
    seen: set[int] = set()
    for text, source in print_lines(graph):
        identity, link = "", escape(text)
        if isinstance(source, Node) and id(source) not in seen:
            anchor = f"node{len(seen)}"
            seen.add(id(source))
            identity = f' id="{anchor}"'
            if anchor in lines:
                indent = text[: len(text) - len(text.lstrip())]
                link = f'{indent}<a href="#{lines[anchor]}">{escape(text.lstrip())}</a>'
        yield f'<div class="row"{identity}>{link}</div>'
