"""Schedulers against closed forms, written out from PyTorch's documentation of each.

https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
"""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import Parameter
from hybrid.optim import SGD, Adam, Lion, RMSprop, lr_scheduler
from hybrid.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

BASE = (0.4, 0.1)
STEPS = 24
PI = math.pi


def optimizer_of(kind=SGD, **settings):
    groups = [{"params": [Parameter([1.0, 2.0])], "lr": lr} for lr in BASE]
    settings = {"momentum": 0.9} if kind is SGD and not settings else settings
    return kind(groups, **settings)


def restarts(t, first, times):
    length = first
    while t >= length:
        t, length = t - length, length * times
    return t, length


def one_cycle(t, peak, total, share, cosine, thirds=False, div=25.0, last=1e4):
    """Rate and share of the way of the momentum at step t."""
    begin, up = peak / div, share * total - 1
    ends = [(0, begin), (up, peak)]
    ends += [(2 * up, begin)] if thirds else []
    ends += [(total - 1, begin / last)]
    for (t0, a), (t1, b) in itertools.pairwise(ends):
        if t <= t1 or t1 == total - 1:
            s = (t - t0) / (t1 - t0)
            return a + (b - a) * ((1 - math.cos(PI * s)) / 2 if cosine else s)
    raise AssertionError


def triangle(t, up, down):
    cycle = math.floor(1 + t / (up + down))
    at = t - (cycle - 1) * (up + down)
    return cycle, at / up if at <= up else (up + down - at) / down


def own(optimizer):
    class Halving(LRScheduler):
        def get_lr(self):
            if self.last_epoch == 0:
                return list(self.base_lrs)
            return [group["lr"] * 0.5 for group in self.optimizer.param_groups]

    return Halving(optimizer)


