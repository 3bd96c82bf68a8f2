"""Random numbers and dropout: drawn from the default generator, whatever seed a node names."""

from __future__ import annotations

from typing import Any

from hybrid import ops, random
from hybrid.core import types
from hybrid.onnx.known_values import number_of, scalar
from hybrid.onnx.node_table import handles

_KINDS = (types.float32, types.float64)


def _drawn(function: Any, *numbers: Any, shape: tuple[Any, ...], dtype: Any) -> Any:
    """Numbers of ``dtype``: those of half the width are drawn as float32."""
    kind = dtype if dtype in _KINDS else types.float32
    return ops.astype(function(*numbers, shape, dtype=kind), dtype)


@handles("RandomNormal", 1, 22)
def random_normal(*, shape, dtype=types.float32, mean=0.0, scale=1.0, seed=None):
    """RandomNormal.  The seed is not looked at: hybrid.random.seed says which numbers are drawn."""
    return _drawn(random.normal, mean, scale, shape=tuple(shape), dtype=dtype)


@handles("RandomNormalLike", 1, 22)
def random_normal_like(x, *, dtype=None, mean=0.0, scale=1.0, seed=None):
    """RandomNormalLike: as many numbers as x has."""
    return _drawn(random.normal, mean, scale, shape=x.shape, dtype=dtype or x.dtype)


@handles("RandomUniform", 1, 22)
def random_uniform(*, shape, dtype=types.float32, high=1.0, low=0.0, seed=None):
    """RandomUniform."""
    return _drawn(random.uniform, low, high, shape=tuple(shape), dtype=dtype)


@handles("RandomUniformLike", 1, 22)
def random_uniform_like(x, *, dtype=None, high=1.0, low=0.0, seed=None):
    """RandomUniformLike: as many numbers as x has."""
    return _drawn(random.uniform, low, high, shape=x.shape, dtype=dtype or x.dtype)


@handles("Bernoulli", 15, 22)
def bernoulli(x, *, dtype=None, seed=None):
    """Bernoulli: 1 with the probability that x says."""
    drawn = random.uniform(0.0, 1.0, x.shape, dtype=types.float32)
    return ops.astype(ops.less(drawn, ops.astype(x, types.float32)), dtype or x.dtype)


@handles("Multinomial", 7, 22)
def multinomial(x, *, dtype=types.int32, sample_size=1, seed=None):
    """Multinomial: classes drawn with log-probabilities [batch, classes]."""
    drawn = random.uniform(0.0, 1.0, (x.shape[0], sample_size), dtype=types.float32)
    below = ops.cumulative_sum(ops.softmax(ops.astype(x, types.float32), 1), axis=1)
    classes = ops.sum(ops.greater(drawn[:, :, None], below[:, None]), axis=2)
    return ops.astype(ops.minimum(classes, x.shape[1] - 1), dtype)


def _dropped(x: Any, ratio: Any, training: bool, outputs: int) -> Any:
    if not training or (isinstance(ratio, float) and ratio == 0.0):
        every = ops.ones(x.shape, dtype=types.bool_)
        return x if outputs == 1 else (x, every)
    kept = ops.greater_equal(random.uniform(0.0, 1.0, x.shape, dtype=types.float32), ratio)
    y = ops.where(kept, ops.divide(x, 1 - ratio), ops.zeros_like(x))
    return y if outputs == 1 else (y, kept)


@handles("Dropout", 12, 13, 22, values=(1, 2))
def dropout(x, ratio=None, training_mode=None, *, seed=None, outputs=1):
    """Dropout: x itself unless ``training_mode``."""
    training = training_mode is not None and bool(number_of(training_mode))
    return _dropped(x, 0.5 if ratio is None else scalar(ratio), training, outputs)


@handles("Dropout", 7, 10)
def dropout_by(x, *, ratio=0.5, outputs=1):
    """Dropout as it is evaluated: opsets 7 to 11."""
    return _dropped(x, ratio, False, outputs)


@handles("Dropout", 1, 6)
def dropout_of_opset_1(x, *, is_test=0, ratio=0.5, outputs=1):
    """Dropout as it was before opset 7: a test unless ``is_test`` is 0."""
    return _dropped(x, ratio, not is_test, outputs)
