"""Dtypes, tensor types, shapes and promotion."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid.core import types
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import (
    BY_NAME,
    DTYPES,
    dtype_of,
    float32,
    promote,
    promote_scalar,
    shape_of,
    tensor_type,
)
from hybrid.errors import ArgumentTypeError, DTypeError, ShapeError

# Dtypes -------------------------------------------------------------------------------------------


def test_codes_are_positions() -> None:
    assert [d.code for d in DTYPES] == list(range(len(DTYPES)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype(dtype) -> None:
    assert BY_NAME[dtype.name] is dtype
    assert types.BY_SHORT[dtype.short] is dtype
    assert str(dtype) == dtype.name and repr(dtype) == f"hybrid.{dtype.name}"
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is copy.copy(dtype) is dtype
    assert dtype.is_floating == ("float" in dtype.name)
    assert dtype.is_integer == ("int" in dtype.name)
    if dtype.numpy is not None:
        assert dtype.numpy.itemsize == dtype.itemsize and dtype.numpy.name == dtype.name


NAMES = [
    (hy.float32, hy.float32),
    ("float32", hy.float32),
    ("f32", hy.float32),
    (np.float32, hy.float32),
    (np.dtype("float32"), hy.float32),
    (np.dtype(">f4"), hy.float32),
    (float, hy.float32),
    (int, hy.int64),
    (bool, hy.bool),
    ("float", hy.float32),
    ("int", hy.int64),
    ("bool", hy.bool),
    (np.bool_, hy.bool),
    ("<i4", hy.int32),
]


@pytest.mark.parametrize(("name", "dtype"), NAMES)
def test_names_of_dtypes(name, dtype) -> None:
    assert dtype_of(name) is dtype


@pytest.mark.parametrize("name", [None, "f99", 3, object(), np.complex64, "S3", [], "m8[s]"])
def test_what_names_no_dtype(name) -> None:
    with pytest.raises(DTypeError, match="no dtype"):
        dtype_of(name)


# Tensor types -------------------------------------------------------------------------------------


def test_tensor_types_are_interned() -> None:
    a = tensor_type(hy.float32, (8, 4))
    assert a is tensor_type(hy.float32, (8, 4))
    assert a is not tensor_type(hy.float64, (8, 4)) and a is not tensor_type(hy.float32, (4, 8))
    assert a is pickle.loads(pickle.dumps(a)) is copy.deepcopy(a)
    assert a.with_shape((2,)) is tensor_type(hy.float32, (2,))
    assert a.with_dtype(hy.int32) is tensor_type(hy.int32, (8, 4))
    assert repr(a) == "f32[8,4]" and repr(tensor_type(hy.bool, ())) == "bool[]"


def test_what_a_tensor_type_knows() -> None:
    a = tensor_type(hy.float64, (2, 0, 3))
    assert (a.rank, a.size, a.nbytes, a.floating) == (3, 0, 0, True)
    b = tensor_type(hy.uint8, (2, 3))
    assert (b.rank, b.size, b.nbytes, b.floating) == (2, 6, 6, False)


def test_sizes_of_numpy_become_plain_ints() -> None:
    made = tensor_type(hy.float32, (np.int64(7), np.int32(11)))
    assert made is tensor_type(hy.float32, (7, 11))
    assert [type(n) for n in made.shape] == [int, int]


def test_an_open_type_has_symbols_among_its_sizes() -> None:
    sizes = OpenSizes()
    n = sizes.symbol("n", 37)
    found = tensor_type(float32, (n, 64))
    assert found is tensor_type(float32, (2 * n - n, 64))
    assert found is not tensor_type(float32, (37, 64))
    assert [t.is_open for t in (found, tensor_type(float32, (37, 64)))] == [True, False]
    assert (str(found), found.rank) == ("f32[n,64]", 2)
    assert [str(found.size), str(found.nbytes)] == ["64*n", "256*n"]
    assert tensor_type(float32, (n - n, 64)) is tensor_type(float32, (0, 64))
    assert sizes.conditions == {}
    with pytest.raises(ShapeError, match="negative size"):
        tensor_type(float32, (n - 64,))
    assert [str(condition) for condition in sizes.conditions.values()] == ["n < 64"]
    with pytest.raises(ShapeError, match="too large"):
        tensor_type(float32, (n, 2**31, 2**31))
    assert shape_of(n) == (n,)
    assert shape_of([n, np.int64(3)]) == (n, 3)


def test_unused_types_are_forgotten() -> None:
    made = weakref.ref(tensor_type(hy.float32, (123, 456, 7)))
    for n in range(256):  # so many are kept for a while
        tensor_type(hy.float32, (123, 456, 7, n + 8))
    gc.collect()
    assert made() is None


def test_threads_get_the_same_type() -> None:
    made: list[list] = [[] for _ in range(4)]

    def work(found: list) -> None:
        found += [tensor_type(hy.float32, (n, 98765)) for n in range(500)]

    threads = [threading.Thread(target=work, args=(found,), daemon=True) for found in made]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(a is b for other in made[1:] for a, b in zip(made[0], other, strict=True))


def test_limits() -> None:
    tensor_type(hy.float32, (1,) * 32)
    with pytest.raises(ShapeError, match="33 dimensions"):
        tensor_type(hy.float32, (1,) * 33)
    with pytest.raises(ShapeError, match=r"\[2, -1\] has a negative size"):
        tensor_type(hy.float32, (2, -1))
    tensor_type(hy.float32, (2**60,))
    for shape in ((2**60 + 1,), (0, 2**61), (2**31, 2**31, 2)):
        with pytest.raises(ShapeError, match="too large"):
            tensor_type(hy.float32, shape)


SHAPES = [
    (3, (3,)),
    (np.int64(3), (3,)),
    ((), ()),
    ([2, 3], (2, 3)),
    ((np.int32(2), 3), (2, 3)),
    (range(3), (0, 1, 2)),
    (np.array([4, 5]), (4, 5)),
]


@pytest.mark.parametrize(("given", "shape"), SHAPES)
def test_shapes(given, shape) -> None:
    found = shape_of(given)
    assert found == shape and [type(n) for n in found] == [int] * len(shape)


@pytest.mark.parametrize(
    "given", [None, "ab", 2.0, (2, "a"), (2.0,), True, (True, 2), {1: 2}.items()]
)
def test_what_is_no_shape(given) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a shape"):
        shape_of(given)


# Promotion ----------------------------------------------------------------------------------------

# The array API standard's tables, and ours across kinds: bool < integer < float.
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


@pytest.mark.parametrize("a", SIGNED + UNSIGNED)
@pytest.mark.parametrize("b", SIGNED + UNSIGNED)
def test_integers_promote_as_in_the_standard(a, b) -> None:
    left, right = BY_NAME[a], BY_NAME[b]
    if {a, b} & {"uint64"} and {a, b} & set(SIGNED):
        with pytest.raises(DTypeError, match="have no common dtype"):
            promote(left, right)
    else:
        assert promote(left, right).name == np.result_type(a, b).name


@pytest.mark.parametrize("a", FLOATS)
@pytest.mark.parametrize("b", FLOATS)
def test_floats_promote_as_in_the_standard(a, b) -> None:
    assert promote(BY_NAME[a], BY_NAME[b]).name == np.result_type(a, b).name


@pytest.mark.parametrize("wide", [*FLOATS, "bfloat16"])
@pytest.mark.parametrize("narrow", ["bool", *SIGNED, *UNSIGNED])
def test_across_kinds_the_wider_kind_wins_unchanged(narrow, wide) -> None:
    assert promote(BY_NAME[narrow], BY_NAME[wide]).name == wide
    assert promote(BY_NAME[wide], BY_NAME[narrow]).name == wide


def test_half_formats_meet_in_float32() -> None:
    assert promote(types.float16, types.bfloat16) is hy.float32


@pytest.mark.parametrize("a", DTYPES, ids=str)
@pytest.mark.parametrize("b", DTYPES, ids=str)
def test_promotion_is_symmetric_and_never_narrows(a, b) -> None:
    if a is not b and {a.kind, b.kind} == {"int", "uint"} and types.uint64 in (a, b):
        return
    found = promote(a, b)
    assert found is promote(b, a)
    assert promote(found, a) is found and promote(found, b) is found


SCALARS = [
    (hy.bool, True, hy.bool),
    (hy.bool, 1, hy.int64),
    (hy.bool, 1.0, hy.float32),
    (hy.uint8, True, hy.uint8),
    (hy.uint8, 1, hy.uint8),
    (hy.int32, 1, hy.int32),
    (hy.int32, 1.0, hy.float32),
    (hy.float64, 1, hy.float64),
    (hy.float64, 1.0, hy.float64),
]


@pytest.mark.parametrize(("dtype", "number", "out"), SCALARS)
def test_python_numbers_are_weak(dtype, number, out) -> None:
    assert promote_scalar(dtype, number) is out
