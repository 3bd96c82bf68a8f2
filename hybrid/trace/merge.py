"""Merge: what variables and places hold where two paths of a program meet.

Each path has been traced into a region of its own.  Values that agree stay what they are; tensors
and numbers that differ become results of the node; what cannot be merged is refused by name.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hybrid import ops
from hybrid.errors import CaptureError, Location
from hybrid.ir import Op
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.tensor import Tensor
from hybrid.trace.grown import Grown, Torn
from hybrid.trace.key import CONTENT
from hybrid.trace.maybe import UNBOUND, Maybe
from hybrid.trace.merge_lists import merged_lists, optional
from hybrid.trace.reads import ATOMS, MISSING
from hybrid.trace.region import Region
from hybrid.types import DType, TensorType, bool_, float64, int64, promote, promote_scalar

Build = Callable[[Sequence[Tensor]], Any]  # from the node's results to the merged value
NUMBER_DTYPES: dict[str, DType] = {"bool": bool_, "int": int64, "float": float64}
_RANK = {"bool": 0, "int": 1, "float": 2}
# How variables of conversion itself begin, and no others; they are not read before they are bound.
OWN = "hyb$"
DIVERGED: Any = object()  # in place of the values of a path that ends in an exception


@dataclass(frozen=True, slots=True)
class Side:
    """One of the paths: its region, and how messages call it."""

    region: Region
    label: str
    lines: Mapping[str, Location] = field(default_factory=dict)  # where it binds a name
    places: Mapping[tuple[int, str], Any] = field(default_factory=dict)  # what it has left there

    def content(self, value: Any) -> Any:
        """``value``; a list or dict from outside as the path has left it."""
        return self.places.get((id(value), CONTENT), value)


class Merge:
    """Collects what two regions return, leaf by leaf."""

    def __init__(self, first: Side, second: Side, pred: Tensor, at: Location | None) -> None:
        self.first, self.second, self.pred, self.at = first, second, pred, at
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def pair(self, a: Tensor, b: Tensor) -> int:
        """The result that is ``a`` on the first path and ``b`` on the second."""
        for index, (known_a, known_b) in enumerate(self.pairs):
            if known_a.data is a.data and known_b.data is b.data:
                return index
        self.pairs.append((a, b))
        return len(self.pairs) - 1

    def tree(self, a: Any, b: Any, name: str) -> Build:
        """What builds the merged value of ``a`` and ``b``."""
        if a is b or (a is DIVERGED and b is DIVERGED):
            return lambda results: a
        a, b = self.first.content(a), self.second.content(b)
        if same_constant(a, b):
            return lambda results: a
        if name.startswith(OWN) and (a is UNBOUND or b is UNBOUND):
            return self._only(DIVERGED if a is UNBOUND else a, DIVERGED if b is UNBOUND else b)
        for absent in (UNBOUND, MISSING, None):
            if a is absent or b is absent or _absence(a, absent) or _absence(b, absent):
                return self._maybe(a, b, absent, name)
        if isinstance(a, Maybe) or isinstance(b, Maybe):
            self.refuse(a, b, name)
        if a is DIVERGED or b is DIVERGED:
            return self._only(a, b)
        if is_number(a) and is_number(b):
            return self._numbers(a, b)
        if _is_leaf(a) and _is_leaf(b):
            return self._tensors(a, b, name)
        if type(a) is list and type(b) is list and _differ_in_length(a, b):
            return merged_lists(self, a, b, name)
        if type(a) is type(b) and isinstance(a, (tuple, list)) and len(a) == len(b):
            parts = [
                self.tree(x, y, f"{name}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True))
            ]
            return lambda results: rebuilt(a, [part(results) for part in parts])
        if type(a) is dict and type(b) is dict:
            items = {
                key: self.tree(a.get(key, MISSING), b.get(key, MISSING), f"{name}[{key!r}]")
                for key in {**a, **b}
            }
            return lambda results: {k: _keyed(k, part(results)) for k, part in items.items()}
        return self.refuse(a, b, name)

    def _numbers(self, a: Any, b: Any) -> Build:
        if a is True and b is False:
            return lambda results: Number("bool", self.pred)
        kind = max(kind_of(a), kind_of(b), key=_RANK.__getitem__)
        index = self.pair(self._number(self.first, a, kind), self._number(self.second, b, kind))
        return lambda results: Number(kind, results[index])

    def _number(self, side: Side, value: Any, kind: str) -> Tensor:
        with interpreting(side.region):
            return side.region.traced(number_tensor(value, kind))

    def _tensors(self, a: Any, b: Any, name: str) -> Build:
        wanted = common_type(a, b)
        mixed = isinstance(a, Tensor) != isinstance(b, Tensor)
        if wanted is None or (mixed and self.first.region.general):
            self.refuse(a, b, name)
        index = self.pair(self._as(self.first, a, wanted), self._as(self.second, b, wanted))

        def build(results: Sequence[Tensor]) -> Tensor:
            for side, value in ((self.first, a), (self.second, b)):
                self._remember(results[index], side, value)
            return results[index]

        return build

    def _remember(self, made: Tensor, side: Side, value: Any) -> None:
        """What is written to ``made`` is written to a ``value`` from outside the region, too."""
        region = side.region
        if isinstance(value, Tensor) and value.type is made.type:
            inner = id(value) in region.choices
            if inner or not region.owns(value):
                place = None if inner else value
                region.parent.choose(made, place, self.pred, side is self.first)

    def _as(self, side: Side, value: Any, wanted: TensorType) -> Tensor:
        with interpreting(side.region):
            if not isinstance(value, Tensor):
                value = weak_tensor(value, wanted.dtype)
            elif value.type is not wanted:
                value = ops.astype(value, wanted.dtype)
            return side.region.traced(value)

    def _only(self, a: Any, b: Any) -> Build:
        """The value of the one path that goes on."""
        goes_on = b if a is DIVERGED else a
        side, other = (self.second, self.first) if a is DIVERGED else (self.first, self.second)
        return self._filled(goes_on, side, other)

    def _filled(self, value: Any, side: Side, other: Side) -> Build:
        """``value`` of ``side``, with zeros in its place on the ``other`` path."""
        if isinstance(value, Tensor):
            with interpreting(side.region):
                mine = side.region.traced(value)
            filler = self._zeros(other, value.type)
            index = self.pair(mine, filler) if side is self.first else self.pair(filler, mine)
            return lambda results: results[index]
        if isinstance(value, Number):
            part = self._filled(value.tensor, side, other)
            return lambda results: Number(value.kind, part(results))
        if isinstance(value, Maybe):
            inner, flag = self._filled(value.value, side, other), self._filled(
                value.flag, side, other
            )  # fmt: skip
            return lambda results: Maybe(inner(results), flag(results), value.other, at=value.at)
        if isinstance(value, (list, dict)) and side.region.is_outside(value):
            return lambda results: value  # what it holds is merged as a place
        if type(value) is Grown:
            return optional(self, side, other, value)
        if isinstance(value, (tuple, list)):
            parts = [self._filled(item, side, other) for item in value]
            return lambda results: rebuilt(value, [part(results) for part in parts])
        if type(value) is dict:
            items = {key: self._filled(item, side, other) for key, item in value.items()}
            return lambda results: {key: part(results) for key, part in items.items()}
        return lambda results: value

    def _zeros(self, side: Side, type: TensorType) -> Tensor:
        with interpreting(side.region):
            return ops.zeros(type.shape, dtype=type.dtype)

    def _maybe(self, a: Any, b: Any, absent: Any, name: str) -> Build:
        """A value on some paths, ``absent`` on others."""
        if a is DIVERGED or b is DIVERGED:
            if a is absent or b is absent:
                return lambda results: absent
            return self._only(a, b)
        parts = []
        for value in (a, b):
            if value is absent:
                parts.append((absent, False))
            elif isinstance(value, Maybe):
                if value.other is not absent:
                    self.refuse(a, b, name)
                parts.append((value.value, Number("bool", value.flag)))
            else:
                parts.append((value, True))
        (value_a, flag_a), (value_b, flag_b) = parts
        both = name in self.first.lines and name in self.second.lines
        refuse = partial(self.refuse, a, b, name) if both and absent is None else None
        flag = self.tree(flag_a, flag_b, name)
        if value_a is absent:
            value = self._filled(value_b, self.second, self.first)
        elif value_b is absent:
            value = self._filled(value_a, self.first, self.second)
        else:
            value = self.tree(value_a, value_b, name)

        def build(results: Sequence[Tensor]) -> Any:
            known = flag(results)
            if isinstance(known, Number):
                return Maybe(value(results), known.tensor, absent, refuse=refuse, at=self.at)
            return value(results) if known else absent

        return build

    def _described(self, value: Any, side: Side, name: str) -> str:
        text = describe(value)
        line = side.lines.get(name.split("[")[0])
        if line is not None and str(line) not in text:
            text = f"{text} ({line})"
        return f"{text} {side.label}"

    def refuse(self, a: Any, b: Any, name: str) -> Any:
        shown = _shown(name)
        raise CaptureError(
            f"{shown} is {self._described(a, self.first, name)}, and "
            f"{self._described(b, self.second, name)}",
            at=self.at,
            why="Which of the two it is depends on the value of a tensor, and a graph needs one "
            "type and structure.",
            fix=remedy(a, b)
            or f"give {shown.split('[')[0].split('.')[0]} the same type, shape and structure on "
            "both paths",
        )


def _shown(name: str) -> str:
    """What messages call a variable: what conversion keeps a result in is that."""
    own = f"{OWN}result"
    return f"the result{name.removeprefix(own)}" if name.startswith(own) else name


def _differ_in_length(a: list[Any], b: list[Any]) -> bool:
    return len(a) != len(b) or any(type(item) in (Grown, Torn) for item in (*a, *b))


def _keyed(key: Any, value: Any) -> Any:
    """An item that may be missing raises KeyError."""
    if isinstance(value, Maybe) and value.other is MISSING:
        return Maybe(value.value, value.flag, MISSING, KeyError(key), at=value.at)
    return value


def _absence(value: Any, absent: Any) -> bool:
    return isinstance(value, Maybe) and value.other is absent


def is_number(value: Any) -> bool:
    """Whether ``value`` is a Python number or a Number."""
    return isinstance(value, Number) or type(value) in (bool, int, float)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor) or is_number(value)


def kind_of(value: Any) -> str:
    """The kind of a Python number or Number."""
    return value.kind if isinstance(value, Number) else type(value).__name__


def number_tensor(value: Any, kind: str) -> Tensor:
    """A number as the scalar that stands for a number of ``kind``."""
    return weak_tensor(value, NUMBER_DTYPES[kind])


def weak_tensor(value: Any, dtype: DType) -> Tensor:
    """A number, which takes the dtype of the tensor it meets."""
    from hybrid.ir.interpreter import current

    if isinstance(value, Number):
        return value.lifted(dtype)
    return current().lift(value, dtype)


def common_type(a: Any, b: Any) -> TensorType | None:
    """The type that both take; None when their shapes differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.type.shape != b.type.shape:
            return None
        return a.type if a.type is b.type else a.type.with_dtype(promote(a.dtype, b.dtype))
    tensor, number = (a, b) if isinstance(a, Tensor) else (b, a)
    if tensor.type.rank:
        return None
    example = {"bool": False, "int": 0, "float": 0.0}[kind_of(number)]
    return tensor.type.with_dtype(promote_scalar(tensor.dtype, example))


