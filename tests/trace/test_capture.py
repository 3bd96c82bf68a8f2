"""Captures: state that is written back, side effects that are refused, values that leak."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError, LeakedValueError, TracedBoolError, TracedValueError
from tests.helpers import leaf, same, tensor

# State ------------------------------------------------------------------------------------------


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


def test_tensor_attributes_are_slots() -> None:
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


# Refusals ---------------------------------------------------------------------------------------


def test_the_truth_of_a_traced_value() -> None:
    def function(x):
        if hy.sum(x) > 0:  # the line in the message
            return x
        return -x

    with pytest.raises(TracedBoolError) as caught:
        hy.hybridize(function)(hy.ones(2))
    text = str(caught.value)
    assert "the truth of a traced value was asked for" in text
    assert "if hy.sum(x) > 0:  # the line in the message" in text
    assert f"{__file__}:{caught.value.at.line}" in text
    assert "(bool[] here)" in text
    assert "Fix: call hybrid.where" in text


@pytest.mark.parametrize(
    "ask", [float, int, hy.Tensor.item, hy.Tensor.numpy, hy.Tensor.tolist, np.asarray]
)
def test_the_number_of_a_traced_value(ask) -> None:
    with pytest.raises(TracedValueError, match="of a traced value was asked for"):
        hy.hybridize(lambda x: ask(x[0] * 2))(hy.ones(2))
    cell = hy.ones(())
    with pytest.raises(TracedValueError):  # a cell's value may change between runs, too
        hy.hybridize(lambda x: x * ask(cell))(hy.ones(2))


def test_leaks() -> None:
    kept = []

    def store(x):
        box.append(x + 1)
        return x

    box = kept
    with pytest.raises(CaptureError, match="store changed closure variable while it was captured"):
        hy.hybridize(store)(hy.ones(2))

    class Holder:
        value = None

    holder = Holder()

    def hide(x):
        setattr(holder, "".join(["val", "ue"]), x + 1)
        return x

    hy.hybridize(hide)(hy.ones(2))
    with pytest.raises(LeakedValueError, match="used after its capture had ended") as caught:
        holder.value + 1
    assert "It was made while a hybridized function was traced" in str(caught.value)


def test_side_effects_that_cannot_be_repeated() -> None:
    calls = {"n": 0}

    def function(x):
        calls["n"] += 1
        return x

    with pytest.raises(CaptureError, match="changed closure variable") as caught:
        hy.hybridize(function)(hy.ones(1))
    assert "Fix: keep the value in a tensor" in str(caught.value)


def test_a_failed_capture_leaves_no_trace() -> None:
    w = leaf(2)
    w.grad = hy.ones(2)

    def function(x):
        w.grad = None
        hy.sum(w * x).backward()
        w.assign(w.detach() * 2)
        raise KeyError("stop")

    before = w.numpy().copy()
    with pytest.raises(KeyError, match="stop"):
        hy.hybridize(function)(hy.ones(2))
    assert w.grad.tolist() == [1.0, 1.0]
    assert w.numpy().tobytes() == before.tobytes()
    assert (w * 1).requires_grad


def test_fallback_to_eager_warns_once() -> None:
    def function(x):
        return x if float(hy.sum(x)) > 0 else -x

    hybridized = hy.hybridize(function, fallback="eager")
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert hybridized(hy.ones(1)).item() == 1.0
    assert hybridized(-hy.ones(1)).item() == 1.0  # a second warning would be an error


def test_errors_of_ops_are_those_of_eager() -> None:
    def function(x, y):
        return x @ y

    x, y = hy.ones((2, 3)), hy.ones((2, 3))
    with pytest.raises(ValueError) as eager:
        function(x, y)
    with pytest.raises(type(eager.value)) as hybridized:
        hy.hybridize(function)(x, y)
    assert str(eager.value) == str(hybridized.value)


def test_an_index_out_of_range_raises_from_the_plan() -> None:
    def function(x, i):
        y = x * 2
        return hy.take(y, i, axis=0)  # the author's line

    x, good, bad = hy.ones((3, 2)), hy.asarray([0, 2]), hy.asarray([0, 3])
    hybridized = hy.hybridize(function)
    assert hybridized(x, good).shape == (2, 2)
    with pytest.raises(IndexError) as eager:
        function(x, bad)
    with pytest.raises(IndexError) as planned:
        hybridized(x, bad)
    assert type(eager.value) is type(planned.value)
    assert "the author's line" in str(planned.value)
    assert hybridized(x, good).shape == (2, 2)
