"""Plans in stages: runs of graphs in which sizes depend on values.

::

    %m = greater %x 0                  | first stage
    %i: i64[k] = true_indices %m       | as many as there are: k is known
    %y: f32[k] = take %x %i            | second stage, planned for this k
    %s = sum %y                        |

A stage runs op by op where its sizes are new, as eager code does, and is a plan for those that it
has met before.  Nothing is written before the last stage has run: a run whose sizes do not meet
the conditions of the graph can be given up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, ClassVar

from hybrid.calls.bind.function_text import BindingSubject, FunctionText
from hybrid.calls.bind.generate import Binding, put_in_force
from hybrid.calls.executable import USED, CallOp, Planned, record_gradient
from hybrid.calls.open_plans import BoundCaptures, OpenPlans
from hybrid.core.sizes import OpenSizes
from hybrid.eager.execution import EAGER, measured
from hybrid.eager.launch import call_plan
from hybrid.eager.tensor import Tensor
from hybrid.errors import EagerOnlyError
from hybrid.ir import Graph, Node, Value
from hybrid.ir.bound_graphs import SizeBinding
from hybrid.ir.graph import open_numbers
from hybrid.ops.index.value_sizes import VALUE_SIZED
from hybrid.plan import Plan
from hybrid.plan.plan import Sizes
from hybrid.trace.capture.captured_graph import Capture, Plans
from hybrid.trace.guards.constants import lasting_call

_MOST = 64  # plans of a stage
_AT_ONCE = 16  # of them are bound, whatever follows
_PAYS = 8  # runs of plans there are, that pay for one more


class OtherSizes(Exception):
    """Raised where the sizes of a run do not meet the conditions of its graph."""


class StagedPlan:
    """The stages of a graph, as what runs one after the other."""

    donations: ClassVar[dict[int, int]] = {}
    exposed: frozenset[int] = frozenset()
    callbacks = None

    def __init__(self, graph: Graph, sizes: OpenSizes, count: int, *, fast: bool = False) -> None:
        """``count`` symbols have their values from the arguments of a call."""
        self.graph, self.symbols, self.count = graph, sizes, count
        self.input_types = tuple([v.type for v in graph.params])
        self.output_types = tuple([v.type for v in graph.results])
        self.stages = _stages(graph, sizes, fast)
        _refuse_effects([stage.graph for stage in self.stages[:-1]])
        self.calls_python = any([node.op.name == "py_call" for node in graph.walk()])

    @property
    def sizes(self) -> Sizes:
        """The sizes of the plans that are there, those of the first bucket of each stage."""
        found = [plan.sizes for stage in self.stages for plan in [*stage.plans.values()][-1:]]
        nodes = sum([1 for _ in self.graph.walk()])
        return Sizes(
            nodes,
            sum([one.steps for one in found]),
            max([one.arena_nbytes for one in found], default=0),
            max([one.scratch_nbytes for one in found], default=0),
        )

    def schedule(self) -> str:
        """The schedules of the plans that are there, stage by stage."""
        found = [plan.schedule() for stage in self.stages for plan in [*stage.plans.values()][-1:]]
        return "\n".join(found)

    def run(
        self, known: Sequence[int], tensors: Sequence[Tensor], values: list[int]
    ) -> tuple[tuple[int, ...], list[Tensor]]:
        """The values of all symbols, of which the first are ``known``, and the results.

        ``values``, an empty list, becomes these values as they are found.
        """
        values += [*known, *[symbol.value for symbol in self.symbols.symbols[len(known) :]]]
        at = len(known)
        made: dict[Value, Tensor] = dict(zip(self.graph.params, tensors, strict=True))
        for stage in self.stages:
            stage.run(values, made)
            node = stage.last
            if node is None:
                continue
            made[node.results[0]], values[at] = measured(node.op, made[node.operands[0]])
            at += 1
            if not self.symbols.holds(values[:at]):
                raise OtherSizes
        return tuple(values), [made[v] for v in self.graph.results]


class _Stage:
    """Some nodes of a graph whose sizes are known when they run."""

    def __init__(
        self, graph: Graph, sizes: OpenSizes, last: Node | None, *, fast: bool = False
    ) -> None:
        """``last`` is the node behind them, whose size they give a value to."""
        self.graph, self.sizes, self.last = graph, sizes, last
        self.plans: dict[tuple[int, ...], Plan] = {}
        self._open = OpenPlans(graph, sizes, fast=fast)
        used = sizes.symbols_of(open_numbers(graph))
        self._used = [at for at, symbol in enumerate(sizes.symbols) if symbol in used]
        self._met: dict[tuple[int, ...], None] = {}
        # One op at a time, branches and loops would be planned for each size anew.
        self._planned = any([node.regions for node in graph.nodes]) or not self._used
        self._bound, self._served = 0, 0  # plans, and runs by them

    @property
    def _pays(self) -> bool:
        """Whether one more plan pays: not where there are ever more sizes, each seen seldom."""
        return self._bound < _AT_ONCE + self._served / _PAYS

    def run(self, values: Sequence[int], made: dict[Value, Tensor]) -> None:
        """Add the results at ``values`` of all symbols to ``made``."""
        if not self.graph.nodes:
            return
        key = tuple([values[at] for at in self._used])
        plan = self.plans.get(key)
        if plan is None and (self._planned or (key in self._met and self._pays)):
            if len(self.plans) >= _MOST:
                del self.plans[next(iter(self.plans))]
            plan = self.plans[key] = self._open.at(tuple(values))[0]
            self._bound += 1
        if plan is not None:
            self._served += 1
            results = call_plan(plan, [made[v] for v in self.graph.params])
            made.update(zip(self.graph.results, results, strict=True))
            return
        if len(self._met) >= 4 * _MOST:
            del self._met[next(iter(self._met))]
        self._met[key] = None
        binding = SizeBinding(self.sizes, values)
        for node in self.graph.nodes:
            attrs = node.attrs
            if node.is_open:
                attrs = tuple([(name, binding.attribute(value)) for name, value in attrs])
            results = EAGER.run(node.op, [made[v] for v in node.operands], attrs)
            made.update(zip(node.results, results, strict=True))


def _stages(graph: Graph, sizes: OpenSizes, fast: bool) -> list[_Stage]:
    """``graph`` in stages, each but the last with a node behind it whose size depends on values.

    What a stage need not compute for that node is left to the later ones, which need less memory
    between them then.
    """
    cuts: list[tuple[list[Node], Node | None]] = []
    waiting: list[Node] = []
    for node in graph.nodes:
        if node.op.name not in VALUE_SIZED:
            waiting.append(node)
            continue
        now, waiting = _split(waiting, node)
        cuts.append((now, node))
    cuts.append((waiting, None))
    wanted = set(graph.results)  # of the stages behind
    found = []
    for nodes, last in reversed(cuts):
        if last is not None:
            wanted.update(last.operands)
        made = {v for node in nodes for v in node.results}
        read = dict.fromkeys([v for node in nodes for v in node.operands if v not in made])
        results = tuple([v for v in made if v in wanted])
        part = Graph(graph.name, tuple(read), tuple(nodes), results)
        found.append(_Stage(part, sizes, last, fast=fast))
        wanted.update(read)
    return found[::-1]


def _split(nodes: Sequence[Node], last: Node) -> tuple[list[Node], list[Node]]:
    """The ``nodes`` that ``last`` needs, or that show that they ran; then the others."""
    needed, now, later = set(last.operands), [], []
    for node in reversed(nodes):
        if node.observable or not needed.isdisjoint(node.results):
            needed.update(node.operands)
            now.append(node)
        else:
            later.append(node)
    return now[::-1], later[::-1]


def _refuse_effects(graphs: Sequence[Graph]) -> None:
    """Raise where a run that is given up would have called functions of the author's."""
    calls = [lasting_call(node) for graph in graphs for node in graph.nodes]
    for call in [call for call in calls if call is not None]:
        raise EagerOnlyError(
            "a size depends on values behind a call of Python code",
            at=call.location,
            why="Where such a size is another one than the graph is made for, it runs again from "
            "its beginning, and would call that code twice.",
        )


