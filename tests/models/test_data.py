"""What the examples learn: shapes, ranges, what is held out, and that it never changes."""

import sys

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import digits
from hybrid.errors import MissingPackageError
from hybrid.models import data
from hybrid.models.tasks import bits, is_right, next_loss, overlap
from tests.helpers import same


@pytest.mark.parametrize("size", [8, 16, 32])
def test_images_are_stretched(size) -> None:
    train, test = data.digit_images(size)
    images, labels = train.tensors
    assert images.shape == (1437, 1, size, size) and labels.shape == (1437,)
    assert len(test) == 360
    assert images.min().item() >= 0 and 0.9 < images.max().item() <= 1
    small = hy.avg_pool2d(images, size // 8).numpy().reshape(-1, 64)
    given = digits.load().train_images
    near = np.corrcoef(small.ravel(), given.ravel())[0, 1]
    assert near > 0.95 and (size > 8 or np.array_equal(small, given))


def test_rows_and_pixels_are_those_of_the_images() -> None:
    given = digits.load()
    rows, labels = data.digit_rows().test.tensors
    assert rows.shape == (360, 8, 8)
    assert np.array_equal(rows.numpy().reshape(-1, 64), given.test_images)
    assert np.array_equal(labels.numpy(), given.test_labels)
    (pixels,) = data.digit_pixels().train.tensors
    assert np.array_equal(pixels.numpy(), given.train_images)
    counted = pixels.numpy() * data.COUNTED
    assert np.array_equal(counted, counted.round())


def test_no_threshold_finds_hidden_digits() -> None:
    train, test = data.hidden_digits()
    images, masks = test.tensors
    assert images.shape == masks.shape == (360, 1, 32, 32) and len(train) == 1437
    assert set(np.unique(masks.numpy())) == {0.0, 1.0}
    assert 0.1 < masks.mean().item() < 0.25
    x = images.numpy()
    for seen in (x, -x, np.abs(x - x.mean())):
        for share in range(50, 100, 5):
            guess = hy.asarray((seen > np.percentile(seen, share)).astype(np.float32) - 0.5)
            assert overlap(lambda _, guess=guess: guess, images, masks).mean().item() < 0.5


def test_the_seed_decides_where_digits_hide() -> None:
    first, again, other = (data.hidden_digits(seed=seed).test.tensors for seed in (0, 0, 1))
    assert same(first[0], again[0]) and same(first[1], again[1])
    assert not same(first[1], other[1])


def test_documentation_is_python_s_own() -> None:
    text = data.documentation_text()
    assert 'The "while" statement' in text and len(text) > 300_000 and text.isascii()
    tokenizer = data.documentation_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text
    train, test = data.documentation(100)
    tokens, following = train[7]
    assert tokenizer.decode(tokens) == text[700:800]
    assert tokenizer.decode(following) == text[701:801]
    assert 15 < len(train) / len(test) < 25
    cut = len(train.tokens)
    assert tokenizer.decode(test[0][0]) == text[cut : cut + 100]


def test_documentation_that_is_missing_is_told(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(MissingPackageError) as caught:
        data.documentation()
    assert str(caught.value) == (
        "Python's documentation is not there: the module pydoc_data.topics is missing\n"
        "Fix: install the standard library whole."
    )


# Scores ------------------------------------------------------------------------------------------


def test_overlap_is_shared_pixels_by_all_pixels() -> None:
    masks = np.zeros((2, 1, 4, 4), np.float32)
    masks[:, :, :2] = 1
    logits = np.full((2, 1, 4, 4), -1, np.float32)
    logits[0, :, :2] = 1
    logits[1, :, 1:3] = 1
    found = overlap(lambda x: x, hy.asarray(logits), hy.asarray(masks))
    assert found.tolist() == [1.0, pytest.approx(4 / 12)]


def test_right_classes_count() -> None:
    logits, labels = hy.asarray([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), hy.asarray([1, 1, 1])
    assert is_right(lambda x: x, logits, labels).tolist() == [1.0, 0.0, 1.0]


def test_bits_are_those_of_the_loss() -> None:
    logits = hy.random.normal(size=(3, 5, 7))
    following = hy.random.integers(7, size=(3, 5))
    found = bits(lambda x: x, logits, following)
    assert found.shape == (3,)
    loss = next_loss(lambda x: x, logits, following).item()
    assert found.mean().item() * np.log(2) == pytest.approx(loss, rel=1e-6)
