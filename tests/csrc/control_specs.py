"""Plan specs with blocks, by hand: loops that take turns or go over rows, branches, members."""

from __future__ import annotations

import numpy as np
from hybrid._native import lib

from tests.csrc.specs import Spec, X, find

FLAG, NUMBER = np.zeros((), bool), np.zeros((), np.int64)
WIDE = np.ones((1, 16, 1), np.float32)  # one place of 64 bytes
LINE, ONE = WIDE.reshape(16), np.ones((1, 1), np.float32)
ROWS = 4


def doubling() -> Spec:
    """``while go: x, go = x + x, sum(x + x) < bound``; externals: x out, trips, x, go, bound.

    x takes turns between two places of the arena.
    """
    spec = Spec()
    out, trips = spec.external(64), spec.external(8)
    x, go, bound = spec.external(64), spec.external(1), spec.external(4)
    home, other = spec.arena(64), spec.arena(64)
    total, test = spec.arena(4), spec.arena(1)
    now, new = spec.carried(1, home, 64), spec.carried(1, other, 64)
    copy, add = find("copy", "float32"), find("add", "float32")
    spec.block(3)
    spec.step([(x, LINE)], [(home, LINE)], copy)
    spec.control(
        lib.HYB_STEP_WHILE, [(go, FLAG), (test, FLAG)], [(trips, NUMBER)],
        moves=[(now, new), (new, now)],
    )  # fmt: skip
    spec.step([(now, LINE)], [(out, LINE)], copy)
    spec.block(3)
    spec.step([(now, LINE), (now, LINE)], [(new, LINE)], add)
    spec.step([(new, WIDE)], [(total, ONE)], find("sum", "float32"))
    scalar = ONE.reshape(1)
    ops = [(find("less", "float32"), [0, 1], [2])]
    spec.step([(total, scalar), (bound, scalar)], [(test, FLAG.reshape(1))], ops=ops)
    return spec


def running_sums(reverse: bool = False) -> Spec:
    """``for i in range(n): s = s + x[i]; y[i] = s``; externals: s out, y, s, x, n, i.

    s follows the row of y that was written last.
    """
    spec = Spec()
    out, stack, start = spec.external(64), spec.external(64 * ROWS), spec.external(64)
    rows, n, last = spec.external(64 * ROWS), spec.external(8), spec.external(8)
    home = spec.arena(64)
    index = spec.arena(8)
    x, y = spec.row(1, rows, 64, ROWS), spec.row(1, stack, 64, ROWS)
    now = spec.carried(1, home, 64)
    copy, add = find("copy", "float32"), find("add", "float32")
    spec.block(3)
    spec.step([(start, LINE)], [(home, LINE)], copy)
    spec.control(
        lib.HYB_STEP_FOR, [(n, NUMBER)], [(index, NUMBER)],
        moves=[(now, y)], limit=ROWS, reverse=reverse,
    )  # fmt: skip
    spec.step([(now, LINE)], [(out, LINE)], copy)
    spec.block(2)
    spec.step([(now, LINE), (x, LINE)], [(y, LINE)], add)
    spec.step([(index, NUMBER.reshape(1))], [(last, NUMBER.reshape(1))], find("copy", "int64"))
    return spec


def choice() -> Spec:
    """``x + x if p else x * x``, x[8]; externals: out, p, x."""
    spec = Spec()
    out, p, x = spec.external(X.nbytes), spec.external(1), spec.external(X.nbytes)
    spec.block(1)
    spec.control(lib.HYB_STEP_COND, [(p, FLAG)], otherwise=2)
    for name in ("add", "multiply"):
        spec.block(1)
        spec.step([(x, X), (x, X)], [(out, X)], find(name, "float32"))
    return spec


def asking(limit: int = 2) -> Spec:
    """``while go: row, go = host(x)``, a stack of two rows; externals: rows, trips, x, go."""
    spec = Spec()
    stack, trips = spec.external(limit * X.nbytes), spec.external(8)
    x, go = spec.external(X.nbytes), spec.external(1)
    spare, test = spec.arena(X.nbytes), spec.arena(1)
    row = spec.row(0, stack, X.nbytes, limit, spare=spare)
    spec.block(1)
    spec.control(lib.HYB_STEP_WHILE, [(go, FLAG), (test, FLAG)], [(trips, NUMBER)])
    spec.block(1)
    spec.host(7, [(x, X)], [(row, X), (test, FLAG)])
    return spec


