"""What the namespace tells of itself."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import SUPPORTED
from hybrid.errors import ArgumentError, DTypeError

INFO = hy.__array_namespace_info__()


def test_limits_are_those_of_numpy() -> None:
    for dtype in SUPPORTED:
        if dtype.is_integer:
            found, limits = hy.iinfo(dtype), np.iinfo(dtype.numpy)
            assert (found.bits, found.min, found.max) == (limits.bits, limits.min, limits.max)
            assert found.dtype is dtype
        if dtype.is_floating:
            found, limits = hy.finfo(dtype), np.finfo(dtype.numpy)
            for name in ("bits", "eps", "min", "max", "smallest_normal"):
                assert getattr(found, name) == getattr(limits, name)
            assert type(found.eps) is float and found.dtype is dtype
    assert hy.finfo(hy.ones(2)).dtype is hy.float32
    assert hy.iinfo(hy.ones(2, dtype=hy.uint16)).max == 65535


def test_dtypes_by_kind() -> None:
    assert list(INFO.dtypes()) == [d.name for d in SUPPORTED]
    assert list(INFO.dtypes(kind="bool")) == ["bool"]
    assert list(INFO.dtypes(kind=("bool", "real floating"))) == ["bool", "float32", "float64"]
    assert set(INFO.dtypes(kind="integral")) == {
        d.name for d in SUPPORTED if d.kind in ("int", "uint")
    }
    assert INFO.dtypes(kind="complex floating") == {}


def test_defaults_and_devices() -> None:
    assert INFO.default_device() == "cpu" and INFO.devices() == ["cpu"]
    made = INFO.default_dtypes(device="cpu")
    assert made["real floating"] is hy.asarray(1.0).dtype
    assert made["integral"] is hy.asarray(1).dtype
    assert made["indexing"] is hy.argmax(hy.ones(2)).dtype
    assert INFO.capabilities()["max dimensions"] == 32
    assert hy.__array_api_version__ == "2024.12"


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: hy.iinfo(hy.float32), DTypeError, "iinfo of hybrid.float32"),
        (lambda: hy.finfo("int8"), DTypeError, "finfo of hybrid.int8"),
        (lambda: hy.finfo("f99"), DTypeError, "no dtype"),
        (lambda: INFO.dtypes(kind="numbers"), ArgumentError, "no kind of dtypes 'numbers'"),
        (lambda: INFO.dtypes(device="gpu"), ArgumentError, "no device 'gpu'"),
        (lambda: INFO.default_dtypes(device=0), ArgumentError, "no device 0"),
    ],
)
def test_bad_input(call, error, match) -> None:
    with pytest.raises(error, match=match):
        call()
