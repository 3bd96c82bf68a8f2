"""Namespaces: dicts of attributes or globals that code has taken in hand, seen name by name.

::

    vars(x)["a"] = v      is    x.a = v, past any hooks
    globals()["g"]        is    g
"""

from __future__ import annotations

import types
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import ACTIVE, current


def open_namespace(found: Any, owner: Any) -> None:
    """Note that code has in hand the dict ``found`` of ``owner``; None stands for globals."""
    if type(found) is dict and ACTIVE and current().traces:
        if isinstance(owner, types.ModuleType):
            owner = None
        current().journal.reached.namespaces[id(found)] = found, owner


def namespace_of(container: Any) -> Namespace | None:
    """Return the view of a dict that code has in hand as a namespace; None for other values."""
    if type(container) is not dict or not (ACTIVE and current().traces):
        return None
    tracer = current()
    known = tracer.journal.reached.namespaces.get(id(container))
    if known is not None:
        return Namespace(container, known[1])
    owner = tracer.owner_of(container)
    return None if owner is None else Namespace(container, owner)


@dataclass(frozen=True, slots=True, eq=False)
class Namespace:
    """The view of a namespace that notes each name; of globals there is no ``owner``."""

    content: dict[str, Any]
    owner: Any

    def will_read(self, name: Any) -> None:
        """Note that what ``name`` holds is looked at."""
        if not isinstance(name, str):
            return
        if self.owner is None:
            current().journal.reached.global_(self.content, name)
        else:
            current().will_read_attribute(self.owner, name)

    def will_write(self, name: Any) -> None:
        """Note that ``name`` is about to be set or deleted."""
        if not isinstance(name, str):
            return
        if self.owner is None:
            current().will_write_global(self.content, name)
        else:
            current().will_write_attribute(self.owner, name)

    def will_list(self) -> None:
        """Note that all names are looked at; of globals they are too many."""
        if self.owner is None:
            raise CaptureError(
                "all names of globals() are looked at",
                at=author_location(),
                why="A plan would depend on every variable of the module.",
                fix="name the variables that are needed, globals()[name], or keep them in a dict "
                "of their own",
            )
        current().journal.reached.all_attributes(self.owner)

    def __getitem__(self, name: Any) -> Any:
        self.will_read(name)
        return self.content[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        self.will_write(name)
        self.content[name] = value

    def __delitem__(self, name: Any) -> None:
        self.will_write(name)
        del self.content[name]
