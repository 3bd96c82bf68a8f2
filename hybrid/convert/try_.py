"""``try``: what its clauses would catch is refused where only the run may raise it."""

from __future__ import annotations

import ast
import builtins
import functools
import operator
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from hybrid.convert.converter import Converter, call, constant, fill, located
from hybrid.convert.defer import deferred
from hybrid.convert.site import Site
from hybrid.convert.traced import tracing
from hybrid.convert.trees import LOOPS, blocks_of, copied
from hybrid.errors import OF_CAPTURE, CaptureError, Location
from hybrid.interrupts import is_interrupt
from hybrid.ir.interpreter import current
from hybrid.trace.handlers import Handler, Raised
from hybrid.trace.identity import Unfollowed

_NAMES = (ast.Name, ast.Attribute, ast.Tuple, ast.expr_context)
_MARK = "MARK = hyb__.handled(SITE, TYPES)"
_BODY = """
    with MARK:
        BODY
"""
_LAST = """
    with MARK.last:
        BODY
"""


class TryConverter(Converter):
    """The statement stays; while its body is traced, its handlers are known.

    ::

        try:                        hyb_1 = hyb__.handled(SITE, lambda: (T, U))
            A                       try:
        except T as e:                  with hyb_1:
            B                               A
        except U:          ==>      except hyb__.catching(T) as e:
            C                           B
        finally:                    except hyb__.catching(U):
            D                           C
                                    finally:
                                        with hyb_1.last:
                                            D

    A jump in ``finally`` swallows whatever is raised, by a clause as well; before it comes
    ``hyb__.refuse_again()``.
    """

    nodes = (ast.Try, *((ast.TryStar,) if hasattr(ast, "TryStar") else ()))

    def convert(self, node: ast.Try) -> list[ast.stmt]:
        rewriter = self.rewriter
        node.finalbody, leaves = _guarded(node.finalbody)
        if leaves and node.handlers:
            inner = type(node)(node.body, node.handlers, node.orelse, [])
            node.body, node.handlers, node.orelse = [located(inner, node)], [], []
        caught = constant(node, None) if leaves else self._types(node)
        rewriter.children(node)
        site = rewriter.site("try", node)
        made: list[ast.stmt] = [node]
        if rewriter.in_class:  # where a variable would be seen
            mark: ast.expr | str = call(node, "handled", site, caught)
        else:
            mark = rewriter.fresh()
            made[:0] = fill(_MARK, node, MARK=mark, SITE=site, TYPES=caught)
        node.body = fill(_BODY, node, MARK=mark, BODY=node.body)
        if node.finalbody and not leaves and not rewriter.in_class:
            node.finalbody = fill(_LAST, node.finalbody[0], MARK=mark, BODY=node.finalbody)
        for handler in node.handlers:
            types = [] if handler.type is None else [handler.type]
            handler.type = call(handler.type or handler, "catching", *types)
        return made

    def _types(self, node: ast.Try) -> ast.expr:
        """What gives the types that the handlers catch; the constant None when that is unclear."""
        found = [h.type for h in node.handlers if h.type is not None]
        plain = all(isinstance(inner, _NAMES) for type in found for inner in ast.walk(type))
        if len(found) < len(node.handlers) or not plain or self.rewriter.in_class:
            return constant(node, None)
        every = located(ast.Tuple([copied(t) for t in found], ast.Load()), node)
        return deferred(self.rewriter, node, every)


def _guarded(body: list[ast.stmt], looping: bool = False) -> tuple[list[ast.stmt], bool]:
    """The statements of a ``finally``, guarded; and whether a jump leads out of it."""
    made: list[ast.stmt] = []
    leaves = False
    for node in body:
        if isinstance(node, ast.Return if looping else (ast.Return, ast.Break, ast.Continue)):
            made.append(located(ast.Expr(call(node, "refuse_again")), node))
            leaves = True
        for block in blocks_of(node):
            inside = looping or (isinstance(node, LOOPS) and block is node.body)
            block[:], found = _guarded(block, inside)
            leaves = leaves or found
        made.append(node)
    return made, leaves


# The run-time half ------------------------------------------------------------------------------


class Marked:
    """While it is entered, ``handler`` would catch."""

    __slots__ = ("handler", "handlers", "last")

    def __init__(self, handler: Handler, last: Last | None = None) -> None:
        self.handler, self.handlers, self.last = handler, current().handlers, last

    def __enter__(self) -> None:
        self.handlers.append(self.handler)

    def __exit__(self, *_error: Any) -> None:
        self.handlers.remove(self.handler)


