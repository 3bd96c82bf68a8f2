"""Files of compressed models: what comes back, and what is refused without a trace."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress import convert, load, prepare_qat, prune, quantize, remove, save
from hybrid.compress.files import KINDS, TEXT
from hybrid.compress.quantization import QUANTIZED, WEIGHT_ONLY
from hybrid.compress.training_aware import PREPARED
from hybrid.errors import ArgumentError, ArgumentTypeError, CheckpointError
from hybrid.memory import native
from tests.compress.networks import Flat, Residual, drawn
from tests.helpers import same

X = np.random.RandomState(0).randn(6, 16).astype(np.float32)


def network(seed: int = 0, hidden: int = 24) -> nn.Sequential:
    hy.random.seed(seed)
    return nn.Sequential(nn.Linear(16, hidden), nn.ReLU(), nn.Linear(hidden, 5))


class Text(nn.Module):
    """Tied weights, one layer under two names, an embedding, attention and an LSTM."""

    def __init__(self) -> None:
        self.table = nn.Embedding(20, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.steps = nn.LSTM(8, 8, batch_first=True)
        self.one = self.other = nn.Linear(8, 8)
        self.out = nn.Linear(8, 20, bias=False)
        self.out.weight = self.table.weight

    def forward(self, tokens: hy.Tensor) -> hy.Tensor:
        x = self.table(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.other(self.one(self.steps(x)[0]))
        return self.out(x)


def folded() -> nn.Module:
    """Batch norms behind layers without biases, one of them skipped, and one that stays."""
    hy.random.seed(0)
    net = nn.Sequential(
        nn.Linear(16, 8, bias=False), nn.BatchNorm1d(8), nn.Identity(), nn.Linear(8, 8, bias=False),
        nn.BatchNorm1d(8), nn.ReLU(), nn.BatchNorm1d(8),
    )  # fmt: skip
    net(hy.asarray(X))  # running means
    return net


TOKENS = hy.asarray([[1, 2, 3], [19, 0, 3]])
MADE: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], nn.Module], Any]] = {
    "dynamic": (network, quantize, X),
    "static": (network, lambda net: quantize(net, "static", data=[X]), X),
    "four bits": (network, lambda net: quantize(net, bits=4), X),
    "one scale": (network, lambda net: quantize(net, per_channel=False), X),
    "a part": (network, lambda net: quantize(net, skip=["0"]), X),
    "no layer at all": (network, lambda net: net, X),
    "a layer alone": (lambda: nn.Linear(16, 3), quantize, X),
    "norms that were folded": (
        folded,
        lambda net: quantize(net, "static", data=[X], skip=["3"]),
        X,
    ),
    "layers of every kind": (Text, lambda net: quantize(net), TOKENS),
    "static, where it can be": (Text, lambda net: quantize(net, "static", data=[TOKENS]), TOKENS),
    "tied, in floats": (Text, lambda net: quantize(net, skip=["table", "out"]), TOKENS),
}


@pytest.mark.parametrize("what", MADE)
def test_what_comes_back_has_the_same_bits(what: str, tmp_path: Path) -> None:
    make, compress, given = MADE[what]
    hy.random.seed(0)
    plain, x = make().eval(), hy.asarray(given)
    model = compress(plain)
    want, path = model(x).numpy(), tmp_path / "model.safetensors"
    save(model, path)
    hy.random.seed(1)
    other = make().eval()
    before = {name: tensor.numpy().copy() for name, tensor in other.state_dict().items()}
    found = load(other, path)
    assert str(found) == str(model)
    assert list(found.state_dict()) == list(model.state_dict())
    for _ in range(2):
        assert found(x).numpy().tobytes() == want.tobytes()
        found.hybridize()
    after = other.state_dict()
    assert list(after) == list(before)
    assert all((after[name].numpy() == before[name]).all() for name in before)
    again = tmp_path / "again.safetensors"
    save(found, again)
    assert again.read_bytes() == path.read_bytes()


def test_no_weight_is_rounded_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of the model are not looked at: a large one is there in milliseconds."""
    path = tmp_path / "model.safetensors"
    want = quantize(Text())
    save(want, path)

    def fail(*_: Any) -> Any:
        raise AssertionError("a weight was rounded")

    monkeypatch.setattr("hybrid.compress.quantized_layers.quantized_weight", fail)
    found = load(Text(), path)
    assert same(found.eval()(TOKENS), want.eval()(TOKENS))
    with pytest.raises(AssertionError, match="was rounded"):
        quantize(Text())


