"""smooth: scales of channels move from activations into weights, so that few bits hold both.

G. Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language
Models", 2023.  Before and after, of a norm and what reads it::

    y = norm(x) * w + b
    y @ weight.T
    y = norm(x) * (w / s) + b / s
    y @ (weight * s).T
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.channels.channel_groups import EvaluatedGraph
from hybrid.compress.quantization import (
    DATA,
    arguments,
    batches_of,
    require_names,
    require_plain,
    watched,
)
from hybrid.compress.weights import label_of, numbers
from hybrid.core.dataclass import dataclass
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, Location, warn_author
from hybrid.ir import Node, Op, Value
from hybrid.ir.interpreter import interpreting
from hybrid.nn.modules.module import Module
from hybrid.nn.op_counts import Counter

NORMS = ("layer_norm", "rms_norm")
HOMOGENEOUS = ("relu", "leaky_relu")  # f(s x) = s f(x) of positive s
MOST = 24  # a scale is a power of two from 2**-24 to 2**24


def smooth(
    model: Module,
    data: Iterable[Any],
    *,
    strength: float = 0.5,
    skip: Sequence[str] = (),
    inplace: bool = False,
) -> Module:
    """A copy of ``model`` that computes the same, and loses less when it is quantized.

    Where a few channels of what goes into linear layers (or the projections of attention) are much
    larger than the others, the scale of a row leaves little to these.  So each such channel is
    divided by ``s = max|x| ** strength / max|w| ** (1 - strength)`` where it is made, in the weight
    and bias of a norm or of a linear layer (that relu may follow), and the columns of the weights
    that read it are multiplied.  ``max|x|`` is over the batches of ``data`` (as of ``quantize``),
    ``s`` is rounded to a power of two: so the results of floats keep their very bits, unless
    numbers are so small that they lose digits.  ``strength`` is from 0 (weights alone count) to 1.

    A channel can be smoothed where the captured graph shows that such products alone read it.
    What cannot is left as it is, and a warning names it with the reason; so are layers in ``skip``.
    ArgumentError if nothing can be smoothed.  ``inplace`` changes the model itself.
    """
    number = isinstance(strength, (int, float)) and not isinstance(strength, bool)
    if not number or not 0 <= strength <= 1:
        raise ArgumentError(f"strength is {strength!r}", fix="give a number from 0 to 1")
    require_plain(model)
    skipped = require_names(model, skip)
    batches = batches_of(data)
    network = model if inplace else copy.deepcopy(model)
    names = _names(network)
    for batch in batches:
        args, kwargs = arguments(batch)
        with watched(network):
            graph = EvaluatedGraph(network, args, kwargs)
        break
    else:
        raise ArgumentError("the data to smooth by are empty", fix=DATA)
    groups, left = _Channels(graph, names, skipped).groups()
    if not groups:
        shown = "".join(f"\n  {one}" for one in left)
        raise ArgumentError(
            f"nothing in this {type(model).__name__} can be smoothed{shown and ':'}{shown}",
            why="Products alone may read what a norm or linear layer makes.",
            fix="quantize it as it is",
        )
    weights = {id(cell): names[id(cell)] for group in groups for cell in group.reading}
    most = _largest(network, weights, batches)
    made = _scaled(groups, most, float(strength))
    with no_grad():
        for cell, value in made:
            cell.assign(asarray(value))
    if left:
        warn_author("smooth left what goes into\n  " + "\n  ".join(map(str, left)))
    return network


@dataclass(frozen=True)
class _Left:
    """A weight whose input is not smoothed, and why."""

    name: str
    why: str
    at: Location | None

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" + (f" ({self.at})" if self.at else "")


@dataclass(frozen=True, eq=False)
class _Smoothable:
    """Channels that can be smoothed: cells that make them, along their axis 0, and that read them.

    ``reading`` are matrices whose axis 1 the channels are.
    """

    making: tuple[Tensor, ...]
    reading: tuple[Tensor, ...]


class _Refused(Exception):
    """Why channels cannot be smoothed."""

    def __init__(self, why: str, node: Node | None = None) -> None:
        super().__init__(why)
        self.why, self.node = why, node


def _names(network: Module) -> dict[int, str]:
    """What the tensors of the state are called, by their ids."""
    found: dict[int, str] = {}
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        found.setdefault(id(tensor), name)
    return found


class _Channels:
    """The graph of a model, looked at for norms, linear layers and what reads them."""

    def __init__(self, graph: EvaluatedGraph, names: dict[int, str], skipped: Any) -> None:
        self.graph, self.names, self.skipped = graph, names, skipped

    def groups(self) -> tuple[list[_Smoothable], list[_Left]]:
        """What can be smoothed, in the order of the graph, and what cannot."""
        makers: dict[Node, list[tuple[Node, Tensor]]] = {}
        left: dict[str, _Left] = {}
        for node in self.graph.graph.nodes:
            weight = self._weight(node)
            if weight is None or node.operands[0] in self.graph.static:
                continue
            try:
                makers.setdefault(self._maker(node.operands[0]), []).append((node, weight))
            except _Refused as refused:
                self._leave(left, weight, refused)
        groups = []
        for maker, readers in makers.items():
            try:
                groups.append(self._group(maker, readers))
            except _Refused as refused:
                for _, weight in readers:
                    self._leave(left, weight, refused)
        return groups, list(left.values())

    def _leave(self, left: dict[str, _Left], weight: Tensor, refused: _Refused) -> None:
        at = None if refused.node is None else self.graph.line(refused.node)
        name = label_of(self.names[id(weight)])
        left.setdefault(name, _Left(name, refused.why, at))

    def _weight(self, node: Node) -> Tensor | None:
        """The matrix of the state that a product is with, or with rows of; None of other nodes."""
        if node.op.name != "matmul_nt":
            return None
        value = node.operands[1]
        maker = self.graph.makers.get(value)
        while maker is not None and _keeps_columns(maker[0]):
            value = maker[0].operands[0]
            maker = self.graph.makers.get(value)
        cell = self.graph.cells.get(value)
        fits = cell is not None and cell.ndim == 2 and id(cell) in self.names
        return cell if fits else None

    def _maker(self, value: Value) -> Node:
        """The norm, or the product with a matrix, whose channels ``value`` has."""
        while True:
            found = self.graph.makers.get(value)
            if found is None:
                raise _Refused("it comes from outside")
            node = found[0]
            if _passes(node):
                value = node.operands[0]
            elif node.op.name == "add" and node.operands[1] in self.graph.cells:
                product = self.graph.makers.get(node.operands[0])
                if product is None or product[0].op.name != "matmul_nt":
                    raise _Refused("add makes it", node)
                value = node.operands[0]
            elif node.op.name in NORMS or node.op.name == "matmul_nt":
                return node
            else:
                while node.op.view_rule is not None and node.operands[0] in self.graph.makers:
                    node = self.graph.makers[node.operands[0]][0]  # the name that tells more
                raise _Refused(f"{node.op.name} makes it", node)

    def _group(self, maker: Node, readers: list[tuple[Node, Tensor]]) -> _Smoothable:
        """The channels that ``maker`` makes; raises _Refused."""
        making = [operand for operand in maker.operands[1:] if not self._is_zero(operand)]
        value = maker.results[0]
        uses = self.graph.uses.get(value, [])
        if maker.op.name == "matmul_nt" and len(uses) == 1 and uses[0][0].op.name == "add":
            after = uses[0][0]
            if after.operands[0] is value and after.operands[1] in self.graph.cells:
                making.append(after.operands[1])
                value = after.results[0]
        for operand in making:
            cell = self.graph.cells.get(operand)
            if cell is None or id(cell) not in self.names:
                raise _Refused("what makes it has no weight of its own", maker)
            if len(self._users(cell)) != 1:
                raise _Refused(f"{self.names[id(cell)]} is read elsewhere, too", maker)
            if cell.ndim == 0 or cell.shape[0] != value.type.shape[-1]:
                raise _Refused("what makes it has one weight for several channels", maker)
        nodes = {node for node, _ in readers}
        self._require_read_by(value, nodes)
        for _, weight in readers:
            name = self.names[id(weight)]
            if self.skipped(name.rpartition(".")[0]):
                raise _Refused(f"{label_of(name)} is in skip")
            if not nodes.issuperset(self._users(weight)):
                raise _Refused(f"{name} is read elsewhere, too", maker)
        reading = {id(weight): weight for _, weight in readers}
        return _Smoothable(tuple(self.graph.cells[v] for v in making), tuple(reading.values()))

    def _is_zero(self, value: Value) -> bool:
        """Whether ``value`` is the bias of a norm that has none."""
        maker = self.graph.makers.get(value)
        return (
            maker is not None
            and maker[0].op.name == "full"
            and dict(maker[0].attributes)["value"] == 0
        )

    def _users(self, cell: Tensor) -> list[Node]:
        """The nodes that read ``cell``, or rows of it."""
        waiting = [value for value, own in self.graph.cells.items() if own is cell]
        found = []
        while waiting:
            value = waiting.pop()
            if value in self.graph.results:
                raise _Refused(f"{self.names[id(cell)]} is a result of the model")
            for node, _ in self.graph.uses.get(value, ()):
                if _keeps_columns(node):
                    waiting.append(node.results[0])
                else:
                    found.append(node)
        return found

    def _require_read_by(self, value: Value, nodes: set[Node]) -> None:
        """Raise _Refused unless ``nodes`` alone read the channels of ``value``, each first."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if value in self.graph.results:
                raise _Refused("it is a result of the model")
            for node, place in self.graph.uses.get(value, ()):
                if _passes(node):
                    waiting.append(node.results[0])
                elif node not in nodes or place:
                    raise _Refused(f"{node.op.name} reads it, too", node)