class StagedCapture:
    """A capture in which sizes depend on values: its stages, and its way back at given sizes."""

    def __init__(self, capture: Capture, bound: BoundCaptures) -> None:
        self.capture, self.fast = capture, bound.fast
        axes = capture.open_axes
        count = 0 if axes is None else len(axes.places)
        self.plan = StagedPlan(capture.graph, bound.sizes, count, fast=bound.fast)
        self._bound = bound
        self._ops: dict[tuple[int, ...], CallOp] = {}

    def at(self, values: Sequence[int]) -> Capture:
        """The capture at values of all symbols."""
        return self._bound.at(tuple(values), None)

    def call_op(self, values: tuple[int, ...]) -> CallOp:
        """What stands as the op of a call that had these sizes."""
        found = self._ops.get(values)
        if found is None:
            if len(self._ops) >= _MOST:
                del self._ops[next(iter(self._ops))]
            found = self._ops[values] = CallOp(_Bound(self.at(values), self.fast))
        return found


class _Bound:
    """What a CallOp asks of the executable that has run."""

    def __init__(self, capture: Capture, fast: bool) -> None:
        self.capture, self.fast = capture, fast


class StagedBinding(Binding):
    """The writer of a ``call(leaves)`` that runs stages one after the other.

    Nothing is written in place, and before the last stage has run nothing is written at all.
    """

    _recorded_with = ", values, [t.type for t in made]"

    def __init__(self, bound: BindingSubject, stages: StagedCapture) -> None:
        super().__init__(bound)
        self.stages = stages
        self.in_place, self.slot_of_output = {}, {}
        self.needs_tensor = self._tensors()
        self.many_cells, self.many_slots, self.many_fresh, self.many_tensors = [], [], [], []

    def _type_of(self, output: int) -> str:
        return f"made[{output}].type"

    def write(self) -> FunctionText:
        w, sources = self.writer, self.capture.sources
        w.names["run"], w.names["fail"] = self.plan.run, self._failed
        self._containers(1)
        for i, source in enumerate(sources):
            w.line(f"t{i} = {self._fetch(source)}")
        tensors = "".join([f"t{i}, " for i in range(len(sources))])
        w.line("found = []")
        w.line("try:")
        w.line(f"values, made = run(({tensors}), found)", 2)
        w.line("except BaseException as error:")
        w.line(f"fail(error, ({tensors}), leaves, given, found)", 2)
        w.line("raise", 2)
        for i in range(len(sources)) if self.record is not None else ():
            w.line(f"d{i} = t{i}.content")
        for output in range(self.n_outputs):
            w.line(f"b{output} = made[{output}].content")
        for output, source in self.cell_of_output.items():
            w.line(f"t{source}.content = b{output}")
        self._results()
        return w.function("def call(leaves, given=None):")

    def _failed(
        self, error: BaseException, tensors: Any, leaves: Any, given: Any, found: list[int]
    ) -> None:
        """Put in force what was written before ``error``, at the sizes that were found by then."""
        if found:
            put_in_force(self.stages.at(found), error, tensors, leaves, given)


