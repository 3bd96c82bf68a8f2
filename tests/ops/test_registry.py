"""Every declared op, driven by the registry: a new op is tested because it exists."""

import math
import zlib
from itertools import islice

import numpy as np
import pytest

import hybrid as hy
import hybrid.passes  # declares the ops that passes build
from hybrid.core.types import float64
from hybrid.ir import REGISTRY, Builder, Op, parse
from hybrid.ops.elementwise.exact_integers import subtract_exact
from hybrid.ops.support.sampling import Sample, samples, types_of

OPS = sorted(
    (
        op
        for op in REGISTRY.values()
        if op.__module__.startswith("hybrid.ops")
        and not op.has_regions
        and op.pure  # else test_control.py and test_messages.py
    ),
    key=lambda op: op.name,
)

OPTIMIZERS = [op.name for op in OPS if "optimizer" in op.__module__]

# Kernel against reference, in units in the last place of the exact result; if not listed, bits.
ULPS = {
    **dict.fromkeys(["divide", "reciprocal", "sqrt"], 0.5),
    **dict.fromkeys(["exp", "expm1", "log", "log1p", "log2", "log10", "tanh", "sigmoid", "erf"], 2),
    **dict.fromkeys(["sin", "cos", "tan", "asin", "acos", "atan", "atan2"], 2),
    **dict.fromkeys(["sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "pow", "rsqrt"], 2),
    **dict.fromkeys(["silu", "softplus"], 4),
    **dict.fromkeys(["drop", "drop_again"], 1.5),  # 1 / (1 - rate) is rounded, too
    **dict.fromkeys(["mean", "sum", "avg_pool", "avg_pool_spread"], 8),
    **dict.fromkeys(["prod", "cumulative_prod"], 64),  # every factor may round
    **dict.fromkeys(OPTIMIZERS, 8),
}
# Where terms cancel: in units of the dtype's epsilon, relative to the largest element.
EPSILONS = {
    **dict.fromkeys(["matmul", "matmul_nt", "matmul_tn", "matmul_prepared", "matmul_sum"], 16),
    "matmul_grouped": 32,  # a half is added 8 times too much, and taken away again
    **dict.fromkeys(["conv", "conv_transpose", "conv_weight"], 16),
    **dict.fromkeys(["conv_prepared", "conv_blocked"], 16),
    **dict.fromkeys(["sum", "mean", "scatter_add", "scatter_along_add"], 16),
    **dict.fromkeys(["avg_pool", "avg_pool_spread", "resample", "resample_spread", "fold"], 16),
    **dict.fromkeys(["cumulative_sum", "recurrence"], 16),
    **dict.fromkeys(["random_gamma", "random_beta", "random_truncated_normal"], 16),
    **dict.fromkeys(["channel_norm", "channel_moments"], 16),
    "channel_norm_pull": 64,  # sums of 3,600 terms of both signs, 60 times what is left of them
    **dict.fromkeys(["layer_norm", "layer_norm_pull", "rms_norm", "rms_norm_pull"], 16),
    **dict.fromkeys(
        ["softmax", "log_softmax", "cross_entropy", "cross_entropy_pull", "random_normal"], 16
    ),
    **dict.fromkeys(["gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope", "silu_slope"], 4),
    **dict.fromkeys(["cholesky", "solve", "solve_triangular", "inv", "slogdet", "pinv"], 16),
    **dict.fromkeys(["qr", "qr_complete", "eigvalsh", "svdvals"], 16),
    **dict.fromkeys(["det", "cofactors"], 64),  # products of 17 pivots or values
    **dict.fromkeys(["eigh", "svd", "svd_full"], 64),  # vectors of values that are near each other
    **dict.fromkeys(["attention", "attention_pull"], 32),  # the exponential of a rounded score
    **dict.fromkeys(["attention_masked", "attention_masked_pull"], 32),
    **dict.fromkeys(["attention_dropped", "attention_dropped_pull"], 32),
    **dict.fromkeys(["remainder", *OPTIMIZERS], 4),
}


def drawn(op: Op) -> list[Sample]:
    return list(samples(op, seed=zlib.crc32(op.name.encode())))


def described(sample: Sample) -> str:
    operands, attrs = sample
    return f"{', '.join(map(str, types_of(operands)))} {attrs}"


def results(outcome: object) -> tuple:
    return outcome if isinstance(outcome, tuple) else (outcome,)


def reference(op: Op, sample: Sample) -> list[np.ndarray]:
    """The reference's results, computed in float64 and then rounded."""
    operands, attrs = sample
    given = dict(op.attributes(attrs))
    with np.errstate(all="ignore"):
        own = results(op.reference_rule(*operands, **given))
        narrow = any(x.dtype == np.float32 for x in operands)
        if not narrow or op.hosted or op.name in ("cast", "nextafter"):
            return [np.asarray(y) for y in own]
        wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
        exact = results(op.reference_rule(*wide, **given))
        return [np.asarray(y, o.dtype) for y, o in zip(exact, own, strict=True)]


def assert_close(op: Op, got: np.ndarray, want: np.ndarray, what: str) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape, what
    if want.dtype.kind != "f" or not (op.name in ULPS or op.name in EPSILONS):
        np.testing.assert_array_equal(got, want, what)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], what)
    got, want = got[finite], want[finite]
    if want.size == 0:
        return
    allowed = ULPS.get(op.name, 0) * np.spacing(np.abs(want)).astype(np.float64)
    largest = float(np.abs(want).max())
    allowed += EPSILONS.get(op.name, 0) * np.finfo(want.dtype).eps * max(largest, 1.0)
    error = np.abs(got.astype(np.float64) - want)
    assert (error <= allowed).all(), f"{what}: error {error.max()}, allowed {allowed.max()}"


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_is_declared_completely(op):
    assert op.__doc__, "no documentation"
    assert op.reference_rule is not None, "no reference"
    assert (op.vjp_rule is not None) == op.differentiable, "a vjp exactly when differentiable"
    ways = [op.kernel, op.lowering_rule, op.view_rule, op.hosted or None]
    if op.name != "literal":  # the planner keeps its bytes among a plan's constants
        assert sum(way is not None for way in ways) >= 1, "nothing computes it"
    assert len(drawn(op)) > 0, "no samples"


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_type_rule_gives_the_types_of_the_reference(op):
    for operands, attrs in drawn(op):
        given = op.attributes(attrs)
        with np.errstate(all="ignore"):
            found = results(op.reference_rule(*operands, **dict(given)))
        arrays = [np.asarray(y) for y in found]
        assert types_of(arrays) == op.infer(types_of(operands), given), described((operands, attrs))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_graph_of_the_op_prints_and_parses_back(op):
    for operands, attrs in drawn(op):
        builder = Builder(op.name)
        params = [builder.param(type) for type in types_of(operands)]
        graph = builder.finish(builder.apply(op, params, attrs))
        assert parse(str(graph)) == graph


