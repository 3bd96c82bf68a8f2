"""What a captured function calls is converted with it: the user's own code, and no library's."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hybrid as hy
from hybrid.convert import convert, is_converted
from hybrid.convert.runtime import Site
from hybrid.core.own_names import no_convert
from hybrid.errors import ArgumentTypeError, Location, TracedBoolError
from hybrid.ir import Builder
from hybrid.ir.interpreter import interpreting
from hybrid.staging.callee import converted, is_users, resolve
from hybrid.trace.regions.tracer import Tracer
from tests.helpers import tensor

SITE = Site("call", Location("x.py", 1), "f")


def positive(x: Any) -> Any:
    """Branches on a tensor: unconverted, it cannot be captured."""
    if x.sum() > 0:
        return x * 2
    return x - 1


class Scale:
    factor: Any

    def __init__(self, x: Any) -> None:
        if x.sum() > 0:
            self.factor = x + 1
        else:
            self.factor = x - 1

    def __call__(self, x: Any) -> Any:
        return positive(x) * self.factor

    def method(self, x: Any) -> Any:
        return positive(x) + self.factor

    @staticmethod
    def static(x: Any) -> Any:
        return positive(x)

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return cls(x).factor


class Child(Scale):
    def __init__(self, x: Any) -> None:
        super().__init__(-x)

    def method(self, x: Any) -> Any:
        return super().method(x) if x.sum() < 0 else super().method(x * 3)


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@wrapping
def wrapped(x: Any) -> Any:
    return positive(x)


CALLS: dict[str, Callable[[Any], Any]] = {
    "function": lambda x: positive(x),
    "nested": lambda x: (lambda y: positive(y))(x),
    "partial": lambda x: functools.partial(positive)(x),
    "partial of a method": lambda x: functools.partial(Scale(x).method, x)(),
    "object": lambda x: Scale(x)(x),
    "method": lambda x: Scale(x).method(x),
    "static": lambda x: Scale.static(x),
    "class method": lambda x: Scale.of_class(x),
    "inheritance": lambda x: Child(x).method(x),
    "wrapper": lambda x: wrapped(x),
    "map": lambda x: list(map(positive, [x, -x])),
    "sorted": lambda x: [*sorted([3, 1, 2], key=lambda n: -n if n else 0), positive(x)],
    "reduce": lambda x: functools.reduce(lambda a, b: positive(a) + b, [x, x, x]),
    "accumulate": lambda x: list(itertools.accumulate([x, x], lambda a, b: positive(a) + b)),
    "comprehension": lambda x: [positive(y) for y in (x, -x)],
    "star": lambda x: positive(*[x], **{}),
    "operand": lambda x: positive(x) if x.sum() > 0 else positive(-x),
    "recursion": lambda x: halved(x, 3),
}


def halved(x: Any, n: int) -> Any:
    if n == 0:
        return positive(x)
    return halved(x / 2, n - 1)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_calls(call: Callable[[Any], Any], sign: float) -> None:
    x = tensor(3) * 0 + sign
    found, wanted = hy.hybridize(call)(x), call(x)
    if not isinstance(wanted, list):
        found, wanted = [found], [wanted]
    assert [v.tolist() if isinstance(v, hy.Tensor) else v for v in found] == [
        v.tolist() if isinstance(v, hy.Tensor) else v for v in wanted
    ]


def test_no_convert_is_traced_as_it_is() -> None:
    @no_convert
    def left(x: Any) -> Any:
        return 1 if x.sum() > 0 else 2

    with pytest.raises(TracedBoolError):
        hy.hybridize(lambda x: left(x) + x)(tensor(3))


def test_no_convert_of_something_else() -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        no_convert(len)
    assert str(caught.value) == (
        "a builtin_function_or_method cannot be marked with no_convert\n"
        "Fix: decorate a function or a method with it."
    )


def test_only_the_users_functions_are_converted() -> None:
    assert is_users(positive) and is_users(Scale.method)
    assert not is_users(functools.update_wrapper)
    assert not is_users(hy.nn.Linear.forward)
    cached = functools.lru_cache(positive)
    with interpreting(Tracer(Builder("f"))):
        for left in (super, locals):
            assert resolve(SITE, left) is left
        assert is_converted(resolve(SITE, positive))
        assert is_converted(resolve(SITE, Scale.method))
        assert not is_converted(converted(functools.update_wrapper))
    assert convert(cached) is cached


PROFILER = """
import functools

def profile(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        counts.append(1)
        try:
            return function(*args, **kwargs)
        finally:
            counts.append(-1)
    return wrapper

counts = Counts()
"""


class Counts:
    def append(self, _n: int) -> None:
        pass


def test_what_a_decorator_of_a_library_makes(tmp_path: Path) -> None:
    path = tmp_path / "site-packages" / "profiler.py"
    path.parent.mkdir()
    path.write_text(PROFILER)
    space: dict[str, Any] = {"Counts": Counts}
    exec(compile(PROFILER, str(path), "exec"), space)
    profiled = space["profile"](positive)
    assert is_users(profiled), "it wraps a function of the user's"
    assert not is_users(space["profile"])
    for x in (tensor(3) * 0 + 1, tensor(3) * 0 - 1):
        for function in (profiled, lambda x: profiled(x) + 1):
            assert hy.hybridize(function)(x).tolist() == function(x).tolist()


def test_arguments_are_refused_as_python_does() -> None:
    def f(a: Any) -> Any:
        return positive(a, 2)

    def g(a: Any) -> Any:
        return Scale()

    for function in (f, g):
        with pytest.raises(TypeError) as wanted:
            function(tensor(3))
        with pytest.raises(TypeError) as found:
            hy.hybridize(function)(tensor(3))
        assert str(found.value) == str(wanted.value)
