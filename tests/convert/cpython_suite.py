"""Runs one of CPython's own test modules, as it is or with its functions converted.

    python cpython_suite.py test.test_grammar converted

prints as JSON the outcome of each test, how many functions were converted, and which were not.
"""

from __future__ import annotations

import doctest
import importlib
import io
import json
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import hybrid.staging  # noqa: F401  what converted code calls
from hybrid.convert import convert, is_converted, why_not


class Conversion:
    """Converts the functions of test classes and of doctests, and counts."""

    def __init__(self) -> None:
        self.converted = 0
        self.refused: dict[str, str] = {}
        self.classes: set[type] = set()

    def function(self, function: types.FunctionType) -> types.FunctionType:
        made = convert(function)
        if is_converted(made):
            self.converted += 1
        else:
            self.refused[function.__qualname__] = why_not(function)
        return made

    def class_(self, kind: type, module: str) -> None:
        for base in kind.__mro__:
            if base.__module__ == module and base not in self.classes:
                self.classes.add(base)
                for name, member in list(vars(base).items()):
                    self.member(base, name, member)

    def member(self, owner: type, name: str, member: Any) -> None:
        wraps = isinstance(member, (staticmethod, classmethod))
        function = member.__func__ if wraps else member
        if isinstance(function, types.FunctionType):
            made = self.function(function)
            setattr(owner, name, type(member)(made) if wraps else made)


class Namespace(dict):
    """The globals of a doctest: what is defined there is converted."""

    def __init__(self, content: dict[str, Any], conversion: Conversion) -> None:
        super().__init__(content)
        self.conversion = conversion

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, types.FunctionType) and value.__code__.co_filename[:8] == "<doctest":
            value = self.conversion.function(value)
        elif isinstance(value, type) and value.__module__ == self.get("__name__"):
            for key, member in list(vars(value).items()):
                self.conversion.member(value, key, member)
        super().__setitem__(name, value)


def cases(suite: Any) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def run(name: str, converted: bool) -> dict[str, Any]:
    module = importlib.import_module(name)
    conversion = Conversion()
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    if hasattr(module, "__test__") and not hasattr(module, "load_tests"):  # Python 3.10
        suite.addTest(doctest.DocTestSuite(module))
    if converted:
        for case in cases(suite):
            if isinstance(case, doctest.DocTestCase):
                test = case._dt_test  # type: ignore[attr-defined]
                test.globs = Namespace(test.globs, conversion)
            else:
                conversion.class_(type(case), name)
    tests = [case.id() for case in cases(suite)]
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    outcomes = dict.fromkeys(tests, "passed")
    for kind in ("failures", "errors"):
        for case, text in getattr(result, kind):
            case = getattr(case, "test_case", case)  # of a subtest
            outcomes[case.id()] = f"{kind}: {text}"
    for case, _ in result.skipped:
        outcomes[getattr(case, "test_case", case).id()] = "skipped"
    return {
        "outcomes": outcomes,
        "run": result.testsRun,
        "converted": conversion.converted,
        "refused": conversion.refused,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    stdout, sys.stdout = sys.stdout, io.StringIO()
    found = run(sys.argv[1], sys.argv[2] == "converted")
    sys.stdout = stdout
    print(json.dumps(found))
