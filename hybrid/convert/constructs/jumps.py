"""Lowering of ``break``, ``continue`` and ``return`` in converted constructs: flags and guards.

::

    for x in xs:                      hyb_returned = False
        if x > 1:                     for x in xs:                      # ends when hyb_returned
            return x          ==>         if x > 1:
        use(x)                                hyb_result = x
    return 0                                  hyb_returned = True
                                          else:
                                              use(x)
                                      if hyb__.clear(hyb_returned):
                                          hyb_result = 0
                                      return hyb_result

Where one branch of an ``if`` surely jumps, what follows the ``if`` moves into the other branch, and
a jump to where control goes anyway needs no flag.

A jump out of a ``finally`` takes the place of what is raised, or of a jump that led there::

    try:                              try:
        A                                 A
    finally:                          except:
        if x > 1:           ==>           if x > 1:
            return x                          hyb_result = x
        use(x)                                hyb_returned = True
                                          else:
                                              use(x)
                                          if hyb__.clear(hyb_returned):
                                              raise
                                      else:
                                          ...  # the same, without the raise
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from hybrid.convert.converter import Converter, call, constant, located, name
from hybrid.convert.scope import FUNCTIONS
from hybrid.convert.trees import (
    LOOPS,
    TRIES,
    assigned_lines,
    blocks_of,
    copied,
    mark_dead,
    set_returned,
    set_stops,
)
from hybrid.core.dataclass import dataclass, field, replace
from hybrid.core.own_names import PREFIX, RESULT

RETURNED = f"{PREFIX}returned"
DEEPEST = 6  # levels that jumps may add; beyond, guards come one after the other
Body = list[ast.stmt]


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """The position of a block: what comes after it, and the loop around it."""

    last: bool = True  # whether the function ends where the block does
    loop: int = 0  # number of the loop around it that is converted; 0: none
    ends_iteration: bool = False  # whether the iteration ends where the block does
    guards: int = 0


@dataclass(slots=True)
class PlainBlock:
    """A block without jumps, and the flags that its statements may set."""

    body: Body = field(default_factory=list)
    flags: set[str] = field(default_factory=set)


class Jumps(Converter):
    """The lowering of all jumps of a function, before its constructs are converted."""

    def function(self, node: ast.FunctionDef) -> None:
        """Lower the jumps of ``node`` in place."""
        lowering = _Lowering(node)
        if lowering.needed:
            node.body = lowering.run()


class _Lowering:
    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node
        self.loops = self.ends = 0
        self.returns = _returns_inside(node.body)
        self.needed = self.returns or _loop_jumps(node.body)

    def run(self) -> Body:
        start = 1 if ast.get_docstring(self.node, clean=False) is not None else 0
        head, rest = self.node.body[:start], self.node.body[start:]
        if self.returns and not _block_ends(rest):  # every path says what it returns
            rest = [*rest, located(ast.Return(constant(rest[-1], None)), rest[-1])]
        lowered = self.block(rest, BlockPosition())
        if not self.returns:
            return head + lowered.body
        at = rest[0]
        set_up = []
        if RETURNED in _names_stored(lowered.body):
            set_up.append(_assign(at, RETURNED, constant(at, False)))
        last = located(ast.Return(name(at, RESULT)), at)
        return head + set_up + lowered.body + [last]

    # Blocks -----------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], place: BlockPosition) -> PlainBlock:
        made = PlainBlock()
        inner = replace(place, last=False, ends_iteration=False)
        for at, node in enumerate(body):
            rest, ends, here = list(body[at + 1 :]), _ends(node), place
            if rest and place.guards < DEEPEST and self._absorbs(node, rest):
                rest, here = [], replace(place, guards=place.guards + 1)
            lowered = self.statement(node, inner if rest else here)
            made.body += lowered.body
            made.flags |= lowered.flags
            if rest and ends:
                made.body.append(mark_dead(rest))
                break
            if rest and lowered.flags:
                self._guarded(made, node, lowered.flags, rest, place)
                break
            if not rest:
                break
        return made

    def _absorbs(self, node: ast.stmt, rest: Body) -> bool:
        """Move ``rest`` into the branch of an ``if`` that does not jump."""
        if not isinstance(node, ast.If) or not self._jumps(node):
            return False
        body_ends, else_ends = _block_ends(node.body), _block_ends(node.orelse)
        if body_ends == else_ends:
            return False
        branch = node.orelse if body_ends else node.body
        branch.extend(rest)
        return True

    def _guarded(
        self, made: PlainBlock, at: ast.stmt, flags: set[str], rest: Body, place: BlockPosition
    ) -> None:
        """Run ``rest`` only if none of ``flags`` is set; that is tested where ``at`` is."""
        while rest:
            chunk, later = rest, []
            if place.guards >= DEEPEST:
                first = next((i for i, s in enumerate(rest) if self._jumps(s)), len(rest))
                chunk, later = rest[: first + 1], rest[first + 1 :]
            inner = replace(place, guards=place.guards + 1)
            if later:
                inner = replace(inner, last=False, ends_iteration=False)
            lowered = self.block(chunk, inner)
            guard = _guard(at, flags, lowered.body)
            set_returned(guard, assigned_lines(made.body).get(RESULT))
            made.body.append(guard)
            made.flags |= lowered.flags
            flags, rest = flags | lowered.flags, later

    def _jumps(self, node: ast.stmt) -> bool:
        """Whether lowering ``node`` may set a flag, or bind the result."""
        return any(
            (isinstance(jump, ast.Return) and self.returns) or not isinstance(jump, ast.Return)
            for jump in _jumps_out(node)
        )

    # Statements -------------------------------------------------------------------------------

    def statement(self, node: ast.stmt, place: BlockPosition) -> PlainBlock:
        if isinstance(node, ast.Return) and self.returns:
            return self._return(node, place)
        if isinstance(node, (ast.Break, ast.Continue)):
            return self._loop_jump(node, place)
        if isinstance(node, LOOPS):
            return self._loop(node, place)
        if isinstance(node, TRIES):
            return self._try(node, place)
        flags: set[str] = set()
        for block in blocks_of(node):
            lowered = self.block(list(block), place)
            block[:] = lowered.body or [located(ast.Pass(), node)]
            flags |= lowered.flags
        made = PlainBlock([node], flags)
        if isinstance(node, ast.With) and (len(node.items) > 1 or _may_end_jumps(node.body)):
            self._may_suppress(made, node)
        return made

    def _may_suppress(self, made: PlainBlock, node: ast.With) -> None:
        """Keep the flags only where the block ends: what it suppresses may be on a jump's way."""
        self.ends += 1
        before: Body = []
        for flag in sorted(made.flags):
            kept = f"{flag}_{self.ends}"
            before.append(_assign(node, kept, constant(node, False)))
            node.body.append(_assign(node, kept, name(node, flag)))
            made.body.append(_assign(node, flag, name(node, kept)))
        made.body[:0] = before

    def _return(self, node: ast.Return, place: BlockPosition) -> PlainBlock:
        value = node.value if node.value is not None else constant(node, None)
        body: Body = [_assign(node, RESULT, value)]
        if place.last:
            return PlainBlock(body)
        return PlainBlock([*body, _assign(node, RETURNED, constant(node, True))], {RETURNED})

    def _loop_jump(self, node: ast.Break | ast.Continue, place: BlockPosition) -> PlainBlock:
        if isinstance(node, ast.Continue) and place.ends_iteration:
            return PlainBlock([located(ast.Pass(), node)])
        flag = _flag("break" if isinstance(node, ast.Break) else "continue", place.loop)
        return PlainBlock([_assign(node, flag, constant(node, True))], {flag})

    def _loop(self, node: ast.While | ast.For, place: BlockPosition) -> PlainBlock:
        self.loops += 1
        number = self.loops
        inner = BlockPosition(False, number, True, place.guards)
        lowered = self.block(node.body, inner)
        breaks, continues = _flag("break", number), _flag("continue", number)
        stops = sorted(lowered.flags - {continues})
        before: Body = []
        if continues in lowered.flags:
            lowered.body.insert(0, _assign(node, continues, constant(node, False)))
        if breaks in lowered.flags:
            before.append(_assign(node, breaks, constant(node, False)))
        node.body = lowered.body
        set_stops(node, stops)
        orelse, node.orelse = node.orelse, []
        made = PlainBlock([*before, node], lowered.flags - {breaks, continues})
        if orelse and stops:
            self._guarded(made, node, set(stops), orelse, place)
        elif orelse:
            after = self.block(orelse, place)
            made.body += after.body
            made.flags |= after.flags
        return made

    def _try(self, node: ast.Try, place: BlockPosition) -> PlainBlock:
        if any(map(_jumps_out, node.finalbody)):
            return self._jumping_end(node, place)
        inner = replace(place, last=False, ends_iteration=False) if node.orelse else place
        lowered = self.block(node.body, inner)
        flags = set(lowered.flags)
        node.body = lowered.body
        for handler in node.handlers:
            handled = self.block(handler.body, place)
            # What has ended the body may have done so on the way of a jump.
            forgotten = sorted(lowered.flags) if _may_end_jumps(node.body) else []
            handler.body = [
                *[_assign(handler.body[0], flag, constant(node, False)) for flag in forgotten],
                *handled.body,
            ]
            flags |= handled.flags
        if node.orelse and lowered.flags:
            after = PlainBlock()
            self._guarded(after, node, lowered.flags, node.orelse, place)
        else:
            after = self.block(node.orelse, place)
        node.orelse = after.body
        end = self.block(node.finalbody, BlockPosition(False, place.loop, False, place.guards))
        node.finalbody = end.body
        return PlainBlock([node], flags | after.flags)

    def _jumping_end(self, node: ast.Try, place: BlockPosition) -> PlainBlock:
        """A ``try`` with jumps out of its ``finally``, which runs as a clause and as an else."""
        end, node.finalbody = node.finalbody, []
        lowered = self.block(node.body, place)
        at = end[0]
        self.ends += 1
        position = BlockPosition(False, place.loop, False, place.guards)
        set_aside = {flag: f"{flag}_{self.ends}" for flag in sorted(lowered.flags)}
        blocks, flags = [], set(lowered.flags)
        for raised in (True, False):
            made = self.block([copied(statement) for statement in end], position)
            flags |= made.flags
            head, tail = [], []
            for flag, kept in set_aside.items():
                if not raised:
                    head.append(_assign(at, kept, name(at, flag)))
                    tail.append(_assign(at, flag, name(at, kept)))
                head.append(_assign(at, flag, constant(at, False)))
            if raised:
                tail = [located(ast.Raise(None, None), at)]
            if tail and not _block_ends(end):
                made.body.append(_guard(at, made.flags, tail))
            blocks.append([*head, *made.body])
        clause = located(ast.ExceptHandler(None, None, blocks[0]), at)
        whole = located(ast.Try(lowered.body, [clause], blocks[1], []), node)
        return PlainBlock([whole], flags)


