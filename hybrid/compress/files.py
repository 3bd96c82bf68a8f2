"""Files of compressed models: the state as safetensors, and a text of how it was made.

The text ``hybrid.compress`` of the file is JSON::

    {"version": 1, "layers": {"0": {"kind": "Linear", "class": "QuantizedLinear", "calibrated":
     true, "scheme": {"method": "static", "bits": 8, ...}}}, "identities": ["1"], "masks": {"4":
     ["weight"]}, "cut": {"2.weight": [[24, 16], [12, 16]]}}

Identities may have been batch norms, which are part of the layers before them now.  What was cut
has its shape before removal, and after.  Other shapes and dtypes are those of the tensors.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from hybrid import nn, weights
from hybrid.compress.batch_norms import LAYERS, NORMS
from hybrid.compress.channels.masks import SUFFIX, Masked, add_mask
from hybrid.compress.channels.removal import CUT, resize
from hybrid.compress.quantization import (
    QUANTIZED,
    WEIGHT_ONLY,
    require_plain,
    share_bytes,
    table_of,
)
from hybrid.compress.quantized_layers import QuantizedLayer, replaced
from hybrid.compress.scheme import Scheme, require_bits
from hybrid.compress.training_aware import PREPARED, PreparedLayer
from hybrid.core.dataclass import replace
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CheckpointError
from hybrid.nn.modules.module import Module
from hybrid.ops.shapes.creation import zeros

TEXT = "hybrid.compress"
VERSION = 1
FEW = 8  # faults that an error lists

# By the name of a class: that of the layers of floats which it stands in place of.
KINDS: dict[str, type[Module]] = {
    made.__name__: kind
    for table in (QUANTIZED, WEIGHT_ONLY, PREPARED)
    for kind, made in table.items()
}


def save(model: Module, path: str | os.PathLike[str]) -> None:
    """Write a compressed ``model`` to ``path``: its state as safetensors, and how it was made.

    ``load`` makes the same model again, of the model of floats.  The file appears when it is whole,
    and the same model gives the same bytes (see ``hybrid.save``).  Needs the package
    ``safetensors`` (extra ``io``); what is no module raises ArgumentTypeError.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"{type(model).__name__} is no module", fix="give a model, an nn.Module"
        )
    layers = {
        name: _entry(layer)
        for name, layer in model.named_modules()
        if isinstance(layer, (QuantizedLayer, PreparedLayer))
    }
    identities = [n for n, part in model.named_modules() if type(part) is nn.Identity]
    masks = {n: list(part.masked) for n, part in model.named_modules() if isinstance(part, Masked)}
    record = {"version": VERSION, "layers": layers, "identities": identities, "masks": masks}
    record["cut"] = getattr(model, CUT, {})
    text = json.dumps(record, separators=(",", ":"))
    weights.save(model.state_dict(), path, metadata={TEXT: text})


def _entry(layer: Any) -> dict[str, Any]:
    """What the file says of a layer beside its tensors."""
    name = type(layer).__name__
    fields = {field: getattr(layer.scheme, field) for field in Scheme.__dataclass_fields__}
    said = {"kind": KINDS[name].__name__, "class": name, "scheme": fields}
    if isinstance(layer, PreparedLayer):
        return said | {"learned": layer.learned}
    return said | {"calibrated": "input_scale" in layer._buffers}


