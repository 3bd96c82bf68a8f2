"""Build what has no Python in it: ``libhybrid.so``, the runtime and all kernels; ``hybrid-run``.

``setup.py`` and ``build_ffi.py`` call it; without Python the Makefile beside this file does.
``HYBRID_SANITIZE=address`` or ``thread`` builds with those sanitizers.
``HYBRID_BUILD_CACHE=FOLDER`` keeps objects there, and takes those of the same lines and options.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import setuptools  # noqa: F401  first: from Python 3.12 on it is what provides distutils

from distutils import ccompiler, sysconfig  # isort: skip

CSRC = Path(__file__).resolve().parent
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
FLAGS = [
    "-std=gnu11",
    "-O3",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-fno-asynchronous-unwind-tables",  # 0.15 MB of a wheel, which nothing here reads
    "-pthread",
    "-g0",  # Python's own flags may ask for debugging symbols: four times the size
]
LINKS = ["-pthread"]
if SANITIZER := os.environ.get("HYBRID_SANITIZE"):
    if SANITIZER not in SANITIZERS:
        raise SystemExit(f"HYBRID_SANITIZE={SANITIZER}: expected one of {', '.join(SANITIZERS)}")
    FLAGS += ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZERS[SANITIZER]}"]
    LINKS += [f"-fsanitize={SANITIZERS[SANITIZER]}"]
else:
    LINKS += ["-s"]

# The plainest set is for machines of before 2013, so it has three fifths of the size.  It is as
# fast where the sources spell out vectors; where a compiler finds them it may take half longer.
# Smaller, too, are those parts of the runtime that read programs and build plans, not run them,
# that read and write texts and files, and that wait for other threads.
SMALLER = {
    "isa/baseline.c": "-O2 -fno-inline-small-functions "
    "-fno-align-loops -fno-align-jumps -fno-align-labels",
    "isa/avx2.c": "-fno-ipa-cp-clone",  # 60 KB of a wheel, at the same speed
    "runtime/async/*": "-Os",
    "runtime/base/*": "-O2",
    "runtime/base/*_text.c": "-Os",
    "runtime/base/decimal.c": "-Os",
    "runtime/base/limits.c": "-Os",
    "runtime/base/output.c": "-Os",
    "runtime/build/*": "-Os",
    "runtime/program/*": "-Os",
    "runtime/run/*": "-O2",
    "runtime/run/channel.c": "-Os",
    "runtime/run/message.c": "-Os",
    "runtime/run/profile.c": "-Os",
    "tools/*": "-Os",
    # But what makes the plan of an eager call at sizes that are met for the first time.
    "runtime/build/builder.c": "-O2",
    "runtime/build/map_make.c": "-O2",
    "runtime/build/plan.c": "-O2",
    "runtime/build/validate.c": "-O2",
    "runtime/program/open_plan.c": "-O2",
}

# What the header declares is exported; calls of it from within are as direct as others.
LIBRARY_FLAGS = ["-DHYB_SHARED", "-fPIC", "-fno-semantic-interposition"]
# Workers and fork handlers outlive a dlclose: the library stays.
LIBRARY_LINKS = ["-Wl,-soname,libhybrid.so", "-Wl,-Bsymbolic-functions", "-Wl,-z,nodelete", "-lm"]


def sources() -> list[Path]:
    """Every C file of the library; ``*.inc.c`` is included by others."""
    return sorted([*CSRC.glob("runtime/*/*.c"), *CSRC.glob("isa/*.c")])


def tools() -> list[Path]:
    """The C files of ``hybrid-run``; the library does not export how it writes files."""
    return [*sorted(CSRC.glob("tools/*.c")), CSRC / "runtime/base/output.c"]


def beside(folder: str) -> str:
    """The option that finds libraries in ``folder``, seen from what is linked.

    Before LD_LIBRARY_PATH, where another version may be.
    """
    return f"-Wl,--disable-new-dtags,-rpath,$ORIGIN/{folder}"


def shipped() -> list[Path]:
    """What of this folder goes into a wheel, so that programs can be linked statically."""
    found = [path for path in sorted(CSRC.rglob("*")) if path.is_file()]
    found = [path for path in found if path.suffix not in (".py", ".md")]
    return [path for path in found if CSRC / "fuzz" not in path.parents]


def build_package(target: Path) -> Path:
    """Build what the package in the folder ``target`` has of C; returns ``libhybrid.so``."""
    compiler = ccompiler.new_compiler()
    sysconfig.customize_compiler(compiler)
    made, program = target / "lib" / "libhybrid.so", target / "bin" / "hybrid-run"
    for path in (made, program):
        path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        flags = [*FLAGS, *LIBRARY_FLAGS]
        objects = compile_all(compiler.compiler_so, sources(), flags, Path(folder))
        link(compiler.linker_so, objects, [*LINKS, *LIBRARY_LINKS], made)
        objects = compile_all(compiler.compiler_so, tools(), FLAGS, Path(folder))
        found = [str(made), beside("../lib"), "-lm"]
        link(compiler.linker_exe, objects, [*LINKS, *found], program)
    return made


def link(linker: list[str], objects: list[Path], options: list[str], made: Path) -> None:
    """Link ``objects``; what was there before may be in use and stays what it is for its users."""
    part = made.with_name(f"{made.name}.{os.getpid()}")
    call([*linker, *map(str, objects), *options, "-o", str(part)])
    part.replace(made)


def compile_all(
    compiler: list[str], files: list[Path], flags: list[str], folder: Path
) -> list[Path]:
    """The objects of ``files``, compiled by threads: three files take most of the time."""
    command = [*compiler, *flags, f"-I{CSRC / 'include'}", f"-I{CSRC}"]

    def compile_one(source: Path) -> Path:
        made = folder / source.relative_to(CSRC).with_suffix(".o")
        made.parent.mkdir(parents=True, exist_ok=True)
        smaller = [options for pattern, options in SMALLER.items() if source.match(pattern)]
        compiles = [*command, *" ".join(smaller).split()]
        kept = kept_object(compiles, source)
        if kept is not None and kept.exists():
            shutil.copyfile(kept, made)
            return made
        call([*compiles, "-c", str(source), "-o", str(made)])
        if kept is not None:
            part = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(made, part)
            part.replace(kept)  # in one step: other builds may look for it
        return made

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(compile_one, files))


def kept_object(command: list[str], source: Path) -> Path | None:
    """Where ``HYBRID_BUILD_CACHE`` keeps the object of these very lines; None: it keeps nothing."""
    folder = os.environ.get("HYBRID_BUILD_CACHE")
    if not folder:
        return None
    version = subprocess.run([command[0], "--version"], capture_output=True, check=True).stdout
    preprocess = [*command, "-E", "-P", str(source)]
    done = subprocess.run(preprocess, capture_output=True, check=False)
    if done.returncode:  # the compiler will say what is wrong
        return None
    options = [word for word in command if not word.startswith("-I")]  # they have been followed
    made_of = [repr(options).encode(), version, done.stdout]
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder).resolve() / f"{hashlib.sha256(bytes(1).join(made_of)).hexdigest()}.o"


def call(command: list[str]) -> None:
    """Run ``command`` and show it; SystemExit if it fails."""
    print(*command, flush=True)
    if code := subprocess.run(command, check=False).returncode:
        raise SystemExit(f"{command[0]} ended with code {code}")
