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
        "  wrong shape: 2.weight is f32[1,4], not f32[1,3]\n"
        "  wrong dtype: 2.bias is f64[1], not f32[1]\n"
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
    with pytest.raises(ArgumentError, match=r"wrong shape: 0.bias is f32\[2\], not f32\[3\]"):
        net.load_state_dict({"0.bias": hy.zeros((2,))}, strict=False)


def test_a_state_is_a_mapping():
    with pytest.raises(ArgumentTypeError, match="a state dict is a mapping, not a list"):
        Module().load_state_dict([])


# Files --------------------------------------------------------------------------------------------


def test_a_file_is_a_state(tmp_path):
    path = tmp_path / "model.safetensors"
    source, target = make(1), make(2)
    hy.save(path, source)
    for given in (path, str(path), hy.load(path)):
        target[0].bias.assign([9.0, 9.0, 9.0])
        assert target.load_state_dict(given) == ([], [])
        assert values(target) == values(source)


@pytest.mark.parametrize("wrap", [str, hy.load])
def test_a_file_that_does_not_fit_is_named(wrap, tmp_path):
    path = tmp_path / "model.safetensors"
    hy.save(path, {"weight": hy.ones((1, 2)), "bias": hy.ones(2), "more": hy.ones(1)})
    net = Linear(2, 1)
    before = values(net)
    with pytest.raises(ArgumentError) as caught:
        net.load_state_dict(wrap(path))
    assert str(caught.value) == (
        f"the state of {path} does not fit Linear; nothing was loaded\n"
        "  unexpected: more\n"
        "  wrong shape: bias is f32[2], not f32[1]\n"
        "Fix: load what state_dict() of the same model gave, or pass strict=False to leave "
        "keys out."
    )
    assert values(net) == before


def test_hybridized_modules_use_what_was_loaded(tmp_path):
    path = tmp_path / "model.safetensors"
    source, target = make(1), make(2).hybridize()
    hy.save(path, source)
    x = hy.ones((1, 2))
    target(x)
    target.load_state_dict(path)
    assert target(x).tolist() == source(x).tolist() and len(target.plans) == 1


# Tied weights -------------------------------------------------------------------------------------


def tied():
    net = Sequential(Linear(2, 2, bias=False), Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    return net


def test_tied_weights_load_by_either_name_or_both():
    weight = hy.asarray([[1.0, 2.0], [3.0, 4.0]])
    for state in ({"0.weight": weight}, {"1.weight": weight}, tied().state_dict()):
        net = tied()
        assert net.load_state_dict(state) == ([], [])
        assert net[1].weight is net[0].weight
        assert net[0].weight.tolist() == next(iter(state.values())).tolist()
    assert net.load_state_dict({}, strict=False).missing_keys == ["0.weight", "1.weight"]


def test_tied_weights_have_one_value():
    net = tied()
    before = net[0].weight.tolist()
    state = {"0.weight": hy.ones((2, 2)), "1.weight": hy.zeros((2, 2))}
    with pytest.raises(ArgumentError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "the state does not fit Sequential; nothing was loaded\n"
        "  two values: 0.weight and 1.weight are one tensor of the model\n"
        "Fix: load what state_dict() of the same model gave."
    )
    assert net[0].weight.tolist() == before
    nan = {name: hy.full((2, 2), float("nan")) for name in state}
    assert net.load_state_dict(nan) == ([], [])


# Dtypes -------------------------------------------------------------------------------------------


def test_another_dtype_is_told():
    with pytest.raises(ArgumentError) as caught:
        Linear(2, 1, bias=False).load_state_dict({"weight": hy.ones((1, 2), dtype=hy.float16)})
    assert str(caught.value) == (
        "the state does not fit Linear; nothing was loaded\n"
        "  wrong dtype: weight is f16[1,2], not f32[1,2]\n"
        "Fix: convert the model first, with model.to(dtype), or pass assign=True to take the "
        "dtypes of the state."
    )


@pytest.mark.parametrize("dtype", [hy.float64, hy.float16, hy.bfloat16], ids=str)
def test_assign_takes_the_dtypes_of_the_state(dtype):
    net = tied().hybridize()
    x = hy.ones((1, 2))
    net(x)
    weight, leaf = net[0].weight, net[0].weight.requires_grad
    state = {"0.weight": hy.asarray([[1.0, 2.0], [3.0, 4.0]]).astype(dtype)}
    assert net.load_state_dict(state, assign=True) == ([], [])
    assert net[0].weight is net[1].weight is weight and weight.requires_grad is leaf is True
    assert weight.type is state["0.weight"].type
    x = x.astype(dtype)
    assert net(x).dtype is dtype and net(x).tolist() == net.hybridize(False)(x).tolist()


def test_assign_keeps_shapes_and_gradients():
    net = Linear(2, 1)
    state = {"weight": hy.ones((1, 2), dtype=hy.int64), "bias": hy.ones(2)}
    with pytest.raises(ArgumentError) as caught:
        net.load_state_dict(state, assign=True)
    assert "wrong dtype: weight is i64[1,2] and requires a gradient\n" in str(caught.value)
    assert "wrong shape: bias is f32[2], not f32[1]\n" in str(caught.value)


def test_what_is_no_tensor_is_told():
    with pytest.raises(ArgumentError) as caught:
        Linear(1, 1).load_state_dict({"weight": np.zeros((1, 1), np.complex64), "bias": None})
    assert "  wrong type: weight cannot be a tensor: no dtype dtype('complex64')\n" in str(
        caught.value
    )
    assert "  wrong type: bias is NoneType, not a tensor\n" in str(caught.value)


def test_numbers_and_arrays_of_other_libraries_are_taken():
    class Foreign:
        """As much of an array as many libraries have in common."""

        def __array__(self, dtype=None, copy=None):
            return np.ones((1, 2), np.float32)

    net = Linear(2, 1)
    net.register_buffer("count", hy.asarray(0))
    net.load_state_dict(
        {"weight": Foreign(), "bias": np.zeros(1, np.float32), "count": np.int64(7)}
    )
    assert values(net) == {"weight": [[1.0, 1.0]], "bias": [0.0], "count": 7}


def test_a_file_of_several_states_is_not_one_of_them(tmp_path):
    net, path = make(0), str(tmp_path / "checkpoint")
    hy.save(path, {"model": net, "optimizer": hy.optim.SGD(net.parameters(), 0.1), "epoch": 1})
    with pytest.raises(ArgumentError) as caught:
        net.load_state_dict(path)
    assert str(caught.value) == (
        f"{path} holds several states: model, optimizer\n"
        f"Fix: load one of them: load_state_dict(hybrid.load({path!r})['model'])."
    )
    with pytest.raises(ArgumentError) as caught:
        net.load_state_dict({"net": net.state_dict()})
    assert str(caught.value) == (
        "the state holds several states: net\nFix: load one of them: load_state_dict(state['net'])."
    )
    assert net.load_state_dict(hy.load(path)["model"]) == ([], [])
