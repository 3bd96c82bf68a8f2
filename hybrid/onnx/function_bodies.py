"""Functions of models: calls of those in the file, and of ops that are defined by others, inlined.

The package onnx does the work, on a copy of the model without its weights: that of an op whose body
depends on the types of its inputs needs these for the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import inliner

from hybrid.onnx.model_file import DOMAINS, ModelFile, all_nodes, domain_of, plain_domain, subgraphs
from hybrid.onnx.node_table import REFUSED, handled, handler_of

CONTROL = frozenset({"If", "Loop", "Scan", "Constant", "SequenceMap"})  # written as Python's own
_BODIES = "hybrid.bodies"  # the domain of functions that are inlined at once
_MOST_ROUNDS = 20
_SMALL = 256  # bytes of a weight that stays: types may follow from its values


def since_version(node: Any, file: ModelFile) -> int | None:
    """The version in which the op of ``node`` became what the model means; None if unknown."""
    domain = plain_domain(node.domain)
    version = file.versions.get(domain)
    if version is None or domain not in DOMAINS:
        return None
    try:
        return onnx.defs.get_schema(node.op_type, version, domain).since_version
    except onnx.defs.SchemaError:
        return None


def is_handled(node: Any, file: ModelFile) -> bool:
    """Whether a function, or Python's own control flow, stands for the op of ``node``."""
    since = since_version(node, file)
    if since is None:
        return False
    domain = plain_domain(node.domain)
    if domain == "" and node.op_type in CONTROL:
        return True
    return handler_of(node.op_type, domain, since) is not None


def has_body(node: Any, file: ModelFile) -> bool:
    """Whether ONNX defines the op of ``node`` by others."""
    if since_version(node, file) is None:
        return False
    domain = plain_domain(node.domain)
    schema = onnx.defs.get_schema(node.op_type, file.versions[domain], domain)
    return schema.has_function or schema.has_context_dependent_function


def inlined(file: ModelFile) -> ModelFile:
    """``file`` without calls of functions; OnnxError names all ops that nothing stands for."""
    proto = file.proto
    own = {(plain_domain(f.domain), f.name) for f in proto.functions}
    if own:
        _refuse_circles(file)
    others = [node for node in all_nodes(proto.graph.node) if not is_handled(node, file)]
    inner = [node for f in proto.functions for node in all_nodes(f.node)]
    unknown = [
        node
        for node in [*others, *(node for node in inner if not is_handled(node, file))]
        if (plain_domain(node.domain), node.op_type) not in own and not has_body(node, file)
    ]
    if unknown:
        raise _unknown(unknown, file)
    if not others:
        return file
    light, weights = _without_weights(proto)
    if own:
        _write_own_defaults(light)
        light = inliner.inline_local_functions(light)
    for _ in range(_MOST_ROUNDS):
        file = ModelFile(light, file.label, file.folder, _versions_of(light))
        others = [node for node in all_nodes(light.graph.node) if not is_handled(node, file)]
        unknown = [node for node in others if not has_body(node, file)]
        if unknown:
            raise _unknown(unknown, file)
        if not others:
            break
        names = sorted({(plain_domain(node.domain), node.op_type) for node in others})
        before = len(others)
        for node in others:
            _write_defaults(node, file)
        try:
            light = _with_own_bodies(onnx.shape_inference.infer_shapes(light), file)
            light = inliner.inline_selected_functions(light, names, inline_schema_functions=True)
        except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as error:
            raise file.fail(f"the body of an op cannot be had: {error}", others[0]) from error
        after = [n for n in all_nodes(light.graph.node) if not is_handled(n, file)]
        if len(after) >= before and {id(n) for n in after} == {id(n) for n in others}:
            raise _unknown(after, file)
    else:
        raise file.fail("functions call functions without end", others[0])
    _restore(light, weights)
    return ModelFile(light, file.label, file.folder, file.versions)


def _with_own_bodies(light: Any, file: ModelFile) -> Any:
    """Inline ops that leave out inputs in the middle, and whose body depends on types.

    The inliner of the package onnx asks for the types of all inputs, those that are not there too.
    """
    types: dict[str, Any] = {}
    for graph in _graphs(light.graph):
        for value in (*graph.input, *graph.value_info, *graph.output):
            types[value.name] = value.type
        for tensor in graph.initializer:
            types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    made = 0
    for node in [n for n in all_nodes(light.graph.node) if not is_handled(n, file)]:
        domain = plain_domain(node.domain)
        version = file.versions[domain]
        schema = onnx.defs.get_schema(node.op_type, version, domain)
        if not schema.has_context_dependent_function or "" not in node.input:
            continue
        given = [(types.get(name) or onnx.TypeProto()).SerializeToString() for name in node.input]
        body = onnx.FunctionProto.FromString(
            schema.get_context_dependent_function(node.SerializeToString(), given)
        )
        made += 1
        body.name, body.domain = f"{node.op_type}_{made}", _BODIES
        del body.attribute[:]
        del body.attribute_proto[:]
        light.functions.add().CopyFrom(body)
        node.op_type, node.domain = body.name, _BODIES
        del node.attribute[:]
    if not made:
        return light
    light.opset_import.append(onnx.helper.make_opsetid(_BODIES, 1))
    return inliner.inline_local_functions(light)


