"""Random graphs with random layouts: by ranks, and by microbatches, they come to the same."""

import numpy as np
import pytest

from hybrid.core.layouts import PARTIAL, Split
from hybrid.core.types import float32, int64, tensor_type
from hybrid.ir import Builder, Graph, get_op
from tests.helpers import interpret, parts
from tests.helpers import part_of as table_part
from tests.passes.layouts.simulated_ranks import joined, local_graphs, part_of, run_ranks

SIZES = (6, 12)  # which 2 and 3 ranks divide, as one block and as two
PARTS = 16


def random_graph(rng: np.random.Generator) -> Graph:
    """Some ops of each family, of values of one, two and three axes."""
    builder = Builder("f")

    def shape(rank: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.choice(SIZES, rank))

    values = [builder.param(tensor_type(float32, shape(int(rng.integers(1, 4))))) for _ in range(4)]
    indices = builder.param(tensor_type(int64, (6,)))

    def call(name, *operands, **attrs):
        made = builder.apply(get_op(name), operands, attrs)
        values.extend([v for v in made if v.type.dtype is float32 and v.type.size < 5000])
        return made[0]

    for _ in range(12):
        x = values[int(rng.integers(len(values)))]
        n = x.type.shape
        axis = int(rng.integers(len(n))) if n else 0
        kind = int(rng.integers(12))
        alike = [v for v in values if v.type.shape == n]
        y = alike[int(rng.integers(len(alike)))]
        if kind == 0:
            call("tanh", x)
        elif kind == 1:
            call(str(rng.choice(["add", "subtract", "multiply", "maximum"])), x, y)
        elif kind == 2 and n:
            name = str(rng.choice(["sum", "mean", "max", "min"]))
            call(name, x, axis=(axis,), keepdims=bool(rng.integers(2)))
        elif kind == 3 and len(n) > 1:
            call("permute_dims", x, axes=tuple(int(a) for a in rng.permutation(len(n))))
        elif kind == 4 and n and n[axis] % 6 == 0:
            call("reshape", x, shape=(*n[:axis], 2, n[axis] // 2, *n[axis + 1 :]))
        elif kind == 5 and len(n) > 1:
            call("reshape", x, shape=(n[0] * n[1], *n[2:]))
        elif kind == 6 and len(n) > 1:
            w = builder.apply(get_op("tanh"), [y], {})[0]
            turned = (*range(len(n) - 2), len(n) - 1, len(n) - 2)
            call("matmul", x, call("permute_dims", w, axes=turned))
        elif kind == 7 and n:
            call(str(rng.choice(["softmax", "log_softmax"])), x, axis=axis)
        elif kind == 8 and n:
            ones = call("full", shape=n[-1:], value=1.5, dtype=float32)
            call("layer_norm", x, ones, ones, eps=1e-3)
        elif kind == 9 and n and n[axis] >= 6:
            found = call("take", x, indices, axis=axis)
            zeros = call("full", shape=n, value=0.0, dtype=float32)
            call("scatter_add", zeros, indices, found, axis=axis)
        elif kind == 10 and n:
            call("concat", x, y, axis=axis)
        elif kind == 11 and n and n[axis] > 2:
            size = tuple(3 if a == axis else s for a, s in enumerate(n))
            start = tuple(2 if a == axis and s >= 5 else 0 for a, s in enumerate(n))
            call("slice", x, start=start, size=size, step=(1,) * len(n))
    ends = [values[-1], values[-2], values[int(rng.integers(len(values)))]]
    return builder.finish(list(dict.fromkeys(v for v in ends if v not in builder.params)))


def random_place(rng: np.random.Generator, shape: tuple[int, ...], ranks: int):
    places = [None, None, PARTIAL]
    for axis in range(len(shape)):
        places += [s for s in (Split(axis), Split(axis, 2)) if s.fits(shape, ranks)] * 2
    return places[int(rng.integers(len(places)))]


CASES = [(ranks, seed) for ranks in (2, 3) for seed in range(192)]


@pytest.mark.parametrize("part", parts(PARTS))
def test_ranks_come_to_what_one_process_does(part: int) -> None:
    for ranks, seed in table_part(CASES, part, PARTS):
        rng = np.random.default_rng([ranks, seed])
        graph = random_graph(rng)
        if not graph.results:
            continue
        arrays = [
            rng.integers(0, 6, v.type.shape)
            if v.type.dtype is int64
            else rng.normal(size=v.type.shape).astype(np.float32)
            for v in graph.params
        ]
        places = [
            None if v.type.dtype is int64 else random_place(rng, v.type.shape, ranks)
            for v in graph.params
        ]
        wanted = {
            at: random_place(rng, v.type.shape, ranks)
            for at, v in enumerate(graph.results)
            if rng.integers(2)
        }
        local = local_graphs(graph, places, ranks, wanted)
        given = [
            [part_of(x, p, ranks, rank) for x, p in zip(arrays, places, strict=True)]
            for rank in range(ranks)
        ]
        found = run_ranks([one.graph for one in local], given)
        want = interpret(graph, *arrays)
        for at, (y, type) in enumerate(zip(want, local[0].results, strict=True)):
            place = type.layout[0][1] if type.layout else None
            assert at not in wanted or place == wanted[at]
            whole = joined([rank[at] for rank in found], place)
            about = f"ranks {ranks}, seed {seed}, result {at}\n{graph}\n{places}"
            size = np.abs(y).max(initial=1e-3)
            np.testing.assert_allclose(whole, y, rtol=1e-4, atol=2e-5 * size, err_msg=about)
