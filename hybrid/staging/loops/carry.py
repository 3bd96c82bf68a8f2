"""The carried value: one variable or place of a loop, as a structure around tensors and numbers.

Its tensors and numbers are the loop's carried values; around them its structure stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.convert.converter import readable
from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import TensorType, tensor_type
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import author_location
from hybrid.ir.interpreter import current, interpreting
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed, kinds_of, spread, union
from hybrid.number.staging import CLASSES
from hybrid.number.tensor_or_number import TensorOrNumber
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.objects import attributes, blank, filled, is_plain
from hybrid.trace.regions.merge import (
    NUMBER_DTYPES,
    common_type,
    is_number,
    kind_of,
    may_be_number,
    number_tensor,
    rebuilt,
    same_constant,
    weak_tensor,
)
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import UNBOUND, OptionalValue
from hybrid.trace.values.varlist import VarList, unwritten

UNWRITTEN: Any = object()  # in place of the initial value of what nobody reads


class Mismatch(Exception):
    """The exception for a value that an iteration leaves and that cannot be carried on."""


class Replaced(Mismatch):
    """The exception for a container from before the loop, in whose place an iteration has another.

    ``container`` is its id.
    """

    def __init__(self, container: int) -> None:
        super().__init__()
        self.container = container


@dataclass(slots=True)
class CarriedLeaf:
    """One tensor or number that a loop carries, in the stages of its tracing."""

    initial: Any  # a Tensor or number of the surroundings, UNWRITTEN, or None: zeros
    param: Tensor
    final: Tensor | None = None
    given: Tensor | None = None  # what the author gets for ``param``, and may write to
    left: Any = None  # what the body has left in its place, if that is a tensor
    made: Any = None  # what stands there after the loop

    @property
    def is_written(self) -> bool:
        """Whether the body has written to what it was given."""
        return self.given is not None and self.given.content is not self.param.content

    @property
    def is_same(self) -> bool:
        """Whether the body has left the very tensor that it was given."""
        return self.given is not None and self.left is self.given

    @property
    def is_unchanged(self) -> bool:
        """Whether the body has left what it was given, as it was."""
        return self.final.content is self.param.content and (self.given is None or self.is_same)

    @property
    def is_fixed(self) -> bool:
        """Whether it is one tensor from before the loop all along, and so is not carried."""
        return self.is_unchanged and self.is_same and isinstance(self.initial, Tensor)


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """The shape of an object that each iteration makes anew."""

    kind: type
    parts: dict[str, Any]  # its attributes


@dataclass(slots=True)
class Carry:
    """One variable or place that a loop carries, in the stages of its tracing."""

    label: str
    initial: Any
    rebuilds: bool = False  # whether iterations make objects anew, not only change them
    # The containers from before the loop in whose place iterations have others, by id; None: all.
    replaced: Collection[int] | None = None
    inside: Any = None  # the same with placeholders
    shape: Any = None  # that before the body has changed it
    leaves: list[CarriedLeaf] = field(default_factory=list)
    final: Any = None  # what the body has left
    unchanged: bool = False
    # Containers from before the loop, by id: they stay what they are, and are no state themselves.
    outside: dict[int, Any] = field(default_factory=dict)
    instead: list[Any] | None = None  # what a list is when there is no iteration

    def enter(self, region: Region, parent: Tracer) -> Any:
        """The value that the body finds: placeholders in the structure of the initial value."""
        self.shape = self._placeholder(self.initial, region, parent)
        self.inside = self._given(self.shape, self.initial, region)
        return self.inside

    def _given(self, shape: Any, initial: Any, region: Region) -> Any:
        """What the body gets for ``shape``, to change as it likes."""
        if isinstance(shape, OptionalValue):
            initial = initial.value if isinstance(initial, OptionalValue) else initial
            return shape.of(self._given(shape.value, initial, region), shape.flag)
        if id(shape) in self.outside or not isinstance(shape, (tuple, list, dict, Object)):
            return shape
        known = parts_of(initial)
        parts = {
            key: self._given(part, known.get(key, MISSING), region)
            for key, part in parts_of(shape).items()
        }
        made = with_parts(shape, parts)
        if not isinstance(made, tuple):
            region.stand_ins.add(made, (initial, made), author_location())
        return made

    def _placeholder(self, value: Any, region: Region, parent: Tracer) -> Any:
        if type(value) is TensorOrNumber:
            return value.of(*[self._placeholder(part, region, parent) for part in value.members])
        if isinstance(value, Tensor):
            param = region.param(value.type, readable(self.label), parent.record_of(value))
            return self._author_tensor(CarriedLeaf(initial=value, param=param))
        if type(value) is Mixed:
            return value.of([self._placeholder(n, region, parent) for n in value.numbers])
        if is_number(value):
            kind = kind_of(value)
            param = region.param(tensor_type(NUMBER_DTYPES[kind], ()), readable(self.label))
            self.leaves.append(CarriedLeaf(initial=value, param=param))
            return Number(kind, param)
        if isinstance(value, OptionalValue):
            inner = self._placeholder(value.value, region, parent)
            flag = self._placeholder(value.flag, region, parent)
            return value.of(inner, getattr(flag, "tensor", flag))
        if isinstance(value, Zeros):
            return self._zeros(value.like, region)
        if type(value) is VarList:
            return value.with_tensors(
                [self._placeholder(t, region, parent) for t in value.tensors()], region
            )
        if self._stays(value, region):
            self.outside[id(value)] = value
            return value
        if isinstance(value, (tuple, list)):
            return rebuilt(value, [self._placeholder(item, region, parent) for item in value])
        if type(value) is dict:
            return {key: self._placeholder(item, region, parent) for key, item in value.items()}
        if self.rebuilds and is_plain(value) and not region.is_known(value):
            parts = attributes(value).items()
            return Object(
                type(value), {n: self._placeholder(part, region, parent) for n, part in parts}
            )
        return value

    def _stays(self, value: Any, region: Region) -> bool:
        """Whether ``value`` is a container that is the same one in all iterations."""
        if self.replaced is None or not isinstance(value, (list, dict)):
            return False
        return id(value) not in self.replaced and region.is_outside(value)

    def _author_tensor(self, leaf: CarriedLeaf) -> Tensor:
        """What the author gets for one carried value."""
        leaf.given = made = make_tensor(leaf.param.type, leaf.param.content)
        made.record = leaf.param.record
        self.leaves.append(leaf)
        return made

    def _zeros(self, like: Any, region: Region) -> Any:
        """A placeholder for a value that begins as zeros of the structure of ``like``."""
        if type(like) is TensorOrNumber:
            return like.of(*[self._zeros(part, region) for part in like.members])
        if isinstance(like, Tensor):
            param = region.param(like.type, readable(self.label))
            return self._author_tensor(CarriedLeaf(initial=None, param=param))
        if type(like) is Mixed:
            return like.of([self._zeros(n, region) for n in like.numbers])
        if is_number(like):
            kind = kind_of(like)
            return Number(kind, self._zeros(_scalar(region, kind), region))
        if isinstance(like, OptionalValue):
            return like.of(self._zeros(like.value, region), self._zeros(like.flag, region))
        if type(like) is VarList:
            params = [region.param(t.type, readable(self.label)) for t in like.tensors()]
            self.leaves += [CarriedLeaf(initial=UNWRITTEN, param=param) for param in params]
            return like.with_tensors(params, region)
        if isinstance(like, (list, dict)) and region.is_outside(like):
            self.outside[id(like)] = like
            return like
        if isinstance(like, (tuple, list)):
            return rebuilt(like, [self._zeros(item, region) for item in like])
        if type(like) is dict:
            return {key: self._zeros(item, region) for key, item in like.items()}
        if is_plain(like) and not region.is_outside(like):
            parts = attributes(like).items()
            return Object(type(like), {n: self._zeros(part, region) for n, part in parts})
        return like

    def leave(self, final: Any, region: Region) -> None:
        """The body has left ``final``; raises Mismatch when that cannot be carried."""
        self.final = final
        with interpreting(region):
            finals = list(_finals(self.shape, final, region, self.outside))
        for leaf, value in zip(self.leaves, finals, strict=True):
            with interpreting(region):
                leaf.final = region.traced(value)
            leaf.left = None if leaf.given is None else value
        stays = final is self.inside and type(self.initial) is not Zeros
        self.unchanged = stays and all(leaf.is_unchanged for leaf in self.leaves)

    def after(self, results: Iterator[Tensor], ran: Callable[[], Tensor] | None = None) -> Any:
        """What the variable or place holds after the loop; takes its results off ``results``.

        ``ran`` gives the flag that there was an iteration; None: there always is.
        """
        for leaf in self.leaves:
            leaf.made = leaf.initial if self.unchanged or leaf.is_fixed else next(results)
            if leaf.is_same and isinstance(leaf.initial, Tensor):
                leaf.made = leaf.initial  # which has got all that was written to it
        if self.unchanged:
            return self.initial
        made = _rebuild(self.shape, iter([leaf.made for leaf in self.leaves]), self.outside)
        self._note(made, (self.initial, self.final), ran)
        return made

    def _note(self, made: Any, places: Sequence[Any], ran: Callable[[], Tensor] | None) -> None:
        """Tell what ``made`` stands for after the loop, of ``places`` before it and at its end."""
        places = [place.value if isinstance(place, OptionalValue) else place for place in places]
        if isinstance(made, OptionalValue):
            made = made.value
        if id(made) in self.outside or any(made is place for place in places):
            return
        places = [place for place in places if type(place) is type(made)]
        if isinstance(made, (list, dict)) or is_plain(made):
            self._add_stand_in(made, places, ran)
        for key, part in parts_of(made).items():
            self._note(part, [parts_of(place).get(key, MISSING) for place in places], ran)

    def _add_stand_in(
        self, made: Any, places: Sequence[Any], ran: Callable[[], Tensor] | None
    ) -> None:
        here, flag = current(), None
        if len(places) == 2:
            initial, final = places
            kept = here.stand_ins.places(final)
            if id(initial) not in kept and not any(map(here.is_known, kept.values())):
                places = (final,)  # each iteration makes a new one
                if ran is not None:
                    places, flag = (made, initial), ran()
        here.stand_ins.add(made, places, author_location(), flag)

    def successors(self) -> Iterator[tuple[Any, Any]]:
        """(what the body has left, what stands for it in the next iteration) where it may write."""
        yield from _pairs(self.final, self.inside)


def parts_of(value: Any) -> dict[Any, Any]:
    """The items or attributes of a list, tuple, dict or plain object, by key."""
    if type(value) is Object:
        return value.parts
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    return attributes(value) if is_plain(value) else {}


def with_parts(shape: Any, parts: Mapping[Any, Any]) -> Any:
    """A value of the kind of ``shape`` that consists of ``parts``."""
    if type(shape) is Object:
        return filled(blank(shape.kind), parts)
    return dict(parts) if isinstance(shape, dict) else rebuilt(shape, list(parts.values()))


def _pairs(final: Any, inside: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(final, OptionalValue) and isinstance(inside, OptionalValue):
        final, inside = final.value, inside.value
    if type(final) is type(inside):
        if isinstance(final, (list, dict)) or is_plain(final):
            yield final, inside
        if final is not inside:
            there = parts_of(inside)
            for key, part in parts_of(final).items():
                yield from _pairs(part, there.get(key, MISSING))


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
            raise Replaced(id(inside))
    elif type(inside) is VarList:
        if type(final) is not VarList or not inside.is_like(final):
            raise Mismatch
        yield from final.tensors()
    elif type(inside) is Mixed:
        if not is_number(final) or not set(kinds_of(final)) <= set(inside.kinds):
            raise Mismatch
        for x, y in zip(inside.numbers, spread(final, inside.kinds), strict=True):
            yield from _finals(x, y, region, outside)
    elif isinstance(inside, Number):
        if not is_number(final) or kinds_of(final) != (inside.kind,):
            raise Mismatch
        yield number_tensor(final, inside.kind)
    elif type(inside) is TensorOrNumber:
        members = _members_like(final, inside)
        if members is None:
            raise Mismatch
        for x, y in zip(inside.members, members, strict=True):
            yield from _finals(x, y, region, outside)
    elif isinstance(inside, Tensor):
        if not _is_tensor(final) or final.type is not inside.type:
            raise Mismatch
        yield final
    elif isinstance(inside, OptionalValue):
        yield from _finals_of_optional(inside, final, region, outside)
    elif isinstance(inside, (tuple, list)):
        if type(final) is not type(inside) or len(final) != len(inside):
            raise Mismatch
        for x, y in zip(inside, final, strict=True):
            yield from _finals(x, y, region, outside)
    elif type(inside) is dict:
        if type(final) is not dict or list(final) != list(inside):
            raise Mismatch
        for key, x in inside.items():
            yield from _finals(x, final[key], region, outside)
    elif type(inside) is Object:
        if type(final) is not inside.kind or region.is_known(final):
            raise Mismatch
        found = attributes(final)
        if found.keys() != inside.parts.keys():
            raise Mismatch
        for name, x in inside.parts.items():
            yield from _finals(x, found[name], region, outside)
    elif not (final is inside or same_constant(final, inside)):
        raise Mismatch


def _finals_of_optional(
    inside: OptionalValue, final: Any, region: Region, outside: Collection[int]
) -> Iterator[Tensor]:
    if final is inside.other:
        yield from _finals(inside.value, inside.value, region, outside)
        yield number_tensor(False, "bool")
    elif isinstance(final, OptionalValue):
        if final.other is not inside.other:
            raise Mismatch
        yield from _finals(inside.value, final.value, region, outside)
        yield final.flag
    else:
        yield from _finals(inside.value, final, region, outside)
        yield number_tensor(True, "bool")


def _rebuild(inside: Any, results: Iterator[Tensor], outside: Collection[int]) -> Any:
    """The structure of ``inside`` with results in place of its placeholders."""
    if id(inside) in outside:
        return inside
    if type(inside) is VarList:
        mine = [next(results) for _ in inside.tensors()]
        return inside.with_tensors(mine, current())
    if type(inside) is Mixed:
        return inside.of([_rebuild(number, results, outside) for number in inside.numbers])
    if isinstance(inside, Number):
        return Number(inside.kind, next(results))
    if type(inside) is TensorOrNumber:
        return inside.of(*[_rebuild(part, results, outside) for part in inside.members])
    if isinstance(inside, Tensor):
        return next(results)
    if isinstance(inside, OptionalValue):
        value = _rebuild(inside.value, results, outside)
        return inside.of(value, next(results))
    if isinstance(inside, (tuple, list)):
        return rebuilt(inside, [_rebuild(item, results, outside) for item in inside])
    if type(inside) is dict:
        return {key: _rebuild(item, results, outside) for key, item in inside.items()}
    if type(inside) is Object:
        parts = {n: _rebuild(part, results, outside) for n, part in inside.parts.items()}
        return with_parts(inside, parts)
    return inside


def _is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor in each run."""
    return isinstance(value, Tensor) and type(value) is not TensorOrNumber


