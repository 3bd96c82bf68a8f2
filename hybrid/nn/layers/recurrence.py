"""Recurrent networks over time: RNN, LSTM and GRU, of several layers and in both directions.

The loop over time is one node when captured, and one plan when called eagerly, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybrid import ops
from hybrid.calls.auto_plan import Often
from hybrid.calls.control_functions import scan
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.nn import functional
from hybrid.nn.layers.cells import GATES, STEPS, Linear, State, Step, draw_evenly
from hybrid.nn.layers.layer import new_parameter, require_sizes
from hybrid.nn.modules.expected_input import takes
from hybrid.nn.modules.module import Module
from hybrid.ops.support.operand_checks import as_tensor, require_choice

# Loops -------------------------------------------------------------------------------------------


def loop(step: Step, linear: Linear = ops.linear) -> Often:
    """One direction of one layer: the outputs at all times, and the last state."""

    def over_time(rows: Tensor, state: State, *weights: Any) -> tuple[Tensor, State]:
        def at(state: State, row: Tensor) -> tuple[State, Tensor]:
            state = step(row, state, *weights, linear)
            return state, state[0]

        state, outputs = scan(at, state, rows)
        return outputs, state

    return Often(over_time)


_LOOPS = {mode: loop(step) for mode, step in STEPS.items()}

# Modules -----------------------------------------------------------------------------------------


@takes("T, N, input_size | T, input_size")
class _Recurrent(Module):
    _linear, _loops = staticmethod(ops.linear), _LOOPS  # layers of other arithmetic have others

    def _set_up(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        device: Any,
        dtype: Any,
    ) -> None:
        require_sizes(input_size=input_size, proj_size=proj_size)
        require_sizes(1, hidden_size=hidden_size, num_layers=num_layers)
        functional.require_probability(dropout)
        if proj_size >= hidden_size:
            raise ArgumentError(
                f"{type(self).__name__} got proj_size {proj_size} and hidden_size {hidden_size}",
                fix="give a proj_size below the hidden_size",
            )
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        made = {"dtype": dtype, "device": device}
        rows, output = GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            entering = input_size if layer == 0 else output * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                self.add_weight(f"weight_ih{suffix}", rows, entering, **made)
                self.add_weight(f"weight_hh{suffix}", rows, output, **made)
                if bias:
                    self.add_weight(f"bias_ih{suffix}", rows, **made)
                    self.add_weight(f"bias_hh{suffix}", rows, **made)
                if proj_size:
                    self.add_weight(f"weight_hr{suffix}", proj_size, hidden_size, **made)
        self.reset_parameters()

    def add_weight(self, name: str, *shape: int, dtype: Any, device: Any) -> None:
        """Register a parameter of zeros."""
        self.register_parameter(name, new_parameter(*shape, dtype=dtype, device=device))

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        draw_evenly(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing: parameters need no layout of their own here."""

    def _suffixes(self, layer: int) -> list[str]:
        """What the names of the parameters of each direction end in."""
        return [f"_l{layer}", f"_l{layer}_reverse"][: 1 + self.bidirectional]

    def _weights(self, suffix: str) -> Iterator[Any]:
        for kind in ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr"):
            yield getattr(self, kind + suffix, None)

    def _run(self, x: Tensor, given: State | None) -> tuple[Tensor, State]:
        """The outputs, and the last state of each layer and direction, stacked."""
        x = as_tensor(x)
        self._require_input(x)
        alone = x.ndim == 2
        time_first = x if alone or not self.batch_first else ops.swapaxes(x, 0, 1)
        if alone:
            time_first = ops.expand_dims(x, 1)
        begin = self._first_state(time_first, given, alone)
        rows, ends = time_first, []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                rows = functional.dropout(rows, self.dropout)
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                weight, bias, *others = self._weights(suffix)
                entering = self._linear(rows, weight, bias)
                entering = ops.flip(entering, axis=0) if direction else entering
                place = layer * (1 + self.bidirectional) + direction
                state = tuple([part[place] for part in begin])
                output, end = self._loops[self.mode](entering, state, *others)
                outputs.append(ops.flip(output, axis=0) if direction else output)
                ends.append(end)
            rows = outputs[0] if len(outputs) == 1 else ops.concat(outputs, axis=-1)
        last = tuple([ops.stack(list(parts)) for parts in zip(*ends, strict=True)])
        if alone:
            return rows[:, 0], tuple([part[:, 0] for part in last])
        return ops.swapaxes(rows, 0, 1) if self.batch_first else rows, last

    def _require_input(self, x: Tensor) -> None:
        name, size = type(self).__name__, self.input_size
        if x.ndim not in (2, 3) or x.shape[-1] != size:
            batched = f"[N, T, {size}]" if self.batch_first else f"[T, N, {size}]"
            raise ShapeError(
                f"{name} cannot take {x.type}",
                why=f"It takes {batched}, or [T, {size}] without a batch.",
                fix="change its shape, or the input_size",
            )
        if x.shape[1 if self.batch_first and x.ndim == 3 else 0] == 0:
            raise ShapeError(f"{name} cannot take {x.type}", fix="give one time at least")

    def _first_state(self, x: Tensor, given: State | None, alone: bool) -> State:
        """The state to begin with: [layers * directions, N, size] for each part of it."""
        lead = self.num_layers * (1 + self.bidirectional)
        sizes = [self.proj_size or self.hidden_size]
        if self.mode == "LSTM":
            sizes.append(self.hidden_size)
        if given is None:
            shapes = [(lead, x.shape[1], size) for size in sizes]
            return tuple([ops.zeros(shape, dtype=x.dtype) for shape in shapes])
        if len(given) != len(sizes):
            raise ArgumentTypeError(
                f"{type(self).__name__} got a state of {len(given)} tensors",
                fix="give a pair (h, c)",
            )
        given = tuple([as_tensor(part) for part in given])
        for part, size in zip(given, sizes, strict=True):
            wanted = (lead, size) if alone else (lead, x.shape[1], size)
            if part.shape != wanted:
                raise ShapeError(
                    f"{type(self).__name__} cannot begin with {part.type}",
                    why=f"Its state is {list(wanted)}: layers and directions first.",
                    fix="change its shape, or leave it out to begin with zeros",
                )
        return tuple([ops.expand_dims(part, 1) for part in given]) if alone else given

    def extra_repr(self) -> str:
        words = [str(self.input_size), str(self.hidden_size)]
        plain = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        for name, default in plain.items():
            if getattr(self, name) != default:
                words.append(f"{name}={getattr(self, name)}")
        return ", ".join(words)


