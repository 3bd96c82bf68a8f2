"""Programs with open axes: at each size the bits of eager code, in C and in Python."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.core.tree import flatten
from hybrid.errors import ArgumentError, CaptureError, ProgramError, ShapeError
from hybrid.memory import native
from hybrid.models import gpt
from hybrid.models.lenet import LeNet
from hybrid.models.sequence_classifier import SequenceClassifier
from tests.programs.digits import Digits, trained
from tests.programs.runner import CProgram, ProgramFailure

DRAW = np.random.default_rng(5)
BATCH = hy.Dim("batch", 1, 64)


def floats(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape, np.float32)


def bits(value: Any) -> bytes:
    return value.numpy().tobytes()


def require_same(path: Path, name: str, eager: Any, calls: list[tuple[np.ndarray, ...]]) -> None:
    """C and Python have the bits of ``eager`` for these arguments."""
    c, loaded = CProgram(path), hy.load_exported(path)
    for arrays in calls:
        expected = eager(*map(hy.asarray, arrays))
        [found] = c(name, *arrays)
        assert found.shape == expected.shape and found.tobytes() == bits(expected)
        again = loaded[name](*map(hy.asarray, arrays))
        assert again.shape == expected.shape and bits(again) == bits(expected)


# Models -------------------------------------------------------------------------------------------


def test_a_perceptron(tmp_path: Path) -> None:
    model = Digits()
    hy.export(model, tmp_path / "m", hy.zeros((16, 64)), dynamic={"x": {0: BATCH}})
    model.eval()
    sizes = [1, 2, 3, 7, 10, 15, 16, 17, 31, 32, 33, 63, 64]
    require_same(tmp_path / "m", "predict", model, [(floats(n, 64),) for n in sizes])


def test_convolutions(tmp_path: Path) -> None:
    model = LeNet()
    model.eval()
    table = {0: {0: hy.Dim("batch", 1, 8)}}
    hy.export({"f": (model, hy.zeros((4, 1, 32, 32)))}, tmp_path / "m", dynamic=table)
    require_same(tmp_path / "m", "f", model, [(floats(n, 1, 32, 32),) for n in (1, 2, 3, 5, 8)])


def test_tokens_of_an_open_length(tmp_path: Path) -> None:
    model = gpt.GPT(gpt.Config(tokens=11, block=16, width=8, heads=2, depth=1))
    model.eval()
    tokens = DRAW.integers(0, 11, (3, 5))
    table = {0: {0: hy.Dim("batch", 1, 4), 1: hy.Dim("length", 1, 16)}}
    hy.export(model, tmp_path / "m", hy.asarray(tokens), dynamic=table)
    sizes = [(1, 1), (1, 2), (2, 1), (3, 5), (4, 16), (2, 9), (4, 3)]
    calls = [(DRAW.integers(0, 11, shape),) for shape in sizes]
    require_same(tmp_path / "m", "predict", model, calls)


def test_sequences_of_an_open_length(tmp_path: Path) -> None:
    model = SequenceClassifier(nn.LSTM, features=3, hidden=4)
    model.eval()
    table = {0: {0: hy.Dim("batch", 1, 8), 1: hy.Dim("time", 1, 32)}}
    hy.export(model, tmp_path / "m", hy.zeros((4, 6, 3)), dynamic=table)
    calls = [(floats(n, t, 3),) for n, t in ((1, 1), (1, 6), (4, 1), (4, 6), (8, 32), (3, 7))]
    require_same(tmp_path / "m", "predict", model, calls)


def test_steps_of_training_with_a_smaller_last_batch(tmp_path: Path) -> None:
    hy.random.seed(1)
    model = Digits(0.3)
    step = trained(model, optim.Adam(model.parameters(), lr=1e-2))
    x, y = floats(52, 64), DRAW.integers(0, 10, 52)
    hy.export(
        {
            "train_step": (step, hy.asarray(x[:16]), hy.asarray(y[:16])),
            "predict": (model, hy.asarray(x[:16])),
        },
        tmp_path / "m",
        dynamic={"x": {0: BATCH}, "y": {0: BATCH}},
    )
    c, loaded, eager = (
        CProgram(tmp_path / "m"),
        hy.load_exported(tmp_path / "m"),
        hy.hybridize(step),
    )
    for _ in range(3):
        for at in range(0, 52, 16):
            rows, labels = x[at : at + 16], y[at : at + 16]
            given = hy.asarray(rows), hy.asarray(labels)
            expected = bits(eager(*given))
            assert c("train_step", rows, labels)[0].tobytes() == expected
            assert bits(loaded["train_step"](*given)) == expected
    state = c.state()
    for name, value in model.state_dict().items():
        assert state[name].tobytes() == bits(value) == bits(loaded.state[name])
    model.eval()
    for n in (1, 2, 52):
        assert c("predict", x[:n])[0].tobytes() == bits(model(hy.asarray(x[:n])))


# What depends on sizes ----------------------------------------------------------------------------


def test_numbers_that_are_made_of_sizes(tmp_path: Path) -> None:
    import math

    def f(x):
        n = x.shape[0]
        scaled = x * (1 / math.sqrt(n)) + n / 2 + math.log(n) * (n // 3) - n % 5 + n**2
        if n / 2 > 6.25:
            scaled = scaled * 2
        return scaled + abs(3 - n) + round(n / 3) + math.floor(n * 0.7) + (n << 1) + (n & 6)

    hy.export({"f": (f, hy.zeros(20))}, tmp_path / "m", dynamic={"x": {0: hy.Dim("n", 1, 40)}})
    require_same(tmp_path / "m", "f", f, [(floats(n),) for n in range(1, 41)])


def test_literals_that_are_made_of_sizes(tmp_path: Path) -> None:
    def f(x):
        n, m = x.shape
        y = hy.where(hy.tril(hy.ones((n, n), dtype=hy.bool)), hy.zeros((n, n)), -1.0) @ x
        y = y + hy.arange(n)[:, None] + hy.arange(0.5, m + 0.5)
        y = y + hy.linspace(0, 1, m) + (hy.eye(n, m) if n > 1 else 0)
        return y + hy.arange(n, 0, -1, dtype=hy.float32)[:, None] * hy.full((n, m), n * 2)

    table = {0: {0: hy.Dim("n", 1, 9), 1: hy.Dim("m", 2, 6)}}
    hy.export({"f": (f, hy.zeros((4, 5)))}, tmp_path / "m", dynamic=table)
    sizes = [(1, 2), (2, 2), (9, 6), (4, 5), (5, 5), (3, 6)]
    require_same(tmp_path / "m", "f", f, [(floats(*shape),) for shape in sizes])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint16", "float64"])
def test_literals_of_every_dtype(tmp_path: Path, dtype: str) -> None:
    kind = getattr(hy, dtype)

    def f(x):
        n = x.shape[0]
        y = hy.arange(n * 100, dtype=kind).reshape((n, 100))[:, 0] + hy.full((n,), n, dtype=kind)
        y = y + hy.linspace(-1, 3, n, dtype=hy.float32).astype(kind) * hy.eye(n, dtype=kind)[0]
        return y.astype(hy.float64)

    hy.export({"f": (f, hy.zeros(4))}, tmp_path / "m", dynamic={0: {0: hy.Dim("n", 2, 120)}})
    program = CProgram(tmp_path / "m")
    for n in (2, 3, 19, 99, 120):
        expected = f(hy.zeros(n))
        assert program("f", np.zeros(n, np.float32))[0].tobytes() == bits(expected)


def test_loops_over_an_open_axis(tmp_path: Path) -> None:
    def f(x):
        total = hy.zeros(3)
        for i in range(x.shape[0]):
            total = hy.tanh(total + x[i])
        return total

    table = {0: {0: hy.Dim("n", 0, 20)}}
    hy.export({"f": (f, hy.zeros((7, 3)))}, tmp_path / "m", dynamic=table)
    require_same(tmp_path / "m", "f", f, [(floats(n, 3),) for n in (0, 1, 2, 3, 7, 20)])


def test_an_axis_without_an_end(tmp_path: Path) -> None:
    model = Digits()
    model.eval()
    hy.export(model, tmp_path / "m", hy.zeros((16, 64)), dynamic={"x": {0: True}})
    require_same(tmp_path / "m", "predict", model, [(floats(n, 64),) for n in (1, 2, 500, 3000)])
    [symbol] = hy.load_exported(tmp_path / "m")["predict"].sizes
    assert symbol == ("x_0", 1, 2**31 - 1)


def test_masks_of_an_open_length_without_an_end(tmp_path: Path) -> None:
    """They are made at small sizes when it is exported, and at those of calls when it runs."""

    def f(x):
        n = x.shape[0]
        return hy.tril(hy.ones((n, n))) @ x + hy.arange(n)[:, None]

    hy.export({"f": (f, hy.zeros((7, 2)))}, tmp_path / "m", dynamic={"x": {0: True}})
    require_same(tmp_path / "m", "f", f, [(floats(n, 2),) for n in (1, 2, 7, 300)])
    c, x = CProgram(tmp_path / "m"), floats(5000, 2)
    assert c("f", x)[0].tobytes() == bits(f(hy.asarray(x)))


def test_weights_that_are_prepared(tmp_path: Path) -> None:
    """They follow their cells, at whatever size they are used next."""
    weight = hy.asarray(floats(64, 64))

    def product(x):
        return x @ weight

    def double():
        weight.assign(weight * 2)

    functions = {"product": (product, hy.zeros((64, 64))), "double": (double,)}
    hy.export(functions, tmp_path / "m", dynamic={"product": {0: {0: hy.Dim("n", 1, 256)}}})
    c = CProgram(tmp_path / "m")
    for n in (64, 1, 3, 256, 64, 2):
        x = floats(n, 64)
        assert c("product", x)[0].tobytes() == bits(product(hy.asarray(x)))
        c("double")
        double()


def test_more_sizes_than_are_kept(tmp_path: Path) -> None:
    model = Digits()
    hy.export(model, tmp_path / "m", hy.zeros((16, 64)), dynamic={"x": {0: BATCH}})
    model.eval()
    rows = floats(64, 64)
    expected = {n: bits(model(hy.asarray(rows[:n]))) for n in range(1, 25)}
    program, failures = CProgram(tmp_path / "m"), list[int]()

    def run(first: int) -> None:
        for i in range(150):
            n = 1 + (first * 7 + i * 5) % 24
            if program("predict", rows[:n])[0].tobytes() != expected[n]:
                failures.append(n)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    fork = program.fork()
    assert fork("predict", rows[:9])[0].tobytes() == expected[9]


def test_what_is_printed_and_raised(tmp_path: Path, capsys: Any) -> None:
    def f(x):
        total = hy.sum(x).item()
        print(f"{total:.3f}")
        if total > 100:
            raise ValueError(f"{total} is too much")
        return x / total

    hy.export({"f": (f, hy.ones(20))}, tmp_path / "m", dynamic={"x": {0: hy.Dim("n", 1, 60)}})
    c, loaded = CProgram(tmp_path / "m"), hy.load_exported(tmp_path / "m")["f"]
    for n in (1, 2, 7, 40):
        x = floats(n) + 2
        expected = bits(f(hy.asarray(x)))
        told = capsys.readouterr().out
        assert c("f", x)[0].tobytes() == expected and capsys.readouterr().out == told
        assert bits(loaded(hy.asarray(x))) == expected and capsys.readouterr().out == told
    large = np.full(50, 3, np.float32)
    with pytest.raises(ProgramFailure, match=r"f: ValueError: 150\.0 is too much"):
        c("f", large)
    with pytest.raises(ValueError, match=r"150\.0 is too much"):
        loaded(hy.asarray(large))


# In Python ----------------------------------------------------------------------------------------


def test_a_loaded_function_is_differentiable_at_each_size(tmp_path: Path) -> None:
    model = Digits()
    hy.export(model, tmp_path / "m", hy.zeros((16, 64)), dynamic={"x": {0: BATCH}})
    predict = hy.load_exported(tmp_path / "m")["predict"]
    model.eval()

    def loss(call: Any) -> Any:
        return lambda x: hy.sum(hy.tanh(call(x)) ** 2)

    inside = hy.hybridize(loss(predict))
    for n in (1, 2, 5, 16, 40):
        x = hy.asarray(floats(n, 64))
        assert bits(hy.grad(loss(predict))(x)) == bits(hy.grad(loss(model))(x))
        assert bits(inside(x)) == bits(loss(model)(x))


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    model = Digits()
    hy.export(model, tmp_path / "m", hy.zeros((16, 64)), dynamic={"x": {0: BATCH}})
    program = hy.load_exported(tmp_path / "m")
    assert repr(program["predict"]) == "predict(x: f32[batch,64]) -> f32[batch,10]"
    about = program.about()
    assert about["sizes"] == [{"function": "predict", "size": "batch", "from": 1, "to": 64}]
    told = [row["sizes"] for row in about["plans"]]
    assert "batch 1" in told and any(text.startswith("batch 16 to 64") for text in told)


# Bad input ----------------------------------------------------------------------------------------


def test_sizes_that_do_not_fit(tmp_path: Path) -> None:
    model = Digits()
    step = trained(model, optim.SGD(model.parameters(), lr=0.1))
    functions = {
        "predict": (model, hy.zeros((16, 64))),
        "step": (step, hy.zeros((16, 64)), hy.zeros(16, dtype=hy.int64)),
    }
    hy.export(functions, tmp_path / "m", dynamic={"x": {0: BATCH}, "y": {0: BATCH}})
    c, loaded = CProgram(tmp_path / "m"), hy.load_exported(tmp_path / "m")
    for name, arrays, text in (
        ("predict", (floats(65, 64),),
         "predict: input x is f32[65,64], not f32[batch,64] with batch from 1 to 64"),
        ("predict", (floats(0, 64),),
         "predict: input x is f32[0,64], not f32[batch,64] with batch from 1 to 64"),
        ("predict", (floats(3, 63),), "predict: input x is f32[3,63], not f32[batch,64]"),
        ("step", (floats(3, 64), np.zeros(4, np.int64)),
         "step: input y is i64[4], not i64[batch] with batch = 3"),
    ):  # fmt: skip
        with pytest.raises(ProgramFailure) as failed:
            c(name, *arrays)
        assert str(failed.value) == text
        with pytest.raises(ShapeError) as raised:
            loaded[name](*map(hy.asarray, arrays))
        assert str(raised.value).splitlines()[0] == text


def test_sizes_at_which_the_function_raises(tmp_path: Path) -> None:
    def f(x):
        return x.reshape((x.shape[0] // 2, 2, 3)) * 2

    hy.export({"f": (f, hy.zeros((6, 3)))}, tmp_path / "m", dynamic={0: {0: hy.Dim("n", 1, 20)}})
    require_same(tmp_path / "m", "f", f, [(floats(n, 3),) for n in (2, 4, 20)])
    text = "f: the program was not exported for n = 5"
    with pytest.raises(ProgramFailure, match=text):
        CProgram(tmp_path / "m")("f", floats(5, 3))
    program = hy.load_exported(tmp_path / "m")
    with pytest.raises(ShapeError, match=text):
        program["f"](hy.asarray(floats(5, 3)))
    assert any("f raises at n = " in row["note"] for row in program.about()["notes"])


def fixes(x):
    return x * len(str(x.shape[0]))


@pytest.mark.parametrize(
    ("dynamic", "kind", "text"),
    [
        (
            {"x": {0: hy.Dim("n", 1, 9)}},
            CaptureError,
            "is declared to vary, and the function fixes",
        ),
        ({"y": {0: True}}, ArgumentError, "names the argument 'y', which there is not"),
        ({"g": {"x": {0: True}}}, ArgumentError, "has a table for 'g', which is not exported"),
        (
            {"fixes": {0: {0: hy.Dim("n", 1, 9)}}, "other": {0: {0: hy.Dim("n", 1, 8)}}},
            ArgumentError,
            "n is declared as .* and as ",
        ),
        ([0], ArgumentError, "dynamic is "),
        ({"x": {0: hy.Dim("n", 10, 20)}}, ShapeError, "n is 4"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, dynamic: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        functions = {"fixes": (fixes, hy.zeros(4))}
        if "other" in dynamic:
            functions["other"] = functions["fixes"]
        hy.export(functions, tmp_path / "m", dynamic=dynamic)
    assert not list(tmp_path.iterdir())


def test_a_function_that_tells_many_sizes_apart(tmp_path: Path) -> None:
    def f(x):
        for n in tuple(range(2, 40, 2)):
            if x.shape[0] < n:
                return x * n
        return x

    with pytest.raises(ProgramError, match="f cannot be exported: it tells too many sizes apart"):
        hy.export({"f": (f, hy.zeros(4))}, tmp_path / "m", dynamic={0: {0: hy.Dim("n", 1, 64)}})


def test_gradients_of_means_over_two_open_axes(tmp_path: Path) -> None:
    """They serve all combinations of sizes, those of one element included."""
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def regress(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def classify(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, 3), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    def gradient(x):
        return hy.grad(lambda x: (x * x).mean())(x)

    b, t = hy.Dim("b", 1, 16), hy.Dim("t", 1, 50)
    sizes = [(2, 5), (3, 4), (16, 50), (1, 9), (7, 1), (1, 1)]
    table = {"x": {0: b, 1: t}, "y": {0: b, 1: t}}
    first = [hy.zeros((2, 5, 4)), hy.zeros((2, 5, 3))]
    labels = hy.zeros((2, 5), dtype=hy.int64)
    for name, function, args, calls in (
        ("regress", regress, first, [(floats(*s, 4), floats(*s, 3)) for s in sizes]),
        (
            "classify",
            classify,
            [first[0], labels],
            [(floats(*s, 4), DRAW.integers(0, 3, s)) for s in sizes],
        ),
        ("gradient", gradient, [hy.zeros((2, 5))], [(floats(*s),) for s in sizes]),
    ):
        own = table if len(args) == 2 else {"x": table["x"]}
        hy.export({name: (function, *args)}, tmp_path / "m", dynamic=own)
        require_same(tmp_path / "m", name, function, calls)


def test_numbers_among_the_results_that_follow_from_sizes(tmp_path: Path) -> None:
    """Where a size is 1 these are constants, and elsewhere a run computes them."""

    def f(x):
        n, m = x.shape
        return {
            "size": n,
            "half": n / 2,
            "large": n > 4,
            "list": [n * m, 1000],
            "choice": 3 if n < 3 else 7,
            "sum": x.sum(),
        }

    table = {"x": {0: hy.Dim("n", 1, 64), 1: hy.Dim("m", 1, 9)}}
    hy.export({"f": (f, hy.zeros((5, 6)))}, tmp_path / "m", dynamic=table)
    loaded, c = hy.load_exported(tmp_path / "m")["f"], CProgram(tmp_path / "m")
    for shape in ((1, 1), (1, 2), (2, 1), (3, 3), (5, 6), (64, 9)):
        x = hy.asarray(floats(*shape))
        wanted = f(x)
        assert repr(loaded(x)) == repr(wanted)
        told = flatten(wanted)[0]
        told.remove(1000)  # which is a constant everywhere
        assert [number.item() for number in c("f", x.numpy())] == [*told[:-1], told[-1].item()]


def test_c_is_told_the_names_and_ranges_of_sizes(tmp_path: Path) -> None:
    def f(x):
        return x * 2, hy.concat([x, x], axis=1)

    table = {"x": {0: hy.Dim("n", 1, 64), 1: hy.Dim("m", 2, 9)}}
    hy.export(f, tmp_path / "m", hy.zeros((4, 3)), dynamic=table)
    program, ffi, lib = CProgram(tmp_path / "m").handle, native.ffi, native.lib
    name, low, high = ffi.new("char const **"), ffi.new("int64_t *"), ffi.new("int64_t *")
    told = []
    for i in range(lib.hyb_program_sizes(program, 0)):
        assert lib.hyb_program_size(program, 0, i, name, low, high) == 0
        told.append((ffi.string(name[0]).decode(), low[0], high[0]))
    assert told == [("n", 1, 64), ("m", 2, 9)]
    places = [0, 1, 2, -1]  # an axis of each number, there or not
    assert [lib.hyb_program_input_size(program, 0, 0, axis) for axis in places] == [0, 1, -1, -1]
    assert [lib.hyb_program_output_size(program, 0, 0, axis) for axis in places] == [0, 1, -1, -1]
    assert [lib.hyb_program_output_size(program, 0, 1, axis) for axis in places] == [0, -1, -1, -1]
    assert lib.hyb_program_input_size(program, 0, 1, 0) == -1  # there is no such input
    assert lib.hyb_program_size(program, 0, 2, name, low, high) != 0
    assert ffi.string(lib.hyb_last_error()) == b"there is no size 2 of 2"
    assert lib.hyb_program_sizes(program, 1) == -1


def test_results_of_another_kind_at_some_sizes(tmp_path: Path) -> None:
    def f(x):
        return x if x.shape[0] < 5 else (x, x)

    def number(x):
        return x.shape[0] if x.shape[0] < 5 else 5.0

    for function in (f, number):
        with pytest.raises(ProgramError, match="what it returns is of another kind where"):
            hy.export(function, tmp_path / "m", hy.zeros(4), dynamic={0: {0: hy.Dim("n", 2, 64)}})


class Memory:
    """State that is no module's."""

    def __init__(self) -> None:
        self.last = hy.zeros((4, 3))


def test_cells_that_would_get_an_open_size(tmp_path: Path) -> None:
    memory = Memory()

    def keep(x):
        memory.last = x * 2

    def ask():
        return hy.sum(memory.last)

    functions = {"keep": (keep, hy.zeros((4, 3))), "ask": (ask,)}
    text = r"keep cannot be exported: what it writes to Memory\.last is of another type"
    with pytest.raises(ProgramError, match=text):
        hy.export(functions, tmp_path / "m", dynamic={"x": {0: BATCH}})


def test_functions_of_sizes_that_c_does_not_have(tmp_path: Path) -> None:
    import math

    def f(x):
        return x * math.gamma(x.shape[0])

    with pytest.raises(ProgramError, match=r"it depends on math\.gamma of a size"):
        hy.export({"f": (f, hy.zeros(4))}, tmp_path / "m", dynamic={0: {0: hy.Dim("n", 2, 8)}})
