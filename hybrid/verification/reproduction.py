"""The folder of a call that gave something else in a plan than eagerly, and how it is run again.

It has the function with all that it reaches, the arguments and the state of the draws (by
cloudpickle), the sources, which captures need, the versions and the differences.
"""

from __future__ import annotations

import json
import linecache
import os
import platform
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.calls.hybridized import Hybridized
from hybrid.config import VERIFYING
from hybrid.core.imports import optional
from hybrid.core.output_file import whole_file, write_text
from hybrid.core.package import __version__, module_of
from hybrid.errors import ArgumentError, HybridError
from hybrid.memory import native
from hybrid.random import default_generator
from hybrid.verification.reached_state import is_authors, reached
from hybrid.verification.state_difference import Outcome
from hybrid.verification.state_snapshot import StateSnapshot

FOLDER = "hybrid-differences"
VARIABLE = "HYBRID_VERIFY_FOLDER"


def write_reproduction(
    name: str, hybridized: Any, args: tuple[Any, ...], kwargs: dict[str, Any], lines: Sequence[str]
) -> Path:
    """Write the folder of a call, whose state is that before it; its path."""
    folder = _new_folder(name)
    write_text(folder / "difference.txt", "\n".join(lines) + "\n")
    about = {
        "name": name,
        "hybrid": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "isa": native.isa(),
        "threads": native.num_threads(),
        "platform": platform.platform(),
        "options": {key: repr(value) for key, value in hybridized.options.items()},
    }
    write_text(folder / "environment.json", json.dumps(about, indent=1) + "\n")
    found = reached([("args", args), ("kwargs", kwargs), ("function", hybridized.function)])
    sources = {path: "".join(linecache.getlines(path)) for path in _files(found)}
    write_text(folder / "sources.json", json.dumps(sources, indent=1))
    try:
        content = _pickled(found, hybridized, args, kwargs)
    except Exception as error:
        write_text(folder / "call.txt", f"The call cannot be pickled: {error!r}\n")
    else:
        with whole_file(folder / "call.pickle") as file:
            file.write(content)
    return folder


def _new_folder(name: str) -> Path:
    base = Path(os.environ.get(VARIABLE) or FOLDER)
    safe = "".join([c if c.isalnum() or c in "-_" else "_" for c in name])
    number = 1
    while True:
        folder = base / f"{safe}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


def _files(found: Mapping[int, tuple[str, Any]]) -> Iterator[str]:
    for _, value in found.values():
        if isinstance(value, types.FunctionType) and is_authors(module_of(value)):
            yield value.__code__.co_filename


def _pickled(
    found: Mapping[int, tuple[str, Any]], hybridized: Any, args: Any, kwargs: Any
) -> bytes:
    cloudpickle = optional("cloudpickle", "reproduce", "a folder to reproduce a call from")
    values = [value for _, value in found.values()]
    names = {module_of(v if isinstance(v, types.FunctionType) else type(v)) for v in values}
    registered = []
    try:
        for name in sorted(names - {"__main__"}):
            if is_authors(name) and name in sys.modules:
                cloudpickle.register_pickle_by_value(sys.modules[name])
                registered.append(sys.modules[name])
        return cloudpickle.dumps(
            {"function": hybridized.function, "args": args, "kwargs": kwargs,
             "options": _plain(hybridized.options), "random": default_generator().state}
        )  # fmt: skip
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in VERIFYING}


def _give_sources(sources: Mapping[str, str], roots: Sequence[tuple[str, Any]]) -> None:
    """Let functions that were pickled know their lines: captures convert sources."""
    known: dict[Any, types.CodeType] = {}
    for path, text in sources.items():
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)
        waiting = [compile(text, path, "exec", dont_inherit=True)]
        while waiting:
            code = waiting.pop()
            known[_key(code)] = code
            waiting += [part for part in code.co_consts if isinstance(part, types.CodeType)]
    for _, value in reached(roots).values():
        if isinstance(value, types.FunctionType) and _key(value.__code__) in known:
            value.__code__ = known[_key(value.__code__)]


def _key(code: types.CodeType) -> Any:
    return code.co_name, code.co_firstlineno, code.co_varnames, code.co_freevars, code.co_names


def differences_in(folder: str | os.PathLike[str]) -> list[str]:
    """Run the call of a folder eagerly and as a plan; the lines in which they differ.

    The folder is run: it is code.  Raises ArgumentError if it has no call.
    """

    folder = Path(folder)
    try:
        sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
        content = (folder / "call.pickle").read_bytes()
    except OSError as error:
        raise ArgumentError(
            f"{folder} has no call to reproduce: {error.strerror}",
            fix="give a folder that a verified call has written",
        ) from None
    cloudpickle = optional("cloudpickle", "reproduce", "hybrid reproduce")
    own = sys.modules["__main__"]
    is_authors.cache_clear()
    sys.modules["__main__"] = types.ModuleType("__main__")  # which the call may have come from
    try:
        return _differences(folder, cloudpickle, content, sources)
    finally:
        sys.modules["__main__"] = own
        is_authors.cache_clear()


def _differences(
    folder: Path, cloudpickle: Any, content: bytes, sources: Mapping[str, str]
) -> list[str]:
    try:
        call = cloudpickle.loads(content)
    except HybridError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"{folder / 'call.pickle'} cannot be read: {error!r}",
            fix="run it with the versions of environment.json",
        ) from None
    function, args, kwargs = call["function"], call["args"], call["kwargs"]
    _give_sources(sources, [("args", args), ("kwargs", kwargs), ("function", function)])
    default_generator().state.assign(call["random"])
    roots = {"args": args, "kwargs": kwargs, "function": function,
             "random": default_generator().state}  # fmt: skip
    before = StateSnapshot(reached(roots.items()))
    outcomes = []
    for run in (Hybridized(function, **call["options"]), function):
        result = error = None
        try:
            result = run(*args, **kwargs)
        except Exception as raised:
            error = raised
        found = reached([("result", result), *roots.items()])
        outcomes.append(Outcome(found, before, result, error))
        before.restore()
    return outcomes[1].difference(outcomes[0])
