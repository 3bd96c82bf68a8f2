"""Items that are None on some paths, given to functions of Python and of this package.

Each function of the table gets an item that some paths alone have: it does what it does eagerly, on
the path that has it and on the one that has not, or the call is refused by a CaptureError with the
author's line.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import json
import operator
import statistics

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import f32, side

X = f32([1.0, -2.0])
ITEMS = """
sum(ITEMS, x) | sum(q for q in ITEMS) | max(ITEMS, key=lambda q: q.shape[0]) | max(NUMBERS)
min(ITEMS, key=lambda q: q.ndim) | min(NUMBERS) | sorted(ITEMS, key=lambda q: q.ndim)
sorted(NUMBERS) | any(SCALARS) | all(SCALARS) | any(q is None for q in ITEMS) | len(ITEMS)
any(q.ndim == 1 for q in ITEMS) | all(q is not None for q in ITEMS) | list(ITEMS) | tuple(ITEMS)
list(map(lambda q: q + 1, ITEMS)) | list(map(hy.abs, ITEMS)) | list(zip(ITEMS, ITEMS))
list(map(lambda q: q is None, ITEMS)) | list(filter(lambda q: q is not None, ITEMS))
list(enumerate(ITEMS)) | list(reversed(ITEMS)) | dict(enumerate(ITEMS)) | set(map(type, ITEMS))
functools.reduce(lambda a, b: a + b, ITEMS) | functools.reduce(operator.add, ITEMS)
list(itertools.accumulate(ITEMS)) | list(itertools.chain(ITEMS, [x])) | next(iter(ITEMS)) is None
operator.itemgetter(0)(ITEMS) | operator.getitem(ITEMS, 1) | statistics.mean(NUMBERS)
[q * 2 for q in ITEMS] | [q for q in ITEMS] | [q is None for q in ITEMS] | {i: q for i, q in
enumerate(ITEMS)} | {i: q * 2 for i, q in enumerate(ITEMS)} | [a + b for a, b in zip(ITEMS, ITEMS)]
[q for q in ITEMS if q is not None] | [q.sum() for q in ITEMS] | [q[0] for q in ITEMS]
hy.stack(ITEMS) | hy.concat(ITEMS) | hy.stack(tuple(ITEMS)) | hy.concat([*ITEMS, x])
hy.stack([hy.sum(q) for q in ITEMS]) | json.dumps(NUMBERS) | repr(NUMBERS) | str(NUMBERS)
NUMBERS.count(None) | NUMBERS.index(None) | None in NUMBERS | NUMBERS == [None, 1.0] | [*ITEMS]
(lambda *qs: qs[0] * 2)(*ITEMS) | (lambda q, r: r if q is None else q)(*ITEMS) | print(NUMBERS)
bool(SCALARS[0]) | not SCALARS[0] | SCALARS[0] or s | SCALARS[0] and s | 1 if SCALARS[0] else 2
SCALARS[0] is None or SCALARS[0] > 1 | ITEMS[0] is None | isinstance(ITEMS, list) | id(ITEMS) == 0
NUMBERS[0] + 1 | 1 - NUMBERS[0] | -NUMBERS[0] | NUMBERS[0] < 2 | [n + 1 for n in NUMBERS]
"""
EXPRESSIONS = [e.strip() for e in ITEMS.replace(" in\n", " in ").replace("\n", " | ").split(" | ")]
EXPRESSIONS = [e for e in EXPRESSIONS if e]
PROGRAM = """
def program(x, s):
    o = n = m = None
    if s > 0:
        o, n, m = x * 2, 1.5, s * 2
    items, numbers, scalars = [o, x], [n, 1.0], [m, s]
    return {}
"""
NAMES = {"hy": hy, "functools": functools, "itertools": itertools, "operator": operator,
         "json": json, "statistics": statistics}  # fmt: skip


def written(expression: str, tmp_path) -> object:
    for name in ("ITEMS", "NUMBERS", "SCALARS"):
        expression = expression.replace(name, name.lower())
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(expression))
    namespace = dict(NAMES)
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return namespace["program"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str, tmp_path) -> None:
    program = written(expression, tmp_path)
    eager, hybridized = side(program, False, False), side(program, False, True)
    for s in (1.0, -1.0):
        expected = eager.call((X, f32(s)), False, False)
        found = hybridized.call((X, f32(s)), False, False)
        expected.pop("error", None)
        error = found.pop("error", None)
        if isinstance(error, CaptureError):
            assert "program.py:" in str(error) and error.why and error.fix
        else:
            assert found == expected


GIVEN_LISTS = {name for name in dir(builtins) if name[0].islower() and name[0] != "_"}
NO_LISTS = {
    "aiter", "anext", "ascii", "bin", "breakpoint", "bytearray", "bytes", "callable", "chr",
    "classmethod", "compile", "complex", "copyright", "credits", "delattr", "dir", "divmod", "eval",
    "exec", "exit", "float", "format", "frozenset", "getattr", "globals", "hasattr", "hash", "help",
    "hex", "input", "int", "issubclass", "license", "locals", "memoryview", "object", "oct", "open",
    "ord", "pow", "property", "quit", "range", "round", "setattr", "slice", "staticmethod", "super",
    "type", "vars", "abs",
}  # fmt: skip


def test_every_builtin_that_takes_a_list_has_a_row() -> None:
    """Only functions of the list of those that take none are missing from the table."""
    missing = {n for n in GIVEN_LISTS - NO_LISTS if not any(f"{n}(" in e for e in EXPRESSIONS)}
    assert not missing


def test_functions_of_several_tensors_take_items_that_may_be_none() -> None:
    """Each function whose first parameter is a list of tensors."""
    names = [
        name
        for name in hy.__all__
        if callable(getattr(hy, name)) and _first_parameter(getattr(hy, name)) in LISTS
    ]
    assert {"stack", "concat"} <= set(names)
    for name in names:
        function = getattr(hy, name)

        def program(x, s, function=function):
            o = None
            if s > 0:
                o = x * 2
            return function([o, x])

        eager, hybridized = side(program, False, False), side(program, False, True)
        for s in (1.0, -1.0):
            expected = eager.call((X, f32(s)), False, False)
            found = hybridized.call((X, f32(s)), False, False)
            expected.pop("error", None)
            error = found.pop("error", None)
            assert found == expected or isinstance(error, CaptureError), (name, error)


LISTS = ("tensors", "arrays", "xs")


def _first_parameter(function: object) -> str:
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return ""


def test_the_text_of_a_refusal(tmp_path) -> None:
    program = hy.hybridize(written("NUMBERS == [None, 1.0]", tmp_path))
    with pytest.raises(CaptureError) as caught:
        program(X, f32(1.0))
    path = tmp_path / "program.py"
    assert str(caught.value) == (
        f"a value is None on some paths ({path}:4), and it is compared inside a container "
        f"({path}:7)\n    7 | return numbers == [None, 1.0]\n"
        "Which of the two it is depends on the value of a tensor.\n"
        "Fix: test it first (`is None`), or let it be there on every path."
    )


def test_the_text_of_a_refused_call(tmp_path) -> None:
    program = hy.hybridize(written("json.dumps(NUMBERS)", tmp_path))
    with pytest.raises(CaptureError) as caught:
        program(X, f32(1.0))
    path = tmp_path / "program.py"
    assert str(caught.value) == (
        f"a value is None on some paths ({path}:4), and it is in a list that dumps() is given "
        f"({path}:7)\n    7 | return json.dumps(numbers)\n"
        "Which of the two it is depends on the value of a tensor.\n"
        "Fix: test it first (`is None`), or let it be there on every path."
    )
