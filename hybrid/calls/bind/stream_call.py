"""Binding for streams: a call queues a run of its plan and does not wait.

All that depends on no values is done at once, as in ``generate.py``: histories are recorded, cells
and attributes are set to what stands for their values.  Nothing is written in place.  A call waits
where values tell which tensors its results are, or whether these have a history, as eager code
waits at a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybrid.calls.bind.function_text import BindingSubject, FunctionText
from hybrid.calls.bind.generate import WRITER, Binding
from hybrid.calls.bind.precomputed import PrecomputedResults
from hybrid.eager.tensor import Tensor, refuse_leaked
from hybrid.ir.interpreter import current
from hybrid.memory import native
from hybrid.plan import Plan


class QueuedBinding(Binding):
    """The writer of a ``call(leaves)`` that queues its plan.

    ``whole`` makes the plan that does without precomputed results.

    What calls Python waits for the stream, and ``now`` runs it.
    """

    def __init__(self, bound: BindingSubject, now: Callable[..., Any]) -> None:
        super().__init__(bound)
        self.many_cells, self.many_slots, self.many_fresh = [], [], []
        self.now = now

    def write(self) -> FunctionText:
        w, sources = self.writer, self.capture.sources
        w.names["now"] = self.now
        w.names["start"] = _Start(self.plan, self.precomputed, self.whole)
        self._containers(1)
        for i, source in enumerate(sources):
            w.line(f"t{i} = {self._fetch(source)}")
        w.line(f"started = start(({''.join([f't{i}, ' for i in range(len(sources))])}))")
        w.line("if started is None:")
        w.line("return now(leaves, given)", 2)
        w.line("will_write, datas, buffers = started")
        for names, count, values in (
            ("d", len(sources), "datas"),
            ("b", self.n_outputs, "buffers"),
        ):
            if count:
                w.line(f"{''.join([f'{names}{i}, ' for i in range(count)])}= {values}")
        for output in self.slot_of_output:
            kind = self._type_of(output)
            w.line(f"r{output} = new(Tensor)")
            w.line(f"r{output}.type, r{output}.content, r{output}.record = {kind}, b{output}, None")
        for output, source in self.cell_of_output.items():
            w.line(f"will_write(t{source}, b{output})")
            w.line(f"t{source}.content = b{output}")
        self._results()
        return w.function("def call(leaves, given=None):")


class _Start:
    """Queues a run in the current stream."""

    def __init__(
        self, plan: Plan, precomputed: PrecomputedResults | None, whole: Callable[[], Plan]
    ) -> None:
        self.plan, self.precomputed = plan, precomputed
        self._make_whole, self._whole = whole, None

    def __call__(self, tensors: Sequence[Tensor]) -> tuple[Any, list[Any], list[Any]] | None:
        """What notes writes, the operands, what stands for results; None if it calls Python."""
        for t in tensors:
            refuse_leaked(t)
        stream = current()
        if self.plan.calls_python:
            stream.queue.wait()
            return None
        with WRITER:  # no run is writing these
            datas = [t.content for t in tensors]
        plan, operands = self.plan, datas
        if self.precomputed is not None:
            plan, operands = self._with_precomputed(self.precomputed, datas)
        return stream.will_write, datas, stream.start(plan, operands)

    def _with_precomputed(
        self, precomputed: PrecomputedResults, datas: list[Any]
    ) -> tuple[Plan, list[Any]]:
        held = tuple([native.known(datas[i]) for i in precomputed.cells])
        now = precomputed.now
        if now is None or now[1] != held:
            now = precomputed.renewed(held)
        if now is not None:
            return self.plan, [*datas, *now[2]]
        if self._whole is None:
            self._whole = self._make_whole()
        return self._whole, datas
