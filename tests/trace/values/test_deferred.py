"""Texts that a hybridized function returns or keeps are those that it returns eagerly."""

from __future__ import annotations

from typing import Any

import hybrid as hy
from tests.helpers import leaf, tensor


def describe(x: Any, n: int) -> Any:
    total = x.sum()
    return f"{x} {total:.3f}", {"n": f"{n:>5}", "both": [str(total), repr(n)]}, "constant"


def test_texts_are_returned() -> None:
    hybridized = hy.hybridize(describe)
    for x in (tensor(3), tensor(3, seed=1)):
        for n in (1, 20, -3):
            assert hybridized(x, n) == describe(x, n)


def test_a_text_by_itself_and_one_of_an_input() -> None:
    assert hy.hybridize(lambda x: f"{x}")(tensor(2)) == f"{tensor(2)}"
    assert hy.hybridize(lambda x: (x, str(x)))(tensor(2))[1] == str(tensor(2))


def test_a_text_says_that_a_gradient_is_asked_for() -> None:
    x = leaf(2)

    def function(x: Any) -> Any:
        y = x * 2.0
        return y, f"{y}"

    y, text = hy.hybridize(function)(x)
    assert text == function(x)[1] == f"{y}"
    assert "requires_grad=True" in text
    hy.sum(y).backward()
    assert x.grad.tolist() == [2.0, 2.0]
