"""Generated Python functions: their text, line by line, its namespace, and loops in it.

A function of a few lines for each of hundreds of values takes milliseconds to compile, so many
values that are treated alike are a loop in it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hybrid.core.types import TensorType
from hybrid.memory import native
from hybrid.memory.buffers import UNSHARED, UNSHARED_DATA
from hybrid.plan import Plan
from hybrid.trace.capture.captured_graph import Capture, PlaceWrite

MANY = 8  # values alike: from so many on they are written as a loop


def runs(marks: Sequence[Any]) -> Iterator[list[int]]:
    """The positions of neighbouring ``marks`` that are equal, run by run."""
    for _, run in itertools.groupby(range(len(marks)), marks.__getitem__):
        yield list(run)


def many(outputs: Sequence[int]) -> list[int]:
    """``outputs`` if there are enough for a loop, else none."""
    return sorted(outputs) if len(outputs) >= MANY else []


class Loops:
    """The loops of one binding; each value of a run is a variable afterwards."""

    writer: Writer
    capture: Capture
    types: Sequence[TensorType]  # of the outputs
    n_outputs: int
    in_place: dict[int, int]  # outputs and the sources whose buffers they may take over
    slot_of_output: dict[int, PlaceWrite]
    # Outputs: cells that are written in place, attributes, new buffers, new tensors.
    many_cells: list[int]
    many_slots: list[int]
    many_fresh: list[int]
    many_tensors: list[int]

    def _sources(self) -> list[int]:
        """Where the values of the ``many_cells`` come from, among the externals."""
        return [self.n_outputs + self.in_place[output] for output in self.many_cells]

    def _storage(self, outputs: list[int]) -> str:
        """The name of what makes buffers for ``outputs``, one after the other."""
        return self.writer.sized(
            "makes", lambda bound: [native.storage(bound.types[o].nbytes) for o in outputs]
        )

    def _cells_in_a_loop(self, depth: int) -> None:
        if not self.many_cells:
            return
        w = self.writer
        cells = [self.in_place[output] for output in self.many_cells]
        tensors = f"({''.join([f't{i}, ' for i in cells])})"
        if all(self.capture.sources[i].kind == "cell" for i in cells):
            tensors = w.name("cells", tuple([self.capture.sources[i].tensor for i in cells]))
        places = [*zip(self.many_cells, self._sources(), strict=True)]
        makes = self._storage(self.many_cells)
        w.line(f"cells, buffers = {tensors}, []", depth)
        w.line(f"for cell, (output, source), (make, kind) in zip(cells, "
               f"{w.name('places', places)}, {makes}):", depth)  # fmt: skip
        w.line("data = cell.content", depth + 1)
        w.line(f"if data is not made[output] or getrefcount(data) != {UNSHARED}:", depth + 1)
        w.line("moved = True", depth + 2)
        w.line("externals[source] = data", depth + 2)
        w.line("externals[output] = data = made[output] = make(kind)", depth + 2)
        w.line("buffers.append(data)", depth + 1)

    def _slots_in_a_loop(self, depth: int) -> None:
        if not self.many_slots:
            return
        w = self.writer
        outputs = self.many_slots
        writes = [self.slot_of_output[output] for output in outputs]
        w.sized(
            "slots",
            lambda bound: [
                (output, write.address.owner, write.address.name, bound.types[output])
                for output, write in zip(outputs, writes, strict=True)
            ],
            numbered=False,
        )
        makes = self._storage(self.many_slots)
        w.line("fresh = []", depth)
        w.line(f"for (output, owner, name, type_), (make, kind) in zip(slots, {makes}):", depth)
        w.line("tensor = made[output]", depth + 1)
        w.line(
            "if tensor is None or getattr(owner, name) is not tensor "
            f"or getrefcount(tensor) != {UNSHARED} "
            f"or getrefcount(tensor.content) != {UNSHARED_DATA}:",
            depth + 1,
        )
        w.line("tensor = made[output] = new(Tensor)", depth + 2)
        w.line("tensor.type, tensor.record = type_, None", depth + 2)
        w.line("externals[output] = tensor.content = make(kind)", depth + 2)
        w.line("fresh.append(tensor)", depth + 1)
        w.line("".join([f"r{output}, " for output in self.many_slots]) + "= fresh", depth)

    def _fresh_in_a_loop(self, depth: int) -> None:
        if not self.many_fresh:
            return
        w = self.writer
        makes = self._storage(self.many_fresh)
        names = "".join([f"b{output}, " for output in self.many_fresh])
        w.line(f"{names}= datas = [make(kind) for make, kind in {makes}]", depth)
        w.line(f"for output, data in zip({w.name('places', self.many_fresh)}, datas):", depth)
        w.line("externals[output] = data", depth + 1)

    def _tensors_in_a_loop(self) -> None:
        if not self.many_tensors:
            return
        w = self.writer
        outputs = self.many_tensors
        types = w.sized("types", lambda bound: [bound.types[output] for output in outputs])
        datas, names = ("".join([f"{x}{o}, " for o in self.many_tensors]) for x in "br")
        w.line("tensors = []")
        w.line(f"for type_, data in zip({types}, ({datas})):")
        w.line("tensor = new(Tensor)", 2)
        w.line("tensor.type, tensor.content, tensor.record = type_, data, None", 2)
        w.line("tensors.append(tensor)", 2)
        w.line(f"{names}= tensors")


class BindingSubject(NamedTuple):
    """What a binding is of at given sizes."""

    capture: Capture
    plan: Plan
    record: Callable[..., None] | None
    used: Any
    precomputed: Any
    whole: Any

    @property
    def types(self) -> Sequence[TensorType]:
        """Those of the outputs."""
        return self.plan.output_types


class Writer:
    """The text of a generated function, line by line, and its namespace.

    What is ``sized`` is another value at other sizes.
    """

    def __init__(self, **names: Any) -> None:
        self.lines: list[str] = []
        self.names = names
        self.of_sizes: dict[str, Callable[[BindingSubject], Any]] = {}

    def line(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str, value: Any) -> str:
        """A name for ``value``."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def sized(
        self, prefix: str, value: Callable[[BindingSubject], Any], *, numbered: bool = True
    ) -> str:
        """A name for what ``value`` gives at the sizes of a binding."""
        name = f"{prefix}{len(self.names)}" if numbered else prefix
        self.of_sizes[name] = value
        self.names[name] = None
        return name

    def function(self, header: str) -> FunctionText:
        text = "\n".join([header, *self.lines]) + "\n"
        fixed = {name: value for name, value in self.names.items() if name not in self.of_sizes}
        return FunctionText(text, fixed, self.of_sizes)


class FunctionText(NamedTuple):
    """The text of a function, which is the same at all sizes of a capture, and what it names."""

    text: str
    names: dict[str, Any]
    of_sizes: dict[str, Callable[[BindingSubject], Any]]

    def at(self, bound: BindingSubject) -> Callable[..., Any]:
        """The function at the sizes of ``bound``."""
        names = dict(self.names)
        for name, value in self.of_sizes.items():
            names[name] = value(bound)
        exec(_compiled(self.text), names)
        made = names["call"]
        made.source = self.text
        return made


@functools.lru_cache(256)  # captures of one kind have one text
def _compiled(text: str) -> Any:
    return compile(text, "<binding>", "exec")
