"""Features of ai.onnx.ml: scaled, encoded, chosen and put together.

An op whose attributes hold what was learnt is a module, made once of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.onnx.node_table import ML, handles


def floats(values: Any, dtype: Any = np.float32) -> Any:
    """A tensor of an attribute's numbers."""
    return ops.as_tensor(np.array(values, dtype))


def as_float(x: Any) -> Any:
    """``x`` in float32, unless it is float64."""
    return x if x.dtype in (types.float32, types.float64) else ops.astype(x, types.float32)


def no_texts(op: str, **attributes: Any) -> None:
    """Raise if any of the attributes, lists of texts, is given."""
    for name, value in attributes.items():
        if value:
            raise OnnxError(
                f"{op} has {name}",
                why="Tensors hold no texts.",
                fix="export the model with integer labels",
            )


@handles("ArrayFeatureExtractor", 1, domain=ML)
def array_feature_extractor(x, indices):
    """ArrayFeatureExtractor: columns of the last axis."""
    found = ops.take(x, ops.astype(ops.reshape(indices, (-1,)), types.int64), axis=x.ndim - 1)
    return ops.reshape(found, (1, -1)) if x.ndim == 1 else found


@handles("Binarizer", 1, domain=ML)
def binarizer(x, *, threshold=0.0):
    """Binarizer: 1 above the threshold, else 0."""
    return ops.astype(ops.greater(x, threshold), x.dtype)


@handles("FeatureVectorizer", 1, domain=ML)
def feature_vectorizer(*parts, inputdimensions=None):
    """FeatureVectorizer: all inputs side by side, in float32."""
    rows = [part if part.ndim > 1 else ops.reshape(part, (1, -1)) for part in parts]
    given = inputdimensions or [row.shape[1] for row in rows]
    if len(given) != len(rows):
        raise OnnxError(f"FeatureVectorizer has {len(rows)} inputs of {len(given)} sizes")
    cut = [as_float(row)[:, :size] for row, size in zip(rows, given, strict=True)]
    return ops.concat(cut, axis=1)


@handles("Normalizer", 1, domain=ML)
def normalizer(x, *, norm="MAX"):
    """Normalizer: each row over its norm."""
    x = as_float(x)
    size = ops.abs(x)
    if norm == "MAX":
        total = ops.max(size, axis=-1, keepdims=True)
    elif norm == "L1":
        total = ops.sum(size, axis=-1, keepdims=True)
    elif norm == "L2":
        total = ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))
    else:
        raise OnnxError(f"Normalizer got norm {norm!r}", why="It is MAX, L1 or L2.")
    return ops.divide(x, ops.maximum(total, 1e-30))


@handles("Scaler", 1, domain=ML)
class Scaler(Module):
    """Scaler: ``(x - offset) * scale``, in float32."""

    def __init__(
        self, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)
    ) -> None:
        self.register_buffer("offset", floats(offset))
        self.register_buffer("scale", floats(scale))

    def forward(self, x: Any) -> Any:
        return ops.multiply(ops.subtract(ops.astype(x, types.float32), self.offset), self.scale)


@handles("Imputer", 1, domain=ML)
class Imputer(Module):
    """Imputer: other numbers where one is missing, NaN say."""

    def __init__(
        self,
        *,
        imputed_value_floats: Sequence[float] = (),
        imputed_value_int64s: Sequence[int] = (),
        replaced_value_float: float = 0.0,
        replaced_value_int64: int = 0,
    ) -> None:
        if bool(imputed_value_floats) == bool(imputed_value_int64s):
            raise ValueError("imputed_value_floats or imputed_value_int64s, one of the two")
        self.missing = replaced_value_float if imputed_value_floats else replaced_value_int64
        dtype = np.float32 if imputed_value_floats else np.int64
        self.register_buffer("imputed", floats(imputed_value_floats or imputed_value_int64s, dtype))

    def forward(self, x: Any) -> Any:
        gone = ops.isnan(x) if self.missing != self.missing else ops.equal(x, self.missing)
        return ops.where(gone, ops.astype(self.imputed, x.dtype), x)


@handles("OneHotEncoder", 1, domain=ML)
class OneHotEncoder(Module):
    """OneHotEncoder: an axis of categories, 1 at the one that x is."""

    def __init__(
        self,
        *,
        cats_int64s: Sequence[int] = (),
        cats_strings: Sequence[str] = (),
        zeros: int = 1,
    ) -> None:
        no_texts("OneHotEncoder", cats_strings=cats_strings)
        self.zeros = zeros
        self.register_buffer("categories", floats(cats_int64s, np.int64))

    def forward(self, x: Any) -> Any:
        hot = ops.equal(ops.expand_dims(ops.astype(x, types.int64), axis=-1), self.categories)
        return ops.astype(hot, types.float32)


