"""Layers that rearrange, repeat and pad pixels: Upsample, PixelShuffle, Fold, ReflectionPad ..."""

from __future__ import annotations

from typing import Any, ClassVar

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn import functional
from hybrid.nn.layers.layer import Layer, require_sizes
from hybrid.ops.layers.losses import require_parameter
from hybrid.ops.spatial.interpolation import MODES
from hybrid.ops.spatial.windows import per_axis
from hybrid.ops.support.operand_checks import as_int, require_choice

# Sizes -------------------------------------------------------------------------------------------


class Upsample(Layer):
    """[N, C, ...] stretched to ``size`` or by ``scale_factor``; see ``functional.interpolate``."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        require_choice("mode", mode, MODES)
        if (size is None) == (scale_factor is None):
            raise ArgumentError(
                f"Upsample got size {size!r} and scale_factor {scale_factor!r}",
                fix="give one of the two",
            )
        self.size, self.scale_factor = size, scale_factor
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return ops.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of [N, C, H, W] by repeating pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of [N, C, H, W] by bilinear interpolation that keeps the corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Layer):
    """[*, C * r * r, H, W] as [*, C, H * r, W * r], r = ``upscale_factor`` (Shi et al. 2016)."""

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        require_sizes(1, upscale_factor=upscale_factor)
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return ops.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Layer):
    """The inverse of PixelShuffle: [*, C, H * r, W * r] as [*, C * r * r, H, W]."""

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        require_sizes(1, downscale_factor=downscale_factor)
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return ops.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Layer):
    """The channels of [N, C, ...], dealt out: the first of each of ``groups``, the second ..."""

    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        require_sizes(1, groups=groups)
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return functional.channel_shuffle(input, self.groups)


# Windows -----------------------------------------------------------------------------------------


class Unfold(Layer):
    """The windows of [N, C, H, W], zeros at its edges, as [N, C * KH * KW, windows]."""

    _shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        per_axis("Unfold", "kernel_size", kernel_size, 2, least=1)
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return ops.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Layer):
    """The transpose of Unfold: windows added up in [N, C, *output_size]."""

    _shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        per_axis("Fold", "output_size", output_size, 2, least=1)
        per_axis("Fold", "kernel_size", kernel_size, 2, least=1)
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return ops.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )


# Edges -------------------------------------------------------------------------------------------


class _Pad(Layer):
    """Elements added to the last ``rank`` axes."""

    _shown = ("padding",)
    rank: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: Any) -> None:
        self._set_padding(padding)

    def _set_padding(self, padding: Any) -> None:
        name = type(self).__name__
        widths = padding if isinstance(padding, (tuple, list)) else (padding,) * (2 * self.rank)
        self.padding = tuple([as_int(name, "width", n) for n in widths])
        if len(self.padding) != 2 * self.rank:
            raise ArgumentError(
                f"{name} got padding {padding!r}",
                why="There are two for each axis, beginning with the last one.",
                fix=f"give an int, or a tuple of {2 * self.rank}",
            )

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"{type(self).__name__} cannot take {input.type}",
                why=f"It must have {self.rank + 2} dimensions, or {self.rank + 1} without a batch.",
                fix="change its shape with reshape or expand_dims",
            )
        return functional.pad(input, self.padding, self.mode)


class _ConstantPad(_Pad):
    _shown = ("padding", "value")

    def __init__(self, padding: Any, value: float) -> None:
        require_parameter(type(self).__name__, "value", value)
        self._set_padding(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return functional.pad(input, self.padding, "constant", self.value)


class ConstantPad1d(_ConstantPad):
    """``value`` before and after the last axis: ``padding`` is a number, or (before, after)."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """ConstantPad1d for two axes: (left, right, top, bottom)."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """ConstantPad1d for three axes: (left, right, top, bottom, front, back)."""

    rank = 3


class _ZeroPad(_ConstantPad):
    _shown = ("padding",)

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)


class ZeroPad1d(_ZeroPad):
    """Zeros before and after the last axis."""

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around the last two axes: (left, right, top, bottom)."""

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three axes."""

    rank = 3


class ReflectionPad1d(_Pad):
    """What lies beside the edges of [N, C, L] or [C, L], mirrored at them."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """ReflectionPad1d for two axes."""

    rank, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """ReflectionPad1d for three axes."""

    rank, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The elements at the edges of [N, C, L] or [C, L], repeated."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """ReplicationPad1d for two axes."""

    rank, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """ReplicationPad1d for three axes."""

    rank, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The elements of the other end of [N, C, L] or [C, L]."""

    rank, mode = 1, "circular"


class CircularPad2d(_Pad):
    """CircularPad1d for two axes."""

    rank, mode = 2, "circular"


class CircularPad3d(_Pad):
    """CircularPad1d for three axes."""

    rank, mode = 3, "circular"
