"""MobileNetV2 for small images: convolutions of one channel each between ones of one pixel each.

M. Sandler, A. Howard, M. Zhu, A. Zhmoginov, L.-C. Chen, "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", 2018.  A block that does not widen is the depthwise separable convolution of A. Howard
et al., "MobileNets", 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

from hybrid.eager.tensor import Tensor
from hybrid.nn import BatchNorm2d, Conv2d, Dropout, Linear, Module, ReLU6, Sequential


@dataclass(frozen=True)
class Stage:
    """A row of the paper's table 2: ``repeats`` blocks, the first with ``stride``."""

    widening: int
    channels: int
    repeats: int
    stride: int


PAPER = (
    Stage(1, 16, 1, 1),
    Stage(6, 24, 2, 2),
    Stage(6, 32, 3, 2),
    Stage(6, 64, 4, 2),
    Stage(6, 96, 3, 1),
    Stage(6, 160, 3, 2),
    Stage(6, 320, 1, 1),
)
SMALL = (Stage(1, 16, 1, 1), Stage(4, 24, 2, 2), Stage(4, 32, 2, 2))


def convolution(
    entering: int, channels: int, size: int, stride: int = 1, groups: int = 1
) -> Sequential:
    """A convolution that is normalised and cut off at 0 and 6."""
    return Sequential(
        Conv2d(entering, channels, size, stride, padding=size // 2, groups=groups, bias=False),
        BatchNorm2d(channels),
        ReLU6(),
    )


class InvertedResidual(Module):
    """Widen by ``widening``, filter each channel by itself, narrow; added where sizes stay."""

    def __init__(self, entering: int, channels: int, stride: int, widening: int) -> None:
        wide = entering * widening
        self.added = stride == 1 and entering == channels
        self.conv = Sequential(
            *([convolution(entering, wide, 1)] if widening != 1 else []),
            convolution(wide, wide, 3, stride, groups=wide),
            Conv2d(wide, channels, 1, bias=False),
            BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return x + y if self.added else y


class MobileNet(Module):
    """Images [batch, channels, height, width] -> logits [batch, classes].

    ``first`` and ``last`` are the channels before and after the stages; ``stride`` is that of the
    convolution which comes first.
    """

    def __init__(
        self,
        stages: tuple[Stage, ...] = SMALL,
        classes: int = 10,
        channels: int = 1,
        first: int = 16,
        last: int = 128,
        stride: int = 1,
        dropout: float = 0.0,
    ) -> None:
        blocks, entering = [convolution(channels, first, 3, stride)], first
        for stage in stages:
            for number in range(stage.repeats):
                step = stage.stride if number == 0 else 1
                blocks.append(InvertedResidual(entering, stage.channels, step, stage.widening))
                entering = stage.channels
        self.features = Sequential(*blocks, convolution(entering, last, 1))
        self.classifier = Sequential(Dropout(dropout), Linear(last, classes))

    @classmethod
    def of_the_paper(cls, classes: int = 1000) -> MobileNet:
        """The one for photographs of 224 by 224 pixels, with the names of published checkpoints."""
        return cls(PAPER, classes, 3, 32, 1280, stride=2, dropout=0.2)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).mean(axis=(2, 3)))
