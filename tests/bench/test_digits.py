"""The digits data: real, complete, and split the same way for ever."""

import hashlib

import numpy as np
from sklearn.datasets import load_digits

from hybrid.data.digits import DATA, TRAIN, load


def test_the_file_is_scikit_learns_copy_and_small() -> None:
    theirs = load_digits()
    with DATA.open("rb") as file, np.load(file) as ours:
        by_label = np.argsort(theirs.target, kind="stable")
        assert np.array_equal(ours["pixels"].T, theirs.data[by_label])
        assert np.array_equal(ours["labels"], theirs.target)
    assert len(DATA.read_bytes()) < 60_000


def test_split() -> None:
    digits = load()
    assert digits.train_images.shape == (TRAIN, 64) and digits.test_images.shape == (360, 64)
    assert digits.train_images.dtype == np.float32 and digits.train_labels.dtype == np.int64
    assert digits.train_images.min() == 0 and digits.train_images.max() == 1
    assert set(digits.train_labels) == set(digits.test_labels) == set(range(10))
    images = np.concatenate([digits.train_images, digits.test_images])
    assert len(np.unique(images, axis=0)) == 1797  # every image once, on one side


def test_the_split_never_changes() -> None:
    labels = load().test_labels.astype(np.uint8).tobytes()
    assert hashlib.sha256(labels).hexdigest() == (
        "2afb26f01c4ab83cd8bfb3c55e54cc7568449a914de2d2369dc3aeb6168fcd64"
    )
