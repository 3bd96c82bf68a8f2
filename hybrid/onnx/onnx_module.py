"""OnnxModule: a model of ONNX as a module, whose ``forward`` is written in Python by ``load``."""

from __future__ import annotations

import itertools
import linecache
import re
import weakref
from os import PathLike
from typing import Any

from hybrid.errors import OnnxError
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.onnx import handlers as handlers  # they enter the table
from hybrid.onnx.control_text import CONSTRUCTS
from hybrid.onnx.function_bodies import inlined
from hybrid.onnx.model_file import ModelFile, dtype_at, read_model, tensor_of
from hybrid.onnx.model_text import ModelText
from hybrid.onnx.node_table import owner_of

_PLAIN = re.compile(r"[^\w .,:+-]", re.ASCII)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\(")
_KINDS = {
    "map_type": "a map",
    "optional_type": "an optional value",
    "sequence_type": "a sequence",
    "sparse_tensor_type": "a sparse tensor",
}
_numbers = itertools.count(1)


class OnnxModule(Module):
    """A model that was read from ONNX: called with tensors in the order of the graph's inputs.

    It gives a tensor, or a tuple of them where the graph has several outputs.  ``parameters()`` are
    the float initializers that products, sums, convolutions, norms and embeddings use;
    ``state_dict()`` has the names of initializers.  ``training`` changes nothing: batch norms and
    dropouts do what the graph says.
    """

    _text = ""
    _label = ""
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def source(self) -> str:
        """The Python text of this module's class: the very text that runs."""
        return self._text

    def __reduce__(self) -> Any:
        given = (self._text, self._label, self.input_names, self.output_names, type(self).__doc__)
        return _made, given, self.__getstate__()


def load(
    model: str | PathLike[str] | bytes | Any, *, folder: str | PathLike[str] | None = None
) -> OnnxModule:
    """The module that an ONNX model says: the path of a file, its bytes, or a ModelProto.

    Weights outside the file are read from the folder of the file, or ``folder``.  The model is one
    of opset 1 to that of the installed package ``onnx``; an op without a function here and without
    a body raises OnnxError, which lists all of these, as does all else that a file has wrong.
    """
    file = inlined(read_model(model, folder))
    graph = file.proto.graph
    text = ModelText(file, CONSTRUCTS)
    scope = text.scope_of(graph, None)
    names = []
    for value in graph.input:
        if value.name in scope.values:  # it has a default, which is a weight here
            continue
        _require_tensor(value, "input", file)
        if value.name in names:
            raise file.fail(f"two inputs are called {value.name!r}")
        names.append(value.name)
    for value in graph.output:
        _require_tensor(value, "output", file)
    arguments = [text.argument(name, scope) for name in names]
    results = [value.name for value in graph.output]
    text.body(graph, scope, results)
    found = [text.as_tensor(text.value(name, scope)) for name in results]
    if not found:
        raise file.fail("the graph has no outputs")
    text.write(f"return {', '.join(found)}")
    doc = file.proto.doc_string or None
    made = _made(_class_text(text, arguments), file.label, tuple(names), tuple(results), doc)
    for constant in text.constants:
        if constant.path:
            tensor = tensor_of(constant.array, constant.code)
            _place(made, constant.path, tensor, constant.is_weight)
    for name, part in text.parts.items():
        made.add_module(name, part)
    return made


def _require_tensor(value: Any, what: str, file: ModelFile) -> None:
    kind = value.type.WhichOneof("value")
    if kind is None and what == "output":  # its type follows from the nodes
        return
    if kind != "tensor_type":
        raise file.fail(
            f"{what} {value.name!r} is {_KINDS.get(kind, 'of no type')}",
            why="A module takes and gives tensors.",
            fix="export a part of the model that takes and gives tensors",
        )
    if value.type.tensor_type.elem_type:
        dtype_at(value.type.tensor_type.elem_type, file, f"{what} {value.name!r}")


def _class_text(text: ModelText, arguments: list[str]) -> str:
    """The whole text: imports, and the class."""
    file = text.file
    versions = ", ".join(
        f"{name or 'ai.onnx'} {version}" for name, version in file.versions.items()
    )
    proto = file.proto
    maker = _PLAIN.sub(" ", f"{proto.producer_name} {proto.producer_version}").strip()
    said = f'"""{_PLAIN.sub(" ", file.label)}: {_PLAIN.sub(" ", versions)}'
    said += f'; written by {maker}."""' if maker else '."""'
    modules: dict[str, list[str]] = {"hybrid.onnx": ["OnnxModule"]}
    called = set(_CALLED.findall("\n".join(text.lines)))  # not all that was asked for is written
    for name in sorted(text.imports & called):
        owner = owner_of(name)
        module = "hybrid.onnx.known_values" if owner is None else owner.__module__
        modules.setdefault(module, []).append(name)
    lines = [said, "", "import hybrid as hy"]
    for module in sorted(modules):
        line = f"from {module} import {', '.join(modules[module])}"
        if len(line) > 100:
            line = f"from {module} import (\n    " + ",\n    ".join(modules[module]) + ",\n)"
        lines.append(line)
    head = f"def forward({', '.join(['self', *arguments])}):"
    name = _class_name(file.proto.graph.name or file.label.partition(".")[0])
    lines += ["", "", f"class {name}(OnnxModule):", f"    {head}", *text.lines, ""]
    return "\n".join(lines)


def _class_name(name: str) -> str:
    """``name`` as classes are called."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    made = "".join(word[:1].upper() + word[1:] for word in words)[:40]
    return made if made[:1].isalpha() and made != "OnnxModule" else f"Model{made}"


def _made(
    text: str,
    label: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    doc: str | None = None,  # which pickles of before do not have
) -> OnnxModule:
    """A module of the class that ``text`` defines, without its weights."""
    path = f"<onnx {label} {next(_numbers)}>"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    namespace: dict[str, Any] = {"__name__": path}
    try:
        exec(compile(text, path, "exec"), namespace)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise OnnxError(
            f"{label}: its graphs lie in graphs too deep for Python: {error}",
            why="Loops may lie in one another 20 deep, conditions about 90.",
        ) from None
    [kind] = [
        value
        for value in namespace.values()
        if isinstance(value, type) and issubclass(value, OnnxModule) and value is not OnnxModule
    ]
    weakref.finalize(kind, linecache.cache.pop, path, None)
    kind._text, kind._label, kind.input_names, kind.output_names = text, label, inputs, outputs
    kind.__doc__ = doc
    return kind()


def _place(module: Module, path: str, tensor: Any, trained: bool) -> None:
    """Make ``tensor`` the parameter or buffer at ``path``; modules on the way are made."""
    *folders, name = path.split(".")
    for folder in folders:
        inner = vars(module).get(folder)
        if inner is None:
            inner = Module()
            module.add_module(folder, inner)
        module = inner
    if trained:
        module.register_parameter(name, Parameter(tensor))
    else:
        module.register_buffer(name, tensor)
