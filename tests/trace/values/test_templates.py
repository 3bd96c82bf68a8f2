"""Templates of what is printed and raised: texts of numbers and tensors, or why there is none."""

# ruff: noqa: UP031

from __future__ import annotations

import sys
from typing import Any

import pytest

import hybrid as hy
from hybrid.core.exceptions import Leaving
from hybrid.trace.values.deferred import DeferredCall


def messages(function: Any, *args: Any) -> list[Any]:
    """What the calls of a captured function say, in order."""
    graph = hy.hybridize(function).graph(*args)
    calls = [n.attributes["function"] for n in graph.walk() if n.op.name == "py_call"]
    calls = [call.function if type(call) is Leaving else call for call in calls]
    return [call.template for call in calls if isinstance(call, DeferredCall)]


X, N = hy.asarray([1.5, 2.5]), hy.asarray(3)

# What is printed of x (f32[2]), its sum s and n = 3 as a number -> the template.
PRINTED: dict[str, tuple[Any, str]] = {
    "literals": (lambda x, s, n: print("a{b}", 1, None, end=""), ""),
    "numbers": (lambda x, s, n: print(n, n), "{0} {0}\n"),
    "a format": (
        lambda x, s, n: print(f"{n:>5d} {s:.3f}|{n!r}|{n!s}"),
        "{0:>5d} {1:.3f}|{0}|{0}\n",
    ),
    "braces": (lambda x, s, n: print(f"{{{n}}}", sep=""), "{{{0}}}\n"),
    "separators": (lambda x, s, n: print(n, "b", n, sep=", ", end="!"), "{0}, b, {0}!"),
    "str.format": (lambda x, s, n: print("{}-{:x}".format("a", n)), "a-{0:x}\n"),
    "joined": (lambda x, s, n: print(", ".join([str(n), "b", f"{s:g}"])), "{0}, b, {1:g}\n"),
    "added": (lambda x, s, n: print("n " + str(n) * 2), "n {0}{0}\n"),
    "a tensor": (
        lambda x, s, n: print(x, s),
        "tensor({0!t}, dtype=float32) tensor({1!t}, dtype=float32)\n",
    ),
    "percent": (
        lambda x, s, n: print("%d %5.2f%% %s %r" % (n, s, n, "a")),
        "{0:d} {1:5.2f}% {0} 'a'\n",
    ),
    "percent flags": (
        lambda x, s, n: print("%+d|%-6d|%06d|%#x|% e" % (n, n, n, n, n)),
        "{0:+d}|{0:<6d}|{0:06d}|{0:#x}|{0: e}\n",
    ),
    "percent names": (lambda x, s, n: print("%(a)s %(b)03d" % {"a": 1, "b": n}), "1 {0:03d}\n"),
    "percent braces": (lambda x, s, n: print("{%s}" % n), "{{{0}}}\n"),
    "a text in a text": (lambda x, s, n: print("<%s>" % f"{n}"), "<{0}>\n"),
    "a list in percent": (lambda x, s, n: print("%s %d" % ([n, "{"], n)), "[{0}, '{{'] {0:d}\n"),
    "a dict in percent": (lambda x, s, n: print("%s" % {"a": n}), "{{'a': {0}}}\n"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed(name: str) -> None:
    does, expected = PRINTED[name]

    def function(x, n):
        does(x, hy.sum(x), n.item())
        return x

    found = messages(function, X, N)
    if name == "literals":  # nothing traced is in it
        assert [message.text for message in found] == ["a{{b}} 1 None"]
        return
    [message] = found
    assert (message.stream, message.text, message.lacks) == ("stdout", expected, "")


def test_streams() -> None:
    def function(x):
        print(x.item(), file=sys.stderr)
        print(x.item(), file=sys.stdout, flush=True)
        sys.stdout.write("a")
        return x

    found = messages(function, hy.asarray(2.0))
    assert [(m.stream, m.text) for m in found] == [
        ("stderr", "{0}\n"), ("stdout", "{0}\n"), ("stdout", "a"),
    ]  # fmt: skip


def test_histories() -> None:
    def function(x):
        w = hy.ones(())
        w.requires_grad = True
        print(x * w, x)
        return x

    [message] = messages(function, hy.asarray(2.0))
    assert message.text == (
        "tensor({0!t}, dtype=float32, requires_grad=True) tensor({1!t}, dtype=float32)\n"
    )


LACKING: dict[str, tuple[Any, str]] = {
    "elements": (lambda x, n: print(x.astype(hy.bfloat16)), "the elements of bf16[2]"),
    "a number": (lambda x, n: print(f"{hy.sum(x.astype(hy.bfloat16)):.2f}"), "a number of bf16[]"),
    "a format": (lambda x, n: print(f"{n:n}"), "the format 'n'"),
    "a text": (lambda x, n: print(f"{n!s:>9}"), "the text of a text"),
    "a repr of elements": (lambda x, n: print(repr(f"{x}")), "the text of a text"),
    "a repr with quotes": (lambda x, n: print(repr(f"{n:'>5}")), "the text of a text"),
    "a repr of %": (lambda x, n: print(repr("%d" % n)), "the text of a text"),
    "percent widths": (lambda x, n: print("%5s" % n), "the format '%5s'"),
    "a width that is given": (lambda x, n: print("%*d, %d" % (5, n, n)), "the format '%*d, %d'"),
    "widths of lists": (lambda x, n: print("%9s %d" % ([n], n)), "the format '%9s'"),
    "percent lengths": (lambda x, n: print("%ld, %d" % (n, n)), "the format '%ld, %d'"),
    "a separator": (lambda x, n: print(n, sep=f"{n}"), ""),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_has_no_template(name: str) -> None:
    does, lacks = LACKING[name]

    def function(x, n):
        does(x, n.item())
        return x

    [message] = messages(function, X, N)
    assert message.lacks == lacks
    assert message.text == ("" if lacks else "{0}\n")


class Loud(Exception):
    def __str__(self) -> str:
        return "loud"


RAISED: dict[str, tuple[Any, str, str]] = {
    "a class": (lambda n: ValueError, "ValueError", ""),
    "nothing": (lambda n: ValueError(), "ValueError", ""),
    "a text": (lambda n: ValueError(f"{n} {{}}"), "ValueError: {0} {{}}", ""),
    "a number": (lambda n: RuntimeError(n), "RuntimeError: {0}", ""),
    "several": (lambda n: RuntimeError("a", n), "RuntimeError: ('a', {0})", ""),
    "a key": (lambda n: KeyError("a"), "KeyError: 'a'", ""),
    "a text as key": (lambda n: KeyError(f"no row {n}"), "KeyError: 'no row {0}'", ""),
    "a quoted key": (
        lambda n: KeyError(f"it's {n:.1f} {{}}"),
        'KeyError: "it\'s {0:.1f} {{}}"',
        "",
    ),
    "escapes in a key": (
        lambda n: KeyError(f"it's \"{f'{n}'}\"\n\\'"),
        "KeyError: 'it\\'s \"{0}\"\\n\\\\\\''",
        "",
    ),
    "a scalar in a key": (
        lambda n: KeyError(f"{hy.asarray(1) * n}"),
        "KeyError: 'tensor({0!t}, dtype=int64)'",
        "",
    ),
    "ours": (lambda n: hy.errors.ShapeError(f"{n}", fix="b"), "ShapeError: {0}", ""),
    "loud": (lambda n: Loud(n), "", "a Loud, whose class writes its own text"),
    "loud with nothing": (lambda n: Loud(), "", "a Loud, whose class writes its own text"),
    "a loud class": (lambda n: Loud, "", "a Loud, whose class writes its own text"),
    "a module": (lambda n: ImportError, "ImportError", ""),
}


@pytest.mark.parametrize("name", RAISED)
def test_what_is_raised(name: str) -> None:
    make, text, lacks = RAISED[name]

    def function(x):
        if x > 2:
            raise make(x.item())
        return x

    [message] = messages(function, N)
    assert (message.stream, message.text, message.lacks) == ("error", text, lacks)
