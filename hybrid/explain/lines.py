"""Lines: what became of each line of a function, from the nodes, notes and lines of a capture."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from hybrid.core.dataclass import dataclass
from hybrid.errors import Location
from hybrid.explain.author_source import AuthorSource, Statement
from hybrid.explain.explanation import GuardRow, Line, Note
from hybrid.explain.nodes import Ref, loop_facts
from hybrid.explain.watch import Place
from hybrid.ops.support.operand_checks import plural

_MOST = 3  # notes of a kind on one line


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a capture, by place."""

    refs: Mapping[Place, Sequence[Ref]]
    notes: Mapping[Place, Sequence[str]]
    ran: frozenset[Place] | set[Place]
    calls: Mapping[Place, Sequence[Note]]
    guards: Sequence[GuardRow] = ()
    keys: Sequence[tuple[str, str]] = ()  # (name, text) of Python values among the arguments
    numbers: Sequence[tuple[str, str]] = ()  # what numbers_of() gives


def notes_by_place(notes: Sequence[tuple[Location | None, str]]) -> dict[Place, list[str]]:
    """The texts of ``notes``, each once, by where they belong."""
    found: dict[Place, list[str]] = {}
    for location, text in notes:
        if location is not None:
            texts = found.setdefault((location.path, location.line), [])
            text = text.replace(os.getcwd() + os.sep, "")
            if text not in texts:
                texts.append(text)
    return found


def lines_of(function: AuthorSource, seen: Seen, is_root: bool) -> Iterator[Line]:
    """Every line of ``function``; without source, those that made nodes."""
    if function.reason:
        for (path, number), refs in sorted(seen.refs.items()):
            if path == function.path and number >= function.first:
                yield _line(number, "", None, refs, [], seen, False, function)
        return
    heads = {statement.line: statement for statement in function.statements}
    for number, text in enumerate(function.lines, function.first):
        place = function.path, number
        refs, notes = seen.refs.get(place, ()), seen.notes.get(place, ())
        yield _line(number, text, heads.get(number), refs, notes, seen, is_root, function)


def _line(
    number: int,
    text: str,
    statement: Statement | None,
    refs: Sequence[Ref],
    notes: Sequence[str],
    seen: Seen,
    is_root: bool,
    function: AuthorSource,
) -> Line:
    kind, label, notes_here = _fate(function, statement, refs, notes, seen, number)
    more: list[Note] = [*notes_here]
    if statement is not None and kind != "not run":
        more += _dependencies(statement, seen, is_root, function)
    more += seen.calls.get((function.path, number), ())
    ops = tuple([ref.node.op.name for ref in refs])
    targets = tuple([ref.anchor for ref in refs])
    return Line(
        number=number,
        text=text,
        kind=kind,
        label=label,
        nodes=len(refs),
        ops=ops,
        targets=targets,
        notes=tuple(more),
    )


def _fate(
    function: AuthorSource,
    statement: Statement | None,
    refs: Sequence[Ref],
    notes: Sequence[str],
    seen: Seen,
    number: int,
) -> tuple[str, str, list[Note]]:
    """(kind, label, notes) of a line."""
    checks = [ref for ref in refs if ref.is_check]
    control = [ref for ref in refs if ref.node.regions and not ref.is_check]
    raised = {n for ref in checks for region in ref.node.regions for n in region.nodes}
    calls = [ref for ref in refs if ref.node.op.name == "py_call" and ref.node not in raised]
    unrolled = [note for note in notes if note.startswith("unrolled")]
    found: list[Note] = []
    if control:
        kind, label = control[0].node.op.name, control[0].label
        found += _about(control, statement)
        found += [Note("why", note) for note in unrolled]
    elif unrolled and _makes_nodes(function, statement, seen):
        kind = "unrolled"
        label, _, why = unrolled[0].partition(": ")
        found += [Note("why", text) for text in (why, *unrolled[1:]) if text]
    elif calls:
        kind = label = "py_call"
    elif checks and statement is not None and statement.is_assert:
        kind = label = "check"
        found.append(Note("node", "the plan raises AssertionError"))
        checks = []
    elif refs:
        kind = label = "graph"
    else:
        kind = label = _without_nodes(function, statement, seen, number)
    if calls:
        found.append(Note("node", "called at every run, in order with other calls"))
    if checks:
        found.append(Note("node", f"{plural(len(checks), 'check')} at every run"))
    return kind, label, found


