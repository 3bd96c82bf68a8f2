"""Control flow: ordinary if, while, for, break and return, captured into one graph."""

# %% A branch on the value of a tensor, written as ordinary Python.
import contextlib
import io
import warnings

import hybrid as hy


@hy.hybridize
def shrink(x, limit):
    norm = hy.sqrt((x * x).sum())
    if norm > limit:
        x = x * (limit / norm)
    return x


# One capture holds both branches; which of them runs is decided in the graph, at every call.
small, large = hy.asarray([0.3, 0.4]), hy.asarray([3.0, 4.0])
assert shrink(small, hy.asarray(1.0)).tolist() == small.tolist()
assert hy.sqrt((shrink(large, hy.asarray(1.0)) ** 2).sum()).item() == 1.0
assert len(shrink.plans) == 1
print(shrink.graph(large, hy.asarray(1.0)))


# %% What is said of hybridize holds for control flow as well: the results are those of the function
# itself, to the last bit.
def same(function, *args):
    """The result of ``function``, after a look whether its hybridized twin comes to the same."""
    plain, captured = function(*args), hy.hybridize(function)(*args)
    plains = plain if isinstance(plain, tuple) else (plain,)
    captureds = captured if isinstance(captured, tuple) else (captured,)
    for left, right in zip(plains, captureds, strict=True):
        assert type(left) is type(right)
        if isinstance(left, hy.Tensor):
            assert left.numpy().tobytes() == right.numpy().tobytes()
        else:
            assert left == right
    return captured


# %% Loops end when their tensors say so.  A plain Python number that is counted on the way comes
# back as a plain Python number.
def square_root(x):
    guess, steps = x, 0
    while hy.abs(guess * guess - x) > 1e-5 * x:
        guess = (guess + x / guess) / 2
        steps += 1
    return guess, steps


root, steps = same(square_root, hy.asarray(2.0))
print(f"the square root of 2 is {root.item():.6f}, found in {steps} steps")
assert type(steps) is int and steps == 3


# %% break, continue, return from the middle and the else of a loop do what they do in Python.
def first_above(values, limit):
    for i, value in enumerate(values):
        if value <= 0:
            continue
        if value > limit:
            return i, value
    return -1, hy.zeros(())


values = hy.asarray([-9.0, 1.0, 5.0, 7.0])
assert same(first_above, values, hy.asarray(4.0))[0] == 2
assert same(first_above, values, hy.asarray(9.0))[0] == -1


def is_prime(n):
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            break
        divisor += 1
    else:
        return n > 1
    return hy.asarray(False)


assert [n for n in range(20) if is_prime(hy.asarray(n))] == [2, 3, 5, 7, 11, 13, 17, 19]
assert same(is_prime, hy.asarray(7919)).item()


# %% and, or and not are lazy, comparisons chain, and a ternary evaluates one side.
def careful(x, y):
    inside = 0 < x < 10 and not (y == 0 or x == y)
    return x / y if inside else x


assert same(careful, hy.asarray(6.0), hy.asarray(2.0)).item() == 3
assert same(careful, hy.asarray(6.0), hy.asarray(0.0)).item() == 6


# %% A loop over range(n) is kept as one node when its body allows it, so fifty steps are captured
# in the time of one.  A list that gets one tensor in each iteration becomes a stack.
weight = hy.random.normal(size=(8, 8)) / 3


def recur(inputs):
    h = hy.zeros(8)
    seen = []
    for t in range(50):
        h = hy.tanh(inputs[t] + weight @ h)
        seen.append(h)
    return hy.stack(seen)


inputs = hy.random.normal(size=(50, 8))
assert same(recur, inputs).shape == (50, 8)
graph = hy.hybridize(recur).graph(inputs)
assert [node.op.name for node in graph.nodes].count("for") == 1
print(f"{len(list(graph.walk()))} nodes for 50 steps")


# %% What does not depend on tensors is decided while capturing, as before, and costs nothing.
def stack_of_layers(x, layers, residual):
    for layer in layers:  # a Python list: unrolled
        x = x + layer(x) if residual else layer(x)
    return x


same(stack_of_layers, inputs, [hy.tanh, hy.sin, hy.tanh], True)
names = [
    node.op.name for node in hy.hybridize(stack_of_layers).graph(inputs, [hy.tanh], True).nodes
]
assert names == ["tanh", "add"]


# %% print and assert are kept, in order, and repeated by every run.
@hy.hybridize
def halve(x):
    assert x > 0, "only positive numbers"
    while x > 1:
        print("at", x.item())
        x = x / 2
    return x


halve(hy.asarray(2.0))  # captured
with contextlib.redirect_stdout(io.StringIO()) as printed:
    halve(hy.asarray(5.0))
assert printed.getvalue() == "at 5.0\nat 2.5\nat 1.25\n"
try:
    halve(hy.asarray(-1.0))
except AssertionError as error:
    assert str(error) == "only positive numbers"
else:
    raise AssertionError("the assert of the author is part of the graph")


