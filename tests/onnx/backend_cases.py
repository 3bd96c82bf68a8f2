"""The cases of the package onnx's own backend tests, with arrays for what they hold."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from hybrid.onnx import backend
from hybrid.onnx.model_file import DTYPES

DATA = Path(importlib.util.find_spec("onnx").submodule_search_locations[0]) / "backend/test/data"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case import node as node_cases
    from onnx.backend.test.case.utils import import_recursive

MODULES = sorted(  # one for each op
    f"{node_cases.__name__}.{found.name}" for found in pkgutil.iter_modules(node_cases.__path__)
)
_made: dict[str, list[Any]] = {}  # the cases that importing a module has made


class Case(NamedTuple):
    name: str
    model: Any  # ModelProto
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def of_ops(modules: list[str]) -> Iterator[Case]:
    """The node cases of some ``MODULES``."""
    for name in modules:
        if name not in _made:
            first = len(node_cases._NodeTestCases)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = importlib.import_module(name)
                if hasattr(module, "__path__"):
                    import_recursive(module)
            _made[name] = node_cases._NodeTestCases[first:]
        for case in _made[name]:
            sets = [([as_array(i) for i in a], [as_array(o) for o in b]) for a, b in case.data_sets]
            yield Case(case.name, case.model, sets, case.rtol, case.atol)


def in_folder(kind: str) -> Iterator[Case]:
    """The cases that are files: of "simple", "pytorch-converted" or "pytorch-operator"."""
    for folder in sorted((DATA / kind).iterdir()):
        if not (folder / "model.onnx").exists():
            continue
        sets = []
        for data in sorted(folder.glob("test_data_set_*")):
            sets.append(([*_read(data, "input")], [*_read(data, "output")]))
        yield Case(folder.name, onnx.load(folder / "model.onnx"), sets, 1e-3, 1e-5)


def _read(folder: Path, word: str) -> Iterator[np.ndarray]:
    for number in range(len(list(folder.glob(f"{word}_*.pb")))):
        yield as_array(TensorProto.FromString((folder / f"{word}_{number}.pb").read_bytes()))


def as_array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def is_core(model: Any) -> bool:
    """Whether a model takes, gives and casts to tensors of types that hybrid has, and no others."""
    values = [*model.graph.input, *model.graph.output]
    return all(
        value.type.WhichOneof("value") == "tensor_type"
        and value.type.tensor_type.elem_type in DTYPES
        for value in values
    ) and not any(
        attribute.name == "to" and attribute.i not in DTYPES
        for node in model.graph.node
        for attribute in node.attribute
    )


def run(case: Case, hybridize: bool) -> str:
    """What is wrong with the results of a case; empty if nothing is.  Hybridized: bit for bit."""
    prepared = backend.prepare(case.model, hybridize=hybridize)
    plain = backend.prepare(case.model) if hybridize else None
    for inputs, outputs in case.sets:
        eager = plain.run(inputs) if plain is not None else []
        for _ in range(2 if hybridize else 1):
            found = prepared.run(inputs)
            bits = [(got.dtype, got.tobytes()) for got in found]
            random = case.name.startswith(RANDOM)
            if eager and not random and bits != [(one.dtype, one.tobytes()) for one in eager]:
                return f"{case.name}: other bits hybridized than eagerly"
            for got, wanted in zip(found, outputs, strict=True):
                fault = difference(case, got, np.asarray(wanted))
                if fault:
                    return f"{case.name}: {fault}"
    return ""


HALF = {"float16": 2e-3, "bfloat16": 1.6e-2}  # two units in the last place: fewer roundings here
RANDOM = ("test_bernoulli", "test_training_dropout")  # of which the drawn numbers are one's own
NEARLY = {  # what is 0 has the error of a transform in float32 in the expected values
    "test_dft_inverse": 1e-6,
    "test_dft_inverse_opset19": 1e-6,
}


def difference(case: Case, got: np.ndarray, wanted: np.ndarray) -> str:
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{got.shape} in place of {wanted.dtype}{wanted.shape}"
    if case.name.startswith(RANDOM) and "zero_ratio" not in case.name:
        return ""
    rtol = max(case.rtol, HALF.get(wanted.dtype.name, 0))
    if wanted.dtype.name == "bfloat16":
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    atol = NEARLY.get(case.name, case.atol)
    near = np.allclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    return "" if near else f"{np.abs(got - wanted).max()} away"
