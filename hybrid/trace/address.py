"""Addresses: where a tensor is found at each call: in an attribute, in an item of a container."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hybrid.trace.key import CONTENT

GIVEN: Any = object()  # in place of an owner: the arguments of the call, (args, kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An attribute of ``owner`` or, if its name is CONTENT, ``owner`` itself; then items."""

    owner: Any
    name: str
    keys: tuple[Any, ...] = ()

    def item(self, key: Any) -> Address:
        return replace(self, keys=(*self.keys, key))

    def is_same(self, other: Address) -> bool:
        """Whether both are one place."""
        mine, theirs = (self.name, self.keys), (other.name, other.keys)
        return self.owner is other.owner and mine == theirs

    def read(self) -> Any:
        found = self.owner if self.name == CONTENT else getattr(self.owner, self.name)
        for key in self.keys:
            found = found[key]
        return found

    def text(self, name: Callable[[str, Any], str]) -> str:
        """The expression for it; ``name`` gives objects names that are valid there."""
        text = "given" if self.owner is GIVEN else name("owner", self.owner)
        if self.name != CONTENT:
            text += f".{self.name}"
        for key in self.keys:
            text += f"[{key if type(key) in (int, bool) else name('key', key)}]"
        return text
