"""ResNets for small images: blocks that learn what to add to what they are given.

K. He, X. Zhang, S. Ren, J. Sun, "Deep Residual Learning for Image Recognition", 2015, section 4.2:
three groups of blocks with 16, 32 and 64 channels, and shortcuts without parameters (option A).
With n blocks in a group there are 6 n + 2 layers with weights: 20 of them for n = 3.
"""

from __future__ import annotations

from hybrid.eager.tensor import Tensor
from hybrid.nn import BatchNorm2d, Conv2d, Linear, Module, Sequential, functional, init


class Block(Module):
    """Two convolutions beside a shortcut; ``stride`` 2 halves the image."""

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        self.conv1 = Conv2d(entering, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d(channels)
        self.conv2 = Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(channels)
        self.stride, self.new_channels = stride, channels - entering

    def shortcut(self, x: Tensor) -> Tensor:
        """Every ``stride``-th pixel, the new channels zero: half of them before, half after."""
        if self.stride == 1 and not self.new_channels:
            return x
        before = self.new_channels // 2
        x = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(x, (0, 0, 0, 0, before, self.new_channels - before))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(Module):
    """Images [batch, channels, height, width] -> logits [batch, classes]."""

    def __init__(self, blocks: int = 3, classes: int = 10, channels: int = 1) -> None:
        self.conv1 = Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = BatchNorm2d(16)
        self.layer1 = self._group(blocks, 16, 16, stride=1)
        self.layer2 = self._group(blocks, 16, 32, stride=2)
        self.layer3 = self._group(blocks, 32, 64, stride=2)
        self.linear = Linear(64, classes)
        for module in self.modules():
            if isinstance(module, (Conv2d, Linear)):
                init.kaiming_normal_(module.weight)

    @staticmethod
    def _group(blocks: int, entering: int, channels: int, stride: int) -> Sequential:
        rest = [Block(channels, channels, 1) for _ in range(blocks - 1)]
        return Sequential(Block(entering, channels, stride), *rest)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(images)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean(axis=(2, 3)))
