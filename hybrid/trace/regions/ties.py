"""Ties: aliases among Python tensors while tracing, so that a write reaches all of them.

::

    y = x if c else -x  # y is x itself where c holds
    x += 10  # y += 10 there, too
    y += 1  # and so does x

Two tensors are mostly one Python object or two, for good.  Where paths meet, and around loops, a
name gets a tensor of its own that *is* another one in some runs; the tracer keeps, for each pair of
which that is so, where it is: its *ties*.  What is read stays the value that the tensor has; what
is written to one goes to every tensor tied to it, there where they are one.  ::

    two paths meet      the pair is one where it was on the path taken
    a loop              the pair is one before it, and after an iteration: a carried flag
    a branch, a body    all that is tied outside is tied inside

Lists, dicts and objects are not followed: stand_ins.py tells of those.

Flags that have to leave a region cost results of its node, so a capture begins without them: a tie
that would need one is in doubt.  Should a tensor in doubt be written, the capture is made again and
*follows* the flags (``Unfollowed``); what cannot be followed even then is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hybrid import ops
from hybrid.autodiff.presence import chosen, flag
from hybrid.core.dataclass import dataclass, field
from hybrid.core.exceptions import CaptureSignal
from hybrid.eager.frameworks.data_view import DataView
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import interpreting
from hybrid.ir.record import recording
from hybrid.number import Number
from hybrid.number.tensor_or_number import as_plain

if TYPE_CHECKING:
    from hybrid.trace.regions.merge import Merge
    from hybrid.trace.regions.tracer import Tracer


class Unfollowed(CaptureSignal):
    """The exception for a tensor whose identity was not followed: the capture starts again."""


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """The condition of a tie: always, or where the scalar ``pred`` is ``taken``, or in doubt.

    ``pred`` may be what makes the scalar once somebody asks.  With an ``error`` that is not known,
    and a write raises what this gives.
    """

    pred: Tensor | Callable[[], Tensor] | None = None
    taken: bool = True
    error: Callable[[], BaseException] | None = None

    def tensor(self, tracer: Tracer) -> Tensor:
        """The condition as a scalar of ``tracer``."""
        with interpreting(tracer), recording(False):
            if self.pred is None:
                return tracer.traced(flag(True))
            pred = self.pred if isinstance(self.pred, Tensor) else self.pred()
            return tracer.traced(pred if self.taken else ops.logical_not(pred))

    def is_same(self, other: Where | None) -> bool:
        """Whether both say the same."""
        if other is None or self.error is not other.error or self.taken is not other.taken:
            return False
        return self.pred is other.pred or (
            isinstance(self.pred, Tensor)
            and isinstance(other.pred, Tensor)
            and self.pred.content is other.pred.content
        )


ALWAYS = Where()
DOUBT = Where(error=Unfollowed)
TiedTensors = dict[int, tuple[Any, Where]]  # by id; None: in doubt, whoever it may be


class Ties:
    """The ties that a tracer knows: for each tensor the others that it may be."""

    def __init__(self) -> None:
        self._ties: dict[int, tuple[Any, TiedTensors]] = {}
        self.queried: set[int] = set()  # ids of tensors whose identity was asked for

    def tie(self, a: Any, b: Any, where: Where) -> None:
        """``a`` and ``b`` are one there."""
        if a is b:
            return
        self._ties.setdefault(id(a), (a, {}))[1][id(b)] = b, where
        if b is not None:
            self._ties.setdefault(id(b), (b, {}))[1][id(a)] = a, where

    def of(self, one: Any) -> TiedTensors:
        """The others that ``one`` may be."""
        return self._ties[id(one)][1] if id(one) in self._ties else {}

    def in_doubt(self, owns: Callable[[Any], bool]) -> Iterator[tuple[Any, Where]]:
        """The tensors that may be any other one, without those that ``owns`` accepts."""
        for one, found in list(self._ties.values()):
            if id(None) in found and not owns(one):
                yield one, found[id(None)][1]


def ties_of(tracer: Tracer | None, one: Any) -> TiedTensors:
    """The ties of ``one``, as seen from ``tracer`` and those around it."""
    found: TiedTensors = {}
    one = as_plain(one)
    while tracer is not None:
        found = {**tracer.ties.of(one), **found}
        tracer = tracer.parent
    return found


def identities(tracer: Tracer, tensor: Any) -> TiedTensors:
    """The ties of ``tensor`` and itself; empty for what is no tensor."""
    if not isinstance(tensor, Tensor):
        return {}
    tensor = as_plain(tensor)
    return {id(tensor): (tensor, ALWAYS), **ties_of(tracer, tensor)}


def write_tied(tracer: Tracer, tensor: Tensor, value: Tensor) -> None:
    """Write ``value`` to all tensors tied to ``tensor``, there where they are one."""
    found = ties_of(tracer, tensor).values()
    for _, where in found:
        if where.error is not None:
            raise where.error()
    for tied, where in found:
        with interpreting(tracer), recording(True):
            if isinstance(tied, DataView):
                tied.require_shared()
            tracer.give(tied, _seen(tracer, tied, where, value))
            if isinstance(tied, DataView):
                tied.pass_on()
    leaves = [(tied.leaf, where) for tied, where in found if getattr(tied, "leaf", None)]
    if leaves:  # where it is one of them, it goes on to require its own gradient
        tracer.give(tensor, _as_leaf(tracer, leaves, value))


def _as_leaf(tracer: Tracer, leaves: Sequence[tuple[Any, Where]], value: Tensor) -> Tensor:
    """``value``, with the history of a leaf where the tensor written to is that."""
    for leaf, where in leaves:
        if value.record is not leaf:
            given = make_tensor(value.type, value.content)
            given.record = leaf
            with interpreting(tracer), recording(True):
                value = given if where.pred is None else chosen(where.tensor(tracer), given, value)
    return value


def _seen(tracer: Tracer, tied: Tensor, where: Where, value: Tensor) -> Tensor:
    """What ``tied`` holds once ``value`` is written where it is the tensor written to."""
    leaf = getattr(tied, "leaf", None)
    if where.pred is None and leaf is None:
        return value
    given = make_tensor(value.type, value.content)
    given.record = leaf or value.record
    if where.pred is None:
        return given
    old = tracer.traced(tied)
    if given.record is leaf and old.record is leaf:  # of either a leaf, which it remains, or none
        with recording(False):
            return tracer.traced(chosen(where.tensor(tracer), given, old))
    return chosen(where.tensor(tracer), given, old)


def is_in_doubt(found: TiedTensors) -> bool:
    """Whether a tensor with these ties may be one with others that were not followed."""
    return id(None) in found or any(where.error is Unfollowed for _, where in found.values())


def is_one(tracer: Tracer, a: Tensor, b: Tensor) -> bool | Number:
    """The result of ``a is b``, traced where only a run knows it."""
    a, b = as_plain(a), as_plain(b)
    if a is b:
        return True
    here: Tracer | None = tracer
    while here is not None:
        here.ties.queried |= {id(a), id(b)}
        here = here.parent
    found = ties_of(tracer, a)
    doubt = found.get(id(None)) if is_in_doubt(ties_of(tracer, b)) else None
    _, where = found.get(id(b)) or doubt or (None, None)
    if where is None:
        return False
    if where.error is not None:
        raise where.error()
    return True if where.pred is None else Number("bool", where.tensor(tracer))


# Where two paths meet ---------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Met:
    """A tensor made where two paths meet: one of a tensor of each."""

    sides: tuple[Any, Any]  # the tensor of each path; None if there is none
    index: int  # the result that it is
    alone: int | None = None  # the path on which it matters, if it is one
    retyped: bool = False  # whether it is of another dtype than the tensor of a path
    made: Tensor | None = None

    def build(self, results: Sequence[Tensor]) -> Tensor:
        """The tensor itself: one object, however often it is asked for."""
        if self.made is None:
            result = results[self.index]
            self.made = make_tensor(result.type, result.content)
            self.made.record = result.record
        return self.made


@dataclass(slots=True)
class _Pair:
    """Two that may be one, and where that is on each path."""

    first: Met
    other: Any  # a Met, or a tensor from outside
    where: list[Where | None] = field(default_factory=lambda: [None, None])
    result: int = -1  # that says it
    known: Where | None = None

    def settle(self, merge: Merge, follows: bool) -> None:
        """Find out where it is so once the paths have met, before the node is made."""
        places = [self.first.alone]
        retyped = self.first.retyped
        if type(self.other) is Met:
            places.append(self.other.alone)
            retyped = retyped or self.other.retyped
        alone = {place for place in places if place is not None}
        if len(alone) > 1:
            return
        first, second = self.where
        if alone:
            first = second = self.where[alone.pop()]
        if first is None and second is None:
            return
        if retyped:
            self.known = Where(error=_retyped)
        elif any(w is not None and w.error is not None for w in (first, second)):
            self.known = next(w for w in (first, second) if w is not None and w.error is not None)
        elif first is ALWAYS and second is ALWAYS:
            self.known = ALWAYS
        elif first is ALWAYS and second is None:
            self.known = Where(merge.pred, True)
        elif first is None and second is ALWAYS:
            self.known = Where(merge.pred, False)
        elif not follows:
            self.known = DOUBT
        else:
            sides = (merge.first.region, merge.second.region)
            flags = []
            for region, own in zip(sides, self.where, strict=True):
                if own is not None:
                    flags.append(own.tensor(region))
                else:
                    with interpreting(region), recording(False):
                        flags.append(region.traced(flag(False)))
            self.result = merge.pair(*flags)

    def tie(self, parent: Tracer, results: Sequence[Tensor]) -> None:
        where = self.known if self.result < 0 else Where(results[self.result])
        other = self.other.made if type(self.other) is Met else self.other
        gone = other is None and type(self.other) is Met
        if where is not None and self.first.made is not None and not gone:
            parent.ties.tie(self.first.made, other, where)


def meet(merge: Merge, follows: bool) -> list[_Pair]:
    """The pairs of tensors that may be one after the paths of ``merge`` have met."""
    found: dict[tuple[Any, Any], _Pair] = {}
    order = {met: at for at, met in enumerate(merge.met.values())}
    for at, region in enumerate((merge.first.region, merge.second.region)):
        for one, where in region.ties.in_doubt(region.owns):
            region.parent.ties.tie(one, None, where)
        at_side: dict[int, list[Met]] = {}
        for met in order:
            if isinstance(met.sides[at], Tensor):
                at_side.setdefault(id(met.sides[at]), []).append(met)
        for met in order:
            for key, (tensor, where) in identities(region, met.sides[at]).items():
                for other in at_side.get(key, ()):
                    if order[met] < order[other]:
                        pair = found.setdefault((met, other), _Pair(met, other))
                        pair.where[at] = where
                if tensor is None or not region.owns(tensor):
                    found.setdefault((met, key), _Pair(met, tensor)).where[at] = where
    for pair in found.values():
        pair.settle(merge, follows)
    return list(found.values())


def _retyped() -> CaptureError:
    return CaptureError(
        "a tensor was written that may be another one, of another dtype",
        at=author_location(),
        why="Two branches bind a name to tensors of different dtypes, so it gets a tensor of the "
        "dtype of both, which cannot be the one of either.",
        fix="bind the name to a new tensor (x = x + 1), or give both branches one dtype",
    )
