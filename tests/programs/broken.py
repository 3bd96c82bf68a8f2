"""Files of programs that tests damage."""

from __future__ import annotations

import numpy as np

from hybrid.memory import native
from hybrid.programs.file_writer import HEADER, KINDS, ROWS, SECTION


class Broken:
    """The bytes of a file, to be changed, with hashes that are put right."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)

    @property
    def table(self) -> np.ndarray:
        count = int(np.frombuffer(self.content, HEADER, 1)["sections"][0])
        return np.frombuffer(self.content, SECTION, count, HEADER.itemsize)

    def section(self, name: str) -> tuple[int, int]:
        [row] = self.table[self.table["kind"] == KINDS[name]]
        return int(row["offset"]), int(row["nbytes"])

    def rows(self, name: str) -> np.ndarray:
        """The rows of a table, which can be written."""
        start, nbytes = self.section(name)
        row = ROWS[name]
        return np.frombuffer(memoryview(self.content)[start : start + nbytes], row)

    def repaired(self) -> bytes:
        found = bytearray(self.content)
        table = self.table.copy()
        for row in table:
            start, nbytes = int(row["offset"]), int(row["nbytes"])
            if start + nbytes <= len(found):
                row["hash"] = native.hash_of(bytes(found[start : start + nbytes]))
        head = np.frombuffer(bytes(found[: HEADER.itemsize]), HEADER).copy()
        head["hash"] = 0
        head["hash"] = native.hash_of(head.tobytes() + table.tobytes())
        found[: HEADER.itemsize + table.nbytes] = head.tobytes() + table.tobytes()
        return bytes(found)
