"""Where cycles end."""

import pytest

import hybrid as hy
from hybrid.errors import ArgumentError
from hybrid.nn import Parameter
from hybrid.optim.lr_scheduler import OneCycleLR


@pytest.mark.parametrize(("strategy", "rate"), [("cos", 0.06089296975803235), ("linear", 0.0)])
def test_a_loop_may_step_after_its_last_batch(strategy, rate):
    """As PyTorch, whose rate at that step, of no batch, this is; a line would go on below 0."""
    optimizer = hy.optim.Adam([Parameter([0.0])])
    scheduler = OneCycleLR(optimizer, 1.0, epochs=3, steps_per_epoch=3, anneal_strategy=strategy)
    for _ in range(9):
        scheduler.step()
    assert optimizer.lr == pytest.approx(rate)
    with pytest.raises(ArgumentError) as caught:
        scheduler.step()
    assert str(caught.value) == (
        "step 10 of a cycle of 9\nFix: make a scheduler of more steps, or stop stepping at the end."
    )