def _graphs(graph: Any) -> Iterator[Any]:
    """``graph`` and all graphs in it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _write_defaults(node: Any, file: ModelFile) -> None:
    """Give ``node`` the attributes that it leaves to their defaults: its body refers to them."""
    domain = plain_domain(node.domain)
    schema = onnx.defs.get_schema(node.op_type, file.versions[domain], domain)
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.add().CopyFrom(attribute.default_value)


def _write_own_defaults(light: Any) -> None:
    """The same for calls of functions of the file."""
    functions = {(plain_domain(f.domain), f.name): f for f in light.functions}
    for body in (light.graph, *light.functions):
        for node in all_nodes(body.node):
            called = functions.get((plain_domain(node.domain), node.op_type))
            given = {attribute.name for attribute in node.attribute}
            for attribute in called.attribute_proto if called is not None else ():
                if attribute.name not in given:
                    node.attribute.add().CopyFrom(attribute)


def _versions_of(proto: Any) -> dict[str, int]:
    return {plain_domain(entry.domain): entry.version for entry in proto.opset_import}


def _without_weights(proto: Any) -> tuple[Any, dict[str, Any]]:
    """A copy in which large initializers are inputs, and these by name."""
    light, weights = onnx.ModelProto(), {}
    _copy(proto, light, "graph")
    _copy(proto.graph, light.graph, "initializer")
    given = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if len(tensor.raw_data) <= _SMALL and not tensor.external_data:
            light.graph.initializer.add().CopyFrom(tensor)
            continue
        weights[tensor.name] = tensor
        if tensor.name not in given:
            light.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light, weights


def _copy(source: Any, target: Any, but: str) -> None:
    """Copy all fields of a message but one."""
    for field, value in source.ListFields():
        if field.name == but or isinstance(value, bytes):  # bytes: of a text that is none
            continue
        if isinstance(value, (str, int, float)):
            setattr(target, field.name, value)
        elif hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        else:
            getattr(target, field.name).CopyFrom(value)


def _restore(light: Any, weights: dict[str, Any]) -> None:
    """Give a model its weights again; those that were inputs, too, are no longer."""
    kept = [value for value in light.graph.input if value.name not in weights]
    del light.graph.input[:]
    light.graph.input.extend(kept)
    for tensor in weights.values():
        light.graph.initializer.add().CopyFrom(tensor)


def _refuse_circles(file: ModelFile) -> None:
    """Raise if functions of the file call one another in a circle."""
    calls = {
        (plain_domain(f.domain), f.name): {
            (plain_domain(node.domain), node.op_type) for node in all_nodes(f.node)
        }
        for f in file.proto.functions
    }
    state: dict[tuple[str, str], int] = {}

    def visit(function: tuple[str, str]) -> None:
        state[function] = 1
        for other in sorted(calls[function] & calls.keys()):
            if state.get(other) == 1:
                raise file.fail(f"the function {other[1]!r} calls itself")
            if other not in state:
                visit(other)
        state[function] = 2

    if len(calls) != len(file.proto.functions):
        raise file.fail("two functions have one name")
    for function in calls:
        if function not in state:
            visit(function)


def _unknown(nodes: list[Any], file: ModelFile) -> Exception:
    """The error that lists all ops of ``nodes``, each once."""
    rows: dict[str, int] = {}
    for node in nodes:
        domain = plain_domain(node.domain)
        version = file.versions.get(domain)
        row = f"{domain_of(node)}{node.op_type}" + (f" of opset {version}" if version else "")
        if (domain, node.op_type) in REFUSED:
            row += f" ({REFUSED[domain, node.op_type]})"
        elif (domain, node.op_type) in handled():
            row += " (other opsets are known)"
        rows[row] = rows.get(row, 0) + 1
    listed = ", ".join(
        f"{row} ({count} nodes)" if count > 1 else row for row, count in rows.items()
    )
    return file.fail(
        f"{len(rows)} ops are unknown: {listed}" if len(rows) > 1 else f"unknown op: {listed}",
        why="An op needs a function in hybrid.onnx, or a body: a function of the file, or one that "
        "ONNX defines it by.",
        fix="export the model with ops of ai.onnx, or with the bodies of its functions",
    )
