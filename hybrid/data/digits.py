"""Real handwritten digits, shipped with the package: 1797 images of 8x8 pixels.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, CC BY 4.0; see ``shipped/NOTICE``.  ``python -m hybrid.data.digits`` rebuilds the
file from scikit-learn's copy.
"""

from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hybrid.core.output_file import whole_file

TRAIN = 1437  # of 1797: four fifths
DATA = files("hybrid.data") / "shipped" / "digits.npz"


class Digits(NamedTuple):
    """Images as float32 ``[n, 64]`` from 0 to 1, labels as int64 ``[n]`` from 0 to 9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load() -> Digits:
    """The digits, shuffled once and for all and split into 1437 for training and 360 for tests."""
    with as_file(DATA) as path, np.load(path) as data:
        pixels, labels = data["pixels"], data["labels"]
    images = np.empty_like(pixels.T)
    images[_by_label(labels)] = pixels.T
    # The labels are ordered by writer.  RandomState's stream is frozen, so the split never changes.
    order = np.random.RandomState(0).permutation(len(labels))
    images = (images[order] / np.float32(16)).astype(np.float32)
    labels = labels[order].astype(np.int64)
    return Digits(images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:])


def _by_label(labels: np.ndarray) -> np.ndarray:
    """The order of the images in the file, pixel by pixel: it is an eighth smaller so."""
    return np.argsort(labels, kind="stable")


def rebuild(path: Path) -> None:
    """Write the data file anew from scikit-learn's copy of the data set."""
    from sklearn.datasets import load_digits  # from the `bench` extra

    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    with whole_file(path) as file:
        pixels = np.ascontiguousarray(images.reshape(-1, 64)[_by_label(labels)].T)
        np.savez_compressed(file, pixels=pixels, labels=labels)


if __name__ == "__main__":
    with as_file(DATA) as target:
        rebuild(target)
