"""GradScaler: losses scaled up, so that small gradients do not vanish in float16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybrid import ops
from hybrid.calls.control_functions import cond
from hybrid.core.tree import flatten, unflatten
from hybrid.core.types import bool_, float16, float32, int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ir.interpreter import current
from hybrid.ir.record import recording
from hybrid.nn.modules.parameter import in_dtype, present, put_gradient, working_dtype
from hybrid.number import check
from hybrid.ops.support.operand_checks import require_flag, require_number
from hybrid.optim.optimizer import Optimizer, Scaling

_UNSCALED, _STEPPED = 1, 2
_NOTHING, _FINITE, _INFINITE = 0, 1, 2  # what was found in all gradients since the last update


class GradScaler:
    """Scales losses, and the gradients back; a step whose gradients are not finite is left out.

    After such a step the scale is multiplied by ``backoff_factor``, and after ``growth_interval``
    steps without one by ``growth_factor``: PyTorch's ``torch.amp.GradScaler`` (Micikevicius et al.
    2018).  ``enabled=False`` makes every method do nothing but what it would without a scaler::

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # only to clip, say
        scaler.step(optimizer)
        scaler.update()

    All that changes is in cells: a captured step chooses at run time whether it is made.
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if device != "cpu":
            raise ArgumentError(f"no device {device!r}", fix='leave device out, or pass "cpu"')
        require_flag("enabled", enabled)
        _check(init_scale, growth_factor, backoff_factor, growth_interval)
        self._enabled = enabled
        self.growth_factor, self.backoff_factor = float(growth_factor), float(backoff_factor)
        self.growth_interval = int(growth_interval)
        self._scale = ops.full((), float(init_scale), dtype=float32)
        self._tracker, self._updates, self._found = (ops.zeros((), dtype=int64) for _ in range(3))

    # The four calls of a step -----------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a tensor or a tree of them, times the scale."""
        if not self._enabled:
            return outputs
        leaves, structure = flatten(outputs)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise ArgumentTypeError(f"scale got a {type(leaf).__name__}, not a tensor")
        scaled = [leaf * in_dtype(self._scale, leaf.dtype) for leaf in leaves]
        return unflatten(structure, scaled)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of ``optimizer`` by the scale, and look for what is not finite.

        ``step`` does it where it was not done.
        """
        if not self._enabled:
            return
        stage = self._scaling(optimizer).stage
        base = self._updates * 2
        self._require(stage < base + _UNSCALED, _refuse_unscale, stage - base)
        self._unscale(optimizer, ops.reciprocal(self._scale))

    def step(self, optimizer: Optimizer) -> Any:
        """``optimizer.step()``, unless a gradient is infinite or nan."""
        if not self._enabled:
            return optimizer.step()
        scaling, base = self._scaling(optimizer), self._updates * 2
        self._require(scaling.stage < base + _STEPPED, _refuse_step, scaling.stage - base)
        ready = ops.greater_equal(scaling.stage, base + _UNSCALED)
        # By 1 where they are unscaled already, which changes nothing.
        self._unscale(
            optimizer, ops.where(ready, ops.ones_like(self._scale), 1.0 / self._scale), ready
        )
        scaling.stage.assign(base + _STEPPED)
        cond(scaling.found, _nothing, _step_of(optimizer))
        return None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next step: by what was found in this one, or to ``new_scale``."""
        if not self._enabled:
            return
        with recording(False):
            if new_scale is not None:
                if not isinstance(new_scale, Tensor):
                    require_number("new_scale", new_scale)
                    new_scale = ops.full((), float(new_scale), dtype=float32)
                self._scale.assign(in_dtype(new_scale.detach(), float32))
            else:
                self._require(self._found > _NOTHING, _refuse_update, self._found)
                self._adapt()
            self._found.assign(ops.zeros_like(self._found))
            self._updates.assign(self._updates + 1)

    # What else a user asks --------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; inside a captured function a traced number."""
        return self._scale.item() if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, its settings and the steps since it last changed; empty if not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self._tracker.item(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict()`` gave; all of it is checked first."""
        if not self._enabled:
            return
        names = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
        missing = [name for name in names if name not in state]
        if missing:
            raise ArgumentError(
                f"the state does not fit a GradScaler: {', '.join(missing)} missing",
                fix="load what state_dict() gave of one that was enabled",
            )
        scale, growth, backoff, interval, tracker = (state[name] for name in names)
        _check(scale, growth, backoff, interval)
        self.growth_factor, self.backoff_factor = float(growth), float(backoff)
        self.growth_interval = int(interval)
        self._scale.assign(float(scale))
        self._tracker.assign(int(tracker))

    # How it is done ---------------------------------------------------------------------------

    @staticmethod
    def _scaling(optimizer: Optimizer) -> Scaling:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(f"a {type(optimizer).__name__} is not an optimizer")
        return optimizer.scaling

    @staticmethod
    def _require(holds: Tensor, refuse: Any, value: Tensor) -> None:
        """Call ``refuse`` of the int in ``value``, which raises, unless ``holds``."""
        if current().traces:
            check(holds, refuse, (value,), (ArgumentError,))
        elif not holds.item():
            refuse(value.item())

    def _unscale(self, optimizer: Optimizer, factor: Tensor, known: Tensor | None = None) -> None:
        """Multiply all gradients; what is found counts except where ``known`` says it did."""
        scaling, finite = optimizer.scaling, ops.ones((), dtype=bool_)
        _refuse_float16(optimizer)
        with recording(False):
            for group in optimizer.param_groups:
                for p in group.params:
                    if p.grad is None:
                        continue
                    grad = present(p.grad)
                    dtype = working_dtype(grad.dtype)
                    scaled = in_dtype(grad, dtype) * in_dtype(factor, dtype)
                    finite = ops.logical_and(finite, ops.all(ops.isfinite(scaled)))
                    put_gradient(p, in_dtype(scaled, grad.dtype))
            found = ops.logical_not(finite)
            if known is not None:
                found = ops.where(known, scaling.found, found)
            if optimizer.slices is not None:  # of which other ranks have others
                found = optimizer.slices.on_any_rank(found)
            scaling.found.assign(found)
            scaling.stage.assign(self._updates * 2 + _UNSCALED)
            seen = ops.astype(found, int64) + _FINITE
            self._found.assign(ops.maximum(self._found, seen))

    def _adapt(self) -> None:
        """The scale and the count of steps after what was found."""
        infinite = ops.greater_equal(self._found, _INFINITE)
        count = self._tracker + 1
        grows = ops.greater_equal(count, self.growth_interval)
        greater = self._scale * self.growth_factor
        greater = ops.where(ops.isfinite(greater), greater, self._scale)
        kept = ops.where(grows, greater, self._scale)
        none = ops.zeros_like(count)
        self._scale.assign(ops.where(infinite, self._scale * self.backoff_factor, kept))
        self._tracker.assign(ops.where(ops.logical_or(infinite, grows), none, count))


def _nothing() -> None:
    """A step that is left out."""


def _step_of(optimizer: Optimizer) -> Any:
    def move() -> None:
        optimizer.step()

    return move


def _refuse_float16(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        for p in group.params:
            if p.dtype is float16 and p.grad is not None:
                raise ArgumentTypeError(
                    f"gradients of float16 ({p.type}) cannot be unscaled",
                    why="The small ones, for which losses are scaled, would vanish.",
                    fix="keep the parameters in float32, and cast them where they are used",
                )


def _refuse_unscale(stage: int) -> None:
    raise ArgumentError(
        "unscale_() of an optimizer "
        + ("that was stepped" if stage >= _STEPPED else "whose gradients are unscaled"),
        why="Its gradients would be divided by the scale twice.",
        fix="call update() at the end of each step",
    )


def _refuse_step(_stage: int) -> None:
    raise ArgumentError(
        "step() of an optimizer that was stepped", fix="call update() at the end of each step"
    )


def _refuse_update(_found: int) -> None:
    raise ArgumentError(
        "update() before any gradient was looked at", fix="call step(optimizer) before"
    )


def _check(scale: Any, growth: Any, backoff: Any, interval: Any) -> None:
    for name, value in (("scale", scale), ("growth_factor", growth), ("backoff_factor", backoff)):
        require_number(name, value)
    if not growth > 1.0:
        raise ArgumentError(f"growth_factor is {growth}", fix="give a number above 1")
    require_number("backoff_factor", backoff, 0.0, 1.0)
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        raise ArgumentError(f"growth_interval is {interval!r}", fix="give an int above 0")
