"""Store entries as files of a folder that any number of processes share.

A file has one line, the format and its version, the length of what follows and what it is signed
with, which nobody can make without the key (see trust.py); one line with the entry as JSON; and the
parts of the entry that are bytes, whose lengths it tells.  It is written beside its place and moved
there, so that readers see all of it or nothing; whatever is found there is checked, and a file that
is not right counts as none.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import warnings
from typing import Any

from hybrid.calls.files.trust import key, mac, make_folder, require_own, same
from hybrid.core.output_file import remove_abandoned, whole_file
from hybrid.errors import author_frame

SUFFIX = ".plan"
FORMAT = "hybrid-plan 5"
LARGEST = 64 << 20  # bytes of one file


class Damaged(Exception):
    """Raised where the content of a file is no valid entry."""


def path_of(folder: str, digest: str) -> str:
    """Return the path of the file for ``digest``."""
    return os.path.join(folder, digest + SUFFIX)


def load(folder: str, digest: str, *, use: bool = True) -> Any:
    """Return the entry for ``digest``, or None; raises Damaged if the file is not valid.

    Raises Untrusted where others can write, or have written.  One that is of ``use`` counts as
    used now.
    """
    path = path_of(folder, digest)
    try:
        # What is no file is not waited for.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # most often there is none; if it may not be read, save() tells of the folder
        return None
    try:
        with open(descriptor, "rb") as file:
            require_own(folder)
            require_own(path)
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise Damaged("it is no file")
            if about.st_size > LARGEST:
                raise Damaged(f"it has {about.st_size} bytes")
            content = file.read(LARGEST)
    except OSError as error:
        raise Damaged(str(error.strerror)) from None
    entry = unpacked(content)
    if entry.get("digest") != digest:
        raise Damaged("it is the entry of something else")
    if use:
        with contextlib.suppress(OSError):  # of a folder that may only be read
            os.utime(path)  # the oldest go first
    return entry


def packed(entry: dict[str, Any]) -> bytes:
    """Return the content of a file for ``entry``, whose ``parts`` are bytes."""
    parts = entry["parts"]
    about = {**entry, "parts": [len(part) for part in parts]}
    line = json.dumps(about, separators=(",", ":")).encode()
    return signed(b"".join([line, b"\n", *parts]))


def signed(body: bytes) -> bytes:
    """Return ``body`` behind the line with its length and signature."""
    return _head(body) + body


def _head(body: bytes) -> bytes:
    return f"{FORMAT} {len(body)} {mac(key(), body)}\n".encode()


def unpacked(content: bytes) -> dict[str, Any]:
    """Return the entry in the ``content`` of a file; raises Damaged."""
    start = content.find(b"\n") + 1
    body = content[start:]
    if not same(content[:start], _head(body)):
        raise Damaged("it is cut off, not what was written, or signed with another key")
    line, _, rest = body.partition(b"\n")
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it does not parse: {error}") from None
    lengths = entry.get("parts") if isinstance(entry, dict) else None
    if not isinstance(lengths, list) or not all(type(n) is int and n >= 0 for n in lengths):
        raise Damaged("it holds no entry")
    if sum(lengths) != len(rest):
        raise Damaged("its parts are of other lengths")
    entry["parts"], at = [], 0
    for length in lengths:
        entry["parts"].append(rest[at : at + length])
        at += length
    return entry


def save(folder: str, digest: str, entry: dict[str, Any], limit: int) -> None:
    """Write ``entry`` to its file, and trim the folder to ``limit`` bytes.

    OSError or Untrusted say why not.
    """
    content = packed({"digest": digest, **entry})
    if len(content) > min(LARGEST, limit):
        raise OSError(f"{len(content)} bytes are more than there is room for")
    make_folder(folder)
    require_own(folder)
    with whole_file(path_of(folder, digest), mode=0o600, durable=False) as file:
        file.write(content)
    trim(folder, limit)


def entries(folder: str) -> list[tuple[float, int, str]]:
    """Return (time of last use, bytes, path) of each entry, from the oldest to the newest."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            if item.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):  # another process may just have taken it away
                    about = item.stat(follow_symlinks=False)
                    found.append((about.st_mtime, about.st_size, item.path))
    return sorted(found)


def trim(folder: str, limit: int) -> int:
    """Delete the oldest entries beyond ``limit`` bytes, and return how many were deleted."""
    found, gone = entries(folder), 0
    total = sum(size for _, size, _ in found)
    for _, size, path in found:
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
            gone += 1
        total -= size
    remove_abandoned(folder)
    return gone


_warned: set[str] = set()


def warn(about: str, text: str) -> None:
    """Warn once per process ``about`` a file or folder that cannot be used."""
    if about in _warned:
        return
    _warned.add(about)
    frame, level = sys._getframe(), 1
    author = author_frame(frame)
    while frame is not author and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)
