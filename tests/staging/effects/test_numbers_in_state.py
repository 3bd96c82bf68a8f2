"""Numbers of tensors in attributes, variables, lists and dicts that outlive the call.

Each run writes them anew, and reads those that the call before has left: running averages, the best
loss so far, counters that a value sets back.
"""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = tuple(f32(values) for values in ([1.0, 2.0], [-3.0, 1.0], [2.0, -4.0], [5.0, 0.5]))
TOTAL = 0.0


@table.makes(*CALLS, plans=1)
def a_running_average():
    state = SimpleNamespace(mean=1.0)

    def run(x):
        state.mean = 0.9 * state.mean + 0.1 * x.sum().item()
        return x * state.mean

    return run, state


@table.makes(*CALLS, plans=2)
def an_average_that_begins_as_none():
    state = SimpleNamespace(mean=None)

    def run(x):
        value = float(x.mean())
        state.mean = value if state.mean is None else 0.5 * (state.mean + value)
        return x * state.mean

    return run, state


@table.makes(*CALLS, plans=2)
def an_attribute_that_is_made():
    state = SimpleNamespace()

    def run(x):
        state.last = x.sum().item()
        return x * state.last

    return run, state


@table.makes(*CALLS, plans=1)
def the_best_loss_and_patience():
    state = SimpleNamespace(best=float("inf"), bad=0, stop=False)

    def run(x):
        loss = (x * x).sum()
        if loss < state.best:
            state.best, state.bad = loss.item(), 0
        else:
            state.bad += 1
            if state.bad > 2:
                state.stop = True
        return loss * state.best

    return run, state


@table.makes(*CALLS, plans=1)
def a_counter_that_a_value_sets_back():
    state = SimpleNamespace(n=0)

    def run(x):
        state.n += 1
        if x.sum() < 0:
            state.n = 0
        return x * state.n

    return run, state


@table.makes(*CALLS, plans=1)
def a_flag_of_an_earlier_call():
    state = SimpleNamespace(low=False)

    def run(x):
        y = -x if state.low else x
        state.low = bool(x.sum() < 0)
        return y, state.low

    return run, state


@table.makes(*CALLS, plans=1)
def variables_of_an_enclosing_function():
    total, count = 0.0, 0

    def run(x):
        nonlocal total, count
        total += x.sum().item()
        count = count + 1 if total > 0 else 0
        return x * total, count

    return run


@table.makes(*CALLS, plans=1)
def a_global():
    global TOTAL
    TOTAL = 0.0

    def run(x):
        global TOTAL
        TOTAL = 0.5 * TOTAL + x.sum().item()
        return x * TOTAL

    return run


@table.makes(*CALLS, plans=1)
def an_attribute_of_a_class():
    class Meter:
        total = 0.0

        def add(self, x):
            Meter.total = Meter.total + x.sum().item()
            return x * self.total

    one, other = Meter(), Meter()

    def run(x):
        return one.add(x) + other.add(x), vars(one), vars(other), Meter.total

    return run


@table.makes(*CALLS, plans=2)
def an_attribute_that_the_class_has_first():
    class Meter:
        total = 0.0

    state = Meter()

    def run(x):
        state.total = state.total + x.sum().item()
        return x * state.total, Meter.total

    return run, state


@table.makes(*CALLS, plans=1)
def a_slot_and_a_property():
    class Meter:
        __slots__ = ("_value",)

        def __init__(self):
            self._value = 0.0

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, value):
            self._value = value * 2

    meter = Meter()

    def run(x):
        meter.value = meter.value * 0.25 + x.sum().item()
        return x * meter.value

    return run


@table.makes(*CALLS, plans=1)
def numbers_in_a_loop_and_before_an_error():
    state = SimpleNamespace(total=0.0, errors=0)

    def run(x):
        for row in x:
            state.total = 0.5 * state.total + row.item()
        try:
            if x.sum() < 0:
                raise ValueError("low")
        except ValueError:
            state.errors += 1
        return x * state.total

    return run, state


