"""What models are compared by: results on the same data, a score, the time of a call."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from hybrid import ops
from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.quantization import DATA, arguments, batches_of
from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn.modules.module import Module
from hybrid.ops.support.operand_checks import listed
from hybrid.random import default_generator

Metric = Callable[[Module, Any], Any]

WARM = 3  # calls before time is taken
ROUNDS = 50  # at most, and
SECONDS = 1.0  # after which none begins, but
FEWEST = 5


class Pair(NamedTuple):
    """A figure of the model before, and of the one after."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How many times the first the second is."""
        if not self.before:
            return 1.0 if not self.after else math.inf
        return self.after / self.before


# Models and data ---------------------------------------------------------------------------------


def require_module(model: Any, name: str) -> Module:
    """``model``; ArgumentTypeError if it is no module."""
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"{name} is a {type(model).__name__}, and no module", fix="give a model, an nn.Module"
        )
    return model


def require_metric(metric: Any) -> None:
    """ArgumentTypeError for what is no function."""
    if metric is not None and not callable(metric):
        raise ArgumentTypeError(
            f"the metric is a {type(metric).__name__}",
            fix="give a function of the model and the data that returns a number",
        )


def eager_copy(model: Module) -> Module:
    """A copy of ``model`` for evaluation, no part of which is hybridized."""
    twin: Module = copy.deepcopy(model).eval()
    for part in twin.modules():
        part.hybridize(False)
    return twin


def batches(data: Any) -> Any:
    """``data``, which can be gone over again and has a batch; errors say what is to be given."""
    if data is None:
        raise ArgumentTypeError("there are no data", fix=DATA)
    found = batches_of(data)
    for _ in found:
        return found
    raise ArgumentError("the data are empty", fix=DATA)


@contextmanager
def draws_restored() -> Iterator[Callable[[], None]]:
    """A block behind which the default generator is as before; its value restores it at once."""
    state = default_generator().state
    before = state.detach()

    def again() -> None:
        state.assign(before)

    try:
        yield again
    finally:
        again()


# Results -----------------------------------------------------------------------------------------


def results(model: Module, batch: Any) -> list[Tensor]:
    """The floating tensors that ``model`` returns for a batch."""
    args, kwargs = arguments(batch)
    leaves, _ = flatten(model(*args, **kwargs))
    return [x for x in leaves if isinstance(x, Tensor) and x.dtype.is_floating]


class Noise:
    """How far results are from those that they stand for, summed over batches in float64."""

    def __init__(self) -> None:
        self.signal = self.noise = 0.0

    def add(self, wanted: Sequence[Tensor], found: Sequence[Tensor]) -> None:
        """Take the results of a batch into account."""
        if [x.shape for x in wanted] != [x.shape for x in found]:
            before, after = (
                listed([x.type for x in xs]) if xs else "none" for xs in (wanted, found)
            )
            raise ArgumentError(
                f"the models return other results: {before} before and {after} after",
                fix="give two models of the same task",
            )
        for want, have in zip(wanted, found, strict=True):
            x, y = (np.asarray(t.numpy(), np.float64) for t in (want, have))
            self.signal += float((x * x).sum())
            self.noise += float(((x - y) ** 2).sum())

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise, ``10 log10(sum x^2 / sum (x - y)^2)``."""
        if math.isnan(self.signal) or math.isnan(self.noise):
            return math.nan
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf


def score(model: Module, data: Any, metric: Metric | None) -> tuple[str, float] | None:
    """The name of the metric, and what it is of ``model``; None where the data have no labels.

    Unless a metric is given it is "accuracy", of labels that are whole numbers (the largest of the
    results along the axis that the labels lack: the second one, or the last), or "squared error",
    of labels that are shaped as the results.
    """
    with draws_restored(), no_grad():
        if metric is None:
            return _own_score(model, data)
        name = getattr(metric, "__name__", type(metric).__name__)
        found = metric(model, data)
    try:
        return ("metric" if name == "<lambda>" else name.replace("_", " ")), float(found)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"the metric {name} returned a {type(found).__name__}", fix="return one number"
        ) from None


def _own_score(model: Module, data: Any) -> tuple[str, float] | None:
    total, count, name = 0.0, 0, ""
    for batch in data:
        labels = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
        found = results(model, batch) if labels is not None else []
        if not found:
            return None
        labels, result = np.asarray(labels), found[0]
        shape, rank = result.shape, result.ndim
        axes = [a for a in (1, -1) if rank > 1 and labels.shape == _without(shape, a)]
        if labels.dtype.kind in "iu" and axes:
            name = "accuracy"
            each = np.asarray(ops.argmax(result, axis=axes[0])) == labels
        elif labels.dtype.kind == "f" and labels.shape == shape:
            name = "squared error"
            each = (np.asarray(result.numpy(), np.float64) - labels) ** 2
        else:
            return None
        total, count = total + float(each.sum()), count + each.size
    return (name, total / count) if count else None


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    kept = list(shape)
    del kept[axis]
    return tuple(kept)


# Time --------------------------------------------------------------------------------------------


def latencies(models: Sequence[Module], batch: Any) -> list[float]:
    """The median time of a call of each, in seconds: they are called in turns, as plans.

    Those that cannot be captured run eagerly, and warn.
    """
    args, kwargs = arguments(batch)
    twins = [eager_copy(model).hybridize(fallback="eager") for model in models]
    times: list[list[float]] = [[] for _ in twins]
    with draws_restored(), no_grad():
        for twin in twins:
            for _ in range(WARM):
                twin(*args, **kwargs)
        begun = time.perf_counter()
        for done in range(ROUNDS):
            if done >= FEWEST and time.perf_counter() - begun > SECONDS:
                break
            for twin, taken in zip(twins, times, strict=True):
                start = time.perf_counter()
                twin(*args, **kwargs)
                taken.append(time.perf_counter() - start)
    return [median(taken) for taken in times]


# Tables ------------------------------------------------------------------------------------------


def table(rows: Sequence[Sequence[str]], left: int) -> str:
    """``rows``, of which the first are headings, in columns; so many have their texts left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        made = [t.ljust(w) if at < left else t.rjust(w) for at, (t, w) in enumerate(cells)]
        lines.append("  ".join(made).rstrip())
    return "\n".join(lines)
