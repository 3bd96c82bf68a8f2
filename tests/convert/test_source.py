"""Source is found through the code object, and what is rebuilt from it is the function itself."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import opcode
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybrid.convert import convert, converted_source, is_converted, why_not
from hybrid.convert.source import NoSource
from hybrid.core.own_names import no_convert

# fmt: off
PAIR = (lambda x: x if x else 1), (lambda x: x if x else 2)
SAME = [lambda x: x and 1, lambda x: x and 1]
MORE = {"a": lambda x, y=(lambda z: z or 5): y(x) or 6, "b": lambda x: (lambda: x or 7)() or 8}
# fmt: on


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args) if args else None

    return wrapper


@decorated
@decorated
def twice(x: int) -> int:
    return x * 2 if x else 0


def imported(text: str, path: Path) -> types.ModuleType:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (PAIR[0], 1),
        (PAIR[1], 2),
        (SAME[1], 0),
        (MORE["a"], 5),
        (MORE["b"], 7),
        (lambda x: x or 9, 9),
    ],
)
def test_lambdas_on_one_line(function: Callable[..., Any], expected: Any) -> None:
    converted = convert(function)
    assert is_converted(converted)
    assert converted(0) == function(0) == expected


def test_decorated_functions() -> None:
    converted = convert(twice)
    assert is_converted(converted)
    assert converted.__name__ == "twice" and converted(3) == 6
    inner = convert(twice.__wrapped__.__wrapped__)
    assert is_converted(inner) and inner(4) == 8
    original = twice.__wrapped__.__wrapped__.__code__
    assert inner.__code__.co_firstlineno == original.co_firstlineno


def outer(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def get(x: int, *, scale: int = 2) -> int:
        """Documented."""
        return n * scale if x else 0

    def set_(value: int) -> None:
        nonlocal n
        n = value if value else n

    get.attribute = 1  # type: ignore[attr-defined]
    return get, set_


def test_a_converted_function_is_the_function() -> None:
    get, set_ = outer(3)
    converted, setter = convert(get), convert(set_)
    assert is_converted(converted) and is_converted(setter)
    setter(5)  # the closure cell is the same
    assert get(1) == converted(1) == 10
    for name in (
        "__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__",
        "__annotations__",
    ):  # fmt: skip
        assert getattr(converted, name) == getattr(get, name)
    assert converted.__dict__ is get.__dict__
    assert converted.__globals__ is get.__globals__
    assert converted.__closure__ == get.__closure__
    code, original = converted.__code__, get.__code__
    for name in (
        "co_filename", "co_name", "co_firstlineno", "co_argcount", "co_kwonlyargcount",
        "co_freevars", "co_flags",
    ):  # fmt: skip
        assert getattr(code, name) == getattr(original, name), name
    assert code.co_varnames[:2] == original.co_varnames[:2]
    if sys.version_info >= (3, 11):
        assert code.co_qualname == original.co_qualname


def test_conversion_happens_once() -> None:
    assert convert(twice).__code__ is convert(twice).__code__
    converted = convert(twice)
    assert convert(converted) is converted


class Sample:
    def method(self, x: int) -> int:
        return x if x else 1


def test_methods() -> None:
    sample = Sample()
    converted = convert(sample.method)
    assert converted.__self__ is sample and converted(0) == 1


def test_no_convert() -> None:
    @no_convert
    def left(x: int) -> int:
        return x or 1

    assert convert(left) is left
    assert why_not(left) == "it is marked with no_convert"

    @functools.wraps(left)
    def wrapper(x: int) -> int:
        return left(x) or 2

    assert is_converted(convert(wrapper))  # the mark is of one function, not of its copies


def test_without_source() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x): return x or 1", namespace)
    assert convert(namespace["f"]) is namespace["f"]
    assert why_not(namespace["f"]) == "the source of <string> is not to be had"
    assert convert(len) is len
    assert why_not(len) == "builtin_function_or_method objects have no Python source"

    async def later() -> None:
        pass

    assert convert(later) is later
    assert why_not(later) == "asynchronous functions are not converted"
    with pytest.raises(NoSource, match="the source of <string> is not to be had"):
        converted_source(namespace["f"])


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "sample_of_change.py"
    module = imported("def f(x):\n    return x or 1\n", path)
    path.write_text("def f(x):\n    return x or 2\n", encoding="utf-8")
    linecache.checkcache(str(path))
    assert convert(module.f) is module.f
    reason = f"{path} has changed since it was imported, or was rewritten while it was"
    assert why_not(module.f) == reason
    path.write_text("def f(x:\n", encoding="utf-8")
    linecache.checkcache(str(path))
    other = imported("def g(x):\n    return x or 1\n", tmp_path / "other.py")
    assert is_converted(convert(other.g))


def test_a_file_that_no_longer_parses(tmp_path: Path) -> None:
    path = tmp_path / "sample_of_nonsense.py"
    module = imported("def f(x):\n    return x or 1\n", path)
    path.write_text("def f(x:\n", encoding="utf-8")
    reason = f"{path} does not parse: it has changed since it was imported"
    assert why_not(module.f) == reason


def test_a_file_written_again_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "sample_of_return.py"
    first = imported("def f(x):\n    return x or 1\n", path)
    assert is_converted(convert(first.f))
    second = imported("\n\ndef f(x):\n    return x or 22\n", path)
    assert convert(second.f)(0) == 22


def getter(x: int) -> str:
    return "getter" if x else getter(1) + "getter.<locals>.x"


def test_constants_that_look_like_names_stay() -> None:
    assert convert(getter)(0) == getter(0) == "gettergetter.<locals>.x"


def test_future_imports_count(tmp_path: Path) -> None:
    text = "from __future__ import annotations\ndef f(x):\n    def g(y: nothing): pass\n"
    text += "    return g.__annotations__ if x else None\n"
    module = imported(text, tmp_path / "sample_of_future.py")
    assert convert(module.f)(1) == module.f(1) == {"y": "nothing"}


def test_source_reads_well() -> None:
    def sample(x: int) -> int:
        if x > 1:  # noqa: SIM108
            y = 2
        else:
            y = 3
        return y

    # Python 3.10 writes the tuple of one in parentheses.
    assert converted_source(sample).replace("(y,)", "y,") == (
        "def sample(x: int) -> int:\n"
        "    hyb_1 = hyb__.if_(hyb__0, hyb__.load('x', x) > 1)\n"
        "    if hyb_1.again(hyb_1.wants and hyb__.locals()):\n"
        "        if hyb_1.loads:\n"
        "            y, = hyb_1.values\n"
        "        with hyb_1:\n"
        "            y = 2\n"
        "    if hyb_1.again(hyb_1.wants and hyb__.locals()):\n"
        "        if hyb_1.loads:\n"
        "            y, = hyb_1.values\n"
        "        with hyb_1:\n"
        "            y = 3\n"
        "    hyb_1.again(hyb_1.wants and hyb__.locals())\n"
        "    if hyb_1.loads:\n"
        "        y, = hyb_1.values\n"
        "    return hyb__.peek('y', y)"
    )


def test_code_that_a_profiler_has_padded() -> None:
    def padded(x: int) -> int:
        return x * 2 if x else 1

    code = padded.__code__
    nothing = bytes([opcode.opmap["NOP"], 0])
    padded.__code__ = code.replace(co_code=code.co_code + nothing * 2)
    assert why_not(padded) == ""
    assert convert(padded)(3) == 6
