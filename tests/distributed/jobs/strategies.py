"""Each rank: steps that run by a strategy, against those of one process; what is predicted."""

from __future__ import annotations

import functools
import gc
import statistics
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid.distributed.strategies import link_speeds as speeds
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, HybridError
from hybrid.models.gpt import GPT, Config

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()
LINE = dist.mesh((SIZE,), ("tp",))
GRID = dist.mesh((2, SIZE // 2) if SIZE > 2 else (1, SIZE), ("dp", "pp"))
F = hy.nn.functional
HAND = ("replicated", "data", "zero", "tensor", "pipeline") if SIZE > 1 else ("one rank",)
Made = tuple[hy.nn.Module, Callable[..., Any]]


def drawn(*shape: int, seed: int = 0) -> hy.Tensor:
    return hy.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def perceptron(wide: int = 8, inner: int = 32) -> Made:
    hy.random.seed(0)
    model = hy.nn.Sequential(hy.nn.Linear(wide, inner), hy.nn.GELU(), hy.nn.Linear(inner, wide))
    optimizer = hy.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def gpt(depth: int = 2) -> Made:
    hy.random.seed(0)
    model = GPT(Config(tokens=32, block=8, width=16, heads=4, depth=depth))
    optimizer = hy.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)

    def step(tokens):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape((-1, 32)), tokens[:, 1:].reshape((-1,)))
        loss.backward()
        hy.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return model, step


@contextmanager
def quick_links() -> Iterator[None]:
    """Links of which the model says that they cost next to nothing, so that all is cut."""
    before = dict(speeds._measured)
    for mesh in (LINE, GRID):
        for name in mesh.names:
            channel, n = mesh.channel(name), mesh.size(name)
            points = dict.fromkeys(speeds.KINDS, ((64.0, 1e-9), (1e6, 1e-7)))
            speeds._measured[channel.name] = speeds.LinkSpeeds(n, points if n > 1 else {})
    yield
    speeds._measured.clear()
    speeds._measured.update(before)


def near(found: Any, want: Any) -> None:
    assert np.abs(found - want).max() <= 1e-5 * max(np.abs(want).max(), 1.0), (found, want)


def trained(run: Callable[..., Any], batches: list[tuple], model: hy.nn.Module) -> list[Any]:
    losses = [run(*batch).item() for batch in batches]
    grads = [dist.whole(p.grad).numpy() for p in model.parameters()]
    return [losses, [dist.whole(p).numpy() for p in model.parameters()], grads]


def same_results(
    make: Callable[[], Made], batches: list[tuple], mesh: dist.Mesh, names: tuple[Any, ...]
) -> list[Any]:
    model, step = make()
    wanted = trained(hy.hybridize(step), batches, model)
    found = []
    for name in names:
        model, step = make()
        if RANK:  # rank 0 has the say
            for p in model.parameters():
                p.assign(p.detach() + 1.0)
        strategy = dist.strategy(step, *batches[0], mesh=mesh)
        assert strategy.seconds <= min(strategy.candidates.values()) * (1 + 1e-9)
        run = strategy.apply(name)
        for one, other in zip(trained(run, batches, model), wanted, strict=True):
            for a, b in zip(one, other, strict=True):
                near(a, b)
        found.append((strategy, run))
    return found


def perceptrons() -> None:
    """Found, and by hand: losses, parameters and gradients; batches of other sizes, too."""
    rows = (16, 16, 8, 7)
    batches = [(drawn(n, 8, seed=i), drawn(n, 8, seed=9 + i)) for i, n in enumerate(rows)]
    with quick_links():
        found = same_results(perceptron, batches, LINE, (None, *HAND))
    [(strategy, run), *hand] = found
    assert set(strategy.candidates) == set(HAND), strategy.candidates
    if SIZE == 1:
        assert str(strategy).splitlines()[1].startswith("by hand: one rank ")
        return
    text = str(strategy)
    assert strategy.name in ("found", "tensor") and text.startswith(f"{strategy.name}: "), text
    assert f"tp: {SIZE} ranks, " in text and text.count(" by tp ") > 5
    head, *rows = [line.split("  ") for line in text.splitlines() if line.startswith("  ")]
    assert [word.strip() for word in head if word] == [
        *("op", "where", "spec", "ms", "bytes moved", "held")
    ]
    assert all(row[-1].endswith(" MiB") for row in rows)
    assert run.strategy is strategy and "by tp" in run.plans[0].layout()
    for name, (_, other) in zip(HAND, hand, strict=True):
        page = other.plans[0].layout()
        cut = f"{SIZE} stages" if name == "pipeline" else "by tp"
        assert page.startswith("tp: ") and (cut in page) == (name != "replicated"), page
    try:
        strategy.apply()
    except ArgumentError as error:
        assert "a strategy is applied once" in str(error)
    else:
        raise AssertionError("its tensors have been laid out")


