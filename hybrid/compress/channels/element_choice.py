"""The choice of elements that go: single ones, or two of each four."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.compress.weights import IMPORTANCE, LayerWeight
from hybrid.core.dataclass import dataclass
from hybrid.errors import ArgumentError, Location
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter_container import ParameterDict, ParameterList


@dataclass(frozen=True)
class Refused:
    """Something that cannot be pruned: the layer, the op that it ends at, its line, and why."""

    layer: str
    why: str
    op: str = ""
    at: Location | None = None

    def __str__(self) -> str:
        place = " at ".join([part for part in (self.op, str(self.at or "")) if part])
        return f"{self.layer}: {self.why}" + (f" ({place})" if place else "")


def is_listed(owners: Sequence[tuple[Module, str]]) -> bool:
    """Whether one of the ``owners`` of a parameter gives it by number or key, as it is."""
    return any(isinstance(owner, (ParameterList, ParameterDict)) for owner, _ in owners)


def lowest(scores: np.ndarray, amount: float) -> np.ndarray:
    """The places of the share ``amount`` of ``scores`` that is lowest; of equals the first."""
    count = int(np.floor(amount * scores.size + 0.5))
    return np.argsort(scores, kind="stable")[:count]


class Elements:
    """Single elements of weights, the least important of which go."""

    def __init__(self, weights: Sequence[LayerWeight], scope: str, importance: str) -> None:
        self.refused = [
            Refused(w.label, "it is also held by a ParameterList or ParameterDict")
            for w in weights
            if is_listed(w.owners)
        ]
        self.weights, self.scope = [w for w in weights if not is_listed(w.owners)], scope
        self.importance = IMPORTANCE[importance]
        self.kept = {id(w.parameter): np.ones(w.parameter.shape, bool) for w in weights}

    def parameters(self) -> list[tuple[str, Any, tuple[tuple[Module, str], ...]]]:
        """What gets masks: names, parameters, and the modules that hold them."""
        return [(w.label, w.parameter, w.owners) for w in self.weights]

    def choose(self, amount: float) -> dict[int, np.ndarray]:
        """What is kept, by ids of parameters, when the share ``amount`` is gone.

        What went before stays away.
        """
        scores = [self._scores(w).reshape(-1) for w in self.weights]
        parts = [scores] if self.scope == "global" else [[s] for s in scores]
        kept = []
        for part in parts:
            joined = np.concatenate(part)
            chosen = np.ones(joined.size, bool)
            chosen[lowest(joined, amount)] = False
            kept += np.split(chosen, np.cumsum([s.size for s in part])[:-1])
        for weight, flat in zip(self.weights, kept, strict=True):
            self.kept[id(weight.parameter)] = flat.reshape(weight.parameter.shape)
        return self.kept

    def _scores(self, weight: LayerWeight) -> np.ndarray:
        found = self.importance(weight.parameter)
        if np.isnan(found).any():
            raise ArgumentError(
                f"{weight.label} holds NaN, which is neither important nor unimportant",
                fix="train the model without it first",
            )
        return np.where(self.kept[id(weight.parameter)], found, -1.0)


class TwoOfFour(Elements):
    """Of each four elements side by side along the input the two that count more are kept."""

    def __init__(self, weights: Sequence[LayerWeight], scope: str, importance: str) -> None:
        fitting = [w for w in weights if w.parameter.shape[w.input] % 4 == 0]
        super().__init__(fitting, scope, importance)
        self.refused += [
            Refused(w.label, f"its {w.parameter.shape[w.input]} inputs are no multiple of 4")
            for w in weights
            if w.parameter.shape[w.input] % 4
        ]

    def choose(self, amount: float) -> dict[int, np.ndarray]:
        """What is kept, by ids of parameters; ``amount`` is 0.5."""
        for weight in self.weights:
            rows = np.moveaxis(self._scores(weight), weight.input, -1)
            fours = rows.reshape(-1, 4)
            order = np.argsort(-fours, axis=1, kind="stable")  # of equals the first stay
            kept = np.zeros(fours.shape, bool)
            np.put_along_axis(kept, order[:, :2], True, axis=1)
            back = np.moveaxis(kept.reshape(rows.shape), -1, weight.input)
            self.kept[id(weight.parameter)] = np.ascontiguousarray(back)
        return self.kept
