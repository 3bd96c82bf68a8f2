"""The example models by name: what each is, what it learns, how, and what it reaches by that.

A row of ``EXAMPLES`` is all that ``hybrid models``, ``hybrid train`` and the tests know of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from hybrid.errors import ArgumentError
from hybrid.models import tasks
from hybrid.models.autoencoder import VariationalAutoencoder
from hybrid.models.data import documentation_tokenizer
from hybrid.models.gpt import GPT, Config
from hybrid.models.lenet import LeNet
from hybrid.models.mixer import Mixer
from hybrid.models.mobilenet import MobileNet
from hybrid.models.resnet import ResNet
from hybrid.models.sequence_classifier import SequenceClassifier
from hybrid.models.tasks import Task
from hybrid.models.unet import UNet
from hybrid.nn import GRU, LSTM, Module, Parameter
from hybrid.optim import Adam, AdamW, Optimizer

MakeOptimizer = Callable[[Iterable[Parameter]], Optimizer]


@dataclass(frozen=True)
class Example:
    """A model with all that it takes to train it; ``reaches`` holds after ``epochs``, seed 0."""

    name: str
    description: str
    make: Callable[[], Module]
    task: Task
    optimizer: MakeOptimizer
    epochs: int
    reaches: float
    batch_size: int = 32


def adam(lr: float) -> MakeOptimizer:
    """Adam with PyTorch's other defaults."""
    return lambda parameters: Adam(parameters, lr=lr)


def adamw(lr: float, **settings: float) -> MakeOptimizer:
    """AdamW with PyTorch's defaults but for ``settings``."""
    return lambda parameters: AdamW(parameters, lr=lr, **settings)


def make_gpt() -> GPT:
    """As many tokens as the documentation's tokenizer has."""
    return GPT(Config(tokens=len(documentation_tokenizer())))


_ROWS = (
    Example(
        name="lenet",
        description="LeNet-5, convolutions and means",
        make=LeNet,
        task=tasks.LARGE_DIGITS,
        optimizer=adam(2e-3),
        epochs=12,
        reaches=0.97,
    ),
    Example(
        name="resnet20",
        description="ResNet-20, residual blocks",
        make=ResNet,
        task=tasks.SMALL_DIGITS,
        optimizer=adam(2e-3),
        epochs=10,
        reaches=0.97,
    ),
    Example(
        name="mobilenet",
        description="MobileNetV2, depthwise convolutions",
        make=MobileNet,
        task=tasks.SMALL_DIGITS,
        optimizer=adam(2e-3),
        epochs=12,
        reaches=0.97,
    ),
    Example(
        name="mixer",
        description="MLP-Mixer, perceptrons on patches",
        make=Mixer,
        task=tasks.SMALL_DIGITS,
        optimizer=adamw(2e-3),
        epochs=15,
        reaches=0.97,
    ),
    Example(
        name="lstm",
        description="LSTM, one step a row",
        make=lambda: SequenceClassifier(LSTM),
        task=tasks.ROWS,
        optimizer=adam(4e-3),
        epochs=25,
        reaches=0.95,
    ),
    Example(
        name="gru",
        description="GRU, one step a row",
        make=lambda: SequenceClassifier(GRU),
        task=tasks.ROWS,
        optimizer=adam(4e-3),
        epochs=25,
        reaches=0.95,
    ),
    Example(
        name="unet",
        description="U-Net, segmentation",
        make=UNet,
        task=tasks.HIDDEN_DIGITS,
        optimizer=adam(4e-3),
        epochs=8,
        reaches=0.75,
    ),
    Example(
        name="vae",
        description="variational autoencoder",
        make=VariationalAutoencoder,
        task=tasks.PIXELS,
        optimizer=adam(2e-3),
        epochs=30,
        reaches=300.0,
    ),
    Example(
        name="gpt",
        description="GPT, character by character",
        make=make_gpt,
        task=tasks.DOCUMENTATION,
        optimizer=adamw(3e-3, weight_decay=0.1),
        epochs=6,
        reaches=2.4,
    ),
)
EXAMPLES = {example.name: example for example in _ROWS}


def find(name: str) -> Example:
    """The example called ``name``; ArgumentError, with the nearest name, when there is none."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    near = get_close_matches(name, EXAMPLES, n=1, cutoff=0.4)
    if near:
        raise ArgumentError(f"there is no model named {name!r}; did you mean {near[0]!r}?")
    raise ArgumentError(f"there is no model named {name!r}", fix="see `hybrid models`")