# %% An exception that depends on a tensor is a jump to the clause that catches it, with what the
# function has written before.  Functions that are called may raise it, and loops be left by it.
def root(value):
    if value < 0:
        raise ValueError("no root", value)
    return value**0.5


@hy.hybridize
def sum_of_roots(values):
    total = hy.zeros(())
    try:
        for value in values:
            total += root(value)
    except ValueError as error:
        return total, error.args[1]
    return total, None


assert sum_of_roots(hy.asarray([4.0, 9.0]))[1] is None
total, culprit = sum_of_roots(hy.asarray([4.0, -1.0, 9.0]))
assert total.item() == 2 and culprit.item() == -1


# %% Names keep Python's meaning: one that no iteration has bound is unbound.
@hy.hybridize
def last_doubled(values):
    for value in values:
        if value > 0:
            doubled = 2 * value
    return doubled


assert last_doubled(hy.asarray([1.0, -1.0, 3.0])).item() == 6
try:
    last_doubled(hy.asarray([-1.0, -1.0, -3.0]))
except UnboundLocalError as error:
    print(error)
else:
    raise AssertionError("nothing was bound to `doubled`")


# %% Gradients pass through all of it, also through loops of unknown length: what the backward pass
# needs is put on a stack that grows.
def grow(x, y):
    while x < y:
        x = x * x + 1
    return x


slopes = hy.hybridize(hy.grad(grow, argnums=(0, 1)))
dx, dy = slopes(hy.asarray(1.1, dtype=hy.float64), hy.asarray(8.0, dtype=hy.float64))
print(f"the slope of grow is {dx.item():.6f}")
assert abs(dx.item() - 114.4339768) < 1e-9 and dy.item() == 0


# %% The branch that is not taken contributes nothing, not even a NaN.
def safe_log(x):
    return hy.log(x) if x > 0 else x * 0


assert hy.hybridize(hy.grad(safe_log))(hy.asarray(-1.0)).item() == 0
assert hy.hybridize(hy.grad(safe_log))(hy.asarray(0.5)).item() == 2


# %% A training loop is a loop like any other: forward pass, backward pass, optimizer and the sum of
# the losses, over all batches, in one call.
hy.random.seed(0)
model = hy.nn.Linear(4, 1)
optimizer = hy.optim.SGD(model.parameters(), lr=0.1)
inputs = hy.random.normal(size=(20, 16, 4))
targets = inputs.sum(axis=-1, keepdims=True)


@hy.hybridize
def epoch(inputs, targets):
    total = 0.0
    for x, y in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(inputs)


losses = [epoch(inputs, targets) for _ in range(5)]
print("mean losses:", ", ".join(f"{loss:.2g}" for loss in losses))
assert losses[-1] < losses[0] / 100
assert len(epoch.plans) == 1
assert [node.op.name for node in epoch.graph(inputs, targets).nodes].count("for") == 1


# %% Control flow can be written by hand, too.  Eagerly these are the Python statements that they
# stand for; captured they are the nodes.
def by_hand(x):
    x = hy.cond(x.sum() > 0, lambda x: x, lambda x: -x, x)
    x, n = hy.while_loop(
        lambda state: state[0].sum() < 100,
        lambda state: (state[0] * 2, state[1] + 1),
        (x, hy.asarray(0)),
    )
    total, sums = hy.scan(lambda carry, row: (carry + row, carry + row), hy.zeros(()), x)
    return total, sums, n


total, sums, n = same(by_hand, hy.asarray([-1.0, -2.0, -3.0]))
assert total.item() == 192 and sums.tolist() == [32, 96, 192] and n.item() == 5


# %% How many there are of something may depend on values: what a mask selects, what a loop appends.
# Such a function runs in stages, each planned for the sizes that the one before has found.  Where
# the two ways through a branch leave other shapes, each way is captured when it is first taken.
def positive(values):
    rows = hy.stack([value for value in values if value > 0])
    if rows.sum() > 5:
        rows = rows[:2]
    return rows * 2


selecting = hy.hybridize(positive)
for values in ([1.0, -2.0, 3.0], [1.0, 2.0, -3.0], [4.0, 5.0, 6.0]):
    mixed = hy.asarray(values)
    assert selecting(mixed).tolist() == positive(mixed).tolist()


# %% What cannot be captured raises, with the line, the reason and a way out.  Both ways through a
# branch have to leave the same structure, because a graph needs one.
@hy.hybridize
def ragged(x):
    y = x
    if x.sum() > 0:
        y = (x, x)
    return y


try:
    ragged(hy.ones(3))
except hy.HybridError as error:
    message = str(error)
    print(message)
for part in ("y is a tuple of 2", "04_control_flow.py", "Fix: "):
    assert part in message

# %% fallback="eager" runs such a function as it is, and warns once for each place.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    lenient = hy.hybridize(ragged.function, fallback="eager")
    assert len(lenient(hy.ones(3))) == len(lenient(hy.ones(3))) == 2
assert len(caught) == 1
