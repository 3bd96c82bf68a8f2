"""Names in code: as ``dis`` reads it, for every function of libraries that are at hand."""

import argparse
import ast
import dis
import inspect
import json.decoder
import sys
import textwrap
import types
from collections.abc import Iterator

import numpy as np
import pytest

from hybrid.trace.guards import reads
from hybrid.trace.places.names import names_in

MODULES = (argparse, ast, dis, inspect, json.decoder, textwrap, np.lib, reads)


def all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)


def expected(code: types.CodeType) -> tuple[set[str], ...]:
    """What ``dis`` says: the plain way, which is slow."""
    loaded, assigned, attributes, modules, variables = set(), set(), set(), set(), set()
    for inner in all_code(code):
        own_loaded, own_assigned = set(), set()
        for instruction in dis.get_instructions(inner):
            name, argument = instruction.opname, instruction.argval
            if name in ("LOAD_GLOBAL", "LOAD_NAME") and argument.isidentifier():
                own_loaded.add(argument)
            elif name in ("STORE_GLOBAL", "STORE_DEREF"):
                own_assigned.add(argument)
                variables.add(argument)
            elif "DEREF" in name:
                variables.add(argument)
            elif name in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"):
                attributes.add(argument)
            elif name == "IMPORT_NAME":
                modules.add(argument)
        attributes |= set(inner.co_names) - own_loaded - own_assigned
        for constant in inner.co_consts:
            texts = constant if isinstance(constant, tuple) else (constant,)
            attributes |= {
                t for t in texts if isinstance(t, str) and (t.isidentifier() or t.isalnum())
            }
        loaded |= own_loaded
        assigned |= own_assigned
    return loaded, assigned, attributes, modules, variables


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_names_are_those_that_dis_reads(module: types.ModuleType) -> None:
    whole = compile(inspect.getsource(module), module.__file__, "exec")
    for code in all_code(whole):
        found = names_in(code)
        parts = (found.loaded, found.assigned, found.attributes, found.modules, found.variables)
        wanted = expected(code)
        if sys.version_info < (3, 11):  # a global that a nested function imports counts there, too
            assert all(a >= b for a, b in zip(parts, wanted, strict=True)), code
        else:
            assert parts == wanted, code


def test_arguments_of_more_than_a_byte_and_cells_that_are_parameters() -> None:
    lines = [f"    name{i}.attribute{i}" for i in range(300)]
    text = "def outer(cell, other):\n    global seen\n    import json\n    seen = 1\n"
    text += "\n".join(lines) + "\n    return lambda: (cell, seen.attribute3)\n"
    (code,) = [c for c in compile(text, "m.py", "exec").co_consts if hasattr(c, "co_code")]
    found = names_in(code)
    assert {"name0", "name299", "seen"} <= found.loaded
    assert (found.assigned, found.modules) == ({"seen"}, {"json"})
    assert {"attribute0", "attribute299"} <= found.attributes and "cell" in found.variables
    assert "other" not in found.variables
