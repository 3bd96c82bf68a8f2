"""Load data: datasets, batches, workers, files, and going on where a program has stopped."""

# %% A dataset has a length and samples by number; a loader makes batches of them, in PyTorch's way.
import tempfile
import time
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid.data import (
    CharTokenizer,
    CsvDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    NpyDataset,
    TensorDataset,
    TokenBlocks,
    WeightedRandomSampler,
    batch_generator,
    get_worker_info,
    random_split,
)


class Squares(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, number):
        return {"number": number, "square": np.float32(number) ** 2, "name": f"sample {number}"}


for batch in DataLoader(Squares(), batch_size=4):
    print(batch["number"].tolist(), batch["square"].tolist(), batch["name"][0])
assert batch["square"].tolist() == [64.0, 81.0]  # the last batch is what was left

# %% Arrays in memory are a dataset, too. Their batches are not collated sample by sample: a single
# call gathers the rows. `random_split` deals samples out, and a seed makes that, and the order of
# each pass, the same every time.
generator = np.random.RandomState(0)
images = generator.rand(6000, 784).astype(np.float32)
labels = np.arange(6000) % 10
training, test = random_split(TensorDataset(images, labels), [0.9, 0.1], generator=0)
assert (len(training), len(test)) == (5400, 600)


def order(loader) -> list[int]:
    return [label for _, batch in loader for label in batch.tolist()]


loader = DataLoader(training, batch_size=128, shuffle=True, generator=1)
first, second = order(loader), order(loader)
assert first != second  # passes differ ...
again = DataLoader(training, batch_size=128, shuffle=True, generator=1)
assert [order(again), order(again)] == [first, second]  # ... and programs do not

# %% Samplers choose otherwise. Here a rare class comes as often as the others.
rare = np.array([0] * 95 + [1] * 5)
sampler = WeightedRandomSampler(1.0 / np.bincount(rare)[rare], num_samples=1000, generator=0)
(chosen,) = DataLoader(TensorDataset(rare), batch_size=1000, sampler=sampler)
print(f"class 1: {rare.mean():.0%} of the samples, {chosen[0].numpy().mean():.0%} of those drawn")
assert 0.4 < chosen[0].numpy().mean() < 0.6


# %% Workers read ahead while the model computes. Their number changes nothing but the time: batches
# come in the same order. Threads are the rule; for Python code that takes long there are processes
# (worker_kind="process"), whose programs need the usual `if __name__ == "__main__":`.
class Slow(Squares):
    def __getitem__(self, number):
        time.sleep(0.02)  # reading a file, say
        return super().__getitem__(number)["number"]


def passed(**options) -> tuple[list, float]:
    start = time.perf_counter()
    batches = [batch.tolist() for batch in DataLoader(Slow(), batch_size=2, **options)]
    return batches, time.perf_counter() - start


alone, slow = passed()
helped, quick = passed(workers=5)
print(f"{slow:.2f} s without workers, {quick:.2f} s with five")
assert alone == helped and quick < slow


# %% Random numbers of a dataset, for augmentation say, come from `batch_generator()`: they follow
# from the loader's generator, the pass and the batch, so they do not depend on the workers, either.
class Noisy(Squares):
    def __getitem__(self, number):
        return number + 0.1 * batch_generator().normal()


one, three = (
    [batch.tolist() for batch in DataLoader(Noisy(), 2, generator=5, workers=workers)]
    for workers in (1, 3)
)
assert one == three


# %% What goes wrong in a worker is raised by the loop, with the worker's own traceback as its
# cause; a worker that dies is named, and nothing is left running.
class Broken(Squares):
    def __getitem__(self, number):
        return 1 / (number - 7)


try:
    list(DataLoader(Broken(), batch_size=2, workers=2))
except ZeroDivisionError as error:
    assert "in __getitem__" in str(error.__cause__)
else:
    raise AssertionError("the worker's error was lost")


# %% Samples without numbers, from a socket or a very long file, are an IterableDataset. Each worker
# goes over a copy of its own, and says which part it gives.
class Lines(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(start, 12, step)


found = [batch.tolist() for batch in DataLoader(Lines(), batch_size=3, workers=2)]
assert found == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]

# %% A pass need not be finished. The loader's state, a dict of plain numbers, goes into a
# checkpoint; a loader made like the first one goes on with exactly the batches left, however many
# the workers had made ahead.
loader = DataLoader(training, batch_size=500, shuffle=True, generator=2, workers=2)
going = iter(loader)
for _ in range(4):
    next(going)
