"""Every op on the kernels of another instruction set: AArch64, compiled here and emulated.

Plans are made here, written to a file, and run by ``foreign.c``.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hybrid._native import ffi, lib

from hybrid.ir import Builder, Graph, get_op
from hybrid.memory import native
from hybrid.ops.spatial.convolution_blocks import plain_shape
from hybrid.ops.support.sampling import types_of
from hybrid.plan import Plan, make_plan
from tests.ops.test_registry import OPS, PREPARING, assert_close, described, drawn, reference

CSRC = Path(__file__).resolve().parents[2] / "csrc"
COMPILER, ARCHIVER, EMULATOR = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar", "qemu-aarch64"
ARRAYS = ("steps", "operands", "slots", "ops", "attrs", "blocks", "controls", "moves")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, (COMPILER, ARCHIVER, EMULATOR, "make"))),
    reason=f"needs make, {COMPILER} and {EMULATOR}",
)


class Recorder(native.PlanWriter):
    """Keeps what it hands to C."""

    last: Recorder

    def build(self, constants: bytes, arena_nbytes: int, n_externals: int) -> object:
        self.about = constants, arena_nbytes, n_externals
        Recorder.last = self
        return super().build(constants, arena_nbytes, n_externals)

    def written(self) -> Iterator[bytes]:
        constants, arena_nbytes, n_externals = self.about
        counts = [getattr(self, "n_" + name) for name in ARRAYS]
        yield struct.pack("<11q", *counts, len(constants), arena_nbytes, n_externals)
        for name in ARRAYS:
            yield bytes(getattr(self, name))
        yield constants


def kernel_names() -> Iterator[bytes]:
    count = lib.hyb_kernel_count()
    yield struct.pack("<q", count)
    for kernel in range(count):
        name = ffi.string(lib.hyb_kernel_name(kernel))
        assert len(name) < 56
        yield struct.pack("<56sq", name, lib.hyb_kernel_dtype(kernel))


def outside(plan: Plan, operands: tuple[np.ndarray, ...]) -> Iterator[bytes]:
    for type in plan.output_types:
        yield struct.pack("<2q", type.nbytes, 0)
    for array in operands:
        yield struct.pack("<2q", array.nbytes, 1) + np.ascontiguousarray(array).tobytes()


def graph_of(op, sample) -> Graph:
    operands, attrs = sample
    builder = Builder(op.name)
    values = [builder.param(t) for t in types_of(operands)]
    if op.name == "conv_prepared":  # in the order of its own machine
        given = {"source": operands[0].shape, **attrs}
        values[2:] = builder.apply(get_op("conv_prepare"), [values[1]], given)
    elif op.name == "conv_blocked":
        shape = operands[0].shape
        given = {"source": plain_shape(shape) if len(shape) == 5 else shape, **attrs}
        values[2:] = builder.apply(get_op("conv_blocked_prepare"), [values[1]], given)
    elif op.name == "matmul_prepared":
        given = {"rows": operands[0].shape[-2]}
        values[2:] = builder.apply(get_op("matmul_prepare"), [values[1]], given)
    elif op.name == "matmul_integer_prepared":
        values[2:] = builder.apply(get_op("matmul_integer_prepare"), [values[1]], {})
    elif op.name == "conv_integer_prepared":
        given = {"source": operands[0].shape, **attrs}
        values[3:] = builder.apply(get_op("conv_integer_prepare"), [values[1]], given)
    return builder.finish(builder.apply(op, values, attrs))


def call(*arguments: object, **environment: str) -> str:
    done = subprocess.run(
        [str(a) for a in arguments], capture_output=True, text=True, timeout=3000, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    tools = (f"CC={COMPILER}", f"AR={ARCHIVER}", "CFLAGS=-O2")
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    call("make", "-s", jobs, "-C", CSRC, f"BUILD={folder}", *tools, folder / "libhybrid.a")
    made, source = folder / "foreign", Path(__file__).with_name("foreign.c")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{CSRC / 'include'}", "-static"]
    library = folder / "libhybrid.a"
    call(COMPILER, *flags, source, library, "-lm", "-pthread", "-o", made)
    return made


def test_every_op_by_the_kernels_of_aarch64(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "PlanWriter", Recorder)
    given, found = tmp_path / "plans", tmp_path / "results"
    checks = []
    with given.open("wb") as file:
        file.writelines(kernel_names())
        for op in OPS:
            if op.hosted or op.name in PREPARING:
                continue  # NumPy's, not a kernel; or of an order that only its kernel knows
            for sample in drawn(op):
                plan = make_plan(graph_of(op, sample))
                file.writelines(Recorder.last.written())
                file.writelines(outside(plan, sample[0]))
                checks.append((op, sample, plan.output_types))
    assert len(checks) > 1000
    for isa in ("neon", "neon_dot"):
        assert call(EMULATOR, program, given, found, HYBRID_ISA=isa).strip() == isa
        content, at = found.read_bytes(), 0
        for op, sample, types in checks:
            for type, want in zip(types, reference(op, sample), strict=True):
                got = np.frombuffer(content, type.dtype.numpy, type.size, at).reshape(type.shape)
                at += type.nbytes
                assert_close(op, got, want, f"{op.name} of {described(sample)} by {isa}")
        assert at == len(content)
