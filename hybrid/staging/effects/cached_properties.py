"""Cached properties during a capture: their first read is a store that is announced.

::

    functools.cached_property(f)    ==>    Cached(f)

Where only some paths have read one before, it is computed on the rest.
"""

from __future__ import annotations

import functools
import linecache
import types
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.errors import Location
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.sessions.views import tracing
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.values.optional import OptionalValue


class Cached(functools.cached_property):
    """A cached property with a converted function, which announces its store."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not tracing():
            return self._plainly(instance, owner)
        kept = vars(instance)
        found = kept.get(self.attrname, MISSING)
        if found is MISSING:
            made = self._computed(instance)
        elif isinstance(found, OptionalValue) and found.other is MISSING:
            made = self._completed(instance, found)
        else:
            return found
        self.__set__(instance, made)
        return made

    def __set__(self, instance: Any, value: Any) -> None:
        if tracing():
            current().will_write_attribute(instance, self.attrname)
        vars(instance)[self.attrname] = value

    def __delete__(self, instance: Any) -> None:
        if self.attrname not in vars(instance):
            raise AttributeError(self.attrname)
        if tracing():
            current().will_write_attribute(instance, self.attrname)
        del vars(instance)[self.attrname]

    def _plainly(self, instance: Any, owner: type | None) -> Any:
        if instance is not None and self.attrname in vars(instance):
            return vars(instance)[self.attrname]
        return super().__get__(instance, owner)

    def _computed(self, instance: Any) -> Any:
        return current().converted(self.func, optional=True)(instance)

    def _completed(self, instance: Any, found: OptionalValue) -> Any:
        """What some paths have computed, computed on the others."""
        known = Number("bool", found.flag)
        site = _site(self.func)
        return hyb__.ifexp(site, known, lambda: found.value, lambda: self._computed(instance))


def cached(member: functools.cached_property) -> Cached:
    """The ``Cached`` that takes the place of ``member`` in a class."""
    made = Cached(member.func)
    made.attrname, made.__doc__ = member.attrname, member.__doc__
    return made


def decorator(function: Any) -> Any:
    """The decorator to apply for ``function`` in a class that is made during a capture."""
    return Cached if function is functools.cached_property and tracing() else function


def _site(function: Any) -> Site:
    code: types.CodeType = function.__code__
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    at = Location(code.co_filename, code.co_firstlineno, line)
    return Site(kind="cached property", location=at, function=function.__qualname__)
