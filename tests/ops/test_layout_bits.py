"""The order of a sum follows from shapes alone: not from strides, copies, threads, folded batches.

Each function below is called on values in every layout: eagerly and in a plan, on a view and on a
copy of it.  All four give the same bits, on one thread and on two, as do gradients through them.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.memory import native
from hybrid.nn import functional as F
from tests.conftest import ROOT
from tests.helpers import part_of, parts

PARTS = 600  # of the table, of which one runs every time
FLOATS = ("float32", "float64")
TURNS = 3  # a row goes over every third of the ways in which its operands may lie


class Layout(NamedTuple):
    """How values may lie in memory: ``view`` of ``source(x)`` is x, or x with repetitions."""

    name: str
    rank: int  # the least that it is for
    source: Callable[[np.ndarray], np.ndarray]
    view: Callable[[Any, tuple[int, ...]], Any]


def _gaps(x: np.ndarray, axis: int, before: int, after: int, step: int = 1) -> np.ndarray:
    """``x`` in a larger array, every ``step``-th along ``axis``, with other numbers around."""
    shape = list(x.shape)
    shape[axis] = before + step * x.shape[axis] + after
    wide = np.full(shape, 7.25, x.dtype)
    at = [slice(None)] * x.ndim
    at[axis] = slice(before, before + step * x.shape[axis], step)
    wide[tuple(at)] = x
    return wide


def _last(x: np.ndarray, count: int) -> np.ndarray:
    return np.stack([x, *[np.full_like(x, 7.25)] * (count - 1)], -1)


def _turned(x: Any) -> Any:
    return hy.permute_dims(x, tuple(range(len(x.shape)))[::-1])


def _first_two(x: Any) -> Any:
    return hy.permute_dims(x, (1, 0, *range(2, len(x.shape))))


LAYOUTS = [
    Layout("offset", 1, lambda x: _gaps(x, 0, 3, 0), lambda s, shape: s[3:]),
    Layout("end cut off", 1, lambda x: _gaps(x, 0, 0, 2), lambda s, shape: s[: shape[0]]),
    Layout("rows with gaps", 1, lambda x: _gaps(x, -1, 2, 1), lambda s, shape: s[..., 2:-1]),
    Layout("every other item", 1, lambda x: _gaps(x, -1, 0, 0, 2), lambda s, shape: s[..., ::2]),
    Layout("every other row", 1, lambda x: _gaps(x, 0, 0, 0, 2), lambda s, shape: s[::2]),
    Layout("other rows", 2, lambda x: _gaps(x, -2, 1, 0, 2), lambda s, shape: s[..., 1::2, :]),
    Layout("one of three last axes", 1, lambda x: _last(x, 3), lambda s, shape: s[..., 0]),
    Layout("reversed", 1, lambda x: x[::-1], lambda s, shape: s[::-1]),
    Layout("reversed rows", 1, lambda x: x[..., ::-1], lambda s, shape: hy.flip(s, axis=-1)),
    Layout("transposed", 2, lambda x: np.swapaxes(x, -1, -2), lambda s, shape: s.mT),
    Layout("turned", 2, lambda x: x.T, lambda s, shape: _turned(s)),
    Layout("first axes swapped", 3, lambda x: np.swapaxes(x, 0, 1), lambda s, shape: _first_two(s)),
    Layout("repeated", 1, lambda x: x[:1], lambda s, shape: hy.broadcast_to(s, shape)),
    Layout("repeated items", 1, lambda x: x[..., :1], lambda s, shape: hy.broadcast_to(s, shape)),
    Layout("part of a stack", 1, lambda x: np.stack([x, x + 1, x]), lambda s, shape: s[-1]),
    Layout("reshaped", 1, lambda x: x.reshape(-1), lambda s, shape: hy.reshape(s, shape)),
]  # fmt: skip
REPEATS = {"repeated": (slice(0, 1),), "repeated items": (Ellipsis, slice(0, 1))}


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = FLOATS


# The table ---------------------------------------------------------------------------------------

HALVES = (*FLOATS, "bfloat16")
INNER = (0, 1, 4, 7, 8, 9, 17, 400)  # about lanes, and more than a block of k
STACKS = [  # of the left and of the right matrices
    ((), ()), ((3,), ()), ((3,), (3,)), ((), (3,)), ((1,), ()), ((1,), (3,)), ((3,), (1,)),
    ((2, 3), ()), ((2, 1), (3,)), ((2, 3), (2, 3)), ((1, 3), (1, 3)), ((2, 1, 2), (1, 1, 1)),
    ((0,), ()),
]  # fmt: skip
SIDES = [
    (1, 1), (1, 2), (2, 1), (1, 9), (9, 1), (1, 130), (130, 1), (2, 2), (5, 17), (0, 2), (2, 0),
]  # fmt: skip


def _linear(x: Any, w: Any, b: Any) -> Any:
    return F.linear(x, w, b)


def products() -> Iterator[Case]:
    for (left, right), (m, n), k in product(STACKS, SIDES, INNER):
        name = f"matmul {[*left, m, k]} {[*right, k, n]}"
        dtypes = HALVES if k in (1, 8, 17) else FLOATS
        yield Case(name, hy.matmul, ((*left, m, k), (*right, k, n)), dtypes)
    for stack, k in product([(), (1,), (4,), (2, 3)], INNER):
        for m in (1, 2, 9):
            yield Case(f"matrix times vector {stack} {m} {k}", hy.matmul, ((*stack, m, k), (k,)))
            yield Case(f"vector times matrix {stack} {k} {m}", hy.matmul, ((k,), (*stack, k, m)))
            yield Case(f"linear {stack} {k} {m}", _linear, ((*stack, k), (m, k), (m,)))
            yield Case(f"product by a transposed one {stack} {m} {k}", lambda a, b: a @ b.mT,
                       ((*stack, m, k), (*stack, 2, k)))  # fmt: skip
            yield Case(f"product of a transposed one {stack} {m} {k}", lambda a, b: a.mT @ b,
                       ((*stack, k, m), (*stack, k, 1)))  # fmt: skip
        yield Case(f"vecdot {stack} {k}", hy.vecdot, ((*stack, k), (*stack, k)))
    for k in (1, 8, 40):
        yield Case(f"dot {k}", hy.matmul, ((k,), (k,)))
        for text, shapes in [
            ("bik,kj->bij", ((3, 2, k), (k, 1))), ("bik,bkj->bij", ((3, 1, k), (3, k, 4))),
            ("bhik,bhjk->bhij", ((2, 3, 1, k), (2, 3, 5, k))), ("ki,k->i", ((k, 5), (k,))),
            ("bk,bk->b", ((4, k), (4, k))), ("ikb,kjb->bij", ((3, k, 2), (k, 2, 2))),
        ]:  # fmt: skip
            yield Case(f"einsum {text} {k}", lambda a, b, text=text: hy.einsum(text, a, b), shapes)
        yield Case(f"tensordot {k}", lambda a, b: hy.tensordot(a, b, axes=1), ((2, 3, k), (k, 1)))
        yield Case(f"bilinear {k}", F.bilinear, ((3, k), (3, 2), (4, k, 2), (4,)))
        yield Case(
            f"a chain {k}", lambda a, b, c: hy.tanh(a @ b + 1.0) @ c, ((3, k), (k, 4), (4, 1))
        )


def _along(name: str, axis: Any) -> Callable[..., Any]:
    return lambda x: getattr(hy, name)(x, axis=axis)


def _axes_cases() -> Iterator[Case]:
    shapes = [
        (1,), (17,), (400,), (5, 1), (1, 5), (9, 33), (3, 130), (130, 3), (2, 3, 17), (4, 1, 8),
        (2, 5, 3, 9),
    ]  # fmt: skip
    reductions = ("sum", "mean", "prod", "max", "min", "var", "std", "logsumexp", "vector_norm")
    for shape in shapes:
        rank = len(shape)
        for axis in [None, *range(rank), *([(0, rank - 1)] if rank > 2 else [])]:
            for name in reductions:
                yield Case(f"{name} {axis} {shape}", _along(name, axis), (shape,))
            total = lambda x, y, axis=axis: hy.sum(x * y + x, axis=axis)  # noqa: E731
            yield Case(f"sum of a product {axis} {shape}", total, (shape, shape))
        for axis in range(rank):
            for name in ("cumulative_sum", "cumulative_prod", "softmax", "log_softmax"):
                yield Case(f"{name} {axis} {shape}", _along(name, axis), (shape,))
    for shape in [(4, 17), (3, 2, 8), (2, 130), (5, 1), (1, 33)]:
        last = shape[-1:]
        yield Case(f"layer_norm {shape}", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
                   (shape, last, last))  # fmt: skip
        yield Case(f"rms_norm {shape}", lambda x, w: F.rms_norm(x, x.shape[-1:], w), (shape, last))
        yield Case(f"normalize {shape}", F.normalize, (shape,))
    for shape in [(3, 4, 9), (2, 4, 5, 3), (1, 4, 17)]:
        channels = (4,)
        yield Case(f"batch_norm {shape}", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
                   (shape, channels, channels))  # fmt: skip
        yield Case(f"group_norm {shape}", lambda x, w, b: F.group_norm(x, 2, w, b),
                   (shape, channels, channels))  # fmt: skip
        yield Case(f"instance_norm {shape}", F.instance_norm, (shape,))
    yield Case("cross_entropy", lambda x: F.cross_entropy(x, hy.asarray([1, 0, 4])), ((3, 5),))
    yield Case("mse_loss", F.mse_loss, ((3, 17), (3, 17)))
    yield Case("cosine_similarity", hy.cosine_similarity, ((3, 17), (3, 17)))
    yield Case("cdist", hy.cdist, ((4, 9), (3, 9)))


def _convolutions() -> Iterator[Case]:
    yield Case("conv1d", hy.conv1d, ((2, 3, 17), (4, 3, 3), (4,)))
    yield Case("conv1d of one channel", hy.conv1d, ((1, 1, 9), (1, 1, 3)))
    yield Case("conv1d of a row", hy.conv1d, ((2, 8, 1), (5, 8, 1)))
    for x, w, options in [
        ((2, 3, 9, 9), (4, 3, 3, 3), {}), ((1, 16, 12, 12), (16, 16, 3, 3), {"padding": 1}),
        ((2, 8, 6, 6), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
        ((1, 20, 5, 5), (33, 20, 1, 1), {}), ((3, 5, 7, 7), (1, 5, 1, 1), {"stride": 2}),
        ((1, 6, 8, 8), (4, 3, 2, 2), {"groups": 2}),
        ((2, 3, 9, 5), (4, 3, 3, 3), {"dilation": 2}), ((1, 8, 1, 1), (9, 8, 1, 1), {}),
    ]:  # fmt: skip
        yield Case(
            f"conv2d {x} {w} {options}", lambda x, w, o=options: hy.conv2d(x, w, **o), (x, w)
        )
    yield Case("conv3d", hy.conv3d, ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2)))
    yield Case("conv_transpose1d", hy.conv_transpose1d, ((2, 3, 7), (3, 2, 3)))
    yield Case("conv_transpose2d", lambda x, w: hy.conv_transpose2d(x, w, stride=2),
               ((2, 3, 5, 4), (3, 2, 3, 3)))  # fmt: skip
    yield Case("avg_pool2d", lambda x: hy.avg_pool2d(x, 2), ((2, 3, 6, 8),))
    yield Case("max_pool2d", lambda x: hy.max_pool2d(x, 2), ((2, 3, 6, 8),))
    yield Case("adaptive_avg_pool2d", lambda x: hy.adaptive_avg_pool2d(x, 3), ((2, 3, 7, 8),))
    yield Case("interpolate", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
               ((1, 2, 4, 5),))  # fmt: skip
    yield Case("unfold and fold", lambda x: F.fold(F.unfold(x, 3), (6, 7), 3), ((1, 2, 6, 7),))


def _attention() -> Iterator[Case]:
    attend = F.scaled_dot_product_attention
    for lead, (queries, keys), features in product(
        [(), (2,), (2, 3)], [(1, 1), (1, 9), (7, 17), (20, 5)], (1, 8, 17)
    ):
        shapes = ((*lead, queries, features), (*lead, keys, features), (*lead, keys, features))
        name = f"attention {lead} {queries} {keys} {features}"
        yield Case(name, attend, shapes)
        yield Case(f"{name}, masked", lambda q, k, v, m: attend(q, k, v, attn_mask=m),
                   (*shapes, (queries, keys)))  # fmt: skip
        yield Case(f"{name}, by hand", lambda q, k, v: hy.softmax(q @ k.mT, axis=-1) @ v, shapes)
        if queries == 20:
            yield Case(f"{name}, causal", lambda q, k, v: attend(q, k, v, is_causal=True), shapes)


def _recurrence(x: Any, w: Any, u: Any) -> Any:
    h = hy.zeros((x.shape[1], u.shape[0]), dtype=x.dtype)
    total = h
    for row in F.linear(x, w):
        h = hy.tanh(row + F.linear(h, u))
        total = total + h * h
    return total


def _two_recurrences(x: Any, w: Any, u: Any) -> Any:
    return _recurrence(x, w, u) + _recurrence(hy.flip(x, axis=0), w, u)


def _layers() -> Iterator[Case]:
    for steps, batch, width, hidden in product((1, 5), (1, 3), (1, 2, 9), (1, 10)):
        shapes = ((steps, batch, width), (hidden, width), (hidden, hidden))
        yield Case(f"recurrence {shapes}", _recurrence, shapes)
        yield Case(f"recurrence, both ways {shapes}", _two_recurrences, shapes)
    for n in (1, 2, 9):
        square = lambda x: x @ x.mT + hy.eye(x.shape[-1], dtype=x.dtype)  # noqa: E731
        yield Case(f"solve {n}", lambda a, b, s=square: hy.linalg.solve(s(a), b), ((n, n), (n, 2)))
        yield Case(f"cholesky {n}", lambda a, s=square: hy.linalg.cholesky(s(a)), ((n, n),))
        yield Case(f"inv {n}", lambda a, s=square: hy.linalg.inv(s(a)), ((2, n, n),))
        yield Case(f"det {n}", hy.linalg.det, ((n, n),))


TABLE = [*products(), *_axes_cases(), *_convolutions(), *_attention(), *_layers()]

# Comparison --------------------------------------------------------------------------------------


def _drawn(case: Case, dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(len(case.name))
    wide = "float32" if dtype == "bfloat16" else dtype
    return [random.uniform(-1, 1, shape).astype(wide) for shape in case.shapes]


def _tensor(x: np.ndarray, dtype: str) -> hy.Tensor:
    return hy.asarray(np.ascontiguousarray(x), dtype=getattr(hy, dtype))


def _bytes(results: Any) -> list[bytes]:
    return [hy.astype(y, hy.float64).numpy().tobytes() for y in results]


def _gradients(function: Callable[..., Any], sources: list[Any]) -> list[Any]:
    """What the sum of the squares of ``function`` has for gradients by ``sources``."""

    def loss(*sources: Any) -> Any:
        y = function(*sources)
        return hy.sum(y * y)

    found = hy.grad(loss, argnums=tuple(range(len(sources))))(*sources)
    return list(found)


class Variant(NamedTuple):
    """Operands of which some lie in a layout, beside dense ones that are equal."""

    name: str
    copies: list[hy.Tensor]
    sources: list[hy.Tensor]
    function: Callable[..., Any]  # of the sources


def _variants(case: Case, dtype: str) -> Iterator[Variant]:
    values, size = _drawn(case, dtype), len(case.shapes)
    every = tuple(range(size))
    for layout, which in product(LAYOUTS, dict.fromkeys([*[(i,) for i in every], every])):
        if any(len(case.shapes[i]) < layout.rank or 0 in case.shapes[i] for i in which):
            continue
        plain = list(values)
        for i in which:
            if layout.name in REPEATS:
                once = values[i][REPEATS[layout.name]]
                plain[i] = np.broadcast_to(once, values[i].shape)
        sources = [layout.source(x) if i in which else x for i, x in enumerate(plain)]

        def through(*sources: Any, which: Any = which, view: Any = layout.view) -> Any:
            seen = [view(x, case.shapes[i]) if i in which else x for i, x in enumerate(sources)]
            return case.function(*seen)

        tensors = [[_tensor(x, dtype) for x in each] for each in (plain, sources)]
        yield Variant(f"{layout.name} {which}", *tensors, through)


def faults(case: Case, dtype: str) -> list[str]:
    """Where the bits of ``case`` depend on how its operands lie, and on how it runs."""
    turn = sum(map(ord, case.name + dtype))
    variants, size = list(part_of(_variants(case, dtype), 0, TURNS, turn)), len(case.shapes)
    flat = [x for variant in variants for x in variant.sources]

    def of_copies() -> list[Any]:
        return [case.function(*variant.copies) for variant in variants]

    def of_views(*flat: Any) -> list[Any]:
        return [v.function(*flat[i * size : (i + 1) * size]) for i, v in enumerate(variants)]

    def of_gradients(*flat: Any) -> list[Any]:
        found = []
        for i, variant in enumerate(variants):
            found += _gradients(variant.function, list(flat[i * size : (i + 1) * size]))
        return found

    names = [variant.name for variant in variants]
    by_operand = [f"{name} by {i}" for name in names for i in range(size)]
    case_in_plan = hy.hybridize(case.function)
    views_in_plan, gradients_in_plan = hy.hybridize(of_views), hy.hybridize(of_gradients)
    hy.set_num_threads(1)
    wanted, gradients = _bytes(of_copies()), _bytes(of_gradients(*flat))
    found = []
    for threads in (1, 2):
        hy.set_num_threads(threads)
        for what, labels, expected, results in [
            ("eager copy", names, wanted, of_copies()),
            ("eager view", names, wanted, of_views(*flat)),
            ("plan of a view", names, wanted, views_in_plan(*flat)),
            ("plan of a copy", names, wanted, [case_in_plan(*v.copies) for v in variants]),
            ("eager gradient", by_operand, gradients, of_gradients(*flat)),
            ("gradient in a plan", by_operand, gradients, gradients_in_plan(*flat)),
        ]:
            for label, want, got in zip(labels, expected, _bytes(results), strict=True):
                if want != got:
                    found.append(f"{case.name}, {dtype}, {threads} threads: {what}, {label}")
    return found


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = hy.num_threads()
    yield
    hy.set_num_threads(before)


def rows() -> list[tuple[Case, str]]:
    return [(case, dtype) for case in TABLE for dtype in case.dtypes]


@pytest.mark.parametrize("part", parts(PARTS))
def test_bits_follow_from_shapes_alone(part: int) -> None:
    assert not [fault for row in part_of(rows(), part, PARTS) for fault in faults(*row)]


NIGHTLY = [pytest.param(n, 8, marks=pytest.mark.nightly) for n in range(8)]


@pytest.mark.parametrize("isa", [isa for isa in native.isas() if isa != native.isa()])
@pytest.mark.parametrize(("start", "step"), [(0, 1009), *NIGHTLY])
def test_so_they_do_with_other_instruction_sets(
    start: int, step: int, isa: str, tmp_path: Path
) -> None:
    script = f"""
import sys
sys.path.append({str(ROOT)!r})  # for the tests: the package may be an installed one
from tests.ops import test_layout_bits as table
for row in table.rows()[{start}::{step}]:
    print(*table.faults(*row), sep="\\n", end="")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "HYBRID_ISA": isa},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
