"""Read the entry of a plan file into a Capture of this process: see ``entry_writer.py``.

Nothing is trusted: a capture is made only of what fits the program, the call and its own types; all
else is Malformed.  Plans are made of the arrays that they were.  Graphs are read when somebody asks
for them; those of captures that gradients flow through at once.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Sequence
from typing import Any

from hybrid.calls.files.digest import ReadsDigest
from hybrid.config import plan_budget
from hybrid.core.dataclass import replace
from hybrid.core.sizes import OpenSizes, Size
from hybrid.core.tree import LEAF, Structure
from hybrid.core.types import TensorType
from hybrid.eager.execution import as_tensor
from hybrid.eager.tensor import Tensor
from hybrid.errors import GraphError
from hybrid.ir import Graph, Value
from hybrid.ir.record import Leaf
from hybrid.ir.rows import RowReader, at, value_of, values_in
from hybrid.memory import native
from hybrid.ops.flow.control import FLAG
from hybrid.plan import Plan, make_plan
from hybrid.plan.arrays import PARTS, plan_of, unpacked
from hybrid.plan.plan import Sizes
from hybrid.random import default_generator
from hybrid.trace.capture.captured_graph import (
    Alias,
    Backward,
    Capture,
    Gradient,
    HistoryAlias,
    LazyGraph,
    OpenAxes,
    PlaceWrite,
    Plans,
    Source,
    TreeRecipe,
)
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.places.address import Address, ArgumentLeaf
from hybrid.trace.regions.requires_grad import FlowFact

Types = tuple[TensorType, ...]

_TREES = {kind.__name__: kind for kind in (list, tuple, dict)}


class Malformed(Exception):
    """Raised where an entry does not describe a valid capture."""


def read_entry(entry: Any, found: ReadsDigest, leaves: Sequence[Any], guards: Guards) -> Capture:
    """Return the Capture and plans of ``entry`` for a call with ``leaves``; raises Malformed.

    The ``guards`` are of the program as it is.
    """
    try:
        return _Reader(entry, found, leaves).capture(guards)
    except Exception as error:  # of whatever kind: nothing is known of what the entry holds
        raise Malformed(f"{type(error).__name__}: {error}") from error


class _Graphs:
    """The graphs of an entry, all parsed when the first of them is needed."""

    def __init__(self, content: bytes) -> None:
        self.content: bytes | None = content
        self.found: list[Graph] = []
        self.lock = threading.Lock()

    @property
    def sizes(self) -> OpenSizes | None:
        """The symbols of open types in all graphs, which are read now; raises GraphError."""
        with self.lock:
            assert self.content is not None
            read = self._read(self.content)
            self.found, self.content = read.graphs, None
        return read.sizes

    def graph(self, number: Any, types: tuple[Types, Types] | None = None) -> Graph:
        """Return the graph of this number, and check its types if given; raises GraphError."""
        with self.lock:
            if self.content is not None:
                self.found, self.content = self._read(self.content).graphs, None
        try:
            found = at(self.found, number)
        except IndexError:
            raise GraphError("a plan that is kept in a file has no graph") from None
        if types is not None and _types(found) != types:
            raise GraphError("the graph of a plan that is kept in a file is of other types")
        return found

    @staticmethod
    def _read(content: bytes) -> RowReader:
        try:
            return RowReader(json.loads(content))
        except (ValueError, RecursionError) as error:  # GraphError is one
            raise GraphError(f"the graphs of a plan that is kept in a file: {error}") from error


class _Reader:
    """Reads the parts of an entry, each checked against the reads and leaves of the call."""

    def __init__(self, entry: Any, found: ReadsDigest, leaves: Sequence[Any]) -> None:
        self.entry, self.found, self.leaves = entry, found, leaves
        self.graphs = _Graphs(at(entry["parts"], entry["rows"]))
        sizes = self.graphs.sizes if "open" in entry else None
        self.kinds = [value_of(row, sizes) for row in entry["types"]]
        if not all(isinstance(kind, TensorType) for kind in self.kinds):
            raise Malformed("a type is none")
        self.inputs, self.outputs = self.types(entry["inputs"]), self.types(entry["outputs"])
        self.count = len(self.outputs)
        self.axes = self.open_axes(entry["open"], sizes) if "open" in entry else None

    def types(self, numbers: Any) -> Types:
        """Return the tensor types with these numbers."""
        return tuple([at(self.kinds, number) for number in numbers])

    def open_axes(self, row: dict[str, Any], sizes: OpenSizes | None) -> OpenAxes:
        """Return the open axes, checked against the tensors among the leaves."""
        if sizes is None:
            raise Malformed("there are no symbols")
        kinds, closed = (
            {self.argument(i): at(self.kinds, number) for i, number in row[name]}
            for name in ("types", "closed")
        )
        tensors = {i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)}
        if kinds.keys() & closed.keys() or kinds.keys() | closed.keys() != tensors:
            raise Malformed("the arguments are others")
        places = tuple([(self.argument(i), axis) for i, axis in row["places"]])
        if len(places) != len(sizes.symbols):
            raise Malformed("there are other symbols")
        for (i, axis), symbol in zip(places, sizes.symbols, strict=True):
            size = at(kinds[i].shape, axis)
            if type(size) is not Size or size.terms != (((symbol,), 1),):
                raise Malformed("a symbol stands elsewhere")
        return OpenAxes(sizes=sizes, places=places, types=kinds, closed=closed)

    def fits(self, tensor: Any, kind: TensorType) -> bool:
        """Return whether ``tensor`` is of a type, or of one that an open one stands for."""
        if not isinstance(tensor, Tensor):
            return False
        own = tensor.type
        return own is kind or (kind.is_open and (own.dtype, own.rank) == (kind.dtype, kind.rank))

    def plans(self) -> Plans:
        """Return the plans of the graph: the plan, the precomputed sources, and their plan."""
        early = self.entry["early"]
        if early is None:
            return self.plan(self.entry["plan"], self.inputs, self.outputs), (), None
        cells = tuple([self.index(i, self.inputs) for i in early["cells"]])
        kept = self.types(early["kept"])
        first = self.plan(early["plan"], tuple([self.inputs[i] for i in cells]), kept)
        return self.plan(self.entry["plan"], self.inputs + kept, self.outputs), cells, first

    def plan(self, row: dict[str, Any], inputs: Types, outputs: Types) -> Plan:
        """Return the plan of a row, made of its arrays if the entry has them, else of a graph."""
        graph = functools.partial(self.graphs.graph, row["graph"], (inputs, outputs))
        if row["arrays"] is None:
            return make_plan(graph())
        parts = [at(self.entry["parts"], number) for number in row["arrays"]]
        if len(parts) != len(PARTS):
            raise Malformed("a plan has other parts")
        sizes = Sizes(*[self.size(size) for size in row["sizes"]])
        arrays = unpacked(parts, self.size(row["arena"]), len(inputs) + len(outputs))
        donations = {self.index(o, outputs): self.index(i, inputs) for o, i in row["donations"]}
        exposed = frozenset([self.index(o, outputs) for o in row["exposed"]])
        plan = plan_of(arrays, inputs, outputs, donations, exposed, sizes, graph)
        native.set_budget(plan.handle, plan_budget())
        return plan

    @staticmethod
    def size(number: Any) -> int:
        """Return ``number`` if it is a size; raises Malformed."""
        if type(number) is not int or number < 0:
            raise Malformed("a size is none")
        return number

    def capture(self, guards: Guards) -> Capture:
        """Return the Capture of the entry, with its plans and the given ``guards``."""
        entry, plans = self.entry, None if self.axes is not None else self.plans()
        sources = [self.source(*row) for row in entry["sources"]]
        requires = [bool(needs) for needs in entry["requires"]]
        for source, kind, needs in zip(sources, self.inputs, requires, strict=True):
            tensor = source.fetch(self.leaves)
            if not self.fits(tensor, kind):
                raise Malformed("an input is of another type")
            if self.axes is not None and source.kind == "argument":
                if self.axes.types.get(source.index, kind) is not kind:
                    raise Malformed("an argument has other open axes")
            elif kind.is_open:
                raise Malformed("what is no argument has open axes")
            if (tensor.record is not None) != needs and source.kind != "number":
                raise Malformed("gradients flow to other inputs")
        result = self.recipe(*entry["result"])
        types = self.inputs, self.outputs
        graph = functools.partial(self.graphs.graph, entry["graph"], types)
        gradient = entry["gradient"]
        recorded = None if gradient is None else self.recorded(gradient, graph())
        capture = Capture(
            stored_graph=LazyGraph(lambda: self.inputs, lambda: (graph(), recorded)),
            sources=sources,
            result=result,
            consumed=frozenset(self.results(entry["consumed"])),
            writes=[
                (self.index(s, sources), self.index(o, self.outputs)) for s, o in entry["writes"]
            ],
            place_writes=[self.place_write(*row) for row in entry["place_writes"]],
            guards=guards,
            requires=requires,
            gradient=None if gradient is None else self.gradient(gradient, sources),
            lasting=frozenset([self.index(i, sources) for i in entry["lasting"]]),
            place_reads=[self.place_read(*row) for row in entry["place_reads"]],
            argument_aliases=[(self.argument(i), self.place(*place)) for i, place in entry["same"]],
            plans=plans,
            open_axes=self.axes,
            flow_facts=tuple([self.flow_facts(*row) for row in entry["flow_facts"]]),
            aliases=tuple([self.alias(*row, sources) for row in entry["aliases"]]),
        )
        guards.fix_gradients(capture)
        if self.axes is not None:
            graph()  # whose types are checked
        for source, output in capture.writes:
            if self.inputs[source] is not self.outputs[output]:
                raise Malformed("a tensor would be written that is of another type")
        if any(sources[source].kind == "argument" for source, _ in capture.writes):
            graph()  # for the author's lines
        for made in (result, *[write.recipe for write in capture.place_writes]):
            for kind, what in made.leaves:
                if kind == "source":
                    self.index(what, sources)
        return capture

    def flow_facts(self, where: Any, needs: Any, never: Any) -> FlowFact:
        """Return the FlowFact of a row, checked to be so."""
        found = FlowFact(self.tensor(where), bool(needs), bool(never))
        if not found.holds():
            raise Malformed("gradients flow to other tensors")
        return found

    def alias(self, output: Any, of: Any, index: Any, flag: Any, sources: Sequence[Any]) -> Alias:
        """Return the Alias of a row, with its indices checked."""
        self.index(output, self.outputs)
        if of == "argument":
            self.argument(index)
        elif of == "source":
            self.index(index, sources)
        elif of != "output" or self.index(index, self.outputs) >= output:
            raise Malformed("a result is no tensor that there is")
        return Alias(output, of, index, self.flag(flag))

    def flag(self, flag: Any) -> int:
        """Return the index of a boolean result, checked; -1 stands for always."""
        if flag != -1 and self.outputs[self.index(flag, self.outputs)] is not FLAG:
            raise Malformed("a flag is none")
        return flag

    def index(self, number: Any, items: Sequence[Any]) -> int:
        """Return ``number`` if it is an index of ``items``."""
        at(items, number)
        return number

    def results(self, numbers: Any) -> list[int]:
        """Return the indices ``numbers``, checked to be those of graph results."""
        return [self.index(i, self.outputs) for i in numbers]

    def argument(self, number: Any) -> int:
        """Return ``number`` if it is the index of a tensor among the argument leaves."""
        if not isinstance(at(self.leaves, number), Tensor):
            raise Malformed("an argument is no tensor")
        return number

    def tensor(self, where: Any) -> Tensor:
        """Return the tensor of the program that ``where`` names."""
        if where == ["random"]:
            return default_generator().state
        if isinstance(where, list):
            _, module, name = where
            tensor = vars(sys.modules[module])[name] if module.startswith("hybrid.") else None
        else:
            tensor = at(self.found.objects, where)
        if not isinstance(tensor, Tensor):
            raise Malformed("a cell is no tensor")
        return tensor

    def source(self, kind: str, *what: Any) -> Source:
        """Return the Source of a row, checked to fit the call."""
        if kind == "argument":
            (index,) = what
            return Source(kind, self.argument(index))
        if kind == "number":
            index, row = what
            dtype = value_of(row).dtype
            number = at(self.leaves, index)
            if type(number) not in (int, float):
                raise Malformed("an argument is no number")
            return Source(kind, index, Source("number", index, _like(dtype)).tensor)
        (where,) = what
        if kind == "cell":
            return Source(kind, tensor=self.tensor(where))
        if kind == "attribute":
            return Source(kind, address=self.address(*where))
        raise Malformed(f"a source is a {kind}")

    def place(self, kind: str, where: Any) -> Any:
        """Return the address or tensor of a row."""
        return self.address(*where) if kind == "address" else self.tensor(where)

    def address(self, where: Any, name: str, keys: Any) -> Address:
        """Return an Address, checked to be a place that the program's code may write."""
        kind, number = where
        if kind in ("argument", "frozen"):
            owner: Any = ArgumentLeaf(self.argument(number), kind == "frozen")
        else:
            owner = at(self.found.objects, number)
        reads = self.found.reads
        if isinstance(owner, (Leaf, ArgumentLeaf)):
            right = name == "grad"
        elif id(owner) in reads.cells:
            right = name == "cell_contents"
        else:
            right = id(owner) in reads.objects and name in reads.attributes
        if not right or not name.isidentifier():
            raise Malformed(f"{name} is no place that is written")
        found = [value_of(key) for key in keys]
        if not all(type(key) in (int, str, bool) for key in found):
            raise Malformed("a key is no text")
        return Address(owner, name, tuple(found))

    def place_write(self, where: Any, made: Any, exists: Any) -> PlaceWrite:
        """Return the PlaceWrite of a row; its container has to exist."""
        address = self.address(*where)
        if address.keys:
            container = replace(address, keys=address.keys[:-1]).read(self.leaves)
            if type(container) not in (dict, list):
                raise Malformed(f"{address.name} holds nothing that has items")
        return PlaceWrite(address, self.recipe(*made), bool(exists))

    def place_read(self, where: Any, kind: Any) -> tuple[Address, Any]:
        """Return (address, current value) of a row, checked to be of the type in the entry."""
        address = self.address(*where)
        now = address.read(self.leaves)
        if (now is None) != (kind is None) or (now is not None and now.type is not value_of(kind)):
            raise Malformed("an attribute holds something else")
        return address, now

    def recipe(self, structure: Any, leaves: Any) -> TreeRecipe:
        """Return the TreeRecipe of a row, with as many leaves as the structure has places."""
        found = tuple([self.leaf(*leaf) for leaf in leaves])
        tree = self.structure(structure)
        if _count(tree) != len(found):
            raise Malformed("a structure has other leaves")
        return TreeRecipe(tree, found)

    def structure(self, row: Any) -> Structure:
        """Return the tree structure of a row."""
        if row is None or row == LEAF:
            return row
        kind, items = row
        if kind == "dict":
            return dict, tuple([(value_of(key), self.structure(item)) for key, item in items])
        return _TREES[kind], tuple([self.structure(item) for item in items])

    def leaf(self, kind: str, what: Any) -> tuple[str, Any]:
        """Return (kind, what) of a row, for a leaf of a TreeRecipe."""
        if kind in ("output", "number"):
            return kind, self.index(what, self.outputs)
        if kind == "argument":
            return kind, self.argument(what)
        if kind == "source":
            return kind, what
        if kind == "tensor":
            return "constant", self.tensor(what)
        if kind == "constant":
            return kind, value_of(what)
        if kind == "object":
            return "constant", at(self.found.objects, what)
        raise Malformed(f"a leaf is a {kind}")

    def recorded(self, row: dict[str, Any], graph: Graph) -> frozenset[Value]:
        """Return the values of ``graph`` that are no constants to the gradient of a row."""
        values: list[Value] = list(values_in(graph))
        return frozenset([at(values, i) for i in row["recorded"]])

    def gradient(self, row: dict[str, Any], sources: Sequence[Source]) -> Gradient:
        """Return the Gradient of a row."""
        outputs = tuple(self.results(row["outputs"]))
        inputs = tuple([self.index(i, sources) for i in row["inputs"]])
        graph = self.graphs.graph(row["graph"])
        residuals = []
        for kind, index in row["residuals"]:
            held = {"source": sources, "output": self.outputs}[kind]
            residuals.append((kind, self.index(index, held)))
        reached = tuple([self.index(i, inputs) for i in row["reached"]])
        flags = tuple([i if i == -1 else self.index(i, graph.results) for i in row["flags"]])
        if len(flags) != len(reached) or len(row["uses"]) != len(inputs):
            raise Malformed("the way back has other inputs")
        same = []
        for output, of, index, flag in row["same"]:
            others = {"source": sources, "output": outputs}[of]
            flag = self.flag(flag)
            same.append(
                HistoryAlias(self.index(output, outputs), of, self.index(index, others), flag)
            )
        there = tuple([self.flag(flag) for flag in row["there"]])
        if len(there) != len(outputs):
            raise Malformed("the outputs of the way back are others")
        return Gradient(
            outputs=outputs,
            inputs=inputs,
            uses=tuple([int(uses) for uses in row["uses"]]),
            backward=Backward(graph, tuple(residuals), reached, flags),
            history_aliases=tuple(same),
            presence_flags=there,
            refused=bool(row["refused"]),
            severed=bool(row["severed"]),
        )


def _like(dtype: Any) -> Tensor:
    return as_tensor(0, dtype)


def _types(graph: Graph) -> tuple[Types, Types]:
    return tuple([v.type for v in graph.params]), tuple([v.type for v in graph.results])


def _count(structure: Structure) -> int:
    """Return the number of leaves in ``structure``."""
    if structure is None:
        return 0
    if structure == LEAF:
        return 1
    kind, items = structure
    return sum(_count(item[1] if kind is dict else item) for item in items)
