"""Build: an explanation from a capture and what was watched while it was made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybrid.convert.conversion import is_converted_code
from hybrid.convert.source import NoSource, definition_of
from hybrid.errors import Location
from hybrid.explain.argument_names import authors_function, keys_of
from hybrid.explain.author_source import AuthorSource, written
from hybrid.explain.explanation import Explanation, Function, Note
from hybrid.explain.inputs import guard_rows, inputs_of, numbers_of, paths_of, slot_name
from hybrid.explain.lines import Seen, lines_of, notes_by_place
from hybrid.explain.nodes import by_place, refs
from hybrid.explain.watch import Place, Watch
from hybrid.ops.support.operand_checks import plural
from hybrid.trace.alias.row_limits import needs_run
from hybrid.trace.capture.captured_graph import Capture

LAYERS = "layers of hybrid that no line above calls"


def build(
    name: str,
    function: Callable[..., Any],
    capture: Capture,
    watch: Watch,
    *,
    call: Sequence[str],
    leaves: Sequence[Any],
    names: Sequence[str],
    numbers: frozenset[int],
    mode: str,
    verdict: str,
    plans: Sequence[tuple[str, str]],
    sizes: Iterable[str],
    caller: Location | None,
) -> Explanation:
    """Tell ``capture`` of ``function`` along its source."""
    found = refs(capture.graph)
    places = by_place(found)
    functions = _shown_functions(watch, places)
    paths = paths_of(capture, function, leaves, names)
    outer = numbers_of(capture, paths)
    guards = guard_rows(capture, outer)
    keys = [
        (name, text)
        for name, text in keys_of(function, leaves, names, numbers)
        if f"={name}" not in dict(outer)
    ]
    anchors = {id(w): f"function{index}" for index, w in enumerate(functions)}
    calls = _calls(watch, functions, anchors)
    seen = Seen(
        refs=places,
        notes=notes_by_place(capture.notes),
        ran=watch.lines,
        calls=calls,
        guards=guards,
        keys=keys,
        numbers=outer,
    )
    root = _begin(authors_function(function))
    told = tuple(
        Function(
            w.name,
            f"{_short(w.path)}:{w.first}",
            _remark(w, watch, mode),
            tuple(lines_of(w, seen, (w.path, w.first) == root)),
            anchors[id(w)],
        )
        for w in functions
    )
    return Explanation(
        name=name,
        call=tuple(call),
        verdict=verdict,
        summary=_summary(capture, len(found)),
        functions=told,
        elsewhere=_elsewhere(places, functions, caller),
        inputs=inputs_of(capture, names, paths),
        writes=tuple(slot_name(write.address, paths, write.key) for write in capture.place_writes),
        guards=guards,
        plans=tuple(plans),
        sizes=tuple(sizes),
        graph=capture.graph,
    )


def _begin(function: Any) -> Place | None:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)


def _shown_functions(watch: Watch, places: dict[Place, Any]) -> list[AuthorSource]:
    """The functions that were traced, those inside others left out, in the order of calls."""
    made = {path for path, _ in places}
    found = [written(code) for code in watch.functions.values()]
    found = [w for w in found if not w.reason or w.path in made]
    shown = []
    for inner in found:
        outer = [w for w in found if w is not inner and _holds(w, inner)]
        if not outer and not any(_same(inner, known) for known in shown):
            shown.append(inner)
    return shown


def _holds(outer: AuthorSource, inner: AuthorSource) -> bool:
    if outer.path != inner.path or outer.reason:
        return False
    size, inner_size = outer.last - outer.first, inner.last - inner.first
    return outer.first <= inner.first and inner.last <= outer.last and size > inner_size


def _same(a: AuthorSource, b: AuthorSource) -> bool:
    """Whether two are one piece of source: lambdas on one line, parts of a file without source."""
    return a.path == b.path and (a.first, a.last) == (b.first, b.last)


def _remark(function: AuthorSource, watch: Watch, mode: str) -> str:
    """Why the control flow of ``function`` was not converted."""
    codes = [
        code
        for (path, first, _), code in watch.functions.items()
        if (path, first) == (function.path, function.first)
    ]
    if any(is_converted_code(code) for code in codes):
        return ""
    if mode == "trace":
        return 'traced as it is: mode="trace"'
    for code in codes:
        try:
            definition_of(code)
        except NoSource as error:
            return f"traced as it is: {error}"
    return "traced as it is: it is marked with no_convert, or a library called it"


def _calls(
    watch: Watch, functions: Sequence[AuthorSource], anchors: dict[int, str]
) -> dict[Place, list[Note]]:
    by_begin = {(w.path, w.first): w for w in functions}
    found: dict[Place, list[Note]] = {}
    for (path, line), callees in watch.calls.items():
        for begin in callees:
            callee = by_begin.get(begin)
            if callee is None or (path == callee.path and callee.first <= line <= callee.last):
                continue
            note = Note("call", f"calls {callee.name}", anchors[id(callee)])
            found.setdefault((path, line), []).append(note)
    return found


def _elsewhere(
    places: dict[Place, Any], functions: Sequence[AuthorSource], caller: Location | None
) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for (path, line), here in places.items():
        if any(w.path == path and (w.reason or w.first <= line <= w.last) for w in functions):
            continue
        here_called = caller is not None and (path, line) == (caller.path, caller.line)
        unknown = not path or here_called
        text = LAYERS if unknown else f"{_short(path)}:{line}"
        counts[text] = counts.get(text, 0) + len(here)
    return tuple(sorted(counts.items(), key=lambda item: -item[1]))


def _short(path: str) -> str:
    return path.removeprefix(os.getcwd() + os.sep)


def _summary(capture: Capture, nodes: int) -> str:
    parts = [plural(nodes, "node")]
    top = len(capture.graph.nodes)
    if top != nodes:
        parts[0] += f", {nodes - top} of them in regions"
    if capture.gradient is not None:
        backward = sum(1 for _ in capture.gradient.backward.graph.walk())
        parts.append(f"backward {plural(backward, 'node')}")
        if needs_run(capture.graph):
            parts[-1] = "backward op by op: only a run tells which items of a list are one tensor"
    return "; ".join(parts)
