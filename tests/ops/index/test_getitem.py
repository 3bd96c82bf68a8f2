"""x[key] and x[key] = value against NumPy, on keys of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    OutOfRangeError,
    ShapeError,
)

SHAPE = (2, 3, 4, 5)
WHOLE = np.arange(120, dtype=np.float32).reshape(SHAPE)


@st.composite
def keys(draw):
    """A key for WHOLE: ints, slices, None, one Ellipsis, index arrays and masks."""
    items, axis, dots = [], 0, False
    last = draw(st.integers(0, len(SHAPE)))
    while axis < last:
        size = SHAPE[axis]
        kind = draw(st.sampled_from(["int", "slice", "slice", "none", "dots", "array", "mask"]))
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 1, size + 1)
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            items.append(slice(draw(bound), draw(bound), step))
        elif kind == "none":
            if sum(item is None for item in items) < 2:
                items.append(None)
            continue
        elif kind == "dots":
            if not dots:
                items.append(Ellipsis)
                dots = True
                break
            continue
        elif kind == "array":
            shape = draw(st.sampled_from([(), (1,), (2,), (3, 2)]))
            count = int(np.prod(shape))
            flat = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            items.append(np.array(flat, dtype=np.int64).reshape(shape))
        else:
            bits = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            items.append(np.array(bits))
        axis += 1
    return tuple(items)


def as_hybrid(key, wrap):
    """The key with its arrays as tensors when ``wrap``."""
    return tuple(hy.asarray(i) if wrap and isinstance(i, np.ndarray) else i for i in key)


def numpy_result(key):
    try:
        return WHOLE[key]
    except IndexError:  # index arrays whose shapes do not broadcast
        return None


@settings(deadline=None, max_examples=200)
@given(keys(), st.booleans())
def test_reading_agrees_with_numpy(key, wrap):
    want = numpy_result(key)
    if want is None:
        with pytest.raises(ShapeError):
            hy.asarray(WHOLE)[as_hybrid(key, wrap)]
        return
    got = hy.asarray(WHOLE)[as_hybrid(key, wrap)].numpy()
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@settings(deadline=None, max_examples=200)
@given(keys(), st.booleans(), st.sampled_from(["number", "row", "full"]))
def test_writing_agrees_with_numpy(key, wrap, kind):
    selected = numpy_result(key)
    if selected is None:
        return
    shape = {"number": (), "row": selected.shape[-1:], "full": selected.shape}[kind]
    value = -1 - np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    want = WHOLE.copy()
    want[key] = value
    x = hy.asarray(WHOLE.copy())
    x[as_hybrid(key, wrap)] = float(value) if kind == "number" else value
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), 1),
        (Ellipsis, slice(None, None, -2)),
        (np.array([1, 0]), slice(1, 3)),
        (slice(None), np.array([[0, 2], [1, 1]]), 0, np.array([3, 4])),
        (0, [1, 2], None),
    ],
    ids=str,
)
def test_hybridized_reads_and_writes_like_eager(key):
    read = hy.hybridize(lambda x: x[key])
    np.testing.assert_array_equal(read(hy.asarray(WHOLE)).numpy(), WHOLE[key])

    @hy.hybridize
    def write(x):
        y = x * 1
        y[key] = 7.0
        return y

    want = WHOLE.copy()
    want[key] = 7.0
    np.testing.assert_array_equal(write(hy.asarray(WHOLE)).numpy(), want)


def test_an_index_may_be_a_traced_tensor():
    read = hy.hybridize(lambda x, i: x[i])
    for i in (0, 1, -1):
        got = read(hy.asarray(WHOLE), hy.asarray(i)).numpy()
        np.testing.assert_array_equal(got, WHOLE[i])


def test_a_slice_is_a_value():
    x = hy.asarray(WHOLE.copy())
    part, whole = x[0], x[:]
    x[0] = 0.0
    np.testing.assert_array_equal(part.numpy(), WHOLE[0])
    np.testing.assert_array_equal(whole.numpy(), WHOLE)


def test_a_list_may_hold_tensors():
    i = hy.asarray(2)
    np.testing.assert_array_equal(hy.asarray(WHOLE)[:, [i, i]].numpy(), WHOLE[:, [2, 2]])


def test_a_mask_writes_inside_a_graph():
    @hy.hybridize
    def clear_negative(x):
        y = x * 1
        y[y < 0] = 0.0
        return y

    got = clear_negative(hy.asarray([-1.0, 2.0, -3.0]))
    np.testing.assert_array_equal(got.numpy(), [0.0, 2.0, 0.0])


def test_gradients_flow_through_reading_and_writing():
    weights = np.arange(24.0).reshape(2, 3, 4)
    picked = np.array([2, 0, 2])

    def reading(x):
        return hy.sum(x[:, picked, 1:] ** 2) + hy.sum(x[0, ::-2] * 3)

    def writing(x, v):
        y = x * 2
        y[:, picked] = v
        y[0, 1, ::2] = v[0, 0, :2]
        return y * weights

    x = np.linspace(-1, 1, 24).reshape(2, 3, 4)
    hy.check_grads(reading, x)
    hy.check_grads(writing, x, np.linspace(0, 1, 24).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (
            (0, 3),
            OutOfRangeError,
            "index 3 is out of range for axis 1 of f32[2,3,4,5]\nThe axis has size 3.\n"
            "Fix: use an index from -3 to 2.",
        ),
        (
            ([0, -3],),
            OutOfRangeError,
            "index -3 is out of range for axis 0 of f32[2,3,4,5]\nThe axis has size 2.\n"
            "Fix: use an index from -2 to 1.",
        ),
        (
            (0, 0, 0, 0, 0),
            OutOfRangeError,
            "too many indices for f32[2,3,4,5]\nThere are 5, and it has 4 dimensions.\n"
            "Fix: give at most one index per axis.",
        ),
        (
            (Ellipsis, Ellipsis),
            ArgumentTypeError,
            "an index holds two Ellipses\nFix: leave one out.",
        ),
        (
            (1.5,),
            ArgumentTypeError,
            "float is not an index\n"
            "Fix: use ints, slices, None, Ellipsis, integer tensors or masks.",
        ),
        (
            ([0.5],),
            ArgumentTypeError,
            "an index holds values of dtype float64\nFix: use integers (astype int64) or bools.",
        ),
        (
            (True,),
            ArgumentTypeError,
            "a bool is not an index\nFix: index with an int, or with a mask of the tensor's shape.",
        ),
        (
            (0, [True, False]),
            ShapeError,
            "a mask of shape [2] does not fit f32[2,3,4,5]\nIt must have the shape of the axes "
            "that it selects from, from axis 1 on.\nFix: give a mask of that shape.",
        ),
    ],
    ids=str,
)
def test_errors_of_keys(key, error, text):
    with pytest.raises(error) as caught:
        hy.asarray(WHOLE)[key]
    assert str(caught.value) == text


def test_an_index_tensor_out_of_range_raises():
    for key in [hy.asarray([0, 2]), (hy.asarray([0, 0]), hy.asarray([0, 3]))]:
        with pytest.raises(OutOfRangeError):
            hy.asarray(WHOLE)[key]


def test_a_value_that_does_not_fit_raises():
    with pytest.raises(ShapeError) as caught:
        hy.asarray(WHOLE)[0] = hy.zeros((7,))
    assert str(caught.value) == (
        "f32[7] cannot be assigned to a selection of shape [3, 4, 5]\n"
        "The value must broadcast to it.\n"
        "Fix: change the value's shape with reshape or expand_dims."
    )


def test_a_traced_mask_selects():
    found = hy.hybridize(lambda x: x[x > 0])(hy.asarray(WHOLE))
    assert found.tolist() == WHOLE[WHOLE > 0].tolist()


@pytest.mark.parametrize("truth", [True, False])
def test_a_mask_without_dimensions_takes_all_or_nothing(truth: bool) -> None:
    mask = hy.asarray(truth)
    for shape in [(), (2, 3)]:
        x, y = hy.zeros(shape), np.zeros(shape, np.float32)
        x[mask], y[truth] = hy.ones((1, *shape)), np.ones((1, *shape))
        assert x.tolist() == y.tolist()
        x[mask] = x[mask]
        assert x.tolist() == y.tolist()
        with pytest.raises(ShapeError, match="cannot be assigned"):
            x[mask] = hy.ones((2, *shape))


def test_a_mask_without_dimensions_stands_alone() -> None:
    with pytest.raises(ArgumentTypeError, match="index with the others first"):
        hy.zeros((2, 3))[0, hy.asarray(True)]


def test_a_key_of_unequal_lists() -> None:
    with pytest.raises(ArgumentError, match="lists of unequal lengths"):
        hy.ones((3, 3))[[[0], [1, 2]]]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_ranges_and_tuples_as_indices(hybridized: bool) -> None:
    def function(x, y, n):
        x[range(n), 0] = -1.0
        places = range(0, n, 2), range(n)[::2]
        return x[range(len(y)), y], x[range(n)], x[places], x[(0, 1), (1, 2)], x[range(0)]

    called = hy.hybridize(function) if hybridized else function
    for n in (3, 2, 1):
        array = np.arange(12.0).reshape(3, 4)[:, ::-1].copy()
        y = np.arange(n) + 1
        found = called(hy.asarray(array), hy.asarray(y), n)
        for got, wanted in zip(found, function(array, y, n), strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)
