"""Optimizer: what all of them share, from checking parameters to saving state."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

from hybrid import ops
from hybrid.calls.bind.generate import WRITER
from hybrid.calls.control_functions import cond
from hybrid.config import advance_epoch
from hybrid.core.call_advice import instead_of
from hybrid.core.types import DType, bool_, int64
from hybrid.eager.inplace_launch import InplaceCall
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ir.interpreter import ACTIVE
from hybrid.ir.record import Leaf, gradient_leaf, recording
from hybrid.memory import native
from hybrid.nn.modules.parameter import in_dtype, present, put_gradient, working_dtype
from hybrid.optim.group import NOTES, Cells, Group, State
from hybrid.optim.rule import Rule
from hybrid.optim.state import describe_group, load_groups
from hybrid.trace.values.optional import OptionalValue

_PARAMETERS = "pass model.parameters(), a list of tensors, or a list of dicts with 'params'"


class Scaling(NamedTuple):
    """What a ``GradScaler`` notes of an optimizer, in cells."""

    stage: Tensor  # int64: how far its gradients have got
    found: Tensor  # bool: whether an element of them was infinite or nan


class Optimizer:
    """Moves parameters along their gradients; a subclass says how in ``rule_of``, or in ``update``.

    ``params`` is an iterable of tensors, or a list of dicts: each with "params" and settings that
    differ from ``defaults``.  Everything that changes from step to step is a cell, so a hybridized
    training step holds the optimizer's work too.
    """

    advances_epoch = True
    slices: Any = None  # of moments and more, where ranks share these out
    compress: Any = None  # gradients, on their way to other ranks; keeps what it leaves out
    server: Any = None  # which makes the steps of several ranks

    def __init__(
        self,
        params: Iterable[Any],
        defaults: Mapping[str, Any],
        how: Mapping[str, Any] | None = None,
    ) -> None:
        """``how`` are PyTorch's arguments on how a step is computed, which change nothing here."""
        _check_how(type(self), how or {})
        self._defaults = tuple(defaults.items())
        self.scaling = Scaling(ops.zeros((), dtype=int64), ops.zeros((), dtype=bool_))
        self.param_groups: tuple[Group, ...] = ()
        for given in _as_dicts(params):
            self.add_param_group(given)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name != "lr":  # a cell
            advance_epoch()

    # What a subclass says ---------------------------------------------------------------------

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        """What a step does under ``settings``, each of which is what it may be by itself."""
        return Rule(name="", attrs=())

    def advanced(self, rule: Rule, counts: tuple[Tensor, ...], pace: Tensor) -> tuple[Tensor, ...]:
        """The counts after one more step; all are of one dtype."""
        return tuple([count + 1.0 for count in counts])

    # What a step does -------------------------------------------------------------------------

    def update(self, group: Group) -> None:
        """One step for the parameters of ``group`` that have gradients."""
        work = gradients(group)
        if self.slices is None:
            self.make_steps(group, work)
        else:
            parts = self.slices.taken(work)
            self.make_steps(group, parts)
            self.slices.put(work, parts)

    def make_steps(
        self,
        group: Group,
        work: Sequence[tuple[int, Tensor, Tensor, State]],
        known: Cells | None = None,
    ) -> None:
        """One step for the parameters of ``work``, by the cells of ``group``, or those ``known``.

        ``work`` is as ``gradients`` gives it.
        """
        rule = group.rule
        cells = group.cells if known is None else known
        cells = cells if rule.paced else cells[:1]
        numbers: dict[DType, tuple[Tensor, ...]] = {}  # by the dtype of parameters
        for dtype in dict.fromkeys([p.type.dtype for _, p, _, _ in work]):
            numbers[dtype] = tuple([in_dtype(cell, working_dtype(dtype)) for cell in cells])
        if ACTIVE:
            for _, p, g, state in work:
                stage = functools.partial(self._stage, rule, p, present(g), state, numbers[p.dtype])
                if isinstance(g, OptionalValue):
                    cond(g.flag, stage, _nothing)
                else:
                    stage()
            return
        advance, known, counts = _Advance(self, rule), group.calls.known, bool(rule.counts)
        with WRITER:
            for number, p, g, state in work:
                dtype = p.type.dtype
                given = numbers[dtype]
                if counts:
                    advance(state.counts, given[-1])
                call = known.get(number)
                if call is None or call.key is not rule or call.kind is not p.type:
                    if dtype.is_stored:
                        self._move(rule, p, g, state, given)
                        continue
                    call = known[number] = _call_of(rule, p, g, state, given)
                call.run((g, *given))

    def _stage(
        self, rule: Rule, p: Tensor, g: Tensor, state: State, numbers: tuple[Tensor, ...]
    ) -> None:
        """One step of one parameter, op by op."""
        for count, new in zip(
            state.counts, self.advanced(rule, state.counts, numbers[-1]), strict=True
        ):
            count.assign(new)
        self._move(rule, p, g, state, numbers)

    @staticmethod
    def _move(rule: Rule, p: Tensor, g: Tensor, state: State, numbers: tuple[Tensor, ...]) -> None:
        dtype, (moments, counts) = working_dtype(p.dtype), state
        operands = (in_dtype(p, dtype), in_dtype(g, dtype), *moments, *numbers, *counts)
        moved = rule.op(*operands, **dict(rule.attrs))
        moved, *kept = moved if moments else (moved,)
        p.assign(in_dtype(moved, p.dtype))
        for cell, new in zip(moments, kept, strict=True):
            cell.assign(new)

    # What a user calls ------------------------------------------------------------------------

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings of groups that say nothing else."""
        return dict(self._defaults)

    @property
    def state(self) -> dict[Tensor, dict[str, Tensor]]:
        """The cells kept of each parameter, by name."""
        return {
            p: named_state(group.rule, state)
            for group in self.param_groups
            for p, state in zip(group.params, group.states, strict=True)
        }

    def add_param_group(self, given: Mapping[str, Any]) -> None:
        """Take on more parameters: ``given`` has "params", and settings unlike the defaults."""
        if not isinstance(given, Mapping) or "params" not in given:
            raise ArgumentTypeError("a parameter group is a dict with 'params'", fix=_PARAMETERS)
        settings = self.defaults
        for name, value in given.items():
            if name not in ("params", *NOTES, *self.defaults):
                raise ArgumentError(
                    f"{type(self).__name__} has no setting {name!r}",
                    fix="use one of " + ", ".join(self.defaults),
                )
            settings[name] = value
        params = _checked(settings.pop("params"), self.param_groups)
        self.param_groups = (*self.param_groups, Group(params, settings, self.rule_of))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient.

        ``closure`` computes the gradients first; what it returns, the loss, is returned.
        """
        loss = None
        if closure is not None:
            with recording(True):
                loss = closure()
        with recording(False):
            if self.server is not None:
                self.server.step(self)
                return loss
            for group in self.param_groups:
                self.update(group)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or write zeros over them."""
        for group in self.param_groups:
            for p in group.params:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    put_gradient(p, ops.zeros_like(present(p.grad)))

    @property
    def lr(self) -> float:
        """The learning rate of the first group; assigning sets that of all groups."""
        return self.param_groups[0].lr

    @lr.setter
    def lr(self, value: Any) -> None:
        for group in self.param_groups:
            group.lr = value

    def state_dict(self) -> dict[str, Any]:
        """What is kept of parameters by their number under "state", settings in "param_groups"."""
        state: dict[int, dict[str, Tensor]] = {}
        groups = []
        for group in self.param_groups:
            first = len(state)
            for kept in group.states:
                cells = named_state(group.rule, kept)
                if self.slices is not None:
                    cells = self.slices.whole_state(group, cells, len(state) - first)
                state[len(state)] = {name: cell.detach() for name, cell in cells.items()}
            groups.append(describe_group(group) | {"params": list(range(first, len(state)))})
        found = {"state": state, "param_groups": groups}
        return found if self.compress is None else found | {"compress": self.compress.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict()`` of a like optimizer, or of PyTorch's, gave.

        Everything is checked before anything is written.
        """
        if self.slices is not None:
            state = self.slices.cut_state(self.param_groups, state)
        load_groups(type(self).__name__, self.param_groups, state)
        if self.compress is not None:
            self.compress.load_state_dict(state.get("compress"))

    def __repr__(self) -> str:
        groups = "".join(f"\n  {group}" for group in self.param_groups)
        return f"{type(self).__name__}({groups}\n)"


