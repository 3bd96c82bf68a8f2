"""Arrays for the parameters of a graph, with the numbers that break inexact rules."""

import numpy as np

from hybrid.ir import Graph

_AWKWARD = [0.0, -0.0, 1.0, -1.5, 1e-40, 3e38, np.inf, -np.inf, np.nan, 0.1, 7.0, -2.0]


def arrays_for(graph: Graph) -> list[np.ndarray]:
    """One array per parameter, the same for the same types."""
    arrays = []
    for i, value in enumerate(graph.params):
        size = value.type.size
        numbers = np.array([_AWKWARD[(i + 5 * k) % len(_AWKWARD)] for k in range(size)])
        with np.errstate(all="ignore"):
            array = np.nan_to_num(numbers) if not value.type.dtype.is_floating else numbers
            array = np.clip(array, -100, 100) if value.type.dtype.is_integer else array
            arrays.append(array.astype(value.type.dtype.numpy).reshape(value.type.shape))
    return arrays
