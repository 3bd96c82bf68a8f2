"""State of modules: dicts of it, checked whole before any of it is written; and other dtypes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hybrid import weights
from hybrid.config import advance_epoch
from hybrid.core.layouts import whole_of
from hybrid.core.types import DEVICE, dtype_of, require_device
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    DTypeError,
    HybridError,
    author_location,
)
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.memory import native
from hybrid.nn.modules import hooks, registry

if TYPE_CHECKING:
    from hybrid.nn.modules.module import Module


class LoadResult(NamedTuple):
    """Keys that the state lacked, and keys that it had without need."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def state_of(module: Module, prefix: str, keep_vars: bool) -> dict[str, Tensor]:
    """What ``Module.state_dict`` returns."""
    holders = list(module._walk(prefix.removesuffix(".")))
    for path, holder in holders:
        for hook in hooks.of_kind(holder, "state_dict_pre"):
            hook.function(holder, registry.joined(path, ""), keep_vars)
    cells = module._tensors("state", prefix.removesuffix("."), True)
    state = {name: cell if keep_vars else cell.detach() for name, cell in cells}
    for path, holder in reversed(holders):
        for hook in hooks.of_kind(holder, "state_dict_post"):
            hook.function(holder, state, registry.joined(path, ""), {})
    return state


def load(module: Module, given: Any, strict: bool, assign: bool) -> LoadResult:
    """What ``Module.load_state_dict`` does."""
    if isinstance(given, (str, os.PathLike)):
        given = weights.load(given)
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"a state dict is a mapping, not a {type(given).__name__}")
    _refuse_nested(given)
    state, cells = dict(given), dict(module._tensors("state", "", True))
    versions = getattr(given, "_metadata", {})  # of what PyTorch made
    missing: list[str] = []
    unexpected: list[str] = []
    problems: list[str] = []
    for path, holder in module._walk(""):
        prefix = registry.joined(path, "")
        holder._complete_state(state, prefix, versions.get(path, {}).get("version"))
        for hook in hooks.of_kind(holder, "load_state_dict_pre"):
            hook.function(holder, state, prefix, {}, strict, missing, unexpected, problems)
    problems = [f"  {problem}" for problem in problems]
    there = {id(cells[name]) for name in state if name in cells}  # by one of their names at least
    missing += [name for name, cell in cells.items() if id(cell) not in there]
    unexpected += [name for name in state if name not in cells]
    if strict:
        problems += [f"  missing: {name}{_type(cells, name)}" for name in missing]
        problems += [f"  unexpected: {name}" for name in unexpected]
    chosen: dict[int, tuple[str, Tensor, Tensor]] = {}  # by cell: a name, the cell, its new value
    for name, cell in cells.items():
        if name in state:
            problems += _take(name, cell, state[name], assign, chosen)
    if problems:
        path = getattr(given, "path", None)
        source = "the state" if path is None else f"the state of {path}"
        raise ArgumentError(
            "\n".join([f"{source} does not fit {type(module).__name__}; nothing was loaded"])
            + "".join(f"\n{problem}" for problem in problems),
            fix=_fix(problems, strict),
        )
    for _, cell, value in chosen.values():
        if whole_of(value.type) is not whole_of(cell.type):
            retype(cell, value)
        else:
            cell.assign(value)
    result = LoadResult(missing, unexpected)
    for _, holder in reversed(list(module._walk(""))):
        for hook in hooks.of_kind(holder, "load_state_dict_post"):
            hook.function(holder, result)
    return result


def _refuse_nested(given: Mapping[str, Any]) -> None:
    """Raise for a file that holds several states, such as those of a model and its optimizer."""
    parts = [name for name, value in given.items() if isinstance(value, Mapping)]
    if parts:
        path = getattr(given, "path", None)
        raise ArgumentError(
            f"{path or 'the state'} holds several states: {', '.join(map(str, parts))}",
            fix=f"load one of them: load_state_dict(hybrid.load({path!r})[{parts[0]!r}])"
            if path
            else f"load one of them: load_state_dict(state[{parts[0]!r}])",
        )


