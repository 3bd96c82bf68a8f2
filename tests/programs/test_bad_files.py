"""Files of programs that are damaged, or of another kind: an error with a text, and no more."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.errors import ProgramError, ShapeError
from hybrid.memory import native
from hybrid.programs.file_writer import HEADER, KINDS, SECTION
from tests.programs.broken import Broken
from tests.programs.digits import Digits, trained
from tests.programs.runner import CProgram, ProgramFailure

DRAW = np.random.default_rng(8)
X, Y = DRAW.standard_normal((40, 64), np.float32), DRAW.integers(0, 10, 40)
SIZES = 1, 3, 16, 40
NO_CHECKSUM = 2


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A program with open axes, formulas, literals, and plans that run ahead."""
    model = Digits()
    step = trained(model, optim.Adam(model.parameters()))

    def positions(x):
        return x * x.shape[0] + hy.arange(x.shape[0])[:, None]

    path = tmp_path_factory.mktemp("bad") / "m"
    functions = {
        "step": (step, hy.asarray(X[:16]), hy.asarray(Y[:16])),
        "predict": (model, hy.asarray(X[:16])),
        "positions": (positions, hy.asarray(X[:16])),
    }
    batch = {0: hy.Dim("batch", 1, 64)}
    hy.export(functions, path, dynamic={"x": batch, "y": batch})
    return path.read_bytes()


def run_all(program: CProgram, sizes: Sequence[int] = SIZES) -> None:
    """Run all functions at several sizes; raises ProgramFailure."""
    failure = None
    for n in sizes:
        for name, inputs in (
            ("predict", [X[:n]]),
            ("positions", [X[:n]]),
            ("step", [X[:n], Y[:n]]),
        ):
            try:
                program(name, *inputs)
            except ProgramFailure as found:
                assert str(found)
                failure = found
    if failure is not None:
        raise failure


# What a file is -----------------------------------------------------------------------------------


def test_a_newer_version(content: bytes, tmp_path: Path) -> None:
    broken = Broken(content)
    broken.content[8] = 2
    (tmp_path / "m").write_bytes(broken.repaired())
    text = r"it has version 2\.0, and this library reads 1\.x"
    with pytest.raises(ProgramFailure, match=text):
        CProgram(tmp_path / "m")
    with pytest.raises(ProgramError, match=text):
        hy.load_exported(tmp_path / "m")


def test_a_newer_minor_version(content: bytes) -> None:
    broken = Broken(content)
    broken.content[12] = 9
    run_all(CProgram.of(broken.repaired()))


def test_another_byte_order(content: bytes, tmp_path: Path) -> None:
    """The version is looked at first: what turns it round is said to."""
    broken = Broken(content)
    broken.content[8:12] = broken.content[8:12][::-1]
    (tmp_path / "m").write_bytes(broken.content)
    text = r"it has version 16777216\.0, and this library reads 1\.x"
    with pytest.raises(ProgramFailure, match=text):
        CProgram(tmp_path / "m")
    with pytest.raises(ProgramError, match=text):
        hy.load_exported(tmp_path / "m")


def test_sections_that_are_not_known(content: bytes) -> None:
    for kind in (0, 77):
        broken = Broken(content)
        [at] = np.flatnonzero(broken.table["kind"] == KINDS["notes"])
        start = HEADER.itemsize + int(at) * SECTION.itemsize
        broken.content[start : start + 4] = kind.to_bytes(4, "little")
        run_all(CProgram.of(broken.repaired()))


def test_a_section_that_is_needed_and_not_known(content: bytes) -> None:
    broken = Broken(content)
    [at] = np.flatnonzero(broken.table["kind"] == KINDS["notes"])
    start = HEADER.itemsize + int(at) * SECTION.itemsize
    broken.content[start : start + 8] = bytes([77, 0, 0, 0, 1, 0, 0, 0])
    with pytest.raises(ProgramFailure, match="needs a section of kind 77, which this library"):
        CProgram.of(broken.repaired())


