"""ReduceLROnPlateau against PyTorch's rules, written out, eagerly and captured."""

import math
import pickle

import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import Parameter
from hybrid.optim import SGD
from hybrid.optim.lr_scheduler import ReduceLROnPlateau

MEASURES = [5.0, 4.0, 4.0, 4.0, 3.9999, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 2.0, 3.0, 3.0, 3.0, 3.0, 1.0]
BASE = (1.0, 0.25)

SETTINGS = [
    {"patience": 1},
    {"patience": 2, "factor": 0.5, "cooldown": 2},
    {"patience": 1, "threshold": 0.5, "threshold_mode": "abs"},
    {"patience": 1, "min_lr": [0.3, 0.02], "factor": 0.5},
    {"patience": 1, "mode": "max", "factor": 0.5},
    {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.1},
    {"patience": 0, "factor": 0.5, "eps": 0.1},
]


def expected(
    mode="min",
    factor=0.1,
    patience=10,
    threshold=1e-4,
    threshold_mode="rel",
    cooldown=0,
    min_lr=0.0,
    eps=1e-8,
):
    """https://docs.pytorch.org/docs/stable/generated/
    torch.optim.lr_scheduler.ReduceLROnPlateau.html
    """
    least = min_lr if isinstance(min_lr, list) else [min_lr] * 2
    rates, best, bad, cooling = list(BASE), None, 0, 0
    for measure in MEASURES:
        if best is None:
            better = True
        elif mode == "min":
            bound = best * (1 - threshold) if threshold_mode == "rel" else best - threshold
            better = measure < bound
        else:
            bound = best * (1 + threshold) if threshold_mode == "rel" else best + threshold
            better = measure > bound
        best, bad = (measure, 0) if better else (best, bad + 1)
        if cooling:
            cooling, bad = cooling - 1, 0
        if bad > patience:
            for i, rate in enumerate(rates):
                new = max(rate * factor, least[i])
                rates[i] = new if rate - new > eps else rate
            cooling, bad = cooldown, 0
        yield list(rates), best, bad


def made(**settings):
    groups = [{"params": [Parameter([1.0])], "lr": lr} for lr in BASE]
    return ReduceLROnPlateau(SGD(groups), **settings)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rates(settings, as_tensor):
    scheduler = made(**settings)
    falls = 0
    for measure, (rates, best, bad) in zip(MEASURES, expected(**settings), strict=True):
        before = scheduler.get_last_lr()
        scheduler.step(hy.asarray(measure, dtype=hy.float64) if as_tensor else measure)
        assert scheduler.get_last_lr() == rates
        assert (scheduler.best, scheduler.num_bad_epochs) == (best, bad)
        falls += rates != before
    assert falls


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_captured(settings):
    scheduler = made(**settings)

    @hy.hybridize
    def step(measure):
        scheduler.step(measure)
        return scheduler.optimizer.lr

    for measure, (rates, best, bad) in zip(MEASURES, expected(**settings), strict=True):
        assert step(hy.asarray(measure, dtype=hy.float64)) == rates[0]
        assert scheduler.get_last_lr() == rates
        assert (scheduler.best, scheduler.num_bad_epochs) == (best, bad)
    assert len(step.plans) == 1


def test_in_a_captured_loop():
    """The loss of each step is the measure."""
    found = []
    for hybridizes in (False, True):
        p = Parameter([1.0, -2.0])
        optimizer = SGD([p], lr=1.5)
        scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=0)

        def train(xs, p=p, optimizer=optimizer, scheduler=scheduler):
            for x in xs:
                optimizer.zero_grad()
                loss = hy.sum((p - x) ** 2)
                loss.backward()
                optimizer.step()
                scheduler.step(loss)

        run = hy.hybridize(train) if hybridizes else train
        run(hy.asarray([[0.5, 0.5]] * 8))
        found.append((p.numpy().tobytes(), scheduler.get_last_lr(), scheduler.best))
    assert found[0] == found[1] and found[0][1][0] < 1.5


def test_state():
    scheduler, other = made(patience=1), made(patience=1)
    for measure in MEASURES[:4]:
        scheduler.step(measure)
    other.load_state_dict(pickle.loads(pickle.dumps(scheduler.state_dict())))
    other.optimizer.load_state_dict(scheduler.optimizer.state_dict())
    for measure in MEASURES[4:]:
        scheduler.step(measure), other.step(measure)
        assert other.get_last_lr() == scheduler.get_last_lr()
    assert made(mode="max").best == -math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: made(factor=1.0),
            "factor is 1.0\nFix: give a number that is at least 0 and below 1.",
        ),
        (lambda: made(mode="x"), 'mode is \'x\'\nFix: give "min" or "max".'),
        (
            lambda: made(threshold_mode="x"),
            'threshold_mode is \'x\'\nFix: give "rel" or "abs".',
        ),
        (lambda: made(min_lr=[0.1]), "min_lr has 1 values for 2 groups"),
        (lambda: made().step("x"), "the measure is a str\nFix: give a number."),
        (
            lambda: made().step(1.0, epoch=2),
            "ReduceLROnPlateau does not jump to an epoch\nFix: leave epoch out.",
        ),
        (
            lambda: ReduceLROnPlateau(None),
            "ReduceLROnPlateau got a NoneType, not an optimizer",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message
