"""Model: sunk and stepwise training have the same bits, callbacks are told the same."""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, TensorDataset
from hybrid.train import Callback, Model
from tests.train.parts import BATCH, SAMPLES, Seen, loader, model, samples, slow_loader, state_of

LOADERS = {
    "queued": loader,
    "whole batches": lambda: loader(drop_last=True),
    "own generator": lambda: loader(generator=5),
    "in order": lambda: loader(shuffle=False),
    "through Python": slow_loader,
    "workers": lambda: slow_loader(workers=2),
    "one batch": lambda: loader(batch_size=SAMPLES),
    "one small batch": lambda: loader(batch_size=100),
}


def trained(make_loader, epochs=3, **options):
    """What training leaves behind and tells, with and without sinking."""
    found = []
    for sinks in (True, False):
        made, data = model(["accuracy", hy.train.F1(3)]), make_loader()
        seen, rare = Seen(), Seen(every=4, between=True)
        history = made.train(epochs, data, [seen, rare], dataset_sink_mode=sinks, **options)
        found.append((state_of(made, data), seen.told, rare.told, history.state_dict()))
    return found


@pytest.mark.parametrize("make_loader", LOADERS.values(), ids=LOADERS)
def test_sinking_never_changes_a_bit(make_loader):
    sunk, stepwise = trained(make_loader)
    for one, other in zip(sunk, stepwise, strict=True):
        assert one == other


PASSES = 4


@functools.cache
def whole_passes(make_loader):
    """How many batches a pass has, and what is told of each step of some."""
    whole, data, seen = model(), make_loader(), Seen()
    whole.train(PASSES, data, seen)
    return len(data), [(step, values) for _, step, values in seen.steps]


