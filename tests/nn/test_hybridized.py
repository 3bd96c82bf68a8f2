"""Hybridized modules: the same bits as eagerly, guards on what forward reads, state on self."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from hybrid.nn import Dropout, Linear, Module, Parameter, ReLU, Sequential

X = np.random.RandomState(0).randn(5, 4).astype(np.float32)


def bits(*tensors):
    return [t.numpy().tobytes() for t in tensors]


def perceptron(seed=0):
    hy.random.seed(seed)
    return Sequential(Linear(4, 3), ReLU(), Linear(3, 2))


def test_results_and_gradients_have_the_same_bits():
    eager, hybridized = perceptron(), perceptron().hybridize()
    x = hy.asarray(X)
    for _ in range(3):
        y, z = eager(x), hybridized(x)
        assert bits(y) == bits(z)
        hy.sum(y * y).backward()
        hy.sum(z * z).backward()
    pairs = zip(eager.parameters(), hybridized.parameters(), strict=True)
    for p, q in pairs:
        assert bits(p.grad) == bits(q.grad)
    assert len(hybridized.plans) == 1


def test_hybridize_switches_in_place_and_back():
    net = perceptron()
    keys = list(net.state_dict())
    assert hy.hybridize(net) is net
    net(hy.asarray(X))
    assert len(net.plans) == 1 and list(net.state_dict()) == keys
    assert str(net.graph(hy.asarray(X))).startswith("graph @Sequential(")
    net.clear()
    assert net.plans == []
    assert net.hybridize(False) is net
    with pytest.raises(hy.HybridError, match="not hybridized"):
        _ = net.plans


def test_layers_of_the_package_are_guarded_by_the_epoch_alone():
    net = Sequential(Linear(4, 3), Dropout(0.1), ReLU()).hybridize()
    net(hy.asarray(X))
    (plan,) = net.plans
    assert "Dropout.p" in plan.guards
    owners = {name.removeprefix("the methods of ").split(".")[0] for name in plan.guards}
    assert owners == {
        "Sequential",
        "Linear",
        "Dropout",
        "ReLU",
    }


def test_a_forward_set_on_the_instance_is_honoured():
    net = Linear(2, 2).hybridize()
    x = hy.ones((1, 2))
    net(x)
    net.forward = lambda x: x * 10
    assert net(x).tolist() == [[10.0, 10.0]]
    del net.forward
    assert net(x).tolist() != [[10.0, 10.0]]


def test_a_value_of_the_class_is_honoured():
    class Scaled(Linear):
        factor = 2.0

        def forward(self, x):
            return x * self.factor

    net = Scaled(2, 2).hybridize()
    assert net(hy.ones(2)).tolist() == [2.0, 2.0]
    Scaled.factor = 3.0
    assert net(hy.ones(2)).tolist() == [3.0, 3.0]


def test_parameters_are_inputs_not_constants():
    net = perceptron().hybridize()
    x = hy.asarray(X)
    before = net(x).numpy().copy()
    with hy.no_grad():
        net[2].bias.assign(net[2].bias + 1)
    np.testing.assert_array_almost_equal(net(x).numpy(), before + 1, decimal=5)
    assert len(net.plans) == 1


def test_training_and_eval_are_two_plans():
    net = Sequential(Linear(4, 3), Dropout(0.5)).hybridize()
    x = hy.asarray(X)
    for _ in range(2):
        net.train()
        net(x)
        net.eval()
        assert bits(net(x)) == bits(net[0](x))
    assert len(net.plans) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net[0], "bias", None),
        lambda net: setattr(net[0], "weight", Parameter(np.ones((3, 4), np.float32))),
        lambda net: setattr(net, "0", Linear(4, 3)),
        lambda net: net.append(ReLU()),
    ],
)
def test_a_changed_tree_is_noticed(change):
    net = perceptron().hybridize()
    x = hy.asarray(X)
    net(x)
    change(net)
    found = net(x)
    assert len(net.plans) == 2
    assert bits(found) == bits(net.hybridize(False)(x))


def test_parameters_listed_in_a_hybridized_function_are_guarded():
    net = perceptron()

    @hy.hybridize
    def norm():
        return sum(hy.sum(p * p) for p in net.parameters())

    norm()
    net.append(Linear(2, 1))
    expected = sum(hy.sum(p * p) for p in net.parameters())
    assert bits(norm()) == bits(expected)


class Averaged(Module):
    """Keeps a running mean in a buffer, the last input in a plain attribute."""

    def __init__(self, in_place):
        self.in_place = in_place
        self.register_buffer("mean", hy.zeros((4,)))
        self.last = None

    def forward(self, x):
        mean = 0.9 * self.mean + 0.1 * hy.mean(x, axis=0)
        if self.in_place:
            self.mean.assign(mean)
        else:
            self.mean = mean
        self.last = x * 2
        return x - self.mean


@pytest.mark.parametrize("in_place", [False, True])
def test_state_kept_on_self_is_kept_by_plans(in_place):
    eager, hybridized = Averaged(in_place), Averaged(in_place).hybridize()
    for shift in range(4):
        x = hy.asarray(X + np.float32(shift))
        assert bits(eager(x)) == bits(hybridized(x))
        assert bits(eager.mean, eager.last) == bits(hybridized.mean, hybridized.last)
    assert len(hybridized.plans) == 1  # whatever ``last`` was: it is only set
    assert [name for name, _ in hybridized.named_buffers()] == ["mean"]


def test_an_exception_leaves_the_state_as_it_was_written():
    class Failing(Averaged):
        def forward(self, x):
            super().forward(x)
            raise KeyError("later")

    plain, net = Failing(False), Failing(False).hybridize()
    for each in (plain, net):
        with pytest.raises(KeyError, match="later"):
            each(hy.asarray(X))
    for name in ("mean", "last"):
        assert getattr(net, name).numpy().tobytes() == getattr(plain, name).numpy().tobytes()


def test_state_can_be_reset_inside():
    class Reset(Averaged):
        def forward(self, x):
            y = super().forward(x)
            self.last = None
            return y

    net = Reset(False).hybridize()
    net.last = hy.asarray([1.0])
    net(hy.asarray(X))
    assert net.last is None


class Counting(Module):
    count = 0

    def forward(self, x):
        self.count += 1
        return x


class Rebuilding(Module):
    def __init__(self):
        self.weight = Parameter([1.0])

    def forward(self, x):
        self.weight = Parameter([2.0])
        return x


class Deleting(Module):
    def __init__(self):
        self.weight = Parameter([1.0])

    def forward(self, x):
        del self.weight
        return x


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Counting, "Counting changed Counting.count while it was captured"),
        (Rebuilding, "Rebuilding.weight was replaced inside a hybridized function"),
        (Deleting, "Deleting.weight was deleted inside a hybridized function"),
    ],
)
def test_what_a_plan_cannot_repeat_is_refused(kind, message):
    with pytest.raises(CaptureError, match=message):
        kind().hybridize()(hy.asarray(X))


def test_dropout_draws_the_same_either_way():
    eager, hybridized = Dropout(0.5), Dropout(0.5).hybridize()
    x = hy.asarray(np.ones((8, 8), np.float32))
    hy.random.seed(3)
    draws = [bits(eager(x)) for _ in range(3)]
    hy.random.seed(3)
    assert draws == [bits(hybridized(x)) for _ in range(3)]
    assert draws[0] != draws[1] != draws[2]
    assert len(hybridized.plans) == 1


def test_what_a_hybridized_part_reads_is_guarded_by_the_whole():
    scale = 2.0
    part = hy.hybridize(lambda x: x * scale)
    net = Sequential(Linear(4, 3), ReLU()).hybridize()
    whole = hy.hybridize(lambda x: part(net(x)))
    x = hy.asarray(X)
    assert bits(whole(x)) == bits(net(x) * 2.0)
    scale = 3.0
    assert bits(whole(x)) == bits(net(x) * 3.0)
    net.append(Dropout(1.0))
    assert not whole(x).numpy().any()
