"""One step of recurrent networks as modules: RNNCell, LSTMCell, GRUCell; and its formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.calls.auto_plan import Often
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, ShapeError
from hybrid.nn import init
from hybrid.nn.layers.layer import new_parameter, require_sizes
from hybrid.nn.modules.expected_input import takes
from hybrid.nn.modules.module import Module
from hybrid.ops.support.operand_checks import as_tensor, require_choice

State = tuple[Tensor, ...]  # what a step hands to the next: the output first
Step = Callable[..., State]
Linear = Callable[[Tensor, Any, Any], Tensor]  # of a row, a weight and a bias or None

# Formulas ----------------------------------------------------------------------------------------
#
# ``row`` is what the input contributes to all gates, [..., gates * hidden]; ``linear`` the product
# with a weight, which layers of other arithmetic have in a form of their own.


def _tanh_step(
    row: Tensor, state: State, weight: Any, bias: Any, _projection: Any, linear: Linear = ops.linear
) -> State:
    return (ops.tanh(row + linear(state[0], weight, bias)),)


def _relu_step(
    row: Tensor, state: State, weight: Any, bias: Any, _projection: Any, linear: Linear = ops.linear
) -> State:
    return (ops.relu(row + linear(state[0], weight, bias)),)


def _lstm_step(
    row: Tensor, state: State, weight: Any, bias: Any, projection: Any, linear: Linear = ops.linear
) -> State:
    """Hochreiter and Schmidhuber 1997; with a projection Sak et al. 2014."""
    h, c = state
    i, f, g, o = ops.chunk(row + linear(h, weight, bias), 4, axis=-1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    h = ops.sigmoid(o) * ops.tanh(c)
    return (h if projection is None else linear(h, projection, None)), c


def _gru_step(
    row: Tensor, state: State, weight: Any, bias: Any, _projection: Any, linear: Linear = ops.linear
) -> State:
    """Cho et al. 2014, with the reset gate behind the product, as PyTorch has it."""
    (h,) = state
    reset, update, new = ops.chunk(row, 3, axis=-1)
    own_reset, own_update, own_new = ops.chunk(linear(h, weight, bias), 3, axis=-1)
    reset, update = ops.sigmoid(reset + own_reset), ops.sigmoid(update + own_update)
    new = ops.tanh(new + reset * own_new)
    return (new + update * (h - new),)


STEPS: dict[str, Step] = {
    "RNN_TANH": _tanh_step,
    "RNN_RELU": _relu_step,
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def cell(step: Step, linear: Linear = ops.linear) -> Often:
    """One step from an input that is not projected yet."""

    def once(x: Tensor, state: State, weight: Any, bias: Any, *others: Any) -> State:
        return step(linear(x, weight, bias), state, *others, None, linear)

    return Often(once)


_CELLS = {mode: cell(step) for mode, step in STEPS.items()}


def draw_evenly(module: Module, hidden_size: int) -> None:
    """All parameters of ``module`` itself evenly over ±1 / sqrt(hidden_size)."""
    bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
    for parameter in module.parameters(recurse=False):
        init.uniform_(parameter, -bound, bound)


# Modules -----------------------------------------------------------------------------------------


@takes("N, input_size | input_size")
class _Cell(Module):
    _cells = _CELLS  # layers of other arithmetic have others

    def _set_up(
        self, input_size: int, hidden_size: int, bias: bool, mode: str, device: Any, dtype: Any
    ) -> None:
        require_sizes(input_size=input_size)
        require_sizes(1, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows, made = GATES[mode] * hidden_size, {"dtype": dtype, "device": device}
        self.weight_ih = new_parameter(rows, input_size, **made)
        self.weight_hh = new_parameter(rows, hidden_size, **made)
        self.bias_ih = new_parameter(rows, **made) if bias else None
        self.bias_hh = new_parameter(rows, **made) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        draw_evenly(self, self.hidden_size)

    def _stepped(self, mode: str, x: Tensor, state: State | None, count: int) -> State:
        """The state after ``x`` [N, input] or [input]; None stands for ``count`` zeros."""
        name = type(self).__name__
        x = as_tensor(x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name} cannot take {x.type}",
                why=f"It takes [N, {self.input_size}] or [{self.input_size}].",
                fix="change its shape, or the input_size",
            )
        wanted = (*x.shape[:-1], self.hidden_size)
        if state is None:
            state = (ops.zeros(wanted, dtype=x.dtype),) * count
        if len(state) != count:
            raise ArgumentTypeError(
                f"{name} got a state of {len(state)} tensors", fix="give a pair (h, c)"
            )
        state = tuple([as_tensor(part) for part in state])
        for part in state:
            if part.shape != wanted:
                raise ShapeError(
                    f"{name} cannot begin with {part.type} for {x.type}",
                    why=f"Its state is {list(wanted)}.",
                    fix="change its shape, or leave it out to begin with zeros",
                )
        return self._cells[mode](x, state, *self._weights())

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.bias_ih, self.weight_hh, self.bias_hh

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"


class RNNCell(_Cell):
    """``h' = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh)``, or with relu for tanh.

    ``x`` is [N, input_size], ``h`` [N, hidden_size] (zeros unless given), or both without N.
    ``weight_ih`` is [hidden, input], ``weight_hh`` [hidden, hidden]; all parameters start evenly
    over ±1 / sqrt(hidden_size).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        require_choice("nonlinearity", nonlinearity, ("tanh", "relu"))
        self.nonlinearity = nonlinearity
        self._mode = f"RNN_{nonlinearity.upper()}"
        self._set_up(input_size, hidden_size, bias, self._mode, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped(self._mode, input, None if hx is None else (hx,), 1)[0]

    def extra_repr(self) -> str:
        relu = self.nonlinearity != "tanh"
        return super().extra_repr() + (f", nonlinearity={self.nonlinearity}" if relu else "")


class LSTMCell(_Cell):
    """The state (h, c) after ``x``: rows of the weights are the gates i, f, g, o, in this order.

    ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h' = sigmoid(o) * tanh(c')``, where each
    gate is ``weight_ih x + bias_ih + weight_hh h + bias_hh``; shapes are those of RNNCell.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set_up(input_size, hidden_size, bias, "LSTM", device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = self._stepped("LSTM", input, None if hx is None else tuple(hx), 2)
        return h, c


class GRUCell(_Cell):
    """The state h after ``x``: rows of the weights are the gates r, z, n, in this order.

    ``h' = (1 - z) * n + z * h`` with ``r`` and ``z`` sigmoids of their gates and ``n`` the tanh of
    ``weight_ih x + bias_ih + r * (weight_hh h + bias_hh)``; shapes are those of RNNCell.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set_up(input_size, hidden_size, bias, "GRU", device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped("GRU", input, None if hx is None else (hx,), 1)[0]
