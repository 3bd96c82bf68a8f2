"""Removal: masks made final, and what they silence taken out of the network.

Elements stay where they are, as zeros.  Channels and heads leave: every parameter and buffer with a
place for one gets smaller, and so do the sizes that layers keep of themselves.
"""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from hybrid import nn, ops
from hybrid.autodiff import no_grad
from hybrid.compress.channels.channel_groups import ChannelGroup, EvaluatedGraph, Refusal, groups_of
from hybrid.compress.channels.masks import Masked, masks_of, take_masks
from hybrid.compress.channels.sent_values import SentValues
from hybrid.compress.weights import numbers, owners_of, weights_of
from hybrid.config import advance_epoch
from hybrid.core.package import FOLDER
from hybrid.core.tree import flatten
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, HybridError, Location
from hybrid.ir import Node, Value
from hybrid.nn.layers.cells import GATES, _Cell
from hybrid.nn.layers.conv import _Direct, _Transposed
from hybrid.nn.layers.normalization import _Running
from hybrid.nn.layers.recurrence import _Recurrent
from hybrid.nn.modules.module import Mode, Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.nn.modules.parameter_container import ParameterDict, ParameterList

CUT = "cut_shapes"  # of a model: the shapes before removal (None: a bias that it added), and now
# Of what may differ between the masked and the smaller network, relative to the largest element.
_CLOSE = {8: 1e-9, 4: 1e-3, 2: 5e-2}


class RemovalError(ArgumentError):
    """Something that is silenced cannot leave; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        op = f" ({refusal.op})" if refusal.op else ""
        super().__init__(f"what masks silence cannot be removed: {refusal.why}{op}", at=refusal.at)


def remove(model: Module, *example: Any) -> Module:
    """A copy of ``model`` without masks; with an ``example`` of its arguments, a smaller one.

    Without an example the weights become the products with their masks, and what is computed keeps
    its bits: that is all that can be done for elements and 2:4.

    With one, also the channels and heads leave whose masks are all 0 (but for those that cannot,
    such as results, which stay as zeros): parameters and buffers are cut, sizes such as
    ``out_channels``, ``num_features`` and ``num_heads`` follow.  In ``eval()``
    the smaller network computes what the masked one does, but for rounding: only zeros leave the
    sums, which may be cut into other blocks.  Where what a silenced channel sends is a constant
    other than 0 (a sigmoid behind it), the constant is added to the biases of the layers that read
    it, which get one if they have none.  Both networks run on the example, and are compared.

    ``model`` stays as it is.  Parameters of the copy are new: give them to a new optimizer.

    Raises ArgumentError for a model that has no masks, and where a silenced channel cannot leave,
    with the op, its line and the reason; it then stays as it is.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(f"a {type(model).__name__} is no module", fix="give a Module")
    if not any(isinstance(module, Masked) for module in model.modules()):
        raise ArgumentError(f"{type(model).__name__} has no masks", fix="prune() it first")
    made: Any = copy.deepcopy(model)
    silenced: dict[int, np.ndarray] = {}  # masks by the ids of parameters
    for module in made.modules():
        silenced |= {id(p): numbers(mask) == 0 for _, p, mask in masks_of(module)}
    for module in made.modules():
        take_masks(module)
    if example:
        before = {name: tensor.shape for name, tensor in made.state_dict().items()}
        _leave_out(made, silenced, example)
        _note_shapes(made, before)
    return made


def _note_shapes(model: Any, before: dict[str, tuple[int, ...]]) -> None:
    """Let ``model`` know what was cut, by names of its state: for files, which begin whole."""
    found = dict(getattr(model, CUT, {}))
    for name, tensor in model.state_dict().items():
        former, now = before.get(name), tensor.shape
        if former != now or name in found:
            found[name] = (found[name][0] if name in found else former, now)
    if found:
        setattr(model, CUT, found)


