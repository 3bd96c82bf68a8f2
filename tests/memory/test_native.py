"""The C library as Python sees it: buffers, kernels, plans refused, threads, memory."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cffi
import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import SUPPORTED
from hybrid.errors import (
    ArgumentError,
    LinearAlgebraError,
    NativeError,
    OutOfMemoryError,
    OutOfRangeError,
)
from hybrid.memory import native

# Buffers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nbytes", [0, 1, native.SMALL, native.SMALL + 1, 1_000_003])
def test_a_buffer_holds_what_is_written(nbytes) -> None:
    buffer = native.allocate(nbytes)
    content = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8).tobytes()
    native.view(buffer, nbytes)[:] = content
    assert bytes(native.view(buffer, nbytes)) == content


def test_a_view_keeps_its_buffer() -> None:
    buffer = native.allocate(100_000)
    view = native.view(buffer, 100_000)
    view[:] = b"x" * 100_000
    del buffer
    gc.collect()
    others = [native.allocate(100_000) for _ in range(10)]
    for other in others:
        native.view(other, 100_000)[:] = b"y" * 100_000
    assert bytes(view) == b"x" * 100_000


def test_large_buffers_are_counted_and_given_back() -> None:
    gc.collect()
    before = native.memory()
    buffer = native.allocate(10_000_000)
    during = native.memory()
    assert during["live_bytes"] - before["live_bytes"] >= 10_000_000
    assert during["allocations"] == before["allocations"] + 1
    assert during["peak_bytes"] >= during["live_bytes"]
    del buffer
    gc.collect()
    assert native.memory()["live_bytes"] == before["live_bytes"]
    native.trim_memory()
    assert native.memory()["cached_bytes"] == 0


def test_small_buffers_live_in_their_objects() -> None:
    before = native.memory()["allocations"]
    native.allocate(native.SMALL)
    assert native.memory()["allocations"] == before


@pytest.mark.parametrize("nbytes", [2**50, 2**62, 2**63, 2**64, -1])
def test_memory_that_cannot_be_had(nbytes) -> None:
    if nbytes < 0:
        assert len(native.view(native.allocate(nbytes), 1)) == 1
        return
    with pytest.raises(OutOfMemoryError, match=f"no memory for {nbytes} bytes"):
        native.allocate(nbytes)


# Kernels and errors -------------------------------------------------------------------------------


def test_the_kernel_table() -> None:
    table = native.kernel_table()
    assert len({(row.name, row.dtype_code) for row in table}) == len(table)
    for index, row in enumerate(table):
        assert native.find_kernel(row.name, row.dtype_code) == index
        assert row.isa in native.isas()
    assert native.find_kernel("no_such_kernel", 0) == -1
    assert {"add", "matmul", "exp"} <= {row.name for row in table}
    assert {row.dtype_code for row in table if row.name == "add"} >= {
        d.code for d in SUPPORTED if d is not hy.bool
    }


def test_the_machine() -> None:
    assert native.isa() in native.isas()
    assert native.compiler()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (native.lib.HYB_BAD_ARGUMENT, NativeError),
        (native.lib.HYB_NO_MEMORY, OutOfMemoryError),
        (native.lib.HYB_NO_KERNEL, NativeError),
        (native.lib.HYB_BAD_INDEX, OutOfRangeError),
        (native.lib.HYB_INTERRUPTED, KeyboardInterrupt),
        (native.lib.HYB_SINGULAR, LinearAlgebraError),
        (native.lib.HYB_NOT_DEFINITE, LinearAlgebraError),
        (native.lib.HYB_NOT_CONVERGED, LinearAlgebraError),
        (9999, NativeError),
    ],
)
def test_a_status_is_an_exception(status, error) -> None:
    native.check(native.lib.HYB_OK)
    with pytest.raises(error):
        native.check(status)


def test_a_plan_that_c_refuses() -> None:
    writer = native.PlanWriter()
    slot = writer.slot(native.EXTERNAL, 7, 0, 4)
    writer.operand(slot, 0, hy.float32.code, (1,), (1,))
    writer.step(native.KERNEL_STEP, 99_999, 0, (0, 1, 0), (), 0)
    with pytest.raises(NativeError) as caught:
        writer.build(b"", 0, 1)
    assert str(caught.value)


# Threads and the environment ----------------------------------------------------------------------


def test_threads() -> None:
    saved = hy.num_threads()
    try:
        hy.set_num_threads(3)
        assert hy.num_threads() == 3
    finally:
        hy.set_num_threads(saved)
    for wrong in (0, -1, 1.5, True, "2", None):
        with pytest.raises(ArgumentError, match="is not a number of threads"):
            hy.set_num_threads(wrong)
    assert hy.num_threads() == saved


@pytest.mark.parametrize(
    ("name", "value"),
    [("HYBRID_ISA", "vax"), ("HYBRID_NUM_THREADS", "none"), ("HYBRID_NUM_THREADS", "0")],
)
def test_an_environment_that_cannot_be_had(name, value, tmp_path) -> None:
    """Said in one line with the first op, and not at import."""
    program = (
        "import hybrid as hy\n"
        "try:\n    hy.ones(2) + 1\n"
        "except hy.HybridError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,  # away from a checkout that is not built
        env={name: value, "PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("ArgumentError ") and name in done.stdout
    assert "Fix: unset it, or choose what this machine has." in done.stdout


# What an editable install does: it finds each part of the package in the folder that was built.
FINDER = """
import importlib.util, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "hybrid._native":
            return importlib.util.spec_from_file_location(name, {built!r})
sys.meta_path.append(Finder)
"""


@pytest.mark.parametrize("how", ["installed", "editable"])
def test_a_source_folder_in_the_way(tmp_path: Path, how: str) -> None:
    package = Path(native.__file__).parents[1]
    shutil.copytree(
        package, tmp_path / "source" / "hybrid", ignore=shutil.ignore_patterns("_native*", "*.pyc")
    )
    needed = [Path(module.__file__).parent.parent for module in (np, cffi)]
    program = "import hybrid"
    if how == "editable":
        program = FINDER.format(built=native._native.__file__) + program
    else:
        needed.insert(0, package.parent)
    path = os.pathsep.join(map(str, [tmp_path / "source", *needed]))
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],  # -S: no finder of an editable install
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    source = os.path.realpath(tmp_path / "source" / "hybrid")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: hybrid's C library is missing. "
        f"hybrid is installed in {os.path.realpath(package)}, but the source folder {source} is in "
        "the way: Python looks there first. Fix: run Python in another folder, or build this one "
        "with `pip install -e .`"
    )
