"""Hybridize: the same function as one static graph, in one call, with the same bits."""

# %% A function of tensors, written as ordinary Python.
import tempfile

import hybrid as hy


def attend(query, key, value, *, causal: bool = False):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if causal:
        rows = hy.arange(scores.shape[-2])
        scores = hy.where(rows[:, None] >= rows, scores, -hy.inf)
    return hy.softmax(scores, axis=-1) @ value


query, key, value = (hy.random.normal(size=(8, 4)) for _ in range(3))
eager = attend(query, key, value)

# %% hybridize captures it when it is first called with arguments of these types ...
# Without a ledger each new key is captured at once; the end of this file is about that.
captured = hy.hybridize(attend, ledger=False)
result = captured(query, key, value)

# ... and never changes a result, not by one bit.
assert result.numpy().tobytes() == eager.numpy().tobytes()

# %% What was captured can be read: typed values, one op a line, and where in the source it stands.
print(captured.graph(query, key, value))

# %% What Python decided while capturing costs nothing afterwards, and is never ignored: another
# flag, shape or dtype selects another plan.
captured(query, key, value, causal=True)
captured(query[:2], key, value)
for plan in captured.plans:
    print(plan)
assert len(captured.plans) == 3

# %% The same holds for what the function reads from outside, such as a global ...
scale = 2.0


@hy.hybridize
def scaled(x):
    return x * scale


x = hy.ones(3)
assert scaled(x).tolist() == [2, 2, 2]
scale = 5.0
assert scaled(x).tolist() == [5, 5, 5]

# %% ... while tensors from outside are cells: inputs of the graph, and outputs when written to.
total = hy.zeros(3)


@hy.hybridize
def accumulate(x):
    total.assign(total + x)
    return total.sum()


assert accumulate(x).item() == 3
assert accumulate(x).item() == 6
assert total.tolist() == [2, 2, 2]
assert len(accumulate.plans) == 1

# %% So a whole training step is one graph: backward pass and optimizer are ops like any other.
hy.random.seed(0)
model = hy.nn.Sequential(hy.nn.Linear(4, 16), hy.nn.Tanh(), hy.nn.Linear(16, 1))
optimizer = hy.optim.Adam(model.parameters(), lr=1e-2)
inputs = hy.random.normal(size=(64, 4))
targets = inputs.sum(axis=1, keepdims=True)


@hy.hybridize
def step(inputs, targets):
    optimizer.zero_grad()
    loss = ((model(inputs) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


losses = [step(inputs, targets).item() for _ in range(200)]
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
assert losses[-1] < losses[0] / 10
print(f"{len(step.plans)} plans for 200 steps")

# %% Plans can be kept in files.  A later process, whose code and all that it reads are as they were
# here, loads them instead of capturing; the plans of this one say what became of them.
with tempfile.TemporaryDirectory() as folder:
    hy.cache_plans(folder)
    step.clear()
    step(inputs, targets)
    assert step.plans[0].filed == "kept in a file"
    step.clear()  # as in a new process
    step(inputs, targets)
    assert step.plans[0].filed == "loaded from a file"
    hy.cache_plans(None)

# %% Gradients pass through hybridized functions, and functions of gradients can be hybridized.
slope = hy.hybridize(hy.grad(lambda x: hy.sin(x).sum()))
assert slope(x).numpy().tobytes() == hy.cos(x).numpy().tobytes()

# %% Control flow that depends on the value of a tensor becomes part of the graph, all branches of
# it: one plan, whatever the value.  Tutorial 04 is about that.


@hy.hybridize
def absolute(x):
    if x.sum() < 0:
        return -x
    return x


assert absolute(x).tolist() == absolute(-x).tolist() == [1, 1, 1]
assert len(absolute.plans) == 1

# %% mode="trace" takes a function as it is and only records its ops.  A branch then needs a value,
# which a capture has not.  It is never guessed: the error says where, and what to write instead.
try:
    hy.hybridize(absolute.function, mode="trace")(x)
except hy.HybridError as error:
    print(error)
else:
    raise AssertionError("a branch on a traced value was captured")

# %% `hy.where` chooses between values without a branch.
choose = hy.hybridize(lambda x: hy.where(x.sum() < 0, -x, x), mode="trace")
assert choose(-x).tolist() == [1, 1, 1]


# %% A capture takes milliseconds, and pays if its plan is used again. A ledger keeps account: what
# does not pay runs eagerly, with the same bits, so nothing is slower than eager code for long.
@hy.hybridize(ledger=True)
def labelled(x, label):
    return x * len(label)


for _ in range(50):
    labelled(x, "always the same")
assert labelled.ledger.calls == 50 and labelled.ledger.captures == 1
print(labelled.ledger)
