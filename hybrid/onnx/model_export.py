"""Export: functions and modules as models of ONNX."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from hybrid.calls.dynamic_axes import Dim, declared_axes
from hybrid.calls.hybridized import Hybridized
from hybrid.core.dataclass import dataclass, replace
from hybrid.core.open_numbers import size_of
from hybrid.core.sizes import OpenSizes
from hybrid.core.types import TensorType, bool_, float64, int64, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, Location, OnnxError, warn_author
from hybrid.explain.inputs import paths_of, slot_name
from hybrid.ir import Graph, Node, Value
from hybrid.ir.interpreter import authors_call
from hybrid.nn.modules.module import Mode, Module
from hybrid.onnx.dropped_calls import without_calls
from hybrid.onnx.model_assembly import ModelInput, Weight, model_of, require_opset
from hybrid.onnx.model_storage import save_model
from hybrid.onnx.qdq_form import FORMATS, QuantizedWeight, in_qdq_form, with_floats
from hybrid.ops.index.value_sizes import VALUE_SIZED
from hybrid.ops.shapes.creation import fill
from hybrid.ops.support.operand_checks import plural, require_choice
from hybrid.passes.scalar.dce import dce
from hybrid.programs.program_cells import ProgramCells
from hybrid.trace.capture.captured_graph import KINDS_IN_WORDS, Source, without_tuples
from hybrid.trace.guards.reads import Reads

_FIRST = 64  # sizes of an axis for which conditions are tried


@authors_call
def export(
    function: Any,
    path: str | os.PathLike[str],
    *args: Any,
    opset: int = 18,
    dynamic_axes: Mapping[Any, Mapping[int, Any]] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    external_data: bool | None = None,
    format: str = "integer",
) -> Path:
    """Write what ``function``, a function or Module, computes of ``args`` as a model of ONNX.

    Nothing runs, and nothing changes; a Module is exported as it evaluates.  The model has an input
    for each tensor among ``args``, in their order, called like the argument unless ``input_names``
    say otherwise, and outputs ``result0``, ``result1`` ..., or ``output_names``.  Weights have
    their names in ``state_dict``.  Python numbers among ``args`` are constants.

    ``dynamic_axes`` are those whose sizes vary, by the argument's name or position, then by axis:
    ``{"x": {0: "batch"}}``, or ``{0: {0: hy.Dim("batch", 1, 64)}}``.  Axes of one name have one
    size.  All others have the sizes of ``args``.

    ``opset`` is one of 17 to 23.  Weights of more than 2 GB lie in a file beside the
    model, whose name follows from what it holds: ``m.onnx.5f0c61e2a7d3b948.data``;
    ``external_data=True`` puts smaller ones there, too.  At any time ``path`` is the model from
    before or the new one, with its own weights.

    ``format`` is of quantized models.  "integer": products of integers, and any runtime gives the
    bits that hybrid does.  "qdq": static layers are products of floats between QuantizeLinear and
    DequantizeLinear, of which runtimes make products of integers of their own; biases of them are
    integers, too, and sums are rounded in other places, so results differ by steps of a scale where
    a number lies between two.  Layers that are not static stay as in "integer".

    What is printed and asserted is left out; a warning says what, and which conditions open sizes
    have to meet.  The docstring of the function, or of the module's class, is in the model, and the
    name and version of hybrid.  The path is returned, and the file appears whole, or not at all;
    the same model gives the same bytes.

    Raises OnnxError for what ONNX has no words for, with the author's line; CaptureError for what
    cannot be captured.
    """
    path = Path(os.fspath(path))
    exported = exported_model(
        function, args, opset=opset, dynamic_axes=dynamic_axes, input_names=input_names,
        output_names=output_names, format=format,
    )  # fmt: skip
    save_model(exported.proto, path, external_data)
    exported.warn()
    return path


@dataclass(frozen=True)
class ExportedModel:
    """A model, and what is to be said of it."""

    proto: Any  # ModelProto
    name: str
    left_out: tuple[str, ...]
    conditions: tuple[str, ...]  # that sizes of open axes have to meet

    def warn(self) -> None:
        """Say what was left out, and what sizes there may be."""
        for what, lines in (
            ("without what ONNX does not do", self.left_out),
            ("for sizes of which this is true", self.conditions),
        ):
            if lines:
                listed = "\n  ".join(lines)
                warn_author(f"{self.name} was exported {what}:\n  {listed}")


def exported_model(
    function: Any, args: Sequence[Any], *, opset: int,
    dynamic_axes: Mapping[Any, Mapping[int, Any]] | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    format: str = "integer",
) -> ExportedModel:  # fmt: skip
    """The model of ``function``; see ``export``."""
    require_opset(opset)
    require_choice("format", format, FORMATS)
    plain = function.function if isinstance(function, Hybridized) else function
    quantized: dict[int, QuantizedWeight] = {}
    if format == "qdq":
        plain, quantized = with_floats(plain)
    owner = plain if isinstance(plain, Module) else getattr(plain, "__self__", None)
    with Mode(owner, False) if isinstance(owner, Module) else nullcontext():
        made = _Exported(plain, args, dynamic_axes)
        made.quantized = quantized
        return made.model(opset, input_names, output_names)


def _doc_of(function: Any) -> str:
    """The docstring of a function, or of the class of a module; empty if there is none."""
    own = type(function) if isinstance(function, Module) else function
    doc = own.__doc__ if inspect.isroutine(own) or isinstance(own, type) else None
    return inspect.cleandoc(doc).encode("utf-8", "replace").decode() if doc else ""


def _dims(dynamic_axes: Any) -> Any:
    """``dynamic_axes`` as ``hybridize`` is given them."""
    if not dynamic_axes:
        return False
    if not isinstance(dynamic_axes, Mapping):
        raise ArgumentTypeError(
            f"dynamic_axes is a {type(dynamic_axes).__name__}",
            fix='give a dict such as {"x": {0: "batch"}}',
        )
    return {argument: _named_axes(axes) for argument, axes in dynamic_axes.items()}


def _named_axes(axes: Any) -> Any:
    """A name is that of an axis of any size."""
    if not isinstance(axes, Mapping):
        return axes
    return {axis: Dim(dim, 1) if isinstance(dim, str) else dim for axis, dim in axes.items()}


class _Exported:
    """One function on its way into a model."""

    def __init__(self, function: Any, args: Sequence[Any], dynamic_axes: Any) -> None:
        hybridized = Hybridized(function, dynamic=_dims(dynamic_axes))
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.call, self.capture = hybridized.captured(tuple(args), {}, exports=True)
        self.names = self.call.names()
        self.paths = paths_of(self.capture, function, self.call.leaves, self.names)
        self.cells = ProgramCells()
        self.notes: list[str] = []
        self.quantized: dict[int, QuantizedWeight] = {}  # by ids of tensors
        self._require_open(hybridized)

    def model(
        self, opset: int, input_names: Sequence[str] | None, output_names: Sequence[str] | None
    ) -> ExportedModel:
        """The model; raises OnnxError."""
        self._refuse_facts()
        self.cells.look(Reads(self.function, self.call.leaves), [self.function, *self.call.args])
        weights, inputs = self._bindings()
        graph = self._graph(weights, inputs)
        leaves = [i for i, leaf in enumerate(self.call.leaves) if isinstance(leaf, Tensor)]
        names = self._named("input", input_names, [self.names[i] for i in leaves])
        wanted = [f"result{i}" for i in range(len(graph.results))]
        outputs = self._named("output", output_names, wanted)
        self._require_apart([*names, *outputs, *dict.fromkeys(w.name for w in weights.values())])
        given = [
            ModelInput(name, self._type(i), inputs.get(i))
            for i, name in zip(leaves, names, strict=True)
        ]
        self._refuse_ways(graph)
        proto = model_of(graph, weights, given, outputs, opset, _doc_of(self.function))
        if self.quantized:
            in_qdq_form(proto, self.bytes_of)
        self._refuse_writes()
        return ExportedModel(
            proto=proto, name=self.name, left_out=tuple(dict.fromkeys(self.notes)),
            conditions=tuple(self._conditions()),
        )  # fmt: skip

    def _require_open(self, hybridized: Hybridized) -> None:
        """Raise unless every axis that was declared to vary does."""
        table, leaves = hybridized.options["dynamic"], self.call.leaves
        for leaf, axis in declared_axes(hybridized.function, table, leaves, self.names):
            size = self._type(leaf).shape[axis]
            if type(size) is int:
                self._refuse(
                    f"axis {axis} of {self.names[leaf]} is declared to vary, and has "
                    f"{plural(size, 'element')} here",
                    why="Axes of 0 and 1 are special to most ops, so they stay as they are.",
                    fix="give an argument with 2 elements or more along it",
                )

    def _conditions(self) -> list[str]:
        """What has to be so of sizes that vary."""
        axes = self.capture.open_axes
        sizes = self.capture.value_sizes or (None if axes is None else axes.sizes)
        return [] if sizes is None else telling_conditions(sizes)

    def _refuse(self, what: str, **parts: Any) -> NoReturn:
        raise OnnxError(f"{self.name} cannot be exported: {what}", **parts)

    def _refuse_facts(self) -> None:
        """Raise for what a run would have to test of its surroundings."""
        if self.capture.facts:
            self._refuse(f"it counts on {self.capture.facts[0].what}")
        seen: dict[int, int] = {}
        for i, leaf in enumerate(self.call.leaves):
            if isinstance(leaf, Tensor) and seen.setdefault(id(leaf), i) != i:
                first = self.names[seen[id(leaf)]]
                self._refuse(f"{first} and {self.names[i]} are one tensor", fix="give two tensors")

    def _refuse_ways(self, graph: Graph) -> None:
        """Raise where the graph is that of one way, which values have chosen."""
        sizes = self.capture.value_sizes
        if sizes is None:
            return
        for error in self.capture.path_errors:
            self._refuse(error.what, at=error.at, why=error.why, fix=error.fix)
        makers = {value: node for node in graph.nodes for value in node.results}
        for node in graph.nodes:
            maker = makers.get(node.operands[0]) if node.op.name == "size_value" else None
            is_cast = maker is not None and maker.op.name == "cast"
            if is_cast and maker.operands[0].type.dtype is bool_:  # the truth of a test
                self._refuse_way(node.location)
        axes = self.capture.open_axes
        given = sizes.symbols[: len(axes.places)] if axes is not None else []
        for condition in sizes.fixing():
            if condition.size.terms[0][0][0] not in given:
                self._refuse_way(condition.at)

    def _refuse_way(self, at: Location | None) -> None:
        self._refuse(
            "which way it goes depends on values, and shapes depend on that",
            at=at,
            why="A branch of ONNX gives the same shapes either way, and an iteration those that "
            "it got.",
            fix="let both ways give tensors of one shape, or choose with hybrid.where",
        )

    def _refuse_writes(self) -> None:
        """Raise for what it keeps and reads again; what it only leaves somewhere is noted."""
        capture = self.capture
        written = []
        for source in [capture.sources[source] for source, _ in capture.writes]:
            if source.kind == "argument":
                self.notes.append(f"what it writes to its argument {self._path(source)}")
            else:
                written.append(self._path(source))
        read = {source.address.key for source in capture.sources if source.address is not None}
        for write in capture.place_writes:
            text = slot_name(write.address, self.paths, write.key)
            if write.address.key in read:
                written.append(text)
            else:
                self.notes.append(f"what it leaves in {text}")
        if written:
            self._refuse(
                f"it writes to {written[0]}",
                why="A model of ONNX keeps nothing between its runs.",
                fix="take the old value as an argument, and return the new one",
            )

    # Inputs and weights -------------------------------------------------------------------------

    def _bindings(self) -> tuple[dict[Value, Weight], dict[int, Value]]:
        """What the parameters of the graph are: weights, or tensors among the arguments."""
        weights: dict[Value, Weight] = {}
        inputs: dict[int, Value] = {}
        self.bytes_of: dict[str, QuantizedWeight] = {}  # by names of weights
        params = self.capture.graph.params
        for source, value in zip(self.capture.sources, params, strict=True):
            if source.kind == "argument":
                inputs[source.index] = value
            elif source.kind == "cell":
                assert source.tensor is not None
                weights[value] = self._weight(self.cells.of(source.tensor, self._path(source)))
                self._note_bytes(source.tensor, weights[value])
            elif source.kind == "attribute":
                assert source.address is not None
                tensor = source.address.read(self.call.leaves)
                number = self.cells.at(source.address, tensor, self._path(source))
                weights[value] = self._weight(number)
                self._note_bytes(tensor, weights[value])
            else:
                self._refuse("a Python number is an input of it")
        return weights, inputs

    def _note_bytes(self, tensor: Tensor, weight: Weight) -> None:
        """Know the weight of a quantized layer by its name."""
        if id(tensor) in self.quantized:
            self.bytes_of[weight.name] = self.quantized[id(tensor)]

    def _weight(self, cell: int) -> Weight:
        record = self.cells.records[cell]
        return Weight(record.name, record.type.dtype, record.type.shape, record.content)

    def _path(self, source: Source) -> str:
        """What the author calls a tensor from outside, if the ``state_dict`` of no module does."""
        if source.tensor is not None:
            return self.paths.get(id(source.tensor), "state")
        if source.address is not None:
            return slot_name(source.address, self.paths)
        return self.names[source.index]

    def _type(self, leaf: int) -> TensorType:
        """The type of an argument, with symbols for axes that vary."""
        axes = self.capture.open_axes
        own: TensorType = self.call.leaves[leaf].type
        return own if axes is None else axes.types.get(leaf, own)

    def _named(
        self, what: str, given: Sequence[str] | None, wanted: Sequence[str]
    ) -> Sequence[str]:
        """The names of inputs or outputs: those that are ``given``, else ``wanted``."""
        if given is None:
            return wanted
        names = [given] if isinstance(given, str) else list(given)
        if not all(isinstance(name, str) and name for name in names):
            raise ArgumentTypeError(f"{what}_names is {given!r}", fix="give a list of texts")
        if len(names) != len(wanted):
            raise ArgumentError(
                f"{what}_names has {plural(len(names), 'name')}, and {self.name} has "
                f"{plural(len(wanted), what)}",
                fix="give a name for each: " + ", ".join(wanted),
            )
        return names

    def _require_apart(self, names: Sequence[str]) -> None:
        twice = [name for at, name in enumerate(names) if name in names[:at]]
        if twice:
            self._refuse(
                f"two of its values are called {twice[0]!r}",
                fix="give other input_names or output_names",
            )

    # The graph ----------------------------------------------------------------------------------

    def _graph(self, weights: dict[Value, Weight], inputs: dict[int, Value]) -> Graph:
        """The captured graph with what the function returns as its results alone.

        Tensors that it returns as they are become ``weights`` and ``inputs``, too.
        """
        graph = self.capture.graph
        written = {source: graph.results[output] for source, output in self.capture.writes}
        arguments = {
            self.capture.sources[source].index: value
            for source, value in written.items()
            if self.capture.sources[source].kind == "argument"
        }
        results: list[Value] = []
        nodes: list[Node] = []
        result = without_tuples(self.capture.result, self.capture.objects)
        for kind, what in result.leaves:
            value = self.call.leaves[what] if kind == "argument" else what
            if kind == "argument" and what in arguments:  # what it is after the call
                results.append(arguments[what])
            elif kind == "source" and what in written:
                results.append(written[what])
            elif kind in ("output", "number"):
                results.append(graph.results[what])
            elif kind == "source":
                results.append(graph.params[what])
            elif kind == "argument" and isinstance(value, Tensor):
                results.append(inputs.setdefault(what, Value(self._type(what))))
            elif kind == "constant" and isinstance(value, Tensor):
                results.append(Value(value.type))
                weights[results[-1]] = self._weight(self.cells.of(value, "state"))
            elif kind not in ("constant", "argument"):
                self._refuse(f"it returns {KINDS_IN_WORDS[kind]}", fix="return tensors and numbers")
            elif isinstance(value, (bool, int, float)):
                nodes.append(_number_node(value))
                results += nodes[-1].results
            elif value is not None:
                self._refuse(
                    f"a result of it is a {type(value).__name__}", fix="return tensors and numbers"
                )
        if not results:
            self._refuse("it returns no tensor")
        graph = replace(graph, nodes=(*graph.nodes, *nodes), results=tuple(results))
        found, dropped = without_calls(graph)
        self.notes += [f"{call}" for call in dropped]
        if self.capture.value_sizes is None:
            found = dce(found)
        return without_dead(found)


def _number_node(value: Any) -> Node:
    """The node that makes a number of Python's, which sizes may determine, a tensor []."""
    value = size_of(value)
    kind = next(kind for kind in (bool, int, float) if isinstance(value, kind))
    dtype = {bool: bool_, int: int64, float: float64}[kind]
    attrs = {"shape": (), "value": value, "dtype": dtype}
    return Node(
        op=fill, operands=(), attrs=fill.attributes(attrs), results=(Value(tensor_type(dtype, ())),)
    )