def language_models() -> None:
    """GPT with tied embeddings, clipping and AdamW, along one axis and along two."""
    batches = [(hy.asarray(np.random.default_rng(i).integers(0, 32, (4, 9))),) for i in range(2)]
    with quick_links():
        if SIZE < 4:
            names = (None, "tensor", "zero", "pipeline") if SIZE > 1 else (None,)
            same_results(gpt, batches, LINE, names)
        else:
            shallow = functools.partial(gpt, 1)
            names = (None, "data x tensor", "zero x pipeline", "pipeline x tensor")
            strategy, run = same_results(shallow, batches, GRID, names)[0]
            assert {*names[1:], "tensor", "data", "zero x tensor"} <= set(strategy.candidates)
            assert "pp: 2 stages" in str(strategy) or strategy.name == "found"
            heads = [line for line in run.plans[0].layout().splitlines() if line[0] != " "]
            assert [head.partition(",")[0] for head in heads] == ["dp: 2 ranks", "pp: 2 ranks"]


def links() -> None:
    """Measured once, and the same figures on all ranks; more bytes take more time."""
    channel = LINE.channel("tp")
    found = speeds.link_speeds(channel, channel)
    assert speeds.link_speeds(channel, channel) is found and found.ranks == SIZE
    if SIZE == 1:
        assert found.seconds("all_reduce", 1 << 20) == 0.0
        return
    assert set(found.points) == set(speeds.KINDS) and found.alpha > 0 < found.beta
    mine = [row for name in sorted(found.points) for row in found.points[name]]
    every = dist.all_gather(hy.asarray(np.array([mine]))).numpy()
    assert (every == every[:1]).all()
    for name in speeds.COLLECTIVES:
        taken = [found.seconds(name, n) for n in (0, 100, 5000, 1 << 18, 1 << 23, 1 << 25)]
        assert taken == sorted(taken) and taken[0] > 0 and taken[-1] > 1.5 * taken[-2] > 0
        wide = found.seconds(name, 1 << 20, 64 * SIZE)
        assert wide > found.seconds(name, 1 << 20)
    message = found.seconds("send", 1 << 20) + found.seconds("recv", 1 << 20)
    assert message > found.seconds("send", 64) + found.seconds("recv", 64) > 0


