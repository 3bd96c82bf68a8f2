"""What the tests of export share: a function, its file, and what two readers compute of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import hybrid as hy
from hybrid import nn
from hybrid.core.tree import flatten


def run(path: Any, *inputs: Any) -> list[np.ndarray]:
    """What onnxruntime computes of the tensors, or arrays, among ``inputs``."""
    session = onnxruntime.InferenceSession(os.fspath(path))
    names = [given.name for given in session.get_inputs()]
    arrays = [x.numpy() if isinstance(x, hy.Tensor) else np.asarray(x) for x in inputs]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def listed(found: Any) -> list[np.ndarray]:
    results = found if isinstance(found, (list, tuple)) else (found,)
    return [y.numpy() if isinstance(y, hy.Tensor) else np.asarray(y) for y in results]


def leaves(tree: Any, *kinds: type) -> list[Any]:
    """What in ``tree`` is of ``kinds``: tensors, unless others are named."""
    return [leaf for leaf in flatten(tree)[0] if isinstance(leaf, kinds or hy.Tensor)]


def assert_same(
    found: Sequence[Any], wanted: Sequence[Any], what: str = "", rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:  # fmt: skip
    """As many results, of the same dtypes and shapes, and nearly the same elements."""
    for got, want in zip(listed(found), listed(wanted), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, what
        np.testing.assert_allclose(got, want, rtol, atol, err_msg=what)


def assert_exported(
    function: Any, args: Sequence[Any], path: Path, others: Sequence[Sequence[Any]] = (), **options
) -> Any:
    """The file computes what ``function`` does, of ``args`` and of ``others``.

    It is checked, run by onnxruntime, and loaded again; the ModelProto is returned.
    """
    hy.onnx.export(function, path, *args, **options)
    onnx.checker.check_model(path, full_check=True)
    owner = getattr(function, "__self__", function)
    if isinstance(owner, nn.Module):
        owner.eval()
    module = hy.onnx.load(path)
    for given in (args, *others):
        with hy.no_grad():
            wanted, loaded = listed(function(*given)), listed(module(*given))
        assert_same(run(path, *given), wanted)
        assert_same(loaded, wanted)
    return onnx.load(path)
