"""Signals: Fourier transforms as products with tables of waves, and mel scales."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.onnx.known_values import axis_of, number_of
from hybrid.onnx.node_table import handles


@functools.lru_cache(maxsize=32)
def _waves(rows: int, columns: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2 pi row * column / length, [rows, columns] each."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    return np.cos(2 * np.pi * turns / length), np.sin(2 * np.pi * turns / length)


def _fitted(x: Any, axis: int, length: int) -> Any:
    """``x`` with so many elements along ``axis``: cut off, or zeros behind."""
    have = x.shape[axis]
    if have > length:
        return ops.getitem(x, (slice(None),) * axis + (slice(0, length),))
    if have < length:
        return ops.pad(x, [(0, length - have if at == axis else 0) for at in range(x.ndim)])
    return x


def _transformed(x: Any, length: int, axis: int, inverse: int, onesided: int) -> Any:
    """The transform of [..., 1 or 2] along ``axis``: real and imaginary parts in the last axis.

    Sums are of float64 numbers: what ought to cancel out does.
    """
    if x.dtype is not types.float64:
        wide = _transformed(ops.astype(x, types.float64), length, axis, inverse, onesided)
        return ops.astype(wide, x.dtype)
    real = ops.moveaxis(x[..., 0], axis, -1)
    imaginary = ops.moveaxis(x[..., 1], axis, -1) if x.shape[-1] == 2 else None
    if inverse and onesided:  # of half a spectrum to real numbers: the rest is its mirror image
        return _real_inverse(real, imaginary, length, axis)
    real = _fitted(real, real.ndim - 1, length)
    count = length // 2 + 1 if onesided else length
    cos, sin = (ops.as_tensor(t.astype(x.dtype.numpy)) for t in _waves(length, count, length))
    sign = 1.0 if inverse else -1.0
    real_out, imaginary_out = ops.matmul(real, cos), ops.matmul(real, sin) * sign
    if imaginary is not None:
        imaginary = _fitted(imaginary, imaginary.ndim - 1, length)
        real_out = real_out - ops.matmul(imaginary, sin) * sign
        imaginary_out = imaginary_out + ops.matmul(imaginary, cos)
    if inverse:
        real_out, imaginary_out = real_out / length, imaginary_out / length
    found = ops.stack([real_out, imaginary_out], axis=-1)
    return ops.moveaxis(found, -2, axis)


def _real_inverse(real: Any, imaginary: Any, length: int, axis: int) -> Any:
    count = length // 2 + 1
    real = _fitted(real, real.ndim - 1, count)
    cos, sin = _waves(count, length, length)
    share = np.full((count, 1), 2.0)
    share[0] = 1.0
    if length % 2 == 0:
        share[-1] = 1.0
    kind = real.dtype.numpy
    total = ops.matmul(real, ops.as_tensor((cos * share / length).astype(kind)))
    if imaginary is not None:
        imaginary = _fitted(imaginary, imaginary.ndim - 1, count)
        total = total - ops.matmul(imaginary, ops.as_tensor((sin * share / length).astype(kind)))
    return ops.expand_dims(ops.moveaxis(total, -1, axis), axis=-1)


def _dft(x, dft_length, axis, inverse, onesided):
    axis = axis_of(axis, x.ndim)
    if dft_length is not None:
        length = int(number_of(dft_length))
    else:
        length = int(2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis])
    return _transformed(x, length, axis, inverse, onesided)


@handles("DFT", 20, values=(1, 2))
def dft(x, dft_length=None, axis=None, *, inverse=0, onesided=0):
    """DFT along ``axis`` of real [..., 1] or complex [..., 2] numbers."""
    return _dft(x, dft_length, -2 if axis is None else int(number_of(axis)), inverse, onesided)


@handles("DFT", 17, values=(1,))
def dft_along(x, dft_length=None, *, axis=1, inverse=0, onesided=0):
    """DFT with its axis as an attribute: opsets 17 to 19."""
    return _dft(x, dft_length, axis, inverse, onesided)


@handles("STFT", 17, values=(1, 3))
def stft(signal, frame_step, window=None, frame_length=None, *, onesided=1):
    """STFT: transforms of frames of [batch, samples, 1 or 2], weighted by a window."""
    if frame_length is not None:
        length = int(number_of(frame_length))
    else:
        length = int(signal.shape[1] if window is None else window.shape[0])
    step = int(number_of(frame_step))
    count = (signal.shape[1] - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = ops.take(signal, ops.as_tensor(places), axis=1)  # [batch, frames, length, parts]
    if window is not None:
        frames = ops.multiply(frames, ops.reshape(window, (1, 1, -1, 1)))
    return _transformed(frames, length, 2, 0, onesided)


@handles("MelWeightMatrix", 17, values=(0, 1, 2, 3, 4))
def mel_weight_matrix(bins, dft_length, rate, low, high, *, output_datatype=types.float32):
    """MelWeightMatrix: triangles that take a spectrum to mel bins, [spectrum, bins]."""
    count, length, rate = (int(number_of(value)) for value in (bins, dft_length, rate))
    ends = [2595 * np.log1p(float(number_of(f)) / 700) / np.log(10) for f in (low, high)]
    mels = np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2)) + ends[0]
    hertz = 700 * np.expm1(mels / 2595 * np.log(10))
    places = (((length + 1) * hertz) // rate).astype(int)
    table = np.zeros((length // 2 + 1, count))
    for at in range(count):
        first, middle, last = places[at : at + 3]
        if middle == first:
            table[middle, at] = 1
        else:
            rise = np.arange(first, middle + 1)
            table[rise, at] = (rise - first) / (middle - first)
        if last > middle:
            fall = np.arange(middle, last)
            table[fall, at] = (last - fall) / (last - middle)
    return ops.astype(ops.as_tensor(table), output_datatype)
