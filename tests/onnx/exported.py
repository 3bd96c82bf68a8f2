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


def run(path: Any, *inputs: Any) -> list[np.ndarray]:
    """What onnxruntime computes of the tensors, or arrays, among ``inputs``."""
    session = onnxruntime.InferenceSession(os.fspath(path))
    names = [given.name for given in session.get_inputs()]
    arrays = [x.numpy() if isinstance(x, hy.Tensor) else np.asarray(x) for x in inputs]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def listed(found: Any) -> list[np.ndarray]:
    results = found if isinstance(found, (list, tuple)) else (found,)
    return [y.numpy() if isinstance(y, hy.Tensor) else np.asarray(y) for y in results]


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
        for got, again, want in zip(run(path, *given), loaded, wanted, strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)
            np.testing.assert_allclose(again, want, 1e-5, 1e-5)
    return onnx.load(path)
