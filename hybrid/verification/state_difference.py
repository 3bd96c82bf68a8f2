"""What two runs of a call have left behind, written down so that it can be compared."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hybrid.autodiff.tape import cotangents, history
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import GradientError, HybridError
from hybrid.ir.record import Leaf, gradient_leaf
from hybrid.ops.shapes.creation import ones
from hybrid.verification.reached_state import CONTAINERS, attributes, holds_state, reached
from hybrid.verification.state_snapshot import StateSnapshot


class TensorState(NamedTuple):
    """The value of a tensor at one time."""

    tensor: Tensor  # of the same value, without a history
    requires_grad: bool

    def differs(self, other: TensorState) -> str:
        """In what two values differ; "" if in nothing."""
        a, b = self.tensor, other.tensor
        if a.type is not b.type:
            return f"{a.type} and {b.type}"
        if self.requires_grad != other.requires_grad:
            return f"requires_grad {self.requires_grad} and {other.requires_grad}"
        if a.content is b.content:
            return ""
        left, right = a._array("DLPack"), b._array("DLPack")
        if left.tobytes() == right.tobytes():
            return ""
        unlike = np.argwhere(
            np.frombuffer(left.tobytes(), np.uint8).reshape(*left.shape, -1)
            != np.frombuffer(right.tobytes(), np.uint8).reshape(*right.shape, -1)
        )
        at = unlike[0][:-1].tolist()
        count = len({tuple(place[:-1]) for place in unlike.tolist()})
        first = f" at {at}: {a[tuple(at)].item()} and {b[tuple(at)].item()}"
        return f"{count} of {left.size} elements, the first{first}"


_GRADIENT = "'s gradient"
_CODE = (types.FunctionType, type, tuple)


class Outcome:
    """What a call gave, or raised, and what all objects that it reaches hold then.

    ``found`` are all objects that it and its result reach (see ``reached``); those of ``before``
    are told apart, and are looked at if they have changed: others are known by what leads to them.
    With ``gradients`` those of the results are computed, too.
    """

    def __init__(
        self, found: Mapping[int, tuple[str, Any]], before: StateSnapshot, result: Any,
        error: BaseException | None, *, gradients: bool = True,
    ) -> None:  # fmt: skip
        self._before, self._snapshot = before.found, before
        self._keys: dict[str, int] | None = None  # by the names of objects before the call
        self._new: dict[int, str] = {}
        self.found = found  # alive, so that no id comes again
        self.parts: dict[str, Any] = {}
        if error is not None:
            told = error.what if isinstance(error, HybridError) else str(error)  # not where
            self.parts["raised"] = type(error).__name__, told
        known = before.found
        changed = [(k, known[k]) for k in known if before.changed(k)]
        made = [(k, at) for k, at in found.items() if k not in known]
        self._new = {k: path for k, (path, value) in made if not isinstance(value, _CODE)}
        for _, (path, value) in (*changed, *made):
            self._note(path, value)
        self.parts["what is returned"] = self._token(result)
        if gradients:
            self._note_gradients(result)

    def _token(self, value: Any) -> Any:
        """What stands for ``value`` where it is an item or attribute."""
        if type(value) is tuple:  # equal ones may be one
            return "tuple", [self._token(item) for item in value]
        known = self._before.get(id(value))
        if known is not None:
            return "the same", known[0]
        if id(value) in self._new:
            return "made at", self._new[id(value)]
        if isinstance(value, float):
            return type(value).__name__, np.float64(value).tobytes()
        if isinstance(value, (int, str, bytes, bool, complex, type(None))):
            return type(value).__name__, value
        return (type(value).__name__,)

    def _note(self, label: str, value: Any) -> None:
        if isinstance(value, Tensor):
            leaf = gradient_leaf(value)
            grad = None if leaf is None else leaf.grad
            held = make_tensor(value.type, value.content)
            self.parts[label] = TensorState(held, value.record is not None)
            self.parts[f"{label}{_GRADIENT}"] = _state(grad)
        elif isinstance(value, np.ndarray):
            self.parts[label] = value.dtype.str, value.shape, value.tobytes()
        elif isinstance(value, CONTAINERS):
            given = dict.items(value) if isinstance(value, dict) else value
            self.parts[label] = self._items(value, given)
        elif isinstance(value, types.CellType):
            inner = [self._token(v) for v in _contents(value)]
            self.parts[label] = "variable", inner
        if isinstance(value, type):
            held = {n: self._token(v) for n, v in vars(value).items() if not n.startswith("__")}
            self.parts[f"{label} itself"] = held
        elif holds_state(type(value)) and not isinstance(value, Tensor):
            held = {name: self._token(v) for name, v in attributes(value).items()}
            self.parts[f"{label} {type(value).__name__}"] = held

    def _note_gradients(self, result: Any) -> None:
        """Gradients of the results, which have a history, by all that they came from."""
        names = {
            id(leaf): label
            for label, tensor in self._before.values()
            if isinstance(tensor, Tensor) and (leaf := gradient_leaf(tensor)) is not None
        }
        for path, value in reached([("result", result)]).values():
            if not isinstance(value, Tensor) or value.record is None or id(value) in self._before:
                continue
            try:
                nodes = history([value.record], spent=set())
                leaves = [n for n in nodes if isinstance(n, Leaf) and not n.frozen]
                seed = ones(value.shape, dtype=value.dtype)
                found = cotangents([(value.record, seed)], leaves, differentiable=False)
            except GradientError as error:  # the history has been used, say
                self.parts[f"the gradient of {path}"] = str(error)
                continue
            for leaf, grad in zip(leaves, found, strict=True):
                if grad is not None and id(leaf) in names:
                    label = f"the gradient of {path} by {names[id(leaf)]}"
                    self.parts[label] = TensorState(make_tensor(grad.type, grad.content), False)

    def _former(self, label: str) -> Any:
        """What stood for something before the call; ABSENT where nothing did."""
        if self._keys is None:
            self._keys = {path: key for key, (path, _) in self._before.items()}
        for name in (label, label.removesuffix(_GRADIENT), label.rpartition(" ")[0]):
            for value, held in self._snapshot.held(self._keys.get(name, -1)):
                if isinstance(value, Tensor):
                    kind, content, record, _, _, *grads = held
                    if name == label:
                        return TensorState(make_tensor(kind, content), record is not None)
                    return _state(grads[0] if grads[0] is not None else grads[2])
                half = len(held) // 2
                pairs = zip(held[:half], held[half:], strict=True) if len(held) % 2 == 0 else ()
                if name == label and isinstance(value, CONTAINERS):
                    return self._items(value, pairs if isinstance(value, dict) else held)
                if name != label and not isinstance(value, CONTAINERS):
                    return {key: self._token(item) for key, item in pairs}
        return _ABSENT

    def _items(self, value: Any, items: Iterable[Any]) -> Any:
        """What stands for a container of the class of ``value`` that holds ``items``."""
        if isinstance(value, dict):
            return "dict", [(repr(key), self._token(item)) for key, item in items]
        return type(value).__name__, [self._token(item) for item in items]

    def difference(self, other: Outcome) -> list[str]:
        """In what two outcomes differ, in lines; this one is that of eager code."""
        lines = []
        for label in dict.fromkeys([*self.parts, *other.parts]):
            a, b = (one.parts.get(label, _ABSENT) for one in (self, other))
            if a is _ABSENT or b is _ABSENT:  # what has not changed is as it was
                former = self._former(label)
                a, b = (former if one is _ABSENT else one for one in (a, b))
            if isinstance(a, TensorState) and isinstance(b, TensorState):
                told = a.differs(b)
                if told:
                    lines.append(f"{label}: {told}")
            elif label == "raised" and a != b:
                what = ["nothing" if x is _ABSENT else ": ".join(x) for x in (a, b)]
                lines.append(f"raised: {what[0]} eagerly, {what[1]} in the plan")
            elif a is _ABSENT or b is _ABSENT:
                lines.append(
                    f"{label}: changed {'eagerly' if b is _ABSENT else 'in the plan'} alone"
                )
            elif a != b:
                lines.append(f"{label}: {_shown(a)} eagerly, {_shown(b)} in the plan")
        return lines


_ABSENT = object()


def _state(grad: Tensor | None) -> TensorState | None:
    """What is compared of a gradient: not which object it is."""
    return None if grad is None else TensorState(make_tensor(grad.type, grad.content), False)


def _contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _shown(part: Any) -> str:
    text = " ".join(map(str, part)) if isinstance(part, tuple) else str(part)
    return text if len(text) <= 200 else f"{text[:200]}..."
