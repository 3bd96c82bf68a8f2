"""What the workloads compute with: the same numbers in every process, drawn by NumPy from seeds.

Parameters have PyTorch's names and layouts; an adapter lays them out as its framework likes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

Arrays = dict[str, np.ndarray]
SMALL = 1e-36  # float32 keeps its precision down to 1e-38: this takes the most iterations
STEP = 0.1
ITERATIONS = 820  # of ``newton``, give or take one
D2L, TINY, MLP = (512, 256, 128, 2), (16, 32, 1), (784, 512, 256, 10)


@dataclass(frozen=True)
class Problem:
    """Inputs in the order of the arguments, the parameters, and what else a program must know."""

    inputs: tuple[np.ndarray, ...]
    parameters: Arrays = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    path: str = ""  # of a file that says what is computed

    def laid_out(self) -> Arrays:
        """Parameters with weights as [entering, leaving] and [height, width, entering, leaving].

        Tables of vectors stay as they are, and so do the gates of an LSTM.
        """
        found = {}
        for name, values in self.parameters.items():
            if values.ndim == 4:
                values = values.transpose(2, 3, 1, 0)
            elif values.ndim == 2 and not name.startswith(("wte", "wpe", "weight_")):
                values = values.T
            found[name] = values
        return found


def is_trained(name: str) -> bool:
    """Whether the parameter is trained: not what a batch norm keeps of the batches it has seen."""
    return not name.endswith(("running_mean", "running_var", "num_batches_tracked"))


def normal(draw: np.random.RandomState, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (draw.standard_normal(shape) * scale).astype(np.float32)


def vectors(size: int, count: int = 1) -> Problem:
    """``count`` vectors of normal numbers."""
    draw = np.random.RandomState(0)
    return Problem(tuple(normal(draw, size) for _ in range(count)))


def matrices(rows: int, inner: int, columns: int) -> Problem:
    """The operands of a product [rows, inner] @ [inner, columns]."""
    draw = np.random.RandomState(0)
    return Problem((normal(draw, rows, inner), normal(draw, inner, columns)))


def layer(count: int, entering: int, leaving: int) -> Problem:
    """Rows for a linear layer without a bias, and its weight."""
    draw = np.random.RandomState(0)
    weight = {"weight": normal(draw, leaving, entering, scale=1 / math.sqrt(entering))}
    return Problem((normal(draw, count, entering),), weight)


def rows(count: int, width: int) -> Problem:
    """A matrix, and a weight and a bias for its rows."""
    draw = np.random.RandomState(0)
    weight = {"weight": 1 + normal(draw, width, scale=0.1), "bias": normal(draw, width)}
    return Problem((normal(draw, count, width),), weight)


def newton() -> Problem:
    """64 numbers that some 800 steps ``x - 0.1 sin(x)`` make smaller than ``SMALL``."""
    draw = np.random.RandomState(0)
    signs = draw.uniform(1, 3, 64) * draw.choice([-1, 1], 64)
    return Problem((signs.astype(np.float32),))


def linear(draw: np.random.RandomState, name: str, entering: int, leaving: int) -> Arrays:
    """A layer's weight and bias, of the size that keeps values alike behind a ReLU."""
    return {
        f"{name}.weight": normal(draw, leaving, entering, scale=math.sqrt(2 / entering)),
        f"{name}.bias": normal(draw, leaving, scale=0.1),
    }


def perceptron(sizes: Sequence[int]) -> Arrays:
    """Linear layers with ReLU between them: those of a Sequential, numbers 0, 2, 4 and so on."""
    draw = np.random.RandomState(1)
    found: Arrays = {}
    for layer, (entering, leaving) in enumerate(pairwise(sizes)):
        found |= linear(draw, str(2 * layer), entering, leaving)
    return found


def d2l_row() -> Problem:
    return Problem((normal(np.random.RandomState(0), 1, D2L[0]),), perceptron(D2L), D2L)


def regression(steps: int = 0, batch: int = 32) -> Problem:
    """Batches for a perceptron of sizes ``TINY``; with ``steps``, a stack of so many."""
    draw, lead = np.random.RandomState(0), (steps,) if steps else ()
    x, y = normal(draw, *lead, batch, TINY[0]), normal(draw, *lead, batch, TINY[-1])
    return Problem((x, y), perceptron(TINY), TINY)


def classes(steps: int = 0, batch: int = 128) -> Problem:
    """Batches for a perceptron of sizes ``MLP``; with ``steps``, a stack of so many."""
    draw, lead = np.random.RandomState(0), (steps,) if steps else ()
    x, y = normal(draw, *lead, batch, MLP[0]), draw.randint(0, MLP[-1], (*lead, batch))
    return Problem((x, y.astype(np.int64)), perceptron(MLP), MLP)


