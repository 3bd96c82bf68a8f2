"""One capture of a function on its way into a program: what is bound to what, and its plans."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hybrid.calls.families import NumberInputs
from hybrid.calls.hybridized import Hybridized
from hybrid.calls.open_plans import Bucket, OpenPlans
from hybrid.core.dataclass import replace
from hybrid.core.tree import LEAF, Structure, flatten
from hybrid.core.types import bool_, float64, int64
from hybrid.eager.fused_calls import optimized_parts
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, ProgramError
from hybrid.explain.argument_names import authors_function
from hybrid.explain.inputs import paths_of, slot_name
from hybrid.ir import Builder, Node, get_op
from hybrid.passes.scalar.dce import dce
from hybrid.plan import Plan
from hybrid.plan.formulas import FormulaWriter, Unknown
from hybrid.programs.plan_records import fixed_plan, open_plan
from hybrid.programs.program_cells import ProgramCells
from hybrid.programs.python_calls import without_calls
from hybrid.programs.records import (
    AheadRecord,
    Bound,
    CaseRecord,
    External,
    FileType,
    Origin,
    PlanRecord,
    ProgramOutput,
)
from hybrid.programs.served_sizes import TOP
from hybrid.trace.capture.captured_graph import KINDS_IN_WORDS, Source, TreeRecipe, without_tuples
from hybrid.trace.guards.reads import Reads

_DTYPES = {bool: bool_, int: int64, float: float64}  # of tensors that are numbers to Python
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}


class CaptureExport:
    """A capture of a function at ``sizes`` of its symbols, some of which it keeps open."""

    def __init__(
        self,
        name: str,
        hybridized: Hybridized,
        args: Sequence[Any],
        cells: ProgramCells,
        sizes: Mapping[str, int],
        numbers: Collection[int] = (),
    ) -> None:
        """``numbers`` are leaves of ``args`` that are inputs, as tensors are."""
        self.name, self.function, self.cells = name, hybridized.function, cells
        self.fast = hybridized.options["optimize"] == "fast"
        self.notes: list[tuple[str, str]] = []
        inputs = NumberInputs(frozenset(numbers))
        self.call, self.capture = hybridized.captured(tuple(args), {}, inputs, exports=True)
        self.result = self.capture.result
        self.names = self.call.names()
        self.paths = paths_of(self.capture, self.function, self.call.leaves, self.names)
        axes = self.capture.open_axes
        self.open = [] if axes is None else [symbol.name for symbol in axes.sizes.symbols]
        self.closed = {name: size for name, size in sizes.items() if name not in self.open}
        self._names = list(sizes)
        self._plans: OpenPlans | None = None
        self.cases: list[CaseRecord] = []
        self.asked = [] if axes is None else [axes.sizes]  # whose conditions tell sizes apart

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether this capture is one for ``sizes``."""
        if any(sizes[name] != size for name, size in self.closed.items()):
            return False
        axes = self.capture.open_axes
        return axes is None or axes.sizes.holds(self._own(sizes))

    def _own(self, sizes: Mapping[str, int]) -> list[int]:
        return [sizes[name] for name in self.open]

    def look(self) -> None:
        """Let the cells know names of what the function reads."""
        reads = Reads(self.function, self.call.leaves)
        self.cells.look(reads, [self.function, *self.call.args])

    def bind(self, inputs: Mapping[int, FileType]) -> None:
        """Find what the inputs of the graph are; raises ProgramError.

        ``inputs`` are the leaves of the arguments that are inputs, with their types.
        """
        self._refuse_kinds()
        self.types = list(inputs.values())
        self.number_of = {leaf: at for at, leaf in enumerate(inputs)}
        self.sources = [self._source(source) for source in self.capture.sources]

    def frozen(self) -> list[str]:
        """The numbers for which alone it is made, with their lines."""
        found = [
            f"{self.names[i]} = {leaf!r}{_line(self.function, self.names[i])}"
            for i, leaf in enumerate(self.call.leaves)
            if type(leaf) in (int, float) and i not in self.number_of
        ]
        for place, was in self.capture.guards.numbers:
            word = str(place.keys[0] if place.keys else place.name)
            found.append(f"{slot_name(place, self.paths)} = {was!r}{_line(self.function, word)}")
        return found

    def compute(self, positions: Collection[int]) -> None:
        """Let the numbers at these leaves of the result come from the graph, constants, too."""
        builder, leaves = Builder(), [*self.result.leaves]
        results = [*self.known.results]
        for position in positions:
            kind, number = leaves[position]
            if kind == "constant":
                attrs = {"shape": (), "value": number, "dtype": _DTYPES[type(number)]}
                leaves[position] = "number", len(results)
                results += builder.apply(get_op("full"), (), attrs)
        self.result = replace(self.result, leaves=tuple(leaves))
        nodes = *self.known.nodes, *builder.nodes
        self.known = replace(self.known, nodes=nodes, results=tuple(results))

    def settle(self) -> None:
        """Find what results and writes are; all captures have been bound.  Raises ProgramError."""
        writes = self._writes()
        self.outputs, self.tree = self._outputs(self.result)
        self.given = self._given()
        asked = sorted({o.index for o in self.outputs if o.origin is Origin.EXTERNAL})
        written = dict(reversed(writes))  # the first place of each
        needed = sorted({*written, *asked})
        again = [write for write in writes if written[write[0]] is not write[1]]
        at = {output: e for e, output in enumerate(needed)}
        self.outputs = [
            o._replace(index=at[o.index]) if o.origin is Origin.EXTERNAL else o
            for o in self.outputs
        ]
        results = [*needed, *[output for output, _ in again]]
        known = self.known.results
        self.graph = replace(self.known, results=tuple([known[i] for i in results]))
        self.bound = [*self._bound(needed, written), *[to for _, to in again]]
        cells = {external.index for _, external in writes}
        self.fixed = [
            i
            for i, (kind, index) in enumerate(self.sources)
            if kind is Bound.CELL and index not in cells
        ]

    def serve(self, sizes: Mapping[str, int], scale: int) -> None:
        """Add a case that serves ``sizes``, unless one does; raises ProgramError."""
        axes = self.capture.open_axes
        if axes is None:
            if not self.cases:
                plan, middle, early = optimized_parts(dce(self.graph), self.fixed, fast=self.fast)
                record = self._checked(fixed_plan(plan, self._input_types()))
                self._add(record, middle, early, FormulaWriter(self._names))
            return
        if self._plans is None:
            self._plans = OpenPlans(
                dce(self.graph), axes.sizes, self.fixed, fast=self.fast, scale=scale, top=TOP
            )
        if self._plans.bucket(self._own(sizes)) is None:
            self._add_bucket(self._plans.new_bucket(self._own(sizes)))

    def _add_bucket(self, bucket: Bucket) -> None:
        axes = self.capture.open_axes
        assert axes is not None
        self.asked.append(bucket.sizes)
        conditions = FormulaWriter(self._names)
        try:
            conditions.conditions(axes.sizes)
            conditions.conditions(bucket.sizes)
            plan = self._checked(open_plan(bucket.plan, self._names, self._input_types()))
        except Unknown as error:
            self._refuse(
                f"it depends on {error}",
                why="C computes with sizes what it knows: arithmetic, roots, logarithms.",
                fix="compute with a tensor instead, or do not declare the axis",
            )
        self._add(plan, bucket.cells, bucket.early, conditions)

    def _input_types(self) -> list[FileType]:
        """Of the sources: those of inputs are as they are declared."""
        return [
            self.types[index] if kind is Bound.INPUT else FileType.of(value.type)
            for (kind, index), value in zip(self.sources, self.graph.params, strict=True)
        ]

    def _add(
        self,
        plan: PlanRecord,
        middle: Sequence[int],
        early: Plan | None,
        conditions: FormulaWriter,
    ) -> None:
        """One more case."""
        for name, size in self.closed.items():
            conditions.compare(conditions.symbol(name), "==", size)
        for to, type_ in zip(self.bound, plan.outputs, strict=True):
            cell = self.cells.records[to.index] if to.kind is Bound.WRITE else None
            if cell is not None and type_ != cell.type:
                self._refuse(
                    f"what it writes to {cell.name} is of another type, or of an open one",
                    why="A cell of a program has one type for good.",
                    fix="return the value",
                )
        ahead = None
        kept = 0 if early is None else len(early.output_types)
        if early is not None:
            bindings = *[External(Bound.SCRATCH)] * kept, *[self.sources[i] for i in middle]
            ahead = AheadRecord(self._checked(fixed_plan(early)), bindings)
        types = {
            Origin.EXTERNAL: plan.outputs,
            Origin.INPUT: self.types,
            Origin.CELL: [cell.type for cell in self.cells.records],
        }
        outputs = [o._replace(type=types[o.origin][o.index]) for o in self.outputs]
        self.cases.append(
            CaseRecord(
                graph=str(self.graph),
                outputs=tuple(outputs),
                plan=plan,
                bindings=(
                    *self.bound, *self.sources, *[External(Bound.KEPT, i) for i in range(kept)],
                ),
                ahead=ahead,
                conditions=tuple(conditions.rows),
            )
        )  # fmt: skip

    def _checked(self, plan: PlanRecord | None) -> PlanRecord:
        if plan is None:
            self._refuse("its plan calls Python")
        assert plan is not None
        return plan

    def _refuse(
        self, what: str, *, at: Location | None = None, why: str = "", fix: str = ""
    ) -> None:
        raise ProgramError(f"{self.name} cannot be exported: {what}", at=at, why=why, fix=fix)

    def _refuse_kinds(self) -> None:
        capture = self.capture
        asking = next(filter(_asks_queue, capture.graph.walk()), None)
        if asking is not None:
            self._refuse(
                "it goes over a loader",
                at=asking.location,
                why="What makes the batches is not in a program.",
                fix="export a function of one batch, and go over them outside",
            )
        self.known = without_calls(capture.graph, self._refuse)
        for error in capture.path_errors:
            self._refuse(error.what, at=error.at, why=error.why, fix=error.fix)
        sized = [node.location for node in self.known.walk() if node.op.hosted]
        if sized or capture.value_sizes is not None:
            self._refuse(
                "the size of a tensor depends on values",
                at=sized[0] if sized else None,
                why="A program knows all sizes from those of its inputs.",
                fix="keep the size, and compute with where(mask, x, 0) or the like",
            )
        if capture.facts:
            self._refuse(f"it counts on {capture.facts[0].what}")

    def _source(self, source: Source) -> External:
        """What an input of the graph is."""
        if source.kind == "argument" or (source.kind == "number" and source.address is None):
            return External(Bound.INPUT, self.number_of[source.index])
        if source.kind == "cell":
            assert source.tensor is not None
            return External(Bound.CELL, self.cells.of(source.tensor, self._path(source)))
        if source.kind == "attribute":
            assert source.address is not None
            tensor = source.address.read(self.call.leaves)
            return External(Bound.CELL, self.cells.at(source.address, tensor, self._path(source)))
        raise AssertionError(source.kind)

    def _path(self, source: Source) -> str:
        if source.tensor is not None:
            return self.paths.get(id(source.tensor), "state")
        assert source.address is not None
        return slot_name(source.address, self.paths)

    def _writes(self) -> list[tuple[int, External]]:
        """The results of the graph that are written, and to which cells."""
        found: list[tuple[int, External]] = []
        for source, output in self.capture.writes:
            kind, index = self.sources[source]
            if kind is not Bound.CELL:
                self._refuse(
                    f"it writes to its argument {self.names[self.capture.sources[source].index]}",
                    fix="return the new value",
                )
            found.append((output, External(Bound.WRITE, index)))
        for write in self.capture.place_writes:
            number = self.cells.known_at(write.address)
            text = slot_name(write.address, self.paths, write.key)
            leaves = write.recipe.leaves
            if number is None:
                self.notes.append((f"{self.name} does not keep", text))
            elif len(leaves) != 1 or leaves[0][0] != "output" or write.recipe.structure != LEAF:
                self._refuse(f"what it writes to {text} is no tensor that a run computes")
            else:
                found.append((leaves[0][1], External(Bound.WRITE, number)))
        return found

    def _bound(self, needed: Sequence[int], writes: Mapping[int, External]) -> list[External]:
        """What the outputs of the plan are."""
        first: dict[int, int] = {}
        for i, output in enumerate(self.outputs):
            if output.origin is Origin.EXTERNAL:
                first.setdefault(output.index, i)
        return [
            writes[output] if output in writes else External(Bound.RESULT, first[e])
            for e, output in enumerate(needed)
        ]

    # Trees ------------------------------------------------------------------------------------

    def _given(self) -> Any:
        """The tree of the arguments; what is no tensor stands there as it is."""
        leaves, structure = flatten(tuple(self.call.args))
        values = [
            {"input": self.number_of[i]}
            if i in self.number_of
            else {"constant": self._plain(leaf, "an argument")}
            for i, leaf in enumerate(leaves)
        ]
        return self._tree(structure, iter(values))

    def _outputs(self, recipe: TreeRecipe) -> tuple[list[ProgramOutput], Any]:
        """The outputs, and the tree of the results."""
        outputs: list[ProgramOutput] = []
        values: list[Any] = []
        recipe = without_tuples(recipe, self.capture.objects)
        for kind, what in recipe.leaves:
            if kind in ("output", "number"):
                type_ = self.known.results[what].type
                number = _NUMBERS[type_.dtype] if kind == "number" else None
                outputs.append(
                    ProgramOutput(f"result{len(outputs)}", type_, number, Origin.EXTERNAL, what)
                )
            elif kind == "argument" and what in self.number_of:
                at, leaf = self.number_of[what], self.call.leaves[what]
                number = None if isinstance(leaf, Tensor) else type(leaf)
                outputs.append(
                    ProgramOutput(self.names[what], self.types[at], number, Origin.INPUT, at)
                )
            elif kind == "source" or (kind == "constant" and isinstance(what, Tensor)):
                outputs.append(self._state(kind, what, len(outputs)))
            elif kind in ("constant", "argument"):
                value = self.call.leaves[what] if kind == "argument" else what
                values.append({"constant": self._plain(value, "a result")})
                continue
            else:
                self._refuse(f"it returns {KINDS_IN_WORDS[kind]}", fix="return tensors and numbers")
            values.append({"output": len(outputs) - 1})
        return outputs, self._tree(recipe.structure, iter(values))

    def _state(self, kind: str, what: Any, number: int) -> ProgramOutput:
        """A tensor from outside that is returned as it is."""
        if kind == "source":
            bound, index = self.sources[what]
            type_ = self.capture.graph.params[what].type
            origin = Origin.INPUT if bound is Bound.INPUT else Origin.CELL
            return ProgramOutput(f"result{number}", type_, None, origin, index)
        return ProgramOutput(
            f"result{number}", what.type, None, Origin.CELL, self.cells.of(what, "state")
        )

    def _plain(self, value: Any, what: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return {"float": value.hex()}
        self._refuse(
            f"{what} of it is a {type(value).__name__}", fix="give tensors, numbers and texts"
        )

    def _tree(self, structure: Structure, values: Any) -> Any:
        if structure is None:
            return {"constant": None}
        if structure == LEAF:
            return next(values)
        kind, items = structure
        if kind is dict:
            keys = [self._plain(key, "a key") for key, _ in items]
            return {
                "dict": [
                    [key, self._tree(item, values)]
                    for key, (_, item) in zip(keys, items, strict=True)
                ]
            }
        if kind not in (list, tuple):
            self._refuse(
                f"{kind.__name__} is among its arguments or results",
                fix="give a list, tuple or dict",
            )
        return {kind.__name__: [self._tree(item, values) for item in items]}


def _asks_queue(node: Node) -> bool:
    """Whether a call of Python asks a queue for a batch."""
    return any(getattr(value, "asks_queue", None) is not None for _, value in node.attrs)


def _line(function: Any, word: str) -> str:
    """Where the author first writes ``word`` in ``function``; empty if it is not there."""
    own = authors_function(function)
    try:
        lines, first = inspect.getsourcelines(own)
        path = os.path.basename(inspect.getsourcefile(own) or "")
    except (OSError, TypeError):
        return ""
    found = [i for i, line in enumerate(lines) if re.search(rf"\b{re.escape(word)}\b", line)]
    return f" ({path}:{first + found[0]})" if found else ""
