"""Signatures of files, beside them: Ed25519 (RFC 8032) over every byte, as OpenSSL makes them.

``m.hyb.sig`` has the 64 bytes of the signature of ``m.hyb``.  Whoever has the public key can tell
who wrote the file and that no byte of it has changed since, which hashes in the file cannot say.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

from hybrid.core.imports import optional
from hybrid.core.output_file import whole_file
from hybrid.errors import ProgramError

NBYTES = 64  # of a signature
MOST_KEY = 1 << 16  # bytes of a key file: one has about a hundred
MAKE = "openssl genpkey -algorithm ed25519 -out private.pem"
PUBLISH = "openssl pkey -in private.pem -pubout -out public.pem"


def signature_path(path: str | os.PathLike[str]) -> str:
    """Where the signature of the file ``path`` stands."""
    return f"{os.fsdecode(path)}.sig"


def sign(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> str:
    """Write the signature of the file ``path`` by the private key in the PEM file ``key``.

    Returns where it is.  Raises ProgramError where ``key`` is no such key, OSError where a file
    cannot be read or written; a signature that was there is replaced whole, or not at all.
    """
    private = _key(key, private=True)
    signature = private.sign(_content(path))
    target = signature_path(path)
    with whole_file(target) as file:
        file.write(signature)
    return target


def require_signature(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
    """Raise ProgramError unless the file ``path`` is signed by the owner of ``key``.

    ``key`` is the PEM file of the public key.
    """
    public = _key(key, private=False)
    from cryptography.exceptions import InvalidSignature

    place = signature_path(path)
    try:
        with open(place, "rb") as file:
            signature = file.read(NBYTES + 1)
    except FileNotFoundError:
        raise ProgramError(
            f"{os.fsdecode(path)} is not signed: there is no {place}",
            fix="ask whoever wrote it for one, or sign it: `hybrid sign`",
        ) from None
    if len(signature) != NBYTES:
        more = "more" if len(signature) > NBYTES else str(len(signature))
        raise ProgramError(f"{place} is no signature: it has {more} bytes, not {NBYTES}")
    try:
        public.verify(signature, _content(path))
    except InvalidSignature:
        raise ProgramError(
            f"{os.fsdecode(path)} is not what was signed by the key of {os.fsdecode(key)}: "
            "the file, its signature or the key is another one",
            fix="do not use it; get file and signature again, and the key from whom you trust",
        ) from None


def _key(path: str | os.PathLike[str], *, private: bool) -> Any:
    """The Ed25519 key in a PEM file."""
    package = optional("cryptography.hazmat.primitives.serialization", "sign", "hybrid sign")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ed25519

    kind = ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey
    what, fix = ("private", MAKE) if private else ("public", PUBLISH)
    with open(path, "rb") as file:
        text = file.read(MOST_KEY)
    try:
        if private:
            found = package.load_pem_private_key(text, password=None)
        else:
            found = package.load_pem_public_key(text)
    except TypeError:
        raise ProgramError(
            f"the private key in {os.fsdecode(path)} is encrypted",
            fix=f"decrypt it: openssl pkey -in {os.fsdecode(path)} -out private.pem",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise ProgramError(f"{os.fsdecode(path)} has no {what} key in PEM", fix=fix) from None
    if not isinstance(found, kind):
        raise ProgramError(f"the key in {os.fsdecode(path)} is not of Ed25519", fix=fix)
    return found


def _content(path: str | os.PathLike[str]) -> Any:
    """The bytes of a file, which are not copied."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
