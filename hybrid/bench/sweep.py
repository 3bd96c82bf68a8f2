"""Every array function, called eagerly on small and on large arrays, with NumPy beside it.

What a function is called with is told by its group: one line per shape of arguments.  Where NumPy
has no function of the name, what one would write with NumPy stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid import linalg, ops
from hybrid.bench.measure import SampleTiming, measure
from hybrid.bench.sweep_functions import ROWS
from hybrid.core.tree import tree_map
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.ops.support.call_cache import CALLS_BEFORE_LEARNING, CALLS_BEFORE_PLANNING

SIZES = (100, 1_000_000)
WARM_UP = CALLS_BEFORE_LEARNING + CALLS_BEFORE_PLANNING + 1  # from then on calls are what they stay
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class SweepRow:
    """One function on arrays of ``size`` elements: seconds of a call, ours and NumPy's."""

    name: str
    size: int
    ours: SampleTiming
    numpy: SampleTiming

    @property
    def ratio(self) -> float:
        """How many times NumPy's time ours is."""
        return self.ours.median / self.numpy.median


class SweepArrays:
    """The arrays of one size and dtype."""

    def __init__(self, size: int, dtype: str) -> None:
        self.size, self.dtype = size, np.dtype(dtype)
        self.random = np.random.default_rng(0)

    def floats(self, *shape: int, low: float = 0.1, high: float = 0.9) -> np.ndarray:
        return self.random.uniform(low, high, shape or (self.size,)).astype(self.dtype)

    def integers(self, high: int = 30, *shape: int) -> np.ndarray:
        return self.random.integers(0, high, shape or (self.size,))

    def bools(self) -> np.ndarray:
        return self.random.random(self.size) < 0.5

    @property
    def side(self) -> int:
        """That of a square matrix of so many elements."""
        return math.isqrt(self.size)

    def matrix(self) -> np.ndarray:
        return self.floats(self.side, self.side)

    def definite(self) -> np.ndarray:
        """A symmetric positive definite matrix, of 200 rows at most."""
        side = min(self.side, 200)
        x = self.floats(side, side)
        return x @ x.T + np.eye(side, dtype=self.dtype)


def _called(*kinds: str, **kwargs: Any) -> Callable[[SweepArrays], Arguments]:
    def arguments(draw: SweepArrays) -> Arguments:
        return tuple([getattr(draw, kind)() for kind in kinds]), kwargs

    return arguments


GROUPS: list[tuple[Callable[[SweepArrays], Arguments], str]] = [
    (_called("floats"), """
        abs acos asin asinh atan atanh ceil cos cosh erf exp expm1 floor gelu gelu_tanh isfinite
        isinf isnan log log1p log2 log10 log_softmax logsumexp negative normalize reciprocal relu
        round rsqrt sigmoid sign signbit silu sin sinh softmax softplus sqrt square tan tanh trunc
        all any argmax argmin argsort count_nonzero max mean min prod sort std sum var vector_norm
        celu elu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu
        softmin softshrink softsign tanhshrink
        flip positive ones_like zeros_like empty_like diff unique_all unique_counts unique_inverse
        unique_values"""),
    (lambda draw: ((draw.floats() + 1,), {}), "acosh"),
    (_called("floats", "floats"), """
        add atan2 copysign divide equal greater greater_equal hypot less less_equal logaddexp
        maximum minimum multiply nextafter not_equal pow subtract vecdot remainder
        floor_divide"""),
    (_called("integers", "integers"), """
        bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"""),
    (_called("integers"), "bitwise_invert"),
    (_called("bools", "bools"), "logical_and logical_or logical_xor"),
    (_called("bools"), "logical_not nonzero argwhere"),
    (_called("bools", "floats", "floats"), "where"),
    (lambda draw: ((draw.floats(), 0.2, 0.8), {}), "clip"),
    (_called("matrix"), "matrix_transpose tril triu trace diagonal flatten"),
    (_called("matrix", "matrix"), "matmul tensordot linear"),
    (_called("floats", axis=0), "cumulative_sum cumulative_prod cumsum cumprod"),
    (lambda draw: ((draw.floats(draw.side), draw.floats(draw.side)), {}), "outer"),
    (lambda draw: ((draw.floats(), draw.integers(draw.size)), {"axis": 0}), "take take_along_axis"),
    (lambda draw: ((np.sort(draw.floats()), draw.floats()), {}), "searchsorted"),
    (lambda draw: (([draw.floats(), draw.floats()],), {}), "concat stack"),
    (lambda draw: ((draw.floats(), 7), {}), "roll"),
    (lambda draw: ((draw.floats(), 2), {}), "repeat tile"),
    (lambda draw: ((draw.floats(), 1), {}), "topk"),
    (lambda draw: ((draw.matrix(), ((1, 1), (2, 2))), {}), "pad"),
    (lambda draw: ((draw.size,), {}), "arange zeros ones empty"),
    (lambda draw: ((draw.size, 0.5), {}), "full"),
    (lambda draw: ((0.0, 1.0, draw.size), {}), "linspace"),
    (lambda draw: ((draw.side,), {}), "eye"),
    (lambda draw: ((draw.floats(), 0.5), {}), "full_like"),
    (lambda draw: ((draw.matrix(), (1, 0)), {}), "permute_dims transpose"),
    (lambda draw: ((draw.matrix(), (-1,)), {}), "reshape"),
    (lambda draw: ((draw.matrix(), 0, 1), {}), "swapaxes moveaxis"),
    (lambda draw: ((draw.floats(1, draw.size),), {}), "squeeze"),
    (lambda draw: ((draw.floats(), 0), {}), "expand_dims"),
    (lambda draw: ((draw.floats(1, draw.side), (draw.side, draw.side)), {}), "broadcast_to"),
    (lambda draw: (("ij,jk->ik", draw.matrix(), draw.matrix()), {}), "einsum"),
    (lambda draw: ((draw.matrix(), draw.side), {}), "layer_norm rms_norm"),
    (_called("definite"), """
        cholesky inv det slogdet eigvalsh eigh svdvals svd qr pinv matrix_rank matrix_norm"""),
    (_called("definite", "definite"), "solve"),
]  # fmt: skip

