"""The tape: records of op calls, walked backwards for cotangents and forwards for tangents.

Records are visited in the order of their making (or its reverse), so gradients are added up in the
same order whether the ops run eagerly or are being traced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.autodiff.arrivals import Arrivals
from hybrid.autodiff.cotangent_sums import FinalLeaves, Sums, Told
from hybrid.autodiff.flow import control_sources
from hybrid.autodiff.presence import (
    Ct,
    OptionalCt,
    added,
    chosen,
    chosen_ct,
    marked,
    neutral,
    plain,
    presence_of,
)
from hybrid.autodiff.record_values import Edge, Node, TapeValue, make_snapshot, restored, saved_type
from hybrid.core.dataclass import dataclass
from hybrid.core.imports import above
from hybrid.core.layouts import whole_of
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import (
    ArgumentError,
    CaptureError,
    GradientError,
    ShapeError,
    author_location,
)
from hybrid.ir.interpreter import current
from hybrid.ir.record import (
    LOST,
    SEVERED,
    AnyRecord,
    Boundary,
    Leaf,
    Output,
    Record,
    ShardLeaf,
    is_recording,
    node_of,
    recording,
)
from hybrid.memory import native
from hybrid.ops.communication.layout_op import in_layout
from hybrid.ops.flow.control import CONTROL
from hybrid.ops.index.items import OF_LISTS

LARGE = 1 << 22  # bytes


def history(
    roots: Iterable[AnyRecord | None],
    ends: Collection[Node] = (),
    spent: set[Node] | None = None,
    calls: dict[Node, set[int]] | None = None,
) -> list[Node]:
    """All nodes that ``roots`` came from, in the order of their making; not beyond ``ends``.

    GradientError where a part has been used by backward() already.  With ``spent`` that is no
    error yet behind a call of a plan, which may not have used that operand: it goes there.
    ``calls`` gets the calls of plans with several results, and which of these are met.
    """
    found: set[Node] = set()
    stack = [r for r in roots if r is not None]
    calls = {} if calls is None else calls
    while stack:
        record = stack.pop()
        node, index = node_of(record)
        apart = type(record) is Output and getattr(node.op, "may_skip", False)
        met = calls.setdefault(node, set()) if apart else ()
        if index not in met if apart else node not in found:
            if node is LOST:
                raise GradientError(
                    "the history of a value went with the call that wrote it and then raised",
                    why="What a run has written is computed once more for its history, but this "
                    "one has called a Python function of the author's.",
                    fix="compute the value again, or go on from value.detach()",
                )
            if node is SEVERED:
                raise GradientError(
                    "backward() of what a hybridized function computed by a data-parallel model",
                    at=author_location(),
                    why="Its gradients are summed over the ranks by the backward() of the function "
                    "that calls the model, and that is not in its plan.",
                    fix="hybridize the function of a whole step: the call of the model, backward() "
                    "and the step of the optimizer",
                )
            if type(node) is Record and node.saved is None:
                raise _spent()
            found.add(node)
            if apart:
                met.add(index)
                if index in node.attrs["spent"]:
                    raise _spent()
            if node in ends or not node.parents:
                continue
            parents = [p for p in node.parents if p is not None]
            if apart:
                parents = node.op.parents_of(node, index)
            if spent is not None and getattr(node.op, "may_skip", False):
                used = [p for p in (node_of(p)[0] for p in parents) if type(p) is Record]
                used = [p for p in used if p.saved is None]
                spent.update(p for p in used if p is not LOST and p is not SEVERED)
                parents = [p for p in parents if node_of(p)[0] not in spent]
            stack.extend(parents)
    return sorted(found, key=lambda node: node.sequence)


def _spent() -> GradientError:
    return GradientError(
        "this history was already used by backward()",
        why="backward() frees what it has walked, so that memory does not pile up.",
        fix="call the first backward with retain_graph=True",
    )


def leads_beyond(
    records: Sequence[AnyRecord], own: set[Node], nodes: Collection[Node] | None = None
) -> bool:
    """Whether the history of ``records`` goes past ``own`` variables, or to other ones.

    Of control flow in it those operands count from which gradients reach the results in question.
    ``nodes`` are all of the history, where they are known already.
    """
    if nodes is None:
        nodes = _ancestors(records)
    if not any(_is_beyond(node, own) for node in nodes):
        return False
    if not any(type(node) is Record and node.op in CONTROL for node in nodes):
        return True
    reached: dict[Node, set[int]] = {}  # and which results of it
    for node, index in map(node_of, records):
        reached.setdefault(node, set()).add(index)
    for node in sorted(nodes, key=lambda node: node.sequence, reverse=True):
        if node not in reached:
            continue
        if _is_beyond(node, own):
            return True
        for parent, index in map(node_of, _sources(node, reached[node])):
            reached.setdefault(parent, set()).add(index)
    return False


def path_leads_beyond(
    records: Sequence[AnyRecord], own: set[Node], nodes: Collection[Node] | None = None
) -> bool | Tensor:
    """``leads_beyond``; where it depends on the path of a run, the flag that says so."""
    if not leads_beyond(records, own, nodes):
        return False
    found = above.presence_beyond(records, own) if current().traces else None
    return True if found is None else found


def _is_beyond(node: Node, own: set[Node]) -> bool:
    """Whether it is another variable, or one of ``own`` that came from something."""
    return bool(node.parents) if node in own else isinstance(node, Leaf)


def _sources(node: Node, results: set[int]) -> list[AnyRecord]:
    """The records of operands from which gradients reach these results."""
    flags = [True] * len(node.parents)
    if type(node) is Record and node.op in CONTROL and node.results is not None:
        marked = [index in results for index in range(len(node.results))]
        flags = control_sources(node.op, marked, node.attrs, node.attrs["regions"])
    return [p for p, flag in zip(node.parents, flags, strict=True) if flag and p is not None]


def _ancestors(records: Sequence[AnyRecord]) -> set[Node]:
    """All nodes that ``records`` came from; unlike ``history`` also where a part has been used."""
    found: set[Node] = set()
    stack = [node_of(record)[0] for record in records]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node_of(p)[0] for p in node.parents if p is not None)
    return found


def descendants(nodes: Sequence[Node], targets: set[Node]) -> set[Node]:
    """``targets``, and those of ``nodes`` (in the order of their making) that came from them."""
    found = set(targets)
    for node in nodes:
        if any(p is not None and node_of(p)[0] in found for p in node.parents):
            found.add(node)
    return found


def cotangents(
    seeds: Sequence[tuple[AnyRecord, Tensor]],
    targets: Sequence[Node],
    *,
    differentiable: bool | None = None,
) -> list[Tensor | None]:
    """The cotangent of each target, given those of some values; None where none arrives.

    ``differentiable`` tells whether the result can be differentiated again; by default it can when
    the history, or that of a seed, reaches a value that gradients are asked for elsewhere.
    """
    spent: set[Node] = set()
    nodes = history((record for record, _ in seeds), spent=spent)
    wanted = set(targets)
    beyond: bool | Tensor = True
    if differentiable is None:
        beyond = is_recording() and (
            any(ct.record is not None for _, ct in seeds)
            or path_leads_beyond([record for record, _ in seeds], wanted, nodes)
        )
        differentiable = beyond is not False
    ends = [node_of(record)[0] for record, _ in seeds]
    with recording(differentiable), current().going_back(ends, nodes):
        found = _pull(seeds, targets, wanted, descendants(nodes, wanted | spent))
        grads = [plain(ct) for ct in found]
        if isinstance(beyond, bool):
            return grads
        return [g if g is None else chosen(beyond, g, g.detach()) for g in grads]


def pulled_back(
    seeds: Sequence[tuple[AnyRecord, Ct]],
    targets: Sequence[AnyRecord],
    *,
    stop: bool = False,
    known: Mapping[TapeValue, Sequence[Edge]] | None = None,
    told: Told | None = None,
) -> list[Ct | None]:
    """Optional cotangents of ``targets``, given optional cotangents of some values.

    With ``stop`` the way back ends at the targets, even if one came from another.  The ``known``
    sources of targets get what is theirs.  ``told`` is called with leaves among the targets, and
    their cotangents, as soon as these are final, where that is known before the end.
    """
    wanted = {node_of(target)[0] for target in targets}
    spent: set[Node] = set()
    nodes = history((record for record, _ in seeds), wanted if stop else (), spent)
    return _pull(seeds, targets, wanted, descendants(nodes, wanted | spent), stop, known, told)


def _pull(
    seeds: Sequence[tuple[AnyRecord, Ct]],
    targets: Sequence[AnyRecord],
    wanted: set[Node],
    needed: set[Node],
    stop: bool = False,
    known: Mapping[TapeValue, Sequence[Edge]] | None = None,
    told: Told | None = None,
) -> list[Ct | None]:
    controls = any(
        type(node) is Record and ("regions" in node.attrs or node.op in OF_LISTS) for node in needed
    )
    stops = wanted if stop else ()
    arrivals = (
        Arrivals(needed=needed, known=known or {}, stops=stops) if controls or known else Sums()
    )
    for record, ct in seeds:
        arrivals.send(record, ct)
    finals = None
    if told is not None and type(arrivals) is Sums:
        finals = FinalLeaves(wanted, needed, told)
    while (node := arrivals.pop()) is not None:
        if finals is not None:
            finals.passed(node, arrivals)
        if type(node) is not Record or node not in needed or node.saved is None:
            continue
        flow = [p is not None and node_of(p)[0] in needed for p in node.parents]
        if node in wanted and (stop or not any(flow)):
            continue
        if "regions" in node.attrs:
            _pull_through_control(node, flow, arrivals)
            continue
        arrived = arrivals.at(node)
        if arrived[0] is None and all(ct is None for ct in arrived):
            continue
        cts = apply_vjp(node, arrived, flow)
        for parent, ct, flows in zip(node.parents, cts, flow, strict=True):
            if flows and ct is not None:
                arrivals.send(parent, ct)
    arrivals.end()
    ends = [node_of(target) for target in targets]
    return [arrivals.at(node)[index] for node, index in ends]


def _pull_through_control(node: Record, flow: Sequence[bool], arrivals: Arrivals) -> None:
    arrivals.settle_lists(node)
    for i in reversed(range(len(node.results))):
        arrivals.settle((node, i))
    cts = [arrivals.taken((node, i)) for i in range(len(node.results))]
    if all(ct is None for ct in cts):
        return
    values = [None if p is None else node_of(p) for p in node.parents]
    own = dict.fromkeys(s for s, flows in zip(values, flow, strict=True) if flows)
    arrivals.settle_aliases(own, node)
    unsure = [value for value in own if arrivals.must_tell(value, own)]
    below = dict.fromkeys(source for value in unsure for source in arrivals.below(value))
    arrivals.settle_aliases(below, node)
    further, edges, ends_of = [], [], {}
    asks = arrivals.asks(node)
    if asks != "all":
        ends_of = {value: arrivals.ends(value) for value in unsure if arrivals.is_alone(value, own)}
    if asks:
        aliased = [value for value in unsure if value not in ends_of]
        below = dict.fromkeys(source for value in aliased for source in arrivals.below(value))
        further = [value for value in below if value not in own]
        each = sorted({*aliased, *below}, key=lambda value: (-value[0].sequence, -value[1]))
        edges = [edge for value in each for edge in arrivals.edges_of(value)]
    every = [*values, *further]
    apart = arrivals.items_apart([value for value in every if value is not None])
    arrived = [
        None if value is None else apart[value] if value in apart
        else arrivals.total(value) if value not in ends_of else _so_far(ends_of[value], arrivals)
        for value in every
    ]  # fmt: skip
    count = len(values)
    pull = Pull(
        cts=tuple(cts),
        flow=tuple(flow),
        arrived=tuple(arrived[:count]),
        record=node,
        further=tuple(arrived[count:]),
        edges=tuple([(every.index(e.value), every.index(e.source), e.flag) for e in edges]),
        others=tuple([record_at(value) for value in further]),
    )
    totals = _apply_control_vjp(node, pull)
    settled = {edge.value for edge in edges}
    totals, returned = list(totals), []
    for at, value in enumerate(values):
        if value in apart and values.index(value) == at:
            total = arrived[at] if totals[at] is None else totals[at]
            returned.append((value, total))
            totals[at] = None
    for value, before, total in zip(every, arrived, totals, strict=True):
        if total is None or total is before:
            continue
        if value not in ends_of:
            if type(value[0]) is Record and value[0].saved is None:
                raise _spent()
            arrivals.put(value, total, own=value in settled)
            continue
        for end, where in ends_of[value].items():
            arrivals.put(end, chosen_ct(where, total, arrivals.total(end)), own=end == value)
    for value, total in returned:
        arrivals.bring_back(value, total)


def record_at(value: TapeValue) -> AnyRecord:
    """The record of a value."""
    node, index = value
    return Output(node, index) if type(node) is Record and len(node.results) > 1 else node


def _so_far(ends: Mapping[TapeValue, Tensor | None], arrivals: Arrivals) -> Ct | None:
    """What has arrived at that one of ``ends`` which a value is."""
    found: Ct | None = None
    for end, where in ends.items():
        found = chosen_ct(where, arrivals.total(end), found)
    return found


@dataclass(frozen=True, slots=True)
class Pull:
    """The input of the vjp rule of a control-flow op, in place of cotangents.

    Its body may use an operand many times, and eager code would add each use to what has arrived
    before; so the rule is given that, and answers with the new total of each operand.  Operands of
    the same record share one total, given with the first of them.

    An operand may, as ``edges`` say, be another one, or one of some ``further`` values (numbered
    after the operands), of which the rule gives the totals too.  The rules of ops whose results
    have aliases are asked that.
    """

    cts: tuple[Ct | None, ...]  # of the results
    flow: tuple[bool, ...]  # which operands want a cotangent
    arrived: tuple[Ct | None, ...]  # what the operands have got so far
    record: Record
    further: tuple[Ct | None, ...] = ()  # what these values have got so far
    edges: tuple[tuple[int, int, Tensor], ...] = ()  # which may be which, and where it is
    others: tuple[AnyRecord, ...] = ()  # the records of the further values


def _apply_control_vjp(node: Record, pull: Pull) -> Sequence[Ct | None]:
    rule = _vjp_rule(node)
    count = len(node.results)
    results = tuple([restored(node, i) for i in range(count)])
    operands = [make_snapshot(saved) for saved in node.saved]
    return rule(pull, results, *operands, **node.attrs)


def _vjp_rule(node: Record) -> Any:
    rule = node.op.vjp_rule
    if rule is None:
        raise GradientError(
            f"{node.op.name} has no gradient",
            fix="pass its operand through stop_gradient if none is meant",
        )
    return rule


def apply_vjp(node: Record, cts: Sequence[Ct | None], flow: Sequence[bool]) -> Sequence[Ct | None]:
    """The cotangents of the operands of ``node`` by its vjp rule; None where ``flow`` is false."""
    rule = _vjp_rule(node)
    results = [restored(node, i) for i in range(len(cts))]
    operands = [make_snapshot(saved) for saved in node.saved]
    present = presence_of(cts)
    if len(cts) == 1:
        ct = cts[0].ct if isinstance(cts[0], OptionalCt) else cts[0]
        out = rule(ct, results[0], *operands, **node.attrs)
    else:
        full = [plain(ct) if ct is not None else _zeros(saved_type(saved)) for ct, saved in
                zip(cts, node.results, strict=True)]  # fmt: skip
        out = rule(tuple(full), tuple(results), *operands, **node.attrs)
    return [
        marked(entry() if callable(entry) else entry, present) if flows else None
        for entry, flows in zip(out, flow, strict=True)
    ]


def _zeros(type_: TensorType) -> Tensor:
    if not current().traces and type_.nbytes >= LARGE:  # pages that nobody looks at cost nothing
        return make_tensor(type_, native.borrow(np.zeros(type_.nbytes, np.uint8)))
    return ops.zeros(type_.shape, dtype=type_.dtype)


def tangents(
    outputs: Sequence[Tensor], targets: Sequence[AnyRecord], given: Sequence[Tensor]
) -> list[Tensor | None]:
    """The tangents of ``outputs`` when those of ``targets`` are ``given``; None is zero."""
    return [plain(t) for t in pushed_forward(outputs, targets, given)]


def pushed_forward(
    outputs: Sequence[Tensor], targets: Sequence[AnyRecord], given: Sequence[Ct]
) -> list[Ct | None]:
    """Optional tangents of ``outputs``, given optional tangents of ``targets``."""
    sources = [node_of(t) for t in targets]
    ends = {node for node, _ in sources}
    nodes = history((t.record for t in outputs), ends)
    needed = descendants(nodes, ends)
    known: dict[Node, list[Ct | None]] = {}
    for (node, index), tangent in zip(sources, given, strict=True):
        count = len(node.results) if type(node) is Record else 1
        known.setdefault(node, [None] * count)[index] = tangent
    for node in nodes:
        if type(node) is Record and node in needed and node not in known:
            known[node] = _push(node, [_lookup(known, p) for p in node.parents])
    return [_lookup(known, t.record) for t in outputs]


def _lookup(known: dict[Node, list[Ct | None]], record: AnyRecord | None) -> Ct | None:
    if record is None:
        return None
    node, index = node_of(record)
    return known[node][index] if node in known else None


def _push(node: Record, incoming: Sequence[Ct | None]) -> list[Ct | None]:
    """The tangents of the node's results."""
    if "regions" in node.attrs and node.op.jvp_rule is not None:
        return _apply_jvp(node, incoming)
    total: list[Ct | None] = [None] * len(node.results)
    sure = [t if isinstance(t, Tensor) else None for t in incoming]
    if any(t is not None for t in sure):
        total = _apply_jvp(node, sure)
    for at, t in enumerate(incoming):  # what may be absent goes alone, so that it can stay out
        if isinstance(t, OptionalCt):
            alone = [t.ct if i == at else None for i in range(len(incoming))]
            terms = [marked(term, t.present) for term in _apply_jvp(node, alone)]
            total = [
                a if b is None else b if a is None else added(a, b)
                for a, b in zip(total, terms, strict=True)
            ]
    return total


