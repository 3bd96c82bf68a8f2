r"""Texts: what ``str``, ``repr`` and ``format`` of traced values give during a capture.

::

    f"loss {loss:.3f}"   ->   "loss <traced f32[]\U000f0004>"

The mark stands for a text that is only known when the plan runs.  It says which entry of the
capture's ``texts`` it is by private-use characters, one a digit; ``print``, ``logging`` and
``warnings.warn`` find the marks in what they are given and write the texts in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hybrid.errors import CaptureError, author_location

_DIGITS = {ord(d): chr(0xF0000 + int(d)) for d in "0123456789"}
_PLAIN = {ord(mark): chr(digit) for digit, mark in _DIGITS.items()}
_MARKS = "".join(_DIGITS.values())
_MARK = re.compile(f"<traced [^>{_MARKS}]*([{_MARKS}]+)>")


@dataclass(frozen=True, slots=True)
class Entry:
    """One text to come: ``conversion`` ("s", "r" or, with ``spec``, "f") of a value."""

    value: Any  # a Tensor, a Number or, with marks in it, a str
    conversion: str
    spec: str = ""


class Text(str):
    """A mark, as ``str`` or ``repr`` of a traced value: it formats, and joins other strings.

    What asks for its characters raises; in a longer string they are beyond anyone's control.
    """

    __slots__ = ("texts",)

    texts: list[Entry]

    def __format__(self, spec: str) -> str:
        return str.__str__(self) if not spec else str.__str__(mark(self.texts, self, "f", spec))

    def __str__(self) -> str:
        return self

    def _refuse(self, *_args: Any) -> Any:
        raise CaptureError(
            "the text of a traced value was asked for",
            at=author_location(),
            why="While a function is captured its values are not known, and neither are their "
            "texts.",
            fix="print or log it, or make the text outside the hybridized function",
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __len__ = __getitem__ = __iter__ = __contains__ = __hash__ = _refuse  # type: ignore[assignment]


def mark(texts: list[Entry], value: Any, conversion: str, spec: str = "") -> Text:
    """The mark of a new entry in ``texts``."""
    label = str.__str__(value).strip("<>") if isinstance(value, str) else describe(value)
    label = _MARK.sub("", label.translate(dict.fromkeys(map(ord, _MARKS))))
    made = Text(f"<{label}{str(len(texts)).translate(_DIGITS)}>")
    texts.append(Entry(str.__str__(value) if isinstance(value, Text) else value, conversion, spec))
    made.texts = texts
    return made


def describe(value: Any) -> str:
    """``traced f32[3]``, ``traced int``."""
    return f"traced {getattr(value, 'kind', None) or value.type}"


def marks(text: str) -> list[int]:
    """The entries that ``text`` mentions."""
    return [int(found.translate(_PLAIN)) for found in _MARK.findall(text)]


def written(text: str, write: Callable[[int], str]) -> str:
    """``text`` with what ``write`` gives for each entry in the place of its mark."""
    return _MARK.sub(lambda found: write(int(found.group(1).translate(_PLAIN))), text)
