"""ONNX, in and out: a model of another framework as a module that trains, and ours as a file."""

# %% Most frameworks write ONNX, a file of nodes and weights. `hy.onnx.load` makes a module of it.
# It needs the package onnx, `pip install "hybrid[onnx]"`; hybrid itself does not.
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid.data.digits import load

if find_spec("onnx") is None:
    print("not run: it needs the package onnx")
    sys.exit()

import onnx
from onnx import TensorProto, helper, numpy_helper

from hybrid.errors import OnnxError

# %% Here is a file as another framework would have written it: an MLP for the digits, whose weights
# have names. The batch is called "n": a size that is not known.
rng = np.random.default_rng(0)
weights = {
    "layers.0.weight": rng.normal(0, 0.1, (64, 32)).astype(np.float32),
    "layers.0.bias": np.zeros(32, np.float32),
    "layers.1.weight": rng.normal(0, 0.1, (32, 10)).astype(np.float32),
    "layers.1.bias": np.zeros(10, np.float32),
    "flat": np.array([0, -1]),
}
nodes = [
    helper.make_node("Reshape", ["image", "flat"], ["pixels"]),
    helper.make_node("MatMul", ["pixels", "layers.0.weight"], ["product"]),
    helper.make_node("Add", ["product", "layers.0.bias"], ["hidden"]),
    helper.make_node("Relu", ["hidden"], ["active"]),
    helper.make_node("Gemm", ["active", "layers.1.weight", "layers.1.bias"], ["scores"]),
]


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, weights):
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "digits", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


path = Path(tempfile.mkdtemp()) / "digits.onnx"
onnx.save(
    model_of(nodes, [value("image", ["n", 8, 8])], [value("scores", ["n", 10])], weights), path
)

model = hy.onnx.load(path)
assert model(hy.zeros((3, 8, 8))).shape == (3, 10)

# %% What runs is Python, and `source()` shows it: a line for each node, in the words of ONNX where
# it means something of its own, of hybrid where it does not. An op means what the opset of the file
# said it does. The shape (0: as it was, -1: the rest) is a constant of the text.
print(model.source())
assert "active = hy.relu(hidden)" in model.source()
assert "pixels = reshape(image, constant([0, -1]))" in model.source()

# %% Weights that products, sums, convolutions, norms and embeddings use are parameters, under the
# names of the file; other tensors are buffers.
for name, parameter in model.named_parameters():
    print(name, parameter.type)
assert set(model.state_dict()) == set(weights) - {"flat"}

# %% So the model trains, like any other; and the step is hybridized, like any other.
digits = load()
images = hy.asarray(digits.train_images.reshape(-1, 8, 8))
labels = hy.asarray(digits.train_labels)
optimizer = hy.optim.Adam(model.parameters(), lr=5e-3)


@hy.hybridize
def step(images, labels):
    optimizer.zero_grad()
    loss = hy.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss


losses = [step(images, labels).item() for _ in range(60)]
print(f"loss {losses[0]:.3f}, after 60 steps {losses[-1]:.3f}")
assert losses[-1] < losses[0] / 4 and len(step.plans) == 1

# %% Hybridized, the model gives the bits that it gives eagerly, and batches of all sizes share one
# capture once it has met two: `Shape`, `Gather`, `Concat` and the like of sizes are Python here.
few = {n: model(images[:n]).numpy() for n in (2, 5, 9, 30)}
model.hybridize()
assert all(np.array_equal(model(images[:n]).numpy(), found) for n, found in few.items())
assert len(model.plans) == 2

# %% If, Loop and Scan are `if`, `for` and `while` of the text. A capture makes one graph of them,
# whatever the values are, and gradients go through.
body = helper.make_graph(
    [
        helper.make_node("Mul", ["total", "x"], ["next"]),
        helper.make_node("Less", ["next", "limit"], ["on"]),
    ],
    "body",
    [value("i", [], TensorProto.INT64), value("was_on", [], TensorProto.BOOL), value("total", [])],
    [value("on", [], TensorProto.BOOL), value("next", [])],
)
powers = hy.onnx.load(
    model_of(
        [helper.make_node("Loop", ["", "yes", "one"], ["power"], body=body)],
        [value("x", [])],
        [value("power", [])],
        {"yes": np.array(True), "one": np.float32(1), "limit": np.float32(50)},
    )
)
print(powers.source())
for _ in range(2):
    assert powers(hy.asarray(3.0)).item() == 81.0
    assert powers(hy.asarray(2.0)).item() == 64.0
    assert hy.grad(powers)(hy.asarray(3.0)).item() == 4 * 27.0
    powers.hybridize()