def telling_conditions(sizes: OpenSizes) -> list[str]:
    """The conditions that some small sizes do not meet, with the author's lines."""
    found: dict[str, list[str]] = {}
    for condition in sizes.conditions.values():
        if _holds_for_small(sizes, condition):
            continue
        at = "" if condition.at is None else f" ({condition.at})"
        found.setdefault(at, []).append(str(condition))
    return [", ".join(dict.fromkeys(texts)) + at for at, texts in found.items()]


def _holds_for_small(sizes: OpenSizes, condition: Any) -> bool:
    """Whether it is so for each symbol's first sizes, the others being what they are here."""
    test = sizes.test_of(condition)
    here = [symbol.value for symbol in sizes.symbols]
    for at, symbol in enumerate(sizes.symbols):
        for n in range(symbol.low, min(symbol.high, symbol.low + _FIRST) + 1):
            try:
                if not test(*here[:at], n, *here[at + 1 :]):
                    return False
            except (ArithmeticError, ValueError):
                return False
    return True


def without_dead(graph: Graph) -> Graph:
    """``graph`` without nodes that no result needs, whatever they may raise.

    Nodes that bring sizes stay: other nodes may have these in their types and attributes alone.
    """
    used = set(graph.results)
    kept = []
    for node in reversed(graph.nodes):
        if not used.isdisjoint(node.results) or not node.pure or node.op.name in VALUE_SIZED:
            used.update(node.operands)
            kept.append(node)
    return replace(graph, nodes=tuple(reversed(kept)))
