"""Exception handlers of the author's: who takes what is raised where a tensor says so.

While the body of a ``try`` or ``with`` is traced, a handler stands for what would catch there.  Its
session takes what converted code raises, and what a run finds wrong where that can be told before.
A plan does not catch exceptions: a node that may raise what else a handler would catch is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import Leaving
from hybrid.core.open_numbers import is_same
from hybrid.errors import (
    CaptureError,
    Location,
    NumberRangeError,
    OutOfRangeError,
    author_location,
    named_kind,
)
from hybrid.ir import Graph, Node, Op, Value
from hybrid.number.staging import OwnCall
from hybrid.ops.index.pick import pick, place
from hybrid.ops.index.value_sizes import true_indices

Raised = type[BaseException]

_OF_THE_PLAN = (CaptureError, NumberRangeError)
_DOES = {"try": "catches", "with": "may suppress", "for": "ends at", "call": "catches"}
_CHECKED = (pick, place)  # ops whose index a node before them has looked at


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """An exception handler in force: a ``try``, a ``with``, a ``for`` that asks for an item."""

    at: Location
    frame: int  # id of the frame that it stands in
    catches: Callable[[Raised | None], bool]  # of None: whether it catches anything at all
    resumes: Callable[[], Iterable[FrameType]] = tuple  # frames where the exception goes first
    kind: str = "try"  # "with", "for", "call"
    stop: Any = None  # the session that takes errors which are pending


def refuse_caught(
    handlers: Sequence[Handler],
    op: Op,
    operands: Sequence[Value],
    attrs: Mapping[str, Any],
    regions: Sequence[Graph],
    maker: Callable[[Value], Node | None],
    checked: Container[Node],
) -> None:
    """Raise CaptureError for a node that may raise what one of ``handlers`` would catch.

    Those that are ``checked`` do not, nor what is in them.
    """
    inner = list(_open(handlers))
    for raised, at in _raised(op, operands, attrs, regions, maker, checked):
        for kind in (None,) if raised is None else raised:
            if kind is not None and issubclass(kind, _OF_THE_PLAN):
                continue
            for handler in inner:
                if handler.catches(kind):
                    raise _caught(kind, at, handler)


def stop_for(handlers: Sequence[Handler], kind: Raised, at: Location | None) -> Any:
    """The session that takes an exception of class ``kind``, raised by converted code, if any.

    Raises CaptureError where one catches it that a capture cannot follow.
    """
    if issubclass(kind, _OF_THE_PLAN):
        return None
    for handler in _open(handlers):
        stop = handler.stop
        if stop is not None and stop.takes(kind, _frames()):
            return stop
        if handler.catches(kind):
            raise _caught(kind, at, handler)
    return None


def _open(handlers: Sequence[Handler]) -> Iterator[Handler]:
    """Those that an exception raised now may meet, from the inside out."""
    frames = set(map(id, _frames()))
    count = 0
    while count < len(frames):
        count = len(frames)
        resumed = [handler.resumes() for handler in handlers if handler.frame in frames]
        frames.update([id(frame) for each in resumed for frame in each])
    return reversed([handler for handler in handlers if handler.frame in frames])


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _raised(
    op: Op,
    operands: Sequence[Value],
    attrs: Mapping[str, Any],
    regions: Sequence[Graph],
    maker: Callable[[Value], Node | None],
    checked: Container[Node],
) -> Iterator[tuple[Sequence[Raised] | None, Location | None]]:
    """What a node may raise (None: anything), and where the author wrote what does."""
    if op.name == "py_call":
        function = attrs["function"]
        if type(function) is Leaving:
            function = function.function
        if isinstance(function, OwnCall):
            yield function.raises, function.location or author_location()
        else:
            yield None, author_location()
    elif op.raises and not is_inside(op, operands, attrs, maker):
        error = named_kind(attrs["text"]) if op.name == "stop" else op.error
        yield (error,), author_location()
    for region in regions:
        for node in region.nodes:
            if node not in checked:
                parts = node.op, node.operands, node.attributes, node.regions
                yield from _raised(*parts, lambda _value: None, checked)


def is_inside(
    op: Op,
    operands: Sequence[Value],
    attrs: Mapping[str, Any],
    maker: Callable[[Value], Node | None],
) -> bool:
    """Whether the indices of a node are those of a mask, or constants inside their axis.

    Those that have been looked at are inside, too.
    """
    if op.hosted or op.error is not OutOfRangeError:
        return False
    if op in _CHECKED:
        return True
    size = operands[0].type.shape[attrs.get("axis", -1)]
    node = maker(operands[1])
    while node is not None and node.op.name == "reshape":
        node = maker(node.operands[0])
    if node is not None and node.op is true_indices:
        return is_same(node.operands[0].type.shape, (size,))
    if node is None or node.op.name != "literal":
        return False
    found = node.attributes
    if type(found["data"]) is not bytes:  # made of sizes
        return False
    indices = np.frombuffer(found["data"], found["dtype"].numpy)
    return not indices.size or bool(-size <= indices.min() and indices.max() < size)


def _caught(kind: Raised | None, at: Location | None, handler: Handler) -> CaptureError:
    name = "an exception" if kind is None else kind.__name__
    fix = "test the condition and choose the value with if and else, or with hybrid.where"
    if handler.kind in ("try", "with"):
        fix += f"; or put the {handler.kind} around the call of the hybridized function"
    return CaptureError(
        f"{name} may be raised when the plan runs, inside a {handler.kind} that "
        f"{_DOES[handler.kind]} it",
        at=at,
        why=f"A plan does not catch exceptions. The {handler.kind}: line {handler.at.line} of "
        f"{handler.at.path}.",
        fix=fix,
    )
