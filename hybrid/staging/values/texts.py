"""Texts of traced values: f-strings, ``%``, and methods of strings that are given them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.core.exceptions import is_interrupt
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.number import Number, number_of, sample
from hybrid.number.mixed_number import Mixed
from hybrid.staging.sessions.views import tracing
from hybrid.trace.values.deferred import Shown, call_deferred
from hybrid.trace.values.traced_text import JOINING, Text, mark, marks, text_in


def text(value: str) -> str:
    """An f-string as a Text, if it shows traced values; else as it is."""
    return text_in(current().texts, value) if tracing() else value


def template(value: Any) -> Any:
    """The left operand of ``%``, as a Template during a capture."""
    return Template(value) if isinstance(value, (str, bytes)) and tracing() else value


class Template:
    """A format string into which ``%`` puts values, traced ones included."""

    __slots__ = ("text",)

    def __init__(self, text: Any) -> None:
        self.text = text

    def __mod__(self, values: Any) -> Any:
        items = _items(values)
        deferred = isinstance(self.text, Text) or any(map(_is_deferred, items))
        if isinstance(self.text, bytes):
            for item in items:
                if isinstance(item, Number):
                    item.need_value("the text in a bytes object")
            return self.text % values
        if not deferred:
            return text(self.text % values)
        if not isinstance(self.text, Text):
            self._try(values)
        texts = current().texts
        return mark(texts, (self.text, _each(values, _as_now)), "%")

    def _try(self, values: Any) -> None:
        """Raise what Python raises for values of such kinds, now or for some of them later."""
        try:
            self.text % _each(values, _sample)
        except TypeError:
            for item in _items(values):
                if type(item) is Mixed:  # of another kind it may have a text
                    item.refuse("formatted with %", kind="int")
            raise
        try:
            self.text % _each(values, _hardest)
        except Exception as error:
            if is_interrupt(error):
                raise
            call_deferred(lambda template, values: template % values, self.text, values)


def _items(values: Any) -> list[Any]:
    if isinstance(values, dict):
        return list(values.values())
    return list(values) if isinstance(values, tuple) else [values]


def _each(values: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(values, dict):
        return {key: change(value) for key, value in values.items()}
    return tuple(map(change, values)) if isinstance(values, tuple) else change(values)


def _is_deferred(value: Any) -> bool:
    return isinstance(value, (Tensor, Number, Text))


def _sample(value: Any) -> Any:
    """A value of the same kind."""
    if isinstance(value, Tensor) and value.size == 1:
        value = number_of(value)
    return "" if isinstance(value, Text) else sample(value)


def _hardest(value: Any) -> Any:
    """One that has not the text of a number."""
    found = _sample(value)
    if found is value:
        return found
    return float("nan") if type(found) is float else -1 if type(found) is int else found


def _as_now(value: Any) -> Any:
    """``value``, whatever becomes of it before the text is shown."""
    plain = type(value).__repr__ is Tensor.__repr__  # else its class adds to the text
    if isinstance(value, Tensor):
        if plain or value.size == 1:
            return current().kept(value)
    elif _is_deferred(value) or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    shown, repr_text = str(value), repr(value)
    return Shown(shown, repr_text) if marks(shown) or marks(repr_text) else value


def method_of(function: Any) -> Callable[..., Any] | None:
    """The override of a method of a string that may be given texts; None for other functions."""
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, str):
        return None
    if getattr(function, "__name__", "") in JOINING:
        return lambda *args, **kwargs: text(function(*args, **kwargs))

    def method(*args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            if type(argument) is Text:
                argument.refuse()
        return function(*args, **kwargs)

    return method
