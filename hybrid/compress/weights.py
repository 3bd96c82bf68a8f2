"""The weights that pruning looks at: which parameters of which layers, and along which axes.

A weight is called like its layer in ``state_dict()`` where it is that layer's ``weight``, else by
its whole name: ``"features.0"``, ``"attention.in_proj_weight"``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hybrid import nn
from hybrid.core.dataclass import dataclass
from hybrid.core.types import float32
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.nn.layers.conv import _Direct, _Transposed
from hybrid.nn.layers.recurrence import _Recurrent
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter

# Ops that multiply with weights, and sum.
PRODUCTS = frozenset({"matmul", "matmul_nt", "matmul_tn", "conv", "conv_transpose"})


@dataclass(frozen=True)
class WeightKind:
    """Parameters of one kind of layer whose name begins with ``prefix``, and which has ``rank``.

    Their axis ``output`` runs along what the layer gives, their axis ``input`` along what it takes.
    """

    layer: type[Module]
    output: int
    input: int
    prefix: str = "weight"


KINDS = (
    WeightKind(nn.Linear, 0, 1),
    WeightKind(nn.Bilinear, 0, 2),
    WeightKind(_Direct, 0, 1),
    WeightKind(_Transposed, 1, 0),
    WeightKind(nn.MultiheadAttention, 0, 1, "in_proj_weight"),
    WeightKind(nn.MultiheadAttention, 0, 1, "q_proj_weight"),
    WeightKind(nn.MultiheadAttention, 0, 1, "k_proj_weight"),
    WeightKind(nn.MultiheadAttention, 0, 1, "v_proj_weight"),
    WeightKind(_Recurrent, 0, 1),
    WeightKind(nn.RNNCell, 0, 1),
    WeightKind(nn.LSTMCell, 0, 1),
    WeightKind(nn.GRUCell, 0, 1),
)


@dataclass(frozen=True, eq=False)
class LayerWeight:
    """A parameter, what it is called, and the modules that hold it, each under a name."""

    label: str
    parameter: Parameter
    owners: tuple[tuple[Module, str], ...]
    output: int
    input: int

    def values(self) -> np.ndarray:
        """The elements, of a dtype that NumPy computes with."""
        return numbers(self.parameter)


def numbers(tensor: Tensor) -> np.ndarray:
    """The elements of ``tensor`` as an array of float32 or float64."""
    plain = tensor.detach()
    return (plain.astype(float32) if plain.dtype.itemsize == 2 else plain).numpy()


def label_of(name: str) -> str:
    """What the parameter ``name`` is called: its layer, where it is the ``weight`` of that."""
    return name.removesuffix(".weight")


def owners_of(model: Module) -> dict[int, tuple[tuple[Module, str], ...]]:
    """The modules that hold each parameter, by its id: several where weights are tied."""
    found: dict[int, tuple[tuple[Module, str], ...]] = {}
    for module in model.modules():
        for name, parameter in module._parameters:
            found[id(parameter)] = (*found.get(id(parameter), ()), (module, name))
    return found


def weights_of(model: Module) -> list[LayerWeight]:
    """The weights of the layers that ``KINDS`` lists, in the order of ``named_parameters()``."""
    owners = owners_of(model)
    found = []
    for name, parameter in model.named_parameters():
        held = owners[id(parameter)]
        kind = next((k for owner, own in held for k in KINDS if _is_of(k, owner, own)), None)
        if kind is not None:
            found.append(LayerWeight(label_of(name), parameter, held, kind.output, kind.input))
    return found


def _is_of(kind: WeightKind, owner: Module, name: str) -> bool:
    return isinstance(owner, kind.layer) and name.startswith(kind.prefix)


# Importance --------------------------------------------------------------------------------------


def _magnitude(parameter: Parameter) -> np.ndarray:
    return np.abs(numbers(parameter))


def _gradient(parameter: Parameter) -> np.ndarray:
    if parameter.grad is None:
        raise ArgumentError(
            'importance "gradient" needs gradients, and a weight has none',
            fix="call backward() on the loss of some data first",
        )
    return np.abs(numbers(parameter) * numbers(parameter.grad))


# How much each element counts.  "gradient": how much the loss changes, to first order, when it
# goes (Molchanov et al. 2019).
IMPORTANCE: dict[str, Callable[[Parameter], np.ndarray]] = {
    "magnitude": _magnitude,
    "gradient": _gradient,
}
