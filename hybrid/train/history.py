"""History: what epochs came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class History:
    """The values of each epoch: ``history["loss"]`` is a list of its mean loss, epoch by epoch.

    ``history.epochs`` are their numbers.  Values that an epoch lacks (it went without validation)
    are None.
    """

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.history: dict[str, list[float | None]] = {}

    def add(self, epoch: int, values: Mapping[str, float]) -> None:
        """Note an epoch."""
        for name in values:
            self.history.setdefault(name, [None] * len(self.epochs))
        self.epochs.append(epoch)
        for name, column in self.history.items():
            column.append(values.get(name))

    def __getitem__(self, name: str) -> list[float | None]:
        return self.history[name]

    def __contains__(self, name: object) -> bool:
        return name in self.history

    def __iter__(self) -> Iterator[str]:
        return iter(self.history)

    def __len__(self) -> int:
        return len(self.epochs)

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers, for ``load_state_dict``."""
        columns = {name: list(column) for name, column in self.history.items()}
        return {"epochs": list(self.epochs), "history": columns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind what ``state_dict`` gave."""
        self.epochs = list(state["epochs"])
        self.history = {name: list(column) for name, column in state["history"].items()}

    def __repr__(self) -> str:
        if not self.epochs:
            return "History of no epochs"
        names = ["epoch", *self.history]
        rows = [
            [str(epoch), *[_text(column[at]) for column in self.history.values()]]
            for at, epoch in enumerate(self.epochs)
        ]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines = [zip(row, widths, strict=True) for row in [names, *rows]]
        return "\n".join(["  ".join([t.rjust(width) for t, width in line]) for line in lines])


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
