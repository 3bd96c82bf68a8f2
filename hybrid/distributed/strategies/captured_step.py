"""A step as a strategy sees it: the graph of whole tensors, and what ranks may hold in parts.

That are the parameters and whatever else the step writes to: moments, say.  They, the *cells*, and
the gradients that belong to them are held alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.calls.hybridized import Hybridized
from hybrid.core.dataclass import dataclass
from hybrid.core.layouts import MeshAxis, Placement, laid_type, whole_of
from hybrid.core.tree import LEAF, flatten
from hybrid.core.types import TensorType
from hybrid.distributed.job_files import on_each_rank
from hybrid.distributed.meshes import world_channel
from hybrid.distributed.mpi_channel import MpiChannel
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, author_location
from hybrid.ir import Graph, Node, inlined
from hybrid.ir.record import Leaf
from hybrid.memory.channels import CollectiveCall
from hybrid.passes.layouts.layout_search import HeldCell
from hybrid.passes.layouts.local_graph import laid_like
from hybrid.trace.capture.captured_graph import Capture

Places = dict[MeshAxis, dict[int, Placement]]  # of parameters of the graph, by number


@dataclass(frozen=True, slots=True, eq=False)
class CapturedStep:
    """A captured step whose tensors are whole."""

    graph: Graph
    cells: tuple[HeldCell, ...]
    tensors: dict[int, Tensor]  # those of the cells, by parameter of the graph
    weights: frozenset[int]  # cells that are parameters of a model
    others: tuple[Tensor, ...]  # tensors that are read and not written
    batch: tuple[int, ...]  # parameters of the graph that are examples, with rows
    loss: int | None  # the result that is the loss: the first one that is a number

    def laid(self, places: Places) -> tuple[Graph, dict[int, TensorType]]:
        """The graph with cells at ``places``, and the types of its results."""
        types = [whole_of(v.type) for v in self.graph.params]
        wanted = {at: whole_of(v.type) for at, v in enumerate(self.graph.results)}
        for cell in self.cells:
            layout = [(axis, held.get(cell.param)) for axis, held in sorted(places.items())]
            types[cell.param] = laid_type(types[cell.param], layout)
            wanted.update({at: laid_type(wanted[at], layout) for at in cell.results})
        return laid_like(self.graph, types), wanted


def author_function(step: Any) -> Any:
    """``step`` as its author wrote it, if it is hybridized."""
    return step.function if isinstance(step, Hybridized) else step


def captured_step(step: Any, examples: Sequence[Any], purpose: str, *, plain: bool) -> CapturedStep:
    """What ``step`` is with arguments like ``examples``; what one rank raises is raised on all.

    ``purpose`` is what it is captured for, in errors.  ``plain``: it is one of a single process;
    what ranks share already is refused.
    """
    function = author_function(step)
    found: list[CapturedStep] = []

    def capture() -> None:
        leaves, _ = flatten(tuple(examples))
        for at, leaf in enumerate(leaves):
            _require_example(f"example {at}", leaf, purpose)
            if plain and isinstance(leaf, Tensor):
                _require_whole(f"example {at}", leaf)
        made = _captured(function, examples, leaves, purpose)
        if plain:
            _require_plain(made)
        found.append(made)

    on_each_rank(world_channel(), "capture the step", capture)
    return found[0]


def require_same(what: str, text: str) -> None:
    """Raise on all ranks where ``text`` is another one on some: CollectiveMismatchError."""
    everyone = world_channel()
    if isinstance(everyone, MpiChannel):
        call = CollectiveCall(what, attributes=text, location=author_location())
        everyone.compare([call])


def _require_example(what: str, leaf: Any, purpose: str) -> None:
    if not isinstance(leaf, (Tensor, bool, int, float, complex, str, type(None))):
        raise ArgumentTypeError(
            f"{what} of {purpose} is a {type(leaf).__name__}",
            why="Examples are what the step is going to be called with: tensors and numbers.",
            fix="convert arrays with hybrid.asarray",
        )


def _captured(
    function: Any, examples: Sequence[Any], leaves: Sequence[Any], purpose: str
) -> CapturedStep:
    _, capture = Hybridized(function, dynamic=False, ledger=False).captured(tuple(examples), {})
    if capture.value_sizes is not None:
        raise CaptureError(
            f"{purpose} for a step with sizes that depend on values",
            why="What ranks compute of it would be known only once it runs.",
            fix="leave such sizes out of the step: use hybrid.where in place of x[mask]",
        )
    graph = inlined(capture.graph)
    return _step_of(graph, capture, leaves, purpose)


def _step_of(graph: Graph, capture: Capture, leaves: Sequence[Any], purpose: str) -> CapturedStep:
    outside: dict[int, Tensor] = {}
    for at, source in enumerate(capture.sources):
        if source.kind not in ("argument", "number"):
            outside[at] = source.fetch(leaves)
    held: dict[int, list[int]] = {}
    for at, output in capture.writes:
        held.setdefault(at, []).append(output)
    of_leaf = {t.leaf: at for at, t in outside.items() if getattr(t, "leaf", None) is not None}
    for write in capture.place_writes:  # gradients
        owner, made = write.address.owner, write.recipe.leaves
        known = isinstance(owner, Leaf) and owner in of_leaf
        if known and write.recipe.structure == LEAF and made[0][0] == "output":
            held.setdefault(of_leaf[owner], []).append(made[0][1])
    for at in of_leaf.values():
        held.setdefault(at, [])
    kept = {at for at in held if at in outside and graph.params[at].type.rank}
    if not any(t.leaf is not None for t in outside.values() if hasattr(t, "leaf")):
        raise ArgumentError(
            f"{purpose} for a step without parameters",
            why="It reads no tensor from outside that gradients are taken by, so there is nothing "
            "that ranks could share or would have to hold alike.",
            fix="give the function that calls the model, takes gradients and makes the step of the "
            "optimizer",
        )
    cut = {output for outputs in held.values() for output in outputs}
    numbers = [
        at
        for at, v in enumerate(graph.results)
        if at not in cut and not v.type.rank and v.type.dtype.is_floating
    ]
    return CapturedStep(
        graph=graph,
        cells=tuple([HeldCell(at, tuple(held[at])) for at in sorted(kept)]),
        tensors={at: outside[at] for at in sorted(kept)},
        weights=frozenset([at for at in of_leaf.values() if at in kept]),
        others=tuple([t for at, t in outside.items() if at not in kept]),
        batch=tuple(
            [
                at
                for at, source in enumerate(capture.sources)
                if source.kind == "argument" and graph.params[at].type.rank
            ]
        ),
        loss=numbers[0] if numbers else None,
    )


def _require_plain(step: CapturedStep) -> None:
    for tensor in (*step.tensors.values(), *step.others):
        _require_whole("a tensor that the step reads", tensor)
    _require_alone(step.graph)


def _require_whole(what: str, x: Tensor) -> None:
    if x.type.layout is not None:
        raise ArgumentError(
            f"{what}, {x.type}, is shared by ranks already",
            why="A strategy decides how ranks hold tensors, and begins with whole ones.",
            fix="leave out hybrid.distributed.shard",
        )


def _require_alone(graph: Graph) -> None:
    node: Node
    for node in graph.walk():
        if node.op.communicates:
            raise ArgumentError(
                f"{node.op.name} in a step that is to get a strategy",
                at=node.location,
                why="A strategy decides what ranks tell each other; the step is that of one "
                "process, which has the whole batch.",
                fix="leave out data_parallel and collectives",
            )
        if node.op.name in ("laid_out", "pipeline_edge"):
            raise ArgumentError(
                "shard or pipeline in a step that is to get a strategy",
                at=node.location,
                why="A strategy decides how ranks share tensors and work.",
                fix="leave them out",
            )