@dataclass(frozen=True, slots=True)
class _Jump:
    node: ast.stmt
    loop: ast.stmt | None  # where it leads; None: out of the function
    between: tuple[ast.stmt, ...]  # the constructs it leaves, and that loop


def _all_jumps(body: Sequence[ast.stmt], around: list[Any], loop: int | None) -> list[_Jump]:
    """The jumps below ``body``, with constructs ``around`` it."""
    found: list[_Jump] = []
    for node in body:
        if isinstance(node, ast.Return):
            found.append(_Jump(node, None, tuple(around)))
        elif isinstance(node, (ast.Break, ast.Continue)):
            if loop is not None:
                found.append(_Jump(node, around[loop], tuple(around[loop:])))
        elif isinstance(node, LOOPS):
            found += _all_jumps(node.body, [*around, node], len(around))
            found += _all_jumps(node.orelse, [*around, node], loop)
        elif isinstance(node, ast.If):
            for block in (node.body, node.orelse):
                found += _all_jumps(block, [*around, node], loop)
        elif isinstance(node, TRIES):
            for block in blocks_of(node):
                found += _all_jumps(block, [*around, node], loop)
        elif isinstance(node, ast.With):
            found += _all_jumps(node.body, [*around, node], loop)
        else:
            for block in blocks_of(node):
                found += _all_jumps(block, around, loop)
    return found