def _keeps_columns(node: Node) -> bool:
    """Whether a node takes rows of a matrix."""
    if node.op.name != "slice" or len(node.operands[0].type.shape) != 2:
        return False
    return node.results[0].type.shape[1] == node.operands[0].type.shape[1]


def _passes(node: Node) -> bool:
    """Whether channels, along the last axis, go through a node, and factors of them with them."""
    if node.op.name in HOMOGENEOUS:
        return True
    given, made = node.operands[0].type.shape if node.operands else (), None
    if node.op.name == "reshape":
        made = node.results[0].type.shape
        return bool(given) and bool(made) and given[-1] == made[-1]
    if node.op.name == "permute_dims":
        axes = dict(node.attributes)["axes"]
        return bool(axes) and axes[-1] == len(axes) - 1
    return False


class _Largest(Counter):
    """Eager, which notes the largest |x| of each channel that goes into products with weights."""

    def __init__(self, weights: dict[int, str]) -> None:
        super().__init__()
        self.weights = dict(weights)
        self.most: dict[str, np.ndarray] = {}
        self.kept: list[Tensor] = []  # so that ids stay theirs

    def run(
        self, op: Op, tensors: Sequence[Tensor], attrs: tuple, regions: tuple = ()
    ) -> tuple[Tensor, ...]:
        results = super().run(op, tensors, attrs, regions)
        if op.name == "slice" and id(tensors[0]) in self.weights:
            self.weights[id(results[0])] = self.weights[id(tensors[0])]
            self.kept.append(results[0])
        if op.name == "matmul_nt" and id(tensors[1]) in self.weights:
            self._note(self.weights[id(tensors[1])], tensors[0])
        return results

    def _note(self, name: str, entering: Tensor) -> None:
        x = np.abs(numbers(entering))
        x = x.reshape(-1, x.shape[-1]).max(axis=0, initial=0)
        if not np.isfinite(x).all():
            raise ArgumentError(
                f"layer {label_of(name)!r} cannot be smoothed: there is NaN or infinity in what "
                "goes into it",
                fix="give data without",
            )
        self.most[name] = np.maximum(x, self.most.get(name, 0))


