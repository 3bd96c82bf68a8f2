"""Loaded programs: functions of a file as functions of Python, without the author's code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hybrid.calls.hybridized import Hybridized
from hybrid.eager.interop import asarray
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentTypeError, DTypeError, ProgramError, ShapeError
from hybrid.ir import Graph
from hybrid.ir.parser import parse
from hybrid.memory import native
from hybrid.programs.file_reader import ProgramFile
from hybrid.programs.records import Bound, Origin, ProgramInput
from hybrid.trace.regions.build import replay

_TREES = {"list": list, "tuple": tuple}


def load_exported(path: str | os.PathLike[str], *, whole: bool = False) -> ExportedProgram:
    """The program that ``export`` has written to ``path``.

    Its functions have the bits that they had where it was written, on the same instruction set.
    They are differentiable, and are parts of hybridized functions like any others.  No code of the
    author's is needed, and none is in the file.

    Raises ProgramError if the file is damaged or of another version; damage in the contents of
    cells is looked for where ``whole`` asks for that, for it takes the time to read them all.
    """
    return ExportedProgram(ProgramFile(path, whole=whole))


class ExportedProgram(Mapping[str, "ExportedFunction"]):
    """Functions by name, and the ``state`` that they share."""

    def __init__(self, file: ProgramFile) -> None:
        self._file = file
        self._cells: list[Tensor] = []
        self.state: dict[str, Tensor] = {}
        for name, type_, _, content, aliases in file.cells():
            cell = make_tensor(type_, native.borrow(content))
            self._cells.append(cell)
            self.state.update(dict.fromkeys((name, *aliases), cell))
        self.functions: dict[str, ExportedFunction] = {}
        for row in file.rows["functions"]:
            function = ExportedFunction(file, row, self._cells)
            self.functions[function.name] = function

    def __getitem__(self, name: str) -> ExportedFunction:
        if name not in self.functions:
            known = ", ".join(self.functions)
            raise KeyError(f"{self._file.path} has no function {name!r}: there are {known}")
        return self.functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program with its state as it is now."""
        self._file.save(path, [bytes(native.view(c.content, c.type.nbytes)) for c in self._cells])

    def about(self) -> dict[str, list[dict[str, Any]]]:
        """What the file holds, in tables: their rows by the names of columns."""
        functions = [
            {
                "name": function.name,
                "inputs": ", ".join([f"{v.name}: {v.type}" for v in function.inputs]),
                "outputs": ", ".join([str(v.type) for v in function.outputs]),
            }
            for function in self.functions.values()
        ]
        return {"functions": functions, **self._file.about()}

    def __repr__(self) -> str:
        told = "".join(f"\n  {function!r}" for function in self.functions.values())
        return f"ExportedProgram of {self._file.path}, {len(self._cells)} cells{told}"


