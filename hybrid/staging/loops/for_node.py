"""Staging of ``for``: one loop node where the body allows it, else unrolled iterations."""

from __future__ import annotations

import operator
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.convert.runtime import Site, hyb__
from hybrid.convert.source import ends_with_code
from hybrid.core.exceptions import settle
from hybrid.core.open_numbers import is_same, size_of
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, EagerOnlyError
from hybrid.ir import Graph
from hybrid.ir.interpreter import current, interpreting
from hybrid.number import Number
from hybrid.ops.flow.control import COUNT, for_, while_
from hybrid.ops.index.pick import pick
from hybrid.staging.constructs.for_ import following
from hybrid.staging.loops.carry import Carry
from hybrid.staging.loops.item_writes import ItemWrites
from hybrid.staging.loops.loop import StagedLoop
from hybrid.staging.nodes.stop_branch import Unstopped
from hybrid.staging.sessions.session import ONE_BY_ONE, unrolled
from hybrid.staging.values.feed import Feed, even_length, finish, is_known, most_of, stream_of
from hybrid.staging.values.walks import Supplied, feed_of
from hybrid.trace.alias.row_limits import names_of
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.branch import Continued
from hybrid.trace.regions.merge import constant, number_tensor
from hybrid.trace.regions.region import truth
from hybrid.trace.values.varlist import MOST, LostItems


def staged_for(site: Site, iterable: Any) -> Any:
    """The staged session of a loop over ``iterable``; None when plain Python does."""
    feed = feed_of(iterable)
    if feed is not None and current().decides(site):
        if isinstance(feed, Supplied):
            raise EagerOnlyError(
                "a size depends on values, or changes, in a loop over what Python gives one by one",
                at=site.location,
                why="How many items there are is known only when they have been given.",
            )
        return Unrolled(site, iter(_by_path(feed)))
    if feed is None or site.yields:
        stops = site.stops or (_may_raise() and type(iter(iterable)) in _AT_HAND)
        return Unrolled(site, iter(iterable)) if stops and not site.yields else None
    if isinstance(feed, Supplied) and not (site.stops or current().opens) and feed.supply.kinds_met:
        feed.vary()
    return StagedFor(site, feed)


def _by_path(feed: Any) -> Iterator[Any]:
    """The items of ``feed``, whose number is a condition of the capture."""
    length = feed.length
    if type(length) is Number:
        length = current().decided_count(length.whole())
    for index in range(length):
        yield feed.row(index)


def _may_raise() -> bool:
    """Whether a try or with is around the loop, to which an iteration may jump."""
    return any(handler.stop is not None for handler in current().handlers)


FEW_ROWS = 64  # of a list, that are told apart
MOST_ITEMS = 64  # that are handed over one by one where something may raise


_AT_HAND = tuple([type(iter(each)) for each in ([], (), range(0), "", {}, {}.items(), {}.values())])


class Exhausted(BaseException):
    """The exception that ends an iteration which has asked for an item when there is none."""