@pytest.mark.parametrize("make_loader", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("size", [1, 4, 6, 13])
def test_a_sink_size_goes_on_in_the_data_where_it_left_off(make_loader, size):
    """Epochs of ``size`` steps are those of whole passes, cut elsewhere."""
    per_pass, expected = whole_passes(make_loader)
    parts, data = model(), make_loader()
    seen = Seen()
    epochs = PASSES * per_pass // size
    history = parts.train(epochs, data, seen, sink_size=size)
    assert len(history) == epochs and len(seen.steps) == epochs * size
    assert [(step, values) for _, step, values in seen.steps] == expected[: epochs * size]
    assert [epoch for epoch, _, _ in seen.steps] == [1 + at // size for at in range(epochs * size)]


def test_the_bits_are_those_of_a_loop_written_by_hand():
    made, data = model(), loader()
    made.train(2, data)

    hy.random.seed(0)
    other, data = model(), loader()
    net, optimizer = other.network, other.optimizer
    for _ in range(2):
        for x, y in data:
            loss = hy.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for one, two in zip(made.network.parameters(), net.parameters(), strict=True):
        assert one.tolist() == two.tolist()


def test_an_epoch_is_one_plan_and_one_call():
    made, data = model(), loader(drop_last=True)
    made.train(3, data)
    (_, loop), *others = made._loops
    assert not others
    (plan,) = loop._sunk.plans
    assert plan.calls == 3 and not loop._one.plans


def test_training_again_makes_no_new_plan():
    made, data = model(), loader()
    for _ in range(2):
        made.train(2, data, Seen())
        made.train(2, data, Seen())
    ((_, loop),) = made._loops
    assert len(loop._sunk.plans) == 1


def test_the_history_holds_means_over_samples():
    made, data = model(), loader()
    seen = Seen()
    history = made.train(2, data, seen)
    assert history.epochs == [1, 2] and list(history) == ["loss", "accuracy"]
    sizes = [BATCH] * 5 + [4]
    for epoch in (1, 2):
        losses = [values["loss"] for e, _, values in seen.steps if e == epoch]
        expected = np.average(losses, weights=sizes)
        assert history["loss"][epoch - 1] == pytest.approx(expected, rel=1e-12)
    assert repr(history).splitlines()[0].split() == ["epoch", "loss", "accuracy"]
    assert len(repr(history).splitlines()) == 3 and "loss" in history and len(history) == 2


def test_callbacks_are_told_in_order():
    made, data = model(), loader(16)
    seen = Seen()
    made.train(2, data, seen, valid_dataset=loader(8), valid_frequency=2)
    shapes = [told if isinstance(told, str) else told[:-1] for told in seen.told]
    assert shapes == [
        "train begins",
        "epoch 1 begins",
        (1, 1),
        (1, 2),
        ("epoch 1 ends",),
        "epoch 2 begins",
        (2, 3),
        (2, 4),
        ("epoch 2 ends",),
        "train ends",
        "closed",
    ]
    ends = [told[1] for told in seen.told if told[0] in ("epoch 1 ends", "epoch 2 ends")]
    assert [list(values) for values in ends] == [
        ["loss", "accuracy"],
        ["loss", "accuracy", "val_loss", "val_accuracy"],
    ]


def test_steps_tell_the_scalars_asked_for():
    made, data = model(), loader()
    seen = Seen(scalars=("accuracy", "lr"))
    history = made.train(1, data, seen)
    values = [values for _, _, values in seen.steps]
    assert all(list(v) == ["loss", "accuracy", "lr"] and v["lr"] == 0.02 for v in values)
    assert values[-1]["accuracy"] == history["accuracy"][0]


@pytest.mark.parametrize("sinks", [True, False])
def test_more_steps_than_the_ring_has_rows(sinks):
    made, data = model(), loader(80, batch_size=2)
    seen = Seen()
    made.train(60, data, seen, sinks, sink_size=-1)
    assert [step for _, step, _ in seen.steps] == list(range(1, 2401))


class Halves(Callback):
    """A schedule in Python: it writes what the next step reads."""

    between_steps = True

    def __init__(self, every):
        self.every = every

    def on_step_end(self, run):
        run.optimizer.param_groups[0].lr *= 0.5


@pytest.mark.parametrize("size", [-1, 7])
def test_the_loop_returns_for_callbacks_that_change_what_steps_read(size):
    outcomes = []
    for sinks in (True, False):
        made, data = model(), loader()
        seen = Seen(scalars=("lr",))
        if sinks:
            made.train(2, data, [Halves(3), seen], sink_size=size)
        else:  # epochs of a sink size, step by step
            made.train(2 if size < 0 else 3, data, [Halves(3), seen], dataset_sink_mode=False)
        outcomes.append(
            [(step, values) for _, step, values in seen.steps][: 12 if size < 0 else 14]
        )
    assert outcomes[0] == outcomes[1]
    assert [values["lr"] for _, values in outcomes[0][:7]] == [0.02] * 3 + [0.01] * 3 + [0.005]


class Behind(Callback):
    """Asks for what steps that go on have changed already."""

    def __init__(self, asked):
        self.asked = asked

    def on_step_end(self, run):
        found = getattr(run, self.asked)
        if self.asked == "stop":
            found()


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("asked", ["model", "network", "optimizer", "stop"])
def test_callbacks_behind_the_steps_cannot_ask_for_the_model(asked, sinks):
    made = model()
    with pytest.raises(hy.errors.CallbackError) as caught:
        made.train(1, loader(), Behind(asked), sinks)
    called = "stop()" if asked == "stop" else asked
    assert str(caught.value) == (
        f"on_step_end asked for {called} of the run while steps go on\n"
        "It is told of step 1; weights are already those of a later one.\n"
        "Fix: say between_steps = True in the class of the callback (and every=n), and the loop "
        "returns to Python just there."
    )


def test_a_callback_stops_at_its_step():
    class Stops(Callback):
        between_steps = True

        def on_step_end(self, run):
            if run.step == 9:
                run.stop()
                assert run.stopped

    outcomes = []
    for sinks in (True, False):
        made, data = model(), loader()
        seen = Seen()
        history = made.train(5, data, [seen, Stops()], sinks)
        assert len(history) == 2 and seen.steps[-1][1] == 9 and seen.told[-1] == "closed"
        outcomes.append((state_of(made, data), seen.told))
    assert outcomes[0] == outcomes[1]


def test_the_network_is_left_in_its_mode():
    made, data = model(), loader()
    made.network[3].eval()
    made.train(1, data, valid_dataset=data)
    assert [m.training for m in made.network.children()] == [True, True, True, False, True]
    made.eval(data)
    made.predict(samples()[0])
    assert made.network.training and not made.network[3].training


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("make_loader", LOADERS.values(), ids=LOADERS)
def test_evaluation_counts_every_sample(make_loader, sinks):
    made = model()
    data = make_loader()
    made.train(1, data)
    state = {name: value.tolist() for name, value in made.network.state_dict().items()}
    position = data.state_dict()
    hy.random.seed(4)
    found = made.eval(data, dataset_sink_mode=sinks)
    assert {n: v.tolist() for n, v in made.network.state_dict().items()} == state

    hy.random.seed(4)
    data.load_state_dict(position)
    made.network.eval()
    right = total = 0
    loss = 0.0
    with hy.no_grad():
        for x, y in data:
            output = made.network(x)
            right += int((hy.argmax(output, axis=1) == y).sum())
            loss += hy.nn.functional.cross_entropy(output, y).item() * len(y)
            total += len(y)
    assert found["accuracy"] == right / total
    assert found["loss"] == pytest.approx(loss / total, rel=1e-12)


def test_predictions_of_tensors_and_of_loaders():
    made, data = model(), loader(shuffle=False)
    x, _ = samples()
    made.network.eval()
    with hy.no_grad():
        expected = hy.concat([made.network(x[at : at + BATCH]) for at in range(0, SAMPLES, BATCH)])
    found = made.predict(data)
    assert found.tolist() == expected.tolist() and not found.requires_grad
    assert made.predict(x[:BATCH]).tolist() == expected[:BATCH].tolist()
    assert made.predict(x[:BATCH].numpy()).tolist() == expected[:BATCH].tolist()
    with pytest.raises(ValueError, match="predict got a loader that gives no batches"):
        made.predict(loader(0))


def test_the_network_may_compute_the_loss():
    class Distance(hy.nn.Module):
        def __init__(self):
            self.scale = hy.nn.Parameter(hy.ones(()))

        def forward(self, x, y, z):
            return ((self.scale * x - y) ** 2 + z * 0).mean()

    x = hy.random.Generator(0).normal(size=(20,))
    net = Distance()
    made = Model(net, optimizer=hy.optim.SGD(net.parameters(), lr=0.2))
    data = DataLoader(TensorDataset(x, 3 * x, x), 5)
    history = made.train(30, data)
    assert history["loss"][-1] < 1e-3 < history["loss"][0]
    assert made.eval(data)["loss"] < 1e-3 and abs(net.scale.item() - 3) < 0.1


def test_several_inputs_and_a_function_as_loss():
    class Two(hy.nn.Module):
        def __init__(self):
            self.linear = hy.nn.Linear(2, 1)

        def forward(self, a, b):
            return self.linear(hy.stack([a, b], axis=1))[:, 0]

    a, b = (hy.random.Generator(s).normal(size=(30,)) for s in (0, 1))
    hy.random.seed(0)
    net = Two()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.1)
    metrics = {"error": "mae", "loss of l1": hy.nn.functional.l1_loss}
    made = Model(net, lambda output, y: ((output - y) ** 2).mean(), optimizer, metrics)
    data = DataLoader(TensorDataset(a, b, a - 2 * b), 10)
    history = made.train(100, data)
    assert list(history) == ["loss", "error", "loss of l1"]
    assert history["loss"][-1] < 1e-2 < history["loss"][0]
    assert history["error"] == history["loss of l1"]


def test_a_list_of_batches_is_a_dataset():
    x, y = samples(40)
    batches = [(x[at : at + 8], y[at : at + 8].numpy()) for at in range(0, 40, 8)]
    one, other = model(), model()
    history = one.train(3, batches)
    hy.random.seed(0)
    other = model()
    assert other.train(3, loader(40, shuffle=False))["loss"] == history["loss"]
    assert one.eval(batches) == other.eval(loader(40, shuffle=False))
    assert len(one._loops) == 1


def test_gradients_are_clipped():
    outcomes = []
    for sinks in (True, False):
        made, data = model(clip_norm=0.1), loader()
        made.optimizer = hy.optim.SGD(made.network.parameters(), lr=1.0)
        before = [p.numpy().copy() for p in made.network.parameters()]
        made.train(1, loader(8), dataset_sink_mode=sinks)
        after = [p.numpy() for p in made.network.parameters()]
        moved = np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(before, after, strict=True)))
        assert moved == pytest.approx(0.1, rel=1e-3)
        outcomes.append(state_of(made, data))
    assert outcomes[0] == outcomes[1]


