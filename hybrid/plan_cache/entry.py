"""Entry: a capture as plain values, such as JSON holds, and back.

Objects of the program stand there by their numbers in its fingerprint: in a later process those
lead to the objects that are in the same places there.  Reading trusts nothing: a capture is made
only of what fits the program, the call and its own graph; all else is Malformed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from hybrid.ir import Graph, Value
from hybrid.ir.rows import RowReader, RowWriter, Unwritable, at, plain, value_of, values_in
from hybrid.passes import Ahead
from hybrid.plan_cache.fingerprint import Fingerprint
from hybrid.plan_cache.writing import Unkeepable
from hybrid.random import default_generator
from hybrid.record import Leaf
from hybrid.tensor import Tensor
from hybrid.trace.address import Address, LeafOf
from hybrid.trace.captured import Backward, Capture, Gradient, Made, Same, SlotWrite, Source
from hybrid.trace.guards import Guards, is_plain
from hybrid.tree import LEAF, Structure

Parts = tuple[Graph, Ahead | None]  # as ``run_parts`` gives them

_TREES = {kind.__name__: kind for kind in (list, tuple, dict)}
_INDICES = ("output", "number", "argument", "source")  # kinds of leaves that are one number


class Malformed(Exception):
    """Why an entry is none."""


# Writing ------------------------------------------------------------------------------------------


def written(
    capture: Capture, optimized: Graph, ahead: Ahead | None, found: Fingerprint
) -> dict[str, Any]:
    """``capture`` and its graph after all passes, as ``run_parts`` gives it; raises Unkeepable."""
    try:
        return _Writer(capture, found).entry(optimized, ahead)
    except Unwritable as error:
        raise Unkeepable(f"what it has become is {error}, which only this process has") from None


class _Writer:
    def __init__(self, capture: Capture, found: Fingerprint) -> None:
        self.capture, self.found = capture, found
        self.rows = RowWriter()

    def entry(self, optimized: Graph, ahead: Ahead | None) -> dict[str, Any]:
        capture = self.capture
        written = capture.guards.written
        if written.containers or written.places or written.numbers or written.constants:
            raise Unkeepable("it writes to lists, dicts, or plain variables")
        if written.claimed or written.owners:
            raise Unkeepable("it sets attributes that no code has led to")
        if capture.given or capture.objects or capture.outside is not None:
            raise Unkeepable("it changes lists or dicts, or makes objects")
        if capture.guards.once:
            raise Unkeepable("an iterator is among its arguments")
        graph = self.rows.graph(capture.graph)
        return {
            "graph": graph,
            "optimized": self.rows.graph(optimized),
            "ahead": None if ahead is None else [self.rows.graph(ahead.graph), list(ahead.params)],
            "sources": [self.source(s) for s in capture.sources],
            "requires": capture.requires,
            "result": self.made(capture.result),
            "consumed": sorted(capture.consumed),
            "lasting": sorted(capture.lasting),
            "writes": capture.writes,
            "slot_writes": [self.slot_write(write) for write in capture.slot_writes],
            "slot_reads": [self.slot_read(*read) for read in capture.slot_reads],
            "same": [[i, self.place(place)] for i, place in capture.same],
            "gradient": None if capture.gradient is None else self.gradient(capture.gradient),
            "rows": self.rows.rows,
        }

    def object(self, value: Any) -> int:
        number = self.found.numbers.get(id(value))
        if number is None:
            raise Unkeepable(f"a {type(value).__name__} that it uses has no name")
        return number

    def tensor(self, tensor: Tensor) -> Any:
        """The tensor's number or, of one that this package holds, where it is."""
        if id(tensor) in self.found.numbers:
            return self.object(tensor)
        if tensor is default_generator().state:
            return ["random"]
        for name, module in list(sys.modules.items()):
            if name.startswith("hybrid."):
                for attribute, value in vars(module).items():
                    if value is tensor:
                        return ["module", name, attribute]
        return self.object(tensor)

    def source(self, source: Source) -> list[Any]:
        if source.kind == "argument":
            return ["argument", source.index]
        if source.kind == "number" and source.address is None:
            assert source.tensor is not None
            return ["number", source.index, plain(source.tensor.type)]
        if source.kind == "cell":
            assert source.tensor is not None
            return ["cell", self.tensor(source.tensor)]
        if source.kind == "slot":
            assert source.address is not None
            return ["slot", self.address(source.address)]
        raise Unkeepable("numbers outside its arguments are inputs of it")

    def place(self, place: Any) -> list[Any]:
        if isinstance(place, Address):
            return ["address", self.address(place)]
        return ["cell", self.tensor(place)]

    def address(self, address: Address) -> list[Any]:
        owner = address.owner
        if isinstance(owner, LeafOf):
            where: list[Any] = ["argument", owner.index]
        elif type(owner) is dict:
            raise Unkeepable("it writes to globals")
        else:
            where = ["object", self.object(owner)]
        return [where, address.name, [plain(key) for key in address.keys]]

    def slot_write(self, write: SlotWrite) -> list[Any]:
        if write.key:
            raise Unkeepable("it writes to items of lists or dicts")
        return [self.address(write.address), self.made(write.made), write.exists]

    def slot_read(self, address: Address, original: Any) -> list[Any]:
        if original is not None and not isinstance(original, Tensor):
            raise Unkeepable("it reads an attribute that holds no tensor")
        kind = None if original is None else plain(original.type)
        return [self.address(address), kind]

    def made(self, made: Made) -> list[Any]:
        return [self.structure(made.structure), [self.leaf(*leaf) for leaf in made.leaves]]

    def structure(self, structure: Structure) -> Any:
        if structure is None or structure == LEAF:
            return structure
        kind, items = structure
        if kind is dict:
            return [kind.__name__, [[plain(key), self.structure(item)] for key, item in items]]
        if kind not in (list, tuple):
            raise Unkeepable(f"it gives a {kind.__name__}")
        return [kind.__name__, [self.structure(item) for item in items]]

    def leaf(self, kind: str, what: Any) -> list[Any]:
        if kind in _INDICES:
            return [kind, what]
        if kind != "constant":
            raise Unkeepable(f"what it gives holds {kind}")
        if isinstance(what, Tensor):
            return ["tensor", self.tensor(what)]
        if is_plain(what):
            return ["constant", plain(what)]
        return ["object", self.object(what)]

    def gradient(self, gradient: Gradient) -> dict[str, Any]:
        backward = gradient.backward
        values = values_in(self.capture.graph)
        return {
            "outputs": gradient.outputs,
            "inputs": gradient.inputs,
            "uses": gradient.uses,
            "graph": self.rows.graph(backward.graph),
            "residuals": backward.residuals,
            "reached": backward.reached,
            "flags": backward.flags,
            "recorded": [i for i, value in enumerate(values) if value in gradient.recorded],
            "same": [[s.output, s.of, s.index, s.flag] for s in gradient.same],
        }


