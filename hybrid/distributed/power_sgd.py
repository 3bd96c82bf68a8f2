"""PowerSGD: gradients of matrices are summed over the ranks as products of two thin ones.

Of the gradients M_i that ranks i have of one matrix [n, m], and a thin Q [m, rank] that all have
(T. Vogels et al., "PowerSGD: practical low-rank gradient compression for distributed optimization",
NeurIPS 2019, algorithms 1 and 2)::

    M_i = gradient_i + error_i
    P = orthonormal(sum_i M_i Q)            [n, rank]: one step of a power iteration
    Q = sum_i transpose(M_i) P              [m, rank]: kept for the next time
    gradient = P transpose(Q)               of all ranks, on each of them
    error_i = M_i - P transpose(transpose(M_i) P)

So rank * (n + m) numbers are sent in place of n * m, and what has been left out is not lost: it is
in the errors, which are added to the next gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.types import float32, float64
from hybrid.distributed.gradients import in_line, out_of_line
from hybrid.eager.execution import from_numpy
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CheckpointError
from hybrid.ir.record import recording
from hybrid.memory.channels import Channel
from hybrid.nn.modules.parameter import in_dtype, working_dtype
from hybrid.ops.communication.collectives import all_reduce

USES = -1  # in place of a number
NOISE = 1e-10  # of the length of a column: what is left of it is rounding


class PowerSGD:
    """``compress=`` of ``data_parallel``: gradients of matrices as products of thin ones.

    ``rank`` is how thin: the more, the closer.  A parameter with two axes or more is a matrix, of
    its first axis by the others; it is compressed where that saves something, which it does where
    rank * (n + m) < n * m.  The others, such as biases, are summed up as they are.  The first thin
    matrices are drawn from ``seed``, alike on all ranks.  Without ``error_feedback`` what is left
    out of a gradient is lost.

    What training needs of it is in the ``state_dict()`` of the optimizer: the thin matrices, and
    the sum of the errors of all ranks, so any number of ranks goes on from it.  ``nbytes`` is what
    each rank gives to sums in one ``backward()``, ``whole_nbytes`` what it would give without.
    """

    def __init__(self, rank: int = 4, *, seed: int = 0, error_feedback: bool = True) -> None:
        for name, value in (("rank", rank), ("seed", seed)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArgumentTypeError(f"{name} of PowerSGD is {value!r}", fix="give an int")
        if rank < 1:
            raise ArgumentError(f"rank of PowerSGD is {rank}", fix="give 1 or more")
        if seed < 0:
            raise ArgumentError(f"seed of PowerSGD is {seed}", fix="give 0 or more")
        if not isinstance(error_feedback, bool):
            raise ArgumentTypeError(
                f"error_feedback of PowerSGD is {error_feedback!r}", fix="give True or False"
            )
        self.rank, self.seed, self.error_feedback = rank, seed, error_feedback
        self.channel = Channel("nobody")
        self.names: dict[int, str] = {}  # of what is compressed, by number
        self.thin: dict[int, Tensor] = {}
        self.errors: dict[int, Tensor] = {}
        self.nbytes = self.whole_nbytes = 0

    def __repr__(self) -> str:
        rest = "" if self.error_feedback else ", error_feedback=False"
        return f"PowerSGD(rank={self.rank}, seed={self.seed}{rest})"

    def bind(self, channel: Channel, named: Sequence[tuple[str, Tensor]]) -> None:
        """Make what is kept of the parameters ``named``; once."""
        if self.whole_nbytes:
            raise ArgumentError(
                f"{self} compresses the gradients of another model already",
                why="It keeps what they leave out.",
                fix="make one for each data_parallel",
            )
        self.channel = channel
        for at, (name, p) in enumerate(named):
            dtype = working_dtype(p.dtype)
            rows, columns = p.shape[0] if p.ndim else 1, math.prod(p.shape[1:])
            whole, thin = rows * columns, self.rank * (rows + columns)
            self.whole_nbytes += (whole + 1) * dtype.itemsize  # and whether it is used
            compressed = p.ndim > 1 and thin < whole and p.type.layout is None
            used = float32.itemsize if compressed else dtype.itemsize
            self.nbytes += (thin if compressed else whole) * dtype.itemsize + used
            if compressed:
                draw = np.random.default_rng([self.seed, at])
                first = draw.standard_normal((columns, self.rank))
                self.names[at] = name
                self.thin[at] = in_dtype(from_numpy(first), dtype)
                self.errors[at] = ops.zeros((rows, columns), dtype=dtype)

    # One way back -------------------------------------------------------------------------------

    def summed(self, grads: Mapping[int, Tensor], uses: Tensor) -> tuple[dict[int, Tensor], Tensor]:
        """About the sums over all ranks of ``grads``, by number; of what is compressed alone.

        And the sums of ``uses``, 1 for each that this rank has used.  What none has used leaves
        no trace.
        """
        if not grads:
            return {}, uses
        matrices = {}
        for at, grad in grads.items():
            error = self.errors[at]
            flat = ops.reshape(grad, error.shape)
            matrices[at] = flat + error.detach() if self.error_feedback else flat
        thin = {at: ops.matmul(m, self.thin[at].detach()) for at, m in matrices.items()}
        total = self._over_ranks({**thin, USES: uses})
        uses = total.pop(USES)
        left = orthonormal(total)
        own = {at: ops.matmul(m.T, left[at]) for at, m in matrices.items()}
        right = self._over_ranks(own)
        found = {}
        for number, (at, m) in enumerate(matrices.items()):
            used = uses[number] > 0
            # What is infinite on some rank is to be seen on all, and to leave nothing behind.
            finite = ops.logical_and(_finite(total[at]), _finite(right[at]))
            made = ops.where(finite, ops.matmul(left[at], right[at].T), math.nan)
            found[at] = ops.reshape(made, grads[at].shape)
            if self.error_feedback:
                error = m - ops.matmul(left[at], own[at].T)
                counts = ops.logical_and(finite, used)
                self.errors[at].assign(ops.where(counts, error, self.errors[at].detach()))
            # A column of zeros, of a gradient of zeros, would be one for ever.
            lasts = ops.logical_and(ops.any(ops.not_equal(right[at], 0.0), axis=0), finite)
            lasts = ops.logical_and(lasts, used)
            self.thin[at].assign(ops.where(lasts, right[at], self.thin[at].detach()))
        return found, uses

    def _over_ranks(self, given: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """The sums over the ranks, those of one dtype at once."""
        found: dict[int, Tensor] = {}
        for dtype in dict.fromkeys([x.dtype for x in given.values()]):
            here = {at: x for at, x in given.items() if x.dtype is dtype}
            line = in_line(list(here.values()))
            total = all_reduce(line, comm=self.channel.name, ranks=self.channel.ranks)
            shapes = [x.shape for x in here.values()]
            found |= zip(here, out_of_line(total, shapes), strict=True)
        return {at: found[at] for at in given}

    # State --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The thin matrices, and the errors of all ranks together, by the names of parameters."""
        with recording(False):
            errors = self._over_ranks({at: e.detach() for at, e in self.errors.items()})
        return {
            "rank": self.rank,
            "thin": {name: self.thin[at].detach() for at, name in self.names.items()},
            "errors": {name: errors[at] for at, name in self.names.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Take over what ``state_dict()`` gave; None, of training without: there are no errors.

        The thin matrices of another rank are left out.
        """
        state = state or {"rank": 0, "errors": {}}
        errors = {name: ops.as_tensor(e) for name, e in state["errors"].items()}
        for at, name in self.names.items():
            if name in errors and errors[name].shape != self.errors[at].shape:
                raise CheckpointError(
                    f"the error of {name} is {errors[name].type} in the file and "
                    f"{self.errors[at].type} here",
                    fix="load what was saved with a model like this one",
                )
        for at, name in self.names.items():
            kept = self.errors[at]
            share = 1.0 / self.channel.ranks
            kept.assign(
                in_dtype(errors[name], kept.dtype) * share
                if name in errors
                else ops.zeros_like(kept)
            )
            if state["rank"] == self.rank and name in state["thin"]:
                thin = ops.as_tensor(state["thin"][name])
                self.thin[at].assign(in_dtype(thin, kept.dtype))


def orthonormal(given: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Matrices [n, rank] with columns that span the same, at right angles and of length 1.

    By the modified Gram-Schmidt process, in float64: of columns in float32 that nearly depend on
    each other there are digits enough left.  One that does depend on those before it becomes zeros.
    """
    found: dict[int, Tensor] = {}
    for shape in dict.fromkeys([x.shape for x in given.values()]):  # those of one shape at once
        here = [at for at, x in given.items() if x.shape == shape]
        rest = ops.astype(ops.stack([given[at].T for at in here]), float64)  # [k, rank, n]
        before, columns = _lengths(rest), []
        for number in range(shape[1]):
            column = rest[:, :1]
            length = _lengths(column)
            counts = length > before[:, number : number + 1] * NOISE
            column = ops.where(counts, column / ops.where(counts, length, 1.0), 0.0)
            columns.append(column)
            if number + 1 < shape[1]:
                rest = rest[:, 1:]
                rest = rest - ops.sum(rest * column, axis=2, keepdims=True) * column
        whole = ops.concat(columns, axis=1)
        for place, at in enumerate(here):
            found[at] = in_dtype(whole[place].T, given[at].dtype)
    return {at: found[at] for at in given}


def _finite(x: Tensor) -> Tensor:
    return ops.all(ops.isfinite(x))


def _lengths(rows: Tensor) -> Tensor:
    return ops.sqrt(ops.sum(rows * rows, axis=2, keepdims=True))