def test_a_kernel_that_this_library_does_not_have(content: bytes, tmp_path: Path) -> None:
    """C refuses it by its name; Python lowers the graph for itself."""
    broken = Broken(content)
    at = broken.section("strings")[0] + int(broken.rows("kernels")[0]["name"]["offset"])
    broken.content[at] = ord("Z")
    (tmp_path / "m").write_bytes(broken.repaired())
    text = r"it needs the kernel Z\w+ of \w+, which this library does not have"
    with pytest.raises(ProgramFailure, match=text):
        CProgram(tmp_path / "m")
    loaded, whole = hy.load_exported(tmp_path / "m"), CProgram.of(content)
    for n in SIZES:
        given = hy.asarray(X[:n]), hy.asarray(Y[:n])
        assert loaded["predict"](given[0]).numpy().tobytes() == whole("predict", X[:n])[0].tobytes()
        assert loaded["step"](*given).numpy().tobytes() == whole("step", X[:n], Y[:n])[0].tobytes()
    (tmp_path / "m").write_bytes(broken.repaired()[:-64])
    with pytest.raises(ProgramError, match="it is cut off"):
        hy.load_exported(tmp_path / "m")


def test_a_cell_of_another_type(content: bytes) -> None:
    broken = Broken(content)
    cells, types = broken.rows("cells"), broken.rows("types")
    other = next(
        i for i, row in enumerate(types)
        if row["rank"] == 1 and i != cells[0]["type"] and broken.rows("dims")[row["first_dim"]] > 0
    )  # fmt: skip
    cells[0]["type"] = other
    with pytest.raises(ProgramFailure, match=r"cell 0: its name, type or \d+ bytes are not there"):
        CProgram.of(broken.repaired())
    dtype = types[cells[1]["type"]]
    dtype["dtype"] = 4 if dtype["dtype"] != 4 else 11
    with pytest.raises(ProgramFailure, match=r"cell \d+: its name, type or|type \d+: dtype"):
        CProgram.of(broken.repaired())


# Open axes ----------------------------------------------------------------------------------------


def of_formulas(rows: np.ndarray) -> None:
    rows["a"] = 10**6


def of_operations(rows: np.ndarray) -> None:
    rows["op"] = 99


def of_words(rows: np.ndarray) -> None:
    rows["word"] = 2**30


def of_numbers(rows: np.ndarray) -> None:
    rows["number"] = 2**20


def of_fills(rows: np.ndarray) -> None:
    rows["given"] = -1


@pytest.mark.parametrize(
    ("section", "change", "text"),
    [
        ("words", of_words, r"predict: word 0: word 1073741824 of part \d, number"),
        ("words", of_numbers, r"predict: word 0: word \d+ of part \d, number 1048576"),
        ("arenas", of_numbers, r"predict: place 0: number 1048576 of"),
    ],
)
def test_what_depends_on_sizes(content: bytes, section: str, change: Any, text: str) -> None:
    broken = Broken(content)
    change(broken.rows(section))
    program = CProgram.of(broken.repaired())
    with pytest.raises(ProgramFailure, match=text):
        program("predict", X[:16])


def test_ranges_that_are_none(content: bytes) -> None:
    for low, high in ((-1, 5), (6, 5), (1, 2**31)):
        broken = Broken(content)
        [*rows] = broken.rows("symbols")
        rows[0]["low"], rows[0]["high"] = low, high
        with pytest.raises(ProgramFailure, match="no input, name or range has symbol 0"):
            CProgram.of(broken.repaired())


@pytest.mark.parametrize("change", [of_formulas, of_operations])
def test_formulas_of_what_is_not_there(content: bytes, tmp_path: Path, change: Any) -> None:
    broken = Broken(content)
    change(broken.rows("formulas"))
    text = "function step: no graph or no conditions of case 0"
    with pytest.raises(ProgramFailure, match=text):
        CProgram.of(broken.repaired())
    (tmp_path / "m").write_bytes(broken.repaired())
    with pytest.raises(ProgramError, match=text):
        hy.load_exported(tmp_path / "m")


