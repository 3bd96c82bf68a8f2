"""Each rank: models cut into stages, whose steps have the bits of one process."""

from __future__ import annotations

import sys

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid.models.gpt import GPT, Config

dist.init(timeout=30)
RANK, SIZE = dist.rank(), dist.size()
F = hy.nn.functional
GRID = dist.mesh((SIZE, 1), ("pp", "one"))
TOKENS = [hy.asarray(np.random.default_rng(i).integers(0, 32, (8, 9))) for i in range(2)]


def gpt() -> GPT:
    hy.random.seed(0)
    return GPT(Config(tokens=32, block=8, width=16, heads=4, depth=2))


def trained(
    model: GPT, hybridized: bool = True
) -> tuple[list[float], list[np.ndarray], hy.nn.Module]:
    optimizer = hy.optim.AdamW(model.parameters(), lr=1e-2)

    def step(tokens):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape((-1, 32)), tokens[:, 1:].reshape((-1,)))
        loss.backward()
        norm = hy.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, norm

    run = hy.hybridize(step) if hybridized else step
    found = [dist.whole(t).item() for tokens in TOKENS for t in run(tokens)]
    assert not hybridized or run.ledger.eager_calls == 0
    return found, [dist.whole(p).numpy() for p in model.parameters()], run


def schedules() -> None:
    """The same bits by all schedules, by one process and by several; embeddings are tied."""
    stages = SIZE if SIZE > 1 else 2
    alone = dist.pipeline(gpt(), stages=stages, microbatches=4, mesh=GRID, axis="one")
    wanted = trained(alone)
    plain = trained(gpt())
    for a, b in zip(wanted[1], plain[1], strict=True):
        assert np.abs(a - b).max() <= 2e-4 * np.abs(b).max()
    arenas = {}
    for schedule in ("gpipe", "1f1b"):
        for recompute in (False, True):
            model = dist.pipeline(
                gpt(), stages=stages, microbatches=4, schedule=schedule, recompute=recompute,
                mesh=GRID, axis="pp",
            )  # fmt: skip
            found = trained(model)
            assert found[0] == wanted[0]
            for a, b in zip(found[1], wanted[1], strict=True):
                assert a.tobytes() == b.tobytes()
            info = found[2].plans[0]
            arenas[schedule, recompute] = info.arena_nbytes
            again = ", activations computed again" if recompute else ""
            head = f"pp: {stages} stages, 4 microbatches by {schedule}{again}"
            assert info.layout().splitlines()[0] == head
            if SIZE > 1:
                schedule_text = info.schedule()
                assert "broadcast" in schedule_text
    if SIZE == 2:
        assert arenas["1f1b", False] < arenas["gpipe", False]
        assert arenas["gpipe", True] < arenas["gpipe", False]
    one = trained(dist.pipeline(gpt(), stages=stages, microbatches=1, mesh=GRID, axis="pp"))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one[1], plain[1], strict=True))
    assert one[0] == plain[0]
    eager = dist.pipeline(gpt(), stages=stages, microbatches=4, mesh=GRID, axis="pp")
    found = trained(eager, hybridized=False)
    assert found[0] == wanted[0]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found[1], wanted[1], strict=True))


def other_uses() -> None:
    """Eager calls compute all; so does what is outside; a loss of all rows waits for them."""
    stages = SIZE if SIZE > 1 else 2
    hy.random.seed(0)
    model = hy.nn.Sequential(*[hy.nn.Linear(8, 8) for _ in range(6)])
    x = hy.asarray(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32))
    want = model(x).numpy()
    dist.pipeline(model, stages=stages, microbatches=2, mesh=GRID, axis="pp")
    assert model(x).numpy().tobytes() == want.tobytes()
    np.testing.assert_allclose(hy.hybridize(model)(x).numpy(), want, rtol=1e-6)

    def loss(x):
        y = model(x)
        return hy.log(hy.sum(hy.square(y)))  # whose gradient needs the sum of all

    grads = []
    for run in (loss, hy.hybridize(loss)):
        for p in model.parameters():
            p.grad = None
        run(x).backward()
        grads.append([p.grad.numpy() for p in model.parameters()])

    def step(x):
        for p in model.parameters():
            p.grad = None
        loss(x).backward()
        return [p.grad for p in model.parameters()]

    grads.append([g.numpy() for g in hy.hybridize(step)(x)])
    for found in grads[1:]:
        for a, b in zip(found, grads[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(b).max())
    assert all(a.tobytes() == b.tobytes() for a, b in zip(grads[2], grads[0], strict=True))


def epochs() -> None:
    """A loop in a plan has the schedule in its body."""
    rows = hy.asarray(np.random.default_rng(0).integers(0, 32, (3, 8, 9)))
    found = []
    for axis in ("one", "pp"):
        model = dist.pipeline(
            gpt(), stages=SIZE if SIZE > 1 else 2, microbatches=2, mesh=GRID, axis=axis
        )
        optimizer = hy.optim.SGD(model.parameters(), lr=0.1)

        def epoch(rows, model=model, optimizer=optimizer):
            total = hy.zeros(())
            for tokens in rows:
                optimizer.zero_grad()
                logits = model(tokens[:, :-1])
                loss = F.cross_entropy(logits.reshape((-1, 32)), tokens[:, 1:].reshape((-1,)))
                loss.backward()
                optimizer.step()
                total = total + loss
            return total

        run = hy.hybridize(epoch)
        losses = [run(rows).item() for _ in range(2)]
        assert run.plans[0].layout().startswith(f"{axis}: ")
        found.append((losses, [p.numpy().tobytes() for p in model.parameters()]))
    assert found[0] == found[1]


def three_axes() -> None:
    """Stages along one axis of a mesh, heads and layers along another one."""
    if SIZE != 4:
        return
    grid = dist.mesh((2, 2), ("pp", "tp"))
    wanted = trained(dist.pipeline(gpt(), stages=2, microbatches=2, mesh=GRID, axis="one"))
    model = gpt()
    for layer in model.h:
        dist.shard(layer.mlp.c_fc.weight, grid, ("tp", None))
        dist.shard(layer.mlp.c_fc.bias, grid, ("tp",))
        dist.shard(layer.mlp.c_proj.weight, grid, (None, "tp"))
    dist.pipeline(model, stages=2, microbatches=2, mesh=grid, axis="pp")
    found = trained(model)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
    for a, b in zip(found[1], wanted[1], strict=True):
        assert np.abs(a - b).max() <= 1e-3 * np.abs(b).max()
    heads = [line for line in found[2].plans[0].layout().splitlines() if line[0] != " "]
    assert [head.partition(":")[0] for head in heads] == ["pp", "tp"]


TESTS = (schedules, other_uses, epochs, three_axes)
for test in TESTS:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
dist.barrier()
print(f"rank {RANK} of {SIZE}: all is well")
