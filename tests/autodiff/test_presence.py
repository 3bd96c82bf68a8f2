"""Cotangents that may be none: what is added, what is left out, what is known beforehand."""

from __future__ import annotations

import pytest

import hybrid as hy
from hybrid import ops
from hybrid.autodiff.presence import (
    OptionalCt,
    added,
    chosen_ct,
    disjoined,
    flag,
    marked,
    neutral,
    nothing,
    optional_ct,
    plain,
    presence_of,
)

ODD = hy.asarray([-0.0, 0.0, float("inf"), float("nan"), 1e-310, -5.0], dtype=hy.float64)
NAN = hy.asarray([float("nan")] * 6, dtype=hy.float64)
YES, NO = flag(True), flag(False)


def bits(tensor) -> bytes:
    return tensor.numpy().tobytes()


def test_nothing_adds_nothing() -> None:
    assert bits(ODD + nothing(ODD.type)) == bits(ODD)
    assert bits(nothing(ODD.type) + ODD) == bits(ODD)


def test_eagerly_everything_is_known() -> None:
    assert optional_ct(ODD, YES, True) is ODD
    assert optional_ct(ODD, NO, True) is None
    assert optional_ct(ODD, True, True) is ODD
    assert chosen_ct(YES, ODD, None) is ODD
    assert chosen_ct(NO, ODD, None) is None


@pytest.mark.parametrize("there", [True, False])
def test_what_is_not_present_does_not_count(there) -> None:
    unclean = OptionalCt(ODD if there else NAN, flag(there), neutral=False)
    for total in (added(ODD, unclean), added(unclean, ODD)):
        assert bits(total) == bits(ODD + ODD if there else ODD)
    assert bits(plain(unclean)) == bits(ODD if there else ops.zeros((6,), dtype=hy.float64))
    assert bits(neutral(unclean)) == bits(ODD if there else nothing(ODD.type))


def test_sums_are_present_where_a_term_is() -> None:
    a, b = OptionalCt(ODD, YES, False), OptionalCt(NAN, NO, False)
    total = added(b, a)
    assert isinstance(total, OptionalCt)
    assert total.neutral
    assert total.present.item() is True
    assert bits(total.ct) == bits(ODD)
    assert added(b, b).present.item() is False


def test_presence_of_many() -> None:
    perhaps_no = OptionalCt(NAN, NO, False)
    assert presence_of([None, perhaps_no, ODD]) is None
    assert presence_of([None, perhaps_no]).item() is False
    assert presence_of([perhaps_no, OptionalCt(ODD, YES, False)]).item() is True
    assert disjoined(YES, YES) is YES


def test_marks_meet() -> None:
    assert marked(None, YES) is None
    assert marked(ODD, None) is ODD
    assert marked(ODD, NO).present is NO
    both = marked(OptionalCt(ODD, YES, True), NO)
    assert both.present.item() is False
    assert both.neutral is False


def test_backward_adds_nothing_for_what_is_absent() -> None:
    def f(x, w, v):
        y = hy.cond(ops.sum(x) > 0, lambda x, w: x * w, lambda x, w: x, x, w)
        return ops.sum(y * v)

    grads = []
    for function in (f, hy.hybridize(f)):
        w, v = hy.asarray([1.0, 2.0]), hy.asarray([1.0, 1.0])
        w.requires_grad = v.requires_grad = True
        w.grad = hy.asarray([-0.0, 3.0])
        function(hy.asarray([-1.0, -2.0]), w, v).backward()
        grads.append(bits(w.grad))
    assert grads[0] == grads[1]
