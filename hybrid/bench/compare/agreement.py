"""Whether two processes have computed the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], tolerance: float) -> str:
    """How two results, as ``serve.brief`` tells of them, differ; empty when they agree.

    Elements may be ``tolerance`` apart, as a share of their own size or of the root of the mean
    square of the array, whichever is greater.
    """
    if ours.keys() != theirs.keys():
        return f"it computes {', '.join(sorted(theirs))} instead of {', '.join(sorted(ours))}"
    for name, mine in ours.items():
        other = theirs[name]
        if mine["shape"] != other["shape"]:
            return f"the shape of its {name} is {other['shape']} instead of {mine['shape']}"
        a, b = np.asarray(mine["values"], float), np.asarray(other["values"], float)
        size = mine["root mean square"]
        a, b = np.append(a, size), np.append(b, other["root mean square"])
        bounds = tolerance * np.maximum(np.abs(a), size)
        gaps = np.abs(a - b)
        if not np.all(gaps <= bounds):  # NaN is no agreement
            worst = int(np.argmax(np.where(gaps <= bounds, 0, np.nan_to_num(gaps, nan=np.inf))))
            return f"its {name} has {b[worst]:.6g} where {a[worst]:.6g} is expected"
    return ""
