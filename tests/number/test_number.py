"""Traced numbers compute what Python computes: value, kind and exception."""

from __future__ import annotations

import copy
import itertools
import math
import operator
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError, HybridError, LeakedValueError, NeedsValue
from hybrid.ir import get_op
from hybrid.number import Number
from tests.helpers import tensor
from tests.numbers import Fixed, Within, capture, compiled, run

BOOLS = (False, True)
INTS = (0, 1, -1, 2, 7, -13, 63, 64, 2**31, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -2.5, 0.1, 7.0, 1e300, -1e-320, 2.0**53, 2.0**63, math.inf, -math.inf)
FLOATS = (*FLOATS, math.nan)
KINDS = {"bool": BOOLS, "int": INTS, "float": FLOATS}
BINARY = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    divmod, operator.and_, operator.or_, operator.xor, operator.rshift,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip
UNARY = (
    operator.neg, operator.pos, operator.abs, operator.invert, round, math.floor, math.ceil,
    math.trunc,
)  # fmt: skip


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result with its kinds and bits, or the exception's class and text."""
    try:
        return exactly(function(*arguments))
    except (ArithmeticError, TypeError, ValueError) as error:
        return type(error), str(error)


def exactly(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(exactly, value))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return OverflowError, value.bit_length()
    return type(value), value


def same_outcomes(function: Callable[..., Any], *rows: tuple[Any, ...]) -> None:
    """``function`` captured once gives what Python gives, for each row of arguments."""
    captured: Callable[..., Any] | None = None
    for arguments in rows:
        plain = [a.value if isinstance(a, Fixed) else a for a in arguments]
        wanted = outcome(function, *plain)
        if captured is None:
            captured = outcome_of_capture(function, arguments)
        found = outcome(captured, *arguments)
        parts = [part for part in (wanted, *wanted) if isinstance(part, tuple)]
        if any(part[0] is OverflowError for part in parts):
            assert issubclass(found[0], OverflowError), (function, plain, wanted, found)
        else:
            assert found == wanted, (function, plain)


def outcome_of_capture(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Callable[..., Any]:
    """The captured function; one that raises what the capture raises."""
    try:
        return compiled(function, *arguments)
    except TypeError as error:
        raised = error

    def fail(*_arguments: Any) -> Any:
        raise raised

    return fail


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, KINDS)), ids="-".join)
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_binary_operators(function: Callable[..., Any], kinds: tuple[str, str]) -> None:
    left, right = (KINDS[kind] for kind in kinds)
    same_outcomes(function, *itertools.product(left, right))
    for b in right:
        same_outcomes(function, *[(a, Fixed(b)) for a in left])
    for a in left:
        same_outcomes(function, *[(Fixed(a), b) for b in right])


@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_unary_operators(function: Callable[..., Any], kind: str) -> None:
    same_outcomes(function, *[(a,) for a in KINDS[kind]])


SMALL_INTS = (0, 1, -1, 2, 5, 62, 63, 64, -3)


def test_left_shifts() -> None:
    same_outcomes(operator.lshift, *itertools.product(SMALL_INTS, SMALL_INTS))
    for a in (*SMALL_INTS, True):
        same_outcomes(operator.lshift, *[(Fixed(a), b) for b in SMALL_INTS])


def test_powers_of_ints() -> None:
    natural = [b for b in SMALL_INTS if b >= 0]
    same_outcomes(operator.pow, *itertools.product(SMALL_INTS, natural))
    same_outcomes(operator.pow, *itertools.product(BOOLS, natural))
    same_outcomes(pow, *[(a, b, 7) for a in SMALL_INTS for b in natural])
    for b in SMALL_INTS:
        same_outcomes(operator.pow, *[(a, Fixed(b)) for a in SMALL_INTS])
        same_outcomes(operator.pow, *[(Fixed(b), c) for c in natural])


def test_powers_of_floats() -> None:
    exponents = (0.5, 2.0, -1.0, 7.0)
    same_outcomes(operator.pow, *itertools.product((0.0, 2.5, 1e200), exponents))
    same_outcomes(operator.pow, *itertools.product((0, 3, 7), exponents))
    same_outcomes(operator.pow, *itertools.product((0.0, 2.5), (2, -3, 0)))


