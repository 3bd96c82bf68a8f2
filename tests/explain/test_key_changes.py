"""What is another at each call, with its values, and what to write instead."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import hybrid as hy
from hybrid.calls.recapture_reasons import Call
from hybrid.explain.key_changes import KeyChange, key_changes, reason_of, record_of, records_of

X = hy.ones(3)


def changes(
    function: Callable[..., Any],
    *calls: Sequence[Any],
    outside: Sequence[dict[str, Any]] = (),
    **kwargs: Any,
) -> list[KeyChange]:
    """What differs from call to call."""
    hybridized, records = hy.hybridize(function), []
    for at, args in enumerate(calls):
        leaves, key = hybridized._leaves(args, kwargs)
        records.append(record_of(key, leaves, outside[at] if outside else {}))
    names = Call(function, args, kwargs).names()
    return key_changes(records, function, leaves, names, bool(kwargs))


def told(*args: Any, **kwargs: Any) -> list[tuple[str, str]]:
    return [(str(change), change.fix) for change in changes(*args, **kwargs)]


def of(x: Any, mode: Any = None, *rest: Any, **options: Any) -> Any:
    return x


def test_texts_of_an_argument() -> None:
    assert told(of, *[(X, f"m{i}") for i in range(3)]) == [
        (
            "argument mode: 'm0', 'm1', 'm2'",
            "call with few values of mode, or hybridize what does not depend on it",
        )
    ]


def test_many_values_and_long_ones_are_cut() -> None:
    [(found, _)] = told(of, *[(X, str(i) * 60) for i in range(6)])
    values = ", ".join(["'" + str(i) * 36 + "..." for i in range(4)])
    assert found == f"argument mode: {values}, ..."


class State:
    k = X


def test_tensors_outside_have_sizes() -> None:
    name = f"{State.__name__}.k"
    outside = [{name: hy.ones(n)} for n in (4, 5)]
    fix = f"pad {name} to a few sizes, and leave out dynamic=False if it is there"
    assert told(of, (X,), (X,), outside=outside) == [(f"{name}: f32[4], f32[5]", fix)]
    hybridized = hy.hybridize(lambda: State.k * 2)
    hybridized()
    plans = hybridized._table.all()
    names = [guard.name for guard in plans[0].guards.always]
    assert name in names
    [record] = records_of(plans, names)
    assert record.outside.keys() == {*names} - {name}  # any tensor of that type will do


def test_numbers_become_tensors() -> None:
    assert told(of, *[(X, n) for n in (1, 2, 2, 3)]) == [
        (
            "argument mode: 1, 2, 3",
            "pass mode as a tensor, hybrid.asarray(mode): its value is no part of the key",
        )
    ]
    [(_, fix)] = told(of, (X, True), (X, False))
    assert fix.startswith("call with few values of mode")  # a flag is no number


def test_arguments_by_name() -> None:
    [(found, _)] = told(of, (X, "a"), (X, "b"), scale=2)
    assert found == "argument mode: 'a', 'b'"


def test_another_object_at_each_call() -> None:
    class Config:
        pass

    kept = [Config(), Config()]
    assert told(of, *[(X, config) for config in kept]) == [
        (
            "argument mode was another Config object at each call",
            "make that object once, and pass it at each call",
        )
    ]


def test_shapes_axis_by_axis() -> None:
    found = told(of, *[(hy.ones((n, 2 * n, 5)),) for n in (2, 3)])
    fix = "pad x to a few sizes, and leave out dynamic=False if it is there"
    assert found == [("shape[0] of x: 2, 3", fix), ("shape[1] of x: 4, 6", fix)]


def test_ranks_and_dtypes() -> None:
    assert told(of, (hy.ones(2),), (hy.ones((2, 2)),)) == [
        ("rank of x: 1, 2", "call with x of one rank")
    ]
    assert told(of, (hy.ones(2),), (hy.ones(2, dtype=hy.float64),)) == [
        ("dtype of x: float32, float64", "call with x of one dtype")
    ]


def test_gradients() -> None:
    variable = hy.ones(3)
    variable.requires_grad = True
    assert told(of, (X,), (variable,)) == [
        ("whether gradients flow to x", "call with the same variables")
    ]
    hybridized, records = hy.hybridize(of), []
    for records_gradients in (True, False):
        with hy.enable_grad() if records_gradients else hy.no_grad():
            leaves, key = hybridized._leaves((X,), {})
        records.append(record_of(key, leaves, {}))
    [change] = key_changes(records, of, leaves, ("x",), False)
    assert str(change) == "whether gradients are recorded"
    assert change.fix == "record always, or under hybrid.no_grad() always"


def test_tensors_that_are_one() -> None:
    assert told(of, (X, X), (X, hy.ones(3))) == [
        ("which arguments are one tensor", "pass different tensors")
    ]


@pytest.mark.parametrize(
    ("calls", "what"),
    [
        ([(X, [X] * n) for n in (2, 3, 4)], "len(mode): 2, 3, 4"),
        ([(X, {"a": [X] * n}) for n in (2, 3, 4)], "len(mode['a']): 2, 3, 4"),
        ([(X, X, *[X] * n) for n in (1, 2, 3)], "count of arguments: 3, 4, 5"),
        ([(X, [X]), (X, {"a": X}), (X, None)], "the structure of the arguments"),
    ],
)
def test_structures(calls: list[tuple[Any, ...]], what: str) -> None:
    [(found, _)] = told(of, *calls)
    assert found == what


def test_lengths_where_there_are_keywords() -> None:
    [(found, fix)] = told(of, *[(X, [X] * n) for n in (2, 3, 4)], scale=2)
    assert found == "len(mode): 2, 3, 4"
    assert fix == "stack what mode holds into one tensor, or pad it to a few lengths"


def test_places_outside() -> None:
    calls = [(X,)] * 3
    assert told(of, *calls, outside=[{"global RATE": n} for n in (1, 2, 3)]) == [
        ("global RATE: 1, 2, 3", "keep RATE in a tensor, whose value is no part of the key")
    ]
    assert told(of, *calls, outside=[{"self.mode": text} for text in "abb"]) == [
        (
            "self.mode: 'a', 'b'",
            "let self.mode have few values, or hybridize what does not depend on it",
        )
    ]
    objects = [{"self.config": type("Config", (), {})()} for _ in range(3)]
    [(found, fix)] = told(of, *calls, outside=objects)
    assert found.startswith("self.config was another object (") and found.endswith("at each call")
    assert fix == "let self.config be the same object"


def test_what_has_most_values_comes_first() -> None:
    found = told(of, (X, "a", 1), (X, "a", 2), (X, "b", 3))
    assert [what for what, _ in found] == ["argument rest[0]: 1, 2, 3", "argument mode: 'a', 'b'"]


def test_the_reason() -> None:
    parts = [KeyChange(f"part {i}", (), f"mend {i}") for i in range(6)]
    assert reason_of(parts, "it is a loop's count") == (
        "What changes: part 0; part 1; part 2; part 3; 2 more\n"
        "A number cannot become an input: it is a loop's count\n"
        "Fix: mend 0 and mend 1."
    )
    assert reason_of([], "") == ""


def test_plans_are_told_of_by_the_calls_that_they_were_made_for() -> None:
    hybridized = hy.hybridize(of)
    for mode in ("a", "b"):
        hybridized(X, mode)
    found = records_of(hybridized._table.all(), ())
    assert [record.texts for record in found] == [("f32[3]", "'a'"), ("f32[3]", "'b'")]
