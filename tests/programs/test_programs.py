"""Programs that C runs have the bits of Python, whatever they share and write; and bad input."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.data import DataLoader, TensorDataset
from hybrid.errors import ProgramError
from hybrid.memory import native
from hybrid.programs import export
from hybrid.programs.file_writer import HEADER
from tests.programs.broken import Broken
from tests.programs.digits import Digits, trained
from tests.programs.runner import CProgram, ProgramFailure

DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((16, 64), np.float32)
Y = DRAW.integers(0, 10, 16)


OPTIMIZERS = {
    "adam": lambda p: optim.Adam(p, lr=1e-2),
    "adamw": lambda p: optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_hundred_steps_of_training(tmp_path: Path, name: str, dropout: float) -> None:
    hy.random.seed(7)
    model = Digits(dropout)
    step = trained(model, OPTIMIZERS[name](model.parameters()))
    x, y = hy.asarray(X), hy.asarray(Y)
    path = tmp_path / "digits.hyb"
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    export({"train_step": (step, x, y), "predict": (model, x)}, path)
    assert model.training
    after = model.state_dict()
    assert all((after[name].numpy() == value).all() for name, value in before.items())
    program = CProgram(path)
    hybridized = hy.hybridize(step)
    for _ in range(200):
        [loss] = program("train_step", X, Y)
        assert loss.tobytes() == hybridized(x, y).numpy().tobytes()
    state = program.state()
    for key, value in model.state_dict().items():
        assert state[key].tobytes() == value.numpy().tobytes()
    [found] = program("predict", X)
    model.eval()
    assert found.tobytes() == model(x).numpy().tobytes()


def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    model = Digits()
    for name in ("a", "b"):
        export(model, tmp_path / name, hy.asarray(X))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_program_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    model = Digits()
    step = trained(model, optim.Adam(model.parameters()))
    path, saved = tmp_path / "a.hyb", tmp_path / "b.hyb"
    export({"step": (step, hy.asarray(X), hy.asarray(Y))}, path)
    program = CProgram(path)
    for _ in range(3):
        program("step", X, Y)
    program.save(saved)
    other = CProgram(saved, 1)
    for _ in range(3):
        assert program("step", X, Y)[0].tobytes() == other("step", X, Y)[0].tobytes()
    assert CProgram(path)("step", X, Y)[0] != CProgram(saved)("step", X, Y)[0]
    program.save(path)  # over the file that is mapped
    assert CProgram(path)("step", X, Y)[0].tobytes() == program("step", X, Y)[0].tobytes()


def test_forks_go_their_own_ways(tmp_path: Path) -> None:
    model = Digits()
    step = trained(model, optim.SGD(model.parameters(), lr=0.1))
    export(
        {"step": (step, hy.asarray(X), hy.asarray(Y)), "predict": (model, hy.asarray(X))},
        tmp_path / "m",
    )
    for program in (CProgram(tmp_path / "m"), CProgram.of((tmp_path / "m").read_bytes())):
        program("step", X, Y)
        fork = program.fork()
        [before] = program("predict", X)
        fork("step", X, Y)
        assert program("predict", X)[0].tobytes() == before.tobytes()
        assert fork("predict", X)[0].tobytes() != before.tobytes()
        program("step", X, Y)
        assert program("predict", X)[0].tobytes() == fork("predict", X)[0].tobytes()


def test_what_is_computed_ahead_follows_its_cells(tmp_path: Path) -> None:
    weight = hy.ones((64, 64))

    def product(x):
        return x @ weight

    def double():
        weight.assign(weight * 2)

    x = DRAW.standard_normal((64, 64), np.float32)
    export({"product": (product, hy.asarray(x)), "double": (double,)}, tmp_path / "m")
    program = CProgram(tmp_path / "m")
    assert program("product", x)[0].tobytes() == product(hy.asarray(x)).numpy().tobytes()
    program("double")
    double()
    assert program("product", x)[0].tobytes() == product(hy.asarray(x)).numpy().tobytes()
    [(name, cell)] = program.state().items()
    assert name == "weight"
    cell[:] = 3
    program.touch(name)
    assert (
        program("product", x)[0].tobytes()
        == (hy.asarray(x) @ hy.full((64, 64), 3.0)).numpy().tobytes()
    )


class Counter:
    """State that is no module's."""

    def __init__(self) -> None:
        self.total = hy.zeros(3)


