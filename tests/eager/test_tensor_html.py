"""Tensors in notebooks: well-formed tables of values, of some where there are many."""

import time

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import DTYPES
from tests.markup import read, texts


def cells(x):
    """The head, and the rest of what is shown."""
    html = texts(x._repr_html_())
    return html[:3], html[3:]


def test_a_matrix():
    x = hy.asarray(np.array([[1.0, -2.5], [np.nan, 1e10]], np.float32))
    head, shown = cells(x)
    assert head == ["Tensor", "f32[2,2]", "float32, 4 elements"]
    assert shown == ["0", "1", "0", "1", "-2.5", "1", "nan", "1e+10"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3.5, ["3.5"]),
        ([1, 2, 3], ["0", "1", "2", "1", "2", "3"]),
        ([[True]], ["0", "0", "True"]),
        ([], ["no elements"]),
        (np.zeros((2, 0, 3)), ["no elements"]),
        (
            np.arange(8).reshape(2, 1, 2, 2),
            ["[0, 0]", *"01001123", "[1, 0]", *"01045167"],
        ),
    ],
)
def test_values(value, shown):
    assert cells(hy.asarray(value))[1] == shown


def test_a_table_of_each_dtype():
    for dtype in DTYPES:
        x = hy.asarray([[0, 1]]).astype(dtype)
        one = "True" if dtype is hy.bool else "1"
        assert cells(x)[1][-1] == one, dtype
    assert cells(hy.asarray([1.5, -3.0], dtype=hy.bfloat16))[1] == ["0", "1", "1.5", "-3"]


def test_some_of_many():
    x = hy.asarray(np.arange(12 * 11 * 5).reshape(5, 12, 11))
    html = x._repr_html_()
    shown = texts(html)[3:]
    assert shown[0] == "[0]" and shown[-1] == "… and 2 more of 12 x 11"
    assert shown[1:12] == [str(i) for i in range(11)]  # as many columns as fit
    assert html.count("<tr>") == 3 * 12 and shown.count("…") == 3 * 12  # a head, 5, a gap and 5


@pytest.mark.alone
@pytest.mark.parametrize("dtype", [hy.float32, hy.bfloat16])
def test_large_ones_are_cheap(dtype):
    x = hy.zeros((300, 200, 500), dtype=dtype)
    begun = time.perf_counter()
    html = x._repr_html_()
    assert time.perf_counter() - begun < 0.02  # a pass over the elements takes longer
    assert len(html) < 10_000


def test_what_a_tensor_is():
    x = hy.asarray([1.0])
    x.requires_grad = True
    assert cells(x)[0][2] == "float32, requires_grad"
    assert cells(x * 2)[1] == ["0", "2"]
    assert cells(hy.nn.Parameter(np.zeros(2, np.float32)))[0][0] == "Parameter"


class Seen(Exception):
    """What was shown where it is raised."""


OUTER = hy.asarray([7.0])


def show(x):
    raise Seen((x + 1)._repr_html_(), OUTER._repr_html_())


def test_placeholders_have_no_values():
    with pytest.raises(Seen) as caught:
        hy.hybridize(show, mode="trace")(hy.ones(2))
    traced = ["traced: it has values when the plan runs"]
    assert [texts(html)[3:] for html in caught.value.args] == [traced, traced]
    with pytest.raises(Seen) as caught:
        hy.vmap(show)(hy.ones((3, 2)))
    assert [texts(html)[3:] for html in caught.value.args] == [traced, ["0", "7"]]


def test_nothing_is_left_open():
    tags = [tag for tag, _ in read(hy.ones((3, 3))._repr_html_()).tags]
    assert tags.count("tr") == 4 and tags.count("td") == 9 and tags.count("th") == 7
