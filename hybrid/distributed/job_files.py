"""save and load: one file of all that training needs, for any number of ranks to go on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hybrid.core.imports import optional
from hybrid.core.layouts import whole_of
from hybrid.core.tree import tree_map
from hybrid.distributed.meshes import world_channel
from hybrid.distributed.shared_tensors import whole
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckpointError,
    HybridError,
    author_location,
)
from hybrid.memory.channels import Channel, CollectiveCall, Doing
from hybrid.random import default_generator
from hybrid.train.arguments import Loading, copied
from hybrid.weights import load as read
from hybrid.weights import save as write

RANDOM = "random"  # the name of the state of the default generator
MOST_SAID = 400  # characters of an error that others are told


def save(path: str | os.PathLike[str], **things: Any) -> None:
    """Write ``things`` by name to one file: what has a ``state_dict()``, tensors, plain values.

    All ranks call it alike; rank 0 writes, and the file appears when it is whole.  Models and
    optimizers are written as they are without ranks, with whole tensors by name, so any number of
    ranks can ``load`` it; the state of the default random generator is written, too.  An error on
    rank 0, such as a full disk, is raised on every rank.
    """
    optional("safetensors", "io", "hybrid.distributed.save")
    if RANDOM in things:
        raise ArgumentError(
            f"a thing is called {RANDOM!r}",
            why="The state of the default random generator has that name.",
            fix="give it another name",
        )
    state: dict[str, Any] = {name: _state_of(thing) for name, thing in things.items()}
    state[RANDOM] = default_generator().state.detach()
    on_rank_0(world_channel(), f"write {os.fsdecode(path)}", lambda: write(path, state))


def load(path: str | os.PathLike[str], **things: Any) -> dict[str, Any]:
    """Put what ``save`` wrote into ``things``: all of it fits and is loaded, or nothing is.

    All ranks call it alike, as many as there are now.  Tensors and what has a
    ``load_state_dict()`` are written to; the plain values of the file are returned by name, and so
    is what no thing was given for.  What does not fit on one rank is raised on every rank.
    """
    channel = world_channel()
    state: dict[str, Any] = {}

    def get() -> None:
        state.update(read(path))
        missing = [name for name in things if name not in state]
        if missing or RANDOM not in state:
            raise CheckpointError(
                f"{os.fsdecode(path)} has no {', '.join(missing or [RANDOM])}",
                why=f"It has {', '.join(state) or 'nothing'}.",
                fix="give the things that were saved, by the names that they were saved by",
            )

    on_each_rank(channel, f"read {os.fsdecode(path)}", get)
    with Loading() as loading:
        on_each_rank(channel, f"load {os.fsdecode(path)}", lambda: _put(loading, state, things))
    default_generator().state.assign(state[RANDOM])
    given = {name for name, thing in things.items() if _holds_state(thing)}
    return {name: value for name, value in state.items() if name not in given | {RANDOM}}


def _put(loading: Loading, state: Mapping[str, Any], things: Mapping[str, Any]) -> None:
    for name, thing in things.items():
        if hasattr(thing, "load_state_dict"):
            loading.load(thing, state[name])
        elif isinstance(thing, Tensor):
            loading.load(_SavedTensor(name, thing), state[name])


class _SavedTensor:
    """A tensor that is loaded as what has a state is."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name, self.tensor = name, tensor

    def state_dict(self) -> Tensor:
        return self.tensor.detach()

    def load_state_dict(self, value: Any) -> None:
        found = asarray(value)
        if found.type is not whole_of(self.tensor.type):
            raise CheckpointError(
                f"{self.name} is {found.type} in the file and {self.tensor.type} here",
                fix="give the tensor that was saved, or one like it",
            )
        self.tensor.assign(found)


def _holds_state(thing: Any) -> bool:
    return hasattr(thing, "load_state_dict") or isinstance(thing, Tensor)


def _state_of(thing: Any) -> Any:
    """What is written of ``thing``; tensors that ranks share are put together, on all of them."""
    state = thing.state_dict() if hasattr(thing, "state_dict") else thing
    return copied(tree_map(lambda x: whole(x) if isinstance(x, Tensor) else x, state))


# One rank for all, and all for one ----------------------------------------------------------------


def on_rank_0(channel: Channel, what: str, do: Callable[[], Any]) -> None:
    """Let rank 0 ``do`` it while the others wait; an error of it is raised on every rank."""
    on_each_rank(channel, what, do if channel.rank == 0 else lambda: None)


def on_each_rank(
    channel: Channel,
    what: str,
    do: Callable[[], Any],
    kind: type[HybridError] = CheckpointError,
) -> None:
    """Let all ranks ``do`` it; an error of one is raised on every rank, on others as a ``kind``."""
    error: Exception | None = None
    try:
        do()
    except Exception as raised:
        error = raised
    text = "" if error is None else f"{type(error).__name__}: {error}"
    said = text.encode()[:MOST_SAID].ljust(MOST_SAID)
    # Ranks may read and write files of their own: what they do counts, and not with which.
    call = CollectiveCall(what.partition(" ")[0], location=author_location())
    with Doing(call) as entry:
        channel.agree([entry], eager=True)
        heard = channel.all_gather(np.frombuffer(said, np.uint8).copy()).reshape(-1, MOST_SAID)
    if error is not None:
        raise error
    for number, row in enumerate(heard):
        text = row.tobytes().decode("utf-8", "replace").strip()
        if text:
            raise kind(
                f"rank {number} could not {what}: {text}",
                why="All ranks go on together, or none.",
                fix="see what is wrong there",
            )


# What a rank holds --------------------------------------------------------------------------------


def local_nbytes(thing: Any) -> int:
    """The bytes that this rank holds of a tensor, a module or an optimizer's state."""
    if isinstance(thing, Tensor):
        return thing.type.nbytes
    if hasattr(thing, "named_parameters"):
        cells = [*thing.parameters(), *thing.buffers()]
    elif hasattr(thing, "param_groups"):
        states = [state for group in thing.param_groups for state in group.states]
        cells = [cell for state in states for cell in (*state.moments, *state.counts)]
    else:
        raise ArgumentTypeError(
            f"local_nbytes of a {type(thing).__name__}",
            fix="give a module, an optimizer or a tensor",
        )
    return sum(cell.type.nbytes for cell in cells)
