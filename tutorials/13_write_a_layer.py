"""Write a layer: parameters, buffers, a forward pass, and the tests that it deserves."""

# %% A layer is a class: attributes made in __init__, and a forward that computes.  This one scales
# each feature to size 1 before it mixes them: by the sizes of what it has seen, which it keeps.
import copy
import math

import numpy as np

import hybrid as hy
from hybrid import nn


class ScaledLinear(nn.Module):
    """``(x / size) @ weight.T + bias``: [..., in] -> [..., out], for a running mean size of x.

    ``weight`` is [out, in], ``bias`` [out], and the buffer ``size`` [in], of which each batch takes
    the share ``momentum`` in training.
    """

    def __init__(self, in_features: int, out_features: int, momentum: float = 0.1) -> None:
        super().__init__()
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum is {momentum}; give a number from 0 to 1")
        self.momentum = momentum
        # A Parameter in an attribute is learnt ...
        self.weight = nn.Parameter(hy.zeros((out_features, in_features)))
        self.bias = nn.Parameter(hy.zeros((out_features,)))
        # ... a buffer is state that is not: it goes with state_dict(), and no optimizer sees it.
        self.register_buffer("size", hy.ones((in_features,)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        nn.init.zeros_(self.bias)

    def forward(self, x):
        if self.training:  # Python's own flag: decided when the layer is captured
            with hy.no_grad():
                seen = hy.abs(x).reshape((-1, x.shape[-1])).mean(axis=0)
                if seen.min() > 0:  # a tensor's value: decided by every run
                    self.size.assign((1 - self.momentum) * self.size + self.momentum * seen)
        return nn.functional.linear(x / self.size, self.weight, self.bias)

    def extra_repr(self) -> str:
        outputs, inputs = self.weight.shape
        return f"in_features={inputs}, out_features={outputs}, momentum={self.momentum}"


# %% It prints itself, and its parts have names: those by which checkpoints know them.
hy.random.seed(0)
layer = ScaledLinear(3, 2)
print(layer)
assert repr(layer) == "ScaledLinear(in_features=3, out_features=2, momentum=0.1)"
assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
assert [name for name, _ in layer.named_buffers()] == ["size"]
assert {name: value.shape for name, value in layer.state_dict().items()} == {
    "weight": (2, 3),
    "bias": (2,),
    "size": (3,),
}

# %% The first test is what it means, in NumPy.
x = hy.random.normal(size=(8, 3)) * hy.asarray([1.0, 10.0, 100.0])
y = layer(x)
size = 0.9 + 0.1 * np.abs(x.numpy()).mean(0)
wanted = x.numpy() / size @ layer.weight.numpy().T + layer.bias.numpy()
assert np.allclose(layer.size.numpy(), size, rtol=1e-5)
assert np.allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-6)

# %% Training changes its statistics, evaluation leaves them alone, and so does a silent batch.
before = layer.size.tolist()
layer.eval()(x)
assert layer.size.tolist() == before
layer.train()(x * 0)
assert layer.size.tolist() == before
layer(x)
assert layer.size.tolist() != before

# %% Nothing has to be said about derivatives: they are those of what forward calls.  check_grads
# compares them with differences, in float64, forwards and backwards, and of the second order.
layer.eval()
hy.check_grads(lambda x: hy.tanh(layer(x)), x, order=2)

# %% backward() leaves the gradients of the parameters where optimizers look for them.
hy.sum(layer(x) ** 2).backward()
slope = 2 * layer(x).numpy().T @ (x / layer.size).numpy()
assert np.allclose(layer.weight.grad, slope, rtol=1e-4, atol=1e-5)
assert layer.size.grad is None  # a buffer has none

# %% hybridize captures it: the flag chooses the plan, the tensor's value is a branch of the graph.
# (With a ledger, which is usual, the second flag would wait until the first capture has paid back.)
eager, captured = copy.deepcopy(layer), copy.deepcopy(layer).hybridize(ledger=False)
batches = [x, x * 0, x + 1]
for training in (True, False):
    eager.train(training)
    captured.train(training)
    for batch in batches:
        assert eager(batch).numpy().tobytes() == captured(batch).numpy().tobytes()
    assert eager.size.numpy().tobytes() == captured.size.numpy().tobytes()
assert len(captured.plans) == 2
captured.train()
graph = captured.graph(x)
assert [node.op.name for node in graph.nodes].count("cond") == 1
print(graph)

# %% It goes where other layers go: into models, lists of parameters, checkpoints and copies.
model = nn.Sequential(ScaledLinear(3, 16), nn.SiLU(), nn.Dropout(0.1), nn.Linear(16, 1))
state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
assert "0.size" in state
twin = nn.Sequential(ScaledLinear(3, 16), nn.SiLU(), nn.Dropout(0.1), nn.Linear(16, 1))
twin.load_state_dict(state)
assert model.eval()(x).numpy().tobytes() == twin.eval()(x).numpy().tobytes()

# %% A training step with it is one plan: forward and backward pass, optimizer, and its statistics.
model.train()
optimizer = hy.optim.Adam(model.parameters(), lr=0.01)
target = hy.sin(x[:, :1]) + x[:, 1:2] / 10


@hy.hybridize
def step(x, target):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


losses = [step(x, target).item() for _ in range(200)]
print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
assert losses[-1] < losses[0] / 3
assert len(step.plans) == 1

# %% In a loop over time it is one node with the rest of the body, however long the sequence.
recurrent = ScaledLinear(3, 3).eval()


@hy.hybridize
def unroll(x):
    h = hy.zeros(3)
    for row in x:
        h = hy.tanh(recurrent(row) + h)
    return h


assert unroll(x).numpy().tobytes() == unroll.function(x).numpy().tobytes()
assert [node.op.name for node in unroll.graph(x).nodes].count("for") == 1

# %% Bad arguments meet an error where they are given.
try:
    ScaledLinear(3, 2, momentum=2)
except ValueError as error:
    assert str(error) == "momentum is 2; give a number from 0 to 1"
else:
    raise AssertionError("a momentum of 2 was accepted")

# %% The layers of the package are written in the same way; hybrid/nn is the place to read on.
# Their tests are one table, tests/nn/layer_cases.py: what each computes in NumPy, how its
# parameters are called and shaped, what it prints; and that a plan of it has the same bits.
