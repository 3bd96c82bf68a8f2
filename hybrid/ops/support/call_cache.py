"""remembered: array functions whose eager calls are looked up by what they are given.

Such a function makes plain its arguments (an axis, a shape) and calls ops with it.  All that does
not depend on the elements of the tensors, so the next call with the same types and arguments needs
only the launch that the first has come to.  It must not read elements, nor call random ops.

Calls that differ in sizes alone have code of their own, once there were some (``OpenCalls``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.call_advice import advise
from hybrid.core.imports import above
from hybrid.core.types import DType, TensorType
from hybrid.ir.interpreter import ACTIVE, outward
from hybrid.ir.record import is_recording
from hybrid.memory import native
from hybrid.ops.support.keyword_names import with_others_words

MAX_REMEMBERED = 1024  # calls of one function
CALLS_BEFORE_PLANNING = 1  # watched ones, where ops are several: a plan takes longer than those
CALLS_BEFORE_LEARNING = 2  # of the same types: they may be the last ones of these sizes
FEW = 8  # kinds of calls, of which none is taken for one of sizes that do not come again
CALLS_OF_MANY = 16  # calls of one kind before it is learned, where there are more
COUNTED = 3  # one of so many calls is counted where there is something for all sizes
CALLS_BEFORE_OPENING = 8  # of one kind: a model of few layers has made its first ones by then
MAX_ATTEMPTS = 8  # to find what serves all sizes of a kind
MAX_LISTED = 64  # tensors in a list

Function = Callable[..., Any]
_ABSENT: Any = object()


class CallCounts:
    """How often calls of each kind were made: a plan takes longer to make than a few of them."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self.most = most  # kinds that are counted
        self.counts: dict[Any, int] = {}

    def add(self, key: Any) -> int:
        """Count a call; how many there were before it.  Raises TypeError for a key without hash."""
        before = self.counts.get(key, 0)
        if not before and len(self.counts) >= self.most:
            self.counts.clear()
        self.counts[key] = before + 1
        return before


def leaves(error: Exception, function: Function, args: Sequence[Any]) -> None:
    """``error`` of a call of ``function`` goes to the author."""
    if type(error) is TypeError:
        advise(error, function, args)
    outward(error)


