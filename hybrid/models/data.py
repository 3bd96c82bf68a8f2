"""The data that the examples learn: real digits in several shapes, and Python's documentation.

All of it is there without a download: the digits ship with the package (see hybrid.data.digits),
the documentation with the interpreter.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import numpy as np

import hybrid as hy
from hybrid.data import CharTokenizer, Dataset, TensorDataset, TokenBlocks, digits
from hybrid.errors import MissingPackageError
from hybrid.nn import functional

SIDE = 8  # pixels of a digit, in both directions
COUNTED = 16  # pixels of the scan that each of them is the light share of
HELD_OUT = 0.05  # of the documentation


class Data(NamedTuple):
    """What is learnt, and what was held out to see whether it was."""

    train: Dataset
    test: Dataset


def digit_images(size: int) -> Data:
    """Images [1, size, size] from 0 to 1, stretched between their pixels, and labels."""
    found = digits.load()
    return Data(
        TensorDataset(stretched(found.train_images, size), hy.asarray(found.train_labels)),
        TensorDataset(stretched(found.test_images, size), hy.asarray(found.test_labels)),
    )


def stretched(images: np.ndarray, size: int) -> hy.Tensor:
    """Rows of pixels [n, 64] as images [n, 1, size, size]."""
    x = hy.asarray(images.reshape(-1, 1, SIDE, SIDE))
    return functional.interpolate(x, (size, size), mode="bilinear")


def digit_rows() -> Data:
    """Images as eight rows, one after another, of eight pixels, and labels."""
    found = digits.load()
    shape = (-1, SIDE, SIDE)
    return Data(
        TensorDataset(
            hy.asarray(found.train_images.reshape(shape)), hy.asarray(found.train_labels)
        ),
        TensorDataset(hy.asarray(found.test_images.reshape(shape)), hy.asarray(found.test_labels)),
    )


def digit_pixels() -> Data:
    """The 64 pixels of each image; nobody says which digits they are."""
    found = digits.load()
    return Data(
        TensorDataset(hy.asarray(found.train_images)), TensorDataset(hy.asarray(found.test_images))
    )


def hidden_digits(size: int = 32, seed: int = 0) -> Data:
    """Digits in noise [1, size, size], and which pixels they are [1, size, size], 0 or 1.

    Each digit, stretched, lies at a place of its own, light or dark, on a background of spots as
    large as its strokes; noise of every pixel covers both.  So neither the lightness of a pixel nor
    that of those around it tells what it is.
    """
    found = digits.load()
    random = np.random.RandomState(seed)  # its stream is frozen: the images never change
    return Data(
        hide(found.train_images, size, random),
        hide(found.test_images, size, random),
    )


def hide(images: np.ndarray, size: int, random: np.random.RandomState) -> TensorDataset:
    """Images [n, 64] in noise, with their masks."""
    count, side = len(images), 3 * size // 4
    digit = stretched(images, side).numpy()
    spots = random.rand(count, SIDE * SIDE).astype(np.float32)
    picture = 0.6 * stretched(spots, size).numpy()
    mask = np.zeros((count, 1, size, size), np.float32)
    places = random.randint(0, size - side + 1, (count, 2))
    lightness = random.choice([-1.0, 1.0], count) * random.uniform(0.5, 1.0, count)
    for i, (top, left) in enumerate(places):
        here = (i, 0, slice(top, top + side), slice(left, left + side))
        mask[here] = digit[i, 0] > 0.5
        picture[here] += np.float32(lightness[i]) * digit[i, 0]
    noise = random.normal(0, 0.2, picture.shape).astype(np.float32)
    return TensorDataset(hy.asarray(picture + noise), hy.asarray(mask))


def documentation_text() -> str:
    """What Python's ``help()`` says of its topics, in ASCII and without tables: over 0.4 MB."""
    try:
        topics = import_module("pydoc_data.topics").topics
    except ModuleNotFoundError:
        raise MissingPackageError(
            "Python's documentation is not there: the module pydoc_data.topics is missing",
            fix="install the standard library whole",
        ) from None
    lines = "\n\n".join(topics[name] for name in sorted(topics)).splitlines()
    text = "\n".join(line for line in lines if not line.startswith(("|", "+")))
    return text.encode("ascii", "replace").decode()


def documentation_tokenizer() -> CharTokenizer:
    """The printable characters of ASCII, and the end of a line."""
    return CharTokenizer("\n" + "".join(map(chr, range(32, 127))))


def documentation(length: int = 64) -> Data:
    """Windows of ``length`` characters and those that follow each; the last topics are held out."""
    tokens = documentation_tokenizer().encode(documentation_text())
    cut = int(len(tokens) * (1 - HELD_OUT))
    return Data(TokenBlocks(tokens[:cut], length), TokenBlocks(tokens[cut:], length))