def test_what_crosses_the_border_to_c():
    """A sunk epoch is one call, which asks Python for the order and the end, and for no batch."""
    counts = []
    for samples_of_it in (40, 4000):
        made, data = model(), loader(samples_of_it)
        made.train(1, data)
        (plan,) = made._loops[0][1]._sunk.plans
        first = plan.crossings
        made.train(3, data)
        ((_, loop),) = made._loops
        (plan,) = loop._sunk.plans
        now = plan.crossings
        assert first.calls == 1 and now.calls == 4 and now.callbacks == 4 * first.callbacks
        counts.append((first.callbacks, first.copied_nbytes))
    assert counts[0] == counts[1] and counts[0][0] == 2 and counts[0][1] < 100

    made, data = model(), slow_loader(40)
    made.train(1, data)
    (plan,) = made._loops[0][1]._sunk.plans
    assert plan.crossings.callbacks > 5 and plan.crossings.copied_nbytes > 5 * 8 * 4 * 4


def test_callbacks_may_evaluate_and_not_train():
    class Evaluates(Callback):
        between_steps, every = True, 3

        def __init__(self, data):
            self.data, self.found = data, []

        def on_step_end(self, run):
            self.found.append(run.model.eval(self.data)["loss"])
            with pytest.raises(hy.errors.CallbackError) as caught:
                run.model.train(1, self.data)
            assert str(caught.value) == (
                "the model is being trained already\n"
                "Steps of both trainings would write the same weights.\n"
                "Fix: train it again when train() has returned; callbacks may call eval()."
            )

    made, evaluates = model(), Evaluates(loader(16, shuffle=False))
    history = made.train(2, loader(), evaluates)
    assert len(evaluates.found) == 4
    assert history["loss"] == model().train(2, loader())["loss"]


