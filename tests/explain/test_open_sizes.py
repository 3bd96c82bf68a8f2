"""What explain() and ``plans`` say of sizes: open axes, conditions with their lines, what fixed."""

from __future__ import annotations

from typing import Any

import hybrid as hy


def rows(hybridized: Any, *shapes: tuple[int, ...]) -> list[str]:
    for shape in shapes:
        hybridized(hy.ones(shape))
    return list(hybridized.explain(hy.ones(shapes[-1])).sizes)


@hy.hybridize
def conditional(x: Any) -> Any:
    n = x.shape[0]
    if n > 16:
        return x * 2
    return x * 0.5 if n / 2 < 6.5 else x + 1


def test_open_axes_and_conditions() -> None:
    found = rows(conditional, (5, 4), (9, 4), (12, 4), (20, 4))
    line = conditional.function.__code__.co_firstlineno
    assert found == [
        "open: x f32[n,4]",
        f"   where n <= 16  test_open_sizes.py:{line + 3}",
        f"   where (n / 2) < 6.5  test_open_sizes.py:{line + 5}",
        "open: x f32[n,4]",
        f"   where n > 16  test_open_sizes.py:{line + 3}",
    ]
    text = str(conditional.explain(hy.ones((9, 4))))
    assert f"\nSizes\n{chr(10).join(found)}\n" in text
    bindings = [plan.bindings for plan in conditional.plans]
    assert bindings == [(), ("n = 9", "n = 12"), ("n = 20",)]
    assert "bound to n = 9; n = 12" in str(conditional.plans[1])


@hy.hybridize
def fixing(x: Any) -> Any:
    return x * hy.asarray([2.0] * x.shape[1])


def test_what_fixes_an_axis() -> None:
    found = rows(fixing, (5, 4), (6, 3), (7, 2))
    line = fixing.function.__code__.co_firstlineno + 2
    assert "open: x f32[n,3]" in found
    assert f"axis 1 of x is fixed: m == 3  test_open_sizes.py:{line}" in found


@hy.hybridize
def refused(x: Any) -> Any:
    total = [x]
    for _ in range(x.shape[0]):
        total.insert(0, total[0] + total[-1])
    return total[0]


def test_why_no_axis_is_open() -> None:
    found = rows(refused, (5,), (6,))
    assert len(found) == 1
    assert found[0].startswith(("no axis is open: ", "axis 0 of x is fixed: n == 6"))


def test_calls_that_differ_in_no_size() -> None:
    assert rows(hy.hybridize(lambda x: x * 2), (3,)) == []
