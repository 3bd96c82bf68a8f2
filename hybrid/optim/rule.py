"""Rule: what an optimizer does with a parameter under some settings; and what settings may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError
from hybrid.ir import Op, get_op
from hybrid.ops.support.operand_checks import require_flag, require_number

_NON_NEGATIVE = (0.0, math.inf)
_SHARE = (0.0, 1.0)
LIMITS = {  # the least value, and the one that all must be below
    **dict.fromkeys(("lr", "momentum", "weight_decay", "eps", "lr_decay"), _NON_NEGATIVE),
    **dict.fromkeys(("initial_accumulator_value", "momentum_decay"), _NON_NEGATIVE),
    **dict.fromkeys(("alpha", "rho"), _SHARE),
    "dampening": (-math.inf, math.inf),
}
FLAGS = ("nesterov", "maximize", "amsgrad", "centered", "decoupled_weight_decay")


@dataclass(frozen=True)
class Rule:
    """An op that is given the parameter, its gradient, moments, ``lr``, perhaps a pace, and counts.

    It gives the parameter and the moments after the step.  The pace is the momentum or the first of
    the betas.
    """

    name: str  # of the op
    attrs: tuple[tuple[str, Any], ...]
    moments: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()  # numbers kept of each parameter
    paced: bool = False
    starts: tuple[tuple[str, float], ...] = ()  # of moments and counts that do not begin at 0

    @property
    def op(self) -> Op:
        return get_op(self.name)


def attrs_of(name: str, settings: Mapping[str, Any], **more: Any) -> tuple[tuple[str, Any], ...]:
    """The attributes of op ``name``: ``more``, the second of the betas, settings of their names."""
    known = get_op(name).attr_defaults
    given = {key: value for key, value in settings.items() if key in known} | more
    if "beta2" in known:
        given["beta2"] = settings["betas"][1]
    plain = {key: v if isinstance(v, bool) else float(v) for key, v in given.items()}
    return get_op(name).attributes(plain)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise for the first of ``settings`` that is not what it may be."""
    for name, value in settings.items():
        if name in FLAGS:
            require_flag(name, value)
        elif name == "betas":
            require_betas(value)
        elif name in LIMITS and not (name == "lr" and isinstance(value, Tensor)):
            require_number(name, value, *LIMITS[name])


def require_betas(betas: Any) -> None:
    """Raise unless ``betas`` are two numbers in [0, 1)."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ArgumentTypeError(f"betas is {betas!r}", fix="give two numbers")
    for position, beta in enumerate(betas):
        require_number(f"betas[{position}]", beta, *_SHARE)