def test_results_of_every_kind(tmp_path: Path) -> None:
    state = Counter()
    fixed = hy.asarray([1.0, 2.0, 3.0])

    def mixed(x):
        y = x * 2
        state.total = state.total + y
        return {"same": x, "double": y, "again": y, "total": state.total, "fixed": fixed, "one": 1}

    x = np.asarray([0.5, 1.5, -2.0], np.float32)
    export({"mixed": (mixed, hy.asarray(x))}, tmp_path / "m")
    program = CProgram(tmp_path / "m")
    for _ in range(3):
        expected = mixed(hy.asarray(x))
        found = program("mixed", x)
        wanted = [value for value in expected.values() if isinstance(value, hy.Tensor)]
        assert [a.tobytes() for a in found] == [t.numpy().tobytes() for t in wanted]


def test_one_value_is_written_to_two_places(tmp_path: Path) -> None:
    pair = [Counter(), Counter()]

    def both(x):
        y = pair[0].total + pair[1].total * x
        pair[0].total = pair[1].total = y
        return y

    x = np.asarray([0.5, 2.0, 3.0], np.float32)
    export({"both": (both, hy.asarray(x))}, tmp_path / "m")
    program, loaded = CProgram(tmp_path / "m"), hy.load_exported(tmp_path / "m")
    for cell in (*program.state().values(),):
        cell[:] = 1
    for cell in loaded.state.values():
        cell.assign(hy.ones(3))
    pair[0].total, pair[1].total = hy.ones(3), hy.ones(3)
    for _ in range(3):
        expected = both(hy.asarray(x)).numpy().tobytes()
        assert program("both", x)[0].tobytes() == expected
        assert loaded["both"](hy.asarray(x)).numpy().tobytes() == expected
    assert [cell.tobytes() for cell in program.state().values()] == [expected] * 2


def test_one_function_writes_what_another_reads(tmp_path: Path) -> None:
    state = Counter()

    def keep(x):
        state.total = x * 3

    def ask(x):
        return state.total + x

    x = np.ones(3, np.float32)
    functions = {"keep": (keep, hy.asarray(x)), "ask": (ask, hy.asarray(x))}
    hy.export(functions, tmp_path / "m")
    program, loaded = CProgram(tmp_path / "m"), hy.load_exported(tmp_path / "m")
    assert program("ask", x)[0].tolist() == [1, 1, 1]
    program("keep", x)
    loaded["keep"](hy.asarray(x))
    assert program("ask", x)[0].tolist() == loaded["ask"](hy.asarray(x)).tolist() == [4, 4, 4]


def test_linear_algebra(tmp_path: Path) -> None:
    def solved(x):
        a = x @ x.mT + hy.eye(8)
        return (
            hy.linalg.solve(a, x),
            hy.linalg.eigh(a)[0],
            hy.linalg.cholesky(a),
            hy.linalg.svd(x)[1],
        )

    x = DRAW.standard_normal((8, 8), np.float32)
    hy.export({"solved": (solved, hy.asarray(x))}, tmp_path / "m")
    expected = [t.numpy().tobytes() for t in solved(hy.asarray(x))]
    assert [a.tobytes() for a in CProgram(tmp_path / "m")("solved", x)] == expected


def test_inputs_with_strides(tmp_path: Path) -> None:
    export({"f": (lambda x: hy.exp(x) + 1, hy.zeros((4, 6)))}, tmp_path / "m")
    program = CProgram(tmp_path / "m")
    wide = DRAW.standard_normal((12, 8)).astype(np.float32)
    for x in (
        wide[::3, 1:7],
        wide.T[1:5, ::2],
        wide[3::-1, 5::-1],
        np.broadcast_to(wide[0, :6], (4, 6)),
    ):
        [found] = program("f", x)
        assert found.tobytes() == (hy.exp(hy.asarray(x.copy())) + 1).numpy().tobytes()