# Whose results say something to another op alone, which is tested with them.
PREPARING = (
    "conv_prepare",
    "conv_blocked_prepare",
    "conv_integer_prepare",
    "matmul_prepare",
    "matmul_integer_prepare",
)


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.name not in PREPARING], ids=lambda op: op.name
)
def test_the_kernel_computes_the_reference(op):
    for sample in drawn(op):
        operands, attrs = sample
        got = results(op(*operands, **attrs))
        for y, want in zip(got, reference(op, sample), strict=True):
            assert_close(op, y.numpy(), want, f"{op.name} of {described(sample)}")


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operands_that_are_strided_views_give_the_same_bits(op):
    """Inside one plan a transpose is a view; the op behind it must read it as it reads a copy."""
    for operands, attrs in drawn(op):
        if not any(x.ndim > 1 and x.size for x in operands):
            continue
        turned = [np.array(x.T, order="C") for x in operands]

        def through_views(*xs, op=op, attrs=attrs):
            axes = [tuple(reversed(range(len(x.shape)))) for x in xs]
            return op(*(hy.permute_dims(x, a) for x, a in zip(xs, axes, strict=True)), **attrs)

        got = results(hy.hybridize(through_views)(*map(hy.asarray, turned)))
        for y, want in zip(got, results(op(*operands, **attrs)), strict=True):
            assert y.numpy().tobytes() == want.numpy().tobytes(), described((operands, attrs))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_hybridized_gives_the_bits_of_eager(op):
    seen = set()
    for operands, attrs in drawn(op):
        ranks = tuple((x.dtype, x.ndim, bool(x.size)) for x in operands)
        if ranks in seen or not operands:
            continue
        seen.add(ranks)
        captured = hy.hybridize(lambda *xs, op=op, attrs=attrs: op(*xs, **attrs))
        tensors = [hy.asarray(x) for x in operands]
        got, want = results(captured(*tensors)), results(op(*tensors, **attrs))
        for y, expected in zip(got, want, strict=True):
            assert y.type is expected.type, described((operands, attrs))
            assert y.numpy().tobytes() == expected.numpy().tobytes(), described((operands, attrs))