class StagedPlanned(Planned):
    """An executable capture in which sizes depend on values, at the sizes of its arguments."""

    def __init__(
        self, stages: StagedCapture, known: Sequence[int], keep: Sequence[Any], key: Hashable,
        numbers: Collection[int] = (), *, opened: Any = None,
    ) -> None:  # fmt: skip
        self.stages, self.known = stages, tuple(known)
        super().__init__(
            stages.capture, keep, key, frozenset(numbers), fast=stages.fast, opened=opened
        )
        self.is_staged = True

    @property
    def nbytes(self) -> int:
        return 0  # its plans are those of the capture

    @property
    def replays(self) -> bool:
        return False  # sizes of many rows at once differ from row to row

    def _plans(self) -> Plans:
        return _At(self.stages.plan, self.known), (), None  # type: ignore[return-value]

    def _bound(self, record: Callable[..., None] | None) -> Callable[..., Any]:
        bound = BindingSubject(
            capture=self.capture,
            plan=self.plan,
            record=record,
            used=USED,
            precomputed=None,
            whole=None,
        )
        return StagedBinding(bound, self.stages).write().at(bound)

    def _record(  # type: ignore[override]
        self,
        tensors: list[Tensor],
        datas: list[Any],
        results: list[Tensor],
        buffers: list[Any],
        values: tuple[int, ...],
        types: Sequence[Any],
    ) -> None:
        op = self.stages.call_op(values)
        record_gradient(op.planned.capture, op, types, tensors, datas, results, buffers)


class _At:
    """A plan in stages, for calls whose arguments have given sizes."""

    def __init__(self, plan: StagedPlan, known: tuple[int, ...]) -> None:
        self.plan, self.known = plan, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)

    def run(
        self, tensors: Sequence[Tensor], values: list[int]
    ) -> tuple[tuple[int, ...], list[Tensor]]:
        return self.plan.run(self.known, tensors, values)