def test_many_threads(tmp_path: Path) -> None:
    model = Digits()
    step = trained(model, optim.SGD(model.parameters(), lr=0.0))
    export(
        {"predict": (model, hy.asarray(X)), "step": (step, hy.asarray(X), hy.asarray(Y))},
        tmp_path / "m",
    )
    program = CProgram(tmp_path / "m")
    expected, failures = program("predict", X)[0].tobytes(), []

    def run(which: int) -> None:
        for i in range(200):
            if which == 0 and i % 10 == 0:
                program("step", X, Y)
            elif program("predict", X)[0].tobytes() != expected:
                failures.append(i)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Bad input ----------------------------------------------------------------------------------------


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    export({"predict": (Digits(), hy.asarray(X))}, tmp_path / "m")
    program = CProgram(tmp_path / "m")
    with pytest.raises(
        ProgramFailure, match=r"^predict: input x is f32\[16,65\], not f32\[16,64\]$"
    ):
        program("predict", np.zeros((16, 65), np.float32))
    with pytest.raises(
        ProgramFailure, match=r"^predict: input x is f64\[16,64\], not f32\[16,64\]$"
    ):
        program("predict", X.astype(np.float64))
    with pytest.raises(ProgramFailure, match=r"^there is no function evaluate$"):
        program("evaluate", X)


def test_a_run_that_fails_leaves_the_cells_as_they_were(tmp_path: Path) -> None:
    table, seen = hy.arange(5), hy.zeros((), dtype=hy.int64)

    def look(i):
        seen.assign(seen + 1)
        return hy.take(table, i, axis=0)

    i = np.asarray([0, 4])
    export({"look": (look, hy.asarray(i))}, tmp_path / "m")
    program = CProgram(tmp_path / "m")
    program("look", i)
    before = {name: value.copy() for name, value in program.state().items()}
    with pytest.raises(ProgramFailure, match=r"^look: .*index 5.* \(test_programs.py:\d+\)$"):
        program("look", np.asarray([0, 5]))
    assert all((program.state()[name] == value).all() for name, value in before.items())
    program("look", i)


def calls(x):
    return hy.py_call(lambda array: array, x, result=x.type)


BATCHES = DataLoader(TensorDataset(hy.ones((12, 64))), batch_size=4)


def epoch(x):
    for (rows,) in BATCHES:
        x = x + hy.sum(rows, axis=0)
    return x


def writes(x):
    x += 1
    return x


def shows(x):
    return f"{hy.sum(x)}"


def positive(x):
    return x[x > 0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            epoch,
            "epoch cannot be exported: it goes over a loader "
            rf"\(.*test_programs.py:{epoch.__code__.co_firstlineno + 1}\)",
        ),
        (calls, "calls cannot be exported: it calls Python while it runs"),
        (writes, "writes cannot be exported: it writes to its argument x"),
        (shows, "shows cannot be exported: it returns a text that a run makes"),
        (
            positive,
            "positive cannot be exported: the size of a tensor depends on values "
            rf"\(.*test_programs.py:{positive.__code__.co_firstlineno + 1}\)",
        ),
        (lambda x: x[: hy.argmax(x)], "the size of a tensor depends on values"),
    ],
)
def test_what_a_file_cannot_hold(tmp_path: Path, function: Any, text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        export(function, tmp_path / "m", hy.ones(64))
    assert not list(tmp_path.iterdir())


def test_names_of_functions(tmp_path: Path) -> None:
    for functions, text in (
        ({}, "no function to export"),
        ({"a\nb": (calls, X)}, "no name of a function"),
    ):
        with pytest.raises(ProgramError, match=text):
            export(functions, tmp_path / "m")


def test_nothing_is_computed_ahead_before_a_function_runs(tmp_path: Path) -> None:
    """So that a large file is there at once, and takes no memory."""
    model, x = nn.Linear(512, 512), hy.ones((8, 512))
    hy.export({"predict": (model, x)}, tmp_path / "m")
    nbytes, before = model.weight.type.nbytes, native.memory()["live_bytes"]
    program = CProgram(tmp_path / "m")
    assert native.memory()["live_bytes"] - before < nbytes / 8
    [found] = program("predict", x.numpy())
    assert native.memory()["live_bytes"] - before >= nbytes
    assert found.tobytes() == hy.hybridize(model)(x).numpy().tobytes()


def test_threads_save_to_one_path(tmp_path: Path) -> None:
    """Each writes a file of its own beside it: whichever is last is there, whole."""
    path, saved = tmp_path / "m", tmp_path / "n"
    export(Digits(), path, hy.asarray(X))
    before, program = path.read_bytes(), CProgram(path)
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda _: program.save(saved), range(60))] == [None] * 60
    assert saved.read_bytes() == before == path.read_bytes()
    assert {*tmp_path.iterdir()} == {path, saved}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        export(hy.exp, tmp_path / "gone" / "m", hy.ones(3))


