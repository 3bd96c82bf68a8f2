"""quantize: a copy of a model whose layers compute with small integers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from hybrid import nn
from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.batch_norms import fold
from hybrid.compress.calibration import RangeObserver, require_method, scale_and_zero
from hybrid.compress.channels.masks import Masked
from hybrid.compress.compensation import HessianObserver, compensated
from hybrid.compress.quantized_convolutions import CONVOLUTIONS, WEIGHT_ONLY_CONVOLUTIONS
from hybrid.compress.quantized_layers import (
    QuantizedEmbedding,
    QuantizedLayer,
    QuantizedLinear,
    replaced,
)
from hybrid.compress.quantized_sequences import SEQUENCES
from hybrid.compress.scheme import Scheme
from hybrid.compress.weight_forms import is_grouped, matrix_of
from hybrid.core.dataclass import replace
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn.modules.module import Mode, Module
from hybrid.ops.support.operand_checks import listed

# Layers, and what each becomes; those with one kind of activations can be static.
QUANTIZED: dict[type[Module], Any] = {
    nn.Linear: QuantizedLinear,
    nn.Embedding: QuantizedEmbedding,
    **CONVOLUTIONS,
    **SEQUENCES,
}
# What those become whose weights alone are quantized: more kinds can.
WEIGHT_ONLY: dict[type[Module], Any] = {**QUANTIZED, **WEIGHT_ONLY_CONVOLUTIONS}
CALIBRATED = (QuantizedLinear, *CONVOLUTIONS.values())
DATA = "give data: batches x, or (x, labels), as a list or a loader"


def quantize(
    model: Module,
    method: str = "dynamic",
    *,
    data: Iterable[Any] | None = None,
    calibration: str = "minmax",
    percentile: float = 99.99,
    bits: int | None = None,
    group_size: int | None = None,
    scheme: str = "symmetric",
    per_channel: bool = True,
    skip: Sequence[str] = (),
    inplace: bool = False,
) -> Module:
    """A copy of ``model`` whose layers have weights of ``bits`` bits: 8, or 4 of nf4.

    - "dynamic": activations become int8 as they come, with a scale for each row (of
      convolutions: each sample).  Needs no data.
    - "static": activations become uint8 of one scale and zero point a layer, whose range is chosen
      by ``calibration`` ("minmax", "percentile", "mse", "kl": see ``calibration.choose_range``)
      over the batches of ``data``, which is gone over twice.  The model runs in evaluation mode,
      eagerly; a batch is x, or (x, labels ...) of which the first is taken.  Layers of several
      products (attention, recurrent ones), and layers that no batch has reached, become dynamic.
    - "weight_only": activations stay float32, and products are of floats, to their accuracy.  With
      ``data`` linear layers are rounded so that later weights make up for earlier ones (GPTQ; see
      ``hybrid.compress.compensation``): slower, and nearer to the model of floats on such data.

    Weights have a scale for each output, or with ``group_size`` for each group of so many inputs
    (dynamic and weight_only): 32 is usual for 4 bits.  ``scheme`` is for weight_only: "symmetric",
    "asymmetric" (a zero beside each scale), or "nf4" (4 bits that number the quantiles of a normal
    distribution).  Up to 4 bits are kept two to a byte where there are groups or weights alone.
    Tables of embeddings have 8 bits there, and a scale for each row: few bits cost most in them.
    So have output layers that share their table; they read the same bytes.

    Which layers change is a table, ``quantization.QUANTIZED``: linear layers, convolutions,
    embeddings, recurrent layers and attention; ``WEIGHT_ONLY`` has transposed convolutions, too.
    Layers named in ``skip`` (by their dotted paths, with all inside them) stay as they are.
    ``inplace`` changes the model itself.  Whatever is raised, the model is as it was.
    """
    wanted = Scheme.checked(method, bits, group_size, scheme, per_channel)
    require_method(calibration)
    require_plain(model)
    skipped = require_names(model, skip)
    if method == "static" and data is None:
        raise ArgumentError("static quantization needs data to calibrate by", fix=DATA)
    network = copy.deepcopy(model)
    before = list(network.modules())
    ranges: dict[int, tuple[float, float]] = {}
    made: dict[int, Module] = {}  # by the ids of those that they replace
    hessians: dict[int, np.ndarray] = {}
    table = table_of(method)
    if method == "weight_only" and data is not None:
        tables = tables_of(network)
        linear = {
            id(layer): name
            for name, layer in targets_of(network, skipped, table)
            if table[type(layer)] in CALIBRATED and id(layer.weight) not in tables
        }
        hessians = hessians_of(network, linear, batches_of(data))
    if method == "static":
        batches = batches_of(data)
        made = folded_by(network, batches)
        network = replaced(network, made)
        seen = {
            id(layer): name
            for name, layer in targets_of(network, skipped)
            if QUANTIZED[type(layer)] in CALIBRATED
        }
        ranges = ranges_of(network, seen, batches, calibration, percentile)
    targets = [layer for _, layer in targets_of(network, skipped, table)]
    tables = tables_of(network)
    for layer in targets:
        if id(layer) not in made:
            calibrated = id(layer) in ranges or method != "static"
            own = wanted if calibrated else replace(wanted, method="dynamic")
            if id(getattr(layer, "weight", None)) in tables and is_grouped(layer, own):
                own = replace(own, bits=8, group_size=None, scheme="symmetric")
            made[id(layer)] = table[type(layer)](layer, own)
            if id(layer) in hessians:
                state = compensated(matrix_of(layer.weight), hessians[id(layer)], own)
                for end, tensor in state.items():
                    getattr(made[id(layer)], f"weight_{end}").assign(tensor)
            if id(layer) in ranges:
                made[id(layer)].calibrate(*scale_and_zero(*ranges[id(layer)]))
    share_bytes([(layer, made[id(layer)]) for layer in targets])
    return _in_place(model, before, made) if inplace else replaced(network, made)


def _in_place(model: Module, copies: list[Module], made: dict[int, Module]) -> Module:
    """``model`` with what was made for the copies of its modules."""
    pairs = zip(model.modules(), copies, strict=True)
    own = {id(layer): made[id(twin)] for layer, twin in pairs if id(twin) in made}
    if id(model) in own:
        raise ArgumentError(
            f"a {type(model).__name__} cannot become another layer in place",
            fix="use what quantize returns, without inplace",
        )
    return replaced(model, own)


def tables_of(network: Module) -> set[int]:
    """The ids of the tables of embeddings."""
    return {id(m.weight) for m in network.modules() if isinstance(m, nn.Embedding)}


def share_bytes(made: Iterable[tuple[Module, Any]]) -> None:
    """Let layers that were made of layers with one weight hold the same bytes, where they agree."""
    first: dict[int, Any] = {}
    for layer, becomes in made:
        other = first.setdefault(id(getattr(layer, "weight", layer)), becomes)
        if other is becomes or not isinstance(becomes, QuantizedLayer):
            continue
        names = [name for name in becomes._buffers if name in ("weight_q", "weight_scale")]
        pairs = [(getattr(becomes, name), getattr(other, name, None)) for name in names]
        if all(b is not None and a.type is b.type and (a.numpy() == b.numpy()).all()
               for a, b in pairs):  # fmt: skip
            for name in names:
                setattr(becomes, name, getattr(other, name))


def table_of(method: str) -> dict[type[Module], Any]:
    """What layers become by ``method``."""
    return WEIGHT_ONLY if method == "weight_only" else QUANTIZED


def targets_of(
    network: Module,
    skipped: Callable[[str], bool],
    table: dict[type[Module], Any] = QUANTIZED,
) -> list[tuple[str, Module]]:
    """The layers to quantize with their names, each name of those that have several once."""
    return [
        (name, layer)
        for name, layer in network.named_modules()
        if type(layer) in table and not skipped(name) and table[type(layer)].refusal(layer) is None
    ]


def require_plain(model: Any) -> None:
    """Raise unless ``model`` is a module without quantized layers, and without masks."""
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"{type(model).__name__} is no module", fix="give a model, an nn.Module"
        )
    for name, layer in model.named_modules():
        if isinstance(layer, QuantizedLayer):
            raise ArgumentError(
                f"layer {name!r} is quantized already",
                why="Its weights are integers; to round them again would lose more.",
                fix="quantize the model of floats that it was made of",
            )
        if isinstance(layer, Masked):
            raise ArgumentError(
                f"layer {name!r} is pruned already",
                why="It has masks, which are not final.",
                fix="make them so with remove(); step() of what prune() has returned prunes more",
            )


def require_names(model: Module, skip: Any) -> Callable[[str], bool]:
    """Whether a name is one of ``skip``, or inside one; ArgumentError if one names nothing."""
    given = (skip,) if isinstance(skip, str) else tuple(skip)
    names = [name for name, _ in model.named_modules()]
    for one in given:
        if one not in names:
            raise ArgumentError(
                f"skip names {one!r}, and the model has no such layer",
                fix=f"give names among {listed([repr(n) for n in names if n][:12])}",
            )
    return lambda name: any(name == one or name.startswith(f"{one}.") for one in given)


def batches_of(data: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]] | Any:
    """What can be gone over several times for the arguments of the model, batch by batch."""
    if isinstance(data, (Tensor, np.ndarray)):
        raise ArgumentTypeError(f"data is one {type(data).__name__}", fix=f"{DATA}: [x]")
    try:
        again = iter(data) is not data
    except TypeError:
        raise ArgumentTypeError(f"data is a {type(data).__name__}", fix=DATA) from None
    return data if again else list(data)


def arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a batch is for the model: x, (x, labels ...), ((x, y), ...) or a dict."""
    if isinstance(batch, dict):
        return (), batch
    if isinstance(batch, (tuple, list)):
        if not batch:
            raise ArgumentError("a batch of the data is empty", fix=DATA)
        batch = batch[0]
    return (tuple(batch), {}) if isinstance(batch, (tuple, list)) else ((batch,), {})


