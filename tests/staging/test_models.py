"""Whole algorithms: Newton, recurrent networks, beam search; and how large their graphs are."""

import sys
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, draw, f32, f64, i64

table = Table()
STEPS, HIDDEN, INPUT = 50, 6, 4


def weights(*shape: int, seed: int = 0) -> hy.Tensor:
    return draw(*shape, seed=seed) * 0.3


GATES = [
    weights(INPUT, 4 * HIDDEN, seed=1),
    weights(HIDDEN, 4 * HIDDEN, seed=2),
    weights(24, seed=3),
]
SEQUENCES = [draw(STEPS, 2, INPUT, seed=s) for s in (4, 5)]


@table.runs(*[(f64(v), 1e-10) for v in (2.0, 9.0, 0.1)], plans=2)
def newton(a, tolerance):
    x, trips = a, 0
    while True:
        step = (x * x - a) / (2 * x)
        x = x - step
        trips += 1
        if hy.abs(step) < tolerance:
            break
    return x, trips


@table.runs(draw(64, seed=1), draw(64, seed=2))
def sines_until_small(x):
    n = 0
    while hy.sum(x * x) > 0.5 and n < 200:
        x = x - 0.1 * hy.sin(x)
        n += 1
    return x, n


@table.runs(*[(xs, *GATES[1:]) for xs in (draw(STEPS, 2, 24), draw(STEPS, 2, 24, seed=1))])
def plain_recurrence(xs, wh, b):
    h = hy.zeros((2, HIDDEN))
    outputs = []
    for t in range(STEPS):
        h = hy.tanh((xs[t] + h @ wh + b)[:, :HIDDEN])
        outputs.append(h)
    return hy.stack(outputs), h


@table.runs(*[(xs, *GATES) for xs in SEQUENCES])
def lstm(xs, wx, wh, b):
    h = c = hy.zeros((2, HIDDEN))
    outputs = []
    for x in xs:
        i, f, g, o = hy.chunk(x @ wx + h @ wh + b, 4, axis=1)
        c = hy.sigmoid(f) * c + hy.sigmoid(i) * hy.tanh(g)
        h = hy.sigmoid(o) * hy.tanh(c)
        outputs.append(h)
    return hy.stack(outputs), h, c


@table.runs(*[(xs, *GATES) for xs in SEQUENCES])
def lstm_with_state_in_a_dict(xs, wx, wh, b):
    def cell(x, state):
        i, f, g, o = hy.chunk(x @ wx + state["h"] @ wh + b, 4, axis=1)
        c = hy.sigmoid(f) * state["c"] + hy.sigmoid(i) * hy.tanh(g)
        return {"h": hy.sigmoid(o) * hy.tanh(c), "c": c}

    state = {"h": hy.zeros((2, HIDDEN)), "c": hy.zeros((2, HIDDEN))}
    for t in range(xs.shape[0]):
        state = cell(xs[t], state)
    return state


@table.runs(*[(xs, i64(n), *GATES) for xs in SEQUENCES for n in (0, 3, 50)])
def lstm_of_a_length(xs, n, wx, wh, b):
    """Rows past the length keep the state."""
    h = c = hy.zeros((2, HIDDEN))
    for t in range(STEPS):
        i, f, g, o = hy.chunk(xs[t] @ wx + h @ wh + b, 4, axis=1)
        if t < n:
            c = hy.sigmoid(f) * c + hy.sigmoid(i) * hy.tanh(g)
            h = hy.sigmoid(o) * hy.tanh(c)
    return h, c


@table.runs(*[(xs, *GATES) for xs in SEQUENCES])
def both_directions(xs, wx, wh, b):
    def run(order):
        h = hy.zeros((2, HIDDEN))
        outputs = []
        for t in order:
            h = hy.tanh((xs[t] @ wx + h @ wh + b)[:, :HIDDEN])
            outputs.append(h)
        return outputs

    forwards, backwards = run(range(STEPS)), run(reversed(range(STEPS)))
    backwards.reverse()
    return hy.stack([hy.concat(pair, axis=1) for pair in zip(forwards, backwards, strict=True)])


@table.makes(*SEQUENCES, plans=1)
def recurrent_module():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.input = nn.Linear(INPUT, HIDDEN)
            self.hidden = nn.Linear(HIDDEN, HIDDEN)
            self.out = nn.Linear(HIDDEN, 2)

        def forward(self, xs):
            h = hy.zeros((2, HIDDEN))
            for x in xs:
                h = hy.tanh(self.input(x) + self.hidden(h))
            return self.out(h)

    net = Recurrent()
    return net, net


@table.runs(*[(draw(6, 8, seed=s), i64(n)) for s in (1, 2) for n in (0, 3, 12)], grad=False)
def greedy_decoder(table_of, stop):
    """Tokens until the stop token or ten of them."""
    token, tokens, score = i64(1), hy.full(10, -1, dtype=hy.int64), hy.zeros(())
    n = 0
    while n < 10:
        logits = table_of[token % 6] + hy.sin(score)
        token = hy.argmax(logits)
        score = score + hy.max(hy.log_softmax(logits))
        tokens[n] = token
        n += 1
        if token == stop:
            break
    return tokens, score, n


