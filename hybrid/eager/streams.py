"""Streams: what runs in one is queued, and Python goes on at once.

::

    with hybrid.stream() as s:
        for _ in range(10):
            y = x @ x  # queued in some microseconds
    print(y)  # waits for the last product

A tensor that queued work is yet to compute has its type at once and, in place of its value,
something to wait with (``hybrid.memory.work_queue``); whatever reads bytes waits.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

from hybrid.core.types import TensorType
from hybrid.eager.execution import Eager, beside_numbers, in_float32, prepare, stored_result
from hybrid.eager.launch import Launch, launch_of
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentError, CaptureError, author_location
from hybrid.ir import Op, Value
from hybrid.ir.interpreter import authors_call, current, interpreting
from hybrid.ir.record import record_call, set_record, with_regions
from hybrid.memory import native
from hybrid.memory.work_queue import Waiting, WorkQueue
from hybrid.memory.work_queue import wait_all as _wait_all
from hybrid.plan import Plan


class Streaming(Eager):
    """Eager, which queues what it is to compute."""

    queues = True

    def __init__(self, queue: WorkQueue) -> None:
        self.queue = queue

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        given = op.attributes(attrs)
        tensors, launch = (operands, None) if regions else _remembered(op, operands, given)
        if launch is None:
            narrow = stored_result(op, operands)
            if narrow is not None:
                return in_float32(self, op, operands, attrs, narrow)
            tensors = prepare(self, op, operands)
            results = self.run(op, tensors, given, regions)
        else:
            results = self.launched(launch, op, tensors, given)
        for t in tensors:
            if t.record is not None:
                record_call(op, tensors, with_regions(given, regions), results)
                break
        return results[0] if len(results) == 1 else results

    def run(
        self, op: Op, tensors: Sequence[Tensor], attrs: tuple, regions: tuple = ()
    ) -> tuple[Tensor, ...]:
        if op.name == "py_call":
            self.queue.wait()
        return super().run(op, tensors, attrs, regions)

    def launched(
        self, launch: Launch, op: Op, tensors: Sequence[Tensor], attrs: tuple
    ) -> tuple[Tensor, ...]:
        if launch.is_alias:
            return (make_tensor(launch.type, tensors[0].content),)
        plan = launch.plan or _plan_of_view(op, tensors[0].type, attrs)
        made = self.queued(plan, tensors)
        return super().launched(launch, op, tensors, attrs) if made is None else tuple(made)

    def queued(self, plan: Plan, operands: Sequence[Tensor]) -> list[Tensor] | None:
        """The results of ``plan``, which is queued.

        None if it calls Python: it is to be run now, when all that is queued is done.
        """
        if plan.calls_python:
            self.queue.wait()
            return None
        made = self.start(plan, [t.content for t in operands])
        return [make_tensor(t, data) for t, data in zip(plan.output_types, made, strict=True)]

    def start(self, plan: Plan, datas: Sequence[Any]) -> list[Waiting]:
        """Queue a run of ``plan``: what stands for its results."""
        return self.queue.submit(
            plan, [native.allocate(t.nbytes) for t in plan.output_types], datas
        )

    def assign(self, cell: Tensor, value: Tensor) -> None:
        self.will_write(cell, value.content)
        super().assign(cell, value)

    def will_write(self, cell: Tensor, data: Any) -> None:
        """``cell`` is to hold ``data``, until what is queued by now is known to have failed."""
        self.queue.on_failure(functools.partial(_put_back, cell, data, cell.content, cell.record))

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        self.queue.on_failure(functools.partial(_reset, owner, name, value, getattr(owner, name)))
        super().write_tensor_attribute(owner, name, value)


def _remembered(
    op: Op, operands: Sequence[Any], attrs: tuple
) -> tuple[Sequence[Any], Launch | None]:
    """The launch of a call that was met before, and what it is on; None for the general way."""
    try:
        types = tuple([t.type for t in operands])
    except AttributeError:
        found = beside_numbers(operands) if op.promotes is True else None
        if found is None:
            return operands, None
        operands, types = found, tuple([t.type for t in found])
    for t in operands:
        if isinstance(t.content, Value):
            return operands, None
    return operands, op.launches.get((types, attrs) if attrs else types)


@functools.lru_cache(maxsize=1024)
def _plan_of_view(op: Op, type_: TensorType, attrs: tuple) -> Plan:
    """What copies the part of an operand that the result is."""
    plan = launch_of(op, (type_,), attrs, views=False).plan
    assert plan is not None
    return plan


def _put_back(cell: Tensor, written: Any, data: Any, record: Any) -> None:
    if cell.content is written or (
        isinstance(written, Waiting) and cell.content is written.buffer  # which was waited for
    ):
        cell.content = data
        set_record(cell, record)


def _reset(owner: Any, name: str, written: Any, value: Any) -> None:
    if getattr(owner, name) is written:
        object.__setattr__(owner, name, value)


class Stream:
    """Work in order, done by a thread of its own; see ``stream``."""

    def __init__(self) -> None:
        self._queue = WorkQueue()
        self._interpreter = Streaming(self._queue)
        self._own = threading.local()  # .blocks: those that this thread is in

    def __enter__(self) -> Stream:
        _refuse_captured("a stream", "take it out of the function, and call that in the stream")
        block = interpreting(self._interpreter)
        block.__enter__()
        self._own.__dict__.setdefault("blocks", []).append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        self._own.blocks.pop().__exit__(None, None, None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all that is queued now is done; raises the first failure among it.

        With ``timeout``, in seconds, at most so long: False if it was not done by then.
        """
        if timeout is not None and not timeout >= 0:
            raise ArgumentError(f"a timeout of {timeout!r}", fix="give seconds, or None")
        return self._queue.wait(timeout)

    def done(self) -> bool:
        """Whether nothing is queued or under way; raises nothing."""
        return self._queue.is_done()

    def __repr__(self) -> str:
        return f"<stream, {'done' if self.done() else 'at work'}>"


