"""The record of a capture: a graph, the sources of its inputs, and recipes for its results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hybrid.core.dataclass import cached_attribute, dataclass, field
from hybrid.core.sizes import OpenSizes
from hybrid.core.tree import LEAF, Several, Structure, flatten, unflatten, unflatten_several
from hybrid.core.types import TensorType
from hybrid.eager.execution import as_tensor
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location
from hybrid.ir import Graph, Value
from hybrid.passes.layouts.rank_graph import is_shared
from hybrid.plan import Plan
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.constants import Fact
from hybrid.trace.places.address import Address, bound_name
from hybrid.trace.places.objects import empty, filled
from hybrid.trace.regions.requires_grad import FlowFact

# The plan of a graph, which sources it leaves to be computed ahead, if any, and the plan for them.
Plans = tuple[Plan, tuple[int, ...], Plan | None]


@dataclass(eq=False)
class LazyGraph:
    """A graph of known input types that is made when it is first needed: read from a file, bound.

    ``types`` gives those of its inputs; ``make`` the graph, and those of its values that are no
    constants to gradients, or None.
    """

    types: Callable[[], tuple[TensorType, ...]]
    make: Callable[[], tuple[Graph, frozenset[Value] | None]]

    @cached_attribute
    def inputs(self) -> tuple[TensorType, ...]:
        """The types of its inputs."""
        return self.types()

    @cached_attribute
    def made(self) -> tuple[Graph, frozenset[Value] | None]:
        """What ``make`` gives."""
        return self.make()

    @property
    def graph(self) -> Graph:
        """The graph alone."""
        return self.made[0]


COMPOUND = ("items", "either", "tree")  # kinds of leaves that are made of others
# Those that are neither tensors nor what Python had before the run, as errors call them.
KINDS_IN_WORDS = {
    "text": "a text that a run makes",
    "items": "a list whose length a run decides",
    "either": "a result that is not always there",
    "object": "an object that a run makes",
    "given": "a container that it was given",
    "held": "an object that was there before",
    "tree": "what a run puts together",
    "fresh": "a container that a run makes",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a call finds an input of the graph: an argument, an address, or a fixed tensor."""

    kind: (
        str  # "argument", "number" (a Python number, of the arguments or not), "attribute", "cell"
    )
    index: int = -1  # of the argument leaf
    tensor: Tensor | None = None  # the cell
    address: Address | None = None  # of the place, or of a number that is no argument

    @property
    def is_outer_number(self) -> bool:
        """Whether the input is a Python number that is read from outside the arguments."""
        return self.kind == "number" and self.address is not None

    def fetch(self, leaves: Sequence[Any]) -> Tensor:
        """Return the input tensor of a call whose arguments have these ``leaves``."""
        if self.kind == "argument":
            return leaves[self.index]
        if self.kind == "number":
            assert self.tensor is not None
            value = leaves[self.index] if self.address is None else self.address.read()
            return as_tensor(value, self.tensor.type.dtype)
        if self.kind == "cell":
            assert self.tensor is not None
            return self.tensor
        assert self.address is not None
        return self.address.read(leaves)


@dataclass(frozen=True, slots=True)
class TreeRecipe:
    """How to build a tree from the results of a run: its structure, and (kind, what) per leaf.

    Kinds: ``output`` (index of a graph result), ``number`` (the same, as a Python number),
    ``text`` (a DeferredText: what builds a string, of which results), ``items`` (Items: all that
    stand in the place of one), ``either`` (OptionalLeaf: a leaf, or what is there instead of it),
    ``tree`` (Made: a tuple, list or dict), ``argument`` and ``source`` (index: that very tensor),
    ``given`` (keys: a container among the arguments), ``held`` (Address: the object there as the
    run begins), ``object`` (index of one that is made at each run), ``constant`` (a Python object).
    """

    structure: Structure
    leaves: tuple[tuple[str, Any], ...]

    @property
    def places(self) -> Iterator[tuple[str, Any]]:
        """The leaves as (kind, what), and those that compound leaves are made of."""
        for kind, what in self.leaves:
            yield kind, what
            if kind in COMPOUND:
                yield from what.places


@dataclass(frozen=True, slots=True, eq=False)
class ObjectRecipe:
    """How to make an object, list, dict or tuple in each run: its class and its content."""

    kind: type
    recipe: TreeRecipe  # a dict of its attributes; what it holds; the tuple itself

    @property
    def is_tuple(self) -> bool:
        """Whether it is made with what it holds, not before that."""
        return issubclass(self.kind, tuple)


