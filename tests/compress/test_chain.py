"""The whole way: trained, pruned, tuned, quantized, saved, loaded, hybridized, in C and in ONNX."""

import copy
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid import nn
from hybrid.bench.compressed_models import CASES, IMAGES
from hybrid.cli.app import build
from hybrid.compress import convert, load, prepare_qat, prune, quantize, remove, save
from hybrid.compress.reports.float_parts import layers_left
from hybrid.data import DataLoader, TensorDataset
from hybrid.models.examples import find
from hybrid.models.gpt import GPT, Config
from hybrid.models.resnet import ResNet

F = nn.functional
HYBRID_RUN = Path(hy.lib_dir()).parent / "bin" / "hybrid-run"
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")


def taught(model: nn.Module, loss: Callable[..., Any], batches: Any, epochs: int, lr: float) -> Any:
    """The mean loss of the last epoch."""
    optimizer = hy.optim.Adam(model.parameters(), lr=lr)
    model.train()

    @hy.hybridize
    def step(*batch: hy.Tensor) -> hy.Tensor:
        optimizer.zero_grad()
        found = loss(model, *batch)
        found.backward()
        optimizer.step()
        return found

    for _ in range(epochs):
        losses = [step(*batch).item() for batch in batches]
    model.eval()
    return float(np.mean(losses))


def goes_everywhere(
    made: nn.Module,
    floats: nn.Module,
    args: Sequence[hy.Tensor],
    folder: Path,
    exact: bool,
) -> None:
    """Save, load, hybridize, run in C: the same bits; in onnxruntime, too, where ``exact``.

    Sums of floats (softmax, norms) have other roundings there, and the next integer may be another.
    """
    want = made(*args).numpy()
    path = folder / "made.safetensors"
    save(made, path)
    found = load(floats.eval(), path)
    assert found(*args).numpy().tobytes() == want.tobytes()
    found.hybridize()
    for _ in range(2):
        assert found(*args).numpy().tobytes() == want.tobytes()

    hy.export({"predict": (found, *args)}, folder / "made.hyb")
    words: list[Any] = [HYBRID_RUN, folder / "made.hyb", "predict"]
    for number, x in enumerate(args):
        np.save(folder / f"{number}.npy", x.numpy())
        words += ["--input", folder / f"{number}.npy"]
    words += ["--output", folder / "out.npy"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.load(folder / "out.npy").tobytes() == want.tobytes()

    file = folder / "made.onnx"
    hy.onnx.export(found, file, *args)
    for level in LEVELS:
        got = in_onnxruntime(file, level, args)
        if exact:
            assert got.tobytes() == want.tobytes()
        else:
            one, other = (x.ravel().astype(np.float64) for x in (got, want))
            assert one @ other / np.sqrt((one @ one) * (other @ other)) > 0.99


def in_onnxruntime(file: Path, level: str, args: Sequence[hy.Tensor]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, [x.numpy() for x in args], strict=True)))[0]


# A ResNet on digits -----------------------------------------------------------------------------


class OneBlock(nn.Module):
    """What a block gives is added to what it got; quarters of the image are told apart."""

    def __init__(self) -> None:
        self.stem, self.bn0 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv1, self.bn1 = nn.Conv2d(16, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24)
        self.conv2, self.bn2 = nn.Conv2d(24, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.linear = nn.Linear(64, 10)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu(self.bn0(self.stem(x)))
        y = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(y)) + x)
        return self.linear(F.max_pool2d(x, 4).reshape((x.shape[0], -1)))


RESNETS = {
    "one block": (OneBlock, 4),
    "three groups": pytest.param(lambda: ResNet(blocks=1), 3, marks=pytest.mark.nightly),
}


@pytest.mark.parametrize(("make", "epochs"), RESNETS.values(), ids=RESNETS)
@pytest.mark.parametrize("trained_aware", [False, True], ids=["calibrated", "trained"])
def test_a_residual_network(
    make: Callable[[], nn.Module], epochs: int, trained_aware: bool, tmp_path: Path
) -> None:
    data = IMAGES.load()
    batches = DataLoader(data.train, 64, shuffle=True, drop_last=True, generator=0)
    tests = DataLoader(data.test, 360)
    ((images, labels),) = tests

    def right(model: nn.Module) -> float:
        return float((model(images).numpy().argmax(1) == labels.numpy()).mean())

    hy.random.seed(0)
    model = make()
    taught(model, IMAGES.loss, batches, epochs, 1e-2)
    whole = right(model)
    assert whole > 0.9
    prune(model, 0.4, structure="channel", scope="layer", example=images)
    small = remove(model, images)
    size = [sum(p.size for p in m.parameters()) for m in (model, small)]
    assert size[1] < 0.8 * size[0]
    taught(small, IMAGES.loss, batches, 2, 5e-3)
    if trained_aware:
        prepared = prepare_qat(small)
        taught(prepared, IMAGES.loss, batches, 1, 1e-3)
        made = convert(prepared)
        assert made(images).numpy().tobytes() == prepared.eval()(images).numpy().tobytes()
    else:
        made = quantize(small, "static", data=batches).eval()
    assert right(made) > whole - 0.03
    assert not layers_left(made)
    goes_everywhere(made, make(), [images[:8]], tmp_path, exact=True)


