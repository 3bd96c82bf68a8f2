"""Small computations, where the price of a call decides: dispatch, chain20, d2l_mlp; and overheads.

The last is what running costs beside the computing, and what it may cost.
"""

import copy
import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.compare.problems import vectors
from hybrid.bench.registry import BenchError, Case, Target, workload
from hybrid.bench.workloads.training_steps import perceptron

D2L_SIZES = (512, 256, 128, 2)


def compare(
    label: str,
    function: Callable[..., Any],
    captured: Callable[..., Any],
    reference: Callable[..., Any],
    arrays: Sequence[np.ndarray],
) -> Case:
    """``function`` and its hybridized twin on tensors, beside ``reference`` on NumPy arrays."""
    tensors = [hy.asarray(array) for array in arrays]

    def check() -> dict[str, str]:
        result = function(*tensors)
        require_same_bits(label, result, captured(*tensors))
        require_close(label, result, reference(*arrays))
        return {}

    ways = {
        "eager": lambda: function(*tensors),
        "hybridized": lambda: captured(*tensors),
        "numpy": lambda: reference(*arrays),
    }
    return Case(label=label, ways=ways, check=check)


def add(a: Any, b: Any) -> Any:
    return a + b


@workload(
    "dispatch",
    "a + b on 8 float32: the price of one op, plain and recorded for gradients",
    first_look=("a + b",),
)
def dispatch() -> list[Case]:
    a, b = np.random.RandomState(0).randn(2, 8).astype(np.float32)
    recorded, other = hy.asarray(a), hy.asarray(b)
    recorded.requires_grad = True

    def check() -> dict[str, str]:
        (recorded + other).sum().backward()
        require_close("the gradient of a + b", recorded.grad, np.ones(8, np.float32))
        return {}

    recording = Case(label="a + b, recorded", ways={"eager": lambda: recorded + other}, check=check)
    return [compare("a + b", add, hy.hybridize(add), add, [a, b]), recording]


def chain(x: Any, y: Any, tanh: Callable[[Any], Any]) -> Any:
    for _ in range(5):
        x = x + y
        x = x * y
        x = tanh(x)
        x = x - y
    return x


@workload(
    "chain20",
    "five times x+y, x*y, tanh, x-y on 16 float32: twenty ops in a row",
    first_look=("20 ops",),
)
def chain20() -> list[Case]:
    arrays = list(np.random.RandomState(0).randn(2, 16).astype(np.float32))

    def ours(x: Any, y: Any) -> Any:
        return chain(x, y, hy.tanh)

    def numpys(x: Any, y: Any) -> Any:
        return chain(x, y, np.tanh)

    return [compare("20 ops", ours, hy.hybridize(ours), numpys, arrays)]


@workload(
    "d2l_mlp",
    "inference of one row through Linear 512-256-128-2 with ReLU",
    first_look=("one row",),
)
def d2l_mlp() -> list[Case]:
    network = perceptron(D2L_SIZES, seed=0).eval()
    for parameter in network.parameters():
        parameter.requires_grad = False  # inference: nothing is recorded
    weights = [
        (np.ascontiguousarray(layer.weight.numpy().T), layer.bias.numpy())
        for layer in network[::2]  # those between are ReLU
    ]

    def numpys(row: np.ndarray) -> np.ndarray:
        for weight, bias in weights[:-1]:
            row = np.maximum(row @ weight + bias, 0)
        weight, bias = weights[-1]
        return row @ weight + bias

    row = np.random.RandomState(0).randn(1, 512).astype(np.float32)
    twin = copy.deepcopy(network).hybridize()
    return [compare("one row", network, twin, numpys, [row])]


STEPS = 1000
Function = Callable[[hy.Tensor], hy.Tensor]


def twice(x: hy.Tensor) -> hy.Tensor:
    return x + x


def kernels(x: hy.Tensor) -> hy.Tensor:
    """So many kernels in a row, none of which can be part of a map."""
    return reduce(lambda sums, _: hy.cumulative_sum(sums), range(STEPS), x)


def maps(x: hy.Tensor) -> hy.Tensor:
    """So many elementwise kernels in a row, which are one map over one tile."""
    return reduce(lambda value, i: hy.abs(value) if i % 2 else value - x, range(STEPS), x)


# What is measured, of how many parts, eagerly or hybridized, and the seconds that a part may take.
ROWS: tuple[tuple[str, Function, int, str, float], ...] = (
    ("an op", twice, 1, "eager", 0.7e-6),
    ("a call", twice, 1, "hybridized", 2.5e-6),
    ("a kernel step", kernels, STEPS, "hybridized", 30e-9),
    ("a map kernel", maps, STEPS, "hybridized", 15e-9),
)


@workload("overheads", "an eager op, a hybridized call, a step, a map kernel, with their budgets")
def overheads() -> list[Case]:
    (x,) = vectors(8).inputs
    return [case(hy.asarray(x), *row) for row in ROWS]


def case(
    x: hy.Tensor, label: str, function: Function, parts: int, decides: str, budget: float
) -> Case:
    captured = hy.hybridize(function)

    def check() -> dict[str, str]:
        require_same_bits(label, function(x), captured(x))
        if (count := len(captured.graph(x).nodes)) != parts:
            raise BenchError(f"{label}: the graph has {count} nodes instead of {parts}")
        return {}

    ways = {"eager": lambda: function(x), "hybridized": lambda: captured(x)}
    return Case(
        label=label, ways=ways, check=check, threads=1, parts=parts, budgets={decides: budget}
    )


class Hundreds:
    """Times calls by the hundred, of which one is verified where that is asked for."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call

    def sample(self, count: int) -> float:
        """The seconds that so many hundreds of calls take."""
        begin = time.process_time()
        for _ in range(100 * count):
            self.call()
        return time.process_time() - begin


@workload("verified", "one call in a hundred that runs eagerly as well and is compared: its cost")
def verified() -> list[Case]:
    hy.random.seed(0)
    layers = [layer for _ in range(6) for layer in (hy.nn.Linear(256, 256), hy.nn.ReLU())]
    net, x = hy.nn.Sequential(*layers).eval(), hy.ones((64, 256))
    plain, compared = (hy.hybridize(lambda x: net(x), verify=share) for share in (None, 0.01))

    def check() -> dict[str, str]:
        require_same_bits("verified", net(x), compared(x))
        return {}

    return [
        Case(
            label="six dense layers",
            ways={"plain": Hundreds(lambda: plain(x)), "1 %": Hundreds(lambda: compared(x))},
            check=check,
            targets={"1 %": (Target(1.02),)},
            parts=100,
            threads=1,
            clock="cpu",
        )
    ]
