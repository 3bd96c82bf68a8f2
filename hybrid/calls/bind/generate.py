"""Binding: a capture and its plan as the Python function that one call runs.

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

from hybrid.calls.bind.function_text import BindingSubject, FunctionText, Loops, Writer, many, runs
from hybrid.calls.bind.precomputed import PrecomputedResults
from hybrid.config import advance_epoch
from hybrid.core.exceptions import Leaving, taken
from hybrid.core.tree import LEAF
from hybrid.core.types import DType
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import fill
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import STATE, hold_at_fork
from hybrid.errors import OF_CAPTURE
from hybrid.ir.record import set_record
from hybrid.memory import native
from hybrid.memory.buffers import UNSHARED, UNSHARED_DATA
from hybrid.ops.flow.control import py_call
from hybrid.plan import Plan
from hybrid.trace.capture.captured_graph import (
    Capture,
    PlaceWrite,
    Source,
    TreeRecipe,
    build,
    tuples_in_order,
)
from hybrid.trace.places.address import GIVEN, Address, ArgumentLeaf, HeldObject
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.objects import empty, filled
from hybrid.trace.places.place import CONTENT, is_hooked, put_attribute, refill

WRITER = threading.RLock()
hold_at_fork(STATE, WRITER)


def bind(
    capture: Capture,
    plan: Plan,
    record: Callable[..., None] | None,
    used: Any,
    precomputed: PrecomputedResults | None = None,
    whole: Callable[[], Plan] | None = None,
    texts: dict[Any, FunctionText] | None = None,
) -> Any:
    """A function ``call(leaves)`` that fetches, runs, writes back, records and builds the result.

    ``record(tensors, datas, results, buffers)`` attaches the history of a call that takes part in a
    gradient; ``used`` is the record of results whose history was used up inside; ``precomputed``
    holds what ``plan`` takes besides the sources of the capture, and ``whole`` makes the plan that
    does without, for when that is better or nothing can be kept.  ``texts`` are those of this
    capture at other sizes, where it is one for many.
    """
    bound = BindingSubject(
        capture=capture, plan=plan, record=record, used=used, precomputed=precomputed, whole=whole
    )
    if texts is None:
        return Binding(bound).write().at(bound)
    key = (*plan.donations.items(), plan.exposed, plan.calls_python, id(precomputed))
    text = texts.get(key)
    if text is None:
        text = texts[key] = Binding(bound).write()
    return text.at(bound)


class _Whole:
    """The call that keeps nothing, which is made when it is first needed."""

    def __init__(self, capture: Capture, plan: Callable[[], Plan], used: Any) -> None:
        self.capture, self.plan, self.used = capture, plan, used
        self.lock, self.run = threading.Lock(), None

    def __call__(self, leaves: Sequence[Any], given: Any) -> Any:
        run = self.run
        if run is None:
            with self.lock:
                if self.run is None:
                    self.run = bind(self.capture, self.plan(), None, self.used)
                run = self.run
        return run(leaves, given)


def _waits(plan: Plan, capture: Capture) -> bool:
    """Whether a run of ``plan`` waits for other threads, which may run plans themselves."""
    if not plan.calls_python:  # nor does the graph, which may still be unread, in a file
        return False
    graph = capture.graph
    calls = [node.attributes["function"] for node in graph.walk() if node.op is py_call]
    calls = [call.function if type(call) is Leaving else call for call in calls]
    return any([getattr(call, "waits", False) for call in calls])


class Binding(Loops):
    """The writer of the text of that function."""

    def __init__(self, bound: BindingSubject) -> None:
        capture, plan, record, self.used, self.precomputed, self.whole = self.bound = bound
        self.capture, self.plan, self.record = capture, plan, record
        self.types = plan.output_types
        self.n_outputs = len(self.types)
        self.writer = Writer(
            getrefcount=sys.getrefcount,
            new=object.__new__,
            Tensor=Tensor,
            run_plan=native.run_plan,
            advance_epoch=advance_epoch,
            WRITER=WRITER,
        )
        self.cell_of_output = {output: source for source, output in capture.writes}
        # The way back starts from what the call has found; and who waits for other threads must
        # not hold a lock that their runs look at.
        self.reuses = record is None and not _waits(plan, capture)
        self.in_place = {
            output: source
            for output, source in self.cell_of_output.items()
            if self.reuses and plan.donations.get(output) == source
        }
        self.trees = [capture.result, *(write.recipe for write in capture.place_writes)]
        self.trees += [built.recipe for built in capture.objects]
        self.given = self._given()
        self.slot_of_output = self._slots()
        self.needs_tensor = self._tensors()
        self.many_cells = many([o for o in self.in_place if o not in self.needs_tensor])
        plain = [o for o, w in self.slot_of_output.items() if self._is_plain(w)]
        self.many_slots = many(plain)
        special = self.in_place.keys() | self.slot_of_output.keys()
        self.many_fresh = many([o for o in range(self.n_outputs) if o not in special])
        special = {*capture.consumed, *capture.variables}
        plain = [o for o in self.needs_tensor if o not in special]
        self.many_tensors = many(plain)

    _recorded_with = ""  # further arguments of ``record``

    def _type_of(self, output: int) -> str:
        """The type of an output, in the text."""
        return self.writer.sized("type", lambda bound: bound.types[output])

    def _given(self) -> dict[Any, str]:
        """The names of containers among the arguments, by their keys, and objects by addresses.

        A run needs these as they are before anything is written: what is written may move them.
        """
        found = [what for made in self.trees for kind, what in made.places if kind in _BEFORE]
        writes = self.capture.place_writes
        found += [write.address.keys for write in writes if write.address.owner is GIVEN]
        owners = [write.address.owner for write in writes]
        found += [owner.address for owner in owners if type(owner) is HeldObject]
        return {keys: f"g{i}" for i, keys in enumerate(dict.fromkeys(found))}

    def _slots(self) -> dict[int, Any]:
        """Outputs that become, alone, the value of one slot: their tensors can be used again."""
        counts: dict[int, int] = {}
        for made in self.trees:
            for kind, what in made.places:
                if kind == "output":
                    counts[what] = counts.get(what, 0) + 1
        aliases = {output for a in self.capture.aliases for output in (a.output, a.index)}
        read = {
            source.address.key: type_
            for source, type_ in zip(self.capture.sources, self.capture.input_types, strict=True)
            if source.address is not None
        }
        return {
            w.recipe.leaves[0][1]: w
            for w in self.capture.place_writes
            if w.recipe.structure == LEAF
            and w.recipe.leaves[0][0] == "output"
            and counts[w.recipe.leaves[0][1]] == 1
            and w.recipe.leaves[0][1] not in self.capture.consumed
            and w.recipe.leaves[0][1] not in self.capture.variables
            and w.exists
            and w.address.owner is not GIVEN
            and type(w.address.owner) is not HeldObject
            and self.reuses
            and w.recipe.leaves[0][1] not in aliases
            and w.recipe.leaves[0][1] not in self.capture.resized
            and read.get(w.address.key, own := self.types[w.recipe.leaves[0][1]]) is own
            and w.recipe.leaves[0][1] not in self.plan.exposed
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

    def _is_plain(self, write: PlaceWrite) -> bool:
        """Whether the slot is an attribute of an object that is known now."""
        address = write.address
        if (
            write.key
            or type(address.owner) is ArgumentLeaf
            or is_hooked(address.owner, address.name)
        ):
            return False
        return address.text(lambda prefix, value: "owner") == f"owner.{address.name}"

    def write(self) -> FunctionText:
        w = self.writer
        n_externals = self.n_outputs + len(self.plan.input_types)
        # The last, if any, tells whose results are there.
        n_made = self.n_outputs + (self.precomputed is not None)
        w.names["new_state"] = lambda: (native.pointers(n_externals), [None] * n_made)
        for name, value in _OF_SIZES.items():
            w.sized(name, value, numbered=False)
        locks = bool(self.in_place or self.slot_of_output)
        w.line("try:")
        w.line("externals, made = state = spare.pop()", 2)
        w.line("except IndexError:")
        w.line("externals, made = state = new_state()", 2)
        w.line("try:")
        if locks:
            w.line("with WRITER:", 2)
        self._body(3 if locks else 2, locks)
        w.line("except TypeError:  # a value that is pending has no address")
        w.line("if not fill(leaves):", 2)
        w.line("raise", 3)
        w.line("return call(leaves, given)", 2)
        w.line("spare.append(state)")
        self._results()
        return w.function("def call(leaves, given=None):")

    def _body(self, depth: int, locks: bool) -> None:
        w = self.writer
        self._containers(depth)
        self._inputs(depth)
        if self.precomputed is not None:
            self._precomputed(self.precomputed, depth, locks)
        if self.in_place:
            w.line("moved = False", depth)
        self._cells_in_a_loop(depth)
        self._slots_in_a_loop(depth)
        self._fresh_in_a_loop(depth)
        looped = {*self.many_cells, *self.many_slots, *self.many_fresh}
        for output in range(self.n_outputs):
            if output in looped:
                continue
            if output in self.in_place:
                self._in_place(output, depth)
            elif output in self.slot_of_output:
                self._slot(output, depth)
            else:
                self._fresh(output, depth)
        tensors = "".join([f"t{i}, " for i in range(len(self.capture.sources))])
        if not locks and self.precomputed is None:
            self._wait(depth)
        w.line("status = run_plan(handle, externals)", depth)
        w.line("if status:", depth)
        w.line(f"fail(status, ({tensors}), leaves, given)", depth + 1)
        for output, source in self.cell_of_output.items():
            if output not in self.many_cells:
                w.line(f"t{source}.content = b{output}", depth)
        if self.many_cells:
            w.line("for cell, buffer in zip(cells, buffers):", depth)
            w.line("cell.content = buffer", depth + 1)
        if self.in_place:
            w.line("if moved:  # the next run finds the values where this one has left them", depth)
        for output, source in self.in_place.items():
            if output not in self.many_cells:
                w.line(f"externals[{self.n_outputs + source}] = b{output}", depth + 1)
        if self.many_cells:
            w.line(f"for source, buffer in zip({w.name('sources', self._sources())}, buffers):",
                   depth + 1)  # fmt: skip
            w.line("externals[source] = buffer", depth + 2)

    def _containers(self, depth: int) -> None:
        for where, local in self.given.items():
            place = where if type(where) is Address else Address(GIVEN, CONTENT, where)
            self.writer.line(f"{local} = {place.text(self.writer.name)}", depth)

    def _wait(self, depth: int) -> None:
        """Look at the operands again if another run may have been writing them."""
        w, sources = self.writer, range(len(self.capture.sources))
        if not sources:
            return
        w.line("if not WRITER.acquire(False):  # a run that writes in place is under way", depth)
        w.line("with WRITER:", depth + 1)
        datas, tensors = ("".join([f"{x}{i}, " for i in sources]) for x in "dt")
        places = f"externals[{self.n_outputs}:{self.n_outputs + len(sources)}]"
        w.line(f"{datas}= {places} = [t.content for t in ({tensors})]", depth + 2)
        if self.precomputed is not None:
            w.line("made[-1] = None  # pointers are no longer those of what is kept", depth + 1)
        w.line("else:", depth)
        w.line("WRITER.release()", depth + 1)

    def _precomputed(self, precomputed: PrecomputedResults, depth: int, locks: bool) -> None:
        """What is kept, renewed if a cell holds another buffer than then."""
        w = self.writer
        if not locks:
            self._wait(depth)
        name = w.name("precomputed", precomputed)
        w.line(
            f"held, now = ({''.join([f'd{i}, ' for i in precomputed.cells])}), {name}.now", depth
        )
        w.line("if now is None or now[1] != held:", depth)
        w.line(f"now = {name}.renewed(held)", depth + 1)
        w.line("if now is None:", depth + 1)
        w.line("spare.append(state)", depth + 2)
        whole = w.sized("whole", lambda bound: _Whole(bound.capture, bound.whole, bound.used))
        w.line(f"return {whole}(leaves, given)", depth + 2)
        w.line("if made[-1] is not now[0]:", depth)
        first = self.n_outputs + len(self.capture.sources)
        w.line(f"externals[{first}:{len(self.plan.input_types) + self.n_outputs}] = now[2]",
               depth + 1)  # fmt: skip
        places = w.name("places", [self.n_outputs + i for i in precomputed.cells])
        w.line(f"for at, data in zip({places}, held):", depth + 1)
        w.line("externals[at] = data", depth + 2)
        w.line("made[-1] = now[0]", depth + 1)

    def _inputs(self, depth: int) -> None:
        w, sources = self.writer, self.capture.sources
        swapped = {
            *self.in_place.values(),
            *(() if self.precomputed is None else self.precomputed.cells),
        }
        looped = {self.in_place[output] for output in self.many_cells}
        for run in runs([source.kind == "cell" for source in sources]):
            if sources[run[0]].kind == "cell":
                cells = w.name("cells", tuple([sources[i].tensor for i in run]))
                w.line(f"{''.join([f't{i}, ' for i in run])}= {cells}", depth)
            else:
                for i in run:
                    w.line(f"t{i} = {self._fetch(sources[i])}", depth)
        for run in runs([(i in looped, i in swapped) for i in range(len(sources))]):
            first, last = self.n_outputs + run[0], self.n_outputs + run[-1]
            if run[0] in looped:
                continue
            if not many(run):
                for i in run:
                    put = "" if i in swapped else f"externals[{self.n_outputs + i}] = "
                    w.line(f"{put}d{i} = t{i}.content", depth)
                continue
            put = "" if run[0] in swapped else f"externals[{first}:{last + 1}] = "
            names, tensors = ("".join([f"{x}{i}, " for i in run]) for x in "dt")
            w.line(f"{put}{names}= [t.content for t in ({tensors})]", depth)

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

    def _target(self, write: PlaceWrite) -> str:
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
        make = self.writer.sized(
            "make", lambda bound: native.storage(bound.types[output].nbytes)[0]
        )
        kind = self.writer.sized(
            "storage", lambda bound: native.storage(bound.types[output].nbytes)[1]
        )
        return f"{make}({kind})"

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

    def _slot(self, output: int, depth: int) -> None:
        w, write = self.writer, self.slot_of_output[output]
        kind = self._type_of(output)
        w.line(f"r{output} = made[{output}]", depth)
        w.line(
            f"if r{output} is None or {self._target(write)} is not r{output} "
            f"or getrefcount(r{output}) != {UNSHARED} "
            f"or getrefcount(r{output}.content) != {UNSHARED_DATA}:",
            depth,
        )
        w.line(f"r{output} = made[{output}] = new(Tensor)", depth + 1)
        w.line(f"r{output}.type, r{output}.record = {kind}, None", depth + 1)
        w.line(f"externals[{output}] = r{output}.content = {self._make(output)}", depth + 1)

    def _results(self) -> None:
        """After the run: tensors of the outputs, histories, cells and slots, the result."""
        w, capture = self.writer, self.capture
        self._tensors_in_a_loop()
        for output in sorted(self.needs_tensor.difference(self.many_tensors)):
            kind = self._type_of(output)
            record = w.name("used", self.used) if output in capture.consumed else "None"
            w.line(f"r{output} = new(Tensor)")
            w.line(
                f"r{output}.type, r{output}.content, r{output}.record = {kind}, b{output}, {record}"
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
            record = w.sized("record", lambda bound: bound.record)
            more = self._recorded_with
            w.line(f"{record}([{tensors}], [{datas}], {results}, [{buffers}]{more})")
        put = w.name("set_record", set_record)
        without: list[int] = []
        for output, source in self.cell_of_output.items():
            cell = capture.sources[source].tensor
            if source in capture.lasting:
                continue
            if capture.gradient is not None and output in capture.gradient.outputs:
                w.line(f"{put}(t{source}, r{output}.record)")
            elif output in capture.consumed:
                w.line(f"{put}(t{source}, {w.name('used', self.used)})")
            elif cell is None or capture.requires[source] or hasattr(cell, "leaf"):
                without.append(source)
        if without:
            w.line(f"for cell in ({''.join([f't{source}, ' for source in without])}):")
            w.line(f"{put}(cell, None)", 2)
        for output in capture.variables:
            w.line(f"r{output}.requires_grad = True")
        self._aliases()
        others = [(i, built) for i, built in enumerate(capture.objects) if not built.is_tuple]
        for i, built in others:
            w.line(f"o{i} = {w.name('empty', empty)}({w.name('class', built.kind)})")
        for i in tuples_in_order(capture.objects):
            w.line(f"o{i} = {self._value(capture.objects[i].recipe, results)}")
        for i, built in others:
            w.line(f"{w.name('fill', filled)}(o{i}, {self._value(built.recipe, results)})")
        writes = []
        for write in [*capture.place_writes, None]:  # what is built may find no memory: so first
            value = self._value(capture.result if write is None else write.recipe, results)
            if "(" in value:
                w.line(f"v{len(writes)} = {value}")
                value = f"v{len(writes)}"
            writes.append((write, value))
        if self.many_slots:
            w.line("for (output, owner, name, type_), tensor in zip(slots, fresh):")
            w.line("if getattr(owner, name) is not tensor:", 2)
            w.line("setattr(owner, name, tensor)", 3)
        for write, value in writes[:-1]:
            kind, output = write.recipe.leaves[0] if write.recipe.leaves else ("", -1)
            if kind == "output" and output in self.many_slots:
                continue
            target = self._target(write)
            if write.address.name == CONTENT and not write.key:
                w.line(f"{w.name('refill', refill)}({target}, {value})")
            elif kind == "output" and output in self.slot_of_output:
                w.line(f"if {target} is not {value}:")
                w.line(self._stored(write, target, value), 2)
            else:
                w.line(self._stored(write, target, value))
        w.line(f"return {writes[-1][1]}")

    def _aliases(self) -> None:
        """Outputs that this run has found to be other tensors are these tensors themselves."""
        names = {"argument": "leaves[{}]", "source": "t{}", "output": "r{}"}
        for alias in self.capture.aliases:
            other = names[alias.of].format(alias.index)
            if alias.flag >= 0:
                test = self.writer.name("holds", holds)
                other = f"{other} if {test}(b{alias.flag}) else r{alias.output}"
            self.writer.line(f"r{alias.output} = {other}")

    def _stored(self, write: PlaceWrite, target: str, value: str) -> str:
        """The statement that sets the target; hooks of the author's have been captured."""
        w, owner, name = self.writer, write.address.owner, write.address.name
        if type(owner) is HeldObject:
            return f"{w.name('put', put_attribute)}({self.given[owner.address]}, {name!r}, {value})"
        if name == CONTENT or type(owner) is ArgumentLeaf or not is_hooked(owner, name):
            deletes = write.recipe.leaves == (("constant", MISSING),)
            return f"del {target}" if deletes else f"{target} = {value}"
        return f"{w.name('put', put_attribute)}({w.name('owner', owner)}, {name!r}, {value})"

    def _value(self, made: TreeRecipe, results: str) -> str:
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
            if kind in _BEFORE:
                return self.given[what]
            if kind == "object":
                return f"o{what}"
        build_name = self.writer.name("build", build)
        found = {what: f"t{what}" for kind, what in made.places if kind == "source"}
        found |= {what: self.given[what] for kind, what in made.places if kind in _BEFORE}
        found |= {("o", what): f"o{what}" for kind, what in made.places if kind == "object"}

        def key(what: Any) -> str:
            return self.writer.name("place", what) if type(what) is Address else repr(what)

        sources = ", ".join(f"{key(what)}: {local}" for what, local in found.items())
        made_name = self.writer.name("made", made)
        return f"{build_name}({made_name}, {results}, leaves, {{{sources}}})"


