"""The derived body: the body of a loop that goes back through another loop.

Bodies have the form of those of ``for``: ``body(i, carried..., slices..., invariants...)`` returns
the carried values and rows.  The body that goes back carries the cotangents of the carried values
and the sums of those of the invariants; it slices what the forward loop has stacked for it and the
cotangents of rows, and stacks the cotangents of slices.

Cotangents are added up in the order in which eager code would add them.  Where a carried value is
at first the very value of an invariant, or of another carried value, their uses in the first
iteration take turns; so that iteration has a variant of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from hybrid import ops
from hybrid.autodiff.presence import Ct, OptionalCt, flag, neutral, nothing, plain
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Node, Value
from hybrid.ir.record import recording
from hybrid.ops.elementwise.comparison import equal
from hybrid.ops.flow.control import COUNT, FLAG, cond
from hybrid.ops.index.pick import pick
from hybrid.ops.shapes.creation import fill
from hybrid.trace.gradients.budget import further_gradients
from hybrid.trace.gradients.loop_request import CotangentLayout, Key, LoopRequest, chain
from hybrid.trace.gradients.region_vjp import CotangentKind, Cut, cut, opened, values_of
from hybrid.trace.regions.build import copied, live
from hybrid.trace.regions.row_names import row_ties


@dataclass(frozen=True, slots=True)
class Item:
    """One cotangent or sum of cotangents that the loop back carries."""

    of: str  # "ct" of a carried value, "sum" of an invariant, or "late": of a slice's row
    at: int  # which operand of the loop
    type: TensorType
    optional: bool  # whether it may be absent
    made: bool  # whether it is present once there was an iteration
    flag: int  # which carried flag says so; -1: none, since nothing in the loop asks
    into: int  # the item that starts with its cotangent too: the body returns the same for both
    merged: bool  # whether, once there was an iteration, a sum holds its cotangent, or it has none
    based: bool  # whether, once there was an iteration, it counts what had arrived before


@dataclass(frozen=True, slots=True)
class DerivedLoop:
    """The bodies of the loop with residuals and of the loop back, and how they fit together.

    Operands of the loop back: the carried values (``items``, then their flags), the slices (stacks
    of the forward loop, cotangents of stacks, flags of their rows, operands), and the invariants
    (operands, flags of the cotangents of stacks, what had arrived before, whole cotangents of
    stacks, flags of edges, the index of the first iteration).
    """

    forward: Graph  # the body, with rows that hold residuals
    backward: Graph
    items: tuple[Item, ...]
    flags: tuple[int, ...]  # which items have a carried flag
    stacks: tuple[int, ...]  # results of the forward body that are sliced
    row_cts: tuple[int, ...]  # results of the body whose cotangents are sliced
    shifted: tuple[tuple[int, int], ...]  # those that come an iteration late; the item for the last
    masks: tuple[int, ...]  # those of which each row may be absent: the flags are sliced, too
    wholes: tuple[int, ...]  # those that are read whole, by the index
    slices: tuple[int, ...]  # operands that are sliced
    invariants: tuple[int, ...]  # operands
    row_flags: tuple[int, ...]  # results of the body the flags of whose cotangents are read
    bases: tuple[int, ...]  # operands: what had arrived there is read
    asks_first: bool  # whether the index of the first iteration is read
    sliced: tuple[int, ...]  # operands whose cotangents are stacked
    marked: tuple[int, ...]  # those of which each row may be absent: the flags are stacked, too
    before: tuple[int, ...]  # slices: the rows of what had arrived there are sliced
    before_flags: tuple[int, ...]  # those of them the flags of which are read
    late: tuple[tuple[int, int], ...]  # slices: the row of one is that of the other, one later
    parts: int  # slices that are parts of a tensor begin at that operand
    apart: int  # how many rows of what the loop back slices are values of their own
    follows: tuple[tuple[int, int], ...]  # of what the loop back slices: see ``for_``
    begins: tuple[tuple[int, int], ...]  # the same
    absent: tuple[int, ...]  # places of values that no invariant holds: as invariants after those
    edges: tuple[int, ...]  # the edges whose flags are read


def derive(body: Graph, request: LoopRequest) -> DerivedLoop | None:
    """The derived bodies for ``request``; None when no operand gets a cotangent."""
    layout = CotangentLayout(body, request)
    if not (layout.carried or layout.sums or layout.slices):
        return None
    flagged: set[Key] = set()
    while True:
        variants: list[_Variant] = []
        for first, begins in itertools.product((False, True), repeat=2):
            if first <= layout.differs and begins <= bool(layout.begins):
                graph = variants[-1].extended() if variants else body
                variants.append(_Variant(layout, flagged, graph, first=first, begins=begins))
        absent = variants[0].absent.union(*[v.absent for v in variants])
        if absent <= flagged:
            return _Assembly(layout, variants).derived()
        flagged |= absent


class _Variant:
    """The body led back through once, when the items in ``flagged`` may be absent."""

    def __init__(
        self,
        layout: CotangentLayout,
        flagged: Collection[Key],
        graph: Graph,
        *,
        first: bool,
        begins: bool,
    ) -> None:
        self.layout, request = layout, layout.request
        self.is_first = first
        names = layout.names(first=first, begins=begins)
        tape, leaves = layout.open(graph, names)
        self.tape = tape
        kinds = {
            ("ct", at): request.cts[at] if layout.later[at] == at else None for at in layout.carried
        } | {("sum", at): request.arrived[layout.places[at]] for at in layout.sums}
        kinds |= {("late", at): None for at in layout.late}
        rows = [(row, at) for row, at in layout.shifted.items() if row not in layout.wholes]
        surely = {("ct", at) for row, at in rows if request.cts[row].sure}  # begins with the last
        self.params: list[Ct] = []
        for key in layout.keys:
            kind = kinds[key]
            dead = key[0] == "ct" and layout.later[key[1]] != key[1]
            sure = dead or key in surely or (kind is not None and kind.sure)
            sure = sure and key not in flagged
            type = layout.types[key[1]]
            self.params.append(tape.params_like(CotangentKind(type, sure), key[0]))
        self.rows: dict[int, Ct] = {}
        for at in layout.rows:
            if at not in layout.wholes:
                kind = CotangentKind(graph.results[at].type, request.cts[at].sure)
                self.rows[at] = tape.params_like(kind, "ct")
        self.before: dict[int, Ct] = {}
        for at, known in layout.before.items():
            self.before[at] = tape.params_like(CotangentKind(layout.types[at], known), "before")
        self.wholes = {at: tape.params_like(request.cts[at], "cts") for at in layout.wholes}
        arrived = [request.arrived[request.places[at]] for at in layout.bases]
        self.bases = [tape.params_like(kind, "before") for kind in arrived]
        pairs = layout.pairs(names, first=first)
        self.edges = {i: tape.param(FLAG, "same") for i, pair in enumerate(pairs) if min(pair) >= 0}
        edges = [(*(leaves[at] for at in pairs[i]), where) for i, where in self.edges.items()]
        if not first:
            edges += [
                (leaves[alias], leaves[source], tape.param_at(1 + where))
                for (alias, source), (_, _, where) in zip(
                    layout.tied(names), request.ties, strict=True
                )
                if min(alias, source) >= 0 and alias != source
            ]
        self.given_first = tape.param(COUNT, "first") if layout.differs else None
        carried = dict(zip(layout.keys, self.params, strict=True))
        with opened(tape), recording(False):
            seeds = [(leaves[at], ct) for at, ct in self.before.items()]
            seeds += [(leaves[at], carried["late", of]) for of, at in layout.late.items()]
            seeds += [(leaves[at], carried["sum", at]) for at in layout.sums]
            if first:
                seeds += [(leaves[at], t) for at, t in zip(layout.bases, self.bases, strict=True)]
            else:
                row_cotangents = self.rows | {
                    at: self.row_before(ct) for at, ct in self.wholes.items()
                }
                seeds += [(leaves[at], row_cotangents[row]) for row, at in layout.shifted.items()]
            results = tape.results
            rows = [at for at in self.rows if at not in layout.shifted]
            seeds += [(results[at].record, self.rows[at]) for at in rows]
            own = [at for at in layout.carried if layout.later[at] == at]
            seeds += [(results[at].record, carried["ct", at]) for at in own]
            targets = list(dict.fromkeys([leaves[at] for at in (*layout.sums, *layout.carried)]))
            targets += [leaves[at] for at in layout.slices]
            cts = dict(zip(targets, tape.pull(seeds, targets, edges), strict=True))
        # Of one value for several items, the first has it all; to the others nothing is added.
        self.idle = {i for i, (_, at) in enumerate(layout.keys) if names[at] != at}
        self.found = [
            None if i in self.idle else cts[leaves[at]] for i, (_, at) in enumerate(layout.keys)
        ]
        self.elsewhere = {at for at in layout.slices if names[at] != at}
        self.slices = {
            at: None if at in self.elsewhere else cts[leaves[at]]
            for at in layout.slices
            if at not in layout.late
        }
        self.unsure = {
            i
            for i, ct in enumerate(self.found)
            if i not in self.idle and not isinstance(ct, Tensor)
        }
        self.absent = {layout.keys[i] for i in self.unsure if isinstance(self.params[i], Tensor)}

    def row_before(self, stack: Ct) -> Ct:
        """The cotangent of the row that the iteration before has made, if there was one."""
        index = self.tape.param_at(0)
        at = ops.maximum(index - 1, 0)
        present = ops.greater(index, 0)
        if isinstance(stack, OptionalCt):
            present = ops.logical_and(present, pick(stack.present, at))
        row = pick(neutral(stack), at)
        return OptionalCt(ops.where(present, row, nothing(row.type)), present, True)

    def extended(self) -> Graph:
        """The body with its nodes as they are now: nested ones may give more results."""
        body, tape = self.layout.body, self.tape
        nodes = tuple(tape.builder.nodes[: tape.forward])
        return Graph(body.name, body.params, nodes, body.results)

    def give(self, stacked: Sequence[int], marked: Sequence[int]) -> None:
        """Make what the body returns: ``totals``, and cotangents of slices and flags, ``outs``."""
        types = [self.layout.types[at] for _, at in self.layout.keys]
        with opened(self.tape), recording(False):
            self.totals = [
                (nothing(type) if ct is None else neutral(ct)).content
                for ct, type in zip(self.found, types, strict=True)
            ]
            self.outs = []
            for at in stacked:
                ct, type = self.slices[at], self.layout.body.params[1 + at].type
                if at in self.elsewhere:
                    ct = nothing(type)
                zeros = ops.zeros(type.shape, dtype=type.dtype)
                self.outs.append((zeros if ct is None else plain(ct)).content)
            for at in marked:
                ct = self.slices[at]
                there = flag(ct is not None or at in self.elsewhere)
                self.outs.append((ct.present if isinstance(ct, OptionalCt) else there).content)

    def asks(self, returned: Collection[int]) -> set[int]:
        """The items whose flags are read, when those in ``returned`` are given on."""
        tape = self.tape
        nodes = tape.builder.nodes[tape.forward :]
        flags = [
            self.found[i].present.content for i in returned if isinstance(self.found[i], OptionalCt)
        ]
        needed = [*self.totals, *self.outs, *flags]
        read = {v for node in live(nodes, needed) for v in node.operands} | set(needed)
        return {
            i
            for i, param in enumerate(self.params)
            if isinstance(param, OptionalCt) and param.present.content in read
        }

    def cut(self, flags: Sequence[int]) -> Cut:
        """Separate what leads back, when the items ``flags`` carry theirs."""
        with opened(self.tape), recording(False):
            self.flags = [self.flag_of(i).content for i in flags]
        request, tape = self.layout.request, self.tape
        index, *operands = self.layout.body.params
        row_values = [v for ct in self.rows.values() for v in values_of(ct)]
        own = [*(v for ct in self.params for v in values_of(ct)), *row_values]
        own += [v for ct in self.before.values() for v in values_of(ct)]
        own += [v for ct in (*self.bases, *self.wholes.values()) for v in values_of(ct)]
        own += [t.content for t in self.edges.values()]
        n = request.carried
        return cut(
            tape.builder.nodes,
            tape.forward,
            self.results(),
            [index, *operands[n:], *own],
            fixed=operands[n + request.sliced :],
            lost=operands[:n],
            differentiable=further_gradients() > 0,
        )

    def results(self) -> list[Value]:
        return [*self.totals, *self.flags, *self.outs]

    def flag_of(self, item: int) -> Tensor:
        """Whether the item is present after the iteration."""
        ct = self.found[item]
        return ct.present if isinstance(ct, OptionalCt) else flag(item not in self.unsure)


class _Assembly:
    """The bodies made of the variants."""

    def __init__(self, layout: CotangentLayout, variants: Sequence[_Variant]) -> None:
        self.layout, self.variants = layout, variants
        self.stacked = [
            at for at in variants[0].slices if any(v.slices[at] is not None for v in variants)
        ]
        self.marked = [
            at
            for at in self.stacked
            if not all(at in v.elsewhere or isinstance(v.slices[at], Tensor) for v in variants)
        ]
        for variant in variants:
            variant.give(self.stacked, self.marked)
        self.flags = self.carried_flags()
        self.cuts = [variant.cut(self.flags) for variant in variants]

    def carried_flags(self) -> list[int]:
        """The items whose flags must be carried: those that are read, or not yet known."""
        returned = set().union(*[variant.unsure for variant in self.variants])
        while True:
            more = set().union(*[variant.asks(returned) for variant in self.variants])
            if more <= returned:
                return sorted(returned)
            returned |= more

    def derived(self) -> DerivedLoop:
        layout, request = self.layout, self.layout.request
        body = self.variants[-1].extended()
        n, m = request.carried, request.carried + request.sliced
        forward = list(body.results)
        residuals = list(dict.fromkeys([v for c in self.cuts for v in c.residuals]))
        forward += [v for v in residuals if v not in forward[n:]]
        used = {v for c in self.cuts for v in c.given}
        operands = body.params[1:]
        slices = [at for at in range(n, m) if operands[at] in used]
        fixed = [at for at in range(m, len(operands)) if operands[at] in used]
        sliced = [at for at in layout.rows if at not in layout.wholes]
        uncertain = [
            at
            for at in sliced
            if not request.cts[at].sure
            and any(variant.rows[at].present.content in used for variant in self.variants)
        ]
        masks = [at for at in uncertain if request.cts[at].each]
        row_flags = [at for at in uncertain if at not in masks]
        before_flags = [
            at
            for at in layout.before
            if any(
                isinstance(ct := v.before[at], OptionalCt) and ct.present.content in used
                for v in self.variants
            )
        ]
        rows = len(residuals) + len(sliced) + len(masks) + len(layout.before)
        more, begins = self.begins(residuals, fixed, rows + len(slices))
        edges = sorted({i for v in self.variants for i, t in v.edges.items() if t.content in used})
        graphs = []
        for variant, c in zip(self.variants, self.cuts, strict=True):
            params = [
                body.params[0],
                *(values_of(ct)[0] for ct in variant.params),
                *(self.flag_param(variant, i) for i in self.flags),
                *residuals,
                *(values_of(ct)[0] for ct in variant.rows.values()),
                *(variant.rows[at].present.content for at in masks),
                *(values_of(ct)[0] for ct in variant.before.values()),
                *(operands[at] for at in (*slices, *fixed)),
                *(Value(operands[at].type) for at in more),
                *(variant.rows[at].present.content for at in row_flags),
                *(variant.before[at].present.content for at in before_flags),
                *(v for ct in (*variant.bases, *variant.wholes.values()) for v in values_of(ct)),
                *(variant.edges[i].content if i in variant.edges else Value(FLAG) for i in edges),
            ]
            graphs.append(Graph("body", tuple(params), c.nodes, tuple(variant.results())))
        positions = {at: i for i, (of, at) in enumerate(layout.keys) if of == "ct"}
        stacks = tuple([forward.index(v, n) for v in residuals])
        extended = Graph(body.name, body.params, body.nodes, tuple(forward))
        return DerivedLoop(
            forward=extended,
            backward=self.chosen(graphs),
            items=tuple([self.item(i, positions) for i in range(len(layout.keys))]),
            flags=tuple(self.flags),
            stacks=stacks,
            row_cts=tuple(sliced),
            shifted=tuple([(row, positions[at]) for row, at in layout.shifted.items()]),
            masks=tuple(masks),
            wholes=tuple(layout.wholes),
            slices=tuple(slices),
            invariants=(*fixed, *more),
            row_flags=tuple(row_flags),
            bases=tuple(layout.bases),
            asks_first=layout.differs,
            sliced=tuple(self.stacked),
            marked=tuple(self.marked),
            before=tuple(layout.before),
            before_flags=tuple(before_flags),
            late=tuple(chain(layout.late)),
            parts=n + request.apart,
            apart=rows + sum([at < n + request.apart for at in slices]),
            follows=self.follows(extended, stacks, slices, rows),
            begins=tuple(begins),
            absent=layout.absent,
            edges=tuple(edges),
        )

    def follows(
        self, forward: Graph, stacks: Sequence[int], slices: Sequence[int], rows: int
    ) -> tuple[tuple[int, int], ...]:
        """Which of what the loop back slices has the rows of another, an iteration later.

        Those are ``stacks`` of the ``forward`` loop, other ``rows``, and its ``slices``.
        """
        request, found = self.layout.request, []
        n, at = request.carried, {stack: i for i, stack in enumerate(stacks)}
        for stack, ties in row_ties(forward, n).items():
            if stack in at and ties.behind in at and ties.duplicate_of < 0:
                pair = at[ties.behind], at[stack]
                found.append(pair if request.ascending else pair[::-1])
        at = {slice - n: rows + i for i, slice in enumerate(slices)}
        found += [(at[a], at[b]) for a, b in request.follows if a in at and b in at]
        return tuple(found)

    def begins(
        self, stacks: Sequence[Value], fixed: Sequence[int], before: int
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Operands that are invariants only since rows are what they are, and which rows.

        Those are the rows of index 0 of ``stacks``; ``before`` slices come before the invariants.
        """
        request, body = self.layout.request, self.layout.body
        more, found = [], []
        if request.ascending and request.same:
            held = {request.same[at]: before + i for i, at in enumerate(fixed)}
            params = body.params[1 : 1 + request.carried]
            for i, row in enumerate(stacks):
                at = params.index(row) if row in params else -1
                place = -1 if at < 0 or body.results[at] is row else request.same[at]
                if place < 0:
                    continue
                if place not in held:
                    held[place] = before + len(fixed) + len(more)
                    more.append(at)
                found.append((i, held[place]))
        return more, found

    def chosen(self, graphs: Sequence[Graph]) -> Graph:
        """The body that is the one of the variant that an iteration asks for."""
        found = list(graphs)
        if self.layout.begins:
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [_by_index(later, begins, 0) for later, begins in pairs]
        return _by_index(*found) if self.layout.differs else found[0]

    def flag_param(self, variant: _Variant, item: int) -> Value:
        param = variant.params[item]
        return param.present.content if isinstance(param, OptionalCt) else Value(FLAG)

    def item(self, i: int, positions: dict[int, int]) -> Item:
        layout = self.layout
        lasts = [v for v in self.variants if v.is_first == layout.differs]
        last = lasts[0]
        of, at = layout.keys[i]
        is_ct = of == "ct"
        return Item(
            of=of,
            at=at,
            type=layout.types[at],
            optional=isinstance(last.params[i], OptionalCt),
            made=all(i not in each.unsure for each in lasts),
            flag=self.flags.index(i) if i in self.flags else -1,
            into=positions[layout.later[at]] if is_ct else i,
            merged=is_ct and (layout.first[at] != at or last.found[i] is None),
            based=is_ct and layout.first[at] in layout.bases,
        )


def _by_index(later: Graph, first: Graph, index: int | None = None) -> Graph:
    """A body that is ``first`` in the iteration of that ``index``.

    Without one it is the index of the forward loop's first iteration, a further parameter.
    """
    params = [Value(v.type, v.hint) for v in later.params]
    at, is_first = Value(COUNT, "first"), Value(FLAG)
    number = {"shape": (), "dtype": COUNT.dtype, "value": index}
    made = [] if index is None else [Node(fill, (), fill.attributes(number), (at,))]
    results = tuple([Value(v.type, v.hint) for v in later.results])
    test = Node(equal, (params[0], at), equal.attributes({}), (is_first,))
    regions = (copied(first, "first"), copied(later, "later"))
    choice = Node(cond, (is_first, *params), (), results, regions)
    given = (*params, at) if index is None else tuple(params)
    return Graph("body", given, (*made, test, choice), results)
