"""Templates: what a capture prints or raises, as a text of ``str.format`` and its operands.

::

    print(f"loss {loss:.3f}", step)   ->   "loss {0:.3f} {1}\\n"

A plan in this process calls Python, which makes the texts of its own objects.  A program in a file
has the template instead, where there is one: the texts of numbers and tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from inspect import isfunction
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.types import bfloat16, float16
from hybrid.eager.tensor import Tensor
from hybrid.errors import HybridError
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.ops.flow.messages import escaped, is_array, is_format
from hybrid.trace.values.traced_text import Entry, Text, marks, pieces

_OWN_TEXT = "whose class writes its own text"
_PERCENT = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[#0\- +]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?"
    r"(?P<type>[diuoxXeEfFgGsra%])"
)


@dataclass(frozen=True, slots=True)
class Message:
    """What a call says, and where: "stdout", "stderr", or "error" (it raises what it says)."""

    stream: str
    text: str
    lacks: str = ""  # why there is no such text


class NoTemplateError(Exception):
    """A text that has no template; its argument says what is in it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the values are that texts show: among the operands of the call."""

    operand: Callable[[Tensor], int | None]  # which one a tensor is
    recorded: Callable[[Tensor], bool | None]  # whether it has a history; None: the run knows


def template_of(places: Places, stream: str, make: Callable[[], str]) -> Message:
    """The template of the text, with marks, that ``make`` gives; it may raise NoTemplateError."""
    try:
        return Message(stream, _TemplateWriter(places).text(make()))
    except NoTemplateError as error:
        return Message(stream, "", str(error))


def text_of_error(error: Any) -> str:
    """The name of an exception and what it says, with marks in it."""
    kind = error if isinstance(error, type) else type(error)
    if not issubclass(kind, BaseException):
        raise NoTemplateError("an exception that is made when it is raised")
    if isinstance(error, HybridError):
        return f"{kind.__name__}: {str.__str__(str(error.what))}"
    bare = kind is error or not error.args
    told = kind.__str__ in (BaseException.__str__, KeyError.__str__, OSError.__str__)
    if isfunction(kind.__str__) or not (bare or told):
        raise NoTemplateError(f"a {kind.__name__}, {_OWN_TEXT}")
    return kind.__name__ if bare else f"{kind.__name__}: {str.__str__(str(error))}"


def _is_plain(entry: Entry) -> bool:
    """Whether a text stands in another one as it is."""
    return entry.conversion == "s" or (entry.conversion == "f" and not entry.spec)


class _TemplateWriter:
    """Writes a template of texts with marks."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def text(self, text: str) -> str:
        """The template of a ``text``."""
        made = ""
        for literal, index in pieces(str.__str__(text)):
            made += escaped(literal)
            if index is not None:
                made += self._entry(current().texts[index])
        return made

    def _entry(self, entry: Entry) -> str:
        if entry.conversion == "%":
            return self._filled(*entry.value)
        if callable(entry.conversion):
            raise NoTemplateError("a text that Python makes of it")
        if isinstance(entry.value, str):
            if _is_plain(entry):
                return self.text(entry.value)
            if entry.conversion != "r":
                raise NoTemplateError("the text of a text")
            return self._quoted(entry.value)
        return self._value(entry.value, entry.spec if entry.conversion == "f" else "")

    def _quoted(self, text: str) -> str:
        """The template of ``repr(text)``, as a KeyError says it."""
        parts = list(self._parts(text))
        literal = "".join([part for part in parts if isinstance(part, str)])
        quote = '"' if "'" in literal and '"' not in literal else "'"
        made = quote
        for part in parts:
            if isinstance(part, str):  # with a quote in front, so that repr() chooses the other one
                inner = repr('"' + part)[2:-1]
                made += escaped(inner if quote == "'" else inner.replace("\\'", "'"))
            else:
                made += self._entry(part)
        return made + quote

    def _parts(self, text: str) -> Iterator[str | Entry]:
        """The literals of ``text`` and its numbers, in whose texts ``repr`` changes nothing."""
        for literal, index in pieces(str.__str__(text)):
            yield literal
            if index is None:
                continue
            entry = current().texts[index]
            if isinstance(entry.value, str) and _is_plain(entry):
                yield from self._parts(entry.value)
                continue
            number = type(entry.value) is Number or (
                isinstance(entry.value, Tensor) and not entry.value.shape
            )
            if not number or not entry.spec.isprintable() or set(entry.spec) & set("'\"\\"):
                raise NoTemplateError("the text of a text")
            yield entry

    def _value(self, value: Any, spec: str) -> str:
        """The number in ``value`` by the format ``spec``, or its own text."""
        if type(value) is Number:
            return self._number(value.tensor, spec)
        if not isinstance(value, Tensor):
            raise NoTemplateError(f"the text of a {type(value).__name__}")
        if spec:
            return self._number(value, spec)
        if type(value).__repr__ is not Tensor.__repr__:
            raise NoTemplateError(f"a {type(value).__name__}, {_OWN_TEXT}")
        if not is_array(value.type):
            raise NoTemplateError(f"the elements of {value.type}")
        recorded = self.places.recorded(value)
        if recorded is None:
            raise NoTemplateError("a tensor that requires a gradient on some paths")
        mark = ", requires_grad=True" if recorded else ""
        return f"tensor({self._number(value, '!t')}, dtype={value.dtype.name}{mark})"

    def _number(self, tensor: Tensor, spec: str) -> str:
        at = self.places.operand(tensor)
        if at is None or tensor.dtype in (float16, bfloat16):
            raise NoTemplateError(f"a number of {tensor.type}")
        if spec in ("", "!t"):
            return f"{{{at}{spec}}}"
        if not is_format(spec):
            raise NoTemplateError(f"the format {spec!r}")
        return f"{{{at}:{spec}}}"

    # With % ----------------------------------------------------------------------------------

    def _filled(self, template: Any, values: Any) -> str:
        """The template of ``template % values``."""
        if isinstance(template, Text) or marks(template):
            raise NoTemplateError("a format that a run makes")
        items = iter(values if isinstance(values, tuple) else (values,))
        made, end = "", 0
        for found in _PERCENT.finditer(template):
            made += self._between(template, end, found.start())
            end = found.end()
            if found["type"] == "%":
                made += "%"
                continue
            made += self._conversion(found, values[found["key"]] if found["key"] else next(items))
        return made + self._between(template, end, len(template))

    def _between(self, template: str, start: int, end: int) -> str:
        """What stands between two conversions, or behind the last one."""
        if "%" in template[start:end]:
            raise NoTemplateError(f"the format {template!r}")
        return escaped(template[start:end])

    def _conversion(self, found: re.Match[str], value: Any) -> str:
        """What one conversion of ``%`` makes of ``value``."""
        whole, kind = found[0], found["type"]
        plain = not (found["flags"] or found["width"] or found["precision"])
        if not isinstance(value, (Number, Tensor, Text)):
            text = re.sub(r"\([^)]*\)", "", whole, count=1) % (value,)
            if marks(text) and not plain:  # widths are those of texts, not of marks
                raise NoTemplateError(f"the format {whole!r}")
            return self.text(text)
        if kind in "sra":
            if not plain or (isinstance(value, Text) and kind != "s"):
                raise NoTemplateError(f"the format {whole!r}")
            return self.text(value) if isinstance(value, Text) else self._value(value, "")
        dtype = value.tensor.dtype if type(value) is Number else value.dtype
        if kind in "diuoxX" and (dtype.is_floating or found["precision"]):
            raise NoTemplateError(f"the format {whole!r} of a {dtype.name}")
        flags = found["flags"]
        spec = "<" if "-" in flags else ""
        spec += "+" if "+" in flags else " " if " " in flags else ""
        spec += "#" if "#" in flags else ""
        spec += "0" if "0" in flags and "-" not in flags else ""
        spec += found["width"] or ""
        spec += f".{found['precision']}" if found["precision"] else ""
        return self._value(value, spec + ("d" if kind in "diu" else kind))
