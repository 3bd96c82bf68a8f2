"""Merge: one value for each variable and place where two paths of a program meet.

Each path has been traced into a region of its own.  Values that agree stay what they are; tensors
and numbers that differ become results of the node; what cannot be merged is refused by name.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.core.dataclass import dataclass, field
from hybrid.core.open_numbers import is_open, is_same
from hybrid.core.own_names import PREFIX, RESULT, VALUE
from hybrid.core.tree import flatten
from hybrid.core.types import DType, TensorType, bool_, float64, int64, promote, promote_scalar
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location, PathError, author_location
from hybrid.ir import Op
from hybrid.ir.interpreter import current, interpreting
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed, kinds_of, spread, union
from hybrid.number.tensor_or_number import TensorOrNumber, as_plain
from hybrid.trace.places.code_owner import ATOMS, MISSING
from hybrid.trace.places.objects import attributes, blank, filled, is_plain
from hybrid.trace.places.place import CONTENT, DequeContent, DivergedContent, refill
from hybrid.trace.regions.merge_dicts import merged_dicts
from hybrid.trace.regions.merge_lists import merged_lists, optional
from hybrid.trace.regions.pending_errors import is_inner
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.ties import Met
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import UNBOUND, OptionalValue, of_attribute
from hybrid.trace.values.varlist import VarList

Build = Callable[[Sequence[Tensor]], Any]  # from the node's results to the merged value
NUMBER_DTYPES: dict[str, DType] = {"bool": bool_, "int": int64, "float": float64}
DIVERGED: Any = object()  # in place of the values of a path that ends in an exception


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two paths: its region, and its name in messages."""

    region: Region
    label: str
    lines: Mapping[str, Location] = field(default_factory=dict)  # where it binds a name
    places: Mapping[tuple[int, str], Any] = field(default_factory=dict)  # what it has left there

    def content(self, value: Any) -> Any:
        """``value``; a list or dict from outside as the path has left it."""
        return self.places.get((id(value), CONTENT), value)

    def owns(self, number: Any) -> bool:
        """Whether a number is one that only this path has."""
        return isinstance(number, Number) and self.region.owns(number.tensor)

    def attributes(self, value: Any) -> dict[str, Any]:
        """The attributes of an object as the path has left them."""
        found = attributes(value)
        found |= {n: v for (key, n), v in self.places.items() if key == id(value)}
        return {name: part for name, part in found.items() if part is not MISSING}