def test_a_result_of_another_kind_than_captured() -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        run(lambda a, b: a**b, 2, -1)
    assert str(caught.value) == (
        f"a traced number became 0.5 ({__file__}:{caught.value.at.line})\n"
        f"    {caught.value.at.line} | run(lambda a, b: a**b, 2, -1)\n"
        "While the function was captured it was taken for an int: the kind of a number is the same "
        "in every run.\n"
        "Fix: make it a float, with float(), before this operation."
    )
    with pytest.raises(ArgumentTypeError, match=r"a traced number became \(.*j\)"):
        run(operator.pow, -2.0, 0.5)


def test_rounding_to_digits() -> None:
    floats, ints = (2.675, -0.5, 1e22, 1234.5), (0, 15, 1250, -1350)
    for numbers in (floats, ints):
        for digits in (None, 0, 2, -2):
            same_outcomes(round, *[(x, Fixed(digits)) for x in numbers])
        same_outcomes(round, *itertools.product(numbers, (0, 2, -2)))


@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts(name: str) -> None:
    for x in (True, 3, 2.5):
        same_outcomes(operator.attrgetter(name), (x,))


def test_methods() -> None:
    for x in (True, 0, -9, 2**62):
        same_outcomes(lambda n: (n.bit_length(), n.conjugate()), (x,))
    same_outcomes(lambda n: n.is_integer(), *[(x,) for x in (0.0, 1.5, 4.0, math.inf, math.nan)])
    with pytest.raises(AttributeError, match="'float' object has no attribute 'bit_length'"):
        run(lambda n: n.bit_length(), 1.5)


# What is known of a number beforehand ------------------------------------------------------------


INTERVALS = ((0, 0), (0, 9), (-5, 3), (-9, -2), (3, 2**40), (-(2**63), 2**63 - 1))


