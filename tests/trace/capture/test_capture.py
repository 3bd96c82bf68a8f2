"""Captures: the state that a captured function leaves behind is that of eager, at every call."""

import functools
import types

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.helpers import leaf, same, tensor


def test_cells_are_inputs_and_written_back() -> None:
    total = hy.zeros(2)

    def add(x):
        total.assign(total + x)
        return total * 1

    hybridized = hy.hybridize(add)
    for n in range(1, 5):
        before = total.detach()
        assert hybridized(hy.ones(2)).tolist() == [float(n)] * 2
        assert total.tolist() == [float(n)] * 2
        assert before.tolist() == [float(n - 1)] * 2  # a value once read never changes
    total.assign(hy.asarray([10.0, 20.0]))
    assert hybridized(hy.ones(2)).tolist() == [11.0, 21.0]
    assert len(hybridized.plans) == 1


def test_views_of_a_written_cell_keep_their_value() -> None:
    cell = hy.zeros(3)

    def bump():
        cell.assign(cell + 1)

    hybridized = hy.hybridize(bump)
    hybridized()
    view = cell.numpy()
    hybridized()
    hybridized()
    assert view.tolist() == [1.0, 1.0, 1.0]
    assert cell.tolist() == [3.0, 3.0, 3.0]


def test_in_place_operators_write_the_argument() -> None:
    def function(x, y):
        x += y
        x[0] = 7.0
        return x

    x = hy.zeros(3)
    hybridized = hy.hybridize(function)
    assert hybridized(x, hy.ones(3)) is x
    assert x.tolist() == [7.0, 1.0, 1.0]


def test_tensor_attributes_are_places() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = hy.zeros(())

        def step(self, x):
            hy.Tensor.assign(self.count, self.count + x)
            return self.count * 2

    counter = Counter()
    step = hy.hybridize(counter.step)
    assert [step(hy.ones(())).item() for _ in range(3)] == [2.0, 4.0, 6.0]
    counter.count = hy.asarray(10.0)
    assert step(hy.ones(())).item() == 22.0
    assert len(step.plans) == 1


def test_a_training_step_is_one_plan() -> None:
    def make():
        w, b = leaf(3, 2, seed=1), leaf(2, seed=2)

        def step(x, y):
            w.grad = b.grad = None
            loss = hy.mean((hy.tanh(x @ w + b) - y) ** 2)
            loss.backward()
            with hy.no_grad():
                w.assign(w - 0.1 * w.grad)
                b.assign(b - 0.1 * b.grad)
            return loss

        return w, b, step

    x, y = tensor(4, 3, seed=3), tensor(4, 2, seed=4)
    w1, b1, eager = make()
    w2, b2, step = make()
    hybridized = hy.hybridize(step)
    for _ in range(6):
        assert same(eager(x, y), hybridized(x, y))
        for a, b in ((w1, w2), (b1, b2), (w1.grad, w2.grad), (b1.grad, b2.grad)):
            assert same(a, b)
    assert len(hybridized.plans) == 1
    held = w2.grad
    kept = held.numpy().copy()
    hybridized(x, y)
    assert held.numpy().tobytes() == kept.tobytes()  # a gradient in somebody's hands stays


def test_gradients_add_up_over_calls() -> None:
    w = leaf(3)

    def accumulate(x):
        hy.sum(w * x).backward()

    hybridized = hy.hybridize(accumulate)
    for n in range(1, 4):
        hybridized(hy.ones(3))
        assert w.grad.tolist() == [float(n)] * 3
    w.grad = None
    hybridized(hy.ones(3))
    assert w.grad.tolist() == [1.0] * 3
    assert len(hybridized.plans) == 2  # from no gradient, and from one


