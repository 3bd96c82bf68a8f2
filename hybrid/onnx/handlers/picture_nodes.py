"""Boxes in pictures, and pictures in files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.calls.control_functions import while_loop
from hybrid.core import types
from hybrid.errors import CaptureError, MissingPackageError, OnnxError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.onnx.known_values import scalar
from hybrid.onnx.node_table import handles


def _corners(boxes: Any, center_point_box: int) -> list[Any]:
    """Top, left, bottom and right of [..., 4]."""
    if center_point_box:
        x, y, width, height = (boxes[..., at] for at in range(4))
        return [y - height / 2, x - width / 2, y + height / 2, x + width / 2]
    a, b, c, d = (boxes[..., at] for at in range(4))
    return [ops.minimum(a, c), ops.minimum(b, d), ops.maximum(a, c), ops.maximum(b, d)]


def _shared(boxes: Any, center_point_box: int) -> Any:
    """How much each two of the boxes [b, n, 4] share of what they cover together: [b, n, n]."""
    top, left, bottom, right = _corners(boxes, center_point_box)

    def pair(function: Any, values: Any) -> Any:
        return function(values[:, :, None], values[:, None])

    height = ops.maximum(pair(ops.minimum, bottom) - pair(ops.maximum, top), 0.0)
    width = ops.maximum(pair(ops.minimum, right) - pair(ops.maximum, left), 0.0)
    area = (bottom - top) * (right - left)
    both = height * width
    together = pair(ops.add, area) - both
    return ops.where(together > 0, both / ops.where(together > 0, together, 1.0), 0.0)


@handles("NonMaxSuppression", 10, 11, values=(2, 3, 4))
def non_max_suppression(boxes, scores, most=None, overlap=None, least=None, *, center_point_box=0):
    """NonMaxSuppression: (batch, class, box) of the best boxes that share little with better ones.

    ``boxes`` are [batch, n, 4], ``scores`` [batch, classes, n].
    """
    batches, classes, count = scores.shape
    order = ops.argsort(scores, axis=-1, descending=True)  # [batches, classes, n]
    share = _shared(boxes, center_point_box)
    limit = 0.0 if overlap is None else scalar(overlap)
    over = share > limit
    first = ops.ones(scores.shape, dtype=types.bool_)
    if least is not None:
        first = ops.gather(scores, order, axis=2) > scalar(least)
    line = ops.arange(count)
    rows = ops.reshape(ops.arange(batches) * (count * count), (batches, 1, 1))
    flat = ops.reshape(over, (-1,))

    def going(carried):
        return carried[0] < count

    def step(carried):  # box ``at`` goes if a better one that stays covers too much of it
        at, kept = carried
        own = ops.take(order, ops.reshape(at, (1,)), axis=2)  # [batches, classes, 1]
        hidden = ops.take(flat, rows + own * count + order, axis=0)
        better = ops.logical_and(kept, line < at)
        free = ops.logical_not(ops.any(ops.logical_and(better, hidden), axis=2, keepdims=True))
        return at + 1, ops.logical_and(kept, ops.logical_or(free, line != at))

    _, kept = while_loop(going, step, (ops.zeros((), dtype=types.int64), first))
    number = 0 if most is None else scalar(most)
    places = ops.cumulative_sum(ops.astype(kept, types.int64), axis=2)
    kept = ops.logical_and(kept, places <= number)
    batch, kind, rank = ops.nonzero(kept)
    flat_order = ops.reshape(order, (-1,))
    box = ops.take(flat_order, (batch * classes + kind) * count + rank, axis=0)
    return ops.stack([batch, kind, box], axis=1)


_FORMATS = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@handles("ImageDecoder", 20)
def image_decoder(stream, *, pixel_format="RGB"):
    """ImageDecoder: the pixels [height, width, channels] of a file's bytes; not in a plan."""
    if pixel_format not in _FORMATS:
        raise OnnxError(
            f"ImageDecoder got pixel_format {pixel_format!r}",
            why=f"It is one of {', '.join(_FORMATS)}.",
        )
    if ACTIVE and current().traces:
        raise CaptureError(
            "a picture is decoded in a hybridized function",
            at=author_location(),
            why="Only its bytes say how large it is, and what reads them is no part of a plan.",
            fix="decode it outside, and pass the pixels",
        )
    try:
        from PIL import Image
    except ImportError:
        raise MissingPackageError(
            "ImageDecoder needs the package pillow, which is not installed",
            fix='pip install "hybrid[image]"',
        ) from None
    with Image.open(io.BytesIO(stream.numpy().tobytes())) as picture:
        pixels = np.array(picture.convert(_FORMATS[pixel_format]))
    if pixel_format == "BGR":
        pixels = pixels[..., ::-1]
    if pixel_format == "Grayscale":
        pixels = pixels[..., None]
    return ops.as_tensor(np.ascontiguousarray(pixels))
