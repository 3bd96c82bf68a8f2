"""parameter_server: ranks that train at a pace of their own, and none gets far ahead of the others.

Each rank serves a slice of the weights and keeps the moments of its optimizer (as with ``zero=1``).
A rank's step puts its gradient, cut into slices, into the windows of all servers, and its clock
goes on by one.  The gradients of all ranks for one clock are one round: when they are there, the
server takes their mean by rows, adds them by the tree that ``data_parallel`` adds them by, makes
one step of the optimizer, and its weights have the next version.

A rank whose clock is c goes on with weights of version c - s or newer, s being the staleness, and
waits for them if they are not there: bounded staleness (Q. Ho et al., "More effective distributed
ML via a stale synchronous parallel parameter server", NIPS 2013).  So s + 1 slots are enough: the
versions that a rank may read, c - s to c, all are there, and nobody writes what another one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.calls.control_functions import py_call
from hybrid.core.tree import flatten
from hybrid.core.types import TensorType, float64
from hybrid.distributed.data_parallelism import agree, require_parameters, require_parts, take_over
from hybrid.distributed.job_files import on_each_rank
from hybrid.distributed.meshes import Mesh, channel_for
from hybrid.distributed.mpi_channel import MpiChannel
from hybrid.distributed.replicas import rows_of
from hybrid.distributed.row_shares import Sharing, goes_by
from hybrid.distributed.server_windows import (
    CLOCKS,
    OVER,
    VERSIONS,
    ServerWindow,
    require_room,
    window_nbytes,
)
from hybrid.distributed.state_slices import StateSlices
from hybrid.distributed.world import MPI, world
from hybrid.eager.execution import array_of, from_numpy
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    OutOfMemoryError,
    author_location,
)
from hybrid.ir.interpreter import current
from hybrid.ir.record import is_recording, recording
from hybrid.memory.bfloat16 import memory_dtype
from hybrid.memory.channels import Channel, CollectiveCall, Doing, tree_sum
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import in_dtype, present, working_dtype
from hybrid.ops.communication.collectives import all_reduce
from hybrid.optim.group import Cells
from hybrid.optim.lbfgs import LBFGS
from hybrid.optim.optimizer import Optimizer
from hybrid.random import default_generator

_NO_CALL = -1.0  # rows of the model's calls since the last step, if there was none


def parameter_server(
    model: Module,
    optimizer: Optimizer,
    staleness: int,
    *,
    mesh: Mesh | None = None,
    axis: str | None = None,
) -> tuple[Module, Optimizer]:
    """``model`` and ``optimizer`` themselves, for training in which ranks do not wait for another.

    All ranks call it alike, and take over what rank 0 has.  Each then trains with its ``rows`` of a
    batch, as ever: ``optimizer.step()`` gives the servers the gradient that ``backward()`` has
    left, and takes the newest weights that are whole.  A rank may be ``staleness`` steps ahead of
    the slowest one; then it waits.  With 0 training is that of ``data_parallel``: of the same bits
    where ranks have equally many rows and are 2, 4, 8, ... of them, else to rounding.  The step is
    the same eagerly and in hybridized functions.

    ``optimizer.synchronize()``, which is also ``model.synchronize()``, waits until all ranks have
    called it and all their steps have been made, and gives each the weights of the servers; buffers
    of floats become the means of all ranks.  Until it is called, ranks may make unlike numbers of
    steps: who has called it keeps nobody waiting.  Call it before checkpoints and evaluations.

    ``optimizer.server`` has ``clock``, this rank's number of steps, ``version``, that of the
    weights it has, and ``clocks()``, those of all ranks.

    Raises ArgumentTypeError or ArgumentError for a ``staleness`` that is no int from 0 on, a model
    without parameters, and an LBFGS; CollectiveMismatchError where ranks have unlike models, on
    each; and, while it waits, RankFailedError and RankTimeoutError as collectives do.
    """
    require_parts("parameter_server", model, optimizer)
    if isinstance(staleness, bool) or not isinstance(staleness, int):
        raise ArgumentTypeError(
            f"staleness is {staleness!r}", fix="give the number of steps, 0 or more"
        )
    if staleness < 0:
        raise ArgumentError(f"staleness is {staleness}", fix="give the number of steps, 0 or more")
    if isinstance(optimizer, LBFGS):
        raise ArgumentError(
            "parameter_server of an LBFGS",
            why="Its steps go by products of whole gradients, and servers have slices.",
            fix="use another optimizer",
        )
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not named:
        raise ArgumentError(
            f"a {type(model).__name__} without parameters that require gradients",
            why="There is nothing to serve.",
            fix="give a model with parameters, or set requires_grad = True on them",
        )
    require_parameters(optimizer, [p for _, p in named])
    for name, p in named:
        if p.type.layout is not None:
            raise ArgumentError(
                f"parameter {name} is one that ranks share ({p.type})",
                why="Servers cut parameters into slices of their own.",
                fix="leave hybrid.distributed.shard out, or train it with data_parallel",
            )
    if world().is_simulated:
        raise ArgumentError(
            "parameter_server in a job that is simulated",
            why="Ranks write to windows of others, who are not there.",
            fix="run the job, or simulate one by data_parallel",
        )
    channel = channel_for(axis, mesh)
    names = {id(p): name for name, p in named}
    served = [
        (f"{names[id(p)]} of group {number}", p)
        for number, group in enumerate(optimizer.param_groups)
        for p in group.params
    ]
    how = f"staleness={staleness} {type(optimizer).__name__}"
    agree(Sharing(channel, channel.ranks), "parameter_server", how, served)
    goes_by(None)
    take_over(channel, model, optimizer)
    state = default_generator().state  # each rank draws numbers of its own
    state.assign(from_numpy(array_of(state) + np.array([0, channel.rank << 40])))
    server = ParameterServer(channel, model, optimizer, staleness)
    optimizer.server = server
    optimizer.synchronize = model.synchronize = Synchronize(server)
    model.register_forward_pre_hook(RowCounter(server.rows), with_kwargs=True)
    model.register_load_state_dict_post_hook(LoadNote(server))
    return model, optimizer


class OfOneModel:
    """What a model has of its server; copies of the model have none."""

    def __init__(self, server: ParameterServer | None) -> None:
        self.server = server

    def __deepcopy__(self, _memo: Any) -> OfOneModel:
        return type(self)(None)

    def __reduce__(self) -> Any:
        return type(self), (None,)


class Synchronize(OfOneModel):
    """``synchronize()`` of a model and its optimizer."""

    def __call__(self) -> None:
        """Wait for all steps of all ranks, and take the weights that the servers have then."""
        if self.server is None:
            raise ArgumentError(
                "synchronize() of a copy",
                why="What was given to parameter_server has servers, and copies have none.",
                fix="call it of that, and copy the weights",
            )
        self.server.synchronize()


class LoadNote(OfOneModel):
    """After ``load_state_dict()`` of the model, on all ranks: what was loaded is to be served."""

    def __call__(self, _model: Module, _keys: Any) -> None:
        if self.server is not None:
            self.server.require_settled("load_state_dict() of the model")
            self.server.loaded = True


class RowCounter:
    """Counts the rows that the model is called with, in a cell."""

    def __init__(self, cell: Tensor) -> None:
        self.cell = cell

    def __call__(self, _model: Module, args: Any, kwargs: Any) -> None:
        if is_recording():
            rows = current().lift(rows_of(flatten((args, kwargs))[0]), float64)
            self.cell.assign(ops.maximum(self.cell, 0.0) + rows)


class ServedSlices(StateSlices):
    """The slices of moments that this rank keeps as a server."""

    server: ParameterServer

    def on_any_rank(self, flag: Tensor) -> Tensor:
        """``flag``: what a rank finds in its gradient decides about its own step."""
        return flag

    def whole_state(self, group: Any, state: Any, at: int) -> dict[str, Tensor]:
        self.server.require_settled("state_dict() of the optimizer")
        return super().whole_state(group, state, at)


class ParameterServer:
    """This rank as a server of its slice, and as one that trains."""

    takes_bits = True  # of bfloat16 numbers, as what a plan calls

    def __init__(
        self, channel: Channel, model: Module, optimizer: Optimizer, staleness: int
    ) -> None:
        self.channel, self.model, self.optimizer = channel, model, optimizer
        self.staleness, self.slots = staleness, staleness + 1
        self.parameters = tuple([p for group in optimizer.param_groups for p in group.params])
        self.kinds: tuple[TensorType, ...] = tuple([p.type for p in self.parameters])
        self.rows = from_numpy(np.array(_NO_CALL))
        self.clock = self.version = 0
        self.settled, self.loaded = True, False
        everyone = tuple(range(len(self.parameters)))
        self.slices = ServedSlices(channel, self.parameters, (everyone,), 1)
        self.slices.server = self
        self.slices.take_over(optimizer)
        for group in optimizer.param_groups:
            group.calls.known.clear()  # they were for whole parameters
        self._parts = [self.slices.mine(p.detach()) for p in self.parameters]
        self._head = 8 * (1 + 2 * len(optimizer.param_groups))  # rows, then numbers of groups
        shares = [self.slices.share(kind) for kind in self.kinds]
        self._wide = [memory_dtype(working_dtype(kind.dtype)) for kind in self.kinds]
        self._own = [memory_dtype(kind.dtype) for kind in self.kinds]
        self._gradient_at = _places(self._head, shares, self._wide)
        self._weight_at = _places(0, shares, self._own)
        group = channel.moves if isinstance(channel, MpiChannel) else MPI.COMM_SELF
        sizes = [places[-1] + -places[-1] % 8 for places in (self._gradient_at, self._weight_at)]
        nbytes = window_nbytes(channel.ranks, self.slots, *sizes)
        needed = channel.ranks * nbytes
        on_each_rank(channel, "have a window", lambda: require_room(needed), OutOfMemoryError)
        self.window = ServerWindow(group, self.slots, *sizes)
        self._lines = np.zeros((channel.ranks, sizes[0]), np.uint8)
        world().closing.append(self.window.close)
        self._show_weights()
        self._meet("parameter_server")

    def __deepcopy__(self, _memo: Any) -> ParameterServer:
        return self

    def __reduce__(self) -> Any:
        raise ArgumentError(
            "an optimizer with a parameter server cannot be pickled",
            why="Its servers are those of this job.",
            fix="pickle optimizer.state_dict()",
        )

    def clocks(self) -> tuple[int, ...]:
        """The clocks of all ranks: how many steps each has made, as far as they have come here."""
        return tuple(map(int, self.window.flags()[CLOCKS]))

    # A step -----------------------------------------------------------------------------------

    def step(self, optimizer: Optimizer) -> None:
        """Push the gradients of all parameters, and take the newest weights."""
        cells = [cell for group in optimizer.param_groups for cell in group.cells]
        given = []
        for p, kind in zip(self.parameters, self.kinds, strict=True):
            grad, dtype = p.grad, working_dtype(kind.dtype)
            given.append(
                ops.zeros(kind.shape, dtype=dtype)
                if grad is None
                else in_dtype(present(grad).detach(), dtype)
            )
        made = py_call(self, self.rows.detach(), ops.stack(cells), *given, result=self.kinds)
        self.rows.assign(ops.full((), _NO_CALL, dtype=float64))
        for p, value in zip(self.parameters, made, strict=True):
            p.assign(value)

    def __call__(self, rows: np.ndarray, numbers: np.ndarray, *grads: np.ndarray) -> Any:
        """The same with arrays: as a plan calls it."""
        if rows < 0:
            raise ArgumentError(
                "a step of a parameter server's optimizer without a call of its model",
                at=author_location(),
                why="The gradient of a rank counts by the rows that the model was called with "
                "since its last step.",
                fix="call the model that was given to parameter_server, and backward()",
            )
        with Doing(CollectiveCall("a step of a parameter server")) as call:
            self._take_loaded()
            self.settled = False
            self._push(float(rows), numbers, grads)
            oldest = self.clock - self.staleness
            return self._pull(self._wait(lambda flags: flags[VERSIONS].min() >= oldest, call))

    def _push(self, rows: float, numbers: np.ndarray, grads: Sequence[np.ndarray]) -> None:
        lines = self._lines
        lines[:, : self._head] = np.array([rows, *numbers]).view(np.uint8)
        for at, grad in enumerate(grads):
            first, end = self._gradient_at[at : at + 2]
            flat = grad.reshape(-1).view(np.uint8)
            missing = self.channel.ranks * (end - first) - flat.size
            if missing:
                flat = np.concatenate([flat, np.zeros(missing, np.uint8)])
            lines[:, first:end] = flat.reshape(self.channel.ranks, end - first)
        self.window.put_gradient(self.clock % self.slots, lines)
        self.clock += 1
        self.window.tell(CLOCKS, self.channel.rank, self.clock)

    def _pull(self, flags: np.ndarray) -> list[np.ndarray]:
        """The parameters, all of the newest version that all servers have."""
        self.version = int(flags[VERSIONS].min())
        lines = self.window.weights(self.version % self.slots)
        found = []
        for at, kind in enumerate(self.kinds):
            first, end = self._weight_at[at : at + 2]
            flat = np.ascontiguousarray(lines[:, first:end]).reshape(-1).view(self._own[at])
            found.append(flat[: kind.size].reshape(kind.shape))
        return found

    # Serving ----------------------------------------------------------------------------------

    def _serve(self) -> np.ndarray:
        """Make the steps of all rounds that are complete; the flags after that."""
        me = self.channel.rank
        while True:
            flags = self.window.flags()
            version = int(flags[VERSIONS, me])
            came = flags[CLOCKS] > version
            if not (came | (flags[OVER] > 0)).all() or not came.any():
                return flags
            self._make_round(version, came)
            self._show_weights(version + 1)

    def _make_round(self, version: int, came: np.ndarray) -> None:
        """One step of the optimizer, by the mean of the gradients of those who ``came``."""
        lines = self.window.gradients(version % self.slots)
        heads = lines[:, : self._head].copy().view(np.float64)
        rows = np.where(came, heads[:, 0], 0.0)
        if not rows.any():
            return
        shares = rows / rows.sum()
        numbers = heads[int(came.argmax()), 1:].reshape(-1, 2)
        grads = []
        for at, kind in enumerate(self.kinds):
            first = self._gradient_at[at]
            share, dtype = self.slices.share(kind), self._wide[at]
            parts = [
                line[first : first + share * dtype.itemsize].view(dtype) * dtype.type(weight)
                if weight
                else np.zeros(share, dtype)
                for line, weight in zip(lines, shares, strict=True)
            ]
            grads.append(in_dtype(from_numpy(tree_sum(parts)), kind.dtype))
        place = 0
        with recording(False):
            for group, two in zip(self.optimizer.param_groups, numbers, strict=True):
                work = []
                for number, state in enumerate(group.states):
                    work.append((number, self._parts[place], grads[place], state))
                    place += 1
                cells = Cells(*[from_numpy(np.array(value)) for value in two])
                self.optimizer.make_steps(group, work, cells)

    def _show_weights(self, version: int = 0) -> None:
        """Let the weights that this rank has now be those of ``version``."""
        pieces = [array_of(part).reshape(-1).view(np.uint8) for part in self._parts]
        self.window.set_weights(version % self.slots, pieces)
        self.window.tell(VERSIONS, self.channel.rank, version)

    def _wait(self, over: Callable[[np.ndarray], bool], call: CollectiveCall) -> np.ndarray:
        """Serve until it is ``over`` by the flags, which are returned.

        Raises when a rank fails, or nothing happens for too long.
        """
        channel, seen = self.channel, [self._serve()]

        def moved() -> bool:
            seen.append(self._serve())
            return bool((seen[-1] != seen.pop(-2)).any())

        while not over(seen[-1]):
            assert isinstance(channel, MpiChannel)
            channel.wait(moved, self._missing, call)
        return seen[-1]

    def _missing(self) -> list[int]:
        """The ranks that are furthest behind."""
        flags = self.window.flags()
        clocks = np.where(flags[OVER] > 0, np.iinfo(np.int64).max, flags[CLOCKS])
        clocks[self.channel.rank] = np.iinfo(np.int64).max
        behind = np.flatnonzero(clocks == clocks.min())
        return [int(r) for r in behind if r != self.channel.rank]

    # All ranks together -----------------------------------------------------------------------

    def synchronize(self) -> None:
        """Wait for all steps of all ranks, and take the weights that the servers have then."""
        if current().traces:
            raise CaptureError(
                "synchronize() of a parameter server in a hybridized function",
                at=author_location(),
                why="It waits for all steps of all ranks, and this step is one of them.",
                fix="call it outside, before checkpoints and evaluations",
            )
        channel, window = self.channel, self.window
        with Doing(CollectiveCall("synchronize")) as call:
            self._take_loaded()
            window.tell(OVER, channel.rank, 1)

            def over(flags: np.ndarray) -> bool:
                last = flags[CLOCKS].max()
                return bool(flags[OVER].all() and (flags[VERSIONS] == last).all())

            values = self._pull(self._wait(over, call))
            channel.barrier()  # all have what they need of the flags
            self.clock = self.version
            for r in range(channel.ranks):
                window.tell(CLOCKS, r, self.clock, [channel.rank])
                window.tell(OVER, r, 0, [channel.rank])
            channel.barrier()
            with recording(False):
                for p, value in zip(self.parameters, values, strict=True):
                    p.assign(from_numpy(value, copy=True))
                self._average_buffers()
        self.rows.assign(ops.full((), _NO_CALL, dtype=float64))
        self.settled = True

    def _average_buffers(self) -> None:
        channel = self.channel
        for cell in self.model.buffers():
            if cell.dtype.is_floating and channel.ranks > 1:
                total = all_reduce(
                    ops.astype(cell.detach(), float64), comm=channel.name, ranks=channel.ranks
                )
                cell.assign(ops.astype(total / channel.ranks, cell.dtype))

    def require_settled(self, what: str) -> None:
        """Raise where this rank has made steps that are not those of all."""
        if not self.settled:
            raise ArgumentError(
                f"{what} between steps of a parameter server",
                why="Servers have unlike versions of it, and serve no others while they wait.",
                fix="call optimizer.synchronize() first, on all ranks",
            )

    def _take_loaded(self) -> None:
        if not self.loaded:
            return
        self._meet("serving what was loaded")  # nobody reads what is written now
        with recording(False):
            for at, p in enumerate(self.parameters):
                self._parts[at].assign(self.slices.mine(p.detach()))
        self._show_weights(self.clock)
        self.loaded = False
        self._meet("serving what was loaded")

    def _meet(self, why: str) -> None:
        with Doing(CollectiveCall(why)):
            self.channel.barrier()


def _places(first: int, shares: Sequence[int], dtypes: Sequence[np.dtype]) -> list[int]:
    """Where each parameter begins in a line of bytes, and where the last one ends."""
    found = [first]
    for share, dtype in zip(shares, dtypes, strict=True):
        found.append(found[-1] + share * dtype.itemsize)
    return found
