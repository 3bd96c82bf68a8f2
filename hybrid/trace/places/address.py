"""Addresses: an attribute of an object, and keys from there, read again at each call.

A key is that of an item of a list, tuple or dict, or an ``Attribute``.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass, field, replace
from hybrid.ir.record import gradient_leaf
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.place import CONTENT, is_behind_code, put_attribute, read_place

GIVEN: Any = object()  # in place of an owner: the arguments of the call, (args, kwargs)


@dataclass(frozen=True, slots=True)
class ArgumentLeaf:
    """The owner of an address that is the autodiff leaf of an argument tensor (its ``grad``)."""

    index: int  # of the tensor among the leaves of the arguments
    frozen: bool = False  # whether it requires no gradient, so that it may have no leaf

    def guard(self) -> str:
        """Return the expression that the argument tensor is itself a variable, unless frozen."""
        if self.frozen:
            return f"getattr(leaves[{self.index}], 'frozen_leaf', None) is not None"
        return f"getattr(leaves[{self.index}], 'leaf', 0) is leaves[{self.index}].record"


def argument_leaves(leaves: Sequence[Any]) -> dict[int, ArgumentLeaf]:
    """Return the ArgumentLeaf of each argument tensor that has an autodiff leaf, by its id."""
    found = [(gradient_leaf(leaf), i) for i, leaf in enumerate(leaves)]
    return {
        id(leaf): ArgumentLeaf(i, leaf.frozen) for leaf, i in reversed(found) if leaf is not None
    }


@dataclass(frozen=True, slots=True, eq=False)
class HeldObject:
    """The owner of an address that is the object which stands at another one as a run begins."""

    address: Address


Owners = Mapping[int, ArgumentLeaf | HeldObject]  # by the ids of what they are in a capture


@dataclass(frozen=True, slots=True)
class Attribute:
    """A key of an address: the attribute of this name that an object there stores."""

    name: str
    plain: bool = field(default=False, compare=False)  # whether to read it runs no other code

    @staticmethod
    def of(owner: Any, name: str) -> Attribute:
        """Return the key of the attribute that ``owner``, or another of its class, stores."""
        return Attribute(name, _is_spelled(name) and not is_behind_code(owner, name))

    def __repr__(self) -> str:
        return f".{self.name}"


def _is_spelled(name: str) -> bool:
    """Return whether code can spell the attribute ``name``."""
    return name.isidentifier() and not keyword.iskeyword(name)


def _step(found: Any, key: Any) -> Any:
    """Return what ``found`` holds at the ``key`` of an address."""
    return read_place(found, key.name) if type(key) is Attribute else found[key]


def keys_text(keys: Iterable[Any]) -> str:
    """Return the ``keys`` of an address as one would write them: ``['h'].mean[0]``."""
    return "".join([repr(key) if type(key) is Attribute else f"[{key!r}]" for key in keys])


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An attribute of ``owner`` (or ``owner`` itself, if the name is CONTENT) and keys."""

    owner: Any
    name: str
    keys: tuple[Any, ...] = ()

    @property
    def key(self) -> Hashable:
        """A hashable key, equal for addresses of the same place while the owner lives."""
        owner = self.owner if type(self.owner) is ArgumentLeaf else id(self.owner)
        return owner, self.name, self.keys

    def item(self, key: Any) -> Address:
        """Return the address of the item, or Attribute, ``key`` of what is at this address."""
        return Address(self.owner, self.name, (*self.keys, key))

    def seen_from(self, owners: Owners) -> Address:
        """Return the same address, with what stands for its owner if that is one of ``owners``."""
        known = owners.get(id(self.owner))
        return self if known is None else replace(self, owner=known)

    def is_same(self, other: Address) -> bool:
        """Return whether both are addresses of the same place."""
        return self.key == other.key

    def holder(self, leaves: Sequence[Any]) -> Any:
        """Return the owner of the address in a call with these argument ``leaves``."""
        if type(self.owner) is ArgumentLeaf:
            return gradient_leaf(leaves[self.owner.index])
        if type(self.owner) is HeldObject:
            return self.owner.address.read(leaves)
        return self.owner

    def read(self, leaves: Sequence[Any] = ()) -> Any:
        """Return the value at this address in a call with these argument ``leaves``."""
        owner = self.holder(leaves)
        if self.name == CONTENT:
            found = owner
        elif is_behind_code(owner, self.name):
            found = vars(owner).get(self.name)
        else:
            found = getattr(owner, self.name, None)
        for key in self.keys:
            found = _step(found, key)
        return found

    def now(self) -> Any:
        """Return the value at this address, or MISSING."""
        try:
            missing = self.name != CONTENT and not hasattr(self.owner, self.name)
            return MISSING if missing else self.read()
        except (AttributeError, LookupError, TypeError, ValueError):  # it was another structure
            return MISSING

    def stored(self) -> Address:
        """Return the address from the innermost mutable object on the way: tuple keys remain."""
        owner, name, keys = self.owner, self.name, []
        found = owner if name == CONTENT else getattr(owner, name)
        for key in self.keys:
            if isinstance(found, tuple):
                keys.append(key)
            elif type(key) is Attribute:
                owner, name, keys = found, key.name, []
            else:
                owner, name, keys = found, CONTENT, [key]
            found = _step(found, key)
        return Address(owner, name, tuple(keys))

    def put(self, value: Any) -> None:
        """Write ``value`` (MISSING deletes) at an address from ``stored``; tuples are rebuilt."""
        keys = self.keys[1:] if self.name == CONTENT else self.keys
        if keys:
            whole = replace(self, keys=self.keys[: -len(keys)])
            whole.put(_with_item(whole.read(), keys, value))
        elif self.name != CONTENT:
            put_attribute(self.owner, self.name, value)
        elif value is MISSING:
            del self.owner[self.keys[0]]
        else:
            self.owner[self.keys[0]] = value

    def text(self, name: Callable[[str, Any], str]) -> str:
        """Return the Python expression that reads this address; ``name`` binds objects to names."""
        if type(self.owner) is ArgumentLeaf:
            text = f"leaves[{self.owner.index}].leaf"
            if self.owner.frozen:
                text = f"{name('leaf_of', gradient_leaf)}(leaves[{self.owner.index}])"
        elif type(self.owner) is HeldObject:
            text = self.owner.address.text(name)
        else:
            text = "given" if self.owner is GIVEN else name("owner", self.owner)
        if self.name != CONTENT:
            plain = _is_spelled(self.name) and not is_behind_code(self.owner, self.name)
            text += f".{self.name}" if plain else f".__dict__[{self.name!r}]"
        for key in self.keys:
            if type(key) is Attribute and key.plain:
                text += f".{key.name}"
            elif type(key) is Attribute:
                text = f"{name('read_place', read_place)}({text}, {key.name!r})"
            else:
                text += f"[{key if type(key) in (int, bool) else name('key', key)}]"
        return text


def bound_name(names: dict[str, Any], prefix: str, value: Any) -> str:
    """Bind ``value`` to a new name in ``names``, and return the name."""
    name = f"{prefix}{len(names)}"
    names[name] = value
    return name


def _with_item(value: Any, keys: Sequence[Any], item: Any) -> Any:
    """Return the tuple ``value`` with ``item`` at the end of the path ``keys``."""
    if not keys:
        return item
    first, *rest = keys
    items = [_with_item(v, rest, item) if i == first else v for i, v in enumerate(value)]
    return tuple(items) if type(value) is tuple else type(value)(*items)
