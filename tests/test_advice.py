"""Each piece of advice that refusals of captures give is in a table of what follows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hybrid
from tests.data import test_advice as of_loaders
from tests.staging.loops import test_advice as of_loops
from tests.staging.values import test_advice as of_lists
from tests.trace import test_advice as of_state
from tests.trace import test_advice_on_choices as of_choices
from tests.trace import test_advice_on_libraries as of_libraries
from tests.trace import test_advice_on_values as of_values

PACKAGE = Path(hybrid.__file__).parent
KINDS = {
    "CaptureError", "EagerOnlyError", "LeakedValueError", "LostItems", "NeedsValue",
    "TracedValueError", "TracedBoolError",
}  # fmt: skip
TABLES = {"_TIME", "_DRAW", "_OUTSIDE", "_NEEDS", "fix_text", "OUTSIDE"}
GIVING = {"remedy", "_instead"}
FOLDERS = ("autodiff", "calls", "convert", "core", "data", "eager", "memory", "nn", "number", "ops",
           "optim", "staging", "trace", "transforms", "weights")  # fmt: skip
ADVICE = [
    row.fix
    for row in (
        *of_state.ROWS,
        *of_choices.ROWS,
        *of_values.ROWS,
        *of_libraries.ROWS,
        *of_lists.ROWS,
        *of_loops.ROWS,
        *of_loaders.ROWS,
    )
]
# What is followed elsewhere, and by which test; or why there is no program that comes there.
ELSEWHERE = {
    "set the attributes of one object, which is made before": "objects with __del__ are refused",
    "or do what __del__ does in a": "tests/trace/capture/test_surroundings.py",
    "method, or in the __exit__ of a with statement": "the same",
    "object of a class that is no tuple": "tests/trace/capture/test_attributes_of_values.py",
    " a field of ": "the same",
    ", or keep it in a variable of its own": "the same",
    "setattr(obj, name, value)": "tests/staging/effects/test_run_time_names.py",
    "give update() a dict": "the same",
    "or keep the value in an attribute": "the same",
    "name the variables that are needed, globals()[name]": "the same",
    "call what it wraps, ": "tests/staging/effects/test_result_caches.py",
    ".__wrapped__(...), or ": "the same",
    "keep the value in a tensor, or change it outside": "tests/trace/guards/test_held_state.py",
    "return it without its history": "tests/trace/regions/test_switched_gradients.py",
    "compare what they hold (==), or pass a flag": "tests/trace/guards/test_identity_guards.py",
    "or pass the parts that are needed": "tests/trace/guards/test_cycles_and_depth.py",
    "test it first (`is ": "tests/staging/library/test_none_in_containers.py",
    "`), or let it be there on every path": "the same",
    "hybrid.config.RESIDUAL_NBYTES": "tests/staging/values/test_advice.py, with another limit",
    "append what has no other name": "tests/trace/gradients/test_names_of_items.py",
    "x = x.detach()": "tests/trace/regions/test_requires_grad.py",
    "read the cached property once": "the number stays part of the key then: nobody is told",
    "add them up in a for loop, or append tensors": "only from Python 3.12 on",
    "append new tensors": "which tensors these are has always been told by now",
    "final type and structure before the loop": "the last resort of a loop that never settles",
    "return it from the function that made it": "what leads there has been refused before",
    "pass it as an argument": "what leads there has been refused before",
    "return the value and store it outside": "where the capture is made blind for a test",
    "or select behind the loop": "what leads there is captured path by path",
    "or keep the whole tensor and choose": "numbers that are inputs are constants then",
    "write x = hybrid.where(mask, value, x)": "tests/calls/test_value_sizes.py",
    "let a collective make what decides": "tests/distributed/test_communication.py",
    "or do not declare the axis": "tests/calls/test_dynamic_axes.py",
    "compare the sizes before the computation": "tests/calls/test_open_programs.py",
}


def sources(tree: ast.AST) -> Iterator[ast.AST]:
    """The expressions that give advice."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in KINDS or name == "MutableKind":
                yield from [word.value for word in node.keywords if word.arg == "fix"]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target).rpartition(".")[2]
            if name in TABLES:
                yield from node.value.values if isinstance(node.value, ast.Dict) else [node.value]
        elif isinstance(node, ast.FunctionDef) and node.name in GIVING:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    is_pair = isinstance(inner.value, ast.Tuple)
                    yield inner.value.elts[-1] if is_pair else inner.value


def advice() -> Iterator[tuple[str, str]]:
    """(where, a piece of text) of what refusals of captures advise."""
    for folder in (PACKAGE, *(PACKAGE / name for name in FOLDERS)):
        for path in sorted(folder.glob("*.py") if folder == PACKAGE else folder.rglob("*.py")):
            for source in sources(ast.parse(path.read_text(encoding="utf-8"))):
                for node in ast.walk(source):
                    if isinstance(node, ast.Constant) and " " in str(node.value).strip():
                        yield str(path.relative_to(PACKAGE)), str(node.value)


def test_all_advice_is_followed() -> None:
    left = [
        f"{where}: {text}"
        for where, text in advice()
        if not any(text.strip() in found for found in ADVICE)
        and not any(part in text for part in ELSEWHERE)
    ]
    assert not left, "\n".join(left)
