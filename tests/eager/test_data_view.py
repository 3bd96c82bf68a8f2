"""``x.data``: the value of a tensor without its history, whose writes in place reach the tensor."""

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import GradientError, ShapeError


def add_in_place(p: hy.Tensor) -> None:
    p.data += 1


def multiply_a_name(p: hy.Tensor) -> None:
    w = p.data
    w *= 2
    w -= 1


def write_an_element(p: hy.Tensor) -> None:
    p.data[0] = 7.0


def replace(p: hy.Tensor) -> None:
    p.data = p.data * 3 - 1


def replace_by_a_function_of_itself(p: hy.Tensor) -> None:
    p.data = p * 3


def assign(p: hy.Tensor) -> None:
    p.data.assign(hy.zeros((3,)))


def twice_removed(p: hy.Tensor) -> None:
    p.data.data += 2


def in_a_branch(p: hy.Tensor) -> None:
    if p.sum() > 0:
        p.data += 1
    else:
        p.data -= 1


def in_a_loop(p: hy.Tensor) -> None:
    i = hy.asarray(0)
    while i < 3:
        p.data *= 2
        i = i + 1


def swap_and_restore(p: hy.Tensor) -> None:
    kept = p.data
    p.data = kept * 0 + 5
    p.data += kept
    p.data = kept + p.data


def without_gradients(p: hy.Tensor) -> None:
    with hy.no_grad():
        p.data -= 0.5 * p.data


