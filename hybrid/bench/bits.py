"""Comparing trees of tensors bit for bit."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hybrid import Tensor
from hybrid.bench.registry import BenchError


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, leaf) for everything in ``tree`` that is not a mapping, a list or a tuple."""
    if isinstance(tree, Mapping):
        items = tree.items()
    elif isinstance(tree, (list, tuple)):
        items = enumerate(tree)
    else:
        yield path, tree
        return
    for key, item in items:
        yield from leaves(item, f"{path}.{key}" if path else str(key))


def fingerprint(leaf: Any) -> tuple[Any, ...]:
    """What two leaves have in common exactly when they are the same to the last bit."""
    if isinstance(leaf, Tensor):
        array = np.asarray(leaf)
        return str(array.dtype), array.shape, array.tobytes()
    return type(leaf), repr(leaf)


def require_same_bits(what: str, eager: Any, hybridized: Any) -> int:
    """Raise BenchError, naming the leaf, unless both trees are identical; the number of leaves."""
    left, right = dict(leaves(eager)), dict(leaves(hybridized))
    if left.keys() != right.keys():
        only = sorted(left.keys() ^ right.keys())[0]
        raise BenchError(f"{what}: only one of eager and hybridized has {only!r}")
    for path, leaf in left.items():
        if fingerprint(leaf) != fingerprint(right[path]):
            raise BenchError(
                f"{what}: eager and hybridized differ in {path or 'the result'!r}",
                why=apart(leaf, right[path]),
            )
    return len(left)


def apart(left: Any, right: Any) -> str:
    """How far two leaves are apart, in words."""
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
        return f"{left!r} and {right!r}."
    a, b = np.asarray(left), np.asarray(right)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}."
    gap = np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))
    return f"{int(np.sum(a != b))} of {a.size} elements, the largest gap is {gap:.3g}."


def require_close(what: str, ours: Tensor, numpys: np.ndarray, tolerance: float = 1e-4) -> None:
    """Raise BenchError unless ``ours`` is what NumPy computes, within ``tolerance``."""
    if not np.allclose(np.asarray(ours), numpys, rtol=tolerance, atol=tolerance):
        gap = np.max(np.abs(np.asarray(ours) - numpys))
        raise BenchError(f"{what}: NumPy's result differs by up to {gap:.3g}")
