"""Convolutions of bytes beside those of float32: products alone, and layers of both methods.

They are those of a ResNet-18 and depthwise ones as in MobileNet, of one image and one thread.
Weights stay the same from call to call.
"""

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.registry import Case, Target, workload
from hybrid.compress import quantize
from hybrid.compress.functional import conv_integer
from hybrid.core.dataclass import dataclass

# Label, channels, filters, size of the image, kernel, stride, groups.
CONVOLUTIONS = (
    ("3x3, 64 at 56x56", 64, 64, 56, 3, 1, 1),
    ("3x3, 128 at 28x28", 128, 128, 28, 3, 1, 1),
    ("3x3, 256 at 14x14", 256, 256, 14, 3, 1, 1),
    ("3x3, 512 at 7x7", 512, 512, 7, 3, 1, 1),
    ("1x1 by 2, 64 to 128 at 56x56", 64, 128, 56, 1, 2, 1),
    ("1x1 by 2, 256 to 512 at 14x14", 256, 512, 14, 1, 2, 1),
    ("1x1, 64 to 256 at 56x56", 64, 256, 56, 1, 1, 1),
    ("depthwise, 64 at 56x56", 64, 64, 56, 3, 1, 64),
    ("depthwise, 512 at 7x7", 512, 512, 7, 3, 1, 512),
)
SLOWEST = Target(1 / 0.95)  # that products of integers may be, beside float32


@dataclass(frozen=True)
class Products:
    """A convolution of bytes by fixed weights."""

    weight: hy.Tensor
    stride: int
    padding: int
    groups: int

    def __call__(self, x: hy.Tensor) -> hy.Tensor:
        return conv_integer(
            x, self.weight, zero=128, stride=self.stride, padding=self.padding, groups=self.groups
        )


@workload("int8_conv", "convolutions of int8 beside those of float32: products, and layers")
def int8_conv() -> list[Case]:
    return [convolution(*geometry) for geometry in CONVOLUTIONS]


def convolution(
    label: str, channels: int, filters: int, size: int, kernel: int, stride: int, groups: int
) -> Case:
    """The case of one geometry, padded so that stride 1 keeps the size."""
    draw = np.random.RandomState(0)
    padding = kernel // 2
    layer = nn.Conv2d(channels, filters, kernel, stride, padding, groups=groups).eval()
    x = hy.asarray(draw.rand(1, channels, size, size).astype(np.float32))
    steps = hy.asarray(draw.randint(0, 256, x.shape).astype(np.uint8))
    layers = {name: quantize(layer, name, data=[x]) for name in ("static", "dynamic")}
    weight = layers["dynamic"].weight_q
    products = Products(weight, stride, padding, groups)
    captured = hy.hybridize(products)
    want = layer(x)
    eager = {name: made(x) for name, made in layers.items()}
    for made in (layer, *layers.values()):
        made.hybridize()

    def check() -> dict[str, str]:
        require_same_bits("products", products(steps), captured(steps))
        for name, made in layers.items():
            require_same_bits(name, eager[name], made(x))
            require_close(name, made(x), want.numpy(), tolerance=0.05)
        return {}

    ways = {
        "float32": lambda: layer(x),
        "products": lambda: captured(steps),
        "static": lambda: layers["static"](x),
        "dynamic": lambda: layers["dynamic"](x),
    }
    return Case(
        label=label,
        ways=ways,
        check=check,
        threads=1,
        targets={"products": (SLOWEST,)},
        clock="cpu",
    )
