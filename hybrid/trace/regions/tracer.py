"""The tracer: the interpreter under which op calls become nodes of a graph.

Tensors that exist before the capture are *cells*: reading one makes it an input of the graph,
writing one makes its last value an output that is put back after each run.  Attributes that hold
tensors (``.grad``, a module's state) are *places*, and treated alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.autodiff.presence import OptionalCt, neutral, presence_of
from hybrid.core.dataclass import dataclass, field
from hybrid.core.imports import above
from hybrid.core.open_numbers import any_open, size_of, sizes_of_ints
from hybrid.core.size_functions import SizeValue, size_function
from hybrid.core.size_values import SizeArray
from hybrid.core.sizes import OpenSizes, Size
from hybrid.core.timing import phase
from hybrid.core.tree import flatten
from hybrid.core.types import DType, TensorType, dtype_of
from hybrid.eager.execution import (
    array_of,
    as_tensor,
    holds_tensor,
    in_float32,
    prepare,
    require_fit,
    stacked,
    stored_result,
)
from hybrid.eager.tensor import Tensor, make_tensor, refuse_leaked
from hybrid.errors import (
    CaptureError,
    Location,
    author_location,
)
from hybrid.ir import Builder, Graph, Node, Op, Value, get_op
from hybrid.ir.interpreter import apart, current
from hybrid.ir.record import (
    AnyRecord,
    Boundary,
    Leaf,
    Record,
    gradient_leaf,
    is_recording,
    latest,
    record_call,
    recording,
    with_regions,
)
from hybrid.memory import native
from hybrid.memory.bfloat16 import from_bfloat16, holds_bfloat16
from hybrid.number import Number, number_of
from hybrid.number.mixed_number import Mixed
from hybrid.number.tensor_or_number import TensorOrNumber, as_plain
from hybrid.ops.support.dtypes import as_variable, fresh_variable
from hybrid.trace.guards.constants import (
    Fact,
    constant_value,
    refuse_constant_write,
)
from hybrid.trace.places.address import Address
from hybrid.trace.places.code_owner import MISSING, Place, function_of, place_of
from hybrid.trace.places.journal import Journal, LoggedPlace
from hybrid.trace.places.names import place_in
from hybrid.trace.places.place import ANY, CONTENT, Key, key_of, refuse_diverged, write_place
from hybrid.trace.places.stand_ins import StandIns
from hybrid.trace.regions.checks import check, check_writable, refuse_inner
from hybrid.trace.regions.handlers import Handler, refuse_caught
from hybrid.trace.regions.pending_errors import PendingError
from hybrid.trace.regions.requires_grad import FlowFact, Turning, refusal
from hybrid.trace.regions.stacked_rows import StackedRows
from hybrid.trace.regions.ties import Ties, ties_of, write_tied
from hybrid.trace.regions.value_symbols import Paths, ValueSizes
from hybrid.trace.values.optional import OptionalValue
from hybrid.trace.values.traced_text import Entry, mark
from hybrid.trace.values.varlist import require_known_length


@dataclass(eq=False, slots=True)
class Cell:
    """A tensor from outside the capture: its input of the graph, and its value now."""

    tensor: Tensor
    value: Value  # its value now
    initial: Value  # its value when first read: an input of the graph
    record: AnyRecord | None
    inside: Leaf | None  # the leaf that stands for its history inside the capture
    address: Address | None = None  # to fetch it through, when not fixed
    assigned: bool = False  # a variable, whose value no node has made one of yet

    @property
    def written(self) -> bool:
        return self.value is not self.initial


@dataclass(eq=False)
class Tracer(ValueSizes, StackedRows):
    """The interpreter that appends a node to ``builder`` for each op call."""

    builder: Builder
    attribute_sources: dict[int, Address] = field(default_factory=dict)
    owned: set[Value] = field(default_factory=set)
    inner: list[set[Value]] = field(default_factory=list)  # those of all regions of the capture
    recorded: set[Value] = field(default_factory=set)  # those that gradients flow through
    pending: dict[Value, tuple[Tensor, int]] = field(default_factory=dict)
    rows: dict[Value, tuple[Tensor, int]] = field(default_factory=dict)  # those, taken or not
    taken: dict[tuple[Value, int], Tensor] = field(default_factory=dict)
    notes: list[tuple[Location | None, str]] = field(default_factory=list)  # for explain()
    texts: list[Entry] = field(default_factory=list)  # that were asked of traced values
    # Of the whole capture: lists of unknown length, items of those, optional values.
    indefinite_values: list[Any] = field(default_factory=list)
    stand_ins: StandIns = field(default_factory=StandIns)  # those of the whole capture
    ties: Ties = field(default_factory=Ties)  # which tensors may be one
    follows: bool = False  # whether flags tell which they are, as far as only a run knows it
    cells: dict[int, Cell] = field(default_factory=dict)
    parent: Tracer | None = None  # of a region: the tracer of its surroundings
    handlers: list[Handler] = field(default_factory=list)  # whose bodies are being traced
    errors: list[PendingError] = field(default_factory=list)  # that are pending here
    taken_errors: Iterator[int] = field(default_factory=itertools.count)  # in the whole capture
    rest: Any = None  # the Continuation in which its code goes on, where nothing is pending
    path: Any = None  # of a region: the Path that it is traced for
    known: Collection[int] = ()  # ids of what was there before the capture, as far as it is read
    namespaces: Mapping[int, Any] = field(default_factory=dict)  # ids of what holds attributes
    once: Collection[int] = ()  # ids of iterators among the arguments: no other call gets them
    turning: Turning | None = None  # of a whole capture: the arguments that it turns
    # The tensors of which the author's code was told whether gradients flow to them, by their ids.
    flow_facts: dict[int, FlowFact] = field(default_factory=dict)
    convert: Callable[[Any, bool], Any] | None = None  # from the author's functions to staged ones
    general: bool = False  # whether Python numbers among the arguments are traced
    # Those of arguments that have open axes.
    opens: OpenSizes | None = field(default_factory=lambda: getattr(current(), "opens", None))
    unrolls: bool = False  # whether loops over Python ranges are traced iteration by iteration
    journal: Journal = field(default_factory=Journal)  # what the code of the capture writes
    built: dict[int, Any] = field(default_factory=dict)  # modules made meanwhile, by their ids
    hosted: set[Place] = field(default_factory=set)  # of functions that the plan is to call
    called: set[Place] = field(default_factory=set)  # of those that were called meanwhile
    facts: list[Fact] = field(default_factory=list)  # that the plan counts on
    varying: Collection[int] | None = None  # ids of tensors of the call; None: it is not known
    constants: set[int] = field(default_factory=set)  # ids of tensors taken for constants
    abort_effects: Any = None  # what a run that ends here has written (an AbortEffects)
    refuses: Callable[..., None] | None = None  # ways back that only a run knows
    presence: Any = None  # what knows of histories (a Presence of capture/history_flags.py)
    minded: set[Value] = field(default_factory=set)  # first results of nodes that it lets pass
    rewritten: Collection[int] = ()  # ids of tensors that other iterations write
    # Ids of the tensors from outside whose values all calls that may raise here take along.
    abort_cells: Collection[int] | None = None
    located: Location | None = None  # of nodes that are made of others
    checked: set[Node] = field(default_factory=set)  # whose errors are known before they run
    began: int = field(default_factory=latest)  # before all that the capture records
    firsts: dict[Key, Value] = field(default_factory=dict)  # marks of gradients that are the first
    paths: Paths | None = None  # of whoever makes a capture again
    decisions: int = 0
    samples: dict[Value, Tensor] = field(default_factory=dict)  # values at the call captured
    size_values: dict[Value, Size] = field(default_factory=dict)  # of scalars that are sizes
    known_truths: dict[Value, bool] = field(default_factory=dict)  # of those that decide on a path
    many: int = 1  # rows that each value will have, once vmap has applied the graph to all
    exports: bool = False  # whether the graph goes into a file, where there is no Python
    traces = True
    batches = False
    watches = True
    queues = False
    repeats = False
    cuts = False

    def __post_init__(self) -> None:
        self.mark = self.journal.mark()

    @property
    def places(self) -> dict[Key, LoggedPlace]:
        """The places that were written, or read as attributes with tensors, since it began."""
        return self.mark.places

    # The interpreter's half -------------------------------------------------------------------

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        looks = self.handlers and (op.raises or regions)
        if not looks or any(type(t) in (Mixed, TensorOrNumber) for t in operands):
            return self.applied(op, operands, attrs, regions)
        tensors = [self.traced(t) for t in prepare(self, op, operands)]
        parts = op, tensors, dict(op.attributes(attrs)), regions
        if current() is self and above.let_raise(self, *parts):
            rest = current()
            begin = len(rest.builder.nodes)
            found = rest.applied(op, operands, attrs, regions)
            self.checked.update(rest.builder.nodes[begin:])
            return found
        values = [t.content for t in tensors]
        refuse_caught(self.handlers, op, values, *parts[2:], self.maker, self.checked)
        return self.applied(op, operands, attrs, regions)

    def applied(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        """The results of a new node, whatever it may raise."""
        mixed = [t for t in operands if type(t) is Mixed]
        if mixed and not takes_floats(op, operands):
            return mixed[0].each(
                lambda part: current().apply(
                    op, [part if t is mixed[0] else t for t in operands], attrs, regions
                )
            )
        narrow = stored_result(op, operands)
        if narrow is not None:
            return in_float32(self, op, operands, attrs, narrow)
        tensors = [self.traced(t) for t in prepare(self, op, operands)]
        if self.opens:
            attrs = {name: sizes_of_ints(value) for name, value in attrs.items()}
        given = op.attributes(attrs)
        values = self.builder.apply(
            op,
            [t.content for t in tensors],
            given,
            regions=regions,
            location=self.located or author_location(),
        )
        self.owned.update(values)
        results = tuple([make_tensor(v.type, v) for v in values])
        if any(t.record is not None for t in tensors):
            record_call(op, tensors, with_regions(given, regions), results)
            self.recorded.update(t.content for t in results if t.record is not None)
        return results[0] if len(results) == 1 else results

    @contextmanager
    def certain(self) -> Iterator[None]:
        """A context for nodes that raise nothing, for the operands are made that way."""
        begin, handlers, self.handlers = len(self.builder.nodes), self.handlers, []
        try:
            yield
        finally:
            self.handlers = handlers
            self.checked.update(self.builder.nodes[begin:])

    def lift(self, obj: Any, dtype: DType | None = None) -> Tensor:
        if isinstance(obj, Tensor):
            return obj
        if isinstance(obj, Number):
            return obj.lifted(dtype)
        if type(obj) is SizeArray:
            dtype = as_tensor(obj.value, dtype).dtype
            data = obj.scope.call("elements", obj, dtype)
            attrs = {"shape": obj.shape, "dtype": dtype, "data": data}
            return self.apply(get_op("literal"), (), attrs)
        if isinstance(size_of(obj), SizeValue):
            dtype = dtype or dtype_of(obj.__class__)
            require_fit(size_of(obj), dtype)
            attrs = {"shape": (), "value": size_of(obj), "dtype": dtype}
            return self.apply(get_op("full"), (), attrs)
        if type(obj) in (bool, int, float):
            dtype = dtype or dtype_of(type(obj))
            value = as_tensor(obj, dtype)  # raises what eager would raise
            attrs = {"shape": (), "value": _plain(value), "dtype": dtype}
            return self.apply(get_op("full"), (), attrs)
        if isinstance(obj, (list, tuple)):
            require_known_length(obj, "an operand")
            if holds_tensor(obj) or any_open(*flatten(obj)[0]):
                return stacked(obj, dtype)
        tensor = as_tensor(obj, dtype)
        attrs = {"shape": tensor.shape, "dtype": tensor.dtype, "data": _elements(tensor)}
        return self.apply(get_op("literal"), (), attrs)

    def variable(self, value: Tensor) -> Tensor:
        with recording(True):  # in a region, too, what is made of it is no constant
            made = self.apply(fresh_variable, (value,), {})
        made.record = Leaf(made.type)
        self.recorded.add(made.content)
        return made

    def assign(self, cell: Tensor, value: Tensor) -> None:
        value = self.traced(value)
        self.give(cell, value)
        write_tied(self, cell, value)

    def will_change(self, cell: Tensor) -> None:
        """``cell`` is about to be changed in place, which a leaf in whose place it is refuses."""
        if ties_of(self, cell):
            check_writable(self, cell)

    def will_turn(self, tensor: Tensor, wanted: bool) -> None:
        """``requires_grad`` of ``tensor`` is about to change: a plan repeats that, if it can."""
        if self.owns(tensor):
            if wanted and tensor.type.floating:
                tensor.content = self.variable(tensor).content
            return
        if self.turning is None:
            raise refusal("a tensor from outside a branch or loop")
        entry = self.cells.get(id(tensor))
        told = id(tensor) in self.flow_facts and id(tensor) not in self.turning.index_of
        self.turning.turn(tensor, wanted, self.builder.nodes, read=told or entry is not None)
        if entry is not None:  # a parameter, with a leaf
            entry.record = gradient_leaf(tensor) if wanted else None
            entry.inside = entry.inside or entry.record
            entry.assigned = wanted and entry.written

    def will_tell(self, tensor: Tensor, gradient: bool = False) -> Number | None:
        """The plan serves as long as gradients flow to ``tensor`` as they do now.

        With ``gradient`` it also serves only as long as there has never been a gradient.
        """
        if type(tensor.content) is Value:
            known = gradient or tensor.record is None or self.presence is None
            found = None if known else self.presence.flag(self, tensor.record)
            return None if found is None else Number("bool", found)
        whole = self.whole_turning
        if whole is None or id(tensor) not in whole.before:
            needs = tensor.record is not None
            known = self.flow_facts.setdefault(id(tensor), FlowFact(tensor, needs))
            known.never = known.never or gradient
        return None

    def will_clear(self, tensor: Tensor) -> None:
        """The gradient of ``tensor``, which has never had one, is cleared.

        At other calls there may be one.  A tensor that is always the same gets a leaf for it here.
        """
        self.will_tell(tensor)
        known = self.flow_facts.get(id(tensor))
        if known is None or known.never:
            return
        whole, key = self.whole_turning, id(tensor)
        if whole is None or key in whole.index_of or key in whole.replaced:
            known.never = True
            return
        tensor.frozen_leaf = Leaf(tensor.type)
        tensor.frozen_leaf.frozen = True
        self.write_tensor_attribute(tensor.frozen_leaf, "grad", None)

    @property
    def whole_turning(self) -> Turning | None:
        """The changes of ``requires_grad`` of the whole capture."""
        return self.parent.whole_turning if self.parent is not None else self.turning

    def give(self, cell: Tensor, value: Tensor) -> None:
        """Let ``cell``, and no tensor besides, hold ``value``."""
        cell = as_plain(cell)
        record = value.record or getattr(cell, "leaf", None)
        if self.owns(cell):
            cell.content, cell.record = value.content, record
        else:
            if self.parent is None:
                refuse_constant_write(self, cell)
            entry = self.cell(cell)
            entry.value, entry.record = value.content, record
            entry.assigned = value.record is None and record is not None

    def read_tensor_attribute(self, owner: Any, name: str) -> Any:
        self.will_use_tensor_attribute(owner, name, reads=True)
        return getattr(owner, name)

    def will_use_tensor_attribute(self, owner: Any, name: str, reads: bool = False) -> None:
        """What is there from before counts, if it ``reads`` it; a tensor is an input.

        So each run takes the tensor that is there.
        """
        key = id(owner), name
        if key not in self.places:
            found = getattr(owner, name, None)
            if isinstance(found, Tensor):
                self.attribute_sources.setdefault(id(found), Address(owner, name))
            if reads:
                self.mark.add(LoggedPlace(owner=owner, name=name, original=found, read=True))
        if reads:
            self.places[key].reads += 1

    def first_gradient(self, leaf: Leaf, value: Tensor) -> Tensor:
        """Marked, where nothing but ``backward()`` has seen yet that there is none."""
        key = id(leaf), "grad"
        place = self.places[key]
        is_new = leaf.sequence > self.began  # of a variable that the capture has made
        # A branch or loop may have written what was there, and leave no trace: None over None.
        written = self.journal.covers(key)
        if self.parent is not None or place.reads > 1 or written or is_new:
            return value
        marked = self.apply(get_op("reshape"), (value,), {"shape": value.shape})
        self.firsts[key] = marked.content
        return marked

    def gradient_on_paths(self, old: Any, grad: OptionalCt) -> OptionalValue:
        value = grad.ct.detach()
        if old is None:
            return OptionalValue(value=value, flag=grad.present, other=None)
        flag = ops.logical_or(old.flag, grad.present)
        return old.of(old.or_nothing() + neutral(grad).detach(), flag)

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        self.journal.announce((id(owner), name))
        self.journal.reached.attribute(owner, name, written=True)
        place = self.places.get((id(owner), name))
        if place is None:
            place = self.mark.add(
                LoggedPlace(owner=owner, name=name, original=getattr(owner, name, MISSING))
            )
        place.written = True
        object.__setattr__(owner, name, value)

    def use_up(self, records: Sequence[Record]) -> None:
        for record in records:
            record.free()

    def require_history(self, record: AnyRecord, cts: Sequence[Any], error: Any) -> None:
        found = presence_of(cts)
        if found is not None and self.presence is not None and not self.presence.always(record):
            check(found, error())

    def going_back(self, ends: Sequence[Any], nodes: Sequence[Any]) -> AbstractContextManager:
        if self.refuses is not None:
            self.refuses(self, ends, nodes)
        return self._going_back()

    @contextmanager
    def _going_back(self) -> Iterator[None]:
        with phase("backward"), self.minding():
            yield

    @contextmanager
    def minding(self) -> Iterator[None]:
        """Control-flow nodes that are made meanwhile are not the author's."""
        start = len(self.builder.nodes)
        yield
        for node in self.builder.nodes[start:]:
            self.minded.update(node.results[:1] if node.regions else ())

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Write to a place what a node has made of it."""
        if isinstance(owner, Leaf):
            self.write_tensor_attribute(owner, name, value)
        else:
            write_place(owner, name, value)

    def adopt(self, written: Iterable[tuple[Any, str, Any]]) -> None:
        """Log writes of (owner, name, original) that nothing has logged."""
        for owner, name, original in written:
            if (id(owner), name) not in self.places:
                own = self.journal.held(owner, name)
                self.mark.add(
                    LoggedPlace(owner=owner, name=name, original=original, written=True, own=own)
                )

    def converted(self, function: Any, optional: bool = False) -> Any:
        return function if self.convert is None else self.convert(function, optional)

    def number_of(self, tensor: Tensor) -> Number:
        """The Python number in a tensor of one element."""
        return number_of(self.traced(tensor))

    def text_of(self, value: Tensor | Number, conversion: str, spec: str = "") -> str:
        """What stands for the text of ``value`` as it is now."""
        value = self.kept(value) if isinstance(value, Tensor) else value
        return mark(self.texts, value, conversion, spec)

    def kept(self, tensor: Tensor) -> Tensor:
        """A tensor that remains what ``tensor`` is now."""
        if type(tensor) is TensorOrNumber:
            return tensor.of(self.kept(tensor.tensor), tensor.flag, tensor.number)
        made = make_tensor(tensor.type, self.traced(tensor).content)
        made.record = self.record_of(tensor)  # under no_grad, too
        return made

    def note(self, at: Location | None, text: str) -> None:
        """Remember what became of the author's code at ``at``."""
        self.notes.append((at, text))

    def maker(self, value: Value) -> Node | None:
        """The node that ``value`` is a result of; None for a parameter."""
        return next((n for n in reversed(self.builder.nodes) if value in n.results), None)

    def extend(
        self, value: Value, regions: tuple[Graph, ...], attrs: dict[str, Any]
    ) -> tuple[Value, ...]:
        """Give the node that makes ``value`` other regions, for further results: these."""
        nodes = self.builder.nodes
        node = self.maker(value)
        given = node.op.attributes(node.attributes | attrs)
        types = node.op.infer(tuple([v.type for v in node.operands]), given, regions)
        made = tuple([Value(t, "", node.location) for t in types[len(node.results) :]])
        results = (*node.results, *made)
        nodes[nodes.index(node)] = Node(
            node.op, node.operands, given, results, regions, node.location
        )
        self.owned.update(made)
        return made

    def will_host(self, function: Any) -> None:
        """The plan will call ``function``, at every run."""
        place = place_of(function)
        if place is not None and self.convert is not None:  # else calls of it would go unseen
            self.hosted.add(place)

    def will_call(self, function: Any) -> None:
        """``function`` is about to be called, now."""
        found = function_of(function)
        if found is not None:
            self.called.add(place_in(found.__code__))
            self.journal.reached.function(found)

    def count_on(self, what: str, read: Callable[[], Any], given: Any = MISSING) -> None:
        """The plan serves as long as ``read`` gives what is given, or what it does now.

        ``what`` says of what.
        """
        self.facts.append(Fact(what, read, read() if given is MISSING else given))

    def constant(self, tensor: Tensor) -> np.ndarray | None:
        """The elements of ``tensor``, if they are the same at every call."""
        return constant_value(self, tensor)

    def leaving(
        self, function: Callable[..., Any], operands: Sequence[Any]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """``function`` with its operands, such that it leaves what is written when it raises."""
        if self.abort_effects is None:
            return function, list(operands)
        return self.abort_effects.leaving(function, operands)

    # What converted code announces; only a region undoes and merges it -------------------------

    def is_outside(self, owner: Any) -> bool:
        """Whether ``owner`` was there before the capture (or the region)."""
        return id(owner) in self.known

    def owner_of(self, namespace: dict) -> Any:
        """The object from outside that has its attributes in ``namespace``, if it is such."""
        return self.namespaces.get(id(namespace))

    def is_known(self, owner: Any) -> bool:
        """Whether ``owner`` was there before the capture."""
        return id(owner) in self.known if self.parent is None else self.parent.is_known(owner)

    def will_write_attribute(self, owner: Any, name: str) -> None:
        """``owner.name`` is about to be set or deleted."""
        self.journal.announce(key_of(owner, name))
        if self.parent is None:  # on every path
            self.journal.half_written.pop(key_of(owner, name), None)
        self._will_write_on(owner, name)

    def will_read_attribute(self, owner: Any, name: str) -> None:
        """``owner.name`` is about to be looked at, by a name that no code may spell."""
        self.journal.reached.attribute(owner, name)

    def will_write_attributes(self, owner: Any) -> None:
        """Any attributes of ``owner`` are about to be set or deleted."""
        self.journal.announce((id(owner), ANY))
        self._will_write_on(owner, ANY)

    def _will_write_on(self, owner: Any, name: str) -> None:
        if name != ANY:
            self.journal.reached.attribute(owner, name, written=True)
        self.journal.will_write(owner, name)
        self.stand_ins.will_write(owner, self.is_known)
        self.journal.announce_owner(owner)

    def will_write_container(self, container: Any) -> None:
        """What ``container`` holds is about to change."""
        self.journal.announce((id(container), CONTENT))
        self.journal.will_write(container, CONTENT)
        self.journal.reached.container(container)
        self.stand_ins.will_write(container, self.is_known)

    def will_read_container(self, container: Any) -> None:
        """What ``container`` holds is about to be looked at."""
        if self.indefinite_values:
            refuse_diverged(container)

    def will_write_cell(self, cell: Any) -> None:
        """A variable of an enclosing function is about to be set."""
        self.journal.announce_variable(cell, "cell_contents")

    def will_write_global(self, namespace: dict, name: str) -> None:
        """A global name is about to be set."""
        self.journal.reached.global_(namespace, name, written=True)
        self.journal.announce_variable(namespace, name)

    # Values -----------------------------------------------------------------------------------

    def owns(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` holds a value of this very graph."""
        return type(tensor.content) is Value and tensor.content in self.owned

    def input(self, type: TensorType) -> Tensor:
        """A further parameter of the graph."""
        value = self.builder.param(type)
        self.owned.add(value)
        return make_tensor(type, value)

    def record_of(self, tensor: Tensor) -> AnyRecord | None:
        """The history of ``tensor`` as seen here, recording or not."""
        return tensor.record if self.owns(tensor) else self.cell(as_plain(tensor)).record

    def traced(self, tensor: Tensor) -> Tensor:
        """``tensor``, or what stands for it in the graph when it comes from outside."""
        tensor = as_plain(tensor)
        if self.owns(tensor):
            if tensor.content in self.pending:
                self._take_row(tensor)
            return tensor
        entry = self.cell(tensor)
        if entry.assigned and is_recording():
            self._make_variable(entry)
        made = make_tensor(tensor.type, entry.value)
        made.record = entry.record if is_recording() else None
        return made

    def _make_variable(self, entry: Cell) -> None:
        """Let the graph, too, know that gradients take the value for that of the variable.

        Whoever differentiates the graph finds it there; a value that nobody reads needs no node.
        """
        entry.assigned = False
        variable = make_tensor(entry.tensor.type, entry.initial)
        variable.record = entry.record
        value = make_tensor(entry.tensor.type, entry.value)
        entry.value = self.apply(as_variable, (value, variable), {}).content

    def cell(self, tensor: Tensor) -> Cell:
        """The cell entry of a tensor from outside."""
        entry = self.cells.get(id(tensor))
        if entry is None:
            if type(tensor.content) is Value:
                refuse_inner(tensor, self.inner)
                refuse_leaked(tensor)
                raise CaptureError(
                    f"a value ({tensor.type}) of another capture was used",
                    at=author_location(),
                    fix="pass it as an argument",
                )
            value = self.builder.param(tensor.type)
            self.owned.add(value)
            source = self.attribute_sources.get(id(tensor))
            inside = inside_leaf(tensor.type, tensor.record)
            entry = Cell(
                tensor=tensor,
                value=value,
                initial=value,
                record=inside,
                inside=inside,
                address=source,
            )
            self.cells[id(tensor)] = entry
        return entry

    def closed(
        self, name: str, types: Iterable[TensorType], function: Callable[..., Iterable[Tensor]]
    ) -> Graph:
        """``region_of``, for those below this module."""
        return region_of(name, types, function)


def region_of(
    name: str, types: Iterable[TensorType], function: Callable[..., Iterable[Tensor]]
) -> Graph:
    """The closed graph of ``function`` on tensors of ``types``."""
    tracer = Tracer(builder=Builder(name), many=current().many)
    values = [tracer.builder.param(type) for type in types]
    tracer.owned.update(values)
    with apart(tracer), recording(False):
        results = function(*[make_tensor(v.type, v) for v in values])
        return tracer.builder.finish([tracer.traced(t).content for t in results])


def inside_leaf(type: TensorType, record: AnyRecord | None) -> Leaf | None:
    """The leaf that stands for a history inside: a leaf itself, or a boundary that cuts it off."""
    if record is None or isinstance(record, Leaf):
        return record
    return Boundary(type, record)


def takes_floats(op: Op, operands: Sequence[Any]) -> bool:
    """Whether Python numbers of any kind are floats to ``op``, as those beside float tensors."""
    return bool(op.promotes) and any(isinstance(t, Tensor) and t.type.floating for t in operands)


def _elements(tensor: Tensor) -> bytes:
    return bytes(native.view(tensor.content, tensor.nbytes))


size_function("elements", lambda array, dtype: _elements(as_tensor(array, dtype)), raises=False)


def _plain(scalar: Tensor) -> bool | int | float:
    """The number in an eager scalar."""
    bits = array_of(scalar)
    return (from_bfloat16(bits) if holds_bfloat16(bits) else bits).item()
