"""simplify applies exact rules, and leaves alone what only looks exact."""

from textwrap import dedent

import numpy as np
import pytest

from hybrid.core.types import SUPPORTED, DType
from hybrid.ir import parse
from hybrid.passes import dce, simplify
from hybrid.passes.scalar.simplify import _transparent
from tests.helpers import assert_rewrites, interpret

# What a line computes from %x (and %p: bool, %i: i32), and what it becomes; None: it stays.
# `one` and so on are constants of shape [] and the dtype of %x.
F32 = {
    "x * 1": ("%r: f32[4] = multiply %x, %one", "%x"),
    "1 * x": ("%r: f32[4] = multiply %one, %x", "%x"),
    "x / 1": ("%r: f32[4] = divide %x, %one", "%x"),
    "x - 0": ("%r: f32[4] = subtract %x, %zero", "%x"),
    "where with equal sides": ("%r: f32[4] = where %p, %x, %x", "%x"),
    "where with a constant condition, true": ("%r: f32[4] = where %true, %x, %y", "%x"),
    "where with a constant condition, false": ("%r: f32[4] = where %false, %x, %y", "%y"),
    "maximum of one value": ("%r: f32[4] = maximum %x, %x", "%x"),
    "minimum of one value": ("%r: f32[4] = minimum %x, %x", "%x"),
    "logical_and of one value": ("%r: bool[4] = logical_and %p, %p", "%p"),
    "logical_or of one value": ("%r: bool[4] = logical_or %p, %p", "%p"),
    "p and true": ("%r: bool[4] = logical_and %p, %true", "%p"),
    "true and p": ("%r: bool[4] = logical_and %true, %p", "%p"),
    "p and false": ("%r: bool[] = logical_and %flag, %false", "%false"),
    "p or false": ("%r: bool[4] = logical_or %p, %false", "%p"),
    "p or true": ("%r: bool[] = logical_or %flag, %true", "%true"),
    "p xor false": ("%r: bool[4] = logical_xor %false, %p", "%p"),
    "identity": ("%r: f32[4] = identity %x", "%x"),
    "fresh_variable": ("%r: f32[4] = fresh_variable %x", "%x"),
    "as_variable": ("%r: f32[4] = as_variable %x, %y", "%x"),
    "made_of_integers": ("%r: f32[4] = made_of_integers %x, %y", "%x"),
    "stop_gradient": ("%r: f32[4] = stop_gradient %x", "%x"),
    "reshape to the same shape": ("%r: f32[4] = reshape %x {shape=(4,)}", "%x"),
    "broadcast to the same shape": ("%r: f32[4] = broadcast_to %x {shape=(4,)}", "%x"),
    "cast to the same dtype": ("%r: f32[4] = cast %x {dtype=f32}", "%x"),
    "axes in their order": ("%r: f32[4] = permute_dims %x {axes=(0,)}", "%x"),
    "- -x": ("%a: f32[4] = negative %x  %r: f32[4] = negative %a", "%x"),
    "not not p": ("%a: bool[4] = logical_not %p  %r: bool[4] = logical_not %a", "%p"),
    "invert twice": ("%a: i32[4] = bitwise_invert %i  %r: i32[4] = bitwise_invert %a", "%i"),
    "integer + 0": ("%r: i32[4] = add %i, %i0", "%i"),
    "0 + integer": ("%r: i32[4] = add %i0, %i", "%i"),
    "integer // 1": ("%r: i32[4] = floor_divide %i, %i1", "%i"),
    "integer ** 1": ("%r: i32[4] = pow %i, %i1", "%i"),
    "rounding an integer": ("%a: i32[4] = floor %i  %r: i32[4] = round %a", "%i"),
    "there and back in another shape": (
        "%a: f32[2,2] = reshape %x {shape=(2, 2)}  %r: f32[4] = reshape %a {shape=(4,)}",
        "%x",
    ),
    # What must not be rewritten.
    "p xor true": ("%r: bool[4] = logical_xor %p, %true", None),
    "false in another shape": ("%r: bool[4] = logical_and %p, %false", None),
    "x + 0: -0.0 + 0.0 is 0.0": ("%r: f32[4] = add %x, %zero", None),
    "0 + x": ("%r: f32[4] = add %zero, %x", None),
    "x - -0.0: -0.0 - -0.0 is 0.0": ("%r: f32[4] = subtract %x, %minus_zero", None),
    "0 - x: 0.0 - 0.0 is 0.0, not -0.0": ("%r: f32[4] = subtract %zero, %x", None),
    "x * 0: NaN, infinity, -0.0": ("%r: f32[4] = multiply %x, %zero", None),
    "x - x: NaN, infinity": ("%r: f32[4] = subtract %x, %x", None),
    "x / x: NaN, infinity, 0": ("%r: f32[4] = divide %x, %x", None),
    "x / c: 1 / c is rounded": ("%r: f32[4] = divide %x, %ten", None),
    "x // 1 of floats rounds down": ("%r: f32[4] = floor_divide %x, %one", None),
    "x ** 1: pow may forget the sign of a NaN": ("%r: f32[4] = pow %x, %one", None),
    "x ** 0 would forget which NaN": ("%r: f32[4] = pow %x, %zero", None),
    "x ** 2 is another kernel than square": ("%r: f32[4] = pow %x, %two", None),
    "1 / x is another kernel than reciprocal": ("%r: f32[4] = divide %one, %x", None),
    "2 * x and x + x are both exact; neither is better": ("%r: f32[4] = add %x, %x", None),
    "(x + y) - y": ("%a: f32[4] = add %x, %y  %r: f32[4] = subtract %a, %y", None),
    "(x * 10) * 10": ("%a: f32[4] = multiply %x, %ten  %r: f32[4] = multiply %a, %ten", None),
    "sqrt(x) squared": ("%a: f32[4] = sqrt %x  %r: f32[4] = square %a", None),
    "log(exp(x))": ("%a: f32[4] = exp %x  %r: f32[4] = log %a", None),
    "not not i: a number becomes a bool": (
        "%a: bool[4] = logical_not %i  %r: bool[4] = logical_not %a",
        None,
    ),
    "an operand that broadcasts": ("%r: f32[4] = multiply %s, %ones", None),
    "a condition that broadcasts its sides": ("%r: f32[4] = where %p, %s, %s", None),
    "x - y where nothing is known of y": ("%r: f32[4] = subtract %x, %y", None),
}

