"""What users give to ``Model``, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from hybrid.data import DataLoader, Dataset, IterableDataset, sampler
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.train.callback import Callback

T = TypeVar("T")
MAX_LOOPS = 8  # of a model: those of the loaders that were used last are kept, with their plans


def loader_of(dataset: Any, method: str) -> DataLoader:
    """A loader as it is; one that gives the items of a list as batches."""
    if isinstance(dataset, DataLoader):
        return dataset
    if isinstance(dataset, (Dataset, IterableDataset)):
        raise ArgumentTypeError(
            f"{method} got a {type(dataset).__name__}, which gives single samples",
            fix="make batches of them: hy.data.DataLoader(dataset, batch_size=32, shuffle=True)",
        )
    if isinstance(dataset, (str, bytes, Tensor)) or not isinstance(dataset, Sequence):
        raise ArgumentTypeError(
            f"{method} got a {type(dataset).__name__} in place of a dataset",
            why="It goes over the data again and again.",
            fix="give a hy.data.DataLoader, or a list of batches",
        )
    return DataLoader(dataset, batch_size=None)


def of_loader(loops: list[Any], dataset: Any, method: str, made: Callable[[DataLoader], T]) -> T:
    """The one of ``loops`` for ``dataset``, which ``made`` makes if there is none."""
    for at, (given, loop) in enumerate(loops):
        if given is dataset:
            loops.append(loops.pop(at))
            return loop
    loop = made(loader_of(dataset, method))
    loops.append((dataset, loop))
    del loops[:-MAX_LOOPS]
    return loop


def callbacks_of(callbacks: Any) -> list[Callback]:
    """Callbacks, of one, several or none."""
    if callbacks is None:
        return []
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Iterable):
        callbacks = [callbacks]
    found = list(callbacks)
    for callback in found:
        if not isinstance(callback, Callback):
            raise ArgumentTypeError(
                f"train got {callback!r} as a callback",
                fix="give objects of hy.train.Callback's classes"
                + (", such as LossMonitor()" if isinstance(callback, type) else ""),
            )
    return found


def require_count(name: str, value: Any, least: int) -> int:
    """``value``, an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} is {value!r}", fix=f"give an int >= {least}")
    sampler.require_count(name, value, least)
    return value


def require_sink_size(size: Any) -> int:
    """``size``: -1, or a number of steps."""
    if isinstance(size, bool) or not isinstance(size, int):
        raise ArgumentTypeError(f"sink_size is {size!r}", fix="give an int >= 1, or -1")
    if size != -1 and size < 1:
        raise ArgumentError(
            f"sink_size is {size}",
            why="It is how many steps make an epoch; -1 lets a pass over the data be one.",
            fix="give an int >= 1, or -1",
        )
    return size


def require_per(per: Any) -> str:
    """``per``: "epoch" or "step"."""
    if per not in ("epoch", "step"):
        raise ArgumentError(f"per is {per!r}", fix='give "epoch" or "step"')
    return per


def as_input(x: Any) -> Any:
    """Arrays and numbers as tensors."""
    return x if isinstance(x, (Tensor, tuple, list, dict)) else asarray(x)


class Loading:
    """Loads states; an error in a ``with`` block of it puts back what was there before."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, Any]] = []

    def load(self, target: Any, state: Any) -> None:
        """``target.load_state_dict(state)``."""
        before = copied(target.state_dict())
        target.load_state_dict(state)
        self.before.append((target, before))

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None:
            for target, before in reversed(self.before):
                target.load_state_dict(before)


def copied(state: Any) -> Any:
    """A state that stays as it is now: its tensors are cells, which others write."""
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)([copied(value) for value in state])
    return state
