"""An explanation as plain text: the same rows that the terminal shows in colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hybrid.explain.explanation import Explanation, Function, GuardRow
from hybrid.ops.support.operand_checks import plural

MARK = "^ "  # begins what is told of the line above


def explanation_text(explanation: Explanation) -> str:
    """All of it."""
    blocks = [list(head(explanation))]
    blocks += [function_lines(f, widths(explanation)) for f in explanation.functions]
    blocks += [[title, *rows] for title, rows in tables(explanation)]
    return "\n\n".join("\n".join(block) for block in blocks)


def head(explanation: Explanation) -> Iterator[str]:
    yield f"{explanation.name}({', '.join(explanation.call)}): {explanation.summary}"
    yield explanation.verdict
    if not explanation.functions:
        yield "No line of yours was traced: there is no source to show."


def widths(explanation: Explanation) -> tuple[int, int, int]:
    """Of the columns before the source: line numbers, numbers of nodes, labels."""
    lines = [line for function in explanation.functions for line in function.lines]
    return (
        max([len(str(line.number)) for line in lines], default=0),
        max([len(str(line.nodes)) for line in lines if line.nodes], default=0),
        max([len(line.label) for line in lines], default=0),
    )


def function_lines(function: Function, columns: tuple[int, int, int]) -> list[str]:
    lines = [title(function)]
    if function.remark:
        lines.append(function.remark)
    number, count, label = columns
    for line in function.lines:
        nodes = str(line.nodes) if line.nodes else ""
        row = f"{line.number:>{number}}  {nodes:>{count}}  {line.label:<{label}}  {line.text}"
        lines.append(row.rstrip())
        indent = " " * (number + count + label + 6 + len(line.text) - len(line.text.lstrip()))
        lines += [f"{indent}{MARK}{note.text}" for note in line.notes]
    return lines


def title(function: Function) -> str:
    return f"{function.name}  {function.place}"


def tables(explanation: Explanation) -> Iterator[tuple[str, list[str]]]:
    """(title, rows) of what follows the source."""
    if explanation.elsewhere:
        rows = [f"{plural(count, 'node')}  {place}" for place, count in explanation.elsewhere]
        yield "Nodes of other lines", rows
    if explanation.inputs:
        yield "Inputs", list(input_rows(explanation))
    if explanation.sizes:
        yield "Sizes", list(explanation.sizes)
    if explanation.writes:
        yield "Attributes that a run sets", list(explanation.writes)
    if explanation.guards:
        yield "Guards: what must be as it was", list(guard_lines(explanation.guards))
    if explanation.plans:
        rows = []
        for index, (plan, why) in enumerate(explanation.plans, 1):
            rows += [f"{index}. {plan}", f"   built because: {why}"]
        yield "Plans in the cache", rows


def input_rows(explanation: Explanation) -> Iterator[str]:
    rows = explanation.inputs
    names, types = (max(len(getattr(r, f)) for r in rows) for f in ("name", "type"))
    for row in rows:
        written = ", written back" if row.written else ""
        yield f"{row.name:<{names}}  {row.type:<{types}}  {row.source}{written}"


def guard_lines(rows: Sequence[GuardRow]) -> Iterator[str]:
    telling = [row for row in rows if row.telling]
    yield from map(guard_line, telling)
    rest = sum(row.count for row in rows if not row.telling)
    if rest:
        more = "more " if telling else ""
        yield f"{rest} {more}on functions, modules, objects and hybrid's own registries"


def guard_line(row: GuardRow) -> str:
    times = f"  ({row.count} times)" if row.count > 1 else ""
    verb = "are" if "defaults of " in row.name else "is"
    return f"{row.name} {verb} {row.value}{times}"