# Reading ------------------------------------------------------------------------------------------


def read(
    entry: Any, found: Fingerprint, leaves: Sequence[Any], guards: Guards
) -> tuple[Capture, Parts]:
    """The capture and its graph after all passes, for a call of these ``leaves``; or Malformed.

    The ``guards`` are of the program as it is.
    """
    try:
        return _Reader(entry, found, leaves).capture(guards)
    except Exception as error:  # of whatever kind: nothing is known of what the entry holds
        raise Malformed(f"{type(error).__name__}: {error}") from error


class _Reader:
    def __init__(self, entry: Any, found: Fingerprint, leaves: Sequence[Any]) -> None:
        self.entry, self.found, self.leaves = entry, found, leaves
        self.rows = RowReader(entry["rows"])
        self.graph = self.rows.graph(entry["graph"])
        self.count = len(self.graph.results)

    def parts(self) -> Parts:
        """What ``run_parts`` has given of the graph."""
        graph, optimized = self.graph, self.rows.graph(self.entry["optimized"])
        given, results = _types(graph)
        ahead = None
        if self.entry["ahead"] is not None:
            early, params = self.entry["ahead"]
            ahead = Ahead(
                self.rows.graph(early), tuple([self.index(i, given) for i in params]), optimized
            )
            taken, kept = _types(ahead.graph)
            if taken != [given[i] for i in ahead.params]:
                raise Malformed("the two parts are of different types")
            given = given + kept
        if _types(optimized) != (given, results):
            raise Malformed("the two graphs are of different types")
        return optimized, ahead

    def capture(self, guards: Guards) -> tuple[Capture, Parts]:
        entry, graph, parts = self.entry, self.graph, self.parts()
        sources = [self.source(*row) for row in entry["sources"]]
        requires = [bool(needs) for needs in entry["requires"]]
        for source, param, needs in zip(sources, graph.params, requires, strict=True):
            tensor = source.fetch(self.leaves)
            if not isinstance(tensor, Tensor) or tensor.type is not param.type:
                raise Malformed("an input is of another type")
            if (tensor.record is not None) != needs and source.kind != "number":
                raise Malformed("gradients flow to other inputs")
        result = self.made(*entry["result"])
        capture = Capture(
            graph,
            sources,
            result,
            frozenset(self.outputs(entry["consumed"])),
            [(self.index(s, sources), self.index(o, graph.results)) for s, o in entry["writes"]],
            [self.slot_write(*row) for row in entry["slot_writes"]],
            guards,
            requires,
            None if entry["gradient"] is None else self.gradient(entry["gradient"], sources),
            frozenset([self.index(i, sources) for i in entry["lasting"]]),
            [self.slot_read(*row) for row in entry["slot_reads"]],
            [(self.argument(i), self.place(*place)) for i, place in entry["same"]],
        )
        for source, output in capture.writes:
            if graph.params[source].type is not graph.results[output].type:
                raise Malformed("a tensor would be written that is of another type")
        for made in (result, *[write.made for write in capture.slot_writes]):
            for kind, what in made.leaves:
                if kind == "source":
                    self.index(what, sources)
        return capture, parts

    def index(self, number: Any, items: Sequence[Any]) -> int:
        at(items, number)
        return number

    def outputs(self, numbers: Any) -> list[int]:
        return [self.index(i, self.graph.results) for i in numbers]

    def argument(self, number: Any) -> int:
        if not isinstance(at(self.leaves, number), Tensor):
            raise Malformed("an argument is no tensor")
        return number

    def tensor(self, where: Any) -> Tensor:
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
        if kind == "slot":
            return Source(kind, address=self.address(*where))
        raise Malformed(f"a source is a {kind}")

    def place(self, kind: str, where: Any) -> Any:
        return self.address(*where) if kind == "address" else self.tensor(where)

    def address(self, where: Any, name: str, keys: Any) -> Address:
        """A place that code of the program may write to: nothing else gets there."""
        kind, number = where
        owner = LeafOf(self.argument(number)) if kind == "argument" else None
        if owner is None:
            owner = at(self.found.objects, number)
        reads = self.found.reads
        if isinstance(owner, (Leaf, LeafOf)):
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

    def slot_write(self, where: Any, made: Any, exists: Any) -> SlotWrite:
        return SlotWrite(self.address(*where), self.made(*made), bool(exists))

    def slot_read(self, where: Any, kind: Any) -> tuple[Address, Any]:
        address = self.address(*where)
        now = address.read(self.leaves)
        if (now is None) != (kind is None) or (now is not None and now.type is not value_of(kind)):
            raise Malformed("an attribute holds something else")
        return address, now

    def made(self, structure: Any, leaves: Any) -> Made:
        found = tuple([self.leaf(*leaf) for leaf in leaves])
        tree = self.structure(structure)
        if _count(tree) != len(found):
            raise Malformed("a structure has other leaves")
        return Made(tree, found)

    def structure(self, row: Any) -> Structure:
        if row is None or row == LEAF:
            return row
        kind, items = row
        if kind == "dict":
            return dict, tuple([(value_of(key), self.structure(item)) for key, item in items])
        return _TREES[kind], tuple([self.structure(item) for item in items])

    def leaf(self, kind: str, what: Any) -> tuple[str, Any]:
        if kind in ("output", "number"):
            return kind, self.index(what, self.graph.results)
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

    def gradient(self, row: dict[str, Any], sources: Sequence[Source]) -> Gradient:
        values: list[Value] = list(values_in(self.graph))
        outputs = tuple(self.outputs(row["outputs"]))
        inputs = tuple([self.index(i, sources) for i in row["inputs"]])
        graph = self.rows.graph(row["graph"])
        residuals = []
        for kind, index in row["residuals"]:
            held = {"source": sources, "output": self.graph.results}[kind]
            residuals.append((kind, self.index(index, held)))
        reached = tuple([self.index(i, inputs) for i in row["reached"]])
        flags = tuple([i if i == -1 else self.index(i, graph.results) for i in row["flags"]])
        if len(flags) != len(reached) or len(row["uses"]) != len(inputs):
            raise Malformed("the way back has other inputs")
        same = []
        for output, of, index, flag in row["same"]:
            others = {"source": sources, "output": outputs}[of]
            flag = flag if flag == -1 else self.index(flag, self.graph.results)
            same.append(Same(self.index(output, outputs), of, self.index(index, others), flag))
        return Gradient(
            outputs,
            inputs,
            tuple([int(uses) for uses in row["uses"]]),
            Backward(graph, tuple(residuals), reached, flags),
            frozenset([at(values, i) for i in row["recorded"]]),
            tuple(same),
        )


def _like(dtype: Any) -> Tensor:
    from hybrid.eager import as_tensor

    return as_tensor(0, dtype)


def _types(graph: Graph) -> Any:
    return [v.type for v in graph.params], [v.type for v in graph.results]


def _count(structure: Structure) -> int:
    """How many leaves it has."""
    if structure is None:
        return 0
    if structure == LEAF:
        return 1
    kind, items = structure
    return sum(_count(item[1] if kind is dict else item) for item in items)
