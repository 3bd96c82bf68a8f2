"""Programs that stand alone: a file and the C sources of just what it uses, which make one binary.

The sources are those of the library.  Two headers of it are written anew: one lists the families of
kernels, the other says of which kernels the tables consist; the compiler drops what no table names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from hybrid.core.output_file import whole_file
from hybrid.core.package import sources_dir
from hybrid.core.types import DTYPES
from hybrid.errors import ProgramError
from hybrid.memory import native
from hybrid.programs.file_reader import ProgramFile

_INCLUDED = re.compile(r'"((?:kernels|isa|runtime|tools)/[\w/.]+)"')  # also as a macro's text
_PARTS = ("include/*.h", "*.h", "isa/*.[ch]", "runtime/*/*.[ch]", "tools/*.[ch]")
_LEFT_OUT = ("runtime/async/",)  # queues and streams: no step of a program has one
_FAMILIES = "isa/families.h"
_DOT_FAMILIES = "isa/dot_families.h"
# What instruction sets have anew of a family that add four products of bytes at a time.
_DOTS = {"matmul": ("dot_bytes",), "convolution": ("dot_convolutions",)}
_SELECTION = "isa/selection.h"

_PROGRAM = """\
/* program.c - the program, as hybrid has exported it: the bytes of program.hyb. */
__asm__(".section .rodata\\n"
        ".balign 64\\n"
        ".global hyb_embedded, hyb_embedded_end\\n"
        "hyb_embedded: .incbin \\"program.hyb\\"\\n"
        "hyb_embedded_end: .byte 0\\n"
        ".previous\\n");
"""

_MAKEFILE = """\
# A program that stands alone: make [ISA="baseline avx2"] [CC=clang] [STATIC=]
#
#   program    runs its functions: ./program --help
#
# ISA names the instruction sets that it has code for, of which it takes the best that a machine
# has; results have the bits of the library with that set.  STATIC= links libc dynamically.

ifneq ($(findstring aarch64,$(shell $(CC) -dumpmachine)),)
ISA      ?= baseline neon
else
ISA      ?= baseline avx2 avx512
endif
STATIC   ?= -static
CFLAGS   ?= -O3
SMALL    ?= -Os  # for all but kernels, and for the plainest set beside a better one
override CFLAGS += -std=gnu11 -fno-math-errno -ffp-contract=fast -fwrapv -fvisibility=hidden \\
                   -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -pthread \\
                   -fno-split-loops -fno-ipa-cp-clone \\
                   -fno-pie -fno-align-functions -fno-align-jumps -fno-align-labels -fno-align-loops
override CPPFLAGS += -DHYB_EMBEDDED -Iinclude -I. $(foreach isa,$(ISA),-DHYB_BUILDS_$(isa)=1,1)
override LDFLAGS += $(STATIC) -no-pie -pthread -Wl,--gc-sections -Wl,-z,noseparate-code \\
                    -Wl,-z,norelro -Wl,--build-id=none -s

SETS    := $(sort baseline $(ISA) $(patsubst avx2,avx_vnni,$(filter avx2,$(ISA))) \\
             $(patsubst avx512,avx512_dot,$(filter avx512,$(ISA))) \\
             $(patsubst neon,neon_dot,$(filter neon,$(ISA))))
