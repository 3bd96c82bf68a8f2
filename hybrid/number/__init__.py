"""Traced Python numbers: bools, ints and floats that are only known when a plan runs."""

from hybrid.number.number_arithmetic import choose, host_number, kind_of
from hybrid.number.operators import is_plain, sample, to_bool, to_float, to_int
from hybrid.number.slice_windows import window
from hybrid.number.staging import check, guarded, host
from hybrid.number.traced_number import Number, as_number, number_of

__all__ = [
    "Number",
    "as_number",
    "check",
    "choose",
    "guarded",
    "host",
    "host_number",
    "is_plain",
    "kind_of",
    "number_of",
    "sample",
    "to_bool",
    "to_float",
    "to_int",
    "window",
]
