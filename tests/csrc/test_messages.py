"""Steps that print and fail, as C runs them: where texts go, and every broken one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hybrid._native import ffi, lib

from hybrid.memory import native
from tests.csrc.specs import NativeFailure, Spec, live_bytes, require_refused, run
from tests.csrc.test_plan_refusals import change, several

NUMBERS = [np.zeros((), np.float32), np.zeros((1, 1), np.int64)]
TEXT = b"loss {0:.2f} of {1:3d} {{}}\n"


def spoken(text: bytes = TEXT, kind: int = lib.HYB_STEP_PRINT, stream: int = 1) -> Spec:
    """One step that says ``text`` of two externals."""
    spec = Spec()
    inputs = [(spec.external(array.nbytes), array) for array in NUMBERS]
    letters = np.frombuffer(text, np.uint8)
    spec.step([(spec.constant(letters), letters), *inputs], [])
    spec.steps[-1].update(kind=kind, kernel=stream)
    return spec


def failing() -> Spec:
    return spoken(b"ValueError: {1}", lib.HYB_STEP_FAIL, 0)


@pytest.fixture
def printed() -> Iterator[list[tuple[int, bytes]]]:
    """What is printed, and to which stream; what the printer returns is the last of it."""
    found: list[Any] = []

    @ffi.callback("int32_t(void *, int32_t, const char *, int64_t)")
    def keep(context: Any, stream: int, text: Any, nbytes: int) -> int:
        assert context == ffi.cast("void *", 5)
        assert ffi.string(text) == ffi.unpack(text, nbytes)
        found.append((stream, ffi.unpack(text, nbytes)))
        return lib.HYB_CANCELLED if b"stop" in found[-1][1] else lib.HYB_OK

    lib.hyb_set_print(keep, ffi.cast("void *", 5))
    yield found
    lib.hyb_set_print(lib.hybrid_print, ffi.NULL)


def test_texts_go_where_the_caller_says(printed: list[tuple[int, bytes]]) -> None:
    numbers = [np.asarray(0.125, np.float32), np.asarray([[42]])]
    run(spoken().create(), *numbers)
    run(spoken(stream=lib.HYB_TO_ERRORS).create(), *numbers)
    assert printed == [(1, b"loss 0.12 of  42 {}\n"), (2, b"loss 0.12 of  42 {}\n")]
    with pytest.raises(NativeFailure, match=r"^cancelled at step 0"):
        run(spoken(b"stop").create(), *numbers)


def test_a_text_without_anything_and_one_of_many_parts(printed: list[tuple[int, bytes]]) -> None:
    run(spoken(b"").create(), *NUMBERS)
    run(spoken(b"{0}{1}" * 2000).create(), *NUMBERS)
    assert printed == [(1, b""), (1, b"0.00" * 2000)]


def test_arrays_are_written_as_numpy_writes_them(printed: list[tuple[int, bytes]]) -> None:
    spec, letters = Spec(), np.frombuffer(b"{0!t}{1!t}", np.uint8)
    x, y = np.arange(24.0).reshape(2, 3, 4) / 7, np.arange(2000, dtype=np.int16)
    inputs = [(spec.external(array.nbytes), array) for array in (x, y)]
    spec.step([(spec.constant(letters), letters), *inputs], [])
    spec.steps[-1].update(kind=lib.HYB_STEP_PRINT, kernel=1)
    run(spec.create(), x, y)
    texts = [np.array2string(array, separator=", ", prefix="tensor(") for array in (x, y)]
    assert printed == [(1, "".join(texts).encode())]


def test_a_step_that_fails_ends_the_run(printed: list[tuple[int, bytes]]) -> None:
    with pytest.raises(NativeFailure, match=r"^raised at step 0: ValueError: -7$"):
        run(failing().create(), np.asarray(1, np.float32), np.asarray([[-7]]))
    long = spoken(b"KeyError: " + b"x" * 5000, lib.HYB_STEP_FAIL, 0)
    with pytest.raises(NativeFailure, match=r"^raised at step 0: KeyError: x{2037}$"):
        run(long.create(), *NUMBERS)
    assert not printed


def test_no_memory_for_a_text() -> None:
    plan, before = spoken().create(), live_bytes()
    lib.hyb_fail_allocation(1)
    with pytest.raises(NativeFailure, match=r"^no memory at step 0"):
        run(plan, *NUMBERS)
    lib.hyb_fail_allocation(0)
    assert live_bytes() == before


AT = "step 0: its text, before byte {}: no operand, or one that cannot be written so"


def text(content: bytes) -> Callable[[Spec], None]:
    """Another text, as long as the whole one."""

    def apply(spec: Spec) -> None:
        spec.constants[: len(TEXT)] = content.ljust(len(TEXT))

    return apply


BROKEN: dict[str, tuple[Callable[[Spec], None], str]] = {
    "stream 0": (change("steps", 0, kernel=0), "step 0: a text for stream 0"),
    "stream 3": (change("steps", 0, kernel=3), "step 0: a text for stream 3"),
    "a stream of an error": (
        change("steps", 0, kind=lib.HYB_STEP_FAIL),
        "step 0: a text for stream 1",
    ),
    "no text": (change("steps", 0, n_in=0), "step 0: 0 inputs and 0 outputs of a text"),
    "an output": (change("steps", 0, n_in=2, n_out=1), "step 0: 2 inputs and 1 outputs of a text"),
    "an unknown kind": (
        change("steps", 0, kind=lib.HYB_STEP_TRANSFER + 1),
        "step 0: unknown kind 11",
    ),
    "a text that changes": (
        change("operands", 0, slot=0),
        "operand 0: reaches beyond the 4 bytes of slot 0",
    ),
    "a text from outside": (
        several(change("operands", 0, slot=0, shape=[1]), change("slots", 0, nbytes=64)),
        "step 0: its text is no constant",
    ),
    "numbers for a text": (
        change("operands", 0, dtype=lib.HYB_I8),
        f"step 0: its text is not u8[n] of at most {1 << 20} bytes",
    ),
    "a text with axes": (
        change("operands", 0, shape=[2, 2], strides=[2, 1]),
        f"step 0: its text is not u8[n] of at most {1 << 20} bytes",
    ),
    "a text with gaps": (
        change("operands", 0, shape=[2], strides=[2]),
        f"step 0: its text is not u8[n] of at most {1 << 20} bytes",
    ),
    "several numbers": (
        several(change("operands", 1, shape=[2], strides=[4]), change("slots", 0, nbytes=8)),
        AT.format(12),
    ),
    "an operand with gaps": (
        several(change("operands", 1, shape=[2], strides=[8]), change("slots", 0, nbytes=16)),
        "step 0: operand 1 of a text is not dense",
    ),
    "a large array": (
        several(
            text(b"{0!t}"),
            change("operands", 1, shape=[2] * 15, strides=[4 << i for i in range(15)][::-1]),
            change("slots", 0, nbytes=4 << 15),
        ),
        AT.format(5),
    ),
    "no such operand": (text(b"{2}"), AT.format(2)),
    "far operand": (text(b"{99999999999}"), AT.format(4)),
    "no operand": (text(b"{}"), AT.format(1)),
    "an open brace": (text(b"a {"), AT.format(3)),
    "a closing brace": (text(b"a } b"), AT.format(3)),
    "an open number": (text(b"{0"), AT.format(2)),
    "an open format": (text(b"{0:"), AT.format(4)),
    "a wide format": (text(b"{0:257}"), AT.format(6)),
    "a wider format": (text(b"{0:1000}"), AT.format(6)),
    "a fill that is no character": (text(b"{0:\xc0\x80<9}"), AT.format(3)),
    "a precise format": (text(b"{0:.101f}"), AT.format(8)),
    "no precision": (text(b"{0:.f}"), AT.format(3)),
    "grouped zeros": (text(b"{0:010,}"), AT.format(7)),
    "a whole format of a float": (text(b"{0:d}"), AT.format(5)),
    "a precise int": (text(b"{1:.2}"), AT.format(6)),
    "a comma in binary": (text(b"{1:,b}"), AT.format(6)),
    "another conversion": (text(b"{0!r}"), AT.format(2)),
    "an element with a format": (text(b"{0!t:3}"), AT.format(4)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_texts_are_refused(name: str) -> None:
    require_refused(spoken, *BROKEN[name])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_dtypes_that_cannot_be_written(dtype: str) -> None:
    code = getattr(lib, {"float16": "HYB_F16", "bfloat16": "HYB_BF16"}[dtype])
    require_refused(spoken, change("operands", 1, dtype=code), AT.format(12))


def test_texts_of_random_bytes(printed: list[tuple[int, bytes]]) -> None:
    """They are refused, or said; nothing is read or written elsewhere."""
    draw, said = np.random.default_rng(3), 0
    pieces = [b"{", b"}", b"0", b"1", b":", b"!t", b".2f", b"d", b"*<9", b"\xc3\xa9", b"=", b"\xff"]
    numbers = [np.asarray(1e300, np.float64), np.asarray([[-5]])]
    for _ in range(3000):
        content = b"".join([pieces[i] for i in draw.integers(0, len(pieces), draw.integers(1, 8))])
        spec = spoken(content)
        spec.operands[1].update(dtype=lib.HYB_F64)
        spec.slots[0].update(nbytes=8)
        try:
            run(spec.create(), *numbers)
            said += 1
        except NativeFailure as failure:
            assert str(failure)
    assert said > 100 and len(printed) == said


def test_printing_is_python_s_again(capsys: Any) -> None:
    run(spoken(b"{0}\xff").create(), *NUMBERS)
    assert capsys.readouterr().out == "0.0\ufffd"
    assert native.MESSAGE_STEPS["stderr"] == (lib.HYB_STEP_PRINT, lib.HYB_TO_ERRORS)
