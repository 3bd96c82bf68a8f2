"""Concatenation in place: what is joined is computed where it is to lie.

Before::                              After::

    a = matmul x                          line[0:8] = matmul x
    b = exp y                             line[8:12] = exp y
    line[0:8] = copy a
    line[8:12] = copy b

So the parts of a stack, of a line of gradients, of channels of one image are views, and nothing is
copied.  A part has its place in what it is joined to if it is all of a buffer of scratch that steps
of the same block make, and which no loop moves; it lies there without gaps; and nobody writes there
but they.  What is in two places keeps a copy in one of them.

What is joined then lives as long as its parts do: where more memory would be alive at once than the
steps needed before, the parts that are made first keep their copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass, field, replace
from hybrid.core.size_functions import value_here
from hybrid.core.sizes import is_at_most
from hybrid.ir import View
from hybrid.plan.lower import without
from hybrid.plan.memory import room_for
from hybrid.plan.steps import Buffer, Control, Lowered, Step, overwrites, touched, walk

GROUPS = 16  # of lines that are tried one after the other, where not all of them fit
ATTEMPTS = 48  # that fail, then no more are made


def join_in_place(lowered: Lowered) -> None:
    """Let parts of what ``lowered`` concatenates be computed where they are to lie."""
    if not _may_join(lowered):
        return
    uses = _BufferUses()
    uses.block(lowered.steps, ())
    lines = uses.copies_in_place()
    if lines:
        _leave_out(lowered, _Memory(uses).fitting(lines))


def _may_join(lowered: Lowered) -> bool:
    """Whether steps copy scratch to a part of what no other copy fills alone."""
    copies = [(*step.inputs, *step.outputs) for step in lowered.walk() if _copies(step)]
    alone = {to.buffer for _, to in copies if _same(to.type.nbytes, to.buffer.nbytes)}
    return any(
        source.buffer.kind == "arena"
        and to.buffer.kind in ("arena", "output")
        and to.buffer not in alone
        and _is_dense(source)
        and _is_dense(to)
        for source, to in copies
    )


def _copies(step: Step) -> bool:
    """Whether ``step`` is a copy that is needed, as far as is known."""
    return step.kernel == "copy" and not step.moves and not step.ops


@dataclass(slots=True, eq=False)
class _Copy:
    """A copy of all of ``part`` to ``line``, where it begins at element ``start``."""

    step: Step
    part: Buffer
    line: Buffer
    start: Any
    time: int
    path: tuple[int, ...]  # the blocks around it, from the outermost in


@dataclass(slots=True, eq=False)
class _BufferUse:
    """What the steps do with a buffer; times count them in order."""

    path: tuple[int, ...]  # the blocks around all of it, from the outermost in
    itemsize: int
    first: int
    last: int
    written: int = -1  # for the last time
    read: int = -1  # for the first time
    # The bytes that copies fill, from and to, if nothing else is written to it.
    filled: list[tuple[Any, Any]] = field(default_factory=list)
    joins: bool = True  # whether that is so
    uniform: bool = True  # whether all see it as items of one size
    inside: set[int] = field(default_factory=set)  # blocks of some, not all of it


class _BufferUses:
    """Who does what with the buffers of a plan."""

    def __init__(self) -> None:
        self.known: dict[Buffer, _BufferUse] = {}
        self.steps: list[Step] = []  # by their times
        self.span: list[tuple[int, int]] = []  # of the owner of each block
        self.fixed: set[Buffer] = set()  # that are no parts of others
        self._copies: list[_Copy] = []

    def block(self, steps: Sequence[Step], path: tuple[int, ...]) -> None:
        """Note what ``steps`` do, which are in the blocks ``path``."""
        for step in steps:
            time = len(self.steps)
            self.steps.append(step)
            for view in (*step.inputs, *step.extra):
                for use in self._uses(view, time, path):
                    use.read = time if use.read < 0 else use.read
            for view in step.outputs:
                for use in self._uses(view, time, path):
                    use.written = time
                    use.joins = use.joins and self._fills(step, use, time, path)
            if step.control is not None:
                self._control(step, step.control, path)
            elif step.call is not None and hasattr(step.call.function, "asks_queue"):
                self.fixed.update(view.buffer for view in step.outputs)

    def _control(self, step: Step, control: Control, path: tuple[int, ...]) -> None:
        for buffer in (*control.rows, *control.carried, *control.homes):
            self.fixed.update(touched(buffer))
        start, blocks = len(self.steps) - 1, []
        for block in step.blocks:
            blocks.append(len(self.span))
            self.span.append((start, start))
            self.block(block, (*path, blocks[-1]))
        for number in blocks:
            self.span[number] = (start, len(self.steps) - 1)

    def _uses(self, view: View, time: int, path: tuple[int, ...]) -> Iterator[_BufferUse]:
        """Those of what ``view`` may be a view of, and what steps make."""
        for buffer in touched(view.buffer):
            if buffer.kind not in ("arena", "output"):
                continue
            use = self.known.get(buffer)
            itemsize = view.dtype.itemsize
            if use is None:
                use = self.known[buffer] = _BufferUse(
                    path=path, itemsize=itemsize, first=time, last=time
                )
            if use.path != path:
                common = _common(use.path, path)
                use.inside.update((*use.path[len(common) :][:1], *path[len(common) :][:1]))
                use.path = common
            use.last = time
            use.uniform = use.uniform and use.itemsize == itemsize
            yield use

    def _fills(self, step: Step, use: _BufferUse, time: int, path: tuple[int, ...]) -> bool:
        """Whether ``step`` does no more than copy to a part of the buffer of ``use``."""
        if not _copies(step):
            return False
        [source], [target] = step.inputs, step.outputs
        if target.buffer.kind not in ("arena", "output") or not _is_dense(target):
            return False
        start = target.offset * target.dtype.itemsize
        use.filled.append((start, start + target.type.nbytes))
        part = source.buffer
        if (
            part.kind == "arena"
            and part is not target.buffer
            and _is_dense(source)
            and _same(source.type.nbytes, part.nbytes)
        ):
            copy = _Copy(
                step=step, part=part, line=target.buffer, start=target.offset, time=time, path=path
            )
            self._copies.append(copy)
        return True

    def copies_in_place(self) -> list[list[_Copy]]:
        """Those whose parts may be made in place, by what they are joined to."""
        found: dict[Buffer, list[_Copy]] = {}
        taken: set[Buffer] = set()
        lines = {copy.line for copy in self._copies}
        joining = {line for line in lines if self.known[line].joins and self._is_apart(line)}
        for copy in self._copies:
            part, line = self.known[copy.part], self.known[copy.line]
            if (
                copy.part not in taken
                and copy.part not in self.fixed
                and copy.line in joining
                and not -1 < line.read < copy.time
                and part.written < copy.time
                and part.uniform
                and part.path[: len(copy.path)] == copy.path
            ):
                taken.add(copy.part)
                found.setdefault(copy.line, []).append(copy)
        return list(found.values())

    def _is_apart(self, line: Buffer) -> bool:
        """Whether no two copies fill the same bytes of ``line``, whatever the sizes."""
        filled = sorted(self.known[line].filled, key=lambda part: value_here(part[0]))
        return all(is_at_most(end, start) for (_, end), (start, _) in itertools.pairwise(filled))


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return a[:count]


def _same(a: Any, b: Any) -> bool:
    """Whether two sizes are the same for all values of their symbols, which is no condition."""
    difference = a - b
    return type(difference) is int and difference == 0


def _is_dense(view: View) -> bool:
    """Whether ``view`` is row-major without gaps, for all sizes, and of something."""
    stride: Any = 1
    for n, step in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if type(n) is int and n == 1:
            continue
        if (type(n) is int and n == 0) or not _same(step, stride):
            return False
        stride = stride * n
    return True


class _Memory:
    """How much scratch memory steps need, as far as lives tell."""

    def __init__(self, uses: _BufferUses) -> None:
        self.lives: dict[Buffer, tuple[int, int]] = {}
        for buffer, use in uses.known.items():
            spans = [uses.span[number] for number in use.inside]
            first = min([use.first, *[start for start, _ in spans]])
            last = max([use.last, *[end for _, end in spans]])
            self.lives[buffer] = first, last
        self.hosts: dict[Buffer, Buffer] = {}  # operands that die where results are written
        for time, step in enumerate(uses.steps):
            self.hosts.update(self._overwritten(time, step))

    def _overwritten(self, time: int, step: Step) -> Iterator[tuple[Buffer, Buffer]]:
        taken: set[Buffer] = set()
        for view in step.outputs if step.control is None else ():
            result = view.buffer
            if result.kind != "arena" or self.lives[result][0] != time:
                continue
            for given in (*step.inputs, *step.extra):
                host = given.buffer
                if (
                    host.kind == "arena"
                    and host not in taken
                    and self.lives[host][0] < time == self.lives[host][1]
                    and _same(host.nbytes, result.nbytes)
                    and _is_dense(given)
                    and overwrites(step, view, host)
                ):
                    taken.add(host)
                    yield result, host
                    break

    def fitting(self, lines: Sequence[list[_Copy]]) -> list[_Copy]:
        """Those of the copies to each line whose parts need no more memory than there was."""
        before = self._room(())
        if self._room(_flat(lines)) <= before:
            return _flat(lines)
        lines = sorted(lines, key=_saved, reverse=True)
        together = -(-len(lines) // GROUPS)
        chosen: list[_Copy] = []
        failed = 0
        for at in range(0, len(lines), together):
            copies = _flat(lines[at : at + together])
            copies.sort(key=lambda copy: self.lives[copy.part][0])
            while copies and self._room(chosen + copies) > before:
                failed += 1
                if failed == ATTEMPTS:
                    return chosen
                del copies[: max(1, len(copies) // 4)]  # for these room is needed longest
            chosen += copies
        return chosen

    def _room(self, copies: Sequence[_Copy]) -> int:
        """The bytes of the arena without ``copies``."""
        places = _places(copies)
        lives: dict[Buffer, tuple[int, int]] = {}
        for buffer, (first, last) in self.lives.items():
            whole = places[buffer][0] if buffer in places else buffer
            start, end = lives.get(whole, (first, last))
            lives[whole] = min(first, start), max(last, end)
        spans: dict[Buffer, tuple[int, int, int]] = {}
        home: dict[Buffer, Buffer] = {}
        for buffer in sorted(lives, key=lambda buffer: lives[buffer]):
            if buffer.kind != "arena":
                continue
            first, last = lives[buffer]
            host = self.hosts.get(buffer)
            alone = host not in lives or lives[host][1] != first
            home[buffer] = buffer if alone else home[host]
            start = first if alone else spans[home[buffer]][1]
            spans[home[buffer]] = value_here(buffer.nbytes), start, last
        return room_for(list(spans.values()))


def _flat(lines: Sequence[list[_Copy]]) -> list[_Copy]:
    return [copy for copies in lines for copy in copies]


def _saved(copies: Sequence[_Copy]) -> int:
    """The bytes that are not copied without ``copies``."""
    return sum([value_here(copy.part.nbytes) for copy in copies])


def _places(copies: Sequence[_Copy]) -> dict[Buffer, tuple[Buffer, Any]]:
    """Where the parts of ``copies`` lie without these: in what, and from which element on."""
    places: dict[Buffer, tuple[Buffer, Any]] = {}
    # A line may be a part of a later one.
    for copy in sorted(copies, key=lambda copy: copy.time, reverse=True):
        line, start = places.get(copy.line, (copy.line, 0))
        places[copy.part] = line, start + copy.start
    return places


def _leave_out(lowered: Lowered, copies: Sequence[_Copy]) -> None:
    """Leave out ``copies``: all that has to do with their parts has it where these lie now."""
    places = _places(copies)
    gone = {copy.step for copy in copies}
    for step in walk(lowered.steps):
        for views in (step.inputs, step.outputs, step.extra, step.after):
            for at, view in enumerate(views):
                if view.buffer in places:
                    line, start = places[view.buffer]
                    views[at] = replace(view, buffer=line, offset=view.offset + start)
    lowered.steps = without(lowered.steps, gone)
