"""Kernel tables, instruction sets and the variables of the environment that choose among them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hybrid._native import ffi, lib

from tests.csrc.specs import last_error

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SUPPORTED = ffi.string(lib.hyb_isa_supported()).decode().split()

# Imports the bare extension: the package itself refuses to load when hyb_init fails.
PROBE = f"""
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("hybrid._native", {sys.modules["hybrid._native"].__file__!r})
native = module_from_spec(spec)
spec.loader.exec_module(native)
ffi, lib = native.ffi, native.lib
def text(pointer): return ffi.string(pointer).decode() if pointer else None
"""


def probe(script: str, **environment: str) -> str:
    """What ``script`` prints in a fresh process."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HYBRID_")}
    result = subprocess.run(
        [sys.executable, "-c", PROBE + script],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_every_kernel_is_found_under_its_name_and_dtype() -> None:
    assert lib.hyb_init() == lib.HYB_OK
    assert lib.hyb_kernel_count() > 0
    keys = []
    for kernel in range(lib.hyb_kernel_count()):
        name, dtype = lib.hyb_kernel_name(kernel), lib.hyb_kernel_dtype(kernel)
        assert lib.hyb_find_kernel(name, dtype) == kernel
        keys.append((ffi.string(name), dtype))
    assert keys == sorted(set(keys))


def test_unknown_kernels() -> None:
    assert lib.hyb_find_kernel(b"nothing", lib.HYB_F32) == -1
    assert last_error() == "no kernel nothing for f32"
    assert lib.hyb_find_kernel(b"add", 99) == -1
    assert last_error() == "no kernel add for unknown"
    for kernel in (-1, lib.hyb_kernel_count()):
        assert lib.hyb_kernel_name(kernel) == ffi.NULL
        assert lib.hyb_kernel_dtype(kernel) == -1
        assert lib.hyb_kernel_isa(kernel) == ffi.NULL


def test_without_a_wish_the_widest_instruction_set_is_taken() -> None:
    assert probe("lib.hyb_init(); print(text(lib.hyb_isa_name()))") == SUPPORTED[-1]


@pytest.mark.parametrize("isa", SUPPORTED)
def test_an_instruction_set_can_be_forced(isa: str) -> None:
    script = """
assert lib.hyb_init() == 0, text(lib.hyb_last_error())
used = {text(lib.hyb_kernel_isa(k)) for k in range(lib.hyb_kernel_count())}
print(text(lib.hyb_isa_name()), *used)
"""
    name, *used = probe(script, HYBRID_ISA=isa).split()
    assert name == isa
    assert set(used) <= set(SUPPORTED[: SUPPORTED.index(isa) + 1])
    assert isa in used


REFUSED = {
    ("HYBRID_ISA", "mmx"): "HYBRID_ISA=mmx: not an instruction set of this machine, which has: "
    + " ".join(SUPPORTED),
    ("HYBRID_NUM_THREADS", "0"): "HYBRID_NUM_THREADS=0: expected a number from 1 to 256",
    ("HYBRID_NUM_THREADS", "two"): "HYBRID_NUM_THREADS=two: expected a number from 1 to 256",
    ("HYBRID_NUM_THREADS", "9999"): "HYBRID_NUM_THREADS=9999: expected a number from 1 to 256",
}


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_bad_environment_is_refused_every_time(name: str, value: str) -> None:
    script = """
for _ in range(2):
    assert lib.hyb_init() == lib.HYB_BAD_ARGUMENT
    print(text(lib.hyb_last_error()))
assert lib.hyb_find_kernel(b"add", lib.HYB_F32) == -1
assert lib.hyb_kernel_count() == 0
assert lib.hyb_plan_create(ffi.new("hyb_plan_spec *")) == ffi.NULL
print(text(lib.hyb_last_error()))
"""
    assert probe(script, **{name: value}).splitlines() == [REFUSED[name, value]] * 3


def test_the_number_of_threads_comes_from_the_environment_or_the_cores() -> None:
    script = "print(lib.hyb_num_threads())"
    assert probe(script, HYBRID_NUM_THREADS="7") == "7"
    assert 1 <= int(probe(script)) <= len(os.sched_getaffinity(0))
    one_core = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
    assert probe(one_core + script) == "1"


def test_status_names() -> None:
    names = [ffi.string(lib.hyb_status_name(status)).decode() for status in range(17)]
    assert ", ".join(names) == (
        "ok, bad argument, no memory, no kernel, bad index, interrupted, host failed, "
        "cancelled, exhausted, singular matrix, matrix that is not positive definite, "
        "not converged, bad file, overflow, raised, out of domain, unknown status"
    )
    assert lib.hyb_abi() == lib.HYB_ABI
    assert re.match(r"(gcc|clang) \d+", ffi.string(lib.hyb_compiler()).decode())


def test_every_family_with_a_table_is_listed() -> None:
    """``isa/families.h``, ``isa/dot_families.h`` include them, ``isa/selection.h`` lists tables."""
    included = [
        family
        for name in ("families.h", "dot_families.h")
        for family in re.findall(
            r'#include "kernels/(\w+?)(?:/family)?\.inc\.c"', (CSRC / "isa" / name).read_text()
        )
    ]
    listed = re.findall(r"X\((\w+), isa\)", (CSRC / "isa" / "selection.h").read_text())
    assert listed == included
