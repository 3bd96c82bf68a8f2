"""Comparisons as one HTML page with pictures: no script, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from hybrid.bench.compare import pictures
from hybrid.bench.compare.comparison_report import FAULTS, cells, headings, remarks
from hybrid.bench.compare.contenders import OURS
from hybrid.bench.compare.rounds import Comparison, Settings
from hybrid.bench.limits import Limits
from hybrid.bench.report import facts, figures

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1f2937; background: #ffffff;
  max-width: 1100px; margin: 0 auto; padding: 1.5em; }
h2 { font-size: 1.15em; margin: 1.8em 0 .5em; }
table { border-collapse: collapse; }
th, td { padding: .1em .8em .1em 0; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid #cbd5e1; }
td.name, th.name { text-align: left; }
tr.case td { border-top: 1px solid #e2e8f0; }
tr.ours td { font-weight: 600; color: #1d4ed8; }
td.fault { color: #b91c1c; text-align: left; }
.faint { color: #6b7280; }
svg { max-width: 100%; height: auto; }
"""
PICTURES = (
    ("Time, beside hybrid's", pictures.beside_ours, "times as long as hybrid", True),
    ("First call", pictures.first_call, "seconds, with whatever is compiled", False),
    ("Memory of the process", pictures.memory, "MiB at most", False),
)


def page(comparisons: Sequence[Comparison], settings: Settings, limits: Limits | None) -> str:
    """The whole document."""
    body = "\n".join(_parts(comparisons, settings, limits))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        "<title>hybrid beside other frameworks</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _parts(
    comparisons: Sequence[Comparison], settings: Settings, limits: Limits | None
) -> Iterator[str]:
    yield "<h1>hybrid beside other frameworks</h1>"
    versions: dict[str, str] = {}
    for comparison in comparisons:
        versions |= comparison.versions
    machine = facts()
    yield f"<p>{escape(', '.join(f'{name} {version}' for name, version in versions.items()))}</p>"
    yield (
        f'<p class="faint">{escape(machine["processor"])}, {escape(machine["system"])}; '
        f"threads: {settings.threads}, medians of {settings.rounds} rounds in turns, "
        f"{settings.clock} time</p>"
    )
    for title, place, label, one in PICTURES:
        yield f"<h2>{escape(title)}</h2>"
        yield pictures.svg(pictures.dots(comparisons, place, label, one=one))
    yield "<h2>Everything</h2>"
    yield from _table(comparisons, limits)
    if limits is not None:
        yield "<h2>What the machine can do</h2>\n<table>"
        for row in limits.rows:
            rate = f"{figures(row.rate / 1e9)} G{row.unit}"
            yield _row([(row.name, "name"), (row.what, "name"), (rate, "")])
        yield "</table>"
    if notes := remarks(comparisons):
        yield "<h2>Left out</h2>\n<ul>"
        yield from (f"<li>{escape(note)}</li>" for note in notes)
        yield "</ul>"


def _table(comparisons: Sequence[Comparison], limits: Limits | None) -> Iterator[str]:
    names = "".join(f'<th class="name">{name}</th>' for name in ("workload", "case", "peer"))
    rest = "".join(f"<th>{escape(heading)}</th>" for heading in headings(limits))
    yield f"<table>\n<tr>{names}{rest}</tr>"
    for comparison in comparisons:
        case = [(comparison.workload, "name"), (comparison.case, "name")]
        for line in comparison.lines:
            if line.state not in ("timed", *FAULTS):
                continue
            told = [(str(cell), "") for cell in cells(comparison, line, limits)]
            if line.timing is None:
                told = [(line.state, "fault")]
            kinds = ("case " if case[0][0] else "") + ("ours" if line.name == OURS else "")
            yield _row([*case, (line.name, "name"), *told], kinds.strip())
            case = [("", "name"), ("", "name")]
    yield "</table>"


def _row(told: Sequence[tuple[str, str]], kind: str = "") -> str:
    """A row of (text, class) in a class of its own."""
    parts = "".join(_tag("td", escape(text), of) for text, of in told)
    return _tag("tr", parts, kind)


def _tag(name: str, content: str, kind: str) -> str:
    return f'<{name} class="{kind}">{content}</{name}>' if kind else f"<{name}>{content}</{name}>"
