"""Overrides of builtin and standard library functions for traced values."""

from __future__ import annotations

import copy
import functools
import gc
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hybrid import ops
from hybrid.convert.runtime import Site, hyb__
from hybrid.core.loop_io import Supplying
from hybrid.core.open_numbers import OpenInt, called, is_open
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.ir.record import mode
from hybrid.number import Number, choose, host_number, kind_of, to_bool, to_float, to_int
from hybrid.number.mixed_number import Mixed
from hybrid.number.tensor_or_number import TensorOrNumber
from hybrid.staging.constructs.try_ import catching_in
from hybrid.staging.effects import printing as printing  # which registers its overrides
from hybrid.staging.effects.run_time_names import will_read
from hybrid.staging.iteration.generators import Generated, is_uncounted, list_of
from hybrid.staging.library import joined_lists as joined_lists
from hybrid.staging.library import math_calls
from hybrid.staging.library import operator_calls as operator_calls  # the same
from hybrid.staging.sessions.overrides import OVERRIDES, Override, overrides
from hybrid.staging.sessions.views import (
    is_partial,
    is_traced,
    is_varlist,
    look,
    ordered,
    own_method,
    own_truth,
    tracing,
)
from hybrid.staging.values import dicts
from hybrid.staging.values.feed import StagedIterable
from hybrid.staging.values.iterables import (
    Enumerated,
    Once,
    Reversed,
    TracedRange,
    Zipped,
    index_of,
    not_negative,
    shortest,
    uneven,
)
from hybrid.staging.values.lists import length_of, list_feed, optional
from hybrid.staging.values.number_kinds import of_one_kind
from hybrid.staging.values.optional_operands import each, is_unsure
from hybrid.staging.values.walks import feed_of
from hybrid.trace.capture.surroundings import beside
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.regions.checks import check
from hybrid.trace.regions.region import truth
from hybrid.trace.values.optional import OptionalValue, is_optional
from hybrid.trace.values.traced_text import Text

_MISSING: Any = object()


def _call(site: Site, function: Any, *args: Any) -> Any:
    """Call a function that the author gave to a builtin, as the author's own code would."""
    return hyb__.callee(site, function)(*args)


# Conversions ------------------------------------------------------------------------------------


def _number(x: Any) -> Number:
    """A traced number, or what ``x.item()`` is."""
    return x if type(x) is Number else current().number_of(x)


@overrides(bool)
def _bool(*args: Any) -> Any:
    if len(args) != 1:
        return NotImplemented
    x = own_truth(args[0])
    if not is_traced(x):
        return bool(x) if x is not args[0] else NotImplemented
    if isinstance(x, OptionalValue):
        return Number("bool", truth(x))
    if isinstance(x, Tensor):
        return truth_of(x)
    if isinstance(x, (list, tuple)):
        look(x)
        return length_of(x) > 0
    if isinstance(x, dict):
        look(x)
        return dicts.truth_of(x)
    if type(x) is Mixed:
        return Number("bool", x.truth())
    return to_bool(x) if type(x) is Number else NotImplemented


def truth_of(x: Tensor) -> Number:
    """The result of ``bool(x)``, traced if that of ``x`` is."""
    if x.size != 1:
        bool(x)  # raises
    return _number(ops.astype(x, "bool"))


@overrides(int)
def _int(*args: Any, **kwargs: Any) -> Any:
    if args and type(args[0]) is Text:
        args[0].refuse()
    if len(args) == 1 and not kwargs and is_open(args[0]):
        return math.trunc(args[0])
    if len(args) != 1 or kwargs:
        return NotImplemented
    if _is_numeric(args[0]):
        return to_int(_number(args[0]))
    found = _own_number(args[0], int, "__int__", "__index__", "__trunc__")
    return to_int(found) if type(found) is Number else found


