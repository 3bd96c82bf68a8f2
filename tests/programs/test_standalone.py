"""Programs that stand alone: their sources, their size, and the bits of the library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.package import sources_dir
from hybrid.errors import ProgramError
from hybrid.memory import native
from hybrid.programs.standalone import write_standalone
from tests.programs import digits

LIBRARY_RUN = Path(hy.lib_dir()).parent / "bin" / "hybrid-run"
SETS = [name for name in ("baseline", "avx2") if name in native.isas()]


def printed(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def files_of(folder: Path) -> dict[str, Path]:
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, with Adam: rows, the program, and its sources in ``alone``."""
    made = tmp_path_factory.mktemp("standalone")
    x, y = digits.write(made)
    np.save(made / "xb.npy", x[:16])
    np.save(made / "yb.npy", y[:16])
    write_standalone(made / "digits.hyb", made / "alone")
    return made


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="needs make and cc")
def test_two_hundred_steps_in_one_small_binary(folder: Path) -> None:
    """With Adam and dropout; the plainest set and one more, and all of the C library."""
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    printed("make", jobs, f"ISA={' '.join(SETS)}", cwd=folder / "alone")
    program = folder / "alone" / "program"
    given = ("train_step", "-i", "xb.npy", "-i", "yb.npy", "--repeat", 200)
    for isa in SETS:
        for command, name in ((program,), "alone"), ((LIBRARY_RUN, "digits.hyb"), "library"):
            written = ("-o", f"{name}.npy", "--save", f"{name}.hyb")
            printed(*command, *given, *written, cwd=folder, HYBRID_ISA=isa)
        for suffix in ("npy", "hyb"):
            found, expected = (folder / f"{name}.{suffix}" for name in ("alone", "library"))
            assert found.read_bytes() == expected.read_bytes(), (isa, suffix)
    weights = sum(
        cell.nbytes for cell in set(hy.load_exported(folder / "digits.hyb").state.values())
    )
    assert program.stat().st_size - weights < 1_050_000
    assert "not a dynamic executable" in subprocess.run(
        ["ldd", program], capture_output=True, text=True, check=False
    ).stderr or not shutil.which("ldd")
    assert printed(program, "--list", cwd=folder).splitlines()[0].startswith("train_step(x: f32[")
    empty = folder / "empty.c"
    empty.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    printed("cc", "-static", "-s", empty, "-o", folder / "empty", cwd=folder)
    own = program.stat().st_size - (folder / "empty").stat().st_size
    assert own - weights < 400_000  # the rest is the system's C library


def test_just_what_is_used_is_there(folder: Path, tmp_path: Path) -> None:
    write_standalone(folder / "digits.hyb", tmp_path / "alone")
    found = files_of(tmp_path / "alone")
    assert {"program.hyb", "program.c", "Makefile", "include/hybrid.h"} <= found.keys()
    assert found["program.hyb"].read_bytes() == (folder / "digits.hyb").read_bytes()
    for name, path in found.items():  # all others are the library's, but for those that are lists
        if name not in (
            "program.hyb",
            "program.c",
            "Makefile",
            "isa/families.h",
            "isa/dot_families.h",
            "isa/selection.h",
        ):
            assert path.read_bytes() == Path(sources_dir(), name).read_bytes()
    kernels = {name.split("/")[1] for name in found if name.startswith("kernels/")}
    assert {"matmul", "softmax.inc.c", "optimizer.inc.c"} <= kernels
    assert not kernels & {"convolution", "linalg", "attention", "sort.inc.c", "pooling.inc.c"}
    selection = found["isa/selection.h"].read_text(encoding="utf-8")
    assert "#define HYB_USES_adam_HYB_F32 1, 1" in selection and "sgd" not in selection
    assert "#define HYB_HAS_MESSAGES 0\n" in selection

    def tells(x):
        print("the sum is", hy.sum(x))
        return x

    hy.export(tells, tmp_path / "tells.hyb", hy.ones(2))
    write_standalone(tmp_path / "tells.hyb", tmp_path / "tells")
    selection = (tmp_path / "tells/isa/selection.h").read_text(encoding="utf-8")
    assert "#define HYB_HAS_MESSAGES 1\n" in selection


def test_it_is_written_from_a_function_at_once(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import hybrid as hy\n\ndef half(x):\n    return x / 2\n", encoding="utf-8"
    )
    told = printed(
        sys.executable, "-m", "hybrid", "export", "model.py:half", "-i", "f32[3]",
        "--standalone", "alone", cwd=tmp_path,
    )  # fmt: skip
    assert told.splitlines()[-1].endswith("`make -C alone` makes the program.")
    assert list(hy.load_exported(tmp_path / "alone" / "program.hyb")) == ["half"]


def test_folders_and_files_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("", encoding="utf-8")
    with pytest.raises(ProgramError, match="is not empty\nFix: give a folder that is not there"):
        write_standalone(folder / "digits.hyb", tmp_path)
    with pytest.raises(FileExistsError):
        write_standalone(folder / "digits.hyb", tmp_path / "there")
    with pytest.raises(ProgramError, match="does not begin as a program does"):
        write_standalone(folder / "xb.npy", tmp_path / "alone")


@pytest.mark.exhaustive
@pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="needs make and cc")
@pytest.mark.parametrize(
    "family", ["convolution", "attention", "recurrence", "linalg", "sort", "printing"]
)
def test_every_kind_of_model(tmp_path: Path, family: str) -> None:
    """The compiler sees other functions beside a kernel than in the library: the bits stay."""
    draw, lstm = np.random.default_rng(0), hy.nn.LSTM(8, 16)

    def told(x):
        print("the sum is", hy.sum(x))
        return x

    def array(*shape: int) -> hy.Tensor:
        return hy.asarray(draw.standard_normal(shape, np.float32))

    functions = {
        "convolution": (
            hy.nn.Sequential(
                hy.nn.Conv2d(3, 16, 3, padding=1), hy.nn.BatchNorm2d(16), hy.nn.ReLU(),
                hy.nn.MaxPool2d(2), hy.nn.Conv2d(16, 32, 3, stride=2), hy.nn.AvgPool2d(2),
            ),
            array(2, 3, 16, 16),
        ),
        "attention": (hy.nn.TransformerEncoderLayer(32, 4, 64), array(2, 9, 32)),
        "recurrence": (lambda x: lstm(x)[0], array(5, 2, 8)),
        "linalg": (lambda x: hy.linalg.svd(x @ hy.matrix_transpose(x))[1], array(7, 5)),
        "printing": (told, array(3)),
        "sort": (lambda x: hy.cumulative_sum(hy.sort(hy.tanh(x)) ** 1.5, axis=1), array(4, 50)),
    }  # fmt: skip
    function, x = functions[family]
    hy.export({"f": (function, x)}, tmp_path / "m.hyb")
    np.save(tmp_path / "x.npy", x.numpy())
    write_standalone(tmp_path / "m.hyb", tmp_path / "alone")
    printed("make", "-j2", cwd=tmp_path / "alone")
    for isa in native.isas():
        texts = [
            printed(*command, "-i", "x.npy", "-o", f"{name}.npy", cwd=tmp_path, HYBRID_ISA=isa)
            for command, name in (
                ((tmp_path / "alone/program",), "a"),
                ((LIBRARY_RUN, "m.hyb"), "b"),
            )
        ]
        assert texts[0] == texts[1] and bool(texts[0]) == (family == "printing")
        assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes(), isa