def test_every_kind_of_layer_has_a_name() -> None:
    assert len(KINDS) == len({*QUANTIZED.values(), *WEIGHT_ONLY.values(), *PREPARED.values()})
    assert all(KINDS[made.__name__] is kind for kind, made in QUANTIZED.items())


def test_shared_layers_stay_shared_and_tensors_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(quantize(Text()), path)
    found = load(Text(), path)
    assert found.one is found.other
    assert not native.owns(found.steps.weight_ih_l0_q.content)


def test_a_prepared_model_goes_on_training(tmp_path: Path) -> None:
    path, x = tmp_path / "model.safetensors", hy.asarray(X)
    for learned in (True, False):
        model = prepare_qat(network(), bits=3, activation_bits=5, learned=learned)
        model(x)
        save(model, path)
        found = load(network(1), path)
        assert same(found(x), model(x)) and found[0].learned is learned
        assert same(convert(found)(x), convert(model)(x))
        save(convert(model), path)
        assert same(load(network(1), path)(x), convert(model)(x))


def test_a_mode_is_that_of_the_given_model(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(quantize(network()).eval(), path)
    assert load(network().train(), path).training
    found = load(network().eval(), path)
    assert not any(part.training for part in found.modules())


# Pruned models -----------------------------------------------------------------------------------

IMAGES = drawn(4, 1, 8, 8)


class Looking(nn.Module):
    """Attention of four heads."""

    def __init__(self) -> None:
        self.attention, self.last = nn.MultiheadAttention(8, 4, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.last(self.attention(x, x, x, need_weights=False)[0])


class Shared(nn.Module):
    """Weights of two layers that are one, a layer of two names, and constants that move on."""

    def __init__(self) -> None:
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.two.weight = self.one.weight
        self.inner = self.again = nn.Linear(8, 12, bias=False)
        self.last = nn.Linear(12, 3, bias=False)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.last(hy.sigmoid(self.inner(hy.tanh(self.two(hy.tanh(self.one(x)))))))


def masked(net: nn.Module, amount: float, **settings: Any) -> nn.Module:
    prune(net, amount, **settings)
    return net


def without(net: nn.Module, amount: float, structure: str, x: hy.Tensor) -> nn.Module:
    return remove(masked(net, amount, structure=structure, example=x), x)


def without_channels(net: nn.Module, amount: float, x: hy.Tensor = IMAGES) -> nn.Module:
    return without(net, amount, "channel", x)


GIVEN = {Shared: drawn(3, 8), Looking: drawn(2, 5, 8)}
PRUNED: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], nn.Module]]] = {
    "masks": (Flat, lambda net: masked(net, 0.6)),
    "masks of a half": (Flat, lambda net: masked(net, 0.5, structure="2:4")),
    "masks of channels": (
        Residual, lambda net: masked(net, 0.5, structure="channel", example=IMAGES),
    ),
    "elements": (Flat, lambda net: remove(masked(net, 0.6))),
    "channels": (Residual, lambda net: without_channels(net, 0.5)),
    "channels, twice": (Flat, lambda net: without_channels(without_channels(net, 0.4), 0.4)),
    "channels, in integers": (Flat, lambda net: quantize(without_channels(net, 0.5))),
    "channels and norms, in integers": (
        Residual, lambda net: quantize(without_channels(net, 0.5).eval(), "static", data=[IMAGES]),
    ),
    "heads": (Looking, lambda net: without(net, 0.5, "head", drawn(2, 5, 8))),
    "heads, in integers": (
        Looking, lambda net: quantize(without(net, 0.5, "head", drawn(2, 5, 8))),
    ),
    "tied": (Shared, lambda net: without_channels(net, 0.5, drawn(3, 8))),
}  # fmt: skip