@pytest.mark.parametrize("function", [*BINARY[:6], *BINARY[7:11], operator.lshift])
def test_what_a_result_lies_between(function: Callable[..., Any]) -> None:
    for (a0, a1), (b0, b1) in itertools.product(INTERVALS, INTERVALS):
        found = capture(lambda a, b: [function(a, b)], Within(a0, a0, a1), Within(b0, b0, b1))
        number = found.leaves[0]
        for a, b in itertools.product({a0, a1, (a0 + a1) // 2}, {b0, b1, (b0 + b1) // 2}):
            try:
                exact = function(a, b)
            except (ZeroDivisionError, ValueError, MemoryError, OverflowError):
                continue
            if number.kind == "int" and -(2**63) <= exact < 2**63:
                assert number.low <= exact <= number.high, (a, b)


@pytest.mark.parametrize("function", [*UNARY[:4], lambda n: n % 7, lambda n: n >> 2])
def test_what_a_result_of_one_lies_between(function: Callable[..., Any]) -> None:
    for low, high in INTERVALS:
        number = capture(lambda n: [function(n)], Within(low, low, high)).leaves[0]
        for n in (low, high, (low + high) // 2):
            assert number.low <= function(n) <= number.high or not -(2**63) <= function(n) < 2**63


def test_known_comparisons_are_decided() -> None:
    def known(n: Any) -> Any:
        return n < 10, n >= 0, n == 12, n != -1, n <= 8, n > 9, n != 10

    assert capture(known, Within(3, 0, 9)).leaves[:4] == (True, True, False, True)
    assert capture(known, Within(3, 0, 9)).leaves[5:] == (False, True)
    assert type(capture(known, Within(3, 0, 9)).leaves[4]) is Number


def test_an_index_in_range_costs_one_op() -> None:
    graph = capture(lambda i: 3 * i + 1, Within(3, 0, 9)).graph
    assert [node.op.name for node in graph.nodes if node.op.name != "full"] == ["multiply", "add"]


def test_an_int_beyond_64_bits() -> None:
    with pytest.raises(OverflowError) as caught:
        run(lambda n: n + 1, 2**63 - 1)
    at = caught.value.at
    assert str(caught.value) == (
        f"an int grew to 64 bits ({__file__}:{at.line})\n"
        f"    {at.line} | run(lambda n: n + 1, 2**63 - 1)\n"
        "Ints that are only known at run time have 64 bits in a hybridized function.\n"
        "Fix: use a float, or compute it outside the hybridized function."
    )


def test_python_ints_of_any_size_take_part() -> None:
    assert run(lambda n: (n < 10**30, n == 10**30), 5) == (True, False)
    assert run(lambda n: 10**30 % n, 7) == 10**30 % 7
    assert run(lambda x: (x < 10**400, x * 10**30), 2.5) == (True, 2.5 * 10**30)
    with pytest.raises(OverflowError, match="int too large to convert to float"):
        run(lambda x: x + 10**400, 2.5)


# Among other values ------------------------------------------------------------------------------


def test_isinstance_and_type() -> None:
    def kinds(n: Any) -> Any:
        return [isinstance(n, kind) for kind in (bool, int, float, Number)]

    assert capture(kinds, True).leaves == (True, True, False, True)
    assert capture(kinds, 2).leaves == (False, True, False, True)
    assert capture(kinds, 2.0).leaves == (False, False, True, True)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("value", [True, 3, 2**53 + 1, 0.1, 3.7])
@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.pow],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("reflected", [False, True])
def test_weak_to_tensors(
    function: Callable[..., Any], value: Any, dtype: str, reflected: bool
) -> None:
    x = hy.asarray([1, 2, 3], dtype=dtype)

    def apply(x: Any, n: Any) -> Any:
        return function(n, x) if reflected else function(x, n)

    try:
        wanted = apply(x, value)
    except HybridError as error:
        with pytest.raises(HybridError) as caught:
            run(apply, x, value)
        assert type(caught.value) is type(error)
        assert caught.value.what == error.what
        return
    found = run(apply, x, value)
    assert found.dtype == wanted.numpy().dtype and found.tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("value", [True, 3, -7, 0.1, 2.0**40])
@pytest.mark.parametrize(
    "make",
    [
        hy.asarray,
        lambda n: hy.asarray(n, dtype="float64"),
        lambda n: hy.asarray([[n, 1], [2.5, n]]),
        lambda n: hy.full((2,), n),
        lambda n: hy.full_like(tensor(2), n),
        lambda n: hy.where(hy.asarray([True, False]), n, 0.0),
        lambda n: hy.stack([hy.ones(()), n]),
        lambda n: hy.clip(tensor(5), -n, n),
        lambda n: hy.maximum(tensor(5), n),
        lambda n: tensor(5).astype("int64") * n,
    ],
)
def test_tensors_made_of_numbers(make: Callable[[Any], Any], value: Any) -> None:
    wanted = make(value).numpy()
    found = run(make, value)
    assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()


def test_a_float_that_an_integer_tensor_cannot_hold() -> None:
    def assign(x: Any, n: Any) -> Any:
        y = x + 0
        y[0] = n
        return y

    x = hy.asarray([1, 2])
    assert run(assign, x, 2.9).tolist() == assign(x, 2.9).tolist() == [2, 2]
    for value in (math.inf, math.nan, 1e30):
        with pytest.raises((ValueError, HybridError)) as eager:
            assign(x, value)
        with pytest.raises(type(eager.value)) as caught:
            run(assign, x, value)
        assert caught.value.args == eager.value.args


def test_a_square_whose_exponent_is_not_known() -> None:
    x = tensor(7)
    for n in (2, 3, 2.0, 0.5):
        assert run(operator.pow, x, n).tobytes() == (x**n).numpy().tobytes()
    assert [n.op.name for n in capture(operator.pow, x, Within(5, 3, 9)).graph.nodes] == [
        "cast",
        "pow",
    ]


def test_gradients_take_it_for_a_constant() -> None:
    x = tensor(3)

    def gradient(x: Any, n: Any) -> Any:
        return hy.grad(lambda x: hy.sum(x * x) * x.sum().item() * n)(x)

    assert run(gradient, x, 3).tobytes() == gradient(x, 3).numpy().tobytes()


# What needs the value ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "asked"),
    [
        (bool, "the truth"),
        (int, "int()"),
        (float, "float()"),
        (complex, "complex()"),
        (hash, "a dict key or set item"),
        (operator.index, "an index or size"),
        (range, "an index or size"),
        (lambda n: [0] * n, "* with a list"),
        (lambda n: n * [0], "* with a list"),
        (lambda n: n + 1j, "+ with a complex"),
        (lambda n: operator.mod("%d", n), "int()"),
        (np.asarray, "a NumPy array"),
        (lambda n: np.ones(2) * n, "a NumPy array"),
        (lambda n: n * np.ones(2), "* with a ndarray"),
        (lambda n: np.float64(2) * n, "a NumPy array"),
        (lambda n: hy.zeros(n), "an index or size"),
        (lambda n: hy.zeros((2, n)), "an index or size"),
        (lambda n: hy.sum(tensor(2, 2), axis=n), "an index or size"),
        (lambda n: hy.reshape(tensor(2), (n,)), "an index or size"),
        (lambda n: hy.concat([tensor(2), tensor(2)], axis=n), "an index or size"),
        (lambda n: hy.nn.functional.dropout(tensor(2), n), "the truth"),
        (lambda n: get_op("full")(shape=(2,), value=n), "a dict key or set item"),
        (pickle.dumps, "a pickle"),
    ],
)
def test_what_needs_the_value(ask: Callable[[Any], Any], asked: str) -> None:
    with pytest.raises(NeedsValue) as caught:
        capture(ask, 3)
    assert type(caught.value.number) is Number
    assert caught.value.what == f"{asked} needs the value of a traced {caught.value.number.kind}"


def test_the_message() -> None:
    with pytest.raises(NeedsValue) as caught:
        capture(lambda n: [1, 2][n], 1)
    line = caught.value.at.line
    assert str(caught.value) == (
        f"an index or size needs the value of a traced int ({__file__}:{line})\n"
        f"    {line} | capture(lambda n: [1, 2][n], 1)\n"
        "A number that is only known at run time (a loop's index, item(), what two branches set "
        "differently) has no value while the function is captured.\n"
        "Fix: put the items into a tensor (hybrid.stack) and index that, or compute indices and "
        "sizes outside the hybridized function."
    )


def test_what_to_write_instead() -> None:
    fixes = {}
    for asked in (operator.index, np.asarray, hash):
        with pytest.raises(NeedsValue) as caught:
            capture(asked, 1)
        fixes[asked] = caught.value.fix
    assert list(fixes.values()) == [
        "put the items into a tensor (hybrid.stack) and index that, or compute indices and sizes "
        "outside the hybridized function",
        "compute with the functions of hybrid, on a tensor (hybrid.asarray), in place of NumPy's",
        "keep it in arithmetic, comparisons, indexing of tensors and range(), or compute what "
        "needs its value outside the hybridized function",
    ]


def test_copies_are_the_number() -> None:
    def copied(n: Any) -> Any:
        return copy.copy(n) is n, copy.deepcopy([n])[0] is n

    assert run(copied, 3) == (True, True)


def test_foreign_operands_get_their_say() -> None:
    class Left:
        def __radd__(self, other: Any) -> Any:
            return "radd", type(other)

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    assert run(lambda n: n + Left(), 3)[0] == "radd"
    assert run(lambda n: (n == Left(), n == "3", n is None, n != None), 3) == (  # noqa: E711
        True,
        False,
        False,
        True,
    )
    for function in (
        lambda n: n + "a",
        lambda n: "a" + n,
        lambda n: n - None,
        lambda n: n < "a",
        lambda n: operator.add([1], n),
        lambda n: n @ n,
    ):
        with pytest.raises(TypeError):
            run(function, 3)


def test_a_number_outlives_no_capture() -> None:
    kept: list[Any] = []
    capture(lambda n: kept.append(n + 1), 3)
    for use in (lambda n: n + 1, lambda n: n < 3, bool, hash, lambda n: hy.ones(2) * n):
        with pytest.raises(LeakedValueError):
            use(kept[0])
    assert repr(kept[0]) == f"{kept[0]}" == "<traced int>"
