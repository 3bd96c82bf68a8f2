"""MLP-Mixer: perceptrons across the patches of an image take turns with ones across channels.

I. Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021.
"""

from __future__ import annotations

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.nn import Conv2d, LayerNorm, Linear, Module, Sequential, functional


class Perceptron(Module):
    """Two layers with GELU between them, along the last axis."""

    def __init__(self, size: int, hidden: int) -> None:
        self.fc1 = Linear(size, hidden)
        self.fc2 = Linear(hidden, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(x)))


class MixerBlock(Module):
    """[batch, patches, channels]: mixed along the patches, then along the channels."""

    def __init__(self, patches: int, channels: int, patch_hidden: int, hidden: int) -> None:
        self.norm1 = LayerNorm(channels)
        self.mlp_tokens = Perceptron(patches, patch_hidden)
        self.norm2 = LayerNorm(channels)
        self.mlp_channels = Perceptron(channels, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mlp_tokens(self.norm1(x).mT).mT
        return x + self.mlp_channels(self.norm2(x))


class Mixer(Module):
    """Images [batch, channels, size, size], cut into squares of ``patch`` -> logits of classes."""

    def __init__(
        self,
        size: int = 16,
        patch: int = 4,
        width: int = 64,
        depth: int = 3,
        classes: int = 10,
        channels: int = 1,
    ) -> None:
        if size % patch:
            raise ArgumentError(
                f"images of {size} pixels are not cut into patches of {patch}",
                fix="give a patch that divides the size",
            )
        self.stem = Conv2d(channels, width, patch, stride=patch)
        patches = (size // patch) ** 2
        self.blocks = Sequential(
            *[MixerBlock(patches, width, 2 * patches, 2 * width) for _ in range(depth)]
        )
        self.norm = LayerNorm(width)
        self.head = Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)  # [batch, width, rows, columns of patches]
        x = x.reshape((x.shape[0], x.shape[1], -1)).mT
        return self.head(self.norm(self.blocks(x)).mean(axis=1))
