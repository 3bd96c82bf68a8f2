"""A loop that ends when a tensor says so: while_loop."""

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.compare.problems import SMALL, STEP, newton
from hybrid.bench.peers import peers, require_agreement
from hybrid.bench.registry import Case, workload


def settle(x: hy.Tensor) -> hy.Tensor:
    while hy.max(hy.abs(x)) > SMALL:
        x = x - STEP * hy.sin(x)
    return x


def count_steps(x: hy.Tensor) -> int:
    """How many iterations ``settle`` makes."""
    steps = 0
    while hy.max(hy.abs(x)) > SMALL:
        x = x - STEP * hy.sin(x)
        steps += 1
    return steps


@workload("while_loop", "x - 0.1 sin(x) on 64 float32 until all are small: one iteration of 800")
def while_loop() -> list[Case]:
    x = hy.asarray(newton().inputs[0])
    captured = hy.hybridize(settle)
    steps = count_steps(x)
    others = peers("while_loop", "64")

    def check() -> dict[str, str]:
        result = settle(x)
        require_same_bits("while_loop", result, captured(x))
        require_same_bits("while_loop: iterations", steps, hy.hybridize(count_steps)(x))
        require_agreement("while_loop", {"result": result / SMALL}, others)
        return {"iterations": f"{steps}, of which the times are those of one"}

    ways = {"eager": lambda: settle(x), "hybridized": lambda: captured(x), **others}
    return [Case("one iteration", ways, check, threads=1, parts=steps)]