class Merge:
    """The merge of two paths: it collects what both regions return, leaf by leaf."""

    def __init__(self, first: Side, second: Side, pred: Tensor, at: Location | None) -> None:
        self.first, self.second, self.pred, self.at = first, second, pred, at
        self.pairs: list[tuple[Tensor, Tensor]] = []
        self.shared: dict[tuple[int, int], Build] = {}  # by the ids of what is mutable on each path
        self.met: dict[Any, Met] = {}  # tensors that names and places get

    def pair(self, a: Tensor, b: Tensor) -> int:
        """The result that is ``a`` on the first path and ``b`` on the second."""
        for index, (known_a, known_b) in enumerate(self.pairs):
            if known_a.content is a.content and known_b.content is b.content:
                return index
        self.pairs.append((a, b))
        return len(self.pairs) - 1

    def tree(self, a: Any, b: Any, name: str) -> Build:
        """The builder of the merged value of ``a`` and ``b``."""
        if a is b or (a is DIVERGED and b is DIVERGED):
            return lambda results: a
        if same_constant(a, b):
            return lambda results: a
        if name.startswith(PREFIX) and (a is UNBOUND or b is UNBOUND):
            return self.only(DIVERGED if a is UNBOUND else a, DIVERGED if b is UNBOUND else b)
        for absent in (UNBOUND, MISSING, None):
            if a is absent or b is absent or _absence(a, absent) or _absence(b, absent):
                return self._maybe(a, b, absent, name)
        if isinstance(a, OptionalValue) or isinstance(b, OptionalValue):
            self.refuse(a, b, name)
        if a is DIVERGED or b is DIVERGED:
            return self.only(a, b)
        if is_number(a) and is_number(b):
            return self._numbers(a, b)
        if _is_leaf(a) and _is_leaf(b):
            either = may_be_number(a) or may_be_number(b)
            return (self._tensors_or_numbers if either else self._tensors)(a, b, name)
        if isinstance(a, tuple) and type(a) is type(b) and len(a) == len(b):
            refuse_attributes(a)
            refuse_attributes(b)
            return self._sequences(a, b, name)
        held = isinstance(a, list) or type(a) is dict
        if type(a) is type(b) and (held or is_plain(a)):
            return self._once(a, b, lambda: self._mutables(a, b, name))
        return self.refuse(a, b, name)

    def _once(self, a: Any, b: Any, arrange: Callable[[], tuple[Any, Build]]) -> Build:
        """What builds one object for ``a`` and ``b``, wherever the paths hold these two.

        ``arrange`` gives an object, and what builds that which it is to hold.
        """
        key = id(a), id(b)
        if key not in self.shared:
            parts: list[tuple[Any, Build]] = []
            done: list[bool] = []

            def build(results: Sequence[Tensor]) -> Any:
                made, content = parts[0]
                if not done:
                    done.append(True)  # first, for it may hold itself
                    found = content(results)
                    held = isinstance(made, (list, dict))
                    refill(made, found) if held else filled(made, found)
                return made

            self.shared[key] = build
            try:
                parts.append(arrange())
            except CaptureError:
                del self.shared[key]
                raise
        return self.shared[key]

    def _mutables(self, a: Any, b: Any, name: str) -> tuple[Any, Build]:
        """What stands for ``a`` on the first path and ``b`` on the second."""
        if isinstance(a, (list, dict)):
            made = type(a).__new__(type(a))
            build = self.contents(self.first.content(a), self.second.content(b), name)
        else:
            made = blank(type(a))
            build = self._objects(a, b, name)
        self.first.region.stand_ins.add(made, (a, b), self.at, self.pred)
        return made, build

    def contents(self, a: Any, b: Any, name: str) -> Build:
        """A new list or dict that holds what ``a`` and ``b`` do on their paths."""
        if type(a) is dict:
            return merged_dicts(self, a, b, name)
        if type(a) is list and _differ_in_length(a, b):
            return merged_lists(self, a, b, name)
        if len(a) != len(b):
            self.refuse(a, b, name)
        return self._sequences(a, b, name)

    def _sequences(self, a: Any, b: Any, name: str) -> Build:
        parts = [self.tree(x, y, f"{name}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True))]
        return lambda results: rebuilt(a, [part(results) for part in parts])

    def _objects(self, a: Any, b: Any, name: str) -> Build:
        of_a, of_b = self.first.attributes(a), self.second.attributes(b)
        parts = {
            n: self.tree(of_a.get(n, MISSING), of_b.get(n, MISSING), f"{name}.{n}")
            for n in {**of_a, **of_b}
        }
        return lambda results: {
            n: of_attribute(part(results), type(a), n, self.at) for n, part in parts.items()
        }

    def _numbers(self, a: Any, b: Any) -> Build:
        if a is True and b is False:
            return lambda results: Number("bool", self.pred)
        if a is False and b is True:
            return lambda results: Number("bool", self._otherwise())
        kinds = union(kinds_of(a), kinds_of(b))
        if len(kinds) > 1:
            return self._mixed(a, b, kinds)
        [kind] = kinds
        index = self.pair(self._number(self.first, a, kind), self._number(self.second, b, kind))
        return lambda results: Number(kind, results[index])

    def _otherwise(self) -> Tensor:
        with interpreting(self.first.region.parent):
            return ops.logical_not(self.pred)

    def _mixed(self, a: Any, b: Any, kinds: Sequence[str]) -> Build:
        """A number that has the kind, too, which it has on the path that is taken."""
        first, second = spread(a, kinds), spread(b, kinds)
        count = len(kinds) - 1
        for at, kind in enumerate(kinds, count):  # one path may have the other's, never to read it
            if kind not in kinds_of(a) and not self.second.owns(second[at]):
                first[at] = second[at]
            elif kind not in kinds_of(b) and not self.first.owns(first[at]):
                second[at] = first[at]
        parts = [self.tree(x, y, "a number") for x, y in zip(first, second, strict=True)]

        def build(results: Sequence[Tensor]) -> Mixed:
            numbers = [part(results) for part in parts]
            return Mixed(numbers[:count], numbers[count:])

        return build

    def _number(self, side: Side, value: Any, kind: str) -> Tensor:
        with interpreting(side.region):
            return side.region.traced(number_tensor(value, kind))

    def _tensors_or_numbers(self, a: Any, b: Any, name: str) -> Build:
        """A tensor, or the number that it is on the path that is taken."""
        mixed = isinstance(a, Tensor) != isinstance(b, Tensor)
        if mixed and self.first.region.general:
            self.refuse(a, b, name)
        tensor = self._tensors(as_plain(a), as_plain(b), name)
        (flag_a, number_a), (flag_b, number_b) = _as_number(a), _as_number(b)
        flag = self.tree(flag_a, flag_b, name)
        if number_a is None:
            number = self.filled(number_b, self.second, self.first)
        elif number_b is None:
            number = self.filled(number_a, self.first, self.second)
        else:
            number = self.tree(number_a, number_b, name)
        return lambda results: TensorOrNumber(tensor(results), flag(results), number(results))

    def _tensors(self, a: Any, b: Any, name: str) -> Build:
        wanted = common_type(a, b)
        if wanted is None:
            self.refuse(a, b, name)
        index = self.pair(self._as(self.first, a, wanted), self._as(self.second, b, wanted))
        retyped = any(isinstance(x, Tensor) and x.type is not wanted for x in (a, b))
        return self._met(a, b, Met((a, b), index, retyped=retyped))

    def _met(self, a: Any, b: Any, made: Met) -> Build:
        """What builds a tensor that is ``a`` or ``b``, the same one for the same two."""
        return self.met.setdefault((id(a), id(b), made.alone), made).build

    def _as(self, side: Side, value: Any, wanted: TensorType) -> Tensor:
        with interpreting(side.region):
            if not isinstance(value, Tensor):
                value = weak_tensor(value, wanted.dtype)
            elif value.type is not wanted:
                value = ops.astype(value, wanted.dtype)
            return side.region.traced(value)

    def only(self, a: Any, b: Any) -> Build:
        """The value of the one path that goes on."""
        goes_on = b if a is DIVERGED else a
        side, other = (self.second, self.first) if a is DIVERGED else (self.first, self.second)
        return self.filled(goes_on, side, other)

    def filled(self, value: Any, side: Side, other: Side) -> Build:
        """``value`` of ``side``, with zeros, that nobody reads, in its place on the ``other``."""
        if isinstance(value, (Tensor, Number)) and not is_inner(value, side.region):
            return lambda results: value  # it was there before
        if type(value) is TensorOrNumber:
            parts = [self.filled(part, side, other) for part in value.members]
            return lambda results: value.of(*[part(results) for part in parts])
        if isinstance(value, Tensor):
            with interpreting(side.region):
                mine = side.region.traced(value)
            filler = self._zeros(other, value.type)
            at = 0 if side is self.first else 1
            index = self.pair(filler, mine) if at else self.pair(mine, filler)
            sides = (None, value) if at else (value, None)
            return self._met(*sides, Met(sides, index, at))
        if type(value) is Mixed:
            numbers = [self.filled(number, side, other) for number in value.numbers]
            return lambda results: value.of([number(results) for number in numbers])
        if isinstance(value, Number):
            part = self.filled(value.tensor, side, other)
            return lambda results: Number(value.kind, part(results))
        if isinstance(value, OptionalValue):
            inner, flag = self.filled(value.value, side, other), self.filled(
                value.flag, side, other
            )  # fmt: skip
            return lambda results: value.of(inner(results), flag(results))
        if isinstance(value, (list, dict)) and side.region.is_outside(value):
            return lambda results: value  # what it holds is merged as a place
        if type(value) is VarList:
            return optional(self, side, other, value)
        if isinstance(value, tuple):
            parts = [self.filled(item, side, other) for item in value]
            return lambda results: rebuilt(value, [part(results) for part in parts])
        held = isinstance(value, list) or type(value) is dict
        if held or (is_plain(value) and not side.region.is_outside(value)):
            return self._once(value, side, lambda: self._kept(value, side, other))
        return lambda results: value

    def _kept(self, value: Any, side: Side, other: Side) -> tuple[Any, Build]:
        """``value`` itself, which a path has made, with values that hold after it."""
        if isinstance(value, list):
            parts = [self.filled(item, side, other) for item in value]
            return value, lambda results: [part(results) for part in parts]
        found = value if isinstance(value, dict) else attributes(value)
        items = {key: self.filled(item, side, other) for key, item in found.items()}
        return value, lambda results: {key: part(results) for key, part in items.items()}

    def _zeros(self, side: Side, type: TensorType) -> Tensor:
        with interpreting(side.region):
            return ops.zeros(type.shape, dtype=type.dtype)

    def _maybe(self, a: Any, b: Any, absent: Any, name: str) -> Build:
        """A value on some paths, ``absent`` on others."""
        if a is DIVERGED or b is DIVERGED:
            if a is absent or b is absent:
                return lambda results: absent
            return self.only(a, b)
        parts = []
        for value in (a, b):
            if value is absent:
                parts.append((absent, False))
            elif isinstance(value, OptionalValue):
                if value.other is not absent:
                    self.refuse(a, b, name)
                parts.append((value.value, Number("bool", value.flag)))
            else:
                parts.append((value, True))
        (value_a, flag_a), (value_b, flag_b) = parts
        flag = self.tree(flag_a, flag_b, name)
        if value_a is absent:
            value = self.filled(value_b, self.second, self.first)
        elif value_b is absent:
            value = self.filled(value_a, self.first, self.second)
        else:
            value = self.tree(value_a, value_b, name)

        def build(results: Sequence[Tensor]) -> Any:
            known = flag(results)
            if isinstance(known, Number):
                return OptionalValue(
                    value=value(results), flag=known.tensor, other=absent, at=self.at
                )
            return value(results) if known else absent

        return build

    def _described(self, value: Any, side: Side, name: str) -> str:
        text = describe(value)
        line = side.lines.get(name.split("[")[0])
        if line is not None and name.startswith(RESULT) and isinstance(value, Tensor):
            text = str(value.type)  # the line that returns it says more than the one that makes it
        if line is not None and str(line) not in text:
            text = f"{text} ({line})"
        return f"{text} {side.label}"

    def refuse(self, a: Any, b: Any, name: str) -> Any:
        called = spoken(name)
        error = PathError if is_reshaped(a, b) else CaptureError
        raise error(
            f"{called} is {self._described(a, self.first, name)}, and "
            f"{self._described(b, self.second, name)}",
            at=self.at,
            why="Which of the two it is depends on the value of a tensor, and a graph needs one "
            "type and structure.",
            fix=remedy(a, b)
            or f"give {called.split('[')[0]} the same type, shape and structure on both paths",
        )


def spoken(name: str) -> str:
    """The name in messages of a variable, or of an item of what it holds."""
    variable, bracket, item = name.partition("[")
    if variable == RESULT:
        return f"the returned value{bracket}{item}"
    return f"the value of this expression{bracket}{item}" if variable.startswith(VALUE) else name


def _differ_in_length(a: list[Any], b: list[Any]) -> bool:
    return len(a) != len(b) or any(type(item) in (VarList, DivergedContent) for item in (*a, *b))


def _absence(value: Any, absent: Any) -> bool:
    return isinstance(value, OptionalValue) and value.other is absent


def is_number(value: Any) -> bool:
    """Whether ``value`` is a Python number, one made of sizes, or a Number."""
    return isinstance(value, Number) or type(value) in (bool, int, float) or is_open(value)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor) or is_number(value)


def may_be_number(value: Any) -> bool:
    """Whether ``value`` is a number in some runs at least."""
    return is_number(value) or type(value) is TensorOrNumber


def _as_number(value: Any) -> tuple[Any, Any]:
    """Whether it is a number, and which; None if it is never one."""
    if type(value) is TensorOrNumber:
        return value.flag, value.number
    return (False, None) if isinstance(value, Tensor) else (True, value)


def kind_of(value: Any) -> str:
    """The kind of a Python number or Number."""
    return value.kind if isinstance(value, Number) else value.__class__.__name__


def number_tensor(value: Any, kind: str) -> Tensor:
    """The scalar tensor that stands for a number of ``kind``."""
    if type(value) is Mixed:
        value.refuse("kept as a row of a tensor")
    return weak_tensor(value, NUMBER_DTYPES[kind])


def constant(tracer: Tracer, value: bool) -> Tensor:
    """``value`` as a scalar of ``tracer``."""
    with interpreting(tracer):
        return number_tensor(value, "bool")


def weak_tensor(value: Any, dtype: DType) -> Tensor:
    """The tensor for a number, in the dtype of the tensor it meets."""
    if isinstance(value, Number):
        return value.lifted(dtype)
    return current().lift(value, dtype)


def common_type(a: Any, b: Any) -> TensorType | None:
    """The tensor type that both values can take; None when their shapes differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if not is_same(a.type.shape, b.type.shape):
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
    if is_open(a):
        return is_same(a, b)
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, (*ATOMS, complex)):
        return a == b
    if isinstance(a, (tuple, frozenset)) and not isinstance(a, Tensor):
        return (
            isinstance(a, tuple)
            and not (getattr(a, "__dict__", None) or getattr(b, "__dict__", None))
            and len(a) == len(b)
            and all(same_constant(x, y) or x is y for x, y in zip(a, b, strict=True))
        ) or (isinstance(a, frozenset) and a == b)
    return False


def rebuilt(like: Any, items: Sequence[Any]) -> Any:
    """``items`` as a sequence of the class of ``like``."""
    refuse_attributes(like)
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*items)
    return type(like)(items)


def refuse_attributes(value: Any) -> None:
    """Raise if ``value`` is a tuple on which attributes are set."""
    if isinstance(value, tuple) and getattr(value, "__dict__", None):
        kind, name = type(value).__name__, next(iter(vars(value)))
        raise CaptureError(
            f"a {kind} with an attribute of its own ({name}) is another one on each path or in "
            "each iteration",
            at=author_location(),
            why="Of tuples the items are followed through branches and loops, and not what is set "
            "on them.",
            fix=f"make {name} a field of {kind}, or keep it in a variable of its own",
        )


def remedy(a: Any, b: Any) -> str:
    """The fix that a message proposes for two such values; empty for other values."""
    if isinstance(a, str) and isinstance(b, str):
        return "use an int in place of the text, and look the text up outside: NAMES[code]"
    if callable(a) and callable(b) and not isinstance(a, Tensor):
        return (
            "call the one on the one path and the other on the other, and go on with what they "
            "return"
        )
    if isinstance(a, set) and isinstance(b, set):
        return "keep what is in the set in a tensor of flags (seen[i] = True)"
    if type(a) is DequeContent and type(b) is DequeContent:
        return "use a list, or let the deque keep its length (maxlen, or popleft for each append)"
    plain = (Tensor, Number, OptionalValue, list, tuple, dict, *ATOMS)
    if type(a) is type(b) and not isinstance(a, plain):
        return (
            "set the attributes of one object, which is made before, or keep the values in "
            "variables or a named tuple"
        )
    return ""


def is_reshaped(a: Any, b: Any) -> bool:
    """Whether two values are tensors that differ in their shapes alone, or structures of such."""
    (left, structure), (right, other) = flatten(a), flatten(b)
    return structure == other and all(
        x is y or (isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype is y.dtype)
        for x, y in zip(left, right, strict=True)
    )


def describe(value: Any) -> str:
    """The name of ``value`` in messages, with the line that made it."""
    if isinstance(value, Tensor):
        place = getattr(value.content, "location", None)
        return f"{value.type} ({place})" if place else str(value.type)
    if isinstance(value, Number):
        place = getattr(value.tensor.content, "location", None)
        name = f"a traced {' or '.join(kinds_of(value))}"
        return f"{name} ({place})" if place else name
    if value is UNBOUND or value is MISSING:
        return "unbound"
    if isinstance(value, OptionalValue):
        return f"{describe(value.value)} or {describe(value.other)}"
    if isinstance(value, (list, tuple)):
        known = all(type(item) is not VarList for item in value)
        kind = "deque" if type(value) is DequeContent else type(value).__name__
        return f"a {kind} of {len(value) if known else 'unknown length'}"
    if isinstance(value, dict):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    if isinstance(value, (set, frozenset)):
        return f"a {type(value).__name__} of {', '.join(sorted(map(repr, value))) or 'nothing'}"
    if isinstance(value, (bool, int, float, str, bytearray, type(None))):
        return repr(value)
    if isinstance(value, Op):
        return f"the function {value.name}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    return f"a {type(value).__name__}"
