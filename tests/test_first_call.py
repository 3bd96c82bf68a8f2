"""The first call of a function: what it imports, and what its time is made of."""

import gc
import subprocess
import sys

import pytest

import hybrid as hy

# What few programs need and is slow to import: it waits until it is asked for.
LATE = (
    "hybrid.explain",
    "hybrid.convert.logs",
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


def test_imports_what_captures_need_and_no_more(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), *LATE]
    assert subprocess.check_output(command, text=True).strip() == ""


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
