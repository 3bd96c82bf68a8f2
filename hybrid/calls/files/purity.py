"""Tables of the library modules and functions that give the same results in every process.

What a captured function calls of a library is called once, and each run has what that gave.  In the
process of the capture that is what the author has asked for; in another one it is right only if the
call would give the same there, too.  So only what is listed here may occur in a capture that is
kept in a file.
"""

from __future__ import annotations

import opcode
import types
from collections.abc import Iterator

from hybrid.trace.places.names import instructions

# Modules of the standard library, with the modules in C behind them, and NumPy.
_PURE = frozenset(
    {
        "__future__", "_abc", "_collections", "_collections_abc", "_functools", "_operator", "abc",
        "bisect", "builtins", "cmath", "collections", "collections.abc", "contextlib", "copy",
        "dataclasses", "enum", "fractions", "functools", "heapq", "itertools", "math", "numbers",
        "numpy", "numpy.linalg", "operator", "re", "string", "textwrap", "types", "typing",
        "warnings",
    }
)  # fmt: skip
# Parts of this package, in its folder, that look at the world or at settings no capture guards.
WORLDLY = frozenset(
    {
        "calls.files", "cli", "config", "data", "distributed", "eager.profile", "eager.tensor_html",
        "jobs",
        "memory.native", "nn.module_html", "plots", "weights",
    }
)  # fmt: skip
# Names in modules that are pure otherwise.
_IMPURE = {
    "builtins": frozenset(
        {
            "__import__", "breakpoint", "compile", "dir", "eval", "exec", "globals", "hash", "id",
            "input", "locals", "memoryview", "open", "vars",
            "frozenset", "set",  # the order of their items is another in each process
        }
    ),
    "numpy": frozenset(
        {
            "array2string", "array_repr", "array_str", "ctypeslib", "datetime64", "fromfile",
            "f2py", "genfromtxt", "get_printoptions", "geterr", "lib", "load", "loadtxt", "memmap",
            "random", "show_config", "test", "testing",
        }
    ),
    "hybrid": frozenset(
        {"bench", "data", "distributed", "load", "num_threads", "plots", "profile", "weights"}
    ),
}  # fmt: skip
_PLAIN = frozenset({("argparse", "Namespace")})  # that only hold attributes
_NONE: frozenset[str] = frozenset()


def is_pure_module(name: str) -> bool:
    """Return whether the content of the module ``name`` is the same in every process."""
    root, _, rest = name.partition(".")
    if root == "hybrid":
        return not any(f"{rest}.".startswith(f"{part}.") for part in WORLDLY)
    return name in _PURE or name.startswith("numpy._core") or name.startswith("numpy.core")


def is_pure(module: str, name: str) -> bool:
    """Return whether the object of a qualified name in a module is the same in every process."""
    if (module, name) in _PLAIN:
        return True
    root = module.partition(".")[0]
    return is_pure_module(module) and name.partition(".")[0] not in impure_names(root)


def impure_names(module: str) -> frozenset[str]:
    """Return the names in a pure module that differ from process to process."""
    return _IMPURE.get(module, _NONE)


_SETS = frozenset(
    opcode.opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE") if name in opcode.opmap
)
_IN = opcode.opmap["CONTAINS_OP"]
_CONSTANT = opcode.opmap["LOAD_CONST"]


def makes_sets(code: types.CodeType) -> bool:
    """Return whether ``code`` makes a set for another use than ``in``."""
    found = list(instructions(code.co_code))
    return any(
        op in _SETS and (i + 1 == len(found) or found[i + 1][0] != _IN)
        for i, (op, _) in enumerate(found)
    ) or any(makes_sets(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def searched(code: types.CodeType) -> Iterator[int]:
    """Return the indices of constants that ``in`` alone uses, so their order is irrelevant."""
    found = list(instructions(code.co_code))
    uses: dict[int, bool] = {}
    for i, (op, argument) in enumerate(found):
        if op == _CONSTANT:
            last = i + 1 == len(found)
            uses[argument] = uses.get(argument, True) and not last and found[i + 1][0] == _IN
    return (number for number, only in uses.items() if only)
