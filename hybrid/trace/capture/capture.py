"""Run a function once under the tracer, and return what it did as a graph with its bindings.

The graph's parameters are the tensors that the function read (arguments, cells, places), its
results the tensors that it returned or wrote.  ``Capture`` says where each of them comes from and
goes to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hybrid.autodiff.presence import Ct, OptionalCt, neutral
from hybrid.autodiff.tape import history, pulled_back
from hybrid.core.dataclass import replace
from hybrid.core.exceptions import is_interrupt, remembering, swallowed
from hybrid.core.sizes import OpenSizes
from hybrid.core.tree import flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import ending
from hybrid.errors import CaptureError, GradientError, LeakedValueError, ends_capture
from hybrid.ir import Builder, Graph, Value
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.record import (
    AnyRecord,
    Leaf,
    ShardLeaf,
    gradient_leaf,
    is_consumed,
    recording,
)
from hybrid.ops.flow.control import FLAG
from hybrid.trace.alias.row_limits import refuse_recurring
from hybrid.trace.capture.abort_effects import AbortEffects
from hybrid.trace.capture.aliased_results import found_aliases
from hybrid.trace.capture.backward import alike, places_at_hand, uses_of
from hybrid.trace.capture.captured_graph import (
    Backward,
    Capture,
    Gradient,
    HistoryAlias,
    Item,
    PlaceWrite,
)
from hybrid.trace.capture.divided_paths import refuse_divided_paths
from hybrid.trace.capture.first_gradients import FirstGradients, unmarked
from hybrid.trace.capture.history_flags import Presence, presence
from hybrid.trace.capture.number_inputs import as_input, number_cell, put_numbers
from hybrid.trace.capture.open_arguments import (
    needed_axes,
    open_axes,
    put_outside,
    require_apart,
    stand_ins,
)
from hybrid.trace.capture.outputs import KnownValues, ResultBuilder
from hybrid.trace.capture.surroundings import surrounded
from hybrid.trace.capture.writes import Writes
from hybrid.trace.gradients.region_vjp import cut, values_of
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.identity_guards import identity_guards
from hybrid.trace.places.address import Address, ArgumentLeaf
from hybrid.trace.places.code_owner import MISSING, definition, returning
from hybrid.trace.places.differences import containers_in, tuples_in
from hybrid.trace.places.frames import BOUNDARIES
from hybrid.trace.places.place import Key
from hybrid.trace.regions.pending_errors import EndOfPath
from hybrid.trace.regions.requires_grad import FlowFact, Turning
from hybrid.trace.regions.tracer import Cell, LoggedPlace, Tracer
from hybrid.trace.regions.value_symbols import Paths
from hybrid.trace.values.varlist import refuse_written


def capture(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    guards: Guards,
    name: str,
    *,
    convert: Callable[[Any, bool], Any] | None = None,
    unrolls: bool = False,
    follows: bool = False,
    paths: Paths | None = None,
    numbers: Collection[int] = (),
    opened: Mapping[tuple[Item, int], Any] | None = None,
    exports: bool = False,
) -> Capture:
    """Trace ``function(*args, **kwargs)``, whose leaves are ``leaves``, and return the Capture.

    The ``numbers`` among the leaves become inputs.  ``opened`` axes (of leaves, or of
    tensors at addresses) get a symbol for each of the numbers given for them.  ``convert`` makes
    functions of the author's stage their control flow; ``unrolls`` tells to trace loops over Python
    ranges iteration by iteration, ``follows`` to follow which tensors are one; ``paths`` is what is
    known of sizes that depend on values.  What is captured for ``exports`` has no way back, and
    nothing that this asks of sizes; schedules are traced.  Whatever happens, function, cells,
    attributes and containers
    are left as they were, but for what may be the work of other threads: ``UnsettledPlace`` tells
    of that.  An exception of the author's carries what was written before
    it (see exceptions.py).
    """
    tracer = Tracer(
        builder=Builder(name),
        attribute_sources=dict(guards.attribute_sources),
        namespaces=guards.namespaces,
        once=guards.once,
        convert=convert,
        general=bool(numbers or guards.inputs),
        unrolls=unrolls,
        follows=follows,
        refuses=None if current().batches else refuse_recurring,
        presence=None if current().batches else Presence(),
        many=current().many,
        exports=exports,
    )
    tracer.paths = paths
    if paths is not None and paths.sized:
        tracer.opens = OpenSizes()
    tracer.journal.reached.walk = guards.reads
    tracer.journal.reached.is_known = tracer.is_known
    writes = Writes(tracer, guards)
    trace = functools.partial(_captured, writes, function, args, kwargs, leaves, numbers, opened)
    return surrounded(functools.partial(ending, trace, writes.undo))


BOUNDARIES.add(id(capture.__code__))


def _captured(
    writes: Writes,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    numbers: Collection[int],
    opened: Mapping[tuple[Item, int], Any] | None,
) -> Capture:
    """Run the function with traced arguments, put its writes back, and return the Capture."""
    tracer, guards = writes.tracer, writes.guards
    structure = flatten((args, kwargs))[1]
    axes = open_axes(leaves, opened) if opened else None
    if axes is not None:
        tracer.opens = axes.sizes
    originals, outside, placed = leaves, {}, set[int]()
    if axes is not None:
        leaves, outside = stand_ins(leaves, axes)
    with interpreting(tracer), remembering() as raised:
        places = {i: number_cell(leaves[i]) for i in numbers}
        leaves = [as_input(tracer, t, places.get(i)) for i, t in enumerate(leaves)]
        args, kwargs = unflatten(structure, leaves)
        given = list(containers_in((args, kwargs)))
        tracer.journal.given_tuples.update(map(id, tuples_in((args, kwargs))))
        tracer.turning = Turning(leaves, guards.attribute_sources)
        tracer.known = guards.known.union([id(container) for container, _ in given])
        at = definition(function)
        known = KnownValues(
            leaves, given, guards.containers.values(), places, at, returning(function),
            guards.matching.objects,
        )  # fmt: skip
        cells = [id(cell) for cell in places.values()]
        tracer.varying = {*cells, *[id(t) for t in leaves if isinstance(t, Tensor)]}
        writes.begin(given, tracer.turning)
        try:
            known.kept = put_numbers(tracer, guards, writes.inputs)
            if outside:
                placed = put_outside(tracer, guards, writes.inputs, outside)
            tracer.varying.update(known.kept, map(id, outside.values()))
            writes.watch()
            tracer.abort_effects = AbortEffects(tracer, known, writes)
            try:
                result = tracer.converted(function, optional=True)(*args, **kwargs)
                raise_swallowed(raised)
            except BaseException as error:
                raise_swallowed(raised, error)
                if type(error) is not EndOfPath and not ends_capture(error):
                    tracer.abort_effects.end(error)
                raise
            finally:
                writes.end()
            writes.require_repeatable(tracer.builder.name, at)
            if axes is not None:
                require_apart(tracer, originals, axes, guards, placed)
            captured = _CaptureBuilder(writes, leaves, known).run(result)
            guards.fix_gradients(captured)
            if axes is not None and axes.outside:
                axes = needed_axes(axes, captured.graph, tracer)
            captured.open_axes = axes
            if tracer.opens is not None and len(tracer.opens.symbols) > len(
                () if axes is None else axes.places
            ):
                captured.value_sizes = tracer.opens
        except BaseException as error:
            writes.give_up(error)
            if isinstance(error, Exception) and not is_interrupt(error):
                writes.require_guards()
            raise
        writes.keep()
        guards.identities = identity_guards(
            tracer.journal.identities.found, guards.snapshot, leaves, (args, kwargs)
        )
        guards.count_on(tracer.journal.memos)
        guards.count_on_absence(tracer.journal.reached.absent)
        guards.leave_out(captured.place_writes, captured.sources)
        guards.settle()
        captured.notes, captured.facts = tracer.notes, tracer.facts
        captured.path_errors = () if tracer.paths is None else tracer.paths.objects
        return captured


def raise_swallowed(raised: Sequence[BaseException], last: BaseException | None = None) -> None:
    """Raise a control exception again that did not get through, unless an interrupt was last."""
    error = None if is_interrupt(last) else swallowed(raised, last)
    if error is not None:
        raise error from None


class _CaptureBuilder:
    """Builds the Capture from the state of a tracer whose function has returned."""

    def __init__(self, writes: Writes, leaves: Sequence[Any], known: KnownValues) -> None:
        self.writes, self.leaves, self.known = writes, leaves, known
        self.tracer, self.guards = writes.tracer, writes.guards
        self.result_builder = ResultBuilder(self.tracer, known, self.output)
        self.outputs: list[Value] = []
        self.output_of: dict[int, int] = {}  # id of a returned Tensor -> output
        self.tensors: list[Tensor] = []  # those in output_of
        self.keep: list[Any] = []

    def run(self, result: Any) -> Capture:
        """Return the Capture for the function's ``result``, its gradient included."""
        tracer, final, changes = self.tracer, self.writes.left, self.writes.changes
        assert tracer.turning is not None
        turned, self.switched = tracer.turning.turned(), tracer.turning.switched()
        refuse_written(tracer.indefinite_values)
        self.count_on_absent_gradients()
        for place, _ in list(tracer.journal.half_written.values()):
            if tracer.is_known(place.owner):
                tracer.journal.refuse_half_written(place.owner)
        lasting_places = self.lasting_places()
        written = [
            (place, final[key])
            for key, place in lasting_places.items()
            if place.written and self.changed(place, final[key])
        ]
        contents = [change.after for change in changes]
        for value in (result, *[value for _, value in written], *contents):
            self.result_builder.known.hand_on(value, self.guards)
        self.result_builder.share([result, *[v for _, v in written], *contents])
        result_recipe = self.result_builder.recipe_of(result)
        known, places = self.known.owners, list(lasting_places.values())
        place_writes = [
            PlaceWrite(
                Address(place.owner, place.name).seen_from(known),
                self.result_builder.recipe_of(value),
                place.original is not MISSING,
            )
            for place, value in written
        ]
        for change in changes:
            place_writes += self.result_builder.container_writes(change)
        cells = self.cells()
        records = [tensor.record for tensor in self.tensors]
        variables = self.variables(cells)
        for index in variables:
            records[index] = None
        writes = []
        lasting: set[int] = set()
        for index, cell in enumerate(cells):
            if cell.written:
                writes.append((index, len(self.outputs)))
                self.outputs.append(cell.value)
                if cell.record is not None and cell.record is cell.inside:
                    lasting.add(index)  # as where a parameter is updated: no way back to go
                records.append(None if index in lasting else cell.record)
        consumed = frozenset(i for i, r in enumerate(records) if r is not None and is_consumed(r))
        live = [i for i, r in enumerate(records) if r is not None and i not in consumed]
        if tracer.exports:
            live = []
        history_aliases: tuple[HistoryAlias, ...] = ()
        presence_flags: tuple[int, ...] = ()
        if live:
            self.refuse_leading_to(variables, [records[i] for i in live])
            self.refuse_switched([records[i] for i in live])
            history_aliases = self.history_aliases([records[i] for i in live], cells)
            tracer.located = self.known.returning or self.known.at
            presence_flags = self.presence_flags([records[i] for i in live])
        tracer.located = self.known.returning or self.known.at
        aliases = found_aliases(tracer, self.tensors, self.output_of, self.known, self.outputs)
        tracer.located = None
        forward_count = len(tracer.builder.nodes)
        forward_params = len(tracer.builder.params)
        gradient = None
        if live:
            gradient = self.gradient(
                live,
                [records[i] for i in live],
                cells,
                forward_count,
                history_aliases,
                presence_flags,
            )
            del tracer.builder.params[forward_params:]
        builder = tracer.builder
        nodes = tuple(builder.nodes[:forward_count])
        graph = Graph(builder.name, tuple(c.initial for c in cells), nodes, tuple(self.outputs))
        refuse_divided_paths(graph)
        self.count_on_containers()
        firsts = self.first_gradients(graph)
        if firsts is not None:
            graph = unmarked(graph, tracer.firsts.values())
        return Capture(
            stored_graph=graph,
            sources=[self.known.source(cell) for cell in cells],
            result=result_recipe,
            consumed=consumed,
            writes=writes,
            place_writes=place_writes,
            guards=self.guards,
            requires=[self.requires(cell.tensor) for cell in cells],
            gradient=gradient,
            stored_recorded=frozenset(tracer.recorded) or None,
            lasting=frozenset(lasting),
            place_reads=[
                (Address(s.owner, s.name).seen_from(known), s.original) for s in places if s.read
            ]
            + self.absent_gradients(),
            flow_facts=self.flow_facts(),
            argument_aliases=self.argument_aliases(),
            outside=tuple(self.guards.containers.values())
            if changes or tracer.abort_effects.changed
            else None,
            given=self.known.given,
            objects=tuple(self.result_builder.objects),
            aliases=aliases,
            variables=tuple(variables),
            firsts=firsts,
            turned=turned,
        )

    def count_on_containers(self) -> None:
        """Make the identity of each outer container in the results a fact of the plan."""
        outer = {
            **self.result_builder.outer_containers,
            **self.tracer.abort_effects.outer_containers,
        }
        for container in outer.values():
            found = self.guards.snapshot.path_to(container)
            if found is not None:
                label, read = found
                what = f"which {type(container).__name__} {label} is"
                self.tracer.count_on(what, read, id(container))

    def first_gradients(self, graph: Graph) -> FirstGradients | None:
        """Return the FirstGradients of ``graph``; None if it stores no first gradient."""
        logged, owners = self.tracer.places, self.known.owners
        places = [
            (Address(logged[key].owner, logged[key].name).seen_from(owners), mark)
            for key, mark in self.tracer.firsts.items()
        ]
        return FirstGradients(graph, tuple(places)) if places else None

    def count_on_absent_gradients(self) -> None:
        """Note as read the gradients that regions alone have written: there was none before.

        None written over None leaves no trace where paths meet.
        """
        places = self.tracer.places
        for mark in self.tracer.journal.marks:
            for key, place in mark.places.items():
                if isinstance(place.owner, Leaf) and place.written and key not in places:
                    now = getattr(place.owner, place.name)
                    found = LoggedPlace(owner=place.owner, name=place.name, original=now, read=True)
                    self.tracer.mark.add(found)

    def lasting_places(self) -> dict[Key, LoggedPlace]:
        """Return the logged places that exist at other calls, too, by their keys."""
        tracer, leaves = self.tracer, set()
        known = [*tracer.cells.values(), *tracer.flow_facts.values()]
        for tensor in (*[one.tensor for one in known], *self.known.tensors):
            leaves.add(id(gradient_leaf(tensor)))
        return {
            key: place
            for key, place in tracer.places.items()
            if type(place.owner) is not Leaf
            or place.owner.sequence < tracer.began
            or id(place.owner) in leaves
        }

    def absent_gradients(self) -> list[tuple[Address, None]]:
        """Return the gradients that arguments were found to have none of, as places read."""
        indices = self.known.arguments
        return [
            (Address(ArgumentLeaf(indices[key], frozen=True), "grad"), None)
            for key, told in self.tracer.flow_facts.items()
            if told.never and key in indices
        ]

    def flow_facts(self) -> tuple[FlowFact, ...]:
        """Return what the guards have to know of the tensors that the code was told about."""
        found = []
        for key, told in self.tracer.flow_facts.items():
            address = self.tracer.attribute_sources.get(key)
            covered = key in self.tracer.cells or address is not None
            if key not in self.known.arguments and (told.never or not covered):
                found.append(replace(told, address=address))
        return tuple(found)

    def variables(self, cells: list[Cell]) -> dict[int, Leaf]:
        """Return the outputs that are variables made by the capture, with their leaves."""
        outside = {id(cell.inside) for cell in cells}
        found = {
            index: tensor.leaf
            for index, tensor in enumerate(self.tensors)
            if getattr(tensor, "leaf", None) is not None
            and tensor.record is tensor.leaf
            and id(tensor.leaf) not in outside
        }
        places = self.tracer.places
        if any((id(leaf), "grad") in places for leaf in found.values()):
            raise self.variable_leaves("its gradient")
        return found

    def refuse_leading_to(self, variables: dict[int, Leaf], records: list[AnyRecord]) -> None:
        """Raise if a returned history leads to a variable that the call returns as well."""
        if variables and not {*variables.values()}.isdisjoint(history(records)):
            raise self.variable_leaves("what was computed of it")

    def requires(self, tensor: Tensor) -> bool:
        """Return whether calls that the plan serves begin with gradients flowing to ``tensor``."""
        switched = self.switched.get(id(tensor))
        return (tensor if switched is None else switched).record is not None

    def refuse_switched(self, records: list[AnyRecord]) -> None:
        """Raise if a returned history leads to a parameter that was switched meanwhile."""
        leaves = {id(turn.leaf) for turn in self.switched.values()}
        if leaves and any(id(node) in leaves for node in history(records)):
            raise CaptureError(
                f"{self.tracer.builder.name} sets requires_grad of a tensor in its middle, and "
                "returns or stores what was computed of it",
                at=self.known.at,
                why="A run has one state of each tensor for all that it returns.",
                fix="return it without its history (loss.detach()), or set requires_grad outside",
            )

    def variable_leaves(self, what: str) -> CaptureError:
        """Return the error for a variable that leaves the call together with ``what``."""
        return CaptureError(
            f"{self.tracer.builder.name} made a variable, and returns or stores it and {what}",
            at=self.known.at,
            why="A plan makes its variables anew in each run, without a way back to them.",
            fix="make the variable (requires_grad = True, a copy of one) outside and pass it in",
        )

    def argument_aliases(self) -> list[tuple[int, Any]]:
        """Return the argument leaves that are also read from outside, each with its address."""
        found = []
        for index, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                address = self.tracer.attribute_sources.get(id(leaf))
                if address is not None or id(leaf) in self.guards.outside:
                    found.append((index, address or leaf))
        return found

    def output(self, leaf: Tensor) -> int:
        """Return the index of the graph result for a traced tensor, adding it if it is new."""
        if leaf.content not in self.tracer.owned:
            raise LeakedValueError(
                f"{self.tracer.builder.name} returned a value ({leaf.type}) of another capture",
                at=self.known.at,
                why="It stands for a value of that graph only.",
                fix="return it from the function that made it, and pass it on as an argument",
            )
        self.tracer.traced(leaf)  # a row of a stack becomes a node now
        index = self.output_of.get(id(leaf))
        if index is None:
            index = self.output_of[id(leaf)] = len(self.outputs)
            self.keep.append(leaf)
            self.outputs.append(leaf.content)
            self.tensors.append(leaf)
        return index

    def changed(self, place: LoggedPlace, value: Any) -> bool:
        """Return whether the final ``value`` of ``place`` has to be written by a run."""
        if value is None and place.original is None and isinstance(place.owner, Leaf):
            return not place.read  # there may be one at other calls
        return value is not place.original or isinstance(value, (list, dict))

    def history_aliases(
        self, records: list[AnyRecord], cells: list[Cell]
    ) -> tuple[HistoryAlias, ...]:
        """Return which outputs share the history of another value, adding flags to the results."""
        sources = {(c.inside, 0): i for i, c in enumerate(cells) if c.inside is not None}
        found = []
        for output, of, index, where in alike(records, sources):
            flag = -1
            if where is not None:
                flag = len(self.outputs)
                self.outputs.append(where.content)
            found.append(HistoryAlias(output, of, index, flag))
        return tuple(found)

    def presence_flags(self, records: list[AnyRecord]) -> tuple[int, ...]:
        """Return the results that say which outputs have a history; -1 stands for always."""
        try:
            flags = presence(self.tracer, records)
        except GradientError:  # for whoever goes back to hear
            return (-1,) * len(records)
        found = []
        for flag in flags:
            found.append(-1 if flag is None else len(self.outputs))
            self.outputs += [] if flag is None else [flag.content]
        return tuple(found)

    def gradient(
        self,
        live: list[int],
        records: list[AnyRecord],
        cells: list[Cell],
        forward_count: int,
        history_aliases: tuple[HistoryAlias, ...],
        presence_flags: tuple[int, ...],
    ) -> Gradient:
        """Trace the backward pass behind the forward nodes, and cut it off as a graph.

        Where a derivative is missing that is said to whoever goes back, as eagerly.
        """
        tracer = self.tracer
        leaves = [n for n in history(records) if isinstance(n, Leaf)]
        of_leaf = {id(cell.inside): i for i, cell in enumerate(cells) if cell.inside is not None}
        targets = [leaf for leaf in leaves if id(leaf) in of_leaf]
        cts: list[Ct] = []
        unsure = {alias.output for alias in history_aliases}
        for at, index in enumerate(live):
            ct = tracer.input(self.outputs[index].type)
            cts.append(OptionalCt(ct, tracer.input(FLAG), True) if at in unsure else ct)
        seeds = list(zip(records, cts, strict=True))
        refused = False
        with recording(False):
            try:
                grads = pulled_back(seeds, targets)
            except GradientError:
                grads, refused = [None] * len(targets), True
            found = [g for g in grads if g is not None]
            results = [neutral(g).content for g in found]
        inputs = tuple(of_leaf[id(leaf)] for leaf in targets)
        reached = tuple(i for i, g in enumerate(grads) if g is not None)
        flags = []
        for g in found:
            flags.append(len(results) if isinstance(g, OptionalCt) else -1)
            results += [g.present.content] if isinstance(g, OptionalCt) else []
        sources = [cell.initial for cell in self.cells()]
        given = [v for ct in cts for v in values_of(ct)]
        back = cut(tracer.builder.nodes, forward_count, results, [*sources, *given])
        self.outputs += [v for v in back.residuals if v not in self.outputs]
        places = places_at_hand(sources, self.outputs)
        outside = [v for v in (*back.given, *back.residuals) if v in places]
        params = (*outside, *given)
        graph = Graph(f"{tracer.builder.name}_backward", params, back.nodes, tuple(results))
        backward = Backward(graph, tuple([places[v] for v in outside]), reached, tuple(flags))
        uses = uses_of(records, targets)
        return Gradient(
            outputs=tuple(live),
            inputs=inputs,
            uses=uses,
            backward=backward,
            history_aliases=history_aliases,
            presence_flags=presence_flags,
            refused=refused,
            severed=any(type(leaf) is ShardLeaf and id(leaf) not in of_leaf for leaf in leaves),
        )

    def cells(self) -> list[Cell]:
        """Return the tensors from outside that the tracer has read, as its Cells."""
        return list(self.tracer.cells.values())