class Unrolled(StagedLoop):
    """The session of an unrolled loop: each iteration is traced by itself.

    Once a flag that stops the loop is traced, what follows is traced in a branch.
    """

    def __init__(
        self,
        site: Site,
        items: Iterator[Any],
        why: str = ONE_BY_ONE,
        row: Callable[[Any], Any] | None = None,
    ) -> None:
        """The loop is over ``items``, or over what ``row`` makes of each, where it is used."""
        super().__init__(site)
        self.items = items
        self.why = why
        self.row = row
        self.count = 0
        self.runs_code = type(items) not in _AT_HAND
        self.is_over = False
        self._item: Any = None
        self.asks = False  # for the item, once the iteration has begun
        self.branch: Unstopped | None = None  # that the iteration is traced into
        self.continued = Continued()  # of the last iteration, for the next
        self.writes = ItemWrites()

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass."""
        names, ended = found, False
        if self.branch is not None:
            ended = self.branch.path.ended
            names = {**found, **self.leave_branch(self.branch, found)}
        else:
            names = self.left(found)
        over, flag = self.flags(names, self.parent)
        if flag is not None and not over and self.parent.decides(self.site):
            over, flag = self.decided_flags(names), None
        if over or ended or self.is_over:
            return self.stop()
        self.asks = self.runs_code and (flag is not None or self.loads)
        if not self.asks:
            try:
                self._item = following(self.site, self.items)
            except StopIteration:
                return self.stop()
        self.count += 1
        if flag is not None:
            self._refuse_end()
            self.branch = Unstopped(self, self.parent, flag, names, "in this iteration")
            before = self.branch.before
            with self.inside(self.path.region):
                seen = self.continued.enter(self.path.region, before)
            self.load({**before, **seen, **dict.fromkeys(self.site.stops, False)})
        if self.row is not None:
            with self.inside(self.parent if self.path is None else self.path.region):
                self._item = self.row(self._item)
        return True

    @property
    def item(self) -> Any:
        """The item of this iteration."""
        if self.asks:
            self.asks = False
            super().__exit__(None, None, None)  # out of the branch
            try:
                with self.inside(self.parent):
                    self._item = self._made()
            except StopIteration:
                self.is_over = True
                self.count -= 1
                raise Exhausted from None
            finally:
                super().__enter__()
                if self.branch is not None:
                    self.writes.write(self.branch.path.region)
        return self._item

    def _made(self) -> Any:
        """What the author's code makes; a run does so whether or not the loop has been left."""
        if self.branch is None:
            return following(self.site, self.items)
        begin, before = len(self.parent.builder.nodes), self.parent.abort_effects.state(self.parent)
        try:
            with self.writes.apart(self.parent):
                item = following(self.site, self.items)
        except StopIteration:
            self._refuse_effects(begin, before)
            raise
        self._refuse_effects(begin, before)
        return item

    def _refuse_end(self) -> None:
        """Refuse a generator that Python would close where the loop is left, if that runs code."""
        if isinstance(self.items, types.GeneratorType) and ends_with_code(self.items.gi_code):
            raise CaptureError(
                "a loop that the value of a tensor may end goes over a generator whose yields are "
                "in a finally or with",
                at=self.site.location,
                why="That ends as soon as the loop is left, and in which iteration that is only "
                "the run knows.",
                fix="make a list of the items first (for item in list(...))",
            )

    def _refuse_effects(self, begin: int, before: list[Any]) -> None:
        now = self.parent.abort_effects.state(self.parent)
        effects = [n.location for n in self.parent.builder.nodes[begin:] if not n.pure]
        written = len(now) != len(before) or any(map(operator.is_not, now, before))
        if effects or written:
            raise CaptureError(
                "what this loop goes over does more than to compute its next item",
                at=effects[0] if effects else self.site.location,
                why="Whether the loop has been left is known only when the plan runs, and the next "
                "item is made before that is looked at.",
                fix="make a list of the items first (for item in list(...))",
            )

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, Exhausted) and self.is_over:
            super().__exit__(None, None, None)
            return True
        return super().__exit__(kind, error, trace)

    def leave_branch(self, branch: Unstopped, found: Mapping[str, Any]) -> Mapping[str, Any]:
        self.continued = Continued()
        self.writes.end()
        names = branch.leave(self.snapshot(found), branch.before, "without it", self.continued)
        self.branch = None
        self.writes.settle()
        self.load(names)
        return names

    def stop(self) -> bool:
        self.items = iter(())  # a generator ends with the loop, as in Python
        self.tracer.note(self.site.location, unrolled(self.count, self.why))
        return False


