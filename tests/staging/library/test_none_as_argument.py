"""What is None on some paths given to a function, which asks whether it is, as in eager code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import describe, f32

POINTS = ([1.0, 2.0], [-1.0, -2.0], [0.5, 0.25])


def or_ten_times(v: Any, x: Any) -> Any:
    if v is None:
        return x * 10
    return x + v


def none_by_default(v: Any = None) -> Any:
    return hy.ones(2) if v is None else v


def equals_none(v: Any, x: Any) -> Any:
    return x if v == None else v  # noqa: E711


def by_match(v: Any, x: Any) -> Any:
    match v:
        case None:
            return x
        case _:
            return v


def by_class(v: Any, x: Any) -> Any:
    return v if isinstance(v, hy.Tensor) else x


def either_of(a: Any, b: Any) -> Any:
    if a is None and b is None:
        return hy.zeros(2)
    if a is None:
        return b
    return a if b is None else a + b


def written_to(v: Any) -> None:
    if v is not None:
        v += 1


def named(v: Any, x: Any, **options: Any) -> Any:
    return or_ten_times(options.get("w"), x) if v is None else v


def refusing_none(v: Any) -> Any:
    if v is None:
        raise ValueError("there is nothing")
    return v


def deep(v: Any, x: Any, n: int) -> Any:
    return or_ten_times(v, x) if n == 0 else deep(v, x, n - 1)


class Masking(hy.nn.Module):
    def forward(self, x: Any, mask: Any = None) -> Any:
        return x if mask is None else x * mask


class Held:
    def __init__(self, v: Any) -> None:
        self.v = v

    def or_else(self, v: Any, x: Any) -> Any:
        return x if v is None else v


MASKING, HELD, NORM = Masking(), Held(None), hy.nn.BatchNorm1d(2, affine=False)


@hy.hybridize
def hybridized(v: Any, x: Any) -> Any:
    return x if v is None else v * 3


def normed(v: Any, x: Any) -> Any:
    return x if v is None else NORM(hy.stack([v, v * 2, v * 3]))[0]


def twice_if(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else None


def in_a_loop(x: Any) -> Any:
    v = None
    for i in range(3):
        if x[i % 2] > 1:
            v = x * i
    return or_ten_times(v, x)


def from_a_dict(x: Any) -> Any:
    table = {"v": None}
    if x.sum() > 0:
        table["v"] = x * 2
    return or_ten_times(table["v"], x) + or_ten_times(table.get("v"), x)


def from_an_object(x: Any) -> Any:
    held = Held(twice_if(x))
    return or_ten_times(held.v, x)


def and_goes_on(x: Any) -> Any:
    v = twice_if(x)
    w = or_ten_times(v, x)
    return w if v is None else v + w


def caught(x: Any) -> Any:
    try:
        return refusing_none(twice_if(x))
    except ValueError:
        return x * 7


def written_in_place(x: Any) -> Any:
    v = twice_if(x)
    written_to(v)
    return v


def in_three_places(x: Any) -> Any:
    w = x * 3 if x.sum() > 2 else None
    return either_of(twice_if(x), w) + or_ten_times(w, x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "argument": lambda x: or_ten_times(twice_if(x), x),
    "keyword": lambda x: or_ten_times(x=x, v=twice_if(x)),
    "default": lambda x: none_by_default(twice_if(x)),
    "unpacked": lambda x: or_ten_times(*(twice_if(x), x)) + or_ten_times(**{"v": None, "x": x}),
    "options": lambda x: named(twice_if(x), x, w=twice_if(x)),
    "method": lambda x: HELD.or_else(twice_if(x), x),
    "module": lambda x: MASKING(x, twice_if(x)),
    "module's keyword": lambda x: MASKING(x, mask=twice_if(x)),
    "lambda": lambda x: (lambda v: x if v is None else v)(twice_if(x)),
    "hybridized": lambda x: hybridized(twice_if(x), x),
    "==": lambda x: equals_none(twice_if(x), x),
    "match": lambda x: by_match(twice_if(x), x),
    "isinstance": lambda x: by_class(twice_if(x), x),
    "isinstance itself": lambda x: x * 2 if isinstance(twice_if(x), hy.Tensor) else x * 3,
    "a number": lambda x: or_ten_times(5 if x.sum() > 0 else None, x),
    "two": lambda x: either_of(twice_if(x), x * 3 if x.sum() > 2 else None),
    "identity": lambda x: (lambda v: v)(twice_if(x)),
    "in a tuple": lambda x: (lambda v: (v, x))(twice_if(x)),
    "deep": lambda x: deep(twice_if(x), x, 20),
    "state of a module": lambda x: normed(twice_if(x), x),
    "comprehension": lambda x: [or_ten_times(v, x) for v in (twice_if(x), x, None)],
    "map": lambda x: list(map(lambda v: or_ten_times(v, x), [twice_if(x), x])),
    "an error": lambda x: refusing_none(twice_if(x)),
    "an error of an op": lambda x: (lambda v: v + x)(twice_if(x)),
    **{f.__name__: f for f in (
        in_a_loop, from_a_dict, from_an_object, and_goes_on, caught, written_in_place,
        in_three_places,
    )},
}  # fmt: skip


def outcomes(call: Callable[[Any], Any]) -> list[Any]:
    NORM.reset_running_stats()
    found = []
    for point in POINTS:
        try:
            result: Any = describe(call(f32(point)))
        except (ValueError, TypeError) as error:
            result = type(error), str(error).partition("\n")[0]
        found.append((result, NORM.running_mean.tolist(), NORM.num_batches_tracked.tolist()))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_function_is_told_what_it_is(name: str) -> None:
    program = hy.hybridize(PROGRAMS[name])
    assert outcomes(program) == outcomes(PROGRAMS[name])
    assert len(program.plans) == 1


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def show(x: Any) -> Any:
        print(twice_if(x))
        return x

    outcomes(show)
    expected = capsys.readouterr().out
    outcomes(hy.hybridize(show))
    assert capsys.readouterr().out == expected and "None" in expected


def test_gradients_go_to_the_path_that_is_taken() -> None:
    def loss(x: Any) -> Any:
        return hy.sum(or_ten_times(twice_if(x), x))

    for point in POINTS:
        expected = hy.grad(loss)(f32(point)).tolist()
        assert hy.hybridize(hy.grad(loss))(f32(point)).tolist() == expected


LATER: dict[str, Callable[[Any], Any]] = {
    "partial": lambda x: functools.partial(or_ten_times, twice_if(x))(x),
    "generator": lambda x: next(generated(twice_if(x), x)),
    "text": lambda x: print(str(twice_if(x))),
}


def generated(v: Any, x: Any) -> Any:
    yield x if v is None else v


@pytest.mark.parametrize("name", LATER)
def test_what_runs_later_needs_it_to_be_there(name: str) -> None:
    """The plan checks that it is."""
    program = hy.hybridize(LATER[name])
    x = f32([1.0, 2.0])
    assert str(program(x)) == str(LATER[name](x))
    with pytest.raises(CaptureError, match=r"^what is given here is None on the path that this"):
        program(-x)


def test_of_many_the_fourth_has_to_be_there() -> None:
    def first_of(a: Any, b: Any, c: Any, d: Any, x: Any) -> Any:
        for v in (a, b, c, d):
            if v is not None:
                return v
        return x

    @hy.hybridize
    def program(x: Any, s: Any) -> Any:
        a, b, c = (x * k if s > k else None for k in (1, 2, 3))
        d = x * 4 if s > -1 else None
        return first_of(c, b, a, d, x)

    x = f32([1.0, 2.0])
    for s, factor in ((3.5, 3.0), (2.5, 2.0), (1.5, 1.0), (0.0, 4.0)):
        assert program(x, hy.asarray(s)).tolist() == [factor, 2 * factor]
    with pytest.raises(CaptureError, match="what is given here is None on the path"):
        program(x, hy.asarray(-2.0))
