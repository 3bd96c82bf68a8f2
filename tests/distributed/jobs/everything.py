"""Run as each rank: every collective against NumPy, eagerly and hybridized, the same bits."""

import threading

import numpy as np

import hybrid as hy
import hybrid.distributed as dist
from hybrid.core.types import DTYPES
from hybrid.passes import run_pipeline

dist.init(timeout=60)
RANK, SIZE = dist.rank(), dist.size()
SHAPES = [(), (0,), (3,), (2 * SIZE, 3), (SIZE, 0, 2), (30011,)]


def data(dtype: hy.Tensor, shape: tuple, rank: int, seed: int = 0) -> np.ndarray:
    """What ``rank`` gives: each rank knows it of all."""
    draw = np.random.default_rng([seed, rank, *shape])
    return hy.asarray(draw.integers(0, 4, shape)).astype(dtype)


def both(function, *operands):
    """The result, which is the same bits eagerly, hybridized, and in a second run of the plan.

    Not every shape is hybridized with every dtype: that says nothing new.
    """
    want = function(*operands)
    if operands[0].dtype is not hy.float32 and operands[0].shape != (3,):
        return want
    hybridized = hy.hybridize(function)
    for _ in range(2):
        got = hybridized(*operands)
        assert got.type is want.type, (got.type, want.type)
        assert same(got, want)
    return want


def same(a, b) -> bool:
    if a.dtype is hy.bfloat16:
        a, b = a.astype(hy.float32), b.astype(hy.float32)
    return a.type is b.type and a.numpy().tobytes() == b.numpy().tobytes()


def wide(x) -> np.ndarray:
    return x.astype(hy.float64).numpy() if x.dtype.is_floating else x.numpy()


def check(got, want: np.ndarray) -> None:
    assert tuple(got.shape) == want.shape, (got.shape, want.shape)
    np.testing.assert_array_equal(wide(got), want)


def collectives() -> None:
    root = SIZE - 1
    for dtype in DTYPES:
        for shape in SHAPES:
            every = [data(dtype, shape, r) for r in range(SIZE)]
            x, arrays = every[RANK], np.stack([wide(y) for y in every])
            if dtype is hy.bool:
                check(both(lambda x: dist.all_reduce(x, "max"), x), arrays.any(0))
                check(both(lambda x: dist.all_reduce(x, "min"), x), arrays.all(0))
            else:
                check(both(dist.all_reduce, x), arrays.sum(0, dtype=arrays.dtype))
                for op, by in (("max", np.max), ("min", np.min)):
                    check(both(lambda x, op=op: dist.all_reduce(x, op), x), by(arrays, 0))
                product = np.prod(arrays, 0, dtype=arrays.dtype)
                check(both(lambda x: dist.all_reduce(x, "prod"), x), product)
            check(both(lambda x: dist.broadcast(x, root), x), arrays[root])
            if not shape:
                continue
            check(both(dist.all_gather, x), np.concatenate(list(arrays)))
            if shape[0] % SIZE:
                continue
            cut = np.stack([np.split(a, SIZE) for a in arrays])  # from, to
            check(both(dist.all_to_all, x), np.concatenate(list(cut[:, RANK])))
            if dtype is not hy.bool:
                total = cut[:, RANK].sum(0, dtype=arrays.dtype)
                check(both(dist.reduce_scatter, x), total)
    mean = both(lambda x: dist.all_reduce(x, "mean"), hy.ones(3) * RANK)
    assert mean.tolist() == [(SIZE - 1) / 2] * 3
    turned = hy.asarray(np.arange(24.0, dtype=np.float32).reshape(4, 6)) + RANK
    check(both(lambda x: dist.all_gather(x.mT[::2]), turned), np.concatenate(
        [(np.arange(24.0).reshape(4, 6) + r).T[::2] for r in range(SIZE)]
    ))  # fmt: skip


