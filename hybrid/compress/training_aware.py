"""Training with the rounding in view: prepare_qat, and convert, which makes integers of it.

While it trains, a prepared layer computes with what its integers would stand for; for evaluation it
computes with the integers themselves, by the very products of the layer that ``convert`` makes.  So
``prepared.eval()(x)`` and ``convert(prepared)(x)`` have the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import nn, ops
from hybrid.autodiff.function_gradients import no_grad
from hybrid.calls.control_functions import cond
from hybrid.compress.functional import fake_quantize, quantize
from hybrid.compress.integer_products import Activations, static_linear, sums
from hybrid.compress.prepared_attention import PreparedMultiheadAttention
from hybrid.compress.quantization import require_names, require_plain
from hybrid.compress.quantized_convolutions import CONVOLUTIONS, padded, static_convolution
from hybrid.compress.quantized_layers import QuantizedLayer, QuantizedLinear, replaced
from hybrid.compress.scheme import (
    LEAST,
    Scheme,
    first_steps,
    greatest_steps,
    require_bits,
)
from hybrid.core.types import float32, int32, uint8
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.ir.interpreter import current
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.ops.flow.messages import stop
from hybrid.ops.support.operand_checks import as_tensor


class PreparedLayer(Module):
    """A layer of floats that trains with its rounding: weights by channel, activations by one step.

    ``weight_step`` [out] and ``input_step`` [] are the scales: parameters if they are learnt
    (Esser et al. 2020), else buffers that follow the greatest values.  ``input_zero`` is 0 where
    the first batch has no negative values, the middle of the integers otherwise.
    """

    def prepare(self, layer: Module, scheme: Scheme, learned: bool) -> None:
        """Take over ``layer``, and begin with steps of 2 mean|w| / sqrt(high)."""
        inner = ("_hooks", "_hybridized")
        for name, value in vars(layer).items():
            if name not in inner:
                object.__setattr__(self, name, value)
        self.scheme, self.learned = scheme, learned
        if learned:
            self.weight_step = Parameter(asarray(first_steps(layer.weight, scheme)))
            self.input_step = Parameter(asarray(np.float32(0)))  # not known yet
        else:
            self.register_buffer("input_step", asarray(np.float32(0)))
        self.register_buffer("input_zero", asarray(np.uint8(0)))

    def steps(self) -> Tensor:
        """The scales of the weight, positive."""
        if self.learned:
            return ops.maximum(self.weight_step, LEAST)
        return greatest_steps(self.weight, self.scheme)

    def activations(self) -> Activations:
        """Those of the integers."""
        scale = ops.maximum(self.input_step, LEAST)
        return Activations(scale, self.input_zero, self.scheme.activation_high)

    def rounded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` and the weight as what their integers stand for, with gradients to train by."""
        self._follow(x.detach())
        seen, high = self.activations(), self.scheme.high
        x = fake_quantize(x, seen.scale, seen.zero, low=0, high=seen.high, learned=self.learned)
        weight = fake_quantize(
            self.weight, self.steps(), axis=0, low=-high, high=high, learned=self.learned
        )
        return x, weight

    def _follow(self, x: Tensor) -> None:
        """The step of the activations: begun by the first batch, or that of the greatest so far."""
        high = self.scheme.activation_high
        with no_grad():
            begun = ops.greater(self.input_step, 0.0)
            middle = ops.astype(ops.where(ops.min(x) < 0, (high + 1) // 2, 0), uint8)
            zero = ops.where(begun, self.input_zero, middle)
            above = ops.astype(high - ops.astype(zero, int32), float32)
            if self.learned:
                first = ops.divide(2 * ops.mean(ops.abs(x)), ops.sqrt(above))
                step = ops.where(begun, self.input_step, ops.maximum(first, LEAST))
            else:
                most = ops.divide(ops.max(ops.abs(x)), above)
                step = ops.maximum(self.input_step, ops.maximum(most, LEAST))
            self.input_zero.assign(zero)
            self.input_step.assign(step)

    def require_seen(self) -> None:
        """Raise ArgumentError if no batch was ever seen."""
        if current().traces or current().batches:
            cond(ops.greater(self.input_step, 0.0), _go_on, _stop)
        elif not self.input_step > 0:
            raise _unseen()

    def integers(self) -> tuple[Tensor, Tensor]:
        """The weight in bytes, and its scales."""
        scale, high = self.steps(), self.scheme.high
        return quantize(self.weight, scale, axis=0, low=-high, high=high), scale

    def plain(self) -> Module:
        """The layer of floats, with the parameters of this one."""
        made = copy.copy(self)
        object.__setattr__(made, "__class__", self.floats)
        for name in ("weight_step", "input_step", "input_zero", "scheme", "learned"):
            if name in vars(made):
                delattr(made, name)
        return made

    def converted(self) -> QuantizedLayer:
        """The layer of integers."""
        seen, (q, scale) = self.activations(), [x.detach() for x in self.integers()]
        made = self.becomes(self.plain(), self.scheme, blank=True)
        made.weight_q.assign(q)
        made.weight_scale.assign(scale)
        made.calibrate(seen.scale.detach(), seen.zero)
        return made


class PreparedLinear(PreparedLayer, nn.Linear):
    """Linear that trains with its rounding in view."""

    floats, becomes = nn.Linear, QuantizedLinear

    def __init__(self, layer: nn.Linear, scheme: Scheme, learned: bool) -> None:
        self.prepare(layer, scheme, learned)

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        if self.training:
            return ops.linear(*self.rounded(input), self.bias)
        self.require_seen()
        q, scale = self.integers()
        return static_linear(input, (q, scale, sums(q)), self.bias, self.activations())


class PreparedConvolution(PreparedLayer):
    """A convolution that trains with its rounding in view."""

    floats: type[Module]

    def __init__(self, layer: Any, scheme: Scheme, learned: bool) -> None:
        self.prepare(layer, scheme, learned)

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        if self.training:
            rounded, weight = self.rounded(input)
            x, geometry = padded(self, rounded)
            return _CONVOLVED[self.rank](x, weight, self.bias, **geometry)
        self.require_seen()
        x, geometry = padded(self, input)
        return static_convolution(x, self.integers(), self.bias, self.activations(), geometry)


def _unseen() -> ArgumentError:
    return ArgumentError(
        "a prepared layer has seen no batch yet",
        why="The range of what goes in is not known.",
        fix="train the model first, or call it in training mode once",
    )


def _go_on() -> None:
    """A batch was seen."""


def _stop() -> None:
    stop(text=f"ArgumentError: {_unseen()}")


_CONVOLVED = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}


class PreparedConv1d(PreparedConvolution, nn.Conv1d):
    """Conv1d that trains with its rounding in view."""

    floats, becomes = nn.Conv1d, CONVOLUTIONS[nn.Conv1d]


class PreparedConv2d(PreparedConvolution, nn.Conv2d):
    """Conv2d that trains with its rounding in view."""

    floats, becomes = nn.Conv2d, CONVOLUTIONS[nn.Conv2d]


class PreparedConv3d(PreparedConvolution, nn.Conv3d):
    """Conv3d that trains with its rounding in view."""

    floats, becomes = nn.Conv3d, CONVOLUTIONS[nn.Conv3d]


PREPARED: dict[type[Module], Any] = {
    nn.Linear: PreparedLinear,
    nn.Conv1d: PreparedConv1d,
    nn.Conv2d: PreparedConv2d,
    nn.Conv3d: PreparedConv3d,
}
ALL_PREPARED = (PreparedLayer, PreparedMultiheadAttention)


def prepare_qat(
    model: Module,
    *,
    bits: int = 8,
    activation_bits: int = 8,
    learned: bool = True,
    skip: Sequence[str] = (),
) -> Module:
    """A copy of ``model`` that trains with weights and activations rounded to so many bits.

    Linear layers, convolutions and attention change, but those in ``skip``.  ``learned``: the
    scales are parameters, too (``weight_step``, ``input_step``), so make the optimizer of what this
    returns; else they follow the greatest values.  Train it, then ``convert`` it.  In ``eval()`` it
    computes
    with integers.
    """
    require_bits("bits", bits)
    require_bits("activation_bits", activation_bits)
    require_plain(model)
    for name, layer in model.named_modules():
        if isinstance(layer, ALL_PREPARED):
            raise ArgumentError(
                f"layer {name!r} is prepared already", fix="prepare the model of floats"
            )
    skipped = require_names(model, skip)
    scheme = Scheme(method="static", bits=bits, activation_bits=activation_bits)
    network = copy.deepcopy(model)
    made = {
        id(layer): PREPARED[type(layer)](layer, scheme, bool(learned))
        for name, layer in network.named_modules()
        if type(layer) in PREPARED
        and not skipped(name)
        and PREPARED[type(layer)].becomes.refusal(layer) is None
    }
    for name, layer in network.named_modules():  # which asks for its child ``out_proj``
        if type(layer) is nn.MultiheadAttention and not skipped(name):
            made[id(layer)] = PreparedMultiheadAttention(layer, scheme, bool(learned))
    if not made:
        raise ArgumentError(
            f"nothing in this {type(model).__name__} can be prepared",
            why="It has no linear layer, convolution or attention, or all are skipped.",
            fix="skip fewer layers",
        )
    return replaced(network, made)


def convert(model: Module) -> Module:
    """A copy of a prepared ``model`` with layers of integers, for evaluation.

    Its results have the same bits as ``model.eval()``.  ArgumentError if the model is not prepared,
    or has seen no batch.
    """
    network = copy.deepcopy(model)
    layers = [layer for layer in network.modules() if isinstance(layer, ALL_PREPARED)]
    if not layers:
        raise ArgumentError(
            f"this {type(model).__name__} is not prepared",
            fix="prepare_qat(model), train what it returns, and convert that",
        )
    for name, layer in network.named_modules():
        if isinstance(layer, PreparedLayer) and not layer.input_step > 0:
            raise ArgumentError(
                f"the prepared layer {name!r} has seen no batch yet"
                if name
                else "a prepared layer has seen no batch yet",
                why="The range of what goes in is not known: nobody has called the layer, though "
                "others may have read its weight.",
                fix="train the model first, or call it in training mode once; skip= a layer whose "
                "weight alone is used",
            )
    return replaced(network, {id(layer): layer.converted() for layer in layers}).eval()
