"""Each rank: tensors that ranks share, and models of them, against those of one process."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import tempfile
from typing import Any

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid.distributed import blocks, partial, shard, whole
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    GradientError,
    ShapeError,
)
from hybrid.models.gpt import GPT, Config

dist.init(timeout=30)
RANK, SIZE = dist.rank(), dist.size()
MESH = dist.mesh((SIZE,), ("tp",))
F = hy.nn.functional


def near(found: hy.Tensor, want: np.ndarray, tolerance: float = 1e-6) -> None:
    size = np.abs(want).max(initial=1e-30)
    assert np.abs(whole(found).numpy() - want).max(initial=0) <= tolerance * size, (found, want)


def drawn(*shape: int, seed: int = 0) -> hy.Tensor:
    return hy.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def values() -> None:
    """Whatever the layout is, the values and the shape are those of the whole."""
    x = drawn(12, 24)
    for spec in [("tp", None), (None, "tp"), (None, None), partial, (partial, None),
                 (blocks("tp", 3), None)]:  # fmt: skip
        y = shard(hy.asarray(x.numpy().copy()), MESH, spec)
        assert y.shape == (12, 24)
        for function in (
            lambda y: y, lambda y: y * 2 + y, lambda y: y.T @ x, lambda y: hy.sum(y, axis=0),
            lambda y: hy.max(y, axis=1), hy.mean, lambda y: y.reshape((3, 4, 24)),
            lambda y: y[2:7, ::3], lambda y: F.softmax(y, axis=1), lambda y: hy.sort(y, axis=0),
            lambda y: hy.concat([y, x]), lambda y: F.layer_norm(y, (24,)), hy.linalg.vector_norm,
        ):  # fmt: skip
            want = np.asarray(function(x).numpy())
            near(function(y), want)
            near(hy.hybridize(function)(y), want)
    thin = shard(drawn(SIZE, 3), MESH, ("tp", None))  # one row each
    near(thin * 2, drawn(SIZE, 3).numpy() * 2)
    if SIZE > 1:
        y = shard(x, MESH, ("tp", None))
        assert y is x and y.nbytes == 12 * 24 * 4 // SIZE
        try:
            y.numpy()
        except ArgumentError as error:
            assert str(error).startswith(
                "numpy() of f32[12,24], of which this rank has its part alone"
            )
            assert "It is shared by ranks: axis 0 by tp.\nFix: ask hybrid.distributed." in str(
                error
            )
        else:
            raise AssertionError("values of a part were given for the whole")
        assert "axis 0 by tp of f32[12,24])" in repr(y)
        y += 1
        y[1] = 0
        assert y.nbytes == 12 * 24 * 4 // SIZE and whole(y).numpy()[1].sum() == 0


def mistakes() -> None:
    """Each says what is wrong before anything is sent."""
    x, odd = hy.zeros((4 * SIZE, 3)), SIZE if SIZE > 1 else 0
    for spec, kind, said in [
        ((None,), ArgumentError, "a spec of 1 entries for"),
        ("tp", ArgumentTypeError, "spec is 'tp'"),
        (("dp", None), ArgumentError, "the mesh has no axis 'dp'"),
        ((3, None), ArgumentTypeError, "axis is 3"),
        (("tp", "tp"), AxisError, "the spec names the axis 'tp' of the mesh twice"),
        ((blocks("tp", 3), None), ShapeError, f"is not divided by 3 blocks of {SIZE} ranks"),
        *([((None, "tp"), ShapeError, f"is not divided by {SIZE} ranks along 'tp'")] * (odd > 1)),
    ]:
        try:
            shard(x, MESH, spec)
        except kind as error:
            assert said in str(error) and "Fix: " in str(error), error
        else:
            raise AssertionError(spec)
    for call, kind in [
        (lambda: shard(x, "tp", (None, None)), ArgumentTypeError),
        (lambda: blocks("tp", 0), ArgumentError),
        (lambda: blocks(1, 2), ArgumentTypeError),
        (lambda: blocks("tp", 1.5), ArgumentTypeError),
    ]:
        try:
            call()
        except kind as error:
            assert "Fix: " in str(error)
        else:
            raise AssertionError(kind)
    w = hy.nn.Linear(4, 4).weight
    hy.sum(w * w).backward()
    try:
        shard(w, MESH, (None, None))
    except GradientError as error:
        assert str(error).startswith("a tensor that has a gradient already is to be sharded")
    else:
        raise AssertionError("its gradient is whole")


def perceptron(split: bool):
    hy.random.seed(0)
    model = hy.nn.Sequential(hy.nn.Linear(8, 32), hy.nn.GELU(), hy.nn.Linear(32, 8))
    if split:
        shard(model[0].weight, MESH, ("tp", None))
        shard(model[0].bias, MESH, ("tp",))
        shard(model[2].weight, MESH, (None, "tp"))
    return model, hy.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def training() -> None:
    """Columns and rows of two layers: parameters, gradients and moments are held alike."""
    batches = [(drawn(16, 8, seed=i), drawn(16, 8, seed=9 + i)) for i in range(3)]
    wanted = None
    for split in (False, True):
        for captured in (False, True):
            model, optimizer = perceptron(split)

            def step(x, y, model=model, optimizer=optimizer):
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                return loss

            run = hy.hybridize(step) if captured else step
            losses = [whole(run(x, y)).item() for x, y in batches]
            if wanted is None:
                wanted = [*losses, *[(p.numpy(), p.grad.numpy()) for p in model.parameters()]]
            np.testing.assert_allclose(losses, wanted[:3], rtol=1e-6)
            for p, (value, grad) in zip(model.parameters(), wanted[3:], strict=True):
                near(p, value)
                near(p.grad, grad, 2e-6)
                assert p.grad.type is p.type
            for p, state in zip(model.parameters(), optimizer.param_groups[0].states, strict=True):
                assert all(m.type is p.type for m in state.moments)
            if captured and split and SIZE > 1:
                text = run.plans[0].layout()
                assert text.startswith(f"tp: {SIZE} ranks, ") and "after all_reduce of" in text
                forward = [line for line in text.splitlines() if "mse" not in line]
                assert f"{__file__.rpartition('/')[2]}:" in forward[1]
                assert run.ledger.eager_calls == 0
    grads = hy.hybridize(hy.grad(lambda w: hy.sum(F.relu(batches[0][0] @ w.T))))
    w = drawn(16, 8, seed=3)
    want = grads(w).numpy()
    w = shard(w, MESH, ("tp", None))
    assert grads(w).type is w.type
    assert hy.grad(lambda w: hy.sum(w * w))(w).type is w.type
    near(grads(w), want)


def outside_gradients() -> None:
    """A captured forward, and backward() outside: what is kept for it stays in parts."""
    model, _ = perceptron(False)
    x = drawn(16, 8)
    hy.sum(hy.square(model(x))).backward()
    want = [p.grad.numpy() for p in model.parameters()]
    model, _ = perceptron(True)
    for _ in range(3):
        for p in model.parameters():
            p.grad = None
        hy.sum(hy.square(hy.hybridize(model)(x))).backward()
        for p, grad in zip(model.parameters(), want, strict=True):
            near(p.grad, grad)
            assert p.grad.type is p.type


def loops() -> None:
    """What loops and branches carry stays in parts: epochs in one plan, say."""
    rows = drawn(5, 16, 8, seed=1)
    wanted = None
    for split in (False, True):
        model, optimizer = perceptron(split)

        def epoch(rows, model=model, optimizer=optimizer):
            total = hy.zeros(())
            for x in rows:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), x)
                loss.backward()
                optimizer.step()
                total = total + loss
            return total

        run = hy.hybridize(epoch)
        found = [whole(run(rows)).item() for _ in range(2)]
        if wanted is None:
            wanted = found, [p.numpy() for p in model.parameters()]
        np.testing.assert_allclose(found, wanted[0], rtol=2e-6)
        for p, value in zip(model.parameters(), wanted[1], strict=True):
            near(p, value, 2e-6)
        if split and SIZE > 1:
            text = run.plans[0].layout()
            assert "for -> f32[]: whole" in text and text.count("after all_gather") <= 1, text
            assert "sgd_momentum -> f32[32,8]: axis 0 by tp" in text

    def chosen(x, w):
        y = x @ w
        if hy.sum(y) > 0:
            y = y * 2
            y = y + 1
        else:
            y = y - 1
        while hy.sum(hy.square(y)) > 1.0:
            y = y / 2
        return y

    x, w = drawn(6, 8, seed=2), drawn(8, 4 * SIZE, seed=3)
    want = chosen(x, w).numpy()
    w = shard(w, MESH, (None, "tp"))
    near(hy.hybridize(chosen)(x, w), want)


def captured_before() -> None:
    """A plan that was made for whole tensors is not run once ranks share them."""
    layer, x = hy.nn.Linear(8, 8), drawn(4, 8)
    run = hy.hybridize(layer, ledger=False)
    want = run(x).numpy()
    shard(layer.weight, MESH, ("tp", None))
    near(run(x), want)
    layer.weight.assign(2 * layer.weight)
    near(run(x), 2 * want - layer.bias.numpy())


def moments_of(optimizer: hy.optim.Adam) -> list[bytes]:
    rows = optimizer.state_dict()["state"].values()
    return [whole(cell).numpy().tobytes() for row in rows for cell in row.values()]


def files(model: hy.nn.Module, types: list[Any]) -> None:
    """What ranks share is saved whole, by all of them, and loaded into their parts."""
    optimizer = hy.optim.Adam(model.parameters(), lr=0.1)
    (model(drawn(4, 8)) ** 2).sum().backward()
    optimizer.step()
    name = dist.broadcast(hy.asarray(np.random.default_rng().integers(1 << 62, size=1)))
    path = f"{tempfile.gettempdir()}/sharded-{name.item()}"
    moments = moments_of(optimizer)
    dist.save(path, model=model, optimizer=optimizer, weight=next(model.parameters()))
    before = [whole(p).numpy() for p in model.parameters()]
    optimizer.step()
    dist.load(path, model=model, optimizer=optimizer, weight=next(model.parameters()))
    dist.barrier()
    if RANK == 0:
        kept = hy.load(path)
        os.unlink(path)
        assert kept["weight"].numpy().tobytes() == before[0].tobytes()
    assert [p.type for p in model.parameters()] == types
    for p, value in zip(model.parameters(), before, strict=True):
        assert whole(p).numpy().tobytes() == value.tobytes()
    assert moments_of(optimizer) == moments


def state() -> None:
    """What is whole is loaded into parts; what would write parts for the whole is refused."""
    whole_state = {name: p.numpy() for name, p in perceptron(False)[0].state_dict().items()}
    model, _ = perceptron(True)
    for p in model.parameters():
        p.assign(hy.zeros(p.shape))
    types = [p.type for p in model.parameters()]
    model.load_state_dict(whole_state)
    for p, value in zip(model.parameters(), whole_state.values(), strict=True):
        assert whole(p).numpy().tobytes() == value.tobytes()
    other = copy.deepcopy(model)
    assert [p.type for p in (*other.parameters(), *model.parameters())] == types * 2
    model.load_state_dict({name: whole(p) for name, p in other.state_dict().items()})
    doubled = model.to(hy.float64)[0].weight
    assert doubled.nbytes == 2 * other[0].weight.nbytes and doubled.dtype is hy.float64
    files(copy.deepcopy(other), types)
    if SIZE == 1:
        return
    w = other[0].weight.detach()
    for call, said in [
        (lambda: hy.save({"w": w}, "/dev/null"), "saving of f32[32,8]"),
        (lambda: pickle.dumps(w), "pickling of f32[32,8]"),
        (lambda: hy.export(other, "/dev/null", hy.zeros((2, 8))), "exporting of f32[32,8]"),
        (lambda: hy.hybridize(lambda w: hy.sum(w[w > 0]))(w), "sizes that depend on values, in"),
    ]:
        try:
            call()
        except ArgumentError as error:
            assert str(error).startswith(said) and "Fix: " in str(error), error
        else:
            raise AssertionError(said)
    kept = w * 2
    (other[0].weight * 2).backward(hy.ones((32, 8)))
    near(other[0].weight.grad, np.full((32, 8), 2.0))
    near(kept, whole(w).numpy() * 2)


def gpt(tp: str | None, mesh):
    hy.random.seed(0)
    model = GPT(Config(tokens=32, block=8, width=16, heads=4, depth=2))
    if tp:
        for layer in model.h:
            shard(layer.attn.c_attn.weight, mesh, (blocks(tp, 3), None))
            shard(layer.attn.c_attn.bias, mesh, (blocks(tp, 3),))
            shard(layer.attn.c_proj.weight, mesh, (None, tp))
            shard(layer.mlp.c_fc.weight, mesh, (tp, None))
            shard(layer.mlp.c_fc.bias, mesh, (tp,))
            shard(layer.mlp.c_proj.weight, mesh, (None, tp))
        shard(model.wte.weight, mesh, (tp, None))  # which are the weights of the classes, too
    return model


def language_model() -> None:
    """GPT by heads, layers, words and classes; batches split along another axis of the mesh."""
    grid = dist.mesh((2, SIZE // 2) if SIZE > 2 else (1, SIZE), ("dp", "tp"))
    tokens = [hy.asarray(np.random.default_rng(i).integers(0, 32, (4, 9))) for i in range(2)]
    wanted = None
    for mesh, split in ((None, False), (MESH, False), (grid, True)):
        model = gpt("tp" if mesh else None, mesh)
        optimizer = hy.optim.SGD(model.parameters(), lr=0.5)

        def step(tokens, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.reshape((-1, 32)), tokens[:, 1:].reshape((-1,)))
            loss.backward()
            norm = hy.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss, norm

        run, found = hy.hybridize(step), []
        for batch in tokens:
            given = hy.asarray(batch.numpy().copy())
            shard(given, mesh, ("dp", None)) if split else None
            found += [whole(t).item() for t in run(given)]
        if wanted is None:
            wanted = found, [p.numpy() for p in model.parameters()]
        np.testing.assert_allclose(found, wanted[0], rtol=1e-6)
        for p, value in zip(model.parameters(), wanted[1], strict=True):
            near(p, value, 2e-6)
        if split and SIZE > 2:
            heads = [line for line in run.plans[0].layout().splitlines() if " ranks, " in line]
            assert [head.partition(",")[0] for head in heads] == ["dp: 2 ranks", "tp: 2 ranks"]


TESTS = (
    *(values, mistakes, training, outside_gradients, loops, captured_before, state),
    language_model,
)
for test in TESTS:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
dist.barrier()
print(f"rank {RANK} of {SIZE}: all is well")
