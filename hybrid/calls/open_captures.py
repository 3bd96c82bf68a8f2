"""Captures with open axes: what they run at the sizes of a call."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Hashable, Sequence
from typing import Any

from hybrid.calls.bind.function_text import FunctionText
from hybrid.calls.bind.precomputed import PrecomputedResults, fixed_sources
from hybrid.calls.executable import Planned
from hybrid.calls.families import NONE, NumberInputs
from hybrid.calls.open_plans import BoundCaptures, OpenPlans
from hybrid.calls.stages import StagedCapture, StagedPlanned
from hybrid.plan import Plan
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.places.signature import is_number, key_of

_MOST_SIZES = 4096  # that are known by the types of calls


class OpenCapture:
    """One capture for many sizes, and what runs it at each of them."""

    def __init__(
        self, capture: Capture, leaves: Sequence[Any], inputs: NumberInputs = NONE, *,
        fast: bool = False,
    ) -> None:  # fmt: skip
        """``leaves`` are those of the call that it is of; ``inputs`` are numbers among them."""
        assert capture.open_axes is not None
        self.capture, self.axes, self.fast = capture, capture.open_axes, fast
        self.holds = capture.guards.compiled(capture)
        self._bound = BoundCaptures(capture, self.axes.sizes, fast=fast)
        # What is written to a place whose tensor has other sizes is bound by what these are.
        moving = any([was is not None and was.type.is_open for _, was in capture.place_reads])
        open_reads = [
            s for s, t in zip(capture.sources, capture.input_types, strict=True)
            if s.address is not None and t.is_open
        ]  # fmt: skip
        self.texts: dict[Any, FunctionText] | None = None if moving or open_reads else {}
        self._stages = self._plans = None
        if capture.value_sizes is not None:
            self._stages = StagedCapture(capture, self._bound)
        else:
            fixed = fixed_sources(capture)
            self._plans = OpenPlans(capture.graph, self.axes.sizes, fixed, fast=fast)
        self._precomputed: dict[Plan, PrecomputedResults] = {}
        self.planned: list[Planned] = []  # the sizes that it is bound to at present
        self._planned_at: dict[Hashable, Planned] = {}  # the same, by the types of a call
        self._values_at: dict[Hashable, tuple[int, ...]] = {}  # of these and others, likewise
        self._types = self.axes.reader()
        self._past_calls = 0  # of sizes that it was bound to
        self.why = ""  # it was captured
        self.inputs = inputs
        # Whether calls of one key may be of other sizes, or numbers.
        self.moves = bool(inputs or self.axes.outside)
        free = {*inputs.numbers, *self.axes.numbers}
        # The numbers for which alone it is made.
        self._own = {i: key_of(v) for i, v in enumerate(leaves) if is_number(v) and i not in free}

    def values(self, leaves: Sequence[Any]) -> tuple[int, ...] | None:
        """The sizes at a call of ``leaves``; None where this capture does not serve it."""
        if any([key_of(leaves[i]) != own for i, own in self._own.items()]):
            return None
        types = self._types(leaves)
        values = self._values_at.get(types)
        if values is None:
            values = self.axes.values(leaves)
            if values is not None and len(self._values_at) < _MOST_SIZES:
                self._values_at[types] = values
        try:
            return values if values is not None and self.holds(leaves) else None
        except AttributeError:  # a method, or a place that was read, is gone
            return None

    def bound(self, leaves: Sequence[Any]) -> Planned | None:
        """What runs a call of ``leaves`` that this capture serves, if it is bound to its sizes."""
        return self._planned_at.get(self._types(leaves))

    def has_bucket(self, values: Sequence[int]) -> bool:
        """Whether passes and lowering have been done for ``values``: to bind is all there is."""
        return self._plans is None or self._plans.bucket(values) is not None

    def at(self, values: Sequence[int], keep: Sequence[Any], key: Hashable) -> Planned:
        """What runs a call of these sizes, which it is bound to now."""
        if self._stages is not None:
            planned: Planned = StagedPlanned(self._stages, values, keep, key, opened=self)
        else:
            bound = self.capture_at(values)
            planned = Planned(bound, keep, key, self.inputs.numbers, fast=self.fast, opened=self)
        planned.sizes = tuple(values)
        planned.why, planned.filed = self.why, self.capture.filed
        self.planned.append(planned)
        types = self._types(keep)
        self._planned_at[types], self._values_at[types] = planned, planned.sizes
        return planned

    def capture_at(self, values: Sequence[int]) -> Capture:
        """The capture as one for these sizes alone, with its plan."""
        return self._bound.at(values, self._plans.at(values))

    @property
    def calls(self) -> int:
        """How many calls of all sizes have begun."""
        return self._past_calls + sum([planned.calls for planned in self.planned])

    def forget(self, gone: Collection[Planned]) -> None:
        """Be bound to the sizes of ``gone`` no more."""
        calls = self.calls
        self.planned = [planned for planned in self.planned if planned not in gone]
        self._planned_at = {key: p for key, p in self._planned_at.items() if p not in gone}
        self._values_at = {key: self._values_at[key] for key in self._planned_at}
        self._past_calls += calls - self.calls

    def kept(self, plan: Plan, cells: Sequence[int]) -> PrecomputedResults:
        """What keeps the results of ``plan``, for all sizes."""
        found = self._precomputed.get(plan)
        if found is None:
            own = weakref.ref(self)  # what keeps results does not keep what it belongs to
            found = PrecomputedResults(plan, cells, lambda: own().calls)
            self._precomputed[plan] = found
        return found