def convolution(
    batch: int, entering: int, side: int, leaving: int, kernel: int, stride: int
) -> Problem:
    """An image and the weight of a convolution without a bias, padded by half its kernel."""
    draw = np.random.RandomState(0)
    weight = normal(draw, leaving, entering, kernel, kernel, scale=_spread(entering, kernel))
    inputs = (normal(draw, batch, entering, side, side),)
    return Problem(inputs, {"weight": weight}, (stride, kernel // 2))


def _spread(entering: int, kernel: int) -> float:
    return math.sqrt(2 / (entering * kernel * kernel))


def heads(batch: int, count: int, length: int, width: int) -> Problem:
    """Query, key and value of causal attention, [batch, heads, length, width] each."""
    draw = np.random.RandomState(0)
    return Problem(tuple(normal(draw, batch, count, length, width) for _ in range(3)))


def lenet() -> Problem:
    """64 images of 28 x 28 and their classes, and the parameters of a LeNet with ReLU."""
    draw = np.random.RandomState(0)
    inputs = normal(draw, 64, 1, 28, 28), draw.randint(0, 10, 64).astype(np.int64)
    parameters = {
        "conv1.weight": normal(draw, 6, 1, 5, 5, scale=_spread(1, 5)),
        "conv1.bias": normal(draw, 6, scale=0.1),
        "conv2.weight": normal(draw, 16, 6, 5, 5, scale=_spread(6, 5)),
        "conv2.bias": normal(draw, 16, scale=0.1),
    }
    for name, entering, leaving in (("fc1", 400, 120), ("fc2", 120, 84), ("fc3", 84, 10)):
        parameters |= linear(draw, name, entering, leaving)
    return Problem(inputs, parameters)


# The groups of blocks of a residual network: (channels, blocks, stride of the first one).
RESNET18 = ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2))
RESNET20 = ((16, 3, 1), (32, 3, 2), (64, 3, 2))


def blocks(groups: Sequence[tuple[int, int, int]]) -> list[tuple[str, int, int, int]]:
    """(name, entering, leaving, stride) of each block; it projects what enters where they tell."""
    found, entering = [], groups[0][0]
    for group, (channels, count, stride) in enumerate(groups, 1):
        for block in range(count):
            found.append((f"layer{group}.{block}", entering, channels, 1 if block else stride))
            entering = channels
    return found


def projects(entering: int, leaving: int, stride: int) -> bool:
    """Whether a block's shortcut is a convolution of its own."""
    return stride != 1 or entering != leaving


def residual(groups: Sequence[tuple[int, int, int]], stem: int, out: int, *, used: bool) -> Arrays:
    """Parameters of a ResNet with a first kernel of ``stem``; ``used``: its statistics are not
    those of a new one."""
    draw = np.random.RandomState(1)
    found: Arrays = {}

    def layer(conv: str, norm: str, entering: int, leaving: int, kernel: int) -> None:
        shape = leaving, entering, kernel, kernel
        found[f"{conv}.weight"] = normal(draw, *shape, scale=_spread(entering, kernel))
        found[f"{norm}.weight"] = 1 + normal(draw, leaving, scale=0.1)
        found[f"{norm}.bias"] = normal(draw, leaving, scale=0.1)
        mean, var = normal(draw, leaving, scale=0.1), draw.uniform(0.8, 1.2, leaving)
        found[f"{norm}.running_mean"] = mean if used else np.zeros_like(mean)
        found[f"{norm}.running_var"] = var.astype(np.float32) if used else np.ones_like(mean)
        found[f"{norm}.num_batches_tracked"] = np.zeros((), np.int64)

    layer("conv1", "bn1", 3, groups[0][0], stem)
    for name, entering, leaving, stride in blocks(groups):
        layer(f"{name}.conv1", f"{name}.bn1", entering, leaving, 3)
        layer(f"{name}.conv2", f"{name}.bn2", leaving, leaving, 3)
        if projects(entering, leaving, stride):
            layer(f"{name}.downsample.0", f"{name}.downsample.1", entering, leaving, 1)
    return found | linear(draw, "fc", groups[-1][0], out)


def photographs(batch: int) -> Problem:
    """Images of 224 x 224 for a ResNet-18 that has been trained."""
    inputs = (normal(np.random.RandomState(0), batch, 3, 224, 224),)
    return Problem(inputs, residual(RESNET18, 7, 1000, used=True))


def thumbnails() -> Problem:
    """32 images of 32 x 32 and their classes, for a new ResNet-20."""
    draw = np.random.RandomState(0)
    inputs = normal(draw, 32, 3, 32, 32), draw.randint(0, 10, 32).astype(np.int64)
    return Problem(inputs, residual(RESNET20, 3, 10, used=False))


LSTM = (50, 32, 64, 128)  # steps, batch, features, hidden


def sequence() -> Problem:
    """A sequence [steps, batch, features] and the parameters of an LSTM."""
    steps, batch, features, hidden = LSTM
    draw = np.random.RandomState(0)
    bound = hidden**-0.5

    def uniform(*shape: int) -> np.ndarray:
        return draw.uniform(-bound, bound, shape).astype(np.float32)

    parameters = {
        "weight_ih_l0": uniform(4 * hidden, features),
        "weight_hh_l0": uniform(4 * hidden, hidden),
        "bias_ih_l0": uniform(4 * hidden),
        "bias_hh_l0": uniform(4 * hidden),
    }
    return Problem((normal(draw, steps, batch, features),), parameters, LSTM)


