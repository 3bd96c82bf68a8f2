"""Each rank: pipelines whose stages hold their own parameters, to the same bits."""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid.errors import ArgumentError, CollectiveMismatchError, HybridError
from hybrid.models.gpt import GPT, Config

dist.init(timeout=30)
RANK, SIZE = dist.rank(), dist.size()
F = hy.nn.functional
STAGES = 2 if SIZE == 4 else SIZE
GRID = dist.mesh((STAGES, SIZE // STAGES), ("pp", "other"))
TOKENS = [hy.asarray(np.random.default_rng(i).integers(0, 32, (8, 9))) for i in range(3)]


def gpt() -> GPT:
    hy.random.seed(0)
    return GPT(Config(tokens=32, block=8, width=16, heads=4, depth=4))


def loss_of(model: Any, tokens: Any) -> Any:
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.reshape((-1, 32)), tokens[:, 1:].reshape((-1,)))


class Training:
    """A pipelined GPT with its optimizer and its step."""

    def __init__(
        self,
        schedule: str = "1f1b",
        lay_out: Callable[[Any], None] | None = None,
        zero: int | None = None,
    ) -> None:
        self.model = gpt()
        if lay_out is not None:
            lay_out(self.model)
        dist.pipeline(
            self.model, stages=STAGES, microbatches=4, schedule=schedule, mesh=GRID, axis="pp"
        )
        self.optimizer = hy.optim.AdamW(self.model.parameters(), lr=1e-2)
        if zero is not None:
            self.model, self.optimizer = dist.data_parallel(
                self.model, self.optimizer, zero=zero, mesh=GRID, axis="other"
            )
        self.step = hy.hybridize(self._step)
        self.loss = hy.hybridize(lambda tokens: loss_of(self.model, tokens))

    def _step(self, tokens: Any) -> Any:
        self.optimizer.zero_grad()
        loss = loss_of(self.model, tokens)
        loss.backward()
        norm = hy.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss, norm

    def trained(self) -> list[float]:
        return [dist.whole(t).item() for tokens in TOKENS for t in self.step(tokens)]

    @property
    def bits(self) -> list[bytes]:
        return [dist.whole(p).numpy().tobytes() for p in self.model.parameters()]


def sent_to_all(one: Training) -> int:
    """The elements that a step of the plan broadcasts."""
    shapes = re.findall(r"broadcast \w+\[([\d,]*)\]", one.step.plans[0].schedule())
    return sum(math.prod(map(int, filter(None, shape.split(",")))) for shape in shapes)


def held_and_whole() -> None:
    """The same bits; each rank has its part of the memory, and no gradients are sent."""
    for schedule in ("1f1b", "gpipe"):
        whole, held = Training(schedule), Training(schedule)
        dist.hold_stages(held.step, TOKENS[0])
        assert held.trained() == whole.trained() and held.bits == whole.bits
    everything = dist.local_nbytes(whole.model), dist.local_nbytes(whole.optimizer)
    mine = dist.local_nbytes(held.model), dist.local_nbytes(held.optimizer)
    for all_bytes, own in zip(everything, mine, strict=True):
        assert own < all_bytes / STAGES * 1.5, (own, all_bytes)
    total = sum(dist.all_gather(hy.asarray([mine[0]])).tolist())
    assert total == everything[0] * SIZE // STAGES, (total, everything)
    sent = [sent_to_all(one) for one in (whole, held)]
    assert SIZE == 1 or sent[1] < sent[0] / 3, sent  # the tied embedding and its gradients, norms
    grads = [dist.whole(p.grad).numpy() for p in held.model.parameters()]
    for a, b in zip(grads, whole.model.parameters(), strict=True):
        assert a.tobytes() == b.grad.numpy().tobytes()
    # Calls that are cut elsewhere, that are eager, and steps between which tensors are laid out.
    assert held.loss(TOKENS[0]).item() == whole.loss(TOKENS[0]).item()
    assert loss_of(held.model, TOKENS[1]).item() == loss_of(whole.model, TOKENS[1]).item()
    dist.hold_stages(whole.step, TOKENS[0])
    dist.hold_stages(held.step, TOKENS[0])  # once more
    assert held.trained() == whole.trained() and held.bits == whole.bits


def files() -> None:
    """What is saved is whole, and goes back to where it is held."""
    held, again = Training(), Training()
    dist.hold_stages(held.step, TOKENS[0])
    held.trained()
    folder = dist.broadcast(_text(tempfile.mkdtemp() if RANK == 0 else ""))
    path = Path(bytes(folder.numpy().tobytes()).rstrip(b"\0").decode(), "state")
    dist.save(path, model=held.model, optimizer=held.optimizer)
    want = held.trained(), held.bits
    dist.load(path, model=again.model, optimizer=again.optimizer)
    assert (again.trained(), again.bits) == want
    dist.load(path, model=held.model, optimizer=held.optimizer)
    assert (held.trained(), held.bits) == want


def _text(text: str) -> hy.Tensor:
    return hy.asarray(np.frombuffer(text.encode().ljust(256, b"\0"), np.uint8))


def loops() -> None:
    """In a loop all ranks have all: what is held is sent before it, and held behind it."""
    rows = hy.asarray(np.stack([t.numpy() for t in TOKENS]))

    def epoch(one: Training) -> Callable[[Any], Any]:
        def run(rows: Any) -> Any:
            total = hy.zeros(())
            for tokens in rows:
                one.optimizer.zero_grad()
                loss = loss_of(one.model, tokens)
                loss.backward()
                one.optimizer.step()
                total = total + loss
            return total

        return hy.hybridize(run)

    whole, held = Training(), Training()
    dist.hold_stages(held.step, TOKENS[0])
    before = dist.local_nbytes(held.model)
    for _ in range(2):
        assert epoch(held)(rows).item() == epoch(whole)(rows).item()
    assert held.bits == whole.bits and dist.local_nbytes(held.model) == before
    try:
        dist.hold_stages(epoch(Training()), rows)
    except ArgumentError as error:
        assert "has no stages" in str(error)
    else:
        raise AssertionError("a loop has no stages")


def refusals() -> None:
    one = Training()
    for step, examples, part in (
        (lambda x: x * 2, TOKENS[:1], "held stages for a step without parameters"),
        (lambda x: loss_of(gpt_alone, x), TOKENS[:1], "has no stages"),
        (one.step, [np.zeros((8, 9), np.int64)], "example 0 of held stages is a ndarray"),
    ):
        try:
            dist.hold_stages(step, *examples)
        except HybridError as error:
            assert part in str(error), error
        else:
            raise AssertionError(part)
    if SIZE > 1:
        rows = TOKENS[0] if RANK else TOKENS[0][:4]
        try:
            dist.hold_stages(one.step, rows)
        except CollectiveMismatchError as error:
            assert "hold_stages" in str(error) and f"rank {SIZE - 1}" in str(error), error
        else:
            raise AssertionError("ranks that give other examples")
    assert all(p.type.layout is None for p in one.model.parameters())
    # Parts of a pipeline's own axis: which rank has a whole one is for hold_stages to say.
    layer = one.model.h[0].mlp.c_fc
    if STAGES == 2:
        dist.shard(layer.weight, GRID, ("pp", None))
        try:
            one.step(TOKENS[0])
        except ArgumentError as error:
            assert "hold_stages" in str(error)
        else:
            raise AssertionError("parts along the axis of the pipeline")


gpt_alone = gpt()


def other_axes() -> None:
    """Stages along one axis of a mesh, layers cut, or the batch, along another one."""
    if SIZE != 4:
        return

    def cut(model: GPT) -> None:
        for block in model.h:
            dist.shard(block.mlp.c_fc.weight, GRID, ("other", None))
            dist.shard(block.mlp.c_fc.bias, GRID, ("other",))
            dist.shard(block.mlp.c_proj.weight, GRID, (None, "other"))

    whole, held = Training(lay_out=cut), Training(lay_out=cut)
    before = dist.local_nbytes(whole.model)
    dist.hold_stages(held.step, TOKENS[0])
    assert dist.local_nbytes(held.model) < 0.75 * before
    np.testing.assert_allclose(held.trained(), whole.trained(), rtol=1e-5)
    for p, q in zip(held.model.parameters(), whole.model.parameters(), strict=True):
        a, b = dist.whole(p).numpy(), dist.whole(q).numpy()
        assert np.abs(a - b).max() <= 1e-3 * np.abs(b).max()


def beside_data_parallel() -> None:
    """Batches along another axis of the mesh, and slices of moments and gradients."""
    if SIZE != 4:
        return
    own = dist.rows(8, mesh=GRID, axis="other")
    mine = [hy.asarray(tokens.numpy()[own]) for tokens in TOKENS]
    for zero in range(3):
        whole, held = Training(zero=zero), Training(zero=zero)
        dist.hold_stages(held.step, mine[0])
        for one in (whole, held):
            for tokens in mine:
                one.step(tokens)
        assert held.bits == whole.bits
        for part in ("model", "optimizer"):
            assert dist.local_nbytes(getattr(held, part)) < 0.75 * dist.local_nbytes(
                getattr(whole, part)
            )
    try:
        dist.hold_stages(Training(zero=3).step, mine[0])
    except ArgumentError as error:
        assert "zero=1 or 2" in str(error)
    else:
        raise AssertionError("parameters are gathered with zero=3")


TESTS = (held_and_whole, files, loops, refusals, other_axes, beside_data_parallel)
for test in TESTS:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
dist.barrier()
print(f"rank {RANK} of {SIZE}: all is well")