def replaced(x: np.ndarray, of_int: int | None, of_float: float | None) -> np.ndarray:
    fill = of_int if x.dtype == np.int64 else of_float if x.dtype.kind == "f" else None
    return x if fill is None else np.full_like(x, fill)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_op_says_whether_its_runs_may_raise(op):
    raised = False
    for operands, attrs in drawn(op):
        for of_int, of_float in [
            (2**40, None),
            (2**62, None),
            (None, 0),
            (None, math.nan),
            (-1, -1),
        ]:
            filled = [replaced(x, of_int, of_float) for x in operands]
            if op is subtract_exact:  # else a difference is 0
                filled[1] = replaced(operands[1], of_int and -of_int - 1, of_float)
            try:
                op(*filled, **attrs)
            except hy.HybridError:
                raised = True
    assert raised == op.raises


def smooth(op: Op) -> list[Sample]:
    """The samples in float64 at which derivatives can be checked with differences."""
    found = []
    for operands, attrs in drawn(op):
        types = op.infer(types_of(operands), op.attributes(attrs))
        floats = [x for x in operands if x.dtype == np.float64]
        if not floats or types[0].dtype is not float64 or math.prod(types[0].shape) == 0:
            continue
        if all(x.size for x in floats):
            found.append((operands, attrs))
    return found


REFUSE = {"qr_complete", "svd_full", "made_of_integers"}  # rules raise: test_linalg.py, compress
DIFFERENTIABLE = [op for op in OPS if op.differentiable and op.name not in REFUSE]


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_derivatives_agree_with_differences_and_with_each_other(op):
    checked = smooth(op)
    assert checked, "no sample in float64"
    for operands, attrs in checked:
        floats = [i for i, x in enumerate(operands) if x.dtype == np.float64]

        def function(*xs, operands=operands, attrs=attrs, floats=floats):
            full = list(operands)
            for place, x in zip(floats, xs, strict=True):
                full[place] = x
            return op(*full, **attrs)

        hy.check_grads(function, *(operands[i] for i in floats), atol=1e-6)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_second_derivatives_agree_with_differences(op):
    small = [s for s in smooth(op) if max(x.size for x in s[0]) <= 20]
    for operands, attrs in islice(small, 3):
        floats = [i for i, x in enumerate(operands) if x.dtype == np.float64]

        def function(*xs, operands=operands, attrs=attrs, floats=floats):
            full = list(operands)
            for place, x in zip(floats, xs, strict=True):
                full[place] = x
            return op(*full, **attrs)

        hy.check_grads(function, *(operands[i] for i in floats), order=2, rtol=1e-4, atol=1e-5)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 1e-30, 1e30, 2.0**24]
ELEMENTWISE = [op for op in OPS if op.elementwise and not op.attr_defaults and op.name != "where"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_special_values_come_out_as_in_the_reference(op, dtype):
    column = np.array(SPECIAL, dtype)
    operands = (column,) if len(op.operand_names) == 1 else (column[:, None], column[None, :])
    try:
        op.infer(types_of(operands), ())
    except hy.HybridError:
        pytest.skip(f"{op.name} takes no {dtype}")
    got = op(*operands).numpy()
    with np.errstate(all="ignore"):
        want = np.asarray(op.reference_rule(*operands))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    limited = np.isinf(want) | (want == 0)
    np.testing.assert_array_equal(got[limited], want[limited])