WRITES = [
    add_in_place,
    multiply_a_name,
    write_an_element,
    replace,
    replace_by_a_function_of_itself,
    assign,
    twice_removed,
    in_a_branch,
    in_a_loop,
    swap_and_restore,
    without_gradients,
]
WRITTEN = [
    [2, 3, 4],
    [1, 3, 5],
    [7, 2, 3],
    [2, 5, 8],
    [3, 6, 9],
    [0, 0, 0],
    [3, 4, 5],
    [2, 3, 4],
    [8, 16, 24],
    [7, 9, 11],
    [0.5, 1, 1.5],
]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("kind", ["parameter", "tensor"])
@pytest.mark.parametrize(
    ("change", "after"),
    [*zip(WRITES, WRITTEN, strict=True)],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_writes_reach_the_tensor(
    change: Callable, after: list, kind: str, hybridized: bool
) -> None:
    p = nn.Parameter([1.0, 2.0, 3.0]) if kind == "parameter" else hy.asarray([1.0, 2.0, 3.0])
    (hy.hybridize(change) if hybridized else change)(p)
    assert p.tolist() == after
    assert p.requires_grad == (kind == "parameter")
    if kind == "parameter":
        (p * 2).sum().backward()  # it is a leaf as before
        assert p.grad.tolist() == [2, 2, 2]


def test_reading_gives_a_tensor_without_history() -> None:
    p = nn.Parameter([1.0, 2.0])
    assert isinstance(p.data, hy.Tensor)
    assert not isinstance(p.data, nn.Parameter)
    assert not p.data.requires_grad
    assert not (p.data * p.data).requires_grad
    y = p * 2
    assert y.data.tolist() == [2, 4]
    assert not y.data.requires_grad


def test_no_copy_is_made() -> None:
    p = nn.Parameter(np.zeros(1000, np.float32))
    shared = p.data
    assert shared.numpy().ctypes.data == p.numpy().ctypes.data


def test_what_was_read_stays_when_the_tensor_gets_another_value() -> None:
    p = nn.Parameter([1.0, 2.0])
    kept = p.data
    p.data = hy.asarray([5.0, 6.0])
    assert kept.tolist() == [1, 2]
    p.data = kept
    assert p.tolist() == [1, 2]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_writing_to_what_is_no_longer_the_value(hybridized: bool) -> None:
    def step(p: hy.Tensor) -> None:
        kept = p.data
        with hy.no_grad():
            p.assign(p * 2)
        kept += 1

    p = nn.Parameter([1.0, 2.0])
    with pytest.raises(GradientError, match=r"read from \.data \(f32\[2\]\) cannot be written"):
        (hy.hybridize(step) if hybridized else step)(p)
    assert p.tolist() == [2, 4]


def test_read_outside_and_written_in_a_branch() -> None:
    @hy.hybridize
    def step(p: hy.Tensor, x: hy.Tensor) -> None:
        kept = p.data
        if x.sum() > 0:
            kept[0] = 3.0

    with pytest.raises(GradientError, match=r"Fix: read \.data again where you write"):
        step(nn.Parameter([1.0, 2.0]), hy.ones(2))


def test_computed_tensors_are_not_written() -> None:
    p = nn.Parameter([1.0, 2.0])
    y = p * 2
    with pytest.raises(GradientError, match="computed from what requires a gradient"):
        y.data += 1
    assert y.tolist() == [2, 4]


def test_a_tensor_keeps_its_type() -> None:
    p = nn.Parameter([1.0, 2.0])
    with pytest.raises(ShapeError, match="A tensor keeps its type"):
        p.data = hy.zeros((3,))


def test_copies_are_plain_tensors() -> None:
    p = nn.Parameter([1.0, 2.0])
    for made in (copy.copy(p.data), copy.deepcopy(p.data), pickle.loads(pickle.dumps(p.data))):
        made += 1
        assert made.tolist() == [2, 3]
    assert p.tolist() == [1, 2]


def test_gradients_have_data_too() -> None:
    p = nn.Parameter([1.0, 2.0])
    (p * p).sum().backward()
    p.grad.data *= 0
    assert p.grad.tolist() == [0, 0]


def test_on_a_stream() -> None:
    p = nn.Parameter([1.0, 2.0])
    with hy.stream():
        for _ in range(3):
            p.data *= 2
            w = p.data
            w += 1
    assert p.tolist() == [15, 23]


# Attributes of that name of other objects: buffers of plans, UserDict, samples.
OTHERS = {
    "hybrid/bench/compare/cases.py": 1,
    "hybrid/bench/limits.py": 2,
    "hybrid/bench/workloads/digits_accuracy.py": 6,
    "hybrid/cli/commands/compress.py": 2,
    "hybrid/cli/commands/models.py": 1,
    "hybrid/cli/commands/train.py": 1,
    "hybrid/staging/sessions/views.py": 1,
    "hybrid/data/loops/queue_pass.py": 3,
    "hybrid/plan/interpret.py": 1,
    "hybrid/onnx/model_assembly.py": 1,
    "hybrid/onnx/model_storage.py": 3,
    "hybrid/plan/open_plan.py": 2,
    "hybrid/plan/plan.py": 2,
    "hybrid/memory/buffers.py": 4,
    "hybrid/weights/read.py": 1,
    "hybrid/eager/fused_calls.py": 2,
}


def test_the_library_reads_content_where_it_means_the_buffer() -> None:
    root = Path(hy.__file__).parents[1]
    found = {}
    for path in sorted(
        {*(root / "hybrid").rglob("*.py")} - {root / "hybrid/eager/frameworks/data_view.py"}
    ):
        lines = path.read_text(encoding="utf-8").splitlines()
        code = [line for line in lines if "import" not in line and "``" not in line]
        count = sum(len(re.findall(r"(?<!hybrid)(?<!hy)\.data\b", line)) for line in code)
        if count:
            found[path.relative_to(root).as_posix()] = count
    assert found == OTHERS, "x.data makes a tensor; the buffer of a tensor is x.content"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_name_that_a_branch_binds_anew(sign: float) -> None:
    def change(p: hy.Tensor, x: hy.Tensor) -> hy.Tensor:
        w = p.data
        if x.sum() > 0:
            w = w * 2
        w += 1
        return w

    found = []
    for called in (change, hy.hybridize(change)):
        p = nn.Parameter([1.0, 2.0])
        found.append((called(p, hy.asarray([sign])).tolist(), p.tolist(), p.requires_grad))
    assert found[0] == found[1]
    assert found[0][1] == ([1, 2] if sign > 0 else [2, 3])


def test_writing_to_one_of_several_that_is_no_longer_the_value() -> None:
    """What a branch chooses is followed: it is the value of ``p`` that ``p`` no longer has."""

    def change(p: hy.Tensor, y: hy.Tensor, s: hy.Tensor) -> hy.Tensor:
        w = p.data
        chosen = w if s > 0 else y
        p.assign(p + 1)
        chosen += 1
        return p * 1

    for called in (change, hy.hybridize(change)):
        p, y = hy.asarray([1.0, 2.0]), hy.asarray([5.0, 6.0])
        with pytest.raises(GradientError, match=r"\.data .* cannot be written in place here"):
            called(p, y, hy.asarray(1.0))
        assert y.tolist() == [5, 6]


def test_writing_to_one_of_several_reaches_the_tensor() -> None:
    def change(p: hy.Tensor, y: hy.Tensor, s: hy.Tensor) -> hy.Tensor:
        w = p.data
        chosen = w if s > 0 else y
        chosen += 1
        return p * 1

    for s, after in ((1.0, [[2, 3], [5, 6]]), (-1.0, [[1, 2], [6, 7]])):
        for called in (change, hy.hybridize(change)):
            p, y = hy.asarray([1.0, 2.0]), hy.asarray([5.0, 6.0])
            assert called(p, y, hy.asarray(s)).tolist() == after[0]
            assert [p.tolist(), y.tolist()] == after
