"""Ring: rows are told once each, in order, before they are written again."""

import numpy as np

from hybrid.core import loop_io as ring
from hybrid.core.loop_io import ROWS, Looker


def test_rows_are_told_in_order(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(ring.time, "monotonic", lambda: clock[0])
    told = []
    looker = Looker()
    looker.begin(5, lambda first, rows: told.append((first, rows[:, 0].tolist())))
    rows = np.zeros((ROWS, 1))
    for step in range(6, 2 * ROWS):
        rows[(step - 1) % ROWS] = step
        if step == 6:
            clock[0] = 1e-3  # a step a millisecond: a hundred until the next look
            due = looker.look(rows, step)
            assert due == 6 + 100
        elif step == due:
            clock[0] += 1e-9  # faster than the ring is large
            due = looker.look(rows, step)
            assert due <= step + ROWS
    looker.look(rows, step)
    assert [n for _, values in told for n in values] == list(range(6, 2 * ROWS))
    assert all(first == values[0] for first, values in told)
    assert looker.seen == 2 * ROWS - 1


def test_slow_steps_are_told_each(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(ring.time, "monotonic", lambda: clock[0])
    looker = Looker()
    looker.begin(0, None)
    rows = np.zeros((ROWS, 1))
    for step in (1, 2, 3):
        clock[0] += 3.0
        assert looker.look(rows, step) == step + 1


def test_what_raises_is_not_told_again():
    looker, told = Looker(), []

    def raises(first, rows):
        told.append((first, len(rows)))
        if first == 1:
            raise KeyError(first)

    looker.begin(0, raises)
    rows = np.zeros((ROWS, 1))
    try:
        looker.look(rows, 3)
    except KeyError:
        looker.look(rows, 4)
    assert told == [(1, 3), (4, 1)]
