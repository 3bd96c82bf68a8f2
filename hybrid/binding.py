"""Bind a capture to its plan: the Python function that one call of a hybridized function runs.

The function is written out for each capture (as ``dataclasses`` writes ``__init__``), because a
call costs a few microseconds in all and a loop over descriptions would cost more than the work.
Its text is kept on it as ``source``.

Values of cells are updated in place when nothing else holds the old buffer.  Such a run holds the
``WRITER`` lock; every other run looks at that lock once it holds its own operands, so no run reads
a buffer that another is writing.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hybrid import native
from hybrid.config import advance_epoch
from hybrid.eager import as_tensor
from hybrid.errors import OF_CAPTURE
from hybrid.plan import Plan
from hybrid.record import set_record
from hybrid.remains import taken
from hybrid.tensor import Tensor
from hybrid.trace.address import GIVEN, Address, LeafOf
from hybrid.trace.captured import Capture, Made, SlotWrite, Source, build
from hybrid.trace.key import CONTENT
from hybrid.trace.objects import blank, filled
from hybrid.trace.rewind import is_hooked, put_attribute, refill
from hybrid.tree import LEAF
from hybrid.types import DType

WRITER = threading.RLock()
MANY = 8  # cells or slots: from so many on they are updated in a loop, which is sooner compiled


class _Holder:
    """Stands for a cell while the references to an unshared buffer are counted."""

    __slots__ = ("data",)


def _count_unshared() -> tuple[int, int]:
    """What ``getrefcount`` says, in a call such as those below, of what only its cell holds.

    First of a buffer that a cell, the state that made it and a local name refer to; then of the
    buffer of a gradient, which its tensor alone refers to.  It depends on how this Python passes
    arguments.  Without the GIL the counts say nothing: no buffer is then ever taken for unshared.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return -1, -1
    getrefcount = sys.getrefcount
    holder = _Holder()
    holder.data = object()
    made = [holder.data]
    data = holder.data
    unshared = getrefcount(data)
    made.clear()
    del data
    return unshared, getrefcount(holder.data)


UNSHARED, UNSHARED_DATA = _count_unshared()


class _Writer:
    """The text of the function, line by line, and the objects its names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "getrefcount": sys.getrefcount,
            "new": object.__new__,
            "Tensor": Tensor,
            "run_plan": native.run_plan,
            "advance_epoch": advance_epoch,
            "WRITER": WRITER,
        }

    def line(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str, value: Any) -> str:
        """A name for ``value``."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, header: str) -> Callable[..., Any]:
        text = "\n".join([header, *self.lines]) + "\n"
        exec(compile(text, "<binding>", "exec"), self.names)
        made = self.names["call"]
        made.source = text
        return made


def bind(capture: Capture, plan: Plan, record: Callable[..., None] | None, used: Any) -> Any:
    """``call(leaves)``: fetch, run, write back, record, and build the result.

    ``record(tensors, datas, results, buffers)`` attaches the history of a call that takes part in a
    gradient; ``used`` is the record of results whose history was used up inside.
    """
    return _Binding(capture, plan, record, used).write()