@overrides(float)
def _float(*args: Any) -> Any:
    if args and type(args[0]) is Text:
        args[0].refuse()
    if len(args) == 1 and is_open(args[0]):
        return called("float", args[0])
    if len(args) != 1:
        return NotImplemented
    if _is_numeric(args[0]):
        return to_float(_number(args[0]))
    found = _own_number(args[0], float, "__float__", "__index__")
    return to_float(found) if type(found) is Number else found


def _own_number(x: Any, wanted: type, *names: str) -> Any:
    """The number, traced or not, that one of the author's methods ``names`` makes of ``x``."""
    method = own_method(x, *names)
    if method is None:
        return NotImplemented
    found = method()
    kind = int if method.__name__ in ("__index__", "__trunc__") else wanted
    if type(found) is Number and found.kind == kind.__name__:
        return found
    if not isinstance(found, kind) or isinstance(found, Number):
        given = f"type {found.kind if type(found) is Number else type(found).__name__}"
        raise TypeError(f"{method.__name__} returned non-{kind.__name__} ({given})")
    return wanted(found)


def _is_numeric(x: Any) -> bool:
    return isinstance(x, Tensor) or type(x) is Number


@overrides(type)
def _type(*args: Any) -> Any:
    if len(args) == 1 and type(args[0]) in (Mixed, TensorOrNumber):
        args[0].refuse("asked for its type", "ask with isinstance(k, int)")
    stands_in = len(args) == 1 and (type(args[0]) is Number or is_open(args[0]))
    return args[0].__class__ if stands_in else NotImplemented


@overrides(len)
def _len(*args: Any) -> Any:
    if len(args) == 1 and is_varlist(args[0]):
        look(args[0])
        return length_of(args[0])
    if len(args) == 1 and is_partial(args[0]):
        look(args[0])
        return dicts.length_of(args[0])
    if len(args) == 1 and isinstance(args[0], Tensor) and args[0].ndim:
        return args[0].shape[0]
    if len(args) == 1 and type(args[0]) is TracedRange:
        return args[0].length
    method = own_method(args[0], "__len__") if len(args) == 1 else None
    if method is None:
        return NotImplemented
    found = method()
    if type(found) is Number and found.kind == "int":
        return not_negative(found)
    if operator.index(found) < 0:
        raise ValueError("__len__() should return >= 0")
    return operator.index(found)


@overrides(dict)
def _dict(*args: Any, **named: Any) -> Any:
    if len(args) != 1 or not is_partial(args[0]):
        return NotImplemented
    look(args[0])
    return dicts.copied(args[0], **named)


@overrides(copy.copy)
def _copy(value: Any) -> Any:
    if not is_partial(value):
        return NotImplemented
    look(value)
    return value.copy()


@overrides(id)
def _id(*args: Any) -> Any:
    if len(args) == 1 and tracing():
        current().journal.identities.ask(args[0])
    return NotImplemented


def _getattr(owner: Any, name: Any, default: Any) -> Any:
    will_read(owner, name)
    value = getattr(owner, name, default)
    return dicts.or_else(value, lambda: default, f"the attribute {name}")


def _hasattr(owner: Any, name: Any) -> Any:
    will_read(owner, name)
    value = getattr(owner, name, MISSING) if isinstance(name, str) else hasattr(owner, name)
    return Number("bool", value.flag) if is_optional(value) else value is not MISSING


@overrides(pow)
def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None or not any(type(x) is Number for x in (base, exp, mod)):
        return NotImplemented
    if "float" in map(kind_of, (base, exp, mod)):
        raise TypeError("pow() 3rd argument not allowed unless all arguments are integers")
    return host_number(pow, "int", base, exp, mod)


# Ranges and iterators ---------------------------------------------------------------------------


@overrides(range)
def _range(*args: Any) -> Any:
    if not 1 <= len(args) <= 3:
        return NotImplemented
    args = tuple([index_of(x) if own_method(x, "__index__") else x for x in args])
    if not any(_is_numeric(x) or type(x) is OpenInt for x in args):
        return range(*args)
    bounds = [index_of(x) for x in args]
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return TracedRange(start, stop, step)


