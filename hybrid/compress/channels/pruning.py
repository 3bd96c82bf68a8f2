"""Pruning: which elements, channels or heads a model does without, by masks that grow on schedule.

M. Zhu and S. Gupta, "To prune, or not to prune: exploring the efficacy of pruning for model
compression", 2017, has the schedule; "2:4" is what sparse tensor cores read (A. Mishra et al.,
"Accelerating Sparse Deep Neural Networks", NVIDIA 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hybrid.compress.channels.element_choice import Elements, Refused, TwoOfFour
from hybrid.compress.channels.masks import SUFFIX, add_mask
from hybrid.compress.channels.unit_choice import Heads, Units
from hybrid.compress.quantization import require_names, require_plain
from hybrid.compress.weights import IMPORTANCE, LayerWeight, label_of, owners_of, weights_of
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn.modules.module import Module
from hybrid.ops.support.operand_checks import plural, require_choice

SCOPES = ("global", "layer")
ELEMENTS: dict[str, Callable[..., Any]] = {"element": Elements, "2:4": TwoOfFour}
UNITS: dict[str, Callable[..., Any]] = {"channel": Units, "head": Heads}
STRUCTURES = (*ELEMENTS, *UNITS)


class Pruning:
    """What ``prune`` has done to a model, and what is to come: ``step`` goes on by its schedule."""

    def __init__(
        self, model: Module, chosen: Any, amount: float, schedule: tuple[float, int] | None
    ) -> None:
        self.model, self._chosen = model, chosen
        self.amount, self.schedule, self.steps = amount, schedule, 0
        self.masks: dict[str, Tensor] = {}
        self._cells: list[tuple[int, Tensor]] = []
        kept = chosen.choose(self.target)
        for label, parameter, owners in chosen.parameters():
            mask = asarray(kept[id(parameter)].astype(np.float32)).astype(parameter.dtype)
            self.masks[label] = mask
            self._cells.append((id(parameter), mask))
            for owner, name in owners:
                add_mask(owner, name, mask)

    @property
    def target(self) -> float:
        """The share that is gone by the schedule at this step.

        It is ``amount + (first - amount) * (1 - t / steps) ** 3`` at step ``t`` of ``steps``.
        """
        if self.schedule is None:
            return self.amount
        first, steps = self.schedule
        left = 1 - min(self.steps, steps) / steps
        return self.amount + (first - self.amount) * left**3

    @property
    def refused(self) -> list[Refused]:
        """What cannot be pruned: layer, op, line and reason of each."""
        return list(self._chosen.refused)

    def step(self) -> float:
        """Prune as much as the schedule says next, by the weights as they are now.

        Call it every so many steps of training; behind the last one it changes nothing.  What is
        pruned stays pruned.  Returns the share that is to be gone.
        """
        if self.schedule is not None and self.steps < self.schedule[1]:
            self.steps += 1
            kept = self._chosen.choose(self.target)
            for number, mask in self._cells:
                mask.assign(asarray(kept[number].astype(np.float32)).astype(mask.dtype))
        return self.target

    def sparsity(self) -> float:
        """The share of the elements under masks that are 0, from 0 to 1."""
        total = sum(mask.size for mask in self.masks.values())
        kept = sum(float(mask.astype("float64").sum().item()) for mask in self.masks.values())
        return 1.0 - kept / total

    def __repr__(self) -> str:
        width = max(len(label) for label in self.masks)
        lines = [f"{100 * self.sparsity():.1f} % of the elements under masks are pruned:"]
        for label, mask in self.masks.items():
            share = 1.0 - float(mask.astype("float64").mean().item())
            lines.append(f"  {label:{width}}  {100 * share:5.1f} %  of {mask.type}")
        if self.refused:
            lines.append("cannot be pruned:")
            lines += [f"  {row}" for row in self.refused]
        return "\n".join(lines)


def prune(
    model: Module,
    amount: float,
    *,
    structure: str = "element",
    importance: str = "magnitude",
    scope: str = "global",
    schedule: tuple[float, int] | None = None,
    skip: Iterable[str] = (),
    example: Any = None,
    round_to: int = 1,
) -> Pruning:
    """Mask the share ``amount`` (0 up to below 1) of the weights of ``model`` that counts least.

    The model keeps its parameters; beside each pruned one, ``weight``, there is a buffer
    ``weight_mask`` of its shape, of 0 and 1, and the layer computes with the product.  So gradients
    of pruned elements are 0, every optimizer trains the rest, and masks are saved, loaded, copied
    and captured like all state.  ``layer.weight`` is the product; the parameter itself is what
    ``parameters()`` and ``state_dict()`` give.  ``remove`` makes it final.

    ``structure`` says what goes: ``"element"``: single elements of the weights of Linear, Bilinear,
    convolutions, attention and recurrent layers; ``"2:4"``: two of each four along the input
    (``amount`` is then 0.5; layers whose inputs are no multiple of 4 are left as they are);
    ``"channel"``: whole channels of layers, with their biases and norms (of recurrent layers hidden
    units with their gates, in all layers and directions), and ``"head"``: whole heads of attention,
    the share ``amount`` of those that can leave.  Which channels leave together (at residuals,
    concatenations, in depthwise convolutions) is read from the graph of ``model(*example)``;
    ``example`` is a tensor or a tuple of arguments.  A channel that can leave
    is taken out of a copy first, so what sizes in the author's code forbid is found here.  With
    ``round_to`` each group keeps a multiple of it in all.  The importance of a unit is the mean of
    its elements', relative to the mean of its group.

    ``importance``: ``"magnitude"``, ``|w|``, or ``"gradient"``, ``|w * w.grad|``, from the
    gradients that are there.  ``scope``: the least of all layers together, ``"global"``, or of each
    ``"layer"``.  ``schedule=(first, steps)`` begins with the share ``first``, and each ``step()``
    of the Pruning goes on, to ``amount`` at the last.  ``skip`` names layers, or modules with
    layers, that stay whole.  What cannot be pruned is listed in ``Pruning.refused``, with reasons.

    Raises ArgumentError and ArgumentTypeError, and then leaves the model as it was: for an unknown
    structure, importance or scope, an amount outside [0, 1), a ``skip`` that names nothing, a model
    that has masks or quantized layers already, or no layer that can be pruned.
    """
    require_choice("prune: structure", structure, tuple(STRUCTURES))
    require_choice("prune: importance", importance, tuple(IMPORTANCE))
    require_choice("prune: scope", scope, SCOPES)
    _require_share("amount", amount)
    _require_schedule(schedule)
    if structure == "2:4" and (amount != 0.5 or schedule is not None):
        raise ArgumentError(
            'structure "2:4" prunes one half at once',
            why=f"The amount is {amount}, the schedule {schedule}.",
            fix="give amount=0.5 and no schedule",
        )
    if structure in UNITS and example is None:
        raise ArgumentError(
            f'structure "{structure}" needs an example of what the model is given',
            why="What leaves together is read from its graph.",
            fix="give example=x, or example=(x, y) for several arguments",
        )
    if isinstance(round_to, bool) or not isinstance(round_to, int) or round_to < 1:
        raise ArgumentError(f"round_to is {round_to!r}", fix="give an int of at least 1")
    require_plain(model)
    skipped = require_names(model, skip)
    everything = weights_of(model)
    weights = [weight for weight in everything if not skipped(weight.label)]
    if structure in ELEMENTS:
        chosen = ELEMENTS[structure](weights, scope, importance)
        chosen.refused += _of_other_layers(model, everything)
    else:
        left = {weight.label for weight in everything if skipped(weight.label)}
        given = example if isinstance(example, tuple) else (example,)
        chosen = UNITS[structure](model, left, scope, importance, given, round_to)
    if not chosen.parameters():
        reasons = "\n".join(f"  {row}" for row in chosen.refused)
        raise ArgumentError(
            f"nothing of {type(model).__name__} can be pruned"
            + (f":\n{reasons}" if reasons else ""),
            fix="" if reasons else "give a model with layers such as Linear that are not skipped",
        )
    for label, _, owners in chosen.parameters():
        for owner, name in owners:
            if hasattr(owner, name + SUFFIX):
                raise ArgumentError(
                    f"{label} cannot get a mask: its {type(owner).__name__} has an attribute "
                    f"{name + SUFFIX!r} already",
                    fix="call that another name",
                )
    return Pruning(model, chosen, float(amount), schedule)


def _of_other_layers(model: Module, weights: Sequence[LayerWeight]) -> list[Refused]:
    """The parameters of several axes that no layer with ``weights`` holds."""
    known = {id(weight.parameter) for weight in weights}
    owners = owners_of(model)
    return [
        Refused(label_of(name), f"{type(owners[id(p)][0][0]).__name__} is no layer that is pruned")
        for name, p in model.named_parameters()
        if p.ndim > 1 and id(p) not in known
    ]


def _require_share(label: str, share: Any) -> None:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise ArgumentError(
            f"the {label} is {share!r}", fix="give the share that goes, from 0 up to below 1"
        )


def _require_schedule(schedule: Any) -> None:
    if schedule is None:
        return
    if not isinstance(schedule, (tuple, list)) or len(schedule) != 2:
        raise ArgumentTypeError(f"the schedule is {schedule!r}", fix="give (first, steps)")
    first, steps = schedule
    _require_share("first share of the schedule", first)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ArgumentError(
            f"the schedule has {steps!r} steps", fix=f"give {plural(1, 'step')} at least"
        )
