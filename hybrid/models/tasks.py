"""What there is to learn: data, a loss for training, and a score that tells how well it went."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import hybrid as hy
from hybrid.eager.tensor import Tensor
from hybrid.models import data
from hybrid.models.autoencoder import negative_bound
from hybrid.models.data import Data
from hybrid.nn import Module, functional


@dataclass(frozen=True)
class Task:
    """``loss(model, *batch)`` is to fall; ``score(model, *batch)`` is a number for each sample.

    The mean of the scores is called ``metric``, and written as ``form`` formats it.
    """

    data: str
    load: Callable[[], Data]
    loss: Callable[..., Tensor]
    score: Callable[..., Tensor]
    metric: str
    form: str
    more_is_better: bool

    def reached(self, score: float, goal: float) -> bool:
        """Whether ``score`` is as good as ``goal``."""
        return score >= goal if self.more_is_better else score <= goal


# Digits told apart -------------------------------------------------------------------------------


def class_loss(model: Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the classes."""
    return functional.cross_entropy(model(inputs), labels)


def is_right(model: Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """1 for each sample whose class is found, 0 for others."""
    return (hy.argmax(model(inputs), axis=1) == labels).astype(hy.float32)


def telling_digits(words: str, load: Callable[[], Data]) -> Task:
    """Digits as ``load`` shows them: which is it?"""
    return Task(
        data=words,
        load=load,
        loss=class_loss,
        score=is_right,
        metric="accuracy",
        form="{:.1%}",
        more_is_better=True,
    )


# Digits found in noise ---------------------------------------------------------------------------


def mask_loss(model: Module, images: Tensor, masks: Tensor) -> Tensor:
    """Cross-entropy of the pixels, each in the mask or not."""
    return functional.binary_cross_entropy_with_logits(model(images), masks)


def overlap(model: Module, images: Tensor, masks: Tensor) -> Tensor:
    """Pixels in both masks by pixels in either (Jaccard's index), for each image."""
    found, true = model(images) > 0, masks > 0.5
    both, either = (
        hy.sum(pixels.astype(hy.float32), axis=(1, 2, 3)) for pixels in (found & true, found | true)
    )
    return both / either


# Digits described, text continued ----------------------------------------------------------------


def description_loss(model: Module, images: Tensor) -> Tensor:
    """The mean of ``negative_bound``."""
    return nats(model, images).mean()


def nats(model: Module, images: Tensor) -> Tensor:
    """``negative_bound`` of each image, whose pixels were counted."""
    return negative_bound(images, *model(images), counted=data.COUNTED)


def next_loss(model: Module, tokens: Tensor, following: Tensor) -> Tensor:
    """Cross-entropy of the next token, at every place."""
    logits = model(tokens)
    return functional.cross_entropy(logits.reshape((-1, logits.shape[2])), following.reshape(-1))


def bits(model: Module, tokens: Tensor, following: Tensor) -> Tensor:
    """Bits that a token needs, a mean for each text."""
    logits = model(tokens)
    losses = functional.cross_entropy(
        logits.reshape((-1, logits.shape[2])), following.reshape(-1), reduction="none"
    )
    return losses.reshape(following.shape).mean(axis=1) / math.log(2)


SMALL_DIGITS = telling_digits("digits, 16x16", lambda: data.digit_images(16))
LARGE_DIGITS = telling_digits("digits, 32x32", lambda: data.digit_images(32))
ROWS = telling_digits("digits, row by row", data.digit_rows)
HIDDEN_DIGITS = Task(
    data="digits in noise, 32x32",
    load=data.hidden_digits,
    loss=mask_loss,
    score=overlap,
    metric="overlap",
    form="{:.1%}",
    more_is_better=True,
)
PIXELS = Task(
    data="digits, 8x8, unlabelled",
    load=data.digit_pixels,
    loss=description_loss,
    score=nats,
    metric="nats an image",
    form="{:.1f}",
    more_is_better=False,
)
DOCUMENTATION = Task(
    data="Python's documentation",
    load=data.documentation,
    loss=next_loss,
    score=bits,
    metric="bits a character",
    form="{:.2f}",
    more_is_better=False,
)
