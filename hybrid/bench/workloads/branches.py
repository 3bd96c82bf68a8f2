"""Branches that run side by side: towers, an inception block, chains, updates of an optimizer."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import fingerprint, leaves
from hybrid.bench.registry import BenchError, Case, Way, workload
from hybrid.eager.fused_calls import optimized
from hybrid.memory import native
from hybrid.plan import Plan, make_plan

THREADS = (1, 2)
LAYERS, CHAINS = 4, 32


class _OwnRun:
    """A plan with memory of its own for its results."""

    def __init__(self, plan: Plan, tensors: Sequence[hy.Tensor]) -> None:
        self.plan = plan
        self.results = [make(size) for make, size in map(native.storage, self._sizes())]
        self.given = [tensor.content for tensor in tensors]
        self.pointers = native.pointers(len(self.results) + len(self.given))
        for at, data in enumerate((*self.results, *self.given)):
            self.pointers[at] = data

    def _sizes(self) -> list[int]:
        return [type.nbytes for type in self.plan.output_types]

    def __call__(self) -> None:
        self.plan.run(self.pointers)

    def bits(self) -> list[bytes]:
        return [
            bytes(native.view(data, size))
            for data, size in zip(self.results, self._sizes(), strict=True)
        ]


def cases_of(label: str, function: Callable[..., Any], arrays: Sequence[np.ndarray]) -> list[Case]:
    """``function`` by plans whose steps run one after the other, and side by side."""
    tensors = [hy.asarray(array) for array in arrays]
    capture = hy.hybridize(function, mode="trace").captured(tensors, {})[1]
    graph = optimized(capture.graph)
    given = [tensors[source.index] for source in capture.sources]  # in the order of their use
    plans = {"serial": make_plan(graph, parallel=False), "side by side": make_plan(graph)}
    groups = [len(step.blocks) for step in plans["side by side"].lowered.walk() if step.is_group]

    def case(threads: int) -> Case:
        runs = {name: _OwnRun(plan, given) for name, plan in plans.items()}
        ways: dict[str, Way] = {**runs}

        def check() -> dict[str, str]:
            eager = [fingerprint(leaf) for _, leaf in leaves(function(*tensors))]
            for way, run in runs.items():
                if [found[2] for found in eager] != run.bits():
                    raise BenchError(f"{label}: other bits {way} than eagerly")
            scratch = " and ".join(f"{plan.arena_nbytes:,}" for plan in plans.values())
            return {
                f"{label}, {threads} thread{'s' if threads > 1 else ''}": (
                    f"groups of {', '.join(map(str, groups)) or 'nothing'} members;"
                    f" {scratch} bytes of scratch"
                )
            }

        name = f"{label}, {threads} thread{'s' if threads > 1 else ''}"
        return Case(label=name, ways=ways, check=check, threads=threads)

    return [case(threads) for threads in THREADS]


def towers(a: Any, b: Any, *weights: Any) -> Any:
    """Two of four layers each; their last values are added."""
    for left, right in zip(weights[:LAYERS], weights[LAYERS:], strict=True):
        a, b = hy.tanh(a @ left), hy.tanh(b @ right)
    return a + b


def inception(x: Any, *weights: Any) -> Any:
    """1x1, 3x3 and 5x5 convolutions and a pool with one, of one image, side by side."""
    conv, relu = hy.nn.functional.conv2d, hy.nn.functional.relu
    one, before_three, three, before_five, five, behind_pool = weights
    return hy.concat(
        [
            relu(conv(x, one)),
            relu(conv(relu(conv(x, before_three)), three, padding=1)),
            relu(conv(relu(conv(x, before_five)), five, padding=2)),
            relu(conv(hy.nn.functional.max_pool2d(x, 3, 1, 1), behind_pool)),
        ],
        axis=1,
    )


def chains(*xs: Any) -> list[Any]:
    """Ten softmaxes in a row, of each."""
    found = []
    for x in xs:
        for _ in range(10):
            x = hy.nn.functional.softmax(x, -1)
        found.append(x)
    return found


def updates(rate: Any, *cells: Any) -> list[Any]:
    """Momentum steps of parameters, gradients and moments, given in turn."""
    found = []
    for p, g, m in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
        new = m * 0.9 + g
        found += [p - rate * new, new]
    return found


@workload("parallel", "independent branches: steps one after the other against side by side")
def parallel() -> list[Case]:
    draw = np.random.RandomState(0).standard_normal

    def floats(*shape: int) -> np.ndarray:
        return (draw(shape) * 0.1).astype(np.float32)

    filters = [(16, 32, 1), (16, 32, 1), (16, 16, 3), (8, 32, 1), (16, 8, 5), (16, 32, 1)]
    sizes = np.logspace(1, 4.3, 60).astype(int)
    return [
        *cases_of(
            "two towers",
            towers,
            [*[floats(8, 256) for _ in range(2)], *[floats(256, 256) for _ in range(2 * LAYERS)]],
        ),
        *cases_of(
            "inception block",
            inception,
            [floats(1, 32, 12, 12), *[floats(out, into, n, n) for out, into, n in filters]],
        ),
        *cases_of(f"{CHAINS} chains", chains, [floats(16, 32) for _ in range(CHAINS)]),
        *cases_of(
            f"{len(sizes)} updates",
            updates,
            [floats(), *[floats(n) for n in sizes for _ in range(3)]],
        ),
    ]
