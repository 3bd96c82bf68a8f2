"""GraphWriter: the nodes of an ONNX graph while they are written, one rule after another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from hybrid.core.dataclass import dataclass
from hybrid.core.size_functions import SizeSymbol, SizeValue
from hybrid.core.sizes import Size
from hybrid.core.types import (
    BY_NAME,
    DType,
    Shape,
    TensorType,
    bool_,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from hybrid.errors import HybridError, OnnxError
from hybrid.ir import Graph, Node, Value
from hybrid.onnx.model_file import DTYPES
from hybrid.onnx.rule_table import INSTEAD, REASONS, RULES, WritingRule
from hybrid.onnx.size_terms import float_term, size_term

CODES = {dtype: code for code, dtype in DTYPES.items()}  # of ONNX, by dtype

# Where onnxruntime has no kernel for a dtype, a wider one carries its elements; the same bits come
# back.  Of uint64 those are the bits of int64.
_WIDER: dict[DType, tuple[DType, ...]] = {
    bool_: (uint8, int32),
    int8: (int32, int64),
    int16: (int32, int64),
    uint8: (int32, int64),
    uint16: (int32, int64),
    uint32: (int64,),
    uint64: (int64,),
    BY_NAME["float16"]: (float32,),
    BY_NAME["bfloat16"]: (float32,),
}
_FLOATS = ("float32", "float64")
_BASIC = (*_FLOATS, "int32", "int64")
# The dtypes that kernels of onnxruntime take; ops that are not listed take all.
KERNELS: dict[str, frozenset[DType]] = {
    op: frozenset([BY_NAME[name] for name in names])
    for op, names in {
        **dict.fromkeys(["Add", "Sub", "Mul", "Pow", "CumSum"], _BASIC),
        **dict.fromkeys(["ReduceSum", "ReduceProd", "ReduceMean"], _BASIC),
        **dict.fromkeys(["Max", "Min"], (*_BASIC, "uint32", "uint64")),
        **dict.fromkeys(["Clip"], (*_BASIC, "int8", "uint8", "uint32", "uint64")),
        **dict.fromkeys(["ReduceMax", "ReduceMin", "ArgMax", "ArgMin"], (*_BASIC, "int8", "uint8")),
        **dict.fromkeys(
            ["Less", "LessOrEqual", "Greater", "GreaterOrEqual"], (*_BASIC, "uint32", "uint64")
        ),
        "Div": (*_BASIC, "uint64"),
        "Neg": (*_BASIC, "int8", "int16"),
        "Equal": (*_BASIC, "bool"),
        "Where": (*_BASIC, "uint8"),
        "Pad": (*_BASIC, "bool", "int8", "uint8", "uint32", "uint64"),
        "TopK": (*_BASIC,),
        "MatMul": (*_BASIC, "uint32", "uint64"),
        "Range": (*_BASIC, "int16"),
        "Abs": (*_BASIC, "int8", "int16"),
        "Sign": (*_BASIC, "int8", "int16"),
        "Relu": (*_FLOATS, "int32", "int8"),
    }.items()
}
_UNTYPED = {"Where": (0,), "Pad": (1,), "TopK": (1,), "ReduceSum": (1,), "ReduceProd": (1,),
            "ReduceMean": (1,), "ReduceMax": (1,), "ReduceMin": (1,), "CumSum": (1,)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wire:
    """A value of an ONNX graph: its name, its dtype, and its shape where that is known."""

    name: str
    dtype: DType
    shape: Shape | None = None


class ModelWriter:
    """What all graphs of a model share: names, initializers, sizes."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.initializers: list[Any] = []
        self.names: set[str] = set()
        self.arrays: dict[str, np.ndarray] = {}  # constants by name
        # Of each symbol: an axis of that size, and the writer of the graph that it is in.
        self.sources: dict[SizeSymbol, tuple[GraphWriter, Wire, int]] = {}
        self._constants: dict[Any, Wire] = {}
        self._last: dict[str, int] = {}

    def free_name(self, base: str) -> str:
        """``base``, with a number if that is taken."""
        name = base
        while name in self.names:
            self._last[base] = self._last.get(base, 0) + 1
            name = f"{base}_{self._last[base]}"
        self.names.add(name)
        return name

    def constant(self, array: np.ndarray, dtype: DType) -> Wire:
        """An initializer of these elements; equal ones stand there once."""
        found = self.raw_constant(array.shape, dtype, array.tobytes())
        self.arrays[found.name] = array
        return found

    def raw_constant(self, shape: Shape, dtype: DType, data: bytes) -> Wire:
        """The same of elements in row-major order, little end first."""
        key = dtype, shape, data
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = Wire(self.free_name("constant"), dtype, shape)
            self.initializers.append(tensor_proto(found.name, dtype, shape, data))
        return found


