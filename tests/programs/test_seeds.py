"""The programs that fuzzing starts from are in its folder, as they would be written now."""

from __future__ import annotations

from pathlib import Path

import pytest

import hybrid as hy
from hybrid.memory import native
from tests.programs.runner import CProgram
from tests.programs.seeds import arrays, seeds

CSRC = Path(__file__).parents[2] / "csrc"
FOLDER = CSRC / "fuzz/seeds/program"
ARRAYS = CSRC / "fuzz/seeds/npy"


def test_each_seed_is_there() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {name for name, _ in seeds()}
    assert {path.stem for path in ARRAYS.iterdir()} == {"format_2", *[name for name, _ in arrays()]}


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_seeds_are_read(path: Path) -> None:
    """If not, ``python -m tests.programs.seeds csrc/fuzz/seeds`` writes them anew."""
    names = list(hy.load_exported(path).functions)
    program = CProgram(path, native.lib.HYB_PROGRAM_CHECK_DATA)
    found = [
        native.ffi.string(native.lib.hyb_program_function_name(program.handle, f)).decode()
        for f in range(native.lib.hyb_program_functions(program.handle))
    ]
    assert found == names and names
