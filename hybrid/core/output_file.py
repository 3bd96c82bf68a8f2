"""whole_file: how every file is written: as a whole at its path, or not at all.

The content goes to a file beside the path, ``NAME.0123abcd.tmp``, which its writer holds locked
until it has been moved there.  One that nobody holds was left by a process that was killed: whoever
writes to the same path next takes it away.  ``csrc/runtime/base/output.c`` does the same in C.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import IO

from hybrid.core.exceptions import handlers_wait

_LINKS = 40  # symbolic links that are followed, as many as Linux follows
_LONGEST = 255 - len(".01234567.tmp")  # bytes of a name that are told in that of the file beside it
_BESIDE = re.compile(rb"(.*)\.[0-9a-f]{8}\.tmp", re.DOTALL)
_OWN = re.compile(r"(?:/proc/self|/dev)/fd/([0-9]+)")  # open descriptors
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, mode: int | None = None, durable: bool = True
) -> Iterator[IO[bytes]]:
    """A file to write, which gets its name at the end of the block, on the disk if ``durable``.

    Whatever goes wrong before, a file that was there is still there.  One that is replaced hands on
    its permissions, owner and group, unless there is a ``mode`` to have.  Symbolic links stay: what
    they lead to is written, be it there or not.  A folder, a device, a FIFO or a socket is
    refused with an OSError, as is a file that may not be written; but a path that stands for an
    open descriptor of this process, as /dev/stdout, and /dev/null are written into.
    """
    given = os.fsdecode(path)
    try:
        target, descriptor = _followed(given)
        if descriptor is not None:
            with _opened(descriptor) as file:
                yield file
            return
        before = _replaced(given, target)
        if before is not None and stat.S_ISCHR(before.st_mode):
            with open(os.open(target, os.O_WRONLY), "wb") as file:
                yield file
            return
        with unfinished_file(target, _first_mode(mode, before)) as file:
            yield file
            file.flush()
            if before is not None and mode is None:
                _hand_on(before, file.fileno())
            if durable:
                os.fsync(file.fileno())
            os.replace(file.name, target)
        if durable:
            _settle(os.path.dirname(target))
    except OSError as error:
        if error.errno is not None and (error.filename is None or _is_beside(error.filename)):
            del error.filename2  # of a file that was moved
            error.filename = given
        raise


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise the OSError that ``whole_file`` would; nothing is written."""
    with contextlib.suppress(_Enough), whole_file(path):
        raise _Enough


class _Enough(Exception):
    """Raised where a file is not to be written after all."""


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Whether ``whole_file`` makes or replaces a file at ``path``, and does not write into it."""
    target, descriptor = _followed(os.fsdecode(path))
    return descriptor is None and (os.path.isfile(target) or not os.path.exists(target))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` in UTF-8 as the whole of a file."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


# Where a path leads -------------------------------------------------------------------------------


def _followed(path: str) -> tuple[str, int | None]:
    """Where the symbolic links of ``path`` end, and the descriptor of this process that it is."""
    target = path
    for _ in range(_LINKS):
        own = _OWN.fullmatch(target)
        if own is not None:
            return target, int(own[1])
        try:
            target = os.path.join(os.path.dirname(target), os.readlink(target))
        except OSError:  # it is no link, or there is nothing
            return target, None
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _replaced(given: str, target: str) -> os.stat_result | None:
    """What is at ``target``, where a file may be written; None: nothing."""
    if not target:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), given)
    try:
        before = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), given)
    if stat.S_ISREG(before.st_mode):
        os.close(os.open(target, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))  # if it may be
        return before
    if stat.S_ISCHR(before.st_mode) and before.st_rdev == os.stat(os.devnull).st_rdev:
        return before
    kind = _KINDS[stat.S_IFMT(before.st_mode)]
    raise FileExistsError(errno.EEXIST, f"it is {kind}, not a regular file", given)


def _opened(descriptor: int) -> IO[bytes]:
    """The file of an open descriptor, behind what this process has printed to it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return open(os.dup(descriptor), "wb")


# Files that have no name yet ----------------------------------------------------------------------


@contextlib.contextmanager
def unfinished_file(target: str, mode: int) -> Iterator[IO[bytes]]:
    """A new file beside ``target``, which is gone at the end of the block unless it was moved."""
    folder, name = os.path.split(target)
    remove_abandoned(folder, name)
    start = os.path.join(folder, os.fsdecode(os.fsencode(name)[:_LONGEST]))
    file: IO[bytes] | None = None
    try:
        with handlers_wait(interrupts=True):  # or an interrupt would leave a file that nobody knows
            file = _created(start, mode)
        with file:
            yield file
    finally:
        if file is not None:
            file.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)


def _created(start: str, mode: int) -> IO[bytes]:
    """A new file whose name begins so; locked, so that nobody takes it for one that was left."""
    while True:
        unfinished = f"{start}.{os.urandom(4).hex()}.tmp"
        try:
            file = open(unfinished, "xb", opener=lambda path, flags: os.open(path, flags, mode))  # noqa: SIM115
        except FileExistsError:
            continue
        with contextlib.suppress(OSError):  # of a file system that has no locks: nothing is removed
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(unfinished):  # nobody came between
            return file
        file.close()


def _is_beside(path: str | bytes | int) -> bool:
    return not isinstance(path, int) and _BESIDE.fullmatch(os.fsencode(path)) is not None


def remove_abandoned(folder: str, name: str | None = None) -> None:
    """Take away what killed processes have left of the file ``name``; None: of any file there."""
    begins = None if name is None else os.fsencode(name)[:_LONGEST]
    with contextlib.suppress(OSError), os.scandir(os.fsencode(folder or ".")) as listing:
        for item in listing:
            found = _BESIDE.fullmatch(item.name)
            if found is not None and begins in (None, found[1]):
                with contextlib.suppress(OSError):  # it is held, gone, or of somebody else
                    _remove_unheld(item.path)


def _remove_unheld(path: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(descriptor)


def _first_mode(mode: int | None, before: os.stat_result | None) -> int:
    """The permissions of a file that is being written: nobody reads it who may not in the end."""
    if mode is not None or before is None:
        return 0o666 if mode is None else mode
    return before.st_mode & 0o777 | stat.S_IRUSR | stat.S_IWUSR


def _hand_on(before: os.stat_result, descriptor: int) -> None:
    """Give a new file owner, group and permissions of the one that it replaces."""
    mode = stat.S_IMODE(before.st_mode)
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except OSError:  # only root gives files away
        try:
            os.fchown(descriptor, -1, before.st_gid)
        except OSError:  # another group may do what all may
            mode = mode & ~0o6070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _settle(folder: str) -> None:
    """Have the new name of a file on the disk."""
    with contextlib.suppress(PermissionError):  # of a folder that nobody may list
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
