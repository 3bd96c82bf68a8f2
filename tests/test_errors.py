"""Errors: their parts, and the full text of what the core says when it is used wrongly."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid import errors
from hybrid.core.tree import tree_map
from hybrid.core.types import BY_NAME, dtype_of, promote
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    CaptureError,
    DTypeError,
    GradientError,
    HybridError,
    Location,
    OutOfMemoryError,
    OutOfRangeError,
    RangeError,
    ShapeError,
    SharingError,
    TracedBoolError,
    TracedValueError,
    author_location,
)
from hybrid.memory import native

V = hy.asarray([1.0, 2.0, 3.0])
W = hy.ones((2, 3))
INTS = hy.asarray([1, 2])

CASES = [  # (name, call, error, text)
    (
        "dtype",
        lambda: dtype_of("f99"),
        DTypeError,
        "no dtype 'f99'\n"
        "Tensors hold bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, "
        "bfloat16, float32, float64.\n"
        "Fix: convert the values to one of these first.",
    ),
    (
        "rank",
        lambda: hy.zeros((1,) * 33),
        ShapeError,
        "a tensor of 33 dimensions was asked for\n"
        "Tensors have at most 32 dimensions.\n"
        "Fix: merge some dimensions with reshape.",
    ),
    (
        "negative size",
        lambda: hy.zeros((2, -1)),
        ShapeError,
        "shape [2, -1] has a negative size\nFix: give every dimension a size >= 0.",
    ),
    (
        "too large a shape",
        lambda: hy.zeros((2**40, 2**40)),
        ShapeError,
        "shape [1099511627776, 1099511627776] of float32 is too large\n"
        "A tensor holds fewer than 4611686018427387904 bytes.",
    ),
    (
        "shape",
        lambda: hy.zeros("ab"),
        ArgumentTypeError,
        "shape 'ab' is not a shape\nFix: give an int or a tuple of ints.",
    ),
    (
        "promotion",
        lambda: promote(BY_NAME["int64"], BY_NAME["uint64"]),
        DTypeError,
        "int64 and uint64 have no common dtype\n"
        "No integer dtype holds both.\n"
        "Fix: convert one of them with astype.",
    ),
    (
        "tree structures",
        lambda: tree_map(max, [1], (1,)),
        ArgumentTypeError,
        "the trees have different structures",
    ),
    (
        "operands",
        lambda: hy.add("a", None),
        ArgumentTypeError,
        "add does not take operands of type str, NoneType",
    ),
    (
        "not a tensor",
        lambda: hy.asarray({}),
        ArgumentTypeError,
        "dict is not a tensor\n"
        "Tensors are made of numbers, nested lists of numbers, and arrays.\n"
        "Fix: pass one of those.",
    ),
    (
        "scalar fit",
        lambda: hy.asarray(300, dtype="uint8"),
        RangeError,
        "300 does not fit uint8\nFix: use a wider dtype.",
    ),
    (
        "ragged",
        lambda: hy.asarray([[1], [1, 2]]),
        ShapeError,
        "the list is ragged\n"
        "Its items have different lengths, so it has no shape.\n"
        "Fix: pad the items to one length.",
    ),
    (
        "int too large",
        lambda: hy.asarray([2**64]),
        RangeError,
        "a number in the list does not fit int64\nFix: use floats.",
    ),
    (
        "object list",
        lambda: hy.asarray([None]),
        ArgumentTypeError,
        "the list holds something that is not a number",
    ),
    (
        "text list",
        lambda: hy.asarray(["a"]),
        ArgumentTypeError,
        "the list holds str32 values, not numbers",
    ),
    (
        "no sharing",
        lambda: hy.asarray(np.ones((2, 3)).T, copy=False),
        SharingError,
        "the array cannot be shared without a copy\n"
        "It is not contiguous, not aligned, or of another dtype.\n"
        "Fix: pass copy=None or copy=True.",
    ),
    (
        "list sharing",
        lambda: hy.asarray([1.0], copy=False),
        SharingError,
        "a list cannot be shared without a copy\nFix: pass copy=None.",
    ),
    (
        "dtype copy",
        lambda: hy.asarray(W, dtype="f64", copy=False),
        SharingError,
        "f32[2,3] as float64 cannot be shared without a copy\nFix: pass copy=None or copy=True.",
    ),
    (
        "device",
        lambda: hy.asarray(1, device="gpu"),
        ArgumentError,
        "no device 'gpu'\nFix: leave device out, or pass \"cpu\".",
    ),
    (
        "from_dlpack device",
        lambda: hy.from_dlpack(V, device="gpu"),
        ArgumentError,
        "no device 'gpu'\nFix: leave device out, or pass \"cpu\".",
    ),
    (
        "from_dlpack",
        lambda: hy.from_dlpack([1]),
        ArgumentTypeError,
        "list does not speak DLPack",
    ),
    (
        "seed",
        lambda: hy.random.seed(1.5),
        ArgumentTypeError,
        "the seed 1.5 is not an int\nFix: give any int.",
    ),
    (
        "uniform range",
        lambda: hy.random.uniform(2, 1),
        ArgumentError,
        "uniform over [2, 1)\nThe range is empty.\nFix: give low <= high.",
    ),
    (
        "uniform text",
        lambda: hy.random.uniform("a"),
        ArgumentTypeError,
        "hybrid.random.uniform does not take str\n"
        "The parameters of a distribution are plain numbers.\n"
        "Fix: scale the draws instead: low + draw * (high - low), mean + draw * std.",
    ),
    (
        "normal std",
        lambda: hy.random.normal(0, -1),
        ArgumentError,
        "a standard deviation of -1\nFix: give one >= 0.",
    ),
    (
        "integers floats",
        lambda: hy.random.integers(1.5, 3),
        ArgumentTypeError,
        "integers over [1.5, 3)\nFix: give ints.",
    ),
    (
        "integers empty",
        lambda: hy.random.integers(0),
        ArgumentError,
        "integers over [0, 0)\nThe range is empty.\nFix: give low < high.",
    ),
    (
        "integers wide",
        lambda: hy.random.integers(0, 2**32),
        ArgumentError,
        "integers over [0, 4294967296)\n"
        "A draw has 31 bits.\n"
        "Fix: give a range of at most 2**31 values.",
    ),
    (
        "bernoulli",
        lambda: hy.random.bernoulli(1.5),
        ArgumentError,
        "a probability of 1.5\nFix: give one from 0 to 1.",
    ),
    (
        "permutation",
        lambda: hy.random.permutation(-1),
        ArgumentError,
        "a permutation of -1\nFix: give an int >= 0.",
    ),
    (
        "random dtype",
        lambda: hy.random.normal(dtype=hy.int64),
        ArgumentTypeError,
        "random int64 numbers\nFix: use float32 or float64.",
    ),
    (
        "threads",
        lambda: hy.set_num_threads(0),
        ArgumentError,
        "0 is not a number of threads\nFix: give an int >= 1.",
    ),
    (
        "memory",
        lambda: native.allocate(2**50),
        OutOfMemoryError,
        "no memory for 1125899906842624 bytes\nFix: use smaller tensors, or free some first.",
    ),
    (
        "Tensor()",
        lambda: hy.Tensor([1]),
        ArgumentTypeError,
        "a Tensor is not made by calling its class\nFix: use hybrid.asarray.",
    ),
    (
        "to_device",
        lambda: V.to_device("gpu"),
        ArgumentError,
        "no device 'gpu'\nFix: leave device out, or pass \"cpu\".",
    ),
    (
        "T",
        lambda: V.T,
        ShapeError,
        "T of f32[3]\nT is for matrices.\nFix: use mT or permute_dims.",
    ),
    (
        "len",
        lambda: len(hy.asarray(1.0)),
        ArgumentTypeError,
        "a tensor of rank 0 has no length",
    ),
    (
        "iter",
        lambda: iter(hy.asarray(1.0)),
        ArgumentTypeError,
        "a tensor of rank 0 cannot be iterated over",
    ),
    (
        "item",
        lambda: V.item(),
        ArgumentError,
        "item() of f32[3]\nIt needs exactly one element.",
    ),
    (
        "bool",
        lambda: bool(V),
        ArgumentError,
        "the truth of f32[3] is ambiguous\nFix: use hybrid.any or hybrid.all.",
    ),
    (
        "index",
        lambda: [1][hy.asarray(1.0)],
        ArgumentTypeError,
        "f32[] is not an index\nOnly an integer tensor of rank 0 is one.",
    ),
    (
        "assign shape",
        lambda: hy.zeros(2).assign(V),
        ShapeError,
        "f32[3] cannot be assigned to a tensor of f32[2]\n"
        "A tensor keeps its type.\n"
        "Fix: reshape the value, or bind a new tensor to the name.",
    ),
    (
        "assign dtype",
        lambda: hy.zeros(2).assign(INTS),
        DTypeError,
        "i64[2] cannot be assigned to a tensor of f32[2]\n"
        "A tensor keeps its type.\n"
        "Fix: convert the value with astype(hybrid.float32), or bind a new tensor to the name.",
    ),
    (
        "requires_grad",
        lambda: setattr(INTS, "requires_grad", True),
        DTypeError,
        "i64[2] cannot require a gradient\nOnly float tensors can.",
    ),
    (
        "grad without",
        lambda: setattr(V, "grad", V),
        GradientError,
        "the tensor requires no gradient\nFix: set requires_grad = True.",
    ),
    (
        "grad type",
        lambda: setattr(V, "grad", W),
        ArgumentTypeError,
        "the gradient of f32[3] must be a tensor of that type",
    ),
    (
        "array copy",
        lambda: V.__array__(np.float64, copy=False),
        ArgumentError,
        "f32[3] as float64 needs a copy",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_text_of_a_message(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == text


def test_python_catches_them_by_its_own_names() -> None:
    for error, builtins in (
        (ShapeError, ValueError),
        (DTypeError, TypeError),
        (AxisError, (ValueError, IndexError)),
        (ArgumentError, ValueError),
        (ArgumentTypeError, TypeError),
        (OutOfRangeError, IndexError),
        (OutOfMemoryError, MemoryError),
        (errors.CheckpointError, ValueError),
        (errors.MissingPackageError, ImportError),
        (errors.MissingPartError, AttributeError),
        (errors.MissingKeyError, KeyError),
        (errors.NativeError, RuntimeError),
        (GradientError, RuntimeError),
        (CaptureError, RuntimeError),
        (TracedValueError, TypeError),
    ):
        assert issubclass(error, HybridError)
        names = builtins if isinstance(builtins, tuple) else (builtins,)
        assert all(issubclass(error, name) for name in names)


def test_a_message_has_up_to_four_parts() -> None:
    at = Location("model.py", 7, "y = x @ w")
    assert str(HybridError("what")) == "what"
    assert str(HybridError("what", at=at)) == "what (model.py:7)\n    7 | y = x @ w"
    full = HybridError("what", at=at, why="Why.", fix="do this")
    assert str(full) == "what (model.py:7)\n    7 | y = x @ w\nWhy.\nFix: do this."
    assert str(HybridError("what", at=Location("model.py", 7))) == "what (model.py:7)"


@pytest.mark.parametrize(
    "error",
    [
        ShapeError("what", at=Location("a.py", 1, "x"), why="Why.", fix="fix"),
        TracedBoolError("bool()", "f32[]"),
        TracedValueError("item()", "f32[]", at=Location("a.py", 1)),
    ],
)
def test_errors_travel_between_processes(error) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error) and str(other) == str(error)
        assert (other.what, other.at, other.why, other.fix) == (
            error.what,
            error.at,
            error.why,
            error.fix,
        )


def test_the_authors_line_is_the_innermost_outside_the_package() -> None:
    at = author_location()  # this very line
    assert at is not None and at.path == __file__
    assert at.text == "at = author_location()  # this very line"
