"""hybridize: the decorator that makes functions, methods and modules run as plans.

What it gives is a ``Hybridized``, or one that is also verified where that is asked for.
"""

from __future__ import annotations

import functools
from typing import Any

from hybrid.calls.hybridized import Hybridized, made


def hybridize(function: Any = None, /, **options: Any) -> Any:
    """Run ``function`` as a static graph: captured once per key, then one call into C.

    A decorator (with or without options), or a function: ``hybridize(module)`` switches the module
    in place and returns it.

    mode: ``"auto"``, ``"trace"`` or ``"ast"``; optimize: ``"exact"`` never changes a bit,
    ``"fast"`` may; fallback: ``"error"``, or ``"eager"`` to run what cannot be captured eagerly,
    with a warning; max_plans: how many plans are kept (least recently used go first); dynamic: None
    opens axes whose sizes change, False captures the function for each size, a table such as
    ``{"x": {0: hybrid.Dim("batch", 1, 512)}, 1: {1: True}}`` opens axes of arguments, by name or
    position, from the first call on; one that the function fixes raises CaptureError; ledger:
    None or True captures what pays, False each new key at once (``HYBRID_LEDGER=0`` makes that what
    None means).

    An axis that has other sizes in the second call, of an argument or of what is read from outside,
    is opened: one capture serves all sizes, each with a plan of its own that has the bits of eager
    code.  What Python code asks of a size is a condition of the capture (``n > 16``); loops over it
    are one node, and arithmetic is that of each size.  What asks for a plain number (``str(n)``,
    ``[0] * n``, a NumPy function) fixes the axis: the function is captured for each size again.

    Sizes may depend on values (``x[mask]``, ``x[:n]`` of a traced n): the function then runs in
    stages, each with plans for the sizes that the one before it has found.

    verify: the share of calls, from 0 to 1, that run eagerly as well: results, gradients, and all
    that the function changes are compared, bit by bit; what differs raises VerificationError, or
    warns and goes on as eager code does (on_difference="warn"), and a folder says how to see it
    again (``hybrid reproduce``).  ``HYBRID_VERIFY_CALLS=0.01`` asks for that everywhere, to warn.

    What a function computes of tensors from outside alone, which it does not write, is computed
    again only when they have been written.

    Over any calls it takes at most 1.05 of the time of eager code and 50 ms more, or what its first
    captures take (of the first call, and of the one that opens sizes) and 25 ms for more sizes of
    one of them: calls whose captures would take more run eagerly, with the same bits, until what
    plans save pays for them.  Where that goes on, because each call has another key, one warning
    says what changes and what to write instead; ``ledger`` of the result prints the account.
    """
    if function is None:
        return functools.partial(hybridize, **options)
    switch = getattr(function, "hybridize", None)
    if switch is not None and not isinstance(function, Hybridized):
        switch(**options)
        return function
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(hybridize(function.__func__, **options))
    if isinstance(function, Hybridized):
        function = function.function
    return made(function, **options)
