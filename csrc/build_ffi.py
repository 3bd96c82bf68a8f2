"""Build ``hybrid._native`` (cffi, API mode, out of line).

``csrc/include/hybrid.h`` is the only declaration of the C interface: cffi
parses its marked part and the compiler includes the whole of it, so the two
cannot drift apart.

``setup.py`` names this file in ``cffi_modules``.  As a script it builds in
place: ``python csrc/build_ffi.py [DIRECTORY]`` writes
``DIRECTORY/hybrid/_native*.so`` (default: the source tree).
``HYBRID_SANITIZE=address`` or ``thread`` builds with those sanitizers.
``HYBRID_BUILD_CACHE=FOLDER`` keeps objects there, and takes those of the same lines and options.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import setuptools  # noqa: F401  first: from Python 3.12 on it is what provides distutils
from cffi import FFI

from distutils import ccompiler  # isort: skip

AS_SCRIPT = __name__ == "__main__"
CSRC = Path(__file__).resolve().parent
HEADER = CSRC / "include" / "hybrid.h"
BEGIN, END = "/* cffi: begin */", "/* cffi: end */"
SANITIZERS = {"address": "address,undefined", "thread": "thread"}


def declarations(header: str) -> str:
    """The part of ``header`` between the cffi marks; it must be plain C."""
    try:
        _, rest = header.split(BEGIN)
        body, _ = rest.split(END)
    except ValueError:
        raise SystemExit(f"{HEADER}: expected one {BEGIN} and one {END}") from None
    return body


def located(path: Path) -> str:
    """``path`` as the build wants it: setuptools demands paths relative to ``setup.py``."""
    return str(path) if AS_SCRIPT else os.path.relpath(path)


def sources() -> list[str]:
    """Every C file of the library; ``*.inc.c`` is included, examples are programs of their own."""
    files = [p for p in CSRC.rglob("*.c") if CSRC / "examples" not in p.parents]
    return sorted(located(p) for p in files if not p.name.endswith(".inc.c"))


def kept_object(compiler, source: str, pp_opts, extra_postargs) -> Path | None:
    """Where ``HYBRID_BUILD_CACHE`` keeps the object of these very lines; None: it keeps nothing."""
    folder = os.environ.get("HYBRID_BUILD_CACHE")
    if not folder:
        return None
    command = [*compiler.compiler_so, *pp_opts, *extra_postargs]
    version = subprocess.run([command[0], "--version"], capture_output=True, check=True).stdout
    preprocess = [*command, "-E", "-P", source]
    done = subprocess.run(preprocess, capture_output=True, check=False)
    if done.returncode:  # the compiler will say what is wrong
        return None
    options = [word for word in command if not word.startswith("-I")]  # they have been followed
    made_of = [repr(options).encode(), version, done.stdout]
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder).resolve() / f"{hashlib.sha256(bytes(1).join(made_of)).hexdigest()}.o"


def compile_in_parallel(
    self,
    sources,
    output_dir=None,
    macros=None,
    include_dirs=None,
    debug=0,
    extra_preargs=None,
    extra_postargs=None,
    depends=None,
):
    """``CCompiler.compile`` with its loop run by threads: three files take most of the time."""
    macros, objects, extra_postargs, pp_opts, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs
    )
    arguments = self._get_cc_args(pp_opts, debug, extra_preargs)

    def compile_one(obj: str) -> None:
        if obj not in build:
            return
        kept = kept_object(self, build[obj][0], pp_opts, extra_postargs)
        if kept is None or not kept.exists():
            self._compile(obj, *build[obj], arguments, extra_postargs, pp_opts)
        if kept is None:
            return
        if kept.exists():
            Path(obj).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, obj)
        else:
            part = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(obj, part)
            part.replace(kept)  # in one step: other builds may look for it

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(compile_one, objects))
    return objects


ccompiler.CCompiler.compile = compile_in_parallel

flags = [
    "-std=gnu11",
    "-O3",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-pthread",
    "-g0",  # Python's own flags may ask for debugging symbols: four times the size
]
links = ["-pthread"]
if sanitizer := os.environ.get("HYBRID_SANITIZE"):
    if sanitizer not in SANITIZERS:
        raise SystemExit(f"HYBRID_SANITIZE={sanitizer}: expected one of {', '.join(SANITIZERS)}")
    flags += ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZERS[sanitizer]}"]
    links += [f"-fsanitize={SANITIZERS[sanitizer]}"]

ffi = FFI()
ffi.cdef(declarations(HEADER.read_text(encoding="utf-8")))
ffi.cdef(
    """
    extern "Python" int32_t hybrid_call_host(void *context, int32_t number, void *const *data);
    extern "Python" int32_t hybrid_poll(void);
    extern "Python" int32_t hybrid_print(void *context, int32_t stream, const char *text,
                                         int64_t n);
    """
)
ffi.set_source(
    "hybrid._native",
    '#include "hybrid.h"',
    sources=sources(),
    include_dirs=[located(CSRC / "include"), located(CSRC)],
    extra_compile_args=flags,
    extra_link_args=links,
)

if AS_SCRIPT:
    # Built elsewhere: beside pyproject.toml an older setuptools would read it, and understand less.
    target = Path(sys.argv[1] if len(sys.argv) > 1 else CSRC.parent).resolve() / "hybrid"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        built = ffi.compile(tmpdir=folder, verbose=True)
        for former in target.glob("_native*.so"):  # of whichever name
            former.unlink()
        shutil.copy(built, target)
