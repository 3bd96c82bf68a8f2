"""What a graph says: ordered nodes that print, and nodes that end a run with an exception.

::

    say %loss {stream="stdout", text="loss {0:.3f}\\n"}
    stop %n {at="count.py:12", text="ValueError: {0} is too many"}

A text is that of ``str.format``, of operands of one element: ``{0:.3f}`` is what Python writes for
the number in it, ``{0!t}`` what NumPy writes for an array of it.  C writes the same, so these nodes
are in programs where Python's own, ``py_call``, cannot be.
"""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from hybrid.core.types import TensorType, float32, float64
from hybrid.errors import GraphError, named_error
from hybrid.ir import op

STREAMS = ("stdout", "stderr")
_MOST_WIDTH, _MOST_PRECISION = 256, 100  # as in csrc/runtime/base/number_text.h
_FORMAT = re.compile(
    r"(?:(?P<fill>[^{}])?(?P<align>[<>=^]))?[-+ ]?#?(?P<zero>0)?(?P<width>\d{1,3})?"
    r"(?P<group>[,_])?(?:\.(?P<precision>\d{1,3}))?(?P<type>[bdoxXeEfFgG%])?"
)


def is_format(spec: str) -> bool:
    """Whether C knows the format specification ``spec``, which Python knows."""
    found = _FORMAT.fullmatch(spec)
    if found is None:
        return False
    filled = found["zero"] or (found["fill"] == "0" and found["align"] == "=")
    return (
        int(found["width"] or 0) <= _MOST_WIDTH
        and int(found["precision"] or 0) <= _MOST_PRECISION
        and not (found["group"] and filled)
    )


def _check(name: str, text: str, operands: Sequence[TensorType]) -> None:
    """Raise GraphError unless the numbers of ``text`` are operands of one element."""
    for i, type_ in enumerate(operands):
        supported = not type_.dtype.is_floating or type_.dtype in (float32, float64)
        if type_.size != 1 or not supported:
            raise GraphError(f"operand {i} of {name} is {type_}", fix="give one number")
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise GraphError(f"the text of {name}: {error}") from None
    for _, place, spec, conversion in parts:
        if place is None:
            continue
        if not place.isdecimal() or int(place) >= len(operands):
            raise GraphError(f"there is no operand {{{place}}} of {name}")
        if (conversion or "t") != "t" or not is_format(spec or "") or (conversion and spec):
            raise GraphError(f"{name} cannot write a number as {spec or conversion!r}")


@op(pure=False, raises=True, differentiable=False)
def say(*operands: TensorType, text: str, stream: str = "stdout") -> tuple[TensorType, ...]:
    """Print ``text`` with the operands' numbers in it, in program order."""
    _check("say", text, operands)
    if stream not in STREAMS:
        raise GraphError(f"say to {stream!r}", fix='write to "stdout" or "stderr"')
    return ()


@op(pure=False, raises=Exception, differentiable=False)
def stop(*operands: TensorType, text: str, at: str = "") -> tuple[TensorType, ...]:
    """End the run: ``text`` names an exception and what it says, ``at`` the author's line."""
    _check("stop", text, operands)
    return ()


@say.reference
def say_reference(*arrays: Any, text: str, stream: str) -> tuple[()]:
    print(written(text, arrays), end="", file=getattr(sys, stream))
    return ()


@stop.reference
def stop_reference(*arrays: Any, text: str, at: str) -> NoReturn:
    raise named_error(written(text, arrays))


def written(text: str, arrays: Sequence[Any]) -> str:
    """``text`` with the numbers in it, as Python and NumPy write them."""
    made = ""
    for literal, place, spec, conversion in string.Formatter().parse(text):
        made += literal
        if place is not None:
            array = np.asarray(arrays[int(place)])
            whole = conversion == "t"
            made += np.array2string(array) if whole else format(array.item(), spec or "")
    return made
