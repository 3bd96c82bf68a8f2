"""Batch norms that become part of the layer before them: in evaluation they are affine."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import nn
from hybrid.autodiff.function_gradients import no_grad
from hybrid.compress.quantized_layers import replaced
from hybrid.core.tree import flatten
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.ir import Op
from hybrid.ir.interpreter import interpreting
from hybrid.nn.modules.module import Mode, Module
from hybrid.nn.modules.parameter import Parameter
from hybrid.nn.op_counts import Counter

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def fold_norms(model: Module, *args: Any, **kwargs: Any) -> Module:
    """A copy of ``model`` for evaluation, with batch norms in the weights of layers before them.

    ``model(*args, **kwargs)`` is called once to see which result of a convolution or linear layer
    goes to a batch norm and nowhere else: ``weight * g`` and ``(bias - mean) * g + beta`` with
    ``g = gamma / sqrt(variance + eps)`` do what both did (Jacob et al. 2018), but for rounding.
    Such norms become nn.Identity; others stay.
    """
    network = copy.deepcopy(model)
    return replaced(network, fold(network, args, kwargs))


def fold(network: Module, args: Any, kwargs: Any) -> dict[int, Module]:
    """Put norms into the layers before them; what is to replace the norms, by their ids."""
    pairs = _pairs(network, args, kwargs)
    for layer, norm in pairs:
        _fold(layer, norm)
    return {id(norm): nn.Identity() for _, norm in pairs}


class _Uses(Counter):
    """Eager, which notes what each layer and norm was given and gave, and who else used it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[Module] = []
        self.given: dict[int, list[Any]] = {}  # by the ids of norms
        self.made: dict[int, list[Any]] = {}  # by the ids of layers
        self.users: dict[int, set[int]] = {}  # ids of tensors -> those of the norms, 0 of all else
        self.kept: list[Any] = []  # so that ids stay theirs

    def converted(self, function: Any, optional: bool = False) -> Any:
        module = getattr(function, "__self__", None)
        if not isinstance(module, Module) or getattr(function, "__name__", "") != "forward":
            return function

        def forward(*args: Any, **kwargs: Any) -> Any:
            if isinstance(module, NORMS):
                self.given.setdefault(id(module), []).append(args[0] if args else None)
            self.stack.append(module)
            try:
                result = function(*args, **kwargs)
            finally:
                self.stack.pop()
            if isinstance(module, LAYERS):
                self.made.setdefault(id(module), []).append(result)
            return result

        return forward

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        inside = self.stack[-1] if self.stack else None
        for x in operands:
            if isinstance(x, Tensor):
                self.kept.append(x)
                self.users.setdefault(id(x), set()).add(
                    id(inside) if isinstance(inside, NORMS) else 0
                )
        return super().apply(op, operands, attrs, regions)


def _pairs(network: Module, args: Any, kwargs: Any) -> list[tuple[Module, Module]]:
    """Each layer with the norm that alone takes what it makes."""
    uses = _Uses()
    with Mode(network, False), no_grad(), interpreting(uses):
        found = network._call_forward(*args, **kwargs)
    ends = {id(leaf) for leaf in flatten(found)[0]}
    modules = {id(module): module for module in network.modules()}
    sources = {
        id(made[0]): modules[key]
        for key, made in uses.made.items()
        if len(made) == 1 and type(modules[key]) in LAYERS
    }
    pairs = []
    for key, given in uses.given.items():
        norm = modules[key]
        layer = sources.get(id(given[0])) if len(given) == 1 else None
        if layer is None or type(norm) not in NORMS or norm.running_mean is None:
            continue
        if uses.users.get(id(given[0])) == {key} and id(given[0]) not in ends and not norm._hooks:
            pairs.append((layer, norm))
    return pairs


def _fold(layer: Module, norm: Module) -> None:
    """The weight and bias of both in one."""
    mean, variance = norm.running_mean.numpy(), norm.running_var.numpy()
    factor = 1 / np.sqrt(variance.astype(np.float64) + norm.eps)
    factor = factor * (norm.weight.detach().numpy() if norm.weight is not None else 1)
    weight = layer.weight.detach().numpy()
    column = factor.reshape([-1, *[1] * (weight.ndim - 1)])
    bias = 0 if layer.bias is None else layer.bias.detach().numpy()
    bias = (bias - mean) * factor + (norm.bias.detach().numpy() if norm.bias is not None else 0)
    layer.weight = Parameter(asarray((weight * column).astype(weight.dtype)))
    layer.bias = Parameter(asarray(bias.astype(weight.dtype)))
