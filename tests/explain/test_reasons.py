"""Why a call builds a plan: each reason in full, as ``plans`` and ``explain`` tell it."""

import types
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy

RATE = 2.0


def last_reason(hybridized: Any) -> str:
    return hybridized.plans[-1].why


def reasons(function: Callable[..., Any], *calls: tuple) -> list[str]:
    """The reasons of the plans that ``calls`` build."""
    hybridized = hy.hybridize(function)
    for call in calls:
        hybridized(*call)
    return [plan.why for plan in hybridized.plans]


def test_the_first_call() -> None:
    assert reasons(lambda x: x, (hy.ones(2),)) == ["first call"]


def test_another_shape() -> None:
    hybridized = hy.hybridize(lambda x, y: x, dynamic=False)
    for n in (2, 3, 4):
        hybridized(hy.ones(1), hy.ones(n))
    assert [plan.why for plan in hybridized.plans][1:] == [
        "argument y is f32[3] where the cached plan has f32[2]",
        "argument y is f32[4] where the cached plans have f32[2] or f32[3]",
    ]
    found = reasons(lambda x, y: x, *[(hy.ones(1), hy.ones(n)) for n in (2, 3, 4)])
    assert found[1:] == ["argument y is f32[3] where the cached plan has f32[2]"]  # for all n


def test_another_dtype_and_another_shape() -> None:
    found = reasons(
        lambda x, y: x, (hy.ones(1), hy.ones(2)), (hy.ones(1, dtype=hy.float64), hy.ones(3))
    )
    assert found[1] == (
        "argument x is f64[1] where the cached plan has f32[1]; "
        "argument y is f32[3] where the cached plan has f32[2]"
    )


def test_the_nearest_plan_is_told_of() -> None:
    x, y = hy.ones(1), hy.ones(2)
    found = reasons(lambda a, b, c: a, (x, x, x), (y, y, y), (x, x, y))
    assert found[2] == "argument c is f32[2] where the nearest cached plan has f32[1]"


def test_differences_beyond_the_third_are_counted() -> None:
    found = reasons(lambda *a: a[0], *[[hy.ones(n) for _ in range(5)] for n in (1, 2)])
    assert found[1] == (
        "argument a[0] is f32[2] where the cached plan has f32[1]; "
        "argument a[1] is f32[2] where the cached plan has f32[1]; "
        "argument a[2] is f32[2] where the cached plan has f32[1]; 2 more differences"
    )


def test_parts_of_arguments_have_names() -> None:
    def function(batch, options):
        return batch["x"]

    found = reasons(
        function,
        ({"x": hy.ones(2), "y": [hy.ones(1)]}, ("a", None)),
        ({"x": hy.ones(2), "y": [hy.ones(4)]}, ("b", None)),
    )
    assert found[1] == (
        "argument batch['y'][0] is f32[4] where the cached plan has f32[1]; "
        "argument options[0] is 'b' where the cached plan has 'a'"
    )


def test_keyword_arguments() -> None:
    hybridized = hy.hybridize(lambda x, *, rate: x)
    hybridized(hy.ones(1), rate="slow")
    hybridized(hy.ones(1), rate="fast")
    assert last_reason(hybridized) == ("argument rate is 'fast' where the cached plan has 'slow'")


def test_another_structure() -> None:
    found = reasons(lambda x: 0, ([hy.ones(1)],), ([hy.ones(1), hy.ones(1)],), ((hy.ones(1),),))
    assert found[1:] == [
        "the arguments are ([*, *],) where the cached plan has ([*],)",
        "the arguments are ((*,),) where the cached plans have ([*],) or ([*, *],)",
    ]


def test_another_object() -> None:
    class Config:
        pass

    found = reasons(lambda x, config: x, (hy.ones(1), Config()), (hy.ones(1), Config()))
    assert found[1] == "argument config is another Config object than before"


def test_a_gradient_that_flows_to_an_argument() -> None:
    x = hy.ones(2)
    y = hy.ones(2)
    y.requires_grad = True
    assert (
        reasons(lambda x: x * 2, (x,), (y,))[1]
        == "gradients flow to argument x, and did not before"
    )
    assert reasons(lambda x: x * 2, (y,), (x,))[1] == (
        "gradients do not flow to argument x, and did before"
    )


