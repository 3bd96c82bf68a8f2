"""Queue batches: inputs of loop steps that are read where their queue has made them.

A batch that only the iteration it belongs to reads need not be copied out of the queue: its buffer
becomes a row of itself, always the same one, which the step that asks the queue points to the
batch.  No result is written over it.
"""

from __future__ import annotations

from hybrid.plan.lower import is_whole
from hybrid.plan.steps import Buffer, Lowered, Step, step_touches, walk


def queue_batches(lowered: Lowered) -> dict[Buffer, Step]:
    """The buffers of batches that are not copied out of their queue, each with its loop."""
    found: dict[Buffer, Step] = {}
    for loop in lowered.walk():
        if loop.control is None or loop.control.kind not in ("for", "while"):
            continue
        [body] = loop.blocks
        asking = [step for step in walk(body) if _extra_outputs(step) is not None]
        if len(asking) == 1 and asking[0] in body:
            buffers = _batch_buffers(lowered, body, asking[0])
            found.update(dict.fromkeys(buffers, loop))
    return found


def _extra_outputs(step: Step) -> int | None:
    """Of a step that asks a queue, how many outputs are not of the batch."""
    return None if step.call is None else getattr(step.call.function, "asks_queue", None)


def _batch_buffers(lowered: Lowered, body: list[Step], asking: Step) -> list[Buffer]:
    views = asking.outputs[: len(asking.outputs) - (_extra_outputs(asking) or 0)]
    buffers = [view.buffer for view in views]
    inside = set(walk(body))
    spoilt: set[Buffer] = set()  # written by others, moved by loops, or known outside
    for step in lowered.walk():
        if step not in inside:
            spoilt.update(step_touches(step))
        elif step is not asking:
            spoilt.update(view.buffer.root for view in step.outputs)
        if step.control is not None:
            spoilt.update(b.base for b in step.control.carried if b.base is not None)
            spoilt.update(step.control.homes)
            spoilt.update(source.root for _, source in step.control.moves)
    fit = [
        view.buffer.kind == "arena"
        and view.buffer.root is view.buffer
        and is_whole(view)
        and view.buffer not in spoilt
        for view in views
    ]
    return buffers if all(fit) and len(set(buffers)) == len(buffers) else []