@dataclass(frozen=True, slots=True, eq=False)
class OptionalLeaf:
    """A leaf that is ``leaf`` where the graph result ``flag`` is true, else the leaf ``other``.

    The constant Several is no object at all: a dict, or what is made of one, is without that key.
    """

    leaf: tuple[str, Any]
    flag: int
    other: tuple[str, Any]

    @property
    def places(self) -> Iterator[tuple[str, Any]]:
        """The leaves that it is made of, as (kind, what)."""
        yield "output", self.flag
        for kind, what in (self.leaf, self.other):
            yield kind, what
            if kind in COMPOUND:
                yield from what.places


@dataclass(frozen=True, slots=True)
class PlaceWrite:
    """A write that each run repeats: to an attribute, an item, or the content of a container."""

    address: Address
    recipe: TreeRecipe
    exists: bool  # whether it was there before
    key: tuple[Any, ...] = ()  # of the item to set in the container that is at the address


@dataclass(frozen=True, slots=True)
class BackwardRequest:
    """The key of a backward graph: kinds of cotangents, sums so far, and aliases of inputs."""

    cts: tuple[Any, ...]  # the Kind of the cotangent of each output, None where there is none
    arrived: tuple[Any, ...]  # of what each input has got so far, where the order of sums asks
    places: tuple[int, ...]  # for each input the first one of the same record


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """A backward graph: from (residuals, cotangents, sums so far) to the total of each input."""

    stored_graph: Graph | LazyGraph
    residuals: tuple[tuple[str, int], ...]  # what it reads: ("source" or "output", index)
    reached: tuple[int, ...]  # positions in the inputs that get a cotangent
    flags: tuple[int, ...]  # of each of these the further result that says if it does; or -1
    plan: Callable[[], Plan] | None = None  # that runs the graph, where that is known

    @property
    def graph(self) -> Graph:
        """The graph; where it is lazy, it is made now."""
        stored = self.stored_graph
        return stored.graph if isinstance(stored, LazyGraph) else stored


@dataclass(frozen=True, slots=True)
class HistoryAlias:
    """An output that has the history of another value in runs where a graph result is true."""

    output: int  # position in the outputs of the gradient
    of: str  # "source", or "output": an earlier one
    index: int
    flag: int  # the graph result; -1: always


@dataclass(frozen=True, slots=True)
class Alias:
    """An output that is another tensor, the same object, in runs where a graph result is true."""

    output: int
    of: str  # "argument", "source", or "output": an earlier one
    index: int
    flag: int  # the graph result; -1: always


@dataclass(slots=True)
class Gradient:
    """How a call takes part in a gradient: its outputs and inputs, and its backward graphs."""

    outputs: tuple[int, ...]  # graph results that have a history
    inputs: tuple[int, ...]  # sources whose records are the parents
    uses: tuple[int, ...]  # of each input: of how many terms its cotangent consists, at most
    backward: Backward  # when each output has a cotangent, and no input
    history_aliases: tuple[HistoryAlias, ...]
    presence_flags: tuple[
        int, ...
    ]  # of each output: the graph result that says if it has one; -1: always
    refused: bool = False  # a derivative is missing: to go back is to follow the ops, which say so
    severed: bool = False  # it leads to stand-ins of a data-parallel model: none can go back
    further: dict[BackwardRequest, Backward] = field(default_factory=dict)  # for other calls

    @property
    def unsure(self) -> frozenset[int]:
        """The outputs that may have the history of another value, and then get no cotangent."""
        return frozenset([alias.output for alias in self.history_aliases])


Item = int | Address  # what may vary: the position of an argument leaf, or a place outside


