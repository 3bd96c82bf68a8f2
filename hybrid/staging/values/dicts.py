"""Dicts whose keys only a run knows: their operations during a capture.

::

    key in d            ->  a traced bool         d.get(key, other)   ->  one of two values
    len(d), bool(d)     ->  traced                d[key]              ->  its value, checked for

What needs all of the keys, or their order, is refused.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from hybrid import ops
from hybrid.core.dataclass import replace
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.sessions.variables import read
from hybrid.staging.sessions.views import is_partial, refuse_partial
from hybrid.staging.values.lists import ListView, choose_between
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.regions.merge import same_constant
from hybrid.trace.values.optional import is_optional, refuse_missing

Dict = dict[Any, Any]
ITEM = "an item of a dict"
_ABSENT: Any = object()  # no default is given


# What is asked ----------------------------------------------------------------------------------


def present(items: Dict, key: Any) -> Any:
    """The result of ``key in items``."""
    value = dict.get(items, key, MISSING)
    return Number("bool", value.flag) if is_optional(value) else value is not MISSING


def length_of(items: Dict) -> Any:
    """The result of ``len(items)``."""
    flags = [value.flag for value in dict.values(items) if is_optional(value)]
    sure = dict.__len__(items) - len(flags)
    ones = [Number("int", ops.astype(flag, "int64"), 0, 1) for flag in flags]
    return functools.reduce(operator.add, [sure, *ones] if sure else ones)


def truth_of(items: Dict) -> Any:
    """The result of ``bool(items)``."""
    values = list(dict.values(items))
    if not all(map(is_optional, values)):
        return True
    return Number("bool", functools.reduce(ops.logical_or, [value.flag for value in values]))


def get(items: Dict, key: Any, default: Any = None) -> Any:
    """The result of ``items.get(key, default)``."""
    return or_else(dict.get(items, key, MISSING), lambda: default)


def or_else(value: Any, default: Callable[[], Any], name: str = ITEM) -> Any:
    """``value``, an item or attribute, or ``default()`` where it is absent."""
    if value is MISSING:
        return default()
    if not is_optional(value):
        return value
    return choose_between(Number("bool", value.flag), lambda: value.value, default, name)


def found(items: Dict, key: Any) -> Any:
    """The result of ``items[key]``."""
    value = dict.get(items, key, MISSING)
    if value is MISSING:
        return _made(items, key)
    if not is_optional(value):
        return value
    if not hasattr(type(items), "__missing__"):
        return read(value, ITEM)
    if not isinstance(items, defaultdict):
        return or_else(value, lambda: type(items).__missing__(items, key))
    if items.default_factory is None:
        return read(value, ITEM)
    current().will_write_container(items)
    value = or_else(value, _factory(items))
    store(items, key, value)
    return value


def _factory(items: Any) -> Callable[[], Any]:
    return current().converted(items.default_factory, optional=True)


def _made(items: Any, key: Any) -> Any:
    """What a dict gives for a key that it has not."""
    if isinstance(items, defaultdict) and items.default_factory is not None:
        current().will_write_container(items)
        items[key] = _factory(items)()
    return items[key]


def is_equal(items: Dict, other: Any) -> Any:
    """The result of ``items == other``."""
    if not isinstance(other, dict):
        return False
    found: Any = True
    for key in {**items, **other}:
        a, b = (dict.get(each, key, MISSING) for each in (items, other))
        here, there = _flag(a), _flag(b)
        if type(here) is bool and type(there) is bool:
            if here is not there:
                return False
        elif type(here) is bool or type(there) is bool:
            flag, wanted = (there, here) if type(here) is bool else (here, there)
            found = _both(found, flag if wanted else ops.logical_not(flag))
        else:
            found = _both(found, ops.equal(here, there))
        x, y = (each.value if is_optional(each) else each for each in (a, b))
        if MISSING not in (x, y) and not (x is y or same_constant(x, y)):
            optional = next(filter(is_optional, (*items.values(), *other.values())))
            refuse_missing("compared", optional)
    return found if type(found) is bool else Number("bool", found)


def _flag(value: Any) -> Any:
    return value.flag if is_optional(value) else value is not MISSING


def _both(a: Any, b: Tensor) -> Tensor:
    return b if a is True else ops.logical_and(a, b)


# What is stored ---------------------------------------------------------------------------------


def store(items: Dict, key: Any, value: Any) -> None:
    """Do ``items[key] = value``."""
    before = dict.get(items, key, MISSING)
    if is_optional(before) and next(reversed(items)) != key:
        # Where it is missing it comes last, and else it stays where it is.
        value = replace(before, value=value, flag=current().lift(True), placed=False)
    items[key] = value


def _store_item(items: Dict, key: Any, item: Any) -> None:
    """``items[key] = item``, where that is there."""
    before = dict.get(items, key, MISSING)
    if not is_optional(item):
        store(items, key, item)
    elif before is MISSING:
        items[key] = item
    else:
        flag = Number("bool", item.flag)
        former = before.value if is_optional(before) else before
        value = choose_between(flag, lambda: item.value, lambda: former, ITEM)
        if is_optional(before):
            placed = before.placed and item.placed and next(reversed(items)) == key
            value = replace(before, value=value, placed=placed,
                            flag=ops.logical_or(before.flag, item.flag))  # fmt: skip
        items[key] = value


def update(items: Dict, *others: Any, **named: Any) -> None:
    """Do ``items.update(*others, **named)``."""
    current().will_write_container(items)
    for other in (*others, named):
        if isinstance(other, dict):
            current().will_read_container(other)
            for key, item in list(other.items()):
                _store_item(items, key, item)
        elif hasattr(other, "keys"):
            for key in other.keys():  # noqa: SIM118  as dict.update does it
                store(items, key, other[key])
        else:
            for key, value in other:
                store(items, key, value)


def united(*parts: Any) -> Dict:
    """The result of ``{**a, **b}``."""
    made: Dict = {}
    for part in parts:
        if made and (is_partial(made) or is_partial(part)):
            update(made, part)
        else:
            made.update(part)
    return made


def joined(a: Any, b: Any) -> Any:
    """The result of ``a | b``."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return NotImplemented
    made = a.copy()
    update(made, b)
    return made