_GROUPS = (builtins.BaseExceptionGroup,) if sys.version_info >= (3, 11) else ()


class Last:
    """A ``finally`` or ``__exit__``: a plan that ends in an exception would not do what it does."""

    __slots__ = ("at", "before", "begin", "block", "raised", "refusal", "tracer", "what")

    def __init__(self, at: Location, what: str = "a finally", block: str = "try") -> None:
        self.at, self.what, self.block = at, what, block  # of the block, and its end
        self.raised = ""  # in the body, when the plan runs

    def __enter__(self) -> None:
        self.tracer = current()
        self.refusal = refusal()
        if self.raised:
            self.begin = len(self.tracer.builder.nodes)
            self.before = self.tracer.remaining.state(self.tracer)

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None and self.refusal is not None:
            raise self.refusal  # variables may have been in disorder
        if error is not None or not self.raised:
            return
        for node in self.tracer.builder.nodes[self.begin :]:
            if not node.pure:
                raise self.refused("does this", node.location)
        now = self.tracer.remaining.state(self.tracer)
        if len(now) != len(self.before) or any(map(operator.is_not, now, self.before)):
            raise self.refused("writes what is seen after the call", self.at)

    def noting(self, catches: Callable[[Raised | None], bool]) -> Callable[[Raised | None], bool]:
        """``catches``; what it does not catch is raised before this."""

        def caught(kind: Raised | None) -> bool:
            if catches(kind):
                return True
            self.raised = "an exception" if kind is None else kind.__name__
            return False

        return caught

    def refused(self, does: str, at: Location | None) -> CaptureError:
        return CaptureError(
            f"{self.what} {does} when {self.raised} is raised, too",
            at=at,
            why="That is known only when the plan runs, and an exception ends the plan.",
            fix=f"do it after the {self.block}, or put the {self.block} around the call of the "
            "hybridized function",
        )


class _Unmarked(nullcontext):
    """What there is to enter while nothing is captured."""

    last = nullcontext()


_UNMARKED = _Unmarked()


def catching_in(site: Site, kind: str, *types: Raised) -> Marked:
    """What Python itself catches while it calls methods of the author's: for ``site``, a "for"."""
    frame = id(sys._getframe(1))
    at = site.location
    return Marked(Handler(at, frame, lambda e: e is not None and issubclass(e, types), kind=kind))


def handled(site: Site, types: Callable[[], Any] | None) -> Any:
    """The body of a ``try`` whose clauses catch what ``types`` gives, or anything."""
    if not tracing():
        return _UNMARKED
    last = Last(site.location)

    catches = last.noting(functools.partial(_among, types=types))
    return Marked(Handler(site.location, id(sys._getframe(1)), catches), last)


def _among(kind: Raised | None, types: Callable[[], Any] | None) -> bool:
    """Whether clauses for ``types`` (None: all there are) may catch ``kind`` (None: some class)."""
    if types is None:
        return True
    try:
        found = [each for clause in types() for each in _each(clause)]
    except Exception as error:  # Python would raise it, too
        if is_interrupt(error):
            raise
        return True
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in found):
        return True  # as it would here
    if kind is None or issubclass(kind, _GROUPS):
        return bool(found)
    return any(each in kind.__mro__ for each in found)


def _each(types: Any) -> tuple[Any, ...]:
    return types if isinstance(types, tuple) else (types,)


def is_refusal(error: BaseException | None) -> bool:
    """Whether ``error`` says that a capture cannot go on: nothing of the author's catches that."""
    return tracing() and (isinstance(error, (*OF_CAPTURE, Unfollowed)) or is_interrupt(error))


def catching(types: Any = BaseException) -> Any:
    """What a clause for ``types`` catches of what is raised now."""
    return () if is_refusal(sys.exc_info()[1]) else types


def refusal() -> BaseException | None:
    """What is raised now, if nothing of the author's is to catch it."""
    error = sys.exc_info()[1]
    return error if is_refusal(error) else None


def refuse_again() -> None:
    """A jump is about to swallow what is raised now."""
    error = refusal()
    if error is not None:
        raise error


TryConverter.runtime = (handled, catching, refuse_again)
