"""Rounding that makes up for itself: what one weight is rounded by, those behind it take back.

For a layer ``y = W x`` the error of the results is ``tr(D H D.T)`` for rounding errors D and the
Hessian H, the sum of ``x x.T`` over the inputs that were seen.  Columns are rounded from the first
to the last; each adds to those behind it what then makes that sum least (GPTQ, Frantar et al. 2023:
by the Cholesky factor of the inverse of H).  Scales are those of the weights as they are by then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.compress.scheme import Scheme
from hybrid.compress.weight_forms import GroupSteps, kept
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.ops.support.operand_checks import as_tensor

DAMPING = 0.01  # of the mean of the diagonal, added to it
BLOCK = 128  # columns, behind which the others follow at once


class HessianObserver:
    """The sum of ``x x.T`` over all rows that enter a layer."""

    def __init__(self, name: str) -> None:
        self.name, self.rows = name, 0
        self.total: np.ndarray | None = None

    def add(self, entering: Any) -> None:
        """Take a batch [..., in] into account; ArgumentError if there is NaN or infinity in it."""
        x = as_tensor(entering).detach().numpy().astype(np.float64)
        x = x.reshape(-1, x.shape[-1])
        if not np.isfinite(x).all():
            raise ArgumentError(
                f"layer {self.name!r} cannot be compensated: there is NaN or infinity in what it "
                "gets",
                fix="look for the batch, or for weights that are not finite, or skip the layer",
            )
        found = x.T @ x
        self.total = found if self.total is None else self.total + found
        self.rows += len(x)


def compensated(weight: np.ndarray, hessian: np.ndarray, scheme: Scheme) -> dict[str, Tensor]:
    """The state of a matrix [out, in] as ``weight_forms.grouped`` gives it, rounded in turn."""
    rows, size = weight.shape
    group_size = scheme.group_size or max(size, 1)
    left, upper = weight.astype(np.float64), _factor(hessian)
    integers, steps = np.zeros((rows, size), np.int16), list[GroupSteps]()
    for begin in range(0, size, BLOCK):
        end = min(begin + BLOCK, size)
        errors = np.zeros((rows, end - begin))
        for k in range(begin, end):
            if k % group_size == 0:
                stop = min(k + group_size, size)
                group = np.array(left[:, k:stop])
                if stop > end:  # columns behind this block have not followed yet
                    last = max(end, k)
                    group[:, last - k :] -= errors[:, : k - begin] @ upper[begin:k, last:stop]
                steps.append(GroupSteps.of(group.astype(np.float32), scheme))
            column = left[:, k : k + 1]
            found = steps[-1].integers(column.astype(np.float32), scheme)
            integers[:, k : k + 1] = found
            error = (column - steps[-1].values(found, scheme)) / upper[k, k]
            errors[:, k - begin : k - begin + 1] = error
            left[:, k + 1 : end] -= error * upper[k : k + 1, k + 1 : end]
        left[:, end:] -= errors @ upper[begin:end, end:]
    return kept(integers, steps, scheme)


def _factor(hessian: np.ndarray) -> np.ndarray:
    """The upper Cholesky factor of the inverse of the damped Hessian."""
    damped: Any = np.array(hessian, np.float64)
    places = np.arange(len(damped))
    diagonal = damped[places, places]
    mean = diagonal.mean() if len(damped) else 1.0
    damped[places, places] += DAMPING * mean if mean > 0 else 1.0
    inverse = np.linalg.inv(damped)
    return np.linalg.cholesky((inverse + inverse.T) / 2).T