def rounding() -> None:
    """Sums are by a tree over the ranks: the same on all ranks, in each run, whatever the size."""
    for n in (7, 40000):
        every = [np.random.default_rng(r).normal(size=n).astype(np.float32) for r in range(SIZE)]
        while len(every) > 1:
            pairs = [a + b for a, b in zip(every[::2], every[1::2], strict=False)]
            every = pairs + every[2 * len(pairs) :]
        x = hy.asarray(np.random.default_rng(RANK).normal(size=n).astype(np.float32))
        assert both(dist.all_reduce, x).numpy().tobytes() == every[0].tobytes()


def gradients() -> None:
    """Of the sum of all losses: each rank's is its weights times what the collective gives."""
    x = hy.asarray(np.arange(2.0 * SIZE, dtype=np.float32)) + RANK

    def weights(n: int, rank: int) -> np.ndarray:
        return np.random.default_rng([rank, n]).integers(1, 9, n).astype(np.float32)

    n = 2 * SIZE
    total = sum(weights(n, r) for r in range(SIZE))
    gathered = sum(weights(n * SIZE, r) for r in range(SIZE))
    cases = [
        (dist.all_reduce, total),
        (lambda x: dist.all_reduce(x, "mean"), total / SIZE),
        (dist.all_gather, gathered[n * RANK : n * (RANK + 1)]),
        (dist.reduce_scatter, np.concatenate([weights(2, r) for r in range(SIZE)])),
        (dist.all_to_all, np.concatenate(
            [weights(n, r)[2 * RANK : 2 * RANK + 2] for r in range(SIZE)])),
        (lambda x: dist.broadcast(x, SIZE - 1), total if RANK == SIZE - 1 else 0 * total),
    ]  # fmt: skip
    for function, want in cases:

        def loss(x, function=function):
            y = function(x)
            return (y * hy.asarray(weights(y.shape[0], RANK))).sum()

        for found in (
            hy.grad(loss)(x),
            hy.grad(hy.hybridize(loss))(x),
            hy.hybridize(hy.grad(loss))(x),
        ):
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
    top = hy.grad(lambda x: dist.all_reduce(x, "max").sum())(x)
    assert top.tolist() == [SIZE * float(RANK == SIZE - 1)] * n
    _, tangent = hy.jvp(dist.all_reduce, (x,), (hy.ones(n),))
    assert tangent.tolist() == [SIZE] * n
    second = hy.grad(lambda x: hy.grad(lambda x: (dist.all_reduce(x) ** 3).sum())(x).sum())(x)
    assert second.shape == x.shape


def control_flow() -> None:
    """In loops and branches all ranks go the same way, known from what collectives give."""

    def halved(x):
        rounds = 0
        while dist.all_reduce(hy.max(x), "max") > 1.0:
            x = x / 2 + dist.all_reduce(x) / (4 * SIZE)
            rounds += 1
        if dist.all_reduce(x.sum()) > 0:
            x = dist.broadcast(x) - 1
        for i in range(3):
            x = dist.all_reduce(x * i) + i
        return x, rounds

    x = hy.asarray(np.arange(4.0, dtype=np.float32)) + RANK
    eager, captured = halved(x), hy.hybridize(halved)(x)
    assert same(eager[0], captured[0]) and int(eager[1]) == int(captured[1]) > 0

    def steps(x):
        y = x
        for row in hy.asarray(np.arange(3.0, dtype=np.float32)):
            y = dist.all_reduce(y * row) + x
        return (y * x).sum()

    wanted = hy.grad(steps)(x)
    assert same(hy.grad(hy.hybridize(steps))(x), wanted)
    assert same(hy.hybridize(hy.grad(steps))(x), wanted)
    if SIZE > 1:
        try:
            hy.hybridize(lambda x: dist.all_reduce(x) if x.sum() > 1 else x)(x)
        except hy.errors.CaptureError as error:
            assert str(error).startswith("all_reduce in a branch that the ranks may not take alike")
        else:
            raise AssertionError("not refused")


