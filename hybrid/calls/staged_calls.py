"""Calls of functions in which sizes depend on values: which of several captures serves one.

What the sizes of a run are shows while it runs.  Where they do not meet the conditions of the
capture that has begun, nothing has been written, and another one takes the call.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from hybrid.calls.executable import Planned
from hybrid.calls.families import Family, NumberInputs, family_key
from hybrid.calls.open_families import MOST, OpenFamily, families_of
from hybrid.calls.open_plans import BoundCaptures
from hybrid.calls.stages import OtherSizes, StagedCapture, StagedPlanned
from hybrid.core.timing import phase
from hybrid.eager.launch import fill
from hybrid.eager.tensor import Tensor
from hybrid.eager.thread_state import STATE
from hybrid.errors import CutShortError, EagerOnlyError
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.capture.recapture import Paths, uncollected
from hybrid.trace.guards.constants import lasting_call


class StagedCalls:
    """The half of a hybridized function that runs plans in stages."""

    options: dict[str, Any]
    _plans: dict[Hashable, list[Planned]]
    _families: dict[Hashable, Family]
    _open_families: dict[Hashable, OpenFamily]
    _quick: tuple[dict[Hashable, Planned], ...]
    _clock: int
    _paths: Paths
    _all_plans: Any
    clear: Any
    _kept: Any
    _trace: Any
    _name: Any

    def _staged(
        self, planned: Planned, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any],
        given: tuple[Any, ...],
    ) -> Any:  # fmt: skip
        """The call by stages; where sizes turn out to be others, by those made for these."""
        if ACTIVE and current().queues:
            fill([leaf for leaf in leaves if isinstance(leaf, Tensor)])
        try:
            return planned.run(*given)
        except OtherSizes:
            for quick in self._quick:
                for types_ in [types_ for types_, found in quick.items() if found is planned]:
                    del quick[types_]
        with STATE:
            tried = [planned]
            for other in self._alike(planned, leaves):
                if other not in tried:
                    tried.append(other)
                    with suppress(OtherSizes):
                        return self._counted(other).run(*given)
            if len(tried) < MOST:
                with uncollected(), phase(f"capture {self._name()}"):
                    other = self._captured_again(planned, args, kwargs, leaves)
                with suppress(OtherSizes):
                    return self._counted(other).run(*given)
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
            graphs = [planned.capture.graph for planned in self._all_plans()]
            calls = any([lasting_call(node) for graph in graphs for node in graph.nodes])
            if calls or str(error.at) in self._paths.cut:
                raise error
            self._paths.cut.add(str(error.at))
            self.clear()

    def _counted(self, planned: Planned) -> Planned:
        """``planned``, which is about to run, and is looked at first from now on."""
        alike = self._plans.get(planned.key, [])
        if planned in alike:
            alike.remove(planned)
            alike.insert(0, planned)
        self._clock = planned.last_used = self._clock + 1
        planned.calls += 1
        return planned

    def _alike(self, planned: Planned, leaves: Sequence[Any]) -> Iterator[Planned]:
        """Further plans in stages that serve a call, and the sizes of its arguments."""
        for other in list(self._plans.get(planned.key, ())):
            if other.is_staged and other.serves(leaves):
                yield other
        families = families_of(self._open_families, planned.key, leaves)
        captures = [made for family in families for made in family.captures]
        for made in captures if planned.opened is not None else ():
            values = made.values(leaves)
            if values is not None:
                bound = made.bound(leaves)
                yield bound or self._kept(made.at(values, leaves, planned.key), leaves)

    def _captured_again(
        self, planned: Planned, args: Sequence[Any], kwargs: dict[str, Any], leaves: Sequence[Any]
    ) -> Planned:
        """A plan in stages for sizes for which those that there are do not hold."""
        why = "sizes that depend on values meet other conditions"
        if planned.opened is not None:
            family = families_of(self._open_families, planned.key, leaves)[0]
            trace = functools.partial(self._trace, args, kwargs, leaves)
            found = family.opening(leaves, trace, self.options["optimize"] == "fast")
            if found is not None:
                found[0].why = why
                return self._kept(found[0].at(found[1], leaves, planned.key), leaves)
        inputs = NumberInputs(planned.numbers, planned.places)
        made = self._trace(args, kwargs, leaves, inputs)
        found = self._staged_of(made, leaves, planned.key, inputs)
        found.why = why
        self._families.setdefault(family_key(planned.key, leaves), Family()).plans.append(found)
        return self._kept(found, leaves)

    def _staged_of(
        self, capture: Capture, leaves: Sequence[Any], key: Hashable, inputs: NumberInputs
    ) -> Planned:
        """The executable of a capture in which sizes depend on values."""
        fast = self.options["optimize"] == "fast"
        stages = StagedCapture(capture, BoundCaptures(capture, capture.value_sizes, fast=fast))
        return StagedPlanned(stages, (), leaves, key, inputs.numbers)
