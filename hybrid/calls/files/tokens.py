"""Tokens: the plain values that a digest is made of, with numbers for objects."""

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
from hybrid.core.dataclass import cached_attribute
from hybrid.core.types import DType, TensorType

try:
    from _blake2 import blake2b  # without the library that hashlib loads, which takes milliseconds
except ImportError:
    from hashlib import blake2b


class Unkeepable(Exception):
    """Raised where a capture cannot be stored in a file; the text is for the author."""


def with_location(error: Unkeepable, place: str) -> Unkeepable:
    """Return ``error`` with ``place`` in its text, unless it names a place already."""
    return error if error.args[1:] else Unkeepable(f"{place} is {error}", True)


def functions_of(member: Any) -> list[types.FunctionType]:
    """Return the functions that access to the class member ``member`` runs."""
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
    """Return the plain values that identify a dtype or tensor type."""
    if isinstance(kind, TensorType) and kind.layout is not None:
        raise Unkeepable("ranks share some of its tensors")
    return (kind.short,) if isinstance(kind, DType) else (kind.dtype.short, kind.shape)


class Tokens:
    """A list of tokens, and the numbers of the objects that occur in them."""

    def __init__(self) -> None:
        self.objects: list[Any] = []  # by their numbers
        self.numbers: dict[int, int] = {}  # of objects, by their ids
        self.tokens: list[tuple[Any, ...]] = []

    def value(self, value: Any) -> None:
        """Add the tokens of ``value``; raises Unkeepable."""
        raise NotImplementedError

    @cached_attribute
    def digest(self) -> str:
        """The digest of all tokens: 160 bits in hexadecimal."""
        # In the version without references: those depend on what else holds a value.
        return blake2b(marshal.dumps(self.tokens, 2), digest_size=20).hexdigest()

    def say(self, *token: Any) -> None:
        """Add one token of plain values, which are compared bit by bit."""
        self.tokens.append(token)

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Add ``place`` to the text of each Unkeepable that is raised inside the block."""
        try:
            yield
        except Unkeepable as error:
            raise with_location(error, place) from None

    def number_of(self, value: Any) -> int:
        """Return the number of the object ``value``; it gets the next one if it has none."""
        number = self.numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def is_new(self, value: Any) -> bool:
        """Number ``value`` and return True; or add a token of its known number."""
        known = id(value) in self.numbers
        number = self.number_of(value)
        if known:
            self.say("again", number)
        return not known

    def content(self, content: bytes) -> None:
        """Add the token of a byte string: its length and hash."""
        self.say("bytes", len(content), blake2b(content, digest_size=20).digest())

    def named(self, value: Any) -> None:
        """Add the token of a library's function or class: its module and qualified name."""
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
        """Add the tokens of a code object, with its constants."""
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
