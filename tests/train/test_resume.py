"""Checkpoints: training goes on from them to the same bits; what goes wrong loses none of them."""

from __future__ import annotations

import errno
import os

import pytest

import hybrid as hy
from hybrid.errors import CheckpointError
from hybrid.train import Checkpoint, EarlyStopping, Schedule
from tests.train.parts import Seen, loader, model, slow_loader, state_of

pytest.importorskip("safetensors")

LOADERS = {
    "queued": loader,
    "own generator": lambda: loader(generator=5),
    "through Python": slow_loader,
    "workers": lambda: slow_loader(workers=2),
}


def parts():
    """A model whose optimizer has a schedule, and the callbacks that have states."""
    made = model()
    scheduler = hy.optim.lr_scheduler.StepLR(made.optimizer, 4, gamma=0.5)
    return made, [Schedule(scheduler, per="step"), EarlyStopping(patience=100)]


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("make_loader", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("at", ["epoch", "step"])
def test_a_resumed_training_ends_with_the_same_bits(tmp_path, make_loader, at, sinks):
    made, callbacks = parts()
    data, seen = make_loader(), Seen(scalars=("accuracy", "lr"))
    files = Checkpoint(tmp_path, per=at, every=1 if at == "epoch" else 4)
    history = made.train(3, data, [*callbacks, seen, files], sinks)
    expected = state_of(made, data), callbacks[1].best.item()
    assert len(files.paths) == (3 if at == "epoch" else 4)

    for path in files.paths:
        step = int(os.path.basename(path)[len("checkpoint-") :].partition(".")[0])
        hy.random.seed(99)
        made, callbacks = parts()
        data, again = make_loader(), Seen(scalars=("accuracy", "lr"))
        resumed = made.train(3, data, [*callbacks, again], sinks, resume=path)
        assert (state_of(made, data), callbacks[1].best.item()) == expected
        assert again.steps == seen.steps[step:]
        assert resumed.state_dict() == history.state_dict()


def test_a_resumed_training_goes_on_in_the_data_of_a_sink_size(tmp_path):
    made, data, seen = model(), loader(), Seen()
    files = Checkpoint(tmp_path)
    made.train(5, data, [seen, files], sink_size=4)
    for done, path in enumerate(files.paths, 1):
        other, again, rest = model(seed=3), loader(), Seen()
        other.train(5, again, rest, sink_size=4, resume=path)
        assert rest.steps == seen.steps[4 * done :]
        assert state_of(other, again) == state_of(made, data)


def test_a_run_can_be_kept_in_memory():
    class Keeps(Seen):
        def __init__(self):
            super().__init__(every=5, between=True)
            self.states = []

        def on_step_end(self, run):
            self.states.append(run.state_dict())

    made, data, keeps = model(), loader(), Keeps()
    made.train(2, data, keeps)
    expected = state_of(made, data)
    again = loader()
    made.train(2, again, resume=keeps.states[0])
    assert state_of(made, again) == expected


@pytest.mark.parametrize("monitor", [None, "val_loss", "accuracy"])
def test_the_best_files_stay(tmp_path, monitor):
    made, data, seen = model(), loader(), Seen()
    files = Checkpoint(tmp_path, keep=2, monitor=monitor, prefix="best")
    made.train(6, data, [files, seen], valid_dataset=loader(16))
    left = sorted(os.listdir(tmp_path))
    assert [os.path.basename(path) for path in files.paths] == left and len(left) == 2
    values = [told[1] for told in seen.told if str(told[0]).endswith("ends")]
    numbers = range(6)
    if monitor is None:
        expected, best = [4, 5], None
    else:
        sign = 1 if monitor == "accuracy" else -1
        ranked = sorted(numbers, key=lambda at: (-sign * values[at][monitor], at))
        expected, best = sorted(ranked[:2]), ranked[0]
    assert left == [f"best-{6 * (at + 1):08d}.safetensors" for at in expected]
    if best is None:
        assert files.best is None and files.last == files.paths[-1]
    else:
        assert os.path.basename(files.best) == f"best-{6 * (best + 1):08d}.safetensors"


def test_a_full_disk_leaves_the_last_good_file(tmp_path, monkeypatch):
    made, data, seen = model(), loader(), Seen()
    files = Checkpoint(tmp_path, keep=1)
    calls = []
    real = os.fsync

    def full(number):
        calls.append(number)
        if len(calls) == 3:  # a file and its folder each: the second file
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(number)

    class Counts(Seen):
        def on_epoch_end(self, run):
            self.told.append(run.epoch)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        while True:
            made.train(3, data, [seen, files, Counts()])
    monkeypatch.undo()
    (left,) = os.listdir(tmp_path)
    assert files.paths == [str(tmp_path / left)] and seen.told[-1] == "closed"
    other = model(seed=7)
    other.load(files.last)
    step = int(left[len("checkpoint-") :].partition(".")[0])
    resumed, again = model(seed=8), loader()
    rest = Seen()
    resumed.train(3, again, rest, resume=files.last)
    assert rest.steps[0][1] == step + 1


def test_files_of_models(tmp_path):
    made, data = model(), loader()
    made.train(1, data)
    made.save(tmp_path / "model.safetensors")
    other = model(seed=5)
    other.load(tmp_path / "model.safetensors")
    assert state_of(other, data)[:3] == state_of(made, data)[:3]
    with pytest.raises(CheckpointError) as caught:
        other.train(2, data, resume=tmp_path / "model.safetensors")
    assert str(caught.value) == (
        "this is the state of a Model, not of a training\n"
        "It does not say how far the training was.\n"
        "Fix: pass a file of Checkpoint; model.load() takes this one."
    )


def test_states_that_do_not_fit_change_nothing(tmp_path):
    made, data = model(), loader()
    made.train(1, data, Checkpoint(tmp_path))
    (path,) = [str(tmp_path / name) for name in os.listdir(tmp_path)]
    state = hy.load(path)

    hy.random.seed(1)
    net = hy.nn.Sequential(hy.nn.Linear(4, 3))
    loss, adam = hy.nn.CrossEntropyLoss(), hy.optim.Adam(net.parameters())
    other = hy.train.Model(net, loss, adam, ["accuracy"])
    before = state_of(other, data)
    with pytest.raises(ValueError, match="nothing was loaded"):
        other.train(2, data, resume=path)
    assert state_of(other, data) == before

    third = model(seed=2)
    before = state_of(third, data)
    wrong = loader(12, batch_size=3)
    with pytest.raises(ValueError, match="the state is of a loader whose batch_size is 8"):
        third.train(2, wrong, resume=path)
    assert state_of(third, data) == before

    fourth = model(["f1"], seed=2)
    with pytest.raises(CheckpointError, match="the training counted loss, accuracy; the model"):
        fourth.train(2, data, resume=path)
    with pytest.raises(CheckpointError, match="this is not the state of a Model"):
        fourth.load_state_dict({"network": state["network"]})
