"""Walks over items that come from outside when the plan runs: ordered calls into Python.

::

    %state, %pass = py_call %state {begin}
    for %n, %state, %pass ... {
      body(...) {
        %x, %y = py_call %pass {next}
        ...
      }
    }
    py_call %pass, %stopped {end}
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import leave_last
from hybrid.core.loop_io import ItemKind, SuppliedItems, Supply, Supplying
from hybrid.core.tree import flatten, unflatten
from hybrid.core.types import TensorType
from hybrid.eager.execution import array_of, from_numpy
from hybrid.eager.progress import unwrapped
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, author_location, locate
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.memory import native
from hybrid.number import Number
from hybrid.number.staging import TYPES, OwnCall
from hybrid.ops.communication.collectives import known_alike
from hybrid.ops.flow.control import FLAG, py_call
from hybrid.staging.sessions.views import is_varlist
from hybrid.staging.values.feed import Feed, Range, Rows, StagedIterable, TreeRows
from hybrid.staging.values.lists import list_feed
from hybrid.trace.regions.merge import number_tensor


class Supplied(StagedIterable):
    """The walk over one pass of items from outside."""

    python = False
    begun = True

    def __init__(self, supply: Supply) -> None:
        self.supply, self.even = supply, supply.even
        self.length: Any = supply.length
        self.ends_itself = supply.length is None
        if self.ends_itself:
            self.length = _endless()
        current().count_on("what a loader gives", supply.fact)
        self._passes = _Passes(supply)
        self._any_kind = False
        self._at = author_location()
        self._number = self._with_cells(self._passes.begin, (), (TYPES["int"],), True)[0]

    def feed(self) -> Supplied:
        return self

    def vary(self) -> None:
        """End before the first item of another kind: ``rest`` has those from there on."""
        self.ends_itself = self._passes.varies = True
        self.length = _endless()

    @property
    def varies(self) -> bool:
        return self._passes.varies

    def rest(self) -> Supplied:
        """The items that are left of the pass, of any kind."""
        found = copy.copy(self)
        found._any_kind = True
        return found

    def open_row(self, types: tuple[TensorType, ...]) -> list[Tensor]:
        """The leaves of the item that was asked for, whose types are open."""
        return self._stage(self._passes.held, (self._number,), types)

    def asks_row(self, call: Any) -> bool:
        """Whether a function that a plan calls gives the item that was asked for."""
        return isinstance(call, PassCall) and call.do == self._passes.held

    def held_of(self, number: Any) -> Sequence[Any]:
        """The arrays of the item that a pass has been asked for."""
        return self._passes.held(number)

    def refusal(self, number: Any) -> Exception:
        """What is wrong with that item, which no body of the loop is for."""
        return self._passes.refusal(number)

    def row(self, index: int | Number) -> Any:
        """The next item, which must be the one at ``index``."""
        if self.ends_itself:
            kind = self.supply.kinds[0]
            found = self._stage(self._passes.held, (self._number,), kind.types)
            return unflatten(kind.structure, found)
        rest = type(index) is int and index >= self.even
        kind, draws = self.supply.kinds[rest], self.supply.draws
        do = self._passes.last if rest else self._passes.following
        found = self._with_cells(do, (self._number,), kind.types, draws)
        return unflatten(kind.structure, found)

    def advance(self, stopped: Tensor | bool) -> Tensor:
        """Ask for the next item, unless the loop is ``stopped``: whether there is one, for row."""
        flag = stopped if isinstance(stopped, Tensor) else ops.full((), stopped, dtype=FLAG.dtype)
        operands = (self._number, flag)
        do = self._passes.advance_any if self._any_kind else self._passes.advance
        found = self._with_cells(do, operands, (FLAG,), self.supply.draws)[0]
        return known_alike(found) if self.supply.alike else found

    def finish(self, stopped: Tensor | bool) -> None:
        """The loop is over; ``stopped``: before it had asked for an item that there is not."""
        flag = stopped if isinstance(stopped, Tensor) else ops.full((), stopped, dtype=FLAG.dtype)
        self._with_cells(self._passes.end, (self._number, flag), (), self.supply.draws)

    def _with_cells(
        self,
        do: Callable[..., Any],
        operands: Sequence[Tensor],
        types: tuple[TensorType, ...],
        draws: bool,
    ) -> list[Tensor]:
        """What the call of ``do`` gives besides what it leaves in the cells."""
        cells = self.supply.cells if draws else ()
        given = [current().traced(cell) for cell in cells]
        found = self._stage(do, [*operands, *given], (*types, *[c.type for c in cells]))
        for cell, value in zip(cells, found[len(types) :], strict=True):
            cell.assign(value)
        return found[: len(types)]

    def _stage(
        self, do: Callable[..., Any], operands: Sequence[Tensor], types: tuple[TensorType, ...]
    ) -> list[Tensor]:
        call, given = current().leaving(PassCall(self._passes, do, self._at), operands)
        attrs = {"function": call, "types": types}
        return list(results_of(current().apply(py_call, given, attrs)))


ENDLESS = 2**62  # items: more than there will be


def _endless() -> Number:
    return Number("int", number_tensor(ENDLESS, "int"), ENDLESS, ENDLESS)


@dataclass(frozen=True, slots=True)
class PassCall(OwnCall):
    """The py_call that runs ``do`` for a pass."""

    passes: _Passes
    do: Callable[..., Any]
    at: Location | None
    raises = None
    settles = True

    @property
    def location(self) -> Location | None:  # type: ignore[override]
        return self.at

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        try:
            if self.asks_queue is not None:
                native.raise_noted()
            return self.do(*arrays)
        except Exception as error:
            locate(error, self.at)
            raise

    @property
    def asks_queue(self) -> int | None:
        """Not None: it gives an item of a pass, of which the first argument is the number, and then
        what so many cells hold, which the arguments after that are.
        """
        supply = self.passes.supply
        if self.do in (self.passes.advance, self.passes.advance_any):
            return 0  # they know no queue, but are interrupted as others are
        asks = self.do in (self.passes.following, self.passes.last)
        return len(supply.cells) * supply.draws if asks else None

    @property
    def waits(self) -> bool:  # type: ignore[override]
        return self.passes.supply.waits

    def release(self) -> None:
        """End what a run that failed on this thread has begun."""
        self.passes.release()

    def __repr__(self) -> str:
        return self.do.__name__


@dataclass(slots=True)
class _Pass:
    items: SuppliedItems
    thread: int
    left: list[Any]  # in the cells, when it was asked last
    held: list[Any] | None = None  # the arrays of an item that it was asked for ahead
    item: Any = None  # that item


class _Passes:
    """The passes under way, by numbers that runs know them by: those of their queues, if any."""

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self.under_way: dict[int, _Pass] = {}
        self.numbers = itertools.count(1)
        self.varies = False  # whether an item of another kind ends the loop, for another one

    def begin(self, *states: Any) -> Sequence[Any]:
        """Begin one: its number, and the new states."""
        left: list[Any] = []
        with _States(self.supply.cells, states, left):
            items = self.supply.begin()
        number = items.queue or -next(self.numbers)
        self.under_way[number] = _Pass(items, threading.get_ident(), left)
        return [np.int64(number), *left]

    def following(self, number: Any, *states: Any) -> Sequence[Any]:
        """The next item, one of the first kind."""
        return self._item(number, states, self.supply.kinds[0])

    def last(self, number: Any, *states: Any) -> Sequence[Any]:
        """The next item, one of the last kind."""
        return self._item(number, states, self.supply.kinds[-1])

    def _item(self, number: Any, states: Sequence[Any], kind: ItemKind) -> Sequence[Any]:
        of_run = self.under_way[int(number)]
        item = self._asked(of_run, states)
        if item is _NONE:
            raise self.supply.refuse_end(of_run.items.given)
        return [*self._arrays(of_run, item, kind), *(of_run.left if states else ())]

    def _arrays(self, of_run: _Pass, item: Any, kind: ItemKind) -> list[Any]:
        """Those of an item, which must be of this kind."""
        leaves, found = _kind(item)
        if found != kind:
            raise self._refused(of_run, item, found, kind)
        return [*map(array_of, leaves)]

    def _refused(
        self, of_run: _Pass, item: Any, found: ItemKind | None, kind: ItemKind | None = None
    ) -> Exception:
        wanted = kind or self.supply.kinds[0]
        error = self.supply.refuse_kind(of_run.items.given - 1, found, wanted)
        if found is not None:  # who goes over the items in other ways can go on with this one
            of_run.items.give_back(item)
            leave_last(error, _States(self.supply.cells, (), of_run.left).put)
        return error

    def refusal(self, number: Any) -> Exception:
        """What is wrong with the item that was asked for."""
        of_run = self.under_way[int(number)]
        return self._refused(of_run, of_run.item, _kind(of_run.item)[1])

    def advance_any(self, number: Any, stopped: Any, *states: Any) -> Sequence[Any]:
        """Ask for an item of any kind, and keep it; whether there is one."""
        of_run = self.under_way[int(number)]
        of_run.held = None
        if stopped:
            return [np.bool_(False), *states]
        item = of_run.item = self._asked(of_run, states)
        if item is not _NONE:
            leaves, found = _kind(item)
            if found is None or found.structure != self.supply.kinds[0].structure:
                raise self._refused(of_run, item, found)
            of_run.held = [*map(array_of, leaves)]
        return [np.bool_(item is not _NONE), *(of_run.left if states else ())]

    def advance(self, number: Any, stopped: Any, *states: Any) -> Sequence[Any]:
        """Ask for an item, and keep it; whether there is one."""
        of_run = self.under_way[int(number)]
        of_run.held = None
        if stopped:
            return [np.bool_(False), *states]
        item = self._asked(of_run, states)
        if item is not _NONE:
            leaves, found = _kind(item)
            if found == self.supply.kinds[0]:
                of_run.held = [*map(array_of, leaves)]
            elif self.varies:
                of_run.items.give_back(item)
                item = _NONE
            else:
                raise self._refused(of_run, item, found)
        return [np.bool_(item is not _NONE), *(of_run.left if states else ())]

    def held(self, number: Any) -> Sequence[Any]:
        """The item that was kept."""
        found = self.under_way[int(number)].held
        assert found is not None
        return found

    def end(self, number: Any, stopped: Any, *states: Any) -> Sequence[Any]:
        """End one, which was asked for a further item unless it was ``stopped``."""
        of_run = self.under_way.pop(int(number))
        if stopped:
            of_run.items.leave()
            return states
        item = self._asked(of_run, states)
        if item is not _NONE and self.varies:
            raise self._refused(of_run, item, _kind(item)[1])
        if item is not _NONE:
            given = of_run.items.given
            of_run.items.leave()
            if self.supply.length is None or given > self.supply.length:
                raise self.supply.refuse_end(given)
        return of_run.left if states else ()

    def _asked(self, of_run: _Pass, states: Sequence[Any]) -> Any:
        """The next item, or _NONE."""
        cells = self.supply.cells if states else ()
        with _States(cells, states, of_run.left), self.supply.waiting():
            return next(of_run.items, _NONE)

    def release(self) -> None:
        thread = threading.get_ident()
        for number in [n for n, of_run in self.under_way.items() if of_run.thread == thread]:
            self.under_way.pop(number).items.leave()


_NONE: Any = object()


def _kind(item: Any) -> tuple[list[Any], ItemKind | None]:
    """The leaves of an item, and its kind; None if some leaf is no tensor."""
    leaves, structure = flatten(item)
    if not all([isinstance(leaf, Tensor) for leaf in leaves]):
        return leaves, None
    return leaves, ItemKind(structure, tuple([leaf.type for leaf in leaves]))


class _States:
    """Lets cells hold what they do in the run, for Python code that the run calls.

    What others have drawn of a generator in the meantime, such as workers that are threads, counts.
    ``left`` is what was in them when that code was called last, and becomes what it leaves there.
    Passes of one run may take turns: of a cell it counts which of them came last.
    """

    last: ClassVar[dict[tuple[int, int], Any]] = {}  # by the thread and the cell

    def __init__(self, cells: Sequence[Tensor], states: Sequence[Any], left: list[Any]) -> None:
        self.cells, self.states, self.left = cells, states, left

    def __enter__(self) -> None:
        for cell, state in zip(self.cells, self.states, strict=True):
            last = self.last[threading.get_ident(), id(cell)] if self.left else None
            moved = 0 if last is None else array_of(cell) - last
            cell.assign(from_numpy(state + moved, copy=True))

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if self.cells:
            self.left[:] = [array_of(cell).copy() for cell in self.cells]
            for cell, value in zip(self.cells, self.left, strict=True):
                self.last[threading.get_ident(), id(cell)] = value
        if error is not None:
            leave_last(error, self.put)

    def put(self) -> None:
        for cell, value in zip(self.cells, self.left, strict=False):
            cell.assign(from_numpy(value, copy=True))


def walkable(iterable: Any) -> Any:
    """``iterable``, or the walk over the items that a run gets from it: that begins a pass."""
    iterable = unwrapped(iterable)
    if not isinstance(iterable, Supplying):
        return iterable

    met = current().journal.supplied
    met.append(iterable)
    return Supplied(iterable.supply(ahead=met[0] is iterable))


def feed_of(iterable: Any) -> Feed | None:
    """The feed of ``iterable``, by index; None when only Python can walk over it."""
    iterable = walkable(iterable)
    if type(iterable) is range:
        return Range(iterable)
    if isinstance(iterable, Tensor) and iterable.ndim:
        return Rows(iterable)
    if isinstance(iterable, TreeRows):
        return iterable
    if is_varlist(iterable):
        return list_feed(iterable)
    return iterable.feed() if isinstance(iterable, StagedIterable) else None