class RNN(_Recurrent):
    """``h = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh)`` at each time (or with relu).

    ``input`` is [T, N, input_size] ([N, T, input_size] if ``batch_first``, or without N), ``hx``
    [layers * directions, N, hidden_size], zeros unless given.  The result is the outputs of the
    last layer [T, N, directions * hidden_size], and the last h of each layer and direction.

    Parameters are ``weight_ih_l0`` [hidden, input], ``weight_hh_l0`` [hidden, hidden],
    ``bias_ih_l0``, ``bias_hh_l0``, those of further layers with their number and of the second
    direction with ``_reverse``; all start evenly over ±1 / sqrt(hidden_size).  ``dropout`` is that
    of the outputs of all layers but the last.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        require_choice("nonlinearity", nonlinearity, ("tanh", "relu"))
        self.nonlinearity = nonlinearity
        sizes = (f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers)
        self._set_up(*sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(input, None if hx is None else (hx,))
        return outputs, h


class LSTM(_Recurrent):
    """LSTMCell at each time; shapes, parameters and arguments are those of RNN.

    ``hx`` is a pair (h, c), and so is the second result.  With ``proj_size`` each h is projected by
    ``weight_hr_l0`` [proj_size, hidden] to that size (Sak et al. 2014).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = ("LSTM", input_size, hidden_size, num_layers)
        self._set_up(*sizes, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, (h, c) = self._run(input, None if hx is None else tuple(hx))
        return outputs, (h, c)


class GRU(_Recurrent):
    """GRUCell at each time; shapes, parameters and arguments are those of RNN."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = ("GRU", input_size, hidden_size, num_layers)
        self._set_up(*sizes, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(input, None if hx is None else (hx,))
        return outputs, h