def test_sizes_whose_sums_would_wrap(tmp_path: Path) -> None:
    hy.export(hy.exp, tmp_path / "m", hy.ones((7, 11)))
    broken = Broken((tmp_path / "m").read_bytes())
    at, _ = broken.section("dims")
    for size in (-1, 2**45, 2**62):
        broken.content[at : at + 8] = size.to_bytes(8, "little", signed=True)
        with pytest.raises(ProgramFailure, match=f"type 0: size {size} of axis 0"):
            CProgram.of(bytes(broken.content), 2)


def test_a_file_that_changes_while_it_is_mapped(tmp_path: Path) -> None:
    """What was checked has been copied."""
    model, path = Digits(), tmp_path / "m"
    hy.export(model, path, hy.asarray(X))
    program = CProgram(path)
    [expected] = program("predict", X)
    with open(path, "r+b") as file:  # all but what cells hold
        file.write(b"\xff" * 512)
    assert program("predict", X)[0].tobytes() == expected.tobytes()
    program.save(tmp_path / "n")
    assert CProgram(tmp_path / "n", 1)("predict", X)[0].tobytes() == expected.tobytes()


def training() -> dict[str, Any]:
    model = Digits()
    step = trained(model, optim.Adam(model.parameters()))
    return {"step": (step, hy.asarray(X), hy.asarray(Y))}


def messages() -> dict[str, Any]:
    """A function that prints and raises."""

    def step(x, y):
        seen = 0
        for row in x:
            if hy.sum(row) > 0.0:
                seen += 1
                print(f"row {seen:4d}: {hy.sum(row).item():.3f}", hy.sum(row))
        assert seen < 100, f"{seen} rows"
        if hy.max(y) > 9:
            raise ValueError("%d of {%5.1f}" % (hy.max(y).item(), hy.max(x)))  # noqa: UP031
        return x * (10 // hy.sum(y).item())

    return {"step": (step, hy.asarray(X), hy.asarray(Y))}


@pytest.mark.parametrize("functions", [training, messages])
def test_every_byte_that_is_cut_off(tmp_path: Path, functions: Any) -> None:
    export(functions(), tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    for n in range(0, len(content), 64):
        with pytest.raises(ProgramFailure, match=r"\w"):
            CProgram.of(content[:n], 2)


@pytest.mark.parametrize("functions", [training, messages])
def test_bits_that_are_flipped(tmp_path: Path, functions: Any) -> None:
    export(functions(), tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    whole = Broken(content)
    inner = HEADER.itemsize + whole.table.nbytes
    spans = [(row["offset"], row["offset"] + row["nbytes"]) for row in whole.table]
    end, _ = whole.section("constants")
    for at in DRAW.integers(0, 8 * end, 500):
        broken = bytearray(content)
        broken[at // 8] ^= 1 << at % 8
        if at // 8 >= inner or at // 8 < 40:
            inside = any(a <= at // 8 < b for a, b in spans) or at // 8 < 40
            if inside:
                with pytest.raises(ProgramFailure, match=r"\w"):
                    CProgram.of(bytes(broken))
        try:  # without hashes it may well be another program
            program = CProgram.of(bytes(broken), 2)
            program("step", X, Y)
        except ProgramFailure as failure:
            assert str(failure)
