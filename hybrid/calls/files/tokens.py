"""Tokens: what a digest is made of: plain values, numbers of objects, code, names in libraries."""

from __future__ import annotations

import functools
import marshal
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hybrid.calls.files.purity import is_pure, searched
from hybrid.core.types import DType, TensorType

try:
    from _blake2 import blake2b  # without the library that hashlib loads, which takes milliseconds
except ImportError:
    from hashlib import blake2b


class Unkeepable(Exception):
    """Why a capture is not kept in a file; the text is for the author."""


def with_location(error: Unkeepable, place: str) -> Unkeepable:
    """``error``, which says where it is, innermost."""
    return error if error.args[1:] else Unkeepable(f"{place} is {error}", True)


def functions_of(member: Any) -> list[types.FunctionType]:
    """The functions that ``member`` of a class runs."""
    if type(member) is types.FunctionType:
        return [member]
    found: list[Any] = []
    if isinstance(member, (staticmethod, classmethod)):
        found = [member.__func__]
    elif isinstance(member, property):
        found = [member.fget, member.fset, member.fdel]
    elif isinstance(member, functools.cached_property):
        found = [member.func]
    return [part for part in found if isinstance(part, types.FunctionType)]


def type_of(kind: DType | TensorType) -> tuple[Any, ...]:
    """What tells it apart, as plain values."""
    return (kind.short,) if isinstance(kind, DType) else (kind.dtype.short, kind.shape)


class Tokens:
    """Tokens, and the numbers of objects among them."""

    def __init__(self) -> None:
        self.objects: list[Any] = []  # by their numbers
        self.numbers: dict[int, int] = {}  # of objects, by their ids
        self.tokens: list[tuple[Any, ...]] = []

    def value(self, value: Any) -> None:
        """Write ``value`` down; raises Unkeepable."""
        raise NotImplementedError

    @functools.cached_property
    def digest(self) -> str:
        """Hexadecimal, of 160 bits."""
        # In the version without references: those depend on what else holds a value.
        return blake2b(marshal.dumps(self.tokens, 2), digest_size=20).hexdigest()

    def say(self, *token: Any) -> None:
        """Write down a token of plain values, which are told apart bit by bit."""
        self.tokens.append(token)

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Let what is refused inside say where it is."""
        try:
            yield
        except Unkeepable as error:
            raise with_location(error, place) from None

    def number_of(self, value: Any) -> int:
        """The number of ``value``, which is an object of its own; a new one, if it has none yet."""
        number = self.numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def is_new(self, value: Any) -> bool:
        """Give ``value`` a number; or say the one that it has."""
        known = id(value) in self.numbers
        number = self.number_of(value)
        if known:
            self.say("again", number)
        return not known

    def content(self, content: bytes) -> None:
        self.say("bytes", len(content), blake2b(content, digest_size=20).digest())

    def named(self, value: Any) -> None:
        """A function or class of a library, which a name leads to."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, np.ufunc):
            module, name = "numpy", value.__name__
        owner = getattr(value, "__self__", None)
        if isinstance(owner, type) and getattr(owner, value.__name__, None) == value:
            self.value(owner)
            self.say("of class", value.__name__)
            return
        if isinstance(owner, types.ModuleType):
            module = owner.__name__
        found: Any = sys.modules.get(str(module))
        for part in str(name).split("."):
            found = getattr(found, part, None)
        if found is not value:
            raise Unkeepable(f"a {type(value).__name__} ({name}) that no name leads to")
        assert isinstance(module, str)
        if not is_pure(module, str(name)):
            raise Unkeepable(f"{module}.{name}, which may differ from process to process")
        self.say("named", module, name)

    def code(self, code: types.CodeType) -> None:
        self.say(
            "code", code.co_name, code.co_filename, code.co_firstlineno, code.co_argcount,
            code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_names,
            code.co_varnames, code.co_freevars, code.co_cellvars,
        )  # fmt: skip
        lines = code.co_linetable, getattr(code, "co_exceptiontable", b"")
        self.content(b"\0".join([code.co_code, *lines]))
        unordered = None
        for number, constant in enumerate(code.co_consts):
            if isinstance(constant, types.CodeType):
                self.code(constant)
            elif isinstance(constant, frozenset):
                unordered = set(searched(code)) if unordered is None else unordered
                items = [repr(item) for item in constant]
                self.say("set", *(sorted(items) if number in unordered else items))
            else:
                self.value(constant)
