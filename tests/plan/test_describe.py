"""Schedules as text: order, what waits for what, waves, and what runs side by side."""

import re

import numpy as np

import hybrid as hy
from hybrid.plan import make_plan
from tests.plan.test_schedule import towers


def test_members_stand_in_their_groups() -> None:
    lines = make_plan(towers()).schedule().splitlines()
    assert lines[0] == "towers: 7 steps in 4 waves, 1 group side by side"
    assert lines[1].split() == ["step", "waits", "for", "wave", "about", "what"]
    cells = [re.match(r" *(\d+) +(\d+) +(\d+) +([\d.]+) us  (.*)", line) for line in lines[2:]]
    rows = [(int(c[1]), int(c[2]), int(c[3]), c[5].split(" f32")[0]) for c in cells]
    assert rows == [
        (2, 0, 0, "group 1, member 1: matmul"),
        (3, 1, 1, "group 1, member 1: softmax"),
        (4, 1, 2, "group 1, member 1: matmul"),
        (5, 0, 0, "group 1, member 2: matmul"),
        (6, 1, 1, "group 1, member 2: softmax"),
        (7, 1, 2, "group 1, member 2: matmul"),
        (1, 2, 3, "add"),
    ]


def test_plans_of_functions_have_schedules_with_blocks_and_lines() -> None:
    @hy.hybridize
    def function(x):
        for _ in range(4):
            if x.sum() > 0:
                x = hy.tanh(x) @ x
        return x

    function(hy.asarray(np.eye(4, dtype=np.float32)))
    [info] = function.plans
    head, _, *lines = info.schedule().splitlines()
    assert head.startswith("function: ") and head.endswith(", 0 groups side by side")
    names = [line[37:].split(" ")[0] for line in lines if line[37] != " "]
    assert "for" in names
    inner = [line[37:].strip().split(" ")[0] for line in lines if line[37] == " "]
    parts = {op for name in inner for op in name.split("+")}
    assert {"sum", "greater", "cond"} <= parts
    assert all(re.search(r"  # test_describe.py:3\d$", line) for line in lines), lines
    assert "plan=" not in repr(info)
