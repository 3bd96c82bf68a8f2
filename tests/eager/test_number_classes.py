"""Numbers of classes derived from int and float are numbers: members of an IntEnum, say."""

from __future__ import annotations

import enum
from typing import Any

import pytest

import hybrid as hy


class Level(enum.IntEnum):
    LOW = 2
    HIGH = 3


class Flags(enum.IntFlag):
    FIRST = 1
    SECOND = 2


class Half(float, enum.Enum):
    VALUE = 0.5


class Meters(float):
    pass


FUNCTIONS = {
    "multiply": lambda x, n: x * n,
    "reflected": lambda x, n: n - x,
    "power": lambda x, n: x**n,
    "compare": lambda x, n: x > n,
    "where": lambda x, n: hy.where(x > 0, x, n),
    "function": lambda x, n: hy.maximum(x, n),
    "tensor": lambda x, n: hy.asarray(n),
    "list": lambda x, n: hy.asarray([n, 1]),
    "full": lambda x, n: hy.full((2,), n),
}
PLAIN = {Level.HIGH: 3, Flags.SECOND: 2, Half.VALUE: 0.5, Meters(1.5): 1.5}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
@pytest.mark.parametrize("dtype", [hy.float32, hy.int64])
def test_such_a_number_is_the_plain_one(function: Any, dtype: Any) -> None:
    x = hy.asarray([1, 2, 3], dtype=dtype)
    for number, plain in PLAIN.items():
        expected = function(x, plain)
        for found in (function(x, number), hy.hybridize(lambda x, n=number: function(x, n))(x)):
            assert found.dtype is expected.dtype
            assert found.numpy().tobytes() == expected.numpy().tobytes()
