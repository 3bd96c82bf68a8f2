"""Region tracers: the tracer of one region of a control-flow node, inside that of its parent.

Tensors from outside the region are its cells: reading one makes it an operand of the node, writing
one makes its last value a result.  Writes to Python places (attributes, lists, dicts) are logged,
so that they can be undone before the next region is traced, and merged once all are known.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.flow import flows_of
from hybrid.core.layouts import whole_of
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentError
from hybrid.ir import Builder, Graph, Op, Value, get_op
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.record import AnyRecord, Record, is_recording, latest, recording
from hybrid.ir.record import Leaf as GradientLeaf
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import CONTENT, Key, reachable, read_place, write_place
from hybrid.trace.regions.tracer import Cell, Tracer, inside_leaf
from hybrid.trace.values.optional import UNBOUND, OptionalValue

MOST_NESTED = 200  # regions in one another, of which plans have no more


class Region(Tracer):
    """A tracer of one region of a node that ``parent`` is about to get."""

    def __init__(self, parent: Tracer, name: str, roots: Iterable[Any] = ()) -> None:
        self.depth: int = getattr(parent, "depth", 0) + 1
        if self.depth > MOST_NESTED:  # a function that calls itself until a run says so
            raise RecursionError(f"more than {MOST_NESTED} branches and loops in one another")
        super().__init__(
            Builder(name),
            parent=parent,
            inner=parent.inner,
            notes=parent.notes,
            texts=parent.texts,
            indefinite_values=parent.indefinite_values,
            handlers=parent.handlers,
            taken_errors=parent.taken_errors,
            stand_ins=parent.stand_ins,
            convert=parent.convert,
            general=parent.general,
            opens=parent.opens,
            unrolls=parent.unrolls,
            follows=parent.follows,
            journal=parent.journal,
            built=parent.built,
            hosted=parent.hosted,
            called=parent.called,
            facts=parent.facts,
            flow_facts=parent.flow_facts,
            abort_effects=parent.abort_effects,
            refuses=parent.refuses,
            presence=parent.presence,
            checked=parent.checked,
            many=parent.many,
            exports=parent.exports,
        )
        self.inner.append(self.owned)
        # Whether iterations find what earlier ones have made: it may have a history, then.
        self.repeats = name == "body" or parent.repeats
        self.cuts: bool = parent.cuts  # whether no_grad is to be seen all over
        self.uncut: list[Value] = []  # made under no_grad of what has no history as yet
        self.uncut_inside = False  # the same in a region of a node
        self.frees = False  # whether backward() has used up histories in it
        self.roots = roots  # what the code of the region can get at from outside
        self.variables: Mapping[str, Any] | None = None  # what names hold where it begins
        self._outside: dict[int, Any] | None = None
        self._start = latest()

    # Tensors ----------------------------------------------------------------------------------

    def applied(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        result = super().applied(op, operands, attrs, regions)
        if is_recording() or op.name == "stop_gradient":
            return result
        # Under no_grad: whoever differentiates the region as a graph must see a constant.
        recorded = any(isinstance(t, Tensor) and self.record_of(t) is not None for t in operands)
        made = result if isinstance(result, tuple) else (result,)
        if not recorded and not (self.cuts and operands):
            if self.repeats:
                self._leave_uncut([t.content for t in made if t.type.floating])
            return result
        cut = [
            super(Region, self).applied(get_op("stop_gradient"), (t,), {}) if t.type.floating else t
            for t in made
        ]
        return tuple(cut) if isinstance(result, tuple) else cut[0]

    def _leave_uncut(self, values: Sequence[Value]) -> None:
        self.uncut += values
        around = self.parent
        while isinstance(around, Region):
            around.uncut_inside = True
            around = around.parent

    def must_cut(self, given: Collection[Value]) -> bool:
        """Whether gradients would flow to what is made under no_grad, if they did to ``given``."""
        nodes = self.builder.nodes
        ends = [*self.uncut]
        if self.uncut_inside:
            ends += [v for node in nodes if node.regions for v in node.operands]
        made = {v for node in nodes for v in node.results}
        read = [*[v for node in nodes for v in node.operands], *ends]
        params = tuple(dict.fromkeys([v for v in read if v not in made]))
        graph = Graph(self.builder.name, params, tuple(nodes), tuple(ends))
        return any(flows_of(graph, [v in given for v in params]))

    def cell(self, tensor: Tensor) -> Cell:
        entry = self.cells.get(id(tensor))
        if entry is None:
            outer = self.parent.traced(tensor)
            value = Value(whole_of(tensor.type), outer.content.hint)
            self.owned.add(value)
            record = self.parent.record_of(tensor)  # its history goes on in the surroundings
            entry = self.cells[id(tensor)] = Cell(
                tensor=tensor, value=value, initial=value, record=record, inside=None
            )
        return entry

    def value_of(self, tensor: Tensor) -> Tensor:
        """What ``tensor`` holds here, whether or not recording is on."""
        return make_tensor(whole_of(tensor.type), self.cell(tensor).value)

    def param(self, type: TensorType, hint: str = "", record: AnyRecord | None = None) -> Tensor:
        """A placeholder: a tensor whose value is a parameter of the region."""
        made = make_tensor(type, Value(type, hint))
        self.owned.add(made.content)
        made.record = inside_leaf(type, record)
        return made

    def keep_variables(self) -> None:
        """Let each variable that the body of a loop has assigned be that variable at its end.

        Gradients of what later iterations make of it are those of the variable before the loop.
        """
        for cell in self.cells.values():
            if cell.assigned:
                with interpreting(self), recording(True):
                    self._make_variable(cell)

    def stack_of(self, rows: Sequence[Any]) -> Tensor | None:
        found = super().stack_of(rows)
        return self.parent.stack_of(rows) if found is None else found

    # Places -----------------------------------------------------------------------------------

    @property
    def outside(self) -> dict[int, Any]:
        """What its code can get at from outside: looked for before its code first writes."""
        if self._outside is None:
            if isinstance(self.parent, Region):
                _ = self.parent.outside  # before a region of it writes
            self._outside = reachable(self.roots, self._cells)
        return self._outside

    def is_outside(self, owner: Any) -> bool:
        """Whether ``owner`` was there before the region."""
        return id(owner) in self.outside or self.parent.is_outside(owner)

    def owner_of(self, namespace: dict) -> Any:
        found = self.outside.get(id(namespace), namespace)
        return self.parent.owner_of(namespace) if found is namespace else found

    def has_outside(self, owner: Any, name: str) -> bool:
        """Whether a place that an inner region has written is one from outside this one, too."""
        namespace = type(owner) is dict and name != CONTENT
        return isinstance(owner, GradientLeaf) or namespace or self.is_outside(owner)

    def log(self, owner: Any, name: str, *, read: bool, written: bool) -> None:
        """Note the use of a place."""
        place = self.places.get((id(owner), name))
        if place is None:
            place = LoggedPlace.as_is(owner, name)
            if name == "cell_contents":
                place.original = self._entered(owner)
            self.mark.add(place)
        place.use(read=read, written=written)

    def begin(self, variables: Mapping[str, Any]) -> None:
        """Its code is about to run, with these variables."""
        if self.variables is None:
            self.variables = variables

    @property
    def _cells(self) -> Mapping[int, str]:
        """The variables of its function that nested functions share, by ids of the cells."""
        return getattr(self.roots, "cells", {})

    def shared(self, names: Mapping[str, Any]) -> dict[Key, Any]:
        """What the cells of shared variables hold where the variables are ``names``."""
        found = {(id_, "cell_contents"): names.get(n, MISSING) for id_, n in self._cells.items()}
        return {key: MISSING if v is UNBOUND else v for key, v in found.items() if v is not MISSING}

    def _entered(self, cell: Any) -> Any:
        """What ``cell`` holds where the region begins; its function may have set it since."""
        name = self._cells.get(id(cell))
        if self.variables is None or name not in self.variables:
            return read_place(cell, "cell_contents")
        found = self.variables[name]
        return MISSING if found is UNBOUND else found

    def will_use_tensor_attribute(self, owner: Any, name: str, reads: bool = False) -> None:
        place = self.places.get((id(owner), name))
        if place is None or (reads and not place.written):
            self.parent.will_use_tensor_attribute(owner, name, reads)

    def read_tensor_attribute(self, owner: Any, name: str) -> Any:
        self.will_use_tensor_attribute(owner, name, reads=True)
        self.log(owner, name, read=True, written=False)
        return getattr(owner, name)

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        self.journal.announce((id(owner), name))
        self.journal.reached.attribute(owner, name, written=True)
        self.will_use_tensor_attribute(owner, name)
        self.log(owner, name, read=False, written=True)
        object.__setattr__(owner, name, value)

    def will_write_attribute(self, owner: Any, name: str) -> None:
        super().will_write_attribute(owner, name)
        if not isinstance(owner, Tensor) and self.is_outside(owner):
            self.log(owner, name, read=True, written=True)

    def will_write_attributes(self, owner: Any) -> None:
        super().will_write_attributes(owner)
        if not isinstance(owner, Tensor) and self.is_outside(owner):
            self.mark.open(owner)

    def will_write_container(self, container: Any) -> None:
        owner = self.owner_of(container) if type(container) is dict else None
        if owner is not None:
            self.will_write_attributes(owner)
            return
        super().will_write_container(container)
        if self.is_outside(container):
            self.log(container, CONTENT, read=False, written=True)

    def will_write_cell(self, cell: Any) -> None:
        super().will_write_cell(cell)
        if self.is_outside(cell):
            self.log(cell, "cell_contents", read=True, written=True)

    def will_write_global(self, namespace: dict, name: str) -> None:
        super().will_write_global(namespace, name)
        self.log(namespace, name, read=True, written=True)

    def will_read_container(self, container: Any) -> None:
        super().will_read_container(container)
        if isinstance(container, defaultdict):  # which makes what is missing
            self.will_write_container(container)
        place = self.places.get((id(container), CONTENT))
        if place is not None:
            place.read = True
        elif self.is_outside(container):
            self.log(container, CONTENT, read=True, written=False)

    def put(self, owner: Any, name: str, value: Any) -> None:
        if self.has_outside(owner, name):
            self.log(owner, name, read=False, written=True)
        write_place(owner, name, value)

    def use_up(self, records: Sequence[Record]) -> None:
        self.frees = True
        for record in records:
            if record.sequence < self._start:  # to other paths it is as it was
                self.mark.keep(record)
            record.free()

    # The graph --------------------------------------------------------------------------------

    def close(self, params: Sequence[Value], results: Sequence[Value]) -> Graph:
        """The region with its parameters in order."""
        return Graph(self.builder.name, tuple(params), tuple(self.builder.nodes), tuple(results))


def truth(value: Any) -> Tensor:
    """The truth of ``value`` (a traced tensor of one element, a Number), as a bool scalar."""
    if isinstance(value, OptionalValue):  # what it is on the other paths has none
        known = not isinstance(value.value, (Tensor, Number, OptionalValue))
        here = bool(value.value) if known else truth(value.value)
        return current().traced(ops.logical_and(value.flag, here))
    if isinstance(value, dict):  # whose items may all be missing
        value = functools.reduce(ops.logical_or, [item.flag for item in dict.values(value)])
    if isinstance(value, (list, tuple)):  # of unknown length: true if there is an item
        counts = [item.count.tensor for item in value]
        value = ops.greater(functools.reduce(ops.add, counts), 0)
    if isinstance(value, Number):
        value = value.truth() if type(value) is Mixed else value.tensor
    if value.type.size != 1:
        raise ArgumentError(
            f"the truth of {value.type} is ambiguous", fix="use hybrid.any or hybrid.all"
        )
    if value.type.rank:
        value = ops.reshape(value, ())
    if value.type.dtype.kind != "bool":
        value = ops.not_equal(value, 0)
    return current().traced(value)
