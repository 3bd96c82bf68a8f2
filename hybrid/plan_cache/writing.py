"""Writing: what fingerprints are made of: tokens, numbers of objects, code, names in libraries."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hybrid.plan_cache.library import is_pure, searched

try:
    from _blake2 import blake2b  # without the library that hashlib loads, which takes milliseconds
except ImportError:
    from hashlib import blake2b


class Unkeepable(Exception):
    """Why a capture is not kept in a file; the text is for the author."""


def placed(error: Unkeepable, place: str) -> Unkeepable:
    """``error``, which says where it is, innermost."""
    return error if error.args[1:] else Unkeepable(f"{place} is {error}", True)


class Writing:
    """Tokens, and the numbers of objects among them."""

    def __init__(self) -> None:
        self.objects: list[Any] = []  # by their numbers
        self.numbers: dict[int, int] = {}  # of objects, by their ids
        self.tokens: list[str] = []

    def value(self, value: Any) -> None:
        """Write ``value`` down; raises Unkeepable."""
        raise NotImplementedError

    @functools.cached_property
    def digest(self) -> str:
        """Hexadecimal, of 160 bits."""
        text = "\n".join(self.tokens)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()

    def say(self, *token: Any) -> None:
        self.tokens.append(repr(token))  # of plain values, whose text holds no line breaks

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Let what is refused inside say where it is."""
        try:
            yield
        except Unkeepable as error:
            raise placed(error, place) from None

    def is_new(self, value: Any) -> bool:
        """Give ``value``, which is an object of its own, a number; or say the one that it has."""
        number = self.numbers.get(id(value))
        if number is not None:
            self.say("again", number)
            return False
        self.numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        return True

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
