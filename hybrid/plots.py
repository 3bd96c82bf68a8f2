"""Pictures of training: histories of losses and metrics, confusion matrices (extra ``plot``).

Figures are matplotlib's and nobody else's: nothing has to be closed, and no window opens.  Save
one with ``figure.savefig("loss.png")``; a notebook shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.core.imports import optional
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError

COLUMNS = 3  # panels in a row
LEGIBLE = 20  # classes up to which each cell of a matrix says its number
_STAGES = ("train_", "val_", "valid_", "validation_", "test_")  # share a panel with the plain name
_LINES = {"": "-", "train_": "-", "test_": ":"}  # others are dashed
_HISTORY = 'give {"loss": [1.2, 0.7], "val_loss": [1.3, 0.9]} or [{"loss": 1.2}, {"loss": 0.7}]'


def plot_history(history: Any, *, title: str = "") -> Any:
    """A figure of what became of losses and metrics, epoch by epoch.

    ``history`` is a dict of sequences with a number for each epoch, or a list with a dict of
    numbers for each epoch; numbers may be tensors, and nan is passed over.  ``loss``,
    ``train_loss``, ``val_loss`` and ``test_loss`` share a panel, and so do others that differ in
    that alone.

    Needs the package ``matplotlib`` (extra ``plot``).
    """
    figure_of = optional("matplotlib.figure", "plot", "hybrid.plots.plot_history").Figure
    ticks = optional("matplotlib.ticker", "plot", "hybrid.plots.plot_history").MaxNLocator
    panels: dict[str, list[tuple[str, str, np.ndarray]]] = {}
    for name, values in _columns(history).items():
        stage = next((s for s in _STAGES if name.startswith(s) and name != s), "")
        panels.setdefault(name[len(stage) :], []).append((name, stage, values))
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = figure_of(figsize=(4.8 * columns, 3.4 * rows), layout="constrained")
    if title:
        figure.suptitle(title)
    for place, (quantity, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, columns, place)
        for name, stage, values in lines:
            (at,) = np.nonzero(~np.isnan(values))
            mark = "o" if at.size == 1 else None  # a line of one point is not seen
            axes.plot(at + 1, values[at], _LINES.get(stage, "--"), label=name, marker=mark)
        axes.set(xlabel="epoch", ylabel=quantity)
        axes.xaxis.set_major_locator(ticks(integer=True))
        axes.grid(alpha=0.3)
        if len(lines) > 1:
            axes.legend()
    return figure


def _columns(history: Any) -> dict[str, np.ndarray]:
    """The numbers by name, whichever way ``history`` is given."""
    if isinstance(history, Mapping):
        found = {name: _numbers(name, values) for name, values in history.items()}
    elif isinstance(history, Sequence) and all(isinstance(row, Mapping) for row in history):
        names = dict.fromkeys(name for row in history for name in row)
        found = {n: _numbers(n, [row.get(n, math.nan) for row in history]) for n in names}
    else:
        raise ArgumentTypeError(f"a history cannot be a {type(history).__name__}", fix=_HISTORY)
    for name in found:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"the history has the name {name!r}", fix=_HISTORY)
    if not any(values.size for values in found.values()):
        raise ArgumentError("the history is empty", fix=_HISTORY)
    return found


def _numbers(name: Any, values: Any) -> np.ndarray:
    try:
        if not isinstance(values, (Tensor, np.ndarray)):
            values = [v.item() if hasattr(v, "item") else v for v in values]
        if isinstance(values, Tensor):
            values = values.detach().numpy()
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    if found.ndim != 1:
        raise ArgumentTypeError(
            f"{name!r} of the history is not a sequence of numbers", fix=_HISTORY
        )
    return found


def confusion_matrix(
    targets: Any, predictions: Any, classes: int | Sequence[str] | None = None
) -> Tensor:
    """How often class i (row) was taken for class j (column): int64 [classes, classes].

    ``targets`` are class numbers [N], and so are ``predictions``, or scores [N, classes] of which
    the greatest counts.  ``classes`` is their number or their names; without it, there are as many
    as there are scores, or as the greatest class number tells.
    """
    true, found = _array("targets", targets), _array("predictions", predictions)
    scores = found.shape[1] if found.ndim == 2 else 0
    if scores:
        found = found.argmax(1)
    if true.ndim != 1 or found.shape != true.shape:
        raise ShapeError(
            f"confusion_matrix cannot take targets {list(np.shape(targets))} and predictions "
            f"{list(np.shape(predictions))}",
            why="It takes class numbers [N] and as many, or scores [N, classes].",
            fix="change a shape",
        )
    for label, numbers in (("targets", true), ("predictions", found)):
        if numbers.dtype.kind not in "iub":
            raise ArgumentTypeError(
                f"{label} of confusion_matrix are {numbers.dtype}",
                why="Class numbers are ints.",
                fix="convert them with astype, or give scores [N, classes]",
            )
    true, found = true.astype(np.int64), found.astype(np.int64)
    count = _count(classes, scores or int(max(true.max(initial=-1), found.max(initial=-1))) + 1)
    for label, numbers in (("targets", true), ("predictions", found)):
        outside = numbers[(numbers < 0) | (numbers >= count)]
        if outside.size:
            raise ArgumentError(
                f"{label} of confusion_matrix have the class {outside[0]}",
                why=f"There are {count} classes, from 0 on.",
                fix="leave such samples out, or give classes",
            )
    pairs = true * count + found
    return asarray(np.bincount(pairs, minlength=count * count).reshape(count, count))


def _array(label: str, given: Any) -> np.ndarray:
    tensor = given if isinstance(given, Tensor) else asarray(given)
    return tensor.detach()._wide().numpy()


def _count(classes: Any, found: int) -> int:
    if classes is None:
        return found
    if isinstance(classes, int) and not isinstance(classes, bool) and classes > 0:
        return classes
    if isinstance(classes, Sequence) and not isinstance(classes, str) and len(classes):
        return len(classes)
    raise ArgumentTypeError(f"classes are {classes!r}", fix="give their number, or their names")


def plot_confusion_matrix(
    targets: Any,
    predictions: Any,
    classes: int | Sequence[str] | None = None,
    *,
    normalize: bool = False,
    title: str = "",
) -> Any:
    """A figure of ``confusion_matrix``; with ``normalize``, of the share of each row.

    Up to 20 classes, every cell says its number.  Needs the package ``matplotlib`` (extra
    ``plot``).
    """
    asked = "hybrid.plots.plot_confusion_matrix"
    figure_of = optional("matplotlib.figure", "plot", asked).Figure
    counts = confusion_matrix(targets, predictions, classes).numpy()
    if not counts.size:
        raise ArgumentError(
            "there are no classes to draw", fix="give targets and predictions, or classes"
        )
    sums = counts.sum(1, keepdims=True)
    shares = np.divide(counts, sums, out=np.zeros(counts.shape), where=sums > 0)
    shown = shares if normalize else counts
    names = [str(n) for n in (range(len(counts)) if classes is None or isinstance(classes, int)
                              else classes)]  # fmt: skip
    side = min(3.5 + 0.42 * len(names), 12)
    figure = figure_of(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)  # a rare class is as dark as others
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    step = math.ceil(len(names) / LEGIBLE)
    ticks = range(0, len(names), step)
    long = max(map(len, names)) > 3
    axes.set_xticks(
        ticks, names[::step], rotation=45 if long else 0, ha="right" if long else "center"
    )
    axes.set_yticks(ticks, names[::step])
    if len(names) <= LEGIBLE:
        for (row, column), value in np.ndenumerate(shown):
            text = f"{value:.2f}" if normalize else str(value)
            colour = "white" if shares[row, column] > 0.55 else "black"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    return figure
