"""The ranks of a mesh, simulated by one process: their graphs run side by side."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from hybrid.core.layouts import PARTIAL, Held, MeshAxis, Placement, Split, laid_type
from hybrid.core.types import TensorType
from hybrid.eager.execution import EAGER, from_numpy
from hybrid.ir import Graph
from hybrid.memory.channels import tree_sum
from hybrid.passes.layouts.local_graph import LocalGraph, laid_like, local_graph


def axis_of(ranks: int, rank: int, name: str = "tp") -> MeshAxis:
    return MeshAxis(f"{name} of {name}={ranks}", ranks, rank)


def local_graphs(
    graph: Graph,
    places: Sequence[Placement],
    ranks: int,
    wanted: dict[int, Placement] | None = None,
) -> list[LocalGraph]:
    """What each rank runs for ``graph``, whose parameters are at ``places``."""
    found = []
    for rank in range(ranks):
        axis = axis_of(ranks, rank)

        def laid(type: TensorType, place: Placement, axis: MeshAxis = axis) -> TensorType:
            return laid_type(type, [(axis, place)])

        types = [laid(v.type, p) for v, p in zip(graph.params, places, strict=True)]
        asked = {at: laid(graph.results[at].type, p) for at, p in (wanted or {}).items()}
        found.append(local_graph(laid_like(graph, types), asked))
    return found


def part_of(array: np.ndarray, place: Placement, ranks: int, rank: int) -> np.ndarray:
    """What ``rank`` has of ``array``; of terms the first one has a third of it."""
    if isinstance(place, Split):
        axis = place.axis
        inner = array.shape[axis] // (place.outer * ranks)
        wide = (*array.shape[:axis], place.outer, ranks, inner, *array.shape[axis + 1 :])
        own = np.take(array.reshape(wide), rank, axis + 1)
        return own.reshape(*array.shape[:axis], place.outer * inner, *array.shape[axis + 1 :])
    if isinstance(place, Held):
        return array if rank == place.rank else np.empty(0, array.dtype)
    if place == PARTIAL:
        share = array // array.dtype.type(3)  # whole numbers: adding them again is exact
        return (share, array - share, *[np.zeros_like(array)] * ranks)[rank]
    return array


def joined(parts: Sequence[np.ndarray], place: Placement) -> np.ndarray:
    """The whole of which the ranks have ``parts``; what all have has to be the same."""
    ranks = len(parts)
    if isinstance(place, Split):
        axis = place.axis
        before, n, behind = (
            parts[0].shape[:axis],
            parts[0].shape[axis],
            parts[0].shape[axis + 1 :],
        )
        wide = [p.reshape(*before, place.outer, 1, n // place.outer, *behind) for p in parts]
        return np.concatenate(wide, axis + 1).reshape(*before, n * ranks, *behind)
    if isinstance(place, Held):
        assert [at for at, part in enumerate(parts) if part.size] == [place.rank]
        return parts[place.rank]
    if place == PARTIAL:
        return tree_sum(list(parts))
    for part in parts[1:]:
        np.testing.assert_array_equal(part, parts[0])
    return parts[0]


Step = Generator[tuple[str, np.ndarray], np.ndarray, list[np.ndarray]]


def _run(graph: Graph, arrays: Sequence[np.ndarray]) -> Step:
    """A rank, which stops at each collective for what it gives."""
    known: dict[Any, Any] = {}
    for value, array in zip(graph.params, arrays, strict=True):
        made = from_numpy(np.array(array, order="C"), copy=True)
        assert made.type is value.type, (made.type, value.type)
        known[value] = made
    for node in graph.nodes:
        operands = [known[v] for v in node.operands]
        if node.op.communicates:
            root = node.attributes.get("root", "")
            found = yield f"{node.op.name}{root}", operands[0].numpy()
            results = (from_numpy(np.array(found, order="C"), copy=True),)
        else:
            results = EAGER.run(node.op, operands, node.attrs, node.regions)
        for value, made in zip(node.results, results, strict=True):
            assert made.type is value.type
            known[value] = made
    return [known[v].numpy() for v in graph.results]


def run_ranks(graphs: Sequence[Graph], arrays: Sequence[Sequence[np.ndarray]]) -> list[list[Any]]:
    """The results of each rank; ``arrays`` are the operands of each."""
    ranks = [_run(graph, given) for graph, given in zip(graphs, arrays, strict=True)]
    sent: list[Any] = [None] * len(ranks)
    results: list[Any] = [None] * len(ranks)
    while True:
        asked = []
        for at, rank in enumerate(ranks):
            try:
                asked.append(rank.send(sent[at]))
            except StopIteration as end:
                results[at] = end.value
        if not asked:
            return results
        assert len(asked) == len(ranks) and len({name for name, _ in asked}) == 1, asked
        sent = _moved(asked[0][0], [array for _, array in asked])


def _moved(name: str, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    ranks = len(given)
    if name == "all_gather":
        return [np.concatenate(list(given))] * ranks
    if name == "all_reduce":
        return [tree_sum(list(given))] * ranks
    if name.startswith("broadcast"):
        return [given[int(name.removeprefix("broadcast"))]] * ranks
    parts = [np.split(array, ranks) for array in given]
    if name == "all_to_all":
        return [np.concatenate([parts[r][me] for r in range(ranks)]) for me in range(ranks)]
    assert name == "reduce_scatter"
    return [tree_sum([parts[r][me] for r in range(ranks)]) for me in range(ranks)]