SOURCES := program.c $(wildcard runtime/*/*.c tools/*.c) $(SETS:%=isa/%.c)
OBJECTS := $(SOURCES:%.c=build/%.o)

program: $(OBJECTS)
	$(CC) $(LDFLAGS) -o $@ $^ -lm

build/program.o: program.hyb

build/runtime/%.o build/tools/%.o: \
    override CFLAGS += $(SMALL)
ifneq ($(filter-out baseline,$(ISA)),)
build/isa/baseline.o: override CFLAGS += $(SMALL)
endif

build/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

clean:
	rm -rf build program

.PHONY: clean
"""


def write_standalone(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Write the program in ``path`` to ``folder`` as C sources, and a Makefile, of one binary.

    ``make`` there needs a C compiler alone; the binary runs the functions of the program as
    ``hybrid-run`` does, with the same bits.  Raises ProgramError if the file is damaged, or the
    folder holds anything.
    """
    program, target = ProgramFile(path), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise ProgramError(f"{target} is not empty", fix="give a folder that is not there")
    used = [(program.text(row["name"]), int(row["dtype"])) for row in program.rows["kernels"]]
    messages = not program.step_kinds().isdisjoint(
        [kind for kind, _ in native.MESSAGE_STEPS.values()]
    )
    sizes = len(program.rows["symbols"]) > 0
    families = sorted({_family(name, dtype) for name, dtype in used})
    made = {
        "program.hyb": bytes(program.content),
        "program.c": _PROGRAM.encode(),
        "Makefile": _MAKEFILE.encode(),
        _SELECTION: _selection(used, families, messages, sizes).encode(),
        _FAMILIES: _includes(families).encode(),
        _DOT_FAMILIES: _includes(_dots(families)).encode(),
    }
    for name, content in {**_sources(families), **made}.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target / name, durable=False) as file:
            file.write(content)


def _family(name: str, dtype: int) -> str:
    family = native.kernel_family(native.find_kernel(name, dtype))
    parts = {part: whole for whole, parts in _DOTS.items() for part in parts}
    return {"dot": "matmul", **parts}.get(family, family)


def _dots(families: list[str]) -> list[str]:
    """Those parts of them that some instruction sets have anew."""
    return [part for family in families for part in _DOTS.get(family, ())]


def _path(family: str) -> str:
    """The file of a family."""
    alone = f"kernels/{family}.inc.c"
    return alone if Path(sources_dir(), alone).exists() else f"kernels/{family}/family.inc.c"


def _includes(families: list[str]) -> str:
    lines = [f'#include "{_path(family)}"' for family in families]
    return "\n".join(["/* The families of kernels that the program uses. */", *lines, ""])


def _selection(
    used: list[tuple[str, int]], families: list[str], messages: bool, sizes: bool
) -> str:
    kernels = [
        f"#define HYB_USES_{name}_HYB_{DTYPES[dtype].short.upper()} 1, 1" for name, dtype in used
    ]
    return "\n".join(
        [
            "/* selection.h - the kernels that the program uses; the Makefile has the sets. */",
            "#ifndef HYB_SELECTION_H",
            "#define HYB_SELECTION_H",
            "#define HYB_HAS_KERNEL(name, dtype) HYB_USES_##name##_##dtype",
            "#define HYB_HAS_ISA(isa) HYB_BUILDS_##isa",
            f"#define HYB_HAS_MESSAGES {int(messages)}",
            f"#define HYB_HAS_SIZES {int(sizes)}",
            "#define HYB_HAS_CHANNELS 0",
            "#define HYB_FAMILIES(X, isa) " + " ".join(f"X({family}, isa)" for family in families),
            "#define HYB_DOT_FAMILIES(X, isa) "
            + " ".join(f"X({part}, isa)" for part in _dots(families)),
            *sorted(set(kernels)),
            "#endif",
            "",
        ]
    )


def _sources(families: list[str]) -> dict[str, bytes]:
    """The files of the library that are needed: those that others of them include, and so on."""
    root = Path(sources_dir())
    found: dict[str, bytes] = {}
    names = [str(path.relative_to(root)) for part in _PARTS for path in root.glob(part)]
    names = [name for name in names if not name.startswith(_LEFT_OUT)]
    names += map(_path, [*families, *_dots(families)])
    for name in names:  # which grows
        if name not in found and name not in (_FAMILIES, _DOT_FAMILIES, _SELECTION):
            found[name] = (root / name).read_bytes()
            names += _INCLUDED.findall(found[name].decode())
    return found
