"""Nested states in files: what is saved is what is loaded, to the types and bits of everything."""

import json
import math
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, CheckpointError
from hybrid.optim import lr_scheduler
from tests.optim.formulas import CASES, named
from tests.staging.harness import describe


def saved(tmp_path, state, **options):
    path = tmp_path / "state.safetensors"
    hy.save(path, state, **options)
    return hy.load(path)


def test_what_is_saved_is_what_is_loaded(tmp_path):
    tensor = hy.asarray([1.0, -0.0, math.nan])
    state = {
        "epoch": 3,
        "rates": [0.1, 1e-300, -0.0, math.inf, -math.inf, math.nan, 5e-324],
        "large": 2**200,
        "flags": (True, False, None, "täxt", ()),
        1: {"1": tensor, 1: hy.asarray(7)},
        "1": {"1": hy.asarray([True])},
        "a.b": hy.zeros((0, 2)),
        "a": OrderedDict(b=hy.asarray([1], dtype=hy.float16), c=[]),
        "__metadata__": hy.asarray(1),
        "same": [tensor, {}],
    }
    found = saved(tmp_path, state)
    assert describe(dict(found)) == describe(state)
    again = tmp_path / "again"
    hy.save(again, found)
    assert again.read_bytes() == (tmp_path / "state.safetensors").read_bytes()


NUMBERS = st.floats() | st.integers() | st.booleans() | st.none() | st.text()
ARRAYS = st.lists(st.integers(-9, 9)).map(lambda items: hy.asarray(np.array(items, np.int64)))
TREES = st.recursive(
    NUMBERS | ARRAYS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), TREES))
def test_any_state(tmp_path_factory, state):
    state["one"] = 1  # else a flat dict, with names that files have not
    found = saved(tmp_path_factory.mktemp("any"), state)
    assert describe(dict(found)) == describe(state)


def test_names_are_dotted_paths(tmp_path):
    net = hy.nn.Linear(2, 1)
    optimizer = hy.optim.Adam(net.parameters())
    net(hy.ones((1, 2))).sum().backward()
    optimizer.step()
    path = tmp_path / "checkpoint"
    hy.save(path, {"model": net, "optimizer": optimizer, "epoch": 3}, metadata={"by": "me"})
    from safetensors.numpy import load_file

    names = set(load_file(path))
    assert {"model.weight", "model.bias", "optimizer.state.0.exp_avg"} <= names
    found = hy.load(path)
    assert list(found) == ["model", "optimizer", "epoch"]
    assert found.metadata == {"format": "pt", "by": "me"}
    assert describe(found["optimizer"]) == describe(optimizer.state_dict())


def test_flat_states_are_files_like_before(tmp_path):
    hy.save(tmp_path / "flat", {"a": hy.ones(2)})
    assert b"hybrid.tree" not in (tmp_path / "flat").read_bytes()


def step(net, optimizer, scheduler, number):
    x = hy.asarray(np.random.RandomState(number).randn(4, 3).astype(np.float32))
    optimizer.zero_grad()
    (net(x) ** 2).sum().backward()
    optimizer.step()
    scheduler.step()


def made(kind, options, schedule):
    hy.random.seed(3)
    net = hy.nn.Sequential(hy.nn.Linear(3, 3), hy.nn.BatchNorm1d(3), hy.nn.Linear(3, 2))
    optimizer = kind(net.parameters(), **({"lr": 0.1} | options))
    return net, optimizer, schedule(optimizer)


SCHEDULES = {
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "milestones": lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 4]),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 7),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.3, total_steps=9, cycle_momentum=False),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.5), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
}


def go_on_from_a_file(tmp_path, kind, options, schedule):
    straight = made(kind, options, schedule)
    for number in range(3):
        step(*straight, number)
    path = tmp_path / "checkpoint"
    hy.save(path, dict(zip(("model", "optimizer", "scheduler"), straight, strict=True)))
    resumed = made(kind, options, schedule)
    found = hy.load(path)
    for part, name in zip(resumed, ("model", "optimizer", "scheduler"), strict=True):
        part.load_state_dict(found[name])
    for number in range(3, 6):
        step(*straight, number)
        step(*resumed, number)
    for part, other in zip(straight, resumed, strict=True):
        assert describe(part.state_dict()) == describe(other.state_dict())


