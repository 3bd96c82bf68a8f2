"""Evaluate tensors that have the same value at every call, and guard the facts this relies on.

A tensor from outside that is no argument, and what is computed of such ones alone, has a value
while the function is captured.  Where a size follows from it (how many elements a mask selects),
the capture takes that value for a constant and counts on it: each call looks whether the tensors
that it came from still hold what they held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import Leaving
from hybrid.core.sizes import OpenSizes
from hybrid.eager.batched_value import Lane
from hybrid.eager.execution import EAGER, array_of, measured
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, HybridError, Location, author_location
from hybrid.ir import Node, Value
from hybrid.ir.bound_graphs import SizeBinding
from hybrid.ir.record import Leaf
from hybrid.memory import native
from hybrid.number.staging import OwnCall
from hybrid.ops.flow.control import py_call
from hybrid.ops.index.value_sizes import VALUE_SIZED
from hybrid.trace.places.address import Address, ArgumentLeaf

if TYPE_CHECKING:
    from hybrid.trace.regions.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that a plan relies on besides its guards: ``read()`` still returns ``given``."""

    what: str  # that messages say has changed
    read: Callable[[], Any]
    given: Any

    def holds(self) -> bool:
        """Return whether the fact is still true."""
        return self.read() == self.given


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Predicate: whether a tensor from outside still holds the same bytes."""

    tensor: Tensor
    address: Address | None  # where to look for it, if another tensor may stand there
    held: bytes

    def __call__(self) -> bool:
        found = self.tensor if self.address is None else self.address.now()
        return (
            isinstance(found, Tensor)
            and found.type is self.tensor.type
            and native.view(found.content, found.nbytes) == self.held
        )


def constant_value(tracer: Tracer, tensor: Tensor) -> np.ndarray | None:
    """Return the elements of ``tensor`` if they are the same at every call; else None.

    The capture counts on it from then on: what it came from must not be changed meanwhile.
    """
    walk = ConstantEvaluator()
    try:
        value = walk.of_tensor(tracer, tensor)
    except NotConstant:
        return None
    for around, key in walk.used:
        around.constants.add(key)
    for source, address in walk.sources.values():
        data = bytes(native.view(source.content, source.nbytes))
        what = f"the content of a tensor ({source.type}) that elements are selected by"
        tracer.count_on(what, Content(source, address, data), given=True)  # as the call begins
    return array_of(value)


def refuse_constant_write(tracer: Tracer, tensor: Tensor, at: Location | None = None) -> None:
    """Raise if the capture has used the value of ``tensor`` as a constant."""
    if id(tensor) in tracer.constants:
        raise CaptureError(
            f"a tensor ({tensor.type}) is changed that elements were selected by",
            at=at or author_location(),
            why="How many a mask selects is a size in the graph, so its value is a constant of "
            "the plan.",
            fix="change it outside the hybridized function, or keep the shape: "
            "hybrid.where(mask, x, 0), with what changes no sum, product or maximum in place of 0",
        )


class NotConstant(Exception):
    """Raised where a value depends on the call."""


class ConstantEvaluator:
    """Evaluates a traced value by running its nodes eagerly on tensors from outside."""

    def __init__(self) -> None:
        self.sources: dict[int, tuple[Tensor, Address | None]] = {}  # from outside, by their ids
        self.used: list[tuple[Tracer, int]] = []  # tensors from outside a region, by their ids

    def of_tensor(self, tracer: Tracer, tensor: Tensor) -> Tensor:
        """Return the value of ``tensor`` as ``tracer`` sees it."""
        if tracer.owns(tensor):
            return self.of_value(tracer, tracer.traced(tensor).content)
        self.used.append((tracer, id(tensor)))
        entry = tracer.cells.get(id(tensor))
        if entry is not None and entry.written:
            if tracer.parent is None:
                raise NotConstant
            return self.of_value(tracer, entry.value)
        if tracer.parent is not None:
            return self.of_tensor(tracer.parent, tensor)
        return self.of_source(tracer, tensor)

    def of_source(self, tracer: Tracer, tensor: Tensor) -> Tensor:
        """Return a tensor from outside the capture, unless it may change between calls."""
        address = tracer.attribute_sources.get(id(tensor))
        gradient = address is not None and isinstance(address.owner, (Leaf, ArgumentLeaf))
        varying = tracer.varying is None or id(tensor) in tracer.varying
        if varying or gradient or tensor.record is not None or type(tensor.content) is Value:
            raise NotConstant
        self.sources[id(tensor)] = tensor, address
        return make_tensor(tensor.type, tensor.content)

    def of_value(self, tracer: Tracer, value: Value) -> Tensor:
        """Return the value of a node's result or a parameter in the graph of ``tracer``."""
        known = self.known(tracer)
        needed, nodes = {value} - known.keys(), []
        for node in reversed(tracer.builder.nodes):
            if not needed.isdisjoint(node.results):
                if not self.runs(node):
                    raise NotConstant
                needed.difference_update(node.results)
                needed.update([v for v in node.operands if v not in known])
                nodes.append(node)
        cells = {entry.initial: entry.tensor for entry in tracer.cells.values()}
        if not needed <= cells.keys():  # a loop's index, what a loop carries
            raise NotConstant
        known.update({v: self.of_cell(tracer, cells[v]) for v in needed})
        for node in reversed(nodes):
            results = self.run(node, [known[v] for v in node.operands])
            known.update(zip(node.results, results, strict=True))
        return known[value]

    def known(self, _tracer: Tracer) -> dict[Value, Tensor]:
        """Return the values of the graph that are known already."""
        return {}

    def runs(self, node: Node) -> bool:
        """Whether ``node`` is one that ``run`` takes."""
        return node.pure and not node.regions and not node.is_open

    def run(self, node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the results of ``node``."""
        return EAGER.run(node.op, operands, node.attrs)

    def of_cell(self, tracer: Tracer, tensor: Tensor) -> Tensor:
        """Return what an outer ``tensor`` held when the graph of ``tracer`` began."""
        self.used.append((tracer, id(tensor)))
        if tracer.parent is not None:
            return self.of_tensor(tracer.parent, tensor)
        if tracer.cells[id(tensor)].written:
            raise NotConstant
        return self.of_source(tracer, tensor)


class _SampleEvaluator(ConstantEvaluator):
    """Evaluates a traced value as it is at the call that is captured."""

    def __init__(self, sizes: OpenSizes) -> None:
        super().__init__()
        self.binding = SizeBinding(sizes, [symbol.value for symbol in sizes.symbols])

    def of_source(self, tracer: Tracer, tensor: Tensor) -> Tensor:
        """Return ``tensor`` with the sizes of the call."""
        if tensor.content is None or isinstance(tensor.content, (Value, Lane)):
            raise NotConstant
        return make_tensor(self.binding.type(tensor.type), tensor.content)

    def of_cell(self, tracer: Tracer, tensor: Tensor) -> Tensor:
        """Return what ``tensor`` held when the capture began."""
        if tracer.parent is not None:
            raise NotConstant
        return self.of_source(tracer, tensor)

    def known(self, tracer: Tracer) -> dict[Value, Tensor]:
        """Return the values that earlier sizes have asked for."""
        return tracer.samples if tracer.parent is None else {}

    def runs(self, node: Node) -> bool:
        """Whether ``node`` leaves no traces."""
        return lasting_call(node) is None

    def run(self, node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the results of ``node`` at the sizes of the call."""
        if node.op.name in VALUE_SIZED:
            return measured(node.op, operands[0])[:1]
        attrs = tuple([(name, self.binding.attribute(value)) for name, value in node.attrs])
        regions = tuple(map(self.binding.graph, node.regions))
        try:
            return EAGER.run(node.op, operands, attrs, regions)
        except HybridError:  # which the run will meet as well
            raise NotConstant from None


def lasting_call(node: Node) -> Node | None:
    """Return ``node``, or one in it, whose call of Python leaves traces, if there is one."""
    if node.op is py_call:
        function = node.attributes["function"]
        function = function.function if type(function) is Leaving else function
        return None if isinstance(function, OwnCall) and function.repeats else node
    if not node.op.pure:  # of a loaded program: it prints, or ends the run
        return node
    found = [lasting_call(inner) for region in node.regions for inner in region.nodes]
    return next((inner for inner in found if inner is not None), None)


def value_here(tracer: Tracer, tensor: Tensor) -> Tensor | None:
    """Return what ``tensor`` is at the call that is captured; None where that is not known."""
    assert tracer.opens is not None
    walk = _SampleEvaluator(tracer.opens)
    try:
        return walk.of_value(tracer, tracer.traced(tensor).content)
    except NotConstant:
        return None