@dataclass(frozen=True)
class GPTSizes:
    """The sizes of a GPT."""

    tokens: int = 512
    length: int = 128
    width: int = 256
    heads: int = 4
    depth: int = 4


GPT = GPTSizes()


@dataclass(frozen=True)
class EncoderSizes:
    """The sizes of an encoder of sentences, those of MiniLM."""

    length: int = 128
    width: int = 384
    heads: int = 12
    widen: int = 4
    depth: int = 6


ENCODER = EncoderSizes()


def encoder_layer(draw: np.random.RandomState, width: int, widen: int, prefix: str = "") -> Arrays:
    """An encoder layer of a transformer; names of its parameters begin with ``prefix``."""
    found = {}
    for name, entering, leaving in (
        ("self_attn.in_proj", width, 3 * width),
        ("self_attn.out_proj", width, width),
        ("linear1", width, widen * width),
        ("linear2", widen * width, width),
    ):
        found |= linear(draw, name, entering, leaving)
    for name in ("norm1", "norm2"):
        found[f"{name}.weight"] = 1 + normal(draw, width, scale=0.1)
        found[f"{name}.bias"] = normal(draw, width, scale=0.1)
    for part in ("weight", "bias"):  # of three matrices in one
        found[f"self_attn.in_proj_{part}"] = found.pop(f"self_attn.in_proj.{part}")
    return {prefix + name: values for name, values in found.items()}


def embedded(batch: int) -> Problem:
    """Embedded sentences [batch, length, width], and the layers of an encoder of ``ENCODER``."""
    draw, found = np.random.RandomState(0), {}
    for layer in range(ENCODER.depth):
        found |= encoder_layer(draw, ENCODER.width, ENCODER.widen, f"layers.{layer}.")
    return Problem((normal(draw, batch, ENCODER.length, ENCODER.width),), found)


LENGTHS = tuple(int(n) for n in np.random.RandomState(5).permutation(200) + 5)
HEADS, WIDEN = 4, 2


def sentences(width: int) -> Problem:
    """Sentences [1, length, width] of all ``LENGTHS``, and an encoder layer of a transformer."""
    draw = np.random.RandomState(0)
    found = encoder_layer(draw, width, WIDEN)
    return Problem(tuple(normal(draw, 1, n, width) for n in LENGTHS), found, (width,))


def text(batch: int, *, targets: bool) -> Problem:
    """Tokens [batch, length], with ``targets`` those after each, and a GPT's parameters."""
    draw = np.random.RandomState(0)
    shape = batch, GPT.length
    inputs = tuple(draw.randint(0, GPT.tokens, shape).astype(np.int64) for _ in range(1 + targets))
    width = GPT.width
    found = {"wte.weight": normal(draw, GPT.tokens, width, scale=0.02)}
    found["wpe.weight"] = normal(draw, GPT.length, width, scale=0.02)

    def norm(name: str) -> None:
        found[f"{name}.weight"] = 1 + normal(draw, width, scale=0.1)
        found[f"{name}.bias"] = normal(draw, width, scale=0.1)

    def layer(name: str, entering: int, leaving: int) -> None:
        found[f"{name}.weight"] = normal(draw, leaving, entering, scale=0.05)
        found[f"{name}.bias"] = normal(draw, leaving, scale=0.02)

    for block in range(GPT.depth):
        norm(f"h.{block}.ln_1")
        layer(f"h.{block}.attn.c_attn", width, 3 * width)
        layer(f"h.{block}.attn.c_proj", width, width)
        norm(f"h.{block}.ln_2")
        layer(f"h.{block}.mlp.c_fc", width, 4 * width)
        layer(f"h.{block}.mlp.c_proj", 4 * width, width)
    norm("ln_f")
    return Problem(inputs, found)


# Models in files ----------------------------------------------------------------------------------


def sizes_in(label: str) -> tuple[str, dict[str, int]]:
    """``m.onnx@batch=8,length=64`` is a path, and the sizes of axes that the file names."""
    path, at, text = label.rpartition("@")
    if not at:
        return label, {}
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and size.isdigit() for name, _, size in pairs):
        raise ValueError(f"{text!r} says no sizes: write FILE@batch=8,length=64")
    return path, {name: int(size) for name, _, size in pairs}


def model_in_file(label: str) -> Problem:
    """Inputs for the model of ONNX in a file; axes whose sizes nothing says have one element.

    Floats are normal numbers, integers 0 or 1: they may be tokens, or a mask.
    """
    import onnx

    path, sizes = sizes_in(label)
    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    draw, inputs = np.random.RandomState(0), []
    for value in graph.input:
        if value.name in weights:
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        dims = value.type.tensor_type.shape.dim
        shape = [d.dim_value or sizes.get(d.dim_param, 1) for d in dims]
        floats = np.issubdtype(kind, np.floating)
        array = draw.standard_normal(shape) if floats else draw.randint(0, 2, shape)
        inputs.append(np.asarray(array).astype(kind))
    return Problem(tuple(inputs), path=path)
