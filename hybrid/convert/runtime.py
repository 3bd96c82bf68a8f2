"""The table ``hyb__`` of the functions that converted code calls, and the sites it hands them.

``hyb__`` has the functions under the names that templates know; a ``Site`` is what a converted
place in the author's code tells the function that it calls.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.core.imports import LateNames
from hybrid.errors import Location


class Runtime(LateNames):
    """The type of ``hyb__``: a constant of converted code, compared by identity.

    ``staging`` provides the functions: what they do is no business of conversion.
    """

    locals = staticmethod(builtins.locals)
    globals = staticmethod(builtins.globals)

    def __repr__(self) -> str:
        return "<hyb__>"


hyb__: Any = Runtime()


@dataclass(frozen=True, slots=True)
class Branch:
    """One path through a construct: its lines, and which line binds each name."""

    first: int  # line; 0 when there is nothing
    last: int
    assigned: Mapping[str, int] = field(default_factory=dict)  # name -> the line that binds it


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A construct in the source, with the facts that staging it needs; compared by identity."""

    kind: str  # "if", "while", "for", "and", "call" ...
    location: Location
    function: str  # the qualified name of the function it is in
    names: tuple[str, ...] = ()  # bound in the construct, and read after it or in another pass
    after: frozenset[str] = frozenset()  # those that are live after the construct
    # Those that an iteration of a loop, or a clause of a try, may read first.
    head: frozenset[str] = frozenset()
    rebound: frozenset[str] = frozenset()  # those bound plainly, not only by `+=` and its like
    stops: tuple[str, ...] = ()  # flags that end a loop
    yields: bool = False  # whether it contains yield or await
    branches: tuple[Branch, ...] = ()
    unbound: tuple[str, ...] = ()  # local variables that its operands read and may find unbound

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.location}>"
