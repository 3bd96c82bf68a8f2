"""Gradients of several small batches added up for one step: that of one large batch."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.nn import CrossEntropyLoss, Linear, ReLU, Sequential
from hybrid.optim import SGD, Adam, GradScaler, RMSprop, clip_grad_norm_

DRAW = np.random.RandomState(0)
PARTS = 4
XS = hy.asarray(DRAW.randn(6, PARTS, 8, 4).astype("float32"))  # steps, parts of a batch
YS = hy.asarray(DRAW.randint(0, 3, (6, PARTS, 8)))
KINDS = {
    "sgd": lambda params: SGD(params, lr=0.1, momentum=0.9),
    "adam": lambda params: Adam(params, lr=0.01),
    "rmsprop": lambda params: RMSprop(params, lr=0.01, centered=True, momentum=0.5),
}


def network():
    hy.random.seed(0)
    return Sequential(Linear(4, 6), ReLU(), Linear(6, 3))


def small_batches(net, optimizer):
    loss_of = CrossEntropyLoss()

    def step(xs, ys):
        optimizer.zero_grad()
        total = hy.zeros(())
        for x, y in zip(xs, ys, strict=True):
            loss = loss_of(net(x), y) / PARTS
            loss.backward()
            total += loss.detach()
        clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return total

    return step


def every_so_often(net, optimizer):
    """One loop over all parts of all batches, as training loops are often written."""
    loss_of = CrossEntropyLoss()

    def train(xs, ys):
        optimizer.zero_grad()
        total = hy.zeros(())
        for i in range(xs.shape[0]):
            loss = loss_of(net(xs[i]), ys[i]) / PARTS
            loss.backward()
            total += loss.detach()
            if (i + 1) % PARTS == 0:
                clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        return total

    return train


def whole_batches(net, optimizer):
    loss_of = CrossEntropyLoss()

    def step(xs, ys):
        optimizer.zero_grad()
        loss = loss_of(net(hy.reshape(xs, (-1, 4))), hy.reshape(ys, (-1,)))
        loss.backward()
        clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def trained(make, kind, hybridizes, each):
    """The losses and parameters of the calls that ``each`` gives, and the plans made."""
    net = network()
    optimizer = KINDS[kind](net.parameters())
    run = make(net, optimizer)
    run = hy.hybridize(run) if hybridizes else run
    losses = [run(xs, ys).item() for xs, ys in each]
    plans = len(run.plans) if hybridizes else 0
    return losses, [p.numpy() for p in net.parameters()], plans


STEPS = [(XS[i], YS[i]) for i in range(6)]
FLAT = [(hy.reshape(XS, (-1, 8, 4)), hy.reshape(YS, (-1, 8)))]


@pytest.mark.parametrize("kind", KINDS)
def test_small_batches_are_one_large_batch(kind):
    losses, params, _ = trained(small_batches, kind, False, STEPS)
    wanted_losses, wanted, _ = trained(whole_batches, kind, False, STEPS)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    for p, w in zip(params, wanted, strict=True):
        np.testing.assert_allclose(p, w, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("make", "calls"), [(small_batches, STEPS), (every_so_often, FLAT)])
def test_captured_they_are_one_plan_with_the_same_bits(make, calls, kind):
    losses, params, _ = trained(make, kind, False, calls * 2)
    found, captured, plans = trained(make, kind, True, calls * 2)
    assert losses == found and plans == 1
    for p, q in zip(params, captured, strict=True):
        assert p.tobytes() == q.tobytes()


def test_with_scaled_losses():
    """One unscaling for all parts of a batch."""
    found = []
    for hybridizes in (False, True):
        net = network()
        optimizer, scaler = Adam(net.parameters(), lr=0.01), GradScaler(growth_interval=2)
        loss_of = CrossEntropyLoss()

        def step(xs, ys, net=net, optimizer=optimizer, scaler=scaler, loss_of=loss_of):
            optimizer.zero_grad()
            for x, y in zip(xs, ys, strict=True):
                scaler.scale(loss_of(net(x), y) / PARTS).backward()
            scaler.step(optimizer)
            scaler.update()

        run = hy.hybridize(step) if hybridizes else step
        for xs, ys in STEPS:
            run(xs, ys)
        found.append([p.numpy().tobytes() for p in net.parameters()] + [scaler.get_scale()])
        if hybridizes:
            assert len(run.plans) == 1
    assert found[0] == found[1] and found[0][-1] == 2.0**16 * 8
