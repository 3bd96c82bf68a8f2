"""Process-wide settings, and the epoch that tells captures when to look at their guards again.

Module attributes, sub-modules, optimizer settings and ``requires_grad`` may steer what a function
captures.  Every write to one of them advances the epoch; while it stands still, all guards on them
hold.
"""

from __future__ import annotations

from typing import Any

EPOCH = [0]

# What a loop of unknown length may keep of its iterations for the backward pass; beyond that the
# backward pass computes them again.  Only what is really kept takes memory.
RESIDUAL_NBYTES = 256 << 20


def advance_epoch() -> None:
    """Say that something captures depend on may have changed."""
    EPOCH[0] += 1


def is_configured(owner: Any) -> bool:
    """Whether every write to an attribute of ``owner`` advances the configuration epoch."""
    return bool(getattr(type(owner), "advances_epoch", False))