HEAD = """graph @f(%x: f32[4], %y: f32[4], %p: bool[4], %i: i32[4], %s: f32[], %flag: bool[]) {
  %one: f32[] = full {shape=(), value=1.0, dtype=f32}
  %two: f32[] = full {shape=(), value=2.0, dtype=f32}
  %ten: f32[] = full {shape=(), value=10.0, dtype=f32}
  %zero: f32[] = full {shape=(), value=0.0, dtype=f32}
  %minus_zero: f32[] = full {shape=(), value=-0.0, dtype=f32}
  %ones: f32[4] = full {shape=(4,), value=1, dtype=f32}
  %true: bool[] = full {shape=(), value=true, dtype=bool}
  %false: bool[] = full {shape=(), value=false, dtype=bool}
  %i0: i32[] = full {shape=(), value=0, dtype=i32}
  %i1: i32[] = full {shape=(), value=1, dtype=i32}
"""


def cleaned(graph):
    return dce(simplify(graph))


@pytest.mark.parametrize(("line", "result"), F32.values(), ids=F32)
def test_one_value(line: str, result: str | None) -> None:
    before = f"{HEAD}{line}\nreturn %r }}"
    after = before if result is None else f"{HEAD}return {result} }}"
    assert_rewrites(cleaned, before, str(dce(parse(after))))


DECIDED = {
    "p and not p": ("%n: bool[4] = logical_not %p  %r: bool[4] = logical_and %p, %n", "false"),
    "not p or p": ("%n: bool[4] = logical_not %p  %r: bool[4] = logical_or %n, %p", "true"),
}


@pytest.mark.parametrize(("line", "value"), DECIDED.values(), ids=DECIDED)
def test_a_flag_against_its_opposite(line: str, value: str) -> None:
    head = "graph @f(%p: bool[4]) {"
    constant = f"%r: bool[4] = full {{shape=(4,), dtype=bool, value={value}}}"
    assert_rewrites(cleaned, f"{head} {line} return %r }}", f"{head} {constant} return %r }}")


