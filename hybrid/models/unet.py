"""A U-Net: every pixel is told from what is near it and from what is far away.

O. Ronneberger, P. Fischer, T. Brox, "U-Net: Convolutional Networks for Biomedical Image
Segmentation", 2015; smaller, with batch normalisation, and padded so that sizes stay.
"""

from __future__ import annotations

from itertools import pairwise

import hybrid as hy
from hybrid.eager.tensor import Tensor
from hybrid.errors import ShapeError
from hybrid.nn import (
    BatchNorm2d,
    Conv2d,
    ConvTranspose2d,
    Module,
    ModuleList,
    ReLU,
    Sequential,
    functional,
)


def double_convolution(entering: int, channels: int) -> Sequential:
    """Two convolutions, each normalised and rectified."""
    return Sequential(
        Conv2d(entering, channels, 3, padding=1, bias=False),
        BatchNorm2d(channels),
        ReLU(),
        Conv2d(channels, channels, 3, padding=1, bias=False),
        BatchNorm2d(channels),
        ReLU(),
    )


class UNet(Module):
    """Images [batch, channels, height, width] -> logits of the mask [batch, 1, height, width].

    ``widths`` are the channels at each size of the image, the whole one first; height and width
    are divided by 2 once for each but the last.
    """

    def __init__(self, channels: int = 1, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        self.widths = widths
        self.down = ModuleList(
            [double_convolution(*pair) for pair in pairwise((channels, *widths))]
        )
        steps = [(b, a) for a, b in pairwise(widths)][::-1]
        self.rise = ModuleList([ConvTranspose2d(a, b, 2, stride=2) for a, b in steps])
        self.up = ModuleList([double_convolution(2 * b, b) for _, b in steps])
        self.head = Conv2d(widths[0], 1, 1)

    def forward(self, images: Tensor) -> Tensor:
        parts = 2 ** (len(self.widths) - 1)
        if images.shape[2] % parts or images.shape[3] % parts:
            raise ShapeError(
                f"UNet cannot take {images.type}",
                why=f"With {len(self.widths)} widths, height and width must be multiples of "
                f"{parts}.",
                fix="pad the images",
            )
        x, seen = images, []
        for depth, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if depth else x)
            seen.append(x)
        for rise, up, beside in zip(self.rise, self.up, seen[-2::-1], strict=True):
            x = up(hy.concat([beside, rise(x)], axis=1))
        return self.head(x)
