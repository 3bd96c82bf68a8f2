"""Sizes that vary: each length once, sizes seen before, a cache that grows, masks, first calls.

Ways are timed by the processor's clock, on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.compare.adapters.hybrid_ import encoder_layer
from hybrid.bench.compare.problems import LENGTHS, sentences
from hybrid.bench.peers import Peer, installed, peers, require_agreement
from hybrid.bench.registry import Case, Target, Way, workload

BESIDE = ("torch.compile", "jax", "onnxruntime")
WIDTHS = (64, 256)
FIRST = (4, 2)  # lengths of the calls that capture
TOKENS = 100
SETTLED = 50  # caches, by when all their sizes are bound
MASKED = 100_000

Maker = Callable[[], Callable[..., Any]]

always_planned = partial(hy.hybridize, ledger=False)  # though eager code may be quicker


class EachOnce:
    """Times calls with inputs that a new function has not met, after those of ``before``."""

    def __init__(self, make: Maker, before: Sequence[Any], inputs: Sequence[Any]) -> None:
        self.make, self.before, self.inputs = make, before, inputs
        self.found: list[Any] = []

    def sample(self, count: int) -> float:
        """The seconds that ``count`` runs over all the inputs take."""
        took = 0.0
        for _ in range(count):
            call = self.make()
            for x in self.before:
                call(x)
            start = time.process_time()
            self.found = [call(x) for x in self.inputs]
            took += time.process_time() - start
        return took


class InNewProcess:
    """Times the first run of a program of ``compare``, in a process that has met no length.

    Eagerly, too, an op that meets a shape for the first time is prepared for it.
    """

    def __init__(self, name: str, workload: str, case: str) -> None:
        self.peer = Peer(name, workload, case, clock="cpu")

    def sample(self, count: int) -> float:
        return sum([self.peer.first_run() for _ in range(count)])


def timed(label: str, ways: Mapping[str, Way], check: Callable[[], Mapping[str, str]],
          targets: Mapping[str, tuple[Target, ...]], parts: int = 1) -> Case:  # fmt: skip
    return Case(
        label=label, ways=ways, check=check, targets=targets, parts=parts, threads=1, clock="cpu"
    )


def beside(label: str, function: Callable[..., Any], arguments: Sequence[Any], share: float,
           parts: int = 1) -> Case:  # fmt: skip
    """``function`` run eagerly and hybridized."""
    captured = hy.hybridize(function)
    ways: dict[str, Way] = {
        "eager": lambda: function(*arguments),
        "hybridized": lambda: captured(*arguments),
    }

    def check() -> dict[str, str]:
        require_same_bits(label, function(*arguments), captured(*arguments))
        return {}

    return timed(label, ways, check, {"hybridized": (Target(share),)}, parts)


def layer_of(width: int) -> tuple[Maker, Callable[[Any], Any]]:
    """What hybridizes an encoder layer anew, and the layer."""
    layer = encoder_layer(sentences(width))
    return (lambda: hy.hybridize(lambda x: layer(x))), layer


def floats(*shape: int) -> hy.Tensor:
    return hy.asarray(np.random.RandomState(0).standard_normal(shape).astype(np.float32))


def each_length_once(width: int) -> Case:
    make, layer = layer_of(width)
    label = f"{len(LENGTHS)} lengths, {width} wide"
    inputs = [hy.asarray(array) for array in sentences(width).inputs]
    seen, fresh = (
        EachOnce(maker, [floats(1, n, width) for n in FIRST], inputs)
        for maker in (lambda: layer, make)
    )
    eager = InNewProcess("hybrid.eager", "lengths", f"{width} wide")
    others = peers("lengths", f"{width} wide", frameworks=BESIDE, clock="cpu")

    def check() -> dict[str, str]:
        require_same_bits(label, seen.found, fresh.found)
        require_agreement(label, {f"result {i}": y for i, y in enumerate(seen.found)}, others)
        missing = [name for name in BESIDE if not installed(name)]
        return {label: f"not installed: {', '.join(missing)}"} if missing else {}

    ways: dict[str, Way] = {"eager": eager, "hybridized": fresh, "eager, again": seen, **others}
    return timed(label, ways, check, {"hybridized": (Target(0.6),)}, parts=len(LENGTHS))


def seen_before(label: str, make: Maker, make_alone: Maker, inputs: Sequence[Any],
                target: Target) -> Case:  # fmt: skip
    """The last of ``inputs`` by an open plan that has met the others, and by one of its own."""
    opened, alone, x = make(), make_alone(), inputs[-1]
    for other in inputs:
        opened(other)

    def check() -> dict[str, str]:
        require_same_bits(label, alone(x), opened(x))
        return {}

    ways = {"alone": lambda: alone(x), "open": lambda: opened(x)}
    return timed(label, ways, check, {"open": (target,)})


def sizes_seen_before() -> Iterator[Case]:
    for width in WIDTHS:
        make, layer = layer_of(width)
        inputs = [floats(1, n, width) for n in (*FIRST, 50)]
        yield seen_before(
            f"seen before, {width} wide", make,
            lambda layer=layer: always_planned(lambda x: layer(x), dynamic=False), inputs,
            Target(1.05),
        )  # fmt: skip
    yield seen_before(
        "seen before, x + x", lambda: always_planned(doubled),
        lambda: always_planned(doubled, dynamic=False), [floats(n) for n in (*FIRST, 8)],
        Target(1.0, more=0.3e-6),
    )  # fmt: skip


def doubled(x: Any) -> Any:
    return x + x


def first_calls(width: int) -> Case:
    """A first call, and those that open an axis and meet a size for the first time."""
    make, layer = layer_of(width)
    few, more, x = (floats(1, n, width) for n in (30, 40, 50))  # which are planned alike
    ways = {
        "dynamic=False": EachOnce(lambda: hy.hybridize(lambda x: layer(x), dynamic=False), [], [x]),
        "first call": EachOnce(make, [], [x]),
        "second, opens": EachOnce(make, [few], [x]),
        "third, bound": EachOnce(make, [few, more], [x]),
    }
    label = f"first calls, {width} wide"

    def check() -> dict[str, str]:
        for name, way in ways.items():
            require_same_bits(f"{label}: {name}", [layer(x)], way.found)
        return {}

    return timed(label, ways, check, {"first call": (Target(1.1),)})


def attended(query: Any, key: Any, value: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
    """What a token sees in a cache [heads, tokens, width] that it enters."""
    keys, values = hy.concat([keys, key], axis=1), hy.concat([values, value], axis=1)
    likely = hy.softmax(query @ keys.mT * 0.125, axis=-1)
    return likely @ values, keys, values


def grown_cache() -> Case:
    heads, width = 4, 64
    label = f"cache of {TOKENS} tokens"
    rows = [[floats(heads, 1, width) * 0.1 * (i + t) for i in range(3)] for t in range(TOKENS)]
    captured = hy.hybridize(attended)

    def generate(step: Callable[..., Any]) -> list[Any]:
        found, keys, values = [], hy.zeros((heads, 0, width)), hy.zeros((heads, 0, width))
        for row in rows:
            y, keys, values = step(*row, keys, values)
            found.append(y)
        return [*found, keys, values]

    ways = {"eager": lambda: generate(attended), "hybridized": lambda: generate(captured)}
    return in_the_long_run(label, ways, captured)


def in_the_long_run(label: str, ways: dict[str, Way], captured: Any) -> Case:
    """Ways to fill a cache, timed once all its sizes are bound."""

    def check() -> dict[str, str]:
        require_same_bits(label, *[way() for way in ways.values()])
        for _ in range(SETTLED):  # sizes are bound when what others have saved pays for it
            ways["hybridized"]()
        return {label: f"{len(captured.plans)} captures; timed after {SETTLED} caches"}

    return timed(label, ways, check, {"hybridized": (Target(0.7),)}, parts=TOKENS)


class Cache:
    """The keys and values of the tokens so far, in attributes."""

    def __init__(self, heads: int, width: int) -> None:
        self.empty = hy.zeros((heads, 0, width))
        self.reset()

    def reset(self) -> None:
        self.keys = self.values = self.empty

    def attended(self, query: Any, key: Any, value: Any) -> Any:
        self.keys = hy.concat([self.keys, key], axis=1)
        self.values = hy.concat([self.values, value], axis=1)
        return hy.softmax(query @ self.keys.mT * 0.125, axis=-1) @ self.values


def grown_attributes() -> Case:
    """The same in attributes of an object."""
    heads, width = 4, 64
    label = f"cache of {TOKENS} tokens in attributes"
    rows = [[floats(heads, 1, width) * 0.1 * (i + t) for i in range(3)] for t in range(TOKENS)]
    plain, captured = Cache(heads, width), Cache(heads, width)
    step = hy.hybridize(captured.attended)

    def generate(cache: Cache, call: Callable[..., Any]) -> list[Any]:
        cache.reset()
        return [*[call(*row) for row in rows], cache.keys, cache.values]

    ways = {
        "eager": lambda: generate(plain, plain.attended),
        "hybridized": lambda: generate(captured, step),
    }
    return in_the_long_run(label, ways, step)


def positive_sum(x: Any) -> Any:
    return x[x > 0].sum()


@workload(
    "sizes",
    "lengths met once and again, growing caches, masks, first calls, with targets: two minutes",
    lasts=True,
    ledgers=True,
)
def sizes() -> list[Case]:
    return [
        *map(each_length_once, WIDTHS),
        *sizes_seen_before(),
        grown_cache(),
        grown_attributes(),
        beside(f"sum of a mask, {MASKED:,}", positive_sum, [floats(MASKED)], 1.1),
        *map(first_calls, WIDTHS),
    ]
