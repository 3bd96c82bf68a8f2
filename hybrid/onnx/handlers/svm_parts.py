"""Support vector machines of ai.onnx.ml: sums of kernels, votes of pairs, and probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.calls.control_functions import while_loop
from hybrid.core import types
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.onnx.handlers.feature_parts import floats, no_texts, transformed
from hybrid.onnx.node_table import ML, handles

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


class Kernel(Module):
    """A kernel of rows with support vectors: [n, features] to [n, vectors]."""

    def __init__(self, kind: str, parameters: Sequence[float], vectors: np.ndarray) -> None:
        if kind not in _KERNELS:
            raise ValueError(f"kernel_type is {kind!r}")
        self.kind = kind
        self.gamma, self.offset, self.degree = parameters or (0.0, 0.0, 0.0)
        self.register_buffer("vectors", ops.as_tensor(vectors))

    def forward(self, x: Any) -> Any:
        product = ops.matmul(x, ops.matrix_transpose(self.vectors))
        if self.kind == "LINEAR":
            return product
        if self.kind == "POLY":
            return ops.pow(product * self.gamma + self.offset, self.degree)
        if self.kind == "SIGMOID":
            return ops.tanh(product * self.gamma + self.offset)
        away = ops.sum(ops.square(x[:, None] - self.vectors), axis=2)
        return ops.exp(away * -self.gamma)


@handles("SVMRegressor", 1, domain=ML)
class SVMRegressor(Module):
    """SVMRegressor: a sum of kernels; of one class its sign."""

    def __init__(
        self,
        *,
        coefficients: Sequence[float],
        kernel_params: Sequence[float] = (),
        kernel_type: str = "LINEAR",
        n_supports: int = 0,
        one_class: int = 0,
        post_transform: str = "NONE",
        rho: Sequence[float] = (0.0,),
        support_vectors: Sequence[float] = (),
    ) -> None:
        if n_supports:
            vectors = np.array(support_vectors, np.float32).reshape(n_supports, -1)
            self.kernel: Kernel | None = Kernel(kernel_type, kernel_params, vectors)
        else:
            self.kernel = None
        self.one_class, self.transform = bool(one_class), post_transform
        self.coefficients = Parameter(floats(coefficients))
        self.rho = Parameter(floats(rho[:1]))

    def forward(self, x: Any) -> Any:
        x = ops.astype(x, types.float32)
        parts = x if self.kernel is None else self.kernel(x)
        y = ops.matmul(parts, ops.reshape(self.coefficients, (-1, 1))) + self.rho
        if self.one_class:
            return ops.where(y > 0, 1.0, -1.0)
        return transformed(y, self.transform)


@handles("SVMClassifier", 1, domain=ML)
class SVMClassifier(Module):
    """SVMClassifier: labels by votes of pairs of classes, and scores or probabilities."""

    def __init__(
        self,
        *,
        coefficients: Sequence[float],
        classlabels_ints: Sequence[int] = (),
        classlabels_strings: Sequence[str] = (),
        kernel_params: Sequence[float] = (),
        kernel_type: str = "LINEAR",
        post_transform: str = "NONE",
        prob_a: Sequence[float] = (),
        prob_b: Sequence[float] = (),
        rho: Sequence[float] = (0.0,),
        support_vectors: Sequence[float] = (),
        vectors_per_class: Sequence[int] = (),
    ) -> None:
        no_texts("SVMClassifier", classlabels_strings=classlabels_strings)
        self.count = classes = max(1, len(classlabels_ints))
        self.transform, self.kernel = post_transform, None
        self.has_probabilities = bool(prob_a) and bool(vectors_per_class)
        self.positive = min(coefficients) >= 0
        self.register_buffer("labels", floats(classlabels_ints or [0], np.int64))
        self.register_buffer("prob_a", floats(prob_a))
        self.register_buffer("prob_b", floats(prob_b))
        self.rho = Parameter(floats(rho if vectors_per_class else rho[:1]))
        if not vectors_per_class:
            table = np.array(coefficients, np.float32).reshape(classes, -1)
        else:
            vectors = np.array(support_vectors, np.float32).reshape(sum(vectors_per_class), -1)
            self.kernel = Kernel(kernel_type, kernel_params, vectors)
            table = _pair_table(np.array(coefficients, np.float32), vectors_per_class)
        self.coefficients = Parameter(ops.as_tensor(table))

    def forward(self, x: Any, *, outputs: int = 1) -> Any:
        x = ops.astype(x, types.float32)
        parts = x if self.kernel is None else self.kernel(x)
        scores = ops.matmul(parts, ops.matrix_transpose(self.coefficients)) + self.rho
        if self.kernel is None:
            place = ops.argmax(scores, axis=1)
        else:
            place = self._voted(scores)
            if self.has_probabilities:
                scores = self._probabilities(scores)
        if scores.shape[1] == 1:
            scores = ops.concat([ops.negative(scores), scores], axis=1)
        label = ops.take(self.labels, place, axis=0)
        return label if outputs == 1 else (label, transformed(scores, self.transform))

    def _voted(self, scores: Any) -> Any:
        """The class that most pairs are for."""
        if self.count == 2 and self.positive and not self.has_probabilities:
            return ops.ones((scores.shape[0],), dtype=types.int64)
        for_first = ops.astype(scores > 0, types.float32)
        first, second = _pair_members(self.count)
        votes = ops.matmul(for_first, first) + ops.matmul(1 - for_first, second)
        return ops.argmax(votes, axis=1)

    def _probabilities(self, scores: Any) -> Any:
        """Platt's probabilities of pairs, coupled (Wu, Lin and Weng 2004): [n, classes]."""
        one = ops.sigmoid(-(scores * self.prob_a + self.prob_b))
        one = ops.clip(one, 1e-7, 1 - 1e-7)
        return _coupled(one, self.count)


