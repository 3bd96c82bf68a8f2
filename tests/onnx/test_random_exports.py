"""Random programs as models of ONNX: what is not refused computes the same in onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest

import hybrid as hy
from hybrid.core.tree import flatten, unflatten
from tests.fuzz.comparison import module_of, put_away
from tests.fuzz.grammar import program
from tests.helpers import parts
from tests.onnx.exported import assert_same, leaves, run

SEEDS, PARTS = 240, 40
# The optimizer of onnxruntime 1.32 takes away casts of float16 that graphs inside read; NumPy has
# no bfloat16 to compare with.
LEFT_OUT = ("float16",)  # which is in the name of the other


def copied(args: Any) -> list[Any]:
    """``args`` with an own tensor for each that there is: none is there twice."""
    found, structure = flatten(tuple(args))
    own = [hy.asarray(x.numpy().copy()) if isinstance(x, hy.Tensor) else x for x in found]
    return [*unflatten(structure, own)]


def alike(args: Any, others: Any) -> bool:
    """Whether a model made for ``args`` is for ``others``, too: it has the same constants."""
    first, second = flatten(tuple(args))[0], flatten(tuple(others))[0]
    return len(first) == len(second) and all(map(_same, first, second))


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, hy.Tensor):
        return isinstance(y, hy.Tensor) and x.type is y.type
    plain = isinstance(x, (bool, int, float, str)) and type(x) is type(y)
    return x == y if plain else x is y


def compared(seed: int, path: Path) -> int:
    """How many calls of the program were compared."""
    text = program(seed).text
    if any(word in text for word in LEFT_OUT):
        return 0
    try:
        return compared_calls(module_of(text), f"seed {seed}", path)
    finally:
        put_away()


def compared_calls(module: Any, name: str, path: Path) -> int:
    """How many calls of the program of ``module`` were compared."""
    try:
        function, state = module.make()
        calls = [copied(args) for args in module.calls(state()[0])]
        module.make()[0](*copied(calls[0]))
    except Exception:  # what it raises eagerly is no matter of models
        return 0
    try:
        hy.onnx.export(function, path, *calls[0])
    except hy.HybridError as error:
        assert "is not valid" not in str(error), name  # a mistake of ours is no refusal
        return 0
    onnx.checker.check_model(path, full_check=True)
    count = 0
    for args in calls:
        if not alike(calls[0], args):
            continue
        found = run(path, *leaves(tuple(args)))
        wanted = leaves(module.make()[0](*args), hy.Tensor, int, float)
        assert_same(found, wanted, name, 1e-4, 1e-4)
        count += 1
    return count


@pytest.mark.parametrize("part", parts(PARTS))
def test_random_programs_compute_the_same_there(part: int, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is left out
        for seed in range(part, SEEDS, PARTS):
            compared(seed, tmp_path / "m.onnx")


def test_some_are_exported_and_compared(tmp_path: Path) -> None:
    """Many write to what lasts, or draw; of these one in five does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = [compared(seed, tmp_path / "m.onnx") for seed in range(60)]
    assert sum(map(bool, counts)) >= 5
