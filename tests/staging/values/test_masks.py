"""Masks that do not depend on the call: they select elements in captures as constants."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, describe, draw, f32, i64

table = Table()
MASK = hy.asarray([True, False, True, True])
NONE = hy.asarray([False] * 4)
PAIRS = hy.asarray([[True, False, True], [False, False, True], [True, True, True], [False] * 3])
LABELS = i64([0, 1, 1, 2])
ARRAY = np.array([False, True, True, False])
X = (draw(4), draw(4, seed=1))
Y = (draw(4, 3), draw(4, 3, seed=1))


@table.runs(*X)
def a_global(x):
    return x[MASK] * 2, x[~MASK], x[NONE]


@table.runs(*X)
def an_array(x):
    return x[ARRAY], x[hy.asarray(ARRAY)]


@table.makes(*X)
def a_variable_of_the_function_around():
    mask = hy.asarray([False, True, False, True])
    return lambda x: hy.sum(x[mask] ** 2)


@table.runs(*Y)
def masks_of_rows_columns_and_elements(y):
    columns = hy.asarray([True, False, True])
    return y[MASK], y[:, columns], y[PAIRS], y[MASK, 1], y[2, columns], y[None, PAIRS]


@table.runs(*X)
def masks_that_are_computed(x):
    n = x.shape[0]
    near = hy.abs(LABELS[:, None] - LABELS[None, :]) <= 1
    causal = hy.arange(n)[:, None] >= hy.arange(n)
    return (x[None] * x[:, None])[near & causal], x[LABELS == 1], hy.nonzero(LABELS)[0]


@table.runs(*X)
def a_mask_without_dimensions(x):
    return x[hy.asarray(True)], x[hy.sum(LABELS) > 9]


@table.runs(*X)
def elements_are_set(x):
    y = x * 1
    y[MASK] = x[:3]
    z = x * 2
    z[MASK] = 0.5
    z[~MASK] += 1
    return y, z


@table.runs(*X)
def gradients_inside(x):
    return hy.grad(lambda v: hy.sum(v[MASK] ** 3) * hy.sum(v))(x)


@table.runs(f32([1, 2, 3, 4]), f32([-1, -2, 3, -4]))
def inside_branches(x):
    y = x[MASK]
    if hy.sum(x) > 0:
        y = x[LABELS < 2]
        if x[0] > 0.5:
            y = y * y[hy.asarray([True, True, True])]
    return y


@table.runs(*X)
def inside_loops(x):
    total = hy.sum(x) * 0
    for row in hy.stack([x, x * 2]):
        total = total + hy.sum(row[MASK])
    while total < 10:
        total = total + 1 + hy.sum(x[MASK] ** 2)
        if total > 5:
            total = total + hy.max(x[~MASK])
    return total


@table.runs(*X)
def groups_by_the_index_of_a_loop(x):
    sums = []
    for label in range(3):
        sums.append(hy.mean(x[label == LABELS]))
    return hy.stack(sums)


@table.runs(*X)
def a_mask_of_the_function_changes_in_a_loop(x):
    mask, total = hy.asarray([True] * 4), hy.sum(x)
    for i in range(4):
        total = total + hy.sum(x[mask] ** 2)
        mask[i] = False
    return total


@table.runs(*X)
def a_mask_of_the_function_changes_in_a_branch(x):
    mask = hy.asarray([True] * 4)
    y = x[mask]
    mask[0] = False
    return hy.sum(y) - hy.sum(x[mask])


class Sparse(hy.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = hy.nn.Parameter(f32([1.0, 2.0, 3.0, 4.0]))
        self.register_buffer("mask", hy.asarray([True, True, False, True]))

    def forward(self, x):
        return hy.sum(self.weight[self.mask] * x[self.mask])


@table.makes(*X)
def a_buffer_of_a_module():
    module = Sparse()
    return module.forward, module


@table.each()
def test_same_as_eager(program: Program) -> None:
    program.check()
    program.check_coverage()


def test_a_change_of_the_content_is_another_capture() -> None:
    mask, x = hy.asarray([True, False, True]), f32([1.0, 2.0, 3.0])
    f = hy.hybridize(lambda v: v[mask])
    assert f(x).tolist() == [1.0, 3.0]
    mask[1] = True
    assert f(x).tolist() == [1.0, 2.0, 3.0]
    assert f.plans[-1].why == (
        "the content of a tensor (bool[3]) that elements are selected by has changed"
    )
    mask[1] = False
    assert f(x).tolist() == [1.0, 3.0]
    assert len(f.plans) == 2


def test_a_change_of_the_content_past_this_package_is_seen() -> None:
    memory = np.array([True, False, True])
    mask = hy.asarray(memory, copy=False)
    f = hy.hybridize(lambda v: v[mask])
    x = f32([1.0, 2.0, 3.0])
    assert f(x).tolist() == [1.0, 3.0]
    memory[1] = True
    assert f(x).tolist() == x[mask].tolist()


def test_another_buffer_with_the_same_content_needs_no_capture() -> None:
    module = Sparse()
    f = hy.hybridize(module)
    x = f32([1.0, 1.0, 1.0, 1.0])
    assert f(x).item() == 7.0
    module.mask = hy.asarray([True, True, False, True])
    assert f(x).item() == 7.0
    assert len(f.plans) == 1
    module.mask = hy.asarray([True, False, False, True])
    assert f(x).item() == 5.0
    assert len(f.plans) == 2


def test_another_global_is_another_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = hy.hybridize(a_global), f32([1.0, 2.0, 3.0, 4.0])
    f(x)
    monkeypatch.setitem(globals(), "MASK", hy.asarray([False, False, False, True]))
    assert f(x)[0].tolist() == [8.0]


def depends_on_an_argument(x):
    return x[x > 0]


def is_an_argument(x, mask=MASK):
    return x[mask]


def depends_on_what_is_trained(x):
    return x[WEIGHT > 0]


def is_random(x):
    return x[hy.random.uniform(size=(4,)) > 0.5]


def depends_on_a_carried_value(x):
    mask, total = MASK, hy.sum(x)
    while total < 10:
        total = total + 1 + hy.sum(x[mask])
        mask = ~mask
    return total


def is_changed_after_the_loop_has_used_it(x):
    mask, total = hy.asarray([True] * 4), hy.sum(x)
    while total < 10:
        total = total + 1 + hy.sum(x[mask])
        mask[0] = False
    return total


def is_changed_afterwards(x):
    y = x[BUFFER]
    BUFFER[0] = False
    return y


def is_changed_before(x):
    BUFFER[0] = False
    return x[BUFFER]


WEIGHT = hy.nn.Parameter(f32([1.0, -1.0, 1.0, 1.0]))
BUFFER = hy.asarray([True, False, True, True])
CHANGED = (
    "a tensor (bool[4]) is changed that elements were selected by",
    "How many a mask selects is a size in the graph, so its value is a constant of the plan.",
)
KEEP = (
    "keep the shape: hybrid.where(mask, x, 0), with what changes no sum, product or maximum in "
    "place of 0"
)


@pytest.mark.parametrize(
    "function",
    [
        depends_on_an_argument, is_an_argument, depends_on_what_is_trained, is_random,
        depends_on_a_carried_value, is_changed_before,
    ],
)  # fmt: skip
def test_what_depends_on_the_call_selects(function) -> None:
    hybridized = hy.hybridize(function)
    for x in (f32([1.0, 2.0, -3.0, 4.0]), f32([-1.0, 2.0, -3.0, 9.0])):
        given = (x, x < 3) if function is is_an_argument else (x,)
        found = []
        for called in (function, hybridized):
            hy.random.seed(1)
            BUFFER.assign(hy.asarray([True, False, True, True]))
            found.append((describe(called(*given)), BUFFER.tolist()))
        BUFFER.assign(hy.asarray([True, False, True, True]))
        assert found[0] == found[1]


@pytest.mark.parametrize(
    ("function", "line", "what", "fix"),
    [
        (is_changed_after_the_loop_has_used_it, 4, CHANGED,
         f"change it outside the hybridized function, or {KEEP}"),
        (is_changed_afterwards, 2, CHANGED,
         f"change it outside the hybridized function, or {KEEP}"),
    ],
    ids=lambda case: getattr(case, "__name__", None),
)  # fmt: skip
def test_what_is_changed_is_no_constant(function, line, what, fix) -> None:
    before = BUFFER.tolist()
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(f32([1.0, 2.0, -3.0, 4.0]))
    assert (caught.value.what, caught.value.why) == what
    assert caught.value.fix == fix
    assert caught.value.at.line == function.__code__.co_firstlineno + line
    assert BUFFER.tolist() == before


def test_a_mask_that_depends_on_a_number_keeps_the_number_from_being_an_input() -> None:
    f = hy.hybridize(lambda x, k: x[hy.arange(4) < k] * k)
    x = f32([1.0, 2.0, 3.0, 4.0])
    for k in (1, 2, 3, 4, 2):
        assert f(x, k).tolist() == [float(v * k) for v in range(1, k + 1)]


def test_the_fix_runs() -> None:
    def keeps_the_shape(x, mask):
        return hy.sum(hy.where(mask, x, 0)), hy.sum(hy.where(x > 0, x, 0))

    x = f32([1.0, 2.0, -3.0, 4.0])
    got = hy.hybridize(keeps_the_shape)(x, MASK)
    assert [v.item() for v in got] == [hy.sum(x[MASK]).item(), hy.sum(x[x > 0]).item()]


def test_rows_of_vmap() -> None:
    f = hy.hybridize(hy.vmap(lambda row: hy.sum(row[MASK] ** 2)))
    assert f(draw(3, 4)).tolist() == [hy.sum(row[MASK] ** 2).item() for row in draw(3, 4)]