def load(model: Module, path: str | os.PathLike[str]) -> Module:
    """A copy of ``model``, which is of floats, as the compressed one that ``save`` wrote to a file.

    ``model`` is that which was compressed, or one that was built alike: its numbers do not matter.
    The tensors are those of the file, mapped and not copied (see ``hybrid.load``).

    A file that is no compressed model, is damaged, is of a version that is not known, or was made
    of another model (the error names the layers and tensors that do not fit) raises
    CheckpointError, one that cannot be opened OSError, a ``model`` that has quantized layers
    already ArgumentError.  ``model`` stays as it is.
    """
    require_plain(model)
    state = weights.load(path)
    record = _record(state)
    network = copy.deepcopy(model)
    parts, made = dict(network.named_modules()), dict[int, Module]()
    faults = [*_cut(network, record["cut"]), *_mask(parts, record["masks"], state)]
    if faults:
        _refuse(state.path, model, faults)
    for name, said in record["layers"].items():
        fault = _misfit(name, said, parts)
        if fault:
            faults.append(fault)
        else:
            made[id(parts[name])] = _made(parts[name], said, state.path)
    norms = [name for name in record["identities"] if isinstance(parts.get(name), NORMS)]
    made |= {id(parts[name]): nn.Identity() for name in norms}
    if faults:
        _refuse(state.path, model, faults)
    network = replaced(network, made)
    if norms:
        _give_biases(network, state)
    _require_alike(network, state, model)
    try:
        network.load_state_dict(state, assign=True)
    except ArgumentError as error:  # tied weights that have two values in the file
        _refuse(state.path, model, [line.strip() for line in error.what.splitlines()[1:]])
    if record["cut"]:
        setattr(network, CUT, record["cut"])
    share_bytes([(parts[name], made[id(parts[name])]) for name in record["layers"]])
    return network


# What the file says ------------------------------------------------------------------------------


