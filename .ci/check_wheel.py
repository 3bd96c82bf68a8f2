"""Check a wheel: one for all of CPython >= 3.10, small, and with nothing but the package inside."""

import sys
import zipfile
from pathlib import Path

LIMIT = 5_000_000
path = Path(sys.argv[1])
names = zipfile.ZipFile(path).namelist()
folders = {name.split("/")[0] for name in names}
compiled = [name for name in names if name.endswith((".so", ".pyd", ".dylib"))]

faults = [
    fault
    for fault, found in {
        f"its tag is not cp310-abi3: {path.name}": "-cp310-abi3-" not in path.name,
        f"it has {path.stat().st_size:,} bytes, more than {LIMIT:,}": path.stat().st_size > LIMIT,
        f"it holds more than the package: {sorted(folders)}": any(
            folder != "hybrid" and not folder.endswith(".dist-info") for folder in folders
        ),
        f"it should hold one abi3 library, not {compiled}": len(compiled) != 1
        or ".abi3." not in compiled[0],
        "it lacks the digits": "hybrid/data/shipped/digits.npz" not in names,
    }.items()
    if found
]
sys.exit(f"{path.name}: {'; '.join(faults)}" if faults else 0)
