"""Families: calls that differ in Python numbers alone share a plan whose inputs they are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from hybrid.planned import Planned
from hybrid.trace.signature import general_key, is_number, key_of


class Family:
    """Calls that differ in Python numbers alone, and the plans whose inputs such numbers are."""

    def __init__(self, leaves: list[Any]) -> None:
        # Of the first call; what is no number is in the key.
        self.first = [leaf if is_number(leaf) else None for leaf in leaves]
        self.plans: list[Planned] = []
        self.specific = ""  # how the numbers decide what is captured, if they do

    def differing(self, leaves: Sequence[Any]) -> frozenset[int]:
        """The positions whose numbers have not always been the same."""
        now = {
            i for i, leaf in enumerate(leaves)
            if is_number(leaf) and key_of(leaf) != key_of(self.first[i])
        }  # fmt: skip
        return frozenset(now.union(*[planned.numbers for planned in self.plans]))

    def covers(self, planned: Planned, leaves: Sequence[Any]) -> bool:
        """Whether the numbers of a call are inputs of ``planned``, or those it was made with."""
        return all(
            i in planned.numbers or not is_number(leaf) or key_of(leaf) == key_of(self.first[i])
            for i, leaf in enumerate(leaves)
        )


def family_key(key: Any, leaves: Sequence[Any]) -> Hashable:
    structure, _, *rest = key
    return (structure, tuple([general_key(leaf) for leaf in leaves]), *rest)
