"""What stands in a container for items of which only the run knows how many or which they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.errors import CaptureError, Location


class Uncounted:
    """Stands in a list for as many items as only the run knows."""

    __slots__ = ()

    at: Location | None  # where the author lets it grow


def uncounted_in(items: Iterable[Any]) -> Uncounted | None:
    """The first among ``items``."""
    return next((item for item in items if isinstance(item, Uncounted)), None)


@dataclass(frozen=True, slots=True, eq=False)
class Torn:
    """Stands in a container for all it holds, which two paths have left unlike."""

    error: CaptureError

    def __repr__(self) -> str:
        raise self.error


def refuse_torn(container: Any) -> None:
    """Raise what is to be said of a container that two paths have left unlike."""
    for item in container:
        if type(item) is Torn:
            raise item.error


def torn(owner: Any, error: CaptureError) -> Torn:
    """What stands for the content of a container, once somebody looks."""
    made = Torn(error)
    owner.indefinite_values.append(made)
    return made