# %% A file that cannot be read says so before anything runs: what, in which node, and what is
# allowed. All ops that nothing stands for are listed at once.
nodes = [
    helper.make_node("FusedGelu", ["image"], ["a"], domain="com.example"),
    helper.make_node("StringNormalizer", ["a"], ["scores"]),
]
odd = model_of(nodes, [value("image", None)], [value("scores", None)], {})
try:
    hy.onnx.load(odd)
except OnnxError as error:
    print(error)
    assert "2 ops are unknown: com.example.FusedGelu, StringNormalizer" in str(error)
else:
    raise AssertionError("it has ops that nothing stands for")

# %% Weights may lie beside the file; they are read from regular files in its folder, and from
# nowhere else. No code of a file is run, and no name of one becomes code.
model = onnx.load(path)
onnx.save(
    model, path.with_name("large.onnx"), save_as_external_data=True, location="large.bin",
    size_threshold=0,
)  # fmt: skip
again = hy.onnx.load(path.with_name("large.onnx"))
assert np.array_equal(again.get_parameter("layers.0.weight").numpy(), weights["layers.0.weight"])

# %% The other way: `hy.onnx.export` captures a function or module and writes what it computes. It
# runs nothing; a module is exported as it evaluates, and its weights have their names. Axes that
# vary have names, too. What is in a file, `hy.onnx.summary` tells, and `hybrid onnx inspect`.
network = hy.nn.Sequential(
    hy.nn.Flatten(), hy.nn.Linear(64, 32), hy.nn.GELU(), hy.nn.Linear(32, 10)
)  # fmt: skip
file = path.with_name("network.onnx")
hy.onnx.export(network, file, images[:2], dynamic_axes={0: {0: "batch"}}, opset=20)
for title, rows in hy.onnx.summary(file).items():
    print(title, *rows, sep="\n  ")
assert [node.op_type for node in onnx.load(file).graph.node] == ["Reshape", "Gemm", "Gelu", "Gemm"]
assert {tensor.name for tensor in onnx.load(file).graph.initializer} >= {"1.weight", "3.bias"}


# %% It computes the same, by whoever reads it; here that is hybrid again, and ONNX Runtime if it is
# there. Where ONNX leaves something open (how integers divide, what a cast of NaN is, which of
# equal indices wins), the file says what hybrid means.
def in_onnxruntime(file, *arrays):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file))
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


expected = network(images[:5]).numpy()
assert np.allclose(hy.onnx.load(file)(images[:5]).numpy(), expected, atol=1e-6)
if find_spec("onnxruntime") is not None:
    [found] = in_onnxruntime(file, images[:5].numpy())
    assert np.allclose(found, expected, atol=1e-5)


# %% Control flow goes along: `if` becomes If, loops become Loop or Scan. What a model cannot do is
# left out where nothing depends on it, and a warning says so; else it is an error that names the
# line.
def settled(x):
    turns = hy.asarray(0)
    while hy.max(hy.abs(x)) > 1:
        x = x - 0.5 * hy.tanh(x)
        turns = turns + 1
    return x, turns


file = hy.onnx.export(settled, path.with_name("settled.onnx"), hy.asarray([3.0, -5.0]))
print([node.op_type for node in onnx.load(file).graph.node])
x, turns = hy.onnx.load(file)(hy.asarray([3.0, -5.0]))
assert turns.item() == settled(hy.asarray([3.0, -5.0]))[1].item() > 0


def noisy(x):
    return x + hy.random.normal(size=x.shape)


try:
    hy.onnx.export(noisy, path.with_name("noisy.onnx"), hy.ones(3))
except OnnxError as error:
    print(error)
    assert "random_normal cannot be written in ONNX" in str(error) and error.at is not None
else:
    raise AssertionError("each runtime would draw other numbers")
