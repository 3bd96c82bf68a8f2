"""Addresses: where a tensor is found at each call: in an attribute, in an item of a container."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hybrid.trace.key import CONTENT
from hybrid.trace.rewind import is_described

GIVEN: Any = object()  # in place of an owner: the arguments of the call, (args, kwargs)


@dataclass(frozen=True, slots=True)
class LeafOf:
    """In place of an owner: the leaf of a tensor among the arguments, which holds its gradient."""

    index: int  # of the tensor among the leaves of the arguments

    def guard(self) -> str:
        """The expression for whether there is one: what the tensor came from is itself."""
        return f"getattr(leaves[{self.index}], 'leaf', 0) is leaves[{self.index}].record"


def owners(leaves: Sequence[Any]) -> dict[int, LeafOf]:
    """What stands for the leaves of argument tensors, by their ids."""
    found = [(getattr(leaf, "leaf", None), LeafOf(i)) for i, leaf in enumerate(leaves)]
    return {id(leaf): owner for leaf, owner in reversed(found) if leaf is not None}


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An attribute of ``owner`` or, if its name is CONTENT, ``owner`` itself; then items."""

    owner: Any
    name: str
    keys: tuple[Any, ...] = ()

    def item(self, key: Any) -> Address:
        return replace(self, keys=(*self.keys, key))

    def seen_from(self, owners: Mapping[int, LeafOf]) -> Address:
        """The same place; where its owner is one of ``owners``, of whatever the call is given."""
        known = owners.get(id(self.owner))
        return self if known is None else replace(self, owner=known)

    def is_same(self, other: Address) -> bool:
        """Whether both are one place."""
        mine, theirs = (self.name, self.keys), (other.name, other.keys)
        return self.owner is other.owner and mine == theirs

    def holder(self, leaves: Sequence[Any]) -> Any:
        """The owner at a call of these argument ``leaves``."""
        if type(self.owner) is LeafOf:
            return getattr(leaves[self.owner.index], "leaf", None)
        return self.owner

    def read(self, leaves: Sequence[Any] = ()) -> Any:
        """What is there at such a call."""
        owner = self.holder(leaves)
        if self.name == CONTENT:
            found = owner
        elif is_described(type(owner), self.name):
            found = vars(owner).get(self.name)
        else:
            found = getattr(owner, self.name, None)
        for key in self.keys:
            found = found[key]
        return found

    def text(self, name: Callable[[str, Any], str]) -> str:
        """The expression for it; ``name`` gives objects names that are valid there."""
        if type(self.owner) is LeafOf:
            text = f"leaves[{self.owner.index}].leaf"
        else:
            text = "given" if self.owner is GIVEN else name("owner", self.owner)
        if self.name != CONTENT:
            hidden = is_described(type(self.owner), self.name)
            text += f".__dict__[{self.name!r}]" if hidden else f".{self.name}"
        for key in self.keys:
            text += f"[{key if type(key) in (int, bool) else name('key', key)}]"
        return text
