"""Pending errors: what a run may have raised, on its way to the author's code that takes it.

::

    try:
        if x < 0:
            raise ValueError(x)  # from here on an error is pending where x < 0,
        y = root(x)  # and this is the rest: it runs where nothing is pending
    except ValueError as e:
        y = e.args[0] * 0  # this runs where it is

An error is pending in the tracer of the code that has raised it.  Where a region of that ends, it
is pending in the surroundings, with a flag that says where; its arguments, and what the variables
of the frame that takes it held, become results of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.ir import Value
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.number.tensor_or_number import TensorOrNumber
from hybrid.trace.values.optional import UNBOUND, OptionalValue
from hybrid.trace.values.traced_text import mark, marks, text_in, written


class EndOfPath(BaseException):
    """Raised to leave code that no run goes on with: errors are pending on all of its paths."""


@dataclass(eq=False, slots=True)
class PendingError:
    """An exception that a run has raised where ``flag`` holds."""

    error: BaseException
    stop: Any  # the session of the try or with that takes it
    flag: Any  # True, or a traced bool
    names: dict[str, Any]  # what the variables of the stop held when it was raised

    def values(self, tracer: Any) -> list[Any]:
        """The values of ``tracer`` that the exception holds, each once."""
        found: dict[int, Any] = {}
        for error in _chain(self.error):
            for leaf in _leaves([list(error.args), {**vars(error)}], tracer.texts):
                if is_inner(leaf, tracer):
                    found[id(leaf)] = leaf
        return list(found.values())

    def replace(self, values: Mapping[int, Any], tracer: Any) -> None:
        """Let the exception hold other values in the place of those with these ids."""
        if not values:
            return
        for error in _chain(self.error):
            state = [list(error.args), {**vars(error)}]
            if any(id(leaf) in values for leaf in _leaves(state, tracer.texts)):
                args, attributes = _replaced(state, values, tracer.texts)
                error.args = tuple(args)
                vars(error).update(attributes)

    def inner_names(self, tracer: Any) -> dict[str, Any]:
        """Those of its names that hold something else than a tensor from outside of ``tracer``."""
        return {
            name: value
            for name, value in self.names.items()
            if value is not UNBOUND and (not isinstance(value, Tensor) or is_inner(value, tracer))
        }


def is_inner(value: Any, tracer: Any) -> bool:
    """Whether a traced value is one of the graph of ``tracer``."""
    if type(value) is TensorOrNumber:
        return any(is_inner(part, tracer) for part in value.members)
    if type(value) is Mixed:
        return any(is_inner(part, tracer) for part in value.numbers)
    if isinstance(value, Number):
        return is_inner(value.tensor, tracer)
    if isinstance(value, Tensor):
        return type(value.content) is Value and value.content in tracer.owned
    return isinstance(value, OptionalValue)


def _chain(error: BaseException | None, seen: tuple[int, ...] = ()) -> Iterator[BaseException]:
    """``error`` and the exceptions that it came of."""
    if error is None or id(error) in seen:
        return
    yield error
    for other in (error.__cause__, error.__context__):
        yield from _chain(other, (*seen, id(error)))


def _leaves(tree: Any, texts: list[Any]) -> Iterator[Any]:
    for leaf in flatten(tree)[0]:
        if isinstance(leaf, str):
            for index in marks(leaf):
                yield from _leaves(texts[index].value, texts)
        elif isinstance(leaf, (Tensor, Number, OptionalValue)):
            yield leaf


def _replaced(tree: Any, values: Mapping[int, Any], texts: list[Any]) -> Any:
    leaves, structure = flatten(tree)

    def rewritten(index: int) -> str:
        entry = texts[index]
        value = _replaced(entry.value, values, texts)
        return str.__str__(mark(texts, value, entry.conversion, entry.spec))

    def replaced(leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return values.get(id(leaf), leaf)
        if not any(id(each) in values for each in _leaves(leaf, texts)):
            return leaf
        return text_in(texts, written(str.__str__(leaf), rewritten))

    return unflatten(structure, [replaced(leaf) for leaf in leaves])


Only = Callable[[Any, str], Any]  # from a value of one path, and its name, to what builds it


def merged(pending: PendingError, region: Any, flag: Any, only: Only) -> Callable[[Any], None]:
    """What moves an error that is pending in ``region`` to the surroundings, given the results.

    ``flag`` builds its flag, ``only`` what builds a value that there is on the path of the region.
    """
    values = pending.values(region)
    names = pending.inner_names(region)
    builds = [(id(value), only(value, "an exception")) for value in values]
    built = {name: only(value, name) for name, value in names.items()}

    def move(results: Any) -> None:
        parent = region.parent
        pending.flag = flag(results)
        pending.replace({key: build(results) for key, build in builds}, parent)
        pending.names.update({name: build(results) for name, build in built.items()})
        parent.errors.append(pending)

    return move