def _storage_part(output: int, part: int, bound: BindingSubject) -> Any:
    return native.storage(bound.types[output].nbytes)[part]


_BEFORE = ("given", "held")  # kinds of leaves that a run has to look up before it writes

_OF_SIZES: dict[str, Callable[[BindingSubject], Any]] = {
    "spare": lambda _bound: [],
    "handle": lambda bound: bound.plan.handle,
    "fail": lambda bound: functools.partial(_fail, bound.plan, bound.capture),
    "fill": lambda bound: functools.partial(_fill, bound.capture),
}


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
        put_in_force(capture, error, tensors, leaves, given)
        raise


def put_in_force(
    capture: Capture,
    error: BaseException,
    tensors: Sequence[Tensor],
    leaves: Sequence[Any],
    given: Any,
) -> None:
    """Do what a run had written before it raised ``error``."""
    put = taken(error)
    if put is not None and not isinstance(error, OF_CAPTURE):
        put(tensors, leaves, given, capture.graph, capture.recorded)


def _fill(capture: Capture, leaves: Sequence[Any]) -> bool:
    """Wait for what a call takes; whether any of it was pending."""
    return fill([source.fetch(leaves) for source in capture.sources])


def holds(buffer: Any) -> bool:
    """A bool scalar in memory of a plan."""
    return bytes(native.view(buffer, 1)) != b"\0"


def _number(dtype: DType, value: float) -> Tensor:
    return as_tensor(value, dtype)