def delete(items: Dict, key: Any) -> None:
    """Do ``del items[key]``."""
    value = dict.get(items, key, MISSING)
    if is_optional(value):
        read(value, ITEM)
    del items[key]


def pop(items: Dict, key: Any, default: Any = _ABSENT) -> Any:
    """The result of ``items.pop(key, default)``."""
    current().will_write_container(items)
    value = dict.get(items, key, MISSING)
    if not is_optional(value):
        return items.pop(key) if default is _ABSENT else items.pop(key, default)
    taken = read(value, ITEM) if default is _ABSENT else or_else(value, lambda: default)
    dict.pop(items, key)
    return taken


def setdefault(items: Dict, key: Any, default: Any = None) -> Any:
    """The result of ``items.setdefault(key, default)``."""
    current().will_write_container(items)
    value = dict.get(items, key, MISSING)
    if not is_optional(value):
        return items.setdefault(key, default)
    value = or_else(value, lambda: default)
    store(items, key, value)
    return value


def popitem(items: Dict, *args: Any) -> Any:
    """The result of ``items.popitem()``: the last item, if it is there for sure."""
    if args or is_optional(items[next(reversed(items))]):
        refuse_partial(items, "asked for its last item")
    current().will_write_container(items)
    return items.popitem()


def join_in_place(items: Dict, other: Any) -> Any:
    """Do ``items |= other``."""
    update(items, other)
    return items


def copied(items: Dict, **named: Any) -> Dict:
    """The result of ``dict(items, **named)``."""
    made = dict(items)
    update(made, named)
    return made


def store_announced(items: Dict, key: Any, value: Any) -> None:
    """Do ``items[key] = value`` after it has been announced."""
    current().will_write_container(items)
    store(items, key, value)


def delete_announced(items: Dict, key: Any) -> None:
    """Do ``del items[key]`` after it has been announced."""
    current().will_write_container(items)
    delete(items, key)


def clear(items: Dict) -> None:
    """Do ``items.clear()`` after it has been announced."""
    current().will_write_container(items)
    items.clear()


class DictView(ListView):
    """The view of such a dict for subscripts, stars and operators of converted code."""

    __slots__ = ()

    items: Dict

    def __getitem__(self, key: Any) -> Any:
        return found(self.items, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        store(self.items, key, value)

    def __delitem__(self, key: Any) -> None:
        delete(self.items, key)

    def __iter__(self) -> Iterator[Any]:
        self._refuse("gone over")

    def keys(self) -> Iterable[Any]:
        self._refuse("handed on as keyword arguments")

    def __bool__(self) -> bool:
        truth = truth_of(self.items)
        return truth if type(truth) is bool else truth.need_value("the truth of a dict")

    def __eq__(self, other: object) -> Any:
        return is_equal(self.items, other.items if type(other) is DictView else other)

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return not equal if type(equal) is bool else Number("bool", ops.logical_not(equal.tensor))

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        return joined(self.items, other.items if type(other) is DictView else other)

    def __ror__(self, other: Any) -> Any:
        return joined(other, self.items)

    def _refuse(self, how: str) -> NoReturn:
        refuse_partial(self.items, how)
        raise AssertionError(self.items)  # pragma: no cover