_FEED_TYPES = (Tensor, StagedIterable, Supplying)


def _feeds(iterables: Iterable[Any]) -> list[Any] | None:
    """How to walk over all of ``iterables``; None when only Python can, or need not be asked."""
    found = [x for x in iterables if isinstance(x, (*_FEED_TYPES, range)) or is_varlist(x)]
    if len(found) != len(list(iterables)) or not found:
        return None
    feeds = [feed_of(x) for x in found]
    return None if any(feed is None for feed in feeds) else feeds


@overrides(enumerate)
def _enumerate(iterable: Any, start: Any = 0) -> Any:
    feeds = _feeds([iterable])
    if feeds is None:
        return NotImplemented
    return Once(Enumerated(feeds[0], index_of(start)))


def _has_unknown_length(iterable: Any) -> bool:
    return is_varlist(iterable) or (
        isinstance(iterable, StagedIterable) and type(iterable.length) is not int
    )


def _beside_unknown(iterable: Any) -> Any:
    """How to walk over what ``zip`` gets beside a list of unknown length."""
    if type(iterable) in (list, tuple):
        return list_feed(iterable)
    found = _feeds([iterable])
    if found is None:
        kind = type(iterable).__name__
        raise CaptureError(
            f"zip() goes over a {kind} beside a list whose length is known only when the plan runs",
            at=author_location(),
            why="How many items it takes out of it would depend on the value of a tensor.",
            fix=f"make a list of the {kind} first",
        )
    return found[0]


@overrides(zip)
def _zip(*iterables: Any, strict: bool = False) -> Any:
    if not any(isinstance(x, _FEED_TYPES) or is_varlist(x) for x in iterables):
        return NotImplemented
    feeds = _feeds(iterables)
    if feeds is None and any(map(_has_unknown_length, iterables)):
        if any([type(x) in (list, tuple) and not x for x in iterables]):
            return NotImplemented  # nothing is asked of the others
        feeds = [_beside_unknown(x) for x in iterables]
    if feeds is None:
        return NotImplemented
    lengths = [feed.length for feed in feeds]
    first, *rest = lengths if strict else lengths[:1]
    known = [length for length in lengths if type(length) is not Number]
    if strict and any(length != known[0] for length in known[1:]):  # a condition on open sizes
        return NotImplemented  # raises, once it gets there
    for number, length in enumerate(rest, 2):
        if type(first) is Number or type(length) is Number:
            check(length == first, uneven, number, length, first)
    return Once(Zipped(feeds, shortest(lengths)))


@overrides(reversed)
def _reversed(iterable: Any) -> Any:
    if isinstance(iterable, Once):
        return NotImplemented  # raises
    feeds = _feeds([iterable])
    return NotImplemented if feeds is None else Once(Reversed(feeds[0]))


@overrides(map, site=True)
def _map(site: Site, function: Any, *iterables: Any, **kwargs: Any) -> Any:
    if not iterables or kwargs:
        return NotImplemented
    return map(functools.partial(_call, site, function), *iterables)


@overrides(filter, site=True)
def _filter(site: Site, function: Any, iterable: Any) -> Any:
    return _filtered(site, function, iter(iterable))


