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
a jump to where control goes anyway needs no flag.  Jumps inside ``finally`` (which swallow an
exception) stay as they are, and with them the constructs between them and where they lead.
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
    mark_dead,
    set_native,
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
    native: bool = False  # whether jumps out of the innermost loop stay as they are


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
        self.loops = 0
        self.native, self.native_returns = _native_constructs(node.body)
        self.returns = not self.native_returns and _returns_inside(node.body, self.native)
        self.needed = bool(self.native) or self.returns or _loop_jumps(node.body, self.native)

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
        if not isinstance(node, ast.If) or id(node) in self.native or not self._jumps(node):
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
        if isinstance(node, (ast.Break, ast.Continue)) and not place.native:
            return self._loop_jump(node, place)
        if isinstance(node, LOOPS):
            return self._loop(node, place)
        if isinstance(node, TRIES):
            return self._try(node, place)
        if id(node) in self.native:
            set_native(node)
        flags: set[str] = set()
        for block in blocks_of(node):
            lowered = self.block(list(block), place)
            block[:] = lowered.body or [located(ast.Pass(), node)]
            flags |= lowered.flags
        return PlainBlock([node], flags)

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
        if id(node) in self.native:
            set_native(node)
            inner = replace(place, last=False, ends_iteration=False, native=True)
            node.body = self.block(node.body, inner).body
            node.orelse = self.block(node.orelse, replace(inner, native=place.native)).body
            return PlainBlock([node])
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
        if id(node) in self.native:
            set_native(node)
        # `finally` keeps its jumps; what it runs before control leaves is what Python would run.
        inner = replace(place, last=False, ends_iteration=False) if node.orelse else place
        lowered = self.block(node.body, inner)
        flags = set(lowered.flags)
        node.body = lowered.body
        for handler in node.handlers:
            handled = self.block(handler.body, place)
            handler.body = handled.body
            flags |= handled.flags
        if node.orelse and lowered.flags:
            after = PlainBlock()
            self._guarded(after, node, lowered.flags, node.orelse, place)
        else:
            after = self.block(node.orelse, place)
        node.orelse = after.body
        final = self.block(
            node.finalbody, BlockPosition(False, place.loop, False, place.guards, True)
        )
        node.finalbody = final.body
        return PlainBlock([node], flags | after.flags)


# What stays native ------------------------------------------------------------------------------


def _native_constructs(body: Body) -> tuple[set[int], bool]:
    """(ids of the constructs that keep their jumps, whether the function keeps its returns)."""
    native: set[int] = set()
    native_returns = False
    jumps = list(_all_jumps(body, [], None))
    while True:
        before = len(native), native_returns
        for jump in jumps:
            stays = jump.in_finally or any(id(n) in native for n in jump.between)
            if stays or (native_returns and jump.loop is None):
                native.update(map(id, jump.between))
                native_returns = native_returns or jump.loop is None
        if (len(native), native_returns) == before:
            return native, native_returns


@dataclass(frozen=True, slots=True)
class _Jump:
    node: ast.stmt
    loop: ast.stmt | None  # where it leads; None: out of the function
    between: tuple[ast.stmt, ...]  # the constructs it leaves, and that loop
    in_finally: bool


def _all_jumps(body: Sequence[ast.stmt], around: list[Any], loop: int | None) -> list[_Jump]:
    """The jumps below ``body``; ``around`` are constructs and, as None, `finally` blocks."""
    found: list[_Jump] = []
    for node in body:
        if isinstance(node, ast.Return):
            found.append(_jump(node, None, around))
        elif isinstance(node, (ast.Break, ast.Continue)):
            if loop is not None:
                found.append(_jump(node, around[loop], around[loop:]))
        elif isinstance(node, LOOPS):
            found += _all_jumps(node.body, [*around, node], len(around))
            found += _all_jumps(node.orelse, [*around, node], loop)
        elif isinstance(node, ast.If):
            for block in (node.body, node.orelse):
                found += _all_jumps(block, [*around, node], loop)
        elif isinstance(node, TRIES):
            for block in blocks_of(node):
                inside = [*around, None] if block is node.finalbody else [*around, node]
                found += _all_jumps(block, inside, loop)
        elif isinstance(node, ast.With):
            found += _all_jumps(node.body, [*around, node], loop)
        else:
            for block in blocks_of(node):
                found += _all_jumps(block, around, loop)
    return found


def _jump(node: ast.stmt, loop: ast.stmt | None, around: Sequence[Any]) -> _Jump:
    between = tuple([n for n in around if n is not None])
    return _Jump(node, loop, between, any(n is None for n in around))


def _returns_inside(body: Body, native: set[int]) -> bool:
    """Whether a return leaves a construct that is converted."""
    return any(
        jump.loop is None and any(id(n) not in native for n in jump.between)
        for jump in _all_jumps(body, [], None)
    )


def _loop_jumps(body: Body, native: set[int]) -> bool:
    """Whether a break or continue leaves a construct that is converted, or a loop has an else."""
    return any(
        jump.loop is not None and id(jump.loop) not in native for jump in _all_jumps(body, [], None)
    ) or any(isinstance(n, LOOPS) and n.orelse for b in body for n in ast.walk(b))


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
        return through and all(_block_ends(handler.body) for handler in node.handlers)
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
