"""Small computations, where the price of a call decides: dispatch, chain20, d2l_mlp."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.networks import perceptron
from hybrid.bench.registry import Case, workload

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
    return Case(label, ways, check)


def add(a: Any, b: Any) -> Any:
    return a + b


@workload("dispatch", "a + b on 8 float32: the price of one op, plain and recorded for gradients")
def dispatch() -> list[Case]:
    a, b = np.random.RandomState(0).randn(2, 8).astype(np.float32)
    recorded, other = hy.asarray(a), hy.asarray(b)
    recorded.requires_grad = True

    def check() -> dict[str, str]:
        (recorded + other).sum().backward()
        require_close("the gradient of a + b", recorded.grad, np.ones(8, np.float32))
        return {}

    recording = Case("a + b, recorded", {"eager": lambda: recorded + other}, check)
    return [compare("a + b", add, hy.hybridize(add), add, [a, b]), recording]


def chain(x: Any, y: Any, tanh: Callable[[Any], Any]) -> Any:
    for _ in range(5):
        x = x + y
        x = x * y
        x = tanh(x)
        x = x - y
    return x


@workload("chain20", "five times x+y, x*y, tanh, x-y on 16 float32: twenty ops in a row")
def chain20() -> list[Case]:
    arrays = list(np.random.RandomState(0).randn(2, 16).astype(np.float32))

    def ours(x: Any, y: Any) -> Any:
        return chain(x, y, hy.tanh)

    def numpys(x: Any, y: Any) -> Any:
        return chain(x, y, np.tanh)

    return [compare("20 ops", ours, hy.hybridize(ours), numpys, arrays)]


@workload("d2l_mlp", "inference of one row through Linear 512-256-128-2 with ReLU")
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