# Functions that no row is for: of another kind, other names of one above, or random ones, which
# take the state of a generator.
LEFT_OUT = """
as_tensor broadcast_arrays can_cast cast conj dropout fold identity isdtype literal
multilabel_margin_loss random_beta random_bits random_gamma random_normal random_poisson
random_truncated_normal random_uniform real repeat_interleave result_type stop_gradient unflatten
"""


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(x: np.ndarray, _size: int) -> np.ndarray:
    apart = x - x.mean(-1, keepdims=True)
    return apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-5)


BESIDE: dict[str, Callable[..., Any]] = {
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "layer_norm": _layer_norm,
    "leaky_relu": lambda x: np.where(x > 0, x, x * 0.01),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu6": lambda x: np.clip(x, 0, 6),
    "rms_norm": lambda x, _: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.finfo(x.dtype).eps),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "softmin": lambda x: _softmax(-x),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "erf": lambda x: np.tanh(x),  # NumPy has none: a function of like cost
    "flatten": lambda x: x.ravel(),
    "gelu": lambda x: x * 0.5 * (1 + np.tanh(x)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3))),
    "linear": lambda x, w: x @ w.T,
    "log_softmax": lambda x: np.log(_softmax(x)),
    "logsumexp": lambda x: np.log(np.sum(np.exp(x - x.max()))) + x.max(),
    "normalize": lambda x: x / np.linalg.vector_norm(x),
    "pinv": np.linalg.pinv,
    "relu": lambda x: np.maximum(x, 0),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softmax": _softmax,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "topk": lambda x, k: (np.partition(x, -k)[-k:], np.argpartition(x, -k)[-k:]),
    **{name: function for name, _, function in ROWS},
}


def functions(part: str = "") -> Iterator[tuple[str, Callable[[SweepArrays], Arguments]]]:
    """The names that hold ``part``, each with what draws its arguments, in alphabetical order."""
    found = [(name, draw) for draw, names in GROUPS for name in names.split() if part in name]
    found += [(name, draw) for name, draw, _ in ROWS if part in name]
    yield from sorted(found, key=lambda pair: pair[0])


def ours(name: str) -> Callable[..., Any]:
    """Our function of that name."""
    return getattr(ops, name, None) or getattr(linalg, name)


def beside(name: str) -> Callable[..., Any]:
    """What does the same with NumPy."""
    found = BESIDE.get(name) or getattr(np, name, None)
    return found or getattr(np.linalg, name)


def sweep(
    part: str = "",
    *,
    sizes: Sequence[int] = SIZES,
    dtype: str = "float32",
    repeat: int = 5,
    advance: Callable[[str], None] = lambda name: None,
) -> list[SweepRow]:
    """Measure each function whose name holds ``part``; ``advance`` is told of each before."""
    rows = []
    for name, arguments in functions(part):
        advance(name)
        for size in sizes:
            args, kwargs = arguments(SweepArrays(size, dtype))
            tensors = tree_map(lambda x: asarray(x) if isinstance(x, np.ndarray) else x, args)
            ways = {
                "hybrid": _call(ours(name), tensors, kwargs),
                "numpy": _call(beside(name), args, kwargs),
            }
            for _ in range(WARM_UP):
                ways["hybrid"]()
            timings = measure(ways, repeat)
            rows.append(SweepRow(name, size, timings["hybrid"], timings["numpy"]))
    return rows


def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[], Any]:
    def call() -> Any:
        return function(*args, **kwargs)

    return call


def eager_add(repeat: int = 5, *, size: int = SIZES[0]) -> SampleTiming:
    """Seconds of an eager addition of two small tensors: what a call costs at least."""
    x = asarray(np.ones(size, np.float32))
    assert isinstance(x, Tensor)
    return measure({"add": lambda: x + x}, repeat)["add"]
