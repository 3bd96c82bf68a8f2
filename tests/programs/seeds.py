"""Small files that fuzzing starts from: ``python -m tests.programs.seeds csrc/fuzz/seeds``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as hy
from hybrid import nn, optim
from hybrid.programs import export
from tests.programs.digits import trained

ROW, SQUARE = hy.ones(3), hy.ones((4, 4))


class Tiny(nn.Module):
    """Two layers, a norm, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.last(self.dropout(hy.relu(self.norm(self.first(x)))))


def counted(x: Any, n: Any) -> Any:
    i = hy.asarray(0)
    while i < n:
        x = x * 2 if x.sum() < 10 else x - i
        i = i + 1
    return x, i


def stacked(x: Any) -> Any:
    rows = []
    for row in x:
        rows.append(hy.cumsum(row, axis=0) / (1 + hy.abs(row).max()))
    return hy.stack(rows)


def pictures(x: Any) -> Any:
    kernel = hy.ones((2, 1, 3, 3))
    return nn.functional.max_pool2d(nn.functional.conv2d(x, kernel, padding=1), 2)


def attended(q: Any, k: Any, v: Any) -> Any:
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def ordered(x: Any) -> Any:
    return hy.sort(x, axis=0), hy.argsort(x), hy.topk(x, 2)[0], hy.cumprod(x, axis=1)


def indexed(x: Any, i: Any) -> Any:
    return x[i], hy.take_along_axis(x, i[:, None], axis=1), hy.where(x > 0, x, 0).T[::2]


def factored(x: Any) -> Any:
    a = x @ x.T + 4 * hy.eye(4)
    return hy.linalg.cholesky(a), hy.linalg.solve(a, x), hy.linalg.svd(a)[1]


def in_types(x: Any) -> Any:
    n = x.astype("int32")
    return n // 3, n % 3, (n << 1) & 7, x.astype("float16"), x.astype("bool"), x.astype("float64")


def reduced(x: Any) -> Any:
    return x.sum(), x.mean(0), x.max(1), x.argmin(0), x.std(), hy.softmax(x, axis=-1)


def grown(x: Any, y: Any) -> Any:
    n = x.shape[0]
    mask = hy.tril(hy.ones((n, n), dtype=hy.bool))
    scaled = hy.where(mask, x @ x.T, 0.0) * (1 / math.sqrt(n))
    return scaled @ x + hy.arange(n)[:, None] + y[n // 2]


def filled(x: Any) -> Any:
    n = x.shape[0]
    upper = hy.triu(hy.ones((n, n), dtype=hy.bool), k=1)
    rows = hy.where(upper, hy.eye(n), hy.linspace(0.0, 1.0, n)[:, None])
    pictures = nn.functional.interpolate(x[None, None], size=(2 * n, 3), mode="nearest")
    return rows @ x, hy.arange(0.0, 0.5 * n, 0.5), hy.arange(n, 0, -2), pictures


def branches(xs: Any, w: Any) -> Any:
    """Steps that run side by side."""
    return [hy.tanh(hy.tanh(hy.tanh(x @ w) @ w) @ w) for x in xs]


def says(x: Any) -> Any:
    print(f"the sum is {x.sum():.3f}", x)
    if x.sum() > 100:
        raise ValueError(f"{x.sum()} is too much")
    return x * 2


def seeds() -> Iterator[tuple[str, Callable[[Path], Any]]]:
    """Names of programs, and what writes each to a path."""
    model = Tiny()
    step = trained(model, optim.Adam(model.parameters()))
    labels = hy.asarray(np.zeros(2, np.int64))
    rows = hy.ones((2, 4))
    parts = {"train": (step, rows, labels), "predict": (model, rows)}
    yield "training", lambda path: export(parts, path)
    counts = {"counted": (counted, ROW, hy.asarray(3)), "stacked": (stacked, SQUARE)}
    yield "loops", lambda path: export(counts, path)
    batch, length = hy.Dim("batch", 1, 64), hy.Dim("length", 1, 99)
    table = {"x": {0: batch}, "y": {0: batch}}
    yield "open_training", lambda path: export(parts, path, dynamic=table)
    grows = {"grown": (grown, SQUARE, hy.ones((50, 4))), "stacked": (stacked, SQUARE)}
    sizes = {"x": {0: length}, "y": {0: hy.Dim("other", 50, 60)}}
    yield "open_literals", lambda path: export(grows, path, dynamic=sizes)
    yield "fills", lambda path: export(filled, path, SQUARE, dynamic={"x": {0: length}})
    wide, few = nn.Linear(32, 64), hy.ones((3, 32))  # whose weights are prepared
    wider = hy.Dim("rows", 2, 40)
    yield "prepared", lambda path: export({"fixed": (wide, few)}, path)
    yield "open_prepared", lambda path: export(wide, path, few, dynamic={0: {0: wider}})
    index = hy.asarray([0, 2, 1, 3])
    queries = hy.ones((1, 2, 3, 4))
    for function, *args in (
        (pictures, hy.ones((1, 1, 4, 4))), (attended, queries, queries, queries),
        (ordered, SQUARE), (indexed, SQUARE, index), (factored, SQUARE), (in_types, ROW),
        (reduced, SQUARE), (says, ROW),
        (branches, [hy.ones((60, 64)) for _ in range(6)], hy.ones((64, 64))),
    ):  # fmt: skip
        yield (
            function.__name__,
            lambda path, function=function, args=args: export(function, path, *args),
        )


def arrays() -> Iterator[tuple[str, np.ndarray]]:
    """Names of files of NumPy, and what is in each."""
    yield "scalar", np.asarray(1.5)
    yield "row", np.asarray([1, -2, 3], np.float32)
    yield "none", np.zeros((0, 3), np.int8)
    yield "bools", np.asarray([[True, False], [False, True]])
    yield "columns", np.asfortranarray(np.arange(6, dtype=np.uint16).reshape(2, 3))
    yield "half", np.ones(4, np.uint16).view("V2")  # bfloat16
    yield "many_axes", np.ones([1] * 32, np.int64)


def main() -> None:
    hy.random.seed(0)
    folder = Path(sys.argv[1])
    for name, write in seeds():
        path = folder / "program" / f"{name}.hyb"
        path.unlink(missing_ok=True)
        write(path)
        print(f"{path}: {path.stat().st_size} bytes")
    for name, array in arrays():
        np.save(folder / "npy" / f"{name}.npy", array)
    with (folder / "npy" / "format_2.npy").open("wb") as file:
        np.lib.format.write_array(file, np.ones((2, 2), np.float16), version=(2, 0))


if __name__ == "__main__":
    main()
