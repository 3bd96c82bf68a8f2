"""LeNet-5: the convolutional network that read cheques.

Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-Based Learning Applied to Document
Recognition", 1998, with its tanh and its means as pooling; every map of the second convolution
sees all of the first, and classes are told by logits.
"""

from __future__ import annotations

import hybrid as hy
from hybrid.eager.tensor import Tensor
from hybrid.nn import Conv2d, Linear, Module, functional


class LeNet(Module):
    """Images [batch, channels, 32, 32] -> logits [batch, classes]."""

    def __init__(self, classes: int = 10, channels: int = 1) -> None:
        self.conv1 = Conv2d(channels, 6, 5)
        self.conv2 = Conv2d(6, 16, 5)
        self.fc1 = Linear(16 * 5 * 5, 120)
        self.fc2 = Linear(120, 84)
        self.fc3 = Linear(84, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.avg_pool2d(hy.tanh(self.conv1(images)), 2)
        x = functional.avg_pool2d(hy.tanh(self.conv2(x)), 2)
        x = x.reshape((x.shape[0], -1))
        return self.fc3(hy.tanh(self.fc2(hy.tanh(self.fc1(x)))))
