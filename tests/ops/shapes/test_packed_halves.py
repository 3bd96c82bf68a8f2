"""pack and unpack: what comes back, where it lies, and what is refused."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.compress.functional import pack, unpack
from hybrid.errors import ArgumentError, DTypeError, ShapeError


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 8), (2, 3, 5), (0, 4), (4, 0)])
def test_what_is_packed_comes_back(bits: int, shape: tuple[int, ...]) -> None:
    half = 1 << (bits - 1)
    draw = np.random.default_rng(0)
    for signed, low, dtype in [(True, -half, "int8"), (False, 0, "uint8")]:
        q = draw.integers(low, low + 2 * half, shape).astype(dtype)
        for function in (
            lambda x, signed=signed: unpack(pack(x, bits), x.shape[-1], bits, signed),
            hy.hybridize(lambda x, signed=signed: unpack(pack(x, bits), x.shape[-1], bits, signed)),
        ):
            found = function(hy.asarray(q))
            assert found.dtype.name == dtype
            assert np.array_equal(found.numpy(), q)


def test_the_first_lies_lowest() -> None:
    q = np.array([[1, -1, 7, -8, 3]], np.int8)
    assert pack(q).numpy().tolist() == [[0xF1, 0x87, 0x03]]
    assert pack(np.array([1, 2, 3, 0, 1], np.int32), bits=2).numpy().tolist() == [0b00111001, 1]


def test_what_cannot_be_packed() -> None:
    with pytest.raises(DTypeError, match=r"^pack cannot take f32\[3\]"):
        pack(np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match=r"^pack got bits 3"):
        pack(np.zeros(3, np.int8), bits=3)
    with pytest.raises(DTypeError, match=r"^unpack cannot take i8\[3\]"):
        unpack(np.zeros(3, np.int8), 5)
    with pytest.raises(ShapeError) as raised:
        unpack(np.zeros((2, 3), np.uint8), 7)
    assert str(raised.value) == (
        "unpack cannot take 7 integers of 4 bits out of u8[2,3]\n"
        "A byte has 2 of them.\n"
        "Fix: give the size that was packed."
    )
