"""state_dict and load_state_dict of optimizers: training goes on where it was, or not at all."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError
from hybrid.nn import Parameter
from hybrid.optim import SGD, Adam, AdamW
from tests.optim.formulas import CASES, named


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
@pytest.mark.parametrize("case", CASES, ids=named)
def test_training_goes_on_where_it_was(case, pickled):
    kind, settings = case
    settings = {"lr": 0.1} | settings
    straight = parameters()
    optimizer = kind(straight, **settings)
    advance(straight, optimizer, 0, 3)
    state = optimizer.state_dict()
    if pickled:
        state = pickle.loads(pickle.dumps(state))
    resumed = [copy.deepcopy(p) for p in straight]
    other = kind(resumed, **settings)
    other.lr = 0.7
    other.load_state_dict(state)
    assert other.lr == settings["lr"]
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
                put(s, hy.zeros((2, 3)), "state", 1, "exp_avg_sq"),
                put(s, "3", "state", 0, "step"),
            ),
            [
                "group 0: exp_avg of parameter 0 is missing",
                "group 0: step of parameter 0 is a str",
                "group 0: exp_avg_sq of parameter 1 is f32[2,3], not f64[2,2]",
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
    with pytest.raises(ArgumentError, match=r"keep \['momentum_buffer'\] of a parameter, not"):
        SGD(parameters()).load_state_dict(state)


def as_pytorch_saves(optimizer, **more):
    """What PyTorch 2's optimizer of the same name gives after the same steps."""
    state = optimizer.state_dict()
    for kept in state["state"].values():
        for name, value in kept.items():
            kept[name] = value.numpy().copy()
    for group in state["param_groups"]:
        group |= {"foreach": None, "capturable": False, "differentiable": False, "fused": None}
        group |= more
    return state


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_states_of_pytorch_are_loaded(kind):
    params = parameters()
    source, target = kind(params, lr=0.1), kind(params)
    advance(params, source, 0, 2)
    saved = as_pytorch_saves(
        source, decoupled_weight_decay=kind is AdamW, initial_lr=0.5, betas=[0.8, 0.9]
    )
    target.load_state_dict(saved)
    assert values(target.state_dict()["state"]) == values(source.state_dict()["state"])
    group = target.param_groups[0]
    assert (group.lr, group["initial_lr"], group.betas) == (0.1, 0.5, (0.8, 0.9))


def test_a_state_from_before_the_first_step_is_loaded():
    """PyTorch keeps nothing of a parameter that was not moved yet."""
    params = parameters()
    source, target = Adam(params), Adam(params)
    advance(params, target, 0, 2)
    target.load_state_dict({"state": {}, "param_groups": source.state_dict()["param_groups"]})
    assert values(target.state_dict()) == values(source.state_dict())


def test_a_dampened_momentum_of_pytorch_has_moved_before():
    params = parameters()
    source = SGD(params, momentum=0.9, dampening=0.5)
    target = SGD(params, momentum=0.9, dampening=0.5)
    advance(params, source, 0, 2)
    saved = as_pytorch_saves(source)
    for kept in saved["state"].values():
        del kept["step"]
    target.load_state_dict(saved)
    assert [kept["step"].item() for kept in target.state.values()] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ({"amsgrad": True}, "its settings keep ['exp_avg', 'exp_avg_sq', 'max_exp_avg_sq', 'step']"
         " of a parameter, not ['exp_avg', 'exp_avg_sq', 'step']"),
        ({"decoupled_weight_decay": True}, "unknown decoupled_weight_decay"),
        ({"betas": (0.9, 2)}, "betas[1] is 2"),
        ({"maximize": 1}, "maximize is 1, not a bool"),
    ],
)  # fmt: skip
def test_settings_of_another_optimizer_are_refused(group, problem):
    target = Adam(parameters())
    before = values(target.state_dict())
    with pytest.raises(ArgumentError) as caught:
        target.load_state_dict(as_pytorch_saves(target, **group))
    assert str(caught.value) == (
        f"the state does not fit this Adam; nothing was loaded\n  group 0: {problem}\n"
        "Fix: load what state_dict() gave of the same optimizer over the same parameters."
    )
    assert values(target.state_dict()) == before


def test_copies_and_pickles_go_on_alone():
    for copied in (copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))):
        params = parameters()
        optimizer = Adam(params, lr=0.1)
        advance(params, optimizer, 0, 2)
        other = copied(optimizer)
        others = [p for group in other.param_groups for p in group.params]
        assert not {*others} & {*params}
        advance(params, optimizer, 2, 4)
        advance(others, other, 2, 4)
        assert values(others) == values(params)
        assert values(other.state_dict()) == values(optimizer.state_dict())
