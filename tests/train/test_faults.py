"""What goes wrong in training: named, nothing left running, what finished steps wrote in force."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, Dataset, IterableDataset, TensorDataset
from hybrid.train import Callback, Checkpoint, Model
from tests.train.parts import Seen, loader, model, samples, slow_loader


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    gc.collect()
    assert threading.active_count() == 1


def weights(made):
    return [p.tolist() for p in made.network.parameters()]


class Weights(Callback):
    """Keeps the weights behind each step."""

    between_steps = True

    def __init__(self):
        self.kept = []

    def on_step_end(self, run):
        self.kept.append(weights(run.model))


def weights_by_step(make_loader, epochs=2):
    made, keeps = model(), Weights()
    made.train(epochs, make_loader(), keeps)
    return keeps.kept


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("workers", [{}, {"workers": 2}, {"workers": 1, "worker_kind": "process"}])
def test_a_dataset_that_raises(workers, sinks):
    """Sample 20 in order is in the third batch: two steps are finished."""
    expected = weights_by_step(lambda: slow_loader(shuffle=False, **workers), epochs=1)
    made, seen = model(), Seen()
    data = slow_loader(bad=20, shuffle=False, **workers)
    with pytest.raises(KeyError, match="sample 20"):
        made.train(3, data, seen, sinks)
    assert weights(made) == expected[1]
    assert [step for _, step, _ in seen.steps] == [1, 2] and seen.told[-1] == "closed"


class Raises(Callback):
    def __init__(self, step, between=False):
        self.at, self.between_steps = step, between

    def on_step_end(self, run):
        if run.step == self.at:
            raise RuntimeError(f"step {run.step}")


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("between", [True, False])
def test_a_callback_that_raises(between, sinks):
    made, seen = model(), Seen()
    with pytest.raises(RuntimeError, match="step 5"):
        made.train(3, loader(), [Raises(5, between), seen], sinks)
    kept = weights_by_step(loader)
    # Behind the steps, some more may be finished: whole ones.
    assert weights(made) in kept[4:] if sinks and not between else weights(made) == kept[4]
    assert seen.told[-1] == "closed"


@pytest.mark.parametrize("method", ["on_train_begin", "on_epoch_begin", "on_epoch_end", "close"])
def test_other_methods_that_raise(method):
    def fails(self, *run):
        raise RuntimeError(method)

    kind = type("Fails", (Callback,), {method: fails})
    seen, made = Seen(), model()
    with pytest.raises(RuntimeError, match=method):
        made.train(2, loader(), [kind(), seen])
    assert seen.told[-1] == "closed"
    assert made.train(1, loader())["loss"]  # the model can be trained all the same


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize("size", [-1, 5])
def test_data_that_are_empty(size, sinks):
    if size != -1 and not sinks:
        return
    for data in (loader(0), loader(5, drop_last=True), []):
        with pytest.raises(hy.errors.DatasetError) as caught:
            model().train(2, data, dataset_sink_mode=sinks, sink_size=size)
        assert "gave no batch" in str(caught.value)
        with pytest.raises(hy.errors.DatasetError, match="gave no batch"):
            model().eval(data, dataset_sink_mode=sinks)


class Short(Dataset):
    """Says that it is longer than it is."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index >= 24:
            raise IndexError(index)
        return np.full(4, index, np.float32), index % 3


class ShortStream(IterableDataset):
    def __len__(self):
        return 40

    def __iter__(self):
        return ((np.full(4, i, np.float32), i % 3) for i in range(24))


def test_data_that_end_early():
    made = model()
    with pytest.raises(IndexError, match="24"):
        made.train(1, DataLoader(Short(), 8))
    made = model()
    with pytest.raises(hy.errors.DatasetError) as caught:
        made.train(1, DataLoader(ShortStream(), 8))
    assert "gave no more than 3 batches in a pass; its length is 5" in str(caught.value)


