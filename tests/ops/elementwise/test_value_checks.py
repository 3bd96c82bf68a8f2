"""Elements that have no meaning where they stand: refused, eagerly and by plans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import DOMAINS, ArgumentError
from hybrid.nn import functional as F
from hybrid.ops.elementwise.value_checks import require_values

ONE = np.ones(3, np.float32)
EXPONENT = "It must be 0 or more.\nFix: convert the base to a floating dtype."
PROBABILITY = "It must be from 0 to 1.\nFix: use sigmoid or softmax, or the loss that takes logits."
VARIANCE = "It must be 0 or more.\nFix: make it positive, with softplus or exp for example."


def ints(*values: int, dtype: Any = hy.int64) -> hy.Tensor:
    return hy.asarray(values, dtype=dtype)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "a number": (lambda x: x**-1, (ints(10),), f"the exponent of an integer is -1\n{EXPONENT}"),
    "bools": (
        lambda x: x**-2,
        (hy.asarray([True]),),
        f"the exponent of an integer is -2\n{EXPONENT}",
    ),
    "tensors": (
        lambda x, y: x**y,
        (ints(10, 3), ints(2, -1)),
        f"the exponent of an integer is -1\n{EXPONENT}",
    ),
    "narrow": (
        lambda x, y: hy.pow(x, y),
        (ints(10, dtype=hy.int8), ints(-7, dtype=hy.int8)),
        f"the exponent of an integer is -7\n{EXPONENT}",
    ),
    "to a tensor": (lambda x: 2**x, (ints(-1),), f"the exponent of an integer is -1\n{EXPONENT}"),
    "a probability above 1": (
        lambda x: F.binary_cross_entropy(x, hy.ones(3)),
        (hy.asarray([0.5, 2.0, 0.1]),),
        f"a probability is 2\n{PROBABILITY}",
    ),
    "a probability below 0": (
        lambda x: F.binary_cross_entropy(x, hy.ones(3)),
        (hy.asarray([0.5, 0.0, -0.25]),),
        f"a probability is -0.25\n{PROBABILITY}",
    ),
    "a variance": (
        lambda x: F.gaussian_nll_loss(hy.zeros(3), hy.zeros(3), x),
        (hy.asarray([0.5, 0.0, -0.25]),),
        f"a variance is -0.25\n{VARIANCE}",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    function, operands, text = REFUSED[name]
    for run in (function, hy.hybridize(function)):
        for _ in range(2):
            with pytest.raises(ArgumentError) as caught:
                run(*operands)
            error = caught.value  # of a plan with the author's line
            assert f"{error.what}\n{error.why}\nFix: {error.fix}." == text


def test_a_plan_that_refused_once_serves_the_next_call() -> None:
    power = hy.hybridize(lambda x, y: x**y)
    assert power(ints(2, 3), ints(5, 2)).tolist() == [32, 9]
    with pytest.raises(ArgumentError):
        power(ints(2, 3), ints(5, -2))
    assert power(ints(2, 3), ints(0, 1)).tolist() == [1, 3]
    assert len(power.plans) == 1


KEPT: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "a float base": (lambda: hy.asarray([10.0]) ** ints(-1), [0.1]),
    "a float exponent": (lambda: ints(10) ** -1.0, [0.1]),
    "float exponents": (lambda: ints(10) ** hy.asarray([-1.0]), [0.1]),
    "a float number": (lambda: 2.0 ** ints(-1), [0.5]),
    "unsigned": (lambda: ints(3, dtype=hy.uint8) ** ints(2, dtype=hy.uint8), [9]),
    "a square": (lambda: ints(-3) ** 2, [9]),
    "NaN": (lambda: F.binary_cross_entropy(hy.asarray([math.nan]), hy.ones(1)), math.nan),
    "the ends": (
        lambda: F.binary_cross_entropy(hy.asarray([0.0, 1.0]), hy.asarray([0.0, 1.0])),
        0.0,
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_has_a_meaning_is_computed(name: str) -> None:
    function, want = KEPT[name]
    for run in (function, hy.hybridize(function)):
        np.testing.assert_allclose(run().numpy(), want, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("subject", DOMAINS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64, np.uint16])
def test_the_kernel_and_the_reference_refuse_the_same(subject: str, dtype: Any) -> None:
    signed = [] if np.dtype(dtype).kind == "u" else [[0, -1, 1]]
    for values in [[0, 1, 1], [0, 2, 1], [1, 0, 100], *signed]:
        x = np.array(values, dtype)
        try:
            want = require_values.reference_rule(x, subject=subject)
        except ArgumentError as error:
            with pytest.raises(ArgumentError) as caught:
                require_values(hy.asarray(x), subject=subject)
            assert caught.value.what == error.what
        else:
            assert require_values(hy.asarray(x), subject=subject).tolist() == want.tolist()


def test_gradients_pass() -> None:
    x = hy.asarray([0.25, 0.5])
    grad = hy.grad(lambda x: hy.sum(require_values(x, subject="probability") ** 2))
    assert grad(x).tolist() == [0.5, 1.0]
    assert hy.hybridize(grad)(x).tolist() == [0.5, 1.0]
