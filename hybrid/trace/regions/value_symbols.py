"""Sizes that depend on values, in a graph that is traced: symbols, and paths that tell them apart.

A traced scalar, or an op whose result has as many elements as values say, brings a symbol
(``hybrid/ops/index/value_sizes.py``).  Its value here is that of the call that is captured.  Inside
branches and loops there are no such symbols: which way the code takes, and how often, is a size
itself then, of which a condition tells what it is here.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.core.exceptions import CaptureSignal
from hybrid.core.sizes import HIGHEST, OpenSizes, Size
from hybrid.core.types import int64
from hybrid.eager.execution import measured
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    EagerOnlyError,
    PathError,
    PathObjectError,
    UncapturedCallError,
    author_location,
)
from hybrid.ir import Op, Value, get_op
from hybrid.trace.guards.constants import value_here

MOST_DECISIONS = 256  # of a capture: which path is taken, how often a loop runs


def site_key(site: Any) -> Any:
    """What tells the construct at ``site`` from others, in each capture."""
    return site.kind, str(site.location), site.function


@dataclass(eq=False, slots=True)
class Paths:
    """What captures of a function have found out about sizes, and objects, that values decide."""

    sized: bool = False  # whether there are any
    decided: set[Any] = field(default_factory=set)  # keys of sites, each path captured by itself
    made: set[str] = field(default_factory=set)  # lines of constructs that are decided, too
    objects: list[PathObjectError] = field(default_factory=list)  # where that is for objects
    cut: set[str] = field(default_factory=set)  # lines with slices that a run has cut short


class NeedsSizes(CaptureSignal):
    """Raised where a size depends on values, by a capture that has no symbols for such."""


class ValueSizes:
    """The half of a tracer that makes sizes of values."""

    parent: Any
    general: bool
    unrolls: bool
    opens: OpenSizes | None
    paths: Paths | None
    decisions: int
    size_values: dict[Value, Size]
    known_truths: dict[Value, bool]  # of bool scalars on which a path was decided
    traced: Any
    apply: Any

    def sized(self, op: Op, operand: Tensor) -> Tensor:
        """The result of an op whose size depends on values: a new symbol."""
        self.require_path(f"a size depends on values ({operand.type})")
        return self._measured(op, operand, 0)[0]

    def size_value(self, number: Tensor) -> Size | None:
        """The size that an integer scalar is in each run; None inside branches and loops."""
        if self.general or (self.parent is None and self.paths is None):
            return None
        if self.parent is not None and not self.unrolls:
            return None  # an index of a loop, perhaps, that is unrolled at the next attempt
        return self._size_of(number)

    def _size_of(self, number: Tensor) -> Size:
        self.require_path("a size depends on values")
        number = self.traced(number)
        known = self.size_values.get(number.content)
        if known is None:
            op = get_op("size_value")
            _, known = self._measured(op, number, -HIGHEST)
            self.size_values[number.content] = known
        return known

    def require_path(self, what: str) -> None:
        """Raise PathError inside branches and loops."""
        if self.parent is not None and self.many > self.parent.many:
            raise EagerOnlyError(
                f"{what} inside vmap",
                at=author_location(),
                why="Whether it is the same in each row shows while the function runs.",
            )
        if self.parent is not None or self.paths is None:
            raise PathError(
                f"{what} inside a branch or loop",
                at=author_location(),
                why="Sizes of what branches and loops make are known before they run.",
                fix="keep the shape: hybrid.where(mask, x, 0), with what changes no sum, product "
                "or maximum in place of 0; or select behind the loop",
            )

    def decides(self, site: Any) -> bool:
        """Whether each path through the construct at ``site`` is captured by itself."""
        if self.parent is not None or self.paths is None:
            return False
        paths = self.paths
        if not (paths.decided or paths.made):
            return False
        return site_key(site) in paths.decided or str(site.location) in paths.made

    def decision(self, test: Tensor) -> bool:
        """The truth of ``test``, a bool scalar, which is a condition from now on."""
        if test.content not in self.known_truths:
            number = self.apply(get_op("cast"), (test,), {"dtype": int64})
            self.known_truths[test.content] = bool(self._decided_size(number) > 0)
        return self.known_truths[test.content]

    def decided_count(self, count: Tensor) -> int:
        """What ``count``, an int64 scalar, is, which is a condition from now on."""
        return operator.index(self._decided_size(count))

    def _decided_size(self, number: Tensor) -> Size:
        self.decisions += 1
        if self.decisions > MOST_DECISIONS:
            raise EagerOnlyError(
                f"a size changes in a loop of more than {MOST_DECISIONS} iterations",
                at=author_location(),
                why="Each of them is planned by itself.",
            )
        return self._size_of(number)

    def _measured(self, op: Op, operand: Tensor, low: int) -> tuple[Tensor, Size]:
        """The result of an op that gives a new symbol its values, and that."""
        if self.opens is None:
            raise NeedsSizes
        found = value_here(self, operand)
        value = 0 if found is None else measured(op, found)[1]
        if not low <= value <= HIGHEST:
            raise UncapturedCallError(
                f"a size depends on values, and is {value}",
                at=author_location(),
                why=f"In a graph none exceeds {HIGHEST}.",
            )
        taken = {symbol.name for symbol in self.opens.symbols}
        name = next(f"k{i or ''}" for i in itertools.count() if f"k{i or ''}" not in taken)
        size = self.opens.symbol(name, value, low)
        return self.apply(op, (operand,), {"size": size}), size
