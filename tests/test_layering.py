"""Every module of hybrid imports only downwards through the layers of the house."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hybrid"

# Each row imports from itself and from the rows below it.  Units of one row may import each other
# but for those of a row in NO_SIBLINGS.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("bench", "models"),
    ("train",),
    ("nn", "optim", "data", "plots"),
    (
        "hybridized",
        "families",
        "planned",
        "plan_cache",
        "profile",
        "binding",
        "binding_loops",
        "binding_queued",
        "in_place",
        "kept",
        "control",
        "interop",
        "late",
        "ring",
        "often",
        "weights",
        "why",
    ),
    ("transforms",),
    ("explain",),
    ("convert",),
    ("trace",),
    ("autodiff", "random", "linalg", "torch_methods"),
    ("number",),
    (
        "tensor",
        "data_view",
        "lanes",
        "launch",
        "eager",
        "streams",
        "thread_state",
        "conversion",
        "inspection",
        "notebook",
        "passes",
        "whole",
    ),
    ("ops", "plan", "record", "progress", "lending", "queues", "pending"),
    ("ir", "native"),
    (
        "errors",
        "types",
        "tree",
        "classes",
        "config",
        "dlpack",
        "extras",
        "interrupts",
        "marks",
        "parts",
        "phases",
        "remains",
        "storage",
        "supply",
        "unshared",
        "writer",
        "version",
    ),
)
NO_SIBLINGS = (
    {"ops", "plan"},
    {"ir", "native"},  # ir knows no arrays and no C; native knows no ir
)
FORBIDDEN = (  # (importer, imported): downwards, and yet not allowed
    ("passes", "tensor"),  # passes work on graphs alone
    ("passes", "eager"),
    ("passes", "native"),
)
DEFERRED = (  # upwards, and only inside a function: methods whose work is done in a layer above
    ("tensor", "autodiff"),  # Tensor.backward
)
USERS_OF_THE_PUBLIC_SURFACE = {
    "cli",
    "bench",
    "models",
    "nn",
    "optim",
    "data",
    "train",
}  # may say `import hybrid`
PUBLIC = "hybrid"

HEIGHT = {unit: -row for row, units in enumerate(LAYERS) for unit in units}


def unit_of(path: Path) -> str:
    """The part of the house that a file belongs to: its folder or, at the top, its own name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_units(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, unit, whether inside a function) for every import of hybrid in ``path``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    deferred = {inner for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            if node.module == "hybrid":  # `from hybrid import ops` names a unit or a public name
                modules = [f"hybrid.{a.name}" if a.name in HEIGHT else "hybrid" for a in node.names]
            else:
                modules = [node.module or ""]
        else:
            continue
        for module in modules:
            first, *rest = module.split(".")
            if first == "hybrid":
                yield node.lineno, rest[0] if rest else PUBLIC, node in deferred


def fault(importer: str, imported: str, deferred: bool = False) -> str:
    """Why ``importer`` must not import ``imported``; empty when it may."""
    if imported == PUBLIC:
        allowed = importer in USERS_OF_THE_PUBLIC_SURFACE
        return "" if allowed else "the public surface is for the layers above hybridized"
    if imported == "_native":
        return "" if importer == "native" else "only hybrid/native.py imports the compiled module"
    if imported not in HEIGHT:
        return "it is in no layer"
    if importer == imported:
        return ""
    if HEIGHT[imported] > HEIGHT[importer]:
        allowed = deferred and (importer, imported) in DEFERRED
        return "" if allowed else "that is upwards"
    if any({importer, imported} <= siblings for siblings in NO_SIBLINGS):
        return "these siblings do not import each other"
    if (importer, imported) in FORBIDDEN:
        return f"{importer} does without {imported}"
    return ""


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_downwards(path: Path) -> None:
    unit = unit_of(path)
    assert unit in HEIGHT, f"give {unit} a place in LAYERS"
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {unit} imports {imported}: {why}"
        for line, imported, deferred in imported_units(path)
        if (why := fault(unit, imported, deferred))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("importer", "imported", "why"),
    [
        ("ops", "tensor", "upwards"),
        ("tensor", "autodiff", "upwards"),
        ("trace", "convert", "upwards"),
        ("plan", "ops", "siblings"),
        ("ir", "native", "siblings"),
        ("plan", "_native", "only hybrid/native.py"),
        ("passes", "eager", "does without"),
        ("autodiff", "hybrid", "public surface"),
        ("ops", "attic", "no layer"),
    ],
)
def test_faults_are_found(importer: str, imported: str, why: str) -> None:
    assert why in fault(importer, imported)


def test_imports_are_read_from_everywhere(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import hybrid as hy\nfrom hybrid import ops, zeros\ndef f():\n    import hybrid.ir.op\n",
        encoding="utf-8",
    )
    assert sorted(imported_units(source)) == [
        (1, "hybrid", False),
        (2, "hybrid", False),
        (2, "ops", False),
        (4, "ir", True),
    ]


def test_deferred_imports_are_few_and_inside_functions() -> None:
    assert fault("tensor", "autodiff", deferred=True) == ""
    assert fault("ops", "tensor", deferred=True) == "that is upwards"