class _Binding:
    def __init__(self, capture: Capture, plan: Plan, record: Any, used: Any) -> None:
        self.capture, self.plan, self.record, self.used = capture, plan, record, used
        self.types = plan.output_types
        self.n_outputs = len(self.types)
        self.writer = _Writer()
        self.cell_of_output = {output: source for source, output in capture.writes}
        self.in_place = {
            output: source
            for output, source in self.cell_of_output.items()
            if plan.donations.get(output) == source
            and record is None  # the way back starts from what the call has found
        }
        self.trees = [capture.result, *(write.made for write in capture.slot_writes)]
        self.trees += [built.made for built in capture.objects]
        self.given = self._given()
        self.slot_of_output = self._slots()
        self.needs_tensor = self._tensors()
        self.many_cells = self._many([o for o in self.in_place if o not in self.needs_tensor])
        plain = [o for o, w in self.slot_of_output.items() if self._is_plain(w)]
        self.many_slots = self._many(plain)

    def _given(self) -> dict[tuple[Any, ...], str]:
        """The containers among the arguments that a run needs: by their keys, what they are called.

        They are looked up before anything is written: what is written may move them.
        """
        found = [what for made in self.trees for kind, what in made.places if kind == "given"]
        writes = self.capture.slot_writes
        found += [write.address.keys for write in writes if write.address.owner is GIVEN]
        return {keys: f"g{i}" for i, keys in enumerate(dict.fromkeys(found))}

    def _slots(self) -> dict[int, Any]:
        """Outputs that become, alone, the value of one slot: their tensors can be used again."""
        counts: dict[int, int] = {}
        for made in self.trees:
            for kind, what in made.places:
                if kind == "output":
                    counts[what] = counts.get(what, 0) + 1
        return {
            w.made.leaves[0][1]: w
            for w in self.capture.slot_writes
            if w.made.structure == LEAF
            and w.made.leaves[0][0] == "output"
            and counts[w.made.leaves[0][1]] == 1
            and w.made.leaves[0][1] not in self.capture.consumed
            and w.exists
            and w.address.owner is not GIVEN
            and self.record is None
            and w.made.leaves[0][1] not in self.plan.placement.exposed
        }

    def _tensors(self) -> set[int]:
        """Outputs that are seen as new Tensors."""
        seen = {
            what
            for made in self.trees
            for kind, what in made.places
            if kind in ("output", "number")
        }
        for made in self.trees:
            for kind, what in made.leaves:
                if kind == "text":
                    seen.update(what.outputs)
        if self.capture.gradient is not None:
            seen.update(self.capture.gradient.outputs)
        return seen - self.slot_of_output.keys()

    def _many(self, outputs: list[int]) -> list[int]:
        return sorted(outputs) if len(outputs) >= MANY else []

    def _is_plain(self, write: SlotWrite) -> bool:
        """Whether the slot is an attribute of an object that is known now."""
        address = write.address
        if write.key or type(address.owner) is LeafOf or is_hooked(address.owner, address.name):
            return False
        return address.text(lambda prefix, value: "owner") == f"owner.{address.name}"

    def write(self) -> Any:
        w = self.writer
        n_externals = self.n_outputs + len(self.capture.sources)
        n_made = self.n_outputs
        spare: list[Any] = []
        w.names["spare"] = spare
        w.names["new_state"] = lambda: (native.pointers(n_externals), [None] * n_made)
        w.names["handle"] = self.plan.handle
        w.names["fail"] = functools.partial(_fail, self.plan, self.capture)
        locks = bool(self.in_place or self.slot_of_output)
        w.line("try:")
        w.line("externals, made = state = spare.pop()", 2)
        w.line("except IndexError:")
        w.line("externals, made = state = new_state()", 2)
        if locks:
            w.line("with WRITER:")
        self._body(2 if locks else 1, locks)
        w.line("spare.append(state)")
        self._results()
        return w.function("def call(leaves, given=None):")

    def _body(self, depth: int, locks: bool) -> None:
        w = self.writer
        for keys, local in self.given.items():
            w.line(f"{local} = {Address(GIVEN, CONTENT, keys).text(w.name)}", depth)
        self._inputs(depth)
        if self.in_place:
            w.line("moved = False", depth)
        self._cells_in_a_loop(depth)
        self._slots_in_a_loop(depth)
        for output in range(self.n_outputs):
            if output in self.many_cells or output in self.many_slots:
                continue
            if output in self.in_place:
                self._in_place(output, depth)
            elif output in self.slot_of_output:
                self._slot(output, depth)
            else:
                self._fresh(output, depth)
        sources = range(len(self.capture.sources))
        tensors = "".join([f"t{i}, " for i in sources])
        if not locks and sources:
            w.line(
                "if not WRITER.acquire(False):  # a run that writes in place is under way", depth
            )
            w.line("with WRITER:", depth + 1)
            datas = "".join([f"d{i}, " for i in sources])
            places = f"externals[{self.n_outputs}:{self.n_outputs + len(sources)}]"
            w.line(f"{datas}= {places} = [t.data for t in ({tensors})]", depth + 2)
            w.line("else:", depth)
            w.line("WRITER.release()", depth + 1)
        w.line("status = run_plan(handle, externals)", depth)
        w.line("if status:", depth)
        w.line(f"fail(status, ({tensors}), leaves, given)", depth + 1)
        for output, source in self.cell_of_output.items():
            if output not in self.many_cells:
                w.line(f"t{source}.data = b{output}", depth)
        if self.many_cells:
            w.line("for cell, buffer in zip(cells, buffers):", depth)
            w.line("cell.data = buffer", depth + 1)
        if self.in_place:
            w.line("if moved:  # the next run finds the values where this one has left them", depth)
        for output, source in self.in_place.items():
            if output not in self.many_cells:
                w.line(f"externals[{self.n_outputs + source}] = b{output}", depth + 1)
        if self.many_cells:
            w.line(f"for source, buffer in zip({w.name('sources', self._sources())}, buffers):",
                   depth + 1)  # fmt: skip
            w.line("externals[source] = buffer", depth + 2)

    def _inputs(self, depth: int) -> None:
        w = self.writer
        swapped = set(self.in_place.values())
        looped = {self.in_place[output] for output in self.many_cells}
        for i, source in enumerate(self.capture.sources):
            w.line(f"t{i} = {self._fetch(source)}", depth)
            if i in looped:
                continue
            w.line(f"d{i} = t{i}.data", depth)
            if i not in swapped:
                w.line(f"externals[{self.n_outputs + i}] = d{i}", depth)

    def _fetch(self, source: Source) -> str:
        if source.kind == "argument":
            return f"leaves[{source.index}]"
        if source.kind == "number":
            dtype, address = source.tensor.type.dtype, source.address
            lift = self.writer.name("lift", functools.partial(_number, dtype))
            found = f"leaves[{source.index}]" if address is None else address.text(self.writer.name)
            return f"{lift}({found})"
        if source.kind == "cell":
            return self.writer.name("cell", source.tensor)
        return source.address.text(self.writer.name)

    def _target(self, write: SlotWrite) -> str:
        """What a write sets: an attribute, an item, the items from one on, or a container."""
        address = write.address
        given = address.owner is GIVEN
        text = self.given[address.keys] if given else address.text(self.writer.name)
        if not write.key:
            return text
        (key,) = write.key
        if type(key) is slice:
            return f"{text}[{key.start}:]"
        return f"{text}[{key if type(key) is int else self.writer.name('key', key)}]"

    def _make(self, output: int) -> str:
        make, ctype = native.storage(self.types[output].nbytes)
        return f"{self.writer.name('make', make)}({self.writer.name('storage', ctype)})"

    def _fresh(self, output: int, depth: int) -> None:
        self.writer.line(f"externals[{output}] = b{output} = {self._make(output)}", depth)

    def _in_place(self, output: int, depth: int) -> None:
        w, source = self.writer, self.in_place[output]
        w.line(f"if d{source} is made[{output}] and getrefcount(d{source}) == {UNSHARED}:", depth)
        w.line(f"b{output} = d{source}", depth + 1)
        w.line("else:", depth)
        w.line("moved = True", depth + 1)
        w.line(f"externals[{self.n_outputs + source}] = d{source}", depth + 1)
        w.line(
            f"externals[{output}] = b{output} = made[{output}] = {self._make(output)}", depth + 1
        )

    def _sources(self) -> list[int]:
        """Where the values of the ``many_cells`` come from, among the externals."""
        return [self.n_outputs + self.in_place[output] for output in self.many_cells]

    def _storage(self, outputs: list[int]) -> str:
        """The name of what makes buffers for ``outputs``, one after the other."""
        return self.writer.name("makes", [native.storage(self.types[o].nbytes) for o in outputs])

    def _cells_in_a_loop(self, depth: int) -> None:
        if not self.many_cells:
            return
        w = self.writer
        tensors = "".join([f"t{self.in_place[output]}, " for output in self.many_cells])
        places = [*zip(self.many_cells, self._sources(), strict=True)]
        makes = self._storage(self.many_cells)
        w.line(f"cells, buffers = ({tensors}), []", depth)
        w.line(f"for cell, (output, source), (make, kind) in zip(cells, "
               f"{w.name('places', places)}, {makes}):", depth)  # fmt: skip
        w.line("data = cell.data", depth + 1)
        w.line(f"if data is not made[output] or getrefcount(data) != {UNSHARED}:", depth + 1)
        w.line("moved = True", depth + 2)
        w.line("externals[source] = data", depth + 2)
        w.line("externals[output] = data = made[output] = make(kind)", depth + 2)
        w.line("buffers.append(data)", depth + 1)

    def _slots_in_a_loop(self, depth: int) -> None:
        if not self.many_slots:
            return
        w = self.writer
        writes = [self.slot_of_output[output] for output in self.many_slots]
        slots = [
            (output, write.address.owner, write.address.name, self.types[output])
            for output, write in zip(self.many_slots, writes, strict=True)
        ]
        w.names["slots"] = slots
        makes = self._storage(self.many_slots)
        w.line("fresh = []", depth)
        w.line(f"for (output, owner, name, type_), (make, kind) in zip(slots, {makes}):", depth)
        w.line("tensor = made[output]", depth + 1)
        w.line(
            "if tensor is None or getattr(owner, name) is not tensor "
            f"or getrefcount(tensor) != {UNSHARED} "
            f"or getrefcount(tensor.data) != {UNSHARED_DATA}:",
            depth + 1,
        )
        w.line("tensor = made[output] = new(Tensor)", depth + 2)
        w.line("tensor.type, tensor.record = type_, None", depth + 2)
        w.line("externals[output] = tensor.data = make(kind)", depth + 2)
        w.line("fresh.append(tensor)", depth + 1)
        w.line("".join([f"r{output}, " for output in self.many_slots]) + "= fresh", depth)

    def _slot(self, output: int, depth: int) -> None:
        w, write = self.writer, self.slot_of_output[output]
        kind = w.name("type", self.types[output])
        w.line(f"r{output} = made[{output}]", depth)
        w.line(
            f"if r{output} is None or {self._target(write)} is not r{output} "
            f"or getrefcount(r{output}) != {UNSHARED} "
            f"or getrefcount(r{output}.data) != {UNSHARED_DATA}:",
            depth,
        )
        w.line(f"r{output} = made[{output}] = new(Tensor)", depth + 1)
        w.line(f"r{output}.type, r{output}.record = {kind}, None", depth + 1)
        w.line(f"externals[{output}] = r{output}.data = {self._make(output)}", depth + 1)

    def _results(self) -> None:
        """After the run: tensors of the outputs, histories, cells and slots, the result."""
        w, capture = self.writer, self.capture
        for output in sorted(self.needs_tensor):
            kind = w.name("type", self.types[output])
            record = w.name("used", self.used) if output in capture.consumed else "None"
            w.line(f"r{output} = new(Tensor)")
            w.line(
                f"r{output}.type, r{output}.data, r{output}.record = {kind}, b{output}, {record}"
            )
        n = self.n_outputs
        results = "[" + ", ".join(
            f"r{i}" if i in self.needs_tensor or i in self.slot_of_output else "None"
            for i in range(n)
        ) + "]"  # fmt: skip
        if self.record is not None:
            sources = range(len(capture.sources))
            tensors = ", ".join(f"t{i}" for i in sources)
            datas = ", ".join(f"d{i}" for i in sources)
            buffers = ", ".join(f"b{i}" for i in range(n))
            record = w.name("record", self.record)
            w.line(f"{record}([{tensors}], [{datas}], {results}, [{buffers}])")
        put = w.name("set_record", set_record)
        without: list[int] = []
        for output, source in self.cell_of_output.items():
            cell = capture.sources[source].tensor
            if source in capture.lasting:
                continue
            if capture.gradient is not None and output in capture.gradient.outputs:
                w.line(f"{put}(t{source}, r{output}.record)")
            elif cell is None or capture.requires[source] or hasattr(cell, "leaf"):
                without.append(source)
        if without:
            w.line(f"for cell in ({''.join([f't{source}, ' for source in without])}):")
            w.line(f"{put}(cell, None)", 2)
        for i, built in enumerate(capture.objects):
            w.line(f"o{i} = {w.name('blank', blank)}({w.name('class', built.kind)})")
        for i, built in enumerate(capture.objects):
            w.line(f"{w.name('fill', filled)}(o{i}, {self._value(built.made, results)})")
        writes = []
        for write in [*capture.slot_writes, None]:  # what is built may find no memory: so first
            value = self._value(capture.result if write is None else write.made, results)
            if "(" in value:
                w.line(f"v{len(writes)} = {value}")
                value = f"v{len(writes)}"
            writes.append((write, value))
        if self.many_slots:
            w.line("for (output, owner, name, type_), tensor in zip(slots, fresh):")
            w.line("if getattr(owner, name) is not tensor:", 2)
            w.line("setattr(owner, name, tensor)", 3)
        looped = {("output", output) for output in self.many_slots}
        for write, value in writes[:-1]:
            if write.made.leaves and write.made.leaves[0] in looped:
                continue
            target = self._target(write)
            if write.address.name == CONTENT and not write.key:
                w.line(f"{w.name('refill', refill)}({target}, {value})")
            elif write.made.leaves and write.made.leaves[0][1] in self.slot_of_output:
                w.line(f"if {target} is not {value}:")
                w.line(self._stored(write, target, value), 2)
            else:
                w.line(self._stored(write, target, value))
        w.line(f"return {writes[-1][1]}")

    def _stored(self, write: SlotWrite, target: str, value: str) -> str:
        """The statement that sets the target; hooks of the author's have been captured."""
        w, owner, name = self.writer, write.address.owner, write.address.name
        if name == CONTENT or type(owner) is LeafOf or not is_hooked(owner, name):
            return f"{target} = {value}"
        return f"{w.name('put', put_attribute)}({w.name('owner', owner)}, {name!r}, {value})"

    def _value(self, made: Made, results: str) -> str:
        if made.structure == LEAF:
            kind, what = made.leaves[0]
            if kind == "output":
                return f"r{what}"
            if kind == "number":
                return f"r{what}.item()"
            if kind == "argument":
                return f"leaves[{what}]"
            if kind == "source":
                return f"t{what}"
            if kind == "given":
                return self.given[what]
            if kind == "object":
                return f"o{what}"
        build_name = self.writer.name("build", build)
        found = {what: f"t{what}" for kind, what in made.places if kind == "source"}
        found |= {what: self.given[what] for kind, what in made.places if kind == "given"}
        found |= {("o", what): f"o{what}" for kind, what in made.places if kind == "object"}
        sources = ", ".join(f"{what!r}: {local}" for what, local in found.items())
        made_name = self.writer.name("made", made)
        return f"{build_name}({made_name}, {results}, leaves, {{{sources}}})"


def _fail(
    plan: Plan,
    capture: Capture,
    status: int,
    tensors: Sequence[Tensor],
    leaves: Sequence[Any],
    given: Any,
) -> None:
    """Raise what has ended a run, once what it had written by then is in force.

    Where the plan itself has met its limits nothing is: the call may be made again, eagerly.
    """
    try:
        plan.fail(status)
    except BaseException as error:
        put = taken(error)
        if put is not None and not isinstance(error, OF_CAPTURE):
            recorded = None if capture.gradient is None else capture.gradient.recorded
            put(tensors, leaves, given, capture.graph, recorded)
        raise


def _number(dtype: DType, value: float) -> Tensor:
    return as_tensor(value, dtype)