class StagedFor(StagedLoop):
    """The session of a loop whose body, traced once with a traced index, becomes a node."""

    def __init__(self, site: Site, feed: Feed) -> None:
        super().__init__(site)
        self.feed = feed
        self.length = even_length(feed)  # of the items that one body may do for
        self.start = 0  # the first index in the node
        self.state = self.begin
        self.unrolled: Any = None  # the session of what this one does not do, if there is one
        self.item: Any = None
        self.why = ""
        self.go: Tensor | None = None  # whether there is a first iteration in the node
        self.stream = stream_of(feed)  # the part of the feed whose end is known when it comes
        self.slices: list[tuple[Tensor, Tensor]] = []  # whole tensors, and what their rows are

    def again(self, found: Mapping[str, Any]) -> bool:
        """Whether there is another pass."""
        if self.unrolled is not None:
            return self._unrolled_again(found) or self._over(found)
        try:
            going = self.state(found)
        except BaseException as error:
            if not isinstance(error, CaptureError) or not self._may_unroll():
                self.abandon()
                raise
            settle(error)
            going = self._unroll(str(error))
        return going or self._go_on_open() or self._over(found)

    # States ----------------------------------------------------------------------------------

    def begin(self, found: Mapping[str, Any]) -> bool:
        self.entry_found = dict(found)
        self.roots = roots_of(found)
        self.before = self.snapshot(found)
        if self.stream is not None:
            with self.inside(self.parent):
                self.go = self.stream.advance(False)
        if self.is_static() and self.length == 0:
            return self.leave_loop(found)
        if self._may_unroll() and (self.length == 1 or self.tracer.unrolls):
            needed = "a number that it computes is needed while the function is captured"
            return self._unroll("there is one iteration" if self.length == 1 else needed)
        return self.attempt()

    def attempt(self) -> bool:
        with self.inside(self.parent):
            self.open()
        region = self.path.region
        self.index = region.param(COUNT, "i")
        self.slices = []
        with self.inside(region):
            high = bounds = None
            if self.is_static():
                last = self.length - 1 - self.start
                high = most_of(last)
                bounds = None if type(last) is int else (0, size_of(last))
            index = Number("int", self.index, 0, high, bounds)
            at = index + self.start if self.start else index
            self.position = at.tensor.content
            self.item = self.feed.row(at)
        self.state = self.body_done
        return True

    def body_done(self, found: Mapping[str, Any]) -> bool:
        if self.path.ended and self._may_unroll():  # it is raised for sure, then: here
            self.path.end(self.before)
            return self._unroll("its body ends in an exception")
        region = self.path.region
        names = self.left(self.snapshot(found))
        names = self.carry_errors(self.before if self.path.ended else names)
        with self.inside(region):
            over, flag = (True, None) if self.path.ended else self.flags(names, region)
            flag = flag if over else self._ended(flag)
            if flag is not None:
                flag = region.traced(flag)
        self.finals = dict(names)
        self.path.end(names)
        with self.inside(self.parent):
            if self.settle():
                if self._is_plain():
                    return self._unroll("its body computes nothing with tensors")
                self._stage(over, flag)
                return self.leave_loop(self.finals)
        return self._peel() if self.peels == 1 else self.attempt()

    def leave_loop(self, found: Mapping[str, Any]) -> bool:
        self.state = None
        if self.is_static() and self.length < self.feed.length:
            return self._go_on(found)
        self.finish(found)
        return False

    def _stage(self, over: bool, flag: Tensor | None) -> None:
        static = self.is_static()
        length = self.length - self.start if static else self._sliced_length()
        with self.inside(self.parent):
            count = self._count()
        if flag is None and not over and self.go is None:
            heads = ([self.index.content], [])
            self._slice_rows(length)
            attrs = {"length": length, "reverse": False, "sliced": len(self.slices)}
            self._last_item(static)
            known = length if type(length) is int and static else None
            most = length if static else self._most()
            self.close(
                for_, [count], heads, attrs, runs=static, slices=self.slices, known=known, most=most
            )
            self.finals.update(self.last)
            self.tracer.note(self.site.location, f"became a for node{self._times()}")
            return
        self._stage_as_while(over, flag, count)

    def _slice_rows(self, length: int) -> None:
        """Let the node hand out rows that the body picks by the index.

        Where gradients flow, only those of tensors that the body uses once: the cotangents of
        others are added up in the order of their uses, as eagerly.
        """
        region = self.path.region
        uses = Counter(v for node in region.builder.nodes for v in node.operands)
        tensors = {
            cell.initial: cell.tensor
            for cell in region.cells.values()
            if not cell.written
            and is_same(cell.tensor.shape[:1], (length + self.start,))
            and (uses[cell.initial] == 1 or self.parent.record_of(cell.tensor) is None)
        }
        kept = []
        for node in region.builder.nodes:
            if (
                length
                and node.op is pick
                and node.attributes["axis"] == 0
                and node.operands[1] is self.position
                and node.operands[0] in tensors
            ):
                whole = tensors[node.operands[0]]
                with interpreting(self.parent):
                    rows = whole[self.start :] if self.start else whole
                self.slices.append((rows, make_tensor(node.results[0].type, node.results[0])))
            else:
                kept.append(node)
        region.builder.nodes[:] = kept

    def _last_item(self, static: bool) -> None:
        """The variable of a loop over Python numbers ends as the last of them."""
        self.last = {}
        if static and self.feed.python:
            for name, final in self.finals.items():
                if final is self.item:
                    self.last[name] = self.feed.row(self.feed.length - 1)
                    self.finals[name] = self.before[name]

    def _stage_as_while(self, over: bool, flag: Tensor | None, count: Tensor) -> None:
        """A loop that may end early: the index is carried, and tested with the flags."""
        region = self.path.region
        with self.inside(region):
            following = ops.add(self.index, 1)
            go = ops.less(following, region.traced(count))
            if over:
                go = constant(region, False)
            elif flag is not None:
                go = ops.logical_and(go, ops.logical_not(flag))
            go, following = region.traced(go), region.traced(following)
        with self.inside(self.parent):
            first = ops.less(number_tensor(0, "int"), count)
            if self.go is not None:
                first = ops.logical_and(first, self.go)
            begin = number_tensor(0, "int")
        counter = (begin, self.index, following)
        runs = self.is_static() and self.go is None
        self.close(
            while_, [first], ([], [go]), {"length": 0}, runs=runs, counter=counter,
            most=self._most(),
        )  # fmt: skip
        self.tracer.note(self.site.location, "became a while node")

    def _sliced_length(self) -> int:
        return len(self.slices[0][0]) if self.slices else 0

    def _most(self) -> int | None:
        """A number that the iterations in the node do not exceed."""
        length = self.length
        if self.is_static():
            return most_of(length - self.start)
        return length.high if length.high < MOST else None

    def _count(self) -> Tensor:
        length = self.length
        if self.is_static():
            return number_tensor(length - self.start, "int")
        count = number_tensor(length, "int")
        return ops.subtract(count, self.start) if self.start else count

    def _times(self) -> str:
        length = self.length
        return f" of {size_of(length - self.start)} iterations" if self.is_static() else ""

    # Items from outside ----------------------------------------------------------------------

    def _ended(self, flag: Tensor | None) -> Tensor | None:
        """Whether ``flag`` stops the loop or, if it does not, the stream has no further item."""
        if self.stream is None:
            return flag
        ended = ops.logical_not(self.stream.advance(False if flag is None else flag))
        return ended if flag is None else ops.logical_or(flag, ended)

    def _go_on(self, found: Mapping[str, Any]) -> bool:
        """Trace the items of another kind, which come last, by themselves."""
        rest = iter(range(self.length, self.feed.length))
        self.unrolled = Unrolled(
            self.site, rest, "the last ones are of another size", self.feed.row
        )
        self.unrolled.roots = self.roots
        going = self._unrolled_again(found)
        if not self.loads:  # what the node has left
            self.load(self.snapshot(found))
        return going

    def _go_on_open(self) -> bool:
        """Trace the items behind the first one of another kind, whose axes are open."""
        if not (isinstance(self.feed, Supplied) and self.feed.varies):
            return False
        self.unrolled = hyb__.StagedRest(self.site, self.feed.rest())
        return self._unrolled_again(self.held)

    def _over(self, found: Mapping[str, Any]) -> bool:
        """The loop is left: so are the passes that it was about."""
        names = (
            {**found, **dict(zip(self.site.names, self.values, strict=True))}
            if self.loads
            else found
        )
        over, flag = self.flags(names, self.tracer)
        finish(self.feed, over if flag is None else flag)
        return False

    # The first iteration, by itself ----------------------------------------------------------

    def _peel(self) -> bool:
        self.peels = 2
        self.widened.clear()  # of what was there before the first iteration
        if not self.is_static():
            with self.inside(self.parent):
                there = self.go if self.stream is not None else self.length > 0
                if there is not True:  # as of a list with an item that is there
                    self.enter_branch(truth(there), self.before)
        self.path = self.peeled
        self.load(self.before)
        with self.inside(self.parent):
            self.item = self.feed.row(0)
        self.state = self.peel_done
        return True

    def peel_done(self, found: Mapping[str, Any]) -> bool:
        found = self.left(found)
        with self.inside(self.parent):
            over, flag = (
                (True, None)
                if self.path is not None and self.path.ended
                else self.flags(found, self.parent)
            )
            flag = flag if over else self._ended(flag)
            if flag is not None:
                self.go = ops.logical_not(flag)
        self.start = 1
        if over or (self.is_static() and self.length == 1):
            return self.leave_loop(found)
        self.before = self.snapshot(found)
        return self.attempt()

    def judge(self, rows: Sequence[Tensor], carries: Sequence[Carry]) -> None:
        """A few rows that may be one tensor, as the run goes, are told apart by their names.

        To gradients the uses of such rows are uses of that tensor, each in its turn.
        """
        fixed = type(self.length) is int and self._may_unroll()
        if not fixed or self.length - self.start > FEW_ROWS:
            return
        region = self.path.region
        if all(region.record_of(row) is None for row in rows):
            return
        leaves = [leaf for carry in carries for leaf in carry.leaves]
        written = [cell for cell in region.cells.values() if cell.written]
        fixed = [cell.initial for cell in region.cells.values() if not cell.written]
        params = [*[leaf.param.content for leaf in leaves], *[cell.initial for cell in written]]
        finals = [*[leaf.final.content for leaf in leaves], *[cell.value for cell in written]]
        body = Graph(
            "body",
            (self.index.content, *params, *fixed),
            tuple(region.builder.nodes),
            (*finals, *[row.content for row in rows]),
        )
        if names_of(body, len(finals), range(len(finals))) is None:
            raise CaptureError(
                "a list gets tensors that may be ones it has got before",
                at=self.site.location,
                why="Which they are depends on the value of a tensor.",
                fix="append new tensors",
            )

    # Unrolling -------------------------------------------------------------------------------

    def is_static(self) -> bool:
        """Whether the number of items is known, if only by the sizes of open axes."""
        return is_known(self.length)

    def _may_unroll(self) -> bool:
        return self.is_static() and self.unrolled is None

    def _is_plain(self) -> bool:
        """Whether an iteration is nothing but arithmetic on Python numbers."""
        region = self.path.region
        return (
            type(self.length) is int
            and self._may_unroll()
            and self.feed.python
            and not region.cells
            and not any(
                isinstance(leaf.initial, Tensor)
                for carry in (*self.names.values(), *self.places.values())
                for leaf in carry.leaves
            )
            and all(node.pure for node in region.builder.nodes)
            and all(v.type.rank == 0 for node in region.builder.nodes for v in node.results)
        )

    def caught(self, error: BaseException) -> bool:
        if not isinstance(error, CaptureError) or not self._may_unroll():
            return False
        if isinstance(error, LostItems) and self.feed.length - self.start > MOST_ITEMS:
            return False
        self.why = str(error)
        self.state = lambda found: self._unroll(self.why)
        return True

    def _unroll(self, why: str) -> bool:
        """Trace what is left iteration by iteration; how many there are is fixed, then."""
        self.why, self.site = why, self.author_site
        self.path = None
        rows = iter(range(self.start, operator.index(self.feed.length)))
        if self.attempts:  # what has been noted of an iteration in the node that there is not
            del self.tracer.notes[self.noted :]
        self.unrolled = Unrolled(self.site, rows, why, self.feed.row)
        self.unrolled.count, self.unrolled.roots = self.start, self.roots
        begun = self.start or self.attempts
        going = self._unrolled_again(self.before if begun else self.entry_found)
        if self.attempts and not self.loads:  # what attempts have left in the variables goes
            self.load(self.before)
        return going

    def _unrolled_again(self, found: Mapping[str, Any]) -> bool:
        going = self.unrolled.again(found)
        self.item = self.unrolled.item
        self.loads, self.values = self.unrolled.loads, self.unrolled.values
        return going

    def __enter__(self) -> None:
        (super() if self.unrolled is None else self.unrolled).__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if self.unrolled is not None:
            return self.unrolled.__exit__(kind, error, trace)
        return super().__exit__(kind, error, trace)