@table.makes(*CALLS, plans=1)
def numbers_in_tuples():
    state = SimpleNamespace(pair=(f32([0.0, 0.0]), 0.0))

    def run(x):
        state.pair = (state.pair[0] + x, state.pair[1] + x.sum().item())
        return state.pair[0] * state.pair[1]

    return run, state


@table.makes(*CALLS, plans=3)
def numbers_that_move_in_a_deque():
    last = deque([1.0, 2.0, 3.0], maxlen=3)

    def run(x):
        last.append(x.sum().item())
        return x * sum(last)

    return run, last


@table.makes(*CALLS, plans=3)
def numbers_that_move_in_a_list():
    last = [1.0, 2.0, 3.0]

    def run(x):
        last.append(x.sum().item())
        last.pop(0)
        return x * max(last)

    return run, last


@table.makes(*CALLS)
def a_text():
    state = SimpleNamespace(line="")

    def run(x):
        state.line = f"loss {x.sum().item():.2f}"
        return x

    return run, state


@table.makes(*CALLS)
def a_number_that_python_needs_in_the_next_call():
    state = SimpleNamespace(at=0)
    scales = [1.0, 2.0, 3.0]

    def run(x):
        y = x * scales[state.at]
        state.at = abs(int(x.sum())) % 3
        return y

    return run, state


@table.makes(*CALLS)
def an_item_that_python_needs_in_the_next_call():
    sizes = [2]

    def run(x):
        y = hy.ones((sizes[0],))
        sizes[0] = abs(int(x.sum())) % 3 + 1
        return y

    return run, sizes


@table.makes(*CALLS, plans=1)
def a_module_with_an_average():
    class Tracked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.mean = 0.0

        def forward(self, x):
            y = self.linear(x)
            self.mean = 0.9 * self.mean + 0.1 * float(y.mean())
            return y * self.mean

    module = Tracked()

    def run(x):
        return module(x), module.mean

    return run, module


@table.makes(*CALLS, plans=1)
def a_training_step_that_lowers_its_rate():
    weight = nn.Parameter(f32([1.0, 1.0]))
    optimizer = hy.optim.SGD([weight], lr=0.1)
    state = SimpleNamespace(best=1e9, bad=0)

    def run(x):
        optimizer.zero_grad()
        loss = ((weight * x) ** 2).sum()
        loss.backward()
        optimizer.step()
        if loss.item() < state.best:
            state.best, state.bad = loss.item(), 0
        else:
            state.bad += 1
        if state.bad > 0:
            optimizer.param_groups[0]["lr"] *= 0.5
            state.bad = 0
        return loss.detach(), weight.detach() * 1, optimizer.param_groups[0]["lr"]

    return run, state


@table.each()
def test_programs(program: Program) -> None:
    program.check()


def test_what_others_write_there_is_read() -> None:
    state: Any = SimpleNamespace(mean=1.0)

    @hy.hybridize
    def run(x):
        state.mean = state.mean + x.sum().item()
        return x * state.mean

    run(CALLS[0])
    state.mean = 100.0
    assert run(CALLS[0]).tolist() == [103.0, 206.0]
    assert len(run.plans) == 1
    state.mean = 7  # an int: another plan, for the number has another type now
    assert run(CALLS[0]).tolist() == [10.0, 20.0]
    assert state.mean == 10.0


def test_a_refused_capture_leaves_no_attribute_of_the_class_on_the_object() -> None:
    class Meter:
        total, calls = 0.0, 0

    meter = Meter()

    @hy.hybridize
    def run(x):
        meter.total = x.sum().item()
        meter.calls += 1
        return x

    with pytest.raises(hy.errors.CaptureError, match=r"run changed Meter\.calls"):
        run(CALLS[0])
    assert not vars(meter)