def test_slices_are_written_in_place() -> None:
    def function(x):
        x = x * 1
        part = x[:2]
        x[0] = 5.0
        x[1:] += 2
        part *= 0
        x[::2] = x[::2] * 10
        x[x > 40] = -1.0
        return x, part

    x = hy.asarray([1.0, 2.0, 3.0])
    for _ in range(2):
        for eager, planned in zip(function(x), HYBRIDIZED(function)(x), strict=True):
            assert same(eager, planned)
    assert x.tolist() == [1.0, 2.0, 3.0]


HYBRIDIZED = functools.lru_cache(hy.hybridize)


class Plain:
    """Attributes, no methods: nothing tells the package when one is written."""


@pytest.mark.parametrize("owner", [Plain(), types.SimpleNamespace(), types.ModuleType("state")])
def test_attributes_of_plain_objects_are_written(owner) -> None:
    owner.total = None

    def add(x):
        owner.total = x if owner.total is None else owner.total + x
        owner.last = x * 2
        return owner.total * 1

    hybridized = hy.hybridize(add)
    for n in range(1, 5):
        assert hybridized(hy.ones(2)).tolist() == [float(n)] * 2
        assert owner.total.tolist() == [float(n)] * 2
        assert owner.last.tolist() == [2.0, 2.0]
    assert len(hybridized.plans) == 2  # from nothing, and from then on
    owner.total = None
    assert hybridized(hy.ones(2)).tolist() == [1.0, 1.0]


def test_trees_in_attributes_are_written() -> None:
    owner = Plain()
    owner.state = (hy.zeros(1), hy.zeros(1))

    def step(x):
        h, c = owner.state
        owner.state = (h + x, {"c": c})
        owner.state = (owner.state[0], owner.state[1]["c"] + 2 * x)

    hybridized = hy.hybridize(step)
    for n in range(1, 4):
        hybridized(hy.ones(1))
        assert [t.tolist() for t in owner.state] == [[n], [2.0 * n]]


TOTAL = None


def test_globals_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(x):
        global TOTAL
        TOTAL = x * 1 if TOTAL is None else TOTAL + x

    monkeypatch.setitem(globals(), "TOTAL", None)
    hybridized = hy.hybridize(add)
    for n in range(1, 5):
        hybridized(hy.ones(2))
        assert TOTAL.tolist() == [float(n)] * 2
    assert len(hybridized.plans) == 2


def test_closure_variables_are_written() -> None:
    total = None

    def add(x):
        nonlocal total
        total = x * 1 if total is None else total + x

    hybridized = hy.hybridize(add)
    for n in range(1, 5):
        hybridized(hy.ones(2))
        assert total.tolist() == [float(n)] * 2
    assert len(hybridized.plans) == 2
    total = None
    hybridized(hy.ones(2))
    assert total.tolist() == [1.0, 1.0]


def test_attributes_of_classes_are_written() -> None:
    class Totals:
        total = hy.zeros(2)

    def add(x):
        Totals.total = Totals.total + x

    hybridized = hy.hybridize(add)
    for n in range(1, 4):
        hybridized(hy.ones(2))
        assert Totals.total.tolist() == [float(n)] * 2
    assert len(hybridized.plans) == 1


def test_a_refused_capture_forgets_cached_properties() -> None:
    class Scale:
        @functools.cached_property
        def factor(self):
            calls.append(1)
            return 2.0

    calls: list[int] = []
    scale = Scale()
    hybridized = hy.hybridize(lambda x: x * scale.factor)
    with pytest.raises(CaptureError, match="changed closure variable"):
        hybridized(hy.ones(1))
    assert calls == [] and "factor" not in vars(scale)


def test_a_value_read_before_a_write_stays() -> None:
    owner = types.SimpleNamespace(state=hy.zeros(2))

    def step(x):
        before = owner.state
        owner.state = before + x
        return before, owner.state

    hybridized = hy.hybridize(step)
    results = [hybridized(hy.ones(2)) for _ in range(3)]
    assert [(a.tolist()[0], b.tolist()[0]) for a, b in results] == [(0, 1), (1, 2), (2, 3)]
