"""``hybrid compress``: models of the list and of files, its tables, its file, what it refuses."""

import copy
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid.cli.app import build
from hybrid.models.examples import find
from tests.helpers import same

MODEL = """
import numpy as np
import hybrid as hy
from hybrid import nn

class Net(nn.Module):
    def __init__(self):
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)
        self.w = nn.Parameter(hy.random.normal(size=(16, 16)))

    def forward(self, x):
        return self.last(hy.tanh(self.first(x)) @ self.w)  # a product

hy.random.seed(0)
X = np.random.RandomState(0).randn(40, 8).astype(np.float32)
net = Net()
batches = [(X[:20], np.arange(20) % 3), (X[20:], np.arange(20) % 3)]
number, none = 3, []

def make():
    return net

def loader():
    return batches

teacher = nn.Sequential(nn.Linear(8, 3))
named = [{"x": X}]

def wrong(x):
    return x
"""


@pytest.fixture(autouse=True)
def threads_restored() -> Iterator[None]:
    before = hy.num_threads()
    yield
    hy.set_num_threads(before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "small", raising=False)
    return tmp_path


def shown(*args: str) -> str:
    done = CliRunner().invoke(build(), ["compress", *args])
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


def test_a_model_in_a_file(folder: Path) -> None:
    text = shown("small.py:net", "--data", "small.py:batches", "--output", "made.safetensors")
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[:6]] == [
        "before", "bytes", "parameters", "operations", "latency", "accuracy",
    ]  # fmt: skip
    line = 1 + MODEL.splitlines().index(next(x for x in MODEL.splitlines() if "a product" in x))
    assert re.search(rf"\nw +matmul +a function call, and no layer +.*small.py:{line}\n", text)
    size = (folder / "made.safetensors").stat().st_size
    assert lines[-1] == f"made.safetensors: {size:,} bytes, for hy.compress.load"
    net = sys.modules["small"].net
    x = hy.asarray(sys.modules["small"].X)
    found = hy.compress.load(net, folder / "made.safetensors")
    assert same(found(x), hy.compress.quantize(net)(x))


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (["--int8"], {}),
        (["--int4"], {"method": "weight_only", "bits": 4, "group_size": 32}),
        (["--nf4"], {"method": "weight_only", "scheme": "nf4", "group_size": 32}),
        (["--int4", "--method", "dynamic"], {"bits": 4, "group_size": 32}),
        (
            ["--method", "weight_only", "--group-size", "8"],
            {"method": "weight_only", "group_size": 8},
        ),
        (["--skip", "first", "--skip", "last"], {"skip": ["first", "last"]}),
        (["--method", "static"], {"method": "static"}),
        (["--calibration", "mse"], {"method": "static", "calibration": "mse"}),
        (
            ["--method", "static", "--calibration", "percentile", "--int4"],
            {"method": "static", "calibration": "percentile", "bits": 4},
        ),
    ],
)
def test_options(args: list[str], settings: dict[str, object], folder: Path) -> None:
    shown("small.py:make", "--data", "small.py:loader", "--output", "o.safetensors", *args)
    module = sys.modules["small"]
    data = module.batches if settings.get("method") == "static" else None
    wanted = hy.compress.quantize(module.net, data=data, **settings).state_dict()
    found = hy.load(folder / "o.safetensors")
    assert set(found) == set(wanted) and all(same(found[n], wanted[n]) for n in wanted)


def test_the_table_of_layers(folder: Path) -> None:
    args = ["small.py:net", "--data", "small.py:batches", "--sensitivity", "--int4"]
    layers, figures = shown(*args).split("\n\n")[:2]
    module = sys.modules["small"]
    wanted = hy.compress.sensitivity(module.net, module.batches, bits=4)
    assert layers == str(wanted)
    assert figures.split()[:3] == ["before", "after", "ratio"]


def test_weights_of_a_model_in_a_file(folder: Path) -> None:
    shown("small.py:net", "--data", "small.py:batches")
    state = {name: x.numpy() * 2 for name, x in sys.modules["small"].net.state_dict().items()}
    hy.save(state, "w.safetensors")
    options = [
        "--data",
        "small.py:batches",
        "--weights",
        "w.safetensors",
        "--output",
        "o.safetensors",
    ]
    shown("small.py:net", *options)
    found = hy.load("o.safetensors")
    assert (found["w"].numpy() == state["w"]).all()


def test_a_model_of_the_list_with_weights(tmp_path: Path) -> None:
    weights, out = tmp_path / "w.safetensors", tmp_path / "o.safetensors"
    hy.random.seed(0)
    model = find("lstm").make()
    hy.save(model, weights)
    text = shown("lstm", "--weights", str(weights), "--threads", "1", "--output", str(out))
    assert "samples an epoch" not in text
    assert re.search(r"\naccuracy +\d+\.\d% +\d+\.\d% ", text)
    assert "nothing with weights is left in floats" in text
    assert hy.compress.load(model, out).rnn.weight_ih_l0_q.dtype is hy.int8


