"""Train in one call: `hy.train.Model`, whose epochs run in C, and callbacks that see every step."""

# %% In most frameworks each training step comes back to Python, and a small model spends its time
# there. Here three things sink into C. The graph: forward, backward and optimizer of a step are one
# plan. The data: a queue gathers, casts and normalizes batches without Python. The loop: an epoch
# is one call. `hy.train.Model` does all three; nothing about the network is special.
import csv
import os
import tempfile
import time
from pathlib import Path

import hybrid as hy
from hybrid.data import DataLoader, Normalize, TensorDataset
from hybrid.data.digits import load
from hybrid.train import (
    F1,
    Callback,
    Checkpoint,
    CSVLogger,
    EarlyStopping,
    LossMonitor,
    Model,
    Schedule,
    TimeMonitor,
)

digits = load()  # 1,797 handwritten digits of 8 x 8 pixels, from 0 to 1
training, held_out = (
    # As images come in files: bytes. They are cast and normalized on their way into a batch.
    TensorDataset(
        (hy.asarray(images) * 16).astype(hy.uint8), labels,
        transforms=(Normalize(0.3, 0.4, scale=16), None),
    )
    for images, labels in (digits[:2], digits[2:])
)  # fmt: skip
loader = DataLoader(training, batch_size=32, shuffle=True, generator=0)
test = DataLoader(held_out, batch_size=180)


def make() -> Model:
    hy.random.seed(0)
    net = hy.nn.Sequential(
        hy.nn.Linear(64, 64), hy.nn.ReLU(), hy.nn.Dropout(0.1), hy.nn.Linear(64, 10)
    )
    optimizer = hy.optim.Adam(net.parameters(), lr=3e-3)
    return Model(net, hy.nn.CrossEntropyLoss(), optimizer, metrics=["accuracy", F1(10)])


# %% Losses and metrics are counted in the plan, and are means over samples: a last batch that is
# smaller counts less. The history has them epoch by epoch.
model = make()
history = model.train(
    5, loader, [LossMonitor(every=60), TimeMonitor()], valid_dataset=test, valid_frequency=5
)
print(history)
assert history["loss"][-1] < history["loss"][0] and history["val_accuracy"][-1] > 0.85
assert history["val_accuracy"][0] is None  # there was no validation after epoch 1

print(model.eval(test))
scores = model.predict(test)
assert scores.shape == (360, 10)


# %% Sinking changes no bit. `dataset_sink_mode=False` comes back to Python at each step, for a
# debugger, say; `sink_size=n` makes an epoch of n steps, which go on in the data where the last
# ones left off.
def trained(**options) -> tuple[Model, float]:
    """A model, and the seconds of 20 epochs whose plans are there."""
    made, data = make(), DataLoader(training, batch_size=32, shuffle=True, generator=0)
    made.train(1, data, **options)
    start = time.perf_counter()
    made.train(20, data, **options)
    return made, time.perf_counter() - start


sunk, quick = trained()
stepwise, slow = trained(dataset_sink_mode=False)
print(f"20 epochs: sunk {quick:.3f} s, step by step {slow:.3f} s")
for one, other in zip(sunk.network.parameters(), stepwise.network.parameters(), strict=True):
    assert one.tolist() == other.tolist()

parts = make()
history = parts.train(12, DataLoader(training, batch_size=32, shuffle=True), sink_size=10)
assert len(history) == 12  # 120 steps: more than two passes of 45


# %% Callbacks see every step although no step comes back: the plan writes the scalars of a step
# into a ring, and Python reads it about ten times a second while the steps go on. What a callback
# is told of is a step of the past, so it may look at its numbers and not at the weights.
class Losses(Callback):
    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def on_step_end(self, run) -> None:
        self.seen.append((run.step, run.values["loss"]))


losses = Losses()
model = make()
model.train(2, loader, losses)
assert [step for step, _ in losses.seen] == list(range(1, 91))


class Peeks(Callback):
    def on_step_end(self, run) -> None:
        run.network.parameters()


try:
    model.train(1, loader, Peeks())
except hy.errors.CallbackError as error:
    print(error)
else:
    raise AssertionError("weights of another step were shown")


# %% A callback that must stand between two steps says so, and how often: the loop returns to Python
# just there. This one is a schedule in plain Python.
class Halve(Callback):
    between_steps, every = True, 40

    def on_step_end(self, run) -> None:
        run.optimizer.param_groups[0].lr *= 0.5


model = make()
model.train(2, loader, Halve())
assert model.optimizer.param_groups[0].lr == 3e-3 / 4

# %% The schedulers of `hy.optim` need no return: as a part of each step they run with the plan. So
# does a test for the end of training, which the plan makes after each step.
model = make()
scheduler = hy.optim.lr_scheduler.CosineAnnealingLR(model.optimizer, T_max=450)
stopping = EarlyStopping("loss", patience=10**6, target=0.02, per="step")
history = model.train(50, loader, [Schedule(scheduler, per="step"), stopping])
print(f"a loss of 0.02 after {stopping.stopped_at} steps, in epoch {len(history)}")
assert stopping.stopped_at is not None and len(history) < 50

# %% Checkpoints have all that decides the bits to come: weights, moments, random state, the place
# in the data, metrics under way, schedules. A training that is resumed ends as one that was not
# interrupted. Files are whole or not there, and the best ones may stay.
with tempfile.TemporaryDirectory() as folder:
    whole = make()
    files = Checkpoint(Path(folder) / "run", every=50, per="step", keep=2)
    table = Path(folder) / "log.csv"
    data = DataLoader(training, batch_size=32, shuffle=True, generator=0)
    history = whole.train(4, data, [files, CSVLogger(table)])
    assert [os.path.basename(path) for path in files.paths] == [
        "checkpoint-00000100.safetensors",
        "checkpoint-00000150.safetensors",
    ]
    assert [row["epoch"] for row in csv.DictReader(table.read_text().splitlines())] == list("1234")

    again = make()
    data = DataLoader(training, batch_size=32, shuffle=True, generator=0)
    resumed = again.train(4, data, resume=files.paths[0])
    assert resumed["loss"] == history["loss"]
    for one, other in zip(whole.network.parameters(), again.network.parameters(), strict=True):
        assert one.tolist() == other.tolist()

# %% The same without `Model`: a hybridized function with the loop in it is one call, too. Its plan
# tells what goes from Python to C and back: one call, two questions back (where the pass begins,
# and that it is over), and 50 bytes that say where it is; no batch, and no step.
net = hy.nn.Linear(64, 10)
optimizer = hy.optim.SGD(net.parameters(), lr=0.1)
even = DataLoader(training, batch_size=32, shuffle=True, drop_last=True)


@hy.hybridize
def epoch():
    for x, y in even:
        loss = hy.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


epoch()
print(epoch().item(), epoch.plans[0].crossings)
assert epoch.plans[0].crossings.calls == 2 and epoch.plans[0].crossings.copied_nbytes < 400