def _filtered(site: Site, function: Any, items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        kept = item if function is None or function is bool else _call(site, function, item)
        if is_traced(kept):
            raise CaptureError(
                "filter() got a traced truth",
                at=author_location(),
                why="How many items it keeps would only be known when the plan runs.",
                fix="use hybrid.where, or a loop with an if",
            )
        if kept:
            yield item


@overrides(functools.reduce, site=True)
def _reduce(site: Site, function: Any, iterable: Any, initial: Any = _MISSING) -> Any:
    items = iter(iterable)
    value = next(items, _MISSING) if initial is _MISSING else initial
    if value is _MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for item in items:
        value = _call(site, function, value, item)
    return value


# Choices ----------------------------------------------------------------------------------------


def _extremum(function: Callable[..., Any], better: Callable[[Any, Any], Any]) -> Override:
    def override(site: Site, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        if not args or (len(args) > 1 and kwargs) or kwargs.keys() - {"default"}:
            return NotImplemented
        items = list_of(args[0]) if len(args) == 1 else list(args)
        if is_varlist(items):
            return _varlist_extremum(site, function, better, items, key, kwargs)
        rated = items if key is None else [_call(site, key, item) for item in items]
        if not any(map(is_traced, rated)):
            name = function.__name__
            if key is None:
                return ordered(name, lambda: function(items, **kwargs), items)
            best = functools.partial(function, range(len(items)), key=rated.__getitem__)
            place = ordered(name, lambda: best(**_place(kwargs)), rated)
            return items[place] if items else kwargs["default"]
        best, best_rate = items[0], rated[0]
        for item, rate in zip(items[1:], rated[1:], strict=True):
            test = _is_better(better, rate, best_rate)
            best_rate, former = _choice(site, test, rate, best_rate), best_rate
            best = best_rate if best is former and key is None else _choice(site, test, item, best)
        return best

    return override


def _is_better(better: Callable[[Any, Any], Any], rate: Any, best: Any) -> Any:
    """``better(rate, best)``, each of which may be None on some paths."""
    if is_unsure(rate):
        return each(rate, lambda part: _is_better(better, part, best))
    if is_unsure(best):
        return each(best, lambda part: better(rate, part))
    return better(rate, best)


def _varlist_extremum(
    site: Site,
    function: Callable[..., Any],
    better: Callable[[Any, Any], Any],
    items: list[Any],
    key: Any,
    default: dict[str, Any],
) -> Any:
    """The same of items of which only the run knows how many there are."""

    def replaced(best: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        test = better(other[0], best[0])
        rate = _choice(site, test, other[0], best[0])
        return rate, rate if key is None else _choice(site, test, other[1], best[1])

    rate = None if key is None else functools.partial(_call, site, key)
    best = functools.partial(hyb__.extreme, items, rate, replaced, _of_nothing(function))
    if not default:
        return best()
    return hyb__.ifexp(site, length_of(items) > 0, best, lambda: default["default"])


def _of_nothing(function: Callable[..., Any]) -> Exception:
    """What ``max`` or ``min`` raises where there is no item."""
    try:
        function(())
    except ValueError as error:
        return error
    raise AssertionError(function)  # pragma: no cover


def _place(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"default": None} if kwargs else {}


def _choice(site: Site, test: Any, a: Any, b: Any) -> Any:
    """``a if test else b``."""
    numbers = all(type(x) in (Number, bool, int, float) for x in (a, b))
    if type(test) is Number and numbers and kind_of(a) == kind_of(b):
        return choose(test, a, b)
    return hyb__.ifexp(site, test, lambda: a, lambda: b)


def _all_or_any(logic: str, decides: bool) -> Override:
    """``all`` and ``any``: an item that is ``decides`` ends them."""
    join = operator.or_ if decides else operator.and_

    def override(site: Site, iterable: Any) -> Any:
        if is_varlist(iterable):
            look(iterable)
            return settled(hyb__.decided(feed_of(iterable), _truth, decides))
        if type(iterable) is Generated:
            if not iterable.is_counted:

                def of_one(item: Any) -> Any:
                    return override(site, iterable.step([item]))

                return settled(hyb__.decided(iterable.feed(), of_one, decides))
            iterable = iterable.native
        if isinstance(iterable, (*_SEQUENCES, Tensor)):
            found: Any = not decides
            for item in iterable:
                truth = _truth(item)
                if truth is decides:
                    return decides
                found = truth if type(found) is bool else join(found, truth)
            return found
        items = iter(iterable)
        for item in items:
            truth = optional(item, _truth, not decides)
            if is_traced(truth):
                return one_by_one(site, truth, items)
            if truth is decides:
                return decides
        return not decides

    def settled(found: Any) -> Any:
        """What was looked for, given whether it was found."""
        return found if decides else hyb__.not_(None, found)

    def one_by_one(site: Site, found: Any, items: Iterator[Any]) -> Any:
        """Each further item is asked for only where those before have not decided."""
        decide = getattr(hyb__, logic)
        ended = False

        def following() -> Any:
            nonlocal ended
            item = next(items, _MISSING)
            ended = item is _MISSING
            return (not decides) if ended else optional(item, _truth, not decides)

        while is_traced(found) and not ended:
            found = decide(site, found, following)
        return found

    return override


_SEQUENCES = (list, tuple, dict, set, frozenset, range)


def _truth(x: Any) -> Any:
    found = _bool(x)
    return bool(x) if found is NotImplemented else found


@overrides(sum)
def _sum(iterable: Any, /, start: Any = 0) -> Any:
    items = list_of(iterable) if is_uncounted(iterable) else iterable
    if is_varlist(items):
        look(items)
        return hyb__.sum_of(items, start)
    if sys.version_info < (3, 12):
        return NotImplemented if items is iterable else sum(items, start)
    items = list(items)
    leaves = [start, *items]
    if not any(type(x) is Number for x in leaves):
        return sum(items, start)
    if all(type(x) in (Number, bool, int, float) for x in leaves) and "float" in map(
        kind_of, leaves
    ):
        # Since 3.12 Python adds floats up with a running correction.
        return host_number(_sum_plain, "float", *leaves)
    return functools.reduce(operator.add, items, start)


def _sum_plain(start: Any, *items: Any) -> Any:
    return sum(items, start)


@overrides(sorted, site=True)
def _sorted(site: Site, iterable: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
    items = list(iterable)
    rated = items if key is None else [_call(site, key, item) for item in items]
    places = range(len(items))
    order = ordered("sorted", lambda: sorted(places, key=rated.__getitem__, reverse=reverse), rated)
    return [items[at] for at in order]


@overrides(list)
def _list(*args: Any) -> Any:
    return list_of(*args) if len(args) == 1 and is_uncounted(args[0]) else NotImplemented


@overrides(tuple)
def _tuple(*args: Any) -> Any:
    return tuple(list_of(*args)) if len(args) == 1 and is_uncounted(args[0]) else NotImplemented


def _catching(function: Callable[..., Any], count: int, kind: type[Exception]) -> Override:
    """What, like ``function``, makes something of an exception of ``kind``, given ``count``."""

    def override(site: Site, *args: Any) -> Any:
        if len(args) != count or not tracing():
            return NotImplemented
        for argument in args:
            look(argument)
        with catching_in(site, "call", kind):
            return function(*args)

    return override


overrides(all, site=True)(_all_or_any("and_", False))
overrides(any, site=True)(_all_or_any("or_", True))
overrides(getattr, site=True)(_catching(_getattr, 3, AttributeError))
overrides(hasattr, site=True)(_catching(_hasattr, 2, AttributeError))
overrides(next, site=True)(_catching(next, 2, StopIteration))
overrides(max, site=True)(_extremum(max, operator.gt))
overrides(min, site=True)(_extremum(min, operator.lt))


def override_of(function: Any) -> Override | None:
    """The override of ``function``, which takes the site of the call first; None without one."""
    return OVERRIDES.get(function)


def _of_one_kind(function: Any) -> Override:
    """The override of ``function``, for numbers of which only a run knows the kind as well."""
    override = OVERRIDES.get(function, lambda *_args, **_named: NotImplemented)

    def call(site: Site, *args: Any, **kwargs: Any) -> Any:
        return hyb__.callee(site, function)(*args, **kwargs)

    return of_one_kind(override, call)


for _function in (*math_calls.FUNCTIONS, int, float, isinstance, pow, range):
    overrides(_function, site=True)(_of_one_kind(_function))


@overrides(gc.collect)
def _collect(*args: Any, **kwargs: Any) -> int:
    """Collect beside the capture: finalizers and callbacks of what dies are none of its code."""
    return beside(functools.partial(gc.collect, *args, **kwargs), mode())
