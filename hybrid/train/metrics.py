"""Metrics: what is counted of outputs and targets, batch by batch, within the plan.

Counts are cells, so a sunk epoch updates them without Python; ``compute`` reads them at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hybrid import ops
from hybrid.core.tree import flatten
from hybrid.core.types import DType, float64, int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.nn.functional import l1_loss, mse_loss

AVERAGES = ("macro", "micro", "weighted")


class Metric:
    """A number told of many batches.

    A subclass makes its cells with ``add_state``, adds to them in ``update(output, target)`` with
    tensor ops alone, and gives the number in ``compute()``, a tensor of no axes.
    """

    higher_is_better = True
    _states: tuple[str, ...] = ()

    def add_state(self, name: str, *shape: int, dtype: DType = int64) -> None:
        """Let the attribute ``name`` be a cell of zeros, which ``reset`` makes them again."""
        self._states += (name,)
        setattr(self, name, ops.zeros(shape, dtype=dtype))

    def reset(self) -> None:
        """Forget all batches."""
        for cell in self.state_dict().values():
            cell.assign(ops.zeros_like(cell))

    def update(self, output: Any, target: Any) -> None:
        """Count a batch: what the network gave, and what it should give."""
        raise NotImplementedError(f"{type(self).__name__} does not define update()")

    def compute(self) -> Tensor:
        """The number of the batches so far; nan where there was none."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute()")

    def state_dict(self) -> dict[str, Tensor]:
        """The cells by name."""
        return {name: getattr(self, name) for name in self._states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Count on from what ``state_dict()`` of a like metric held."""
        own = self.state_dict()
        if set(state) != set(own):
            raise ArgumentError(
                f"a state for {type(self).__name__} holds {', '.join(state) or 'nothing'}",
                why=f"It consists of {', '.join(own)}.",
            )
        for name, cell in own.items():
            cell.assign(state[name])


class Average(Metric):
    """The mean over samples of numbers that are means over batches."""

    higher_is_better = False

    def __init__(self) -> None:
        self.add_state("total", dtype=float64)
        self.add_state("samples")

    def add(self, value: Tensor, samples: int) -> None:
        """Count ``value`` as the mean of ``samples``."""
        if value.ndim:
            raise ShapeError(
                f"Mean got values of shape {value.shape} for a batch",
                fix='let the function give one number, such as a loss with reduction="mean"',
            )
        self.total.assign(self.total + value.detach().astype(float64) * samples)
        self.samples.assign(self.samples + samples)

    def compute(self) -> Tensor:
        return self.total / self.samples.astype(float64)


class Mean(Average):
    """``function(output, target)``, the mean over a batch: its mean over all samples.

    Batches count by their samples, the rows of the target.  ``Mean(hy.nn.functional.l1_loss)`` is
    the mean absolute error.
    """

    def __init__(self, function: Callable[[Any, Any], Tensor]) -> None:
        if not callable(function):
            raise ArgumentTypeError(f"Mean of {function!r}", fix="give a function of two tensors")
        super().__init__()
        self.function = function

    def update(self, output: Any, target: Any) -> None:
        self.add(self.function(output, target), rows(target))


class _OfClasses(Metric):
    """What compares classes; ``Accuracy`` says how."""

    def __init__(self, *, axis: int = 1, threshold: float = 0.0, ignore: int | None = None) -> None:
        self.axis, self.threshold, self.ignore = axis, threshold, ignore

    def _decided(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The classes said and the right ones, of one shape."""
        one = output.ndim == target.ndim + 1 and output.shape[self.axis :][:1] == (1,)
        scores = ops.squeeze(output, axis=self.axis) if one else output
        if scores.shape == target.shape:
            return (scores > self.threshold).astype(int64), target.astype(int64)
        self._require_classes(scores, target)
        return ops.argmax(scores, axis=self.axis), target

    def _require_classes(self, output: Tensor, target: Tensor) -> None:
        axis = self.axis + output.ndim if self.axis < 0 else self.axis
        if axis >= output.ndim or output.shape[:axis] + output.shape[axis + 1 :] != target.shape:
            raise ShapeError(
                f"{type(self).__name__} got outputs {output.type} and targets {target.type}",
                why=f"Scores of classes lie along axis {self.axis}, which targets are without.",
                fix="say which axis it is (axis=), and give the numbers of the classes as targets",
            )

    def _counts(self, target: Tensor) -> Tensor | None:
        """Which targets count, as 0 and 1; None: all."""
        return None if self.ignore is None else (target != self.ignore).astype(int64)


class _Share(_OfClasses):
    """How many targets were right, of those that count."""

    def __init__(self, *, axis: int = 1, threshold: float = 0.0, ignore: int | None = None) -> None:
        super().__init__(axis=axis, threshold=threshold, ignore=ignore)
        self.add_state("right")
        self.add_state("targets")

    def _add(self, right: Tensor, target: Tensor) -> None:
        counts, right = self._counts(target), right.astype(int64)
        kept = right if counts is None else right * counts
        self.right.assign(self.right + ops.sum(kept))
        self.targets.assign(self.targets + (target.size if counts is None else ops.sum(counts)))

    def compute(self) -> Tensor:
        return self.right.astype(float64) / self.targets.astype(float64)


class Accuracy(_Share):
    """The share of targets whose class has the highest score.

    The output holds scores of classes along ``axis``, and the target the numbers of the right ones,
    without that axis: [batch, classes, ...] and [batch, ...].  Where the shapes agree, or the axis
    has one element, each score is a yes above ``threshold`` (0 for logits, 0.5 for probabilities),
    and targets are 0 or 1.  Targets that are ``ignore`` do not count.
    """

    def update(self, output: Tensor, target: Tensor) -> None:
        said, wanted = self._decided(output, target)
        self._add(said == wanted, wanted)


class TopKAccuracy(_Share):
    """The share of targets whose class is among the ``k`` with the highest scores.

    Of equal scores those of the first classes are higher.  The rest is as for ``Accuracy``.
    """

    def __init__(self, k: int = 5, *, axis: int = 1, ignore: int | None = None) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ArgumentError(f"TopKAccuracy got k={k!r}", fix="give an int >= 1")
        super().__init__(axis=axis, ignore=ignore)
        self.k = k

    def update(self, output: Tensor, target: Tensor) -> None:
        self._require_classes(output, target)
        if self.k > output.shape[self.axis]:
            raise ArgumentError(
                f"TopKAccuracy({self.k}) of outputs {output.type}: there are "
                f"{output.shape[self.axis]} classes",
            )
        found = ops.topk(output, self.k, axis=self.axis)[1]
        self._add(ops.any(found == ops.expand_dims(target, axis=self.axis), axis=self.axis), target)


class _PerClass(_OfClasses):
    """Of each class: how often it was said rightly, said, and right.

    ``num_classes`` None is for two classes, of which class 1 counts.  Others are averaged: "macro"
    takes the classes as equal, "weighted" as their targets are many, "micro" adds up their counts.
    A class that is neither said nor right has the value 0, as where a fraction has no denominator.
    The rest is as for ``Accuracy``.
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        average: str = "macro",
        axis: int = 1,
        threshold: float = 0.0,
        ignore: int | None = None,
    ) -> None:
        name = type(self).__name__
        super().__init__(axis=axis, threshold=threshold, ignore=ignore)
        if num_classes is not None and (type(num_classes) is not int or num_classes < 2):
            raise ArgumentError(f"{name} got num_classes={num_classes!r}", fix="give an int >= 2")
        if average not in AVERAGES:
            raise ArgumentError(
                f"{name} got average={average!r}", fix=f"give one of {', '.join(AVERAGES)}"
            )
        self.num_classes, self.average = num_classes, average
        for state in ("right", "said", "wanted"):
            self.add_state(state, num_classes or 2)

    def update(self, output: Tensor, target: Tensor) -> None:
        classes = self.num_classes or 2
        if output.ndim > target.ndim and output.shape[self.axis] not in (1, classes):
            raise ShapeError(
                f"{type(self).__name__} of {classes} classes got outputs {output.type}",
                fix=f"give num_classes={output.shape[self.axis]}",
            )
        said, wanted = (ops.flatten(x) for x in self._decided(output, target))
        counts = self._counts(wanted)
        ones = ops.ones_like(wanted) if counts is None else counts
        if self.ignore is not None:  # it need not be the number of a class
            wanted = ops.where(ones > 0, wanted, said)
        right = ones * (said == wanted).astype(int64)
        for cell, index, number in (
            (self.right, wanted, right),
            (self.said, said, ones),
            (self.wanted, wanted, ones),
        ):
            cell.assign(ops.index_add(cell, index, number))

    def compute(self) -> Tensor:
        counts = [cell.astype(float64) for cell in (self.right, self.said, self.wanted)]
        if self.num_classes is None:
            counts = [count[1] for count in counts]
        elif self.average == "micro":
            counts = [ops.sum(count) for count in counts]
        share = self._share(*counts)
        if not share.ndim:
            return share
        if self.average == "macro":
            return ops.mean(share)
        return ops.sum(share * counts[2]) / ops.sum(counts[2])

    def _share(self, right: Tensor, said: Tensor, wanted: Tensor) -> Tensor:
        raise NotImplementedError


class Precision(_PerClass):
    """The share of what was said to be of a class that is; of classes as ``F1``."""

    def _share(self, right: Tensor, said: Tensor, wanted: Tensor) -> Tensor:
        return _ratio(right, said)


class Recall(_PerClass):
    """The share of what is of a class that was said to be; of classes as ``F1``."""

    def _share(self, right: Tensor, said: Tensor, wanted: Tensor) -> Tensor:
        return _ratio(right, wanted)


class F1(_PerClass):
    """The harmonic mean of precision and recall, ``2 right / (said + wanted)``.

    ``F1()`` is that of class 1 of two.  ``F1(num_classes)`` is the mean over classes:
    ``average="macro"`` takes them as equal, "weighted" by their targets, "micro" adds up their
    counts first.  A class that was neither said nor right has 0.  Else it is as ``Accuracy``.
    """

    def _share(self, right: Tensor, said: Tensor, wanted: Tensor) -> Tensor:
        return _ratio(2 * right, said + wanted)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    return above / ops.maximum(below, 1.0)


def rows(tree: Any) -> int:
    """The samples of a batch: the first axis of the first tensor with axes; 1 if there is none."""
    found = [leaf for leaf in flatten(tree)[0] if isinstance(leaf, Tensor) and leaf.ndim]
    return found[0].shape[0] if found else 1


NAMED: dict[str, Callable[[], Metric]] = {
    "accuracy": Accuracy,
    "top5": TopKAccuracy,
    "precision": Precision,
    "recall": Recall,
    "f1": F1,
    "mse": lambda: Mean(mse_loss),
    "mae": lambda: Mean(l1_loss),
}


def named(metrics: Any) -> dict[str, Metric]:
    """Metrics by name, of what users give: names, metrics, functions, and dicts of these."""
    if metrics is None:
        return {}
    if isinstance(metrics, (str, Metric)) or not isinstance(metrics, Iterable):
        metrics = [metrics]
    if isinstance(metrics, Mapping):
        return {str(name): _metric(given) for name, given in metrics.items()}
    found = {_name(given): _metric(given) for given in metrics}
    return dict(sorted(found.items())) if isinstance(metrics, (set, frozenset)) else found


def _name(given: Any) -> str:
    if isinstance(given, str):
        return given
    return getattr(given, "__name__", type(given).__name__).lower()


def _metric(given: Any) -> Metric:
    if isinstance(given, Metric):
        return given
    if isinstance(given, str):
        if given.lower() not in NAMED:
            raise ArgumentError(
                f"there is no metric {given!r}",
                fix=f"give one of {', '.join(NAMED)}, a Metric, or a function of output and target",
            )
        return NAMED[given.lower()]()
    if isinstance(given, type) and issubclass(given, Metric):
        return given()
    if callable(given):
        return Mean(given)
    raise ArgumentTypeError(
        f"{given!r} is no metric",
        fix=f"give one of {', '.join(NAMED)}, a Metric, or a function of output and target",
    )
