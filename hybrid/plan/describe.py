"""Plans as text: the names of steps, and the order in which they run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.plan.costs import step_seconds
from hybrid.plan.schedule import depends_on
from hybrid.plan.steps import Step


def step_name(step: Step) -> str:
    """The name of ``step``: its kernels, with a plus between those of maps and post-ops."""
    if step.control is not None:
        return step.control.kind
    if step.call is not None:
        if getattr(step.call.function, "asks_queue", None) is not None:
            return "next batch"
        return f"host {getattr(step.call.function, '__name__', 'function')}"
    if step.says:
        return "fail" if step.says == "error" else "print"
    ops = [op.kernel for op in step.ops]
    return "+".join([step.kernel, *ops] if step.kernel else ops)


def step_types(step: Step) -> str:
    """The types of ``step`` as text: ``f32[8,4] f32[4] -> f32[8,4]``."""
    inputs, outputs = ([_type(view) for view in views] for views in (step.inputs, step.outputs))
    return " ".join([*inputs, "->", *outputs])


def _type(view: Any) -> str:
    return f"{view.dtype.short}[{','.join(map(str, view.shape))}]"


@dataclass(slots=True)
class _Row:
    step: Step
    waits: set[int]  # for these rows of its block
    wave: int
    group: int  # that it is in, from 1 on; 0: none
    member: int


def schedule_text(name: str, steps: Sequence[Step], numbers: dict[Step, int]) -> str:
    """The steps of a plan as text, in order, blocks inside each other.

    For each step: its number, for how many others of its block it waits, its wave (the most that
    wait for each other before it), about how long it takes alone, and which member of which group
    it is in.
    """
    rows = _rows(steps)
    groups = max([row.group for row in rows], default=0)
    waves = max([row.wave + 1 for row in rows], default=0)
    head = f"{name}: {_counted(len(rows), 'step')} in {_counted(waves, 'wave')}"
    head += f", {_counted(groups, 'group')} side by side"
    lines = [head, " step  waits for  wave        about  what"]
    lines += _lines(rows, numbers, "")
    return "\n".join(lines) + "\n"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _lines(rows: Sequence[_Row], numbers: dict[Step, int], indent: str) -> Iterator[str]:
    for row in rows:
        step = row.step
        about = f"{step_seconds(step) * 1e6:,.1f} us" if step.computes else ""
        where = f"group {row.group}, member {row.member}: " if row.group else ""
        at = step.location
        place = "" if at is None else f"  # {os.path.basename(at.path)}:{at.line}"
        what = f"{indent}{where}{step_name(step)} {step_types(step)}{place}"
        yield f"{numbers[step]:>5}  {len(row.waits):>9}  {row.wave:>4}  {about:>11}  {what}"
        for block in step.blocks:
            yield from _lines(_rows(block), numbers, indent + "    ")


def _rows(steps: Sequence[Step]) -> list[_Row]:
    """Those of one block, in order, members of groups among them."""
    flat: list[tuple[Step, int, int]] = []
    group = 0
    for step in steps:
        if not step.is_group:
            flat.append((step, 0, 0))
            continue
        group += 1
        flat += [(s, group, at) for at, block in enumerate(step.blocks, 1) for s in block]
    rows: list[_Row] = []
    for (step, number, member), waits in zip(
        flat, depends_on([step for step, _, _ in flat]), strict=True
    ):
        wave = max([rows[at].wave + 1 for at in waits], default=0)
        rows.append(_Row(step, waits, wave, number, member))
    return rows