state = loader.state_dict()
left = [y.tolist() for _, y in going]

resumed = DataLoader(training, batch_size=500, shuffle=True, generator=2)
resumed.load_state_dict(state)
assert [y.tolist() for _, y in resumed] == left and len(left) == 7

# %% A hybridized function may go over a loader: the epoch below, optimizer included, is one plan
# and one call. Batches of tensors and of mapped files come from a queue in C, so no Python runs
# between two steps; what other datasets give is asked for as eager code does. The bits, the random
# numbers and the loader's state are those of the eager loop, and what a dataset raises, or Ctrl-C,
# leaves what the finished steps have written.
points = hy.random.Generator(3).normal(size=(1000, 2))
line = points @ hy.asarray([2.0, -1.0]) + 0.5
weights, bias = hy.nn.Parameter(hy.zeros(2)), hy.nn.Parameter(hy.zeros(()))
optimizer = hy.optim.SGD([weights, bias], lr=0.1)
pairs = DataLoader(TensorDataset(points, line), batch_size=32, shuffle=True, generator=4)


@hy.hybridize
def epoch():
    total = hy.zeros(())
    for x, y in pairs:
        loss = ((x @ weights + bias - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total / len(pairs)


losses = [epoch().item() for _ in range(5)]
assert losses[0] > 0.05 > 1e-6 > losses[-1] and len(epoch.plans) == 1

# %% What becomes of rows on their way into a batch, such as bytes of images made small floats, is
# said beside the tensors. It runs in C, in the thread that makes the batches of captured loops.
pixels = np.random.default_rng(0).integers(0, 256, (64, 3, 8, 8)).astype(np.uint8)
scaled = hy.data.Normalize((0.5, 0.5, 0.4), (0.2, 0.2, 0.3), scale=255)
(batch,) = next(iter(DataLoader(TensorDataset(pixels, transforms=[scaled]), batch_size=64)))
assert str(batch.type) == "f32[64,3,8,8]" and abs(batch.mean().item() - 0.1) < 0.1

# %% Files: .npy files are mapped, not read; tables find the types of their columns, and say where
# they are wrong.
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
np.save(folder / "images.npy", images)
np.save(folder / "labels.npy", labels)
mapped = NpyDataset(folder / "images.npy", folder / "labels.npy")
x, y = next(iter(DataLoader(mapped, batch_size=128, shuffle=True)))
assert x.shape == (128, 784)

table = folder / "flowers.csv"
table.write_text("length,width,kind\n5.1,3.5,setosa\n7.0,,versicolor\n6.3,3.3,virginica\n")
flowers = CsvDataset(table, target="kind", fill={"width": 3.0})
assert flowers.features == ["length", "width"] and flowers.classes[0] == "setosa"
assert flowers.tensors[0].numpy()[1].tolist() == [7.0, 3.0]

table.write_text("length,width\n5.1,3.5\n7.0,wide\n")
try:
    CsvDataset(table, dtypes={"width": hy.float32})
except ValueError as error:
    print(error)
    assert "flowers.csv:3: column 'width' (number 2): 'wide' is no float32" in str(error)

# %% Text becomes tokens, and windows of them with the token that follows each as its target.
text = "the quick brown fox jumps over the lazy dog"
tokenizer = CharTokenizer(text)
blocks = TokenBlocks(tokenizer.encode(text), length=8, stride=1)
x, y = next(iter(DataLoader(blocks, batch_size=3)))
print([tokenizer.decode(row) for row in x], "->", [tokenizer.decode(row) for row in y])
assert tokenizer.decode(y[0]) == text[1:9]


# %% Where an epoch is not to be one call, the step is what to hybridize, and the loop over the
# loader stays Python.
weights = hy.zeros((784, 10))
weights.requires_grad = True
optimizer = hy.optim.SGD([weights], lr=0.1)


@hy.hybridize
def step(images, labels):
    optimizer.zero_grad()
    loss = hy.nn.functional.cross_entropy(images @ weights, labels)
    loss.backward()
    optimizer.step()
    return loss


for images, labels in DataLoader(training, batch_size=128, shuffle=True, drop_last=True, workers=1):
    loss = step(images, labels)
assert len(step.plans) == 1
print(f"loss {loss.item():.2f} after one pass")

scratch.cleanup()
