"""Binding for plans in stages: the types of the results are those that the run has found."""

from __future__ import annotations

from typing import Any

from hybrid.calls.bind.generate import Binding, put_in_force


class StagedBinding(Binding):
    """The writer of a ``call(leaves)`` that runs stages one after the other.

    Nothing is written in place, and before the last stage has run nothing is written at all.
    """

    _recorded_with = ", values, [t.type for t in made]"

    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        self.in_place, self.slot_of_output = {}, {}
        self.needs_tensor = self._tensors()
        self.many_cells, self.many_slots, self.many_fresh, self.many_tensors = [], [], [], []

    def _type_of(self, output: int) -> str:
        return f"made[{output}].type"

    def write(self) -> Any:
        w, sources = self.writer, self.capture.sources
        w.names["run"], w.names["fail"] = self.plan.run, self._failed
        self._containers(1)
        for i, source in enumerate(sources):
            w.line(f"t{i} = {self._fetch(source)}")
        tensors = "".join([f"t{i}, " for i in range(len(sources))])
        w.line("try:")
        w.line(f"values, made = run(({tensors}))", 2)
        w.line("except BaseException as error:")
        w.line(f"fail(error, ({tensors}), leaves, given)", 2)
        w.line("raise", 2)
        for i in range(len(sources)) if self.record is not None else ():
            w.line(f"d{i} = t{i}.content")
        for output in range(self.n_outputs):
            w.line(f"b{output} = made[{output}].content")
        for output, source in self.cell_of_output.items():
            w.line(f"t{source}.content = b{output}")
        self._results()
        return w.function("def call(leaves, given=None):")

    def _failed(self, error: BaseException, tensors: Any, leaves: Any, given: Any) -> None:
        """Put in force what was written before ``error``."""
        put_in_force(self.capture, error, tensors, leaves, given)