def order() -> None:
    """Passes drop no collective, do none twice, and let none pass another one."""

    def program(x):
        dist.all_reduce(x * 0)  # nobody uses it
        a, b = dist.all_reduce(x), dist.all_reduce(x)  # alike, and yet two
        dist.barrier()
        return dist.all_gather(a[:1]) + b.sum() * 0

    graph = run_pipeline(hy.hybridize(program).graph(hy.ones(4)))
    assert [node.op.name for node in graph.nodes if node.op.communicates] == [
        "all_reduce", "all_reduce", "all_reduce", "barrier", "all_gather"
    ]  # fmt: skip
    assert both(program, hy.ones(4)).tolist() == [float(SIZE)] * SIZE


def batches() -> None:
    x = hy.asarray(np.arange(6.0 * SIZE, dtype=np.float32).reshape(3, 2 * SIZE)) + RANK
    for function in (dist.all_reduce, dist.all_gather, dist.reduce_scatter, dist.all_to_all):
        rows = hy.stack([function(row) for row in x])
        assert same(hy.vmap(function)(x), rows)
        assert same(hy.vmap(hy.hybridize(function))(x), rows)


def messages() -> None:
    """A ring: each sends to the next one before it receives; gradients go back round."""
    if SIZE == 1:
        return
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for shape in ((3,), (0, 2), (200_000,)):
        x = hy.ones(shape) * RANK

        def ring(x):
            kept = dist.send(x, after)
            return dist.recv(x, before), kept

        for function in (ring, hy.hybridize(ring)):
            came, kept = function(x)
            assert same(came, hy.ones(shape) * before) and same(kept, x)

    def loss(x):
        kept = dist.send(x, after)
        came = dist.recv(x * 0, before)
        return (kept * 2 + came * 5).sum()

    x = hy.ones(3) * RANK
    for function in (hy.grad(loss), hy.grad(hy.hybridize(loss)), hy.hybridize(hy.grad(loss))):
        assert function(x).tolist() == [7.0] * 3
    narrow = hy.ones(2, dtype=hy.bfloat16) * RANK
    dist.send(narrow, after)
    assert same(dist.recv(narrow, before), hy.ones(2, dtype=hy.bfloat16) * before)


def meshes() -> None:
    rows = 2 if SIZE == 4 else 1
    grid = dist.mesh((rows, SIZE // rows), ("dp", "tp"))
    assert grid.size("dp") == rows
    i, j = grid.coordinate("dp"), grid.coordinate("tp")
    assert i * grid.size("tp") + j == RANK
    x = hy.ones(2) * RANK
    along = both(lambda x: dist.all_gather(x, axis="tp"), x)
    assert along.tolist() == [
        float(i * grid.size("tp") + k) for k in range(grid.size("tp")) for _ in "12"
    ]
    assert dist.all_reduce(x, axis="dp").tolist() == [
        float(sum(k * grid.size("tp") + j for k in range(rows)))
    ] * 2  # fmt: skip
    failures = []

    def work(axis: str) -> None:
        try:
            for step in range(20):
                got = dist.all_reduce(hy.ones(3) * step, axis=axis)
                assert got.tolist() == [float(step * grid.size(axis))] * 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(axis,), daemon=True) for axis in ("dp", "tp")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    try:
        dist.mesh((SIZE, 2), ("dp", "tp"))
    except ValueError as error:
        assert f"in a job of {SIZE}" in str(error)
    else:
        raise AssertionError("a mesh that does not fit")


def open_sizes() -> None:
    """One capture for many sizes: the plans of each compare what they do at that size."""
    function = hy.hybridize(lambda x: dist.all_reduce(x * 2))
    for n in (3, 5, 3, 8, 11):
        assert function(hy.ones(n)).tolist() == [2.0 * SIZE] * n
    assert any("n" in plan.arguments or plan.axes for plan in function.plans)


for test in (
    collectives, rounding, gradients, control_flow, order, batches, messages, meshes, open_sizes
):  # fmt: skip
    test()
dist.barrier()
print(f"rank {RANK} of {SIZE}: all is well")
