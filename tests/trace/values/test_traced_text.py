"""The texts of traced values: marks that format, and refuse to be looked at."""

# The lambdas are about these forms.
# ruff: noqa: UP031, UP032

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

import hybrid.staging  # noqa: F401  what converted code calls
from hybrid import hybridize
from hybrid.convert import convert
from hybrid.errors import CaptureError, NeedsValue
from hybrid.trace.values.traced_text import marks, written
from tests.helpers import tensor
from tests.numbers import capture


def texts_of(function: Callable[..., Any], *arguments: Any) -> Any:
    return capture(function, *arguments).build([])


def test_marks_say_what_they_stand_for() -> None:
    text = texts_of(lambda x, n: f"<{x!r}> {n:5d}", tensor(3), 1)
    assert written(text, lambda index: f"[{index}]") == "<[0]> [1]"
    assert marks(text) == [0, 1]
    assert text.translate({c: "" for c in range(0xF0000, 0xF000A)}) == (
        "<<traced f32[3]>> <traced int>"
    )


def test_a_mark_formats_again() -> None:
    text = texts_of(lambda x: f"{x!s:>40}|{format(str(x), '<9')}", tensor(3))
    assert len(marks(text)) == 2


def test_many_marks() -> None:
    text = texts_of(lambda n: "".join([f"{n}" for _ in range(123)]), 1)
    assert marks(text) == list(range(123))


@pytest.mark.parametrize(
    "ask",
    [
        lambda text: text == "3",
        lambda text: text != "3",
        lambda text: text < "3",
        lambda text: {text: 1},
        lambda text: len(text),
        lambda text: text[0],
        lambda text: list(text),
        lambda text: "3" in text,
        lambda text: text.upper(),
        lambda text: f"{text}!".startswith("3"),
        lambda text: ("a" + text).split(),
        lambda text: (text + "a") == "3a",
        lambda text: ",".join([text, text]) == "3,3",
        lambda text: "%s" % text == "3",
        lambda text: "{}".format(text)[0],
        lambda text: "abc".startswith(text),
        lambda text: "abc".replace("a", text),
        lambda text: text in "abc",
        lambda text: int(text),
        lambda text: float(text),
        lambda text: re.match("3", text),
    ],
)
def test_asking_for_characters(ask: Callable[[str], Any]) -> None:
    with pytest.raises(CaptureError) as caught:
        capture(lambda x: convert(ask)(str(x)), tensor(3))
    line = caught.value.at.line
    assert str(caught.value) == (
        f"the text of a traced value was asked for ({__file__}:{line})\n"
        f"    {line} | {caught.value.at.text}\n"
        "While a function is captured its values are not known, and neither are their texts.\n"
        "Fix: print or log it, or make the text outside the hybridized function."
    )


def test_bytes_are_not_filled_in() -> None:
    def f(x: Any) -> Any:
        return b"%.1f" % x.sum().item()

    with pytest.raises(NeedsValue) as caught:
        capture(convert(f), tensor(3))
    line = f.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"the text in a bytes object needs the value of a traced float ({__file__}:{line})\n"
        f'    {line} | return b"%.1f" % x.sum().item()\n'
        "A number that is only known at run time (a loop's index, item(), what two branches set "
        "differently) has no value while the function is captured.\n"
        "Fix: keep it in arithmetic, comparisons, indexing of tensors and range(), or compute what "
        "needs its value outside the hybridized function."
    )


# What shows traced values inside other things -----------------------------------------------------


@dataclasses.dataclass
class Held:
    """Has a text that Python writes."""

    value: Any


class Shown:
    """Has a text that the author's method writes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Shown(" + repr(self.value) + ")"


HOLDING: dict[str, Callable[[Any], Any]] = {
    "dataclass": Held,
    "object": Shown,
    "list": lambda x: [x],
    "tuple": lambda x: (x,),
    "dict": lambda x: {"x": x},
    "nested": lambda x: [Held({"x": (x, 1)})],
    "number": lambda x: [x.sum().item()],
}
TELLING: dict[str, Callable[[Any], Any]] = {
    "repr": repr,
    "str": str,
    "ascii": lambda held: ascii(held),
    "format": lambda held: format(held),
    "method": lambda held: held.__repr__(),
    "f-string": lambda held: f"{held}",
    "f-string, ascii": lambda held: f"{held!a}",
    "percent": lambda held: "%s" % (held,),
    "percent, ascii": lambda held: "%a" % (held,),
    "str.format": lambda held: "{}".format(held),
    "join": lambda held: ",".join([repr(held)]),
    "twice": lambda held: repr(repr(held)),
}


@pytest.mark.parametrize("holding", HOLDING)
@pytest.mark.parametrize("telling", TELLING)
def test_texts_of_what_holds_traced_values_are_not_looked_at(holding: str, telling: str) -> None:
    """Of how many characters they are depends on values, and was told wrong."""
    hold, tell = HOLDING[holding], TELLING[telling]
    for ask in (len, lambda text: text == "", lambda text: {text: 2}, lambda text: text[-1]):
        function = hybridize(lambda x, ask=ask: (ask(tell(hold(x))), x)[1])
        with pytest.raises(CaptureError, match=r"^the text of a traced value was asked for \("):
            function(tensor(2))


@pytest.mark.parametrize("holding", [name for name in HOLDING if name != "number"])
def test_they_are_printed(holding: str, capsys: pytest.CaptureFixture[str]) -> None:
    hold = HOLDING[holding]

    def show(x: Any) -> Any:
        print(repr(hold(x)), hold(x), "%s" % (hold(x),))
        return x

    show(tensor(2))
    expected = capsys.readouterr().out
    hybridize(show)(tensor(2))
    assert capsys.readouterr().out == expected and "traced" not in expected