def _members_like(value: Any, like: TensorOrNumber) -> tuple[Tensor, Any, Any] | None:
    """The members of ``value`` as one like that; None if it cannot be one."""
    if type(value) is TensorOrNumber:
        return value.members
    if isinstance(value, Tensor):
        return value, False, like.number
    if not is_number(value) or common_type(like, value) is not like.type:
        return None
    return weak_tensor(value, like.type.dtype), True, value


def initial_tensor(leaf: CarriedLeaf, parent: Tracer) -> Tensor:
    """The operand of the loop node for the initial value of ``leaf``."""
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
    """Whether ``value`` is no value that a loop could carry: unbound, missing or None."""
    return value is UNBOUND or value is MISSING or value is None


def _wider(initial: Any, final: Any) -> Any:
    """``initial`` as it is, or such that ``final`` may be of another kind, if that is needed."""
    numbers = is_number(initial) and is_number(final)
    if numbers and set(kinds_of(final)) <= set(kinds_of(initial)):
        return initial
    either = may_be_number(initial) or may_be_number(final)
    found = widened(initial, final) if either or isinstance(initial, tuple) else None
    return initial if found is None else found


def widened(initial: Any, final: Any) -> Any:
    """``initial`` as an optional or mixed value that ``final`` is one of, too.

    None if that is no help.
    """
    if is_absent(initial):
        if isinstance(final, OptionalValue):
            return (
                OptionalValue(value=Zeros(final.value), flag=False, other=initial)
                if final.other is initial
                else None
            )
        return OptionalValue(value=Zeros(final), flag=False, other=initial)
    if isinstance(initial, OptionalValue):
        return None
    if is_number(initial) and is_number(final):
        return _of_kinds(initial, union(kinds_of(initial), kinds_of(final)))
    if may_be_number(initial) or may_be_number(final):
        return _tensor_or_number(initial, final)
    if type(initial) is type(final) is tuple and len(initial) == len(final):
        items = [_wider(x, y) for x, y in zip(initial, final, strict=True)]
        return (
            tuple(items) if any(x is not y for x, y in zip(initial, items, strict=True)) else None
        )
    if isinstance(final, OptionalValue):
        return OptionalValue(value=initial, flag=True, other=final.other)
    return OptionalValue(value=initial, flag=True, other=final) if is_absent(final) else None