def test_a_model_of_the_list_is_trained_first() -> None:
    text = shown("lstm", "--epochs", "1", "--seed", "3", "--threads", "1")
    told, rest = text.split("\n\naccuracy: ")
    assert told.startswith("lstm: LSTM, one step a row; 19,594 parameters\n")
    score = re.match(r"(\d+\.\d%) after 1 epochs", rest)
    assert score is not None
    assert re.search(rf"\naccuracy +{score[1]} ", rest)


SEEN = ["small.py:net", "--data", "small.py:batches", "--output", "o.safetensors"]


@pytest.mark.parametrize("structure", ["element", "2:4", "channel"])
@pytest.mark.parametrize("integers", [False, True])
def test_pruning(structure: str, integers: bool, folder: Path) -> None:
    more = ["--int8"] if integers else []
    text = shown(*SEEN, "--prune", "0.5", "--structure", structure, "--skip", "last", *more)
    module = sys.modules["small"]
    x = hy.asarray(module.X[:20])
    wanted = copy.deepcopy(module.net)
    pruning = hy.compress.prune(wanted, 0.5, structure=structure, skip=["last"], example=x)
    assert text.startswith(f"pruned ({structure}): {pruning.sparsity():.1%} of the weights\n")
    assert all(f"\n  {row.layer}" in text for row in pruning.refused)
    wanted = hy.compress.remove(wanted.eval(), *([x] if structure == "channel" else []))
    wanted = hy.compress.quantize(wanted, skip=["last"]) if integers else wanted
    found = hy.compress.load(module.net, folder / "o.safetensors")
    assert str(found) == str(wanted) and same(found(x), wanted(x))


def test_a_teacher_in_a_file(folder: Path) -> None:
    hy.random.seed(0)
    text = shown(*SEEN, "--distill", "small.py:teacher", "--tune", "3")
    told = re.search(r"^distilled, 3 epochs: loss (\d+\.\d{4}) to (\d+\.\d{4})\n", text, re.M)
    assert told is not None and float(told[2]) < float(told[1])
    module = sys.modules["small"]
    found = hy.compress.load(module.net, folder / "o.safetensors")
    assert not same(found.w, module.net.w)  # the copy has learnt, and the model has not
    hy.save(module.teacher, "t.safetensors")
    more = shown(
        *SEEN, "--distill", "small.py:teacher", "--teacher-weights", "t.safetensors", "--int8"
    )
    assert "\ndistilled, 5 epochs: loss " in f"\n{more}"
    found = hy.load("o.safetensors")
    assert "first.weight_q" in found


def test_training_after_pruning_and_a_teacher_of_the_list(tmp_path: Path) -> None:
    for name in ("lstm", "gru"):
        hy.random.seed(0)
        hy.save(find(name).make(), tmp_path / f"{name}.safetensors")
    args = ["lstm", "--weights", str(tmp_path / "lstm.safetensors"), "--threads", "1"]
    text = shown(*args, "--prune", "0.3", "--tune", "1")
    assert text.startswith("pruned (element): 30.0% of the weights")
    scores = re.search(r"\naccuracy +(\d+\.\d)% +(\d+\.\d)% ", text)
    assert scores is not None and float(scores[2]) > float(scores[1])
    assert f"\naccuracy: {scores[2]}% after 1 epochs" in text
    gru = str(tmp_path / "gru.safetensors")
    text = shown(*args, "--distill", "gru", "--teacher-weights", gru, "--tune", "1")
    assert re.search(r"^distilled, 1 epochs: loss \d\.\d{4} to", text, re.M)