@table.runs(
    *[(draw(5, 5, seed=s), f32(limit)) for s in (1, 2) for limit in (-2.0, -20.0)], grad=False
)
def beam_search(logits, limit):
    """Three beams over a Markov chain; ends when the best one falls below the limit."""
    table_of = hy.log_softmax(logits, axis=1)
    scores = hy.asarray([0.0, -1e9, -1e9])
    last = hy.zeros(3, dtype=hy.int64)
    paths = hy.zeros((3, 8), dtype=hy.int64)
    for t in range(8):
        grown = hy.flatten(scores[:, None] + hy.take(table_of, last, axis=0))
        kept, found = [], []
        for _ in range(3):
            k = hy.argmax(grown)
            kept.append(hy.max(grown))
            found.append(k)
            grown = hy.where(hy.arange(15) == k, -1e9, grown)
        scores, flat = hy.stack(kept), hy.stack(found)
        paths = hy.take(paths, flat // 5, axis=0)
        last = flat % 5
        paths[:, t] = last
        if scores[0] < limit:
            break
    return paths, scores, t


@table.runs(*[(draw(4, 4, seed=s), draw(4, seed=s)) for s in (1, 2)])
def conjugate_gradient(a, b):
    a = a @ a.T + hy.eye(4) * 4
    x = b * 0
    r = p = b
    rs = hy.sum(r * r)
    n = 0
    while rs > 1e-6 and n < 10:
        ap = a @ p
        alpha = rs / hy.sum(p * ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = hy.sum(r * r)
        p = r + (new / rs) * p
        rs = new
        n += 1
    return x, n


@table.runs(*[draw(4, 4, seed=s) for s in (1, 2)])
def power_iteration(a):
    v = hy.ones(4)
    value = hy.zeros(())
    for _ in range(100):
        w = a @ v
        new = hy.sqrt(hy.sum(w * w))
        v = w / new
        if hy.abs(new - value) < 1e-4:
            break
        value = new
    return v, value


@table.runs(*[(f64(x), f64(0.1)) for x in (1.0, -3.0)])
def runge_kutta(y, dt):
    def slope(v):
        return hy.sin(v) if v > 0 else -v

    for _ in range(20):
        k1 = slope(y)
        k2 = slope(y + 0.5 * dt * k1)
        k3 = slope(y + 0.5 * dt * k2)
        k4 = slope(y + dt * k3)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@table.runs(*[draw(7, seed=s) for s in (1, 2)])
def bubble_sort(x):
    y = x * 1
    for i in range(7):
        for j in range(6 - i):
            if y[j] > y[j + 1]:
                a, b = y[j], y[j + 1]
                y[j] = b
                y[j + 1] = a
    return y


@table.runs(*[(draw(9, seed=s), f32(v)) for s in (1, 2) for v in (-0.5, 0.0, 9.0)], grad=False)
def binary_search(x, value):
    x = hy.stack([x[i] * 0 + i for i in range(9)])
    low, high = 0, 9
    while low < high:
        middle = (low + high) // 2
        if x[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@table.runs(
    *[(draw(6, 2, seed=s), draw(2, 2, seed=s) * far) for s, far in ((1, 1), (2, 50))], grad=False
)
def two_means(points, centres):
    n = 0
    moved = hy.asarray(True)
    while moved and n < 20:
        distance = hy.cdist(points, centres)
        nearest = hy.argmin(distance, axis=1)
        means = []
        for k in range(2):
            mask = hy.astype(nearest == k, hy.float32)
            size = hy.sum(mask)
            if size > 0:
                means.append(hy.sum(points * mask[:, None], axis=0) / size)
            else:
                means.append(centres[k])
        new = hy.stack(means)
        moved = hy.any(new != centres)
        centres = new
        n += 1
    return centres, n


@table.runs(*[draw(5, 3, seed=s) for s in (1, 2)])
def attention_row_by_row(x):
    outputs = []
    for i in range(5):
        weights_of = hy.softmax(hy.vecdot(x, x[i][None, :]))
        outputs.append(hy.sum(x * weights_of[:, None], axis=0))
    return hy.stack(outputs)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (lstm, (SEQUENCES[0], *GATES), 60),
        (lstm_with_state_in_a_dict, (SEQUENCES[0], *GATES), 60),
        (plain_recurrence, (draw(STEPS, 2, 24), *GATES[1:]), 60),
        (newton, (f64(2.0), 1e-10), 60),
        (runge_kutta, (f64(1.0), f64(0.1)), 150),
        (sines_until_small, (draw(64),), 60),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_graphs_stay_small(function, args, lines) -> None:
    text = str(hy.hybridize(function).graph(*args))
    assert len(text.splitlines()) < lines, text


def test_a_step_is_traced_a_few_times() -> None:
    """Of a loop of 50 steps, not 50 times."""

    def cell(x, h):
        return hy.tanh(x + h)

    def run(xs):
        h = hy.zeros(3)
        for x in xs:
            h = cell(x, h)
        return h

    calls = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_name == "cell":
            calls.append(event)

    sys.setprofile(note)
    try:
        hy.hybridize(run).graph(draw(50, 3))
    finally:
        sys.setprofile(None)
    assert 1 <= len(calls) <= 8