CHAINS = {
    "reshape of reshape": (
        """
        graph @f(%x: f32[2,6]) {
          %a: f32[12] = reshape %x {shape=(12,)}
          %b: f32[3,4] = reshape %a {shape=(3, 4)}
          return %b
        }
        """,
        """
        graph @f(%x: f32[2,6]) {
          %b: f32[3,4] = reshape %x {shape=(3, 4)}
          return %b
        }
        """,
    ),
    "permute_dims of permute_dims": (
        """
        graph @f(%x: f32[2,3,4]) {
          %a: f32[3,4,2] = permute_dims %x {axes=(1, 2, 0)}
          %b: f32[4,3,2] = permute_dims %a {axes=(1, 0, 2)}
          return %b
        }
        """,
        """
        graph @f(%x: f32[2,3,4]) {
          %b: f32[4,3,2] = permute_dims %x {axes=(2, 1, 0)}
          return %b
        }
        """,
    ),
    "a permutation and its inverse": (
        """
        graph @f(%x: f32[2,3,4]) {
          %a: f32[3,4,2] = permute_dims %x {axes=(1, 2, 0)}
          %b: f32[2,3,4] = permute_dims %a {axes=(2, 0, 1)}
          return %b
        }
        """,
        "graph @f(%x: f32[2,3,4]) { return %x }",
    ),
    "broadcast_to of broadcast_to": (
        """
        graph @f(%x: f32[4]) {
          %a: f32[1,4] = broadcast_to %x {shape=(1, 4)}
          %b: f32[2,3,4] = broadcast_to %a {shape=(2, 3, 4)}
          return %b
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %b: f32[2,3,4] = broadcast_to %x {shape=(2, 3, 4)}
          return %b
        }
        """,
    ),
    "a chain of three": (
        """
        graph @f(%x: f32[12]) {
          %a: f32[2,6] = reshape %x {shape=(2, 6)}
          %b: f32[3,4] = reshape %a {shape=(3, 4)}
          %c: f32[12] = reshape %b {shape=(12,)}
          return %c
        }
        """,
        "graph @f(%x: f32[12]) { return %x }",
    ),
    "an inner value that is used elsewhere stays": (
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = negative %x
          %b: f32[4] = negative %a
          return %a, %b
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = negative %x
          return %a, %x
        }
        """,
    ),
    "what regions hold": (
        """
        graph @f(%x: f32[4]) {
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %b: f32[4] = negative %a
              %c: f32[4] = negative %b
              %d: f32[4] = exp %c
              return %d
            }
          }
          return %y
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %d: f32[4] = exp %a
              return %d
            }
          }
          return %y
        }
        """,
    ),
    "reshape of permute_dims moves elements": (
        """
        graph @f(%x: f32[2,3]) {
          %a: f32[3,2] = permute_dims %x {axes=(1, 0)}
          %b: f32[2,3] = reshape %a {shape=(2, 3)}
          return %b
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CHAINS.values(), ids=CHAINS)
def test_chains(before: str, after: str | None) -> None:
    assert_rewrites(cleaned, before, before if after is None else after)


NARROWING = {  # casts that change values, or convert another way, stay
    ("f32", "i32", "f32"),
    ("f64", "f32", "f64"),
    ("i64", "f64", "i64"),  # 2**53 + 1
    ("i32", "f64", "u8"),  # a float saturates where an integer wraps
    ("i32", "u8", "i32"),
    ("u8", "bool", "u8"),
    ("i64", "i32", "f64"),
}
WIDENING = {
    ("f32", "f64", "f32"),
    ("f32", "f64", "i32"),
    ("u8", "i32", "u8"),
    ("i32", "i64", "u8"),
    ("i32", "i64", "f32"),
    ("i32", "f64", "f32"),
    ("u8", "f32", "i64"),
    ("bool", "u8", "f64"),
    ("bool", "f32", "bool"),
}


@pytest.mark.parametrize("dtypes", sorted(NARROWING | WIDENING), ids="-".join)
def test_cast_chains(dtypes: tuple[str, str, str]) -> None:
    source, between, target = dtypes
    before = dedent(
        f"""
        graph @f(%x: {source}[4]) {{
          %a: {between}[4] = cast %x {{dtype={between}}}
          %b: {target}[4] = cast %a {{dtype={target}}}
          return %b
        }}
        """
    )
    after = before
    if dtypes in WIDENING and source == target:
        after = f"graph @f(%x: {source}[4]) {{ return %x }}"
    elif dtypes in WIDENING:
        cast = f"%b: {target}[4] = cast %x {{dtype={target}}}"
        after = f"graph @f(%x: {source}[4]) {{ {cast} return %b }}"
    assert_rewrites(cleaned, before, after)


def extremes(dtype: DType):
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.kind == "float":
        info = np.finfo(dtype.numpy)
        numbers = [0.0, -0.0, 0.5, -1.5, 255.5, 300.0, -300.0, 2.0**31, 2.0**63, -(2.0**63)]
        return np.array([*numbers, info.max, info.tiny, np.inf, -np.inf, np.nan], dtype.numpy)
    info = np.iinfo(dtype.numpy)
    wide = [
        0,
        1,
        2,
        127,
        200,
        255,
        300,
        2**24 + 1,
        2**31 - 1,
        2**53 + 1,
        -1,
        -300,
        info.max,
        info.min,
    ]
    return np.array([n for n in wide if info.min <= n <= info.max], dtype.numpy)


@pytest.mark.parametrize("between", SUPPORTED, ids=str)
@pytest.mark.parametrize("source", SUPPORTED, ids=str)
def test_transparent_casts_keep_every_value(source: DType, between: DType) -> None:
    values = extremes(source)
    first, middle = source.short, between.short
    for target in SUPPORTED:
        if not _transparent(source, between, target):
            continue
        n, last = len(values), target.short
        chain = parse(
            f"graph @f(%x: {first}[{n}]) {{ %a: {middle}[{n}] = cast %x {{dtype={middle}}} "
            f"%b: {last}[{n}] = cast %a {{dtype={last}}} return %b }}"
        )
        direct = parse(
            f"graph @f(%x: {first}[{n}]) {{ %b: {last}[{n}] = cast %x {{dtype={last}}} return %b }}"
        )
        with np.errstate(all="ignore"):
            assert interpret(chain, values)[0].tobytes() == interpret(direct, values)[0].tobytes()
