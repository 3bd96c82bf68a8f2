"""Addresses: where something is found at each call: in an attribute, in an item of a container."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hybrid.trace.places import CONTENT
from hybrid.trace.reads import MISSING
from hybrid.trace.rewind import put_attribute

GIVEN: Any = object()  # in place of an owner: the arguments of the call, (args, kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An attribute of ``owner`` or, if its name is CONTENT, ``owner`` itself; then items."""

    owner: Any
    name: str
    keys: tuple[Any, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal for what is one place, as long as the owner lives."""
        return id(self.owner), self.name, self.keys

    def item(self, key: Any) -> Address:
        return replace(self, keys=(*self.keys, key))

    def is_same(self, other: Address) -> bool:
        """Whether both are one place."""
        return self.key == other.key

    def read(self) -> Any:
        found = self.owner if self.name == CONTENT else getattr(self.owner, self.name)
        for key in self.keys:
            found = found[key]
        return found

    def now(self) -> Any:
        """What is there, or MISSING."""
        try:
            return self.read()
        except (AttributeError, LookupError, TypeError, ValueError):  # it was another structure
            return MISSING

    def stored(self) -> Address:
        """The same place from the last object on the way that can be written to."""
        owner, name, keys = self.owner, self.name, []
        found = owner if name == CONTENT else getattr(owner, name)
        for key in self.keys:
            if isinstance(found, tuple):
                keys.append(key)
            else:
                owner, name, keys = found, CONTENT, [key]
            found = found[key]
        return Address(owner, name, tuple(keys))

    def put(self, value: Any) -> None:
        """Write to what ``stored`` gives; tuples on the way are made anew."""
        if self.name == CONTENT:
            first, *rest = self.keys
            self.owner[first] = _with_item(self.owner[first], rest, value)
        else:
            now = getattr(self.owner, self.name)
            put_attribute(self.owner, self.name, _with_item(now, self.keys, value))

    def text(self, name: Callable[[str, Any], str]) -> str:
        """The expression for it; ``name`` gives objects names that are valid there."""
        text = "given" if self.owner is GIVEN else name("owner", self.owner)
        if self.name != CONTENT:
            text += f".{self.name}"
        for key in self.keys:
            text += f"[{key if type(key) in (int, bool) else name('key', key)}]"
        return text


def _with_item(value: Any, keys: Sequence[Any], item: Any) -> Any:
    """The tuple ``value`` with another ``item`` where ``keys`` lead to."""
    if not keys:
        return item
    first, *rest = keys
    items = [_with_item(v, rest, item) if i == first else v for i, v in enumerate(value)]
    return tuple(items) if type(value) is tuple else type(value)(*items)
