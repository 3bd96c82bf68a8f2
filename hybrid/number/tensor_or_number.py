"""TensorOrNumber: what is a tensor in some runs and a Python number in others.

::

    m = 0.5 if s > 0 else x.sum()      m: 0.5 where s > 0 holds, else a tensor

It is a Tensor, which holds the value of the number where it is one, so that tensors meet it as they
would meet either.  Where Python could tell the two apart, the number is there too: what is computed
of numbers alone is a choice between both (see number_kinds.py), and so is what a run hands out.
"""

from __future__ import annotations

from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.number.mixed_number import kinds_of, spoken


class TensorOrNumber(Tensor):
    """``number`` where ``flag`` holds, else ``tensor``, which has no axes.

    ``flag`` is a bool, mostly traced, ``number`` a Python number or a Number.
    """

    __slots__ = ("flag", "number", "tensor")

    flag: Any
    number: Any
    tensor: Tensor

    def __init__(self, tensor: Tensor, flag: Any, number: Any) -> None:
        self.tensor, self.flag, self.number = tensor, flag, number

    def of(self, tensor: Tensor, flag: Any, number: Any) -> TensorOrNumber:
        """The same of other parts."""
        return TensorOrNumber(tensor, flag, number)

    @property
    def members(self) -> tuple[Tensor, Any, Any]:
        """All that it consists of, as ``of`` takes it."""
        return self.tensor, self.flag, self.number

    @property
    def flags(self) -> tuple[Any]:
        """Which of its ``parts`` it is, as a Mixed tells it."""
        return (self.flag,)

    @property
    def parts(self) -> tuple[Any, Tensor]:
        return self.number, self.tensor

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that the number may have."""
        return kinds_of(self.number)

    def refuse(self, how: str, fix: str) -> Any:
        """Raise: what is about to be done has to know which of the two it is."""
        raise CaptureError(
            f"what is a tensor or {spoken(self.kinds)} is {how}",
            at=author_location(),
            why="Which of these it is depends on the value of a tensor.",
            fix=fix,
        )


def _part(name: str) -> property:
    """What the tensor has, and keeps when somebody writes to it."""

    def get(self: TensorOrNumber) -> Any:
        return getattr(self.tensor, name)

    def put(self: TensorOrNumber, value: Any) -> None:
        setattr(self.tensor, name, value)

    return property(get, put)


for _name in ("content", "leaf", "record", "type"):
    setattr(TensorOrNumber, _name, _part(_name))


def as_plain(tensor: Any) -> Any:
    """``tensor``; of a TensorOrNumber the tensor, by which tracers know it."""
    return tensor.tensor if type(tensor) is TensorOrNumber else tensor
