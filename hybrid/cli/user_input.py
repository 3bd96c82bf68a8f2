"""What commands share: failing in one line, checking options, loading the user's function."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import typer

from hybrid.calls.dynamic_axes import Dim
from hybrid.core import output_file
from hybrid.core.types import DTYPES, TensorType, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, HybridError
from hybrid.memory import native
from hybrid.ops.shapes.creation import zeros

SYMBOL = re.compile(r"(?<=[\[,\s])[A-Za-z_]\w*(?=\s*[,\]])")  # among the sizes of a type
FIRST_SIZE = 37  # of the first symbol, where a value is needed; others have 41, 45 ...
RANGE = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\d+)\s*:\s*(\d+)")  # of a symbol
TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<shape>\s*(?:\d+\s*(?:,\s*\d+\s*)*)?)\]")


def fail(error: object, *, code: int = 2) -> NoReturn:
    """End the program with ``error`` in one line on stderr; 2 is for what the user got wrong."""
    typer.echo(f"hybrid: {one_line(error)}", err=True)
    raise typer.Exit(code)


def one_line(error: object) -> str:
    """The lines of ``error``, each a sentence, in one."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    return " ".join(line if line[-1] in ".:?!" else f"{line}." for line in lines)


def set_threads(threads: int | None) -> None:
    """What ``--threads`` asks for; None leaves the setting alone."""
    try:
        if threads is not None:
            native.set_num_threads(threads)
    except HybridError as error:
        fail(f"--threads {threads}: {error}")


def require_writable(option: str, path: Path) -> None:
    """Fail now rather than after minutes of work."""
    try:
        output_file.require_writable(path)
    except OSError as error:
        fail(f"{option} {path} cannot be written: {error.strerror}.")


def tell_written(path: Path, also: str = "") -> None:
    """Print how large a file is that was written; nothing for what has no size, as /dev/stdout."""
    if output_file.is_regular(path):
        typer.echo(f"{path}: {path.stat().st_size:,} bytes{also}")


def load_program(path: Path, *, whole: bool = False) -> Any:
    """The program in a file; fails if it is damaged.  With ``whole`` every byte is looked at."""
    from hybrid.programs import load_exported  # most commands do without

    try:
        return load_exported(path, whole=whole)
    except HybridError as error:
        fail(error)
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}.")


def parse_types(texts: Sequence[str]) -> list[TensorType]:
    """Types written as ``f32[8,4]``; fails on anything else."""
    return [parse_type(text) for text in texts]


def parse_dims(texts: Sequence[str]) -> dict[str, Dim]:
    """Ranges of sizes written as ``batch=1:64``, by name; fails on anything else."""
    found = {}
    for text in texts:
        match = RANGE.fullmatch(text.strip())
        if match is None:
            fail(f"{text!r} is no range of a size; write it as batch=1:64.")
        try:
            found[match[1]] = Dim(match[1], int(match[2]), int(match[3]))
        except ArgumentError as error:
            fail(f"{text!r}: {error.what}.")
    return found


def parse_open_types(
    texts: Sequence[str], dims: Mapping[str, Dim] | None = None
) -> tuple[list[TensorType], dict[int, dict[int, Dim]]]:
    """Types whose sizes may be symbols, as ``f32[n,8]``: at some sizes, and the table of axes.

    ``dims`` are the ranges of symbols that have one.
    """
    values: dict[str, int] = {}
    ranges = dims or {}
    types, dynamic = [], dict[int, dict[int, Dim]]()
    for at, text in enumerate(texts):
        head, bracket, sizes = text.partition("[")
        named = SYMBOL.findall(f"[{sizes}")
        for name in named:
            dim = ranges.get(name, Dim(name))
            values.setdefault(name, min(max(FIRST_SIZE + 4 * len(values), dim.low), dim.high))
        plain = SYMBOL.sub(lambda found: str(values[found.group()]), f"[{sizes}")
        types.append(parse_type(head + plain if bracket else text))
        axes = {
            axis: ranges.get(name, Dim(name))
            for axis, size in enumerate(sizes.split(","))
            if (name := size.strip().rstrip("]").strip()) in values
        }
        if axes:
            dynamic[at] = axes
    return types, dynamic


def zeros_of(types: Sequence[TensorType]) -> list[Tensor]:
    """A tensor of each type: a capture sees its type alone, and never what it holds."""
    return [zeros(t.shape, dtype=t.dtype) for t in types]


def parse_type(text: str) -> TensorType:
    """The type written as ``text``: a short or a full dtype name and a shape in brackets."""
    match = TYPE.fullmatch(text.strip())
    if match is None:
        fail(f"{text!r} is not a tensor type. Fix: write a dtype and a shape, as in f32[8,4].")
    dtypes = {name: dtype for dtype in DTYPES for name in (dtype.short, dtype.name)}
    if match["dtype"] not in dtypes:
        names = ", ".join(dtype.short for dtype in DTYPES)
        fail(f"{text!r} has an unknown dtype {match['dtype']!r}. Fix: use one of {names}.")
    shape = tuple(int(size) for size in match["shape"].split(",") if size.strip())
    try:
        return tensor_type(dtypes[match["dtype"]], shape)
    except HybridError as error:
        fail(error)


def load_function(target: str) -> Callable[..., Any]:
    """The function named by ``path/to/file.py:function`` or ``module:function``."""
    found = load_object(target, "a function", "step")
    if not callable(found):
        place, _, name = target.rpartition(":")
        fail(f"{name!r} of {place} is not callable: its type is {type(found).__name__}.")
    return found


def load_object(target: str, kind: str, example: str) -> Any:
    """What ``path/to/file.py:name`` or ``module:name`` names; errors say its kind, and a name."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        word = kind.rpartition(" ")[2].upper()
        fail(f"{target!r} does not name {kind}. Fix: write FILE:{word}, as in model.py:{example}.")
    module = load_module(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            fail(f"{place} has no {name!r}{suggestion(name, module)}")
        found = getattr(found, part)
    return found


def suggestion(name: str, module: ModuleType) -> str:
    """The end of a sentence: the public callable whose name is nearest, if any is near."""
    names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
    near = get_close_matches(name, names, n=1)
    return f". Fix: did you mean {near[0]!r}?" if near else "."


def load_module(place: str) -> ModuleType:
    """Import a file by its path or a module by its name; fails in one line whatever goes wrong."""
    path = Path(place)
    is_file = path.suffix == ".py" or len(path.parts) > 1
    if is_file and not path.is_file():
        fail(f"there is no file {place}.")
    # A module finds its neighbours as it would when run by `python file.py` or `python -m`.
    sys.path.insert(0, str(path.resolve().parent if is_file else Path.cwd()))
    try:
        if not is_file:
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            fail(f"{place} is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except typer.Exit:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module does
        fail(f"{place} does not import: {type(error).__name__}: {error}")