def _apply_jvp(node: Record, incoming: Sequence[Ct | None]) -> list[Ct | None]:
    count = len(node.results)
    rule = node.op.jvp_rule
    if rule is None:
        return _push_by_transposing(node, incoming)
    results = [restored(node, i) for i in range(count)]
    operands = [make_snapshot(saved) for saved in node.saved]
    result = results[0] if count == 1 else tuple(results)
    out = rule(tuple(incoming), result, *operands, **node.attrs)
    return [out] if count == 1 else list(out)


def _push_by_transposing(node: Record, incoming: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Tangents from the vjp alone: it is linear in the cotangent, and its transpose is the jvp."""
    probes, leaves = [], []
    for saved in node.results:
        probe = _zeros(saved_type(saved)).detach()
        probe.record = Leaf(probe.type)
        probes.append(probe)
        leaves.append(probe.record)
    flow = [t is not None for t in incoming]
    with recording(True):
        if "regions" in node.attrs:
            pull = Pull(
                cts=tuple(probes), flow=tuple(flow), arrived=(None,) * len(flow), record=node
            )
            cts = _apply_control_vjp(node, pull)
        else:
            cts = apply_vjp(node, probes, flow)
    seeds = [
        (ct.record, tangent)
        for ct, tangent in zip(cts, incoming, strict=True)
        if tangent is not None and ct is not None and ct.record is not None
    ]
    return cotangents(seeds, leaves) if seeds else [None] * len(leaves)


def backward(root: Tensor, gradient: Any = None, retain_graph: bool = False) -> None:
    """Add to the ``grad`` of every leaf that ``root`` came from, and free the history walked."""
    if root.record is None:
        raise no_history()
    seed = seed_for(root, gradient)
    calls: dict[Node, set[int]] = {}
    nodes = history([root.record], spent=set(), calls=calls)
    leaves = [node for node in nodes if isinstance(node, Leaf) and not node.frozen]
    interpreter = current()
    shards = [leaf.call for leaf in leaves if type(leaf) is ShardLeaf] if ShardLeaf.used else None
    with recording(False), interpreter.going_back([node_of(root.record)[0]], nodes):
        back = shards[0].way_back(root.record, nodes) if shards else None
        if back is not None:
            seed = back.weighed(seed)
        with nullcontext() if back is None else back.under_way(leaves) as told:
            grads = pulled_back([(root.record, seed)], leaves, told=told)
            if not any(isinstance(node, Leaf) and node.frozen for node in nodes):
                interpreter.require_history(root.record, grads, no_history)
            refuse_foreign(leaves, grads)
            if back is not None:
                leaves, grads = back.gathered(leaves, grads)
        for leaf, grad in zip(leaves, grads, strict=True):
            if grad is not None:
                add_gradient(leaf, grad)
    if not retain_graph:
        unused = {node for node, met in calls.items() if not node.op.use_up(node, met)}
        interpreter.use_up([n for n in nodes if type(n) is Record and n not in unused])


def no_history() -> GradientError:
    """The error for backward() of a tensor that no gradient flows to."""
    return GradientError(
        "backward() of a tensor without history",
        why="No operand of its computation requires a gradient, or it ran under no_grad.",
        fix="set requires_grad = True on the tensors to differentiate by",
    )


def add_gradient(leaf: Leaf, grad: Ct) -> None:
    """Add ``grad`` to the gradient of ``leaf``, or let it be that where there is none."""
    interpreter = current()
    if isinstance(grad, Tensor) and grad.type is not leaf.type:  # ranks share one of them
        grad = in_layout(grad, leaf.type)
    old = interpreter.read_tensor_attribute(leaf, "grad")
    # While a function is traced, there may be none on some paths.
    if isinstance(grad, OptionalCt) and not (isinstance(old, Tensor) or grad.present.type.rank):
        new = interpreter.gradient_on_paths(old, grad)
    elif old is None:
        new = interpreter.first_gradient(leaf, plain(grad).detach())
    else:
        new = (old if isinstance(old, Tensor) else old.or_nothing()) + neutral(grad)
    interpreter.write_tensor_attribute(leaf, "grad", new)


def refuse_foreign(leaves: Sequence[Leaf], grads: Sequence[Ct | None]) -> None:
    """Raise when gradients reach a history that goes on outside the function being traced."""
    for leaf, grad in zip(leaves, grads, strict=True):
        if type(leaf) is Boundary and grad is not None and current().traces:
            raise CaptureError(
                "backward() inside a hybridized function reaches a value computed outside it",
                at=author_location(),
                why="The argument it came from has a history of its own, which is not captured.",
                fix="call backward() outside, or pass the argument with detach()",
            )


def seed_for(root: Tensor, gradient: Any, word: str = "cotangent") -> Tensor:
    """``gradient`` checked against ``root``; ones for a tensor of one element."""
    if gradient is None:
        if root.type.size != 1:
            raise ArgumentError(
                f"backward() of {root.type} without a gradient",
                why="Only a tensor of one element has a gradient by itself.",
                fix="sum it first, or pass the cotangent",
            )
        return ops.ones(root.type.shape, dtype=root.type.dtype)
    seed = gradient if isinstance(gradient, Tensor) else current().lift(gradient, root.type.dtype)
    if whole_of(seed.type) is not whole_of(root.type):
        raise ShapeError(f"a {word} of {root.type} must have that type, not {seed.type}")
    return seed