def branches() -> None:
    """Every rank computes what is in a branch or a loop."""

    def make() -> Made:
        model, step = perceptron()

        def several(x, y):
            y = y * 2 if hy.sum(x) > 0 else y - 1
            total = hy.zeros(())
            for _ in range(x.shape[0] // 4):
                total = total + hy.sum(x)
            return step(x, y) + total * 0

        return model, several

    with quick_links():
        same_results(make, [(drawn(8, 8, seed=i), drawn(8, 8)) for i in range(2)], LINE, (None,))


def models_go() -> None:
    """A search is kept for steps of the same graph; the models are not."""

    def trained_once() -> weakref.ref:
        model, step = perceptron()
        batch = drawn(8, 8), drawn(8, 8, seed=1)
        dist.strategy(step, *batch, mesh=LINE).apply()(*batch)
        return weakref.ref(model)

    gone = trained_once()
    gc.collect()
    assert gone() is None


def seconds_of(run: Callable[..., Any], *batch: hy.Tensor) -> float:
    begin = time.perf_counter()
    run(*batch).item()
    return time.perf_counter() - begin


def predictions() -> None:
    """What is predicted to take much longer does: many small collectives, or twice the work."""
    if SIZE != 2:
        return
    compared = 0
    for wide, rows in ((8, 8), (256, 1024)):
        batch = drawn(rows, wide), drawn(rows, wide, seed=1)
        _, step = perceptron(wide, 4 * wide)
        predicted = dist.strategy(step, *batch, mesh=LINE).candidates
        quick, *_, slow = sorted(HAND[:4], key=predicted.__getitem__)
        if predicted[slow] < 1.5 * predicted[quick]:
            continue
        compared += 1
        runs = {}
        for name in (quick, slow):
            _, step = perceptron(wide, 4 * wide)
            runs[name] = dist.strategy(step, *batch, mesh=LINE).apply(name)
        for last in (False, False, True):  # others may take the time of one
            taken: dict[str, list[float]] = {quick: [], slow: []}
            for name in (*[quick, slow] * 8,):
                dist.barrier()
                taken[name].append(seconds_of(runs[name], *batch))
            medians = {name: statistics.median(own[2:]) for name, own in taken.items()}
            if dist.all_reduce(hy.asarray(float(medians[slow] > medians[quick]))).item() == SIZE:
                break
            assert not last, (medians, predicted)
    assert compared


def memory() -> None:
    """Parameters are cut where they have to be; less than all is refused, and the least named."""
    x, y = drawn(4, 64), drawn(4, 64, seed=1)

    def found(memory: int | None) -> Any:
        return dist.strategy(perceptron(64, 256)[1], x, y, mesh=LINE, memory=memory)

    free = found(None)
    try:
        found(1000)
    except ArgumentError as error:
        text = str(error)
    else:
        raise AssertionError("no step takes so little")
    assert text.startswith("no strategy has a step of this graph in 1000 bytes on each rank\n")
    least = int(text.partition("Fix: give memory=")[2].partition(" ")[0])
    tight = found(least)
    assert tight.memory <= least and tight.seconds >= free.seconds * 0.5
    if SIZE > 1:
        whole = 2 * 64 * 256 * 4 * 3  # weights, gradients and moments
        assert least < 0.8 * whole, (least, whole)
        model, step = perceptron(64, 256)
        run = dist.strategy(step, x, y, mesh=LINE, memory=least).apply()
        model_, step_ = perceptron(64, 256)
        for a, b in zip(
            trained(run, [(x, y)], model), trained(step_, [(x, y)], model_), strict=True
        ):
            near(a[0], b[0])
        assert dist.local_nbytes(model) < dist.local_nbytes(model_)


def mistakes() -> None:
    """Each says what is wrong, on every rank."""
    _, step = perceptron()
    x, y = drawn(4, 8), drawn(4, 8)
    shared = drawn(8, 8)
    dist.shard(shared, LINE, ("tp", None))

    def communicating(x, y):
        return dist.all_reduce(step(x, y))

    def looking(x, y):
        return step(x, y * float(np.sum(x.numpy())))

    def masked(x, y):
        return hy.sum(x[x > 0]) + step(x, y)

    other = dist.Mesh((SIZE + 1,), ("tp",))
    cases: list[tuple[Callable[[], Any], type[HybridError], str]] = [
        (lambda: dist.strategy(3, x, mesh=LINE), ArgumentTypeError, "step is a int"),
        (lambda: dist.strategy(step, x, y, mesh="tp"), ArgumentTypeError, "mesh is a str"),
        (
            lambda: dist.strategy(step, x, y, mesh=other),
            ArgumentError,
            f"a mesh of {SIZE + 1} ranks",
        ),
        (lambda: dist.strategy(step, x, y, mesh=LINE, memory=0), ArgumentError, "memory is 0"),
        (lambda: dist.strategy(step, x, y, mesh=LINE, memory=1.5), ArgumentTypeError, "is 1.5"),
        (lambda: dist.strategy(step, x.numpy(), y, mesh=LINE), ArgumentTypeError, "asarray"),
        (lambda: dist.strategy(lambda x: x + 1, x, mesh=LINE), ArgumentError, "without parameters"),
        (lambda: dist.strategy(communicating, x, y, mesh=LINE), ArgumentError, "all_reduce in a"),
        (lambda: dist.strategy(looking, x, y, mesh=LINE), CaptureError, "Fix: "),
        (lambda: dist.strategy(masked, x, y, mesh=LINE), CaptureError, "sizes that depend on"),
        (lambda: dist.strategy(step, x, y, mesh=LINE).apply("best"), ArgumentError, "'best'"),
    ]
    if SIZE > 1:
        cases.append(
            (lambda: dist.strategy(step, shared, y, mesh=LINE), ArgumentError, "by ranks already")
        )
        wider = drawn(4 + RANK, 8)
        cases.append(
            (
                lambda: dist.strategy(step, wider, wider, mesh=LINE),
                dist.CollectiveMismatchError,
                "rank 1: strategy",
            )
        )
    for call, kind, said in cases:
        try:
            call()
        except kind as error:
            assert said in str(error) and "Fix: " in str(error), error
        else:
            raise AssertionError(said)
    if SIZE > 1:
        lame = (lambda x, y: 1 / 0) if RANK else step
        try:
            dist.strategy(lame, x, y, mesh=LINE)
        except Exception as error:
            assert "division by zero" in str(error), error
        else:
            raise AssertionError("one rank cannot capture it")


TESTS = (perceptrons, language_models, branches, links, models_go, memory, mistakes, predictions)
for test in TESTS:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
dist.barrier()
print(f"rank {RANK} of {SIZE}: all is well")