def _record(state: weights.Checkpoint) -> dict[str, Any]:
    """What the file says of the model."""
    text = state.metadata.get(TEXT)
    if text is None:
        raise CheckpointError(
            f"{state.path} holds no compressed model: it has no text {TEXT!r}",
            why="hybrid.compress.save writes such files.",
            fix="load weights of floats by model.load_state_dict(path)",
        )
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        _damaged(state.path, "it is no JSON")
    version = record.get("version") if isinstance(record, dict) else None
    if type(version) is not int:
        _damaged(state.path, "it has no version")
    if version != VERSION:
        raise CheckpointError(
            f"{state.path} is a compressed model of version {version}",
            why=f"This version of hybrid reads version {VERSION}.",
            fix="load it with the version of hybrid that wrote it, or with a newer one",
        )
    for name, (is_fine, what) in FIELDS.items():
        if not is_fine(record.get(name)):
            _damaged(state.path, f"it has no {what}")
    return record


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _is_cut(value: Any) -> bool:
    """Whether ``value`` is a shape, or None, and the one that it became."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and (value[0] is None or _is_shape(value[0]))
        and _is_shape(value[1])
    )


# What is asked of the fields of the text, and what they are.
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "layers": (lambda value: isinstance(value, dict), "layers"),
    "identities": (_are_texts, "list of identities"),
    "masks": (
        lambda value: isinstance(value, dict) and all(map(_are_texts, value.values())),
        "table of masks",
    ),
    "cut": (
        lambda value: isinstance(value, dict) and all(map(_is_cut, value.values())),
        "table of shapes",
    ),
}


def _damaged(path: str, why: str) -> NoReturn:
    raise CheckpointError(
        f"{path} cannot be loaded: its text {TEXT!r} is damaged: {why}",
        fix="copy or write the file again",
    )


def _misfit(name: str, said: Any, parts: Mapping[str, Module]) -> str:
    """Why the model has no layer of which ``said`` could be true; empty if it has one."""
    if not isinstance(said, dict) or not isinstance(said.get("class"), str):
        return f"layer {name!r} is not described"
    if said["class"] not in KINDS:
        return f"layer {name!r} is a {said['class']} there, which is not known here"
    kind = KINDS[said["class"]]
    if name not in parts:
        return f"there is no layer {name!r} here, and a {kind.__name__} there"
    if type(parts[name]) is not kind:
        return f"layer {name!r} is a {type(parts[name]).__name__} here, and a {kind.__name__} there"
    return ""


def _made(layer: Module, said: dict[str, Any], path: str) -> Module:
    """The layer that was made of ``layer``; its numbers are to come."""
    scheme = _scheme(said.get("scheme"), path)
    kind, name = type(layer), said["class"]
    if kind in PREPARED and name == PREPARED[kind].__name__:
        return PREPARED[kind](layer, scheme, said.get("learned") is True)
    becomes: Any = table_of(scheme.method).get(kind)
    if becomes is None or becomes.__name__ != name:
        _damaged(path, f"a {name} is not made by method {scheme.method!r}")
    made = becomes(layer, scheme, blank=True)
    if said.get("calibrated") is True:
        made.calibrate(1.0, 0)
    return made


def _scheme(said: Any, path: str) -> Scheme:
    """The record of how a layer was quantized."""
    if not isinstance(said, dict) or set(said) != set(Scheme.__dataclass_fields__):
        _damaged(path, "a layer has no scheme, or one of other fields")
    fields = dict(said)
    bits = fields.pop("activation_bits")
    try:
        require_bits("activation_bits", bits)
        return replace(Scheme.checked(**fields), activation_bits=bits)
    except ArgumentError as error:
        _damaged(path, error.what)


def _give_biases(network: Module, state: weights.Checkpoint) -> None:
    """Layers have biases where the file says so: they are what the norms behind them added."""
    for name, layer in network.named_modules():
        folded = isinstance(layer, (QuantizedLayer, *LAYERS)) and hasattr(layer, "bias")
        given = state.get(f"{name}.bias")
        if folded and layer.bias is None and given is not None:
            layer.bias = given if isinstance(layer, QuantizedLayer) else nn.Parameter(given)


def _cut(network: Module, shapes: Mapping[str, Any]) -> list[str]:
    """Give what removal has cut the shapes that it has left; what is in the way."""
    parts, faults = dict(network.named_modules(remove_duplicate=False)), []
    made: dict[int, tuple[Tensor, Tensor]] = {}  # by ids, with those that they replace
    done: set[tuple[int, str]] = set()  # layers may have several names
    for name, (before, after) in shapes.items():
        path, _, attribute = name.rpartition(".")
        holder = parts.get(path)
        if (id(holder), attribute) in done:
            continue
        tensor = getattr(holder, attribute, None)
        here = list(tensor.shape) if isinstance(tensor, Tensor) else None
        if here != before or not hasattr(holder, attribute):
            faults.append(f"{name} is of shape {here} here, and was of {before} there")
            continue
        done.add((id(holder), attribute))
        if tensor is None:
            setattr(holder, attribute, _blank(None, tuple(after)))
            continue
        _, new = made.setdefault(id(tensor), (tensor, _blank(tensor, tuple(after))))
        setattr(holder, attribute, new)
    cut = {number for number, _ in done}
    for part in [] if faults else network.modules():
        if id(part) in cut:
            resize(part)
    return faults


def _blank(tensor: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    """What takes the place of ``tensor``, or of a bias that is not there, until it is loaded."""
    if tensor is None:
        return nn.Parameter(zeros(shape))
    new = zeros(shape, dtype=tensor.dtype)
    return nn.Parameter(new, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else new


def _mask(
    parts: Mapping[str, Module], masks: Mapping[str, list[str]], state: weights.Checkpoint
) -> list[str]:
    """Let layers read their parameters through the masks of the file; what is in the way."""
    faults = []
    for path, names in masks.items():
        for name in names:
            full = f"{path}.{name}" if path else name
            own = dict(parts[path]._parameters).get(name) if path in parts else None
            mask = state.get(full + SUFFIX)
            if own is None or mask is None or mask.shape != own.shape:
                faults.append(f"{full} has a mask there that does not fit here")
            else:
                add_mask(parts[path], name, mask)
    return faults


# Whether it fits ---------------------------------------------------------------------------------


def _require_alike(network: Module, state: weights.Checkpoint, model: Module) -> None:
    """Raise unless the file has the tensors of ``network``, by names, shapes and dtypes."""
    own = network.state_dict()
    faults = [
        f"{name} is {state[name].type} there, and {tensor.type} here"
        if name in state
        else f"{name} ({tensor.type}) is not there"
        for name, tensor in own.items()
        if name not in state or state[name].type != tensor.type
    ]
    faults += [f"{name} ({state[name].type}) is there alone" for name in state if name not in own]
    if faults:
        _refuse(state.path, model, faults)


def _refuse(path: str, model: Module, faults: list[str]) -> NoReturn:
    shown = faults[:FEW]
    if len(faults) > FEW:
        shown.append(f"and {len(faults) - FEW} more")
    raise CheckpointError(
        "\n  ".join([f"{path} is of another model than this {type(model).__name__}:", *shown]),
        fix="give the model of floats that was compressed, or one that is built alike",
    )
