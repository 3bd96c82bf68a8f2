"""Steps of large GPTs by formulas: beside models that are there, and ranks that are simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid.models.gpt import GPT, Config
from hybrid.simulation.gpt_scale import (
    SIZES,
    LargeGPT,
    Machine,
    ScaledStep,
    layouts,
    measured_block,
    powers,
    scaled,
)
from hybrid.simulation.network import Level, Network
from hybrid.simulation.recorded_step import counts
from hybrid.simulation.simulated_job import simulate

LEVEL = Level(alpha=1e-5, rates=((1.0, 1e9),), message=1e-4, compare=0.0)
LEVELS = dict.fromkeys(("core", "socket", "host"), LEVEL)
MACHINE = Machine(rate=1e10, memory=float(2**39), kept=64.0, source="here")
TINY = LargeGPT(name="tiny", depth=2, width=64, heads=4, tokens=96, length=16)
STEP = """def step(tokens):
    loss = hy.nn.functional.cross_entropy(model(tokens).reshape((-1, 96)), tokens.reshape((-1,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
run = hy.hybridize(step)
"""
SCRIPT = (
    """
import sys
import hybrid as hy, hybrid.distributed as dist
from hybrid.models.gpt import GPT, Config
dist.init()
model = GPT(Config(tokens=96, block=16, width=64, heads=4, depth=2))
optimizer = hy.optim.AdamW(model.parameters())
model, optimizer = dist.data_parallel(model, optimizer, zero=int(sys.argv[1]))
tokens = hy.ones((1, 16), dtype=hy.int64)
"""
    + STEP
    + """for _ in range(6):
    run(tokens)
"""
)


SPLIT = (
    """
import sys
import hybrid as hy, hybrid.distributed as dist
from hybrid.models.gpt import GPT, Config
dist.init()
mesh = dist.mesh((1, dist.size()), ("dp", "tp"))
model = GPT(Config(tokens=96, block=64, width=256, heads=4, depth=int(sys.argv[1])))
for layer in model.h:
    for part, blocks in ((layer.mlp.c_fc, "tp"), (layer.attn.c_attn, dist.blocks("tp", 3))):
        dist.shard(part.weight, mesh, (blocks, None))
        dist.shard(part.bias, mesh, (blocks,))
    for part in (layer.mlp.c_proj, layer.attn.c_proj):
        dist.shard(part.weight, mesh, (None, "tp"))
optimizer = hy.optim.AdamW(model.parameters())
tokens = hy.ones((1, 64), dtype=hy.int64)
"""
    + STEP
    + """for _ in range(5):
    run(tokens)
"""
)


STAGES = (
    """
import hybrid as hy, hybrid.distributed as dist
from hybrid.models.gpt import GPT, Config
dist.init()
model = GPT(Config(tokens=96, block=16, width=64, heads=4, depth=2))
dist.pipeline(model, stages=2, microbatches=8)
optimizer = hy.optim.AdamW(model.parameters())
tokens = hy.ones((8, 16), dtype=hy.int64)
"""
    + STEP
    + """dist.hold_stages(run, tokens)
for _ in range(5):
    run(tokens)
"""
)


def on(ranks: int, per_host: int = 8) -> Network:
    return Network(
        ranks=ranks, ranks_per_host=per_host, cores_per_host=64, threads=8, levels=LEVELS
    )


def test_the_weights_are_those_of_the_model() -> None:
    model = GPT(Config(tokens=96, block=16, width=64, heads=4, depth=2))
    assert TINY.weights == sum(p.size for p in model.parameters())
    assert [round(size.weights / 1e9, 2) for size in SIZES] == [1.32, 12.85]
    whole = SIZES[0].operations / SIZES[0].length / SIZES[0].weights
    assert 6.0 < whole < 7.5  # operations a weight and token


@pytest.mark.parametrize(
    "zero", [0, *[pytest.param(z, marks=pytest.mark.nightly) for z in (1, 2, 3)]]
)
def test_the_traffic_is_that_of_a_simulated_rank(tmp_path: Path, zero: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    job = simulate([str(script), str(zero)], on(8), [0])
    counted = sum(nbytes for _, nbytes in counts(job.steps[0]).values())
    wanted = scaled(TINY, on(8), MACHINE, 8)[zero].nbytes
    assert wanted == (3 if zero == 1 else 2) * 7 / 8 * 4 * TINY.weights
    assert counted == pytest.approx(wanted, rel=0.03)  # and losses, counts of rows, padding


def test_stages_that_are_held_send_what_a_simulated_rank_sends(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STAGES)
    (step,) = simulate([str(script)], on(2), [0]).steps
    moved = {name: nbytes for (name, *_), (_, nbytes) in counts(step).items()}
    embedding = 4 * TINY.embedding
    assert moved["broadcast"] == pytest.approx(3 * embedding, rel=0.01)  # and the loss
    rows = 8 * 4 * TINY.length * TINY.width  # of all microbatches
    assert moved["send"] == rows and moved["recv"] <= 2 * rows


@pytest.mark.nightly
def test_a_block_that_is_split_makes_four_sums(tmp_path: Path) -> None:
    """Beside them, sums of the gradients of norms, which are small."""
    script = tmp_path / "script.py"
    script.write_text(SPLIT)
    moved = []
    for depth in (1, 2):
        job = simulate([str(script), str(depth)], on(4), [0])
        moved.append(sum(nbytes for _, nbytes in counts(job.steps[0]).values()))
    rows = 4 * 64 * 256
    assert moved[1] - moved[0] == pytest.approx(4 * 2 * 3 / 4 * rows, rel=0.05)


def test_seconds_are_those_of_the_formulas() -> None:
    model, network = SIZES[0], on(64)
    plain = scaled(model, network, MACHINE, 128)[0]
    assert plain.computing == pytest.approx(model.operations * 128 / 64 / 8e10)
    buckets = 4 * model.weights / 2**20
    members = range(64)
    each = network.seconds("all_to_all", 2**20, members)
    each += network.seconds("all_gather", 2**14, members)
    assert plain.communicating == pytest.approx(buckets * each)
    assert plain.seconds == plain.computing + plain.communicating and plain.idle == 0
    assert plain.efficiency == plain.computing / plain.seconds


def test_memory_by_stages_of_zero() -> None:
    model, n = SIZES[0], 8
    steps = scaled(model, on(n), MACHINE, 64)
    weights = 4 * model.weights
    assert [step.states / weights for step in steps[:4]] == pytest.approx(
        [4.0, 2.25, 1.375, 1 + 4 / 8]
    )
    kept = 64 * model.length * model.width * model.depth + 8 * model.length * model.tokens
    assert all(step.activations == kept for step in steps[:4])


def test_what_does_not_fit_says_so() -> None:
    steps = {step.way: step for step in scaled(SIZES[1], on(64), MACHINE, 64)}
    assert steps["DP"].why == f"needs {steps['DP'].memory / 2**30:,.0f} GiB"
    mesh = steps["TP x PP x DP"]
    assert not mesh.why and mesh.memory < MACHINE.memory / 8 and mesh.layout[0] > 1
    many = scaled(SIZES[0], on(4096), MACHINE, 512)
    assert [step.why for step in many[:4]] == ["too few rows"] * 4 and not many[4].why
    small = Machine(rate=1e10, memory=2.0**30, kept=64.0, source="")
    assert all(step.why.startswith("needs ") for step in scaled(SIZES[1], on(64), small, 64))
    assert scaled(TINY, on(4096), MACHINE, 2)[4].why == "too few rows"


def test_layouts_are_meshes_that_can_be() -> None:
    found = list(layouts(SIZES[0], on(64), 64))
    assert (1, 1, 64) in found and (8, 4, 2) in found
    for tp, pp, dp in found:
        assert tp * pp * dp == 64 and tp <= 8 and SIZES[0].depth % pp == 0 and 64 % dp == 0


def test_pipelines_are_idle_at_their_ends() -> None:
    """For as long as stages less one take, of as many as there are microbatches."""
    step = ScaledStep(way="", ranks=1, layout=(1, 1, 1), computing=2.0, idle=1.0, communicating=1.0)
    assert step.seconds == 4.0 and step.efficiency == 0.5
    model = LargeGPT(name="one", depth=4, width=5120, heads=1, length=64)  # by stages alone
    room = Machine(rate=1e10, memory=float(2**60), kept=1.0, source="")
    found = scaled(model, on(4), room, 2)[4]
    _, pp, dp = found.layout
    assert pp > 1 and found.idle == pytest.approx(found.computing * (pp - 1) / (2 / dp))


def test_a_block_is_measured() -> None:
    rate, kept = measured_block(256, 64)
    assert 1e8 < rate < 1e13 and 20 < kept < 200
    assert powers(4096) == [1, 4, 16, 64, 256, 1024, 4096] and powers(10) == [1, 4, 10]
