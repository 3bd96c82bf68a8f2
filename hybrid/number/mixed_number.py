"""Mixed: a traced Python number of which only the run knows whether it is a bool, int or float.

::

    k = 1 if s > 0 else 0.5      k: an int where %s > 0 holds, else a float

It consists of a number of each kind that it may be, and of flags that tell which it is.  What is
computed with it is a choice between what is computed with each of those (see number_kinds.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from hybrid import ops
from hybrid.core.types import DType
from hybrid.eager.tensor import Tensor, leaked, refuse_leaked
from hybrid.errors import CaptureError, NeedsValue, author_location
from hybrid.ir.interpreter import current
from hybrid.number.number_arithmetic import kind_of
from hybrid.number.operators import SAMPLES
from hybrid.number.staging import CLASSES
from hybrid.number.traced_number import Number, as_number

RANK = {"bool": 0, "int": 1, "float": 2}


class Mixed(Number):
    """``parts[i]`` where the first flag that holds is ``flags[i]``; the last one where none does.

    Parts and flags are Numbers or Python numbers; there is a flag for each part but the last.
    """

    __slots__ = ("flags", "parts")

    flags: tuple[Any, ...]
    parts: tuple[Any, ...]  # of different kinds, the widest last

    def __init__(self, flags: Sequence[Any], parts: Sequence[Any]) -> None:
        self.flags, self.parts = tuple(flags), tuple(parts)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it may be."""
        return tuple([kind_of(part) for part in self.parts])

    @property
    def numbers(self) -> tuple[Any, ...]:
        """All that it consists of."""
        return (*self.flags, *self.parts)

    def of(self, numbers: Sequence[Any]) -> Mixed:
        """The same of other numbers."""
        return Mixed(numbers[: len(self.flags)], numbers[len(self.flags) :])

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The widest kind that it may be: isinstance() goes by it."""
        return kind_of(self.parts[-1])

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        self.refuse("used as if it had one kind")

    low = high = tensor  # type: ignore[assignment]

    def refuse(self, how: str, fix: str = "", kind: str = "") -> NoReturn:
        """Raise: what is about to be done needs one kind, such as ``kind``."""
        raise CaptureError(
            f"a number that is {spoken(self.kinds)} is {how}",
            at=author_location(),
            why="Which of these it is depends on the value of a tensor.",
            fix=fix or f"give it one kind on all paths, or convert it: {kind or self.kind}(k)",
        )

    def need_value(self, asked: str) -> NoReturn:
        """Raise: Python asked for the number itself."""
        for number in self.numbers:
            if type(number) is Number:
                refuse_leaked(number.tensor)
        raise NeedsValue(asked, spoken(self.kinds)[2:].strip(), self, at=author_location())

    # What it is, whichever kind it has ---------------------------------------------------------

    def truth(self) -> Tensor:
        """Whether it is true."""
        return self._selected([as_number(part).tensor != 0 for part in self.parts])

    def lifted(self, dtype: DType | None = None) -> Tensor:
        """The tensor that a Python number of this value would become under ``dtype``."""
        if dtype is not None and dtype.is_floating:  # into which each of them fits
            return self._selected([as_number(part).lifted(dtype) for part in self.parts])
        return self.each(lambda part: as_number(part).lifted(dtype))

    def _selected(self, tensors: Sequence[Tensor]) -> Tensor:
        found = tensors[-1]
        for flag, tensor in zip(reversed(self.flags), reversed(tensors[:-1]), strict=True):
            found = ops.where(as_number(flag).tensor, tensor, found)
        return found

    def each(self, function: Any) -> Any:
        """``function`` of the number, staged for each kind that it may be."""
        raise NotImplementedError  # pragma: no cover  staging/values/number_kinds.py has it

    # Its text -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        numbers = [number for number in self.numbers if type(number) is Number]
        if current().traces and not any(leaked(number.tensor) for number in numbers):
            return current().text_of(self, "r")
        return f"<traced {spoken(self.kinds)}>"

    def __format__(self, spec: str) -> str:
        fitting = [kind for kind in self.kinds if _takes(kind, spec)]
        if len(fitting) < len(self.kinds):
            self.refuse(f"formatted with {spec!r}", kind=fitting[0] if fitting else "")
        return super().__format__(spec)


def _takes(kind: str, spec: str) -> bool:
    """Whether numbers of ``kind`` are formatted with ``spec``."""
    try:
        format(SAMPLES[kind], spec)
    except ValueError:
        return False
    return True


def kinds_of(value: Any) -> tuple[str, ...]:
    """What a Python number, Number or Mixed may be."""
    return value.kinds if type(value) is Mixed else (kind_of(value),)


def union(*kinds: Collection[str]) -> tuple[str, ...]:
    """All of ``kinds``, the narrowest first."""
    return tuple(sorted({kind for some in kinds for kind in some}, key=RANK.__getitem__))


def spread(value: Any, kinds: Sequence[str]) -> list[Any]:
    """``value`` as the numbers of a Mixed of ``kinds``, with 0 in the place of what it never is."""
    mine = kinds_of(value)
    flags = dict.fromkeys(kinds, False)
    parts = {kind: CLASSES[kind](0) for kind in kinds}
    if type(value) is Mixed:
        flags |= zip(mine, (*value.flags, True), strict=True)
        parts |= zip(mine, value.parts, strict=True)
    else:
        flags[mine[0]], parts[mine[0]] = True, value
    return [*[flags[kind] for kind in kinds[:-1]], *[parts[kind] for kind in kinds]]


def spoken(kinds: Sequence[str]) -> str:
    """``an int or a float``."""
    return " or ".join("an int" if kind == "int" else f"a {kind}" for kind in kinds)