def test_models_can_be_copied_and_pickled():
    made, data = model(), loader(shuffle=False)
    made.train(1, data)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other.eval(data) == made.eval(data)
        assert other.network is not made.network
        other.train(1, loader())


def test_networks_may_be_hybridized_themselves():
    made = model()
    made.network.hybridize()
    assert made.train(2, loader())["loss"] == model().train(2, loader())["loss"]


def test_another_optimizer_is_used_from_then_on():
    made, data = model(), loader()
    made.train(1, data)
    before = [p.tolist() for p in made.network.parameters()]
    made.optimizer = hy.optim.SGD(made.network.parameters(), lr=0.0)
    made.train(1, data)
    assert [p.tolist() for p in made.network.parameters()] == before
    with pytest.raises(AttributeError):
        made.loss_fn = None


def test_parts_of_tensors_come_from_the_queue():
    """Those that random_split deals, say: no batch goes through Python."""
    x, y = samples()
    halves = hy.data.random_split(TensorDataset(x, y), [0.5, 0.5], generator=3)
    outcomes = []
    for sinks in (True, False):
        made, data = model(), DataLoader(halves[0], 4, shuffle=True)
        history = made.train(
            3, data, dataset_sink_mode=sinks, valid_dataset=DataLoader(halves[1], 8)
        )
        outcomes.append((history.state_dict(), state_of(made, data)))
        if sinks:
            (plan,) = made._loops[0][1]._sunk.plans
            assert plan.crossings.callbacks == 2 * plan.crossings.calls
    assert outcomes[0] == outcomes[1]


def test_a_sink_of_several_passes_is_one_call():
    made, data = model(), loader(40)
    history = made.train(3, data, sink_size=23)
    ((_, loop),) = made._loops
    (plan,) = loop._sunk.plans
    assert plan.calls == 3 == len(history) and not loop._one.plans
    # Of Python it asks the beginning and the end of a call, and where another pass begins.
    assert plan.crossings.callbacks < 3 * 23