# A GPT, character by character -------------------------------------------------------------------


def verses() -> np.ndarray:
    """Sentences of a small grammar, as characters."""
    random = np.random.RandomState(0)
    words = [["the", "a"], ["cat", "dog", "hen"], ["sees", "eats", "likes"], ["me", "it", "bread"]]
    text = "".join(
        " ".join(part[random.randint(len(part))] for part in words) + ". " for _ in range(1500)
    )
    known = sorted(set(text))
    return np.array([known.index(letter) for letter in text])


def next_loss(model: nn.Module, tokens: hy.Tensor, following: hy.Tensor) -> hy.Tensor:
    logits = model(tokens)
    return F.cross_entropy(logits.reshape((-1, logits.shape[2])), following.reshape(-1))


METHODS: dict[str, tuple[tuple[str, ...], dict[str, Any], float]] = {
    "int8": (("dynamic",), {}, 0.02),
    "int4": (("weight_only",), {"bits": 4, "group_size": 32}, 0.05),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_character_gpt(method: str, tmp_path: Path) -> None:
    text = verses()
    count = len(text) // 33
    rows = text[: count * 33].reshape(count, 33)
    train, test = rows[: count - 64], rows[count - 64 :]
    batches = DataLoader(
        TensorDataset(train[:, :-1], train[:, 1:]), 64, shuffle=True, drop_last=True, generator=0
    )
    tokens, following = hy.asarray(test[:, :-1]), hy.asarray(test[:, 1:])

    def make() -> GPT:
        return GPT(Config(tokens=int(text.max()) + 1, block=32, width=32, heads=4, depth=2))

    def nats(model: nn.Module) -> float:
        with hy.no_grad():
            return next_loss(model, tokens, following).item()

    hy.random.seed(0)
    model = make()
    taught(model, next_loss, batches, 12, 1e-2)
    whole = nats(model)
    assert whole < 0.9  # the words are drawn; letters of one are known
    pruning = prune(model, 0.3, scope="layer")
    assert abs(pruning.sparsity() - 0.3) < 0.01
    taught(model, next_loss, batches, 1, 3e-3)
    small = remove(model)
    tuned = nats(small)
    assert tuned < whole + 0.05
    how, settings, loss = METHODS[method]
    made = quantize(small, *how, **settings).eval()
    assert nats(made) < tuned + loss
    assert not layers_left(made)
    goes_everywhere(made, make(), [tokens[:4]], tmp_path, exact=False)


# The sentence encoder ----------------------------------------------------------------------------


@pytest.mark.skipif(bool(CASES["encoder"].missing), reason="published weights are not installed")
def test_the_sentence_encoder_with_published_weights(tmp_path: Path) -> None:
    given = CASES["encoder"].train()
    ((args,),) = given.comparing
    args = [x[:2] for x in args]
    small = copy.deepcopy(given.model)
    prune(small, 0.1, scope="layer", skip=["embeddings"])
    small = remove(small)
    made = quantize(small).eval()
    one, other = (model(*args).numpy() for model in (given.model, made))
    assert (one * other).sum(axis=1).min() > 0.97
    goes_everywhere(made, given.model, args, tmp_path, exact=False)


# From the command line ---------------------------------------------------------------------------


def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "lenet.safetensors"
    threads = hy.num_threads()
    args = ["compress", "lenet", "--epochs", "2", "--prune", "0.3", "--structure", "channel"]
    args += ["--tune", "2", "--method", "static", "--out", str(out), "--threads", "1"]
    done = CliRunner().invoke(build(), args)
    hy.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    table = re.search(
        r"\nbytes +(\S+ \S+) +(\S+ \S+) +(\S+)\nparameters .*\noperations .*\nlatency .*\n"
        r"accuracy +(\S+)% +(\S+)% .*\n\nresults: signal to noise", done.stdout
    )  # fmt: skip
    assert table is not None, done.stdout
    assert float(table[3]) < 0.3 and float(table[5]) > float(table[4]) - 3
    example = find("lenet")
    found = load(example.make().eval(), out)
    images = example.task.load().test.tensors[0][:4]
    assert not layers_left(found)
    goes_everywhere(found, example.make(), [hy.asarray(images)], tmp_path, exact=True)
