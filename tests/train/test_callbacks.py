"""Callbacks that come with training: what they show, write and stop."""

from __future__ import annotations

import csv
import io
import math
import os
import pty
import re
import sys

import pytest

import hybrid as hy
from hybrid.train import (
    Callback,
    CSVLogger,
    EarlyStopping,
    LossMonitor,
    Progress,
    Schedule,
    TimeMonitor,
)
from tests.train.parts import Seen, loader, model, state_of


@pytest.mark.parametrize(
    ("sinks", "every", "size", "steps"),
    [
        (False, 4, -1, [4, 8, 12]),
        (True, 1, -1, [6, 12]),
        (True, 6, -1, [6, 12]),
        (True, 4, -1, [6, 12]),
        (True, 7, -1, [12]),
        (True, 13, -1, []),
        (True, 1, 4, [4, 8]),
        (True, 5, 4, [8]),
    ],
)
def test_loss_monitor(capsys, sinks, every, size, steps):
    """Where data is sunk it reports once a sink."""
    made, seen = model(), Seen()
    monitor = LossMonitor(every=every, scalars=("lr",))
    made.train(2, loader(), [monitor, seen, Seen(scalars=("accuracy",))], sinks, size)
    values = {step: v["loss"] for _, step, v in seen.steps}
    length = 6 if size < 0 else size
    assert capsys.readouterr().out.splitlines() == [
        f"epoch {(step + length - 1) // length}/2, step {step}: loss {values[step]:.4g}, lr 0.02"
        for step in steps
    ]


def test_loss_monitor_alone(capsys):
    """Without others, that keep the scalars of each step."""
    losses = []

    class Losses(LossMonitor):
        def on_step_end(self, run):
            losses.append((run.epoch, run.step, run.values["loss"]))
            run.model  # noqa: B018  it is told between steps

    model().train(2, loader(), Losses())
    seen = Seen()
    model().train(2, loader(), seen)
    assert losses == [(e, step, v["loss"]) for e, step, v in seen.steps if step in (6, 12)]


@pytest.mark.parametrize("sinks", [True, False])
def test_time_monitor(sinks):
    file = io.StringIO()
    monitor = TimeMonitor(file=file)
    model().train(2, loader(), monitor, sinks, valid_dataset=loader())
    lines = file.getvalue().splitlines()
    duration = r"\d+(\.\d+)?(e[+-]\d+)? (s|ms|us)"
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(rf"epoch {number}/2: {duration}, {duration} a step", line), line
    assert len(lines) == len(monitor.seconds) == 2 and min(monitor.seconds) > 0


@pytest.mark.parametrize("sinks", [True, False])
def test_progress(monkeypatch, sinks):
    here, there = pty.openpty()
    with os.fdopen(there, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        model().train(2, loader(), Progress(), sinks)
        monkeypatch.undo()
    drawn = os.read(here, 1 << 20).decode()
    os.close(here)
    assert "epoch 1/2" in drawn and "epoch 2/2" in drawn and "6/6" in drawn and "loss" in drawn


def test_progress_without_a_terminal(capsys):
    model().train(1, loader(), Progress())
    assert capsys.readouterr() == ("", "")


def test_csv_of_epochs(tmp_path):
    path = tmp_path / "log.csv"
    made = model()
    history = made.train(3, loader(), CSVLogger(path), valid_dataset=loader(), valid_frequency=2)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy"]
    assert [row["step"] for row in rows] == ["6", "12", "18"]
    assert [float(row["loss"]) for row in rows] == history["loss"]
    assert [row["val_loss"] for row in rows] == ["", repr(history["val_loss"][1]), ""]


def test_csv_of_steps_and_of_a_resumed_training(tmp_path):
    path = tmp_path / "log.csv"
    made, seen, data = model(), Seen(), loader()

    class Keeps(Callback):
        between_steps, every = True, 9
        state = None

        def on_step_end(self, run):
            self.state = run.state_dict()
            run.stop()

    keeps = Keeps()
    made.train(2, data, [CSVLogger(path, per="step", every=2, scalars=("lr",)), keeps, seen])
    made.train(
        2, loader(), [CSVLogger(path, per="step", every=2, scalars=("lr",)), seen],
        resume=keeps.state,
    )  # fmt: skip
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(int(r["epoch"]), int(r["step"]), float(r["loss"])) for r in rows] == [
        (epoch, step, v["loss"]) for epoch, step, v in seen.steps if step % 2 == 0
    ]
    with pytest.raises(ValueError) as caught:
        made.train(2, loader(), CSVLogger(path), resume=keeps.state)
    assert str(caught.value) == (
        f"{path} has the columns epoch, step, loss, lr; this training has epoch, step, loss, "
        "accuracy\nFix: give CSVLogger another path, or make it and the Model as they were."
    )


