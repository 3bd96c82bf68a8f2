"""What a layer ``takes``, and what to write where something else came.

There is one pattern or more: ``"N, in_channels, H, W | in_channels, H, W"``.  The name of an
attribute stands for its size (with a star for its sizes), capitals for any size, and ``...`` for
any number of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

_DIVIDED_BY = {
    "in_channels": "groups", "num_channels": "num_groups", "embed_dim": "num_heads",
    "d_model": "nhead",
}  # fmt: skip


_TAKEN: dict[type, str] = {}  # no attributes of the classes: captures would look at them
K = TypeVar("K", bound=type)


def takes(patterns: str) -> Callable[[K], K]:
    """A decorator of layers, and of classes that they come from: the shapes of their input."""

    def declared(kind: K) -> K:
        _TAKEN[kind] = patterns
        return kind

    return declared


def _taken(module: Any) -> str:
    return next((_TAKEN[kind] for kind in type(module).__mro__ if kind in _TAKEN), "")


class Axis(NamedTuple):
    """An axis of a pattern: its size, None for any, and the attribute that it is from."""

    text: str
    size: int | None = None
    attribute: str = ""


def _patterns(module: Any) -> list[list[Axis]]:
    text = _taken(module)
    if getattr(module, "batch_first", False):
        text = text.replace("T, N", "N, T")
    return [
        [axis for token in pattern.split(", ") for axis in _axes(module, token)]
        for pattern in text.split(" | ")
    ]


def _axes(module: Any, token: str) -> list[Axis]:
    if token == "..." or token[0].isupper():
        return [Axis(token)]
    name = token.removeprefix("*")
    found = getattr(module, name)
    sizes = found if isinstance(found, tuple) else (found,)
    return [Axis(str(size), size, name) for size in sizes]


def _aligned(pattern: Sequence[Axis], shape: Sequence[int]) -> list[tuple[Axis, int]] | None:
    """The axes of a pattern, each with the size that is there; None for another number of axes."""
    texts = [axis.text for axis in pattern]
    if "..." not in texts:
        return list(zip(pattern, shape, strict=True)) if len(pattern) == len(shape) else None
    at = texts.index("...")
    before, behind = pattern[:at], pattern[at + 1 :]
    if len(shape) < len(before) + len(behind):
        return None
    last = shape[len(shape) - len(behind) :]
    return [*zip(before, shape, strict=False), *zip(behind, last, strict=True)]


def refusal(module: Any, shape: Sequence[int]) -> tuple[str, str] | None:
    """(what ``module`` takes, what to write instead); None if it takes ``shape``, or it is unknown.

    What to write is a layer that takes it where one size alone differs.
    """
    if not _taken(module):
        return None
    patterns = _patterns(module)
    shapes = " or ".join([f"[{', '.join([axis.text for axis in one])}]" for one in patterns])
    fix, name = "change the shape of what it is given", type(module).__name__
    if name.endswith(("1d", "2d", "3d")) and not any([_aligned(p, shape) for p in patterns]):
        return shapes, f"{fix}, or use the layer for as many axes"
    for pattern in patterns:
        aligned = _aligned(pattern, shape)
        if aligned is None:
            continue
        wrong = {axis.attribute for axis, size in aligned if axis.size not in (None, size)}
        if not wrong:
            return None
        if len(wrong) == 1:
            (attribute,) = wrong
            sizes = tuple([size for axis, size in aligned if axis.attribute == attribute])
            many = isinstance(getattr(module, attribute), tuple)
            if many or _divides(module, attribute, sizes[0]):
                shown = sizes if many else sizes[0]
                fix = f"make it {name}({attribute}={shown}, ...), or {fix}"
                break
    return shapes, fix


def _divides(module: Any, name: str, size: int) -> bool:
    divisor = getattr(module, _DIVIDED_BY.get(name, ""), 1)
    return bool(size) and not size % divisor