class Endless(IterableDataset):
    """A stream that does not know its length: ``count`` samples."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return ((np.full(4, i, np.float32), i % 3) for i in range(self.count))


@pytest.mark.parametrize("size", [-1, 2, 7])
def test_streams_that_do_not_know_their_length(size):
    outcomes = []
    for sinks in (True, False):
        made, seen = model(), Seen()
        data = DataLoader(Endless(40), 8)
        epochs = 3 if size < 0 else 15 // size
        if not sinks and size > 0:
            epochs = 3
        made.train(epochs, data, seen, sinks, sink_size=size if sinks else -1)
        steps = 15 if size < 0 else 15 // size * size
        outcomes.append([values for _, _, values in seen.steps][:steps])
    assert outcomes[0] == outcomes[1] and len(outcomes[0]) == steps
    with pytest.raises(hy.errors.DatasetError, match="gave no batch"):
        model().train(1, DataLoader(Endless(0), 8), sink_size=size)
    assert model().eval(DataLoader(Endless(40), 8))["loss"] > 0


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda m: m.train(1, loader(), sink_size=0), ValueError, "sink_size is 0\nIt is how many"),
        (lambda m: m.train(1, loader(), sink_size=-2), ValueError, "sink_size is -2\nIt is how"),
        (lambda m: m.train(1, loader(), sink_size=2.0), TypeError, "sink_size is 2.0\nFix: give"),
        (
            lambda m: m.train(1, loader(), dataset_sink_mode=False, sink_size=3),
            ValueError,
            "sink_size is 3 without dataset_sink_mode\nIt says how many steps run in one call",
        ),
        (lambda m: m.train(-1, loader()), ValueError, "epochs is -1\nFix: give an int >= 0."),
        (lambda m: m.train(1.5, loader()), TypeError, "epochs is 1.5\nFix: give an int >= 0."),
        (
            lambda m: m.train(1, loader(), valid_dataset=loader(), valid_frequency=0),
            ValueError,
            "valid_frequency is 0\nFix: give an int >= 1.",
        ),
        (
            lambda m: m.train(1, TensorDataset(*samples())),
            TypeError,
            "train got a TensorDataset, which gives single samples\nFix: make batches of them",
        ),
        (
            lambda m: m.train(1, iter([samples()])),
            TypeError,
            "train got a list_iterator in place of a dataset\nIt goes over the data again",
        ),
        (lambda m: m.eval("data"), TypeError, "eval got a str in place of a dataset\n"),
        (lambda m: m.train(1, loader(), [print]), TypeError, "train got <built-in function print>"),
        (
            lambda m: m.train(1, loader(), hy.train.LossMonitor),
            TypeError,
            "train got <class 'hybrid.train.monitors.LossMonitor'> as a callback\nFix: give objects"
            " of hy.train.Callback's classes, such as LossMonitor().",
        ),
        (lambda m: m.train(1, [samples()[0]]), TypeError, "a batch has no target: it is a Tensor"),
        (lambda m: m.train(1, [samples()[:1]]), TypeError, "a batch has no target: it is a tuple"),
        (
            lambda m: Model(print),
            TypeError,
            "Model got a builtin_function_or_method as its network",
        ),
        (
            lambda m: Model(m.network, 3),
            TypeError,
            "Model got the loss function 3\nFix: give a loss",
        ),
        (lambda m: Model(m.network, print, 3), TypeError, "Model got a int as its optimizer\nFix:"),
        (
            lambda m: Model(m.network, clip_norm=0),
            ValueError,
            "Model got clip_norm=0\nFix: give a number > 0.",
        ),
        (
            lambda m: Model(m.network, print, metrics={"loss": "mse"}),
            ValueError,
            'a metric is named "loss"\nThat is the mean loss, which is always there.',
        ),
        (
            lambda m: Model(m.network, m.loss_fn).train(1, loader()),
            ValueError,
            "the model has no optimizer to train with\nFix: give Model one, such as",
        ),
        (
            lambda m: Model(m.network, None, m.optimizer, "accuracy").train(1, loader()),
            ValueError,
            "the model has metrics and no loss function to train by\nMetrics compare outputs",
        ),
        (
            lambda m: Model(m.network, lambda o, t: o, m.optimizer).train(1, loader()),
            ValueError,
            "the loss is f32[8,3]\nA step goes down the slope of one number.\nFix: return one",
        ),
        (
            lambda m: Model(m.network, lambda o, t: None, m.optimizer).train(1, loader()),
            TypeError,
            "the loss is a NoneType\nFix: let loss_fn (or, without one, the network) return",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrong_arguments_are_refused(call, kind, text):
    made = model()
    before = weights(made)
    with pytest.raises(kind) as caught:
        call(made)
    text_of_it = str(caught.value)
    first, *rest = text_of_it.splitlines()
    told = "\n".join([first.split(" (/")[0], *[line for line in rest if " | " not in line]])
    assert told.startswith(text), told
    assert weights(made) == before


def test_a_sink_size_larger_than_the_data_repeats_them():
    made, data, seen = model(), loader(16), Seen()
    history = made.train(2, data, seen, sink_size=7)
    assert len(seen.steps) == 14 and len(history) == 2


PROGRAM = """
import os, signal, sys, threading
import hybrid as hy
from hybrid.train import Callback, Checkpoint, EarlyStopping
from tests.train.parts import loader, model, slow_loader

made, folder = model(), sys.argv[1]
data = (loader if sys.argv[2] == "queued" else slow_loader)(4000)

class Interrupts(Callback):
    every = 700
    def on_step_end(self, run):
        if run.step == 1400:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

try:
    made.train(10**6, data, [Interrupts(), Checkpoint(folder, keep=2)])
except KeyboardInterrupt:
    finite = [bool(hy.all(hy.isfinite(p))) for p in made.network.parameters()]
    print("interrupted", threading.active_count(), all(finite))
    other, again = model(seed=4), (loader if sys.argv[2] == "queued" else slow_loader)(4000)
    last = sorted(os.scandir(folder), key=lambda file: file.name)[-1]
    history = other.train(3, again, resume=last.path)
    print("resumed", len(history) >= 3)
"""


@pytest.mark.usefixtures("heeded_interrupt")
@pytest.mark.parametrize("kind", ["queued", "through Python"])
def test_ctrl_c_ends_a_sunk_epoch(tmp_path, kind):
    pytest.importorskip("safetensors")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "files"), kind],
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "") + os.pathsep + root},
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    interrupted, resumed = done.stdout.splitlines()
    assert interrupted == "interrupted 1 True" and resumed == "resumed True"


def test_a_fork_in_the_middle_of_training():
    """The child has the weights, and no thread of the parent's; it can train by itself."""

    class Forks(Callback):
        between_steps, every, status = True, 4, None

        def on_step_end(self, run):
            if run.step == 4:
                child = os.fork()
                if not child:
                    code = 1
                    try:
                        made = model(seed=3)
                        made.train(2, loader(drop_last=True))
                        code = 0
                    finally:
                        os._exit(code)
                self.status = os.waitpid(child, 0)[1]

    forks, made = Forks(), model()
    history = made.train(2, loader(), forks)
    assert forks.status == 0
    assert history["loss"] == model().train(2, loader())["loss"]


def test_a_checkpoint_that_cannot_be_written_ends_training(tmp_path):
    pytest.importorskip("safetensors")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        model().train(1, loader(), Checkpoint(tmp_path / "file"))
