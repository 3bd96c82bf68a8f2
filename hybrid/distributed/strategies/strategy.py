"""strategy: which ranks of a mesh compute what of a step of training, and what that takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.calls.hybridized import Hybridized
from hybrid.core.dataclass import replace
from hybrid.core.layouts import MeshAxis
from hybrid.distributed.meshes import Mesh, channel_for, world_channel
from hybrid.distributed.shared_tensors import hold_by
from hybrid.distributed.strategies.captured_step import (
    CapturedStep,
    author_function,
    captured_step,
    require_same,
)
from hybrid.distributed.strategies.link_speeds import LinkSpeeds, agreed, link_speeds
from hybrid.distributed.strategies.mesh_search import FOUND, Chosen, MeshSearch, Option
from hybrid.distributed.strategies.op_times import OpTimes
from hybrid.distributed.strategies.strategy_page import strategy_page
from hybrid.distributed.world import size
from hybrid.eager.fused_calls import optimized
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir.record import recording
from hybrid.ops.communication.collectives import broadcast
from hybrid.passes.layouts.rank_graph import CHOSEN
from hybrid.plan.plan import lowered_of
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.capture.recapture import uncollected


def strategy(
    step: Callable[..., Any], *examples: Any, mesh: Mesh, memory: int | None = None
) -> Strategy:
    """How the ranks of ``mesh`` are to share ``step``, so that it takes least time.

    All ranks call it alike.  ``step`` is a step of training as one process makes it, which gets the
    whole batch; ``examples`` are arguments like those that it is going to get.  It is captured and
    not run.  What it does is searched for the layouts that take least, by what ops and collectives
    were measured to take on these ranks: parameters, moments and gradients, and what each rank
    computes of each op (Jia, Lin, Qi and Aiken, 2018; Zheng et al., 2022).  What people would have
    done by hand is among what is chosen from.

    ``memory`` is how many bytes a rank may take at most, for what it holds and while it computes.
    Raises ArgumentError where no strategy keeps to that; it says what the least is.
    """
    _require(step, mesh, memory)
    captured = captured_step(step, examples, "a strategy", plain=True)
    require_same("strategy", f"memory={memory} {captured.graph}")
    links = {
        name: link_speeds(mesh.channel(name), world_channel())
        for name in mesh.names
        if mesh.size(name) > 1
    }
    # One search for all steps of a graph: for a training that begins again, say.
    key = str(captured.graph), captured.cells, mesh, memory is None, tuple(map(id, links.values()))
    if key not in _searched:
        while len(_searched) >= KEPT_SEARCHES:
            del _searched[next(iter(_searched))]
        _searched[key] = _search(captured, mesh, links, memory is not None)
    search, options, peaks = _searched[key]
    fitting = [at for at in range(len(options)) if memory is None or peaks[at] <= memory]
    if not fitting:
        raise _too_little(memory or 0, peaks, options)
    best = min(fitting, key=lambda at: options[at].seconds)
    if not peaks:
        [peak] = agreed(world_channel(), [_peak(options[best])])
    else:
        peak = peaks[best]
    function = author_function(step)
    return Strategy(function, captured, mesh, search, options, options[best], int(peak), links)


_searched: dict[Any, tuple[MeshSearch, list[Option], list[int]]] = {}
KEPT_SEARCHES = 8


def _search(
    step: CapturedStep, mesh: Mesh, links: Mapping[str, LinkSpeeds], memory: bool
) -> tuple[MeshSearch, list[Option], list[int]]:
    """The options for ``step``; if ``memory`` counts, how many bytes they take, too."""
    search = _search_of(replace(step, tensors={}, others=()), mesh, links)  # which is kept
    with uncollected():
        options = search.options(memory)
        peaks = [_peak(option) for option in options] if memory else []
    return search, options, [int(n) for n in agreed(world_channel(), peaks)]


def _require(step: Any, mesh: Any, memory: Any) -> None:
    if not callable(step):
        raise ArgumentTypeError(
            f"step is a {type(step).__name__}",
            fix="give the function that makes a step of training",
        )
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError(
            f"mesh is a {type(mesh).__name__}", fix="give what hybrid.distributed.mesh made"
        )
    channel_for(None, mesh)
    if math.prod(mesh.shape) != size():
        raise ArgumentError(
            f"a mesh of {'x'.join(map(str, mesh.shape))} ranks in a job of {size()}",
            why="Each rank is to have one place in it.",
            fix="make it with hybrid.distributed.mesh, which says so at once",
        )
    if memory is None:
        return
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise ArgumentTypeError(f"memory is {memory!r}", fix="give a number of bytes")
    if memory < 1:
        raise ArgumentError(f"memory is {memory}", fix="give a number of bytes, 1 or more")


def _search_of(step: CapturedStep, mesh: Mesh, links: Mapping[str, LinkSpeeds]) -> MeshSearch:
    of_comm = {mesh.channel(name).name: own for name, own in links.items()}

    def link_seconds(collective: str, nbytes: int, comm: str, ranks: int) -> float:
        return of_comm[comm].seconds(collective, nbytes, ranks)

    axes = [axis._replace(rank=axis.ranks - 1) for axis in axes_of(mesh)]
    return MeshSearch(step, axes, OpTimes(world_channel()), link_seconds)


def axes_of(mesh: Mesh) -> list[MeshAxis]:
    """The axes of ``mesh`` that have several ranks, in the order in which parts are cut."""
    return sorted(
        [
            MeshAxis(mesh.channel(name).name, mesh.size(name), mesh.coordinate(name))
            for name in mesh.names
            if mesh.size(name) > 1
        ]
    )


def _peak(option: Option) -> int:
    """The bytes that a rank takes: what it holds, what a step makes, and its memory meanwhile."""
    if option.stages:
        return max([_peak(stage) for stage in option.stages])
    graph = option.graph
    _, placement = lowered_of(optimized(graph))
    made = [v.type.nbytes for at, v in enumerate(graph.results) if at not in placement.donations]
    return sum([v.type.nbytes for v in graph.params]) + sum(made) + placement.arena_nbytes


def _too_little(memory: int, peaks: Sequence[int], options: Sequence[Option]) -> ArgumentError:
    least = min(range(len(peaks)), key=peaks.__getitem__)
    return ArgumentError(
        f"no strategy has a step of this graph in {memory} bytes on each rank",
        why=f"What needs least, {options[least].name!r}, takes {peaks[least]}.",
        fix=f"give memory={peaks[least]} or more, a mesh of more ranks, or a smaller batch",
    )


class Strategy:
    """What was found for a step: ``str()`` shows it, ``apply()`` gives a step that runs so."""

    def __init__(
        self,
        function: Callable[..., Any],
        step: CapturedStep,
        mesh: Mesh,
        search: MeshSearch,
        options: Sequence[Option],
        best: Option,
        peak: int,
        links: Mapping[str, LinkSpeeds],
    ) -> None:
        self.mesh, self.links = mesh, dict(links)
        self.memory = peak  # bytes that a rank takes
        self.name = best.name
        self._function, self._step, self._best, self._search = function, step, best, search
        self._hand = {o.name: o for o in options if o.name != FOUND}

    @property
    def seconds(self) -> float:
        """What a step takes, as is predicted."""
        return self._best.seconds

    @property
    def candidates(self) -> dict[str, float]:
        """What a step would take as people lay it out by hand: seconds by name."""
        return {name: option.seconds for name, option in self._hand.items()}

    def __repr__(self) -> str:
        return f"<strategy {self.name!r}: {self.seconds * 1e3:.3f} ms>"

    def __str__(self) -> str:
        return strategy_page(self)

    @property
    def option(self) -> Option:
        """What was chosen, axis by axis."""
        return self._best

    def apply(self, candidate: str | None = None) -> SharedStep:
        """The step, as ranks run it together; all of them call it, with the whole batch.

        ``candidate`` is the name of one by hand, if that is to be run and not the best.
        What the step writes to is laid out now, and taken over from rank 0: parameters, moments,
        gradients.  Batches of other sizes than the examples are laid out when they first come.
        """
        if candidate is not None and candidate not in self._hand:
            raise ArgumentError(
                f"a strategy has no candidate {candidate!r}",
                fix=f"use one of {', '.join(self._hand)}, or leave it out",
            )
        option = self._best if candidate is None else self._hand[candidate]
        step, axes = self._step, axes_of(self.mesh)
        for at, tensor in step.tensors.items():
            if tensor.type is not step.graph.params[at].type:
                raise ArgumentError(
                    f"a strategy for a step that has written to {step.graph.params[at].type}, "
                    f"which is {tensor.type} now",
                    why="Its tensors have been laid out since: a strategy is applied once.",
                    fix="call hybrid.distributed.strategy before tensors are sharded",
                )
        channel = world_channel()
        with recording(False):
            for tensor in (*step.tensors.values(), *step.others):
                if channel.ranks > 1:
                    value = broadcast(
                        tensor.detach(), root=0, comm=channel.name, ranks=channel.ranks
                    )
                    tensor.assign(value)
        for at, tensor in step.tensors.items():
            layout = [(axis, _place(option.of_stage(axes), axis, at)) for axis in axes]
            hold_by(tensor, [(axis, place) for axis, place in layout if place is not None])
        chosen = Chosen(option, axes, step, self._search.prices)
        return SharedStep(self._function, self, chosen if axes else None)


def _place(option: Option, axis: MeshAxis, cell: int) -> Any:
    return next((own.cells[cell] for own in option.axes if own.axis.comm == axis.comm), None)


class SharedStep(Hybridized):
    """A hybridized step that ranks run by a strategy."""

    def __init__(
        self, function: Callable[..., Any], strategy: Strategy, chosen: Chosen | None
    ) -> None:
        super().__init__(function, dynamic=False, ledger=False)
        self.strategy, self._chosen = strategy, chosen

    def _trace(self, *args: Any, **kwargs: Any) -> Capture:
        capture = super()._trace(*args, **kwargs)
        if self._chosen is not None:
            if capture.value_sizes is not None:
                raise ShapeError("sizes that depend on values, in a step that ranks share")
            capture.graph.derived[CHOSEN] = self._chosen
        return capture
