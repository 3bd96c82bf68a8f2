"""Run as each of three ranks: what differs raises on all of them, with the lines of both sides."""

import inspect

import hybrid as hy
import hybrid.distributed as dist
from hybrid.distributed.meshes import world_channel
from hybrid.distributed.strategies.link_speeds import agreed

dist.init(timeout=20)
RANK = dist.rank()
X = hy.ones(4)
FILE = __file__.rpartition("/")[2]


def here() -> str:
    """The line of the caller, as errors give it."""
    return f"{FILE}:{inspect.currentframe().f_back.f_lineno}"


def expect(*parts: str, run, kind=dist.CollectiveMismatchError) -> None:
    """``run`` raises an error in which all ``parts`` are."""
    try:
        run()
    except kind as error:
        text = str(error)
        assert all(part in text for part in parts), (parts, text)
    else:
        raise AssertionError(f"nothing is raised; expected {parts}")
    assert dist.all_reduce(X).tolist() == [3.0] * 4  # and all go on


def shapes() -> None:
    line = here()
    x = hy.ones(4 + (RANK == 1))
    expect(
        "the ranks of 'world' do different collectives",
        f"rank 0: all_reduce f32[4] ({__file__}:",
        f"rank 1: all_reduce f32[5] ({__file__}:",
        FILE,
        run=lambda: dist.all_reduce(x),
    )
    assert line.startswith(FILE)


def dtypes() -> None:
    x = X.astype(hy.float64 if RANK == 2 else hy.int32)
    expect("rank 0: all_gather i32[4]", "rank 2: all_gather f64[4]", run=lambda: dist.all_gather(x))


def roots() -> None:
    expect("broadcast f32[4] root=0", "root=1", run=lambda: dist.broadcast(X, int(RANK == 1)))


def ops() -> None:
    def run():
        return dist.all_reduce(X) if RANK else dist.all_gather(X)

    first = run.__code__.co_firstlineno + 1
    expect("all_gather f32[4]", "all_reduce f32[4]", f"{FILE}:{first}", run=run)


def kinds_of_sums() -> None:
    expect("all_reduce f32[4]", "all_gather f32[1,4]",
           run=lambda: dist.all_reduce(X, "max" if RANK else "sum"))  # fmt: skip


def order() -> None:
    def run():
        if RANK == 0:
            dist.barrier()
        dist.all_reduce(X)
        if RANK:
            dist.barrier()

    first = run.__code__.co_firstlineno
    expect(f"rank 0: barrier ({__file__}:{first + 2})",
           f"rank 1: all_reduce f32[4] ({__file__}:{first + 3})", run=run)  # fmt: skip


def plans() -> None:
    """Before their first run: nothing has been sent, so all can go on."""

    def program(x):
        a = dist.all_reduce(x)
        if RANK == 1:
            return dist.all_gather(a)
        return dist.all_reduce(a)

    first = program.__code__.co_firstlineno
    captured = hy.hybridize(program)
    expect(
        "do different collectives, number 2 of them",
        f"rank 0: all_reduce f32[4] ({__file__}:{first + 4})",
        f"rank 1: all_gather f32[4] ({__file__}:{first + 3})",
        run=lambda: captured(X),
    )


def missing_in_a_plan() -> None:
    def program(x):
        x = dist.all_reduce(x)
        return dist.all_reduce(x) if RANK else x

    def loop(x):
        for _ in range(3 if RANK else 2):
            x = dist.all_reduce(x)
        return x

    expect("number 2 of them", "rank 0: nothing more", "rank 2: all_reduce f32[4]",
           run=lambda: hy.hybridize(program)(X))  # fmt: skip
    expect("rank 0: loop of 2: all_reduce f32[4]", "rank 1: loop of 3: all_reduce f32[4]",
           run=lambda: hy.hybridize(loop)(X))  # fmt: skip


def messages() -> None:
    """Whoever receives sees that it is another type."""

    def run():
        if RANK == 0:
            dist.send(X, 1)
        if RANK == 1:
            dist.recv(hy.ones(5), 0)
        else:
            raise dist.CollectiveMismatchError("rank 0 has sent float32[4], and float32[5]")

    expect("rank 0 has sent float32[4], and float32[5]", run=run)


def arguments() -> None:
    """Mistakes of one rank are found before anything is sent."""
    for run, kind in (
        (lambda: dist.all_reduce(X, "median"), ValueError),
        (lambda: dist.all_reduce(X, 3), TypeError),
        (lambda: dist.broadcast(X, 3), ValueError),
        (lambda: dist.broadcast(X, "0"), TypeError),
        (lambda: dist.send(X, RANK), ValueError),
        (lambda: dist.recv(X, -1), ValueError),
        (lambda: dist.reduce_scatter(X), ValueError),
        (lambda: dist.all_gather(hy.ones(())), ValueError),
        (lambda: dist.all_reduce(X > 0), TypeError),
        (lambda: dist.all_reduce(X, axis="dp"), ValueError),
        (lambda: dist.mesh((2, 2), ("a", "b")), ValueError),
        (lambda: dist.mesh((3,), ("a", "b")), ValueError),
        (lambda: dist.mesh((3,), "a"), TypeError),
        (lambda: dist.init(timeout=0), ValueError),
        (lambda: dist.init(timeout="1"), TypeError),
    ):
        try:
            run()
        except kind as error:
            assert "Fix: " in str(error)
        else:
            raise AssertionError("nothing is raised")
    shape, names = ((3, 1), ("a", "b")) if RANK else ((3,), ("a",))
    expect("mesh (3,) ('a',)", "mesh (3, 1) ('a', 'b')", run=lambda: dist.mesh(shape, names))


def of_the_library() -> None:
    """What the library does by itself is compared as what users write is."""

    def files():
        return dist.all_reduce(X) if RANK else dist.save("/nowhere/at/all", x=X)

    first = files.__code__.co_firstlineno + 1
    expect(f"rank 0: write ({__file__}:{first})", f"rank 1: all_reduce f32[4] ({__file__}:{first})",
           run=files)  # fmt: skip
    numbers = [1.0] * (2 + (RANK == 2))
    expect("rank 0: agreeing about times f64[2]", "rank 2: agreeing about times f64[3]",
           run=lambda: agreed(world_channel(), numbers))  # fmt: skip


def unchecked() -> None:
    """Without comparisons of eager calls, those that wait notice who asks."""
    known = hy.hybridize(lambda x: dist.all_reduce(x))
    known(X)
    fresh = hy.hybridize(lambda x: dist.all_gather(x))
    try:
        (fresh if RANK == 1 else known)(X)
    except dist.CollectiveMismatchError as error:
        assert "rank 0: all_reduce" in str(error) and "rank 1: all_gather" in str(error)
    else:
        raise AssertionError("nothing is raised")


for test in (
    shapes, dtypes, roots, ops, kinds_of_sums, order, plans, missing_in_a_plan, messages, arguments,
    of_the_library, unchecked,
):  # fmt: skip
    test()
print(f"rank {RANK} of 3: all is well")
