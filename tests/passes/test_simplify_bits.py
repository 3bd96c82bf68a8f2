"""The rules of simplify against the kernels: what a rule replaces has the replacement's bits."""

import numpy as np
import pytest

import hybrid.ops  # noqa: F401
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.ir import Graph
from hybrid.passes import simplify
from hybrid.plan import make_plan
from tests.helpers import graph_of

# NaN of both signs and with a payload, zeros of both signs, subnormals, the largest numbers.
BITS = {
    "f32": [0x7FC00000, 0xFFC00000, 0x7FC0002A, 0, 0x80000000, 1, 0x80000001, 0x7F800000,
            0xFF800000, 0x3F800000, 0xBF800000, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3DCCCCCD,
            0x40490FDB, 0xC2C80000],
    "f64": [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF800000000002A, 0, 1 << 63, 1,
            (1 << 63) + 1, 0x7FF0000000000000, 0xFFF0000000000000, 0x3FF0000000000000,
            0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FB999999999999A,
            0x400921FB54442D18, 0xC059000000000000],
    "i32": [0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 7],
    "i64": [0, 1, (1 << 64) - 1, (1 << 63) - 1, 1 << 63, 7],
    "u8": [0, 1, 2, 127, 128, 255],
}  # fmt: skip
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
}
FLOATS, INTEGERS = ("f32", "f64"), ("i32", "i64", "u8")
LINES = {  # T is the dtype
    "multiply %x, %one": FLOATS + INTEGERS,
    "multiply %one, %x": FLOATS + INTEGERS,
    "divide %x, %one": FLOATS,
    "subtract %x, %zero": FLOATS + INTEGERS,
    "add %x, %zero": INTEGERS,
    "add %zero, %x": INTEGERS,
    "floor_divide %x, %one": INTEGERS,
    "pow %x, %one": INTEGERS,
    "maximum %x, %x": FLOATS + INTEGERS,
    "minimum %x, %x": FLOATS + INTEGERS,
    "where %true, %x, %one": FLOATS + INTEGERS,
    "where %false, %one, %x": FLOATS + INTEGERS,
    "where %p, %x, %x": FLOATS + INTEGERS,
    "negative %negated": FLOATS + INTEGERS,
    "bitwise_invert %inverted": INTEGERS,
    "floor %x": INTEGERS,
    "ceil %x": INTEGERS,
    "trunc %x": INTEGERS,
    "round %x": INTEGERS,
    "cast %x {dtype=T}": FLOATS + INTEGERS,
    "cast %wide {dtype=T}": ("f32", "i32", "u8"),
}
CASES = [(line, dtype) for line, dtypes in LINES.items() for dtype in dtypes]


def graph_for(line: str, dtype: str, size: int) -> Graph:
    wide = {"f32": "f64", "i32": "i64", "u8": "i32"}.get(dtype, dtype)
    helpers = {
        "%one": f"%one: {dtype}[] = full {{shape=(), value=1, dtype={dtype}}}",
        "%zero": f"%zero: {dtype}[] = full {{shape=(), value=0, dtype={dtype}}}",
        "%true": "%true: bool[] = full {shape=(), value=true, dtype=bool}",
        "%false": "%false: bool[] = full {shape=(), value=false, dtype=bool}",
        "%p": f"%p: bool[{size}] = equal %x, %x",
        "%negated": f"%negated: {dtype}[{size}] = negative %x",
        "%inverted": f"%inverted: {dtype}[{size}] = bitwise_invert %x",
        "%wide": f"%wide: {wide}[{size}] = cast %x {{dtype={wide}}}",
    }
    used = "\n".join(text for name, text in helpers.items() if name in line)
    line = line.replace("=T", f"={dtype}")
    return graph_of(
        f"graph @f(%x: {dtype}[{size}]) {{ {used}\n %r: {dtype}[{size}] = {line}\n return %r }}"
    )


@pytest.mark.parametrize(("line", "dtype"), CASES, ids=lambda part: part)
def test_a_rule_has_the_bits_of_the_kernel(line: str, dtype: str) -> None:
    unsigned = np.dtype(f"u{np.dtype(NUMPY[dtype]).itemsize}")
    # Often enough to fill the lanes of every instruction set, and a tail.
    array = np.array(BITS[dtype] * 7, unsigned).view(NUMPY[dtype])
    graph = graph_for(line, dtype, array.size)
    assert simplify(graph).results == graph.params, "no rule applies"
    (result,) = call_plan(make_plan(graph), [as_tensor(array)])
    expected = array.view(unsigned)
    found = result.numpy().view(unsigned)
    wrong = np.flatnonzero(found != expected)
    assert not wrong.size, f"{array[wrong[0]]!r}: {expected[wrong[0]]:#x} -> {found[wrong[0]]:#x}"