@pytest.mark.parametrize("case", CASES, ids=named)
def test_training_goes_on_with_every_optimizer(tmp_path, case):
    go_on_from_a_file(tmp_path, *case, SCHEDULES["cosine"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_goes_on_with_schedules(tmp_path, schedule):
    go_on_from_a_file(tmp_path, hy.optim.SGD, {"momentum": 0.9}, SCHEDULES[schedule])


def test_the_state_of_everything(tmp_path):
    """Loaders, scalers, averages, and random numbers."""
    loader = hy.data.DataLoader(list(range(10)), 3, shuffle=True)
    batches = iter(loader)
    next(batches)
    net = hy.nn.Linear(2, 1)
    parts = {
        "loader": loader,
        "scaler": hy.optim.GradScaler(),
        "average": hy.optim.ExponentialMovingAverage(net),
        "none": hy.optim.GradScaler(enabled=False),
    }
    found = saved(tmp_path, parts)
    assert describe(dict(found)) == describe({k: p.state_dict() for k, p in parts.items()})
    other = hy.data.DataLoader(list(range(10)), 3, shuffle=True)
    other.load_state_dict(found["loader"])
    assert [b.tolist() for b in other] == [b.tolist() for b in batches]


# Bad states --------------------------------------------------------------------------------------

LOOP: dict = {"a": 1}
LOOP["loop"] = LOOP
FIX = (
    "\nFix: keep tensors, arrays, numbers, texts and None in dicts, lists and tuples, or what has "
    "a state_dict()."
)


@pytest.mark.parametrize(
    ("state", "kind", "text"),
    [
        (
            {"a": [1, {2, 3}]},
            ArgumentTypeError,
            "'a.1' is a set, which cannot be saved\nA file is no pickle." + FIX,
        ),
        (
            {"a": {"b": print}},
            ArgumentTypeError,
            "'a.b' is a builtin_function_or_method, which cannot be saved\nA file is no pickle."
            + FIX,
        ),
        (
            {"a": {(1, 2): 3}},
            ArgumentTypeError,
            "the key (1, 2) of a is neither a text nor an int\nKeys of a saved state are.",
        ),
        (
            {None: 3},
            ArgumentTypeError,
            "the key None of the state is neither a text nor an int\nKeys of a saved state are.",
        ),
        (
            LOOP,
            ArgumentError,
            "the state is nested too deeply to be saved\nDoes it hold itself?",
        ),
    ],
)
def test_what_cannot_be_saved(tmp_path, state, kind, text):
    with pytest.raises(kind) as caught:
        saved(tmp_path, state)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_the_text_is_taken(tmp_path):
    with pytest.raises(ArgumentError) as caught:
        saved(tmp_path, {"a": 1}, metadata={"hybrid.tree": "x"})
    assert str(caught.value) == (
        "metadata cannot have the name 'hybrid.tree'\n"
        "It is needed to say how the tensors belong together.\nFix: choose another name."
    )


GOOD = {"dict": [["a", {"tensor": "a"}]]}


@pytest.mark.parametrize(
    "tree",
    [
        "",
        "{",
        "[]",
        "3",
        '{"dict":[]}',  # without the tensor that is there
        '{"dict":[["a",{"tensor":"b"}]]}',
        '{"dict":[["a",{"tensor":"a"}],["b",{"tensor":"a"}]]}',
        '{"dict":[["a",{"tensor":"a"}],["a",1]]}',
        '{"dict":[["a",{"tensor":"a"}],[[1],1]]}',
        '{"dict":[["a",{"tensor":"a"}],[1.5,1]]}',
        '{"dict":[["a",{"tensor":"a"}],["b",{"set":[]}]]}',
        '{"dict":[["a",{"tensor":"a"}],["b",{}]]}',
        '{"dict":[["a",{"tensor":"a"}],["b",{"tuple":3}]]}',
        '{"dict":[["a",{"tensor":"a"}],["b",{"float":"7ff8"}]]}',
        '{"dict":[["a",{"tensor":"a"}],["b",NaN]]}',
        '{"dict":[["a",{"tensor":"a"}],["b"]]}',
        '{"dict":3}',
        '{"dict":[["a",{"tensor":["a"]}]]}',
        "[" * 100_000,
        json.dumps(GOOD)[:-1],
    ],
)
def test_bad_texts(tmp_path, tree):
    from safetensors.numpy import save_file

    path = tmp_path / "bad"
    save_file({"a": np.ones(1)}, path, metadata={"hybrid.tree": json.dumps(GOOD)})
    assert hy.load(path)["a"].tolist() == [1.0]
    save_file({"a": np.ones(1)}, path, metadata={"hybrid.tree": tree})
    with pytest.raises(CheckpointError) as caught:
        hy.load(path)
    assert str(caught.value) == (
        f"{path} is no safetensors file that can be loaded: its text 'hybrid.tree' does not tell "
        "how its tensors belong together"
    )
