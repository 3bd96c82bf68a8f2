"""Calls of functions in which sizes depend on values: which of several captures serves one.

What the sizes of a run are shows while it runs.  Where they do not meet the conditions of the
capture that has begun, nothing has been written, and another one takes the call.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from hybrid.calls.eager_runs import EagerRuns, PlanRequest
from hybrid.calls.executable import Planned
from hybrid.calls.families import NumberInputs
from hybrid.calls.open_families import MOST, families_of
from hybrid.calls.open_plans import BoundCaptures
from hybrid.calls.plan_table import PlanTable
from hybrid.calls.recapture_reasons import Call
from hybrid.calls.stages import OtherSizes, StagedCapture, StagedPlanned
from hybrid.core.timing import phase
from hybrid.eager.launch import fill
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import STATE
from hybrid.errors import ArgumentError, CutShortError, EagerOnlyError
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.capture.recapture import Paths, uncollected
from hybrid.trace.guards.constants import lasting_call

_OTHERWISE = "sizes that depend on values meet other conditions"


class StagedCalls:
    """The half of a hybridized function that runs plans in stages."""

    function: Any
    options: dict[str, Any]
    _table: PlanTable
    _runs: EagerRuns
    _paths: Paths
    _made: Any
    clear: Any
    _trace: Any
    _name: Any

    def _staged(
        self, planned: Planned, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any],
        given: tuple[Any, ...],
    ) -> Any:  # fmt: skip
        """The call by stages; where sizes turn out to be others, by those made for these.

        Raises UnpaidPlan where there are none, and it is to run eagerly.
        """
        if ACTIVE and current().queues:
            fill([leaf for leaf in leaves if isinstance(leaf, Tensor)])
        begin = self._runs.now()
        call = Call(self.function, args, kwargs, leaves, planned.key)
        with suppress(OtherSizes):
            return self._by_stages(planned, call, given)
        self._table.forget_quick((planned,))
        with STATE:
            tried = [planned]
            for other in self._alike(planned, call, begin):
                if other not in tried:
                    tried.append(other)
                    begin = self._runs.tried(begin)
                    with suppress(OtherSizes):
                        return self._counted(other, call, given)
            begin = self._runs.tried(begin)
            if len(tried) < MOST:
                request = PlanRequest(call, self._table.family(call), None, None)
                again = functools.partial(self._captured_again, planned)
                other = self._runs.paid(request, again, begin)
                with suppress(OtherSizes):
                    return self._counted(other, call, given)
        raise EagerOnlyError(
            f"sizes depend on values in more than {MOST} ways",
            at=planned.capture.graph.nodes[-1].location,
            why="Each way through the branches and loops in which sizes differ is a plan.",
        )

    def _take_lengths(self, error: CutShortError) -> None:
        """Let the lengths of slices at the line of ``error`` be sizes that depend on values.

        The run has written nothing; where it may have called Python code, the error is raised.
        """
        with STATE:
            graphs = [planned.capture.graph for planned in self._table.all()]
            calls = any([lasting_call(node) for graph in graphs for node in graph.nodes])
            if calls or str(error.at) in self._paths.cut:
                raise error
            self._paths.cut.add(str(error.at))
            self.clear()

    def _counted(self, planned: Planned, call: Call, given: tuple[Any, ...]) -> Any:
        """The call by ``planned``, which is looked at first from now on."""
        self._table.use(planned)
        planned.calls += 1
        return self._by_stages(planned, call, given)

    def _by_stages(self, planned: Planned, call: Call, given: tuple[Any, ...]) -> Any:
        """The call by ``planned``; no call of it where sizes turn out to be others."""
        try:
            if planned.calls < planned.due:
                return planned.run(*given)
            return self._runs.timed(planned, call.args, call.kwargs, given, 0.0)
        except OtherSizes:
            planned.calls -= 1
            raise

    def _alike(self, planned: Planned, call: Call, begin: float) -> Iterator[Planned]:
        """Further plans in stages that serve a call, and the sizes of its arguments."""
        leaves = call.leaves
        for other in list(self._table.plans.get(planned.key, ())):
            if other.is_staged and other.serves(leaves):
                yield other
        families = families_of(self._table.open_families, planned.key, leaves)
        captures = [(family, made) for family in families for made in family.captures]
        for family, made in captures if planned.opened is not None else ():
            values = made.values(leaves)
            if values is None:
                continue
            bound = made.bound(leaves)
            if bound is None:
                request = PlanRequest(call, self._table.family(call), family, (made, values))
                bound = self._runs.paid(request, self._made, begin)
            yield bound

    def _captured_again(self, planned: Planned, request: PlanRequest) -> Planned:
        """A plan in stages for sizes for which those that there are do not hold."""
        call, leaves = request.call, request.call.leaves
        trace = functools.partial(self._trace, call.args, call.kwargs, leaves)
        opened = None
        with uncollected(), phase(f"capture {self._name()}"):
            if planned.opened is not None:
                family = families_of(self._table.open_families, planned.key, leaves)[0]
                opened = family.opening(leaves, trace, self.options["optimize"] == "fast")
            if opened is not None:
                made, values = opened
                made.why = _OTHERWISE
                found = made.at(values, leaves, planned.key)
            else:
                inputs = NumberInputs(planned.numbers, planned.places)
                found = self._staged_of(trace(inputs), leaves, planned.key, inputs)
                found.why = _OTHERWISE
                self._table.family(call).plans.append(found)
            return self._table.keep(found, leaves)

    def _staged_of(
        self, capture: Capture, leaves: Sequence[Any], key: Hashable, inputs: NumberInputs
    ) -> Planned:
        """The executable of a capture in which sizes depend on values."""
        if capture.is_shared:
            raise ArgumentError(
                "sizes that depend on values, in a function of tensors that ranks share",
                why="Each size gets a plan of its own, of parts that are not known before.",
                fix="choose elements with where, or outside of the hybridized function",
            )
        fast = self.options["optimize"] == "fast"
        stages = StagedCapture(capture, BoundCaptures(capture, capture.value_sizes, fast=fast))
        return StagedPlanned(stages, (), leaves, key, inputs.numbers)