def same_constant(a: Any, b: Any) -> bool:
    """Whether two values are plain Python values that nobody can tell apart."""
    if type(a) is not type(b) or isinstance(a, Number):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, (*ATOMS, complex)):
        return a == b
    if isinstance(a, (tuple, frozenset)) and not isinstance(a, Tensor):
        return (
            isinstance(a, tuple)
            and len(a) == len(b)
            and all(same_constant(x, y) or x is y for x, y in zip(a, b, strict=True))
        ) or (isinstance(a, frozenset) and a == b)
    return False


def rebuilt(like: Any, items: Sequence[Any]) -> Any:
    """``items`` as a sequence of the class of ``like``."""
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*items)
    return type(like)(items)


def remedy(a: Any, b: Any) -> str:
    """What to do about two objects, or texts, in the place of one; empty for other values."""
    if isinstance(a, str) and isinstance(b, str):
        return "use an int in place of the text, and look the text up outside: NAMES[code]"
    if callable(a) and callable(b) and not isinstance(a, Tensor):
        return (
            "call the one on the one path and the other on the other, and go on with what they "
            "return"
        )
    if isinstance(a, set) and isinstance(b, set):
        return "keep what is in the set in a tensor of flags (seen[i] = True)"
    plain = (Tensor, Number, Maybe, list, tuple, dict, *ATOMS)
    if type(a) is type(b) and not isinstance(a, plain):
        return (
            "set the attributes of one object, which is made before, or keep the values in "
            "variables or a named tuple"
        )
    return ""


def describe(value: Any) -> str:
    """``value`` as messages call it, with the line that made it."""
    if isinstance(value, Tensor):
        place = getattr(value.data, "location", None)
        return f"{value.type} ({place})" if place else str(value.type)
    if isinstance(value, Number):
        place = getattr(value.tensor.data, "location", None)
        name = f"a traced {value.kind}"
        return f"{name} ({place})" if place else name
    if value is UNBOUND or value is MISSING:
        return "unbound"
    if isinstance(value, Maybe):
        return f"{describe(value.value)} or {describe(value.other)}"
    if isinstance(value, (list, tuple)):
        known = all(type(item) is not Grown for item in value)
        return f"a {type(value).__name__} of {len(value) if known else 'unknown length'}"
    if isinstance(value, dict):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    if isinstance(value, set):
        return f"a set of {len(value)}"
    if isinstance(value, Op):
        return f"the function {value.name}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    return f"a {type(value).__name__}"
