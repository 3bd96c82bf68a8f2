"""Export: from captured functions to the records of a program."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from hybrid.calls.hybridized import Hybridized
from hybrid.core.dataclass import replace
from hybrid.core.tree import LEAF, Structure, flatten
from hybrid.eager.fused_calls import optimized_parts
from hybrid.eager.tensor import Tensor
from hybrid.errors import Location, ProgramError
from hybrid.explain.argument_names import leaf_names
from hybrid.explain.inputs import paths_of, slot_name
from hybrid.nn.modules.module import Mode, Module
from hybrid.passes.scalar.dce import dce
from hybrid.plan import Plan
from hybrid.programs.file_writer import save
from hybrid.programs.program_cells import ProgramCells
from hybrid.programs.python_calls import without_calls
from hybrid.programs.records import (
    Bound,
    External,
    FunctionRecord,
    Origin,
    PlanRecord,
    ProgramInput,
    ProgramOutput,
    ProgramRecord,
)
from hybrid.trace.capture.captured_graph import Source, TreeRecipe
from hybrid.trace.guards.reads import Reads

_KINDS = {"text": "a text that a run makes", "items": "a list whose length a run decides",
          "either": "a result that is not always there", "object": "an object that a run makes",
          "given": "a container that it was given", "tree": "what a run puts together"}  # fmt: skip


def export(
    functions: Any,
    path: str | os.PathLike[str],
    *args: Any,
    mode: str = "auto",
    optimize: str = "exact",
) -> None:
    """Write ``functions`` to the file ``path``, for ``hybrid-run``, C and ``load_exported``.

    ``functions`` is one function or Module, called with ``args``, or a dict of names and tuples of
    a function and its arguments: functions that read and write the same tensors share them.
    Nothing runs, and nothing changes; a Module is exported as it evaluates, and is called
    "predict".  The file appears whole, or not at all; the same program gives the same bytes.
    ``mode`` and ``optimize`` are as in ``hybridize``.  What is printed and raised is in the file,
    too: texts with numbers by any of Python's formats, and with tensors.

    Raises ProgramError for what a file cannot hold, with the author's line; CaptureError for what
    cannot be captured.
    """
    save(program_of(functions, *args, mode=mode, optimize=optimize), path)


def program_of(
    functions: Any, *args: Any, mode: str = "auto", optimize: str = "exact"
) -> ProgramRecord:
    """The records of ``functions``, as ``export`` writes them."""
    wanted = (
        functions if isinstance(functions, Mapping) else {_name_of(functions): (functions, *args)}
    )
    if not wanted:
        raise ProgramError("there is no function to export", fix="give one, or a dict of some")
    cells = ProgramCells()
    found = []
    with ExitStack() as stack:
        for name, entry in wanted.items():
            function, *given = entry if isinstance(entry, tuple) else (entry,)
            if not isinstance(name, str) or not name.isprintable() or not name:
                raise ProgramError(f"{name!r} is no name of a function", fix="give a text")
            if isinstance(function, Module):
                stack.enter_context(Mode(function, False))
            options = {"mode": mode, "optimize": optimize, "dynamic": False}
            found.append(Exported(name, function, given, cells, options))
        for one in found:
            one.look()
        for one in found:  # all read, before it is asked who writes what others read
            one.bind()
        records = [one.record() for one in found]
    return ProgramRecord(records, cells.records, [note for one in found for note in one.notes])


def _name_of(function: Any) -> str:
    if isinstance(function, Module):
        return "predict"
    return getattr(function, "__name__", type(function).__name__)


class Exported:
    """One function on its way into a program."""

    def __init__(
        self,
        name: str,
        function: Any,
        args: Sequence[Any],
        cells: ProgramCells,
        options: dict[str, Any],
    ) -> None:
        self.name, self.function, self.cells = name, function, cells
        self.fast = options["optimize"] == "fast"
        self.notes: list[tuple[str, str]] = []
        hybridized = (
            function if isinstance(function, Hybridized) else Hybridized(function, **options)
        )
        self.call, self.capture = hybridized.captured(tuple(args), {})
        named = function.forward if isinstance(function, Module) else self.call.function
        self.names = leaf_names(named, args, {})
        self.paths = paths_of(self.capture, function, self.call.leaves, self.names)

    def look(self) -> None:
        """Let the cells know names of what the function reads."""
        function = self.function
        reads = Reads(getattr(function, "function", function), self.call.leaves)
        self.cells.look(reads, [function, *self.call.args])

    def bind(self) -> None:
        """Find what the inputs of the graph are; raises ProgramError."""
        self._refuse_kinds()
        inputs = [i for i, leaf in enumerate(self.call.leaves) if isinstance(leaf, Tensor)]
        self.number_of = {leaf: at for at, leaf in enumerate(inputs)}
        self.sources = [self._source(source, self.number_of) for source in self.capture.sources]

    def record(self) -> FunctionRecord:
        """The record; raises ProgramError."""
        capture, number_of = self.capture, self.number_of
        inputs = list(number_of)
        writes = self._writes()
        outputs, tree = self._outputs(capture.result, number_of)
        needed = sorted({*writes, *[o.index for o in outputs if o.origin is Origin.EXTERNAL]})
        at = {output: e for e, output in enumerate(needed)}
        graph = replace(self.graph, results=tuple([capture.graph.results[i] for i in needed]))
        written = {index for kind, index in writes.values() if kind is Bound.WRITE}
        fixed = [
            i
            for i, (kind, index) in enumerate(self.sources)
            if kind is Bound.CELL and index not in written
        ]
        plan, middle, early = optimized_parts(dce(graph), fixed, fast=self.fast)
        outputs = [
            o._replace(index=at[o.index]) if o.origin is Origin.EXTERNAL else o for o in outputs
        ]
        bound = self._bound(needed, writes, outputs)
        kept = [
            External(Bound.KEPT, i) for i in range(0 if early is None else len(early.output_types))
        ]
        record = FunctionRecord(
            name=self.name,
            inputs=tuple([ProgramInput(self.names[i], self.call.leaves[i].type) for i in inputs]),
            outputs=tuple(outputs),
            given=_json(self._given(number_of)),
            result=_json(tree),
            graph=str(graph),
            plan=self._plan(plan),
            bindings=(*bound, *self.sources, *kept),
        )
        if early is None:
            return record
        ahead = [
            *[External(Bound.SCRATCH)] * len(early.output_types),
            *[self.sources[i] for i in middle],
        ]
        return replace(record, early=self._plan(early), early_bindings=tuple(ahead))

    def _refuse(
        self, what: str, *, at: Location | None = None, why: str = "", fix: str = ""
    ) -> None:
        raise ProgramError(f"{self.name} cannot be exported: {what}", at=at, why=why, fix=fix)

    def _refuse_kinds(self) -> None:
        capture = self.capture
        self.graph = without_calls(capture.graph, self._refuse)
        for node in self.graph.walk():
            if node.op.hosted:
                self._refuse(
                    f"{node.op.name} has no kernel",
                    at=node.location,
                    why="It is computed by NumPy.",
                )
        if capture.value_sizes is not None:
            self._refuse("sizes in it depend on values")
        if capture.facts:
            self._refuse(f"it counts on {capture.facts[0].what}")

    def _source(self, source: Source, number_of: Mapping[int, int]) -> External:
        """What an input of the graph is."""
        if source.kind == "argument":
            return External(Bound.INPUT, number_of[source.index])
        if source.kind == "cell":
            assert source.tensor is not None
            return External(Bound.CELL, self.cells.of(source.tensor, self._path(source)))
        if source.kind == "attribute":
            assert source.address is not None
            tensor = source.address.read(self.call.leaves)
            return External(Bound.CELL, self.cells.at(source.address, tensor, self._path(source)))
        self._refuse("a Python number is an input of it")
        raise AssertionError

    def _path(self, source: Source) -> str:
        if source.tensor is not None:
            return self.paths.get(id(source.tensor), "state")
        assert source.address is not None
        return slot_name(source.address, self.paths)

    def _writes(self) -> dict[int, External]:
        """Of the results of the graph that are written: to which cells."""
        found: dict[int, External] = {}
        for source, output in self.capture.writes:
            kind, index = self.sources[source]
            if kind is not Bound.CELL:
                self._refuse(
                    f"it writes to its argument {self.names[self.capture.sources[source].index]}",
                    fix="return the new value",
                )
            self._write(found, output, index)
        for write in self.capture.place_writes:
            number = self.cells.known_at(write.address)
            text = slot_name(write.address, self.paths, write.key)
            leaves = write.recipe.leaves
            if number is None:
                self.notes.append((f"{self.name} does not keep", text))
            elif len(leaves) != 1 or leaves[0][0] != "output" or write.recipe.structure != LEAF:
                self._refuse(f"what it writes to {text} is no tensor that a run computes")
            else:
                self._write(found, leaves[0][1], number)
        return found

    def _write(self, found: dict[int, External], output: int, cell: int) -> None:
        if output in found:
            self._refuse(
                "it writes one value to two places", fix="write a copy to one of them: x.clone()"
            )
        found[output] = External(Bound.WRITE, cell)

    def _bound(
        self,
        needed: Sequence[int],
        writes: Mapping[int, External],
        outputs: Sequence[ProgramOutput],
    ) -> list[External]:
        """What the outputs of the plan are."""
        first: dict[int, int] = {}
        for i, output in enumerate(outputs):
            if output.origin is Origin.EXTERNAL:
                first.setdefault(output.index, i)
        return [
            writes[output] if output in writes else External(Bound.RESULT, first[e])
            for e, output in enumerate(needed)
        ]

    # Trees ------------------------------------------------------------------------------------

    def _given(self, number_of: Mapping[int, int]) -> Any:
        """The tree of the arguments; what is no tensor stands there as it is."""
        leaves, structure = flatten(tuple(self.call.args))
        values = [
            {"input": number_of[i]}
            if i in number_of
            else {"constant": self._plain(leaf, "an argument")}
            for i, leaf in enumerate(leaves)
        ]
        return self._tree(structure, iter(values))

    def _outputs(
        self, recipe: TreeRecipe, number_of: Mapping[int, int]
    ) -> tuple[list[ProgramOutput], Any]:
        """The outputs, and the tree of the results."""
        outputs: list[ProgramOutput] = []
        values: list[Any] = []
        for kind, what in recipe.leaves:
            if kind in ("output", "number"):
                type_ = self.capture.graph.results[what].type
                number = (
                    {"bool": bool, "int64": int, "float64": float}[type_.dtype.name]
                    if kind == "number"
                    else None
                )
                outputs.append(
                    ProgramOutput(f"result{len(outputs)}", type_, number, Origin.EXTERNAL, what)
                )
            elif kind == "argument" and what in number_of:
                type_ = self.call.leaves[what].type
                outputs.append(
                    ProgramOutput(self.names[what], type_, None, Origin.INPUT, number_of[what])
                )
            elif kind == "source" or (kind == "constant" and isinstance(what, Tensor)):
                outputs.append(self._state(kind, what, len(outputs)))
            elif kind in ("constant", "argument"):
                value = self.call.leaves[what] if kind == "argument" else what
                values.append({"constant": self._plain(value, "a result")})
                continue
            else:
                self._refuse(f"it returns {_KINDS[kind]}", fix="return tensors and numbers")
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

    # Plans ------------------------------------------------------------------------------------

    def _plan(self, plan: Plan) -> PlanRecord:
        arrays = plan.arrays()
        if arrays is None:
            self._refuse("its plan calls Python")
        assert arrays is not None
        return PlanRecord(
            arrays=arrays,
            outputs=plan.output_types,
            inputs=plan.input_types,
            donations=dict(plan.donations),
            exposed=frozenset(plan.exposed),
            places=tuple([step.location for step in plan.steps]),
        )


def _json(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"))
