"""Normalisation over the batch, over rows, and over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from hybrid import ops
from hybrid.core.types import shape_of
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn import functional, init
from hybrid.nn.layers.layer import Layer, new_parameter, require_sizes
from hybrid.nn.modules.expected_input import takes
from hybrid.ops.support.operand_checks import as_tensor


def _start_affine(module: Any) -> None:
    """Weight 1 and bias 0, where there are such."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


# Over the batch ----------------------------------------------------------------------------------


class _Running(Layer):
    """Weight and bias [features], and the running statistics of what came in."""

    _shown = ("eps", "momentum", "affine", "track_running_stats")
    ranks: ClassVar[tuple[int, ...]]  # of the inputs that it takes

    def _set_up(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        require_sizes(num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"dtype": dtype, "device": device}
        self.weight = new_parameter(num_features, **made) if affine else None
        self.bias = new_parameter(num_features, **made) if affine and bias else None
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", ops.zeros((num_features,), **made) if tracked else None
        )
        self.register_buffer("running_var", ops.ones((num_features,), **made) if tracked else None)
        count = ops.zeros((), dtype="int64") if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the statistics: mean 0, variance 1, no batches."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and no statistics."""
        self.reset_running_stats()
        _start_affine(self)

    def _complete_state(self, state: dict[str, Any], prefix: str, version: int | None) -> None:
        """The count of batches came with version 2; PyTorch does without it, too."""
        name = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and name not in state:
            state[name] = self.num_batches_tracked.detach()

    def _require_rank(self, x: Tensor) -> None:
        if x.ndim not in self.ranks:
            ranks = " or ".join([str(rank) for rank in self.ranks])
            raise ShapeError(
                f"{type(self).__name__} cannot take {x.type}",
                why=f"It takes inputs of {ranks} dimensions.",
                fix="change its shape, or use the layer for as many axes",
            )

    def extra_repr(self) -> str:
        return f"{self.num_features}, {super().extra_repr()}"


class BatchNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        given = (num_features, eps, momentum, affine, track_running_stats)
        self._set_up(*given, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        self._require_rank(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        mean, variance = self.running_mean, self.running_var
        by_batch = self.training or mean is None
        if self.training and self.track_running_stats:
            count = self.num_batches_tracked
            if count is not None:
                count.assign(count + 1)
                if self.momentum is None:
                    momentum = 1 / ops.astype(count, mean.dtype)
        elif by_batch:
            mean = variance = None
        return ops.batch_norm(
            input, mean, variance, self.weight, self.bias, by_batch, momentum, self.eps
        )


@takes("N, num_features | N, num_features, L")
class BatchNorm1d(BatchNorm):
    """[N, C] or [N, C, L] with mean 0 and variance 1 per channel, times ``weight``, plus ``bias``.

    In training by the statistics of the batch, of which ``running_mean`` and ``running_var`` keep
    an average with the share ``momentum`` of the newest (None: the mean of all); in evaluation by
    those.  Without ``track_running_stats`` always by the batch's (Ioffe and Szegedy 2015).
    """

    ranks = (2, 3)


@takes("N, num_features, H, W")
class BatchNorm2d(BatchNorm):
    """BatchNorm1d for [N, C, H, W]."""

    ranks = (4,)


@takes("N, num_features, D, H, W")
class BatchNorm3d(BatchNorm):
    """BatchNorm1d for [N, C, D, H, W]."""

    ranks = (5,)


class _InstanceNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        given = (num_features, eps, momentum, affine, track_running_stats)
        self._set_up(*given, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        input = as_tensor(input)
        self._require_rank(input)
        alone = input.ndim == min(self.ranks)
        y = ops.instance_norm(
            ops.expand_dims(input, 0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return y[0] if alone else y


@takes("N, num_features, L | num_features, L")
class InstanceNorm1d(_InstanceNorm):
    """[N, C, L] or [C, L] with mean 0 and variance 1 per channel of each element of the batch.

    With ``track_running_stats`` evaluation goes by the average of the statistics (Ulyanov et al.
    2016).
    """

    ranks = (2, 3)


@takes("N, num_features, H, W | num_features, H, W")
class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d for [N, C, H, W] or [C, H, W]."""

    ranks = (3, 4)


@takes("N, num_features, D, H, W | num_features, D, H, W")
class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d for [N, C, D, H, W] or [C, D, H, W]."""

    ranks = (4, 5)


# Over rows ---------------------------------------------------------------------------------------


@takes("..., *normalized_shape")
class LayerNorm(Layer):
    """Mean 0 and variance 1 over the last axes, which have ``normalized_shape``.

    The result is multiplied by ``weight`` and added to ``bias``, both of that shape (Ba et al.
    2016).
    """

    _shown = ("eps", "elementwise_affine")

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = _row_shape("LayerNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = {"dtype": dtype, "device": device}
        affine = elementwise_affine
        self.weight = new_parameter(*self.normalized_shape, **made) if affine else None
        self.bias = new_parameter(*self.normalized_shape, **made) if affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        _start_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {super().extra_repr()}"


@takes("..., *normalized_shape")
class RMSNorm(Layer):
    """Over the root mean square of the last axes, which have ``normalized_shape``.

    The result is multiplied by ``weight`` of that shape; ``eps`` is that of the dtype unless given
    (Zhang and Sennrich 2019).
    """

    _shown = ("eps", "elementwise_affine")

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape = _row_shape("RMSNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = None
        if elementwise_affine:
            self.weight = new_parameter(*self.normalized_shape, dtype=dtype, device=device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {super().extra_repr()}"


def _row_shape(name: str, given: Any) -> tuple[int, ...]:
    shape = shape_of(given, f"the normalized_shape of {name}")
    if not shape:
        raise ArgumentError(
            f"{name} got normalized_shape {given!r}", fix="give the sizes of one axis at least"
        )
    return shape


# Over channels -----------------------------------------------------------------------------------


@takes("N, num_channels, ...")
class GroupNorm(Layer):
    """[N, C, ...] with mean 0 and variance 1 over each of ``num_groups`` groups of channels.

    ``weight`` and ``bias`` are [C] (Wu and He 2018).
    """

    _shown = ("eps", "affine")

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        require_sizes(1, num_groups=num_groups)
        require_sizes(num_channels=num_channels)
        if num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm cannot make {num_groups} groups of {num_channels} channels",
                why="All groups have as many channels.",
                fix="give a divisor of the number of channels",
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        made = {"dtype": dtype, "device": device}
        self.weight = new_parameter(num_channels, **made) if affine else None
        self.bias = new_parameter(num_channels, **made) if affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        _start_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, {super().extra_repr()}"


class LocalResponseNorm(Layer):
    """Each channel over a power of the mean square of ``size`` channels around it."""

    _shown = ("alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        require_sizes(1, size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, {super().extra_repr()}"