def _about(control: Sequence[Ref], statement: Statement | None) -> Iterator[Note]:
    for index, ref in enumerate(control[: _MOST + 1]):
        facts = [] if index == 0 else [f"also {ref.label}"]
        if ref.node.op.name in ("for", "while"):
            facts.append(loop_facts(ref.node))
            if statement is not None and statement.is_for and ref.node.op.name == "while":
                facts.append("it may end early")
        if ref.inside:
            facts.append(f"in {ref.inside}")
        if facts:
            yield Note("node", ", ".join(facts), ref.anchor)
    if len(control) > _MOST + 1:
        yield Note("node", f"and {len(control) - _MOST - 1} more")


def _makes_nodes(function: AuthorSource, statement: Statement | None, seen: Seen) -> bool:
    """Whether a statement, with all that it holds or calls, made nodes."""
    if statement is None:
        return False
    numbers = range(statement.line, statement.end + 1)
    places = [(function.path, number) for number in numbers]
    return any(seen.refs.get(p) or seen.calls.get(p) for p in places)


def _without_nodes(
    function: AuthorSource, statement: Statement | None, seen: Seen, number: int
) -> str:
    if statement is None or number not in function.runs:
        return ""
    if (function.path, number) not in seen.ran:
        return "not run" if seen.ran else ""
    rest = range(number + 1, statement.last + 1)
    if any(seen.refs.get((function.path, n)) for n in rest):
        return ""  # the lines that follow it say what became of it
    return "jump" if statement.is_jump and _is_staged(function, statement, seen) else "python"


def _is_staged(function: AuthorSource, statement: Statement, seen: Seen) -> bool:
    """Whether a statement is in one that became a node."""
    around = [
        s.line for s in function.statements if s.line < statement.line and statement.line <= s.end
    ]
    return any(
        ref.node.regions and not ref.is_check
        for line in around
        for ref in seen.refs.get((function.path, line), ())
    )


def _dependencies(
    statement: Statement, seen: Seen, is_root: bool, function: AuthorSource
) -> Iterator[Note]:
    """Python values that the plan was made for and the statement reads."""
    if is_root:
        read = statement.locals - function.assigned
        keys = [text for name, text in seen.keys if re.split(r"[.\[]", name)[0] in read]
        yield from [Note("key", text) for text in keys[:_MOST]]
        if len(keys) > _MOST:
            yield Note("key", f"and {plural(len(keys) - _MOST, 'more key')}")
    names = {f" {name}" for name in statement.globals}
    names |= {f".{name}" for name in statement.attributes}
    if is_root:
        names |= {f"={name}" for name in statement.locals - function.assigned}
    inputs = [
        f"{text} is an input: read at every call" for name, text in seen.numbers if name in names
    ]
    yield from [Note("key", text) for text in inputs[:_MOST]]
    if len(inputs) > _MOST:
        yield Note("key", f"and {plural(len(inputs) - _MOST, 'more input')}")
    found = []
    for guard in seen.guards:
        if not guard.telling:
            continue
        scope, _, name = guard.name.rpartition(" ")
        if scope in ("global", "closure variable"):
            if name in statement.globals:
                found.append(guard)
        elif guard.name.rpartition(".")[2] in statement.attributes:
            found.append(guard)
    # Of attributes of one name, those of the method's own class are meant.
    own = {g.name for g in found if g.name.partition(".")[0] in function.name.split(".")[:-1]}
    attributes = {name.rpartition(".")[2] for name in own}
    found = [g for g in found if g.name in own or g.name.rpartition(".")[2] not in attributes]
    for guard in found[:_MOST]:
        yield Note("guard", f"guard: {guard.name} is {guard.value}")
    if len(found) > _MOST:
        yield Note("guard", f"and {plural(len(found) - _MOST, 'more guard')}")
