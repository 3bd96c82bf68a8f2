"""What modules keep of their parts: tuples of (name, part) in the order of registration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, MissingPartError
from hybrid.ops import zeros_like

T = TypeVar("T")
Entries = tuple[tuple[str, T], ...]


def including(entries: Entries[T], name: str, part: T) -> Entries[T]:
    """``entries`` with ``name`` naming ``part``: in its old place, or at the end."""
    if any(known == name for known, _ in entries):
        return tuple((known, part if known == name else old) for known, old in entries)
    return (*entries, (name, part))


def excluding(entries: Entries[T], name: str) -> Entries[T]:
    """``entries`` without ``name``."""
    return tuple((known, part) for known, part in entries if known != name)


def distinct(
    entries: Iterable[tuple[str, T]], remove_duplicate: bool = True
) -> Iterator[tuple[str, T]]:
    """``entries`` without parts that came before under another name, or all."""
    seen: set[int] = set()
    for name, part in entries:
        if id(part) not in seen or not remove_duplicate:
            seen.add(id(part))
            yield name, part


def joined(prefix: str, name: str) -> str:
    """``prefix.name``, or ``name`` at the root."""
    return f"{prefix}.{name}" if prefix else name


def part_at(root: Any, path: str, kind: str) -> Any:
    """The "module", "parameter" or "buffer" of ``root`` at a dotted path; "" is ``root``."""
    found = root
    names = path.split(".") if path else []
    for depth, name in enumerate(names, 1):
        wanted = kind if depth == len(names) else "module"
        parts = {
            "module": lambda owner: dict(owner._modules),
            "parameter": lambda owner: dict(owner._parameters),
            "buffer": lambda owner: {known: vars(owner)[known] for known in owner._buffers},
        }[wanted](found)
        if parts.get(name) is None:
            where = ".".join([type(root).__name__, *names[: depth - 1]])
            raise MissingPartError(
                f"{where} has no {wanted} {name!r}",
                fix="use one of " + ", ".join(parts) if parts else "",
            )
        found = parts[name]
    if not names and kind != "module":
        raise MissingPartError(f"a {type(root).__name__} is no {kind}", fix="give a dotted path")
    return found


def require_free(owner: Any, name: str, kind: str) -> None:
    """Raise unless ``name`` can name a new part of ``owner``."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the name of a {kind} is a str, not {name!r}")
    if not name or "." in name:
        raise ArgumentError(
            f"a {kind} cannot be called {name!r}",
            why="Names are joined with dots to the paths of state_dict().",
            fix="give a name without dots",
        )
    held = vars(owner).get(name) is not None
    if held or any(name in vars(kind) for kind in type(owner).__mro__):
        raise ArgumentError(
            f"{type(owner).__name__} has an attribute {name!r} already", fix="choose another name"
        )


def clear_grad(parameter: Tensor, set_to_none: bool) -> None:
    """Forget the gradient of ``parameter``, or replace it with zeros."""
    if set_to_none:
        parameter.grad = None
    elif parameter.grad is not None:
        parameter.grad = zeros_like(parameter)


def nested(module: Any) -> list[tuple[Any, int]]:
    """A module and all below it, each once, with how deep it is; parents come before their parts.

    A part of several is there at its deepest, behind all of them; of modules that are parts of each
    other one comes first.
    """
    depths: dict[int, int] = {}
    modules: dict[int, Any] = {}
    rest = [(module, 0)]
    while rest:
        found, depth = rest.pop()
        known = depths.get(id(found), -1)
        around = known >= 0 and depth >= len(depths)  # it is above itself
        if known < depth and not around:
            depths[id(found)], modules[id(found)] = depth, found
            rest += [(part, depth + 1) for _, part in found._modules]
    return sorted(((modules[key], depth) for key, depth in depths.items()), key=lambda row: row[1])