@handles("LabelEncoder", 2, 4, domain=ML)
class LabelEncoder(Module):
    """LabelEncoder: for each key its value, else the default; of numbers alone."""

    def __init__(
        self,
        *,
        default_float: float = -0.0,
        default_int64: int = -1,
        default_string: str = "",
        default_tensor: Any = None,
        keys_floats: Sequence[float] = (),
        keys_int64s: Sequence[int] = (),
        keys_strings: Sequence[str] = (),
        keys_tensor: Any = None,
        values_floats: Sequence[float] = (),
        values_int64s: Sequence[int] = (),
        values_strings: Sequence[str] = (),
        values_tensor: Any = None,
    ) -> None:
        no_texts("LabelEncoder", keys_strings=keys_strings, values_strings=values_strings)
        keys = _first(keys_tensor, keys_floats, keys_int64s)
        values = _first(values_tensor, values_floats, values_int64s)
        if keys.shape != values.shape or keys.ndim != 1:
            raise ValueError(f"{keys.size} keys and {values.size} values")
        if default_tensor is not None:
            default = default_tensor.reshape(-1)[0]
        else:
            default = default_float if values.dtype.kind == "f" else default_int64
        order = np.argsort(keys, kind="stable")
        self.register_buffer("known", ops.as_tensor(keys[order]))
        found = np.append(values[order], np.array([default], values.dtype))
        self.register_buffer("found", ops.as_tensor(found))

    def forward(self, x: Any) -> Any:
        count = self.known.shape[0]
        keys = ops.astype(self.known, x.dtype)
        matches = ops.equal(ops.expand_dims(x, axis=-1), keys)
        if x.dtype.is_floating:  # NaN is a key, too
            both = ops.logical_and(ops.isnan(ops.expand_dims(x, axis=-1)), ops.isnan(keys))
            matches = ops.logical_or(matches, both)
        place = ops.argmax(ops.astype(matches, types.int32), axis=-1)
        place = ops.where(ops.any(matches, axis=-1), place, count)
        return ops.take(self.found, place, axis=0)


def _first(tensor: Any, *lists: Any) -> np.ndarray:
    if tensor is not None:
        return np.asarray(tensor)
    for values, dtype in zip(lists, (np.float32, np.int64), strict=True):
        if values:
            return np.array(values, dtype)
    raise ValueError("keys or values are missing")


@handles("LinearRegressor", 1, domain=ML)
class LinearRegressor(Module):
    """LinearRegressor: ``x @ coefficients.T + intercepts``; both are trained."""

    def __init__(
        self,
        *,
        coefficients: Sequence[float],
        intercepts: Sequence[float] = (),
        post_transform: str = "NONE",
        targets: int = 1,
    ) -> None:
        table = np.array(coefficients, np.float32).reshape(targets, -1)
        self.transform = post_transform
        self.coefficients = Parameter(ops.as_tensor(table))
        self.intercepts = Parameter(floats(intercepts or [0.0] * targets))

    def forward(self, x: Any) -> Any:
        y = ops.linear(ops.astype(x, types.float32), self.coefficients, self.intercepts)
        return transformed(y, self.transform)


@handles("LinearClassifier", 1, domain=ML)
class LinearClassifier(Module):
    """LinearClassifier: labels, and scores that are linear in x; coefficients are trained."""

    def __init__(
        self,
        *,
        coefficients: Sequence[float],
        intercepts: Sequence[float] = (),
        classlabels_ints: Sequence[int] = (),
        classlabels_strings: Sequence[str] = (),
        multi_class: int = 0,
        post_transform: str = "NONE",
    ) -> None:
        no_texts("LinearClassifier", classlabels_strings=classlabels_strings)
        rows = len(intercepts) or max(1, len(classlabels_ints))
        table = np.array(coefficients, np.float32).reshape(rows, -1)
        self.transform = post_transform
        self.coefficients = Parameter(ops.as_tensor(table))
        self.intercepts = Parameter(floats(intercepts or [0.0] * rows))
        self.register_buffer("labels", floats(classlabels_ints or range(max(2, rows)), np.int64))

    def forward(self, x: Any, *, outputs: int = 1) -> Any:
        scores = ops.linear(ops.astype(x, types.float32), self.coefficients, self.intercepts)
        if scores.shape[1] == 1:
            if self.labels.shape[0] == 2:
                scores = ops.concat([ops.negative(scores), scores], axis=1)
            else:
                threshold = 0.0 if self.transform == "NONE" else 0.5
                scores = transformed(scores, self.transform)
                first = ops.greater_equal(scores[:, 0], threshold)
                label = ops.where(first, self.labels[0], 0)
                return label if outputs == 1 else (label, scores)
        scores = transformed(scores, self.transform)
        label = ops.take(self.labels, ops.argmax(scores, axis=1), axis=0)
        return label if outputs == 1 else (label, scores)


