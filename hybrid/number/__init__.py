"""Traced Python numbers: bools, ints and floats that are only known when a plan runs."""

from hybrid.number.operators import is_plain, sample, to_bool, to_float, to_int
from hybrid.number.staging import check, guarded, host
from hybrid.number.traced import Number, as_number, number_of

__all__ = [
    "Number",
    "as_number",
    "check",
    "guarded",
    "host",
    "is_plain",
    "number_of",
    "sample",
    "to_bool",
    "to_float",
    "to_int",
]
