"""Signatures of programs: what was signed, by whom, and everything that is not that."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from typer.testing import CliRunner

import hybrid as hy
from hybrid.cli.app import build


def private_pem(
    key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey,
    encryption: KeySerializationEncryption = NoEncryption(),  # noqa: B008
) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def public_pem(key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program, and a key with its public one."""
    network = hy.nn.Linear(3, 2)
    hy.export({"predict": (network, hy.ones((1, 3)))}, str(tmp_path / "m.hyb"))
    key = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "private.pem").write_bytes(private_pem(key))
    (tmp_path / "public.pem").write_bytes(public_pem(key))
    return tmp_path


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(build(), [str(arg) for arg in args])
    return done.exit_code, done.output


def signed(folder: Path) -> Path:
    file = folder / "m.hyb"
    code, said = run("sign", file, "--key", folder / "private.pem")
    assert (code, said) == (0, f"{file}.sig: the signature of {file.stat().st_size:,} bytes\n")
    return file


def test_what_was_signed_is_verified(folder: Path) -> None:
    file = signed(folder)
    code, said = run("verify", file, "--key", folder / "public.pem")
    assert code == 0 and f"bytes, signed by the key of {folder / 'public.pem'}." in said
    signed(folder)  # and once more
    assert run("verify", file, "--key", folder / "public.pem")[0] == 0
    assert ", signed by" not in run("verify", file)[1]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_checks_it_and_makes_the_keys(folder: Path) -> None:
    def openssl(*args: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["openssl", *map(str, args)], capture_output=True, text=True, check=False
        )

    private, public = folder / "private.pem", folder / "public.pem"
    assert openssl("genpkey", "-algorithm", "ed25519", "-out", private).returncode == 0
    assert openssl("pkey", "-in", private, "-pubout", "-out", public).returncode == 0
    file = signed(folder)
    done = openssl(
        "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-in", file,
        "-sigfile", f"{file}.sig",
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "Signature Verified Successfully")
    assert run("verify", file, "--key", public)[0] == 0


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


OTHERS: dict[str, Callable[[Path], object]] = {
    "a byte of the file": lambda folder: flip(folder / "m.hyb", -1),
    "a byte of the signature": lambda folder: flip(folder / "m.hyb.sig", 5),
    "a longer file": lambda folder: os.truncate(folder / "m.hyb", 1 << 20),
    "an empty file": lambda folder: (folder / "m.hyb").write_bytes(b""),
    "another key": lambda folder: (folder / "public.pem").write_bytes(
        public_pem(ed25519.Ed25519PrivateKey.generate())
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_another_one_is_refused(folder: Path, what: str) -> None:
    file = signed(folder)
    OTHERS[what](folder)
    code, said = run("verify", file, "--key", folder / "public.pem")
    assert code == 2 and f"{file} is not what was signed by the key of" in said
    assert "do not use it" in said


def test_signatures_that_are_none(folder: Path) -> None:
    file, sig = signed(folder), folder / "m.hyb.sig"
    verify = "verify", file, "--key", folder / "public.pem"
    content = sig.read_bytes()
    for wrong, count in ((content[:-1], "63"), (content + b"x", "more"), (b"", "0")):
        sig.write_bytes(wrong)
        assert f"is no signature: it has {count} bytes, not 64" in run(*verify)[1]
    sig.unlink()
    assert f"{file} is not signed: there is no {sig}" in run(*verify)[1]
    sig.mkdir()
    assert f"{sig} cannot be read: Is a directory." in run(*verify)[1]
    assert (
        f"{sig} cannot be read or written: Is a directory."
        in run("sign", file, "--key", folder / "private.pem")[1]
    )


def test_keys_that_are_none(folder: Path) -> None:
    file, bad = folder / "m.hyb", folder / "bad.pem"
    key = ed25519.Ed25519PrivateKey.generate()
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for content, private, public in (
        (b"", "has no private key in PEM", "has no public key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA", "has no private key", "has no public key"),
        (public_pem(key), "has no private key in PEM", "is not signed"),
        (private_pem(key), "", "has no public key in PEM"),
        (private_pem(other), "is not of Ed25519", "has no public key"),
        (public_pem(other), "has no private key", "is not of Ed25519"),
        (private_pem(key, BestAvailableEncryption(b"x")), "is encrypted", "has no public key"),
    ):
        bad.write_bytes(content)
        (folder / "m.hyb.sig").unlink(missing_ok=True)
        code, said = run("verify", file, "--key", bad)
        assert code == 2 and public in said, said
        code, said = run("sign", file, "--key", bad)
        assert (code, private in said) == (2 if private else 0, True), said
        assert (folder / "m.hyb.sig").exists() == (not private)
    gone = folder / "gone.pem"
    assert f"{gone} cannot be read or written: No such file" in run("sign", file, "--key", gone)[1]
    assert f"{gone} cannot be read: No such file" in run("verify", file, "--key", gone)[1]


def test_no_damaged_program_is_signed(folder: Path) -> None:
    flip(folder / "m.hyb", -1)
    code, said = run("sign", folder / "m.hyb", "--key", folder / "private.pem")
    assert code == 2 and "section data is damaged" in said
    assert not (folder / "m.hyb.sig").exists()


def test_without_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cryptography", "cryptography.hazmat.primitives.serialization"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    code, said = run("sign", folder / "m.hyb", "--key", folder / "private.pem")
    assert code == 2 and "needs the package cryptography" in said
    assert 'pip install "hybrid[sign]"' in said
