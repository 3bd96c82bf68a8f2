"""What a capture has written up to a node that may raise, put in force by a run that ends there.

An exception that is raised where the values of a run say so ends the run: what was written before
is operands of the call that raises.  One that Python raises anyway ends the capture: then its
nodes are run once, for what they do, and for what was written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.config import advance_epoch
from hybrid.core.dataclass import dataclass, replace
from hybrid.core.exceptions import Leaving, Put, leave, taken
from hybrid.core.tree import flatten
from hybrid.eager.execution import array_of, from_numpy
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Graph, Value
from hybrid.ir.interpreter import current, interpreting
from hybrid.ir.record import LOST, Leaf, is_recording, set_record
from hybrid.trace.capture.captured_graph import (
    ObjectRecipe,
    PlaceWrite,
    Source,
    build,
    build_objects,
)
from hybrid.trace.capture.outputs import KnownValues, ResultBuilder
from hybrid.trace.capture.writes import Writes
from hybrid.trace.gradients.replay_run import Unrepeatable, done, leaving_operands
from hybrid.trace.places.address import GIVEN, Address
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import CONTENT, refill, write_place
from hybrid.trace.regions.requires_grad import Turned, turn
from hybrid.trace.regions.ties import Unfollowed, is_in_doubt, ties_of
from hybrid.trace.regions.tracer import Cell, Tracer
from hybrid.trace.values.deferred import Build, Deferred


@dataclass(frozen=True, slots=True, eq=False)
class PendingWrites:
    """Cells, places and objects that were written, given by indices into the values of a run."""

    cells: tuple[tuple[int, int], ...]  # (source, value)
    writes: tuple[PlaceWrite, ...]  # their outputs are values, too
    objects: tuple[ObjectRecipe, ...]  # that these hold
    recorded: frozenset[int]  # values that gradients flow to
    variables: frozenset[int]  # those of them that are variables made by the run
    carried: frozenset[int]  # those that they may flow to by iterations, if they flow at all
    # (value, whether it is a source, which of these or of the values before it, value that says so
    # or -1)
    aliases: tuple[tuple[int, bool, int, int], ...]

    def of_arrays(self, leaving: Leaving, arrays: Sequence[Any]) -> Put:
        """Return the function that puts the writes in force, given the arrays of their values."""
        values = [from_numpy(np.asarray(a), copy=True) for a in arrays]
        return functools.partial(self._put_with_histories, leaving, values)

    def _put_with_histories(
        self,
        leaving: Leaving,
        values: Sequence[Tensor],
        tensors: Sequence[Tensor],
        leaves: Sequence[Any],
        given: Any,
        graph: Graph,
        recorded: Collection[Value] | None,
    ) -> None:
        """Put the writes in force after a run of ``graph``, with the histories of their values."""
        flowing = self.recorded
        # Loops over data, which an interrupt ends where it may, are not gone through once more.
        if not leaving.settles and (recorded or any(t.record is not None for t in tensors)):
            flowing |= self.carried
        if flowing and is_recording():
            try:
                replayed = leaving_operands(graph, tensors, recorded, leaving)
            except Unrepeatable:
                histories = dict.fromkeys(flowing, LOST)
            else:
                histories = {index: replayed[index].record for index in flowing}
            for index, history in histories.items():
                values[index].record = history
        self.put(values, tensors, leaves, given)

    def put(
        self,
        values: Sequence[Tensor],
        tensors: Sequence[Tensor],
        leaves: Sequence[Any],
        given: Any,
    ) -> None:
        """Put the writes in force, given their values, the source tensors and the arguments."""
        containers = [_container(write.address, given) for write in self.writes]
        found: dict[Any, Any] = dict(enumerate(tensors))
        for part in (*self.writes, *self.objects):
            for kind, what in part.recipe.places:
                if kind == "given":
                    found[what] = Address(given, CONTENT, what).read()
                elif kind == "held":
                    found[what] = what.read(leaves)
        for variable in [values[index] for index in self.variables]:
            if type(variable.record) is not Leaf:  # made while nothing was recorded
                variable.record = Leaf(variable.type)
            variable.leaf = variable.record
        values = list(values)
        for index, is_source, which, there in self.aliases:
            if there < 0 or values[there].numpy():
                values[index] = (tensors if is_source else values)[which]
        build_objects(self.objects, values, leaves, found)
        made = [build(write.recipe, values, leaves, found) for write in self.writes]
        for source, index in self.cells:
            cell, value = tensors[source], values[index]
            cell.content = value.content
            set_record(cell, value.record)
        for write, container, value in zip(self.writes, containers, made, strict=True):
            if container is None:
                write_place(write.address.holder(leaves), write.address.name, value)
                advance_epoch()
            elif write.key:
                container[write.key[0]] = value
            else:
                refill(container, value)


def _container(address: Address, given: Any) -> Any:
    """Return the container at an address; None if the address is an attribute."""
    if address.name != CONTENT:
        return None
    return (replace(address, owner=given) if address.owner is GIVEN else address).read()


class AbortEffects:
    """Computes, at any point of a capture, the writes that a run which ends there has to make."""

    def __init__(self, root: Tracer, known: KnownValues, writes: Writes) -> None:
        self.root, self.known, self.writes = root, known, writes
        self.collecting = False  # whether the operands of a call are being staged
        # Containers from outside that runs hand on, by their ids.
        self.outer_containers: dict[int, Any] = {}
        self.changed = False  # whether some container is written before something may raise

    def leaving(
        self, function: Callable[..., Any], operands: Sequence[Tensor]
    ) -> tuple[Callable[..., Any], list[Tensor]]:
        """Return ``function``, which may raise, and its operands extended by the pending writes."""
        if self.collecting:  # while the operands of another call are staged
            return function, list(operands)
        self.collecting = True
        try:
            found, left = self.now(current())
        finally:
            self.collecting = False
        if not left.cells and not left.writes:
            return function, list(operands)
        self.changed |= any(write.address.name == CONTENT for write in left.writes)
        return Leaving(function, len(operands), left.of_arrays), [*operands, *found]

    def end(self, error: BaseException) -> None:
        """Attach to ``error``, which ends the capture, a run of the nodes and writes made so far.

        Traced values that the error holds become the values of that run.
        """
        found, left = self.now(self.root)
        with interpreting(self.root):
            deferred = Deferred(error)
        rebuilt = (error, deferred.build, len(found)) if deferred.operands else None
        found += deferred.operands
        builder = self.root.builder
        graph = Graph(
            builder.name,
            tuple([cell.initial for cell in self.root.cells.values()]),
            tuple(builder.nodes),
            tuple([t.content for t in found]),
        )
        assert self.root.turning is not None
        turned = self.root.turning.turned()
        does = left.cells or left.writes or any(node.observable for node in graph.nodes)
        if rebuilt or turned or does:
            sources = [self.known.source(cell) for cell in self.root.cells.values()]
            recorded = frozenset(self.root.recorded)
            run = functools.partial(_run, graph, sources, left, recorded, rebuilt, turned)
            leave(error, run)

    def now(self, here: Tracer) -> tuple[list[Tensor], PendingWrites]:
        """Return the values of the pending writes, as values of ``here``, and the PendingWrites."""
        values: list[Tensor] = []
        index_of: dict[int, int] = {}
        recorded: set[int] = set()
        carried: set[int] = set()
        variables: set[int] = set()

        def add(tensor: Tensor) -> int:
            index = index_of.get(id(tensor))
            if index is None:
                index = index_of[id(tensor)] = len(values)
                inside = here.traced(tensor)
                values.append(make_tensor(inside.type, inside.content))
                keep.append(tensor)
                record = here.record_of(tensor)
                own = record is not None and record is getattr(tensor, "leaf", None)
                made = own and type(tensor.content) is Value
                if made:
                    variables.add(index)
                if record is not None and (made or not own):
                    recorded.add(index)
                elif loops and inside.type.floating and not own:
                    carried.add(index)
            return index

        keep: list[Tensor] = []
        builder = ResultBuilder(self.root, self.known, add)
        chain = list(_chain(here))
        # What is carried may get a history from an iteration that is yet to be traced.
        loops = is_recording() and here.repeats
        cells = [
            (source, add(cell.tensor))
            for source, cell in enumerate(list(self.root.cells.values()))
            if any(_is_written(cell, tracer) for tracer in chain)
        ]
        places = list(self.writes.own_places(chain))
        changes = self.writes.own_changes()
        builder.share([*[now for _, _, now in places], *[change.after for change in changes]])
        writes = [
            PlaceWrite(
                Address(owner, name).seen_from(self.known.owners),
                builder.recipe_of(now),
                True,
            )
            for owner, name, now in places
        ]
        for change in changes:
            writes += builder.container_writes(change)
        self.outer_containers |= builder.outer_containers
        aliases = []
        sources = {key: at for at, key in enumerate(self.root.cells)}
        everyone = [*keep, *[cell.tensor for cell in self.root.cells.values()]]
        doubtful = {id(t) for t in everyone if is_in_doubt(ties_of(here, t))}
        for tensor in [t for t in keep if id(t) not in sources]:
            index = index_of[id(tensor)]
            for tracer in chain:
                tracer.ties.queried.add(id(tensor))
            for key, (_, where) in ties_of(here, tensor).items():
                before = index_of.get(key, index)
                if key == id(None):
                    if not doubtful - {id(tensor)}:  # else it may be any of these
                        continue
                elif key not in sources and before >= index:
                    continue
                if where.error is not None:
                    if where.error is Unfollowed and not here.follows:
                        raise Unfollowed
                    continue
                flag = -1 if where.pred is None else add(where.tensor(here))
                known = key in sources
                aliases.append((index, known, sources[key] if known else before, flag))
        taken_along = {id(cell.tensor) for cell in self.root.cells.values()} & index_of.keys()
        for tracer in chain:
            tracer.abort_cells = (
                taken_along if tracer.abort_cells is None else tracer.abort_cells & taken_along
            )
        return values, PendingWrites(
            cells=tuple(cells),
            writes=tuple(writes),
            objects=tuple(builder.objects),
            recorded=frozenset(recorded),
            variables=frozenset(variables),
            carried=frozenset(carried),
            aliases=tuple(aliases),
        )

    def state(self, here: Tracer) -> list[Any]:
        """Return all that is written so far as a flat list, to be compared item by item."""
        chain = list(_chain(here))
        found: list[Any] = [c.value for t in chain for c in t.cells.values() if c.written]
        for owner, name, now in self.writes.own_places(chain):
            found += [owner, name, now]
        for change in self.writes.own_changes():
            found += [change.container, *flatten(change.after)[0]]
        return found

    def is_cell(self, key: int) -> bool:
        """Return whether the tensor with this id comes from outside the capture."""
        return key in self.root.cells

    def outlives(self, place: LoggedPlace) -> bool:
        """Return whether a write to ``place`` can be seen after the call."""
        owner = place.owner
        namespace = type(owner) is dict and place.name != CONTENT
        given = id(owner) in self.known.containers
        return isinstance(owner, Leaf) or namespace or given or self.root.is_outside(owner)


def _chain(tracer: Tracer | None) -> Iterator[Tracer]:
    """Yield ``tracer`` and the tracers around it, from the inside out."""
    while tracer is not None:
        yield tracer
        tracer = tracer.parent


def _is_written(cell: Cell, tracer: Tracer) -> bool:
    """Return whether ``tracer`` writes to an outer tensor, now or in a later iteration."""
    key = id(cell.tensor)
    return key in tracer.rewritten or (key in tracer.cells and tracer.cells[key].written)


def _run(
    graph: Graph,
    sources: Sequence[Source],
    left: PendingWrites,
    recorded: frozenset[Any],
    rebuilt: tuple[BaseException, Build, int] | None,
    turned: Sequence[Turned],
    leaves: Sequence[Any],
    given: Any,
) -> None:
    """Run the nodes of a capture that an error has ended, and put its writes in force.

    ``rebuilt`` is an error, what makes one like it of the last values, and which is the first of
    them.
    """
    turn(turned, leaves)
    tensors = [source.fetch(leaves) for source in sources]
    try:
        values = done(graph, tensors, recorded)
    except BaseException as error:
        put = taken(error)
        if put is not None:
            put(tensors, leaves, given, graph, recorded)
        raise
    if rebuilt is not None:
        error, build_error, first = rebuilt
        like = build_error([array_of(value) for value in values[first:]])
        error.args = like.args
        vars(error).update(vars(like))
    made = [make_tensor(value.type, value.content) for value in values]
    for tensor, value in zip(made, values, strict=True):
        tensor.record = value.record
    left.put(made, tensors, leaves, given)
