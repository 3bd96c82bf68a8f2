"""Deferred values: Python values rebuilt from arrays when the plan runs.

``print(f"{x} of {[n]}")`` is captured as an ordered call into Python whose operands are the values
of ``x`` and ``n``; before it prints, its arguments are made what they would have been eagerly.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import is_interrupt
from hybrid.core.imports import above
from hybrid.core.tree import flatten, unflatten, unflatten_several
from hybrid.eager.execution import array_of, from_numpy
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, author_location, locate
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.ir.record import Leaf
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.number.staging import OwnCall, Raises
from hybrid.number.tensor_or_number import TensorOrNumber
from hybrid.ops.flow.control import py_call
from hybrid.trace.values.templates import Message, Places, template_of
from hybrid.trace.values.traced_text import marks, written
from hybrid.trace.values.varlist import VarList
from hybrid.trace.values.varlist_items import items_of

Arrays = Sequence[Any]
Build = Callable[[Arrays], Any]


class Deferred:
    """A Python tree with traced parts: its operands, and the function that rebuilds it.

    Lists, tuples, dicts, sets, texts and exceptions are looked into; of other objects that hold
    traced tensors there is the text alone.
    """

    def __init__(self, tree: Any) -> None:
        self.operands: list[Tensor] = []
        self._places: dict[Any, int] = {}
        self._texts: dict[int, Build] = {}
        self._histories: dict[int, bool | None] = {}  # of operands; None: a run knows
        self.build = self._builder(tree)

    def _builder(self, tree: Any) -> Build:
        leaves, structure = flatten(tree)
        builds = [self._leaf(leaf) for leaf in leaves]
        if not builds or all(b is None for b in builds):
            return lambda _arrays: unflatten(structure, leaves)
        join = unflatten_several if any(type(leaf) is VarList for leaf in leaves) else unflatten
        return lambda arrays: join(
            structure,
            [
                leaf if build is None else build(arrays)
                for leaf, build in zip(leaves, builds, strict=True)
            ],
        )

    def _leaf(self, leaf: Any) -> Build | None:
        """How to make ``leaf``; None when it is what it is."""
        if type(leaf) in (Mixed, TensorOrNumber):
            return self._of_any_kind(leaf)
        if isinstance(leaf, Tensor):
            return self._tensor(leaf)
        if type(leaf) is Number:
            at = self._place(leaf.tensor)
            return lambda arrays: arrays[at].item()
        if type(leaf) is VarList:
            return self._items(leaf)
        if isinstance(leaf, str):
            return self._text(leaf) if marks(leaf) else None
        if isinstance(leaf, BaseException):
            return self._exception(leaf)
        if type(leaf) in (set, frozenset):
            items = self._builder(list(leaf))
            return lambda arrays: type(leaf)(items(arrays))
        return None if isinstance(leaf, _ATOMS) else self._shown(leaf)

    def _place(self, tensor: Tensor) -> int:
        tensor = current().traced(tensor)
        at = self._places.get(tensor.content)
        if at is None:
            at = self._places[tensor.content] = len(self.operands)
            self.operands.append(tensor)
        return at

    def _tensor(self, tensor: Tensor) -> Build:
        at, recorded = self._place(tensor), self._recorded(tensor)

        def build(arrays: Arrays) -> Tensor:
            made = from_numpy(arrays[at], copy=True)
            if recorded(arrays):
                made.leaf = made.record = Leaf(made.type)
            return made

        return build

    def places(self) -> Places:
        """Where the operands are, for templates."""
        return Places(self._place_known, lambda t: self._histories.get(self._place_known(t)))

    def _place_known(self, tensor: Tensor) -> int | None:
        return self._places.get(current().traced(tensor).content)

    def _recorded(self, tensor: Tensor) -> Callable[[Arrays], bool]:
        """Whether ``tensor`` has a history, which may depend on the path that a run takes."""
        tracer, place = current(), self._place(tensor)
        record = tracer.record_of(tensor)
        self._histories[place] = record is not None
        if record is None or (tracer.parent is not None and not above.surely_outside(record)):
            return lambda _arrays: record is not None
        [flag] = above.presence(tracer, [record])
        if flag is None:
            return lambda _arrays: True
        self._histories[place] = None
        at = self._place(flag)
        return lambda arrays: bool(arrays[at].item())

    def _of_any_kind(self, number: Mixed | TensorOrNumber) -> Build:
        """A number of the kind that it has in a run, or the tensor that is there instead."""
        flags, parts = (self._builder(list(each)) for each in (number.flags, number.parts))

        def build(arrays: Arrays) -> Any:
            place = next((i for i, flag in enumerate(flags(arrays)) if flag), -1)
            return parts(arrays)[place]

        return build

    def _items(self, varlist: VarList) -> Build:
        """The items of a list whose length only the run knows."""

        recorded: dict[int, Callable[[Arrays], bool]] = {}

        def leaf(value: Any) -> tuple[str, Any]:
            if not isinstance(value, Tensor):
                return "built", self._builder(value)
            at = self._place(value)
            recorded[at] = self._recorded(value)
            return "operand", at

        items = items_of(varlist, leaf)

        def build(arrays: Arrays) -> Any:
            results = [from_numpy(np.asarray(a)) for a in arrays]
            for at, is_recorded in recorded.items():
                if is_recorded(arrays):
                    results[at].record = Leaf(results[at].type)

            def value(kind: str, what: Any) -> Any:
                return results[what] if kind == "operand" else what(arrays)

            return items.build(results, value)

        return build

    def _text(self, text: str) -> Build:
        """``text`` with the values in the place of their marks."""
        for index in marks(text):
            if index not in self._texts:
                self._texts[index] = self._entry(index)
        builds = self._texts

        def build(arrays: Arrays) -> str:
            found = written(str.__str__(text), lambda index: builds[index](arrays))
            if _NOTHING in found:
                for gap in (f", {_NOTHING}", f"{_NOTHING}, ", _NOTHING):
                    found = found.replace(gap, "")
            return found

        return build

    def _entry(self, index: int) -> Build:
        entry = current().texts[index]
        if entry.conversion == "%":
            pair = self._builder(entry.value)
            return lambda arrays: operator.mod(*pair(arrays))
        if callable(entry.conversion):
            values, convert = self._builder(entry.value), entry.conversion
            return lambda arrays: convert(values(arrays))
        value = self._leaf(entry.value)
        if type(entry.value) is VarList:
            return lambda arrays: ", ".join(map(repr, value(arrays))) or _NOTHING
        write = {"s": str, "r": repr}.get(entry.conversion) or (lambda v: format(v, entry.spec))
        return lambda arrays: write(value(arrays))

    def _exception(self, error: BaseException) -> Build:
        """A fresh one for each run: an exception collects tracebacks and notes."""
        args = self._builder(list(error.args))
        state = self._builder({**error.__dict__})

        def build(arrays: Arrays) -> BaseException:
            try:
                made = copy.copy(error)
            except Exception as failure:  # its class cannot be called with its args
                if is_interrupt(failure):
                    raise
                made = error
            made.args = tuple(args(arrays))
            made.__dict__.update(state(arrays))
            made.__cause__, made.__context__ = error.__cause__, error.__context__
            made.__suppress_context__ = error.__suppress_context__
            return made.with_traceback(None)

        return build

    def _shown(self, leaf: Any) -> Build | None:
        """An object that shows traced values: something that shows them as they will be."""
        shown, repr_text = str(leaf), repr(leaf)
        if not (marks(shown) or marks(repr_text)):
            return None
        as_str, as_repr = self._builder(shown), self._builder(repr_text)
        return lambda arrays: Shown(as_str(arrays), as_repr(arrays))


_NOTHING = "\0"  # in a text, in the place of the items of a list that has none
_ATOMS = (bool, int, float, complex, bytes, type(None), type)


@dataclass(frozen=True, slots=True, repr=False)
class Shown:
    """An object of which only the texts of ``str`` and ``repr`` are left."""

    shown: str
    repr_text: str

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return self.repr_text


@dataclass(frozen=True, slots=True)
class DeferredText:
    """A text that the results of a plan complete."""

    build: Build
    outputs: tuple[int, ...]

    def text(self, results: Sequence[Tensor]) -> str:
        """The string, once all ``results`` are there."""
        return self.build([array_of(results[at]) for at in self.outputs])


class DeferredCall(OwnCall):
    """A py_call of ``function`` whose arguments are rebuilt from arrays first."""

    def __init__(
        self,
        function: Callable[..., Any],
        deferred: Deferred,
        location: Location | None,
        raises: Raises | None = (),
        template: Message | None = None,
    ) -> None:
        self.function, self.build, self.location = function, deferred.build, location
        self.raises, self.template = raises, template

    @property
    def repeats(self) -> bool:  # type: ignore[override]
        return self.raises != ()  # else it prints

    def __call__(self, *arrays: Any) -> tuple[()]:
        try:
            self.function(*self.build([np.asarray(a) for a in arrays]))
        except Exception as error:
            locate(error, self.location)
            raise
        return ()

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


def call_deferred(
    function: Callable[..., Any],
    *arguments: Any,
    at: Location | None = None,
    raises: Raises | None = (),
    says: tuple[str, Callable[[], str]] | None = None,
) -> None:
    """Stage an ordered call of ``function`` for when the plan runs.

    ``says`` is what a program does in its place: where a text goes, and what makes the text.
    """
    deferred = Deferred(arguments)
    template = None if says is None else template_of(deferred.places(), *says)
    call = DeferredCall(function, deferred, at or author_location(), raises, template)
    call, operands = current().leaving(call, deferred.operands)
    results_of(current().apply(py_call, operands, {"function": call, "types": ()}))