def test_a_missing_tensorboard_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError) as caught:
        hy.train.TensorBoard("logs")
    assert str(caught.value) == (
        "hybrid.train.TensorBoard needs the package tensorboard, which is not installed\n"
        'Fix: pip install "hybrid[tensorboard]".'
    )


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    made, seen = model(), Seen()
    history = made.train(
        2, loader(), [hy.train.TensorBoard(tmp_path, every=5, scalars=("lr",)), seen],
        valid_dataset=loader(),
    )  # fmt: skip
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()["tensors"]
    assert sorted(tags) == sorted(["step/loss", "step/lr", *[f"epoch/{name}" for name in history]])
    read = [(e.step, e.tensor_proto.float_val[0]) for e in events.Tensors("step/loss")]
    expected = [(step, v["loss"]) for _, step, v in seen.steps if step % 5 == 0]
    assert read == [(step, pytest.approx(loss, rel=1e-6)) for step, loss in expected]
    epochs = [e.tensor_proto.float_val[0] for e in events.Tensors("epoch/val_accuracy")]
    assert epochs == pytest.approx(history["val_accuracy"], rel=1e-6)


# Stopping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("patience", [0, 2])
def test_training_stops_when_nothing_gets_better(patience, sinks):
    """Recounted by hand from the losses of a training that does not stop."""
    made, data = model(), loader()
    whole = made.train(40, data, dataset_sink_mode=sinks)
    best, waited, expected = math.inf, 0, None
    for epoch, loss in enumerate(whole["loss"], 1):
        best, waited = (loss, 0) if loss < best - 0.01 else (best, waited + 1)
        if waited > patience:
            expected = epoch
            break
    assert expected is not None
    made, data = model(), loader()
    stopping = EarlyStopping(patience=patience, min_delta=0.01)
    history = made.train(40, data, stopping, sinks)
    assert history["loss"] == whole["loss"][:expected] and stopping.stopped_at == expected


@pytest.mark.parametrize("size", [-1, 7])
def test_steps_stop_themselves_in_the_plan(size):
    made, data, seen = model(), loader(), Seen()
    made.train(6, data, seen, sink_size=size)
    losses = [values["loss"] for _, _, values in seen.steps]
    best, waited, expected = math.inf, 0, None
    for step, loss in enumerate(losses, 1):
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited > 2:
            expected = step
            break
    assert expected is not None and expected % 6 and expected % 7
    outcomes = []
    for sinks in (True, False):
        made, data, seen = model(), loader(), Seen()
        stopping = EarlyStopping(patience=2, per="step")
        made.train(6, data, [stopping, seen], sinks, sink_size=size if sinks else -1)
        assert [v["loss"] for _, _, v in seen.steps] == losses[:expected]
        assert stopping.stopped_at == expected
        ((_, loop),) = made._loops
        assert len(loop._sunk.plans) == sinks
        outcomes.append(state_of(made, data))
    assert outcomes[0] == outcomes[1]


def test_a_target_ends_training():
    made, seen = model(), Seen(scalars=("accuracy",))
    stopping = EarlyStopping("accuracy", patience=1000, target=0.6, per="step")
    made.train(100, loader(), [stopping, seen])
    values = [v["accuracy"] for _, _, v in seen.steps]
    assert values[-1] >= 0.6 and all(v < 0.6 for v in values[:-1])
    assert stopping.stopped_at == len(values)