class _Advance:
    """Advances counts, eagerly: those that are equal become one value, computed once."""

    def __init__(self, optimizer: Optimizer, rule: Rule) -> None:
        self.optimizer, self.rule = optimizer, rule
        self.old: list[Any] = [None]  # buffers of the last counts, and of those after them
        self.new: tuple[Any, ...] = ()
        self.known: dict[Any, tuple[Any, ...]] = {}  # by value

    def __call__(self, counts: tuple[Tensor, ...], pace: Tensor) -> None:
        old = [count.content for count in counts]
        if not all(map(is_, old, self.old)):
            kind = counts[0].type
            value = (kind, *[bytes(native.view(data, kind.nbytes)) for data in old])
            if value not in self.known:
                moved = self.optimizer.advanced(self.rule, counts, pace)
                self.known[value] = tuple([count.content for count in moved])
            self.old, self.new = old, self.known[value]
        for count, data in zip(counts, self.new):  # noqa: B905  strict costs more than the loop
            count.content = data


def _call_of(
    rule: Rule, p: Tensor, g: Tensor, state: State, numbers: tuple[Tensor, ...]
) -> InplaceCall:
    """A step to be remembered; the gradient and the numbers come with each run."""
    first = 2 + len(state.moments)
    operands = (p, g, *state.moments, *numbers, *state.counts)
    given = (1, *range(first, first + len(numbers)))
    return InplaceCall(rule, rule.op, rule.attrs, operands, (p, *state.moments), given)


