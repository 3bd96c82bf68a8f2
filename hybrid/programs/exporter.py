"""Export: functions, captured for all sizes that are declared, as the records of a program."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from hybrid.calls.dynamic_axes import (
    Axis,
    Declared,
    Dim,
    Table,
    argument_name,
    declared_axes,
    leaves_of,
    require_table,
)
from hybrid.calls.hybridized import Hybridized
from hybrid.core.tree import flatten, unflatten
from hybrid.core.types import float64, int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, HybridError, ProgramError
from hybrid.explain.argument_names import leaf_names
from hybrid.ir.interpreter import authors_call
from hybrid.nn.modules.module import Mode, Module
from hybrid.ops.shapes.creation import zeros
from hybrid.programs.capture_export import CaptureExport
from hybrid.programs.file_writer import save
from hybrid.programs.program_cells import ProgramCells
from hybrid.programs.records import FileType, FunctionRecord, ProgramInput, ProgramRecord, Symbol
from hybrid.programs.served_sizes import candidates, further
from hybrid.trace.capture.captured_graph import TreeRecipe
from hybrid.trace.places.signature import lifted

MOST_CAPTURES, MOST_CASES = 16, 96  # of a function


@authors_call
def export(
    functions: Any,
    path: str | os.PathLike[str],
    *args: Any,
    dynamic: Mapping[Any, Any] | None = None,
    mode: str = "auto",
    optimize: str = "exact",
) -> None:
    """Write ``functions`` to the file ``path``, for ``hybrid-run``, C and ``load_exported``.

    ``functions`` is one function or Module, called with ``args``, or a dict of names and tuples of
    a function and its arguments: functions that read and write the same tensors share them.
    Nothing runs, and nothing changes; a Module is exported as it evaluates, and is called
    "predict".  The file appears whole, or not at all; the same program gives the same bytes.
    ``mode`` and ``optimize`` are as in ``hybridize``.  What is printed and raised is in the file,
    too: texts with numbers by any of Python's formats, and with tensors.  Schedulers of
    learning rates and functions of ``math`` are C's, with the bits of Python's.

    ``dynamic`` opens axes of arguments, by name or position, as in ``hybridize``:
    ``{"x": {0: hybrid.Dim("batch", 1, 64)}}``; and ``{"scale": True}`` makes a number an input,
    while others are parts of the program.  The table is for all functions that have such an
    argument, or a dict of the names of functions and tables for each.  Axes of one name have one
    size in a call.  The program takes all sizes of that range at which the function itself raises
    nothing, with the bits of eager code.

    Raises ProgramError for what a file cannot hold, with the author's line; CaptureError for what
    cannot be captured, or fixes a declared axis.
    """
    save(program_of(functions, *args, dynamic=dynamic, mode=mode, optimize=optimize), path)


def program_of(
    functions: Any,
    *args: Any,
    dynamic: Mapping[Any, Any] | None = None,
    mode: str = "auto",
    optimize: str = "exact",
) -> ProgramRecord:
    """The records of ``functions``, as ``export`` writes them."""
    wanted = (
        functions if isinstance(functions, Mapping) else {_name_of(functions): (functions, *args)}
    )
    if not wanted:
        raise ProgramError("there is no function to export", fix="give one, or a dict of some")
    given = {}
    for name, entry in wanted.items():
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise ProgramError(f"{name!r} is no name of a function", fix="give a text")
        function, *arguments = entry if isinstance(entry, tuple) else (entry,)
        given[name] = function, arguments
    tables = _tables({name: function for name, (function, _) in given.items()}, dynamic)
    cells = ProgramCells()
    found = []
    for name, (function, arguments) in given.items():
        options = {"mode": mode, "optimize": optimize, "dynamic": tables[name] or False}
        evaluating = Mode(function, False) if isinstance(function, Module) else nullcontext()
        with evaluating:
            found.append(FunctionExport(name, function, arguments, cells, options))
    for one in found:
        one.look()
    for one in found:  # all read, before it is asked who writes what others read
        one.bind()
    records = [one.record() for one in found]
    notes = dict.fromkeys([note for one in found for note in one.notes])
    return ProgramRecord(records, cells.records, list(notes))


def _name_of(function: Any) -> str:
    if isinstance(function, Module):
        return "predict"
    return getattr(function, "__name__", type(function).__name__)


def _tables(
    functions: Mapping[str, Any], dynamic: Mapping[Any, Any] | None
) -> dict[str, dict[Any, Any]]:
    """The table of each function: its own one, or what it has of the common one."""
    found: dict[str, dict[Any, Any]] = {name: {} for name in functions}
    if not dynamic:
        return found
    if not isinstance(dynamic, Mapping):
        raise ArgumentError(
            f"dynamic is {dynamic!r}",
            fix='give a table of arguments and axes: {"x": {0: hybrid.Dim("batch", 1, 64)}}',
        )
    if all(map(_is_table, dynamic.values())):
        for name, table in dynamic.items():
            if name not in found:
                known = ", ".join(found)
                raise ArgumentError(
                    f"dynamic has a table for {name!r}, which is not exported",
                    fix=f"use one of: {known}",
                )
            found[name] = dict(table)
    else:
        for argument, axes in dynamic.items():
            names = [n for n, function in functions.items() if _takes(function, argument)]
            for name in names or functions:  # where nobody has it, each says so
                found[name][argument] = axes
    named = {name: _named(functions[name], table) for name, table in found.items()}
    dims: dict[str, Dim] = {}
    tables = [axes for table in named.values() for axes in table.values()]
    for dim in [d for axes in tables if isinstance(axes, Mapping) for d in axes.values()]:
        if isinstance(dim, Dim) and dims.setdefault(dim.name, dim) != dim:
            raise ArgumentError(
                f"{dim.name} is declared as {dims[dim.name]} and as {dim}",
                why="Functions of a program have one range for one name.",
                fix="give one of them another name",
            )
    return named


def _is_table(entry: Any) -> bool:
    """Whether it is a table of arguments, and not of axes."""
    if not isinstance(entry, Mapping):
        return False
    return any(isinstance(k, str) or isinstance(v, Mapping) for k, v in entry.items())


def _takes(function: Any, argument: Any) -> bool:
    """Whether a function has an argument of that name, or at that position."""
    try:
        require_table(function, {argument: {0: True}})
    except HybridError:
        return False
    return True


def _named(function: Any, table: Table) -> dict[Any, Any]:
    """``table`` with a Dim for each axis that is declared without one."""
    found: dict[Any, Any] = {}
    for argument, axes in table.items():
        found[argument] = axes
        if isinstance(axes, Mapping) and isinstance(argument, (str, int)):
            name = argument_name(function, argument)
            found[argument] = {
                axis: Dim(f"{name}_{axis}") if dim is True and type(axis) is int else dim
                for axis, dim in axes.items()
            }
    return found


class FunctionExport:
    """One function on its way into a program: captures that serve all its sizes."""

    def __init__(
        self,
        name: str,
        function: Any,
        args: Sequence[Any],
        cells: ProgramCells,
        options: dict[str, Any],
    ) -> None:
        self.name, self.cells = name, cells
        if isinstance(function, Hybridized):
            options = {**function.options, "dynamic": options["dynamic"]}
            function = function.function
        leaves, self.structure = flatten(tuple(args))
        self.leaves = lifted(leaves)
        self.names = leaf_names(function, args, {})
        self.numbers = self._numbers(function, options["dynamic"])
        axes = {k: v for k, v in (options["dynamic"] or {}).items() if v is not True}
        options = {**options, "dynamic": axes or False}
        self.axes = self._axes(function, options["dynamic"])
        self.hybridized = Hybridized(function, **options)
        self.symbols = list(dict.fromkeys(self.axes.values()))
        self.example = {
            dim.name: self.leaves[leaf].type.shape[axis] for (leaf, axis), dim in self.axes.items()
        }
        self.captures: list[CaptureExport] = []
        self.notes: list[tuple[str, str]] = []
        self._capture_at(self.example)
        for sizes in self._every():
            if not self._known(sizes):
                self._try(sizes)

    def _numbers(self, function: Any, table: Any) -> list[int]:
        """The numbers among the arguments that are inputs."""
        found: list[int] = []
        for argument in [argument for argument, entry in (table or {}).items() if entry is True]:
            require_table(function, {argument: {0: True}})
            for i in leaves_of(function, argument, self.names):
                kind = type(self.leaves[i])
                if kind not in (int, float):
                    raise ArgumentTypeError(
                        f"dynamic makes {self.names[i]} an input, which is a {kind.__name__}",
                        fix="name an int or a float, or give the axes of a tensor: {0: True}",
                    )
                found.append(i)
        return found

    def _axes(self, function: Any, table: Any) -> dict[Axis, Dim]:
        require_table(function, table)
        declared: Mapping[Axis, Declared] = declared_axes(function, table, self.leaves, self.names)
        return {place: entry.dim for place, entry in sorted(declared.items()) if entry.dim}

    def _every(self) -> Iterator[dict[str, int]]:
        """Sizes that tell whether all are served: those at which something may change."""
        seen: set[tuple[int, ...]] = set()
        points = candidates(self.symbols, self.example)
        while points:
            for point in points:
                if point not in seen:
                    seen.add(point)
                    yield dict(zip(self.example, point, strict=True))
            sizes = [asked for one in self.captures for asked in one.asked]
            points = [p for p in further(self.symbols, self.example, sizes) if p not in seen]

    def _known(self, sizes: Mapping[str, int]) -> CaptureExport | None:
        return next((one for one in self.captures if one.holds(sizes)), None)

    def _try(self, sizes: Mapping[str, int]) -> None:
        """A capture for ``sizes``; none where the function raises what it raises eagerly."""
        if len(self.captures) == MOST_CAPTURES:
            self._too_many("captures")
        try:
            self._capture_at(sizes)
        except HybridError as error:
            if not isinstance(error, CaptureError):
                self._raises(sizes, error)
                return
            try:  # something asks for one number, perhaps by chance
                self._capture_at(sizes, opens=False)
            except HybridError as other:
                self._raises(sizes, other)
        except (ArithmeticError, ValueError, IndexError) as error:
            self._raises(sizes, error)

    def _raises(self, sizes: Mapping[str, int], error: Exception) -> None:
        at = ", ".join([f"{name} = {size}" for name, size in sizes.items()])
        if len(self.notes) < 8:
            text = (str(error) or type(error).__name__).splitlines()[0]
            self.notes.append((f"{self.name} raises at {at}", text))

    def _capture_at(self, sizes: Mapping[str, int], *, opens: bool = True) -> None:
        hybridized = self.hybridized
        if not opens:
            hybridized = Hybridized(hybridized.function, **{**hybridized.options, "dynamic": False})
        args = self._args_at(sizes)
        made = CaptureExport(self.name, hybridized, args, self.cells, sizes, self.numbers)
        self.captures.append(made)

    def _too_many(self, what: str) -> None:
        raise ProgramError(
            f"{self.name} cannot be exported: it tells too many sizes apart, which takes more than "
            f"{MOST_CAPTURES if what == 'captures' else MOST_CASES} {what}",
            fix="declare a smaller range, or fewer axes",
        )

    def _args_at(self, sizes: Mapping[str, int]) -> Sequence[Any]:
        """The arguments with tensors of these sizes; their contents make no difference."""
        leaves = list(self.leaves)
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor):
                shape = [*leaf.type.shape]
                for (at, axis), dim in self.axes.items():
                    if at == i:
                        shape[axis] = sizes[dim.name]
                if tuple(shape) != leaf.type.shape:
                    leaves[i] = zeros(tuple(shape), dtype=leaf.dtype)
                    leaves[i].requires_grad = leaf.requires_grad
        return unflatten(self.structure, leaves)

    def look(self) -> None:
        """Let the cells know names of what the function reads."""
        for one in self.captures:
            one.look()

    def bind(self) -> None:
        """Find what the inputs of all graphs are; raises ProgramError."""
        numbers = {dim: at for at, dim in enumerate(self.symbols)}
        self.inputs: dict[int, FileType] = {}
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                shape = [*leaf.type.shape]
                for (at, axis), dim in self.axes.items():
                    if at == i:
                        shape[axis] = -1 - numbers[dim]
                self.inputs[i] = FileType(leaf.type.dtype, tuple(shape))
            elif i in self.numbers:
                self.inputs[i] = FileType(int64 if type(leaf) is int else float64, ())
        for one in self.captures:
            one.bind(self.inputs)
        frozen = dict.fromkeys([text for one in self.captures for text in one.frozen()])
        self.notes += [(f"{self.name} is made for", text) for text in frozen]

    def record(self) -> FunctionRecord:
        """The record; raises ProgramError."""
        first = self.captures[0]
        computed = _computed([one.result for one in self.captures])
        for one in self.captures:
            one.compute(computed)
            one.settle()
            kinds = [(o.type.dtype, o.type.rank, o.number) for o in one.outputs]
            known = [(o.type.dtype, o.type.rank, o.number) for o in first.outputs]
            if (one.tree, one.given, kinds) != (first.tree, first.given, known):
                raise ProgramError(
                    f"{self.name} cannot be exported: what it returns is of another kind where "
                    f"{_told(one.closed) or 'sizes are others'}",
                    why="The results of a program have one structure, dtypes and ranks.",
                )
        # Schedules are weighed for a few ranges of sizes, of fewer the more axes there are.
        scale = 4 if len(self.symbols) < 2 else 8
        for sizes in [self.example, *self._every()]:
            capture = self._known(sizes)
            if capture is not None:
                capture.serve(sizes, scale)
                if sum([len(one.cases) for one in self.captures]) > MOST_CASES:
                    self._too_many("plans")
        self.notes += [note for one in self.captures for note in one.notes]
        return FunctionRecord(
            name=self.name,
            inputs=tuple([self._input(i, type_) for i, type_ in self.inputs.items()]),
            given=_json(first.given),
            result=_json(first.tree),
            cases=tuple([case for one in self.captures for case in one.cases]),
            symbols=tuple([Symbol(dim.name, dim.low, dim.high) for dim in self.symbols]),
        )

    def _input(self, i: int, type_: FileType) -> ProgramInput:
        number = type(self.leaves[i]) if i in self.numbers else None
        return ProgramInput(self.names[i], type_, number)


def _computed(results: Sequence[TreeRecipe]) -> list[int]:
    """The leaves that are numbers, and others at other sizes: which size an axis has, say."""
    structures = {result.structure for result in results}
    if len(structures) > 1:  # which is refused
        return []
    columns = zip(*[result.leaves for result in results], strict=True)
    return [i for i, leaves in enumerate(columns) if _is_varying(leaves)]


def _is_varying(leaves: Sequence[tuple[str, Any]]) -> bool:
    """Whether it is a number of a run, or one constant here and another there."""
    constants = [what for kind, what in leaves if kind == "constant"]
    numbers = all(type(number) in (bool, int, float) for number in constants)
    return numbers and (len(constants) < len(leaves) or len(set(map(repr, constants))) > 1)


def _told(sizes: Mapping[str, int]) -> str:
    return ", ".join([f"{name} is {size}" for name, size in sizes.items()])


def _json(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"))
