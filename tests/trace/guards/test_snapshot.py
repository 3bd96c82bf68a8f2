"""Snapshots of guarded places: which have changed, what they are called, and putting them back."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.reads import Reads
from hybrid.trace.guards.snapshot import Snapshot
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.place import key_of

scale = 2.0


class Model:
    kind = "small"

    def __init__(self) -> None:
        self.k, self.table, self.weights = 1.0, {"a": [1, 2]}, np.zeros(2)

    @functools.cached_property
    def size(self) -> int:
        return 3

    def __call__(self, x: Any) -> Any:
        return x * self.k * scale + self.size + self.table["a"][0] + self.bias + self.weights[0]


def snapshot_of(function: Callable[..., Any]) -> Snapshot:
    found = Guards(Reads(function, []), lambda _: False).snapshot
    found.begin()
    return found


def labels(snapshot: Snapshot, **which: bool) -> list[str]:
    return [d.label for d in snapshot.differences(**{"cached": False, **which})]


def test_nothing_has_changed() -> None:
    found = snapshot_of(Model())
    assert labels(found, cached=True) == []
    assert list(found.changed()) == []
    assert found.computed() is None


def test_an_attribute_is_put_back_and_again() -> None:
    model = Model()
    found = snapshot_of(model)
    model.k = 5.0
    assert list(found.changed()) == [(model, "k", 5.0)]
    (difference,) = found.differences(cached=False)
    assert (difference.label, difference.before, difference.after) == ("Model.k", 1.0, 5.0)
    assert difference.key == key_of(model, "k")
    assert difference.added() == [5.0]
    difference.undo()
    assert model.k == 1.0
    difference.redo()
    assert model.k == 5.0


def test_what_is_newer_stands() -> None:
    model = Model()
    found = snapshot_of(model)
    model.k = 5.0
    difference = found.differences(cached=False)[0].taken()
    assert model.k == 1.0
    model.k = 7.0  # by another thread, say
    difference.redo()
    assert model.k == 7.0


def test_an_attribute_that_was_looked_for() -> None:
    model = Model()
    found = snapshot_of(model)
    model.bias = 1.0  # type: ignore[attr-defined]
    (difference,) = found.differences(cached=False)
    assert (difference.label, difference.before) == ("Model.bias", MISSING)
    assert found.label(difference.key) == "Model.bias"
    assert (model, "bias", 1.0) in found.changed()
    difference.undo()
    assert not hasattr(model, "bias")


def test_what_a_property_has_cached_counts_if_asked_for() -> None:
    model = Model()
    found = snapshot_of(model)
    assert model.size == 3
    assert found.computed() == "Model.size"
    assert labels(found) == []
    assert labels(found, cached=True) == ["Model.size"]
    found.differences(cached=True)[0].undo()
    assert "size" not in vars(model)


def test_arrays_are_put_back_in_place() -> None:
    model = Model()
    weights = model.weights
    found = snapshot_of(model)
    weights[1] = 3.0
    (difference,) = found.differences(cached=False)
    difference.undo()
    assert model.weights is weights
    assert weights.tolist() == [0.0, 0.0]
    difference.redo()
    assert weights.tolist() == [0.0, 3.0]


def test_the_path_to_a_container() -> None:
    model = Model()
    found = snapshot_of(model)
    inner = model.table["a"]
    path = found.path_to(inner)
    assert path is not None
    label, read = path
    assert label == "Model.table"
    assert read() == id(inner)
    model.table["a"] = [1, 2]
    assert read() == id(model.table["a"]) != id(inner)
    model.table = {}
    assert read() == 0
    assert found.path_to([]) is None


def test_a_global_that_is_not_set_is_no_attribute() -> None:
    """But it can be put back, should others have set it."""
    found = snapshot_of(Model())
    globals()["scale"] = 3.0
    try:
        assert labels(found) == ["global scale"]
        assert list(found.changed()) == []
        found.differences(cached=False)[0].undo()
        assert scale == 2.0
    finally:
        globals()["scale"] = 2.0


def test_owners_that_are_not_guarded() -> None:
    def helper(x: Any) -> Any:
        return x

    def function(x: Any) -> Any:
        return helper(x)

    found = snapshot_of(function)
    new = types.SimpleNamespace()
    owners = {id(o): (o, dict(vars(o))) for o in (helper, new)}
    assert found.unseen(owners) == [(helper, {})]


def test_it_is_forgotten_with_the_capture() -> None:
    """A plan keeps nothing alive for the sake of what its capture may have had to put back."""
    state = {"x": hy.zeros(2)}

    @hy.hybridize
    def function(x: hy.Tensor) -> hy.Tensor:
        return x + state["x"]

    function(hy.ones(2))
    guards = function._table.all()[0].capture.guards
    assert guards.snapshot.places == guards.snapshot.absent == []
    assert guards.reads is None


def test_an_attribute_in_place_of_that_of_the_class() -> None:
    class Config:
        level = 0

    config = Config()
    found = snapshot_of(lambda x: x * config.level)
    config.level = 5
    (difference,) = found.differences(cached=False)
    difference.undo()
    assert vars(config) == {}
    difference.redo()
    assert vars(config) == {"level": 5}
    del config.level
    Config.level = 7
    assert list(found.changed()) == []  # it is a place of the class
    (difference,) = found.differences(cached=False)
    difference.undo()
    assert vars(config) == {} and Config.level == 7
