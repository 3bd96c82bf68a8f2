"""Check who can write to plan files, and sign them with a key of the user.

A plan decides what a function computes.  So it is taken only from where nobody else can write, as
OpenSSH takes keys, and only if it was signed with the key of this user: HMAC with SHA-256 (RFC
2104), by ``HYBRID_PLAN_CACHE_KEY`` or a key in a file, which is made when it is first needed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from _operator import _compare_digest as same  # in constant time; hmac would load much more

from hybrid.core.output_file import unfinished_file

try:
    from _sha2 import sha256  # without the library that hashlib loads, which takes milliseconds
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

KEY_BYTES = 32
_BLOCK = 64  # bytes that SHA-256 takes at once
_INNER, _OUTER = bytes(x ^ 0x36 for x in range(256)), bytes(x ^ 0x5C for x in range(256))

__all__ = ["Untrusted", "key", "key_path", "mac", "require_own", "same"]


class Untrusted(Exception):
    """Raised where plan files must not be used; the text is for the author."""


def require_own(path: str) -> None:
    """Raise Untrusted if another user can write to ``path`` or to a folder around it.

    The path itself need not exist.  A folder in which all may write may be around it where, as in
    /tmp, nobody can move or delete what is of others (its sticky bit is set).
    """
    if os.name != "posix":
        return
    path = os.path.realpath(path)
    first = True
    while True:
        with contextlib.suppress(FileNotFoundError):
            _require_own(path, os.stat(path), around=not first)
        first = False
        if path == (path := os.path.dirname(path)):
            return


def _require_own(path: str, about: os.stat_result, *, around: bool) -> None:
    if about.st_uid not in (os.geteuid(), 0):
        raise Untrusted(f"{path} belongs to another user, of number {about.st_uid}")
    for bit, who in ((stat.S_IWGRP, "its group"), (stat.S_IWOTH, "all users")):
        if about.st_mode & bit and not (around and about.st_mode & stat.S_ISVTX):
            mode = f"{stat.S_IMODE(about.st_mode):04o}"
            raise Untrusted(f"{path} can be written by {who}, its mode is {mode}: chmod go-w it")


def make_folder(path: str) -> None:
    """Create the folder ``path`` and its parents, accessible to this user alone."""
    if not os.path.isdir(path):
        make_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def key_path() -> str:
    """Return the path of the file with this user's key."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "hybrid", "plan_cache.key")


def key() -> bytes:
    """Return this user's key; raises Untrusted if it cannot be read or made."""
    own = os.environ.get("HYBRID_PLAN_CACHE_KEY", "")
    if own:
        return own.encode("utf-8", "surrogateescape")
    path = key_path()
    try:
        if not os.path.exists(path):
            _make_key(path)
        require_own(path)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            found = file.read(KEY_BYTES + 1) if stat.S_ISREG(about.st_mode) else b""
    except OSError as error:
        raise Untrusted(
            f"there is no key at {path} ({error.strerror}): set HYBRID_PLAN_CACHE_KEY"
        ) from None
    if os.name == "posix" and about.st_mode & 0o077:
        raise Untrusted(f"others can read the key in {path}: delete it, for it is no secret")
    if len(found) != KEY_BYTES:
        raise Untrusted(f"{path} holds no key of {KEY_BYTES} bytes: delete it")
    return found


def _make_key(path: str) -> None:
    """Write a new key to ``path`` atomically."""
    make_folder(os.path.dirname(path))
    with unfinished_file(path, 0o600) as file:
        file.write(os.urandom(KEY_BYTES))
        file.flush()
        with contextlib.suppress(FileExistsError):  # another process was faster: its key counts
            os.link(file.name, path)


def mac(secret: bytes, content: bytes) -> str:
    """Return the HMAC-SHA256 of ``content`` in hexadecimal."""
    if len(secret) > _BLOCK:
        secret = sha256(secret).digest()
    padded = secret.ljust(_BLOCK, b"\0")
    inner = sha256(padded.translate(_INNER))
    inner.update(content)
    return sha256(padded.translate(_OUTER) + inner.digest()).hexdigest()
