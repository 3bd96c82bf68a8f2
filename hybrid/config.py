"""Process-wide settings, and the epoch that tells captures when to look at their guards again.

Module attributes, sub-modules, optimizer settings and ``requires_grad`` may steer what a function
captures.  Every write to one of them advances the epoch; while it stands still, all guards on them
hold.
"""

from __future__ import annotations

import os
from typing import Any

from hybrid.errors import ArgumentError, ArgumentTypeError

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


def keeps_ledgers() -> bool:
    """Whether hybridized functions capture only what pays, unless they are told otherwise.

    ``HYBRID_LEDGER=0`` in the environment says no.
    """
    return os.environ.get("HYBRID_LEDGER", "") != "0"


VERIFYING = ("verify", "on_difference")  # options of what is verified


def verified_calls() -> dict[str, Any]:
    """The options that ``HYBRID_VERIFY_CALLS``, a share of calls, stands for."""
    text = os.environ.get("HYBRID_VERIFY_CALLS")
    if not text:
        return {}
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ArgumentError(
            f"HYBRID_VERIFY_CALLS is {text!r}", fix="set it to a share of calls, from 0 to 1"
        )
    return {"verify": share, "on_difference": "warn"} if share else {}


PLAN_CACHE_BYTES = 256 << 20
PLAN_BUDGET = 1 << 40  # iterations: hours of the shortest ones
_budget: list[int] = []  # what cache_plans() has set: none, or one
_plan_cache: list[tuple[str, int]] = []  # what cache_plans() has set: none, or one


def cache_plans(
    directory: str | os.PathLike[str] | None,
    *,
    limit: int = PLAN_CACHE_BYTES,
    budget: int | None = None,
) -> None:
    """Keep plans in files of ``directory``, for the first calls of later processes; None: nowhere.

    A hybridized function whose code, types, and all that it reads are as they were when a process
    captured it then takes its plan from there, which saves conversion, tracing and passes.  The
    folder is made when it is needed, and holds at most ``limit`` bytes: of more, what was not used
    for the longest time goes.  ``HYBRID_PLAN_CACHE=directory`` in the environment does the same.
    ``fn.plans`` tells of each plan whether it was loaded or kept and, if not, why.  Not kept is
    what calls Python while it runs (``print``, ``py_call``, ``assert`` on tensors), what changes
    lists or dicts, and what may depend on more than can be written down: the clock, files, objects
    of libraries.  Functions of a few ops, whose capture takes milliseconds, gain nothing.

    Whoever may write there decides what such functions compute.  So, with a warning that says why,
    nothing is used of a folder or file that another user owns, or that its group or all may write
    to, nor of what is in such a folder (but for those like /tmp).  Entries are signed with
    ``HYBRID_PLAN_CACHE_KEY`` from the environment or the key in ``~/.config/hybrid``, which is made
    when it is first needed: one that was forged, or that another key has signed, is captured anew.

    Ctrl-C ends the loops of such plans like others, and in one call they go round at most
    ``budget`` times, or ``HYBRID_PLAN_CACHE_BUDGET``, or 2 ** 40 times: then the call raises
    BudgetError.

    Raises ArgumentTypeError for what is no path, ArgumentError for a limit or budget below 1.
    """
    if directory is not None:
        try:
            path = os.fspath(directory)
        except TypeError:
            path = None
        if not isinstance(path, str) or not path:
            raise ArgumentTypeError(
                f"plans cannot be kept in {directory!r}", fix="name a folder, or None for nowhere"
            )
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ArgumentError(f"limit is {limit!r}", fix="give a number of bytes, an int >= 1")
    if budget is not None:
        _require_budget("budget", budget)
    _budget[:] = [] if budget is None else [budget]
    _plan_cache[:] = [("" if directory is None else os.path.abspath(path), limit)]


def plan_budget() -> int:
    """How often the loops of a plan from a file may go round in one call."""
    if _budget:
        return _budget[0]
    given = os.environ.get("HYBRID_PLAN_CACHE_BUDGET", "")
    if not given:
        return PLAN_BUDGET
    _require_budget("HYBRID_PLAN_CACHE_BUDGET", int(given) if given.isdecimal() else given)
    return int(given)


def _require_budget(name: str, budget: object) -> None:
    fits = isinstance(budget, int) and not isinstance(budget, bool) and 1 <= budget < 1 << 62
    if not fits:
        raise ArgumentError(f"{name} is {budget!r}", fix="give a number of iterations, an int >= 1")


def plan_cache() -> tuple[str, int] | None:
    """The folder where plans are kept and the bytes it may hold, or None."""
    if _plan_cache:
        return _plan_cache[0] if _plan_cache[0][0] else None
    folder = os.environ.get("HYBRID_PLAN_CACHE", "")
    return (os.path.abspath(folder), PLAN_CACHE_BYTES) if folder else None
