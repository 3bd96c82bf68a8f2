"""Places: read, write and name the attributes, variables and containers that Python code can write.

A place is an attribute, the content of a list, dict, set or deque, or a global name.  No code of
the author's runs.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections import deque
from collections.abc import Container, Iterable
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import base_of, stored_items, stored_pairs
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location
from hybrid.ir import Op
from hybrid.trace.places.code_owner import ATOMS, MISSING, content_of, of_package, user_object

CONTENT = "[]"  # in place of an attribute's name: all that a container holds
Key = tuple[int, str]  # of a place: the id of its owner, and its name
ANY = "*"  # in place of an attribute's name: whichever
_STORED = (types.MemberDescriptorType, types.GetSetDescriptorType)


def key_of(owner: Any, name: str) -> Key:
    """Return the key (id of the owner, name) of a place; a global is one of its namespace."""
    return id(vars(owner) if isinstance(owner, types.ModuleType) else owner), name


class DequeContent(tuple):
    """The items of a deque: unlike a list these never become a list of unknown length."""

    __slots__ = ()


def read_place(owner: Any, name: str) -> Any:
    """Return the value of a place; of a container a copy (a DequeContent, if it is a deque)."""
    if name == CONTENT:
        if isinstance(owner, dict):
            return dict(stored_pairs(owner))
        if not isinstance(owner, (list, set, deque)):
            return owner.copy()
        kind = base_of(owner)
        return (DequeContent if kind is deque else kind)(stored_items(owner))
    if type(owner) is dict:
        return owner.get(name, MISSING)
    return _attribute(owner, name)[0]


def is_own(owner: Any, name: str) -> bool:
    """Return whether a place is stored on ``owner`` itself, or nowhere."""
    return name == CONTENT or type(owner) is dict or _attribute(owner, name)[1]


def _attribute(owner: Any, name: str) -> tuple[Any, bool]:
    """Return (value of the attribute or MISSING, whether it is not the class's), past any hooks."""
    own = getattr(owner, "__dict__", {})
    if name in own:
        return own[name], True
    bases = owner.__mro__[1:] if isinstance(owner, type) else type(owner).__mro__
    for base in bases:
        member = vars(base).get(name, MISSING)
        if isinstance(member, _STORED) and not isinstance(owner, type):
            try:
                return member.__get__(owner), True
            except (AttributeError, ValueError):  # an empty cell says ValueError
                return MISSING, True
        if member is not MISSING:
            return (MISSING, True) if hasattr(type(member), "__get__") else (member, False)
    return MISSING, True


def attributes_of(owner: Any) -> set[str]:
    """Return the names of the attributes stored on ``owner`` itself."""
    names = set(getattr(owner, "__dict__", ()))
    for base in type(owner).__mro__:
        names.update(n for n, m in vars(base).items() if isinstance(m, types.MemberDescriptorType))
    names.discard("__dict__")
    return names


def write_place(owner: Any, name: str, value: Any) -> None:
    """Store ``value`` at a place, past any hooks; MISSING deletes."""
    if name == CONTENT:
        refill(owner, value)
    elif type(owner) is dict:
        if value is MISSING:
            owner.pop(name, None)
        else:
            owner[name] = value
    else:
        put_attribute(owner, name, value)


def refill(container: Any, content: Any) -> None:
    """Replace the content of ``container`` by ``content``."""
    if isinstance(container, (list, bytearray)):
        kind = list if isinstance(container, list) else bytearray
        kind.__setitem__(container, slice(None), content)
    elif isinstance(container, deque) and (uncounted := unknown_length_in(content)) is not None:
        raise CaptureError(
            "how many items a deque has depends on the value of a tensor",
            at=uncounted.at,
            why="Only a list can have a length that is known when the plan runs.",
            fix="use a list, or let the deque keep its length (maxlen, or popleft for each append)",
        )
    else:
        base = base_of(container)
        base.clear(container)
        if issubclass(base, dict):
            for key, value in content.items():
                base.__setitem__(container, key, value)
        else:
            (deque.extend if base is deque else set.update)(container, content)


def put_attributes(owner: Any, content: dict[str, Any]) -> None:
    """Replace all the attributes of ``owner`` itself by ``content``."""
    now = dict(vars(owner))
    for name in now.keys() | content.keys():
        value = content.get(name, MISSING)
        if now.get(name, MISSING) is not value:
            put_attribute(owner, name, value)


def put_attribute(owner: Any, name: str, value: Any) -> None:
    """Store ``value`` on ``owner`` itself (MISSING: delete it), past any hooks."""
    if is_described(type(owner), name):
        own = vars(owner)
        own[name] = value
        if value is MISSING:
            del own[name]
        return
    if isinstance(owner, type):
        store, remove = type.__setattr__, type.__delattr__
    elif isinstance(owner, types.ModuleType):
        store, remove = types.ModuleType.__setattr__, types.ModuleType.__delattr__
    elif isinstance(owner, threading.local):
        store, remove = threading.local.__setattr__, threading.local.__delattr__
    else:
        store, remove = object.__setattr__, object.__delattr__
    if value is MISSING:
        with contextlib.suppress(AttributeError):  # it may have gone by itself
            remove(owner, name)
    else:
        store(owner, name, value)


def is_hooked(owner: Any, name: str) -> bool:
    """Return whether setting or deleting the attribute would run the author's code."""
    hooks = (type(owner).__setattr__, type(owner).__delattr__)
    hooked = any(isinstance(h, types.FunctionType) and not of_package(h.__code__) for h in hooks)
    return hooked or is_described(type(owner), name)


def is_described(kind: type, name: str) -> bool:
    """Return whether a data descriptor of the class intercepts writes to the attribute."""
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return hasattr(type(member), "__set__") and not isinstance(member, _STORED)


def is_behind_code(owner: Any, name: str) -> bool:
    """Return whether to read the attribute that ``owner`` stores would run the author's code."""
    hook = type(owner).__getattribute__
    if isinstance(hook, types.FunctionType) and not of_package(hook.__code__):
        return name in getattr(owner, "__dict__", ())
    return is_described(type(owner), name)


def same_items(a: Any, b: Any) -> bool:
    """Return whether two containers hold the same objects, in the same order if they have one."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, DequeContent)):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
    if isinstance(a, set):
        return {(type(item), item) for item in a} == {(type(item), item) for item in b}
    return isinstance(a, dict) and list(a) == list(b) and all(a[key] is b[key] for key in a)


def label_of(owner: Any, name: str) -> str:
    """Return the name of a place for messages."""
    if name == CONTENT:
        return f"a {type(owner).__name__}"
    if type(owner) is dict:
        return name
    if isinstance(owner, types.CellType):
        return "a variable of an enclosing function"
    return f"{type(owner).__name__}.{name}"


def reachable(roots: Iterable[Any], variables: Container[int] = ()) -> dict[int, Any]:
    """Return the containers and objects that can be reached from ``roots``, by their ids.

    By the id of the dict that holds the attributes of an object it is that object.  What is in the
    cells with the ids ``variables`` does not count.
    """
    seen: dict[int, Any] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if isinstance(value, (*ATOMS, Tensor, Op, types.ModuleType)) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
            stack.extend(stored_items(value))
        elif isinstance(value, types.FunctionType):
            for cell in value.__closure__ or ():
                seen[id(cell)] = cell
                if id(cell) not in variables:
                    stack.append(content_of(cell))
            stack.extend(value.__defaults__ or ())
        elif isinstance(value, PathDependent):
            stack.append(value.value)
        elif isinstance(value, types.MethodType):
            stack += [value.__self__, value.__func__]
        elif isinstance(value, functools.partial):
            stack += [value.func, *value.args, *value.keywords.values()]
        elif not isinstance(value, type) and user_object(value):
            own = getattr(value, "__dict__", None)
            if type(own) is dict:
                seen[id(own)] = value
                stack.extend(own.values())
            for base in type(value).__mro__:
                for name, member in vars(base).items():
                    if isinstance(member, types.MemberDescriptorType):
                        stack.append(getattr(value, name, None))
    return seen


# What stands for values of which only a run knows how many or which they are ---------------------


class PathDependent:
    """Base of what stands for a ``value`` that only some paths have."""

    __slots__ = ()

    value: Any


class UnknownLengthItems:
    """Base of the object that stands in a list for items whose number only a run knows."""

    __slots__ = ()

    at: Location | None  # where the author lets it grow


def unknown_length_in(items: Iterable[Any]) -> UnknownLengthItems | None:
    """Return the first UnknownLengthItems among ``items``; None if there is none."""
    return next((item for item in items if isinstance(item, UnknownLengthItems)), None)


@dataclass(frozen=True, slots=True, eq=False)
class DivergedContent:
    """Stands in a container for a content that two paths have left different; raises if used."""

    error: CaptureError

    def __repr__(self) -> str:
        raise self.error


def refuse_diverged(container: Any) -> None:
    """Raise the error of a container whose content two paths have left different."""
    for item in container:
        if type(item) is DivergedContent:
            raise item.error


def diverged_content(owner: Any, error: CaptureError) -> DivergedContent:
    """Return a DivergedContent that raises ``error``, registered with the tracer ``owner``."""
    made = DivergedContent(error)
    owner.indefinite_values.append(made)
    return made
