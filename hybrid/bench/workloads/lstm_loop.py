"""A loop over time, learnt from: lstm_loop."""

from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.compare.adapter import lengths
from hybrid.bench.compare.problems import sequence
from hybrid.bench.peers import peers, require_agreement
from hybrid.bench.registry import Case, workload


class LstmCell(hy.nn.Module):
    """The cell of S. Hochreiter and J. Schmidhuber, 1997, with gates in PyTorch's order."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.input = hy.nn.Linear(features, 4 * hidden)
        self.hidden = hy.nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(
        self, x: hy.Tensor, state: tuple[hy.Tensor, hy.Tensor]
    ) -> tuple[hy.Tensor, hy.Tensor]:
        h, c = state
        i, f, g, o = hy.chunk(self.input(x) + self.hidden(h), 4, axis=1)
        c = hy.sigmoid(f) * c + hy.sigmoid(i) * hy.tanh(g)
        return hy.sigmoid(o) * hy.tanh(c), c


def lstm_matmuls(x: Any, h: Any, gates_ct: Any, input_weight: Any, hidden_weight: Any) -> Any:
    """The products of one step: two forward, three backward."""
    return (
        x @ input_weight.mT,
        h @ hidden_weight.mT,
        gates_ct @ hidden_weight,
        gates_ct.mT @ x,
        gates_ct.mT @ h,
    )


@workload(
    "lstm_loop",
    "50 steps of an LSTM cell, batch 32, 64 to 128, forward and backward",
    first_look=("50 steps",),
)
def lstm_loop() -> list[Case]:
    problem = sequence()
    steps, batch, features, hidden = problem.sizes
    inputs = hy.asarray(problem.inputs[0])
    cell = LstmCell(features, hidden)
    input_weight, hidden_weight, input_bias, hidden_bias = problem.parameters.values()
    parameters = input_weight, hidden_weight, input_bias + hidden_bias
    names = ("input.weight", "hidden.weight", "input.bias")
    cell.load_state_dict(dict(zip(names, map(hy.asarray, parameters), strict=True)))

    def learn(inputs: hy.Tensor) -> hy.Tensor:
        cell.zero_grad()
        h, c = hy.zeros((batch, hidden)), hy.zeros((batch, hidden))
        for t in range(steps):
            h, c = cell(inputs[t], (h, c))
        loss = (h * h).mean()
        loss.backward()
        return loss

    def gradients() -> list[Any]:
        trained = dict(cell.named_parameters())
        return [trained[name].grad for name in names]

    captured = hy.hybridize(learn)
    others = peers("lstm_train", "50 steps", frameworks=("jax", "torch"))

    def check() -> dict[str, str]:
        eager = learn(inputs), gradients()
        require_same_bits("lstm_loop", eager, (captured(inputs), gradients()))
        loss, found = eager
        of_all = lengths("gradient of parameter", [*found, found[-1]])  # of either bias
        require_agreement("lstm_loop", {"loss": loss, **of_all}, others)
        nodes = len(captured.graph(inputs).nodes)
        return {"graph": f"{nodes} nodes for {steps} steps, the body of a loop counted as one"}

    shapes = (batch, features), (batch, hidden), (batch, 4 * hidden)
    draw = np.random.RandomState(0)
    operands = [hy.asarray(draw.randn(*shape).astype(np.float32)) for shape in shapes]
    operands += [hy.asarray(weight) for weight in parameters[:2]]
    products = hy.hybridize(lstm_matmuls)

    def matmuls() -> None:
        for _ in range(steps):
            products(*operands)

    ways = {
        "eager": lambda: learn(inputs),
        "hybridized": lambda: captured(inputs),
        "matmuls": matmuls,
        **others,
    }
    return [Case(label=f"{steps} steps", ways=ways, check=check, threads=1)]
