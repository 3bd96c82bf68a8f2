"""RNN, GRU and LSTM: a loop over the steps of sequences, one for each direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid import ops
from hybrid.calls.control_functions import scan
from hybrid.core import types
from hybrid.errors import OnnxError
from hybrid.onnx.handlers.index_nodes import reverse_sequence
from hybrid.onnx.node_table import handles

_WEIGHTS = (1, 2, 3)
_ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    # by name in lower case: the function, and its alpha and beta unless others are given
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "elu": (lambda x, a: ops.elu(x, a), (1.0,)),
    "hardsigmoid": (lambda x, a, b: ops.clip(a * x + b, 0.0, 1.0), (0.2, 0.5)),
    "leakyrelu": (lambda x, a: ops.leaky_relu(x, a), (0.01,)),
    "relu": (ops.relu, ()),
    "scaledtanh": (lambda x, a, b: a * ops.tanh(b * x), (1.0, 1.0)),
    "sigmoid": (ops.sigmoid, ()),
    "softplus": (ops.softplus, ()),
    "softsign": (ops.softsign, ()),
    "tanh": (ops.tanh, ()),
    "thresholdedrelu": (lambda x, a: ops.where(ops.greater(x, a), x, 0.0), (1.0,)),
}


def _functions(
    names: list[str], alphas: list[float] | None, betas: list[float] | None
) -> list[Callable[[Any], Any]]:
    """The activations; each takes as many of the numbers given as it has."""
    firsts, seconds = iter(alphas or ()), iter(betas or ())
    found = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise OnnxError(f"activation {name!r}", why=f"It is one of {', '.join(_ACTIVATIONS)}.")
        function, numbers = _ACTIVATIONS[name.lower()]
        given = [
            next(source, default)
            for source, default in zip((firsts, seconds), numbers, strict=False)
        ]
        found.append(lambda x, function=function, given=given: function(x, *given))
    return found


def _clipped(x: Any, clip: float | None) -> Any:
    return x if not clip else ops.clip(x, -clip, clip)


def _recurrent(
    x, w, r, b, lengths, states, peephole, layout, direction, activations, per, alpha, beta, cell,
    outputs,
):  # fmt: skip
    """The outputs of all steps, and the last states, of one or two directions."""
    if layout:
        x = ops.permute_dims(x, (1, 0, 2))
        states = [s if s is None else ops.permute_dims(s, (1, 0, 2)) for s in states]
    steps, batch, _ = x.shape
    count, hidden = w.shape[0], r.shape[2]
    if count != (2 if direction == "bidirectional" else 1):
        raise OnnxError(f"direction {direction!r} with weights of {count} directions")
    functions = _functions(activations, alpha, beta)
    mask = None
    if lengths is not None:
        lengths = ops.astype(lengths, types.int64)
        mask = ops.less(
            ops.reshape(ops.arange(steps), (steps, 1, 1)), ops.reshape(lengths, (1, -1, 1))
        )
    results, finals = [], []
    for at in range(count):
        backwards = direction == "reverse" or at == 1
        rows = _backwards(x, lengths) if backwards else x
        first = tuple(
            ops.zeros((batch, hidden), dtype=x.dtype) if state is None else state[at]
            for state in states
        )
        step = cell(
            w[at], r[at], None if b is None else b[at], None if peephole is None else peephole[at],
            functions[at * per : (at + 1) * per],
        )  # fmt: skip

        def body(carry, row, step=step):
            new = step(row[0], *carry)
            if len(row) == 1:
                return new, new[0]
            kept = tuple(ops.where(row[1], n, o) for n, o in zip(new, carry, strict=True))
            return kept, ops.where(row[1], new[0], ops.zeros_like(new[0]))

        final, every = scan(body, first, (rows,) if mask is None else (rows, mask))
        results.append(_backwards(every, lengths) if backwards else every)
        finals.append(final)
    y = ops.stack(results, axis=2 if layout else 1)
    last = [ops.stack(list(part)) for part in zip(*finals, strict=True)]
    if layout:  # [steps, batch, directions, hidden]
        y = ops.permute_dims(y, (1, 0, 2, 3))
        last = [ops.permute_dims(part, (1, 0, 2)) for part in last]
    return y if outputs == 1 else (y, *last)[:outputs]


def _backwards(x: Any, lengths: Any) -> Any:
    return ops.flip(x, axis=0) if lengths is None else reverse_sequence(x, lengths)


def _gates(values: Any, count: int) -> list[Any]:
    return ops.split(values, [values.shape[-1] // count] * count, axis=-1)


def _rnn_cell(clip: float | None) -> Callable[..., Any]:
    def cell(w, r, b, _peephole, functions):
        hidden = r.shape[1]
        bias = 0 if b is None else b[:hidden] + b[hidden:]

        def step(x, h):
            inner = x @ ops.matrix_transpose(w) + h @ ops.matrix_transpose(r) + bias
            return (functions[0](_clipped(inner, clip)),)

        return step

    return cell


def _gru_cell(clip: float | None, linear_before_reset: int) -> Callable[..., Any]:
    def cell(w, r, b, _peephole, functions):
        hidden = r.shape[1]
        f, g = functions
        bias = ops.zeros((6 * hidden,), dtype=w.dtype) if b is None else b
        of_x, of_h = bias[: 3 * hidden], bias[3 * hidden :]

        def step(x, h):
            xz, xr, xh = _gates(x @ ops.matrix_transpose(w) + of_x, 3)
            if linear_before_reset:
                hz, hr, hh = _gates(h @ ops.matrix_transpose(r) + of_h, 3)
                z, reset = f(_clipped(xz + hz, clip)), f(_clipped(xr + hr, clip))
                new = g(_clipped(xh + reset * hh, clip))
            else:
                gates = h @ ops.matrix_transpose(r[: 2 * hidden]) + of_h[: 2 * hidden]
                hz, hr = _gates(gates, 2)
                z, reset = f(_clipped(xz + hz, clip)), f(_clipped(xr + hr, clip))
                inner = (reset * h) @ ops.matrix_transpose(r[2 * hidden :]) + of_h[2 * hidden :]
                new = g(_clipped(xh + inner, clip))
            return ((1 - z) * new + z * h,)

        return step

    return cell


def _lstm_cell(clip: float | None, input_forget: int) -> Callable[..., Any]:
    def cell(w, r, b, peephole, functions):
        hidden = r.shape[1]
        f, g, k = functions
        bias = 0 if b is None else b[: 4 * hidden] + b[4 * hidden :]
        pi, po, pf = (None, None, None) if peephole is None else _gates(peephole, 3)

        def step(x, h, c):
            inner = x @ ops.matrix_transpose(w) + h @ ops.matrix_transpose(r) + bias
            i, o, forget, new = _gates(inner, 4)
            if pi is not None:
                i, forget = i + pi * c, forget + pf * c
            i = f(_clipped(i, clip))
            forget = 1 - i if input_forget else f(_clipped(forget, clip))
            c = forget * c + i * g(_clipped(new, clip))
            if po is not None:
                o = o + po * c
            o = f(_clipped(o, clip))
            return o * k(c), c

        return step

    return cell


def _require_size(hidden_size: int | None, r: Any) -> None:
    if hidden_size is not None and hidden_size != r.shape[2]:
        raise OnnxError(f"hidden_size is {hidden_size}, the recurrence weights {list(r.shape)}")


def _names(given: list[str] | None, default: list[str], direction: str) -> list[str]:
    count = 2 if direction == "bidirectional" else 1
    return list(given) if given else default * count


@handles("RNN", 14, 22, weights=_WEIGHTS)
def rnn(
    x, w, r, b=None, lengths=None, h=None, *, activation_alpha=None, activation_beta=None,
    activations=None, clip=None, direction="forward", hidden_size=None, layout=0, outputs=1,
):  # fmt: skip
    """RNN: the outputs of all steps, and the last."""
    _require_size(hidden_size, r)
    names = _names(activations, ["Tanh"], direction)
    return _recurrent(
        x, w, r, b, lengths, [h], None, layout, direction, names, 1, activation_alpha,
        activation_beta, _rnn_cell(clip), outputs,
    )  # fmt: skip


@handles("RNN", 1, 7, weights=_WEIGHTS)
def rnn_of_opset_1(
    x, w, r, b=None, lengths=None, h=None, *, activation_alpha=None, activation_beta=None,
    activations=None, clip=None, direction="forward", hidden_size=None, output_sequence=0,
    outputs=1,
):  # fmt: skip
    """RNN with the steps in front: opsets 1 to 13."""
    return rnn(
        x, w, r, b, lengths, h, activation_alpha=activation_alpha, activation_beta=activation_beta,
        activations=activations, clip=clip, direction=direction, hidden_size=hidden_size,
        outputs=outputs,
    )  # fmt: skip


@handles("GRU", 14, 22, weights=_WEIGHTS)
def gru(
    x, w, r, b=None, lengths=None, h=None, *, activation_alpha=None, activation_beta=None,
    activations=None, clip=None, direction="forward", hidden_size=None, layout=0,
    linear_before_reset=0, outputs=1,
):  # fmt: skip
    """GRU: the outputs of all steps, and the last."""
    _require_size(hidden_size, r)
    names = _names(activations, ["Sigmoid", "Tanh"], direction)
    return _recurrent(
        x, w, r, b, lengths, [h], None, layout, direction, names, 2, activation_alpha,
        activation_beta, _gru_cell(clip, linear_before_reset), outputs,
    )  # fmt: skip


@handles("GRU", 1, 3, 7, weights=_WEIGHTS)
def gru_of_opset_1(
    x, w, r, b=None, lengths=None, h=None, *, activation_alpha=None, activation_beta=None,
    activations=None, clip=None, direction="forward", hidden_size=None, linear_before_reset=0,
    output_sequence=0, outputs=1,
):  # fmt: skip
    """GRU with the steps in front: opsets 1 to 13."""
    return gru(
        x, w, r, b, lengths, h, activation_alpha=activation_alpha, activation_beta=activation_beta,
        activations=activations, clip=clip, hidden_size=hidden_size, outputs=outputs,
        direction="forward" if direction == "foward" else direction,  # as opset 1 spells it
        linear_before_reset=linear_before_reset,
    )  # fmt: skip


@handles("LSTM", 14, 22, weights=(1, 2, 3, 7))
def lstm(
    x, w, r, b=None, lengths=None, h=None, c=None, p=None, *, activation_alpha=None,
    activation_beta=None, activations=None, clip=None, direction="forward", hidden_size=None,
    input_forget=0, layout=0, outputs=1,
):  # fmt: skip
    """LSTM: the outputs of all steps, the last, and the last cells."""
    _require_size(hidden_size, r)
    names = _names(activations, ["Sigmoid", "Tanh", "Tanh"], direction)
    return _recurrent(
        x, w, r, b, lengths, [h, c], p, layout, direction, names, 3, activation_alpha,
        activation_beta, _lstm_cell(clip, input_forget), outputs,
    )  # fmt: skip


@handles("LSTM", 1, 7, weights=(1, 2, 3, 7))
def lstm_of_opset_1(
    x, w, r, b=None, lengths=None, h=None, c=None, p=None, *, activation_alpha=None,
    activation_beta=None, activations=None, clip=None, direction="forward", hidden_size=None,
    input_forget=0, output_sequence=0, outputs=1,
):  # fmt: skip
    """LSTM with the steps in front: opsets 1 to 13."""
    return lstm(
        x, w, r, b, lengths, h, c, p, activation_alpha=activation_alpha,
        activation_beta=activation_beta, activations=activations, clip=clip, direction=direction,
        hidden_size=hidden_size, input_forget=input_forget, outputs=outputs,
    )  # fmt: skip
