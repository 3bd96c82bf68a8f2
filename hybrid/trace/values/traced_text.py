r"""Texts of traced values: strings with marks in the place of values that a run knows.

::

    f"loss {loss:.3f}"   ->   "loss <traced f32[]\U000f0004>"

The mark stands for a text that is only known when the plan runs.  It says which entry of the
capture's ``texts`` it is by private-use characters, one a digit; ``print``, ``logging`` and
``warnings.warn`` find the marks in what they are given and write the texts in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from hybrid.core.dataclass import dataclass
from hybrid.errors import CaptureError, author_location

_DIGITS = {ord(d): chr(0xF0000 + int(d)) for d in "0123456789"}
_PLAIN = {ord(mark): chr(digit) for digit, mark in _DIGITS.items()}
_MARKS = "".join(_DIGITS.values())
_MARK = re.compile(f"<traced [^>{_MARKS}]*([{_MARKS}]+)>")
_ESCAPED = re.compile(r"<traced [^>\\]*(\\U000f000[0-9])+>")  # what ascii() makes of a mark


@dataclass(frozen=True, slots=True)
class Entry:
    """A text to come: a value, and its ``conversion`` ("s", "r" or, with ``spec``, "f").

    Or a function of it.

    A text with places in it ("%") has a template and what goes there for its value.
    """

    value: Any  # a Tensor, a Number or, with marks in it, a str
    conversion: str | Callable[[Any], str]
    spec: str = ""


class Text(str):
    """A string with marks: it formats, joins and is joined to other strings.

    What asks for its characters raises.
    """

    __slots__ = ("texts",)

    texts: list[Entry]

    def __format__(self, spec: str) -> str:
        return str.__str__(self) if not spec else str.__str__(mark(self.texts, self, "f", spec))

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return mark(self.texts, self, "r")

    def __add__(self, other: Any) -> Any:
        return _joined(self.texts, str.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return _joined(self.texts, str.__add__(other, self))

    def __mul__(self, count: Any) -> Any:
        return _joined(self.texts, str.__mul__(self, count))

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        if not _MARK.sub("", self):  # all of it is marks; what they stand for may be empty
            entries = [self.texts[index] for index in marks(self)]
            if all(
                type(entry.value) in (str, tuple, list) and isinstance(entry.conversion, str)
                for entry in entries
            ):
                self.refuse()
        return True

    def __reduce__(self) -> Any:
        self.refuse()

    def refuse(self, *_args: Any, **_named: Any) -> NoReturn:
        """Raise: its characters are needed."""
        raise CaptureError(
            "the text of a traced value was asked for",
            at=author_location(),
            why="While a function is captured its values are not known, and neither are their "
            "texts.",
            fix="print or log it, or make the text outside the hybridized function",
        )


def _method(name: str) -> Callable[..., Any]:
    """A method of a text that fills it in, or joins others with it."""

    def method(self: Text, *args: Any, **kwargs: Any) -> Any:
        return _joined(self.texts, getattr(str, name)(self, *args, **kwargs))

    return method


JOINING = frozenset({"join", "format", "format_map"})
_REFUSED = ("eq", "ne", "lt", "le", "gt", "ge", "len", "getitem", "iter", "contains", "hash")
for _name in dir(str):
    if _name in JOINING:
        setattr(Text, _name, _method(_name))
    elif not _name.startswith("_") or _name.strip("_") in _REFUSED:
        setattr(Text, _name, Text.refuse)


def _joined(texts: list[Entry], text: Any) -> Any:
    if text is NotImplemented:
        return text
    made = Text(text)
    made.texts = texts
    return made


def text_in(texts: list[Entry], text: str) -> str:
    """``text``, as a Text if there are marks in it."""
    if type(text) is not str or "<traced " not in text:
        return text
    if _ESCAPED.search(text):
        _joined(texts, text).refuse()
    return _joined(texts, text) if _MARK.search(text) else text


def mark(
    texts: list[Entry], value: Any, conversion: str | Callable[[Any], str], spec: str = ""
) -> Text:
    """The mark of a new entry in ``texts``, as a string."""
    label = "traced str"
    if not isinstance(value, (str, tuple)):
        label = describe(value)
    elif isinstance(value, Text) and _MARK.fullmatch(value):
        label = str.translate(value, dict.fromkeys(_PLAIN)).strip("<>")
    made = Text(f"<{label}{str(len(texts)).translate(_DIGITS)}>")
    texts.append(Entry(str.__str__(value) if isinstance(value, Text) else value, conversion, spec))
    made.texts = texts
    return made


def describe(value: Any) -> str:
    """The description of a traced value: ``traced f32[3]``, ``traced int``."""
    kinds = getattr(value, "kinds", None) or (getattr(value, "kind", None) or value.type,)
    return f"traced {' or '.join(map(str, kinds))}"


def marks(text: str) -> list[int]:
    """The indices of the entries that ``text`` mentions."""
    return [int(found.translate(_PLAIN)) for found in _MARK.findall(text)]


def pieces(text: str) -> Iterator[tuple[str, int | None]]:
    """Each stretch of ``text``, with the entry that its mark mentions; None behind the last."""
    end = 0
    for found in _MARK.finditer(text):
        yield text[end : found.start()], int(found.group(1).translate(_PLAIN))
        end = found.end()
    yield text[end:], None


def written(text: str, write: Callable[[int], str]) -> str:
    """``text`` with ``write`` of each entry in the place of its mark."""
    return _MARK.sub(lambda found: write(int(found.group(1).translate(_PLAIN))), text)
