"""Workloads in JAX, compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from hybrid.bench.adapters.serve import Program, serve
from hybrid.bench.problems import SMALL, STEP, lstm_problem, newton_start


def while_loop() -> Program:
    start = jnp.asarray(newton_start())

    @jax.jit
    def settle(x: Any) -> Any:
        return jax.lax.while_loop(
            lambda x: jnp.max(jnp.abs(x)) > SMALL, lambda x: x - STEP * jnp.sin(x), x
        )

    return Program(lambda: settle(start).block_until_ready(), lambda x: x / SMALL)


def lstm_loop() -> Program:
    problem = lstm_problem()
    inputs = jnp.asarray(problem.inputs)
    parameters = tuple(map(jnp.asarray, problem.parameters))
    zeros = jnp.zeros((inputs.shape[1], problem.hidden), jnp.float32)

    def loss(parameters: Any, inputs: Any) -> Any:
        input_weight, hidden_weight, bias = parameters

        def cell(state: Any, x: Any) -> Any:
            h, c = state
            gates = x @ input_weight.T + bias + h @ hidden_weight.T
            i, f, g, o = jnp.split(gates, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        (h, _), _ = jax.lax.scan(cell, (zeros, zeros), inputs)
        return (h * h).mean()

    step = jax.jit(jax.value_and_grad(loss))

    def read(result: Any) -> list[float]:
        value, gradients = result
        return [float(value), *[float((g * g).sum()) for g in gradients]]

    return Program(lambda: jax.block_until_ready(step(parameters, inputs)), read)


PROGRAMS = {"while_loop": while_loop, "lstm_loop": lstm_loop}

if __name__ == "__main__":
    serve(PROGRAMS)
