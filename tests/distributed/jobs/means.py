"""Run as each rank: losses by ``mean`` where a model is shared along one axis of a mesh."""

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.nn import functional

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()
DRAW = np.random.default_rng(0)
X, Y = DRAW.standard_normal((12, 8)).astype("f4"), DRAW.integers(0, 5, 12)


def refused(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{text!r} was not refused")


def gradients(shape, loss, shards="ranks", hybridized=False):
    """What the parameters get, and the loss."""
    along = {"mesh": dist.mesh(shape, ("dp", "tp")), "axis": "dp"}
    hy.random.seed(3)
    model = nn.Linear(8, 5)
    mine = slice(None)
    if loss is not None:
        optimizer = hy.optim.SGD(model.parameters(), lr=0.1)
        model, _ = dist.data_parallel(model, optimizer, shards, **along)
        mine = dist.rows(12, shards, **along)

    def step(x, y):
        values = functional.cross_entropy(model(x), y, reduction="none")
        found = values.mean() if loss is None else loss(values, along)
        found.backward()
        return found

    step = hy.hybridize(step) if hybridized else step
    found = step(hy.asarray(X[mine]), hy.asarray(Y[mine]))
    return [p.grad.numpy().copy() for p in model.parameters()], found.item()


LOSSES = {
    "by the model's ranks": lambda values, _: dist.mean(values),
    "by name": lambda values, along: dist.mean(values, **along),
    "of a hybridized mean": lambda values, _: hy.hybridize(dist.mean)(values),
    "doubled": lambda values, _: dist.mean(2 * values) / 2,
}
for shape in {(SIZE, 1), (1, SIZE), (2, SIZE // 2)}:
    want, value = gradients(shape, None)
    cases = [(loss, "ranks", False) for loss in LOSSES.values()]
    cases += [(LOSSES["by the model's ranks"], *how) for how in (("ranks", True), (4, False))]
    for case in cases:
        got, found = gradients(shape, *case)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found, value, rtol=1e-6)

# Means over other ranks than those of the model

across = dist.mesh((SIZE, 1), ("dp", "tp"))
OTHER = "a loss of a data-parallel model is a hybrid.distributed.mean over other ranks"
refused(
    lambda: gradients((SIZE, 1), lambda v, along: dist.mean(v, mesh=along["mesh"], axis="tp")),
    hy.errors.ArgumentError,
    OTHER,
)
refused(
    lambda: gradients((SIZE, 1), lambda v, along: dist.mean(v, mesh=along["mesh"], axis="tp"), 4),
    hy.errors.ArgumentError,
    f"The mean goes over rank {RANK} (tp of dp={SIZE},tp=1), and the gradients of the model are "
    f"summed over ranks {', '.join(map(str, range(SIZE)))} (dp of dp={SIZE},tp=1): they would be "
    "too small or too large.\nFix: leave axis and mesh out of mean, or give it those of "
    "data_parallel.",
)

# Losses of two models

models = []
for axis in ("dp", "tp"):
    model = nn.Linear(8, 5)
    dist.data_parallel(model, hy.optim.SGD(model.parameters(), lr=0.1), mesh=across, axis=axis)
    models.append(model)
refused(
    lambda: sum(model(hy.ones((2, 8))).mean() for model in models).backward(),
    hy.errors.ArgumentError,
    "a loss of two data-parallel models that are shared by different ranks",
)
values = hy.asarray(np.full(3, RANK + 1.0))  # of no model: of all ranks
assert dist.mean(values).item() == (SIZE + 1) / 2
print(f"rank {RANK} of {SIZE}: all is well")
