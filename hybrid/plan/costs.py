"""Cost model of steps: bytes moved, floating-point operations, seconds.

Seconds are of one thread, warm caches and AVX-512; the constants were fitted to medians measured on
tensors of 16 to 30,000 elements.  They decide what runs side by side, never what comes out of it,
so that they are right within a factor of two is enough, and they are the same on every machine:
one graph has one schedule.  Of an open graph they are what they are at the sizes at hand.
"""

from __future__ import annotations

import math

from hybrid.core.size_functions import value_here
from hybrid.core.sizes import Size
from hybrid.ir import View
from hybrid.plan.maps import is_elementwise
from hybrid.plan.steps import MapOp, Step

STEP_SECONDS = 5e-8  # of any step, with its call and what it sets up
PRODUCT_SECONDS, CONVOLUTION_SECONDS = 2.5e-7, 7e-7
OPERATION_SECONDS = 7e-12  # of a product: 140 GFLOP/s, which small ones reach

MATMULS = ("matmul", "matmul_prepared", "matmul_integer", "matmul_integer_prepared")

# Seconds per byte moved, by kernel: reductions, norms and sorting do more for each than copies.
COPY, TYPICAL = 1.2e-11, 2.5e-11
BYTE_SECONDS = {
    **dict.fromkeys(("copy", "take", "dropout", "unfold", "fold"), COPY),
    **dict.fromkeys((*MATMULS, "quantize_rows"), 1e-11),
    **dict.fromkeys(("matmul_grouped", "matmul_grouped_zero", "matmul_grouped_integer"), 1e-9),
    **dict.fromkeys(("sort", "argsort", "topk", "distinct", "searchsorted"), 2e-9),
    **dict.fromkeys(("cholesky", "solve", "solve_lower", "solve_upper", "inv"), 1e-9),
    **dict.fromkeys(("det", "slogdet", "qr", "qr_complete"), 1e-9),
    **dict.fromkeys(("eigh", "eigvalsh", "svd", "svd_full", "svdvals"), 5e-9),
    **dict.fromkeys(("pinv", "cofactors"), 5e-9),
    **dict.fromkeys(("max_pool", "avg_pool", "max_pool_places", "avg_pool_spread"), 1e-9),
    **dict.fromkeys(("random_bits", "random_uniform_f32", "random_normal_f32"), 2e-10),
}

# Seconds per element of ops inside maps.
LIGHT, HEAVY = 4e-11, 2e-10
_HEAVY = frozenset(
    (
        *("exp", "expm1", "log", "log1p", "log2", "log10", "pow", "hypot", "erf", "softplus"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("gelu", "gelu_tanh", "gelu_slope", "gelu_tanh_slope", "sigmoid", "silu", "silu_slope"),
        *("divide", "floor_divide", "remainder", "reciprocal", "sqrt", "rsqrt", "nextafter"),
        *("adam", "amsgrad", "adamax", "radam", "nadam", "adagrad", "adadelta", "rmsprop"),
        *("rmsprop_momentum", "rmsprop_centered", "rmsprop_centered_momentum"),
    )
)

SUMS = "matmul_sum"
CONVOLUTIONS = (
    *("conv", "conv_prepared", "conv_blocked", "conv_transpose", "conv_weight"),
    *("conv_integer", "conv_integer_prepared"),
)
# Kernels that wake threads themselves, from so many operations on; in a member they would not.
WAKING_OPERATIONS = {**dict.fromkeys(MATMULS, 2 << 20), **dict.fromkeys(CONVOLUTIONS, 1 << 20)}
WAKING_SECONDS = 1e-5  # of others that do: sorting, and reductions to few elements
LARGE_SECONDS = 4e-6  # about the chunk of a kernel that is cut up: more is several


def elements(view: View) -> int:
    """The number of elements of ``view`` in memory; repeated ones count once."""
    kept = [n for n, s in zip(view.shape, view.strides, strict=True) if type(s) is Size or s]
    return math.prod(map(value_here, kept))


def _size(view: View) -> int:
    return value_here(view.size)


def step_bytes(step: Step) -> int:
    """The bytes that ``step`` reads and writes, without those in the tiles of a map."""
    views = [view for view in step.operands if view.buffer.kind != "made"]
    return sum(elements(view) * view.dtype.itemsize for view in views)


def step_flops(step: Step) -> int:
    """The floating-point operations of ``step``: of products, or one per element."""
    found = 0
    if step.kernel in MATMULS:
        found = 2 * _size(step.outputs[0]) * value_here(step.inputs[0].shape[-1])
    elif step.kernel == SUMS:
        found = 2 * _size(step.inputs[1]) * value_here(step.outputs[0].shape[-1])
    elif step.kernel in CONVOLUTIONS:
        found = _convolution_flops(step)
    elif step.kernel is not None and step.kernel != "copy":
        found = max(
            [_size(v) for v in (*step.inputs, *step.outputs) if v.dtype.is_floating], default=0
        )
    walked = _walked(step)
    return found + sum(walked for op in step.ops if op.dtype.is_floating)


def _convolution_flops(step: Step) -> int:
    """Each item of the result of a forward one has as many terms as its filter has weights."""
    if step.kernel == "conv_weight":  # as many as the convolution whose weights these are of
        weights, places = step.outputs[0], step.inputs[1]
    elif step.kernel == "conv_transpose":  # and whose input this is of
        weights, places = step.inputs[1], step.inputs[0]
    else:
        weights, places = step.inputs[1], step.outputs[0]
    return 2 * _size(places) * _size(weights) // max(value_here(weights.shape[0]), 1)


def _walked(step: Step) -> int:
    """Elements that each op of a map, or each post- or pre-op, computes."""
    if not step.ops:
        return 0
    views = step.extra if step.has_pre_ops else step.outputs
    return max(map(_size, views), default=0)


def step_seconds(step: Step) -> float:
    """The time in seconds that ``step``, a kernel or a map, takes on one thread."""
    moved = step_bytes(step) * (
        TYPICAL / 3 if step.kernel is None else BYTE_SECONDS.get(step.kernel, TYPICAL)
    )
    found = STEP_SECONDS + _walked(step) * sum(map(_op_seconds, step.ops))
    if step.kernel in (*MATMULS, SUMS, *CONVOLUTIONS):
        operations = step_flops(step) * OPERATION_SECONDS
        start = CONVOLUTION_SECONDS if step.kernel in CONVOLUTIONS else PRODUCT_SECONDS
        return found + start + max(operations, moved)
    if step.kernel is not None and is_elementwise(step.kernel):
        found += _size(step.outputs[0]) * (HEAVY if step.kernel in _HEAVY else LIGHT)
    return found + moved


def _op_seconds(op: MapOp) -> float:
    return HEAVY if op.kernel in _HEAVY else LIGHT


def wakes_threads(step: Step, seconds: float) -> bool:
    """Whether the kernel of ``step`` uses several threads by itself."""
    if step.kernel in WAKING_OPERATIONS:
        return step_flops(step) >= WAKING_OPERATIONS[step.kernel]
    if step.kernel in ("sort", "argsort", "topk"):
        return seconds > WAKING_SECONDS
    return _size(step.outputs[0]) < 64 and seconds > WAKING_SECONDS


def is_cut(step: Step, seconds: float) -> bool:
    """Whether a run cuts ``step`` into several chunks."""
    return seconds > LARGE_SECONDS and step.kernel not in WAKING_OPERATIONS
