"""Convolutions and their transposes over one, two and three spatial axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.nn import functional, init
from hybrid.nn.layers.layer import new_parameter, require_sizes
from hybrid.nn.modules.expected_input import takes
from hybrid.nn.modules.module import Module
from hybrid.ops.spatial.windows import padding_pairs, per_axis
from hybrid.ops.support.operand_checks import require_choice

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What all convolutions share: sizes for each axis, and parameters."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        name = type(self).__name__
        require_sizes(in_channels=in_channels, out_channels=out_channels)
        require_sizes(1, groups=groups)
        for label, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ArgumentError(
                    f"{name} got {label} {channels} and groups {groups}",
                    why="All groups have as many channels.",
                    fix="give a number of groups that divides both numbers of channels",
                )
        require_choice("padding_mode", padding_mode, _PADDING_MODES)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.padding_mode = padding_mode
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, self.rank, least=1)
        self.stride = per_axis(name, "stride", stride, self.rank, least=1)
        self.dilation = per_axis(name, "dilation", dilation, self.rank, least=1)
        pairs = padding_pairs(name, padding, self.kernel_size, self.stride, self.dilation)
        named = isinstance(padding, str)
        self.padding = padding if named else tuple([before for before, _ in pairs])
        self._widths = tuple([n for pair in reversed(pairs) for n in pair])
        sizes = (out_channels, in_channels // groups)
        if self.transposed:
            sizes = (in_channels, out_channels // groups)
        self.weight = new_parameter(*sizes, *self.kernel_size, dtype=dtype, device=device)
        self.bias = new_parameter(out_channels, dtype=dtype, device=device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: evenly over ±1 / sqrt(inputs of an output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init.uniform_by_fan(self.bias, init.fans(self.weight)[0])

    def extra_repr(self) -> str:
        words = [str(self.in_channels), str(self.out_channels)]
        words += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        none = (0,) * self.rank
        if self.padding != none:
            words.append(f"padding={self.padding!r}")
        if self.dilation != (1,) * self.rank:
            words.append(f"dilation={self.dilation}")
        if self.transposed and self.output_padding != none:
            words.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            words.append(f"groups={self.groups}")
        if self.bias is None:
            words.append("bias=False")
        if self.padding_mode != "zeros":
            words.append(f"padding_mode={self.padding_mode}")
        return ", ".join(words)


class _Direct(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = functional.pad(input, self._widths, mode=self.padding_mode), 0
        conv = _CONV[self.rank]
        return conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@takes("N, in_channels, L | in_channels, L")
class Conv1d(_Direct):
    """Convolution of [N, C, L] with ``weight`` [out, in / groups, K], plus ``bias`` [out].

    ``padding`` is a number of elements at both ends, "same" or "valid"; ``padding_mode`` says what
    they are: "zeros", or elements of the input as in ``functional.pad``.
    """

    rank = 1


@takes("N, in_channels, H, W | in_channels, H, W")
class Conv2d(_Direct):
    """Conv1d over two axes: [N, C, H, W] with ``weight`` [out, in / groups, KH, KW]."""

    rank = 2


@takes("N, in_channels, D, H, W | in_channels, D, H, W")
class Conv3d(_Direct):
    """Conv1d over three axes: [N, C, D, H, W] with ``weight`` [out, in / groups, KD, KH, KW]."""

    rank = 3


class _Transposed(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        if padding_mode != "zeros" or isinstance(padding, str):
            raise ArgumentError(
                f"{name} got padding {padding!r} and padding_mode {padding_mode!r}",
                why="Its padding takes elements of the result away, as many as are given.",
                fix='give numbers, and the padding_mode "zeros"',
            )
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = per_axis(name, "output_padding", output_padding, self.rank, least=0)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """``output_size`` chooses among the sizes whose convolution has that of ``x``."""
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        return _CONV_TRANSPOSE[self.rank](
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )

    def _extra(self, x: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding for a result of ``output_size`` (spatial, or that of all axes)."""
        name, rank = type(self).__name__, self.rank
        given = tuple(output_size) if isinstance(output_size, (tuple, list)) else output_size
        if isinstance(given, tuple) and len(given) == x.ndim:
            given = given[x.ndim - rank :]
        size = per_axis(name, "output_size", given, rank, least=0)
        axes = zip(
            x.shape[x.ndim - rank :],
            self.stride,
            self.padding,
            self.dilation,
            self.kernel_size,
            strict=True,
        )
        least = tuple([(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in axes])
        extra = tuple([n - m for n, m in zip(size, least, strict=True)])
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            most = tuple([m + s - 1 for m, s in zip(least, self.stride, strict=True)])
            raise ArgumentError(
                f"{name} got output_size {size}",
                why=f"Of {x.type} it can make {least} to {most}.",
                fix="give sizes in that range",
            )
        return extra


_CONV_TRANSPOSE = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


@takes("N, in_channels, L | in_channels, L")
class ConvTranspose1d(_Transposed):
    """The gradient of Conv1d by its input, as a layer: ``weight`` [in, out / groups, K].

    [N, C, L] becomes ``(L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1``
    long.
    """

    rank = 1


@takes("N, in_channels, H, W | in_channels, H, W")
class ConvTranspose2d(_Transposed):
    """ConvTranspose1d over two axes: ``weight`` [in, out / groups, KH, KW]."""

    rank = 2


@takes("N, in_channels, D, H, W | in_channels, D, H, W")
class ConvTranspose3d(_Transposed):
    """ConvTranspose1d over three axes: ``weight`` [in, out / groups, KD, KH, KW]."""

    rank = 3
