"""What of a quantized model still computes in floats: layers, and products in function calls.

The latter are found in the captured graph, with the author's line: a product of what depends on the
inputs of the model with what depends on its weights alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hybrid import nn
from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.quantization import QUANTIZED
from hybrid.compress.quantized_layers import QuantizedEmbedding, QuantizedLayer
from hybrid.compress.reports.measures import eager_copy
from hybrid.compress.training_aware import PreparedLayer
from hybrid.compress.weights import PRODUCTS
from hybrid.core.package import module_of
from hybrid.errors import CaptureError, Location, author_location
from hybrid.ir import Graph, Node, Value
from hybrid.nn.modules.module import Module
from hybrid.ops.flow.control import LOOPS, cond
from hybrid.passes.control.parts import Cond, LoopParts
from hybrid.trace.capture.captured_graph import Capture

Weights = frozenset[int]  # ids of tensors; none of them: a constant


class FloatPart(NamedTuple):
    """A layer, or a weight in a product, that is of floats, and why.

    ``at`` is the author's line of a product; None where there is none, as within this package.
    """

    name: str
    kind: str
    reason: str
    at: Location | None = None


def layers_left(model: Module) -> list[FloatPart]:
    """The layers of kinds that can be quantized, and are not."""
    found = []
    for name, layer in model.named_modules():
        kind = next((k for k in QUANTIZED if isinstance(layer, k)), None)
        if kind is None or isinstance(layer, QuantizedLayer):
            continue
        found.append(FloatPart(name or "(model)", type(layer).__name__, _reason(layer, kind)))
    return found


def _reason(layer: Module, kind: type[Module]) -> str:
    if isinstance(layer, PreparedLayer):
        return "it is prepared: convert makes integers of it"
    if type(layer) is kind:
        return QUANTIZED[kind].refusal(layer) or "it was skipped"
    return f"a subclass of {kind.__name__}, whose forward may be another"


def products_left(
    model: Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[FloatPart], str]:
    """Products with weights that no layer of ``layers_left`` stands for; what was not looked at.

    They are those of the graph that the call ``model(*args, **kwargs)`` is captured into, the
    branches that were not taken included.
    """
    twin: Any = eager_copy(model)
    caller = author_location()  # the line of what no line of the author's is nearer to
    owners = _owners(twin)
    twin.hybridize()
    try:
        with no_grad():
            _, capture = twin._hybridized.captured(tuple(args), dict(kwargs))
    except CaptureError as error:
        return [], f"The model cannot be captured: {error.what}."
    rows: dict[FloatPart, None] = {}
    for node, tensors in _products(capture):
        for name, holder in [owners[key] for key in tensors if key in owners]:
            reason = _outside(holder)
            if reason:
                at = None if node.location == caller else node.location
                rows[FloatPart(name, node.op.name, reason, at)] = None
    return list(rows), _cut(capture.graph, caller)


def _cut(graph: Graph, caller: Location | None) -> str:
    """What is to be said of a graph that ends where the path decides sizes."""
    last = graph.nodes[-1] if graph.nodes else None
    if last is None or last.op.name != "size_value":
        return ""
    where = "" if last.location in (None, caller) else f" at {last.location}"
    return f"The path decides sizes{where}: products behind that are not listed."


def _owners(model: Module) -> dict[int, tuple[str, Module]]:
    """Of every tensor of the model: its name, and the module that holds it."""
    found: dict[int, tuple[str, Module]] = {}
    for path, holder in model.named_modules():
        for kind in ("parameters", "buffers"):
            for name, tensor in holder._own(kind):
                if isinstance(holder, QuantizedLayer):  # bytes and scales stand for one weight
                    name = name.removesuffix("_q").removesuffix("_scale").removesuffix("_zero")
                found.setdefault(id(tensor), (f"{path}.{name}" if path else name, holder))
    return found


def _outside(holder: Module) -> str:
    """Why a product in floats with a weight of ``holder`` is worth a row; empty if it is not."""
    table = isinstance(holder, (nn.Embedding, QuantizedEmbedding))
    if isinstance(holder, QuantizedLayer):
        # Layers of weights alone multiply floats by them; those of other methods only integers.
        own = holder.scheme.method == "weight_only" and not table
        return "" if own else CALL
    if isinstance(holder, tuple(QUANTIZED)) and not table:
        return ""
    if module_of(type(holder)).startswith("hybrid.nn."):
        return CALL if table else f"there is no quantized {type(holder).__name__}"
    return CALL


CALL = "a function call, and no layer"


# Products of a graph -----------------------------------------------------------------------------


def _products(capture: Capture) -> Iterator[tuple[Node, Weights]]:
    """The products of what depends on inputs with weights, and which tensors these are."""
    known: dict[Value, Weights] = {}
    written = {at for at, _ in capture.writes}  # caches and the like
    for at, (value, source) in enumerate(zip(capture.graph.params, capture.sources, strict=True)):
        if at in written:
            continue
        if source.kind == "cell":
            known[value] = frozenset([id(source.tensor)])
        elif source.kind == "attribute":
            known[value] = frozenset([id(source.address.read())])
    yield from _of_graph(capture.graph, known)


def _of_graph(graph: Graph, known: dict[Value, Weights]) -> Iterator[tuple[Node, Weights]]:
    """``known`` has what depends on no input: the tensors that it depends on."""
    for node in graph.nodes:
        given = [known.get(value) for value in node.operands]
        fixed = frozenset[int]().union(*[ids for ids in given if ids is not None])
        if node.op.name in PRODUCTS and None in given and fixed:
            yield node, fixed
        for region in node.regions:
            yield from _of_graph(region, _entering(node, region, known))
        if None not in given:
            known.update(dict.fromkeys(node.results, fixed))


def _entering(node: Node, region: Graph, known: dict[Value, Weights]) -> dict[Value, Weights]:
    """What is known of the parameters of a region; what loops carry counts as changing."""
    if node.op is cond:
        branch = node.regions.index(region)
        pairs = [(param.params[branch], param.operand) for param in Cond(node).inputs]
    elif node.op in LOOPS:
        parts = LoopParts(node)
        pairs = [(param, operand) for operand, param in (*parts.slices, *parts.invariants)]
    elif len(region.params) == len(node.operands):
        pairs = list(zip(region.params, node.operands, strict=True))
    else:
        pairs = []
    return {param: known[operand] for param, operand in pairs if operand in known}
