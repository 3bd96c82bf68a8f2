"""The choice of channels or heads that go, with all that belongs to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from hybrid.compress.channels.channel_groups import (
    ChannelGroup,
    EvaluatedGraph,
    Key,
    Refusal,
    groups_of,
)
from hybrid.compress.channels.element_choice import Refused, is_listed, lowest
from hybrid.compress.channels.removal import channel_seeds, head_seeds, trial
from hybrid.compress.weights import IMPORTANCE, label_of, owners_of
from hybrid.errors import ArgumentError
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.ops.support.operand_checks import plural


class Units:
    """Whole channels or heads: places along axes that leave together."""

    what = "channel"

    def __init__(
        self,
        model: Module,
        skipped: Collection[str],
        scope: str,
        importance: str,
        example: Sequence[Any],
        round_to: int,
    ) -> None:
        self.scope, self.round_to, self.model = scope, round_to, model
        self.importance = IMPORTANCE[importance]
        self.labels = {id(p): label_of(name) for name, p in model.named_parameters()}
        self.owners = owners_of(model)
        self.refused: list[Refused] = []
        graph = EvaluatedGraph(model, example)
        self.groups: list[ChannelGroup] = []
        for group in groups_of(graph, self._seeds(graph)):
            why = self._reason(group, skipped)
            if why is not None:
                group.refuse(group.units, why)
            for units in group.kinds():
                self._scores(group, [])  # they are numbers
                why = trial(model, group, units[0], example)
                if why is not None:
                    group.refuse(units, why)
            self._note(group)
            if group.free:
                self.groups.append(group)
        self.gone: list[list[int]] = [[] for _ in self.groups]

    def _seeds(self, graph: EvaluatedGraph) -> list[Key]:
        return channel_seeds(self.model, graph)

    def _reason(self, group: ChannelGroup, skipped: Collection[str]) -> Refusal | None:
        """Why no unit of a group is to leave, whatever it is."""
        parameters = [parameter for parameter, _, _ in self._weights(group)]
        labels = [self.labels[id(p)] for p in parameters]
        found = next((label for label in labels if label in skipped), None)
        if found is not None:
            return Refusal(f"{found}, which is skipped, has them, too")
        if any(is_listed(self.owners[id(p)]) for p in parameters):
            return Refusal("a ParameterList or ParameterDict holds a parameter of them")
        if all(p.ndim < 2 for p in parameters):
            return Refusal("no weight makes them")
        return None

    def _weights(self, group: ChannelGroup) -> list[tuple[Parameter, int, np.ndarray]]:
        """The parameters that masks silence, with the axis and the unit of each place along it."""
        return [
            (cell, axis, units)
            for _, cell, axis, units in group.sources()
            if isinstance(cell, Parameter)
        ]

    def _note(self, group: ChannelGroup) -> None:
        """List what of a group cannot be pruned: by the layer that it begins at, and reasons."""
        names = [self.labels[id(p)] for p, _, _ in self._weights(group) if p.ndim > 1]
        label = ", ".join(dict.fromkeys(names)) or "a weight"
        count = len(group.units)
        for why in dict.fromkeys(group.refusals.values()):
            units = [unit for unit in group.units if group.refusals.get(unit) == why]
            text = f"{len(units)} of {plural(count, self.what)}: {why.why}"
            self.refused.append(Refused(label, text, why.op, why.at))

    def parameters(self) -> list[tuple[str, Any, tuple[tuple[Module, str], ...]]]:
        """What gets masks: names, parameters, and the modules that hold them."""
        found = {id(p): p for group in self.groups for p, _, _ in self._weights(group)}
        return [(self.labels[key], p, self.owners[key]) for key, p in found.items()]

    def choose(self, amount: float) -> dict[int, np.ndarray]:
        """What is kept, by ids of parameters, when the share ``amount`` of units is gone.

        A group keeps one at least, and a multiple of ``round_to`` in all.
        """
        pairs = list(zip(self.groups, self.gone, strict=True))
        scores = [self._scores(group, gone) for group, gone in pairs]
        parts = [scores] if self.scope == "global" else [[s] for s in scores]
        counts: list[int] = []
        for part in parts:
            joined = np.concatenate(part)
            chosen = np.zeros(joined.size, bool)
            chosen[lowest(joined, amount)] = True
            bounds = np.cumsum([len(s) for s in part])[:-1]
            counts += [int(c.sum()) for c in np.split(chosen, bounds)]
        for at, (group, found, count) in enumerate(zip(self.groups, scores, counts, strict=True)):
            total = len(group.units)
            while count and (count >= total or (total - count) % self.round_to):
                count -= 1
            order = np.argsort(found, kind="stable")[: max(count, len(self.gone[at]))]
            self.gone[at] = [group.free[i] for i in order]
        kept = {id(p): np.ones(p.shape, bool) for _, p, _ in self.parameters()}
        for group, gone in zip(self.groups, self.gone, strict=True):
            for parameter, axis, units in self._weights(group):
                np.moveaxis(kept[id(parameter)], axis, 0)[np.isin(units, gone)] = False
        return kept

    def _scores(self, group: ChannelGroup, gone: list[int]) -> np.ndarray:
        """How much each unit counts on average over its weights; those that are gone come first.

        They are relative to the mean of the group, so that groups can be compared.
        """
        units = group.free
        total, count = np.zeros(len(units)), np.zeros(len(units))
        for parameter, axis, of_axis in self._weights(group):
            if parameter.ndim > 1:
                rows = np.moveaxis(self.importance(parameter), axis, 0)
                rows = rows.reshape(len(of_axis), -1).astype(np.float64)
                for at, unit in enumerate(units):
                    total[at] += rows[of_axis == unit].sum()
                    count[at] += rows[of_axis == unit].size
        if np.isnan(total).any():
            label = self.labels[id(self._weights(group)[0][0])]
            raise ArgumentError(
                f"{label} holds NaN, which is neither important nor unimportant",
                fix="train the model without it first",
            )
        found = total / np.maximum(count, 1)
        found /= found.mean() or 1.0
        found[np.isin(units, gone)] = -1.0
        return found


class Heads(Units):
    """Heads of attention."""

    what = "head"

    def _seeds(self, graph: EvaluatedGraph) -> list[Key]:
        return head_seeds(graph)
