"""Random programs run the same eagerly, hybridized, and hybridized with gradients."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from tests.control.harness import draw, f32, i64, same
from tests.random_programs import Program, programs

NUMBERS = itertools.count()
CALLS = [
    (f32([0.5, -1.0, 2.0]), f32(0.25), draw(2, 3, seed=1), i64(2), 1),
    (f32([-0.5, 0.25, -2.0]), f32(-1.5), draw(2, 3, seed=2), i64(0), 1),
    (f32([3.0, -2.0, 0.0]), f32(0.75), draw(2, 3, seed=3), i64(3), 4),
]


def function_of(program: Program, folder: Path) -> Callable[..., Any]:
    """``make`` of the program, which is imported from a file, for conversion needs its source."""
    path = folder / f"program_{next(NUMBERS)}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make


def check(program: Program, folder: Path) -> None:
    note(program.text)
    make = function_of(program, folder)
    same(
        make,
        calls=CALLS,
        make=True,
        may_refuse=program.features.grow,
    )


relaxed = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.filter_too_much],
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@settings(relaxed, max_examples=100, derandomize=True)
@given(program=programs())
def test_random_programs(program: Program, folder: Path) -> None:
    check(program, folder)


@pytest.mark.nightly
@settings(relaxed, max_examples=2000)
@given(program=programs())
def test_many_random_programs(program: Program, folder: Path) -> None:
    check(program, folder)