class ExportedFunction:
    """One function of a program; call it as the author's."""

    def __init__(self, file: ProgramFile, row: Any, cells: Sequence[Tensor]) -> None:
        self.name = file.text(row["name"])
        self.inputs, self.outputs = file.inputs(row), file.outputs(row)
        self._given, self._result = file.tree(row["given"]), file.tree(row["result"])
        self._results, self._sources = file.externals(row)
        self._cells = cells
        self._path = file.path
        self._graph = self._checked(file.text(row["graph"]))
        self._run = Hybridized(self._replayed, mode="trace", name=self.name, dynamic=False)

    def _checked(self, text: str) -> Graph:
        """The graph, whose types are those of the inputs, cells and outputs."""
        try:
            graph = parse(text)
        except Exception as error:
            raise ProgramError(f"{self._path}: the graph of {self.name}: {error}") from None
        types = [
            self.inputs[i].type if kind is Bound.INPUT else self._cells[i].type
            for kind, i in self._sources
        ]
        if [v.type for v in graph.params] != types or len(graph.results) != len(self._results):
            raise ProgramError(f"{self._path}: the graph of {self.name} is of other values")
        return graph

    @property
    def graph(self) -> str:
        """The text of the graph, before all passes."""
        return str(self._graph)

    def run(self, *inputs: Any) -> tuple[Tensor, ...]:
        """The outputs, one after the other, of the inputs, one after the other."""
        if len(inputs) != len(self.inputs):
            raise ArgumentTypeError(
                f"{self.name} takes {len(self.inputs)} inputs, not {len(inputs)}"
            )
        fitting = [self._fitting(v, x) for v, x in zip(self.inputs, inputs, strict=True)]
        return self._run(*fitting)

    def __call__(self, *args: Any) -> Any:
        inputs: list[Tensor] = []
        if len(args) != len(self._given["tuple"]):
            raise ArgumentTypeError(
                f"{self.name} takes {len(self._given['tuple'])} arguments, not {len(args)}"
            )
        for tree, value in zip(self._given["tuple"], args, strict=True):
            self._take(tree, value, inputs)
        outputs = self._run(*inputs)
        return self._tree(self._result, outputs)

    def _take(self, tree: Any, value: Any, inputs: list[Tensor]) -> None:
        """Add the tensors of an argument to ``inputs``, which stand in its tree in their order."""
        if "input" in tree:
            inputs.append(self._fitting(self.inputs[len(inputs)], value))
            return
        if "constant" in tree:
            wanted = _constant(tree["constant"])
            if type(value) is not type(wanted) or value != wanted:
                raise ArgumentTypeError(
                    f"{self.name} was exported with {wanted!r} for {value!r}",
                    why="What is no tensor is a part of the program.",
                )
            return
        [(kind, items)] = tree.items()
        if kind == "dict":
            known = [_constant(key) for key, _ in items]
            if not isinstance(value, dict) or list(value) != known:
                raise ArgumentTypeError(f"{self.name} takes a dict of {known}")
            items, value = [item for _, item in items], list(value.values())
        elif type(value) is not _TREES[kind] or len(value) != len(items):
            raise ArgumentTypeError(f"{self.name} takes a {kind} of {len(items)}")
        for item, part in zip(items, value, strict=True):
            self._take(item, part, inputs)

    def _fitting(self, wanted: ProgramInput, value: Any) -> Tensor:
        tensor = asarray(value)
        if tensor.type.dtype is not wanted.type.dtype or tensor.type.shape != wanted.type.shape:
            error = ShapeError if tensor.type.dtype is wanted.type.dtype else DTypeError
            text = f"{self.name}: input {wanted.name} is {tensor.type}, not {wanted.type}"
            raise error(text)
        return tensor

    def _replayed(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs; what is written to cells is in force then."""
        values = [inputs[i] if kind is Bound.INPUT else self._cells[i] for kind, i in self._sources]
        results = replay(self._graph, values)
        for (kind, i), result in zip(self._results, results, strict=True):
            if kind is Bound.WRITE:
                self._cells[i].assign(result)
        origins = {Origin.EXTERNAL: results, Origin.INPUT: inputs, Origin.CELL: self._cells}
        return tuple([origins[output.origin][output.index] for output in self.outputs])

    def _tree(self, tree: Any, outputs: Sequence[Tensor]) -> Any:
        if "output" in tree:
            at = tree["output"]
            return outputs[at] if self.outputs[at].number is None else outputs[at].item()
        if "constant" in tree:
            return _constant(tree["constant"])
        [(kind, items)] = tree.items()
        if kind == "dict":
            return {_constant(key): self._tree(item, outputs) for key, item in items}
        return _TREES[kind](self._tree(item, outputs) for item in items)

    def __repr__(self) -> str:
        given = ", ".join(f"{value.name}: {value.type}" for value in self.inputs)
        return f"{self.name}({given}) -> {', '.join(str(value.type) for value in self.outputs)}"


def _constant(value: Any) -> Any:
    return float.fromhex(value["float"]) if isinstance(value, dict) else value
