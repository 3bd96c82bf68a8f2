"""Traced subscripts of lists, tuples and dicts whose items the capture knows.

::

    xs[i]        ->  the item at i: one of them is taken when the plan runs
    xs[i] = v    ->  each item becomes v where it is the one at i
    d[n]         ->  the same with keys that are numbers

An index that is traced only because a loop is one node needs its value: the loop is then unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid.core.tree import flatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.number import Number, choose, kind_of
from hybrid.number.mixed_number import Mixed
from hybrid.number.staging import MAX, MIN
from hybrid.ops.index.pick import pick
from hybrid.staging.sessions.views import is_partial, tracing
from hybrid.staging.values.dicts import DictView
from hybrid.staging.values.iterables import index_of
from hybrid.staging.values.lists import ListView, choose_between
from hybrid.trace.regions.checks import check
from hybrid.trace.regions.continuation import require
from hybrid.trace.regions.merge import is_number

INDEX, KEY = "an index or size", "a dict key or set item"
_DTYPES = {bool: "bool", int: "int64", float: "float64"}


class Indexed(ListView):
    """The view of a list, tuple or dict for subscripts that may be traced numbers."""

    __slots__ = ("whole",)

    def __init__(self, items: Any, whole: Any) -> None:
        super().__init__(items)
        self.whole = whole  # the container as what is not traced subscripts it

    def __getitem__(self, index: Any) -> Any:
        if type(index) is Mixed:
            return index.each(self.__getitem__)
        number = self._traced(index)
        return self.whole[index] if number is None else item_at(self.items, number)

    def __setitem__(self, index: Any, value: Any) -> None:
        number = self._traced(index)
        if number is None or isinstance(self.items, tuple):
            self.whole[index] = value
        else:
            store_at(self.items, number, value)

    def __delitem__(self, index: Any) -> None:
        self._traced(index)
        del self.whole[index]

    def _traced(self, index: Any) -> Number | None:
        """``index`` as a traced number; None if Python knows it, or nobody does."""
        if type(self.items) is dict:
            count_on_key(index)
            return index if type(index) is Number else None
        if type(index) is Number or (isinstance(index, Tensor) and index.dtype.is_integer):
            number = index_of(index)
            return number if type(number) is Number else None
        return None


class Keyed:
    """The view of what has a dict, of which it matters by which objects it is subscripted."""

    __slots__ = ("whole",)

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def __getitem__(self, key: Any) -> Any:
        return self._asked(key)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._asked(key)[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._asked(key)[key]

    def _asked(self, key: Any) -> Any:
        count_on_key(key)
        return self.whole


def indexed(container: Any, seen: Any) -> Any:
    """The view of ``container``, which is seen as ``seen``, for a subscript that may be traced."""
    if type(container) in (list, tuple, dict) and (seen is container or type(seen) is DictView):
        return Indexed(container, seen)
    here = current()
    if (here.journal.identities.replaced or here.stand_ins.made) and isinstance(container, Mapping):
        return Keyed(seen)
    return seen


def count_on_key(key: Any) -> None:
    """Let the plan count on which object ``key``, of a dict, is; raise if a run decides that."""
    current().journal.identities.ask_replaced([key])
    current().stand_ins.refuse_keys([key], "used as a key")


def key(value: Any) -> Any:
    """``value``, a key of a dict display or an item of a set display."""
    if tracing():
        count_on_key(value)
    return value


def item_at(items: Any, index: Number) -> Any:
    """The result of ``items[index]``; the plan raises IndexError or KeyError."""
    if isinstance(items, dict):
        keys = _number_keys(items, index)
        require(contains(keys, index), KeyError(index))
        return _chosen([dict.__getitem__(items, key) for key in keys], keys, index)
    at = _from_front(items, index, "index")
    return _chosen(items, range(len(items)), at)


def store_at(items: Any, index: Number, value: Any) -> None:
    """Do ``items[index] = value``; the plan raises IndexError."""
    if isinstance(items, dict):
        keys: Sequence[Any] = _number_keys(items, index, value)
        check(contains(keys, index), _new_key())
        at = index
    else:
        at = _from_front(items, index, "assignment index", value)
        keys = range(len(items))
    for key in keys:
        before = items[key]
        items[key] = _choice(at == key, lambda: value, lambda former=before: former)


def get(items: dict[Any, Any], index: Number, default: Any = None) -> Any:
    """The result of ``items.get(index, default)``."""
    keys = _number_keys(items, index, default)
    values = [dict.__getitem__(items, key) for key in keys]
    there = contains(keys, index)
    return _choice(there, lambda: _chosen(values, keys, index), lambda: default)


def contains(keys: Sequence[Any], number: Number) -> Any:
    """Whether ``number`` is one of ``keys``, which are numbers."""
    found: Any = False
    for key in keys:
        here = number == key
        found = here if found is False else found | here
    return found


def numbers_in(items: Any, number: Number) -> list[Any]:
    """The numbers among the items of a set, or the keys of a dict."""
    if not current().unrolls:
        number.need_value(KEY)
    return [item for item in items if isinstance(item, (bool, int, float))]


def _number_keys(items: dict[Any, Any], index: Number, *others: Any) -> list[Any]:
    """The keys among which ``index`` may be; ``others`` are as good as the items."""
    if current().general or is_partial(items):
        index.need_value(KEY)
    keys = numbers_in(items, index)
    if not keys:
        index.need_value(KEY)
    _require_alike([*[dict.__getitem__(items, key) for key in keys], *others], index, KEY)
    return keys


def _new_key() -> CaptureError:
    return CaptureError(
        "a dict gets a key that it did not have while the function was captured",
        at=author_location(),
        why="The key is a number that only the run knows, and which keys a dict has is part of "
        "the plan.",
        fix="let the dict have all keys before (dict.fromkeys(range(n), 0)), or write to a tensor "
        "(counts[k] += 1)",
    )


def _from_front(items: Sequence[Any], index: Number, what: str, *others: Any) -> Any:
    """``index`` counted from the front, once it is in range."""
    if not current().unrolls or current().general or not items:
        index.need_value(INDEX)
    _require_alike([*items, *others], index, INDEX)
    n = len(items)
    kind = type(items).__name__
    for inside in (index >= -n, index < n):
        if type(inside) is Number:
            require(inside, IndexError(f"{kind} {what} out of range"))
        elif not inside:
            raise IndexError(f"{kind} {what} out of range")
    return index if index.low >= 0 else choose(index < 0, index + n, index)


def _require_alike(items: Sequence[Any], index: Number, what: str) -> None:
    """A plan chooses between tensors of one type and numbers of one kind, not between objects."""
    kinds = {_kind(item) for item in items}
    if len(kinds) > 1 or None in kinds:
        index.need_value(what)


def _kind(item: Any) -> Hashable:
    leaves, structure = flatten(item)
    if not all(isinstance(leaf, Tensor) or is_number(leaf) for leaf in leaves):
        return None
    types = [leaf.type if isinstance(leaf, Tensor) else kind_of(leaf) for leaf in leaves]
    return structure, tuple(types)


def _chosen(items: Sequence[Any], keys: Sequence[Any], index: Any) -> Any:
    """The item of which the key is ``index``; it is one of ``keys``."""
    if all(item is items[0] for item in items):
        return items[0]
    constant = _table(items, index) if isinstance(keys, range) else None
    if constant is not None:
        return constant
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    if isinstance(keys, range):  # in order: half of what is left is left out each time
        return _choice(
            index < keys[half],
            lambda: _chosen(items[:half], keys[:half], index),
            lambda: _chosen(items[half:], keys[half:], index),
        )
    first, *rest = keys
    return _choice(index == first, lambda: items[0], lambda: _chosen(items[1:], rest, index))


def _table(items: Sequence[Any], index: Number) -> Any:
    """The number at ``index`` among plain numbers of one kind; None if they are no such."""
    kind = type(items[0])
    if kind not in _DTYPES or any(type(item) is not kind for item in items):
        return None
    if kind is int and not all(MIN <= item <= MAX for item in items):
        return None
    table = current().lift(np.asarray(items, dtype=_DTYPES[kind]))
    bounds = (min(items), max(items)) if kind is int else (None, None)
    return Number(kind.__name__, pick(table, index.tensor), *bounds)


def _choice(test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    return choose_between(test, body, orelse)