def folded_by(network: Module, batches: Any) -> dict[int, Module]:
    """What replaces the norms that a call with the first batch shows to be right behind layers."""
    for batch in batches:
        args, kwargs = arguments(batch)
        with watched(network):
            return fold(network, args, kwargs)
    raise ArgumentError("the data to calibrate by are empty", fix=DATA)


def ranges_of(
    network: Module,
    names: dict[int, str],
    data: Any,
    calibration: str,
    percentile: float,
) -> dict[int, tuple[float, float]]:
    """The range of what goes into each layer, by id: that of all batches."""
    observers = {key: RangeObserver(name) for key, name in names.items()}
    runs = ["bounds"] if calibration == "minmax" else ["bounds", "count"]
    for run in runs:
        observe(network, {key: getattr(one, run) for key, one in observers.items()}, data)
    return {
        key: observer.choose_range(calibration, percentile)
        for key, observer in observers.items()
        if observer.size
    }


def hessians_of(network: Module, names: dict[int, str], data: Any) -> dict[int, np.ndarray]:
    """The sum of ``x x.T`` over what goes into each layer, by id: that of all batches."""
    observers = {key: HessianObserver(name) for key, name in names.items()}
    if not observe(network, {key: one.add for key, one in observers.items()}, data):
        raise ArgumentError("the data to compensate by are empty", fix=DATA)
    return {key: one.total for key, one in observers.items() if one.total is not None}


def observe(network: Module, notes: dict[int, Callable[[Any], None]], data: Any) -> int:
    """Run the network on all batches; each layer, by id, tells its note of what goes into it.

    How many batches there were.
    """

    def note(layer: Module, args: Any, kwargs: dict[str, Any]) -> None:
        notes[id(layer)](args[0] if args else next(iter(kwargs.values())))

    count = 0
    with watched(network) as block, no_grad():
        for layer in network.modules():
            if id(layer) in notes:
                block.enter_context(layer.register_forward_pre_hook(note, with_kwargs=True))
        for batch in data:
            args, kwargs = arguments(batch)
            network(*args, **kwargs)
            count += 1
    return count


class watched(ExitStack):
    """A block in which ``network`` runs eagerly, for evaluation."""

    def __init__(self, network: Module) -> None:
        super().__init__()
        self.enter_context(Mode(network, False))
        for module in network.modules():
            if module._hybridized is not None:
                self.callback(setattr, module, "_hybridized", module._hybridized)
                module.hybridize(False)
