"""What kernels and ops mean, in a text file: programs in files call them by these names.

    python -m tests.tools.signatures          # adds what is new to signatures.txt
    python -m tests.tools.signatures --renew  # writes all of it: of what was never released

A line of ``signatures.txt`` is a kernel (name, inputs > outputs, attributes, dtypes; those behind a
``?`` not of all instruction sets), an op (with its attributes and their defaults), or what an op
computes: the digest of operands and attributes, then two numbers of each result, the sum of the
absolute values and a weighted sum.  These are compared roughly, for instruction sets round
differently: what changes meaning is far off.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import hybrid.ops
from hybrid.core.types import DTYPES
from hybrid.ir import REGISTRY, Op
from hybrid.memory import native
from hybrid.ops.support.sampling import Sample, samples

PATH = Path(__file__).with_name("signatures.txt")
SAMPLES = 2  # of each op
MOST_NBYTES = 1 << 14  # of their operands
# Of whose vectors only the sizes are looked at: their signs are the machine's business.
SIGNLESS = ("eigh", "svd", "svd_full")
# Between which values are laid out as the instruction set likes them: no graph in a file has them.
MACHINES_OWN = (
    *("conv_prepare", "conv_prepared", "conv_blocked_prepare", "conv_blocked"),
    *("conv_integer_prepare", "conv_integer_prepared"),
    *("matmul_prepare", "matmul_prepared"),
    *("matmul_integer_prepare", "matmul_integer_prepared"),
)
RENEW = "python -m tests.tools.signatures --renew"
ADVICE = (
    "Programs in files mean the former one by this name. Fix: give what has changed a new name, "
    f"and keep the old one; or, if it was never released, run `{RENEW}`."
)

Rows = dict[str, str]  # the head of a line -> the rest


def kernels() -> Rows:
    """The kernels of this machine: those of one name with equal counts are one row."""
    found: dict[str, set[str]] = {}
    for number in range(native.lib.hyb_kernel_count()):
        name, dtype, (n_in, n_out, n_attrs) = native.kernel_at(number)
        head = f"kernel {name} {n_in} > {n_out}, {n_attrs} attributes"
        found.setdefault(head, set()).add(DTYPES[dtype].short)
    return {head: " ".join(sorted(dtypes)) for head, dtypes in found.items()}


def ops() -> list[Op]:
    """The ops that graphs of programs may have."""
    for file in pkgutil.walk_packages(hybrid.ops.__path__, "hybrid.ops."):
        importlib.import_module(file.name)
    found = [op for op in REGISTRY.values() if op.__module__.startswith("hybrid.ops")]
    return sorted(found, key=lambda op: op.name)


def declared() -> Rows:
    """The operands and attributes of each op."""
    return {f"op {op.name}": str(op.__signature__) for op in ops()}


def chosen(op: Op) -> list[Sample]:
    """Samples of an op that computes something, small ones."""
    if op.has_regions or not op.pure or op.name in MACHINES_OWN:
        return []
    found = []
    for sample in samples(op, seed=zlib.crc32(op.name.encode())):
        if 0 < sum(x.nbytes for x in sample[0]) <= MOST_NBYTES:
            found.append(sample)
    return found[:: max(1, len(found) // SAMPLES)][:SAMPLES]


def digest(sample: Sample) -> str:
    """What the operands and attributes are, in eight letters."""
    operands, attrs = sample
    content = b"".join([f"{x.dtype}{x.shape}".encode() + x.tobytes() for x in operands])
    return f"{zlib.crc32(content + repr(sorted(attrs.items(), key=str)).encode()):08x}"


def numbers(op: Op, sample: Sample) -> list[float]:
    """Two numbers of each result of an op: what it computes, roughly."""
    operands, attrs = sample
    results = op(*operands, **attrs)
    found: list[float] = []
    for result in results if isinstance(results, tuple) else (results,):
        wide = result.astype(hybrid.float32) if result.dtype is hybrid.bfloat16 else result
        x = wide.numpy().astype(np.float64).ravel()
        x = np.where(np.isfinite(x), x, 0.5)
        weights = np.zeros(x.size) if op.name in SIGNLESS else np.cos(1.0 + np.arange(x.size))
        found += [float(np.abs(x).sum()), float(x @ weights)]
    return found


def computed() -> Rows:
    """What each op computes of some samples."""
    found = {}
    for op in ops():
        for sample in chosen(op):
            values = " ".join([f"{x:.6g}" for x in numbers(op, sample)])
            found[f"value {op.name} {digest(sample)}"] = values
    return found


def kept() -> Rows:
    """The lines of the file."""
    lines = PATH.read_text("utf-8").splitlines()
    return dict([line.split(" = ", 1) for line in lines if line])


def changes(known: Rows, found: Rows) -> list[str]:
    """What of ``found`` is not what is ``known``, one finding each."""
    faults = []
    for head, rest in known.items():
        if not head.startswith(tuple({key.split()[0] for key in found})):
            continue
        if head not in found:
            faults.append(f"{head}: there is no such one any more. {ADVICE}")
        elif not _agrees(head, rest, found[head]):
            faults.append(f"{head}: {found[head]}, and it was {rest}. {ADVICE}")
    faults += [
        f"{head}: new. Fix: run `python -m tests.tools.signatures`."
        for head in found.keys() - known.keys()
    ]
    return sorted(faults)


def _agrees(head: str, known: str, found: str) -> bool:
    if head.startswith("kernel"):
        everywhere, _, some = known.partition("?")
        now = set(found.split())
        return set(everywhere.split()) <= now <= {*everywhere.split(), *some.split()}
    if not head.startswith("value"):
        return known == found
    a, b = (np.array(each.split(), float) for each in (known, found))
    return a.shape == b.shape and bool(
        (np.abs(a - b) <= 1e-3 * np.repeat(np.maximum(a, b)[::2], 2) + 1e-4).all()
    )


def _everywhere() -> Rows:
    """The kernels of the plainest instruction set."""
    script = "import json; from tests.tools.signatures import kernels; print(json.dumps(kernels()))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        env={**os.environ, "HYBRID_ISA": "baseline"},
    )
    return json.loads(done.stdout)


def written(*, renew: bool) -> Rows:
    """The rows of the file to be; without ``renew``, those that it has stay as they are."""
    everywhere, rows = _everywhere(), {**declared(), **computed()}
    for head, dtypes in kernels().items():
        common = everywhere.get(head, "").split()
        some = [short for short in dtypes.split() if short not in common]
        rows[head] = " ".join([*common, *(["?", *some] if some else [])])
    if not renew:
        with contextlib.suppress(FileNotFoundError):
            rows |= kept()
    return dict(sorted(rows.items()))


def main(arguments: Any) -> None:
    """The command."""
    rows = written(renew="--renew" in arguments)
    PATH.write_text("".join([f"{head} = {rest}\n" for head, rest in rows.items()]), "utf-8")
    print(f"{len(rows)} lines in {PATH}")


if __name__ == "__main__":
    main(sys.argv[1:])
