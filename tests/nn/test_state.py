"""state_dict and load_state_dict: round trips, and all or nothing."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import Linear, Module, ReLU, Sequential


def make(seed):
    hy.random.seed(seed)
    net = Sequential(Linear(2, 3), ReLU(), Linear(3, 1))
    net[0].register_buffer("count", hy.asarray(seed))
    net[0].register_buffer("scratch", hy.asarray(seed), persistent=False)
    return net


def values(net):
    return {name: t.tolist() for name, t in net.state_dict().items()}


def test_keys_are_dotted_paths():
    net = make(0)
    keys = ["0.weight", "0.bias", "0.count", "2.weight", "2.bias"]
    assert list(net.state_dict()) == keys
    assert list(net.state_dict(prefix="net")) == [f"net.{key}" for key in keys]
    assert all(type(t) is hy.Tensor and not t.requires_grad for t in net.state_dict().values())


def test_values_are_those_of_the_moment():
    net = make(0)
    state = net.state_dict()
    before = state["0.bias"].tolist()
    net[0].bias.assign([1.0, 2.0, 3.0])
    assert state["0.bias"].tolist() == before != net[0].bias.tolist()


def test_shared_parameters_are_under_every_path():
    net = Sequential(Linear(2, 2), Linear(2, 2))
    net[1].weight = net[0].weight
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


@pytest.mark.parametrize("as_arrays", [False, True])
def test_round_trip(as_arrays):
    source, target = make(1), make(2)
    parameters = list(target.parameters())
    state = source.state_dict()
    if as_arrays:
        state = {name: np.array(t.numpy()) for name, t in state.items()}
    assert target.load_state_dict(state) == ([], [])
    assert values(target) == values(source)
    assert target[0].scratch.tolist() == 2
    assert list(target.parameters()) == parameters
    assert all(p.requires_grad for p in parameters)
    if as_arrays:  # they were copied
        state["0.weight"][:] = 9
        assert values(target) == values(source)


def test_everything_wrong_is_listed_and_nothing_loaded():
    net = make(1)
    before = values(net)
    state = make(2).state_dict()
    del state["0.bias"]
    state["extra"] = state["0.weight"]
    state["2.weight"] = hy.zeros((1, 4))
    state["2.bias"] = hy.zeros((1,), dtype=hy.float64)
    state["0.count"] = 5
    with pytest.raises(ArgumentError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "the state does not fit Sequential; nothing was loaded\n"
        "  missing: 0.bias (f32[3])\n"
        "  unexpected: extra\n"
        "  wrong type: 0.count is int, not a tensor\n"
        "  wrong type: 2.weight is f32[1,4], not f32[1,3]\n"
        "  wrong type: 2.bias is f64[1], not f32[1]\n"
        "Fix: load what state_dict() of the same model gave, or pass strict=False to leave "
        "keys out."
    )
    assert values(net) == before


def test_not_strict_reports_keys_but_checks_types():
    net = make(1)
    state = {"0.bias": hy.zeros((3,)), "extra": hy.zeros(())}
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.weight", "0.count", "2.weight", "2.bias"]
    assert result.unexpected_keys == ["extra"]
    assert net[0].bias.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ArgumentError, match=r"wrong type: 0.bias is f32\[2\], not f32\[3\]"):
        net.load_state_dict({"0.bias": hy.zeros((2,))}, strict=False)


def test_a_state_is_a_mapping():
    with pytest.raises(ArgumentTypeError, match="a state dict is a mapping, not a list"):
        Module().load_state_dict([])
