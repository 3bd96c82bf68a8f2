"""Changes of ``requires_grad`` in a capture: done by the plan before anything else.

Eagerly ``x.requires_grad = True`` changes the caller's tensor.  A capture does that for as long as
it lasts; a run of its plan does it first of all, which is the same as long as nothing that shows
has been computed before.  A tensor that is no argument and has no place for gradients may only be
frozen: that of what becomes a variable is a place of its own, of which a plan knows where it is by
the argument alone.

A parameter that is always the same, and has a place for its gradient, may be *switched*: set in the
middle, and as often as the author likes, as where a GAN freezes one of its networks in turns::

    d_loss.backward()  # D requires gradients
    for p in D.parameters():
        p.requires_grad = False
    g_loss(D(G(z))).backward()  # it is frozen

The graph has the gradients of each part.  A run does not look at the switches in between: it begins
with the state that the last of them leaves, and serves calls that begin with that of the capture.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from hybrid.core.dataclass import dataclass
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir import Node
from hybrid.ir.record import AnyRecord, Leaf, gradient_leaf
from hybrid.trace.places.address import Address

Turned = tuple[int | Tensor, bool]  # argument leaf, or tensor from outside; what it is set to


@dataclass(slots=True)
class FlowFact:
    """What the author's code was told of a tensor: whether gradients flow to it.

    ``never``: and that it has never had a gradient.
    """

    tensor: Tensor
    needs: bool
    never: bool = False
    address: Address | None = None  # where each call finds it, if it may be another one

    def holds(self) -> bool:
        """Return whether that is so now."""
        tensor = self.tensor if self.address is None else self.address.read()
        return (tensor.record is not None) == self.needs and not (
            self.never and gradient_leaf(tensor) is not None
        )


class Turn(NamedTuple):
    """A tensor, what its history and its leaf were, and what it is set to."""

    tensor: Tensor
    record: AnyRecord | None
    leaf: Leaf | None
    was_frozen: bool  # whether the leaf was
    wanted: bool
    switched: bool  # in the middle of the capture, or more than once


class Turning:
    """The tensors whose ``requires_grad`` a capture has changed, with their former state."""

    def __init__(self, leaves: Sequence[Any], replaced: Container[int]) -> None:
        self.replaced = replaced  # ids of tensors from places that may hold others at other calls
        self.index_of = {
            id(t): i for i, t in reversed(list(enumerate(leaves))) if isinstance(t, Tensor)
        }
        self.before: dict[int, Turn] = {}  # by the ids of the tensors

    def turn(self, tensor: Tensor, wanted: bool, nodes: Sequence[Node], *, read: bool) -> None:
        """Note that ``tensor`` is about to be turned, behind ``nodes``, or refuse it."""
        key, leaf = id(tensor), gradient_leaf(tensor)
        lasts = key not in self.index_of and key not in self.replaced
        has_place = lasts and leaf is not None and leaf.type is tensor.type
        if key not in self.index_of and not has_place and (wanted or not lasts):
            raise refusal("a tensor from outside the call")
        before = self.before.get(key)
        switched = read or before is not None
        if switched and not has_place:
            raise refusal("a tensor that has been used before")
        if any(node.observable for node in nodes):
            raise refusal("a tensor, after what may raise or shows outside,")
        if before is not None:
            self.before[key] = before._replace(wanted=wanted, switched=True)
            return
        was_frozen = leaf is not None and leaf.frozen
        self.before[key] = Turn(
            tensor=tensor,
            record=tensor.record,
            leaf=leaf,
            was_frozen=was_frozen,
            wanted=wanted,
            switched=switched,
        )

    def turn_back(self) -> None:
        """Put back what was before; done twice it is the same."""
        for tensor, record, leaf, was_frozen, _, _ in self.before.values():
            tensor.record = record
            for name in ("leaf", "frozen_leaf"):
                if hasattr(tensor, name):
                    delattr(tensor, name)
            if leaf is not None:
                leaf.frozen = was_frozen
                setattr(tensor, "frozen_leaf" if was_frozen else "leaf", leaf)

    def turned(self) -> tuple[Turned, ...]:
        """The changes of ``requires_grad`` that runs repeat."""
        return tuple(
            [
                (self.index_of.get(key, turn.tensor), turn.wanted)
                for key, turn in self.before.items()
            ]
        )

    def switched(self) -> dict[int, Turn]:
        """Return the turns in the middle of the capture, by the ids of the tensors."""
        return {key: turn for key, turn in self.before.items() if turn.switched}


def turn(turned: Sequence[Turned], leaves: Sequence[Any]) -> None:
    """Set ``requires_grad`` of the turned tensors, with which a run on ``leaves`` begins."""
    for which, wanted in turned:
        tensor = leaves[which] if isinstance(which, int) else which
        tensor.requires_grad = wanted


def refusal(what: str) -> CaptureError:
    """The error for setting ``requires_grad`` of ``what`` where a plan cannot."""
    return CaptureError(
        f"requires_grad of {what} is set inside a hybridized function",
        at=author_location(),
        why="A plan can set it only before all else: of arguments, of parameters, or to False.",
        fix="set it outside, or at the beginning of the function; or take a variable of its own "
        "(x = x.detach() and x.requires_grad = True)",
    )
