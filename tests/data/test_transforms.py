"""Transforms of rows: values, one implementation for all ways to a batch, bad input."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import Cast, DataLoader, Normalize, NpyDataset, TensorDataset, Transform
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tests.data.captured import assert_same

IMAGES = np.random.default_rng(0).integers(0, 256, (53, 3, 20, 20)).astype(np.uint8)
LABELS = np.arange(53, dtype=np.int32)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclasses.dataclass(frozen=True)
class Flat(Transform):
    """Each row as one line, which is turned round if ``turned``."""

    turned: bool = False

    def __call__(self, rows):
        flat = rows.reshape(len(rows), -1).astype(hy.float32)
        return hy.flip(flat, axis=1) if self.turned else flat


def normalized(images, mean, std, scale, dtype=np.float32):
    """In NumPy, as the docstring says."""
    made = images.astype(dtype)
    if scale:
        made = made / dtype(scale)
    shape = (1, -1, 1, 1) if isinstance(mean, tuple) else ()
    mean, std = (np.asarray(v, dtype).reshape(shape) for v in (mean, std))
    return (made - mean) / std


@pytest.mark.parametrize("scale", [None, 255])
@pytest.mark.parametrize(("mean", "std"), [(0.1307, 0.3081), (MEAN, STD), (0.5, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalize_is_what_it_says(mean, std, scale, dtype):
    made = Normalize(mean, std, scale=scale, dtype=dtype)
    dataset = TensorDataset(IMAGES, LABELS, transforms=(made, None))
    [x, y] = next(iter(DataLoader(dataset, 53)))
    expected = normalized(IMAGES, mean, std, scale, dtype)
    assert x.dtype is hy.asarray(expected).dtype and y.dtype is hy.int32
    assert np.array_equal(x.numpy(), expected)
    assert np.array_equal(made(hy.asarray(IMAGES)).numpy(), expected)
    assert np.array_equal(dataset[7][0].numpy(), expected[7])
    assert np.array_equal(dataset[-1][0].numpy(), expected[-1])


def test_means_go_along_an_axis():
    table = hy.random.Generator(1).normal(size=(20, 4, 3))
    for axis, n in ((0, 4), (1, 3)):
        values = tuple(float(i) for i in range(n))
        made = Normalize(values, 2.0, axis=axis)(table)
        shape = (1, n, 1) if axis == 0 else (1, 1, n)
        expected = (table.numpy() - np.float32(values).reshape(shape)) / np.float32(2)
        assert np.array_equal(made.numpy(), expected)


TRANSFORMS = {
    "cast": (Cast(hy.float32), Cast("int64")),
    "normalize": (Normalize(MEAN, STD, scale=255), None),
    "half": (Cast(hy.bfloat16), Cast("float16")),
    "own": (Flat(turned=True), None),
    "function": (lambda rows: rows.astype(hy.float32) * 2, None),
    "draws": (lambda rows: rows + hy.random.uniform(size=rows.shape), None),
}


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("transforms", TRANSFORMS.values(), ids=TRANSFORMS)
def test_captured_loops_have_the_bits_of_eager_ones(transforms, workers, small):
    images = IMAGES[:, :, :2, :3].copy() if small else np.repeat(IMAGES, 3, axis=2)
    if workers and transforms[0] is TRANSFORMS["draws"][0]:
        pytest.skip("threads share the default generator")

    def loader():
        dataset = TensorDataset(images, LABELS, transforms=transforms)
        return DataLoader(dataset, 10, shuffle=True, generator=3, workers=workers)

    def body(loader, state):
        def rows():
            found = []
            for x, y in loader:
                found.append((x.astype(hy.float32).sum(0), y))
                state.assign(state + y.sum())
            return [x for x, _ in found], [y for _, y in found]

        return rows

    assert_same(loader, body)


@pytest.mark.parametrize("small", [False, True])
def test_batches_do_not_go_through_python(small, monkeypatch):
    def refuse(*_):
        raise AssertionError("a batch was made by Python")

    images = IMAGES[:, :, :2, :3].copy() if small else np.repeat(IMAGES, 3, axis=2)
    dataset = TensorDataset(images, LABELS, transforms=(Normalize(MEAN, STD), Cast("float64")))
    loader = DataLoader(dataset, 10, shuffle=True)

    @hy.hybridize
    def total():
        found = hy.zeros((), dtype="float64")
        for x, y in loader:
            found = found + x.sum() * y.sum()
        return found

    total()
    monkeypatch.setattr("hybrid.memory.batch_queue.take", refuse)
    total()


def test_mapped_files_are_transformed_and_travel(tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    dataset = NpyDataset(tmp_path / "x.npy", transforms=[Normalize(MEAN, STD, scale=255)])
    again = pickle.loads(pickle.dumps(dataset))
    loader = DataLoader(again, 20, workers=1, worker_kind="process")
    found = np.concatenate([x.numpy() for (x,) in loader])
    assert np.array_equal(found, normalized(IMAGES, MEAN, STD, 255))


BAD = [
    (lambda: Normalize(0, 0), ArgumentError, "a std of 0"),
    (lambda: Normalize(MEAN, (1, 0, 1)), ArgumentError, "a std of (1, 0, 1)"),
    (lambda: Normalize((1, 2), (1, 2, 3)), ShapeError, "2 means and 3 stds"),
    (lambda: Normalize("0.5", 1), ArgumentError, "mean is '0.5'"),
    (lambda: Normalize([[1.0]], 1), ArgumentError, "mean is [[1.0]]"),
    (lambda: Normalize(float("nan"), 1), ArgumentError, "mean is nan"),
    (lambda: Normalize(0, 1, scale=0), ArgumentError, "scale is 0"),
    (lambda: Normalize(0, 1, axis=-1), ArgumentError, "axis is -1"),
    (lambda: Normalize(0, 1, dtype="int32"), DTypeError, "Normalize to int32"),
    (lambda: Cast("words"), DTypeError, "no dtype 'words'"),
    (lambda: TensorDataset(LABELS, transforms=(None, None)), ArgumentError, "2 transforms for 1"),
    (lambda: TensorDataset(LABELS, transforms=(3,)), ArgumentTypeError, "a int is no transform"),
]


@pytest.mark.parametrize(("make", "kind", "message"), BAD, ids=[row[2] for row in BAD])
def test_bad_transforms_are_refused(make, kind, message):
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value).startswith(message)


@dataclasses.dataclass(frozen=True)
class Summed(Transform):
    def __call__(self, rows):
        return rows.sum(0)


outside = hy.ones(20)


@dataclasses.dataclass(frozen=True)
class Outside(Transform):
    def __call__(self, rows):
        return rows * outside


WRONG = [
    (Summed(), ShapeError, "Summed made u64[3,20,20] of 10 rows"),
    (lambda rows: 3, ShapeError, "<lambda> made a int of 10 rows"),
    (Outside(), ArgumentError, "Outside depends on more than the rows"),
    (Normalize((1, 2), 1), ShapeError, "Normalize has 2 numbers along axis 0 of samples of shape"),
]


@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize(("transform", "kind", "message"), WRONG, ids=[row[2] for row in WRONG])
def test_what_makes_no_rows_is_refused(transform, kind, message, hybridizes):
    loader = DataLoader(TensorDataset(IMAGES, transforms=[transform]), 10)

    def total():
        found = hy.zeros(())
        for (x,) in loader:
            found = found + x.sum()
        return found

    with pytest.raises(kind) as caught:
        (hy.hybridize(total) if hybridizes else total)()
    assert str(caught.value).startswith(message)