def test_recording() -> None:
    hybridized = hy.hybridize(lambda x: x * 2)
    hybridized(hy.ones(2))
    with hy.no_grad():
        hybridized(hy.ones(2))
    assert last_reason(hybridized) == "gradients are not recorded, and were before"
    hybridized.clear()
    with hy.no_grad():
        hybridized(hy.ones(2))
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == "gradients are recorded, and were not before"


def test_one_tensor_twice() -> None:
    x, y = hy.ones(2), hy.ones(2)
    assert reasons(lambda a, b: a + b, (x, y), (x, x))[1] == (
        "a and b are one tensor; in the cached plan no two arguments are"
    )
    assert reasons(lambda a, b, k: a + b, (x, x, "k"), (x, y, "k"))[1] == (
        "no two arguments are one tensor; in the cached plan a and b are"
    )


# Numbers ------------------------------------------------------------------------------------------


def test_a_number_that_becomes_an_input() -> None:
    found = reasons(lambda x, k: x * k, (hy.ones(2), 2.0), (hy.ones(2), 3.0), (hy.ones(2), 4.0))
    assert found == [
        "first call",
        "argument k is 3.0 where the cached plan has 2.0; "
        "k is an input of this plan: any value will do",
    ]


def test_numbers_that_become_inputs() -> None:
    found = reasons(lambda x, k, n: x * k + n, (hy.ones(2), 2.0, 1), (hy.ones(2), 3.0, 2))
    assert found[1] == (
        "argument k is 3.0 where the cached plan has 2.0; "
        "argument n is 2 where the cached plan has 1; "
        "k and n are inputs of this plan: any value will do"
    )


def test_a_number_that_cannot_become_an_input() -> None:
    def function(x, n):
        return hy.zeros(n)

    found = reasons(function, (hy.ones(2), 1), (hy.ones(2), 2))
    line = function.__code__.co_firstlineno + 1
    assert found[1].startswith(
        "argument n is 2 where the cached plan has 1; it cannot become an input: "
    )
    assert found[1].endswith(f"({__file__}:{line})")


# What is read from outside ------------------------------------------------------------------------


def test_a_global(monkeypatch: pytest.MonkeyPatch) -> None:
    hybridized = hy.hybridize(lambda x: x * RATE)
    hybridized(hy.ones(2))
    monkeypatch.setitem(globals(), "RATE", 3.0)
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == (
        "global RATE was 2.0 and is 3.0; RATE is an input of this plan: any value will do"
    )


def test_a_closure_variable() -> None:
    rate = 2.0
    hybridized = hy.hybridize(lambda x: x * rate)
    hybridized(hy.ones(2))
    rate = 3.0
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == (
        "closure variable rate was 2.0 and is 3.0; rate is an input of this plan: any value will do"
    )


def test_a_tensor_that_is_replaced() -> None:
    weight = hy.ones(2)
    hybridized = hy.hybridize(lambda x: x * weight)
    hybridized(hy.ones(2))
    weight = hy.ones(2)
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == (
        "closure variable weight is another object (f32[2]) than before"
    )


def test_a_default() -> None:
    def function(x, rate=2.0):
        return x * rate

    hybridized = hy.hybridize(function)
    hybridized(hy.ones(2))
    function.__defaults__ = (3.0,)
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == (
        "defaults of function was (2.0,) and is (3.0,); "
        "the default of rate is an input of this plan: any value will do"
    )


def test_a_switch_of_a_module() -> None:
    network = hy.nn.Sequential(hy.nn.Dropout(0.0), hy.nn.Dropout(0.0)).hybridize()
    network(hy.ones(2))
    network.eval()
    network(hy.ones(2))
    assert last_reason(network) == (
        "Dropout.training was True and is False (2 times); "
        "Sequential.training was True and is False"
    )


def test_an_attribute_that_hides_one_of_the_class() -> None:
    network = hy.nn.Dropout(0.0).hybridize()
    network(hy.ones(2))
    network.forward = lambda x: x + 1
    network(hy.ones(2))
    assert last_reason(network) == ("Dropout has got an attribute that was looked for on its class")


