"""dataclass and cached attributes: the standard library's, at a lower price.

The standard one compiles up to six functions for every class, which took a third of the time of
``import hybrid``.  Here the classes share them, but for ``__init__``: it is compiled for classes of
which there are more than a few objects.  Objects compare, hash, print, copy, pickle and refuse
writes as the standard ones.

``functools.cached_property`` holds a lock of the whole class while it computes (before Python
3.12): a thread that has it and waits for ``STATE`` is never served where the one that holds
``STATE`` asks another object for the same attribute.  ``cached_attribute`` holds none.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["cached_attribute", "dataclass", "field", "replace"]

UNCOMPILED = 12  # objects of a class that are made without: compiling takes as long


class _CachedAttribute:
    """What ``function`` gives for an object, computed when it is first asked for.

    Threads that ask at once may each compute it; all get the same, which was done first.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.name, self.function(instance))


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
) -> Any:
    if cls is None:
        return lambda cls: _dataclass(cls, frozen=frozen, slots=slots, eq=eq, repr=repr)
    own, documented = set(vars(cls)), cls.__doc__
    cls.__doc__ = documented or " "  # the standard one would make one, of the signature
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    made.__doc__ = documented
    methods: dict[str, Any] = {"__init__": _Init(made, frozen)}
    if repr:
        methods["__repr__"] = _repr
    if eq:
        methods |= _comparisons(made)
        methods["__hash__"] = methods["__hash__"] if frozen else None
        if "__eq__" in own and "__hash__" in own and vars(cls)["__hash__"] is None:
            own.remove("__hash__")  # Python set it for the sake of __eq__
    if frozen:
        methods |= _refusals(made)
        if slots:
            methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


class _Init:
    """Stands for ``__init__`` until that is worth compiling, or asked for by name."""

    __slots__ = ("fields", "frozen", "kind", "left", "names")

    def __init__(self, kind: type, frozen: bool) -> None:
        self.kind, self.frozen, self.left = kind, frozen, UNCOMPILED
        self.fields: tuple[Any, ...] = ()
        self.names: list[str] = []  # of the parameters

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None and self.left:
            self.left -= 1
            return partial(self._fill, instance)
        made = self._compiled()
        return made if instance is None else made.__get__(instance, owner)

    def _compiled(self) -> Any:
        made: Any = _init_of(self.kind, self.frozen)
        self.kind.__init__ = made  # type: ignore[misc]
        return made

    def _fill(self, instance: Any, /, *args: Any, **kwargs: Any) -> None:
        """What the compiled one does; it is the one to refuse arguments."""
        if not self.fields:
            self.fields = dataclasses.fields(self.kind)
            self.names = [f.name for f in self.fields if f.init]
        given = dict(zip(self.names, args, strict=False))
        fits = len(args) <= len(self.names) and given.keys().isdisjoint(kwargs)
        given |= kwargs
        if not fits or not given.keys() <= set(self.names):
            return self._compiled()(instance, *args, **kwargs)
        for f in self.fields:
            if f.name not in given:
                if f.default_factory is not MISSING:
                    given[f.name] = f.default_factory()
                elif f.init and f.default is MISSING:
                    return self._compiled()(instance, *args, **kwargs)
                elif f.init:
                    given[f.name] = f.default
        put = object.__setattr__ if self.frozen else setattr
        for f in self.fields:
            if f.name in given:
                put(instance, f.name, given[f.name])
        if hasattr(self.kind, "__post_init__"):
            instance.__post_init__()
        return None


def _init_of(kind: type, frozen: bool) -> Callable[..., None]:
    """The ``__init__`` of a class: it has the class's defaults and calls its ``__post_init__``."""
    fields = [f for f in dataclasses.fields(kind) if f.init or f.default_factory is not MISSING]
    names: dict[str, Any] = {"set_": object.__setattr__, "new_": object()}
    given, body = ["self"], []
    for f in fields:
        value = f.name
        if f.default_factory is not MISSING:
            names[f"default_{f.name}"] = f.default_factory
            if f.init:
                given.append(f"{f.name}=new_")
                value = f"default_{f.name}() if {f.name} is new_ else {f.name}"
            else:
                value = f"default_{f.name}()"
        elif f.default is not MISSING:
            names[f"default_{f.name}"] = f.default
            given.append(f"{f.name}=default_{f.name}")
        else:
            given.append(f.name)
        body.append(f"set_(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(given)}):\n " + "\n ".join(body or ["pass"])
    exec(compile(text, f"{__file__}: {kind.__qualname__}", "exec"), names)
    made = names["__init__"]
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    made.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    return made


def _comparisons(kind: type) -> dict[str, Callable[..., Any]]:
    compared = [f.name for f in dataclasses.fields(kind) if f.compare]
    hashed = [f.name for f in dataclasses.fields(kind) if (f.compare if f.hash is None else f.hash)]
    parts, hashes = _getter(compared), _getter(hashed)

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return parts(self) == parts(other)

    def __hash__(self: Any) -> int:
        return hash(hashes(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the attributes ``names`` as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _refusals(kind: type) -> dict[str, Callable[..., Any]]:
    names = frozenset([f.name for f in dataclasses.fields(kind)])

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    parts = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{self.__class__.__qualname__}({', '.join(parts)})"


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property as cached_attribute
else:
    cached_attribute, dataclass = _CachedAttribute, _dataclass