def tensor_proto(name: str, dtype: DType, shape: Shape, data: bytes) -> Any:
    """A TensorProto of the elements ``data``, in row-major order, little end first."""
    proto = TensorProto(name=name, data_type=CODES[dtype], dims=shape)
    proto.raw_data = data
    return proto


class GraphWriter:
    """Writes the nodes of one graph; calling it appends a node."""

    def __init__(self, model: ModelWriter, around: GraphWriter | None = None) -> None:
        self.model, self.around = model, around
        self.nodes: list[Any] = []
        self.terms: dict[Value, Wire] = {}
        self.makers: dict[Value, Node] = {} if around is None else around.makers
        self.reads: dict[Value, int] = {}  # how often values are read
        self.made: dict[Any, Any] = {}  # nodes that are there: no other computes the same
        self.size_terms: dict[Any, Wire] = {}  # sizes that are written here, by what they say
        self.hint = ""  # what the node at hand should be called
        self.writing: Node | None = None

    @property
    def opset(self) -> int:
        return self.model.opset

    @property
    def root(self) -> GraphWriter:
        """The writer of the outermost graph, whose names all others see."""
        return self if self.around is None else self.around.root

    # Nodes --------------------------------------------------------------------------------------

    def __call__(
        self, op: str, *inputs: Wire | None, dtype: DType | None = None, shape: Any = None,
        outputs: int = 1, **attributes: Any,
    ) -> Any:  # fmt: skip
        """Append a node of ``op``: a Wire, or a tuple of them where ``outputs`` is above 1.

        A result has the dtype of the first input unless ``dtype`` (one, or one for each) says
        another.
        """
        first = next((term for term in inputs if term is not None), None)
        has_graphs = any(isinstance(value, onnx.GraphProto) for value in attributes.values())
        key = None if has_graphs else _key(op, inputs, dtype, outputs, attributes)
        if key in self.made:
            return self.made[key]
        dtypes = dtype if isinstance(dtype, tuple) else (dtype,) * outputs
        base = self.hint or op.lower()
        names = [self.model.free_name(base) for _ in range(outputs)]
        kept = {name: value for name, value in attributes.items() if value is not None}
        given = ["" if term is None else term.name for term in inputs]
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(op, given, names, name=names[0], **kept))
        found = tuple(
            [
                Wire(name, own or first.dtype, shape)  # type: ignore[union-attr]
                for name, own in zip(names, dtypes, strict=True)
            ]
        )
        results = found if outputs > 1 else found[0]
        if key is not None:
            self.made[key] = results
        return results

    def wide(self, op: str, *inputs: Wire | None, dtype: DType | None = None, **rest: Any) -> Wire:
        """The same of a dtype for which there may be no kernel: a wider one carries it then.

        The result has that dtype again, unless ``dtype`` says what the op gives.
        """
        place = 1 if op == "Where" else 0
        first = inputs[place]
        assert first is not None
        kind = self.carrier(op, first.dtype)
        if kind is first.dtype:
            return self(op, *inputs, dtype=dtype or kind, **rest)
        skipped = _UNTYPED.get(op, ())
        wider = [
            term if term is None or i in skipped else self.cast(term, kind)
            for i, term in enumerate(inputs)
        ]
        made = self(op, *wider, dtype=dtype or kind, **rest)
        return made if dtype else self.cast(made, first.dtype)

    def carrier(self, op: str, dtype: DType) -> DType:
        """The dtype in which ``op`` is computed for elements of ``dtype``."""
        kernels = KERNELS.get(op)
        if kernels is None or dtype in kernels:
            return dtype
        return next((wider for wider in _WIDER.get(dtype, ()) if wider in kernels), dtype)

    def cast(self, x: Wire, dtype: DType) -> Wire:
        """``x`` in another dtype, as ONNX casts."""
        if x.dtype is dtype:
            return x
        return self("Cast", x, dtype=dtype, shape=x.shape, to=CODES[dtype])

    @contextlib.contextmanager
    def called(self, hint: str) -> Iterator[None]:
        """Nodes inside are called ``hint``."""
        before, self.hint = self.hint, hint
        try:
            yield
        finally:
            self.hint = before

    # Constants ----------------------------------------------------------------------------------

    def constant(self, value: Any, dtype: DType) -> Wire:
        """The constant ``value`` (an array, a list, a number)."""
        if dtype.numpy is None:
            raise self.refusal("a constant of bfloat16", fix="cast a float32 one")
        with np.errstate(all="ignore"):
            array = np.array(value).astype(dtype.numpy)
        return self.model.constant(array, dtype)

    def ints(self, *values: int) -> Wire:
        """A list of ints."""
        return self.constant(np.array(values, np.int64).reshape(-1), int64)

    def zero(self, dtype: DType) -> Wire:
        return self.constant(0, dtype)

    def array_of(self, term: Wire) -> np.ndarray | None:
        """The elements of a constant; None of anything else."""
        return self.model.arrays.get(term.name)

    # Sizes --------------------------------------------------------------------------------------

    def sizes(self, numbers: Sequence[Any]) -> Wire:
        """A list of ints, some of which may be sizes of open axes."""
        if not any(isinstance(n, SizeValue) for n in numbers):
            return self.ints(*numbers)
        parts: list[Wire] = []
        plain: list[int] = []
        for number in numbers:
            if not isinstance(number, SizeValue):
                plain.append(number)
                continue
            if plain:
                parts.append(self.ints(*plain))
                plain = []
            parts.append(self.size(number))
        if plain:
            parts.append(self.ints(*plain))
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=0)

    def size(self, number: Any) -> Wire:
        """A number as an int64 [1]: a plain one, or what a run computes from the shapes given."""
        return size_term(self, number)

    def scalar(self, number: Any) -> Wire:
        """The same as an int64 []."""
        if not isinstance(number, SizeValue):
            return self.constant(number, int64)
        return self("Squeeze", self.size(number), self.ints(0))

    def float(self, number: Any) -> Wire:
        """A float, which sizes may determine, as a float64 []."""
        return self("Squeeze", float_term(self, number), self.ints(0))

    # Graphs -------------------------------------------------------------------------------------

    def bind(self, value: Value, term: Wire) -> Wire:
        """Let ``value`` be ``term`` from now on, and know where sizes can be read."""
        known = Wire(term.name, term.dtype, value.type.shape)
        self.terms[value] = known
        for axis, number in enumerate(value.type.shape):
            if type(number) is Size and number.is_single:
                self.model.sources.setdefault(number.terms[0][0][0], (self, known, axis))
        return known

    def term(self, value: Value) -> Wire:
        """What ``value``, of this graph, is in ONNX."""
        return self.terms[value]

    def write(self, graph: Graph) -> list[Wire]:
        """Write the nodes of ``graph``, whose parameters are bound; its results."""
        for value in (*graph.results, *[v for node in graph.nodes for v in node.operands]):
            self.reads[value] = self.reads.get(value, 0) + 1
        for node in graph.nodes:
            self.makers.update(dict.fromkeys(node.results, node))
            self.node(node)
        return [self.term(value) for value in graph.results]

    def node(self, node: Node) -> None:
        """Write one node by the rule of its op."""
        rule = RULES.get(node.op.name)
        before, self.writing = self.writing, node
        hint = self.hint
        try:
            if rule is None:
                reason = REASONS.get(node.op.name, "nobody has said how")
                raise self.refusal(node.op.name, why=reason, fix=INSTEAD.get(reason, ""))
            self.hint = node.results[0].hint if node.results and node.results[0].hint else ""
            self.hint = self.hint or node.op.name
            found = self._empty(node) or self._written(node, rule)
        except HybridError as error:
            if error.at is None:
                error.at = node.location
            raise
        finally:
            self.writing, self.hint = before, hint
        results = found if isinstance(found, tuple) else (found,)
        for value, term in zip(node.results, results, strict=True):
            assert term.dtype is value.type.dtype, (node.op.name, term, value.type)
            self.bind(value, term)

    def _written(self, node: Node, rule: WritingRule) -> Any:
        operands = [self.term(value) for value in node.operands]
        attributes = dict(node.attributes)
        if rule.takes_node:
            attributes["node"] = node
        return rule.write(self, *operands, **attributes)

    def _empty(self, node: Node) -> tuple[Wire, ...]:
        """Results without elements, which need no kernel; nothing if some have any."""
        shapes = [value.type.shape for value in node.results]
        if node.regions or not all(any(type(n) is int and n == 0 for n in s) for s in shapes):
            return ()
        if any(value.type.dtype.numpy is None for value in node.results):
            return ()
        return tuple(
            [
                self("Expand", self.zero(value.type.dtype), self.sizes(value.type.shape))
                for value in node.results
            ]
        )

    def inner(self) -> GraphWriter:
        """A writer of a graph inside of this one, which sees what this one has."""
        return GraphWriter(self.model, self)

    def plain_graph(
        self, name: str, inputs: Sequence[tuple[str, DType, Any]],
        outputs: Sequence[tuple[Wire, Any]],
    ) -> Any:  # fmt: skip
        """The GraphProto of what was written here, by names and shapes; None: any."""
        graph = onnx.GraphProto(name=name)
        graph.node.extend(self.nodes)
        graph.input.extend([_info(own, dtype, shape) for own, dtype, shape in inputs])
        graph.output.extend([_info(term.name, term.dtype, shape) for term, shape in outputs])
        return graph

    def finished(
        self, name: str, inputs: Sequence[tuple[Wire, TensorType]],
        outputs: Sequence[tuple[Wire, TensorType]],
    ) -> Any:  # fmt: skip
        """The GraphProto of what was written, with an own value for each output."""
        own = {name for node in self.nodes for name in node.output}
        taken: set[str] = set()
        results = []
        for term, type_ in outputs:
            if term.name not in own or term.name in taken:
                with self.called(term.name):
                    term = self("Identity", term)
            taken.add(term.name)
            results.append(value_info(term.name, type_))
        graph = onnx.GraphProto(name=name)
        graph.node.extend(needed_nodes(self.nodes, {info.name for info in results}))
        graph.input.extend([value_info(term.name, type_) for term, type_ in inputs])
        graph.output.extend(results)
        return graph

    def refusal(self, what: str, *, why: str = "", fix: str = "") -> OnnxError:
        """The error that something cannot be written, at the author's line."""
        at = None if self.writing is None else self.writing.location
        why = why and f"{why[0].upper()}{why[1:]}."
        return OnnxError(f"{what} cannot be written in ONNX", at=at, why=why, fix=fix)

    def needs(self, opset: int, op: str) -> None:
        """Raise unless ``op``, which there is since ``opset``, can be written."""
        if self.opset < opset:
            assert self.writing is not None
            raise self.refusal(
                f"{self.writing.op.name} of opset {self.opset}",
                why=f"{op} is there since opset {opset}",
                fix=f"export with opset={opset}",
            )


def needed_nodes(nodes: Sequence[Any], names: set[str]) -> list[Any]:
    """Those of ``nodes``, which stand in order, that give ``names`` or what leads to them."""
    needed, kept = set(names), []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed |= names_read([node])
            kept.append(node)
    return kept[::-1]


def names_read(nodes: Sequence[Any]) -> set[str]:
    """What ``nodes`` read, and what the graphs in them read and give."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.input)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found |= {output.name for output in attribute.g.output}
                found |= names_read(attribute.g.node)
    return found


def _key(op: str, inputs: Any, dtype: Any, outputs: int, attributes: Mapping[str, Any]) -> Any:
    """Equal for nodes that compute the same."""
    named = [(name, repr(value)) for name, value in attributes.items()]
    names = [None if term is None else term.name for term in inputs]
    return op, tuple(names), dtype, outputs, tuple(named)


def value_info(name: str, type_: TensorType) -> Any:
    """What an input or output of a graph is; an open axis has its name, or a formula of names."""
    return _info(name, type_.dtype, type_.shape)


def _info(name: str, dtype: DType, shape: Any) -> Any:
    dims = shape and [n if type(n) is int else str(n) for n in shape]
    return helper.make_tensor_value_info(name, CODES[dtype], dims)
