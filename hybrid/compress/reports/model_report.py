"""report: a model before and after it was compressed, side by side, and what stayed in floats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.quantization import arguments
from hybrid.compress.quantized_layers import QuantizedLayer
from hybrid.compress.reports.float_parts import FloatPart, layers_left, products_left
from hybrid.compress.reports.measures import (
    Metric,
    Noise,
    Pair,
    batches,
    draws_restored,
    eager_copy,
    latencies,
    require_metric,
    require_module,
    results,
    score,
    table,
)
from hybrid.core.dataclass import dataclass
from hybrid.nn.modules.module import Module
from hybrid.nn.overview import scaled, summary

NO_NUMBERS = ("_scale", "_zero", "_sums", "_mask")  # ends of names of what says how to read weights


@dataclass(frozen=True)
class Report:
    """What ``report`` returns: print it, or read its pairs, ``.before`` and ``.after`` each.

    ``bytes`` are those of the state, ``parameters`` numbers of weights and biases whatever holds
    them, ``flops`` the operations of a call, of integers or floats, ``latency`` the seconds that it
    takes, ``metric`` what ``metric_name`` is (None without labels), ``decibels`` the ratio of the
    results before to how far those after are from them.  ``left`` is what a quantized model
    computes in floats with weights: ``name``, ``kind``, ``reason`` and ``at``, the author's line.
    """

    bytes: Pair
    parameters: Pair
    flops: Pair
    latency: Pair
    metric: Pair | None
    metric_name: str
    decibels: float
    left: tuple[FloatPart, ...] = ()
    note: str = ""  # why something may be missing in ``left``
    quantized: bool = False

    def __str__(self) -> str:
        rows = [
            ("", "before", "after", "ratio"),
            _row("bytes", self.bytes, lambda n: scaled(int(n), "B") or "0 B"),
            _row("parameters", self.parameters, lambda n: f"{n:,.0f}"),
            _row("operations", self.flops, lambda n: scaled(int(n), "") or "0"),
            _row("latency", self.latency, _duration),
        ]
        if self.metric is not None:
            form = "{:.1%}" if self.metric_name == "accuracy" else "{:.4g}"
            before, after = self.metric
            away = (
                f"{100 * (after - before):+.1f} points" if "%" in form else f"{after - before:+.2g}"
            )
            rows.append((self.metric_name, form.format(before), form.format(after), away))
        same = self.decibels == math.inf
        told = "the same" if same else f"signal to noise {decibels_text(self.decibels)}"
        text = f"{table(rows, 1)}\n\nresults: {told}"
        return text + self._left_text() if self.quantized else text

    def _left_text(self) -> str:
        note = f"\n{self.note}" if self.note else ""
        if not self.left:
            return f"\nnothing with weights is left in floats{note}"
        rows = [("left in floats", "what", "why", "where")]
        rows += [(p.name, p.kind, p.reason, str(p.at or "")) for p in self.left]
        return "\n\n" + table(rows, 4) + note

    __repr__ = __str__


def _row(name: str, pair: Pair, form: Any) -> tuple[str, str, str, str]:
    return name, form(pair.before), form(pair.after), f"{pair.ratio:.3g}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def decibels_text(number: float) -> str:
    """``38.2 dB``; of infinity that there is no error."""
    return "no error" if number == math.inf else f"{number:.1f} dB"


def report(
    before: Module, after: Module, data: Iterable[Any], metric: Metric | None = None
) -> Report:
    """A model ``before`` and ``after`` it was compressed, on the same ``data``.

    ``data`` are batches as for ``quantize``: x, or (x, labels).  Both models run in evaluation mode
    on copies: eagerly over all data for the metric and the results, and as plans in turns for the
    latency of a call with the first batch, the median of at least 5 (threads: as they are set).

    ``metric(model, data)`` returns a number; its name is that of the function.  Without one it is
    the accuracy where labels are whole numbers, the squared error where they are shaped as the
    results, and None where there are none.  Operations are counted as ``hybrid.nn.summary`` does.

    ``left`` names every layer of a kind that can be quantized and was not, with the reason, and
    every product with a weight in a bare function call, with the author's file and line; it is
    empty if nothing of ``after`` is quantized.  What is no module, no data or empty data raise.
    """
    require_module(before, "the model before")
    require_module(after, "the model after")
    require_metric(metric)
    data = batches(data)
    first = next(iter(data))
    args, kwargs = arguments(first)
    models = eager_copy(before), eager_copy(after)
    noise = Noise()
    with draws_restored() as again, no_grad():
        for batch in data:
            wanted = results(models[0], batch)
            again()
            noise.add(wanted, results(models[1], batch))
            again()
    scores = [score(model, data, metric) for model in models]
    quantized = any(isinstance(layer, QuantizedLayer) for layer in after.modules())
    left, note = layers_left(after) if quantized else [], ""
    if quantized:
        products, note = products_left(after, args, kwargs)
        left += products
    found = None not in scores
    return Report(
        bytes=Pair(*map(state_bytes, models)),
        parameters=Pair(*map(parameter_count, models)),
        flops=Pair(*[summary(model, *args, **kwargs).flops for model in models]),
        latency=Pair(*latencies(models, first)),
        metric=Pair(*[value for _, value in scores]) if found else None,
        metric_name=scores[0][0] if found else "",
        decibels=noise.decibels,
        left=tuple(left),
        note=note,
        quantized=quantized,
    )


def state_bytes(model: Module) -> int:
    """The bytes of the state; what has several names counts once."""
    tensors = {id(t.content): t for t in model.state_dict().values() if t.nbytes}
    return sum(t.nbytes for t in tensors.values())


def parameter_count(model: Module) -> int:
    """How many weights and biases there are, those in bytes included; shared ones count once."""
    count, seen = 0, set[int]()
    for part in model.modules():
        held = list(part._own("parameters"))
        if isinstance(part, QuantizedLayer):
            held += [pair for pair in part._own("buffers") if not pair[0].endswith(NO_NUMBERS)]
        for name, tensor in held:
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            # Several may lie in one byte: what the bytes stand for has the size.
            count += getattr(part, name[:-2]).size if name.endswith("_q") else tensor.size
    return count
