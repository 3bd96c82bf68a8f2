"""Go on while the machine computes: streams, submit, errors at the wait, and parallel branches."""

# %% Eagerly, an operation returns when it is done. In the block of a stream it returns at once: a
# thread of the C library does the work in order, without the GIL, and Python goes on. The result
# has its type at once; whatever reads its value waits for it.
import time

import numpy as np

import hybrid as hy

a = hy.random.normal(size=(1000, 1000))
_ = [a @ a for _ in range(10)]  # the first products of a process take longer


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, 1000 * (time.perf_counter() - start)


stream = hy.stream()


def products():
    return [a @ a for _ in range(10)]


def queued_products():
    with stream:
        return products()


queued_products()
stream.wait()  # so that memory for all ten is there
expected, at_once = timed(products)
found, to_return = timed(queued_products)
_, to_finish = timed(hy.wait_all)
print(f"at once {at_once:.1f} ms; queued in {to_return:.2f} ms, done {to_finish:.1f} ms later")
assert to_return < to_finish

# %% The bits are those of the same code without a stream: random draws, gradients and what is
# written to tensors included. A tensor is a cell that holds a value: work that is queued keeps the
# values it was given, whatever is written to the cells later.
assert all(np.array_equal(x, y) for x, y in zip(expected, found, strict=True))
x = hy.asarray([1.0, 2.0, 3.0])
with stream:
    twice = x * 2
    x += 100
    both = twice + x
assert both.tolist() == [103.0, 106.0, 109.0]  # tolist() waits
assert twice.tolist() == [2.0, 4.0, 6.0]

# %% `stream.wait(timeout)` says whether all is done, `stream.done()` does not wait at all. Python
# may do what it likes meanwhile: read a file, draw a picture, prepare the next batch.
with stream:
    y = a
    for _ in range(10):
        y = y @ a / 1000
prepared = [line.split() for line in ["while", "the machine", "multiplies"]]
assert stream.wait(timeout=60) and stream.done()

# %% A hybridized function or module has `submit`: the call is queued as one piece, and its result,
# tensors that wait for their values, goes into the next call. So a training loop need not wait for
# a step before it prepares the next; what is read now and then is waited for.
model = hy.nn.Sequential(hy.nn.Linear(64, 128), hy.nn.Tanh(), hy.nn.Linear(128, 1))
optimizer = hy.optim.Adam(model.parameters(), lr=1e-3)


@hy.hybridize
def step(x, y):
    optimizer.zero_grad()
    loss = hy.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


losses = []
for _ in range(50):
    x = hy.random.normal(size=(128, 64))
    losses.append(step.submit(x, hy.sin(x).sum(axis=1, keepdims=True)))
assert losses[-1].item() < losses[0].item()
weight = model[0].weight.numpy()  # written by the last step, which has been waited for
assert np.isfinite(weight).all()


# %% What fails is raised by whoever waits for it, with the line that queued it; what was queued
# later is cancelled. Tensors that were written since then hold what they held before, as if the
# program had ended at the failing line. The stream can be used on.
@hy.hybridize
def look_up(table, index):
    return hy.take(table, index)


table, total = hy.asarray([10.0, 20.0, 30.0]), hy.asarray(0.0)
with stream:
    total += look_up(table, hy.asarray([2])).sum()
    missing = look_up(table, hy.asarray([3]))
    total += missing.sum()
    later = table * 2
try:
    print(missing)
except IndexError as error:
    print(error)
    assert "return hy.take(table, index)" in str(error)
else:
    raise AssertionError("there is no row 3")
assert total.item() == 30.0
try:
    print(later)
except RuntimeError as error:  # a CancelledError, which says why
    assert "a value was never computed" in str(error) and "IndexError" not in type(error).__name__
else:
    raise AssertionError("it was queued after the failure")
with stream:
    later = table * 2
assert later.tolist() == [20.0, 40.0, 60.0]

# %% Several streams work side by side; what needs a value of another stream waits for it there,
# while Python goes on. Large kernels use all threads anyway, so several streams pay where kernels
# are small, or where one of them waits.
left, right = hy.stream(), hy.stream()
with left:
    p = hy.tanh(a[:200] @ a)
with right:
    q = hy.tanh(a[200:400] @ a)
    r = p + q  # waits for the other stream, on this one's thread
assert np.array_equal(r, hy.tanh(a[:200] @ a) + hy.tanh(a[200:400] @ a))


# %% Inside a hybridized function no streams are needed, and none are allowed: its graph says which
# steps depend on each other, and those that do not run side by side where that is worth it. Each
# line of the schedule tells what a step waits for, its wave, and its group. `hybrid bench parallel`
# measures such graphs, `hybrid bench async` the queueing above.
@hy.hybridize
def towers(a, b, *weights):
    for left, right in zip(weights[::2], weights[1::2], strict=True):
        a, b = hy.tanh(a @ left), hy.tanh(b @ right)
    return a + b


weights = [hy.random.normal(size=(256, 256)) * 0.1 for _ in range(8)]
inputs = [hy.random.normal(size=(8, 256)) for _ in range(2)]
together = towers(*inputs, *weights)
schedule = towers.plans[0].schedule()
print(schedule)
assert "side by side" in schedule or "group" in schedule
assert np.array_equal(towers.submit(*inputs, *weights), together)


@hy.hybridize
def with_a_stream(x):
    with hy.stream():
        return x + 1


try:
    with_a_stream(hy.ones(3))
except RuntimeError as error:
    assert "a stream inside a hybridized function" in str(error)
else:
    raise AssertionError("a capture has no streams")
