"""Functions that the tests of explanations explain; the tests pin their line numbers."""

import hybrid as hy
from hybrid import nn

SCALE = 2.0


def squash(h, limit):
    """Keep h small."""
    while hy.sum(h * h) > limit:
        h = h * 0.5
    return h


class Net(nn.Module):
    def __init__(self, width, depth):
        self.first = nn.Linear(width, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x, verbose=True):
        h = self.first(x) * SCALE
        if h.sum() > 0:
            h = hy.tanh(h)
            h = h * 3
        else:
            h = hy.relu(-h) if h.min() < -1 else -h
        # one by one
        for layer in self.layers:
            h = layer(h)
        for _ in range(50):
            h = hy.tanh(h)
        if verbose:
            print("norm", h.max())
        assert h.max() < 100, "too big"
        if not self.training:
            return h
        return squash(h, 4.0)


def search(xs, limit=10):
    total = hy.zeros(3)
    for i in range(limit):
        if xs[i].sum() > 3:
            break
        total = total + xs[i]
    return (
        total,
        i,
    )


def plain_loops(x, words, k):
    count = 0
    while count < k:
        x = x + count
        count += 1
    for word in words:
        count += len(word)
    rows = []
    for i in range(2):
        rows.append(x[: i + 1])
    return (
        [row * 2 for row in rows],
        count,
    )


@hy.no_convert
def unconverted(x):
    y = x + 1
    return y


def calls_unconverted(x):
    return unconverted(unconverted(x))


def wraps(function):
    def wrapper(*args):
        return function(*args)

    return wrapper


@wraps
def wrapped(x):
    return x * 2


def both(x):
    first = lambda v: v + 1  # noqa: E731
    return first(x) if x.sum() > 0 else wrapped(x)


class Counter:
    def __init__(self):
        self.seen = hy.zeros(())
        self.net = nn.Linear(2, 1)

    def count(self, x, *, names):
        self.seen = self.seen + 1
        return self.net(x) * self.seen


def indexed(xs, i):
    return xs[i.item()]