@dataclass(frozen=True)
class OpenAxes:
    """The axes of tensors that have symbols, and the types of all tensors among the arguments.

    Of an int that is such a size the axis is 0.
    """

    sizes: OpenSizes
    places: tuple[tuple[Item, int], ...]  # of each symbol: a tensor, and an axis of it
    types: dict[int, TensorType]  # of the argument leaves that have such axes
    closed: dict[int, TensorType]  # of the others
    outside: dict[Address, TensorType] = field(default_factory=dict)  # of such tensors elsewhere
    numbers: dict[int, Any] = field(default_factory=dict)  # ints among the leaves, as sizes

    def reader(self) -> Callable[[Sequence[Any]], tuple[Any, ...] | None]:
        """A function of the leaves of a call that gives the types of its tensors, and such ints.

        None where one of them is gone.
        """
        names: dict[str, Any] = {}
        terms = [f"leaves[{i}].type" for i in (*self.types, *self.closed)]
        terms += [f"leaves[{i}]" for i in self.numbers]
        terms += [
            f"{address.text(functools.partial(bound_name, names))}.type" for address in self.outside
        ]
        types = eval(f"lambda leaves: ({', '.join([*terms, ''])})", names)

        def read(leaves: Sequence[Any]) -> tuple[Any, ...] | None:
            try:
                return types(leaves)
            except (AttributeError, LookupError, TypeError, ValueError):
                return None

        return read

    def values(self, leaves: Sequence[Any]) -> tuple[int, ...] | None:
        """The sizes at a call of ``leaves``; None where the graph is not for these."""
        own = (*self.types.values(), *self.outside.values())
        tensors = [at_call(item, leaves) for item in (*self.types, *self.outside)]
        for type_, tensor in zip(own, tensors, strict=True):
            if not isinstance(tensor, Tensor) or not _is_alike(tensor.type, type_):
                return None
        values = self._sizes(leaves)
        if not self.sizes.holds(values):
            return None
        if not all([leaves[i].type is type_ for i, type_ in self.closed.items()]):
            return None
        # No type of an argument has a size that depends on values.
        every = (*values, *[symbol.value for symbol in self.sizes.symbols[len(values) :]])
        there = [size for tensor in tensors for size in tensor.type.shape]
        there += [leaves[i] for i in self.numbers]
        return values if self._evaluate(*every) == there else None

    @cached_attribute
    def _evaluate(self) -> Callable[..., list[Any]]:
        """What gives the sizes of all such tensors, and the ints, for values of the symbols."""
        own = (*self.types.values(), *self.outside.values())
        sizes = [size for type_ in own for size in type_.shape]
        return self.sizes.evaluator([*sizes, *self.numbers.values()])

    def fits(self, tensor: Tensor, type_: TensorType, leaves: Sequence[Any]) -> bool:
        """Whether ``tensor`` has the open ``type_``, as it is at a call of ``leaves``."""
        values = [*self._sizes(leaves)]
        values += [symbol.value for symbol in self.sizes.symbols[len(values) :]]
        bound = self.sizes.bound(type_.shape, values)
        return tensor.type.dtype is type_.dtype and tensor.type.shape == bound

    def _sizes(self, leaves: Sequence[Any]) -> tuple[int, ...]:
        return tuple([shape_of(at_call(item, leaves))[axis] for item, axis in self.places])


def shape_of(value: Any) -> tuple[Any, ...]:
    """The sizes that a tensor has, or that an int is."""
    return value.type.shape if isinstance(value, Tensor) else (value,)


def _is_alike(one: TensorType, other: TensorType) -> bool:
    return one.dtype is other.dtype and one.rank == other.rank


def at_call(item: Item, leaves: Sequence[Any]) -> Any:
    """What an item is at a call of ``leaves``."""
    return leaves[item] if isinstance(item, int) else item.now()


@dataclass(slots=True)
class Capture:
    """A captured function for one key: the graph, and how a call binds its inputs and results."""

    stored_graph: (
        Graph | LazyGraph
    )  # results: what is returned, written, and kept for the backward pass
    sources: list[Source]
    result: TreeRecipe
    consumed: frozenset[int]  # outputs whose history backward() used up inside
    writes: list[tuple[int, int]]  # (source, output): cells to write back
    place_writes: list[PlaceWrite]
    guards: Guards
    requires: list[bool]  # of each source: whether gradients flowed to it
    gradient: Gradient | None = None
    # Values of the graph that are no constants to gradients; None where nothing has a history, or
    # where the graph says it.
    stored_recorded: frozenset[Value] | None = None
    lasting: frozenset[int] = frozenset()  # sources that are written, and keep their histories
    place_reads: list[tuple[Address, Any]] = field(default_factory=list)  # with what was there
    # Argument leaves that are also reached from outside: (index, that tensor or its address).
    argument_aliases: list[tuple[int, Any]] = field(default_factory=list)
    # The containers from outside, if some container is written: these are not among the arguments.
    outside: tuple[Any, ...] | None = None
    given: bool = False  # whether runs need the arguments themselves
    objects: tuple[ObjectRecipe, ...] = ()
    # Why each path is captured by itself, where that is for objects.
    path_errors: Sequence[CaptureError] = ()
    aliases: tuple[Alias, ...] = ()  # by ascending outputs
    variables: tuple[int, ...] = ()  # outputs that the call makes variables
    firsts: Any = None  # the FirstGradients, if there are such
    turned: tuple[tuple[int | Tensor, bool], ...] = ()  # see requires_grad.py
    facts: list[Fact] = field(default_factory=list)  # what else a plan counts on
    flow_facts: tuple[FlowFact, ...] = ()  # which tensors, besides, gradients flow to
    # What became of places in the author's code, for explain().
    notes: list[tuple[Location | None, str]] = field(default_factory=list)
    plans: Plans | None = None  # that run the graph, where they are known
    open_axes: OpenAxes | None = None  # of the arguments, where the graph is one for many sizes
    value_sizes: OpenSizes | None = None  # all symbols, where some depend on values
    resized: frozenset[int] = frozenset()  # outputs that have other sizes at other calls
    filed: str = ""  # of an open one: in a file, or loaded from there, or why not
    recaptured: tuple[str, ...] = ()  # the reasons to capture again that have led to this one

    @property
    def graph(self) -> Graph:
        """The captured graph; if it is lazy, it is made now."""
        if isinstance(self.stored_graph, LazyGraph):
            self.stored_graph, self.stored_recorded = self.stored_graph.made
        return self.stored_graph

    @property
    def is_shared(self) -> bool:
        """Whether ranks share its tensors, or its work; what comes from a file is no such."""
        return not isinstance(self.stored_graph, LazyGraph) and is_shared(self.stored_graph)

    @property
    def recorded(self) -> frozenset[Value] | None:
        """Those values of the graph that are no constants to gradients; None: there are none."""
        self.graph  # noqa: B018  which says it
        return self.stored_recorded

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the sources."""
        if isinstance(self.stored_graph, LazyGraph):
            return self.stored_graph.inputs
        return tuple([v.type for v in self.stored_graph.params])

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the results of the graph."""
        if self.plans is not None:
            return self.plans[0].output_types
        return tuple([v.type for v in self.graph.results])

    @property
    def written_arguments(self) -> dict[int, Location | None]:
        """The indices of the argument leaves that are written, with the author's lines."""
        return {
            self.sources[source].index: self.graph.results[output].location
            for source, output in self.writes
            if self.sources[source].kind == "argument"
        }


