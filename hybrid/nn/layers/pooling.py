"""Pooling over one, two and three spatial axes."""

from __future__ import annotations

from typing import Any, ClassVar

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.nn import functional
from hybrid.nn.layers.layer import Layer
from hybrid.ops.layers.losses import require_parameter
from hybrid.ops.spatial.pooling import require_flag
from hybrid.ops.spatial.windows import per_axis


class _MaxPool(Layer):
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        name = type(self).__name__
        _require_windows(name, self.rank, kernel_size, stride, padding, dilation)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices = require_flag(name, "return_indices", return_indices)
        self.ceil_mode = require_flag(name, "ceil_mode", ceil_mode)

    def forward(self, input: Tensor) -> Any:
        return _MAX[self.rank](
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


def _require_windows(name: str, rank: int, kernel: Any, stride: Any, *others: Any) -> None:
    """Raise for what no input can be cut into."""
    per_axis(name, "kernel_size", kernel, rank, least=1)
    if stride is not None:
        per_axis(name, "stride", stride, rank, least=1)
    for label, value, least in zip(("padding", "dilation"), others, (0, 1), strict=False):
        per_axis(name, label, value, rank, least=least)


_MAX = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}


class MaxPool1d(_MaxPool):
    """The greatest element of each window of [N, C, L] or [C, L].

    Windows are ``stride`` apart (``kernel_size`` unless given); ``return_indices`` gives the places
    of these elements, too.  See ``functional.max_pool1d``.
    """

    rank = 1


class MaxPool2d(_MaxPool):
    """MaxPool1d over two axes: [N, C, H, W] or [C, H, W]."""

    rank = 2


class MaxPool3d(_MaxPool):
    """MaxPool1d over three axes: [N, C, D, H, W] or [C, D, H, W]."""

    rank = 3


class AvgPool1d(Layer):
    """The mean of each window of [N, C, L] or [C, L]; see ``functional.avg_pool1d``."""

    _shown = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._set_up(1, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def _set_up(
        self, rank: int, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count: bool
    ) -> None:
        name = type(self).__name__
        _require_windows(name, rank, kernel_size, stride, padding)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = require_flag(name, "ceil_mode", ceil_mode)
        self.count_include_pad = require_flag(name, "count_include_pad", count)

    def _given(self) -> tuple[Any, ...]:
        return (
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def forward(self, input: Tensor) -> Tensor:
        return ops.avg_pool1d(input, *self._given())


class AvgPool2d(AvgPool1d):
    """AvgPool1d over two axes; ``divisor_override`` is what sums are divided by."""

    _shown = (*AvgPool1d._shown, "divisor_override")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._set_up(2, kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return ops.avg_pool2d(input, *self._given(), self.divisor_override)


class AvgPool3d(AvgPool1d):
    """AvgPool2d over three axes."""

    _shown = AvgPool2d._shown

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._set_up(3, kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return ops.avg_pool3d(input, *self._given(), self.divisor_override)


class _LPPool(Layer):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")
    rank: ClassVar[int]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        name = type(self).__name__
        _require_windows(name, self.rank, kernel_size, stride)
        require_parameter(name, "norm_type", norm_type)
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode = require_flag(name, "ceil_mode", ceil_mode)

    def forward(self, input: Tensor) -> Tensor:
        return _LP[self.rank](input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


_LP = {1: functional.lp_pool1d, 2: functional.lp_pool2d, 3: functional.lp_pool3d}


class LPPool1d(_LPPool):
    """``(sum of x ** norm_type) ** (1 / norm_type)`` over each window of [N, C, L] or [C, L]."""

    rank = 1


class LPPool2d(_LPPool):
    """LPPool1d over two axes."""

    rank = 2


class LPPool3d(_LPPool):
    """LPPool1d over three axes."""

    rank = 3


class _MaxUnpool(Layer):
    _shown = ("kernel_size", "stride", "padding")
    rank: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        name = type(self).__name__
        _require_windows(name, self.rank, kernel_size, stride, padding)
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, self.rank, least=1)
        stride = kernel_size if stride is None else stride
        self.stride = per_axis(name, "stride", stride, self.rank, least=1)
        self.padding = per_axis(name, "padding", padding, self.rank, least=0)

    def forward(self, input: Tensor, indices: Any, output_size: Any = None) -> Tensor:
        unpool = _UNPOOL[self.rank]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


_UNPOOL = {
    1: functional.max_unpool1d,
    2: functional.max_unpool2d,
    3: functional.max_unpool3d,
}


class MaxUnpool1d(_MaxUnpool):
    """The inverse of MaxPool1d: the maxima at their places, zeros elsewhere."""

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """MaxUnpool1d over two axes."""

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """MaxUnpool1d over three axes."""

    rank = 3


class _Adaptive(Layer):
    _shown = ("output_size",)
    rank: ClassVar[int]

    def __init__(self, output_size: Any) -> None:
        sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
        known = tuple([0 if n is None else n for n in sizes])
        per_axis(type(self).__name__, "output_size", known, self.rank, least=0)
        self.output_size = tuple(sizes) if len(sizes) > 1 else sizes[0]


class _AdaptiveAvgPool(_Adaptive):
    def forward(self, input: Tensor) -> Tensor:
        return _ADAPTIVE_AVG[self.rank](input, self.output_size)


_ADAPTIVE_AVG = {
    1: ops.adaptive_avg_pool1d,
    2: ops.adaptive_avg_pool2d,
    3: ops.adaptive_avg_pool3d,
}


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of ``output_size`` windows that cover [N, C, L] evenly."""

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """AdaptiveAvgPool1d over two axes; None stands for the size of the input."""

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """AdaptiveAvgPool1d over three axes; None stands for the size of the input."""

    rank = 3


class _AdaptiveMaxPool(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        name = type(self).__name__
        self.return_indices = require_flag(name, "return_indices", return_indices)

    def forward(self, input: Tensor) -> Any:
        return _ADAPTIVE_MAX[self.rank](input, self.output_size, self.return_indices)


_ADAPTIVE_MAX = {
    1: ops.adaptive_max_pool1d,
    2: ops.adaptive_max_pool2d,
    3: ops.adaptive_max_pool3d,
}


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The greatest elements of ``output_size`` windows that cover [N, C, L] evenly."""

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """AdaptiveMaxPool1d over two axes; None stands for the size of the input."""

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """AdaptiveMaxPool1d over three axes; None stands for the size of the input."""

    rank = 3
