"""Open calls: functions of several ops that serve all sizes, with the bits of calls of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.fused_calls import opened
from hybrid.memory import native
from hybrid.ops.support import call_cache

f = hy.nn.functional
WEIGHT, BIAS = hy.asarray(np.linspace(-1, 1, 30, dtype="float32").reshape(5, 6)), hy.ones((5,))
KERNEL = hy.asarray(np.linspace(-1, 1, 18, dtype="float32").reshape(2, 1, 3, 3))
MASK = hy.asarray([True, False, True, True, False, True])

# Functions of x [n, 6], which are remembered, or call some that are.
CALLS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda x: f.linear(x, WEIGHT, BIAS),
    "linear without a bias": lambda x: f.linear(x, WEIGHT),
    "matmul": lambda x: hy.matmul(x, WEIGHT.T),
    "a gram matrix": lambda x: hy.matmul(x, x.T),
    "sum": hy.sum,
    "sum of an axis": lambda x: hy.sum(x, axis=1, keepdims=True),
    "mean": hy.mean,
    "mean of rows": lambda x: hy.mean(x, axis=0),
    "var": lambda x: hy.var(x, axis=0),
    "std": lambda x: hy.std(x, axis=1, correction=1),
    "max": lambda x: hy.max(x, axis=1),
    "argmin": lambda x: hy.argmin(x, axis=0),
    "logsumexp": lambda x: hy.logsumexp(x, axis=0),
    "vector_norm": lambda x: hy.linalg.vector_norm(x, axis=1),
    "softmax": lambda x: f.softmax(x, axis=1),
    "log_softmax": lambda x: f.log_softmax(x, axis=0),
    "layer_norm": lambda x: f.layer_norm(x, (6,)),
    "rms_norm": lambda x: f.rms_norm(x, (6,)),
    "gelu": f.gelu,
    "leaky_relu": lambda x: f.leaky_relu(x, 0.1),
    "hardswish": f.hardswish,
    "glu": lambda x: f.glu(x, 1),
    "clip": lambda x: hy.clip(x, -0.5, 0.5),
    "where": lambda x: hy.where(MASK, x, 0.0),
    "reshape": lambda x: x.reshape(-1),
    "reshape to pairs": lambda x: hy.reshape(x, (-1, 2)),
    "transpose": lambda x: x.T,
    "expand": lambda x: hy.expand_dims(x, axis=1),
    "broadcast": lambda x: hy.broadcast_to(x[:1], (4, 6)),
    "flip": lambda x: hy.flip(x, axis=0),
    "concat": lambda x: hy.concat([x, x], axis=1),
    "stack": lambda x: hy.stack([x, x]),
    "split": lambda x: hy.split(x, 2, axis=1),
    "unstack": lambda x: hy.unstack(x, axis=1),
    "pad": lambda x: f.pad(x, (1, 2)),
    "roll": lambda x: hy.roll(x, 1, axis=0),
    "a part": lambda x: x[1:, ::2],
    "a row": lambda x: x[-1],
    "take": lambda x: hy.take(x, hy.asarray([1, 0]), axis=0),
    "cumulative_sum": lambda x: hy.cumulative_sum(x, axis=0),
    "sort": lambda x: hy.sort(x, axis=0),
    "a convolution": lambda x: f.conv2d(x[None, None], KERNEL, padding=1),
    "a pool": lambda x: f.max_pool2d(x[None, None], 2),
    "mse_loss": lambda x: f.mse_loss(x, x * 0.5),
    "cross_entropy": lambda x: f.cross_entropy(x, hy.argmax(x, axis=1)),
    "cast": lambda x: hy.astype(x, hy.float16),
    "in storage": lambda x: f.softmax(hy.astype(x, hy.bfloat16), axis=1),
    "of its size": lambda x: x / x.shape[0] + x.size,
}
# Functions that no code serves.
UNOPENED = {
    "the tensor itself": lambda x: x,
    "elements": lambda x: x * float(x.numpy().sum()),
    "a choice": lambda x: hy.random.normal(x.shape),
    "no tensor": lambda x: x.shape,
    "an array of the host's": hy.tril,
}
SIZES = [9, 4, 2, 33, 3, 64, 7]


def tensor(n: int) -> hy.Tensor:
    values = np.random.default_rng(n).standard_normal((n, 6)).astype("float32")
    x = hy.asarray(values)
    x.requires_grad = True
    return x


def bits(found: Any) -> list[Any]:
    parts = [found] if isinstance(found, hy.Tensor) else found
    return [type(found), *[(y.type, bytes(native.view(y.content, y.type.nbytes))) for y in parts]]


def gradient(x: hy.Tensor, found: Any) -> Any:
    parts = [found] if isinstance(found, hy.Tensor) else found
    ends = [hy.sum(y * y) for y in parts if y.dtype.is_floating and y.requires_grad]
    if not ends:
        return None
    sum(ends[1:], ends[0]).backward()
    return bits(x.grad)


@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_those_of_the_function(name: str) -> None:
    call, served = CALLS[name], 0
    runs = [opened(call, [tensor(n)]) for n in SIZES[:3]]
    for n in SIZES:
        try:
            want_x = tensor(n)
            want = call(want_x)
        except hy.HybridError:  # too few rows
            continue
        expected = bits(want), gradient(want_x, want)
        for run in runs:
            x = tensor(n)
            found = None if run is None else run([x])
            if found is not None:
                served += 1
                assert (bits(found), gradient(x, found)) == expected, n
    assert served > len(SIZES), "the code of one size serves others"


@pytest.mark.parametrize("name", UNOPENED)
def test_what_cannot_be_opened(name: str) -> None:
    assert opened(UNOPENED[name], [tensor(5)]) is None


def test_conditions_tell_sizes_apart() -> None:
    run = opened(lambda x: hy.sum(x) if x.shape[0] > 8 else hy.mean(x), [tensor(9)])
    assert run is not None
    assert run([tensor(8)]) is None
    assert bits(run([tensor(12)])) == bits(hy.sum(tensor(12)))


def test_a_changed_argument_is_another_call() -> None:
    for n in range(500, 520):
        x = hy.ones((n, 4))
        assert hy.sum(x, axis=n % 2).shape == ((4,) if n % 2 == 0 else (n,))


def test_types_of_one_kind_have_their_own_symbols() -> None:
    run = opened(lambda a, b: hy.matmul(a, b), [hy.ones((5, 5)), hy.ones((5, 5))])
    assert run is not None
    assert run([hy.ones((6, 5)), hy.ones((5, 6))]) is None  # two types: another code
    other = opened(lambda a, b: hy.matmul(a, b), [hy.ones((6, 5)), hy.ones((5, 7))])
    assert other is not None
    assert other([hy.ones((3, 4)), hy.ones((4, 8))]).shape == (3, 8)
    assert other([hy.ones((3, 4)), hy.ones((5, 8))]) is None  # for the function to refuse


def test_without_history_nothing_is_recorded() -> None:
    run = opened(CALLS["linear"], [tensor(9)])
    assert run is not None
    with hy.no_grad():
        assert not run([tensor(7)]).requires_grad
    assert not run([hy.ones((7, 6))]).requires_grad
    assert run([tensor(7)]).requires_grad


def test_second_derivatives() -> None:
    def slope(call: Callable[[hy.Tensor], Any]) -> Any:
        return hy.grad(lambda x: hy.sum(hy.grad(lambda y: hy.sum(call(y)))(x) ** 2))

    run = opened(lambda x: hy.mean(x * x * x, axis=0), [tensor(9)])
    assert run is not None
    x = hy.asarray(tensor(7).numpy())
    want = slope(lambda x: hy.mean(x * x * x, axis=0))(x)
    assert bits(slope(lambda y: run([y]))(x)) == bits(want)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the rest of the library's ``mean`` ran that is no open call."""
    seen: list[int] = []
    general = call_cache.OpenCalls.run

    def run(self: Any, function: Any, tensors: Any) -> Any:
        def watching(*given: Any) -> Any:
            seen.append(given[0].shape[0])
            return function(*given)

        return general(self, watching, tensors)

    monkeypatch.setattr(call_cache.OpenCalls, "run", run)
    return seen


def test_new_sizes_are_served_after_the_first_few(counted: list[int]) -> None:
    for n in range(700, 760):
        assert hy.mean(hy.ones((n, 3, 1, 2))).item() == 1.0
    assert len(counted) <= call_cache.CALLS_BEFORE_OPENING + call_cache.FEW


def test_a_mistake_is_raised_by_the_function() -> None:
    for n in range(800, 830):
        f.linear(hy.ones((n, 3)), hy.ones((2, 3)))
    with pytest.raises(hy.HybridError, match=r"f32\[9,4\] and f32\[3,2\]"):
        f.linear(hy.ones((9, 4)), hy.ones((2, 3)))


def test_pending_values() -> None:
    for n in range(900, 930):
        hy.sum(hy.ones((n, 2, 3)), axis=1)
    with hy.stream():
        later = hy.ones((935, 2, 3)) * 2
    assert hy.sum(later, axis=1).numpy().min() == 4.0
