"""Turn a capture into an entry of a plan file: plain values as in JSON, and parts in bytes.

Objects of the program stand there by their numbers in its digest: in a later process those
lead to the objects that are in the same places there; see ``entry_reader.py``.  Plans are kept as
the arrays that they are.  Graphs stand apart, as text, for most are never asked for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from hybrid.calls.files.digest import ReadsDigest
from hybrid.calls.files.tokens import Unkeepable
from hybrid.core.tree import LEAF, Structure
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.ir.rows import RowWriter, Unwritable, plain, values_in
from hybrid.plan import Plan
from hybrid.plan.arrays import packed, provable
from hybrid.random import default_generator
from hybrid.trace.capture.captured_graph import (
    Capture,
    Gradient,
    PlaceWrite,
    Plans,
    Source,
    TreeRecipe,
)
from hybrid.trace.guards.guard import is_plain
from hybrid.trace.places.address import Address, ArgumentLeaf
from hybrid.trace.regions.requires_grad import FlowFact

_INDICES = ("output", "number", "argument", "source")  # kinds of leaves that are one number


def build_entry(capture: Capture, plans: Plans | None, found: ReadsDigest) -> dict[str, Any]:
    """Return the entry of ``capture`` and its plans; raises Unkeepable.

    An open capture has no plans: each size gets one of its own.
    """
    try:
        return _Writer(capture, found).entry(plans)
    except Unwritable as error:
        raise Unkeepable(f"what it has become is {error}, which only this process has") from None


class _Writer:
    """Collects the types, graphs and parts of an entry while it is built."""

    def __init__(self, capture: Capture, found: ReadsDigest) -> None:
        self.capture, self.found = capture, found
        self.rows = RowWriter()
        self.types: dict[TensorType, int] = {}
        self.parts: list[bytes] = []

    def entry(self, plans: Plans | None) -> dict[str, Any]:
        """Return the entry of the capture, with the plan and what precomputes its cells."""
        capture = self.capture
        writes = capture.guards.written
        if writes.containers or writes.places or writes.numbers or writes.constants:
            raise Unkeepable("it writes to lists, dicts, or plain variables")
        if writes.claimed or writes.owners or writes.names:
            raise Unkeepable("it sets attributes that no code has led to")
        if writes.accesses:
            raise Unkeepable("it reads or sets places by names that its code does not spell")
        if capture.guards.identities:
            raise Unkeepable("it asks which of several equal objects is there")
        if capture.given or capture.objects or capture.outside is not None:
            raise Unkeepable("it changes lists or dicts, or makes objects")
        if capture.variables:
            raise Unkeepable("it makes variables")
        if capture.turned:
            raise Unkeepable("it sets requires_grad of tensors that are there")
        if capture.facts:
            raise Unkeepable(f"it counts on {capture.facts[0].what}")
        if capture.value_sizes is not None:
            raise Unkeepable("sizes in it depend on values")
        if capture.guards.once:
            raise Unkeepable("an iterator is among its arguments")
        graph = capture.graph
        found = {
            "graph": self.rows.graph(graph),
            "inputs": [self.type(v.type) for v in graph.params],
            "outputs": [self.type(v.type) for v in graph.results],
            **(self.open() if plans is None else self.plans(*plans)),
            "sources": [self.source(s) for s in capture.sources],
            "requires": capture.requires,
            "result": self.recipe(capture.result),
            "consumed": sorted(capture.consumed),
            "lasting": sorted(capture.lasting),
            "writes": capture.writes,
            "place_writes": [self.place_write(write) for write in capture.place_writes],
            "place_reads": [self.place_read(*read) for read in capture.place_reads],
            "flow_facts": [[self.tensor(t.tensor), t.needs, t.never] for t in self.flow_facts()],
            "aliases": [[a.output, a.of, a.index, a.flag] for a in capture.aliases],
            "same": [[i, self.place(place)] for i, place in capture.argument_aliases],
            "gradient": None if capture.gradient is None else self.gradient(capture.gradient),
        }
        found["rows"] = self.part(json.dumps(self.rows.rows, separators=(",", ":")).encode())
        return {**found, "types": [plain(kind) for kind in self.types], "parts": self.parts}

    def flow_facts(self) -> tuple[FlowFact, ...]:
        """Return what the code was told of tensors; raises Unkeepable."""
        if any(told.address is not None for told in self.capture.flow_facts):
            raise Unkeepable("it asks for the gradient of an attribute that may be replaced")
        return self.capture.flow_facts

    def plans(self, plan: Plan, cells: Sequence[int], first: Plan | None) -> dict[str, Any]:
        """Return the rows of the plans."""
        return {
            "plan": self.plan(plan, {output: s for s, output in self.capture.writes}),
            "early": None if first is None else self.early(cells, first),
        }

    def open(self) -> dict[str, Any]:
        """Return the row of the axes that are open."""
        axes = self.capture.open_axes
        assert axes is not None
        if axes.outside:
            raise Unkeepable("tensors outside its arguments have open axes")
        if axes.numbers:
            raise Unkeepable("numbers among its arguments are sizes of open axes")
        self.rows.sizes(axes.sizes)
        open_, closed = (
            [[i, self.type(kind)] for i, kind in kinds.items()]
            for kinds in (axes.types, axes.closed)
        )
        return {"open": {"places": axes.places, "types": open_, "closed": closed}}

    def part(self, content: bytes) -> int:
        """Add ``content`` to the parts in bytes, and return its number."""
        self.parts.append(content)
        return len(self.parts) - 1

    def type(self, kind: TensorType) -> int:
        """Return the number of a tensor type, adding it if it is new."""
        return self.types.setdefault(kind, len(self.types))

    def plan(self, plan: Plan, writes: dict[int, int]) -> dict[str, Any]:
        """Return the row of a plan: graph, arrays if it calls no functions, provable donations."""
        found: dict[str, Any] = {"graph": self.rows.graph(plan.graph), "arrays": None}
        arrays, sizes = plan.arrays(), plan.sizes
        if arrays is not None:
            found["arrays"] = [self.part(part) for part in packed(arrays)]
            found["arena"] = arrays.arena_nbytes
            donated = {o: i for o, i in plan.donations.items() if writes.get(o) == i}
            donated = provable(arrays, plan.input_types, plan.output_types, donated)
            found["donations"] = list(donated.items())
            found["exposed"] = sorted(plan.exposed)
            found["sizes"] = [sizes.nodes, sizes.steps, sizes.arena_nbytes, sizes.scratch_nbytes]
        return found

    def early(self, cells: Sequence[int], plan: Plan) -> dict[str, Any]:
        """Return the plan that precomputes results, with the sources it needs."""
        kept = [self.type(kind) for kind in plan.output_types]
        return {"cells": list(cells), "kept": kept, "plan": self.plan(plan, {})}

    def object(self, value: Any) -> int:
        """Return the number that ``value`` has in the digest; raises Unkeepable if it has none."""
        number = self.found.numbers.get(id(value))
        if number is None:
            raise Unkeepable(f"a {type(value).__name__} that it uses has no name")
        return number

    def tensor(self, tensor: Tensor) -> Any:
        """Return the number of a tensor, or where this package holds it."""
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
        """Return the row of a Source."""
        if source.kind == "argument":
            return ["argument", source.index]
        if source.kind == "number" and source.address is None:
            assert source.tensor is not None
            return ["number", source.index, plain(source.tensor.type)]
        if source.kind == "cell":
            assert source.tensor is not None
            return ["cell", self.tensor(source.tensor)]
        if source.kind == "attribute":
            assert source.address is not None
            return ["attribute", self.address(source.address)]
        raise Unkeepable("numbers outside its arguments are inputs of it")

    def place(self, place: Any) -> list[Any]:
        """Return the row of an address or tensor."""
        if isinstance(place, Address):
            return ["address", self.address(place)]
        return ["cell", self.tensor(place)]

    def address(self, address: Address) -> list[Any]:
        """Return the row of an Address."""
        owner = address.owner
        if isinstance(owner, ArgumentLeaf):
            where: list[Any] = ["frozen" if owner.frozen else "argument", owner.index]
        elif type(owner) is dict:
            raise Unkeepable("it writes to globals")
        else:
            where = ["object", self.object(owner)]
        return [where, address.name, [plain(key) for key in address.keys]]

    def place_write(self, write: PlaceWrite) -> list[Any]:
        """Return the row of a PlaceWrite."""
        if write.key:
            raise Unkeepable("it writes to items of lists or dicts")
        return [self.address(write.address), self.recipe(write.recipe), write.exists]

    def place_read(self, address: Address, original: Any) -> list[Any]:
        """Return the row of a place read and the type of the tensor that was there."""
        if original is not None and not isinstance(original, Tensor):
            raise Unkeepable("it reads an attribute that holds no tensor")
        if original is not None and original.type.is_open:
            raise Unkeepable("it adds to the gradient of an argument with open axes")
        kind = None if original is None else plain(original.type)
        return [self.address(address), kind]

    def recipe(self, recipe: TreeRecipe) -> list[Any]:
        """Return the row of a TreeRecipe."""
        return [self.structure(recipe.structure), [self.leaf(*leaf) for leaf in recipe.leaves]]

    def structure(self, structure: Structure) -> Any:
        """Return the row of a tree structure."""
        if structure is None or structure == LEAF:
            return structure
        kind, items = structure
        if kind is dict:
            return [kind.__name__, [[plain(key), self.structure(item)] for key, item in items]]
        if kind not in (list, tuple):
            raise Unkeepable(f"it gives a {kind.__name__}")
        return [kind.__name__, [self.structure(item) for item in items]]

    def leaf(self, kind: str, what: Any) -> list[Any]:
        """Return the row of a leaf of a TreeRecipe."""
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
        """Return the row of a Gradient."""
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
            "recorded": [i for i, value in enumerate(values) if value in self.capture.recorded],
            "same": [[s.output, s.of, s.index, s.flag] for s in gradient.history_aliases],
            "there": list(gradient.presence_flags),
            "refused": gradient.refused,
            "severed": gradient.severed,
        }