def transformed(scores: Any, transform: str) -> Any:
    """Scores [n, classes] as a ``post_transform`` has them."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return ops.sigmoid(scores)
    if transform == "SOFTMAX":
        return ops.softmax(scores, -1)
    if transform == "SOFTMAX_ZERO":  # what is 0 takes the share that it has before
        zero = ops.less_equal(ops.abs(scores), 1e-7)
        top = ops.max(scores, axis=-1, keepdims=True)
        parts = ops.where(zero, scores * ops.exp(-top), ops.exp(scores - top))
        total = ops.sum(parts, axis=-1, keepdims=True)
        return ops.where(
            ops.equal(total, 0), 0.5, parts / ops.where(ops.equal(total, 0), 1.0, total)
        )
    if transform == "PROBIT":
        return 1.41421356 * _inverse_erf(scores * 2 - 1)
    raise OnnxError(
        f"post_transform is {transform!r}",
        why="It is NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT.",
    )


def _inverse_erf(x: Any) -> Any:
    """About the inverse of erf (Winitzki 2008), as ONNX defines PROBIT by it."""
    log = ops.log((1 - x) * (1 + x))
    v = 2.0 / (np.pi * 0.147) + 0.5 * log
    return ops.sign(x) * ops.sqrt(ops.sqrt(v * v - log / 0.147) - v)


@handles("TfIdfVectorizer", 9)
class TfIdfVectorizer(Module):
    """TfIdfVectorizer: how often each n-gram of integers is in a row, weighted."""

    def __init__(
        self,
        *,
        max_gram_length: int,
        max_skip_count: int,
        min_gram_length: int,
        mode: str,
        ngram_counts: Sequence[int],
        ngram_indexes: Sequence[int],
        pool_int64s: Sequence[int] = (),
        pool_strings: Sequence[str] = (),
        weights: Sequence[float] = (),
    ) -> None:
        no_texts("TfIdfVectorizer", pool_strings=pool_strings)
        if mode not in ("TF", "IDF", "TFIDF"):
            raise ValueError(f"mode is {mode!r}")
        self.mode, self.skips = mode, max_skip_count + 1
        self.width = max(ngram_indexes) + 1
        self.lengths: tuple[int, ...] = ()
        ends = [*ngram_counts[1:], len(pool_int64s)]
        first = 0  # the n-gram that the next length begins with
        for length, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
            grams = np.array(pool_int64s[start:end], np.int64).reshape(-1, length)
            if len(grams) and min_gram_length <= length <= max_gram_length:
                table = np.zeros((len(grams), self.width), np.float32)
                columns = ngram_indexes[first : first + len(grams)]
                table[np.arange(len(grams)), columns] = 1
                self.lengths = (*self.lengths, length)
                self.register_buffer(f"grams{length}", ops.as_tensor(grams))
                self.register_buffer(f"columns{length}", ops.as_tensor(table))
            first += len(grams)
        given = np.ones(self.width, np.float32)
        if weights:
            given[: len(weights)] = weights
        self.register_buffer("weights", ops.as_tensor(given))

    def forward(self, x: Any) -> Any:
        rows = ops.astype(x if x.ndim > 1 else ops.reshape(x, (1, -1)), types.int64)
        total = ops.zeros((rows.shape[0], self.width), dtype=types.float32)
        for length in self.lengths:
            grams, columns = getattr(self, f"grams{length}"), getattr(self, f"columns{length}")
            for distance in range(1, self.skips + 1 if length > 1 else 2):
                count = rows.shape[1] - distance * (length - 1)
                if count <= 0:
                    continue
                found = None
                for at in range(length):
                    items = rows[:, at * distance : at * distance + count]
                    one = ops.equal(items[:, :, None], grams[:, at])
                    found = one if found is None else ops.logical_and(found, one)
                number = ops.sum(ops.astype(found, types.float32), axis=1)
                total = total + ops.matmul(number, columns)
        if self.mode == "IDF":
            total = ops.astype(total > 0, types.float32)
        y = total if self.mode == "TF" else total * self.weights
        return y if x.ndim > 1 else ops.reshape(y, (-1,))
