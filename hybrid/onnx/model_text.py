"""The text of a model: a class whose ``forward`` has a line for each node of the graph.

::

    class Digits(OnnxModule):
        def forward(self, x):
            conv1 = conv(x, self.conv1.weight, self.conv1.bias, pads=[1, 1, 1, 1])
            relu1 = hy.relu(conv1)
            ...

Nothing of a file gets into the text but numbers, and words that ``repr`` or ``_NO_WORD`` has gone
over: names of variables are made of letters, digits and underscores alone.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import DType, dtype_of
from hybrid.errors import OnnxError
from hybrid.nn.modules.module import Module
from hybrid.onnx import known_values
from hybrid.onnx.function_bodies import since_version
from hybrid.onnx.model_file import (
    DTYPES,
    ModelFile,
    array_of,
    dense_of,
    dtype_at,
    in_order,
    outer_names,
    plain_domain,
    subgraphs,
)
from hybrid.onnx.node_table import IGNORED, NodeHandler, function_names, handler_of

_NO_WORD = re.compile(r"\W+", re.ASCII)
_LONGEST_NAME = 40
_WIDTH = 100
_MOST_WRITTEN = 64  # integers of a constant that stands in the text
# Through what a weight may go before it is used, and stays one.
_CARRIERS = frozenset(
    {
        "Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile",
        "Transpose", "Unsqueeze",
    }
)  # fmt: skip
_WORDS = SimpleNamespace(**{dtype.name: dtype for dtype in DTYPES.values()})  # hy.float32 ...
_LARGER = frozenset({"ConstantOfShape", "Expand", "Range", "Tile"})  # results of any size
_DTYPE_WORDS = frozenset({"to", "dtype", "output_dtype", "output_datatype", "stash_type"})
_WRITTEN_FLOATS = frozenset({"Resize", "Upsample"})  # whose float operands are written in the text
_NUMBERS = {  # attributes of Constant: where they stand, and as what
    "value_float": ("f", onnx.TensorProto.FLOAT),
    "value_floats": ("floats", onnx.TensorProto.FLOAT),
    "value_int": ("i", onnx.TensorProto.INT64),
    "value_ints": ("ints", onnx.TensorProto.INT64),
}
_HELPERS = (
    "constant",
    "count",
    "known_index",
    "rows",
    "tensor",
)  # of known_values, which texts import
_TEXT_CODES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL)


@dataclass(frozen=True)
class Expression:
    """What stands in the text for a value, and whether it may be a known value."""

    text: str
    known: bool = False
    written: np.ndarray | None = None  # its value, where that stands in the text


class Constant:
    """A tensor of the file: its values, and how the graph uses it."""

    def __init__(self, name: str, array: np.ndarray, code: int) -> None:
        self.name, self.array = name, array
        self.code = code  # TensorProto.DataType
        self.users: set[str] = set()  # ops
        self.is_weight = False
        self.is_initializer = False
        self.path = ""  # in state_dict(); empty where the value stands in the text


@dataclass
class GraphNames:
    """The names of a graph and of those around it."""

    outer: GraphNames | None
    values: dict[str, Expression] = field(default_factory=dict)

    def find(self, name: str) -> Expression | None:
        scope: GraphNames | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None

    def names(self) -> set[str]:
        return set(self.values) | (self.outer.names() if self.outer else set())


Construct = Callable[["ModelText", Any, GraphNames], None]  # writes a node with graphs in it


class ModelText:
    """Writes the text of a model; ``constants`` are its tensors, ``parts`` its modules."""

    def __init__(self, file: ModelFile, constructs: dict[str, Construct]) -> None:
        self.file, self.constructs = file, constructs
        self.lines: list[str] = []
        self.depth = 2
        self.loops = 0  # around what is being written
        self.taken = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "hy"}
        self._counts: dict[str, int] = {}  # of the names that begin alike
        self.taken |= {*function_names(), *_HELPERS}
        self.imports: set[str] = set()
        self.constants: list[Constant] = []
        self.parts: dict[str, Module] = {}
        self._by_graph: dict[int, dict[str, Constant]] = {}
        self._graphs: list[Any] = []
        self._collect(file.proto.graph, {})
        self._decide()

    # What the tensors of the file are --------------------------------------------------------

    def _collect(self, graph: Any, outer: dict[str, Constant]) -> None:
        """Find the constants of ``graph`` and its subgraphs, and what uses them."""
        own: dict[str, Constant] = {}
        for tensor in graph.initializer:
            constant = Constant(tensor.name, array_of(tensor, self.file), tensor.data_type)
            constant.is_initializer = True
            self._add(own, constant)
        for sparse in graph.sparse_initializer:
            values = sparse.values
            self._add(own, Constant(values.name, dense_of(sparse, self.file), values.data_type))
        for node in graph.node:
            if not node.output:
                raise self.file.fail("it has no outputs", node)
            if node.op_type == "Constant" and plain_domain(node.domain) == "":
                self._add(own, self._constant_of(node), node)
        self._graphs.append(graph)  # an object of its own each time it is asked for, else
        self._by_graph[id(graph)] = own
        visible = {**outer, **own}
        carried: dict[str, Constant] = dict(visible)
        for node in graph.node:
            for position, name in enumerate(node.input):
                if name in carried:
                    carried[name].users.add(node.op_type)
                    self._note_weight(node, position, carried[name])
            if (
                node.op_type in _CARRIERS
                and node.input
                and node.input[0] in carried
                and node.output
            ):
                carried.setdefault(node.output[0], carried[node.input[0]])
            for inner in subgraphs(node):
                self._collect(inner, visible)

    def _add(self, own: dict[str, Constant], constant: Constant, node: Any = None) -> None:
        if constant.name in own:
            raise self.file.fail(f"the name {constant.name!r} is given twice", node)
        own[constant.name] = constant
        self.constants.append(constant)

    def _note_weight(self, node: Any, position: int, constant: Constant) -> None:
        since = since_version(node, self.file)
        handler = None
        if since is not None:
            handler = handler_of(node.op_type, plain_domain(node.domain), since)
        if handler is not None and position in handler.weights:
            constant.is_weight = True

    def _constant_of(self, node: Any) -> Constant:
        name = node.output[0]
        for attribute in node.attribute:
            if attribute.name == "value":
                return Constant(name, array_of(attribute.t, self.file), attribute.t.data_type)
            if attribute.name == "sparse_value":
                values = attribute.sparse_tensor.values
                return Constant(
                    name, dense_of(attribute.sparse_tensor, self.file), values.data_type
                )
            if attribute.name in _NUMBERS:
                field, code = _NUMBERS[attribute.name]
                value = getattr(attribute, field)
                numbers = value if isinstance(value, (int, float)) else list(value)
                return Constant(name, np.array(numbers, DTYPES[code].numpy), code)
        given = ", ".join(attribute.name for attribute in node.attribute) or "none"
        raise self.file.fail(f"its value is given as {given}", node, why="Texts are no tensors.")

    def _decide(self) -> None:
        """Which constants are parameters, which buffers, and which stand in the text."""
        taken: dict[str, bool] = {}  # paths, and whether they are tensors
        for constant in self.constants:
            dtype = DTYPES[constant.code]
            array = constant.array
            # Numbers that the author wrote are scalars, or constants of nodes: no weights.
            weighty = array.size > 1 or (array.size == 1 and constant.is_initializer)
            trained = constant.is_weight and dtype.is_floating and array.ndim and weighty
            constant.is_weight = bool(trained)
            if not trained and _is_written(constant):
                continue
            constant.path = _free_path(constant.name, taken)

    # Names -----------------------------------------------------------------------------------

    def fresh(self, name: str, fallback: str = "value") -> str:
        """A variable for the value ``name`` that no other has."""
        word = _NO_WORD.sub("_", name).strip("_")
        if len(word) > _LONGEST_NAME:
            word = word[-_LONGEST_NAME:].partition("_")[2] or word[-_LONGEST_NAME:]
        if not word:
            word = fallback
        if word[0].isdigit():
            word = f"v{word}"
        made = word
        while made in self.taken:
            self._counts[word] = number = self._counts.get(word, 1) + 1
            made = f"{word}_{number}"
        self.taken.add(made)
        return made

    def argument(self, name: str, scope: GraphNames) -> str:
        """The variable of an input of the whole graph."""
        variable = self.fresh(name, "x")
        scope.values[name] = Expression(variable)
        return variable

    def use(self, text: str) -> str:
        """``text``, a function that the text has to import."""
        self.imports.add(text)
        return text

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def as_tensor(self, expression: Expression) -> str:
        """The text of ``expression`` as a tensor."""
        return f"{self.use('tensor')}({expression.text})" if expression.known else expression.text

    # Graphs ----------------------------------------------------------------------------------

    def scope_of(self, graph: Any, outer: GraphNames | None) -> GraphNames:
        """The names of ``graph`` before its nodes: its constants, and those around it."""
        scope = GraphNames(outer)
        around = outer.names() if outer else set()
        for name, constant in self._by_graph[id(graph)].items():
            if name in around:
                raise self.file.fail(f"the name {name!r} is given twice")
            scope.values[name] = self._constant_expression(constant)
        return scope

    def _constant_expression(self, constant: Constant) -> Expression:
        if constant.path:
            return Expression(state_text(constant.path))
        return self._written(constant.array, DTYPES[constant.code])

    def _written(self, array: np.ndarray, dtype: DType) -> Expression:
        """A known value as the text has it."""
        said = number_text(array, dtype.is_floating)
        kind = "" if dtype.name == "int64" else f", hy.{dtype.name}"
        self.use("constant")
        return Expression(f"constant({said}{kind})", True, array)

    def body(self, graph: Any, scope: GraphNames, wanted: list[str]) -> None:
        """Write the nodes of ``graph`` that ``wanted``, names of values, need."""
        constants = self._by_graph[id(graph)]
        nodes = [n for n in graph.node if not (n.output and n.output[0] in constants)]
        ordered = in_order(nodes, scope.names(), self.file)
        needed, kept = set(wanted), []
        for node in reversed(ordered):
            if needed.intersection(node.output):
                needed.update(outer_names(node))
                kept.append(node)
        for node in reversed(kept):
            self.node(node, scope, needed)

    def value(self, name: str, scope: GraphNames, node: Any = None) -> Expression:
        found = scope.find(name)
        if found is None:
            raise self.file.fail(f"it reads {name!r}, which nothing gives", node)
        return found

    def node(self, node: Any, scope: GraphNames, needed: set[str]) -> None:
        """Write one node."""
        construct = self.constructs.get(node.op_type) if plain_domain(node.domain) == "" else None
        if construct is not None:
            construct(self, node, scope)
            return
        since = since_version(node, self.file)
        assert since is not None
        handler = handler_of(node.op_type, plain_domain(node.domain), since)
        assert handler is not None
        inputs = [self.value(name, scope, node) if name else None for name in node.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        if not handler.fewest <= len(inputs) <= handler.most or None in inputs[: handler.fewest]:
            raise self.file.fail(
                f"it has {len(inputs)} inputs", node, why=_counts(handler.fewest, handler.most)
            )
        if node.op_type == "Identity" and plain_domain(node.domain) == "":
            first = inputs[0]
            assert first is not None
            scope.values[node.output[0]] = first
            return
        self._write_call(node, scope, handler, inputs, needed)

    def _write_call(
        self,
        node: Any,
        scope: GraphNames,
        handler: NodeHandler,
        inputs: list[Expression | None],
        needed: set[str],
    ) -> None:
        outputs = list(node.output)
        while len(outputs) > 1 and outputs[-1] not in needed:
            outputs.pop()
        if len(outputs) > 1 and not handler.counts_outputs:
            raise self.file.fail(f"it has {len(outputs)} outputs", node, why="It gives one.")
        known = handler.always_known or (
            handler.gives_known and all(item is None or item.known for item in inputs)
        )
        if isinstance(handler.function, type):  # a module, made of the attributes
            called = self._part(node, handler)
            words = []
        else:
            called = handler.text if "." in handler.text else self.use(handler.text)
            words = self._attributes(node, handler)
        direct = "." in handler.text  # a function of hy, which takes tensors
        arguments = [
            "None" if item is None else self.as_tensor(item) if direct else item.text
            for item in inputs
        ]
        if len(outputs) > 1:
            words.append(f"outputs={len(outputs)}")
        elif (
            known
            and node.op_type not in _LARGER
            and all(item is None or item.written is not None for item in inputs)
        ):
            folded = self._folded(handler, [*arguments, *words])
            if folded is not None:
                scope.values[outputs[0]] = folded
                return
        names = [
            self.fresh(name, node.op_type.lower()) if name in needed else "_" for name in outputs
        ]
        self._write_wrapped(", ".join(names), called, [*arguments, *words])
        for name, variable in zip(outputs, names, strict=True):
            if variable != "_":
                scope.values[name] = Expression(variable, known)

    def _folded(self, handler: NodeHandler, arguments: list[str]) -> Expression | None:
        """What a call of constants gives, if it can stand in the text in the place of the call.

        The arguments are texts that were written here, as all that the module runs later.
        """
        names = {"hy": _WORDS, "constant": known_values.constant, "call": handler.function}
        try:
            found = eval(f"call({', '.join(arguments)})", names)
        except (OnnxError, ArithmeticError, IndexError, TypeError, ValueError):
            return None  # a run raises it, and says where
        if type(found) is not np.ndarray or found.dtype == object or found.ndim > 1:
            return None
        if not found.size or found.size > _MOST_WRITTEN:
            return None
        return self._written(found, dtype_of(found.dtype))

    def _write_wrapped(self, target: str, called: str, arguments: list[str]) -> None:
        line = f"{target} = {called}({', '.join(arguments)})"
        if len(line) + 4 * self.depth <= _WIDTH:
            self.write(line)
            return
        self.write(f"{target} = {called}(")
        for argument in arguments:
            self.write(f"    {argument},")
        self.write(")")

    def _part(self, node: Any, handler: NodeHandler) -> str:
        """The module that stands for a node: it is made once, of the attributes."""
        name = self.fresh(node.name, handler.text.lower())
        while any(constant.path.split(".")[0] == name for constant in self.constants):
            name = self.fresh(name)
        name = _safe(name)
        words = {}
        for attribute in node.attribute:
            self._check_attribute(node, handler, attribute)
            words[attribute.name] = self._attribute_value(node, attribute)
        try:
            self.parts[name] = handler.function(**words)
        except (TypeError, ValueError, IndexError) as error:
            raise self.file.fail(f"its attributes do not agree: {error}", node) from error
        return f"self.{name}"

    # Attributes ------------------------------------------------------------------------------

    def _check_attribute(self, node: Any, handler: NodeHandler, attribute: Any) -> None:
        if attribute.name not in handler.attributes:
            allowed = ", ".join(sorted(handler.attributes)) or "none"
            raise self.file.fail(
                f"unknown attribute {attribute.name!r}", node, why=f"It knows {allowed}."
            )

    def _attributes(self, node: Any, handler: NodeHandler) -> list[str]:
        words = []
        for attribute in node.attribute:
            if attribute.name in IGNORED:
                continue
            self._check_attribute(node, handler, attribute)
            said = self._attribute_text(node, attribute)
            if said != handler.defaults.get(attribute.name):
                words.append(f"{attribute.name}={said}")
        return words

    def _attribute_text(self, node: Any, attribute: Any) -> str:
        value = self._attribute_value(node, attribute)
        if attribute.name in _DTYPE_WORDS and isinstance(value, int):
            if value == 0 or (attribute.name == "stash_type" and value not in DTYPES):
                return "None"
            return f"hy.{dtype_at(value, self.file, f'attribute {attribute.name!r}', node).name}"
        if isinstance(value, np.ndarray):
            dtype = DTYPES[attribute.t.data_type]
            if dtype.numpy is None:
                raise self.file.fail(f"attribute {attribute.name!r} is of type BFLOAT16", node)
            said = number_text(value, dtype.is_floating)
            return f"{self.use('constant')}({said}, hy.{dtype.name})"
        return number_text(value, True)

    def _attribute_value(self, node: Any, attribute: Any) -> Any:
        kind = attribute.type
        if kind == AttributeProto.TENSOR:
            return array_of(attribute.t, self.file)
        if attribute.ref_attr_name:
            raise self.file.fail(f"attribute {attribute.name!r} refers to no function", node)
        if kind in (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS,
                    AttributeProto.FLOATS):  # fmt: skip
            value = onnx.helper.get_attribute_value(attribute)
            return value if isinstance(value, (int, float)) else list(value)
        if kind == AttributeProto.STRING:
            return attribute.s.decode("utf-8", "replace")
        if kind == AttributeProto.STRINGS:
            return [text.decode("utf-8", "replace") for text in attribute.strings]
        raise self.file.fail(
            f"attribute {attribute.name!r} is of type {AttributeProto.AttributeType.Name(kind)}",
            node,
        )


def _is_written(constant: Constant) -> bool:
    """Whether a constant that is not trained stands in the text as a known value."""
    array, dtype = constant.array, DTYPES[constant.code]
    if dtype.numpy is None or array.ndim > 1:
        return False
    if array.size == 1 or constant.code in _TEXT_CODES:
        return array.size <= _MOST_WRITTEN
    written = bool(constant.users) and constant.users <= _WRITTEN_FLOATS
    return array.size <= _MOST_WRITTEN and written


def _safe(name: str) -> str:
    """``name`` unless modules have an attribute of that name."""
    while hasattr(Module, name) or name in ("source", "file", "training"):
        name += "_"
    return name


def _free_path(name: str, taken: dict[str, bool]) -> str:
    """The path of the tensor ``name`` in ``state_dict()``: the name, unless it cannot be one."""
    parts = name.split(".")
    if not all(parts):
        parts = ["_".join(part for part in parts if part) or "tensor"]
    parts = [_safe(part) for part in parts]
    while True:
        inner = [".".join(parts[:end]) for end in range(1, len(parts))]
        path = ".".join(parts)
        if path not in taken and not any(taken.get(prefix) for prefix in inner):
            break
        if any(taken.get(prefix) for prefix in inner):
            parts = ["_".join(parts)]
        else:
            parts[-1] += "_"
    taken.update(dict.fromkeys(inner, False))
    taken[path] = True
    return path


def state_text(path: str) -> str:
    """``self.conv1.weight``; ``getattr(self.layers, "0")`` where a name is no word of Python."""
    text = "self"
    for part in path.split("."):
        if part.isidentifier() and part.isascii() and not keyword.iskeyword(part):
            text = f"{text}.{part}"
        else:
            text = f"getattr({text}, {quoted(part)})"
    return text


def number_text(value: Any, is_single: bool) -> str:
    """The text of a number, a text, an array or a list of these; floats as short as may be."""
    if isinstance(value, np.ndarray):
        return number_text(value.tolist(), is_single and value.dtype != np.float64)
    if isinstance(value, list):
        return f"[{', '.join(number_text(item, is_single) for item in value)}]"
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        short = float(str(np.float32(value))) if is_single and abs(value) < 3e38 else value
        return repr(short if np.float32(short) == np.float32(value) else value)
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """The text of a text, in double quotes where that changes nothing else."""
    said = repr(text)
    return said if '"' in said else f'"{said[1:-1]}"'


def _counts(fewest: int, most: int) -> str:
    if fewest == most:
        return f"It takes {fewest}."
    return f"It takes {fewest} at least." if most >= 2**31 else f"It takes {fewest} to {most}."