def test_a_tensor_of_another_type_in_an_attribute() -> None:
    state = types.SimpleNamespace(h=hy.ones(2))
    hybridized = hy.hybridize(lambda x: x + state.h)
    hybridized(hy.ones(2))
    state.h = hy.ones(1)
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == "SimpleNamespace.h was f32[2] and is f32[1]"


def test_a_parameter_that_is_frozen() -> None:
    layer = hy.nn.Linear(2, 2, bias=False).hybridize()
    layer(hy.ones((1, 2)))
    layer.weight.requires_grad = False
    layer(hy.ones((1, 2)))
    assert last_reason(layer) == (
        "gradients do not flow to a tensor (f32[2,2]) from outside, and did before"
    )


def test_a_gradient_that_is_there_now() -> None:
    weight = hy.ones(2)
    weight.requires_grad = True

    def step(x):
        (x * weight).sum().backward()

    hybridized = hy.hybridize(step)
    hybridized(hy.ones(2))
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == "the gradient of a tensor was None and is f32[2]"


def test_an_argument_that_is_the_tensor_outside() -> None:
    weight = hy.ones(2)

    def add(x):
        nonlocal weight
        weight += x
        return x

    hybridized = hy.hybridize(add)
    hybridized(hy.ones(2))
    hybridized(weight)
    assert last_reason(hybridized) == (
        "tensors that were distinct are one tensor now, or the other way round"
    )


# The cache ----------------------------------------------------------------------------------------


def test_a_plan_that_had_to_go() -> None:
    hybridized = hy.hybridize(lambda x: x * 2, max_plans=1)
    for n in (1, 2, 1):
        hybridized(hy.ones(n))
    assert last_reason(hybridized) == "its plan had been dropped: max_plans is 1"
    hybridized.clear()
    hybridized(hy.ones(2))
    assert last_reason(hybridized) == "first call"


def test_plans_print_their_reasons() -> None:
    hybridized = hy.hybridize(lambda x: x * 2)
    hybridized(hy.ones(2))
    assert str(hybridized.plans[0]) == (
        "(f32[2]): 2 nodes, 1 step, 0 bytes of scratch, 0 guards, 1 call; built because: first call"
    )


def test_plans_tell_what_sharing_scratch_has_saved() -> None:
    hybridized = hy.hybridize(
        lambda x: hy.sort(hy.sort(hy.sort(hy.sort(x, axis=0), axis=1), axis=0))
    )
    hybridized(hy.ones((16, 16)))
    (plan,) = hybridized.plans
    assert (plan.arena_nbytes, plan.scratch_nbytes) == (2048, 7168)
    assert "2048 bytes of scratch (in place of 7168)" in plan.sizes


def test_explain_tells_the_reason_before_there_is_a_plan() -> None:
    hybridized = hy.hybridize(lambda x: x * 2)
    hybridized(hy.ones(2))
    assert hybridized.explain(hy.ones(3)).verdict == (
        "a call builds a new plan: argument x is f32[3] where the cached plan has f32[2]"
    )


def test_explain_tells_of_numbers_before_there_is_a_plan() -> None:
    hybridized = hy.hybridize(lambda x, k: x * k)
    hybridized(hy.ones(2), 2)
    assert hybridized.explain(hy.ones(2), 3).verdict == (
        "a call builds a new plan: argument k is 3 where the cached plan has 2; "
        "k is an input of this plan: any value will do"
    )
    hybridized = hy.hybridize(lambda x, n: hy.zeros(n))
    hybridized(hy.ones(2), 2)
    verdict = hybridized.explain(hy.ones(2), 3).verdict
    assert verdict.startswith(
        "a call builds a new plan: argument n is 3 where the cached plan has 2; "
        "n is an input of this plan: any value will do, but that fails: "
    )
    hybridized(hy.ones(2), 3)
    refused = hybridized.explain(hy.ones(2), 4).verdict
    assert refused == (
        "a call builds a new plan: argument n is 4 where the cached plans have 2 or 3; "
        f"it cannot become an input: {verdict.partition('fails: ')[2]}"
    )
