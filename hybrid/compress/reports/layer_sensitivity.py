"""sensitivity: how much each layer loses when it alone is quantized."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.quantization import QUANTIZED, require_plain, targets_of
from hybrid.compress.quantized_layers import replaced
from hybrid.compress.reports.measures import (
    Metric,
    Noise,
    batches,
    draws_restored,
    eager_copy,
    require_metric,
    results,
    score,
    table,
)
from hybrid.compress.reports.model_report import decibels_text
from hybrid.compress.scheme import Scheme
from hybrid.core.dataclass import dataclass
from hybrid.errors import ArgumentError
from hybrid.nn.modules.module import Module


class LayerRow(NamedTuple):
    """A layer by its name and kind, and the model in which it alone is quantized.

    ``decibels``: the ratio of the results of the float model to the error (SQNR).  ``metric`` is
    None without labels.
    """

    layer: str
    kind: str
    decibels: float
    metric: float | None


@dataclass(frozen=True)
class Sensitivity:
    """What ``sensitivity`` returns: ``rows``, the worst first; iterate over it, or print it."""

    rows: tuple[LayerRow, ...]
    metric_name: str
    metric: float | None  # of the model of floats

    def __iter__(self) -> Iterator[LayerRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> LayerRow:
        return self.rows[at]

    def __str__(self) -> str:
        shown = self.metric is not None
        form = "{:.1%}" if self.metric_name == "accuracy" else "{:.4g}"

        def cells(name: str, kind: str, decibels: str, metric: float | None) -> list[str]:
            return [name, kind, decibels, *([form.format(metric)] if shown else [])]

        heading = ["layer", "kind", "SQNR", *([self.metric_name] if shown else [])]
        rows = [
            cells(row.layer, row.kind, decibels_text(row.decibels), row.metric) for row in self.rows
        ]
        last = [cells("(none)", "", "", self.metric)] if shown else []
        return table([heading, *rows, *last], 2)

    __repr__ = __str__


def sensitivity(
    model: Module, data: Iterable[Any], metric: Metric | None = None, *, bits: int = 8
) -> Sensitivity:
    """How much the results of ``model`` lose when one layer at a time is quantized, worst first.

    Each layer that ``quantize`` would change has its weights rounded to ``bits`` bits and its
    activations to int8, with a scale a row (the dynamic method), in a copy of the model that is
    otherwise of floats.  A row has ``layer``, ``kind``, ``decibels`` (10 log10 of the sum of the
    squared results over that of the squared errors, over all batches), and ``metric``, as
    ``report`` has it.  Layers that come first are those to ``skip``.

    Raises ArgumentError for bits outside 2 to 8, empty data, a model that is quantized already or
    has no such layer.
    """
    require_plain(model)
    require_metric(metric)
    scheme = Scheme.checked("dynamic", bits, None, "symmetric", True)
    data = batches(data)
    network = eager_copy(model)
    targets = targets_of(network, lambda name: False)
    if not targets:
        raise ArgumentError(
            f"no layer of this {type(model).__name__} can be quantized",
            fix="see quantization.QUANTIZED for the kinds that can",
        )
    made = {name: QUANTIZED[type(layer)](layer, scheme).eval() for name, layer in targets}
    noises = {name: Noise() for name in made}
    with draws_restored() as again, no_grad():
        for batch in data:
            wanted = results(network, batch)
            for name, layer in targets:
                again()
                with _in_place_of(network, layer, made[name]) as changed:
                    noises[name].add(wanted, results(changed, batch))
            again()
    own = score(network, data, metric)
    rows = []
    for name, layer in targets:
        found = None
        if own is not None:
            with _in_place_of(network, layer, made[name]) as changed:
                found = score(changed, data, metric)
        value = None if found is None else found[1]
        rows.append(LayerRow(name or "(model)", type(layer).__name__, noises[name].decibels, value))
    rows.sort(key=lambda row: (row.decibels == row.decibels, row.decibels))  # NaN is the worst
    return Sensitivity(tuple(rows), "" if own is None else own[0], None if own is None else own[1])


@contextmanager
def _in_place_of(network: Module, layer: Module, made: Module) -> Iterator[Module]:
    """A block in which ``network`` has ``made`` in place of ``layer``; its value is the network."""
    changed = replaced(network, {id(layer): made})
    try:
        yield changed
    finally:
        replaced(changed, {id(made): layer})
