"""DataView: what ``x.data`` is, the value of ``x`` without its history.

It shares the value that ``x`` held when ``data`` was read.  What is written to it in place
(``x.data.mul_(2)``, ``x.data[0] = 1``) is written to ``x``, which keeps its ``requires_grad``.
What leaves a hybridized function is a plain tensor of that value: read ``data`` again there.
"""

from __future__ import annotations

from typing import Any

from hybrid.eager.tensor import Tensor, current_content
from hybrid.errors import GradientError, author_location
from hybrid.ir.interpreter import current
from hybrid.memory.work_queue import Waiting


class DataView(Tensor):
    """The value that a cell held when its ``data`` was read."""

    __slots__ = ("owner", "seen")

    owner: Tensor
    seen: Any  # what the owner holds while its value is this one

    def assign(self, value: Any) -> Tensor:
        """Put ``value`` into this cell and into the one whose ``data`` this is."""
        self.require_shared()
        super().assign(value)
        self.pass_on()
        return self

    def require_shared(self) -> None:
        """Raise unless the owner still has the value that was read."""
        if _held(self.owner) is not self.seen:
            raise GradientError(
                f"a value read from .data ({self.type}) cannot be written in place here",
                at=author_location(),
                why="Since it was read, its tensor got another value, or a branch, a loop or a "
                "hybridized function began.",
                fix="read .data again where you write, as in x.data.mul_(2)",
            )

    def pass_on(self) -> None:
        """Give the owner the value that this cell has got."""
        _assign(self.owner, self.detach())
        self.seen = _held(self.owner)

    def __copy__(self) -> Tensor:
        return self.detach()

    def __deepcopy__(self, memo: dict) -> Tensor:
        copied = memo[id(self)] = self.detach()
        return copied

    def __reduce__(self) -> Any:
        return self.detach().__reduce__()


def view_of(owner: Tensor) -> DataView:
    """The value of ``owner`` without its history; writes in place reach ``owner``."""
    made = object.__new__(DataView)
    made.type, made.content, made.record = owner.type, current_content(owner), None
    made.owner, made.seen = owner, _held(owner)
    return made


def write_data(owner: Tensor, value: Any) -> None:
    """``owner.data = value``."""
    if isinstance(value, DataView) and value.owner is owner and _held(owner) is value.seen:
        return  # written by then: ``x.data += 1`` ends with ``x.data = x.data``
    _assign(owner, value.detach() if isinstance(value, Tensor) else value)


def _assign(owner: Tensor, value: Any) -> None:
    """Put ``value`` into ``owner``, which may require a gradient but has no history."""
    if getattr(owner, "leaf", None) is None and _traced(owner).record is not None:
        raise GradientError(
            f".data of {owner.type}, which was computed from what requires a gradient, is written",
            at=author_location(),
            why="Its history would no longer be that of its value.",
            fix="compute a new tensor, or write to x.detach()",
        )
    owner.assign(value)


def _traced(cell: Tensor) -> Tensor:
    """``cell`` as the current interpreter has it."""
    interpreter = current()
    return interpreter.traced(cell) if interpreter.traces or interpreter.batches else cell


def _held(cell: Tensor) -> Any:
    """What ``cell`` holds for the current interpreter, be it computed by now or not."""
    held = _traced(cell).content
    return held.buffer if isinstance(held, Waiting) else held