def _tensor_or_number(initial: Any, final: Any) -> TensorOrNumber | None:
    """``initial`` as what may be like ``final``, where one of the two may be a number."""
    if not all(is_number(x) or isinstance(x, Tensor) for x in (initial, final)):
        return None
    wanted = common_type(initial, final)
    type_ = initial.type if isinstance(initial, Tensor) else final.type
    if wanted is not type_:
        return None
    numbers = [x for x in (initial, final) if may_be_number(x)]
    kinds = [x.kinds if type(x) is TensorOrNumber else kinds_of(x) for x in numbers]
    if is_number(initial):
        return TensorOrNumber(
            weak_tensor(initial, type_.dtype), True, _of_kinds(initial, union(*kinds))
        )
    if type(initial) is TensorOrNumber:
        tensor, flag, number = initial.members
        wider = _of_kinds(number, union(*kinds))
        return None if wider is number else initial.of(tensor, flag, wider)
    return TensorOrNumber(initial, False, _of_kinds(CLASSES[kinds[0][0]](0), union(*kinds)))


def _of_kinds(number: Any, kinds: Sequence[str]) -> Any:
    """``number`` as one of which only the run knows which of ``kinds`` it has."""
    if len(kinds) == 1 or kinds == kinds_of(number):
        return number
    numbers = spread(number, kinds)
    return Mixed(numbers[: len(kinds) - 1], numbers[len(kinds) - 1 :])
