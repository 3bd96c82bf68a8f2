"""The texts of traced values: marks that format, and refuse to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybrid.errors import CaptureError
from hybrid.trace.texts import marks, written
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
    ],
)
def test_asking_for_characters(ask: Callable[[str], Any]) -> None:
    with pytest.raises(CaptureError) as caught:
        capture(lambda x: ask(str(x)), tensor(3))
    line = caught.value.at.line
    assert str(caught.value) == (
        f"the text of a traced value was asked for ({__file__}:{line})\n"
        f"    {line} | {caught.value.at.text}\n"
        "While a function is captured its values are not known, and neither are their texts.\n"
        "Fix: print or log it, or make the text outside the hybridized function."
    )
