"""state_dict and load_state_dict of optimizers: training goes on where it was, or not at all."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError
from hybrid.nn import Parameter
from hybrid.optim import SGD, Adam, AdamW

KINDS = {
    "sgd": lambda params: SGD(params, lr=0.1),
    "momentum": lambda params: SGD(params, lr=0.1, momentum=0.9),
    "dampened": lambda params: SGD(params, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": lambda params: Adam(params, lr=0.1),
    "adamw": lambda params: AdamW(params, lr=0.1),
}


def parameters():
    draw = np.random.RandomState(0)
    return [Parameter(draw.randn(3).astype(np.float32)), Parameter(draw.randn(2, 2))]


def advance(params, optimizer, first, last):
    for number in range(first, last):
        draw = np.random.RandomState(number)
        for p in params:
            p.grad = hy.asarray(draw.randn(*p.shape), dtype=p.dtype)
        optimizer.step()


def values(tree):
    if isinstance(tree, dict):
        return {key: values(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [values(item) for item in tree]
    return tree.numpy().tobytes() if isinstance(tree, hy.Tensor) else tree


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_where_it_was(kind, pickled):
    straight = parameters()
    optimizer = KINDS[kind](straight)
    advance(straight, optimizer, 0, 3)
    state = optimizer.state_dict()
    if pickled:
        state = pickle.loads(pickle.dumps(state))
    resumed = [copy.deepcopy(p) for p in straight]
    other = KINDS[kind](resumed)
    other.lr = 0.7
    other.load_state_dict(state)
    assert other.lr == 0.1
    advance(straight, optimizer, 3, 5)
    advance(resumed, other, 3, 5)
    assert values(resumed) == values(straight)
    assert values(other.state_dict()) == values(optimizer.state_dict())


def test_structure():
    params = parameters()
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.5}]
    optimizer = SGD(groups, lr=0.1, momentum=0.9)
    state = optimizer.state_dict()
    assert list(state["state"]) == [0, 1]
    assert state["state"][0]["momentum_buffer"].tolist() == [0.0, 0.0, 0.0]
    first, second = state["param_groups"]
    assert first.pop("step").item() == 0.0
    assert first == {
        "lr": 0.1,
        "momentum": 0.9,
        "dampening": 0.0,
        "weight_decay": 0.0,
        "nesterov": False,
        "maximize": False,
        "params": [0],
    }
    assert (second["lr"], second["params"]) == (0.5, [1])


def test_settings_are_loaded():
    source, target = Adam(parameters(), weight_decay=0.5), Adam(parameters())
    target.load_state_dict(source.state_dict())
    assert target.param_groups[0].weight_decay == 0.5


def without(state, *path):
    *way, last = path
    for key in way:
        state = state[key]
    del state[last]


def put(state, value, *path):
    *way, last = path
    for key in way:
        state = state[key]
    state[last] = value


@pytest.mark.parametrize(
    ("spoil", "problems"),
    [
        (lambda s: without(s, "state"), ['it has no "state" and "param_groups"']),
        (lambda s: s["param_groups"].clear(), ["it has 0 groups, not 1"]),
        (
            lambda s: (
                without(s, "param_groups", 0, "eps"),
                put(s, 1, "param_groups", 0, "momentum"),
            ),
            ["group 0: eps is missing", "group 0: unknown momentum"],
        ),
        (
            lambda s: put(s, [0], "param_groups", 0, "params"),
            ["group 0: it has 1 parameters, not 2"],
        ),
        (lambda s: put(s, -1, "param_groups", 0, "lr"), ["group 0: lr is -1"]),
        (
            lambda s: (
                without(s, "state", 0, "exp_avg"),
                put(s, hy.zeros((2, 2)), "state", 1, "exp_avg_sq"),
                put(s, 3, "param_groups", 0, "step"),
            ),
            [
                "group 0: step is missing",
                "group 0: exp_avg of parameter 0 is missing",
                "group 0: exp_avg_sq of parameter 1 is f32[2,2], not f64[2,2]",
            ],
        ),
    ],
)
def test_everything_wrong_is_listed_and_nothing_loaded(spoil, problems):
    params = parameters()
    source, target = Adam(params, lr=0.1), Adam(params, lr=0.2)
    advance(params, source, 0, 2)
    state = source.state_dict()
    spoil(state)
    before = values(target.state_dict())
    with pytest.raises(ArgumentError) as caught:
        target.load_state_dict(state)
    assert str(caught.value) == "\n  ".join(
        ["the state does not fit this Adam; nothing was loaded", *problems]
    ) + ("\nFix: load what state_dict() gave of the same optimizer over the same parameters.")
    assert values(target.state_dict()) == before


def test_moments_must_be_those_kept():
    state = SGD(parameters(), momentum=0.9).state_dict()
    with pytest.raises(ArgumentError, match=r"keep the moments \['momentum_buffer'\], not \[\]"):
        SGD(parameters()).load_state_dict(state)
