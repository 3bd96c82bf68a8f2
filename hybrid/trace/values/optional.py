"""Optional values: variables, items and attributes that only some paths have bound.

``UNBOUND`` stands for no value at all.  ``OptionalValue`` stands for a value on the paths where
``flag`` holds, and for ``other`` (UNBOUND, MISSING, or a constant such as None) on the rest.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from hybrid import ops
from hybrid.core.dataclass import dataclass, replace
from hybrid.errors import CaptureError, Location, author_location
from hybrid.ir.interpreter import current
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.place import PathDependent

_HEAP_TYPE = 1 << 9  # a flag of classes that Python code has made


class Unbound:
    """The type of UNBOUND."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = Unbound()


@dataclass(frozen=True, slots=True, eq=False)
class OptionalValue(PathDependent):
    """``value`` where ``flag`` (a traced bool tensor of rank 0) holds, else ``other``."""

    value: Any
    flag: Any
    other: Any
    error: Exception | None = None  # what reading it raises where it is not there
    placed: bool = True  # of a dict's item: whether it is known where among the others it stands
    at: Location | None = None  # where it became one that may be missing

    def __post_init__(self) -> None:
        if self.other is MISSING:  # whoever looks into a dict asks whether there are any
            current().indefinite_values.append(self)

    def of(self, value: Any, flag: Any) -> OptionalValue:
        """An optional value like this one, with another value and flag."""
        return replace(self, value=value, flag=flag)

    def or_nothing(self) -> Any:
        """The value, or on the other paths what changes nothing when it is added to: -0.0."""
        return ops.where(self.flag, self.value, -0.0)

    def __repr__(self) -> str:
        if self.other is not UNBOUND:
            self._refuse_look("its text is asked for")
        return f"<{self.value!r} or {self.other!r}>"

    def __eq__(self, other: object) -> bool:
        if self is not other and self.other is not UNBOUND:
            self._refuse_look("it is compared inside a container")
        return self is other

    __hash__ = object.__hash__

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse_look("it is copied")

    def __bool__(self) -> bool:
        if self.other is not UNBOUND:
            self._refuse_look("its truth is asked for")
        return True

    def _refuse_look(self, how: str) -> NoReturn:
        if self.other is MISSING:
            refuse_missing("looked into", self)
        refuse_unknown(self, how)


def is_optional(value: Any) -> bool:
    """Whether ``value`` is an item or attribute that only some paths have set."""
    return type(value) is OptionalValue and value.other is MISSING


def of_attribute(value: Any, kind: type, name: str, at: Location | None) -> Any:
    """``value``, an attribute, with the exception that reading it raises where it is absent."""
    if not is_optional(value):
        return value
    written_in_c = not kind.__flags__ & _HEAP_TYPE and kind.__module__ != "builtins"
    owner = f"{kind.__module__}.{kind.__name__}" if written_in_c else kind.__name__
    error = AttributeError(f"{owner!r} object has no attribute {name!r}")
    return replace(value, error=error, at=value.at or at)


def refuse_missing(how: str, item: OptionalValue, at: Location | None = None) -> NoReturn:
    """Raise CaptureError: an operation needs the keys of a dict that only a run knows."""
    error = item.error
    named = isinstance(error, KeyError)
    owner = "a dict" if named or error is None else "an object"
    name = f"{error.args[0]!r}" if named else "an attribute"
    place = "" if item.at is None or at is item.at else f" ({item.at})"
    if item.placed:
        what, why = "keys" if named else "attributes", f"Whether it has {name} depends"
    else:
        what, why = "order", f"Where among its keys {name} stands depends"
    raise CaptureError(
        f"{owner} is {how}, and its {what} {'is' if what == 'order' else 'are'} known only when "
        "the plan runs",
        at=at or author_location(),
        why=f"{why} on the value of a tensor{place}.",
        fix="ask for one key at a time (key in d, d[key], d.get(key, other), len(d)), or set the "
        "same keys in the same order on every path"
        if named
        else "ask for the attribute with hasattr() or getattr(), or set it on every path",
    )


def refuse_unknown(value: OptionalValue, how: str, at: Location | None = None) -> NoReturn:
    """Raise CaptureError: an operation has to know whether ``value`` is there."""
    place = "" if value.at is None else f" ({value.at})"
    raise CaptureError(
        f"a value is {value.other!r} on some paths{place}, and {how}",
        at=at or author_location(),
        why="Which of the two it is depends on the value of a tensor.",
        fix=f"test it first (`is {value.other!r}`), or let it be there on every path",
    )


def unbound_error(name: str, free: bool = False) -> NameError:
    """The exception for a read of an unbound variable, as Python words it.

    Or one of an enclosing function, if it is ``free``.
    """
    if free and sys.version_info >= (3, 11):
        text = f"cannot access free variable '{name}' where it is not associated with a value in "
        return NameError(f"{text}enclosing scope")
    if free:
        return NameError(f"free variable '{name}' referenced before assignment in enclosing scope")
    if sys.version_info >= (3, 11):
        text = f"cannot access local variable '{name}' where it is not associated with a value"
        return UnboundLocalError(text)
    return UnboundLocalError(f"local variable '{name}' referenced before assignment")