def _type(cells: Mapping[str, Tensor], name: str) -> str:
    return f" ({cells[name].type})" if name in cells else ""


def _fix(problems: list[str], strict: bool) -> str:
    kinds = {problem.split(":")[0].strip() for problem in problems}
    fix = "load what state_dict() of the same model gave"
    if kinds == {"wrong dtype"}:
        fix = "convert the model first, with model.to(dtype), or pass assign=True to take the "
        fix += "dtypes of the state"
    if strict and kinds & {"missing", "unexpected"}:
        fix += ", or pass strict=False to leave keys out"
    return fix


def _take(name: str, cell: Tensor, given: Any, assign: bool, chosen: dict[int, Any]) -> list[str]:
    """Choose what ``cell`` is to hold, or say why ``given`` cannot be that."""
    try:
        value = _value(given, assign)
    except HybridError as error:
        return [f"  wrong type: {name} cannot be a tensor: {error.what}"]
    if not isinstance(value, Tensor):
        return [f"  wrong type: {name} is {type(value).__name__}, not a tensor"]
    if value.shape != cell.shape:
        return [f"  wrong shape: {name} is {value.type}, not {cell.type}"]
    is_same = value.dtype is cell.dtype
    if not is_same and not assign:
        return [f"  wrong dtype: {name} is {value.type}, not {cell.type}"]
    if not is_same and cell.requires_grad and not value.dtype.is_floating:
        return [f"  wrong dtype: {name} is {value.type} and requires a gradient"]
    first, _, other = chosen.setdefault(id(cell), (name, cell, value))
    if not _same(other, value):
        return [f"  two values: {first} and {name} are one tensor of the model"]
    return []


def _value(given: Any, assign: bool) -> Any:
    """A tensor to assign; arrays are copied, so that later writes to them stay theirs.

    So is the memory of an array, or of a file, that a tensor shares, unless ``assign`` takes it.
    """
    if isinstance(given, Tensor):
        value = given.detach()
        if not assign and not native.owns(value.content):
            value.content = native.part(value.content, 0, value.type.nbytes)
        return value
    is_array = hasattr(given, "__array__") or hasattr(given, "__dlpack__")
    return asarray(given, copy=True) if is_array else given


def _same(a: Tensor, b: Tensor) -> bool:
    if a.content is b.content or a.type is not b.type:
        return a.type is b.type
    nbytes = a.type.nbytes
    return native.view(a.content, nbytes)[:] == native.view(b.content, nbytes)[:]


def retype(cell: Tensor, value: Tensor) -> None:
    """Let ``cell`` hold ``value``, whose dtype is another: all who know the cell see it."""
    if ACTIVE and current().traces:
        raise CaptureError(
            f"a tensor of {cell.type} was converted in place inside a hybridized function",
            at=author_location(),
            why="A plan is made for the types that it has found.",
            fix="convert modules outside, or use what astype() returns",
        )
    grad, wanted = cell.grad, getattr(cell, "leaf", None) is not None
    cell.requires_grad = False
    cell.type, cell.content = value.type, value.content
    if wanted or grad is not None:
        cell.requires_grad = True
        cell.grad = None if grad is None else grad.astype(value.dtype)
        cell.requires_grad = wanted
    advance_epoch()


def convert(module: Module, args: Sequence[Any], dtype: Any, device: Any) -> None:
    """What ``Module.to`` does."""
    for given in args:
        if isinstance(given, Tensor):  # like that one
            dtype = given.dtype
        elif given == DEVICE:
            device = given
        else:
            dtype = given
    require_device(None if device is None else str(device))
    if dtype is None:
        return
    wanted = dtype_of(dtype)
    if not wanted.is_floating:
        raise DTypeError(
            f"a {type(module).__name__} cannot be converted to {wanted.name}",
            why="Parameters are floating; other buffers keep their dtypes.",
            fix="give a floating dtype",
        )
    cells = [*module.parameters(), *module.buffers()]
    for cell in {id(cell): cell for cell in cells}.values():
        if cell.dtype.is_floating and cell.dtype is not wanted:
            retype(cell, cell.detach().astype(wanted))