def remembered(function: Function) -> Function:
    """``function`` of a tensor first and of hashable arguments that are no tensors."""
    function = with_others_words(function)
    known = _Known(function)
    launches, recipes = known.launches, known.recipes

    @functools.wraps(function)
    def call(x: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            if ACTIVE:
                return function(x, *args, **kwargs)
            key = None
            try:
                key = _key((x.type,), args, kwargs)
                if x.record is None:
                    if found := launches.get(key):
                        return found.run((x,))[0]
                elif found := recipes.get(key):
                    return found.run((x,))
            except (AttributeError, TypeError):
                pass  # no tensor, a value that is pending, arguments that have no hash
            if key is None:
                return function(x, *args, **kwargs)
            return known.call(key, (x,), args, kwargs)
        except Exception as error:
            leaves(error, function, (x, *args))
            raise

    return call


def remembered_of_two(function: Function) -> Function:
    """``function`` of two tensors first and of hashable arguments that are no tensors."""
    function = with_others_words(function)
    known = _Known(function)
    launches, recipes = known.launches, known.recipes

    @functools.wraps(function)
    def call(a: Any, b: Any = _ABSENT, /, *args: Any, **kwargs: Any) -> Any:
        try:
            if b is _ABSENT:  # the function says what is missing
                return function(a, **kwargs)
            if ACTIVE:
                return function(a, b, *args, **kwargs)
            key = None
            try:
                key = _key((a.type, b.type), args, kwargs)
                if a.record is None and b.record is None:
                    if found := launches.get(key):
                        return found.run((a, b))[0]
                elif found := recipes.get(key):
                    return found.run((a, b))
            except (AttributeError, TypeError):
                pass
            if key is None:
                return function(a, b, *args, **kwargs)
            return known.call(key, (a, b), args, kwargs)
        except Exception as error:
            leaves(error, function, (a, b, *args))
            raise

    return call


def remembered_of_three(function: Function) -> Function:
    """``function`` of three tensors."""
    known = _Known(function)
    launches, recipes = known.launches, known.recipes

    @functools.wraps(function)
    def call(a: Any, b: Any, c: Any) -> Any:
        try:
            if ACTIVE:
                return function(a, b, c)
            key = None
            try:
                key = _key((a.type, b.type, c.type), (), {})
                if a.record is None and b.record is None and c.record is None:
                    if found := launches.get(key):
                        return found.run((a, b, c))[0]
                elif found := recipes.get(key):
                    return found.run((a, b, c))
            except (AttributeError, TypeError):
                pass
            if key is None:
                return function(a, b, c)
            return known.call(key, (a, b, c), (), {})
        except Exception as error:
            leaves(error, function, (a, b, c))
            raise

    return call


def remembered_of_list(function: Function) -> Function:
    """``function`` of a list of tensors first and of hashable arguments that are no tensors."""
    function = with_others_words(function)
    known = _Known(function, lambda tensors: (list(tensors),))
    launches, recipes = known.launches, known.recipes

    @functools.wraps(function)
    def call(arrays: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            if ACTIVE or type(arrays) not in (list, tuple) or len(arrays) > MAX_LISTED:
                return function(arrays, *args, **kwargs)
            key = None
            try:
                key = _key(tuple([x.type for x in arrays]), args, kwargs)
                if not any([x.record is not None for x in arrays]):
                    if found := launches.get(key):
                        return found.run(arrays)[0]
                elif found := recipes.get(key):
                    return found.run(arrays)
            except (AttributeError, TypeError):
                pass
            if key is None:
                return function(arrays, *args, **kwargs)
            return known.call(key, tuple(arrays), args, kwargs)
        except Exception as error:
            leaves(error, function, (arrays, *args))
            raise

    return call


def remembered_of_none(function: Function) -> Function:
    """``function`` of hashable arguments that are no tensors."""
    known = _Known(function)
    launches = known.launches

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if ACTIVE:
                return function(*args, **kwargs)
            key = _key((), args, kwargs)
            try:
                return launches[key].run(())[0]
            except (AttributeError, KeyError):
                pass
            except TypeError:  # arguments that have no hash
                return function(*args, **kwargs)
            return known.call(key, (), args, kwargs)
        except Exception as error:
            leaves(error, function, args)
            raise

    return call


def remembered_of_any(function: Function) -> Function:
    """``function`` of tensors, anywhere among its arguments, and of hashable ones that are none."""
    function = with_others_words(function)
    known = _Known(function)
    launches, recipes = known.launches, known.recipes

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if ACTIVE:
                return function(*args, **kwargs)
            tensors: list[Any] = []
            rest = tuple([_others(x, tensors) for x in args])
            named = {name: _others(x, tensors) for name, x in kwargs.items()} if kwargs else kwargs
            key = None
            try:
                key = _key(tuple([x.type for x in tensors]), rest, named)
                if is_recording() and any([x.record is not None for x in tensors]):
                    if found := recipes.get(key):
                        return found.run(tensors)
                elif found := launches.get(key):
                    return found.run(tensors)[0]
            except (AttributeError, TypeError):
                pass
            if key is None or not tensors:
                return function(*args, **kwargs)

            def general(*given: Any) -> Any:
                left = iter(given)
                now = [next(left) if x is _TENSOR else x for x in rest]
                return function(
                    *now, **{n: next(left) if x is _TENSOR else x for n, x in named.items()}
                )

            return known.found(key, tensors, rest, named, general)
        except Exception as error:
            leaves(error, function, args)
            raise

    return call


_TENSOR = object()  # what stands for a tensor among the other arguments


def _others(argument: Any, tensors: list[Any]) -> Any:
    """``argument``, or what stands for a tensor, which joins ``tensors``."""
    if not isinstance(getattr(argument, "type", None), TensorType):
        return argument
    tensors.append(argument)
    return _TENSOR


class OpenCalls:
    """Calls of a function that differ in sizes from 2 on alone, but for those that come often."""

    __slots__ = ("attempts", "made", "met")

    def __init__(self) -> None:
        self.made: list[Callable[[Sequence[Any]], Any]] = []  # each for some sets of sizes
        self.attempts = self.met = 0

    def run(self, general: Function, tensors: Sequence[Any]) -> Any:
        """The result of ``general``, in a quicker way where one is known."""
        if native.profiling:  # a profile tells ops apart
            return general(*tensors)
        try:
            for run in self.made:
                result = run(tensors)
                if result is not None:
                    return result
        except TypeError:  # a value that is pending
            return general(*tensors)
        if self.met % CALLS_BEFORE_OPENING == 0 and self.attempts < MAX_ATTEMPTS:
            self.attempts += 1
            made = above.opened(general, tensors)
            if made is not None:
                self.made.append(made)
        return general(*tensors)


def _key(types: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What tells calls apart: 1 and True are equal, so classes are part of it; so are 0.0 and
    -0.0, which are told apart by their texts."""
    kinds = (*map(type, args), *map(type, kwargs.values())) if kwargs else tuple(map(type, args))
    key = (types, args, kinds, *kwargs.items()) if kwargs else (types, args, kinds)
    if float not in kinds:
        return key
    zeros = [str(a) for a in (*args, *kwargs.values()) if type(a) is float and not a]
    return (key, *zeros) if zeros else key


class _Known:
    """The launches of one function by what it is given; before there is one, how often it was."""

    def __init__(self, function: Function, make: Callable[[Any], tuple] = tuple) -> None:
        self.function, self.make = function, make  # what makes tensors its first arguments
        self.launches: dict[Any, Any] = {}  # None: there can be none
        self.recipes: dict[Any, Any] = {}  # the same where a history is kept
        self.kinds: dict[Any, OpenCalls] = {}  # of calls that differ in sizes alone
        self.counts = CallCounts()
        self.first: dict[Any, int] = {}  # how often those were made that have come seldom

    def early(self, key: Any) -> bool:
        """Whether a call is one of the first of its kind, which are not worth looking at.

        There is something for all sizes; where sizes do not come again, that is all there is.
        """
        first = self.first
        before = first.get(key, 0)
        if before >= (CALLS_BEFORE_LEARNING if len(first) < FEW else CALLS_OF_MANY):
            return False
        if len(first) >= MAX_REMEMBERED:
            first.clear()
        first[key] = before + 1
        return True

    def call(self, key: Any, tensors: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call that no launch is known for."""

        def general(*given: Any) -> Any:
            return self.function(*self.make(given), *args, **kwargs)

        return self.found(key, tensors, args, kwargs, general)

    def found(
        self,
        key: Any,
        tensors: Sequence[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        general: Function,
    ) -> Any:
        """The same; ``general`` gives the result on tensors, the others are what is beside them."""
        if not tensors:
            rest = (*args, *kwargs.values())
            return general() if self.early(key) else self.watched(key, (), rest, general)
        try:
            kinds = _key(tuple([x.type.kind for x in tensors]), args, kwargs)
            calls = self.kinds.get(kinds)
            if calls is None:
                if len(self.kinds) >= MAX_REMEMBERED:
                    self.kinds.clear()
                calls = self.kinds[kinds] = OpenCalls()
                if not all(map(_is_plain, (*args, *kwargs.values()))):
                    calls.attempts = MAX_ATTEMPTS  # what is beside them may change
        except (AttributeError, TypeError):  # no tensors, arguments that have no hash
            return general(*tensors)
        calls.met += 1
        if (calls.made and calls.met % COUNTED) or self.early(key):
            return calls.run(general, tensors)
        return self.watched(key, tensors, (*args, *kwargs.values()), general)

    def watched(self, key: Any, tensors: Any, rest: tuple[Any, ...], general: Function) -> Any:
        """The result of ``general`` on tensors, and what is found out; ``rest`` is beside them."""
        try:
            if not all(map(_is_plain, rest)):
                return general(*tensors)
            records = is_recording() and any([x.record is not None for x in tensors])
            known = self.recipes if records else self.launches
            if key in known:
                return general(*tensors)
            before = 0 if records else self.counts.add(key)
        except TypeError:  # arguments that have no hash
            return general(*tensors)
        if len(known) >= MAX_REMEMBERED:
            known.clear()
        if records:
            result = general(*tensors)
            known[key] = above.learned(general, tuple(tensors))
            return result
        result, launch = above.watched(general, tuple(tensors), before >= CALLS_BEFORE_PLANNING)
        if launch is not False:
            known[key] = launch
        return result


def _is_plain(argument: Any) -> bool:
    """Whether the argument can be part of a key."""
    if type(argument) is tuple:
        return all(
            type(item) is int
            or item is None
            or item is ...
            or (type(item) is tuple and _is_plain(item))
            for item in argument
        )
    kinds = (bool, int, float, str, DType, TensorType)
    return argument is None or argument is _TENSOR or type(argument) in kinds