def feeding(limit: int = 6) -> Spec:
    """``for i in range(n): x = next(queue); y[i] = x + x``; externals: y, queue, n."""
    spec = Spec()
    y, queue, n = spec.external(limit * X.nbytes), spec.external(8), spec.external(8)
    x, row = spec.arena(X.nbytes), spec.row(0, y, X.nbytes, limit)
    spec.block(1)
    spec.control(lib.HYB_STEP_FOR, [(n, NUMBER)], limit=limit)
    spec.block(2)
    spec.next(7, (queue, NUMBER), [(x, X)])
    spec.step([(x, X), (x, X)], [(row, X)], find("add", "float32"))
    return spec


def lending(x_like: np.ndarray, asks: int = 1, stride: int = 0) -> Spec:
    """``for i in range(n): x = next(queue); y = y + x``; externals: y, queue, n.

    x is one place in all iterations, or where the queue has it.
    """
    spec, size = Spec(), x_like.nbytes
    y, queue, n = spec.external(size), spec.external(8), spec.external(8)
    place = spec.arena(size + 64)
    x = spec.row(0, place, size, 2**63 - 1 if stride == 0 else 2, stride)
    spec.block(1)
    spec.control(lib.HYB_STEP_FOR, [(n, NUMBER)], limit=-1 if stride == 0 else 2)
    spec.block(1 + asks)
    for _ in range(asks):
        spec.next(7, (queue, NUMBER), [(x, x_like)])
    spec.step([(y, x_like), (x, x_like)], [(y, x_like)], find("add", "float32"))
    return spec


def keeping(declared: int | None = None, given: int = 2) -> Spec:
    """``x, k = next(queue), k; y = x + x``, k passed on; externals: y, k', queue, k."""
    spec, kept = Spec(), np.empty(2, np.int64)
    y, after, queue = spec.external(X.nbytes), spec.external(16), spec.external(8)
    before, x = spec.external(16), spec.arena(X.nbytes)
    spec.next(7, (queue, NUMBER), [(x, X), (after, kept)], [(before, kept[:given])])
    if declared is not None:
        spec.attrs[-1] = declared
    spec.step([(x, X), (x, X)], [(y, X)], find("add", "float32"))
    return spec


def nested() -> Spec:
    """``for i in range(n): for j in range(m): y[i] = y[i] + x[i][j]``; externals: y, x, n, m.

    x is [3, 2, 16]; the rows of y, already there, are updated in place.
    """
    spec = Spec()
    y, x = spec.external(3 * 64), spec.external(3 * 2 * 64)
    n, m = spec.external(8), spec.external(8)
    outer, into = spec.row(0, x, 128, 3), spec.row(0, y, 64, 3)
    inner = spec.row(1, outer, 64, 2)
    spec.block(1)
    spec.control(lib.HYB_STEP_FOR, [(n, NUMBER)], block=1, limit=3)
    spec.block(1)
    spec.control(lib.HYB_STEP_FOR, [(m, NUMBER)], block=2, limit=2)
    spec.block(1)
    spec.step([(into, LINE), (inner, LINE)], [(into, LINE)], find("add", "float32"))
    return spec


def side_by_side(n: int = 16) -> Spec:
    """``x + x``, ``-(x * x)`` and ``-x`` at once, then the first two added; externals: s, c, x."""
    spec, x = Spec(), np.empty(n, np.float32)
    total, c, given = (spec.external(x.nbytes) for _ in range(3))
    a, squares, b = (spec.arena(x.nbytes, last) for last in (1, 4, 1))
    add, multiply, negative = (find(name, "float32") for name in ("add", "multiply", "negative"))
    spec.block(2)
    spec.parallel(3)
    spec.step([(a, x), (b, x)], [(total, x)], add)
    spec.block(1)
    spec.step([(given, x), (given, x)], [(a, x)], add)
    spec.block(2)
    spec.step([(given, x), (given, x)], [(squares, x)], multiply)
    spec.step([(squares, x)], [(b, x)], negative)
    spec.block(1)
    spec.step([(given, x)], [(c, x)], negative)
    return spec


def endless() -> Spec:
    """``while go: x = x + x``, with a go that nobody changes."""
    spec = Spec()
    go, x = spec.external(1), spec.external(X.nbytes)
    spec.block(1)
    spec.control(lib.HYB_STEP_WHILE, [(go, FLAG), (go, FLAG)])
    spec.block(1)
    spec.step([(x, X), (x, X)], [(x, X)], ops=[(find("add", "float32"), [0, 1], [2])])
    return spec