def _leave_out(model: Module, silenced: dict[int, np.ndarray], example: Sequence[Any]) -> None:
    """Take all units out of ``model`` whose ``silenced`` places are whole, and that can leave."""
    graph = EvaluatedGraph(model, example)
    seeds = (channel_seeds(model, graph), head_seeds(graph))
    groups = [group for some in seeds for group in groups_of(graph, some)]
    pairs = [(group, silent_units(group, silenced)) for group in groups]
    gone = [(group, [u for u in units if u not in group.refusals]) for group, units in pairs]
    gone = [(group, units) for group, units in gone if units]
    before = evaluated(model, example)
    cut(model, gone)
    why = _failure(model, before, example)
    if why is not None:
        raise RemovalError(why)


def channel_seeds(model: Module, graph: EvaluatedGraph) -> list[tuple[Value, int]]:
    """The axes of weights along which their layers give channels."""
    values = {id(cell): value for value, cell in graph.cells.items()}
    found = [(values.get(id(w.parameter)), w.output) for w in weights_of(model)]
    return [(value, axis) for value, axis in found if value is not None and axis < value.type.rank]


def head_seeds(graph: EvaluatedGraph) -> list[tuple[Value, int]]:
    """The axes of queries along which attention has heads: those before [length, features]."""
    return [
        (node.operands[0], node.operands[0].type.rank - 3)
        for node in graph.nodes
        if node.op.name in ("attention", "attention_masked") and node.operands[0].type.rank > 3
    ]


def silent_units(group: ChannelGroup, silenced: dict[int, np.ndarray]) -> list[int]:
    """The units all of whose masked places are 0."""
    whole: dict[int, bool] = {}
    for _, cell, axis, units in group.sources():
        if id(cell) in silenced:
            off = np.moveaxis(silenced[id(cell)], axis, 0).reshape(len(units), -1).all(axis=1)
            for unit, is_off in zip(units.tolist(), off.tolist(), strict=True):
                whole[unit] = whole.get(unit, True) and is_off
    return [unit for unit, is_off in whole.items() if is_off and unit >= 0]


def evaluated(model: Module, example: Sequence[Any]) -> Any:
    """What ``model`` computes of ``example`` in ``eval()``, eagerly."""
    with Mode(model, False), no_grad():
        return model._call_forward(*example)


def _failure(model: Module, before: Any, example: Sequence[Any]) -> Refusal | None:
    """Why ``model``, which got smaller, does not compute what it did ``before``, if it does not."""
    try:
        difference = _difference(before, evaluated(model, example))
    except Exception as error:  # whatever the author's code raises
        at = getattr(error, "at", None) or place_of(error.__traceback__)
        what = error.what if isinstance(error, HybridError) else f"{type(error).__name__}: {error}"
        return Refusal(f"without them the model fails: {what}", at=at)
    return Refusal(difference) if difference else None


def _difference(before: Any, after: Any) -> str:
    """How two results differ by more than rounding; empty if they do not."""
    for one, other in zip(flatten(before)[0], flatten(after)[0], strict=True):
        if not isinstance(one, Tensor) or not isinstance(other, Tensor):
            continue
        if one.shape != other.shape:
            return f"a result would be {other.type} instead of {one.type}"
        a, b = numbers(one).astype(np.float64), numbers(other).astype(np.float64)
        limit = _CLOSE.get(one.dtype.itemsize, 0.0) if one.dtype.is_floating else 0.0
        largest = np.abs(a[np.isfinite(a)]).max(initial=0)
        if not np.allclose(a, b, rtol=limit, atol=limit * largest, equal_nan=True):
            return "the smaller network would compute something else"
    return ""


# Cutting -----------------------------------------------------------------------------------------