def stream() -> Stream:
    """A stream: in a ``with`` block of it, eager operations and hybridized calls are queued.

    They take some microseconds each, while a thread of the C library, without the GIL, does the
    work in order; their results have types and shapes at once.  Leaving the block waits for
    nothing.  What reads a value waits for it: ``numpy()``, ``item()``, ``bool()``, printing,
    saving, DLPack, and operations outside of the stream.  Operations that make a result of a shape
    that depends on values (``nonzero``, masks), and what calls Python (``print``, ``assert``,
    ``py_call`` in hybridized functions), wait for the stream and are done at once.  Hybridized
    calls wait where values tell which tensor a result is (``return x if s > 0 else y``), or whether
    it has a history, as eager code waits at the branch.  Bits are those
    of the same code without a stream; so are random draws, gradients, and what is written to
    tensors.

    What fails is raised where it is waited for, with the line that queued it; what was queued after
    it is cancelled, and tensors that were written since then (``x += y``, ``assign``, parameters
    in ``optimizer.step()``) hold again what they held before.  The first wait for any of it, or
    ``wait_all``, raises the error itself, later ones for cancelled values a CancelledError; the
    stream can be used on.

    At most 1024 calls, and 256 MiB of results, are queued; then queueing waits.  Arrays that NumPy
    shares with a tensor may change, so they are copied when queued: ``hybrid.asarray(array,
    copy=True)`` does that once.  Blocks may be nested, entered again, and used by several threads;
    streams run side by side, and work that needs a value of another stream waits for it there.  A
    fork waits for all that is queued.  What is still queued when the interpreter exits is dropped.

    Raises CaptureError inside a hybridized function: there, steps that do not depend on each other
    run side by side as they are.
    """
    return Stream()


_submitted = threading.local()  # .stream: of what this thread has submitted outside of any


@authors_call
def submit(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call this in a stream: the result is there at once, and its tensors wait for their values.

    The stream is the one whose block this is in, else one of this thread that is kept for that; so
    what a thread submits is done in order.  The result is what the call returns, not a future
    around it: tensors are futures here (as in MXNet and JAX), so they go into other calls without
    waiting.  A Python number in the result is waited for.  See ``hybrid.stream`` for all else.
    """
    _refuse_captured("submit", "call the function itself")
    if isinstance(current(), Streaming):
        return self(*args, **kwargs)
    if not hasattr(_submitted, "stream"):
        _submitted.stream = Stream()
    with _submitted.stream:
        return self(*args, **kwargs)


def wait_all() -> None:
    """Wait until all that any thread has queued in any stream is done.

    Raises the first failure that no wait has raised yet, with the line that queued the work.
    """
    _refuse_captured("wait_all", "take it out of the function")
    _wait_all()


def _refuse_captured(what: str, fix: str) -> None:
    interpreter = current()
    if type(interpreter) not in (Eager, Streaming):
        where = "a hybridized function" if interpreter.traces else "vmap, checkpoint or summary"
        raise CaptureError(
            f"{what} inside {where}",
            at=author_location(),
            why="What is queued would be what stands for values, not values."
            if not interpreter.traces
            else "A plan is queued as a whole; steps of it that do not depend on each other run "
            "side by side.",
            fix=fix,
        )
