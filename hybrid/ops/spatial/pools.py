"""Pooling of one, two and three spatial axes, with PyTorch's names and arguments."""

from __future__ import annotations

from typing import Any

from hybrid.errors import ArgumentError
from hybrid.ops.axes import reduction
from hybrid.ops.spatial.pooling import adapted, arranged, avg_pool, greatest, require_flag
from hybrid.ops.spatial.windows import lifted, unlifted
from hybrid.ops.support.call_cache import remembered_of_any

# The functions of each rank -----------------------------------------------------------------------


def _max_pool(name, rank, x, kernel, stride, padding, dilation, ceil_mode, places):
    x, single = lifted(name, x, rank)
    attrs = arranged(name, x, rank, kernel, stride, padding, dilation, ceil_mode)
    return greatest(x, single, attrs, require_flag(name, "return_indices", places))


def _avg_pool(name, rank, x, kernel, stride, padding, ceil_mode, include, divisor=None):
    x, single = lifted(name, x, rank)
    attrs = arranged(name, x, rank, kernel, stride, padding, 1, ceil_mode)
    include = require_flag(name, "count_include_pad", include)
    if divisor is None:
        return unlifted(avg_pool(x, counts="padded" if include else "present", **attrs), single)
    if isinstance(divisor, bool) or not isinstance(divisor, int) or divisor == 0:
        raise ArgumentError(
            f"{name} got divisor_override {divisor!r}", fix="give an int that is not 0, or None"
        )
    return unlifted(avg_pool(x, counts="one", **attrs), single) / divisor


def adaptive_average(name: str, rank: int, x: Any, output_size: Any) -> Any:
    """The means of windows that are given by how many there are, for the function ``name``."""
    x, single = lifted(name, x, rank)
    attrs = adapted(name, x, rank, output_size)
    if attrs["size"] == (1,) * rank:  # sums of whole planes are faster, and finer, as a tree
        y = reduction.mean(x, axis=tuple(range(2, 2 + rank)), keepdims=True)
    else:
        y = avg_pool(x, counts="present", **attrs)
    return unlifted(y, single)


def _adaptive_max_pool(name, rank, x, output_size, places):
    x, single = lifted(name, x, rank)
    attrs = adapted(name, x, rank, output_size)
    return greatest(x, single, attrs, require_flag(name, "return_indices", places))


@remembered_of_any
def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of [N, C, L]; NaN where there is one.

    Windows are ``stride`` apart (as far as they are long, if None), after ``padding`` elements that
    count as -inf at both ends.  ``ceil_mode`` adds a window that begins within the input and ends
    behind.  With ``return_indices`` the places of these elements come, too: of equals the first
    one, which also gets the gradient.  The input may come without N.
    """
    given = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool("max_pool1d", 1, input, *given)


@remembered_of_any
def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool1d`` over two axes: [N, C, H, W]; places are counted row by row."""
    given = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool("max_pool2d", 2, input, *given)


@remembered_of_any
def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool1d`` over three axes: [N, C, D, H, W]; places are counted row by row."""
    given = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool("max_pool3d", 3, input, *given)


@remembered_of_any
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of [N, C, L], as ``max_pool1d`` places them.

    Zeros of the ``padding`` count as elements unless ``count_include_pad`` is False; what
    ``ceil_mode`` adds behind the padding never does.
    """
    given = (kernel_size, stride, padding, ceil_mode, count_include_pad)
    return _avg_pool("avg_pool1d", 1, input, *given)


@remembered_of_any
def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """``avg_pool1d`` over two axes: [N, C, H, W].

    ``divisor_override`` is what sums are divided by, whatever the window has.
    """
    given = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool("avg_pool2d", 2, input, *given)


@remembered_of_any
def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """``avg_pool2d`` over three axes: [N, C, D, H, W]."""
    given = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool("avg_pool3d", 3, input, *given)


@remembered_of_any
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """The means of ``output_size`` windows of [N, C, L] that cover it evenly.

    Window p reaches from ``p * L / output_size``, rounded down, to ``(p + 1) * L / output_size``,
    rounded up.  None stands for the size of the input.
    """
    return adaptive_average("adaptive_avg_pool1d", 1, input, output_size)


@remembered_of_any
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """``adaptive_avg_pool1d`` over two axes: [N, C, H, W]."""
    return adaptive_average("adaptive_avg_pool2d", 2, input, output_size)


@remembered_of_any
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """``adaptive_avg_pool1d`` over three axes: [N, C, D, H, W]."""
    return adaptive_average("adaptive_avg_pool3d", 3, input, output_size)


@remembered_of_any
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest elements of the windows of ``adaptive_avg_pool1d``.

    With ``return_indices`` their places come, too, as from ``max_pool1d``.
    """
    return _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size, return_indices)


@remembered_of_any
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """``adaptive_max_pool1d`` over two axes: [N, C, H, W]."""
    return _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size, return_indices)


@remembered_of_any
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """``adaptive_max_pool1d`` over three axes: [N, C, D, H, W]."""
    return _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size, return_indices)