# name -> (what makes it, the rate of base rate b at step t)
SCHEDULES = {
    "step": (lambda o: StepLR(o, 3, 0.5), lambda b, t: b * 0.5 ** (t // 3)),
    "multi step": (
        lambda o: MultiStepLR(o, [7, 2, 7], 0.5),
        lambda b, t: b * 0.5 ** ((t >= 2) + 2 * (t >= 7)),
    ),
    "constant": (lambda o: ConstantLR(o, 0.25, 4), lambda b, t: b * (0.25 if t < 4 else 1)),
    "linear": (
        lambda o: LinearLR(o, 0.25, 0.75, 8),
        lambda b, t: b * (0.25 + 0.5 * min(t, 8) / 8),
    ),
    "warm-up": (lambda o: LinearLR(o), lambda b, t: b * (1 / 3 + 2 / 3 * min(t, 5) / 5)),
    "exponential": (lambda o: ExponentialLR(o, 0.9), lambda b, t: b * 0.9**t),
    "polynomial": (
        lambda o: PolynomialLR(o, 10, 2.0),
        lambda b, t: b * (1 - min(t, 10) / 10) ** 2,
    ),
    "cosine": (
        lambda o: CosineAnnealingLR(o, 7, 0.05),
        lambda b, t: 0.05 + (b - 0.05) * (1 + math.cos(PI * t / 7)) / 2,
    ),
    "restarts": (
        lambda o: CosineAnnealingWarmRestarts(o, 5, 1, 0.05),
        lambda b, t: 0.05 + (b - 0.05) * (1 + math.cos(PI * (t % 5) / 5)) / 2,
    ),
    "longer restarts": (
        lambda o: CosineAnnealingWarmRestarts(o, 3, 2),
        lambda b, t: b * (1 + math.cos(PI * np.divide(*restarts(t, 3, 2)))) / 2,
    ),
    "lambda": (lambda o: LambdaLR(o, lambda t: 0.9 ** math.sqrt(t)), lambda b, t: b * 0.9**t**0.5),
    "lambdas": (
        lambda o: LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 2.0]),
        lambda b, t: b / (1 + t) if b == BASE[0] else b * 2,
    ),
    "multiplicative": (
        lambda o: MultiplicativeLR(o, lambda t: 0.5 if t % 2 else 1.0),
        lambda b, t: b * 0.5 ** ((t + 1) // 2),
    ),
    "one cycle": (
        lambda o: OneCycleLR(o, [1.0, 0.5], STEPS + 1),
        lambda b, t: one_cycle(t, 1.0 if b == BASE[0] else 0.5, STEPS + 1, 0.3, True),
    ),
    "one cycle in three": (
        lambda o: OneCycleLR(
            o,
            1.0,
            epochs=5,
            steps_per_epoch=5,
            pct_start=0.4,
            anneal_strategy="linear",
            three_phase=True,
            div_factor=10,
            final_div_factor=100,
        ),
        lambda b, t: one_cycle(t, 1.0, 25, 0.4, False, True, 10, 100),
    ),
    "triangular": (
        lambda o: CyclicLR(o, 0.1, 0.5, 4, 6),
        lambda b, t: 0.1 + 0.4 * triangle(t, 4, 6)[1],
    ),
    "triangular2": (
        lambda o: CyclicLR(o, [0.1, 0.2], 0.5, 4, mode="triangular2"),
        lambda b, t: (
            (low := 0.1 if b == BASE[0] else 0.2)
            + (0.5 - low) * triangle(t, 4, 4)[1] / 2 ** (triangle(t, 4, 4)[0] - 1)
        ),
    ),
    "exp_range": (
        lambda o: CyclicLR(o, 0.1, 0.5, 4, mode="exp_range", gamma=0.9),
        lambda b, t: 0.1 + 0.4 * triangle(t, 4, 4)[1] * 0.9**t,
    ),
    "own scale": (
        lambda o: CyclicLR(o, 0.1, 0.5, 4, scale_fn=lambda c: 1 / c, cycle_momentum=False),
        lambda b, t: 0.1 + 0.4 * triangle(t, 4, 4)[1] / triangle(t, 4, 4)[0],
    ),
    "sequence": (
        lambda o: SequentialLR(
            o, [LinearLR(o, 0.25, 1.0, 4), CosineAnnealingLR(o, 10), ExponentialLR(o, 0.5)], [4, 14]
        ),
        lambda b, t: (
            b * (0.25 + 0.75 * t / 4)
            if t < 4
            else b * (1 + math.cos(PI * (t - 4) / 10)) / 2
            if t < 14
            else b * 0.5 ** (t - 14)
        ),
    ),
    "chain": (
        lambda o: ChainedScheduler([ConstantLR(o, 0.25, 4), ExponentialLR(o, 0.9)]),
        lambda b, t: b * 0.9**t * (0.25 if t < 4 else 1),
    ),
    "sequence of chains": (
        lambda o: SequentialLR(
            o,
            [
                LinearLR(o, 0.5, 1.0, 3),
                ChainedScheduler([StepLR(o, 2, 0.5), ExponentialLR(o, 0.9)]),
            ],
            [3],
        ),
        lambda b, t: (
            b * (0.5 + 0.5 * t / 3) if t < 3 else b * 0.9 ** (t - 3) * 0.5 ** ((t - 3) // 2)
        ),
    ),
    "sequence that goes on": (
        lambda o: SequentialLR(
            o,
            [ExponentialLR(o, 0.5), MultiplicativeLR(o, lambda e: 0.9 - e / 8), StepLR(o, 1, 0.5)],
            [3, 5],
        ),
        lambda b, t: (
            b * 0.5**t
            if t < 3
            else b * 0.25 * 0.9 * (0.775 if t == 4 else 1)
            if t < 5
            else b * 0.5 ** (t - 5)
        ),
    ),
    "own": (own, lambda b, t: b * 0.5**t),
}


def test_every_scheduler_has_a_formula():
    kinds = {kind for kind in vars(lr_scheduler).values() if isinstance(kind, type)}
    tried = {type(make(optimizer_of())) for make, _ in SCHEDULES.values()}
    assert kinds - {LRScheduler, ReduceLROnPlateau} <= tried


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(name):
    make, rate = SCHEDULES[name]
    optimizer = optimizer_of()
    scheduler = make(optimizer)
    for t in range(STEPS + 1):
        assert scheduler.last_epoch == t
        wanted = [rate(b, t) for b in BASE]
        np.testing.assert_allclose(scheduler.get_last_lr(), wanted, rtol=1e-12, atol=1e-16)
        assert scheduler.get_last_lr() == [group.lr for group in optimizer.param_groups]
        if t < STEPS:
            optimizer.step()
            scheduler.step()


def train(scheduler, optimizer, hybridizes, plateau=False):
    """Steps of the optimizer and of the scheduler; the rates after each, and the parameters."""

    def step(x):
        for group in optimizer.param_groups:
            for p in group.params:
                p.grad = x * p.detach()
        optimizer.step()
        scheduler.step()
        return [group.lr for group in optimizer.param_groups]

    run = hy.hybridize(step) if hybridizes else step
    rates = [[float(lr).hex() for lr in run(hy.asarray([0.1, k]))] for k in range(STEPS - 1)]
    params = [p.numpy().tobytes() for group in optimizer.param_groups for p in group.params]
    momenta = [group.momentum for group in optimizer.param_groups]
    if hybridizes:
        assert len(run.plans) == 1
    return rates, params, momenta, scheduler.last_epoch


@pytest.mark.parametrize("name", SCHEDULES)
def test_steps_can_be_captured(name):
    found = []
    for hybridizes in (False, True):
        optimizer = optimizer_of()
        found.append(train(SCHEDULES[name][0](optimizer), optimizer, hybridizes))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_steps_in_a_captured_loop(name):
    found = []
    for hybridizes in (False, True):
        optimizer = optimizer_of()
        scheduler = SCHEDULES[name][0](optimizer)
        p = optimizer.param_groups[0].params[0]

        def epoch(xs, p=p, optimizer=optimizer, scheduler=scheduler):
            total = hy.zeros(())
            for x in xs:
                optimizer.zero_grad()
                loss = hy.sum((p - x) ** 2)
                loss.backward()
                optimizer.step()
                scheduler.step()
                total += loss.detach()
            return total

        run = hy.hybridize(epoch) if hybridizes else epoch
        xs = hy.asarray(np.random.RandomState(0).randn(8, 2).astype("float32"))
        totals = [run(xs).item().hex() for _ in range(2)]
        found.append((totals, p.numpy().tobytes(), scheduler.get_last_lr(), scheduler.last_epoch))
        if hybridizes:
            assert len(run.plans) == 1
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_outside_they_cause_no_new_plan(name):
    optimizer = optimizer_of()
    scheduler = SCHEDULES[name][0](optimizer)
    p = optimizer.param_groups[0].params[0]

    @hy.hybridize
    def step(x):
        p.grad = x
        optimizer.step()

    for _ in range(8):
        step(hy.asarray([1.0, 2.0]))
        scheduler.step()
    assert len(step.plans) == 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_state_goes_on_where_it_was(name):
    make, rate = SCHEDULES[name]
    scheduler = make(optimizer_of())
    for _ in range(6):
        scheduler.step()
    state = scheduler.state_dict()
    if name not in ("own scale", "lambda", "lambdas", "multiplicative"):
        state = pickle.loads(pickle.dumps(state))
    optimizer = optimizer_of()
    optimizer.load_state_dict(scheduler.optimizer.state_dict())
    other = make(optimizer_of())
    other.optimizer.load_state_dict(optimizer.state_dict())
    other.load_state_dict(state)
    assert other.last_epoch == 6 and other.get_last_lr() == scheduler.get_last_lr()
    for t in range(7, 12):
        scheduler.step(), other.step()
        assert other.get_last_lr() == scheduler.get_last_lr()
        np.testing.assert_allclose(other.get_last_lr(), [rate(b, t) for b in BASE], rtol=1e-12)


MOMENTA = [
    (SGD, {"momentum": 0.5}, lambda group: group.momentum),
    (RMSprop, {"momentum": 0.5}, lambda group: group.momentum),
    (Adam, {"betas": (0.5, 0.75)}, lambda group: group.betas[0]),
    (Lion, {}, lambda group: group.betas[0]),
]


@pytest.mark.parametrize(("kind", "settings", "momentum"), MOMENTA)
def test_cycles_of_momenta(kind, settings, momentum):
    optimizer = optimizer_of(kind, **settings)
    scheduler = OneCycleLR(optimizer, 1.0, 11, pct_start=0.5, anneal_strategy="linear")
    for t in range(11):
        # down in 4.5 steps, up in 5.5
        wanted = 0.95 - 0.1 * (t / 4.5 if t <= 4.5 else (10 - t) / 5.5)
        for group in optimizer.param_groups:
            assert momentum(group) == pytest.approx(wanted, rel=1e-12)
        if t < 10:
            scheduler.step()
    optimizer = optimizer_of(kind, **settings)
    scheduler = CyclicLR(optimizer, 0.1, 0.5, 4, base_momentum=0.5, max_momentum=0.75)
    for t in range(11):
        wanted = 0.75 - 0.25 * triangle(t, 4, 4)[1]
        assert momentum(optimizer.param_groups[1]) == pytest.approx(wanted, rel=1e-12)
        scheduler.step()
    if kind is Adam:
        assert optimizer.param_groups[0].betas[1] == 0.75


def test_jumps():
    optimizer = optimizer_of()
    scheduler = StepLR(optimizer, 3, 0.5)
    scheduler.step(7)
    assert (scheduler.last_epoch, scheduler.get_last_lr()) == (7, [0.1, 0.025])
    scheduler.step()
    assert (scheduler.last_epoch, scheduler.get_last_lr()) == (8, [0.1, 0.025])
    scheduler = CosineAnnealingWarmRestarts(optimizer, 4)
    scheduler.step(9.5)
    assert scheduler.last_epoch == 9
    np.testing.assert_allclose(
        scheduler.get_last_lr(), [b * (1 + math.cos(PI * 1.5 / 4)) / 2 for b in BASE]
    )


def test_resuming_from_an_epoch():
    optimizer = optimizer_of()
    for group in optimizer.param_groups:
        group["initial_lr"], group["lr"] = group["lr"], group["lr"] * 0.25
    scheduler = StepLR(optimizer, 3, 0.5, last_epoch=7)
    assert (scheduler.last_epoch, scheduler.get_last_lr()) == (8, [0.1, 0.025])
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.0125]


def test_a_rate_set_by_hand_is_gone_on_from():
    optimizer = optimizer_of()
    scheduler = ExponentialLR(optimizer, 0.5)
    optimizer.lr = 0.25
    scheduler.step()
    assert scheduler.get_last_lr() == [0.125, 0.125]


def test_get_lr_tells_the_next_rates():
    scheduler = ExponentialLR(optimizer_of(), 0.5)
    assert scheduler.get_lr() == [0.2, 0.05] and scheduler.last_epoch == 0


def test_copies_step_alone():
    scheduler = ExponentialLR(optimizer_of(), 0.5)
    other = copy.deepcopy(scheduler)
    other.step()
    assert scheduler.get_last_lr() == list(BASE) and other.get_last_lr() == [0.2, 0.05]


def test_a_cycle_that_is_over_says_so_from_inside():
    optimizer = optimizer_of()
    scheduler = OneCycleLR(optimizer, 1.0, 3)
    step = hy.hybridize(lambda: scheduler.step())
    step(), step(), step()
    with pytest.raises(ArgumentError, match="step 4 of a cycle of 3"):
        step()
    assert scheduler.last_epoch == 3


PLAIN = SGD([Parameter([1.0])], lr=0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: StepLR(None, 1), "StepLR got a NoneType, not an optimizer"),
        (lambda o: StepLR(o, 0), "step_size is 0\nFix: give an int above 0."),
        (lambda o: StepLR(o, 1, -1), "gamma is -1\nFix: give a number that is at least 0."),
        (lambda o: ExponentialLR(o, "x"), "gamma is 'x', not a number"),
        (
            lambda o: ConstantLR(o, 1.5),
            "factor is 1.5\nFix: give a number that is above 0 and at most 1.",
        ),
        (
            lambda o: LinearLR(o, 0),
            "start_factor is 0\nFix: give a number that is above 0 and at most 1.",
        ),
        (
            lambda o: LinearLR(o, end_factor=2),
            "end_factor is 2\nFix: give a number that is at least 0 and at most 1.",
        ),
        (lambda o: CosineAnnealingLR(o, 0), "T_max is 0\nFix: give an int above 0."),
        (lambda o: CosineAnnealingWarmRestarts(o, 2.5), "T_0 is 2.5\nFix: give an int above 0."),
        (lambda o: LambdaLR(o, 3), "lr_lambda is a int\nFix: give a function of the epoch."),
        (lambda o: LambdaLR(o, [abs]), "lr_lambda has 1 values for 2 groups"),
        (
            lambda o: OneCycleLR(o, 1.0),
            "the length of the cycle is missing\n"
            "Fix: give total_steps, or epochs and steps_per_epoch.",
        ),
        (lambda o: OneCycleLR(o, 1.0, -1), "total_steps is -1\nFix: give an int above 0."),
        (
            lambda o: OneCycleLR(o, 1.0, 5, pct_start=2),
            "pct_start is 2\nFix: give a number that is at least 0 and at most 1.",
        ),
        (
            lambda o: OneCycleLR(o, 1.0, 5, anneal_strategy="x"),
            'anneal_strategy is \'x\'\nFix: give "cos" or "linear".',
        ),
        (
            lambda o: OneCycleLR(PLAIN, 1.0, 5),
            "group 0 of SGD keeps no momentum to cycle\n"
            "Fix: give the optimizer a momentum, or pass cycle_momentum=False.",
        ),
        (
            lambda o: CyclicLR(o, 0.1, 1.0, 0),
            "step_size_up is 0\nFix: give a number above 0.",
        ),
        (
            lambda o: CyclicLR(o, 0.1, 1.0, mode="x"),
            'mode is \'x\'\nFix: give "triangular", "triangular2" or "exp_range".',
        ),
        (
            lambda o: StepLR(o, 1, last_epoch=3),
            "group 0 has no initial_lr to go on from\nlast_epoch is 3, which resumes a schedule.\n"
            "Fix: load the state of the optimizer first, or set group['initial_lr'].",
        ),
        (
            lambda o: SequentialLR(o, [StepLR(o, 1)], [1]),
            "1 schedulers take 0 milestones in order, not [1]",
        ),
        (
            lambda o: SequentialLR(o, [StepLR(o, 1), StepLR(o, 1)], [1], last_epoch=3),
            "SequentialLR cannot begin in the middle\nFix: load the state of one instead.",
        ),
        (
            lambda o: ChainedScheduler([StepLR(o, 1), ReduceLROnPlateau(o)]),
            "scheduler 1 is a ReduceLROnPlateau\n"
            "ChainedScheduler steps schedulers that need nothing but their count.",
        ),
        (
            lambda o: ChainedScheduler([StepLR(o, 1), StepLR(PLAIN, 1)]),
            "scheduler 1 is of another optimizer",
        ),
        (
            lambda o: ChainedScheduler([own(o)]),
            "scheduler 0, a Halving, has its own get_lr\n"
            "ChainedScheduler computes rates from numbers alone.\n"
            "Fix: define rates_at(epoch, rates) in its place.",
        ),
        (lambda o: ChainedScheduler([]), "ChainedScheduler got no schedulers"),
        (
            lambda o: StepLR(o, 1).load_state_dict({}),
            "the state does not fit this StepLR: last_epoch missing\n"
            "Fix: load what state_dict() gave of a scheduler of the same kind.",
        ),
        (
            lambda o: StepLR(o, 1).load_state_dict({"last_epoch": 1, "base_lrs": [1.0]}),
            "the state does not fit this StepLR: it is of 1 groups, not 2\n"
            "Fix: load what state_dict() gave of a scheduler of the same kind.",
        ),
        (
            lambda o: ChainedScheduler([StepLR(o, 1)]).load_state_dict({"last_epoch": 1}),
            "the state does not fit this ChainedScheduler: it is of 0 schedulers, not 1\n"
            "Fix: load what state_dict() gave of a scheduler of the same kind.",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make(optimizer_of())
    assert str(caught.value) == message
