"""Carry: one variable or place of a loop, from what it holds before to what an iteration leaves.

Its tensors and numbers are the loop's carried values; around them its structure stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from hybrid import ops
from hybrid.convert.converter import readable
from hybrid.ir.interpreter import current, interpreting
from hybrid.number import Number
from hybrid.tensor import Tensor, make_tensor
from hybrid.trace.grown import Grown, unwritten
from hybrid.trace.maybe import UNBOUND, Maybe
from hybrid.trace.merge import (
    NUMBER_DTYPES,
    is_number,
    kind_of,
    number_tensor,
    rebuilt,
    same_constant,
)
from hybrid.trace.reads import MISSING
from hybrid.trace.region import Region
from hybrid.trace.tracer import Tracer
from hybrid.types import TensorType, tensor_type

UNWRITTEN: Any = object()  # in place of the initial value of what nobody reads


class Mismatch(Exception):
    """What an iteration leaves cannot stand where the iteration before has stood."""


@dataclass(slots=True)
class Leaf:
    """One carried value."""

    initial: Any  # a Tensor or number of the surroundings, UNWRITTEN, or None: zeros
    param: Tensor
    final: Tensor | None = None


@dataclass(slots=True)
class Carry:
    """A variable or place that an iteration hands on to the next."""

    label: str
    initial: Any
    inside: Any = None  # the same with placeholders
    leaves: list[Leaf] = field(default_factory=list)
    unchanged: bool = False
    # Containers from before the loop, by id: they stay what they are, and are no state themselves.
    outside: dict[int, Any] = field(default_factory=dict)
    instead: list[Any] | None = None  # what a list is when there is no iteration
    handed: list[Tensor] = field(default_factory=list)  # placeholders, as the body got them

    def enter(self, region: Region, parent: Tracer) -> Any:
        """What the body finds."""
        self.inside = self._placeholder(self.initial, region, parent)
        return self.inside

    def _placeholder(self, value: Any, region: Region, parent: Tracer) -> Any:
        if isinstance(value, Tensor):
            param = region.param(value.type, readable(self.label), parent.record_of(value))
            self.leaves.append(Leaf(value, param))
            return self._handed(param)
        if is_number(value):
            kind = kind_of(value)
            param = region.param(tensor_type(NUMBER_DTYPES[kind], ()), readable(self.label))
            self.leaves.append(Leaf(value, param))
            return Number(kind, param)
        if isinstance(value, Maybe):
            inner = self._placeholder(value.value, region, parent)
            flag = self._placeholder(value.flag, region, parent)
            return Maybe(inner, getattr(flag, "tensor", flag), value.other, at=value.at)
        if isinstance(value, Zeros):
            return self._zeros(value.like, region)
        if type(value) is Grown:
            return value.with_tensors(
                [self._placeholder(t, region, parent) for t in value.tensors()], region
            )
        if isinstance(value, (tuple, list)):
            return rebuilt(value, [self._placeholder(item, region, parent) for item in value])
        if type(value) is dict:
            return {key: self._placeholder(item, region, parent) for key, item in value.items()}
        return value

    def _handed(self, param: Tensor) -> Tensor:
        """What the author gets for ``param``, and may write to."""
        made = make_tensor(param.type, param.data)
        made.record = param.record
        self.handed.append(made)
        return made

    def _zeros(self, like: Any, region: Region) -> Any:
        """A placeholder for a value that begins as zeros of the structure of ``like``."""
        if isinstance(like, Tensor):
            param = region.param(like.type, readable(self.label))
            self.leaves.append(Leaf(None, param))
            return self._handed(param)
        if is_number(like):
            kind = kind_of(like)
            return Number(kind, self._zeros(_scalar(region, kind), region))
        if isinstance(like, Maybe):
            return Maybe(
                self._zeros(like.value, region), self._zeros(like.flag, region), like.other
            )
        if type(like) is Grown:
            params = [region.param(t.type, readable(self.label)) for t in like.tensors()]
            self.leaves += [Leaf(UNWRITTEN, param) for param in params]
            return like.with_tensors(params, region)
        if isinstance(like, (list, dict)) and region.is_outside(like):
            self.outside[id(like)] = like
            return like
        if isinstance(like, (tuple, list)):
            return rebuilt(like, [self._zeros(item, region) for item in like])
        if type(like) is dict:
            return {key: self._zeros(item, region) for key, item in like.items()}
        return like

    def leave(self, final: Any, region: Region) -> None:
        """The body has left ``final``; raises Mismatch when that cannot be carried."""
        params = {leaf.param.data for leaf in self.leaves}
        written = any(tensor.data not in params for tensor in self.handed)
        self.unchanged = final is self.inside and not written
        with interpreting(region):
            finals = list(_finals(self.inside, final, region, self.outside))
        for leaf, value in zip(self.leaves, finals, strict=True):
            leaf.final = value

    def after(self, results: Iterator[Tensor]) -> Any:
        """What the variable or place holds after the loop; takes its results off ``results``."""
        mine = iter([next(results) for _ in self.leaves])
        return self.initial if self.unchanged else _rebuild(self.inside, mine, self.outside)


class Zeros:
    """An initial value that no iteration reads: zeros of the structure of ``like``."""

    __slots__ = ("like",)

    def __init__(self, like: Any) -> None:
        self.like = like


def _scalar(region: Region, kind: str) -> Tensor:
    with interpreting(region):
        return ops.zeros((), dtype=NUMBER_DTYPES[kind])


def _finals(inside: Any, final: Any, region: Region, outside: Collection[int]) -> Iterator[Tensor]:
    """The tensors that ``final`` has where ``inside`` has placeholders."""
    if id(inside) in outside:
        if final is not inside:
            raise Mismatch
    elif type(inside) is Grown:
        if type(final) is not Grown or not inside.is_like(final):
            raise Mismatch
        yield from [region.traced(t) for t in final.tensors()]
    elif isinstance(inside, Number):
        if not is_number(final) or kind_of(final) != inside.kind:
            raise Mismatch
        yield region.traced(number_tensor(final, inside.kind))
    elif isinstance(inside, Tensor):
        if not isinstance(final, Tensor) or final.type is not inside.type:
            raise Mismatch
        yield region.traced(final)
    elif isinstance(inside, Maybe):
        yield from _finals_of_maybe(inside, final, region, outside)
    elif isinstance(inside, (tuple, list)):
        if type(final) is not type(inside) or len(final) != len(inside):
            raise Mismatch
        for x, y in zip(inside, final, strict=True):
            yield from _finals(x, y, region, outside)
    elif type(inside) is dict:
        if type(final) is not dict or final.keys() != inside.keys():
            raise Mismatch
        for key, x in inside.items():
            yield from _finals(x, final[key], region, outside)
    elif not (final is inside or same_constant(final, inside)):
        raise Mismatch


def _finals_of_maybe(
    inside: Maybe, final: Any, region: Region, outside: Collection[int]
) -> Iterator[Tensor]:
    if final is inside.other:
        yield from _finals(inside.value, inside.value, region, outside)
        yield region.traced(number_tensor(False, "bool"))
    elif isinstance(final, Maybe):
        if final.other is not inside.other:
            raise Mismatch
        yield from _finals(inside.value, final.value, region, outside)
        yield region.traced(final.flag)
    else:
        yield from _finals(inside.value, final, region, outside)
        yield region.traced(number_tensor(True, "bool"))


def _rebuild(inside: Any, results: Iterator[Tensor], outside: Collection[int]) -> Any:
    """The structure of ``inside`` with results in place of its placeholders."""
    if id(inside) in outside:
        return inside
    if type(inside) is Grown:
        mine = [next(results) for _ in inside.tensors()]
        return inside.with_tensors(mine, current())
    if isinstance(inside, Number):
        return Number(inside.kind, next(results))
    if isinstance(inside, Tensor):
        return next(results)
    if isinstance(inside, Maybe):
        value = _rebuild(inside.value, results, outside)
        return Maybe(value, next(results), inside.other, at=inside.at)
    if isinstance(inside, (tuple, list)):
        return rebuilt(inside, [_rebuild(item, results, outside) for item in inside])
    if type(inside) is dict:
        return {key: _rebuild(item, results, outside) for key, item in inside.items()}
    return inside


def initial_tensor(leaf: Leaf, parent: Tracer) -> Tensor:
    """The operand with which a carried value begins."""
    type_: TensorType = leaf.param.type
    with interpreting(parent):
        if leaf.initial is None:
            return ops.zeros(type_.shape, dtype=type_.dtype)
        if leaf.initial is UNWRITTEN:
            return unwritten(leaf.param)
        if isinstance(leaf.initial, Tensor):
            return leaf.initial
        kind = kind_of(leaf.initial)
        return number_tensor(leaf.initial, kind)


def is_absent(value: Any) -> bool:
    """Whether a variable or place holds nothing that a loop could carry."""
    return value is UNBOUND or value is MISSING or value is None


def widened(initial: Any, final: Any) -> Any:
    """``initial`` such that ``final`` may be absent, or begin absent; None if that is no help."""
    if is_absent(initial):
        if isinstance(final, Maybe):
            return Maybe(Zeros(final.value), False, initial) if final.other is initial else None
        return Maybe(Zeros(final), False, initial)
    if isinstance(initial, Maybe):
        return None
    if isinstance(final, Maybe):
        return Maybe(initial, True, final.other)
    return Maybe(initial, True, final) if is_absent(final) else None
