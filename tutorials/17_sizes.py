"""Sizes that vary: axes open by themselves, what fixes a size, and how to see and declare it."""

# %% The first call of a hybridized function is captured for its sizes. The second call with another
# size of some axis is captured once more, with a symbol in place of that size: from then on all
# sizes are served by that one capture. Each size gets a plan of its own, which is bound and not
# captured, with the kernels that eager code would choose there: the bits are those of eager code.
import time

import numpy as np

import hybrid as hy
from hybrid.errors import ShapeError

layer = hy.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval().requires_grad_(False)
encode = hy.hybridize(lambda x: layer(x))


def sentence(length):
    return hy.random.normal(size=(1, length, 32))


def same(left, right):
    return left.numpy().tobytes() == right.numpy().tobytes()


for length in (7, 12, 5, 30, 64, 12):
    x = sentence(length)
    assert same(encode(x), layer(x))
assert len(encode.plans) == 2

# %% `fn.plans` lists captures: the first one is for its sizes alone, the second is open, and says
# which sizes it has been bound to.
first, opened = encode.plans
print(first)
print(opened)
assert first.arguments == ("f32[1,7,32]",) and opened.arguments == ("f32[1,n,32]",)
assert set(opened.bindings) == {"n = 12", "n = 5", "n = 30", "n = 64"}


# %% What a size costs: a capture takes milliseconds, and is done twice; a size that is met for the
# first time is bound, and one that was met before is looked up.
def milliseconds(call, *args):
    start = time.perf_counter()
    call(*args)
    return 1000 * (time.perf_counter() - start)


again = hy.hybridize(lambda x: layer(x))
told = {what: milliseconds(again, sentence(n)) for what, n in
        (("captured", 7), ("opened", 12), ("bound", 13), ("met before", 12))}  # fmt: skip
print(", ".join(f"{what}: {took:.2f} ms" for what, took in told.items()))
assert len(again.plans) == 2


# %% Axes that always agree get one symbol, and Python code over sizes stays open: arithmetic, loops
# over `range(n)` (one node of the graph, whatever n is), slices, padding, masks, `n / 2`.
@hy.hybridize
def windowed(x, weight):
    n = x.shape[0]
    padded = hy.concat([x, hy.zeros((-n % 4, 8))])
    means = hy.reshape(padded, (-1, 4, 8)).mean(axis=1)
    seen = hy.where(hy.arange(n) < n // 2, weight, 0.0)
    total = hy.zeros(8)
    for i in range(n):
        total = total * 0.9 + x[i] * seen[i]
    return means, total / n


for n in (5, 9, 17, 6, 30):
    x, weight = hy.random.normal(size=(n, 8)), hy.random.normal(size=n)
    found, expected = windowed(x, weight), windowed.function(x, weight)
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))
assert len(windowed.plans) <= 3
assert windowed.plans[1].arguments == ("f32[n,8]", "f32[n]")


# %% Tensors that a function reads from attributes, lists, dicts and globals open as arguments do: a
# cache that grows by a token at each step is captured for no elements, for one, and for all others.
class Attention(hy.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = hy.nn.Linear(16, 48)
        self.reset()

    def reset(self):
        self.keys = self.values = hy.zeros((1, 0, 16))

    def forward(self, token):
        query, key, value = hy.chunk(self.project(token), 3, axis=-1)
        self.keys = hy.concat([self.keys, key], axis=1)
        self.values = hy.concat([self.values, value], axis=1)
        return hy.softmax(query @ self.keys.mT * 0.25, axis=-1) @ self.values


attention = Attention().requires_grad_(False)
tokens = [hy.random.normal(size=(1, 1, 16)) for _ in range(12)]
expected = [attention(token) for token in tokens]
attention.reset()
attention.hybridize()
assert all(same(attention(t), y) for t, y in zip(tokens, expected, strict=True))
print(attention.plans[-1])
assert len(attention.plans) == 3
assert attention.plans[-1].outside == ("Attention.keys f32[1,n,16]", "Attention.values f32[1,n,16]")


# %% A comparison of sizes makes two families: those for which it holds, and the others. It is a
# condition of the capture, and `explain` shows it with its line.
@hy.hybridize
def shortened(x):
    if x.shape[0] > 16:
        x = x[:16]
    return hy.softmax(x, axis=0)


for n in (4, 8, 10, 20, 30, 12, 25):
    shortened(hy.ones(n))
assert [plan.arguments for plan in shortened.plans] == [("f32[4]",), ("f32[n]",), ("f32[n]",)]
text = str(shortened.explain(hy.ones(11)))
print(text)
assert "a call runs plan 2 of 3, bound to n = 11" in text
assert "where n <= 16" in text and "where n > 16" in text


# %% What takes a size for a plain number fixes it: `str(n)`, `[0] * n`, a NumPy function. There is
# then a capture for each size of that axis, and `explain` names the line; other axes stay open.
@hy.hybridize
def numbered(x, y):
    window = hy.asarray(np.hanning(x.shape[0]), dtype=hy.float32)  # NumPy asks for the number
    return (x * window).sum() + y.sum()


for n in (4, 8, 10):
    numbered(hy.ones(n), hy.ones(n + 1))
print([plan.arguments for plan in numbered.plans])
assert [plan.arguments[1] for plan in numbered.plans] == ["f32[5]", "f32[n]", "f32[n]"]
assert "axis 0 of x is fixed: n == " in str(numbered.explain(hy.ones(10), hy.ones(5)))


# %% `dynamic=` declares axes by the name or the position of an argument: they are open from the
# first call on, axes of one name agree, and a size out of range is an error. Where the function
# fixes a declared axis, the call raises and names the line. `dynamic=False` opens nothing.
batch = hy.Dim("batch", 1, 64)


def scores(x, y):
    return (x * y).sum(axis=1)


declared = hy.hybridize(scores, dynamic={"x": {0: batch, 1: True}, 1: {0: batch, 1: True}})
for n in (3, 50, 64):
    declared(hy.ones((n, 2)), hy.ones((n, 2)))
assert len(declared.plans) == 1
print(declared.graph(hy.ones((3, 2)), hy.ones((3, 2))))
try:
    declared(hy.ones((65, 2)), hy.ones((65, 2)))
except ShapeError as error:
    print(error)
    assert "batch is 65" in str(error)
else:
    raise AssertionError("65 rows are too many")

fixed = hy.hybridize(scores, dynamic=False)
for n in (3, 4, 5):
    fixed(hy.ones((n, 2)), hy.ones((n, 2)))
assert len(fixed.plans) == 3

# %% Gradients go through open axes, too: a training step takes the last batch of an epoch, which is
# smaller, without a capture of its own at every size.
model = hy.nn.Sequential(hy.nn.Linear(8, 16), hy.nn.ReLU(), hy.nn.Linear(16, 1))
optimizer = hy.optim.Adam(model.parameters(), lr=1e-2)
inputs = hy.random.normal(size=(90, 8))
targets = hy.sum(inputs, axis=1, keepdims=True)
data = hy.data.TensorDataset(inputs, targets)


@hy.hybridize
def step(x, y):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


losses = []
for _ in range(20):
    for x, y in hy.data.DataLoader(data, batch_size=32):  # of 32, 32 and 26
        losses.append(step(x, y).item())
print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}; {[plan.arguments for plan in step.plans]}")
assert losses[-1] < losses[0] / 2
assert len(step.plans) <= 4  # with gradients that are there, or not yet

# %% The command line takes symbols for sizes:
#
#     hybrid graph program.py:shortened -i 'f32[n,8]'
#
# shows the graph of an open capture, and `hybrid bench sizes` measures what all this costs here.