def cut(model: Module, gone: Iterable[tuple[ChannelGroup, list[int]]]) -> None:
    """Take ``units`` of groups out of all parameters and buffers of ``model``, which they silence.

    Raises RemovalError, before anything has changed, for a unit that sends what cannot be left out.
    """
    gone = list(gone)
    kept: dict[int, dict[int, np.ndarray]] = {}  # by cells and axes
    cells: dict[int, Tensor] = {}
    biases: list[tuple[Module, np.ndarray]] = []
    owners = owners_of(model)
    for group, units in gone:
        biases += _constants(group, units, owners)
        for _, cell, axis, of_axis in group.cells():
            cells[id(cell)] = cell
            stays = kept.setdefault(id(cell), {}).setdefault(axis, np.ones(len(of_axis), bool))
            stays &= ~np.isin(of_axis, units)
    holders: dict[int, list[tuple[Module, str]]] = {k: list(v) for k, v in owners.items()}
    for module in model.modules():
        for name in module._buffers:
            if isinstance(vars(module)[name], Tensor):
                holders.setdefault(id(vars(module)[name]), []).append((module, name))
    for number, cell in cells.items():
        held = holders.get(number)
        if held is None or any(isinstance(m, (ParameterList, ParameterDict)) for m, _ in held):
            what = "a ParameterList or ParameterDict" if held else "no module"
            raise RemovalError(Refusal(f"a tensor {cell.type} that has them belongs to {what}"))
    for module, more in biases:
        _add_bias(module, more)
    for number, cell in cells.items():
        array = cell.detach()
        for axis, stays in kept[number].items():
            array = _selected(array, axis, np.flatnonzero(stays))
        made = Parameter(array, cell.requires_grad) if isinstance(cell, Parameter) else array
        for module, name in holders[number]:
            setattr(module, name, made)
    for module in {id(m): m for number in cells for m, _ in holders[number]}.values():
        resize(module)
    advance_epoch()


def _selected(tensor: Tensor, axis: int, places: np.ndarray) -> Tensor:
    with no_grad():
        return ops.take(tensor, asarray(places), axis=axis)


def resize(module: Module) -> None:
    """Let the sizes that a layer keeps of itself be those of its parameters."""
    for kind, sizes in SIZES:
        if isinstance(module, kind):
            for name, size in sizes(module).items():
                if getattr(module, name) != size:
                    setattr(module, name, size)


def _conv_sizes(layer: Any) -> dict[str, int]:
    depthwise = layer.groups > 1 and layer.in_channels == layer.groups
    out = layer.weight.shape[0]
    groups = out * layer.groups // layer.out_channels if depthwise else layer.groups
    return {
        "out_channels": out, "groups": groups, "in_channels": layer.weight.shape[1] * groups,
    }  # fmt: skip


def _transposed_sizes(layer: Any) -> dict[str, int]:
    depthwise = layer.groups > 1 and layer.in_channels == layer.groups
    groups = layer.weight.shape[0] if depthwise else layer.groups
    return {
        "in_channels": layer.weight.shape[0], "out_channels": layer.weight.shape[1] * groups,
        "groups": groups,
    }  # fmt: skip


def _recurrent_sizes(layer: Any) -> dict[str, int]:
    projected = {"proj_size": layer.weight_hr_l0.shape[0]} if layer.proj_size else {}
    hidden = layer.weight_hh_l0.shape[0] // GATES[layer.mode]
    return {"input_size": layer.weight_ih_l0.shape[1], "hidden_size": hidden, **projected}


def _cell_sizes(cell: Any) -> dict[str, int]:
    return {"input_size": cell.weight_ih.shape[1], "hidden_size": cell.weight_hh.shape[1]}


