"""Averages of weights against NumPy, eagerly and in captured training loops."""

import copy

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import BatchNorm1d, Dropout, Linear, Module, Parameter, Sequential
from hybrid.optim import SGD, ExponentialMovingAverage, swa_utils
from hybrid.optim.swa_utils import SWALR, AveragedModel

DRAW = np.random.RandomState(0)
VALUES = DRAW.randn(5, 3)


class Net(Module):
    """One weight, one float buffer, one int buffer."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(np.zeros(3))
        self.register_buffer("mean", hy.zeros(3, dtype=hy.float64))
        self.register_buffer("count", hy.zeros((), dtype=hy.int64))

    def forward(self, x):
        return x * self.weight + self.mean


def ema(decay):
    def average(values):
        found = values[0]
        for value in values[1:]:
            found = decay * found + (1 - decay) * value
        return found

    return average


def mean(values):
    return np.mean(values, axis=0)


MAKERS = {
    "mean": (AveragedModel, mean),
    "swa": (lambda m, **k: AveragedModel(m, avg_fn=swa_utils.get_swa_avg_fn(), **k), mean),
    "swa lists": (
        lambda m, **k: AveragedModel(m, multi_avg_fn=swa_utils.get_swa_multi_avg_fn(), **k),
        mean,
    ),
    "ema": (lambda m, **k: AveragedModel(m, avg_fn=swa_utils.get_ema_avg_fn(0.75), **k), ema(0.75)),
    "ema lists": (
        lambda m, **k: AveragedModel(m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.75), **k),
        ema(0.75),
    ),
    "own": (
        lambda m, **k: AveragedModel(m, avg_fn=lambda a, v, n: hy.maximum(a, v), **k),
        lambda values: np.max(values, axis=0),
    ),
    "exponential": (lambda m, **k: ExponentialMovingAverage(m, 0.75, **k), ema(0.75)),
}


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("hybridizes", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_averages(name, hybridizes, use_buffers):
    make, average = MAKERS[name]
    net = Net()
    averaged = make(net, use_buffers=use_buffers)

    def take_in(value):
        net.weight.assign(value)
        net.mean.assign(value * 2.0)
        net.count.assign(net.count + 1)
        averaged.update_parameters(net)

    run = hy.hybridize(take_in) if hybridizes else take_in
    for number, value in enumerate(VALUES):
        run(hy.asarray(value))
        wanted = average(VALUES[: number + 1])
        np.testing.assert_allclose(averaged.module.weight.numpy(), wanted, rtol=1e-12)
        buffer = 2 * wanted if use_buffers else 2 * value
        np.testing.assert_allclose(averaged.module.mean.numpy(), buffer, rtol=1e-12)
        assert averaged.n_averaged.item() == averaged.module.count.item() == number + 1
    if hybridizes:
        assert len(run.plans) == 1
    x = hy.asarray(np.ones(3))
    np.testing.assert_allclose(averaged(x).numpy(), wanted + buffer, rtol=1e-12)
    assert net.weight.tolist() == VALUES[-1].tolist() and averaged.module is not net


def test_names_are_those_of_pytorch():
    averaged = AveragedModel(Sequential(Linear(2, 1)))
    assert set(averaged.state_dict()) == {"n_averaged", "module.0.weight", "module.0.bias"}
    other = AveragedModel(Sequential(Linear(2, 1)))
    averaged.update_parameters(Sequential(Linear(2, 1)))
    other.load_state_dict(averaged.state_dict())
    assert other.n_averaged.item() == 1


def test_in_a_captured_training_loop():
    xs = hy.asarray(DRAW.randn(6, 8, 4).astype("float32"))
    found = []
    for hybridizes in (False, True):
        hy.random.seed(0)
        net = Linear(4, 2)
        optimizer, average = SGD(net.parameters(), lr=0.1), ExponentialMovingAverage(net, 0.9)

        def epoch(xs, net=net, optimizer=optimizer, average=average):
            for x in xs:
                optimizer.zero_grad()
                hy.sum(net(x) ** 2).backward()
                optimizer.step()
                average.update_parameters(net)
            return average(xs[0])

        run = hy.hybridize(epoch) if hybridizes else epoch
        found.append([run(xs).numpy().tobytes() for _ in range(2)])
        found[-1].append([p.numpy().tobytes() for p in average.parameters()])
        if hybridizes:
            assert len(run.plans) == 1
    assert found[0] == found[1]


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 4])
def test_rates(epochs, strategy):
    """https://docs.pytorch.org/docs/stable/optim.html#swa-learning-rate-schedules"""
    groups = [{"params": [Parameter([1.0])], "lr": lr} for lr in (0.4, 0.1)]
    scheduler = SWALR(SGD(groups), [0.2, 0.05], epochs, strategy)
    for t in range(8):
        at = 1.0 if not epochs else min(1.0, t / epochs)
        share = (1 - np.cos(np.pi * at)) / 2 if strategy == "cos" else at
        wanted = [first + (last - first) * share for first, last in ((0.4, 0.2), (0.1, 0.05))]
        np.testing.assert_allclose(scheduler.get_last_lr(), wanted, rtol=1e-12)
        scheduler.step()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AveragedModel(3), "a int is not a Module"),
        (
            lambda: AveragedModel(Net(), "cuda"),
            "no device 'cuda'\nFix: leave device out, or pass \"cpu\".",
        ),
        (
            lambda: AveragedModel(Net(), avg_fn=max, multi_avg_fn=max),
            "avg_fn and multi_avg_fn are both given\nFix: give one of them.",
        ),
        (
            lambda: ExponentialMovingAverage(Net(), 1.5),
            "decay is 1.5\nFix: give a number that is at least 0 and at most 1.",
        ),
        (
            lambda: AveragedModel(Linear(2, 1)).update_parameters(Linear(3, 1)),
            "weight is f32[1,3] in the model and f32[1,2] in its average\n"
            "Fix: pass the model that was averaged.",
        ),
        (
            lambda: AveragedModel(Linear(2, 1)).update_parameters(Linear(2, 1, bias=False)),
            "bias is nothing in the model and f32[1] in its average\n"
            "Fix: pass the model that was averaged.",
        ),
        (
            lambda: SWALR(SGD([Parameter([1.0])]), 0.1, anneal_strategy="x"),
            'anneal_strategy is \'x\'\nFix: give "cos" or "linear".',
        ),
        (
            lambda: SWALR(SGD([Parameter([1.0])]), 0.1, -1),
            "anneal_epochs is -1\nFix: give an int from 0 on.",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message


def test_a_model_that_does_not_fit_changes_nothing():
    averaged = AveragedModel(Linear(2, 1))
    before = copy.deepcopy({k: v.numpy() for k, v in averaged.state_dict().items()})
    with pytest.raises(ArgumentError):
        averaged.update_parameters(Linear(2, 1, bias=False))
    for name, value in averaged.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


@pytest.mark.parametrize("make", [hy.optim.ExponentialMovingAverage, AveragedModel])
def test_called_often_it_is_a_plan_with_the_same_bits(make):
    model = Sequential(Linear(3, 2), BatchNorm1d(2))
    own = [lambda a, v, n: a * 0.999 + v * (1.0 - 0.999), swa_utils.get_swa_avg_fn()]
    average = make(model, use_buffers=True)
    other = AveragedModel(model, avg_fn=own[make is AveragedModel], use_buffers=True)
    for number in range(8):
        draw = np.random.RandomState(number)
        for p in model.parameters():
            p.assign(draw.randn(*p.shape).astype(np.float32))
        model(hy.asarray(draw.randn(4, 3).astype(np.float32)))
        average.update_parameters(model)
        other.update_parameters(model)
        for name, value in average.state_dict().items():
            assert value.numpy().tobytes() == other.state_dict()[name].numpy().tobytes(), name


# Running statistics of averaged weights ----------------------------------------------------------

BATCHES = [hy.asarray(np.random.RandomState(n).randn(4, 3).astype(np.float32)) for n in range(3)]


def normalized():
    hy.random.seed(0)
    net = Sequential(Linear(3, 2), BatchNorm1d(2, momentum=0.3), Dropout(0.0))
    net[1].running_mean.assign([5.0, 5.0])
    net.eval()
    net[2].train()
    return net


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("wrap", [lambda b: b, lambda b: (b, "label"), lambda b: [b]])
def test_update_bn(wrap, hybridized):
    net = normalized()
    if hybridized:
        net.hybridize()
    assert swa_utils.update_bn(map(wrap, BATCHES), net) is None
    rows = [net[0](batch).numpy().astype(np.float64) for batch in BATCHES]
    np.testing.assert_allclose(
        net[1].running_mean.numpy(), np.mean([r.mean(0) for r in rows], 0), rtol=1e-5
    )
    np.testing.assert_allclose(
        net[1].running_var.numpy(), np.mean([r.var(0, ddof=1) for r in rows], 0), rtol=1e-5
    )
    assert net[1].num_batches_tracked.item() == 3 and net[1].momentum == 0.3
    assert [m.training for m in net.modules()] == [False, False, False, True]
    assert all(p.grad is None for p in net.parameters())


def test_update_bn_puts_all_back_after_an_error():
    net = normalized()

    def failing():
        yield BATCHES[0]
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        swa_utils.update_bn(failing(), net)
    assert net[1].momentum == 0.3
    assert [m.training for m in net.modules()] == [False, False, False, True]


def test_update_bn_of_models_without_batch_norms_reads_nothing():
    batches = iter(BATCHES)
    swa_utils.update_bn(batches, Linear(3, 2))
    assert next(batches) is BATCHES[0]


def test_update_bn_of_what_is_no_model():
    with pytest.raises(ArgumentTypeError) as caught:
        swa_utils.update_bn(BATCHES, 3)
    assert str(caught.value) == "a int is not a Module"
    with pytest.raises(ArgumentError) as caught:
        swa_utils.update_bn(BATCHES, normalized(), device="cuda")
    assert str(caught.value) == "no device 'cuda'\nFix: leave device out, or pass \"cpu\"."