def _returns_inside(body: Body) -> bool:
    """Whether a return leaves a construct that is converted."""
    return any(jump.loop is None and jump.between for jump in _all_jumps(body, [], None))


def _loop_jumps(body: Body) -> bool:
    """Whether there is a break or continue, or a loop has an else."""
    return any(jump.loop is not None for jump in _all_jumps(body, [], None)) or any(
        isinstance(n, LOOPS) and n.orelse for b in body for n in ast.walk(b)
    )


def _may_end_jumps(body: Sequence[ast.stmt]) -> bool:
    """Whether something in ``body`` runs, and may raise, on the way of a jump out of it."""
    return any(
        isinstance(inner, ast.With) or (isinstance(inner, TRIES) and inner.finalbody)
        for statement in body
        for inner in ast.walk(statement)
    )


def _jumps_out(node: ast.stmt) -> list[ast.stmt]:
    """The jumps in ``node`` that lead out of it."""
    if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        return [node]
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return []
    found = []
    for block in blocks_of(node):
        own = isinstance(node, LOOPS) and block is node.body
        for statement in block:
            found += [j for j in _jumps_out(statement) if isinstance(j, ast.Return) or not own]
    return found


def _ends(node: ast.stmt) -> bool:
    """Whether control surely does not go on after ``node``."""
    if isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
        return True
    if isinstance(node, ast.If):
        return _block_ends(node.body) and _block_ends(node.orelse)
    if isinstance(node, TRIES):
        through = _block_ends([*node.body, *node.orelse])
        clauses = all(_block_ends(handler.body) for handler in node.handlers)
        return (through and clauses) or _block_ends(node.finalbody)
    return False


def _block_ends(body: Sequence[ast.stmt]) -> bool:
    return any(_ends(node) for node in body)


# Pieces -----------------------------------------------------------------------------------------


def _flag(kind: str, loop: int) -> str:
    return f"{PREFIX}{kind}_{loop}"


def _assign(at: ast.AST, target: str, value: ast.expr) -> ast.stmt:
    store = located(ast.Name(target, ast.Store()), at)
    return located(ast.Assign([store], value), at)


def _guard(at: ast.stmt, flags: set[str], body: Body) -> ast.stmt:
    test = call(at, "clear", *[name(at, flag) for flag in sorted(flags)])
    return located(ast.If(test, body, []), at)


def _names_stored(body: Body) -> set[str]:
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
