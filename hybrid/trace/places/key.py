"""Key: what tells the places apart that Python code can write to."""

from __future__ import annotations

import types
from typing import Any

CONTENT = "[]"  # in place of an attribute's name: all that a container holds
Key = tuple[int, str]  # of a place: the id of its owner, and its name
ANY = "*"  # in place of an attribute's name: whichever


def key_of(owner: Any, name: str) -> Key:
    """The key of an attribute, or of a container's content; a global is one of its namespace."""
    return id(vars(owner) if isinstance(owner, types.ModuleType) else owner), name
