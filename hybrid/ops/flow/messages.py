"""What a graph says: ordered nodes that print, and nodes that end a run with an exception.

::

    say %loss {stream="stdout", text="loss {0:.3f}\\n"}
    stop %n {at="count.py:12", text="ValueError: {0} is too many"}

A text is that of ``str.format``: ``{0:.3f}`` is what Python writes for the number in an operand of
one element, ``{0!t}`` what NumPy writes for it as an array.  C writes the same, so these nodes are
in programs where Python's own, ``py_call``, cannot be.
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
_ALL, _EDGE, _MOST_SHOWN = 1000, 3, 1 << 14  # and array_text.c
_FORMAT = re.compile(
    r"(?:(?P<fill>[^{}])?(?P<align>[<>=^]))?[-+ ]?#?(?P<zero>0)?(?P<width>\d{1,3})?"
    r"(?P<group>[,_])?(?:\.(?P<precision>\d{1,3}))?(?P<type>[bdoxXeEfFgG%])?"
)


def escaped(text: str) -> str:
    """The template of ``text``, in which nothing stands for an operand."""
    return text.replace("{", "{{").replace("}", "}}")


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


def is_array(type_: TensorType) -> bool:
    """Whether C writes arrays of ``type_`` as NumPy does: not where that shows many thousands."""
    shown = 1
    for n in type_.shape:
        shown *= 2 * _EDGE + 1 if type_.size > _ALL and n > 2 * _EDGE else n
    return _is_number(type_) and shown <= _MOST_SHOWN


def _is_number(type_: TensorType) -> bool:
    return not type_.dtype.is_floating or type_.dtype in (float32, float64)


def _check(name: str, text: str, operands: Sequence[TensorType]) -> None:
    """Raise GraphError unless C can write ``text``."""
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
        type_ = operands[int(place)]
        fits = is_array(type_) if conversion else _is_number(type_) and type_.size == 1
        if not fits:
            raise GraphError(f"{name} cannot write operand {place}, {type_}")


@op(pure=False, raises=True, differentiable=False)
def say(*operands: TensorType, text: str, stream: str = "stdout") -> tuple[TensorType, ...]:
    """Print ``text`` with the operands in it, in program order."""
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
    """``text`` with the numbers and arrays in it, as Python and NumPy write them."""
    made = ""
    for literal, place, spec, conversion in string.Formatter().parse(text):
        made += literal
        if place is not None:
            array = np.asarray(arrays[int(place)])
            if conversion == "t":
                made += np.array2string(array, separator=", ", prefix="tensor(")
            else:
                made += format(array.item(), spec or "")
    return made
