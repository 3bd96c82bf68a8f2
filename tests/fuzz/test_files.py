"""Random files: readers take them, or refuse them with a text; hash repairs are right."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from hybrid.errors import HybridError
from tests.fuzz import files

QUICK = {"weights": 150, "programs": 60, "onnx": 40, "plans": 6}


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", files.READERS)
def test_random_files(name: str, tmp_path: Path) -> None:
    if name == "onnx":
        pytest.importorskip("onnx")
    outcomes = files.run(name, QUICK[name], 0, tmp_path)
    assert sum(outcomes.values()) == QUICK[name]
    assert outcomes["read"] >= 2  # the seeds


@pytest.mark.nightly
@pytest.mark.parametrize("name", files.READERS)
def test_many_random_files(name: str, tmp_path: Path) -> None:
    outcomes = files.run(name, 100 * QUICK[name], 1, tmp_path)
    assert outcomes["read"] >= 2


def test_repaired_programs_get_past_their_hashes(tmp_path: Path) -> None:
    seed = files.program_seeds(tmp_path)[0]
    draw, texts = random.Random(3), []
    for _ in range(80):
        try:
            files.read_program(files.mutate_program(seed, draw), tmp_path)
        except HybridError as error:
            texts.append(str(error))
    assert texts and not [text for text in texts if "damaged" in text]
