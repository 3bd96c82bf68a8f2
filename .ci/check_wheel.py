"""Check a wheel: one for all of CPython >= 3.10, small, and with nothing but the package inside."""

import sys
import zipfile
from collections import Counter
from pathlib import Path

LIMIT = 5_000_000
path = Path(sys.argv[1])
names = zipfile.ZipFile(path).namelist()
folders = {name.split("/")[0] for name in names}
compiled = sorted(name for name in names if name.endswith((".so", ".pyd", ".dylib")))
needed = ("data/shipped/digits.npz", "bin/hybrid-run", "csrc/include/hybrid.h", "csrc/Makefile")

faults = [
    fault
    for fault, found in {
        f"its tag is not cp310-abi3: {path.name}": "-cp310-abi3-" not in path.name,
        f"it has {path.stat().st_size:,} bytes, more than {LIMIT:,}": path.stat().st_size > LIMIT,
        f"it holds more than the package: {sorted(folders)}": any(
            folder != "hybrid" and not folder.endswith((".dist-info", ".data"))
            for folder in folders
        ),
        f"it should hold the library and one abi3 extension, not {compiled}": compiled
        != ["hybrid/_native.abi3.so", "hybrid/lib/libhybrid.so"],
        **{f"it lacks {name}": f"hybrid/{name}" not in names for name in needed},
    }.items()
    if found
]
# What each part takes: the README has these numbers.
parts = Counter[str]()
for item in zipfile.ZipFile(path).infolist():
    top = item.filename.split("/")[1] if item.filename.startswith("hybrid/") else "about it"
    inside = top if top in ("lib", "csrc", "data", "bin") else "Python"
    parts["extension" if top.startswith("_native") else inside] += item.compress_size
print(", ".join(f"{part} {size:,}" for part, size in parts.most_common()))
sys.exit(f"{path.name}: {'; '.join(faults)}" if faults else 0)