def test_literals_that_cannot_be_made(content: bytes) -> None:
    broken = Broken(content)
    of_fills(broken.rows("fills"))
    with pytest.raises(ProgramFailure, match="positions: literal 0 cannot be made"):
        CProgram.of(broken.repaired())("positions", X[:16])


def test_a_range_that_no_processor_can_divide(content: bytes) -> None:
    broken = Broken(content)
    [plan] = [row for row in broken.rows("plans") if row["n_fills"]]
    fills = broken.rows("fills")[plan["first_fill"] :][: plan["n_fills"]]
    [fill] = [row for row in fills if row["kind"] == 2]
    start, _, step = (int(number) for number in fill["given"][:3])
    rows = broken.rows("formulas")[plan["first_formula"] :]  # number 0 is the batch
    rows[step - 1]["b"] = -1
    rows[start - 2]["op"], rows[start - 2]["b"] = 0, -(2**63)
    fill["given"][1] = start - 1
    with pytest.raises(ProgramFailure, match="positions: literal 0 cannot be made"):
        CProgram.of(broken.repaired())("positions", X[:16])


def test_literals_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m"
    square = {0: hy.Dim("n", 1), 1: hy.Dim("n", 1)}
    hy.export({"f": (lambda x: x + hy.eye(x.shape[0]), hy.ones((5, 5)))}, path, dynamic={0: square})
    monkeypatch.setenv("HYBRID_PROGRAM_MAX_BYTES", "30000")
    program = CProgram(path)
    [found] = program("f", np.ones((50, 50), np.float32))
    np.testing.assert_array_equal(found, 1 + np.eye(50, dtype=np.float32))
    text = (
        "f: its literals take 40000 bytes at these sizes: "
        "more than the 30000 that HYBRID_PROGRAM_MAX_BYTES allows"
    )
    with pytest.raises(ProgramFailure, match=text):
        program("f", np.ones((100, 100), np.float32))


def open_output(broken: Broken) -> None:
    closed = broken.rows("functions")[0]
    case = broken.rows("cases")[closed["first_case"]]
    output = broken.rows("values")[case["first_output"]]
    broken.rows("dims")[broken.rows("types")[output["type"]]["first_dim"]] = -1
    plan = broken.rows("plans")[case["plan"]]
    plan["first_formula"], plan["n_formulas"] = 0, 1


def second_case(broken: Broken) -> None:
    broken.rows("functions")[0]["n_cases"] = 2


def condition(broken: Broken) -> None:
    broken.rows("cases")[broken.rows("functions")[0]["first_case"]]["n_formulas"] = 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (open_output, "without open axes, an open one has output 0"),
        (second_case, "no open axis tells its cases apart, but there are 2"),
        (condition, "without open axes, there are conditions: 1"),
    ],
)
def test_what_open_axes_alone_have(tmp_path: Path, change: Any, text: str) -> None:
    """Callers make room for outputs by what is declared: nothing else may come out."""
    path = tmp_path / "m"
    closed = lambda x: hy.sum(x, axis=0), hy.ones((3, 4))
    hy.export({"f": closed, "g": (lambda y: y * 2, hy.ones((5, 6)))}, path,
              dynamic={"y": {0: hy.Dim("n", 1)}})  # fmt: skip
    broken = Broken(path.read_bytes())
    change(broken)
    with pytest.raises(ProgramFailure, match=f"function f: {text}"):
        CProgram.of(broken.repaired())


def test_formulas_that_give_nonsense(content: bytes) -> None:
    """Whatever numbers they give, a plan that does not stay within its bytes is refused."""
    for value in (-1, 0, 2**31, 2**62, -(2**63)):
        broken = Broken(content)
        rows = broken.rows("formulas")
        cases = broken.rows("cases")
        conditions = {
            i for case in cases for i in range(case["first_formula"],
                                               case["first_formula"] + case["n_formulas"])
        }  # fmt: skip
        for i, row in enumerate(rows):
            if i not in conditions and row["op"] == 0:
                row["b"] = value
        program = CProgram.of(broken.repaired())
        with pytest.raises(ProgramFailure, match=r"\w"):
            run_all(program)


