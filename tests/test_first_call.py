"""The first call of a function: what it imports, and what its time is made of."""

import gc
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hybrid as hy

# What few programs need and is slow to import: it waits until it is asked for.
LATE = (
    "hybrid.explain",
    "hybrid.calls.files",
    "hybrid.staging.effects.log_calls",
    "hybrid.staging.iteration.folds",
    "logging",
    "array",
    "numpy.random",
    "html.entities",
)
PROGRAM = """
import sys
import hybrid as hy

@hy.hybridize
def chain(x, y):
    for _ in range(5):
        x = hy.tanh(x + y) * x
    return x

chain(hy.ones(3), hy.ones(3))
print(*[name for name in sys.argv[1:] if name in sys.modules])
"""


# What a function that loops over nothing and calls this package alone does not need either.
LATER = (
    *LATE,
    "hybrid.staging.library.builtins",
    "hybrid.staging.effects.library_effects",
    "hybrid.staging.loops.loop",
)
WITHOUT_A_LOOP = PROGRAM.replace("    for _ in range(5):\n        ", "    ")


@pytest.mark.parametrize(
    ("text", "late"), [(PROGRAM, LATE), (WITHOUT_A_LOOP, LATER)], ids=["a loop", "none"]
)
def test_imports_what_captures_need_and_no_more(
    text: str, late: tuple[str, ...], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [sys.executable, str(program), *late]
    assert subprocess.check_output(command, text=True).strip() == ""


def test_importing_brings_tensors_and_ops(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    late = ["trace", "nn", "optim", "data", "hybridized", "transforms"]
    program.write_text(
        "import sys\nimport hybrid as hy\n(hy.ones(2) + 1).sum()\n"
        f"print(*[name for name in {late} if f'hybrid.{{name}}' in sys.modules])\n"
        "assert hy.nn.Linear(2, 3)(hy.ones((1, 2))).shape == (1, 3)\n"
        "assert hy.hybridize(lambda x: x.mT)(hy.ones((1, 2))).shape == (2, 1)\n"
        "try:\n    hy.nothing\nexcept AttributeError as error:\n    print(error)\n"
    )
    found = subprocess.check_output([sys.executable, str(program)], text=True)
    assert found == "\nmodule 'hybrid' has no attribute 'nothing'\n"


def test_all_names_are_listed_and_had_by_a_star() -> None:
    names: dict[str, object] = {}
    exec("from hybrid import *", names)
    assert set(hy.__all__) <= set(dir(hy)) & names.keys()
    assert {"hybridize", "nn", "Tensor", "vmap", "save", "float32"} <= names.keys()
    assert all(names[name] is getattr(hy, name) for name in hy.__all__)


@pytest.mark.parametrize("enabled", [True, False])
def test_cycles_are_not_looked_for_while_capturing(enabled: bool) -> None:
    @hy.hybridize
    def function(x, fails):
        if fails:
            raise KeyError("no")
        return x + 1 if gc.isenabled() else x

    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert function(hy.zeros(1), False).tolist() == [0.0]
        assert gc.isenabled() is enabled
        with pytest.raises(KeyError):
            function(hy.zeros(1), True)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_why_a_second_plan_is_made_imports_no_explanation(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("print(", "chain(hy.ones(4), hy.ones(4))\nprint("))
    late = ["hybrid.explain.explanation_build", "hybrid.explain.explanation", *LATE[1:]]
    assert subprocess.check_output([sys.executable, str(program), *late], text=True).strip() == ""


def captured_in(count: int) -> float:
    """CPU seconds that the capture of ``count`` layers with their gradients takes, at best."""
    weights = [hy.ones((3, 3)) for _ in range(count)]
    for weight in weights:
        weight.requires_grad = True

    def capture() -> float:
        @hy.hybridize
        def step(x):
            for weight in weights:
                weight.grad = None
                x = hy.tanh(x @ weight)
            x.sum().backward()
            return x

        begin = time.process_time()
        step(hy.ones((3, 3)))
        return time.process_time() - begin

    return min(capture() for _ in range(3))


@pytest.mark.alone
def test_four_times_the_nodes_take_about_four_times_as_long() -> None:
    captured_in(20)  # imports
    few, many = captured_in(40), captured_in(160)
    assert many < 8 * few, (few, many)
