"""Begun passes: what a capture reads to see what batches look like is what the loop is given.

A captured loop has to know the type of a batch before it runs.  So the pass is begun, its first
batch is read, and both are handed on to whoever goes over the loader next: the run of the plan, or
eager code where the capture has failed.  The dataset is asked as often as by eager code.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybrid.data.loops.seen_batches import facts_of
from hybrid.data.passes import Pass, stateful
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor

if TYPE_CHECKING:
    from hybrid.data.loader import DataLoader

States = tuple[bytes, ...]  # of generators


def states_of(cells: Sequence[Tensor]) -> States:
    """The values of ``cells``, to be compared and put back."""
    return tuple([cell.detach().numpy().tobytes() for cell in cells])


def put_states(cells: Sequence[Tensor], states: States) -> None:
    """Let ``cells`` have the values of ``states`` again."""
    for cell, state in zip(cells, states, strict=True):
        array = np.frombuffer(state, cell.detach().numpy().dtype).reshape(cell.shape)
        cell.assign(asarray(array.copy()))


def peek(items: Pass, cells: Sequence[Tensor], count: int = 1) -> list[Any]:
    """The next ``count`` batches of ``items``, or as many as there are; it gives them again.

    What they draw from ``cells`` is drawn when they are given.  A batch that draws is the last one:
    what those behind it draw depends on what the loop draws meanwhile.  What the dataset raises is
    raised, and raised again.
    """
    begun = states_of(cells)
    seen: list[_Seen] = []
    if items.reader is not None:
        items.reader.keeps = True
    try:
        while len(seen) < count and not (seen and seen[-1].draws):
            before, batch, error = states_of(cells), None, None
            try:
                batch = next(items.batches)
            except Exception as raised:
                error = raised
            seen.append(_Seen(batch, error, before, states_of(cells)))
            if error is not None:
                break
    finally:
        if items.reader is not None:
            items.reader.keeps = False
        if seen:
            items.batches = itertools.chain(_again(seen, cells), items.batches)
        put_states(cells, begun)
    if seen[-1].error is not None and not isinstance(seen[-1].error, StopIteration):
        raise seen[-1].error
    return [each.batch for each in seen if each.error is None]


class _Seen(NamedTuple):
    """What was asked for: a batch, or what was raised in its place; and states of generators."""

    batch: Any
    error: Exception | None
    before: States
    after: States

    @property
    def draws(self) -> bool:
        return self.before != self.after


def _again(seen: Sequence[_Seen], cells: Sequence[Tensor]) -> Iterator[Any]:
    for each in seen:
        if each.draws:
            put_states(cells, each.after)
        if isinstance(each.error, StopIteration):
            return
        if each.error is not None:
            raise each.error
        yield each.batch


class BegunPass:
    """A pass over ``loader`` that is begun, and has given nothing; ``cells`` are generators'."""

    def __init__(self, loader: DataLoader, cells: Sequence[Tensor]) -> None:
        self.loader, self.cells = loader, cells
        self._facts = facts_of(loader)
        self._before = states_of(cells)
        try:
            self.items = Pass(loader, loader._resumed)
            self._begun = states_of(cells)
        finally:
            put_states(cells, self._before)
        self._sampler = _sampler_state(loader)

    def peek(self, count: int = 1) -> list[Any]:
        """Its first batches."""
        self._put(self._begun)
        try:
            return peek(self.items, self.cells, count)
        finally:
            self._put(self._before)
            self._sampler = _sampler_state(self.loader)

    @property
    def draws(self) -> bool:
        """Whether it draws from generators as it begins, or in its first batches."""
        return self._before != self._begun or states_of(self.cells) != self._before

    def _put(self, states: States) -> None:
        put_states(self.cells, states)

    def is_next(self) -> bool:
        """Whether the loader would begin this very pass now."""
        if self._facts != facts_of(self.loader) or not _equal(
            self._sampler, _sampler_state(self.loader)
        ):
            return False
        return states_of(self.cells) == self._before or (
            self._before == self._begun and self.items.begins_anew()
        )

    def taken(self) -> Pass:
        """The pass, which begins now."""
        if states_of(self.cells) == self._before:
            self._put(self._begun)
        return self.items

    def close(self) -> None:
        """It is not wanted."""
        self.items.leave()
        self.items.end()


def _sampler_state(loader: DataLoader) -> Any:
    sampler = stateful(loader)
    return None if sampler is None else sampler.state_dict()


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        return False
