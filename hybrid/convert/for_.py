"""``for``: Python's own iterations over plain iterables, passes over the body for the rest."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from hybrid.convert.converter import Filling, located, name
from hybrid.convert.session import ONE_BY_ONE, Session, unrolled
from hybrid.convert.site import Site
from hybrid.convert.statement import StatementConverter
from hybrid.convert.traced import look, refuse_partial, tracing
from hybrid.convert.try_ import catching_in
from hybrid.convert.while_ import native_loop
from hybrid.errors import CaptureError
from hybrid.ir.interpreter import current
from hybrid.progress import unwrapped
from hybrid.trace.grown import Grown


class ForConverter(StatementConverter):
    """The target and the body stay in the author's frame.

    ::

        for x in xs:          hyb_1 = hyb__.for_(SITE, xs)
            body      ==>     while hyb_1.again(...):
                                  if hyb_1.loads:
                                      a, = hyb_1.values
                                  with hyb_1:
                                      x = hyb_1.item
                                      body
                              if hyb_1.loads:
                                  a, = hyb_1.values
    """

    nodes = (ast.For,)
    kind, blocks = "for", 2
    head = "iter"  # where Python itself says that iterating goes wrong
    template = """
        SESSION = hyb__.for_(SITE, ITERABLE)
        while SESSION.again(VIEW):
            LOAD
            with SESSION:
                BODY
        LOAD
    """

    def native(self, node: ast.For) -> ast.stmt:
        node.iter = self.rewriter.visit(node.iter)
        node.target = self.rewriter.visit(node.target)
        return native_loop(self.rewriter, node)

    def parts(self, node: ast.For, session: str) -> dict[str, Filling]:
        iterable = self.rewriter.visit(node.iter)
        item = located(ast.Attribute(name(node.target, session), "item", ast.Load()), node.target)
        target = located(ast.Assign([node.target], item), node.target)
        return {"ITERABLE": iterable, "BODY": self.body([target, *node.body])}


class For(Session):
    """A ``for`` that takes its items from a Python iterator."""

    __slots__ = ("_item", "count", "iterator")

    def __init__(self, site: Site, iterable: Any) -> None:
        super().__init__(site)
        self.iterator: Any = None
        self.count = 0
        if tracing():
            iterable = unwrapped(iterable)
            look(iterable)
            refuse_partial(iterable, "gone over")
            from hybrid.convert.effects import gone_over
            from hybrid.convert.staged_for import staged_for

            gone_over(iterable, "a for loop", site.location)
            self.staged = staged_for(site, iterable)
        if self.staged is None:
            self.iterator = iter(iterable)

    @property
    def item(self) -> Any:
        """The item of this pass, to be asked for once: the session does not keep it alive."""
        if self.staged is not None:
            return self.staged.item
        item, self._item = self._item, None
        return item

    def again(self, found: Mapping[str, Any]) -> bool:
        if self.staged is not None:
            return self.staged.again(found)
        if self.count:
            for flag in self.site.stops:
                if found[flag]:
                    return self._over()
        try:
            self._item = following(self.site, self.iterator)
        except StopIteration:
            return self._over()
        self.count += 1
        return True

    def _over(self) -> bool:
        self.iterator = None
        if tracing():
            current().note(self.site.location, unrolled(self.count, ONE_BY_ONE))
        return False

    def abandon(self) -> None:
        self.iterator = None


def following(site: Site, iterator: Iterator[Any]) -> Any:
    """The next item of a loop."""
    if not tracing():
        return next(iterator)
    ends = (StopIteration, IndexError) if type(iterator) is _BY_INDEX else (StopIteration,)
    with catching_in(site, "for", *ends):
        item = next(iterator)
    if type(item) is Grown:
        raise CaptureError(
            "a list grows on some paths while a loop goes over it",
            at=site.location,
            why="Whether the loop has another iteration would depend on the value of a tensor.",
            fix="go over a copy of it (for x in list(xs)), or let it grow on every path",
        )
    return item


class _Indexed:
    """Gone over by index."""

    def __getitem__(self, index: int) -> Any:
        raise IndexError


_BY_INDEX = type(iter(_Indexed()))


def for_(site: Site, iterable: Any) -> For:
    """The session of a ``for`` over ``iterable``."""
    return For(site, iterable)


ForConverter.runtime = (for_,)