def test_no_plan_of_a_size_that_would_wrap(tmp_path: Path) -> None:
    path = tmp_path / "m"
    table = {0: {0: hy.Dim("n", 1), 1: hy.Dim("m", 1)}}
    hy.export({"f": (lambda x: hy.sum(x * 2), hy.ones((3, 4)))}, path, dynamic=table)
    program = CProgram(path)
    ffi, lib = native.ffi, native.lib
    layout, output = ffi.new("hyb_layout *"), ffi.new("hyb_layout *")
    layout.dtype, layout.rank = 11, 2
    layout.shape[0:2] = layout.shape[0:2] = [2**31 - 1, 2**31 - 1]
    assert lib.hyb_program_output_layout(program.handle, 0, 0, layout, output) != 0
    text = ffi.string(lib.hyb_last_error()).decode()
    assert text == "f: a number of it does not fit into 64 bits"


# Damage -------------------------------------------------------------------------------------------


def test_every_64_bytes_that_are_cut_off(content: bytes, tmp_path: Path) -> None:
    for n in range(0, len(content), 64):
        with pytest.raises(ProgramFailure, match=r"\w"):
            CProgram.of(content[:n], NO_CHECKSUM)


def flip(content: bytes, draw: np.random.Generator, count: int) -> None:
    """Flip single bits of all but constants and data: hashes find them; without, nothing breaks."""
    broken = Broken(content)
    end = broken.section("constants")[0]
    spans = [(int(row["offset"]), int(row["nbytes"])) for row in broken.table]
    for at in draw.integers(0, 8 * end, count):
        damaged = bytearray(content)
        damaged[at // 8] ^= 1 << at % 8
        counts = any(start <= at // 8 < start + n for start, n in spans)
        counts |= at // 8 < HEADER.itemsize - 24
        if counts:
            with pytest.raises(ProgramFailure, match=r"\w"):
                CProgram.of(bytes(damaged))
        try:  # it may well be another program
            run_all(CProgram.of(bytes(damaged), NO_CHECKSUM), (1, 20))
        except ProgramFailure as failure:
            assert str(failure)


def test_bits_that_are_flipped(content: bytes) -> None:
    flip(content, DRAW, 500)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_bits_that_are_flipped_nightly(content: bytes, seed: int) -> None:
    flip(content, np.random.default_rng(seed), 500)


def test_bits_that_are_flipped_and_read_in_python(content: bytes, tmp_path: Path) -> None:
    """Python goes by graphs and tables: what it refuses, it refuses by an error of its own."""
    broken = Broken(content)
    end = broken.section("constants")[0]
    for at in DRAW.integers(HEADER.itemsize, end, 25):
        damaged = Broken(content)
        damaged.content[at] ^= 1 << int(DRAW.integers(8))
        (tmp_path / "m").write_bytes(damaged.repaired())
        try:
            hy.load_exported(tmp_path / "m").about()
        except (ProgramError, ShapeError) as error:
            assert str(error)


# Writing ------------------------------------------------------------------------------------------


@contextmanager
def no_more_than(nbytes: int) -> Iterator[None]:
    """Files cannot grow beyond this, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    program, loaded = CProgram(path), hy.load_exported(path)
    with no_more_than(4096):
        with pytest.raises(ProgramFailure, match=rf"{path}: File too large"):
            program.save(path)
        with pytest.raises(OSError, match="File too large") as raised:
            loaded.save(path)
        assert raised.value.errno == errno.EFBIG
        with pytest.raises(OSError, match="File too large"):
            hy.export(Digits(), path, hy.asarray(X[:4]))
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_folder_that_cannot_be_written(content: bytes, tmp_path: Path) -> None:
    """What is in the place of the folder is a file, which stops root, too."""
    path = tmp_path / "m"
    path.write_bytes(content)
    program, loaded = CProgram(path), hy.load_exported(path)
    with pytest.raises(ProgramFailure, match=rf"{path / 'n'}: Not a directory"):
        program.save(path / "n")
    with pytest.raises(OSError, match=str(path)):
        loaded.save(path / "n")
    with pytest.raises(OSError, match=str(path)):
        hy.export(Digits(), path / "n", hy.asarray(X[:4]))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    (folder / "m").write_bytes(content)
    folder.chmod(0o500)
    program, loaded = CProgram(folder / "m"), hy.load_exported(folder / "m")
    with pytest.raises(ProgramFailure, match="Permission denied"):
        program.save(folder / "m")
    with pytest.raises(PermissionError):
        loaded.save(folder / "m")
    assert (folder / "m").read_bytes() == content


def test_a_file_that_changes_under_the_mapping(content: bytes, tmp_path: Path) -> None:
    """Plans of sizes that are bound later come from what was checked, too."""
    path = tmp_path / "m"
    path.write_bytes(content)
    program = CProgram(path)
    start = Broken(content).section("constants")[0]
    with open(path, "r+b") as file:
        file.write(b"\xff" * start)
    expected = CProgram.of(content)
    for n in SIZES:
        for name in ("predict", "positions"):
            assert program(name, X[:n])[0].tobytes() == expected(name, X[:n])[0].tobytes()


PROGRAM = """
import sys
import hybrid as hy
from hybrid import nn, optim

hy.random.seed(0)
model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1), nn.Tanh())
optimizer = optim.Adam(model.parameters())

