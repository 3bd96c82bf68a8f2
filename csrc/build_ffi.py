"""Build ``hybrid._native`` (cffi, API mode, out of line), which calls ``libhybrid.so``.

``csrc/include/hybrid.h`` is the only declaration of the C interface: cffi
parses its marked part and the compiler includes the whole of it, so the two
cannot drift apart.

``setup.py`` names this file in ``cffi_modules``.  As a script it builds in
place: ``python csrc/build_ffi.py [DIRECTORY]`` writes what is compiled to
``DIRECTORY/hybrid`` (default: the source tree).  ``build_library.py`` says
which variables of the environment it looks at.
"""

import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

from cffi import FFI

AS_SCRIPT = __name__ == "__main__"
CSRC = Path(__file__).resolve().parent
HEADER = CSRC / "include" / "hybrid.h"
BEGIN, END = "/* cffi: begin */", "/* cffi: end */"
library = runpy.run_path(str(CSRC / "build_library.py"))


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


# Where the package is put together; setup.py says where that is, once it knows.
target = Path(sys.argv[1] if AS_SCRIPT and len(sys.argv) > 1 else CSRC.parent).resolve() / "hybrid"

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
    include_dirs=[located(CSRC / "include")],
    libraries=["hybrid"],
    library_dirs=[str(target / "lib")] if AS_SCRIPT else [],
    extra_compile_args=library["FLAGS"],
    extra_link_args=[*library["LINKS"], library["beside"]("lib")],
)

if AS_SCRIPT:
    library["build_package"](target)
    # Built elsewhere: beside pyproject.toml an older setuptools would read it, and understand less.
    with tempfile.TemporaryDirectory() as folder:
        built = ffi.compile(tmpdir=folder, verbose=True)
        for former in target.glob("_native*.so"):  # of whichever name
            former.unlink()
        shutil.copy(built, target)
