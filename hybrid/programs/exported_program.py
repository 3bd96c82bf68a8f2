"""Loaded programs: functions of a file as functions of Python, without the author's code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hybrid.calls.dynamic_axes import Dim
from hybrid.calls.hybridized import Hybridized
from hybrid.core.open_numbers import sizes_of_ints
from hybrid.core.size_functions import SizeValue
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import TensorType
from hybrid.eager.execution import as_tensor
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import (
    ArgumentTypeError,
    DTypeError,
    HybridError,
    MissingKeyError,
    ProgramError,
    ShapeError,
)
from hybrid.ir import Graph
from hybrid.ir.bound_graphs import SizeBinding
from hybrid.ir.graph import sizes_of
from hybrid.ir.parser import parse
from hybrid.memory import native
from hybrid.ops.support.operand_checks import plural
from hybrid.plan.formulas import hold
from hybrid.programs.file_reader import ProgramFile
from hybrid.programs.records import Bound, External, Origin, ProgramInput, ProgramOutput
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
            path = str(self._file.path)
            raise MissingKeyError.among(path, "function", name, self.functions)
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
        self._path, self._cells = file.path, cells
        self._given, self._result = file.tree(row["given"]), file.tree(row["result"])
        scope = OpenSizes()
        self.sizes = file.symbols(row)
        opened = [scope.symbol(s.name, s.low, s.low, s.high) for s in self.sizes]
        self.inputs = file.inputs(row, opened)
        self._places = _places(self.inputs, opened)
        made: dict[str, _Served] = {}
        self._cases: list[tuple[list[tuple[int, int, int]], _Served]] = []
        for case in file.cases(row):
            text = file.text(case["graph"])
            if text not in made:
                results, sources = file.externals(case)
                made[text] = _Served(self, text, results, sources, file.outputs(row, case))
            self._cases.append((file.conditions(case), made[text]))

    @property
    def outputs(self) -> list[ProgramOutput]:
        """The outputs, of the first sizes that there are."""
        return self._cases[0][1].outputs

    @property
    def graph(self) -> str:
        """The text of the graph, before all passes: of each, where sizes decide which it is."""
        return "\n\n".join(dict.fromkeys([str(served.graph) for _, served in self._cases]))

    def run(self, *inputs: Any) -> tuple[Tensor, ...]:
        """The outputs, one after the other, of the inputs, one after the other."""
        if len(inputs) != len(self.inputs):
            raise ArgumentTypeError(
                f"{self.name} takes {plural(len(self.inputs), 'input')}, not {len(inputs)}"
            )
        fitting = [self._fitting(v, x) for v, x in zip(self.inputs, inputs, strict=True)]
        return self._serving(fitting).run(*fitting)

    def _serving(self, inputs: Sequence[Tensor]) -> _Served:
        """What serves inputs of these sizes."""
        sizes = self._sizes(inputs)
        for conditions, served in self._cases:
            if hold(conditions, sizes):
                return served
        told = [f"{s.name} = {size}" for s, size in zip(self.sizes, sizes, strict=True)]
        raise ShapeError(
            f"{self.name}: the program was not exported for {', '.join(told)}",
            why="Where it was exported the function raised an error for such sizes.",
        )

    def _sizes(self, inputs: Sequence[Tensor]) -> list[Any]:
        """The sizes of the symbols; raises ShapeError."""
        found: list[Any] = [None] * len(self.sizes)
        for i, axis, at in self._places:
            symbol, size = self.sizes[at], inputs[i].shape[axis]
            text = f"{self.name}: input {self.inputs[i].name} is {inputs[i].type}, "
            text += f"not {self.inputs[i].type}"
            if not symbol.low <= size <= symbol.high:
                raise ShapeError(f"{text} with {symbol.name} from {symbol.low} to {symbol.high}")
            if found[at] is not None and found[at] != size:
                raise ShapeError(f"{text} with {symbol.name} = {found[at]}")
            found[at] = size
        return found

    def __call__(self, *args: Any) -> Any:
        inputs: list[Tensor] = []
        if len(args) != len(self._given["tuple"]):
            takes = plural(len(self._given["tuple"]), "argument")
            raise ArgumentTypeError(f"{self.name} takes {takes}, not {len(args)}")
        for tree, value in zip(self._given["tuple"], args, strict=True):
            self._take(tree, value, inputs)
        served = self._serving(inputs)
        return self._tree(self._result, served.run(*inputs), served.outputs)

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
        type_ = wanted.type
        if wanted.number is not None and not isinstance(value, Tensor):
            if type(value) is not wanted.number:
                kind = wanted.number.__name__
                raise DTypeError(f"{self.name}: input {wanted.name} is {value!r}, no {kind}")
            return as_tensor(value, type_.dtype)
        tensor = asarray(value)
        if not _fits(tensor.type, type_):
            error = ShapeError if tensor.type.dtype is type_.dtype else DTypeError
            text = f"{self.name}: input {wanted.name} is {tensor.type}, not {type_}"
            raise error(text)
        return tensor

    def _tree(self, tree: Any, outputs: Sequence[Tensor], known: Sequence[ProgramOutput]) -> Any:
        if "output" in tree:
            at = tree["output"]
            return outputs[at] if known[at].number is None else outputs[at].item()
        if "constant" in tree:
            return _constant(tree["constant"])
        [(kind, items)] = tree.items()
        if kind == "dict":
            return {_constant(key): self._tree(item, outputs, known) for key, item in items}
        return _TREES[kind](self._tree(item, outputs, known) for item in items)

    def __repr__(self) -> str:
        given = ", ".join(f"{value.name}: {value.type}" for value in self.inputs)
        return f"{self.name}({given}) -> {', '.join(str(value.type) for value in self.outputs)}"


def _places(inputs: Sequence[ProgramInput], opened: Sequence[Any]) -> list[tuple[int, int, int]]:
    """The open axes: of which input, which axis, and which symbol."""
    number = {str(size): at for at, size in enumerate(opened)}
    return [
        (i, axis, number[str(size)])
        for i, value in enumerate(inputs)
        for axis, size in enumerate(value.type.shape)
        if isinstance(size, SizeValue)
    ]


class _Served:
    """A graph of a function, and what it reads and writes: it serves some sizes."""

    def __init__(
        self,
        function: ExportedFunction,
        text: str,
        results: Sequence[External],
        sources: Sequence[External],
        outputs: Sequence[ProgramOutput],
    ) -> None:
        self._name, self._path = function.name, function._path
        self._inputs, self._cells = function.inputs, function._cells
        self._results, self._sources = results, sources
        self.graph = self._checked(text)
        types = {
            Origin.EXTERNAL: [v.type for v in self.graph.results],
            Origin.INPUT: [v.type for v in self._inputs],
            Origin.CELL: [cell.type for cell in self._cells],
        }
        self.outputs = [o._replace(type=types[o.origin][o.index]) for o in outputs]
        self._opens = sizes_of(self.graph)
        self._places = [] if self._opens is None else self._symbol_places(self._opens)
        dynamic: dict[int, dict[int, Dim]] = {}
        for symbol, (i, axis) in zip(self._symbols, self._places, strict=True):
            dim = Dim(symbol.name, symbol.low, symbol.high)
            for at, (kind, index) in enumerate(sources):
                shape = self.graph.params[at].type.shape
                for other, size in enumerate(shape if kind is Bound.INPUT else ()):
                    if str(size) == symbol.name:
                        dynamic.setdefault(index, {})[other] = dim
            dynamic.setdefault(i, {})[axis] = dim
        self.run = Hybridized(
            self._replayed, mode="trace", name=self._name, dynamic=dynamic or False
        )

    @property
    def _symbols(self) -> Sequence[Any]:
        return () if self._opens is None else self._opens.symbols

    def _symbol_places(self, opens: OpenSizes) -> list[tuple[int, int]]:
        """Of each symbol an input, and an axis of that."""
        found = {}
        for (kind, i), value in zip(self._sources, self.graph.params, strict=True):
            for axis, size in enumerate(value.type.shape if kind is Bound.INPUT else ()):
                found.setdefault(str(size), (i, axis))
        missing = [symbol.name for symbol in opens.symbols if symbol.name not in found]
        if missing:
            raise ProgramError(
                f"{self._path}: the graph of {self._name} is of {missing[0]}, which no input has"
            )
        return [found[symbol.name] for symbol in opens.symbols]

    def _checked(self, text: str) -> Graph:
        """The graph, whose types are those of the inputs, cells and outputs."""
        try:
            graph = parse(text)
        except Exception as error:
            said = (
                str(error) if isinstance(error, HybridError) else f"{type(error).__name__}: {error}"
            )
            raise ProgramError(f"{self._path}: the graph of {self._name}: {said}") from None
        types = [
            self._inputs[i].type if kind is Bound.INPUT else self._cells[i].type
            for kind, i in self._sources
        ]
        fit = len(graph.params) == len(types) and all(
            map(_fits, [v.type for v in graph.params], types)
        )
        if not fit or len(graph.results) != len(self._results):
            raise ProgramError(f"{self._path}: the graph of {self._name} is of other values")
        return graph

    def _replayed(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs; what is written to cells is in force then."""
        values = [inputs[i] if kind is Bound.INPUT else self._cells[i] for kind, i in self._sources]
        graph = self.graph
        if self._opens is not None:
            sizes = [inputs[i].shape[axis] for i, axis in self._places]
            graph = SizeBinding(self._opens, sizes_of_ints(sizes)).graph(graph)
        results = replay(graph, values)
        for (kind, i), result in zip(self._results, results, strict=True):
            if kind is Bound.WRITE:
                self._cells[i].assign(result)
        origins = {Origin.EXTERNAL: results, Origin.INPUT: inputs, Origin.CELL: self._cells}
        return tuple([origins[output.origin][output.index] for output in self.outputs])


def _fits(own: TensorType, wanted: TensorType) -> bool:
    """Whether two types are the same, but for sizes of axes that ``wanted`` leaves open."""
    return (
        own.dtype is wanted.dtype
        and own.rank == wanted.rank
        and all(
            isinstance(size, SizeValue) or n == size
            for n, size in zip(own.shape, wanted.shape, strict=True)
        )
    )


def _constant(value: Any) -> Any:
    return float.fromhex(value["float"]) if isinstance(value, dict) else value