def test_products_within_the_package_have_no_line(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    model = find("vae").make()
    hy.save(model, weights)
    text = shown("vae", "--weights", str(weights), "--threads", "1")
    assert re.search(r"\nnats an image +\d+(\.\d+)? +\d+(\.\d+)? +[+-]", text)
    assert "main.py" not in text


WRONG = {
    "two kinds": (["lenet", "--int8", "--int4"], "--int8 and --int4 exclude each other."),
    "two kinds of 4 bits": (
        ["lenet", "--int4", "--nf4"],
        "--int4 and --nf4 exclude each other.",
    ),
    "dynamic quantiles": (
        ["lenet", "--nf4", "--method", "dynamic"],
        "scheme is 'nf4', and the weights of method 'dynamic' are symmetric",
    ),
    "a group of nothing": (["lenet", "--group-size", "0"], "group_size is 0"),
    "a structure of nothing": (
        ["lenet", "--structure", "channel"],
        "--structure goes with --prune.",
    ),
    "a structure": (
        ["lenet", "--prune", "0.5", "--structure", "row"],
        "--structure='row' is unknown.",
    ),
    "all of the weights": (
        ["lenet", "--prune", "1.0"],
        "--prune 1.0: give a share from 0 up to below 1.",
    ),
    "weights of no teacher": (
        ["lenet", "--teacher-weights", "x"],
        "--teacher-weights goes with --distill.",
    ),
    "training of nothing": (
        ["lenet", "--tune", "2"],
        "--tune 2: give at least one epoch, with --prune or --distill.",
    ),
    "no training": (
        ["lenet", "--prune", "0.5", "--tune", "0"],
        "--tune 0: give at least one epoch, with --prune or --distill.",
    ),
    "training of a file": (
        ["small.py:net", "--data", "small.py:batches", "--prune", "0.5", "--tune", "1"],
        "--tune is for models from the list: how small.py:net trains is not known.",
    ),
    "a teacher of other data": (
        ["lenet", "--distill", "resnet20"],
        "resnet20 learns digits, 16x16, and lenet digits, 32x32.",
    ),
    "an unknown teacher": (
        ["lenet", "--distill", "resnet2"],
        "there is no model named 'resnet2'; did you mean 'resnet20'?",
    ),
    "a teacher that is none": (
        ["small.py:net", "--data", "small.py:batches", "--distill", "small.py:number"],
        "small.py:number is a int, and no hybrid.nn.Module.",
    ),
    "batches of names": (
        ["small.py:net", "--data", "small.py:named", "--prune", "0.5"],
        "--prune needs batches of positional inputs, and these are dicts.",
    ),
    "a layer of the list": (
        ["lenet", "--skip", "head"],
        "skip names 'head', and the model has no such layer.",
    ),
    "a method of the list": (["lenet", "--method", "half"], "method='half' is unknown."),
    "no epochs": (["lenet", "--epochs", "0"], "--epochs 0: at least one is needed."),
    "an unknown model": (["lenett"], "there is no model named 'lenett'; did you mean 'lenet'?"),
    "a calibration of nothing": (
        ["lenet", "--method", "dynamic", "--calibration", "kl"],
        "--calibration is of --method static, not of dynamic.",
    ),
    "data of the list": (
        ["lenet", "--data", "small.py:batches"],
        "--data is for models in files: lenet has its own.",
    ),
    "no data": (
        ["small.py:net"],
        "there are no data for small.py:net. Fix: give --data FILE:DATA, batches of inputs.",
    ),
    "no file": (["absent.py:net", "--data", "small.py:batches"], "there is no file absent.py."),
    "no name": (
        ["small.py:", "--data", "small.py:batches"],
        "'small.py:' does not name a model. Fix: write FILE:MODEL, as in model.py:net.",
    ),
    "another name": (
        ["small.py:mak", "--data", "small.py:batches"],
        "small.py has no 'mak'. Fix: did you mean 'make'?",
    ),
    "no module": (
        ["small.py:number", "--data", "small.py:batches"],
        "small.py:number is a int, and no hybrid.nn.Module.",
    ),
    "data without a name": (
        ["small.py:net", "--data", "small.py"],
        "'small.py' does not name data. Fix: write FILE:DATA, as in model.py:batches.",
    ),
    "no batches": (
        ["small.py:net", "--data", "small.py:none"],
        "the data are empty. Fix: give data: batches x, or (x, labels), as a list or a loader.",
    ),
    "a number for data": (
        ["small.py:net", "--data", "small.py:number"],
        "data is a int. Fix: give data: batches x, or (x, labels), as a list or a loader.",
    ),
    "a method": (
        ["small.py:net", "--data", "small.py:batches", "--method", "half"],
        "method='half' is unknown.",
    ),
    "a calibration": (
        ["small.py:net", "--data", "small.py:batches", "--calibration", "best"],
        "there is no calibration 'best'.",
    ),
    "a layer": (
        ["small.py:net", "--data", "small.py:batches", "--skip", "head"],
        "skip names 'head', and the model has no such layer.",
    ),
    "no weights": (
        ["lstm", "--weights", "absent.safetensors"],
        "lstm: [Errno 2] No such file or directory: 'absent.safetensors'.",
    ),
    "a folder": (
        ["lstm", "--output", "absent/o.safetensors"],
        "--output absent/o.safetensors cannot be written: No such file or directory.",
    ),
    "no threads": (["lenet", "--threads", "0"], "--threads 0: 0 is not a number of threads."),
}


@pytest.mark.parametrize(("args", "expected"), WRONG.values(), ids=WRONG)
def test_bad_input_is_one_line(args: list[str], expected: str, folder: Path) -> None:
    done = CliRunner().invoke(build(), ["compress", *args])
    assert done.exit_code == (1 if "absent.safetensors" in args else 2), done.output
    assert done.stderr.startswith(f"hybrid: {expected}") and done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["small.py"]


def test_a_missing_package_is_told_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    done = CliRunner().invoke(build(), ["compress", "lenet", "--output", "x.safetensors"])
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr == (
        "hybrid: --output needs the package safetensors, which is not installed. "
        'Fix: pip install "hybrid[io]".\n'
    )
