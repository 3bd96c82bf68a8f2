"""Executable captures: bind tensors, run the plan, write back, record the gradient."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from hybrid import ops
from hybrid.autodiff.presence import Ct, OptionalCt, added, flag, neutral, nothing, optional_ct
from hybrid.autodiff.shared_histories import SharedHistories
from hybrid.autodiff.tape import Pull, node_of, pulled_back
from hybrid.calls.bind.function_text import BindingSubject, FunctionText
from hybrid.calls.bind.generate import bind, holds
from hybrid.calls.bind.precomputed import PrecomputedResults, fits, fixed_sources
from hybrid.calls.bind.stream_call import QueuedBinding
from hybrid.core.dataclass import cached_attribute, dataclass, field
from hybrid.core.timing import phase
from hybrid.core.tree import LEAF
from hybrid.core.types import TensorType
from hybrid.eager.fused_calls import optimized_parts, optimized_plan
from hybrid.eager.launch import call_plan
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import STATE
from hybrid.ir.interpreter import current
from hybrid.ir.record import (
    SEVERED,
    AnyRecord,
    Leaf,
    Output,
    Record,
    is_recording,
    recording,
)
from hybrid.memory.native import plan_nbytes
from hybrid.ops.support.operand_checks import plural
from hybrid.passes.layouts.local_graph import laid_like
from hybrid.plan import Plan
from hybrid.trace.alias.row_limits import needs_run
from hybrid.trace.capture.backward import backward_of
from hybrid.trace.capture.captured_graph import (
    Backward,
    BackwardRequest,
    Capture,
    OpenAxes,
    Plans,
    build,
    build_objects,
)
from hybrid.trace.gradients.region_vjp import kinds_of, tensors_of
from hybrid.trace.gradients.replay_run import followed
from hybrid.trace.guards.constants import lasting_call
from hybrid.trace.regions.build import replay

NEVER = 1 << 62


def _used_record() -> Record:
    """The record of a value whose history backward() has used up."""
    record = Record(None, {}, (), (), ())  # type: ignore[arg-type]
    record.saved = record.results = None
    return record


USED = _used_record()
_SHOWN = 4  # bindings, of those used last
_NBYTES = 16384  # about what Python objects of one Planned take, beside its plan


@contextmanager
def others_first() -> Iterator[None]:
    """A context in which other threads get ``STATE``: a run that holds it waits for them."""
    # As threading.Condition does, which cannot be used here: nobody tells it that they are done.
    held = STATE._is_owned() and STATE._release_save()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if held:
            STATE._acquire_restore(held)  # type: ignore[attr-defined]


class Opened(Protocol):
    """A capture for many sizes, and what those have in common that it is bound to."""

    axes: OpenAxes
    why: str  # it was captured
    holds: Callable[[Sequence[Any]], bool]  # the guards
    texts: dict[Any, FunctionText] | None  # of its bindings; None: they differ from size to size

    @property
    def calls(self) -> int:
        """How many calls of all sizes have begun."""

    def bound(self, leaves: Sequence[Any]) -> Planned | None:
        """What runs a call of ``leaves`` that this capture serves, if it is bound to its sizes."""

    def kept(self, plan: Plan, cells: Sequence[int]) -> PrecomputedResults:
        """What keeps the results of ``plan``, for all sizes."""


def _known(capture: Capture, fixed: Sequence[int], fast: bool) -> Plans:
    """The plan of ``capture``, and what it leaves to be computed ahead."""
    known = capture.plans
    if known is None and capture.is_shared:
        params = capture.graph.params
        wanted = {output: params[source].type for source, output in capture.writes}
        for write in capture.place_writes:  # gradients are held as what they belong to
            leaf, made = write.address.owner, write.recipe.leaves
            if isinstance(leaf, Leaf) and write.recipe.structure == LEAF and made[0][0] == "output":
                wanted[made[0][1]] = leaf.type
        return optimized_plan(capture.graph, fast=fast, wanted=wanted), (), None
    if known is None or not set(known[1]) <= set(fixed):
        known = optimized_parts(capture.graph, fixed, fast=fast)
    if known[2] is not None and not fits(known[2]):
        known = optimized_plan(capture.graph, fast=fast), (), None
    return known


class Planned:
    """An executable capture; safe to run from several threads, under ``STATE`` if it ``shares``."""

    def __init__(
        self,
        capture: Capture,
        keep: Sequence[Any],
        key: Any,
        numbers: frozenset[int],
        *,
        fast: bool = False,
        opened: Opened | None = None,
    ) -> None:
        """``opened`` is the capture for many sizes that this one is bound from, if any."""
        self.capture, self.opened = capture, opened
        self.moves = opened is not None and bool(opened.axes.outside)  # to other sizes outside
        self.guards = capture.guards
        self.fast = fast  # whether passes may change bits
        self.plan, cells, first = self._plans()
        self.is_staged = False  # whether sizes may turn out to be others than it is made for
        self.calls = self.last_used = self.made = 0
        self.account: Any = None  # in the ledger of the function
        self.due = NEVER  # the count of calls at which a call is timed
        self.key = key  # of the call that it was made for
        self.why = ""  # it was made
        self.sizes: tuple[int, ...] = ()  # of the symbols of an open capture
        self.filed = ""  # in a file, or loaded from there, or why not
        self.description: tuple[str, ...] = ()
        self.numbers = numbers  # argument leaves that are numbers and inputs
        # Places outside that hold numbers which are inputs.
        self.places = tuple([s.address for s in capture.sources if s.is_outer_number])
        self.written_arguments = capture.written_arguments
        self.keep = [leaf for leaf in keep if not isinstance(leaf, Tensor)]  # ids in the key
        if capture.gradient is not None:
            self.vjp_op = CallOp(self)
        self.shares = (
            self.moves
            or bool(capture.writes or capture.place_writes or capture.place_reads)
            or any(source.address is not None for source in capture.sources)
        )
        record = None if capture.gradient is None else self._record
        with phase("bind"):
            self.precomputed = None
            if first is not None:
                kept = self._kept if opened is None else opened.kept
                self.precomputed = kept(first, cells)
            self.run = self._bound(record)
            self.holds = capture.guards.compiled(capture) if opened is None else opened.holds

    def _plans(self) -> Plans:
        """The plan, and what it leaves to be computed ahead."""
        known = self.capture.plans
        if self.opened is None:
            known = _known(self.capture, fixed_sources(self.capture), self.fast)
        return known

    def _bound(self, record: Callable[..., None] | None) -> Callable[..., Any]:
        """The function of the leaves of a call that runs the plan."""
        texts = None if self.opened is None else self.opened.texts
        whole = self._whole()
        return bind(self.capture, self.plan, record, USED, self.precomputed, whole, texts)

    def _kept(self, plan: Plan, cells: Sequence[int]) -> PrecomputedResults:
        own = weakref.ref(self)  # what keeps results does not keep what it belongs to
        return PrecomputedResults(plan, cells, lambda: own().calls)

    @property
    def binding(self) -> str:
        """The sizes of an open capture, as texts call them."""
        return "" if self.opened is None else self.opened.axes.sizes.named(self.sizes)

    @property
    def nbytes(self) -> int:
        """About the bytes that it takes between runs, without the capture."""
        return plan_nbytes(self.plan.handle) + _NBYTES

    def _whole(self) -> Callable[[], Plan]:
        capture, fast = self.capture, self.fast
        return lambda: optimized_plan(capture.graph, fast=fast)

    def serves(self, leaves: Sequence[Any]) -> bool:
        """Whether all that the capture has read is as it was, at a call of these leaves."""
        return self.serving(leaves) is self

    def serving(self, leaves: Sequence[Any]) -> Planned | None:
        """What serves a call of these leaves: this, or its capture at sizes that are elsewhere."""
        found: Planned | None = self
        if self.moves:
            found = self.opened.bound(leaves)
        try:
            return found if found is not None and self.holds(leaves) else None
        except AttributeError:  # a method, or a place that was read, is gone
            return None

    @cached_attribute
    def queued(self) -> Any:
        """``run`` in a stream."""
        record = None if self.capture.gradient is None else self._record
        capture, whole = self.capture, self._whole()
        bound = BindingSubject(
            capture=capture,
            plan=self.plan,
            record=record,
            used=USED,
            precomputed=self.precomputed,
            whole=whole,
        )
        return QueuedBinding(bound, self.run).write().at(bound)

    @cached_attribute
    def may_run_again(self) -> bool:
        """Whether eager code would have written what a run leaves undone that a kernel ends."""
        capture = self.capture
        written = bool(capture.writes or capture.place_writes) and not capture.turned
        return written and not any(map(lasting_call, capture.graph.nodes))

    @property
    def replays(self) -> bool:
        """Whether ``replayed`` does all that a run does."""
        capture = self.capture
        makes = any([not built.is_tuple for built in capture.objects])
        held = any([kind == "held" for kind, _ in capture.result.places])
        return not (capture.place_writes or capture.given or makes or held)

    def replayed(self, leaves: Sequence[Any]) -> Any:
        """The results of a run, by the current interpreter, node by node."""
        capture = self.capture
        tensors = [source.fetch(leaves) for source in capture.sources]
        results = replay(capture.graph, tensors, capture.recorded)
        for source, output in capture.writes:
            if source in capture.lasting:
                results[output].record = tensors[source].record
            current().assign(tensors[source], results[output])
        sources: dict[Any, Any] = dict(enumerate(tensors))
        build_objects(capture.objects, results, leaves, sources)
        return build(capture.result, results, leaves, sources)

    def _record(
        self, tensors: list[Tensor], datas: list[Any], results: list[Tensor], buffers: list[Any]
    ) -> None:
        """Attach the history of a call to its results."""
        record_gradient(
            self.capture, self.vjp_op, self.plan.output_types, tensors, datas, results, buffers
        )


def record_gradient(
    capture: Capture,
    op: Any,
    types: Sequence[TensorType],
    tensors: Sequence[Tensor],
    datas: Sequence[Any],
    results: Sequence[Tensor],
    buffers: Sequence[Any],
) -> None:
    """Attach the history of a run to its results: ``types`` are those of all outputs."""
    gradient = capture.gradient
    saved = [(t.type, data, t.record) for t, data in zip(tensors, datas, strict=True)]
    for kind, index in gradient.backward.residuals:
        if kind == "output":
            saved.append((types[index], buffers[index], None))
        else:
            saved.append((tensors[index].type, datas[index], None))
    outputs = [results[i] for i in gradient.outputs]
    if gradient.severed:
        for t in outputs:
            t.record = SEVERED
        return
    record = Record(
        op,
        {"regions": (), "spent": set()},
        tuple(tensors[i].record for i in gradient.inputs),
        tuple(saved),
        tuple(t.type for t in outputs),
    )
    if len(outputs) == 1:
        outputs[0].record = record
    else:
        for index, t in enumerate(outputs):
            t.record = Output(record, index)
    known: set[int] = set()
    for at, there in enumerate(gradient.presence_flags):
        if there >= 0 and not holds(buffers[there]):
            outputs[at].record = None
            known.add(at)
    for same in gradient.history_aliases:
        there = same.flag < 0 or holds(buffers[same.flag])
        if there and same.output not in known:
            known.add(same.output)
            other = tensors if same.of == "source" else outputs
            outputs[same.output].record = other[same.index].record


class CallOp:
    """Stands as the op of a call's record: its vjp is the planned backward graph.

    Like that of control flow it is told what the inputs have got so far, for one that the call uses
    several times would get each use in turn if its ops ran eagerly.  Where only a run knows which
    items of its lists are one tensor, it goes back through the ops of that run, one by one.
    """

    differentiable = True
    may_skip = True  # there may be operands that a run has not used
    jvp_rule = None
    alias_rule = None
    name = "hybridized call"

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.plans: dict[Backward, Plan] = {}

    @cached_attribute
    def histories(self) -> SharedHistories:
        """What of the histories of the results is common to them."""
        capture = self.planned.capture
        inputs, outputs = capture.gradient.inputs, capture.gradient.outputs
        return SharedHistories(capture.graph, inputs, outputs, capture.recorded)

    def parents_of(self, record: Record, output: int) -> list[AnyRecord]:
        """The records of the operands that ``output`` came from."""
        found = [record.parents[at] for at in self.histories.inputs_of(output)]
        return [parent for parent in found if parent is not None]

    def use_up(self, record: Record, outputs: Iterable[int]) -> bool:
        """Note that backward() has walked ``outputs``; whether the record may be freed."""
        spent = record.attrs["spent"]
        for output in outputs:
            spent |= self.histories.sharing(output)
        return len(spent) == len(record.results)

    def vjp_rule(
        self, pull: Pull, _results: Any, *saved: Tensor, regions: tuple[()], spent: set[int]
    ) -> list[Ct | None]:
        """The total of each parent."""
        n_sources = len(self.planned.capture.sources)
        capture = self.planned.capture
        if is_recording() or capture.gradient.refused or needs_run(capture.graph):
            return self._replayed(pull, saved[:n_sources])
        return self._planned(pull, saved)

    def _planned(self, pull: Pull, saved: Sequence[Tensor]) -> list[Ct | None]:
        capture = self.planned.capture
        gradient = capture.gradient
        places = _places(pull)
        cts = [
            ct if at not in gradient.unsure else _flagged(ct, saved)
            for at, (ct, saved) in enumerate(zip(pull.cts, pull.record.results, strict=True))
        ]
        found = [ct if places[at] == at else None for at, ct in enumerate(pull.arrived)]
        given = [
            ct if uses > 1 or places.count(at) > 1 else None
            for at, (ct, uses) in enumerate(zip(found, gradient.uses, strict=True))
        ]
        request = BackwardRequest(kinds_of(cts), kinds_of(given), places)
        backward = backward_of(capture, request)
        n_sources = len(capture.sources)
        at_hand = dict(zip([("source", i) for i in range(n_sources)], saved, strict=False))
        at_hand |= zip(gradient.backward.residuals, saved[n_sources:], strict=True)
        operands = [at_hand[place] for place in backward.residuals]
        operands += [t for ct in (*cts, *given) for t in tensors_of(ct)]
        if current().traces or current().batches:
            grads = replay(backward.graph, operands)
        else:
            plan = self.plans.get(backward)
            if plan is None:
                plan = backward.plan and backward.plan()
                graph = laid_like(backward.graph, [t.type for t in operands])
                plan = plan or optimized_plan(graph, fast=self.planned.fast)
                self.plans[backward] = plan
            grads = call_plan(plan, operands)
        for at, (i, where) in enumerate(zip(backward.reached, backward.flags, strict=True)):
            ct = grads[at] if where < 0 else optional_ct(grads[at], grads[where], True)
            apart = given[i] is None and found[i] is not None and ct is not None
            found[i] = added(found[i], ct) if apart else ct
        return [ct if flows else None for ct, flows in zip(found, pull.flow, strict=True)]

    def _replayed(self, pull: Pull, inputs: Sequence[Tensor]) -> list[Ct | None]:
        """The forward ops once more, one by one, and back through them: differentiable again."""
        gradient = self.planned.capture.gradient
        variables, places = list(inputs), _places(pull)
        for i, first in zip(gradient.inputs, places, strict=True):
            variables[i] = ops.identity(inputs[i])
            if variables[i].record is None:
                variables[i].record = Leaf(variables[i].type)
            variables[i].record = variables[gradient.inputs[first]].record
        graph, recorded = self.planned.capture.graph, self.planned.capture.recorded
        with recording(True):
            if current().traces:
                results = replay(graph, variables, recorded)
                outputs = [results[i] for i in gradient.outputs]
            else:
                outputs = followed(graph, variables, recorded, gradient.outputs)
        targets = [variables[i].record for i in gradient.inputs]
        arrived = [ct if places[at] == at else None for at, ct in enumerate(pull.arrived)]
        seeds = list(zip(targets, arrived, strict=True))
        seeds += [(t.record, ct) for t, ct in zip(outputs, pull.cts, strict=True)]
        seeds = [(r, ct) for r, ct in seeds if r is not None and ct is not None]
        totals = pulled_back(seeds, targets, stop=True)
        return [
            ct if flows and places[at] == at else None
            for at, (ct, flows) in enumerate(zip(totals, pull.flow, strict=True))
        ]


def _flagged(ct: Ct | None, type: TensorType) -> OptionalCt:
    """A cotangent that may be absent."""
    if isinstance(ct, OptionalCt):
        return OptionalCt(neutral(ct), ct.present, True)
    return OptionalCt(nothing(type) if ct is None else ct, flag(ct is not None), True)


def _places(pull: Pull) -> tuple[int, ...]:
    """For each input the first one of the same record."""
    nodes = [parent if parent is None else node_of(parent) for parent in pull.record.parents]
    return tuple([nodes.index(node) for node in nodes])


class Crossings(NamedTuple):
    """The counts of calls from Python to C and back by a plan, and of the bytes copied.

    Tensors are handed over without copying.  What is copied are the operands and the results of
    Python functions that the plan calls: batches that Python makes, say.
    """

    calls: int  # of C
    callbacks: int  # of Python, by the plan
    copied_nbytes: int  # for these


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """The description of one cached plan, for users.

    All plans of an open capture are described at once, by the one that was used last.
    """

    arguments: tuple[str, ...]
    nodes: int
    steps: int
    arena_nbytes: int  # of scratch, where values that do not live together share their places
    scratch_nbytes: int  # of all these values, each in a place of its own
    guards: tuple[str, ...]
    calls: int
    why: str  # it was built rather than another one used
    kept_nbytes: int = 0  # of what is computed ahead and kept from call to call
    filed: str = ""  # in a file, or loaded from one, or why not; see hybrid.cache_plans
    bindings: tuple[str, ...] = ()  # of an open capture: the sizes that it has plans for
    plan: Plan | None = field(default=None, repr=False, compare=False)
    axes: OpenAxes | None = field(default=None, repr=False, compare=False)

    @property
    def outside(self) -> tuple[str, ...]:
        """Of an open capture: the tensors outside the arguments that have open axes."""
        from hybrid.explain.inputs import outside_rows

        return () if self.axes is None else outside_rows(self.axes)

    @property
    def crossings(self) -> Crossings:
        """The counts of calls from Python to C and back, and of bytes copied, by its calls."""
        assert self.plan is not None
        made = self.plan.callbacks
        return Crossings(self.calls, *((0, 0) if made is None else (made.calls, made.nbytes)))

    def schedule(self) -> str:
        """The steps in the order in which they run: how many others each waits for, its wave (how
        many wait for each other before it), about how long it takes, and what runs side by side.
        """
        assert self.plan is not None
        return self.plan.schedule()

    def layout(self) -> str:
        """How ranks share the tensors of the plan: a line for each op whose results are not the
        same on all of them, with what was moved for it; empty where nothing is shared.
        """
        assert self.plan is not None
        return getattr(self.plan, "layouts", "")

    def __str__(self) -> str:
        filed = f"; {self.filed}" if self.filed else ""
        return f"{self.sizes}; built because: {self.why}{filed}"

    @property
    def sizes(self) -> str:
        shared = self.scratch_nbytes > self.arena_nbytes
        instead = f" (in place of {self.scratch_nbytes})" if shared else ""
        parts = [
            plural(self.nodes, "node"),
            plural(self.steps, "step"),
            f"{plural(self.arena_nbytes, 'byte')} of scratch{instead}",
            *([f"{plural(self.kept_nbytes, 'byte')} kept"] if self.kept_nbytes else []),
            plural(len(self.guards), "guard"),
            plural(self.calls, "call"),
        ]
        if self.bindings:
            more = len(self.bindings) - _SHOWN
            last = "; ".join(self.bindings[-_SHOWN:])
            parts.append(f"bound to {last}" + (f" and {more} more" if more > 0 else ""))
        outside = f"; {', '.join(self.outside)}" if self.outside else ""
        return f"({', '.join(self.arguments)}{outside}): {', '.join(parts)}"