def _largest(network: Module, weights: dict[int, str], batches: Any) -> dict[int, np.ndarray]:
    """The largest |x| of each channel that goes into a product, by the ids of the weights."""
    seen = _Largest(weights)
    with watched(network), no_grad(), interpreting(seen):
        for batch in batches:
            args, kwargs = arguments(batch)
            network._call_forward(*args, **kwargs)
    return {key: seen.most[name] for key, name in weights.items() if name in seen.most}


def _scaled(
    groups: list[_Smoothable], most: dict[int, np.ndarray], strength: float
) -> Iterator[tuple[Tensor, np.ndarray]]:
    """The cells that change, and what they become."""
    values: dict[int, tuple[Tensor, np.ndarray]] = {}
    for group in groups:
        for cell in (*group.making, *group.reading):
            values.setdefault(id(cell), (cell, cell.detach().numpy().copy()))
        x = np.max([most[id(cell)] for cell in group.reading], axis=0)
        w = np.max([np.abs(numbers(cell)).max(axis=0) for cell in group.reading], axis=0)
        scale = channel_scales(x, w, strength)
        for cell in group.making:
            array = values[id(cell)][1]
            array /= scale.reshape(-1, *[1] * (array.ndim - 1)).astype(array.dtype)
        for cell in group.reading:
            array = values[id(cell)][1]
            array *= scale.astype(array.dtype)
    return iter(values.values())


def channel_scales(x: np.ndarray, w: np.ndarray, strength: float) -> np.ndarray:
    """``x ** strength / w ** (1 - strength)`` as powers of two; 1 where either is 0."""
    fine = (x > 0) & (w > 0) & np.isfinite(w)
    x, w = (np.where(fine, one, 1).astype(np.float64) for one in (x, w))
    exponents = strength * np.log2(x) - (1 - strength) * np.log2(w)
    return np.exp2(np.clip(np.rint(exponents), -MOST, MOST))