def _pair_table(coefficients: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """What each support vector counts for each pair of classes, [pairs, vectors]."""
    total = sum(sizes)
    given = coefficients.reshape(-1, total)
    ends = np.cumsum(sizes)
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    table = np.zeros((len(pairs), total), np.float32)
    for row, (i, j) in zip(table, pairs, strict=True):
        own = slice(ends[i] - sizes[i], ends[i])
        other = slice(ends[j] - sizes[j], ends[j])
        row[own] = given[j - 1, own]
        row[other] = given[i, other]
    return table


def _pair_members(count: int) -> tuple[Any, Any]:
    """The first and the second class of each pair, one-hot: [pairs, classes] each."""
    pairs = list(itertools.combinations(range(count), 2))
    one_hot = np.eye(count, dtype=np.float32)
    return tuple(ops.as_tensor(one_hot[[pair[at] for pair in pairs]]) for at in (0, 1))


def _coupled(one: Any, count: int) -> Any:
    """Probabilities of classes from those of pairs, [n, pairs], by libsvm's iteration."""
    pairs = list(itertools.combinations(range(count), 2))
    table = np.zeros((len(pairs), count * count), np.float32)  # of P(i against j), to places i, j
    mirror = np.zeros((len(pairs), count * count), np.float32)
    for row, (i, j) in enumerate(pairs):
        table[row, i * count + j] = 1
        mirror[row, j * count + i] = 1
    flat = ops.matmul(one, ops.as_tensor(table)) + ops.matmul(1 - one, ops.as_tensor(mirror))
    r = ops.reshape(flat, (one.shape[0], count, count))
    lost = ops.matrix_transpose(r)  # [t, j]: P(j against t)
    diagonal = ops.sum(ops.square(lost), axis=2)
    q = ops.where(
        ops.as_tensor(np.eye(count, dtype=bool)), diagonal[:, :, None], ops.negative(lost * r)
    )
    start = ops.zeros((one.shape[0], count), dtype=types.float32) + 1.0 / count
    units = [ops.as_tensor(row) for row in np.eye(count, dtype=np.float32)]

    def products(p: Any) -> tuple[Any, Any]:
        qp = ops.sum(q * p[:, None], axis=2)
        return qp, ops.sum(p * qp, axis=1, keepdims=True)

    def going(carried: Any) -> Any:
        step, p = carried
        qp, total = products(p)
        return ops.logical_and(
            step < max(100, count), ops.any(ops.max(ops.abs(qp - total), axis=1) >= 0.005 / count)
        )

    def body(carried: Any) -> Any:
        step, p = carried
        qp, total = products(p)
        settled = ops.max(ops.abs(qp - total), axis=1, keepdims=True) < 0.005 / count
        new = p
        for t in range(count):
            own = diagonal[:, t : t + 1]
            change = (total - qp[:, t : t + 1]) / own
            grown = 1 + change
            total = (total + change * (change * own + 2 * qp[:, t : t + 1])) / (grown * grown)
            qp = (qp + change * q[:, t]) / grown
            new = (new + change * units[t]) / grown
        return step + 1, ops.where(settled, p, new)

    return while_loop(going, body, (ops.zeros((), dtype=types.int64), start))[1]