def named_state(rule: Rule, state: State) -> dict[str, Tensor]:
    """The cells of one parameter, the counts first."""
    return dict(zip((*rule.counts, *rule.moments), (*state.counts, *state.moments), strict=True))


def gradients(group: Group) -> list[tuple[int, Tensor, Tensor, State]]:
    """(number, parameter, gradient, state) of each parameter of ``group`` that has a gradient."""
    if not ACTIVE:
        each = zip(range(len(group.params)), group.params, group.states, strict=True)
        return [
            (number, p, g, state)
            for number, p, state in each
            if (g := getattr(gradient_leaf(p), "grad", None)) is not None
        ]
    return [
        (number, p, g, state)
        for number, (p, state) in enumerate(zip(group.params, group.states, strict=True))
        if (g := p.grad) is not None
    ]


def _nothing() -> None:
    """The step of a parameter that has no gradient."""


def _check_how(kind: type, how: Mapping[str, Any]) -> None:
    label = kind.__name__
    for name, value in how.items():
        if name not in ("foreach", "fused", "capturable", "differentiable"):
            words = [w for w in inspect.signature(kind).parameters if w not in ("params", "how")]
            raise ArgumentTypeError(
                f"{label} has no argument {name!r}", fix=instead_of(name, words)
            )
        if name == "differentiable" and value:
            raise ArgumentError(
                f"{label} cannot be differentiated through",
                why="A step is one kernel without a derivative rule.",
                fix="write the step with tensor operations",
            )


def _as_dicts(params: Any) -> list[Mapping[str, Any]]:
    """``params`` as a list of groups."""
    if isinstance(params, (Tensor, Mapping, str)) or not isinstance(params, Iterable):
        raise ArgumentTypeError(
            f"an optimizer cannot take its parameters from a {type(params).__name__}",
            fix=_PARAMETERS,
        )
    given = list(params)
    if not given:
        raise ArgumentError(
            "the optimizer got no parameters",
            why="A model with all layers quantized has none; one of prepare_qat(model) has.",
            fix=_PARAMETERS,
        )
    return given if all(isinstance(item, Mapping) for item in given) else [{"params": given}]


def _checked(params: Any, groups: Iterable[Group]) -> tuple[Tensor, ...]:
    """The parameters of a new group, none of which is in ``groups``."""
    params = (params,) if isinstance(params, Tensor) else tuple(params)
    if not params:
        raise ArgumentError("a parameter group has no parameters", fix=_PARAMETERS)
    seen = {id(p) for group in groups for p in group.params}
    for position, p in enumerate(params):
        if not isinstance(p, Tensor):
            raise ArgumentTypeError(
                f"parameter {position} is a {type(p).__name__}, not a tensor", fix=_PARAMETERS
            )
        if not p.dtype.is_floating:
            raise ArgumentTypeError(
                f"parameter {position} is {p.type}", why="Only float tensors have gradients."
            )
        if p.record is not None and not isinstance(p.record, Leaf):
            raise ArgumentError(
                f"parameter {position} ({p.type}) was computed from other tensors",
                why="Its gradient is theirs; moving it would change nothing.",
                fix="pass the tensors that it was computed from, or detach it first",
            )
        if id(p) in seen:
            raise ArgumentError(
                f"parameter {position} ({p.type}) was given before",
                why="It would be moved twice in each step.",
                fix="give each parameter once",
            )
        seen.add(id(p))
    return params
