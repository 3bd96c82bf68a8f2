"""Smaller models: prune, fine-tune, quantize with calibration, and take the bits everywhere."""

# %% A trained network usually holds more than it needs: channels that do little, and 32 bits for
# numbers of which 8 would do. `hy.compress` takes both away. What it gives is an ordinary module of
# ordinary tensors: it runs eagerly and hybridized, to the same bits, and goes into files.
import copy
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.data import DataLoader, TensorDataset
from hybrid.data.digits import load
from hybrid.train import Model

folder = Path(tempfile.mkdtemp())
digits = load()
training = TensorDataset(digits.train_images.reshape(-1, 1, 8, 8), digits.train_labels)
held_out = TensorDataset(digits.test_images.reshape(-1, 1, 8, 8), digits.test_labels)
test = DataLoader(held_out, batch_size=120)
x = hy.asarray(digits.test_images[:32].reshape(-1, 1, 8, 8))


def made() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip


def train(model: nn.Module, epochs: int, lr: float) -> float:
    """The share of the held-out digits that is right after so many epochs."""
    optimizer = hy.optim.Adam(model.parameters(), lr=lr)
    loader = DataLoader(training, batch_size=64, shuffle=True, generator=0)
    whole = Model(model, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"])
    whole.train(epochs, loader)
    return whole.eval(test)["accuracy"]


hy.random.seed(0)
model = made()
right = train(model, 4, 5e-3)
model.eval()
print(f"floats: {right:.1%} right")
assert right > 0.93

# %% **Prune.** Masks hide what counts least: here half of the channels of each layer. Which places
# leave together (a filter, its norm, what the next layer reads of it) is read from the graph; what
# cannot leave is named with the line. `remove` makes it final: the network is smaller.
small = copy.deepcopy(model)
pruning = hy.compress.prune(small, 0.5, structure="channel", scope="layer", example=x)
print(f"{pruning.sparsity():.0%} of the weights are hidden")
for row in pruning.refused:
    print(f"  stays: {row}")
small = hy.compress.remove(small, x)
print(small)
assert [small[0].out_channels, small[4].out_channels, small[7].out_features] == [8, 16, 32]

# %% **Fine-tune.** It learns again what it lost.
tuned = train(small, 3, 3e-3)
small.eval()
print(f"half of the channels: {tuned:.1%} right")
assert tuned > right - 0.03

# %% **Quantize.** "static" chooses, by data, the range that the bytes of what goes into each layer
# stand for; `calibration` says how. Batch norms go into the layers before them. Without data there
# is "dynamic", where each row has a scale of its own. Layers named in `skip` stay in floats, and
# `sensitivity` tells which lose most.
print(hy.compress.sensitivity(small, test))
calibrating = [images for images, _ in DataLoader(training, batch_size=128)]
tiny = hy.compress.quantize(small, "static", data=calibrating, calibration="mse")
print(tiny)
print(tiny.state_dict()["0.weight_q"].type, tiny.state_dict()["0.input_scale"])

# %% **What it gains, and what it costs.** `report` runs both on the same data. Whatever computes in
# floats with weights is named, so nothing is left out silently.
report = hy.compress.report(model, tiny, test)
print(report)
assert report.bytes.ratio < 0.15 and report.metric.after > right - 0.03 and not report.left

# %% **Save and load.** The file says how each layer was made, and `load` makes it again of a model
# of floats whose numbers do not matter.
want = tiny(x).numpy()
hy.compress.save(tiny, folder / "tiny.safetensors")
loaded = hy.compress.load(made().eval(), folder / "tiny.safetensors")
assert loaded(x).numpy().tobytes() == want.tobytes()
print(f"{(folder / 'tiny.safetensors').stat().st_size:,} bytes")

# %% **Hybridize.** Integers are in the graph, so a plan has the bits of eager code, whatever fuses.
loaded.hybridize()
assert loaded(x).numpy().tobytes() == want.tobytes()

# %% **A program** holds the same bytes, and C runs it without Python.
hy.export({"predict": (loaded, x)}, folder / "tiny.hyb")
np.save(folder / "x.npy", x.numpy())
hybrid_run = Path(hy.lib_dir()).parent / "bin" / "hybrid-run"
words = [hybrid_run, "tiny.hyb", "predict", "--input", "x.npy", "--output", "scores.npy"]
done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert np.load(folder / "scores.npy").tobytes() == want.tobytes()


# %% **ONNX.** Products are those of integers there, too, so any runtime gives our very bits. For
# runtimes that rather make integers of floats between QuantizeLinear and DequantizeLinear there is
# `format="qdq"`: nearly the same numbers.
def in_onnxruntime(file: Path) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


if find_spec("onnx") is None or find_spec("onnxruntime") is None:
    print("onnx and onnxruntime are not installed: no model of ONNX")
else:
    hy.onnx.export(loaded, folder / "tiny.onnx", x)
    assert in_onnxruntime(folder / "tiny.onnx").tobytes() == want.tobytes()
    hy.onnx.export(loaded, folder / "qdq.onnx", x, format="qdq")
    away = np.abs(in_onnxruntime(folder / "qdq.onnx") - want).max() / np.abs(want).max()
    print(f"QDQ: {away:.2%} of the largest result away at most")
    assert away < 0.02

# %% **Fewer bits** need training with the rounding in view: `prepare_qat`, train, `convert`. What
# is converted has the bits of the prepared model in `eval()`.
rounded = hy.compress.report(small, hy.compress.quantize(small, bits=2), test).metric.after
prepared = hy.compress.prepare_qat(small, bits=2, activation_bits=4)
aware = train(prepared, 4, 3e-3)
converted = hy.compress.convert(prepared)
print(f"2 bits: {rounded:.1%} right when rounded, {aware:.1%} when trained")
assert aware > rounded and aware > right - 0.08
assert converted(x).numpy().tobytes() == prepared.eval()(x).numpy().tobytes()

# %% Without writing a line: `hybrid compress lenet --prune 0.5 --structure channel --tune 5 --int8
# --method static -o small.safetensors` trains, prunes, fine-tunes, quantizes, saves, and prints
# the same report. `hybrid bench compress` shows how far several models may be taken.