@pytest.mark.parametrize("what", PRUNED)
def test_pruned_models_come_back(what: str, tmp_path: Path) -> None:
    make, change = PRUNED[what]
    hy.random.seed(0)
    x, path = GIVEN.get(make, IMAGES), tmp_path / "model.safetensors"
    model = change(make()).eval()
    save(model, path)
    hy.random.seed(1)
    whole = make().eval()
    before = str(whole)
    found = load(whole, path)
    assert str(found) == str(model) and str(whole) == before
    assert found(x).numpy().tobytes() == model(x).numpy().tobytes()
    assert {n: t.type for n, t in found.state_dict().items()} == {
        n: t.type for n, t in model.state_dict().items()
    }
    again = tmp_path / "again.safetensors"
    save(found, again)
    assert again.read_bytes() == path.read_bytes()


def test_another_model_than_that_which_was_pruned(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(without_channels(Flat(), 0.5), path)
    smaller = nn.Sequential(*Flat())
    smaller[4] = nn.Linear(54, 19)
    with pytest.raises(CheckpointError, match=r"4.bias is of shape \[19\] here, and was of \[20\]"):
        load(smaller, path)
    with pytest.raises(CheckpointError, match=r"0.weight is of shape None here, and was of \[6, 1"):
        load(nn.Sequential(nn.ReLU()), path)
    save(masked(Flat(), 0.5), path)
    with pytest.raises(CheckpointError, match=r"4.weight has a mask there that does not fit here"):
        load(smaller, path)
    assert type(smaller[0]) is nn.Conv2d and smaller[4].weight.shape == (19, 54)


# What is refused ---------------------------------------------------------------------------------


def written(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A file whose text is changed."""
    state = quantize(network()).state_dict()
    save(quantize(network()), path)
    record = json.loads(hy.load(path).metadata[TEXT])
    text = change(record)
    hy.save(state, path, metadata={TEXT: text if isinstance(text, str) else json.dumps(record)})
    return path


def plainly(path: Path) -> Path:
    hy.save(network(), path)
    return path


def cut_off(path: Path) -> Path:
    save(quantize(network()), path)
    path.write_bytes(path.read_bytes()[:-9])
    return path


def of_two_values(path: Path) -> Path:
    """A file that gives tied weights two values."""
    model = quantize(Text(), skip=["table", "out"])
    save(model, path)
    state = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    state["out.weight"] += 1
    hy.save(state, path, metadata={TEXT: hy.load(path).metadata[TEXT]})
    return path


DAMAGED = f"cannot be loaded: its text {TEXT!r} is damaged: "
ALIKE = "\nFix: give the model of floats that was compressed, or one that is built alike."
BAD: dict[str, tuple[Callable[[Path], Path], Callable[[], nn.Module], str]] = {
    "weights of floats": (
        plainly, network,
        "holds no compressed model: it has no text 'hybrid.compress'\nhybrid.compress.save writes "
        "such files.\nFix: load weights of floats by model.load_state_dict(path).",
    ),
    "a file that was cut off": (cut_off, network, "is no safetensors file that can be loaded"),
    "no JSON": (lambda path: written(path, lambda _: "{"), network, DAMAGED + "it is no JSON"),
    "deep JSON": (
        lambda path: written(path, lambda _: "[" * 9999), network, DAMAGED + "it is no JSON",
    ),
    "a list": (lambda path: written(path, lambda _: "[]"), network, DAMAGED + "it has no version"),
    "another version": (
        lambda path: written(path, lambda r: r.update(version=7)), network,
        "is a compressed model of version 7\nThis version of hybrid reads version 1.\nFix: load it "
        "with the version of hybrid that wrote it, or with a newer one.",
    ),
    "a version of a text": (
        lambda path: written(path, lambda r: r.update(version="1")), network,
        DAMAGED + "it has no version",
    ),
    "no layers": (
        lambda path: written(path, lambda r: r.pop("layers")), network,
        DAMAGED + "it has no layers",
    ),
    "no identities": (
        lambda path: written(path, lambda r: r.update(identities=[1])), network,
        DAMAGED + "it has no list of identities",
    ),
    "masks of another kind": (
        lambda path: written(path, lambda r: r.update(masks={"0": "weight"})), network,
        DAMAGED + "it has no table of masks",
    ),
    "shapes of another kind": (
        lambda path: written(path, lambda r: r.update(cut={"0.weight": [[24], [-1]]})), network,
        DAMAGED + "it has no table of shapes",
    ),
    "masks that are not there": (
        lambda path: written(path, lambda r: r.update(masks={"1": ["weight"]})), network,
        "is of another model than this Sequential:\n  1.weight has a mask there that does not fit "
        "here" + ALIKE,
    ),
    "a layer without a scheme": (
        lambda path: written(path, lambda r: r["layers"]["0"].pop("scheme") and None), network,
        DAMAGED + "a layer has no scheme, or one of other fields",
    ),
    "a scheme of 9 bits": (
        lambda path: written(path, lambda r: r["layers"]["0"]["scheme"].update(bits=9)), network,
        DAMAGED + "bits is 9",
    ),
    "activations of 9 bits": (
        lambda path: written(
            path, lambda r: r["layers"]["0"]["scheme"].update(activation_bits=9)
        ), network,
        DAMAGED + "activation_bits is 9",
    ),
    "an unknown method": (
        lambda path: written(path, lambda r: r["layers"]["0"]["scheme"].update(method=[])),
        network, DAMAGED + "method=[] is unknown",
    ),
    "a layer of no kind": (
        lambda path: written(path, lambda r: r["layers"].update({"1": 3})), network,
        "is of another model than this Sequential:\n  layer '1' is not described" + ALIKE,
    ),
    "a layer of an unknown kind": (
        lambda path: written(path, lambda r: r["layers"]["0"].update({"class": "QuantizedFoo"})),
        network,
        "is of another model than this Sequential:\n  layer '0' is a QuantizedFoo there, which is "
        "not known here" + ALIKE,
    ),
    "a calibration that is not there": (
        lambda path: written(path, lambda r: r["layers"]["0"].update(calibrated=True)), network,
        "is of another model than this Sequential:\n  0.input_scale (f32[]) is not there\n"
        "  0.input_zero (u8[]) is not there\n  0.weight_sums (i32[24]) is not there" + ALIKE,
    ),
    "another width": (
        lambda path: written(path, lambda r: None), lambda: network(hidden=25),
        "is of another model than this Sequential:\n  0.weight_q is i8[24,16] there, and i8[25,16] "
        "here\n  0.weight_scale is f32[24] there, and f32[25] here\n  0.bias is f32[24] there, and "
        "f32[25] here\n  2.weight_q is i8[5,24] there, and i8[5,25] here" + ALIKE,
    ),
    "other layers": (
        lambda path: written(path, lambda r: None),
        lambda: nn.Sequential(nn.Conv1d(16, 24, 1)),
        "is of another model than this Sequential:\n  layer '0' is a Conv1d here, and a Linear "
        "there\n  there is no layer '2' here, and a Linear there" + ALIKE,
    ),
    "more layers": (
        lambda path: written(path, lambda r: None),
        lambda: nn.Sequential(*network(), nn.Linear(5, 5)),
        "is of another model than this Sequential:\n  3.weight (f32[5,5]) is not there\n"
        "  3.bias (f32[5]) is not there" + ALIKE,
    ),
    "fewer layers": (
        lambda path: written(path, lambda r: r["layers"].pop("2") and None),
        lambda: network()[:1],
        "is of another model than this Sequential:\n  2.weight_scale (f32[5]) is there alone\n"
        "  2.bias (f32[5]) is there alone\n  2.weight_q (i8[5,24]) is there alone" + ALIKE,
    ),
    "quite another model": (
        lambda path: written(path, lambda r: r.update(layers={})),
        lambda: nn.LSTM(4, 4, num_layers=3), "\n  and 10 more" + ALIKE,
    ),
    "two values of one tensor": (
        of_two_values, Text,
        "is of another model than this Text:\n  two values: table.weight and out.weight are one "
        "tensor of the model" + ALIKE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_is_refused_leaves_the_model_as_it_was(what: str, tmp_path: Path) -> None:
    write, make, text = BAD[what]
    path, model = write(tmp_path / "model.safetensors"), make()
    before = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    shape = str(model)
    with pytest.raises(CheckpointError) as caught:
        load(model, path)
    assert str(path) in str(caught.value) and text in str(caught.value)
    after = model.state_dict()
    assert str(model) == shape and list(after) == list(before)
    assert all((after[name].numpy() == before[name]).all() for name in before)


def test_what_is_given(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(ArgumentTypeError, match="dict is no module"):
        save({}, path)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        load(network(), path)
    save(quantize(network()), path)
    with pytest.raises(ArgumentTypeError, match="str is no module"):
        load(str(path), path)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="layer '0' is quantized already"):
        load(quantize(network()), path)
