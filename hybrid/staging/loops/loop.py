"""Staging of loops: the search for a stable loop state, which makes the body a loop node.

What the body reads before it writes must come out of an iteration with the type and structure with
which it went in.  Where it does not, the first iteration is taken out of the loop (``cache = None``
before it, a tensor from then on), or the variable is carried together with whether it is bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from hybrid import ops
from hybrid.convert.runtime import Site
from hybrid.core.dataclass import replace
from hybrid.core.own_names import PREFIX
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, PathError, PathObjectError
from hybrid.ir import Graph, Op, Value
from hybrid.ir.interpreter import interpreting
from hybrid.ir.record import LOST, is_consumed
from hybrid.number import Number
from hybrid.staging.loops.alias_state import LoopTies, let_stay
from hybrid.staging.loops.appended_rows import AppendedRows, Inside, refuse_length
from hybrid.staging.loops.carry import (
    CarriedLeaf,
    Carry,
    Mismatch,
    Replaced,
    Zeros,
    initial_tensor,
    is_absent,
    widened,
)
from hybrid.staging.loops.growth import Growth, appended, has_one
from hybrid.staging.loops.iteration_objects import may_rebuild, refuse_rebound, refuse_shared
from hybrid.staging.nodes.node_session import Staged
from hybrid.trace.gradients.budget import LIST_SHARE, capacity
from hybrid.trace.guards.constants import refuse_constant_write
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.objects import is_plain
from hybrid.trace.places.place import CONTENT, same_items
from hybrid.trace.regions.branch import (
    Path,
    apply_control,
    join,
    note_read,
    outside_tensors,
    params_of,
    write_cell,
)
from hybrid.trace.regions.merge import describe, is_number, is_reshaped, remedy, spoken
from hybrid.trace.regions.merge_lists import chosen_list
from hybrid.trace.regions.pending_errors import PendingError
from hybrid.trace.regions.region import Region, truth
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import UNBOUND, OptionalValue
from hybrid.trace.values.varlist import require_room

ONCE_MORE = "in an iteration"
Key = tuple[int, str]


class StagedLoop(Staged):
    """The base class of staged loops: it traces the body until its state is stable."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.parent: Tracer = self.tracer  # the region that gets the node
        self.roots: Any = ()
        self.before: dict[str, Any] = {}  # at the head of the first iteration that is in the node
        self.rewritten: set[int] = set()  # tensors from outside that iterations write, by id
        self.widened: dict[str | Key, Any] = {}  # initial values in place of those of ``before``
        self.carried_places: dict[Key, LoggedPlace] = {}
        self.rebuilt: set[str | Key] = set()  # what holds objects that iterations make anew
        self.replaced: set[int] = set()  # containers in whose place iterations return others, by id
        self.growing: dict[str | Key, Inside] = {}  # lists that the body looks at as they grow
        self.growing_places: dict[Key, LoggedPlace] = {}
        self.appended_rows: dict[str | Key, AppendedRows] = {}  # what it appends to those
        self.names: dict[str, Carry] = {}
        self.places: dict[Key, Carry] = {}
        self.ties = LoopTies()
        self.finals: dict[str, Any] = {}
        self.cuts = False  # whether what no_grad makes in it is cut off from all histories
        self.peels = 0
        self.attempts = 0
        self.noted = 0  # how many notes there were before the attempt
        self.author_site = site  # without the names of errors that are pending
        self.errors: list[PendingError] = []  # that an iteration may leave the loop by
        self.held: list[list[Any]] = []  # the values of each

    # An attempt ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Let the next pass be traced as the body of the loop."""
        self.attempts += 1
        self.site, self.errors, self.held = self.author_site, [], []
        self.noted = len(self.tracer.notes)
        if self.attempts > 12 + len(self.ties.wanted) + len(self.replaced):
            raise CaptureError(
                "the state of this loop does not settle",
                at=self.site.location,
                why="Each trace of the body left some variable with another structure.",
                fix="give the loop's variables their final type and structure before the loop",
            )
        self.path = Path(Region(self.parent, "body", self.roots), ONCE_MORE)
        region = self.path.region
        region.rewritten = self.rewritten
        region.cuts = region.cuts or self.cuts
        inside = dict(self.before)
        self.names, self.places = {}, {}
        for name in self.site.names:
            if name in self.site.stops:
                inside[name] = False
            elif name in self.growing:
                inside[name] = self.growing[name].enter(self.initial(name), region, self.parent)
            elif name in self.site.head and self._is_rebound(name):
                initial = self.initial(name)
                stays = name.startswith(PREFIX) or isinstance(initial, OptionalValue)
                carry = self.names[name] = Carry(
                    label=name,
                    initial=initial,
                    rebuilds=name in self.rebuilt,
                    replaced=self.replaced if stays else None,
                )
                inside[name] = carry.enter(region, self.parent)
        entered = []  # first, for one place may hold what is another
        for key, place in self.carried_places.items():
            now = place.content() if key not in self.widened else self.widened[key]
            carry = self.places[key] = Carry(
                label=place.label, initial=now, rebuilds=key in self.rebuilt
            )
            entered.append((key, place, carry.enter(region, self.parent)))
        for key, place, found in entered:
            if region.has_outside(place.owner, place.name):
                region.put(place.owner, place.name, found)
            else:  # what alone has led to it is carried, and leads to another now
                del self.places[key]
        for key, place in self.growing_places.items():
            content = self.growing[key].enter(place.content(), region, self.parent)
            region.put(place.owner, place.name, content)
        self.ties.enter({**self.names, **self.places}, region, self.parent)
        self.load(inside)

    def _is_rebound(self, name: str) -> bool:
        """Whether an iteration may bind the variable to another object."""
        if name in self.site.rebound or name in self.widened:
            return True
        before = self.before[name]
        return is_number(before)

    def initial(self, name: str) -> Any:
        return self.widened.get(name, self.before[name])

    # The end of an attempt ----------------------------------------------------------------------

    def left(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the author's variables hold at the end of a pass, where nothing is pending."""
        tracer = self.parent if self.path is None else self.path.region
        if tracer.rest is None:
            return found
        names = tracer.rest.leave(self.snapshot(found), getattr(self.roots, "cells", {}))
        self.load(names)
        return {**found, **names}

    def carry_errors(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """``names`` at the end of the body, with what is kept of the errors pending there."""
        own: dict[str, Any] = {}
        site, region = self.author_site, self.path.region
        self.errors = list(region.errors)
        self.held = [error.values(region) for error in self.errors]
        flags = []
        for at, error in enumerate(self.errors):
            flags.append(f"{PREFIX}raised{at}")
            values = {f"{PREFIX}error{at}": tuple(self.held[at])}
            values |= {f"{PREFIX}{n}{at}": v for n, v in error.inner_names(region).items()}
            before = {flags[-1]: False, **dict.fromkeys(values, UNBOUND)}
            self.before = {**self.before, **before}
            own |= {flags[-1]: error.flag, **values}
        self.site = replace(
            site, names=(*site.names, *own), after=site.after.union(own),
            stops=(*site.stops, *flags),
        )  # fmt: skip
        return {**names, **own}

    def _let_go(self, region: Region) -> None:
        """The node is made: the errors of its iterations are pending behind it."""
        after: dict[int, Any] = {}  # by what an exception holds, which others may have come of
        for at, values in enumerate(self.held):
            found = self.finals[f"{PREFIX}error{at}"]
            found = found.value if isinstance(found, OptionalValue) else found
            if values:
                after |= zip(map(id, values), found, strict=True)
        for at, error in enumerate(self.errors):
            error.flag = self.finals[f"{PREFIX}raised{at}"]
            error.replace(after, self.parent)
            for name in error.inner_names(region):
                value = self.finals[f"{PREFIX}{name}{at}"]
                error.names[name] = value.value if isinstance(value, OptionalValue) else value
            self.parent.errors.append(error)
        self.finals = {name: self.finals[name] for name in self.author_site.names}
        self.site, self.errors, self.held = self.author_site, [], []

    def settle(self) -> bool:
        """Whether the body leaves what it was given; if not, what to do about it is arranged."""
        region = self.path.region
        for cell in region.cells.values():
            if cell.written:  # in a later iteration the value is another
                refuse_constant_write(region, cell.tensor, cell.value.location)
        again = False
        for name, carry in self.names.items():
            again |= self._leave(name, carry, self.finals[name])
        for name in self.site.names:
            if name in self.growing and name not in self.names:
                again |= self._has_stopped_growing(name, self.finals[name])
                continue
            if name in self.names or name in self.site.stops or name not in self.site.head:
                continue
            if self.finals[name] is not self.before[name]:  # += has made a new object of it
                again = True
                if is_absent(self.before[name]):
                    carry = Carry(label=name, initial=self.before[name])
                    self._mismatch(name, carry, self.finals[name])
                else:
                    self.widened[name] = self.before[name]
        for key, place in region.places.items():
            if not place.written or self._is_name(place):
                continue
            final = self.path.places[key]
            if key in self.growing:
                again |= self._has_stopped_growing(key, final)
            elif key in self.places:
                again |= self._leave(key, self.places[key], final)
            elif self._is_read(place) and place.name == CONTENT and appended(place.original, final):
                self.growing[key] = Inside(final[-1], self.site.location)
                self.growing_places[key] = place
                again = True
            elif self._must_carry(place, final):
                self.carried_places[key] = place
                again = True
                if is_absent(place.original):
                    again |= self._mismatch(
                        key, Carry(label=place.label, initial=place.original), final
                    )
        again |= self._leaves_untold() or (not again and self._leaves_uncut())
        again = again or self.ties.leave(region, self.parent.follows)
        if not again:
            refuse_shared([*self.names.values(), *self.places.values()], region, self.site.location)
        if again:  # what this attempt has noted is not what becomes of the loop
            self.site = self.author_site
            del self.tracer.notes[self.noted :]
        return not again

    def _has_stopped_growing(self, key: str | Key, final: Any) -> bool:
        appended_rows = self.growing[key].leave(final, self.path.region, self.parent)
        if appended_rows is None:
            del self.growing[key]
            self.growing_places.pop(key, None)
            return True
        self.appended_rows[key] = appended_rows
        return False

    def _is_name(self, place: LoggedPlace) -> bool:
        """Whether it is the variable of a name that is carried, which nested functions share."""
        return place.name == "cell_contents" and any(
            place.original is carry.inside for carry in self.names.values()
        )

    def _must_carry(self, place: LoggedPlace, final: Any) -> bool:
        if final is place.original:
            return False
        if place.name == CONTENT:
            return not (appended(place.original, final) or same_items(place.original, final))
        return self._is_read(place)

    def _is_read(self, place: LoggedPlace) -> bool:
        """Whether the next iteration may look at it, or leave it as it is by an exception."""
        region = self.path.region
        return place.read or (
            region.abort_cells is not None and region.abort_effects.outlives(place)
        )

    def _leaves_untold(self) -> bool:
        """Whether an exception in the body would not hand over what earlier iterations wrote."""
        region = self.path.region
        if region.abort_cells is None:
            return False
        unpassed = {key for key, cell in region.cells.items() if cell.written} - set(
            region.abort_cells
        )
        unpassed = {key for key in unpassed - self.rewritten if region.abort_effects.is_cell(key)}
        self.rewritten |= unpassed
        return bool(unpassed)

    def _leaves_uncut(self) -> bool:
        """Whether later iterations compute under no_grad with what has a history only then."""
        region = self.path.region
        if self.cuts or not (region.uncut or region.uncut_inside):
            return False
        turned = [
            leaf.param.content
            for carry in (*self.names.values(), *self.places.values())
            for leaf in carry.leaves
            if leaf.param.type.floating
            and leaf.param.record is None
            and isinstance(leaf.left, Tensor)
            and region.record_of(leaf.left) is not None
        ]
        turned += [
            cell.initial
            for cell in region.cells.values()
            if cell.record is not None and self.parent.record_of(cell.tensor) is None
        ]
        self.cuts = region.must_cut(turned)
        return self.cuts

    def _leave(self, key: str | Key, carry: Carry, final: Any) -> bool:
        try:
            carry.leave(final, self.path.region)
        except Replaced as error:
            if carry.replaced is not None and error.container not in self.replaced:
                self.replaced.add(error.container)
                return True
            return self._mismatch(key, carry, final)
        except Mismatch:
            added = appended(carry.inside, final)
            if isinstance(key, str) and added and not self.is_static():  # xs = xs + [x]
                self.growing[key] = Inside(added[-1], self.site.location)
                return True
            if not carry.rebuilds and may_rebuild(carry.initial, self.parent):
                self.rebuilt.add(key)
                return True
            return self._mismatch(key, carry, final)
        return False

    def _mismatch(self, key: str | Key, carry: Carry, final: Any) -> bool:
        with interpreting(self.parent):
            wider = widened(carry.initial, final)
        own = carry.label.startswith(PREFIX)
        if carry.initial is UNBOUND and own:
            wider = Zeros(final)
        peel = self.peels < 2 and carry.initial is not UNBOUND
        if wider is not None and (own or not peel):
            self.widened[key] = wider
        elif peel:
            self.peels = 1
        else:
            refuse_length(carry.initial, final, spoken(carry.label), self.site.location)
            refuse_rebound(carry, final, self.parent, self.site.location)
            called = spoken(carry.label)
            error = PathError if is_reshaped(carry.initial, final) else CaptureError
            raise error(
                f"{called} is {describe(carry.initial)} before an iteration of this loop, "
                f"and {describe(final)} after it",
                at=self.site.location,
                why="The loop depends on the value of a tensor, so all its iterations are one "
                "piece of graph, with one type and structure for each variable.",
                fix=remedy(carry.initial, final)
                or f"give {called.split('[')[0]} its final type, shape and structure before "
                "the loop",
            )
        return True

    # The node -----------------------------------------------------------------------------------

    def outgoing(self, runs: bool) -> dict[str, Carry]:
        """Names that the body binds anew: each iteration forgets them, the last one counts."""
        found = {}
        for name in self.site.names:
            if name in self.names or name in self.growing:
                continue
            before, final = self.before[name], self.finals[name]
            if name in self.site.stops:
                before = False if before is UNBOUND else before
                if final is False:
                    continue
            elif name in self.site.head or name not in self.site.after or final is before:
                continue
            carry = self._outgoing(name, before, final, runs)
            if carry is not None:
                found[name] = carry
        return found

    def outgoing_places(self, runs: bool) -> dict[Key, Carry]:
        """The same for places that are written before they are read."""
        found = {}
        for key, place in self.path.region.places.items():
            if not place.written or key in self.places or self._is_name(place):
                continue
            final = self.path.places[key]
            if place.name == CONTENT or final is place.original:
                continue
            carry = self._outgoing(place.label, place.original, final, runs)
            if carry is not None:
                found[key] = carry
        return found

    def _outgoing(self, label: str, before: Any, final: Any, runs: bool) -> Carry | None:
        region = self.path.region
        lists = Zeros(final) if isinstance(before, list) and isinstance(final, list) else None
        with interpreting(self.parent):
            unread = runs or (label.startswith(PREFIX) and before is UNBOUND)
            starts = (before, Zeros(final) if unread else widened(before, final), lists)
        for initial, rebuilds in product(starts, (False, True)):
            if initial is None or (rebuilds and not may_rebuild(initial, self.parent)):
                continue
            carry = Carry(
                label=label,
                initial=initial,
                rebuilds=rebuilds,
                instead=before if initial is lists else None,
            )
            carry.enter(region, self.parent)
            try:
                carry.leave(final, region)
            except Mismatch:
                continue
            carry.unchanged = False
            return carry
        called = spoken(label)
        error = PathError if is_reshaped(before, final) else CaptureError
        if type(before) is type(final) and is_plain(before):
            error = PathObjectError
        raise error(
            f"{called} is {describe(before)} before this loop, and {describe(final)} after an "
            "iteration",
            at=self.site.location,
            why="Whether there is an iteration depends on the value of a tensor, and a graph needs "
            "one type and structure.",
            fix=f"give {called} the same type, shape and structure before the loop",
        )

    def close(
        self,
        op: Op,
        first: Sequence[Tensor],
        heads: tuple[Sequence[Value], Sequence[Tensor]],
        attrs: dict[str, Any],
        runs: bool,
        counter: Sequence[Tensor] = (),
        slices: Sequence[tuple[Tensor, Tensor]] = (),
        known: int | None = None,
        most: int | None = None,
    ) -> None:
        """Stage the node, and put its results in force.

        ``first`` are the operands before the carried ones; ``heads`` the body's parameters and
        results before them; ``counter`` a carried (initial, parameter, final) that is nobody
        else's; ``slices`` pairs of a sliced operand and the parameter for its row; ``known`` is the
        number of iterations if that is known, ``most`` one that it does not exceed.
        """
        region = self.path.region
        own = [*self.names.values(), *self.places.values()]
        let_stay(own, region)
        outgoing, going_places = self.outgoing(runs), self.outgoing_places(runs)
        carries = [*own, *outgoing.values(), *going_places.values()]
        growths = self._growths(known)
        region.keep_variables()
        self.ties.close({**outgoing, **going_places}, region, self.parent, runs, known)
        for growth in growths:
            self._tie_rows(growth, carries)
        carries += self.ties.carries
        rows_of = [growth.rows(region) for growth in growths]
        rows = [row for found in rows_of for row in found]
        self.judge(rows, carries)
        carries += [carry for growth in growths for carry in growth.carries]
        fixed = [c for c in own if c.unchanged]
        constants = [leaf for carry in fixed for leaf in carry.leaves]
        carries = [c for c in carries if not c.unchanged]
        leaves: list[CarriedLeaf] = []
        for leaf in [leaf for carry in carries for leaf in carry.leaves]:
            (constants if leaf.is_fixed else leaves).append(leaf)
        written = [cell for cell in region.cells.values() if cell.written]
        tensors = outside_tensors(region)
        used = {v for node in region.builder.nodes for v in node.operands}
        used |= {leaf.final.content for leaf in leaves} | {t.content for t in (*heads[1], *rows)}
        used |= {cell.value for cell in written}
        invariant = {
            key: t
            for key, t in tensors.items()
            if not region.cells[key].written and region.cells[key].initial in used
        }
        params, results = heads
        graph = self.closed(
            [
                *params,
                *[t.content for t in counter[1:2]],
                *[leaf.param.content for leaf in leaves],
                *[cell.initial for cell in written],
                *[row.content for _, row in slices],
                *params_of(region, invariant),
                *[leaf.param.content for leaf in constants],
            ],
            [
                *[v.content for v in (*results, *counter[2:])],
                *[leaf.final.content for leaf in leaves],
                *[cell.value for cell in written],
                *[row.content for row in rows],
            ],
        )
        operands = [
            *first,
            *counter[:1],
            *[initial_tensor(leaf, self.parent) for leaf in leaves],
            *[cell.tensor for cell in written],
            *[whole for whole, _ in slices],
            *invariant.values(),
            *[initial_tensor(leaf, self.parent) for leaf in constants],
        ]
        length, fits = attrs["length"], bool(attrs["length"])
        if rows and not length:
            length, fits = self._room(rows, most)
            if op.name == "for" and not fits:
                require_room(first[0], length, self.site.location)
                fits = True
        carried = len(leaves) + len(written) + bool(counter)
        attrs = {**attrs, "carried": carried, "length": length}
        made = apply_control(self.parent, op, operands, attrs, (graph,))
        rest = iter(made[(op.name == "while") + bool(counter) :])
        trips = made[0] if op.name == "while" else first[0]
        after = {id(carry): self._after(carry, rest, trips, runs) for carry in carries}
        for cell in written:
            write_cell(self.parent, cell.tensor, next(rest), region)
        if region.frees:
            self._lose_consumed([leaf for carry in carries for leaf in carry.leaves])
        self.ties.after(region, self.parent, runs, trips)
        stacks = [list(islice(rest, len(found))) for found in rows_of]
        self._put(going_places, after, runs)
        self._put(self.places, after, runs)
        extended: dict[int, list[Any]] = {}
        for growth, mine in zip(growths, stacks, strict=True):
            if isinstance(growth, Growth):
                growth.apply(self.parent, mine, known or 0)
            else:
                full = op.name == "for" and self.is_static()
                extended[id(growth)] = growth.apply(self.parent, mine, trips, after, fits, full)
        for key, place in region.places.items():
            if id(self.appended_rows.get(key)) in extended:
                self.parent.put(place.owner, CONTENT, extended[id(self.appended_rows[key])])
        names: dict[str, Any] = dict(self.before)
        for name, carry in {**self.names, **outgoing}.items():
            names[name] = after.get(id(carry), self.before[name])
        names.update(
            {n: extended[id(self.appended_rows[n])] for n in self.growing if isinstance(n, str)}
        )
        self.finals = names
        self._let_go(region)

    def _lose_consumed(self, leaves: Sequence[CarriedLeaf]) -> None:
        """What backward() has used up in an iteration is used up after the loop."""
        for leaf in leaves:
            before, final, made = leaf.initial, leaf.final, leaf.made
            new = not isinstance(before, Tensor) or self.parent.record_of(before) is None
            if new and isinstance(made, Tensor) and made.record and is_consumed(final.record):
                made.record = LOST

    def closed(self, params: Sequence[Value], results: Sequence[Value]) -> Graph:
        """The body, which has been traced."""
        return self.path.region.close(params, results)

    def _after(self, carry: Carry, results: Iterator[Tensor], trips: Tensor, runs: bool) -> Any:
        def ran() -> Tensor:
            return ops.greater(trips, 0)

        value = carry.after(results, None if runs else ran)
        if carry.instead is None:
            return value
        return chosen_list(ran(), value, carry.instead, self.parent, self.site.location)

    def _growths(self, known: int | None) -> list[Growth | AppendedRows]:
        """What the body appends to lists that it does not carry."""
        region = self.path.region
        found: list[Growth | AppendedRows] = [
            self.appended_rows[name] for name in self.growing if isinstance(name, str)
        ]
        for key, place in region.places.items():
            if place.name != CONTENT or key in self.places or not place.written:
                continue
            appended_rows = self.appended_rows[key] if key in self.growing else None
            items = (
                appended_rows.items
                if appended_rows
                else appended(place.original, self.path.places[key])
            )
            if not items:
                continue
            if known is not None and has_one(items):
                growth = Growth(place, items)
                growth.carries = appended_rows.carries if appended_rows else ()
                found.append(growth)
                continue
            if appended_rows is None:
                appended_rows = AppendedRows(place.original, items, self.site.location)
                appended_rows.settle(region, self.parent, {})
            self.appended_rows[key] = appended_rows
            found.append(appended_rows)
        return found

    def _tie_rows(self, growth: Growth | AppendedRows, carries: Sequence[Carry]) -> None:
        """Find out whether what it appends may be a tensor that is written later on."""
        is_known = isinstance(growth, Growth)
        items = growth.known(carries) if is_known else flatten(growth.items)[0]
        at, static = self.site.location, self.is_static()
        growth.unsure = self.ties.rows(items, self.path.region, at, self.parent, static)

    def _room(self, rows: Sequence[Tensor], most: int | None) -> tuple[int, bool]:
        """How many rows to make room for, and whether these are surely enough."""
        if most is not None and self.is_static():
            return most, True
        room = capacity([row.type for row in rows], LIST_SHARE)
        return (room, False) if most is None or most > room else (most, True)

    def judge(self, rows: Sequence[Tensor], carries: Sequence[Carry]) -> None:
        """Raise if the loop is better no node, as its lists go."""

    def is_static(self) -> bool:
        """Whether the number of items that the loop goes over is known."""
        return False

    def _put(self, carries: Mapping[Key, Carry], after: Mapping[int, Any], runs: bool) -> None:
        for key, carry in carries.items():
            if id(carry) in after:
                place = self.path.region.places[key]
                if key in self.places or not runs:
                    note_read(self.parent, place)
                if not runs and place.written:
                    self.parent.journal.note_half_written(place, self.site.location)
                self.parent.put(place.owner, place.name, after[id(carry)])

    # Stop flags ---------------------------------------------------------------------------------

    def flags(self, found: Mapping[str, Any], tracer: Tracer) -> tuple[bool, Tensor | None]:
        """What the stop flags say: whether the loop ends here for sure, and else, when traced.

        Errors that are pending in ``tracer`` stop it, too.
        """
        traced: Tensor | None = None
        flags = [found.get(name, False) for name in self.author_site.stops]
        for flag in [*flags, *[error.flag for error in tracer.errors]]:
            if isinstance(flag, OptionalValue):
                flag = flag.value
            if isinstance(flag, (Number, Tensor)):
                here = truth(flag)
                traced = here if traced is None else ops.logical_or(traced, here)
            elif flag is True:
                return True, None
        return False, traced

    def decided_flags(self, found: Mapping[str, Any]) -> bool:
        """Whether a flag stops the loop in this call: that is a condition from now on."""
        flags = [found.get(name, False) for name in self.author_site.stops]
        flags += [error.flag for error in self.parent.errors]
        with self.inside(self.parent):
            for flag in flags:
                flag = flag.value if isinstance(flag, OptionalValue) else flag
                traced = isinstance(flag, (Number, Tensor))
                if self.parent.decision(truth(flag)) if traced else flag is True:
                    return True
        return False

    def finish(self, found: Mapping[str, Any]) -> None:
        """The loop is over; if it was entered under a condition, leave that too."""
        peeled, self.path, self.peeled = self.peeled, None, None
        if peeled is None:
            self.load(self.snapshot(found))
            return
        peeled.end(self.snapshot(found))
        empty = Path(Region(self.tracer, "else"), "without one")
        live = {name: self.entry[name] for name in sorted(self.site.after)}
        at = self.site.location
        self.load({**self.entry, **join(self.tracer, self.entered, peeled, empty, live, at)})

    def enter_branch(self, pred: Tensor, found: Mapping[str, Any]) -> None:
        """Go on in a branch that runs where ``pred`` holds."""
        self.entry = self.snapshot(found)
        self.entered = pred
        self.peeled = Path(Region(self.parent, "then", self.roots), "with an iteration")
        self.parent = self.peeled.region
