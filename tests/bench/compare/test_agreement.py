"""Two results agree, or the first difference is told."""

import math

import numpy as np
import pytest

from hybrid.bench.compare.cases import difference
from hybrid.bench.compare.serve import SHOWN, brief

LARGE = np.arange(10 * SHOWN, dtype=np.float32).reshape(10, SHOWN)


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        ({"x": [1.0, 2.0]}, {"x": [1.0, 2.0001]}, ""),
        ({"x": [1e-6, 1.0]}, {"x": [2e-6, 1.0]}, ""),  # small beside the others
        ({"x": 3.0}, {"x": 3.0}, ""),
        ({"x": LARGE}, {"x": LARGE}, ""),
        ({"x": [1.0, 2.0]}, {"x": [1.0, 2.1]}, "its x has 2.1 where 2 is expected"),
        ({"x": [1.0, 2.0]}, {"x": [1.0, math.nan]}, "its x has nan where 2 is expected"),
        ({"x": [math.nan]}, {"x": [math.nan]}, "its x has nan where nan is expected"),
        ({"x": [1.0]}, {"x": [[1.0]]}, "the shape of its x is [1, 1] instead of [1]"),
        ({"x": 1.0}, {"y": 1.0}, "it computes y instead of x"),
        ({"x": np.zeros(2000)}, {"x": np.eye(1, 2000, 1)[0]},  # between those that are shown
         "its x has 0.0223607 where 0 is expected"),
    ],
)  # fmt: skip
def test_difference(ours: dict, theirs: dict, told: str) -> None:
    made = [{name: brief(array) for name, array in side.items()} for side in (ours, theirs)]
    assert difference(*made, tolerance=1e-3) == told


def test_brief_spreads_evenly() -> None:
    made = brief(LARGE)
    assert made["shape"] == [10, SHOWN] and len(made["values"]) == SHOWN
    assert made["values"][0] == 0 and made["values"][-1] == LARGE.size - 1
    assert made["root mean square"] == pytest.approx(np.sqrt(np.mean(LARGE.astype(float) ** 2)))
    assert brief(np.zeros((0, 3))) == {"shape": [0, 3], "values": [], "root mean square": 0.0}
