"""Whole training steps - zero_grad, forward, backward, step - hybridized: the same bits."""

import copy

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, CaptureError
from hybrid.nn import CrossEntropyLoss, Dropout, Linear, Parameter, ReLU, Sequential
from hybrid.optim import SGD, Adam, AdamW

DRAW = np.random.RandomState(0)
BATCHES = [(DRAW.randn(8, 4).astype(np.float32), DRAW.randint(0, 3, 8)) for _ in range(4)]

KINDS = {
    "sgd": lambda params: SGD(params, lr=0.1, weight_decay=0.01),
    "momentum": lambda params: SGD(params, lr=0.1, momentum=0.9),
    "nesterov": lambda params: SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "dampened": lambda params: SGD(params, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": lambda params: Adam(params, lr=0.01),
    "adamw": lambda params: AdamW(params, lr=0.01),
}


class Trainer:
    """A network and its optimizer from a fixed start."""

    def __init__(self, kind, hybridized, set_to_none=True):
        hy.random.seed(0)
        self.net = Sequential(Linear(4, 5), ReLU(), Dropout(0.3), Linear(5, 3))
        self.optimizer = KINDS[kind](self.net.parameters())
        loss_of = CrossEntropyLoss()

        def step(x, y):
            self.optimizer.zero_grad(set_to_none)
            loss = loss_of(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            return loss

        self.step = hy.hybridize(step) if hybridized else step

    def bits(self):
        """Losses of a pass over the batches, and everything that training changes."""
        hy.random.seed(1)
        losses = [self.step(hy.asarray(x), hy.asarray(y)).item() for x, y in BATCHES]
        moments = [m for kept in self.optimizer.state.values() for m in kept.values()]
        cells = [c for g in self.optimizer.param_groups for c in g.cells]
        grads = [p.grad for p in self.net.parameters()]
        kept = [*self.net.parameters(), *grads, *moments, *cells]
        return losses, [t.numpy().tobytes() for t in kept]


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_have_the_same_bits(kind, set_to_none):
    eager = Trainer(kind, hybridized=False, set_to_none=set_to_none)
    hybridized = Trainer(kind, hybridized=True, set_to_none=set_to_none)
    for _ in range(2):
        assert eager.bits() == hybridized.bits()
    assert len(hybridized.step.plans) == (1 if set_to_none else 2)  # no gradients at first


def test_a_new_learning_rate_needs_no_new_plan():
    eager, hybridized = Trainer("adam", False), Trainer("adam", True)
    for lr in (0.1, 0.05):
        eager.optimizer.lr = hybridized.optimizer.lr = lr
        assert eager.bits() == hybridized.bits()
    assert len(hybridized.step.plans) == 1


def test_a_learning_rate_can_be_set_inside():
    eager, hybridized = Trainer("sgd", False), Trainer("sgd", True)
    for trainer in (eager, hybridized):
        rate = hy.asarray(1.0)

        def decayed(x, y, trainer=trainer, rate=rate):
            rate.assign(rate * 0.5)
            trainer.optimizer.lr = rate
            return trainer.inner(x, y)

        trainer.inner = trainer.step
        trainer.step = hy.hybridize(decayed) if trainer is hybridized else decayed
    assert eager.bits() == hybridized.bits()
    assert hybridized.optimizer.lr == eager.optimizer.lr == 0.5**4


def test_a_new_momentum_needs_no_new_plan():
    for kind, name, values in [
        ("momentum", "momentum", (0.5, 0.25)),
        ("adam", "betas", ((0.5, 0.999), (0.25, 0.999))),
    ]:
        eager, hybridized = Trainer(kind, False), Trainer(kind, True)
        before = hybridized.bits(), eager.bits()
        for value in values:
            for trainer in (eager, hybridized):
                trainer.optimizer.param_groups[0][name] = value
                assert trainer.optimizer.param_groups[0][name] == value
            assert eager.bits() == hybridized.bits() != before[0]
        assert len(hybridized.step.plans) == 1


def test_a_momentum_can_be_set_inside():
    found = []
    for hybridizes in (False, True):
        p = Parameter([1.0, 2.0])
        optimizer = SGD([p], lr=0.1, momentum=0.5)

        def step(x, optimizer=optimizer, p=p):
            p.grad = x
            group = optimizer.param_groups[0]
            group["momentum"] = group["momentum"] * 0.5
            optimizer.step()
            return group.momentum

        run = hy.hybridize(step) if hybridizes else step
        momenta = [float(run(hy.asarray([1.0, k]))) for k in range(3)]
        found.append((momenta, p.numpy().tobytes(), optimizer.param_groups[0].momentum))
    assert found[0] == found[1] and found[0][0] == [0.25, 0.125, 0.0625]


def test_other_settings_and_train_mode_need_one():
    eager, hybridized = Trainer("adam", False), Trainer("adam", True)
    for trainer in (eager, hybridized):
        trainer.bits()
        trainer.optimizer.param_groups[0].weight_decay = 0.1
    assert eager.bits() == hybridized.bits()
    assert len(hybridized.step.plans) == 2
    eager.net.eval(), hybridized.net.eval()
    assert eager.bits() == hybridized.bits()
    assert len(hybridized.step.plans) == 3


def test_loading_states_needs_no_new_plan():
    hybridized, other = Trainer("momentum", True), Trainer("momentum", False)
    hybridized.bits(), other.bits(), other.bits()
    hybridized.net.load_state_dict(other.net.state_dict())
    hybridized.optimizer.load_state_dict(other.optimizer.state_dict())
    assert hybridized.bits() == other.bits()
    assert len(hybridized.step.plans) == 1


def test_a_frozen_layer_needs_one():
    eager, hybridized = Trainer("sgd", False), Trainer("sgd", True)
    for trainer in (eager, hybridized):
        trainer.bits()
        trainer.net[0].requires_grad_(False)
        trainer.frozen = trainer.net[0].weight.numpy().copy()
        hy.random.seed(0)
        for x, y in BATCHES:
            trainer.step(hy.asarray(x), hy.asarray(y))
        assert trainer.net[0].weight.numpy().tobytes() == trainer.frozen.tobytes()
    for p, q in zip(eager.net.parameters(), hybridized.net.parameters(), strict=True):
        assert p.numpy().tobytes() == q.numpy().tobytes()


def test_values_held_elsewhere_do_not_change_with_training():
    trainer = Trainer("adam", True)
    trainer.bits()
    held = copy.deepcopy(trainer.net)
    state = trainer.net.state_dict()
    moments = trainer.optimizer.state_dict()["state"][0]["exp_avg"]
    before = [t.numpy().tobytes() for t in [*state.values(), moments]]
    trainer.bits()
    assert [t.numpy().tobytes() for t in [*state.values(), moments]] == before
    assert [p.numpy().tobytes() for p in held.parameters()] == before[:-1]
    assert [p.numpy().tobytes() for p in trainer.net.parameters()] != before[:-1]


# The learning rate, set by the step itself ------------------------------------------------------


def on_plateau(optimizer, loss):
    if loss > 0.5:
        optimizer.lr = optimizer.lr * 0.5
    return optimizer.lr


def from_the_loss(optimizer, loss):
    optimizer.lr = loss.item() * 0.1
    return optimizer.lr


def from_a_tensor(optimizer, loss):
    optimizer.lr = loss * 0.1
    return optimizer.lr


def of_a_group(optimizer, loss):
    group = optimizer.param_groups[0]
    group["lr"] = max(group.lr * 0.75, 0.05)
    return f"{group.lr}"


def in_a_loop(optimizer, loss):
    while optimizer.lr > 0.01:
        optimizer.lr *= 0.5
    return optimizer.lr


def to_an_int(optimizer, loss):
    optimizer.lr = 1 if loss > 1 else 0
    return optimizer.lr


SCHEDULES = [on_plateau, from_the_loss, from_a_tensor, of_a_group, in_a_loop, to_an_int]


@pytest.mark.parametrize("kind", [hy.optim.SGD, hy.optim.Adam])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_a_step_sets_the_learning_rate(schedule, kind) -> None:
    runs = []
    for hybridizes in (False, True):
        hy.random.seed(0)
        net = Linear(3, 1)
        optimizer = kind(net.parameters(), lr=0.3)

        def step(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = hy.sum(net(x) ** 2)
            loss.backward()
            optimizer.step()
            return loss.detach(), schedule(optimizer, loss.detach())

        run = hy.hybridize(step) if hybridizes else step
        found = []
        for k in range(6):
            loss, lr = run(hy.asarray([1.0, 2.0, 0.5 * k]))
            text = lr if isinstance(lr, str) else float(lr).hex()
            found.append((loss.item().hex(), text, optimizer.lr.hex()))
        runs.append(found)
        if hybridizes:
            assert len(run.plans) <= 2
    assert runs[0] == runs[1]


def test_a_learning_rate_of_a_run_is_checked() -> None:
    optimizer = hy.optim.SGD([Parameter([1.0])], lr=0.5)

    @hy.hybridize
    def put(x):
        optimizer.lr = x.item()

    put(hy.asarray(0.25))
    assert optimizer.lr == 0.25
    for value in (-1.0, float("nan")):
        with pytest.raises(ArgumentError) as caught:
            put(hy.asarray(value))
        assert caught.value.what == f"lr is {value}"
        assert caught.value.fix == "give a number that is at least 0"
    assert optimizer.lr == 0.25


def test_other_settings_are_not_set_from_a_run() -> None:
    optimizer = hy.optim.Adam([Parameter([1.0])])

    @hy.hybridize
    def put(x):
        optimizer.param_groups[0].betas = (0.9, x.item())

    line = put.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(CaptureError) as caught:
        put(hy.asarray(0.25))
    assert str(caught.value) == (
        f"betas was given a number that only a run knows ({__file__}:{line})\n"
        f"    {line} | optimizer.param_groups[0].betas = (0.9, x.item())\n"
        "It is a plain setting: a captured step is made for its value.\n"
        "Fix: set betas outside the hybridized function; lr, the momentum and the first of "
        "the betas can be set inside."
    )