def step(x):
    optimizer.zero_grad()
    loss = hy.sum(model(x) ** 2)
    loss.backward()
    optimizer.step()
    return loss

functions = {"step": (step, hy.zeros((6, 4))), "predict": (model, hy.zeros((6, 4)))}
hy.export(functions, sys.argv[1], dynamic={0: {0: hy.Dim("batch", 1, 9)}})
"""


def test_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, f"{seed}.hyb"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=tmp_path,
        )
        for seed in (1, 2)
    ]
    assert [process.wait() for process in running] == [0, 0]
    assert (tmp_path / "1.hyb").read_bytes() == (tmp_path / "2.hyb").read_bytes()


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("abcdef", "no name, or no trees, of function"),
        ("ghijkl", "no name or type of value"),
        ("mnopqr", "no input, name or range has symbol"),
        ("stuvwx", "cell 0: its name, type"),
    ],
)
@pytest.mark.parametrize("name", [b"a\x1b[31m", b"ab\xc2\x9bcd", b"abc\xffde", b"\nabcde"])
def test_names_that_do_not_print(tmp_path: Path, word: str, what: str, name: bytes) -> None:
    """What they tell a terminal is nothing that a file should say."""

    class Owner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("stuvwx", hy.ones(3))

        def forward(self, ghijkl: Any) -> Any:
            return ghijkl * self.stuvwx

    x = hy.ones((2, 3))
    path, dynamic = tmp_path / "m.hyb", {0: {0: hy.Dim("mnopqr", 1, 9)}}
    hy.export({"abcdef": (Owner(), x)}, path, dynamic=dynamic)
    broken = Broken(path.read_bytes())
    start, nbytes = broken.section("strings")
    strings = slice(start, start + nbytes)
    broken.content[strings] = broken.content[strings].replace(word.encode(), name)
    path.write_bytes(broken.repaired())
    with pytest.raises(ProgramFailure, match=what):
        CProgram(path)
    with pytest.raises(ProgramError, match=what):
        hy.load_exported(path)


def test_names_that_would_not_print_are_not_written(tmp_path: Path) -> None:
    for name in ("a\x1b", "a\x85", "\ud800"):
        model = nn.ModuleDict({name: nn.Linear(3, 3)})
        with pytest.raises(ProgramError, match="has characters that do not print"):
            hy.export(lambda x, model=model, name=name: model[name](x), tmp_path / "m", hy.ones(3))
    assert not [*tmp_path.iterdir()]