SIZES: tuple[tuple[type[Module], Callable[[Any], dict[str, int]]], ...] = (
    (nn.Linear, lambda m: {"out_features": m.weight.shape[0], "in_features": m.weight.shape[1]}),
    (
        nn.Bilinear,
        lambda m: dict(
            zip(("out_features", "in1_features", "in2_features"), m.weight.shape, strict=True)
        ),
    ),
    (_Direct, _conv_sizes),
    (_Transposed, _transposed_sizes),
    (_Running, lambda m: {} if m.weight is None else {"num_features": m.weight.shape[0]}),
    (nn.Embedding, lambda m: {"embedding_dim": m.weight.shape[1]}),
    (_Recurrent, _recurrent_sizes),
    (_Cell, _cell_sizes),
    (nn.PReLU, lambda m: {"num_parameters": m.weight.shape[0]}),
    (
        nn.MultiheadAttention,
        lambda m: {"num_heads": m.out_proj.weight.shape[1] // m.head_dim},
    ),
)


# Constants ---------------------------------------------------------------------------------------


def _constants(
    group: ChannelGroup, units: list[int], owners: dict[int, Any]
) -> list[tuple[Module, np.ndarray]]:
    """What layers are to add to their biases when ``units`` leave; RemovalError if none can."""
    graph = group.graph
    sent = SentValues(group, lambda value: numbers(graph.cells[value]))
    found = []
    for node in graph.nodes:
        for tie in graph.ties(node):
            if any(part.place < 0 for part in tie):
                continue  # a result has the axis, too
            sides = [
                (part, node.operands[part.place])
                for part in tie
                if (node.operands[part.place], part.axis) in group.axes
            ]
            leaving = [np.isin(group.axes[v, p.axis], units) for p, v in sides]
            numbers_there = [
                sent.along[v, p.axis][off] for (p, v), off in zip(sides, leaving, strict=True)
            ]
            if not sides or not leaving[0].any() or any((n == 0).all() for n in numbers_there):
                continue
            found.append(_constant(graph, node, sides, leaving, numbers_there, owners))
    return found


def _constant(
    graph: EvaluatedGraph, node: Node, sides: Any, leaving: Any, values: Any, owners: dict[int, Any]
) -> tuple[Module, np.ndarray]:
    """The layer of ``node``, and what it reads of channels that leave, summed up."""
    op, at = node.op.name, graph.line(node)
    if sides[0][0].place != 0 or np.isnan(values[0]).any():
        raise RemovalError(Refusal("what they send to it is no constant", op, at))
    weight = graph.cells.get(node.operands[1]) if len(node.operands) == 2 else None
    owner, name = next(iter(owners.get(id(weight), ())), (None, ""))
    plain = op == "matmul_nt" and isinstance(owner, nn.Linear)
    attrs = node.attributes
    if op == "conv" and isinstance(owner, _Direct):
        plain = not any(attrs["padding"]) and attrs["groups"] == 1
    if not plain or name != "weight" or len(sides) != 2:
        raise RemovalError(
            Refusal(f"they send it {values[0][0]:g}, which no bias can stand for", op, at)
        )
    summed = numbers(weight).astype(np.float64)
    summed = summed.reshape(*summed.shape[:2], -1).sum(axis=-1)
    return owner, summed[:, leaving[1]] @ values[0].astype(np.float64)


def _add_bias(module: Any, more: np.ndarray) -> None:
    with no_grad():
        added = asarray(more).astype(module.weight.dtype)
        if module.bias is None:
            module.bias = Parameter(added, module.weight.requires_grad)
        else:
            module.bias.assign(module.bias + added)


# Trials ------------------------------------------------------------------------------------------


def trial(model: Module, group: ChannelGroup, unit: int, example: Sequence[Any]) -> Refusal | None:
    """Why ``unit`` cannot leave ``model``, if a copy without it does not compute the same.

    So sizes in the author's code are found: whatever they do, the copy is what they do it to.
    """
    made = copy.deepcopy(model)
    twins = _twins(model, made)
    lost = [cell for _, cell, _, _ in group.cells() if id(cell) not in twins]
    if lost:
        return Refusal(f"a tensor {lost[0].type} that has them belongs to no module")
    own = group.of_copy(twins)
    for _, cell, axis, units in own.sources():
        if isinstance(cell, Parameter):
            array = np.array(numbers(cell))
            np.moveaxis(array, axis, 0)[units == unit] = 0
            cell.assign(asarray(array).astype(cell.dtype))
    before = evaluated(made, example)
    try:
        cut(made, [(own, [unit])])
    except RemovalError as error:
        return error.refusal
    return _failure(made, before, example)


def _twins(model: Module, made: Module) -> dict[int, Tensor]:
    """The tensors of a copy by the ids of those that they are copies of."""
    found = {}
    for kind in ("parameters", "buffers"):
        pairs = zip(model._tensors(kind, "", True), made._tensors(kind, "", True), strict=True)
        found.update({id(old): new for (_, old), (_, new) in pairs})
    return found


def place_of(traceback: TracebackType | None) -> Location | None:
    """The author's line that an error came from: the last one outside of this package."""
    found = None
    while traceback is not None:
        path, line = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        if not path.startswith(FOLDER) or "models" in path[len(str(FOLDER)) :]:
            found = Location(path, line, linecache.getline(path, line))
        traceback = traceback.tb_next
    return found