@pytest.mark.parametrize("per", ["epoch", "step"])
def test_a_loss_that_is_nan_ends_training(per):
    made, seen = model(), Seen()
    made.optimizer.param_groups[0].lr = 1e38
    stopping = EarlyStopping(patience=1000, per=per)
    history = made.train(50, loader(), [stopping, seen])
    assert len(history) < 50 and not math.isfinite(seen.steps[-1][2]["loss"])
    made = model()
    made.optimizer.param_groups[0].lr = 1e38
    history = made.train(5, loader(), EarlyStopping(patience=1000, per=per, check_finite=False))
    assert len(history) == 5


def test_the_best_weights_come_back():
    class Keeps(Callback):
        between_steps, every = True, 6

        def __init__(self):
            self.weights = []

        def on_step_end(self, run):
            self.weights.append([p.tolist() for p in run.network.parameters()])

    made, keeps = model(), Keeps()
    history = made.train(
        30, loader(), [keeps, EarlyStopping("accuracy", 4, restore_best=True)]
    )  # fmt: skip
    best = history["accuracy"].index(max(history["accuracy"]))
    assert best < len(history) - 1
    assert [p.tolist() for p in made.network.parameters()] == keeps.weights[best]


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("per", ["epoch", "step"])
def test_schedules(per, sinks):
    made, seen = model(), Seen(scalars=("lr",))
    scheduler = hy.optim.lr_scheduler.ExponentialLR(made.optimizer, 0.5)
    made.train(3, loader(16), [Schedule(scheduler, per=per), seen], sinks)
    rates = [v["lr"] for _, _, v in seen.steps]
    if per == "epoch":
        assert rates == [0.02, 0.02, 0.01, 0.01, 0.005, 0.005]
    else:
        # What is told of a step is the rate that it went by.
        assert rates == pytest.approx([0.02 * 0.5**at for at in range(6)], rel=1e-12)


def test_a_schedule_by_a_plateau():
    made, seen = model(), Seen(scalars=("lr",))
    scheduler = hy.optim.lr_scheduler.ReduceLROnPlateau(made.optimizer, patience=1, threshold=0.9)
    callbacks = [Schedule(scheduler, monitor="val_loss"), seen]
    made.train(4, loader(16), callbacks, valid_dataset=loader())
    rates = [v["lr"] for _, _, v in seen.steps]
    assert rates == pytest.approx([0.02] * 6 + [0.002] * 2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: LossMonitor(every=0), "every is 0\nFix: give an int >= 1."),
        (lambda: LossMonitor(every=1.5), "every is 1.5\nFix: give an int >= 1."),
        (lambda: EarlyStopping(patience=-1), "patience is -1\nFix: give an int >= 0."),
        (lambda: EarlyStopping(mode="best"), "EarlyStopping got mode='best'\nFix: give \"min\""),
        (lambda: EarlyStopping(min_delta=-1), "min_delta is -1\nFix: give a number >= 0."),
        (lambda: EarlyStopping(per="batch"), 'per is \'batch\'\nFix: give "epoch" or "step".'),
        (lambda: EarlyStopping(per="step", restore_best=True), 'restore_best with per="step"\n'),
        (lambda: hy.train.Checkpoint("x", keep=0), "keep is 0\nFix: give an int >= 1."),
        (lambda: Schedule(3), "Schedule got a int\nFix: give a scheduler such as"),
    ],
)
def test_wrong_settings_are_refused(make, text):
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (
            lambda: EarlyStopping("val_loss"),
            "EarlyStopping watches 'val_loss', which is not there\nThere are loss, accuracy.\n",
        ),
        (
            lambda: Seen(scalars=("los",)),
            "a callback asks for the scalar 'los' of each step\nFix: there are accuracy, loss, lr;",
        ),
    ],
)
def test_numbers_that_are_not_there_are_named(callback, text):
    with pytest.raises(hy.errors.CallbackError) as caught:
        model().train(2, loader(), callback())
    assert str(caught.value).startswith(text)