def _value(
    results: Sequence[Tensor], leaves: Sequence[Any], sources: dict[Any, Any], kind: str, what: Any
) -> Any:
    """Return the value of one leaf of a recipe.  (A closure in ``build`` would be a cycle.)"""
    if kind == "output":
        return results[what]
    if kind == "number":
        return results[what].item()
    if kind == "text":
        return what.text(results)
    if kind == "items":
        return what.build(results, functools.partial(_value, results, leaves, sources))
    if kind == "either":
        chosen = results[what.flag].item()
        return _value(results, leaves, sources, *(what.leaf if chosen else what.other))
    if kind == "tree":
        return build(what, results, leaves, sources)
    if kind == "argument":
        return leaves[what]
    if kind == "object":
        return sources["o", what]
    if kind == "fresh":
        return what.copy()
    return sources[what] if kind in ("source", "given", "held") else what


def build_objects(
    objects: Sequence[ObjectRecipe],
    results: Sequence[Tensor],
    leaves: Sequence[Any],
    sources: dict[Any, Any],
) -> None:
    """Make the ``objects`` of one call, and add them to ``sources``."""
    for i, built in enumerate(objects):
        if not built.is_tuple:
            sources["o", i] = empty(built.kind)
    for i in tuples_in_order(objects):
        sources["o", i] = build(objects[i].recipe, results, leaves, sources)
    for i, built in enumerate(objects):
        if not built.is_tuple:
            filled(sources["o", i], build(built.recipe, results, leaves, sources))


def tuples_in_order(objects: Sequence[ObjectRecipe]) -> list[int]:
    """Return the positions of the tuples among ``objects``, each behind those that it holds."""
    found: dict[int, None] = {}

    def add(i: int) -> None:
        for kind, what in objects[i].recipe.places:
            if kind == "object" and objects[what].is_tuple and what not in found:
                add(what)
        found[i] = None

    for i, built in enumerate(objects):
        if built.is_tuple and i not in found:
            add(i)
    return list(found)


def without_tuples(recipe: TreeRecipe, objects: Sequence[ObjectRecipe]) -> TreeRecipe:
    """Return ``recipe`` with the parts of tuples that are made once, or were there before."""
    rest = iter(recipe.leaves)
    leaves: list[tuple[str, Any]] = []

    def spread(structure: Structure) -> Structure:
        if structure is None:
            return None
        if structure != LEAF:
            kind, parts = structure
            if issubclass(kind, dict):
                return kind, tuple([(key, spread(part)) for key, part in parts])
            return kind, tuple([spread(part) for part in parts])
        kind, what = leaf = next(rest)
        if kind == "constant" and isinstance(what, tuple):
            parts, inner = flatten(what)
            leaves.extend([("constant", part) for part in parts])
            return inner
        if kind != "object" or not objects[what].is_tuple:
            leaves.append(leaf)
            return LEAF
        made = without_tuples(objects[what].recipe, objects)
        leaves.extend(made.leaves)
        return made.structure

    structure = spread(recipe.structure)
    return TreeRecipe(structure, tuple(leaves))


def build(
    recipe: TreeRecipe, results: Sequence[Tensor], leaves: Sequence[Any], sources: dict[Any, Any]
) -> Any:
    """Return the tree that ``recipe`` describes, for the results of one call."""

    values = [_value(results, leaves, sources, kind, what) for kind, what in recipe.leaves]
    if any(type(value) is Several for value in values):
        return unflatten_several(recipe.structure, values)
    return unflatten(recipe.structure, values)
